/* SPDX-License-Identifier: GPL-2.0 */
/* serving_test.c: services in their table: who belongs to one, the slowest requests of a tick, work by request. */
#include "zernel.h"
#include "t.h"

static struct zn_shared shared;
static struct zn_arena a;
static struct zn_server servers[ZN_SERVERS_MAX];
static struct zn_serving services[ZN_SERVICES_MAX];
static struct zn_servings v;
static struct zn_joined j;

static void begin(void)
{
	memset(&shared, 0, sizeof(shared));
	memset(servers, 0, sizeof(servers));
	memset(services, 0, sizeof(services));
	memset(&j, 0, sizeof(j));
	a = (struct zn_arena){.shared = &shared, .servers = servers, .services = services};
	shared.quota[ZN_QUOTA_SERVICE].size = ZN_SERVICES_MAX;
	zn_serving_init(&v, &a);
}

static void add_server(uint32_t i, uint32_t root, uint32_t above)
{
	servers[i] = (struct zn_server){.tgid = 1000 + i, .id = 50 + i, .owner = 7};
	j.server[i].id = 50 + i;
	j.server[i].root = root;
	j.server[i].above = above;
}

static void add_engine(uint32_t row, uint32_t root)
{
	j.engine[row].id = 300 + row;
	j.engine[row].root = root + 1;
}

T(a_service_has_the_id_of_its_outermost_server)
{
	begin();
	add_server(2, 2, 0);
	add_server(4, 2, 3);
	add_server(5, 5, 0);
	add_engine(8, 2);
	add_engine(9, 5);
	add_engine(11, 2);
	zn_serving_join(&v, &j);
	CHECK_EQ(servers[4].service, 1002);
	CHECK_EQ(servers[4].above, 3);
	CHECK_EQ(servers[4].service_at, servers[2].service_at);
	CHECK(servers[5].service_at && servers[5].service_at != servers[2].service_at);
	CHECK_EQ(services[servers[2].service_at - 1].id, 52);
	CHECK_EQ(services[servers[2].service_at - 1].engines, 2);
	CHECK_EQ(services[servers[2].service_at - 1].row[1], 11);
	CHECK_EQ(services[servers[5].service_at - 1].row_id[0], 309);
	CHECK_EQ(shared.quota[ZN_QUOTA_SERVICE].used, 2);
}

T(what_the_finder_saw_of_others_is_left_out)
{
	begin();
	add_server(2, 2, 0);
	servers[2].id = 53; /* another one by now */
	zn_serving_join(&v, &j);
	CHECK_EQ(servers[2].service_at, 0);
	CHECK_EQ(shared.quota[ZN_QUOTA_SERVICE].used, 0);
}

/* With the lock held by a program nothing of the list changes. */
T(engines_wait_for_the_lock)
{
	begin();
	add_server(0, 0, 0);
	zn_serving_join(&v, &j);
	add_engine(1, 0);
	services[0].lock = 1;
	zn_serving_join(&v, &j);
	CHECK(v.again);
	CHECK_EQ(services[0].engines, 0);
	services[0].lock = 0;
	zn_serving_join(&v, &j);
	CHECK(!v.again);
	CHECK_EQ(services[0].engines, 1);
}

T(more_engines_than_there_is_room_for_are_counted_once)
{
	begin();
	add_server(0, 0, 0);
	for (uint32_t row = 0; row < ZN_ENGINES_MAX + 3; row++)
		add_engine(row, 0);
	zn_serving_join(&v, &j);
	zn_serving_join(&v, &j);
	CHECK_EQ(services[0].engines, ZN_ENGINES_MAX);
	CHECK_EQ(shared.lost[ZN_LOST_SERVICE], 1);
}

T(a_service_ends_with_its_outermost_server_a_tick_later)
{
	begin();
	add_server(0, 0, 0);
	add_server(1, 0, 1);
	zn_serving_join(&v, &j);
	zn_serving_tick(&v, ZN_NS_PER_S);
	CHECK_EQ(services[0].id, 50);
	servers[0].gone_ns = 1;
	zn_serving_tick(&v, 2 * ZN_NS_PER_S);
	CHECK_EQ(servers[1].service_at, 0);
	CHECK_EQ(services[0].id, 50);
	zn_serving_tick(&v, 3 * ZN_NS_PER_S);
	CHECK_EQ(services[0].id, 0);
	CHECK_EQ(shared.quota[ZN_QUOTA_SERVICE].used, 0);
}

T(nobody_takes_all_services)
{
	begin();
	shared.quota[ZN_QUOTA_SERVICE].size = 4;
	for (uint32_t i = 0; i < 6; i++)
		add_server(i, i, 0);
	zn_serving_join(&v, &j);
	CHECK(shared.quota[ZN_QUOTA_SERVICE].used <= 4);
	CHECK(shared.lost[ZN_LOST_SERVICE] > 0);
	CHECK_EQ(servers[5].service_at, 0);
}

T(the_slowest_of_a_tick_come_slowest_first)
{
	begin();
	add_server(0, 0, 0);
	zn_serving_join(&v, &j);
	services[0].slow_count = 3;
	for (uint32_t i = 0; i < 3; i++)
		services[0].slowest[0][i] = (struct zn_slow_request){.ns = (i * 7 + 3) % 11, .tgid = 1000};
	zn_serving_tick(&v, ZN_NS_PER_S);
	CHECK_EQ(v.view[0].slow_count, 3);
	CHECK_EQ(v.view[0].slow[0].ns, 10);
	CHECK_EQ(v.view[0].slow[2].ns, 3);
	CHECK_EQ(services[0].slow_of, 1);
	CHECK_EQ(services[0].slow_count, 0);
	zn_serving_tick(&v, 2 * ZN_NS_PER_S);
	CHECK_EQ(v.view[0].slow_count, 3); /* nothing ended since */
	zn_serving_tick(&v, 63 * ZN_NS_PER_S);
	CHECK_EQ(v.view[0].slow_count, 0);
}

T(work_is_divided_by_the_requests_of_a_minute)
{
	begin();
	add_server(0, 0, 0);
	zn_serving_join(&v, &j);
	zn_serving_tick(&v, 10 * ZN_NS_PER_S);
	CHECK(!v.view[0].per_request);
	services[0].done = 4;
	services[0].open_ns = 4 * ZN_NS_PER_S;
	services[0].work[ZN_WORK_LAUNCHES] = 90;
	zn_serving_tick(&v, 15 * ZN_NS_PER_S);
	CHECK(v.view[0].per_request);
	CHECK_EQ(v.view[0].work[ZN_WORK_LAUNCHES], 22500);
	services[0].open_ns = 40 * ZN_NS_PER_S; /* ten seconds each: five say nothing of them */
	zn_serving_tick(&v, 16 * ZN_NS_PER_S);
	CHECK(!v.view[0].per_request);
	for (uint32_t t = 20; t <= 200; t += 10)
		zn_serving_tick(&v, t * ZN_NS_PER_S);
	CHECK(!v.view[0].per_request); /* none ended in the last minute */
}

T(labels)
{
	CHECK_STR(zn_serving_work_key(ZN_WORK_LAUNCHES), "launches");
	CHECK_EQ(zn_serving_work_decimals(ZN_WORK_GPU), 9);
}

int main(void)
{
	RUN(a_service_has_the_id_of_its_outermost_server);
	RUN(what_the_finder_saw_of_others_is_left_out);
	RUN(engines_wait_for_the_lock);
	RUN(more_engines_than_there_is_room_for_are_counted_once);
	RUN(a_service_ends_with_its_outermost_server_a_tick_later);
	RUN(nobody_takes_all_services);
	RUN(the_slowest_of_a_tick_come_slowest_first);
	RUN(work_is_divided_by_the_requests_of_a_minute);
	RUN(labels);
	return t_end();
}

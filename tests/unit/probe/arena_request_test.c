/* SPDX-License-Identifier: GPL-2.0 */
/* link: -Wl,--wrap=bpf_map_lookup_batch -Wl,--wrap=bpf_map_lookup_elem -Wl,--wrap=bpf_map_lookup_and_delete_elem -Wl,--wrap=bpf_map_update_elem -Wl,--wrap=bpf_map_delete_elem */
/*
 * arena_request_test.c: how long connections and requests on which nothing moves keep their places, and by what bits
 * servers are looked for. The kernel's tables are arrays here, and the time is what the test says.
 */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define FD     7
#define PLACES 4
#define DAY    (24 * 3600)
#define KEY    0xffff888000000000ULL /* of a connection: an address of the kernel */
#define STREAM 0x77700000001ULL

static struct {
	uint64_t key;
	struct zn_request c;
} table[PLACES];

static int find(const void *key)
{
	for (int i = 0; i < PLACES; i++)
		if (table[i].key && memcmp(&table[i].key, key, sizeof(table[i].key)) == 0)
			return i;
	return -1;
}

int __wrap_bpf_map_lookup_batch(int fd, void *from, void *to, void *keys, void *values, uint32_t *count, const void *o);
int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value);
int __wrap_bpf_map_lookup_and_delete_elem(int fd, const void *key, void *value);

int __wrap_bpf_map_lookup_batch(int fd, void *from, void *to, void *keys, void *values, uint32_t *count, const void *o)
{
	(void)from, (void)to, (void)o;
	CHECK_EQ(fd, FD);
	*count = 0;
	for (int i = 0; i < PLACES; i++) {
		if (!table[i].key)
			continue;
		memcpy((char *)keys + *count * sizeof(table[i].key), &table[i].key, sizeof(table[i].key));
		memcpy((char *)values + *count * sizeof(table[i].c), &table[i].c, sizeof(table[i].c));
		(*count)++;
	}
	return -ENOENT; /* these were the last ones */
}

int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value)
{
	int i = find(key);

	CHECK_EQ(fd, FD);
	if (i < 0)
		return -ENOENT;
	memcpy(value, &table[i].c, sizeof(table[i].c));
	return 0;
}

int __wrap_bpf_map_lookup_and_delete_elem(int fd, const void *key, void *value)
{
	int err = __wrap_bpf_map_lookup_elem(fd, key, value);

	if (!err)
		table[find(key)].key = 0;
	return err;
}

/* ---- the table of servers: what is done with it, and whether that is refused ---- */

#define SERVED 8

static uint32_t served[2];
static bool refuses;

int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags);
int __wrap_bpf_map_delete_elem(int fd, const void *key);

int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags)
{
	(void)value, (void)flags;
	CHECK_EQ(fd, SERVED);
	memcpy(&served[0], key, sizeof(served[0]));
	errno = E2BIG;
	return refuses ? -1 : 0;
}

int __wrap_bpf_map_delete_elem(int fd, const void *key)
{
	CHECK_EQ(fd, SERVED);
	memcpy(&served[1], key, sizeof(served[1]));
	return 0;
}

/* ---- a server with one request ---- */

static struct zn_probe *probe;
static struct zn_shared *shared;

static void start(void)
{
	struct zn_arena *a;

	probe = calloc(1, sizeof(*probe));
	shared = calloc(1, sizeof(*shared));
	a = &probe->arena;
	a->shared = shared;
	a->servers = calloc(ZN_SERVERS_MAX, sizeof(*a->servers));
	a->request_series = calloc(ZN_REQUEST_SERIES, sizeof(*a->request_series));
	a->services = calloc(ZN_SERVICES_MAX, sizeof(*a->services));
	a->servers[0].id = a->request_series[0].id = 5;
	a->request_series[0].in_flight = 1;
	shared->quota[ZN_QUOTA_REQUEST] = (struct zn_quota){.size = ZN_REQUEST_MAX, .used = 1};
	probe->kernel.serves = true;
	probe->map_fd[ZN_MAP_REQUESTS] = FD;
	probe->map_fd[ZN_MAP_SERVED] = SERVED;
	memset(table, 0, sizeof(table));
}

static void stop(void)
{
	free(probe->arena.services);
	free(probe->arena.request_series);
	free(probe->arena.servers);
	free(shared);
	free(probe);
}

/* Nothing moves after the first second. */
static void put(int place, uint64_t key, struct zn_request c)
{
	c.id = 5;
	c.first_ns = c.start_ns = c.last_ns = ZN_NS_PER_S;
	table[place].key = key;
	table[place].c = c;
}

static void look(uint64_t seconds)
{
	probe->requests_ns = 0;
	zn_bpf_request_tick(probe, (1 + seconds) * ZN_NS_PER_S);
}

#define HTTP1 (ZN_PROTOCOL_HTTP1 + 1)
#define HTTP2 (ZN_PROTOCOL_HTTP2 + 1)

static const struct still {
	const char *name;
	struct zn_request c;
	uint64_t most_s;
	int code; /* of its request; -1: it has none */
} stills[] = {
	{"between requests, TCP", {.protocol = HTTP1}, 600, -1},
	{"between requests, Unix", {.protocol = HTTP1, .is_unix = 1}, 600, -1},
	{"the beginning of a request", {.line = ZN_LINE_PATH}, 600, -1},
	{"TLS", {.protocol = ZN_PROTOCOL_TLS + 1}, DAY, -1},
	{"not answered, TCP", {.protocol = HTTP1, .state = ZN_REQUEST_ASKED, .series = 1}, 3600, ZN_OUTCOME_UNKNOWN},
	{"amid an answer, TCP",
		{.protocol = HTTP1, .state = ZN_REQUEST_BODY, .flags = ZN_HTTP1_CHUNKED, .status = 200, .series = 1},
		3600, ZN_OUTCOME_UNKNOWN},
	{"not answered, Unix", {.protocol = HTTP1, .state = ZN_REQUEST_ASKED, .series = 1, .is_unix = 1}, 600,
		ZN_OUTCOME_UNKNOWN},
	{"answered without a length, Unix",
		{.protocol = HTTP1, .state = ZN_REQUEST_BODY, .status = 200, .series = 1, .is_unix = 1}, 60,
		ZN_OUTCOME_2XX},
	{"HTTP/2, TCP", {.protocol = HTTP2}, DAY, -1},
	{"HTTP/2, Unix", {.protocol = HTTP2, .is_unix = 1}, DAY, -1},
};

static void places_are_given_back(void)
{
	for (size_t i = 0; i < ZN_LEN(stills); i++) {
		const struct still *k = &stills[i];
		const struct zn_request_series *s;

		t_begin(k->name);
		start();
		s = &probe->arena.request_series[0];
		put(0, KEY, k->c);
		look(k->most_s);
		CHECK(find(&(uint64_t){KEY}) == 0);
		CHECK_EQ(shared->quota[ZN_QUOTA_REQUEST].used, 1);
		look(k->most_s + 1);
		CHECK(find(&(uint64_t){KEY}) < 0);
		CHECK_EQ(shared->quota[ZN_QUOTA_REQUEST].used, 0);
		CHECK_EQ(s->in_flight, k->code < 0 ? 1 : 0);
		if (k->code >= 0)
			CHECK_EQ(s->done[k->code], 1);
		stop();
	}
}

/* Its connection goes on. */
T(a_stream_on_which_nothing_moves)
{
	start();
	put(0, KEY, (struct zn_request){.protocol = HTTP2, .scan = {3}});
	put(1, STREAM, (struct zn_request){.state = ZN_REQUEST_ASKED, .series = 1, .scan = {KEY, 3}});
	look(3600);
	CHECK(find(&(uint64_t){STREAM}) == 1);
	look(3601);
	CHECK(find(&(uint64_t){STREAM}) < 0);
	CHECK(find(&(uint64_t){KEY}) == 0);
	CHECK_EQ(probe->arena.request_series[0].done[ZN_OUTCOME_UNKNOWN], 1);
	stop();
}

/* Bytes of its body have come later. */
T(an_upload_that_goes_on)
{
	start();
	put(0, KEY, (struct zn_request){.protocol = HTTP1, .state = ZN_REQUEST_ASKED, .series = 1, .is_unix = 1});
	table[0].c.read_ns = 501 * ZN_NS_PER_S;
	look(601);
	CHECK(find(&(uint64_t){KEY}) == 0);
	look(1101);
	CHECK(find(&(uint64_t){KEY}) < 0);
	stop();
}

static bool is_looked_for(uint32_t tgid)
{
	uint32_t at = ZN_SERVED_AT(tgid);

	return shared->served_bits[at / 64] >> (at % 64) & 1;
}

static uint32_t bits_set(void)
{
	uint32_t count = 0;

	for (uint32_t tgid = 0; tgid < ZN_SERVED_BITS; tgid++)
		count += is_looked_for(tgid);
	return count;
}

/* Ids whose low bits are the same have one bit, which stays until the last of them has gone. */
T(servers_are_looked_for_by_the_low_bits_of_their_ids)
{
	uint32_t tgid[] = {4711, 4711 + ZN_SERVED_BITS, 4712};
	struct zn_arena *a;
	int at[3];

	start();
	a = &probe->arena;
	a->servers[0].tgid = 1;
	shared->quota[ZN_QUOTA_SERVER] = (struct zn_quota){.size = ZN_SERVERS_MAX};
	CHECK_EQ(bits_set(), 0);
	for (size_t i = 0; i < ZN_LEN(tgid); i++) {
		at[i] = zn_bpf_request_add(a, &(struct zn_server){.tgid = tgid[i]});
		CHECK(at[i] > 0 && is_looked_for(tgid[i]));
		CHECK_EQ(served[0], tgid[i]);
	}
	CHECK_EQ(bits_set(), 2);
	zn_bpf_request_gone(a, (uint32_t)at[0]);
	a->servers[at[0]].gone_ns = ZN_NS_PER_S;
	CHECK_EQ(served[1], tgid[0]);
	CHECK(is_looked_for(tgid[1]) && is_looked_for(tgid[2]));
	zn_bpf_request_gone(a, (uint32_t)at[1]);
	a->servers[at[1]].gone_ns = ZN_NS_PER_S;
	CHECK(!is_looked_for(tgid[1]) && is_looked_for(tgid[2]));
	CHECK_EQ(bits_set(), 1);
	stop();
}

T(one_that_finds_no_room_is_not_looked_for)
{
	struct zn_arena *a;

	start();
	a = &probe->arena;
	shared->quota[ZN_QUOTA_SERVER] = (struct zn_quota){.size = ZN_SERVERS_MAX};
	refuses = true;
	CHECK_EQ(zn_bpf_request_add(a, &(struct zn_server){.tgid = 4711}), -E2BIG);
	refuses = false;
	CHECK_EQ(bits_set(), 0);
	CHECK_EQ(shared->quota[ZN_QUOTA_SERVER].used, 0);
	stop();
}

int main(void)
{
	places_are_given_back();
	RUN(a_stream_on_which_nothing_moves);
	RUN(an_upload_that_goes_on);
	RUN(servers_are_looked_for_by_the_low_bits_of_their_ids);
	RUN(one_that_finds_no_room_is_not_looked_for);
	return t_end();
}

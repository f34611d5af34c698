/* SPDX-License-Identifier: GPL-2.0 */
/* members_test.c: which servers and engines are one service, by what ties them. */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

static struct zn_services *s;
static struct zn_joined j;

static void begin(void)
{
	if (!s)
		s = calloc(1, sizeof(*s));
	memset(s, 0, sizeof(*s));
}

/* The index of a server is its id as well, and one more than those before. */
static struct zn_service_member *add_server(uint32_t pid, uint32_t port, uint32_t parent)
{
	uint32_t i = s->server_count++;

	s->listed[i] = i;
	s->server[i] = (struct zn_service_member){.id = 100 + i, .pid = pid, .port = port, .parent = {parent}};
	return &s->server[i];
}

static struct zn_service_member *add_engine(uint32_t row, uint32_t pid, uint32_t parent)
{
	s->gpu[row] = (struct zn_service_member){.id = 200 + row, .pid = pid, .parent = {parent}};
	return &s->gpu[row];
}

static void add_edge(uint32_t pid, uint32_t peer)
{
	s->edge[s->edge_count++] = (struct zn_service_edge){pid, peer};
}

T(an_engine_belongs_to_the_server_above_it)
{
	begin();
	add_server(10, 8000, 1);
	add_server(20, 8001, 1);
	add_engine(3, 21, 20);
	add_engine(4, 11, 10);
	add_engine(5, 99, 1);
	add_engine(6, 22, 21);
	s->gpu[6].parent[1] = 20;
	zn_members_join(s, &j);
	CHECK_EQ(j.engine[3].root, 2);
	CHECK_EQ(j.engine[4].root, 1);
	CHECK_EQ(j.engine[5].root, 0);
	CHECK_EQ(j.engine[6].root, 2);
	CHECK_EQ(j.engine[3].id, 203);
	CHECK_EQ(j.server[0].root, 0);
	CHECK_EQ(j.server[1].root, 1);
	CHECK_EQ(j.server[1].above, 0);
}

/* uvicorn --workers: all are below the one that holds the socket. */
T(workers_that_fork_are_one_service)
{
	begin();
	add_server(10, 8000, 1);
	add_server(11, 8000, 10);
	add_server(12, 8000, 10);
	add_engine(0, 13, 10);
	zn_members_join(s, &j);
	CHECK_EQ(j.server[1].root, 0);
	CHECK_EQ(j.server[2].root, 0);
	CHECK_EQ(j.server[2].above, 1);
	CHECK_EQ(j.engine[0].root, 1);
}

/* Two users who came over ssh, or two panes of one terminal: the server above both serves with neither. */
T(what_starts_sessions_serves_with_none)
{
	begin();
	add_server(9, 22, 1)->session = 9;
	add_server(10, 8000, 9)->session = 10;
	add_server(20, 8001, 9)->session = 20;
	add_server(21, 8002, 20)->session = 20;
	add_server(22, 8003, 20)->session = 20;
	add_engine(0, 11, 10)->session = 10;
	add_engine(1, 23, 20)->session = 20;
	add_engine(2, 33, 9)->session = 33;
	s->server[1].owner = s->gpu[0].owner = 1000;
	s->server[2].owner = s->server[3].owner = s->gpu[1].owner = 1001;
	s->server[4].owner = 1002; /* by a program that changes the user */
	zn_members_join(s, &j);
	CHECK_EQ(j.server[1].root, 1);
	CHECK_EQ(j.server[2].root, 2);
	CHECK_EQ(j.server[3].root, 2);
	CHECK_EQ(j.server[4].root, 4);
	CHECK_EQ(j.engine[0].root, 2);
	CHECK_EQ(j.engine[1].root, 3);
	CHECK_EQ(j.engine[2].root, 0);
}

/* As of a web server whose workers have given up root's rights. */
T(workers_of_another_user_are_roots_that_is_above_them)
{
	begin();
	add_server(10, 8000, 1);
	add_server(11, 8000, 10)->owner = 33;
	zn_members_join(s, &j);
	CHECK_EQ(j.server[1].root, 0);
}

T(an_engine_that_is_the_server)
{
	begin();
	add_server(10, 8080, 1);
	add_server(20, 8081, 1);
	add_engine(0, 10, 1)->session = 7;
	add_engine(1, 20, 1)->session = 7;
	zn_members_join(s, &j);
	CHECK_EQ(j.engine[0].root, 1);
	CHECK_EQ(j.engine[1].root, 2);
}

T(an_engine_at_the_other_end_of_a_socket)
{
	begin();
	add_server(10, 8000, 1);
	add_server(20, 8001, 1);
	add_engine(0, 30, 1);
	add_edge(30, 777);
	add_edge(30, 20);
	zn_members_join(s, &j);
	CHECK_EQ(j.engine[0].root, 2);
}

/* The router of TGI and its shards, which listen on Unix sockets: siblings. */
T(shards_belong_to_the_router_that_asks_them)
{
	begin();
	add_server(11, 0, 10);
	add_server(12, 0, 10);
	add_server(13, 3000, 10);
	add_engine(0, 11, 10);
	add_engine(1, 12, 10);
	add_edge(11, 13);
	add_edge(12, 13);
	zn_members_join(s, &j);
	CHECK_EQ(j.server[0].root, 2);
	CHECK_EQ(j.server[1].above, 3);
	CHECK_EQ(j.engine[0].root, 3);
	CHECK_EQ(j.engine[1].root, 3);
}

T(a_circle_ends)
{
	begin();
	add_server(10, 0, 1);
	add_server(11, 3000, 10);
	add_edge(10, 11);
	zn_members_join(s, &j);
	CHECK_EQ(j.server[0].above, 0);
	CHECK_EQ(j.server[1].root, 0);
}

/* A launcher that uses a GPU. */
T(an_engine_above_its_server)
{
	begin();
	add_server(10, 8000, 5);
	add_engine(0, 5, 1);
	zn_members_join(s, &j);
	CHECK_EQ(j.engine[0].root, 1);
}

T(what_is_not_clear_is_not_joined)
{
	struct zn_job_ref job = {3, 9};

	begin();
	add_server(10, 8000, 1)->job = job;
	add_server(20, 8001, 1)->job = job;
	add_engine(0, 30, 1)->job = job;
	add_engine(1, 31, 1)->session = 44;
	s->server[1].session = 44;
	zn_members_join(s, &j);
	CHECK_EQ(j.engine[0].root, 0);
	CHECK_EQ(j.engine[1].root, 2);
	s->server[1].job.serial = 8; /* of another job */
	zn_members_join(s, &j);
	CHECK_EQ(j.engine[0].root, 1);
}

/* A program in the same session as a server that has its engine. */
T(of_a_session_only_what_is_lacking)
{
	begin();
	add_server(10, 8000, 1)->session = 5;
	add_engine(0, 11, 10)->session = 5;
	add_engine(1, 12, 1)->session = 5;
	zn_members_join(s, &j);
	CHECK_EQ(j.engine[0].root, 1);
	CHECK_EQ(j.engine[1].root, 0);
	s->server[0].pid_ns = s->gpu[1].pid_ns = 4026; /* in a container it belongs there */
	zn_members_join(s, &j);
	CHECK_EQ(j.engine[1].root, 1);
}

int main(void)
{
	RUN(an_engine_belongs_to_the_server_above_it);
	RUN(workers_that_fork_are_one_service);
	RUN(what_starts_sessions_serves_with_none);
	RUN(workers_of_another_user_are_roots_that_is_above_them);
	RUN(an_engine_that_is_the_server);
	RUN(an_engine_at_the_other_end_of_a_socket);
	RUN(shards_belong_to_the_router_that_asks_them);
	RUN(a_circle_ends);
	RUN(an_engine_above_its_server);
	RUN(what_is_not_clear_is_not_joined);
	RUN(of_a_session_only_what_is_lacking);
	return t_end();
}

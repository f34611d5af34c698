/* SPDX-License-Identifier: GPL-2.0 */
/*
 * members.c: which servers and which processes that use a GPU are one service. A server belongs to the outermost server
 * above it; one on a Unix socket, to that whose connections it has. A process that uses a GPU belongs to the service of
 * the server that it is; else of the nearest one above it, or at the other end of a Unix socket, or below it; else of
 * the only one of its job or container, or of its session. What is not clear is not joined.
 */
#include "zernel.h"
#include <string.h>

#define STEPS 8 /* servers above one another */
#define NONE  ZN_SERVERS_MAX

static bool is_below(const struct zn_service_member *m, uint32_t pid)
{
	for (uint32_t i = 0; i < ZN_SERVICE_PARENTS && m->parent[i]; i++)
		if (m->parent[i] == pid)
			return true;
	return false;
}

static uint32_t server_by_pid(const struct zn_services *s, uint32_t pid)
{
	for (uint32_t i = 0; i < s->server_count; i++)
		if (s->server[s->listed[i]].pid == pid)
			return s->listed[i];
	return NONE;
}

/* A login, a pane of a terminal or a notebook begins a session of its own, and what started several of them serves with
 * none. What is root's may have given its children to another user. */
static bool serves_with(const struct zn_service_member *above, const struct zn_service_member *m)
{
	return above->session == m->session && (above->owner == m->owner || !above->owner);
}

static uint32_t nearest_above(const struct zn_services *s, const struct zn_service_member *m)
{
	for (uint32_t i = 0; i < ZN_SERVICE_PARENTS && m->parent[i]; i++) {
		uint32_t found = server_by_pid(s, m->parent[i]);

		if (found != NONE && serves_with(&s->server[found], m))
			return found;
	}
	return NONE;
}

/* A server of the same owner at the other end of a Unix socket of this process: others connect to whom they like. tcp:
 * only one that is reached over TCP. */
static uint32_t over_socket(const struct zn_services *s, const struct zn_service_member *m, bool tcp)
{
	for (uint32_t i = 0; i < s->edge_count; i++) {
		uint32_t found = s->edge[i].pid == m->pid ? server_by_pid(s, s->edge[i].peer) : NONE;

		if (found != NONE && (!tcp || s->server[found].port) && s->server[found].owner == m->owner &&
			!is_below(&s->server[found], m->pid))
			return found;
	}
	return NONE;
}

static uint32_t above_server(const struct zn_services *s, uint32_t index)
{
	const struct zn_service_member *m = &s->server[index];
	uint32_t above = nearest_above(s, m);

	return above == NONE && !m->port ? over_socket(s, m, true) : above;
}

static uint32_t root_of(const struct zn_joined *j, uint32_t index)
{
	for (int i = 0; i < STEPS && j->server[index].above; i++)
		index = j->server[index].above - 1;
	return index;
}

static void join_servers(const struct zn_services *s, struct zn_joined *j)
{
	for (uint32_t i = 0; i < s->server_count; i++) {
		uint32_t at = s->listed[i], above = above_server(s, at);

		j->server[at].id = s->server[at].id;
		j->server[at].above = above == NONE || above == at ? 0 : above + 1;
	}
	for (uint32_t i = 0; i < s->server_count; i++)
		j->server[s->listed[i]].root = root_of(j, s->listed[i]);
}

/* ---- engines ---- */

enum tie { TIE_BELOW, TIE_PLACE, TIE_SESSION };

static bool is_tied(const struct zn_service_member *g, const struct zn_service_member *server, enum tie tie)
{
	if (tie == TIE_BELOW)
		return is_below(server, g->pid);
	if (tie == TIE_SESSION)
		return g->session > 1 && g->session == server->session;
	return (g->job.serial && zn_job_ref_same(g->job, server->job)) || (g->pid_ns && g->pid_ns == server->pid_ns);
}

/* The only service with such a tie; NONE: there is none, or there are several. */
static uint32_t only_service(
	const struct zn_services *s, const struct zn_joined *j, const struct zn_service_member *g, enum tie tie)
{
	uint32_t found = NONE;

	for (uint32_t i = 0; i < s->server_count; i++) {
		uint32_t root = j->server[s->listed[i]].root;

		if (root == found || !is_tied(g, &s->server[s->listed[i]], tie))
			continue;
		if (found != NONE)
			return NONE;
		found = root;
	}
	return found;
}

static uint32_t close_service(const struct zn_services *s, const struct zn_joined *j, const struct zn_service_member *g)
{
	uint32_t found = server_by_pid(s, g->pid);

	if (found == NONE)
		found = nearest_above(s, g);
	if (found == NONE)
		found = over_socket(s, g, false);
	return found == NONE ? only_service(s, j, g, TIE_BELOW) : j->server[found].root;
}

static void join_engine(const struct zn_services *s, struct zn_joined *j, uint32_t row, uint32_t root)
{
	j->engine[row].id = s->gpu[row].id;
	j->engine[row].root = root == NONE ? 0 : root + 1;
}

/* Of a session the rest belongs to a service only if that has no engine by another tie. */
static void join_engines(const struct zn_services *s, struct zn_joined *j)
{
	bool has[ZN_SERVERS_MAX] = {false};

	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		uint32_t root = s->gpu[row].id ? close_service(s, j, &s->gpu[row]) : NONE;

		if (root == NONE && s->gpu[row].id)
			root = only_service(s, j, &s->gpu[row], TIE_PLACE);
		join_engine(s, j, row, root);
		if (root != NONE)
			has[root] = true;
	}
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		uint32_t root = NONE;

		if (s->gpu[row].id && !j->engine[row].root)
			root = only_service(s, j, &s->gpu[row], TIE_SESSION);
		if (root != NONE && !has[root])
			join_engine(s, j, row, root);
	}
}

void zn_members_join(const struct zn_services *s, struct zn_joined *to)
{
	memset(to, 0, sizeof(*to));
	join_servers(s, to);
	join_engines(s, to);
}

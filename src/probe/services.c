/* SPDX-License-Identifier: GPL-2.0 */
/*
 * services.c: which processes serve together with those that use a GPU. A front end listens and calls no GPU; the
 * engine calls one and listens on nothing. They belong together if one is the other, if both are of one job, if one
 * started the other, if they have one session or one container (a namespace of process ids), or if a Unix socket joins
 * them and they have one owner.
 *
 * All processes are looked at when a process is tracked for the first time, and every few seconds, as a Unix socket
 * tells nothing when it begins to listen; one that listens on a port of TCP is told of, and looked at by itself. Runs
 * on the finder's thread: /proc is users'.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <ctype.h>
#include <dirent.h> /* struct dirent64 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SWEEP_NS      (5 * ZN_NS_PER_S) /* between looks at all processes */
#define SOCKETS_NS    (2 * ZN_NS_PER_S) /* what listens is read anew after this */
#define HEARD_MAX     8                 /* processes that were heard to listen, looked at in one run */
#define FILES_MAX     16384             /* descriptors of one process that are looked at */
#define TEXT_BYTES    16384
#define SOCKETS_BYTES (4 << 20) /* of one list of sockets; those that listen come first, and fit */
#define TCP_LISTEN    0x0a

void zn_services_init(
	struct zn_services *s, struct zn_probe *p, const struct zn_mappers *mappers, pthread_mutex_t *lock)
{
	struct stat st;

	zn_pages_clear(s, sizeof(*s));
	s->probe = p;
	s->mappers = mappers;
	s->lock = lock;
	s->dir = -1;
	s->own_namespace = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

void zn_services_close(struct zn_services *s)
{
	if (s->sweeping && s->dir >= 0)
		close(s->dir);
	s->dir = -1;
	s->sweeping = false;
}

/* ---- processes that use a GPU ---- */

static uint64_t namespace_of(uint32_t pid, const char *kind)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u/ns/%s", pid, kind);
	return stat(path, &st) == 0 ? st.st_ino : 0;
}

static uint64_t container_of_pid(const struct zn_services *s, uint32_t pid)
{
	uint64_t ns = namespace_of(pid, "pid");

	return ns == s->own_namespace ? 0 : ns;
}

static struct zn_job_ref job_of(const struct zn_services *s, uint32_t pid)
{
	struct zn_job_ref job = {0};

	if (bpf_map_lookup_elem(s->probe->map_fd[ZN_MAP_TASKS], &pid, &job))
		return (struct zn_job_ref){0};
	return job;
}

static void member_learn(struct zn_services *s, struct zn_service_member *g, uint32_t id, uint32_t pid, uint32_t owner)
{
	struct zn_procfs_stat stat;
	uint32_t parent;

	*g = (struct zn_service_member){
		.id = id, .owner = owner, .pid = pid, .job = job_of(s, pid), .pid_ns = container_of_pid(s, pid)};
	if (!zn_procfs_stat("/proc", pid, &stat))
		return;
	g->session = stat.session;
	parent = stat.parent;
	for (uint32_t i = 0; i < ZN_SERVICE_PARENTS && parent > 1; i++) {
		g->parent[i] = parent;
		parent = zn_procfs_stat("/proc", parent, &stat) ? stat.parent : 0;
	}
}

static uint64_t mix_id(uint64_t hash, uint32_t id)
{
	return (hash ^ id) * ZN_FNV_PRIME;
}

/* What is known of the servers that there are. */
static uint64_t servers_learn(struct zn_services *s)
{
	const struct zn_arena *a = &s->probe->arena;
	uint64_t hash = ZN_FNV_BASIS;

	s->server_count = 0;
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		uint32_t id = __atomic_load_n(&a->servers[i].id, __ATOMIC_ACQUIRE);

		if (!id || __atomic_load_n(&a->servers[i].gone_ns, __ATOMIC_RELAXED))
			continue;
		if (s->server[i].id != id)
			member_learn(s, &s->server[i], id, a->servers[i].tgid, a->servers[i].owner);
		s->server[i].port = a->servers[i].port;
		s->listed[s->server_count++] = i;
		hash = mix_id(hash, id);
	}
	return hash;
}

/* Anew when somebody came or went. */
static void services_join(struct zn_services *s)
{
	static struct zn_joined joined;
	uint64_t hash = servers_learn(s);

	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		if (s->gpu[row].id)
			hash = mix_id(hash, s->gpu[row].id);
	for (uint32_t i = 0; i < s->edge_count; i++)
		hash = mix_id(mix_id(hash, s->edge[i].pid), s->edge[i].peer);
	if (hash == s->members)
		return;
	s->members = hash;
	zn_members_join(s, &joined);
	pthread_mutex_lock(s->lock);
	s->joined = joined;
	s->is_joined = true;
	pthread_mutex_unlock(s->lock);
}

/* False: nobody uses a GPU. A row that is not mapped yet is looked at in the next round. */
static bool gpus_learn(struct zn_services *s)
{
	struct zn_arena *a = &s->probe->arena;
	uint32_t count = 0;

	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		uint32_t tgid = __atomic_load_n(&a->shared->row_tgid[row], __ATOMIC_ACQUIRE);
		uint8_t mapped = __atomic_load_n(&a->proc_mapped[row / 8], __ATOMIC_ACQUIRE);
		struct zn_service_member *g = &s->gpu[row];

		if (!tgid || !(mapped >> (row % 8) & 1)) {
			g->id = 0;
			continue;
		}
		count++;
		if (g->id == a->procs[row].id)
			continue;
		member_learn(s, g, a->procs[row].id, tgid, a->procs[row].owner);
		s->again = true;
	}
	s->gpu_count = count;
	return count;
}

/* ---- Unix sockets ---- */

static void edge_add(void *to, const struct zn_service_edge *found)
{
	struct zn_services *s = to;
	uint32_t own = 0;

	if (!found->peer) {
		s->on_unix[found->pid % ZN_SERVICE_PIDS / 64] |= 1ULL << found->pid % 64;
		return;
	}
	for (uint32_t i = 0; i < s->edge_count; i++) {
		if (s->edge[i].pid == found->pid && s->edge[i].peer == found->peer)
			return;
		own += s->edge[i].pid == found->pid;
	}
	if (own < ZN_SERVICE_PEERS && s->edge_count < ZN_SERVICE_EDGES)
		s->edge[s->edge_count++] = *found;
}

/* Whom the processes that use a GPU are connected with, and who listens. The kernel is asked, as /proc/net/unix has
 * names of users in it, which may be lines of their own. */
static void edges_find(struct zn_services *s)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		uint32_t pid = s->gpu[row].id ? s->gpu[row].pid : 0;

		if (s->asked[row] == pid)
			continue;
		if (s->asked[row])
			zn_mappers_asked(s->mappers, s->asked[row], false);
		s->asked[row] = pid;
	}
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) /* after all: an id may have moved to another row */
		if (s->asked[row])
			zn_mappers_asked(s->mappers, s->asked[row], true);
	s->edge_count = 0;
	zn_pages_clear(s->on_unix, sizeof(s->on_unix));
	if (s->gpu_count)
		zn_mappers_peers(s->mappers, edge_add, s);
}

static bool has_edge(const struct zn_services *s, uint32_t pid)
{
	uint32_t owner = 0;
	bool asked = false;

	for (uint32_t i = 0; i < s->edge_count; i++) {
		if (s->edge[i].peer != pid)
			continue;
		if (!asked)
			owner = zn_owner_of((int)pid);
		asked = true;
		for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
			if (s->gpu[row].id && s->gpu[row].pid == s->edge[i].pid && s->gpu[row].owner == owner)
				return true;
	}
	return false;
}

struct candidate {
	uint32_t pid;
	struct zn_procfs_stat stat;
	struct zn_job_ref job;
	uint64_t pid_ns;
};

static bool is_with(const struct zn_service_member *g, const struct candidate *c)
{
	if (g->pid == c->pid || c->stat.parent == g->pid || (g->session > 1 && g->session == c->stat.session))
		return true;
	if ((g->job.serial && zn_job_ref_same(g->job, c->job)) || (g->pid_ns && g->pid_ns == c->pid_ns))
		return true;
	for (uint32_t i = 0; i < ZN_SERVICE_PARENTS && g->parent[i]; i++)
		if (g->parent[i] == c->pid)
			return g->session == c->stat.session;
	return false;
}

static bool has_containers(const struct zn_services *s)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		if (s->gpu[row].id && s->gpu[row].pid_ns)
			return true;
	return false;
}

/* False: it has nothing to do with any of them, or has ended. */
static bool candidate_find(const struct zn_services *s, uint32_t pid, struct candidate *c, bool *both)
{
	bool with = false;

	*c = (struct candidate){.pid = pid};
	*both = false;
	if (!zn_procfs_stat("/proc", pid, &c->stat))
		return false;
	c->job = s->probe->arena.shared->jobs ? job_of(s, pid) : (struct zn_job_ref){0};
	c->pid_ns = has_containers(s) ? container_of_pid(s, pid) : 0;
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		if (!s->gpu[row].id)
			continue;
		*both |= s->gpu[row].pid == pid;
		with |= is_with(&s->gpu[row], c);
	}
	return with;
}

/* ---- sockets that listen ---- */

static int by_inode(const void *a, const void *b)
{
	const struct zn_service_socket *x = a, *y = b;

	return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static void socket_add(struct zn_services *s, uint64_t inode, uint32_t port)
{
	if (s->socket_count == ZN_SERVICE_SOCKETS)
		__atomic_fetch_add(&s->probe->arena.shared->lost[ZN_LOST_SERVER], 1, __ATOMIC_RELAXED);
	else if (inode)
		s->socket[s->socket_count++] = (struct zn_service_socket){inode, port};
}

/* "0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 12345 ...". False: none that follows listens. */
static bool tcp_line(struct zn_services *s, const char *line)
{
	unsigned port, state;
	unsigned long inode;

	if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*d %lu", &port, &state,
		    &inode) != 3)
		return true; /* the names of the columns */
	if (state != TCP_LISTEN)
		return false;
	socket_add(s, inode, port);
	return true;
}

static void sockets_read(
	struct zn_services *s, uint32_t pid, const char *name, bool (*line)(struct zn_services *s, const char *line))
{
	static char text[TEXT_BYTES];
	size_t have = 0, all = 0;
	char path[64], *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/net/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && all < SOCKETS_BYTES && (n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *at = text;

		all += (size_t)n;
		have += (size_t)n;
		text[have] = 0;
		for (; (end = strchr(at, '\n')); at = end + 1) {
			*end = 0;
			if (!line(s, at))
				all = SOCKETS_BYTES;
		}
		have = have - (size_t)(at - text) < sizeof(text) - 1 ? have - (size_t)(at - text) : 0;
		memmove(text, at, have);
	}
	if (fd >= 0)
		close(fd);
}

/* What listens on TCP in the network namespace of a process. */
static void sockets_find(struct zn_services *s, uint32_t pid)
{
	uint64_t network = namespace_of(pid, "net"), now = zn_now_ns();

	if (network == s->network && now - s->read_ns < SOCKETS_NS)
		return;
	s->network = network;
	s->read_ns = now;
	s->socket_count = 0;
	sockets_read(s, pid, "tcp", tcp_line);
	sockets_read(s, pid, "tcp6", tcp_line);
	zn_sort(s->socket, s->socket_count, sizeof(s->socket[0]), by_inode);
}

static const struct zn_service_socket *socket_of_file(const struct zn_services *s, int dir, const char *name)
{
	struct zn_service_socket key = {0};
	char target[64];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n <= 0)
		return NULL;
	target[n] = 0;
	if (sscanf(target, "socket:[%lu]", &key.inode) != 1)
		return NULL;
	return bsearch(&key, s->socket, s->socket_count, sizeof(key), by_inode);
}

/* Whether a process listens; on which port, if it is one of TCP. */
static bool process_listens(const struct zn_services *s, uint32_t pid, uint32_t *port)
{
	bool listens = s->on_unix[pid % ZN_SERVICE_PIDS / 64] >> pid % 64 & 1;
	struct zn_names names = {.have = 0};
	const struct dirent64 *e;
	uint32_t files = 0;
	char path[64];
	int dir;

	*port = 0;
	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	dir = s->socket_count ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	while (!*port && files++ < FILES_MAX && (e = zn_names_next(&names, dir))) {
		const struct zn_service_socket *found =
			isdigit((unsigned char)e->d_name[0]) ? socket_of_file(s, dir, e->d_name) : NULL;

		listens |= found != NULL;
		*port = found ? found->port : 0;
	}
	if (dir >= 0)
		close(dir);
	return listens;
}

/* ---- what is found ---- */

static bool is_watched(const struct zn_services *s, uint32_t pid)
{
	const struct zn_arena *a = &s->probe->arena;
	bool found = false;

	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++)
		if (__atomic_load_n(&a->servers[i].tgid, __ATOMIC_RELAXED) == pid)
			return true;
	pthread_mutex_lock(s->lock);
	for (uint32_t i = 0; i < s->found_count; i++)
		found |= s->found[i].tgid == pid;
	pthread_mutex_unlock(s->lock);
	return found;
}

/* The outermost server above a process; itself if there is none. */
static uint32_t service_of(const struct zn_services *s, const struct candidate *c)
{
	uint32_t service = c->pid, parent = c->stat.parent;
	struct zn_procfs_stat stat;

	for (uint32_t i = 0; i < ZN_SERVICE_PARENTS && parent > 1; i++) {
		if (is_watched(s, parent))
			service = parent;
		parent = zn_procfs_stat("/proc", parent, &stat) ? stat.parent : 0;
	}
	return service;
}

static void found_add(struct zn_services *s, const struct candidate *c, bool both, uint32_t port)
{
	struct zn_server server = {
		.tgid = c->pid, .port = port, .role = both ? ZN_ROLE_BOTH : ZN_ROLE_FRONT, .job = c->job};
	char path[64], comm[32];

	server.owner = zn_owner_of((int)c->pid);
	server.since_ns = zn_now_ns();
	server.service = service_of(s, c);
	snprintf(path, sizeof(path), "/proc/%u/comm", c->pid);
	if (zn_file_read(path, comm, sizeof(comm)) > 0) {
		comm[strcspn(comm, "\n")] = 0;
		memcpy(server.comm, comm, strnlen(comm, sizeof(server.comm)));
	}
	pthread_mutex_lock(s->lock);
	if (s->found_count < ZN_SERVICES_FOUND)
		s->found[s->found_count++] = server;
	pthread_mutex_unlock(s->lock);
}

static void process_look(struct zn_services *s, uint32_t pid)
{
	struct candidate c;
	uint32_t port;
	bool both, with;

	if (pid == s->probe->arena.shared->daemon_tgid || is_watched(s, pid))
		return;
	with = candidate_find(s, pid, &c, &both);
	if (!with && (pid == 1 || !has_edge(s, pid)))
		return;
	sockets_find(s, pid);
	if (process_listens(s, pid, &port) && (with || port)) /* the system's log has a socket with everybody */
		found_add(s, &c, both, port);
}

/* ---- when ---- */

/* Some names of /proc. False: that was all. */
static bool sweep_step(struct zn_services *s)
{
	const struct dirent64 *e = zn_names_next(&s->names, s->dir);
	uint32_t pid = e ? zn_names_number(e) : 0;

	if (pid)
		process_look(s, pid);
	if (!e)
		zn_services_close(s);
	return e != NULL;
}

static void sweep_begin(struct zn_services *s, uint64_t now_ns)
{
	edges_find(s);
	s->dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->sweeping = true;
	s->again = false;
	s->names.at = s->names.have = 0;
	s->swept_ns = now_ns;
}

static uint32_t heard_count(struct zn_services *s)
{
	uint32_t count;

	pthread_mutex_lock(s->lock);
	count = s->listens_count;
	pthread_mutex_unlock(s->lock);
	return count;
}

/* The first that was heard. */
static uint32_t heard_next(struct zn_services *s)
{
	uint32_t pid;

	pthread_mutex_lock(s->lock);
	pid = s->listens[0];
	memmove(s->listens, s->listens + 1, sizeof(s->listens[0]) * --s->listens_count);
	pthread_mutex_unlock(s->lock);
	return pid;
}

/* A few of those that were heard by now: who listens again and again is heard as fast as he is looked at. What they
 * listen on may not have been there before, so the sockets are read anew, once. */
static void heard_look(struct zn_services *s, uint64_t until_ns)
{
	uint32_t count = heard_count(s);

	if (count)
		s->read_ns = 0;
	for (uint32_t i = 0; i < count && i < HEARD_MAX; i++) {
		process_look(s, heard_next(s));
		if (zn_now_ns() > until_ns)
			return;
	}
}

void zn_services_run(struct zn_services *s, uint64_t until_ns)
{
	uint64_t now_ns = zn_now_ns();

	if (!s->probe->arena.servers || s->probe->kernel.method[ZN_FAM_REQUESTS] == ZN_METHOD_NONE || !gpus_learn(s)) {
		zn_services_close(s); /* the last process that used a GPU may have gone in the middle of a sweep */
		return;
	}
	heard_look(s, until_ns);
	if (!s->sweeping && (s->again || now_ns - s->swept_ns >= SWEEP_NS))
		sweep_begin(s, now_ns);
	services_join(s);
	while (s->sweeping && sweep_step(s))
		if (zn_now_ns() > until_ns)
			return;
}

bool zn_services_ended(uint32_t tgid)
{
	return zn_process_ended(tgid);
}

void zn_services_listen(struct zn_services *s, uint32_t pid)
{
	bool waits = false;

	pthread_mutex_lock(s->lock);
	for (uint32_t i = 0; i < s->listens_count; i++)
		waits |= s->listens[i] == pid;
	if (!waits && s->listens_count < ZN_SERVICES_FOUND)
		s->listens[s->listens_count++] = pid;
	pthread_mutex_unlock(s->lock);
}

void zn_services_take(struct zn_services *s, void (*found)(void *to, const struct zn_server *server), void *to)
{
	struct zn_server server;

	for (;;) {
		pthread_mutex_lock(s->lock);
		if (s->found_count == 0) {
			pthread_mutex_unlock(s->lock);
			return;
		}
		server = s->found[--s->found_count];
		pthread_mutex_unlock(s->lock);
		found(to, &server);
	}
}

bool zn_services_joined(struct zn_services *s, struct zn_joined *to)
{
	bool is_new;

	pthread_mutex_lock(s->lock);
	is_new = s->is_joined;
	if (is_new)
		*to = s->joined;
	s->is_joined = false;
	pthread_mutex_unlock(s->lock);
	return is_new;
}

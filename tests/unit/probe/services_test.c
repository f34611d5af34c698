/* SPDX-License-Identifier: GPL-2.0 */
/* link: -Wl,--wrap=zn_procfs_stat */
/*
 * services_test.c: which processes are found to serve with one that uses a GPU: real ones that this program starts, by
 * what joins them to it; and what users can fill: names, sockets, Unix sockets of everybody, ids that have ended.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define CHILDREN 8
#define ROW      7 /* of the process that uses a GPU */

static struct zn_memory_arena memory;
static struct zn_probe probe;
static struct zn_mappers mappers;
static struct zn_services s;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct zn_service_edge edge[ZN_SERVICE_EDGES + 8];
static uint32_t edges, asked;
static pid_t child[CHILDREN];
static unsigned children;

/* ---- In place of mappers.c: who listens on Unix sockets, and who is at the other end of them. ---- */

void zn_mappers_asked(const struct zn_mappers *m, uint32_t tgid, bool add)
{
	(void)m, (void)tgid;
	asked += add;
}

void zn_mappers_peers(
	const struct zn_mappers *m, void (*visit)(void *to, const struct zn_service_edge *found), void *to)
{
	(void)m;
	for (uint32_t i = 0; i < edges; i++)
		visit(to, &edge[i]);
}

/* Whoever is looked at by that number listens once more meanwhile, under another one. */
#define MANY_TIMES 100000
static uint32_t listens_again;

bool __real_zn_procfs_stat(const char *proc_root, uint32_t pid, struct zn_procfs_stat *to);
bool __wrap_zn_procfs_stat(const char *proc_root, uint32_t pid, struct zn_procfs_stat *to);

bool __wrap_zn_procfs_stat(const char *proc_root, uint32_t pid, struct zn_procfs_stat *to)
{
	if (listens_again && pid > UINT32_MAX - MANY_TIMES) {
		zn_services_listen(&s, pid - 1);
		listens_again--;
	}
	return __real_zn_procfs_stat(proc_root, pid, to);
}

/* ---- Processes. ---- */

enum {
	NOTHING,
	TCP = 1,
	TCP6 = 2,
	UNIX = 4,
	DATAGRAMS = 8,
	OWN_SESSION = 16,
	HAS_CHILD = 32,
	ODD_NAME = 64,
	FORGED = 128
};

struct told {
	pid_t child; /* that it has started: with TCP */
	uint16_t port;
};

static uint16_t listen_tcp(int family)
{
	struct sockaddr_in6 at = {.sin6_family = (sa_family_t)family};
	socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(at);
	int fd = socket(family, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&at, len) || listen(fd, 1) || getsockname(fd, (struct sockaddr *)&at, &len))
		_exit(1);
	return ntohs(at.sin6_port); /* at the same place in both */
}

static void listen_unix(int type)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "zn_services_%d_%d", getpid(), type);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || (type == SOCK_STREAM && listen(fd, 1)))
		_exit(1);
}

/* A socket whose name is a line of /proc/net/unix, by which another one listens, that does not. */
static void forge_listener(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int quiet = socket(AF_UNIX, SOCK_STREAM, 0), fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct stat st;

	if (fstat(quiet, &st))
		_exit(1);
	snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "zz\n0: 2 0 10000 1 1 %lu x", (unsigned long)st.st_ino);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)))
		_exit(1);
}

static void live(int is, int tell)
{
	struct told told = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (is & OWN_SESSION)
		setsid();
	if (is & ODD_NAME)
		prctl(PR_SET_NAME, "a\nb\033[2J");
	if (is & (TCP | TCP6))
		told.port = listen_tcp(is & TCP ? AF_INET : AF_INET6);
	if (is & UNIX)
		listen_unix(SOCK_STREAM);
	if (is & DATAGRAMS)
		listen_unix(SOCK_DGRAM);
	if (is & FORGED)
		forge_listener();
	if (is & HAS_CHILD && (told.child = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		told.port = listen_tcp(AF_INET);
		told.child = getpid();
	}
	if (!(is & HAS_CHILD) || told.child == getpid())
		if (write(tell, &told, sizeof(told)) != sizeof(told))
			_exit(1);
	for (;;)
		pause();
}

static pid_t start(int is, struct told *told)
{
	struct told none;
	int tell[2];
	pid_t pid;

	if (pipe2(tell, O_CLOEXEC))
		abort();
	pid = fork();
	if (pid == 0)
		live(is, tell[1]);
	close(tell[1]);
	if (read(tell[0], told ? told : &none, sizeof(none)) != sizeof(none))
		abort();
	close(tell[0]);
	child[children++] = pid;
	return pid;
}

static void use_gpu(uint32_t row, pid_t pid)
{
	memory.arena.procs[row].id = row + 1;
	memory.arena.procs[row].tgid = (uint32_t)pid;
	memory.arena.procs[row].owner = zn_owner_of(pid);
	memory.arena.shared->row_tgid[row] = (uint32_t)pid;
}

static void end(void)
{
	while (children) {
		kill(child[--children], SIGKILL);
		waitpid(child[children], NULL, 0);
	}
	zn_services_close(&s);
	zn_memory_close(&memory);
}

/* This program uses no GPU and listens on nothing; all that it starts are below it. */
static void begin(void)
{
	end();
	edges = asked = 0;
	memset(&probe, 0, sizeof(probe));
	if (zn_memory_open(&memory))
		abort();
	memset(memory.arena.proc_mapped, 0xff, sizeof(memory.arena.proc_mapped));
	probe.arena = memory.arena;
	probe.map_fd[ZN_MAP_TASKS] = -1;
	probe.kernel.method[ZN_FAM_REQUESTS] = ZN_METHOD_TRACEPOINT;
	zn_services_init(&s, &probe, &mappers, &lock);
}

/* ---- What is found. ---- */

static struct zn_server found[ZN_SERVICES_FOUND];
static uint32_t found_count;

/* What runs above this program is joined with what it starts, and may listen. */
static bool is_ours(uint32_t pid)
{
	struct zn_procfs_stat stat;

	for (int i = 0; i < 3 && zn_procfs_stat("/proc", pid, &stat); i++, pid = stat.parent)
		if (stat.parent == (uint32_t)getpid())
			return true;
	return false;
}

static void keep(void *to, const struct zn_server *server)
{
	(void)to;
	if (found_count < ZN_SERVICES_FOUND && is_ours(server->tgid))
		found[found_count++] = *server;
}

static const struct zn_server *found_of(pid_t pid)
{
	for (uint32_t i = 0; i < found_count; i++)
		if (found[i].tgid == (uint32_t)pid)
			return &found[i];
	return NULL;
}

static void look(void)
{
	found_count = 0;
	zn_services_run(&s, UINT64_MAX);
	zn_services_take(&s, keep, NULL);
}

T(without_a_gpu_nobody_is_looked_at)
{
	begin();
	start(TCP | OWN_SESSION, NULL);
	look();
	CHECK_EQ(found_count, 0);
	CHECK(!s.swept_ns);
}

T(an_engine_that_listens_itself)
{
	struct told told;
	pid_t pid;

	begin();
	pid = start(TCP | OWN_SESSION, &told);
	use_gpu(ROW, pid);
	look();
	CHECK(found_of(pid) != NULL);
	CHECK_EQ(found_count, 1);
	CHECK_EQ(found[0].role, ZN_ROLE_BOTH);
	CHECK_EQ(found[0].port, told.port);
	CHECK_EQ(found[0].owner, zn_owner_of(pid));
	CHECK_EQ(found[0].service, pid);
}

/* It is the child of the engine, and in its session. */
T(a_front_end_and_its_neighbour)
{
	struct told told;
	pid_t engine, neighbour;

	begin();
	engine = start(OWN_SESSION | HAS_CHILD, &told);
	neighbour = start(TCP | OWN_SESSION, NULL);
	use_gpu(ROW, engine);
	look();
	CHECK(found_of(told.child) != NULL);
	CHECK(found_of(neighbour) == NULL);
	CHECK(found_of(engine) == NULL); /* which listens on nothing */
	CHECK_EQ(found_count, 1);
	CHECK_EQ(found[0].role, ZN_ROLE_FRONT);
	CHECK_EQ(found[0].port, told.port);
}

T(by_the_same_session)
{
	struct told told;
	pid_t engine, front;

	begin();
	front = start(TCP6, &told);
	engine = start(NOTHING, NULL);
	use_gpu(ROW, engine);
	look();
	CHECK(found_of(front) && found_of(front)->port == told.port);
}

T(on_a_unix_socket)
{
	pid_t streams, datagrams;

	begin();
	streams = start(UNIX | OWN_SESSION, NULL);
	datagrams = start(DATAGRAMS | OWN_SESSION, NULL);
	use_gpu(ROW, streams);
	use_gpu(ROW + 1, datagrams);
	edge[edges++] = (struct zn_service_edge){(uint32_t)streams, 0}; /* the kernel tells of streams alone */
	look();
	CHECK(found_of(streams) && found_of(streams)->port == 0);
	CHECK(found_of(datagrams) == NULL);
	CHECK_EQ(s.edge_count, 0);
	edges = 0;
	s.swept_ns = 0; /* by the next look he may have stopped */
	look();
	CHECK(found_of(streams) == NULL);
}

/* The kernel's list of Unix sockets shows names as they are. */
T(a_name_that_looks_like_a_socket_which_listens)
{
	pid_t pid;

	begin();
	pid = start(FORGED | OWN_SESSION, NULL);
	use_gpu(ROW, pid);
	look();
	CHECK(found_of(pid) == NULL);
	CHECK(s.swept_ns);
}

/* Each process has a bit of its own, up to the highest number. */
T(processes_that_listen_on_unix_sockets)
{
	const uint32_t pids[] = {1, 63, 64, ZN_SERVICE_PIDS - 1};

	begin();
	use_gpu(ROW, start(NOTHING, NULL));
	for (size_t i = 0; i < ZN_LEN(pids); i++)
		edge[edges++] = (struct zn_service_edge){pids[i], 0};
	look();
	CHECK_EQ(s.on_unix[0], 1ULL << 1 | 1ULL << 63);
	CHECK_EQ(s.on_unix[1], 1);
	CHECK_EQ(s.on_unix[ZN_LEN(s.on_unix) - 1], 1ULL << 63);
}

/* Who is joined with the engine by a Unix socket alone must listen on a port: the system's log does not. */
T(joined_by_a_unix_socket)
{
	pid_t engine, front, log;

	begin();
	engine = start(OWN_SESSION, NULL);
	front = start(TCP | OWN_SESSION, NULL);
	log = start(UNIX | OWN_SESSION, NULL);
	use_gpu(ROW, engine);
	edge[edges++] = (struct zn_service_edge){(uint32_t)engine, (uint32_t)front};
	edge[edges++] = (struct zn_service_edge){(uint32_t)engine, (uint32_t)log};
	edge[edges++] = (struct zn_service_edge){(uint32_t)log, 0};
	look();
	CHECK_EQ(asked, 1);
	CHECK(found_of(front) != NULL);
	CHECK(found_of(log) == NULL);
}

T(a_socket_of_another_user_joins_nobody)
{
	pid_t engine, front;

	begin();
	engine = start(OWN_SESSION, NULL);
	front = start(TCP | OWN_SESSION, NULL);
	use_gpu(ROW, engine);
	memory.arena.procs[ROW].owner = zn_owner_of(engine) + 1;
	edge[edges++] = (struct zn_service_edge){(uint32_t)engine, (uint32_t)front};
	look();
	CHECK(found_of(front) == NULL);
}

/* One process takes its share of the table, and another one still has its own. */
T(a_crowd_of_unix_sockets)
{
	pid_t engine, other, front;

	begin();
	engine = start(OWN_SESSION, NULL);
	other = start(OWN_SESSION, NULL);
	front = start(TCP | OWN_SESSION, NULL);
	use_gpu(ROW, engine);
	use_gpu(ROW + 1, other);
	while (edges < ZN_SERVICE_EDGES)
		edge[edges++] = (struct zn_service_edge){(uint32_t)engine, 1000000 + edges};
	edge[edges++] = (struct zn_service_edge){(uint32_t)other, (uint32_t)front};
	edge[edges++] = (struct zn_service_edge){(uint32_t)other, (uint32_t)front}; /* again: it is there already */
	look();
	CHECK_EQ(s.edge_count, ZN_SERVICE_PEERS + 1);
	CHECK(found_of(front) != NULL);
}

/* It is looked at by itself as soon as it is told of, though all were looked at just now. */
T(who_begins_to_listen)
{
	struct told told;
	pid_t engine, front;

	begin();
	engine = start(NOTHING, NULL);
	use_gpu(ROW, engine);
	look();
	s.again = false;
	front = start(TCP, &told);
	look();
	CHECK(found_of(front) == NULL);
	zn_services_listen(&s, (uint32_t)front);
	look();
	CHECK(found_of(front) && found_of(front)->port == told.port);
}

T(who_is_watched_is_not_found_again)
{
	pid_t engine;

	begin();
	engine = start(TCP | OWN_SESSION, NULL);
	use_gpu(ROW, engine);
	memory.arena.servers[3].tgid = (uint32_t)engine;
	look();
	CHECK_EQ(found_count, 0);
	memory.arena.servers[3].tgid = 0;
	memory.arena.shared->daemon_tgid = (uint32_t)engine;
	zn_services_listen(&s, (uint32_t)engine);
	look();
	CHECK_EQ(found_count, 0);
	memory.arena.shared->daemon_tgid = 0;
	zn_services_listen(&s, (uint32_t)engine);
	zn_services_listen(&s, (uint32_t)engine);
	look();
	CHECK_EQ(found_count, 1);
}

/* More than there is room for, ids of nobody, of the kernel, and of a process that has ended: a few in each look, and
 * none twice. */
T(a_flood_of_ids)
{
	pid_t engine, ended;
	uint32_t looks = 0;

	begin();
	engine = start(TCP, NULL);
	ended = start(TCP, NULL);
	kill(ended, SIGKILL);
	waitpid(ended, NULL, 0);
	use_gpu(ROW, engine);
	for (uint32_t i = 0; i < 4 * ZN_SERVICES_FOUND; i++)
		zn_services_listen(&s, i % 3 == 0 ? (uint32_t)ended : i % 3 == 1 ? UINT32_MAX : 2);
	CHECK_EQ(s.listens_count, 3);
	for (uint32_t i = 0; i < 4 * ZN_SERVICES_FOUND; i++)
		zn_services_listen(&s, UINT32_MAX - i);
	CHECK_EQ(s.listens_count, ZN_SERVICES_FOUND);
	look();
	CHECK(found_of(engine) != NULL);
	for (; s.listens_count && looks < 2 * ZN_SERVICES_FOUND; looks++)
		zn_services_run(&s, UINT64_MAX);
	CHECK(looks > 1 && looks < ZN_SERVICES_FOUND);
	found_count = 0;
	zn_services_take(&s, keep, NULL);
	CHECK(found_of(ended) == NULL);
	CHECK(found_of(2) == NULL);
	children--; /* it was waited for */
}

/* The finder has other work, however fast it is told of sockets that listen. */
T(a_run_ends_whoever_listens_meanwhile)
{
	begin();
	use_gpu(ROW, start(NOTHING, NULL));
	zn_services_listen(&s, UINT32_MAX);
	listens_again = MANY_TIMES;
	zn_services_run(&s, zn_now_ns() + 5 * ZN_NS_PER_MS);
	CHECK(listens_again > MANY_TIMES - 100);
	CHECK(s.listens_count > 0); /* it is heard in the next run */
	listens_again = 0;
}

T(an_odd_name)
{
	pid_t pid;

	begin();
	pid = start(TCP | OWN_SESSION | ODD_NAME, NULL);
	use_gpu(ROW, pid);
	look();
	CHECK(found_of(pid) != NULL);
	CHECK_STR(found[0].comm, "a"); /* up to the end of the line */
}

/* A time that is over ends a look after one name; the next ones go on with it. */
T(a_look_in_many_parts)
{
	pid_t engine;
	uint32_t parts = 0;

	begin();
	engine = start(TCP | OWN_SESSION, NULL);
	use_gpu(ROW, engine);
	found_count = 0;
	do {
		zn_services_run(&s, 0);
		zn_services_take(&s, keep, NULL);
		parts++;
	} while (s.sweeping && parts < 1000000);
	CHECK(parts > 10);
	CHECK(found_of(engine) != NULL);
}

/* The look at all processes is over then, and its folder is not kept open until another GPU is used. */
T(the_last_gpu_process_goes_in_the_middle)
{
	begin();
	use_gpu(ROW, start(TCP | OWN_SESSION, NULL));
	zn_services_run(&s, 0);
	CHECK(s.sweeping && s.dir >= 0);
	memory.arena.shared->row_tgid[ROW] = 0;
	zn_services_run(&s, 0);
	CHECK(!s.sweeping);
	CHECK_EQ(s.dir, -1);
	use_gpu(ROW, child[0]);
	memory.arena.procs[ROW].id++;
	look();
	CHECK(found_of(child[0]) != NULL);
}

/* Where a container's command runs outside a session (its id is 0 there), nobody would share one. */
static void begin_session(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		return;
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		exit(1);
	exit(WEXITSTATUS(status));
}

int main(void)
{
	begin_session();
	RUN(without_a_gpu_nobody_is_looked_at);
	RUN(an_engine_that_listens_itself);
	RUN(a_front_end_and_its_neighbour);
	RUN(by_the_same_session);
	RUN(on_a_unix_socket);
	RUN(a_name_that_looks_like_a_socket_which_listens);
	RUN(processes_that_listen_on_unix_sockets);
	RUN(joined_by_a_unix_socket);
	RUN(a_socket_of_another_user_joins_nobody);
	RUN(a_crowd_of_unix_sockets);
	RUN(who_begins_to_listen);
	RUN(who_is_watched_is_not_found_again);
	RUN(a_flood_of_ids);
	RUN(a_run_ends_whoever_listens_meanwhile);
	RUN(an_odd_name);
	RUN(a_look_in_many_parts);
	RUN(the_last_gpu_process_goes_in_the_middle);
	end();
	return t_end();
}

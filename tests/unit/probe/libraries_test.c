/* SPDX-License-Identifier: GPL-2.0 */
/* libraries_test.c: on whose account a library goes that processes of several users map, and when it is the system's:
 * real ones that this program starts, with a kernel that is made up. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"
#include "descriptors.h"

#define FIRST  61001 /* users */
#define SECOND 61002
#define THIRD  61003
#define BYTES  4096
#define PATH   "/tmp/zn_libraries_XXXXXX/libcuda.so.1"

static struct zn_memory_arena memory;
static struct zn_probe probe;
static struct zn_options options = {.user_libraries = ZN_USER_LIBRARIES_SAFE};
static struct zn_libraries *libraries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The name that the kernel says, and the file's own: no daemon that runs beside this shall look at it. */
static char path[sizeof(PATH)], file[sizeof(path) + 5];

/* ---- In place of attach.c, mappers.c and shadow.c. ---- */

static uint32_t attached, fuse_tgid; /* functions; a process by which the library has to wait */
static uint32_t others = 1;          /* that map it */
static int list_error;
static uint64_t look_ns; /* of a CPU, for a look at who maps it */

void zn_attach_clear(struct zn_lib *lib)
{
	(void)lib;
}

bool zn_attach_undo(struct zn_lib *lib, int steps)
{
	(void)lib, (void)steps;
	attached = 0;
	return true;
}

void zn_attach_read(struct zn_probe *p, struct zn_lib *lib, size_t budget)
{
	(void)p, (void)budget;
	lib->found = 1;
	lib->why[0] = 0;
}

void zn_attach_library(struct zn_probe *p, struct zn_lib *lib)
{
	(void)p, (void)lib;
	attached = 1;
}

uint32_t zn_attach_count(const struct zn_probe *p, const struct zn_lib *lib)
{
	(void)p, (void)lib;
	return attached;
}

bool zn_attach_same(const struct zn_probe *p, const struct zn_lib *lib)
{
	(void)p, (void)lib;
	return true;
}

int zn_fd_keep(int fd)
{
	return fd;
}

void zn_fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int zn_mappers_open(struct zn_mappers *m, const struct zn_probe *p)
{
	(void)p;
	*m = (struct zn_mappers){-1, -1, -1, -1, -1};
	return 0;
}

void zn_mappers_close(struct zn_mappers *m)
{
	(void)m;
}

int zn_mappers_identify(const struct zn_mappers *m, uint32_t tgid, uint64_t start, struct zn_file_id *to)
{
	struct stat st;

	(void)m, (void)tgid, (void)start;
	*to = (struct zn_file_id){.ino = stat(file, &st) ? 0 : st.st_ino, .dev = 1};
	return 0;
}

void zn_mappers_identify_file(const struct zn_mappers *m, int fd, int pid, uint64_t from, struct zn_file_id *to)
{
	struct stat st = {0};

	(void)m, (void)pid, (void)from;
	fstat(fd, &st);
	*to = (struct zn_file_id){.ino = st.st_ino, .dev = 1};
}

int zn_mappers_list(const struct zn_mappers *m, const struct zn_file_id *id, struct zn_mapper_list *to)
{
	uint64_t end_ns = zn_clock_ns(CLOCK_THREAD_CPUTIME_ID) + look_ns;

	(void)m, (void)id;
	*to = (struct zn_mapper_list){.count = list_error ? 0 : others, .fuse_tgid = fuse_tgid, .tgid = {1}};
	while (zn_clock_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		;
	return list_error;
}

uint32_t zn_mappers_blocked(const struct zn_mapper_list *list, uint32_t *tgid)
{
	(void)list, (void)tgid;
	return 0;
}

bool zn_shadow_stack_used(int pid)
{
	(void)pid;
	return false;
}

/* ---- Processes. ---- */

struct mapping {
	pid_t pid;
	uint64_t from;
};

static void live(uint32_t uid, int tell)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED || setresuid(uid, uid, uid) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
		prctl(PR_SET_DUMPABLE, 1) || write(tell, &at, sizeof(at)) != sizeof(at))
		_exit(1);
	for (;;)
		pause();
}

/* A process of a user that maps the library. */
static struct mapping start(uint32_t uid)
{
	struct mapping m;
	int tell[2];
	void *at;

	if (pipe2(tell, O_CLOEXEC))
		abort();
	m.pid = fork();
	if (m.pid == 0)
		live(uid, tell[1]);
	close(tell[1]);
	if (read(tell[0], &at, sizeof(at)) != sizeof(at))
		abort();
	close(tell[0]);
	m.from = (uintptr_t)at;
	return m;
}

static void stop(const struct mapping *m)
{
	kill(m->pid, SIGKILL);
	waitpid(m->pid, NULL, 0);
}

static void take(const struct mapping *m)
{
	CHECK_EQ(
		zn_libraries_take(libraries, m->pid, m->from, m->from + BYTES, (struct zn_str){path, strlen(path)}), 0);
}

static void note_owner(void *to, const struct zn_lib *lib)
{
	*(uint32_t *)to = lib->owner;
}

static uint32_t owner(void)
{
	uint32_t of = 0;

	zn_libraries_visit(libraries, note_owner, &of);
	return of;
}

static void begin(void)
{
	int fd;

	snprintf(path, sizeof(path), PATH);
	*strrchr(path, '/') = 0;
	if (!mkdtemp(path) || chmod(path, 0755))
		abort();
	snprintf(file, sizeof(file), "%s/file", path);
	path[strlen(path)] = '/';
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
	if (fd < 0 || ftruncate(fd, BYTES) || zn_memory_open(&memory))
		abort();
	close(fd);
	probe.arena = memory.arena;
	libraries = zn_libraries_open(&probe, &options, &lock);
}

static void end(void)
{
	zn_libraries_close(libraries);
	zn_memory_close(&memory);
	unlink(file);
	*strrchr(path, '/') = 0;
	rmdir(path);
}

/* Who is not root sees no mappings of others: the test is absent, neither passed nor failed. */
static bool is_root(void)
{
	if (getuid()) {
		printf("absent: %s: it needs root\n", t_name);
		t_name = "";
	}
	return getuid() == 0;
}

T(nobody_maps_a_library)
{
	begin();
	zn_libraries_check(libraries);
	CHECK_EQ(attached, 0);
	CHECK_EQ(zn_libraries_quota(libraries)->used, 0);
	end();
}

/* Who was the first to map a library, and has used up his time, keeps it from nobody else. */
T(a_library_goes_by_the_time_of_whoever_has_some)
{
	struct mapping first, second;

	if (!is_root())
		return;
	begin();
	first = start(FIRST);
	second = start(SECOND);
	fuse_tgid = 1;
	look_ns = 800 * ZN_NS_PER_MS; /* 3 % of a core, of which 20 s were saved up */
	take(&first);
	fuse_tgid = 0;
	look_ns = 0;
	zn_libraries_check(libraries);
	CHECK_EQ(attached, 0); /* it is his alone */
	CHECK_EQ(owner(), FIRST);
	take(&second);
	zn_libraries_check(libraries);
	CHECK_EQ(attached, 1);
	CHECK_EQ(owner(), SECOND);
	CHECK_EQ(zn_libraries_quota(libraries)->used, 1);
	stop(&first);
	stop(&second);
	end();
}

/* A new driver: a user may map it before the linker's cache names it. */
T(what_a_user_brought_becomes_the_systems)
{
	struct mapping user;

	if (!is_root())
		return;
	begin();
	options.user_libraries = ZN_USER_LIBRARIES_NONE;
	zn_libraries_system(libraries);
	attached = 0; /* this machine may have some of its own */
	user = start(THIRD);
	take(&user);
	CHECK_EQ(attached, 0);
	CHECK_EQ(owner(), THIRD);
	snprintf(options.libraries, sizeof(options.libraries), "%s", file);
	zn_libraries_system(libraries);
	zn_libraries_check(libraries);
	CHECK_EQ(attached, 1);
	CHECK_EQ(owner(), ZN_OWNER_ROOT);
	stop(&user);
	end();
	options = (struct zn_options){.user_libraries = ZN_USER_LIBRARIES_SAFE};
}

/* As on a file server that takes root for nobody, until the file's mode is another one. */
T(a_library_that_could_not_be_opened_at_first)
{
	struct mapping user;

	if (!is_root())
		return;
	begin();
	user = start(SECOND);
	CHECK_EQ(seteuid(THIRD), 0); /* who may not look at others */
	take(&user);
	CHECK_EQ(seteuid(0), 0);
	zn_libraries_check(libraries);
	CHECK_EQ(attached, 0);
	take(&user);
	zn_libraries_check(libraries);
	CHECK_EQ(attached, 1);
	CHECK_EQ(zn_libraries_quota(libraries)->used, 1);
	stop(&user);
	end();
}

/* No descriptor was left to open it with: it is counted, and looked for again. */
T(a_library_for_which_no_descriptor_is_left)
{
	struct mapping user;

	if (!is_root())
		return;
	begin();
	user = start(SECOND);
	no_descriptors();
	take(&user);
	descriptors_again();
	CHECK_EQ(memory.arena.shared->lost[ZN_LOST_LIBRARY], 1);
	CHECK(zn_libraries_again(libraries));
	take(&user);
	CHECK_EQ(attached, 1);
	stop(&user);
	end();
}

/* No descriptor was left to ask the kernel with. */
T(a_library_stays_while_it_is_not_known_who_maps_it)
{
	struct mapping user;

	if (!is_root())
		return;
	begin();
	user = start(SECOND);
	take(&user);
	zn_libraries_check(libraries);
	CHECK_EQ(attached, 1);
	stop(&user);
	zn_mapped_check(zn_libraries_mapped(libraries), UINT64_MAX);
	others = 0;
	for (list_error = -EMFILE; list_error <= 0; list_error += EMFILE) {
		zn_libraries_check(libraries);
		zn_libraries_release(libraries, UINT64_MAX);
		zn_libraries_leave(libraries);
		CHECK_EQ(attached, list_error ? 1 : 0);
	}
	list_error = 0;
	others = 1;
	end();
}

static uint32_t mappers(void)
{
	const struct zn_mapped *t = zn_libraries_mapped(libraries);
	uint32_t count = 0;

	for (int i = 0; i < ZN_MAPPED_MAX; i++)
		count += t->by[i].pid > 0;
	return count;
}

/* Without a free descriptor nobody can be asked whether he is still the one who mapped it. */
T(who_maps_a_library_is_known_without_a_descriptor)
{
	struct mapping user;

	if (!is_root())
		return;
	begin();
	user = start(SECOND);
	take(&user);
	no_descriptors();
	CHECK(zn_mapped_check(zn_libraries_mapped(libraries), UINT64_MAX));
	descriptors_again();
	CHECK_EQ(mappers(), 1);
	stop(&user);
	CHECK(zn_mapped_check(zn_libraries_mapped(libraries), UINT64_MAX));
	CHECK_EQ(mappers(), 0);
	end();
}

int main(void)
{
	RUN(nobody_maps_a_library);
	RUN(a_library_goes_by_the_time_of_whoever_has_some);
	RUN(what_a_user_brought_becomes_the_systems);
	RUN(a_library_that_could_not_be_opened_at_first);
	RUN(a_library_for_which_no_descriptor_is_left);
	RUN(a_library_stays_while_it_is_not_known_who_maps_it);
	RUN(who_maps_a_library_is_known_without_a_descriptor);
	return t_end();
}

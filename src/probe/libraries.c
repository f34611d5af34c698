/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libraries.c: the table of libraries: which are hooked, and when. One row for each file as the kernel knows it,
 * through whatever overlay and under whatever name it is mapped.
 *
 * Putting probes on a file, and taking them away, makes fork() of the whole node wait while the kernel waits for a
 * process that maps the file (mappers.c). So the system's own libraries are hooked when the daemon starts, or when a
 * new driver brings them, and stay hooked for as long as they are the system's. Any other file is hooked only while no
 * process that maps it could hold the kernel up: see judge.c. A file that waits is shown with its reason and looked at
 * again each second.
 *
 * All of it runs on the finder's thread, but for what says so.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USER_FILE_BYTES (32 << 20)        /* read of a file that is not root's, at most */
#define RETRIES         4                 /* files that wait and are looked at again in one check */
#define SETTLED_NS      (2 * ZN_NS_PER_S) /* a file that was written over is left alone for so long after */
#define DETACH_STEPS    2    /* probes that go in one round where each is a perf event, which costs some 0.1 s */
#define BARRED_MS       2000 /* who held a change up when it took longer is barred */
#define LIBS_RESERVE    16   /* rows for root's processes alone */
#define OVERWRITTEN     "it was written over while it was in use"

struct zn_libraries {
	struct zn_probe *probe;
	const struct zn_options *options;
	pthread_mutex_t
		*lock; /* over what is shown: lib[].used, ready, mappers; and over what change and mapped share */
	struct zn_judge judge;
	struct zn_quota quota;
	struct zn_lib lib[ZN_LIBS_MAX];
	struct zn_mapped mapped;
	struct zn_change change;
	struct zn_refused_files refused;
	struct zn_file_budget budget;
	uint32_t retry_at;
	uint64_t system_stamp; /* of what named the system's files when they were read last */
};

static void count_lost(struct zn_libraries *l, enum zn_loss what)
{
	__atomic_fetch_add(&l->probe->arena.shared->lost[what], 1, __ATOMIC_RELAXED);
}

/* ---- rows ---- */

/* A file that was written over keeps its inode, but its functions are elsewhere. */
static bool is_changed(const struct zn_lib *lib, const struct stat *st)
{
	return lib->size != (uint64_t)st->st_size || lib->mtime_ns != zn_file_mtime_ns(st);
}

/* By the numbers that stat() shows, which are those of one overlay. */
static struct zn_lib *find_by_name(struct zn_libraries *l, const struct stat *st)
{
	for (int i = 0; i < ZN_LIBS_MAX; i++)
		for (int k = 0; k < ZN_ALIASES && l->lib[i].used; k++)
			if (l->lib[i].alias[k].ino == st->st_ino && l->lib[i].alias[k].dev == st->st_dev)
				return &l->lib[i];
	return NULL;
}

static bool is_same_file(const struct zn_file_id *a, const struct zn_file_id *b)
{
	return a->ino == b->ino && a->dev == b->dev && (!a->inode || !b->inode || a->inode == b->inode);
}

static struct zn_lib *find_by_id(struct zn_libraries *l, const struct zn_file_id *id)
{
	for (int i = 0; i < ZN_LIBS_MAX && id->ino; i++)
		if (l->lib[i].used && is_same_file(&l->lib[i].id, id))
			return &l->lib[i];
	return NULL;
}

static void add_alias(struct zn_lib *lib, const struct stat *st)
{
	lib->alias[lib->alias_next++ % ZN_ALIASES] = (struct zn_alias){st->st_dev, st->st_ino};
}

static void drop_alias(struct zn_lib *lib, const struct stat *st)
{
	for (int k = 0; k < ZN_ALIASES; k++)
		if (lib->alias[k].ino == st->st_ino && lib->alias[k].dev == st->st_dev)
			lib->alias[k] = (struct zn_alias){0};
}

static void publish_ready(struct zn_libraries *l, struct zn_lib *lib, bool ready)
{
	pthread_mutex_lock(l->lock);
	lib->ready = ready;
	pthread_mutex_unlock(l->lock);
}

/* A row for a file, or NULL: the owner has his share. */
static struct zn_lib *claim_row(struct zn_libraries *l, uint32_t owner, struct zn_str path)
{
	struct zn_lib *lib = l->lib;

	while (lib < l->lib + ZN_LIBS_MAX && lib->used)
		lib++;
	if (lib == l->lib + ZN_LIBS_MAX || !zn_quota_take(&l->quota, owner)) {
		count_lost(l, ZN_LOST_LIBRARY);
		return NULL;
	}
	*lib = (struct zn_lib){.used = true, .owner = owner, .fd = -1};
	snprintf(lib->path, sizeof(lib->path), "%.*s", (int)path.len, path.at);
	zn_attach_clear(lib);
	return lib;
}

static void free_row(struct zn_libraries *l, struct zn_lib *lib)
{
	zn_mapped_forget(&l->mapped, lib);
	zn_fd_close(&lib->fd);
	zn_quota_give(&l->quota, lib->owner);
	pthread_mutex_lock(l->lock);
	*lib = (struct zn_lib){.fd = -1};
	pthread_mutex_unlock(l->lock);
}

/* ---- changes of probes, and how long they take ---- */

static void begin_change(struct zn_libraries *l, const struct zn_lib *lib, bool detach)
{
	zn_mappers_list(&l->judge.mappers, &lib->id, &l->judge.who);
	zn_change_begin(&l->change, lib, &l->judge.who, detach);
}

static void end_change(struct zn_libraries *l, const struct zn_lib *lib)
{
	uint64_t took_ms = zn_change_end(&l->change) / ZN_NS_PER_MS;
	const struct zn_hang *h = &l->change.hang;

	if (took_ms < BARRED_MS || !l->probe->multi || h->detach || !h->who.count)
		return;
	zn_log(ZN_WARN, "libraries: attaching to %s took %llu ms; forks of this node may have waited", lib->path,
		(unsigned long long)took_ms);
	zn_judge_bar(&l->judge, h->blocked_tgid);
}

/* True: all are gone. */
static bool detach_probes(struct zn_libraries *l, struct zn_lib *lib, int steps)
{
	uint64_t since_ns = zn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool gone;

	begin_change(l, lib, true);
	gone = zn_attach_undo(lib, steps);
	end_change(l, lib);
	zn_file_budget_charge(&l->budget, lib->owner, since_ns);
	return gone;
}

/* ---- what is hooked ---- */

/* Shows that a file waits, and logs it when that is new. */
static void show_waiting(struct zn_libraries *l, struct zn_lib *lib, const char *why)
{
	bool is_new = !lib->waiting || strcmp(lib->why, why) != 0;

	pthread_mutex_lock(l->lock);
	lib->waiting = lib->ready = true;
	lib->hooked_ns = 0;
	snprintf(lib->why, sizeof(lib->why), "%s", why);
	pthread_mutex_unlock(l->lock);
	if (is_new)
		zn_log(ZN_INFO, "libraries: %s is not hooked: %s", lib->path, why);
}

/* Never again while it is the same. */
static void refuse_library(struct zn_libraries *l, struct zn_lib *lib)
{
	struct stat st;

	if (lib->malformed)
		count_lost(l, ZN_LOST_ELF);
	zn_log(lib->malformed ? ZN_WARN : ZN_INFO, "libraries: %s: %s; not hooked", lib->path, lib->why);
	if (fstat(lib->fd, &st) == 0)
		zn_refused_add(&l->refused, &st);
	free_row(l, lib);
}

/* Its probes go, and come back once nothing speaks against them any more. */
static void drop_probes(struct zn_libraries *l, struct zn_lib *lib, const char *why)
{
	zn_log(ZN_WARN, "libraries: %s: %s; its probes go", lib->path, why);
	publish_ready(l, lib, false);
	lib->changed = lib->leaving = true;
	lib->changed_ns = zn_now_ns();
	zn_mapped_hooked(&l->mapped, lib);
}

/* False: the row is gone, as there is nothing in the file. */
static bool try_hook(struct zn_libraries *l, struct zn_lib *lib)
{
	char why[ZN_TEXT_MAX];

	if (!zn_judge_library(&l->judge, lib, true, why)) {
		show_waiting(l, lib, why);
		return true;
	}
	publish_ready(l, lib, false);
	zn_attach_read(l->probe, lib, lib->owner == ZN_OWNER_ROOT ? ZN_ELF_BUDGET : USER_FILE_BYTES);
	if (lib->malformed || !lib->found) {
		refuse_library(l, lib);
		return false;
	}
	if (!zn_judge_library(&l->judge, lib, false, why)) { /* reading took its time */
		show_waiting(l, lib, why);
		return true;
	}
	begin_change(l, lib, false);
	zn_attach_library(l->probe, lib);
	end_change(l, lib);
	lib->waiting = false;
	zn_mapped_hooked(&l->mapped, lib);
	publish_ready(l, lib, true);
	zn_log(ZN_INFO, "libraries: hooked %u functions of %s", zn_attach_count(l->probe, lib), lib->path);
	if (lib->why[0])
		zn_log(ZN_WARN, "libraries: %s: %s", lib->path, lib->why);
	if (!zn_attach_same(l->probe, lib))
		drop_probes(l, lib, OVERWRITTEN);
	return true;
}

static bool hook_library(struct zn_libraries *l, struct zn_lib *lib)
{
	uint64_t since_ns = zn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint32_t owner = lib->owner;
	bool kept = try_hook(l, lib);

	zn_file_budget_charge(&l->budget, owner, since_ns);
	return kept;
}

/* ---- whose time it takes ---- */

static bool may_pay(void *to, uint32_t owner)
{
	struct zn_libraries *l = to;

	return !zn_judge_barred(&l->judge, owner) && zn_file_budget_left(&l->budget, owner);
}

/* Whether there is time for a file. If its owner has none left, or is barred, it becomes another one's who maps it: who
 * was the first to map a file keeps nobody's work from being measured. */
static bool has_time(struct zn_libraries *l, struct zn_lib *lib)
{
	uint32_t owner;

	if (may_pay(l, lib->owner))
		return true;
	owner = zn_mapped_owner(&l->mapped, lib, may_pay, l);
	if (owner == ZN_UNKNOWN || !zn_quota_take(&l->quota, owner))
		return zn_file_budget_left(&l->budget, lib->owner); /* that he is barred is shown */
	zn_quota_give(&l->quota, lib->owner);
	lib->owner = owner;
	return true;
}

/* ---- files that come ---- */

static void set_file(struct zn_lib *lib, int fd, const struct stat *st)
{
	lib->fd = fd;
	lib->dev = st->st_dev;
	lib->ino = st->st_ino;
	lib->size = st->st_size;
	lib->mtime_ns = zn_file_mtime_ns(st);
	add_alias(lib, st);
}

/* Where a file was seen. */
struct place {
	int pid; /* 0: nowhere */
	uint64_t from;
};

/* Takes over fd. The row of a file that was not met under these numbers; NULL: it is refused. */
static struct zn_lib *meet_file(struct zn_libraries *l, int fd, const struct stat *st, uint32_t owner,
	const struct place *seen, struct zn_str path)
{
	struct zn_file_id id;
	struct zn_lib *lib;

	if (zn_refused_has(&l->refused, st)) {
		close(fd);
		return NULL;
	}
	zn_mappers_identify_file(&l->judge.mappers, fd, seen->pid, seen->from, &id);
	lib = find_by_id(l, &id);
	if (lib && lib->fd < 0) { /* which could not be opened when it was met; it waits, and is judged anew */
		set_file(lib, fd, st);
		return lib;
	}
	if (lib) { /* through another overlay */
		add_alias(lib, st);
		close(fd);
		return lib;
	}
	lib = zn_file_budget_take(&l->budget, owner) ? claim_row(l, owner, path) : NULL;
	if (!lib) {
		close(fd);
		return NULL;
	}
	lib->kept = !seen->pid;
	lib->id = id;
	lib->kind = zn_library_kind(path.at, path.len);
	set_file(lib, fd, st);
	return hook_library(l, lib) ? lib : NULL;
}

/* A file that root may not open: it is on a FUSE file system without allow_other, on one that is mounted in a user
 * namespace, or on one of a server that takes root for nobody. It is shown, not hooked. */
static struct zn_lib *meet_closed(struct zn_libraries *l, int pid, uint64_t from, struct zn_str path)
{
	struct zn_file_id id;
	struct zn_lib *lib;
	char why[ZN_TEXT_MAX];
	uint32_t owner;

	if (zn_mappers_identify(&l->judge.mappers, pid, from, &id))
		return NULL;
	lib = find_by_id(l, &id);
	owner = lib ? lib->owner : zn_owner_of(pid);
	if (lib || !zn_file_budget_take(&l->budget, owner) || !(lib = claim_row(l, owner, path)))
		return lib;
	lib->id = id;
	lib->dev = id.dev;
	lib->ino = id.ino;
	lib->kind = zn_library_kind(path.at, path.len);
	count_lost(l, ZN_LOST_LIBRARY);
	zn_judge_library(&l->judge, lib, false, why);
	show_waiting(l, lib, why);
	return lib;
}

/* It may be too late for the process that comes, but is not for those after it. */
static void guard_shadow_stack(struct zn_libraries *l, struct zn_lib *lib, int pid)
{
	char why[ZN_TEXT_MAX];

	if (!lib->leaving && zn_attach_count(l->probe, lib) && zn_judge_shadow(&l->judge, pid, why))
		drop_probes(l, lib, why);
}

static void come_back(struct zn_libraries *l, struct zn_lib *lib)
{
	if (lib->waiting || lib->changed)
		return; /* check() looks at it */
	if (lib->leaving)
		return; /* leave_library() looks at it */
	if (!zn_attach_count(l->probe, lib) && has_time(l, lib))
		hook_library(l, lib);
}

/* An overlay shows a copy of a file under the numbers that the file had: the copy is another file, and not this
 * one's business. */
static struct zn_lib *find_row(struct zn_libraries *l, const struct stat *st)
{
	struct zn_lib *lib = find_by_name(l, st);
	struct stat own;

	if (!lib || lib->changed || !is_changed(lib, st) || lib->fd < 0 || fstat(lib->fd, &own) ||
		is_changed(lib, &own))
		return lib;
	drop_alias(lib, st);
	return NULL;
}

/* Nothing is known of the file: all processes are looked at once more. */
static int miss_file(struct zn_libraries *l)
{
	count_lost(l, ZN_LOST_LIBRARY);
	l->budget.again = true;
	return 0;
}

int zn_libraries_take(struct zn_libraries *l, int pid, uint64_t from, uint64_t to, struct zn_str path)
{
	struct zn_lib *lib = NULL;
	char name[80];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/map_files/%lx-%lx", pid, from, to);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && (errno == ENOENT || errno == ESRCH))
		return -ENOENT;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return miss_file(l);
	if (fd < 0) {
		lib = meet_closed(l, pid, from, path);
	} else if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
	} else if ((lib = find_row(l, &st))) {
		close(fd);
		if (!lib->changed && !lib->leaving && is_changed(lib, &st))
			drop_probes(l, lib, OVERWRITTEN);
	} else {
		lib = meet_file(l, fd, &st, zn_owner_of(pid), &(struct place){pid, from}, path);
	}
	if (!lib)
		return 0;
	lib->unused_ns = 0;
	guard_shadow_stack(l, lib, pid);
	zn_mapped_note(&l->mapped, pid, lib, from, to);
	come_back(l, lib);
	return 0;
}

/* ---- the system's own ---- */

/* A user may have brought it before; from now on it takes none of his time. */
static void keep_library(struct zn_libraries *l, struct zn_lib *lib)
{
	lib->named = lib->kept = true;
	if (lib->owner == ZN_OWNER_ROOT || !zn_quota_take(&l->quota, ZN_OWNER_ROOT))
		return;
	zn_quota_give(&l->quota, lib->owner);
	lib->owner = ZN_OWNER_ROOT;
}

static void hook_system_file(void *to, const char *path, bool root_only)
{
	struct zn_libraries *l = to;
	struct zn_str name = {path, strlen(path)};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct zn_lib *lib = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || (root_only && st.st_uid != ZN_OWNER_ROOT)) {
		if (!root_only)
			zn_log(ZN_WARN, "libraries: cannot hook %s: %s", path,
				fd < 0 ? strerror(errno) : "no regular file");
		zn_fd_close(&fd);
		return;
	}
	lib = find_row(l, &st);
	if (lib)
		close(fd);
	else
		lib = meet_file(l, fd, &st, ZN_OWNER_ROOT, &(struct place){0}, name);
	if (lib)
		keep_library(l, lib);
}

void zn_libraries_system(struct zn_libraries *l)
{
	uint64_t stamp = zn_system_stamp(l->options); /* before they are read: what changes meanwhile is read again */

	if (stamp == l->system_stamp)
		return;
	l->system_stamp = stamp;
	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++)
		if (lib->used) /* the memory of the others is not taken */
			lib->named = false;
	zn_system_libraries(l->options, hook_system_file, l);
	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++)
		if (lib->used)
			lib->kept &= lib->named;
}

/* ---- from time to time ---- */

/* The file has been the same for a while: it is read anew, or let go if nobody maps it any more. */
static void settle_library(struct zn_libraries *l, struct zn_lib *lib)
{
	struct stat st;

	if (fstat(lib->fd, &st) || zn_now_ns() - lib->changed_ns < SETTLED_NS || !has_time(l, lib))
		return;
	if (is_changed(lib, &st)) {
		lib->size = st.st_size;
		lib->mtime_ns = zn_file_mtime_ns(&st);
		lib->changed_ns = zn_now_ns();
		return;
	}
	lib->changed = false;
	hook_library(l, lib);
}

static void check_changed(struct zn_libraries *l, struct zn_lib *lib)
{
	struct stat st;

	if (lib->changed && !lib->leaving)
		settle_library(l, lib);
	else if (!lib->changed && !lib->waiting && fstat(lib->fd, &st) == 0 && is_changed(lib, &st))
		drop_probes(l, lib, OVERWRITTEN);
}

/* A descriptor of a deleted file keeps its room on the disk, and its file system from being unmounted. */
static void check_deleted(struct zn_lib *lib)
{
	struct stat st;

	if (lib->kept && fstat(lib->fd, &st) == 0 && st.st_nlink == 0)
		lib->kept = false;
}

/* Libraries that wait are tried again, a few in turn. */
static void retry_waiting(struct zn_libraries *l)
{
	int tried = 0;

	for (int n = 0; n < ZN_LIBS_MAX && tried < RETRIES; n++) {
		struct zn_lib *lib = &l->lib[l->retry_at++ % ZN_LIBS_MAX];

		if (!lib->used || lib->leaving || lib->changed || lib->fd < 0)
			continue;
		if (lib->waiting && has_time(l, lib)) {
			tried++;
			hook_library(l, lib);
		}
	}
}

static bool is_wanted(const struct zn_lib *lib)
{
	return lib->mappers || lib->kept;
}

static bool is_unused(const struct zn_lib *lib)
{
	return lib->used && !lib->leaving && !is_wanted(lib);
}

uint64_t zn_libraries_check(struct zn_libraries *l)
{
	uint64_t unused_ns = 0;

	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++) {
		if (!lib->used)
			continue;
		if (lib->fd >= 0) {
			check_changed(l, lib);
			check_deleted(lib);
		}
		if (!is_unused(lib))
			lib->unused_ns = 0;
		else if (!lib->unused_ns)
			lib->unused_ns = zn_now_ns();
		if (lib->unused_ns > unused_ns)
			unused_ns = lib->unused_ns;
	}
	retry_waiting(l);
	zn_mapped_judge(&l->mapped);
	return unused_ns;
}

bool zn_libraries_again(struct zn_libraries *l)
{
	bool again = l->budget.again;

	l->budget.again = false;
	return again;
}

/* No process maps it under a name that we know. A process that maps it under another name could hold up the
 * kernel, so its probes stay until that process ends. */
static void let_go(struct zn_libraries *l, struct zn_lib *lib)
{
	int err = zn_mappers_list(&l->judge.mappers, &lib->id, &l->judge.who);

	lib->unused_ns = 0;
	if (err ? err != -EOPNOTSUPP : l->judge.who.count) /* where it cannot be told for now, it is looked again */
		return;
	publish_ready(l, lib, false);
	lib->leaving = true;
}

void zn_libraries_release(struct zn_libraries *l, uint64_t looked_ns)
{
	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++)
		if (is_unused(lib) && lib->unused_ns && lib->unused_ns < looked_ns)
			let_go(l, lib);
}

bool zn_libraries_has(struct zn_libraries *l, uint32_t dev, uint64_t ino)
{
	const struct zn_lib *lib = find_by_id(l, &(struct zn_file_id){.ino = ino, .dev = dev});

	return lib && !lib->leaving;
}

/* Whether probes may be taken away now. Nobody shall hold up the kernel meanwhile, so they may have to stay for
 * long. */
static bool may_leave(struct zn_libraries *l, struct zn_lib *lib)
{
	char why[ZN_TEXT_MAX];

	if (l->options->user_libraries == ZN_USER_LIBRARIES_ALL || l->judge.mappers.link_fd < 0 ||
		!zn_attach_count(l->probe, lib))
		return true;
	if (zn_now_ns() < lib->retry_ns)
		return false;
	if (!zn_judge_hindrance(&l->judge, lib, true, why))
		return true;
	lib->retry_ns = zn_now_ns() + ZN_NS_PER_S;
	if (!lib->held)
		zn_log(ZN_WARN, "libraries: the probes of %s have to stay: %s", lib->path, why);
	lib->held = true;
	return false;
}

/* Its last probes are gone. */
static void note_left(struct zn_libraries *l, struct zn_lib *lib)
{
	lib->leaving = lib->partly = lib->held = false;
	memset(lib->symbol, ZN_SYM_MISSING, sizeof(lib->symbol));
	if (lib->changed && is_wanted(lib))
		return; /* until it settles */
	if (is_wanted(lib)) {
		hook_library(l, lib);
		return;
	}
	if (!lib->waiting)
		zn_log(ZN_INFO, "libraries: no process maps %s any more; its probes are gone", lib->path);
	free_row(l, lib);
}

static void leave_library(struct zn_libraries *l, struct zn_lib *lib)
{
	if (is_wanted(lib) && !lib->changed && !lib->partly) { /* it is mapped again, or the system's by now */
		lib->leaving = lib->held = false;
		publish_ready(l, lib, true);
		return;
	}
	if (!may_leave(l, lib))
		return;
	lib->partly = true;
	if (detach_probes(l, lib, DETACH_STEPS))
		note_left(l, lib);
}

void zn_libraries_leave(struct zn_libraries *l)
{
	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++)
		if (lib->used && lib->leaving)
			leave_library(l, lib);
}

/* ---- what others see; from any thread ---- */

void zn_libraries_visit(struct zn_libraries *l, void (*visit)(void *to, const struct zn_lib *lib), void *to)
{
	pthread_mutex_lock(l->lock);
	for (int i = 0; i < ZN_LIBS_MAX; i++)
		if (l->lib[i].used && l->lib[i].ready)
			visit(to, &l->lib[i]);
	pthread_mutex_unlock(l->lock);
}

bool zn_libraries_hang(struct zn_libraries *l, struct zn_hang *to)
{
	return zn_change_hang(&l->change, to);
}

int zn_libraries_timer(const struct zn_libraries *l)
{
	return l->change.hang_timer;
}

int zn_libraries_start(struct zn_libraries *l)
{
	return zn_change_start(&l->change);
}

struct zn_mapped *zn_libraries_mapped(struct zn_libraries *l)
{
	return &l->mapped;
}

struct zn_quota *zn_libraries_quota(struct zn_libraries *l)
{
	return &l->quota;
}

const struct zn_mappers *zn_libraries_mappers(const struct zn_libraries *l)
{
	return &l->judge.mappers;
}

/* ---- open and close ---- */

static struct zn_libraries the_libraries; /* large, and there is one daemon in a process */

struct zn_libraries *zn_libraries_open(struct zn_probe *probe, const struct zn_options *options, pthread_mutex_t *lock)
{
	struct zn_libraries *l = &the_libraries;
	int err;

	l->probe = probe;
	l->options = options;
	l->judge.probe = probe;
	l->judge.options = options;
	l->lock = lock;
	l->quota = (struct zn_quota){.size = ZN_LIBS_MAX, .reserve = LIBS_RESERVE};
	zn_mapped_open(&l->mapped, l->lib, probe, options, lock);
	zn_refused_open(&l->refused);
	zn_change_open(&l->change, lock);
	err = zn_mappers_open(&l->judge.mappers, probe);
	if (err && !probe->old) /* on which none is hooked at all */
		zn_log(ZN_WARN,
			"libraries: this kernel does not say which processes map a file: %s; only the system's own are hooked",
			strerror(-err));
	return l;
}

/* What probes are taken away from is mapped by nobody who could hold up the kernel, or the wait is over. */
static bool is_quiet(struct zn_libraries *l, bool say)
{
	char why[ZN_TEXT_MAX];

	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++) {
		if (!lib->used || lib->fd < 0 || !zn_attach_count(l->probe, lib) || l->judge.mappers.link_fd < 0 ||
			!zn_judge_hindrance(&l->judge, lib, true, why))
			continue;
		if (say)
			zn_log(ZN_WARN,
				"libraries: the end waits up to %d s, so that forks of this node do not: %s: %s",
				ZN_QUIET_MS / 1000, lib->path, why);
		return false;
	}
	return true;
}

/* A further signal to stop ends the wait. */
static void wait_for_quiet(struct zn_libraries *l)
{
	struct timespec turn = {.tv_nsec = 100 * ZN_NS_PER_MS};
	uint64_t end_ns = zn_now_ns() + ZN_QUIET_MS * ZN_NS_PER_MS;
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	if (is_quiet(l, true))
		return;
	while (zn_now_ns() < end_ns && !is_quiet(l, false))
		if (sigtimedwait(&stop, NULL, &turn) > 0)
			return;
}

void zn_libraries_close(struct zn_libraries *l)
{
	zn_change_stop(&l->change);
	wait_for_quiet(l);
	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++)
		if (lib->used) {
			zn_attach_undo(lib, INT_MAX);
			free_row(l, lib);
		}
	zn_mappers_close(&l->judge.mappers);
	zn_change_close(&l->change);
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libraries.c: the table of libraries, what may be hooked, and when. One row for each file as the kernel knows it, through
 * whatever overlay and under whatever name it is mapped.
 *
 * Putting probes on a file, and taking them away, makes fork() of the whole node wait while the kernel waits for a process
 * that maps the file (mappers.c). So the system's own libraries are hooked when the daemon starts and stay hooked, and
 * any other file is hooked only while no process that maps it could hold the kernel up: see judge(). A file that waits is
 * shown with its reason and looked at again each second.
 *
 * All of it runs on the finder's thread, but for what says so.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MAPPERS_MAX      4096 /* (process, library) pairs */
#define REFUSED_SETS     2048 /* files that had the right name but nothing to hook: sets of REFUSED_WAYS; a power of two */
#define REFUSED_WAYS     4
#define BUDGETS          256                /* owners whose files are counted; a power of two */
#define FILES_PER_SECOND 8                  /* of one owner, that are read for the first time */
#define OWNER_PERCENT    3                  /* of a core, for files of one owner, in the long run */
#define SAVED_NS         (20 * ZN_NS_PER_S) /* of that share, at most, for many files at one time */
#define DEBT_NS          (30 * ZN_NS_PER_S) /* that one who took more waits, at most */
#define USER_FILE_BYTES  (32 << 20)         /* read of a file that is not root's, at most */
#define RETRIES          4                  /* files that wait and are looked at again in one check */
#define SETTLED_NS       (2 * ZN_NS_PER_S)  /* a file that was written over is left alone for so long after */
#define DETACH_STEPS     2    /* probes that go in one round where each is a perf event, which costs some 0.1 s */
#define HANG_MS          800  /* a change of probes that takes longer hangs */
#define SUSPECT_MS       400  /* one that takes longer may hang: it is looked whom the kernel waits for */
#define WATCH_MS         200  /* between such looks */
#define BARRED_MS        2000 /* who held one up when it took longer is barred */
#define BARRED_MAX       16
#define CACHE_BYTES      (1 << 20) /* of the dynamic linker's cache */
#define LIBS_RESERVE     16        /* rows for root's processes alone */
#define JUDGE_MS         5         /* for that at most, but for the last of them */
#define JUDGED           16        /* processes that map a library which is not hooked, looked at in one check */
#define OVERWRITTEN      "it was written over while it was in use"
#define SHADOWED         "process %u maps it and has a shadow stack, which return probes of this kernel break"
#define SAY_MS           60000 /* between two lines of the log about the same */
/* A library that is hooked this long after a process mapped it, or sooner, was hooked in time: it is a round of the finder, and a
 * driver takes about as long to make a first context. */
#define LATE_NS (250 * ZN_NS_PER_MS)

/* A process that maps a library. Its range is what shows later whether it still does. */
struct mapper {
	int pid; /* 0: free */
	int lib;
	uint32_t owner;       /* of the process */
	uint64_t start_ticks; /* a pid may be used again */
	uint64_t from, to;
	uint64_t since_ns; /* it was not mapped before this moment of CLOCK_BOOTTIME */
	bool partial;      /* it had a GPU open while its library was not hooked: what it holds is not known */
	uint64_t gpus;     /* minor numbers of those that it had open, a bit each */
};

/* Processes of which a mapper is partial. */
struct partials {
	uint32_t pid[MAPPERS_MAX], count;
	uint64_t gpus;
};

struct budget {
	uint32_t owner, files; /* files: in this second */
	uint64_t second;
	uint64_t free_ns; /* from when on another file may take time */
};

struct zn_libraries {
	struct zn_probe *probe;
	const struct zn_options *options;
	pthread_mutex_t *lock; /* over what is shown: lib[].used, ready, mappers, and hang; and over partials */
	struct zn_mappers mappers;
	struct zn_quota quota, mapper_quota;
	struct zn_lib lib[ZN_LIBS_MAX];
	struct mapper mapper[MAPPERS_MAX];
	uint64_t told_ns;         /* when the process at hand mapped the driver's library; 0: no event told */
	struct partials partials; /* for other threads, under the lock */
	bool partials_change;     /* the mappers say otherwise by now */
	uint64_t partials_said_ns;
	uint32_t judge_at;
	uint64_t refused[REFUSED_SETS][REFUSED_WAYS];
	uint32_t refused_next;
	uint64_t seed;
	struct budget budget[BUDGETS];
	uint32_t barred[BARRED_MAX], barred_count; /* owners of processes that made the kernel wait */
	uint32_t retry_at, mapper_at;
	bool again;
	struct zn_hang hang;
	const struct zn_lib *hang_lib;
	struct zn_mapper_list who; /* of the file at hand */
	int hang_timer;
	int watch_timer; /* wakes the watcher */
	pthread_t watcher;
	bool watched, stop;
};

static void lost(struct zn_libraries *l, enum zn_loss what)
{
	__atomic_fetch_add(&l->probe->arena.shared->lost[what], 1, __ATOMIC_RELAXED);
}

int zn_library_kind(const char *path, size_t len)
{
	static const struct {
		const char *prefix;
		enum zn_lib_kind kind;
	} known[] = {
		{"libcuda.so", ZN_LIB_CUDA}, {"libamdhip64.so", ZN_LIB_HIP}, {"libnccl.so", ZN_LIB_NCCL},
		{"librccl.so", ZN_LIB_NCCL}, {"libtorch_cuda.so", ZN_LIB_NCCL}, /* NCCL may be linked into it */
	};
	const char *slash = memrchr(path, '/', len);
	const char *name = slash ? slash + 1 : path;
	size_t left = len - (name - path);

	for (size_t i = 0; i < ZN_LEN(known); i++) {
		size_t n = strlen(known[i].prefix);

		if (left >= n && memcmp(name, known[i].prefix, n) == 0)
			return known[i].kind;
	}
	return -1;
}

static uint64_t mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * ZN_NS_PER_S + st->st_mtim.tv_nsec;
}

/* ---- files that were refused ---- */

/* Of a file that stays the same. 64 bits: of a million files two agree once in ten million tries. With the seed nobody can
 * make a file that agrees with another one. */
static uint64_t fingerprint(const struct zn_libraries *l, const struct stat *st)
{
	const uint64_t part[] = {st->st_dev, st->st_ino, (uint64_t)st->st_size, mtime_ns(st)};
	uint64_t hash = l->seed;

	for (size_t i = 0; i < ZN_LEN(part); i++) {
		hash = (hash ^ part[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash ? hash : 1;
}

static bool was_refused(const struct zn_libraries *l, uint64_t print)
{
	const uint64_t *set = l->refused[print & (REFUSED_SETS - 1)];

	for (int i = 0; i < REFUSED_WAYS; i++)
		if (set[i] == print)
			return true;
	return false;
}

static void remember_refused(struct zn_libraries *l, const struct stat *st)
{
	uint64_t print = fingerprint(l, st);

	if (!was_refused(l, print))
		l->refused[print & (REFUSED_SETS - 1)][l->refused_next++ % REFUSED_WAYS] = print;
}

static struct budget *budget_of(struct zn_libraries *l, uint32_t owner)
{
	struct budget *b = &l->budget[owner * 2654435761u >> 16 & (BUDGETS - 1)];

	if (b->owner != owner)
		*b = (struct budget){.owner = owner, .free_ns = b->free_ns};
	return b;
}

/* Where many processes run, it takes long to see who maps a file. */
static bool has_time(struct zn_libraries *l, uint32_t owner)
{
	return owner == ZN_OWNER_ROOT || budget_of(l, owner)->free_ns <= zn_now_ns();
}

/* What was done for a file since then is on its owner's account. */
static void charge(struct zn_libraries *l, uint32_t owner, uint64_t since_cpu_ns)
{
	struct budget *b = budget_of(l, owner);
	uint64_t now_ns = zn_now_ns(), least_ns = now_ns > SAVED_NS ? now_ns - SAVED_NS : 0;

	b->free_ns = b->free_ns > least_ns ? b->free_ns : least_ns;
	b->free_ns += (zn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - since_cpu_ns) * 100 / OWNER_PERCENT;
	/* Others may have made it long: it takes a look at all memory areas of the node. */
	if (b->free_ns > now_ns + DEBT_NS)
		b->free_ns = now_ns + DEBT_NS;
}

/* Whether a file of this owner may be looked at for the first time; if not, it is found later. */
static bool within_budget(struct zn_libraries *l, uint32_t owner)
{
	struct budget *b = budget_of(l, owner);
	uint64_t second = zn_now_ns() / ZN_NS_PER_S;

	if (b->second != second)
		b->files = 0;
	b->second = second;
	if (owner == ZN_OWNER_ROOT || (has_time(l, owner) && b->files++ < FILES_PER_SECOND))
		return true;
	l->again = true;
	return false;
}

/* ---- rows ---- */

/* A file that was written over keeps its inode, but its functions are elsewhere. */
static bool is_changed(const struct zn_lib *lib, const struct stat *st)
{
	return lib->size != (uint64_t)st->st_size || lib->mtime_ns != mtime_ns(st);
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

static struct zn_lib *find_by_id(struct zn_libraries *l, const struct zn_file_id *id)
{
	for (int i = 0; i < ZN_LIBS_MAX && id->ino; i++)
		if (l->lib[i].used && l->lib[i].id.ino == id->ino && l->lib[i].id.dev == id->dev)
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

static void publish(struct zn_libraries *l, struct zn_lib *lib, bool ready)
{
	pthread_mutex_lock(l->lock);
	lib->ready = ready;
	pthread_mutex_unlock(l->lock);
}

static uint32_t count_attached(const struct zn_libraries *l, const struct zn_lib *lib)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->probe->hook_count; i++)
		n += lib->symbol[i] == ZN_SYM_ATTACHED;
	return n;
}

/* A row for a file, or NULL: the owner has his share. */
static struct zn_lib *claim_row(struct zn_libraries *l, uint32_t owner, struct zn_str path)
{
	struct zn_lib *lib = l->lib;

	while (lib < l->lib + ZN_LIBS_MAX && lib->used)
		lib++;
	if (lib == l->lib + ZN_LIBS_MAX || !zn_quota_take(&l->quota, owner)) {
		lost(l, ZN_LOST_LIBRARY);
		return NULL;
	}
	*lib = (struct zn_lib){.used = true, .owner = owner, .fd = -1};
	snprintf(lib->path, sizeof(lib->path), "%.*s", (int)path.len, path.at);
	zn_attach_clear(lib);
	return lib;
}

static void free_mapper(struct zn_libraries *l, struct mapper *m)
{
	l->partials_change |= m->partial;
	if (m->pid)
		zn_quota_give(&l->mapper_quota, m->owner);
	*m = (struct mapper){0};
}

static void free_row(struct zn_libraries *l, struct zn_lib *lib)
{
	int i = (int)(lib - l->lib);

	for (int m = 0; m < MAPPERS_MAX; m++)
		if (l->mapper[m].pid && l->mapper[m].lib == i)
			free_mapper(l, &l->mapper[m]);
	zn_fd_close(&lib->fd);
	zn_quota_give(&l->quota, lib->owner);
	pthread_mutex_lock(l->lock);
	*lib = (struct zn_lib){.fd = -1};
	pthread_mutex_unlock(l->lock);
}

/* ---- processes whose memory was not seen as a whole ---- */

/* What a process opens after its library was hooked is seen, and it has no memory on a GPU that it has not open. */
static void judge_mapper(struct zn_libraries *l, struct mapper *m)
{
	const struct zn_lib *lib = &l->lib[m->lib];
	uint64_t hooked_ns = lib->hooked_ns ? lib->hooked_ns : zn_clock_ns(CLOCK_BOOTTIME);
	uint64_t majors[ZN_MAJOR_WORDS];

	if (m->partial || lib->kind == ZN_LIB_NCCL || hooked_ns <= m->since_ns + LATE_NS)
		return;
	memcpy(majors, l->probe->arena.shared->gpu_majors, sizeof(majors));
	m->partial = zn_open_gpus(m->pid, majors, l->options->gpu_majors, &m->gpus);
	l->partials_change |= m->partial;
}

/* Its probes were attached just now, or are about to go. */
static void mark_hooked(struct zn_libraries *l, struct zn_lib *lib)
{
	lib->hooked_ns = lib->leaving || !count_attached(l, lib) ? 0 : zn_clock_ns(CLOCK_BOOTTIME);
	for (int i = 0; i < MAPPERS_MAX; i++)
		if (l->mapper[i].pid && &l->lib[l->mapper[i].lib] == lib)
			judge_mapper(l, &l->mapper[i]);
}

/* Those that map a library which waits may open a GPU at any time. */
static void judge_waiting(struct zn_libraries *l)
{
	uint64_t until_ns = zn_now_ns() + JUDGE_MS * ZN_NS_PER_MS;
	int judged = 0;

	for (int n = 0; n < MAPPERS_MAX && judged < JUDGED && zn_now_ns() < until_ns; n++) {
		struct mapper *m = &l->mapper[l->judge_at++ % MAPPERS_MAX];

		if (!m->pid || m->partial || l->lib[m->lib].hooked_ns || l->lib[m->lib].kind == ZN_LIB_NCCL)
			continue;
		judged++;
		judge_mapper(l, m);
	}
}

static void say_partials(struct zn_libraries *l, uint32_t before)
{
	uint64_t now_ns = zn_now_ns();

	if (l->partials.count <= before ||
		(l->partials_said_ns && now_ns - l->partials_said_ns < SAY_MS * ZN_NS_PER_MS))
		return;
	l->partials_said_ns = now_ns;
	zn_log(ZN_INFO,
		"libraries: GPU memory is not known of %u processes, %u among them: they had a GPU open before their library was hooked",
		l->partials.count, l->partials.pid[l->partials.count - 1]);
}

void zn_libraries_tell(struct zn_libraries *l)
{
	uint32_t before = l->partials.count;

	if (!l->partials_change)
		return;
	l->partials_change = false;
	pthread_mutex_lock(l->lock);
	l->partials.count = 0;
	l->partials.gpus = 0;
	for (int i = 0; i < MAPPERS_MAX; i++) {
		if (!l->mapper[i].pid || !l->mapper[i].partial)
			continue;
		l->partials.pid[l->partials.count++] = (uint32_t)l->mapper[i].pid;
		l->partials.gpus |= l->mapper[i].gpus;
	}
	pthread_mutex_unlock(l->lock);
	say_partials(l, before);
}

bool zn_libraries_is_partial(const struct zn_libraries *l, uint32_t pid)
{
	for (uint32_t i = 0; i < l->partials.count; i++)
		if (l->partials.pid[i] == pid)
			return true;
	return false;
}

uint64_t zn_libraries_partial_gpus(const struct zn_libraries *l)
{
	return l->partials.gpus;
}

enum zn_ledger zn_libraries_ledger(const struct zn_libraries *l, int pid)
{
	uint64_t newest_ns = 0;
	bool room = false;

	for (const struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++)
		if (lib->used && lib->kind != ZN_LIB_NCCL && lib->hooked_ns > newest_ns)
			newest_ns = lib->hooked_ns;
	if (zn_start_ns(pid) + LATE_NS >= newest_ns)
		return ZN_LEDGER_WHOLE;
	for (int i = 0; i < MAPPERS_MAX; i++) {
		if (l->mapper[i].pid == pid)
			return ZN_LEDGER_WHOLE; /* or partial, which zn_libraries_is_partial() tells */
		room |= !l->mapper[i].pid;
	}
	return room ? ZN_LEDGER_UNKNOWN : ZN_LEDGER_PARTIAL;
}

/* ---- changes of probes, and how long they take ---- */

static void begin_change(struct zn_libraries *l, const struct zn_lib *lib, bool detach)
{
	struct itimerspec in = {.it_value.tv_nsec = HANG_MS * ZN_NS_PER_MS, .it_interval.tv_sec = 1};
	struct itimerspec watch = {
		.it_value.tv_nsec = SUSPECT_MS * ZN_NS_PER_MS, .it_interval.tv_nsec = WATCH_MS * ZN_NS_PER_MS};

	zn_mappers_list(&l->mappers, &lib->id, &l->who);
	pthread_mutex_lock(l->lock);
	l->hang_lib = lib;
	l->hang = (struct zn_hang){.since_ns = zn_now_ns(), .detach = detach, .tid = gettid(), .who = l->who};
	snprintf(l->hang.path, sizeof(l->hang.path), "%s", lib->path);
	pthread_mutex_unlock(l->lock);
	if (l->hang_timer >= 0)
		timerfd_settime(l->hang_timer, 0, &in, NULL);
	if (l->watched)
		timerfd_settime(l->watch_timer, 0, &watch, NULL);
}

/* The owner of a process that the kernel had to wait for. */
static void bar(struct zn_libraries *l, uint32_t tgid)
{
	uint32_t owner = tgid ? zn_owner_of((int)tgid) : ZN_OWNER_ROOT;

	if (owner != ZN_OWNER_ROOT)
		l->barred[l->barred_count++ % BARRED_MAX] = owner;
}

static void end_change(struct zn_libraries *l, const struct zn_lib *lib)
{
	struct itimerspec off = {0};
	uint64_t took_ms = (zn_now_ns() - l->hang.since_ns) / ZN_NS_PER_MS;

	if (l->hang_timer >= 0)
		timerfd_settime(l->hang_timer, 0, &off, NULL);
	if (l->watched)
		timerfd_settime(l->watch_timer, 0, &off, NULL);
	pthread_mutex_lock(l->lock);
	l->hang.since_ns = 0;
	pthread_mutex_unlock(l->lock);
	if (took_ms < BARRED_MS || !l->probe->multi || l->hang.detach || !l->hang.who.count)
		return;
	zn_log(ZN_WARN, "libraries: attaching to %s took %llu ms; forks of this node may have waited", lib->path,
		(unsigned long long)took_ms);
	bar(l, l->hang.blocked_tgid);
}

/* True: all are gone. */
static bool detach(struct zn_libraries *l, struct zn_lib *lib, int steps)
{
	uint64_t since_ns = zn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool gone;

	begin_change(l, lib, true);
	gone = zn_attach_undo(lib, steps);
	end_change(l, lib);
	charge(l, lib->owner, since_ns);
	return gone;
}

/* ---- what may be hooked ---- */

static bool is_barred(const struct zn_libraries *l, uint32_t owner)
{
	for (uint32_t i = 0; i < l->barred_count && i < BARRED_MAX; i++)
		if (l->barred[i] == owner)
			return true;
	return false;
}

/* Fills why with what speaks against it. The blocked are looked for where there is time for it. */
static bool find_hindrance(struct zn_libraries *l, const struct zn_lib *lib, bool blocked, char why[ZN_TEXT_MAX])
{
	uint32_t tgid = 0, tid;
	int err;

	l->who = (struct zn_mapper_list){0};
	err = zn_mappers_list(&l->mappers, &lib->id, &l->who);
	if (err && !lib->kept) {
		snprintf(why, ZN_TEXT_MAX, "it cannot be told who maps it: %s; see --user-libraries",
			err == -EAGAIN ? "too many memory areas on this node" : strerror(-err));
		return true;
	}
	if (l->who.fuse_tgid) {
		snprintf(why, ZN_TEXT_MAX, "process %u maps it and a file of a user's FUSE file system",
			l->who.fuse_tgid);
		return true;
	}
	if (blocked && (tid = zn_mappers_blocked(&l->who, &tgid))) {
		snprintf(why, ZN_TEXT_MAX, "process %u maps it and its thread %u is blocked in the kernel", tgid, tid);
		return true;
	}
	return false;
}

/* Whether a return probe would kill one of those that were found. */
static bool find_shadow_stack(struct zn_libraries *l, char why[ZN_TEXT_MAX])
{
	for (uint32_t i = 0; i < l->who.count && i < ZN_MAPPERS_MAX; i++)
		if (zn_shadow_stack_forbids(l->probe, (int)l->who.tgid[i])) {
			snprintf(why, ZN_TEXT_MAX, SHADOWED, l->who.tgid[i]);
			return true;
		}
	return false;
}

/* Whether probes may be put on a file now; else why says what it waits for. What users can change is refused by kind, what
 * their processes do by looking. */
static bool judge(struct zn_libraries *l, struct zn_lib *lib, bool blocked, char why[ZN_TEXT_MAX])
{
	enum zn_user_libraries allowed = l->options->user_libraries;

	why[0] = 0;
	if (allowed == ZN_USER_LIBRARIES_ALL && lib->fd >= 0)
		return true;
	if (lib->fd < 0)
		snprintf(why, ZN_TEXT_MAX, "root may not open it: it lies on a file system of a user");
	else if (!lib->kept && allowed == ZN_USER_LIBRARIES_NONE)
		snprintf(why, ZN_TEXT_MAX, "it is not the system's, and --user-libraries is none");
	else if (lib->id.flags & ZN_MAPPING_FUSE)
		snprintf(why, ZN_TEXT_MAX, "it lies on a FUSE file system; see --user-libraries");
	else if (is_barred(l, lib->owner))
		snprintf(why, ZN_TEXT_MAX, "user %u has made the kernel wait before", lib->owner);
	else
		return !find_hindrance(l, lib, blocked, why) && !find_shadow_stack(l, why);
	return false;
}

/* Shows that a file waits, and logs it when that is new. */
static void show_waiting(struct zn_libraries *l, struct zn_lib *lib, const char *why)
{
	bool news = !lib->waiting || strcmp(lib->why, why) != 0;

	pthread_mutex_lock(l->lock);
	lib->waiting = lib->ready = true;
	lib->hooked_ns = 0;
	snprintf(lib->why, sizeof(lib->why), "%s", why);
	pthread_mutex_unlock(l->lock);
	if (news)
		zn_log(ZN_INFO, "libraries: %s is not hooked: %s", lib->path, why);
}

/* Never again while it is the same. */
static void refuse(struct zn_libraries *l, struct zn_lib *lib)
{
	struct stat st;

	if (lib->malformed)
		lost(l, ZN_LOST_ELF);
	zn_log(lib->malformed ? ZN_WARN : ZN_INFO, "libraries: %s: %s; not hooked", lib->path, lib->why);
	if (fstat(lib->fd, &st) == 0)
		remember_refused(l, &st);
	free_row(l, lib);
}

/* Its probes go, and come back once nothing speaks against them any more. */
static void drop_probes(struct zn_libraries *l, struct zn_lib *lib, const char *why)
{
	zn_log(ZN_WARN, "libraries: %s: %s; its probes go", lib->path, why);
	publish(l, lib, false);
	lib->changed = lib->leaving = true;
	lib->changed_ns = zn_now_ns();
	mark_hooked(l, lib);
}

/* False: the row is gone, as there is nothing in the file. */
static bool try_hook(struct zn_libraries *l, struct zn_lib *lib)
{
	char why[ZN_TEXT_MAX];

	if (!judge(l, lib, true, why)) {
		show_waiting(l, lib, why);
		return true;
	}
	publish(l, lib, false);
	zn_attach_read(l->probe, lib, lib->owner == ZN_OWNER_ROOT ? ZN_ELF_BUDGET : USER_FILE_BYTES);
	if (lib->malformed || !lib->found) {
		refuse(l, lib);
		return false;
	}
	if (!judge(l, lib, false, why)) { /* reading took its time */
		show_waiting(l, lib, why);
		return true;
	}
	begin_change(l, lib, false);
	zn_attach_library(l->probe, lib);
	end_change(l, lib);
	lib->waiting = false;
	mark_hooked(l, lib);
	publish(l, lib, true);
	zn_log(ZN_INFO, "libraries: hooked %u functions of %s", count_attached(l, lib), lib->path);
	if (lib->why[0])
		zn_log(ZN_WARN, "libraries: %s: %s", lib->path, lib->why);
	if (!zn_attach_same(l->probe, lib))
		drop_probes(l, lib, OVERWRITTEN);
	return true;
}

static bool hook(struct zn_libraries *l, struct zn_lib *lib)
{
	uint64_t since_ns = zn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint32_t owner = lib->owner;
	bool kept = try_hook(l, lib);

	charge(l, owner, since_ns);
	return kept;
}

/* ---- files that come ---- */

static void set_file(struct zn_lib *lib, int fd, const struct stat *st)
{
	lib->fd = fd;
	lib->dev = st->st_dev;
	lib->ino = st->st_ino;
	lib->size = st->st_size;
	lib->mtime_ns = mtime_ns(st);
	add_alias(lib, st);
}

/* Where a file was seen. */
struct place {
	int pid; /* 0: nowhere */
	uint64_t from;
};

/* One that does not answer is taken for FUSE. */
static uint64_t file_system_of(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) ? FUSE_SUPER_MAGIC : (uint64_t)fs.f_type;
}

/* Where the kernel does not tell its own numbers those of stat() must do: right for all but overlays, where stat() invents
 * some. A file whose server may not answer is not mapped by this process, whose memory would be locked meanwhile. */
static void identify(
	const struct zn_libraries *l, int fd, const struct stat *st, const struct place *seen, struct zn_file_id *id)
{
	uint64_t type = file_system_of(fd);
	bool remote = type == FUSE_SUPER_MAGIC || type == NFS_SUPER_MAGIC;
	int err = seen->pid && remote ? zn_mappers_identify(&l->mappers, (uint32_t)seen->pid, seen->from, id)
				      : zn_mappers_identify_file(&l->mappers, fd, id);

	if (err)
		*id = (struct zn_file_id){.ino = st->st_ino,
			.dev = (uint32_t)(major(st->st_dev) << 20 | minor(st->st_dev)),
			.flags = type == FUSE_SUPER_MAGIC ? ZN_MAPPING_FUSE : 0};
}

/* Takes over fd. The row of a file that was not met under these numbers; NULL: it is refused. */
static struct zn_lib *meet_file(struct zn_libraries *l, int fd, const struct stat *st, uint32_t owner,
	const struct place *seen, struct zn_str path)
{
	struct zn_file_id id;
	struct zn_lib *lib;

	if (was_refused(l, fingerprint(l, st))) {
		close(fd);
		return NULL;
	}
	identify(l, fd, st, seen, &id);
	lib = find_by_id(l, &id);
	if (lib) { /* through another overlay */
		add_alias(lib, st);
		close(fd);
		return lib;
	}
	lib = within_budget(l, owner) ? claim_row(l, owner, path) : NULL;
	if (!lib) {
		close(fd);
		return NULL;
	}
	lib->kept = !seen->pid;
	lib->id = id;
	lib->kind = zn_library_kind(path.at, path.len);
	set_file(lib, fd, st);
	return hook(l, lib) ? lib : NULL;
}

/* A file that root may not open: of a FUSE file system without allow_other, or one that is mounted in a user namespace. It
 * is shown, not hooked. */
static struct zn_lib *meet_closed(struct zn_libraries *l, int pid, uint64_t from, struct zn_str path)
{
	struct zn_file_id id;
	struct zn_lib *lib;
	char why[ZN_TEXT_MAX];
	uint32_t owner;

	if (zn_mappers_identify(&l->mappers, pid, from, &id))
		return NULL;
	lib = find_by_id(l, &id);
	owner = lib ? lib->owner : zn_owner_of(pid);
	if (lib || !within_budget(l, owner) || !(lib = claim_row(l, owner, path)))
		return lib;
	lib->id = id;
	lib->dev = id.dev;
	lib->ino = id.ino;
	lib->kind = zn_library_kind(path.at, path.len);
	lost(l, ZN_LOST_LIBRARY);
	judge(l, lib, false, why);
	show_waiting(l, lib, why);
	return lib;
}

static struct mapper *find_mapper(struct zn_libraries *l, int pid, int lib)
{
	for (int i = 0; i < MAPPERS_MAX; i++)
		if (l->mapper[i].pid == pid && l->mapper[i].lib == lib)
			return &l->mapper[i];
	return NULL;
}

static bool still_maps(const struct mapper *m)
{
	char path[80];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", m->pid, m->from, m->to);
	return lstat(path, &st) == 0 || errno == EACCES || errno == EPERM;
}

/* False: another process has its id by now, or another program runs in it, which has mapped the library anew. */
static bool is_same(const struct zn_libraries *l, const struct mapper *m, uint64_t ticks, uint64_t from)
{
	return m->start_ticks == ticks && (m->from == from || !l->told_ns || still_maps(m));
}

/* It may be too late for the process that comes, but is not for those after it. */
static void guard_shadow_stack(struct zn_libraries *l, struct zn_lib *lib, int pid)
{
	char why[ZN_TEXT_MAX];

	if (lib->leaving || !count_attached(l, lib) || !zn_shadow_stack_forbids(l->probe, pid))
		return;
	snprintf(why, sizeof(why), SHADOWED, (unsigned)pid);
	drop_probes(l, lib, why);
}

/* A place for one more, of the process's owner. NULL: he has his share. */
static struct mapper *claim_mapper(struct zn_libraries *l, int pid, struct zn_lib *lib)
{
	uint32_t owner = zn_owner_of(pid);
	struct mapper *m = find_mapper(l, 0, 0);

	if (!m || !zn_quota_take(&l->mapper_quota, owner))
		return NULL;
	m->owner = owner;
	lib->mappers++;
	return m;
}

/* Without a place for its mapper a library is taken for unused, and the kernel is asked before it is let go. */
static void note_mapper(struct zn_libraries *l, int pid, struct zn_lib *lib, uint64_t from, uint64_t to)
{
	int i = (int)(lib - l->lib);
	struct mapper *m = find_mapper(l, pid, i);
	uint64_t ticks = zn_start_ticks(pid);

	lib->unused_ns = 0;
	guard_shadow_stack(l, lib, pid);
	if (m && is_same(l, m, ticks, from)) {
		m->from = from;
		m->to = to;
		return;
	}
	if (!m)
		m = claim_mapper(l, pid, lib);
	if (!m)
		return;
	l->partials_change |= m->partial;
	*m = (struct mapper){.pid = pid, .lib = i, .owner = m->owner, .start_ticks = ticks, .from = from, .to = to};
	m->since_ns = l->told_ns ? l->told_ns : zn_start_ns(pid);
	judge_mapper(l, m);
}

static void come_back(struct zn_libraries *l, struct zn_lib *lib)
{
	if (lib->waiting || lib->changed)
		return; /* check() looks at it */
	if (lib->leaving)
		return; /* leave() looks at it */
	if (!count_attached(l, lib) && has_time(l, lib->owner))
		hook(l, lib);
}

void zn_libraries_process(struct zn_libraries *l, uint64_t told_ns)
{
	l->told_ns = told_ns;
}

/* An overlay shows a copy of a file under the numbers that the file had: the copy is another file, and not this one's business. */
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
	note_mapper(l, pid, lib, from, to);
	come_back(l, lib);
	return 0;
}

/* ---- the system's own ---- */

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
	if (find_by_name(l, &st))
		close(fd);
	else
		lib = meet_file(l, fd, &st, ZN_OWNER_ROOT, &(struct place){0}, name);
	if (lib)
		lib->kept = true;
}

/* The dynamic linker's cache as glibc 2.2 and later write it (sysdeps/generic/dl-cache.h): a header, entries, strings. */
struct cache_header {
	char magic[20];
	uint32_t count, string_bytes, unused[5];
};
struct cache_entry {
	uint32_t flags, key, value, os;
	uint64_t hwcap;
};

/* Those of its entries that have one of our names. Offsets are from the header on. */
static void visit_cached(const char *at, size_t len, zn_library_visit *visit, void *to)
{
	const struct cache_header *h = (const void *)at;
	const struct cache_entry *e = (const void *)(at + sizeof(*h));

	for (uint32_t i = 0; i < h->count && (i + 1) * sizeof(*e) + sizeof(*h) <= len; i++) {
		size_t value = e[i].value;
		size_t n = value < len ? strnlen(at + value, len - value) : 0;

		if (n && value + n < len && zn_library_kind(at + value, n) >= 0)
			visit(to, at + value, true);
	}
}

static void visit_cache(zn_library_visit *visit, void *to)
{
	static char cache[CACHE_BYTES];
	static const char magic[] = "glibc-ld.so.cache1.1";
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, cache, sizeof(cache));
	const char *at;

	if (fd >= 0)
		close(fd);
	at = n > 0 ? memmem(cache, n, magic, sizeof(magic) - 1) : NULL; /* an older form may stand before it */
	if (at && (at - cache) % 4 == 0 && cache + n - at >= (ssize_t)sizeof(struct cache_header))
		visit_cached(at, cache + n - at, visit, to);
}

void zn_libraries_each_system(const struct zn_options *options, zn_library_visit *visit, void *to)
{
	char list[sizeof(options->libraries)], *at, *save = NULL;

	snprintf(list, sizeof(list), "%s", options->libraries);
	for (at = strtok_r(list, ",", &save); at; at = strtok_r(NULL, ",", &save))
		visit(to, at, false);
	visit_cache(visit, to);
}

void zn_libraries_system(struct zn_libraries *l)
{
	zn_libraries_each_system(l->options, hook_system_file, l);
}

/* ---- from time to time ---- */

bool zn_libraries_mappers(struct zn_libraries *l, uint64_t until_ns)
{
	for (; l->mapper_at < MAPPERS_MAX; l->mapper_at++) {
		struct mapper *m = &l->mapper[l->mapper_at];

		if (!m->pid)
			continue;
		if (zn_now_ns() > until_ns)
			return false;
		if (still_maps(m) && zn_start_ticks(m->pid) == m->start_ticks)
			continue;
		l->lib[m->lib].mappers--;
		free_mapper(l, m);
	}
	l->mapper_at = 0;
	return true;
}

/* The file has been the same for a while: it is read anew, or let go if nobody maps it any more. */
static void settle(struct zn_libraries *l, struct zn_lib *lib)
{
	struct stat st;

	if (fstat(lib->fd, &st) || zn_now_ns() - lib->changed_ns < SETTLED_NS || !has_time(l, lib->owner))
		return;
	if (is_changed(lib, &st)) {
		lib->size = st.st_size;
		lib->mtime_ns = mtime_ns(&st);
		lib->changed_ns = zn_now_ns();
		return;
	}
	lib->changed = false;
	hook(l, lib);
}

static void check_changed(struct zn_libraries *l, struct zn_lib *lib)
{
	struct stat st;

	if (lib->changed && !lib->leaving)
		settle(l, lib);
	else if (!lib->changed && !lib->waiting && fstat(lib->fd, &st) == 0 && is_changed(lib, &st))
		drop_probes(l, lib, OVERWRITTEN);
}

/* Those that wait are tried again, a few in turn. */
static void retry_waiting(struct zn_libraries *l)
{
	int tried = 0;

	for (int n = 0; n < ZN_LIBS_MAX && tried < RETRIES; n++) {
		struct zn_lib *lib = &l->lib[l->retry_at++ % ZN_LIBS_MAX];

		if (!lib->used || lib->leaving || lib->changed || lib->fd < 0)
			continue;
		if (lib->waiting && has_time(l, lib->owner)) {
			tried++;
			hook(l, lib);
		}
	}
}

static bool is_unused(const struct zn_lib *lib)
{
	return lib->used && !lib->kept && !lib->leaving && lib->mappers == 0;
}

uint64_t zn_libraries_check(struct zn_libraries *l)
{
	uint64_t unused_ns = 0;

	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++) {
		if (lib->used && lib->fd >= 0)
			check_changed(l, lib);
		if (!is_unused(lib))
			lib->unused_ns = 0;
		else if (!lib->unused_ns)
			lib->unused_ns = zn_now_ns();
		if (lib->unused_ns > unused_ns)
			unused_ns = lib->unused_ns;
	}
	retry_waiting(l);
	judge_waiting(l);
	return unused_ns;
}

bool zn_libraries_again(struct zn_libraries *l)
{
	bool again = l->again;

	l->again = false;
	return again;
}

/* Nobody maps it under a name of ours. Who maps it under another one could hold up the kernel, so it stays until he goes. */
static void let_go(struct zn_libraries *l, struct zn_lib *lib)
{
	lib->unused_ns = 0;
	if (zn_mappers_list(&l->mappers, &lib->id, &l->who) == 0 && l->who.count)
		return;
	publish(l, lib, false);
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

/* Whether probes may be taken away now. Nobody shall hold up the kernel meanwhile, so they may have to stay for long. */
static bool may_leave(struct zn_libraries *l, struct zn_lib *lib)
{
	char why[ZN_TEXT_MAX];

	if (l->options->user_libraries == ZN_USER_LIBRARIES_ALL || l->mappers.link_fd < 0 || !count_attached(l, lib))
		return true;
	if (zn_now_ns() < lib->retry_ns)
		return false;
	if (!find_hindrance(l, lib, true, why))
		return true;
	lib->retry_ns = zn_now_ns() + ZN_NS_PER_S;
	if (!lib->held)
		zn_log(ZN_WARN, "libraries: the probes of %s have to stay: %s", lib->path, why);
	lib->held = true;
	return false;
}

/* Its last probes are gone. */
static void left(struct zn_libraries *l, struct zn_lib *lib)
{
	lib->leaving = lib->partly = lib->held = false;
	memset(lib->symbol, ZN_SYM_MISSING, sizeof(lib->symbol));
	if (lib->changed && (lib->mappers || lib->kept))
		return; /* until it settles */
	if (lib->mappers) {
		hook(l, lib);
		return;
	}
	if (!lib->waiting)
		zn_log(ZN_INFO, "libraries: no process maps %s any more; its probes are gone", lib->path);
	free_row(l, lib);
}

static void leave(struct zn_libraries *l, struct zn_lib *lib)
{
	if (lib->mappers && !lib->changed && !lib->partly) { /* it is mapped again */
		lib->leaving = lib->held = false;
		publish(l, lib, true);
		return;
	}
	if (!may_leave(l, lib))
		return;
	lib->partly = true;
	if (detach(l, lib, DETACH_STEPS))
		left(l, lib);
}

void zn_libraries_leave(struct zn_libraries *l)
{
	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++)
		if (lib->used && lib->leaving)
			leave(l, lib);
}

/* ---- what others see; from any thread ---- */

bool zn_libraries_hang(struct zn_libraries *l, struct zn_hang *to)
{
	uint64_t step_ns;

	pthread_mutex_lock(l->lock);
	*to = l->hang;
	step_ns = l->hang_lib ? __atomic_load_n(&l->hang_lib->step_ns, __ATOMIC_RELAXED) : 0;
	pthread_mutex_unlock(l->lock);
	if (to->since_ns && step_ns > to->since_ns) /* before 6.6 there are many steps, and none of them hangs */
		to->since_ns = step_ns;
	/* Without a process that maps the file, or while the change itself runs, the kernel waits for nobody: it is slow. */
	return to->since_ns && to->who.count && !to->runs && zn_now_ns() - to->since_ns >= HANG_MS * ZN_NS_PER_MS;
}

void zn_libraries_visit(struct zn_libraries *l, void (*visit)(void *to, const struct zn_lib *lib), void *to)
{
	pthread_mutex_lock(l->lock);
	for (int i = 0; i < ZN_LIBS_MAX; i++)
		if (l->lib[i].used && l->lib[i].ready)
			visit(to, &l->lib[i]);
	pthread_mutex_unlock(l->lock);
}

struct zn_quota *zn_libraries_quota(struct zn_libraries *l)
{
	return &l->quota;
}

/* ---- open and close ---- */

static struct zn_libraries the_libraries; /* large, and there is one daemon in a process */

struct zn_libraries *zn_libraries_open(struct zn_probe *probe, const struct zn_options *options, pthread_mutex_t *lock)
{
	struct zn_libraries *l = &the_libraries;
	int err;

	l->probe = probe;
	l->options = options;
	l->lock = lock;
	l->quota = (struct zn_quota){.size = ZN_LIBS_MAX, .reserve = LIBS_RESERVE};
	l->mapper_quota = (struct zn_quota){.size = MAPPERS_MAX, .reserve = MAPPERS_MAX / 16};
	if (getrandom(&l->seed, sizeof(l->seed), 0) < 0)
		l->seed = zn_now_ns();
	for (int i = 0; i < ZN_LIBS_MAX; i++)
		l->lib[i].fd = -1;
	l->hang_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	err = zn_mappers_open(&l->mappers, probe);
	if (err)
		zn_log(ZN_WARN,
			"libraries: this kernel cannot tell who maps a file: %s; only the system's own are hooked",
			strerror(-err));
	return l;
}

int zn_libraries_timer(const struct zn_libraries *l)
{
	return l->hang_timer;
}

/* What probes are taken away from is mapped by nobody who could hold up the kernel, or the wait is over. */
static bool is_quiet(struct zn_libraries *l, bool say)
{
	char why[ZN_TEXT_MAX];

	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++) {
		if (!lib->used || lib->fd < 0 || !count_attached(l, lib) || l->mappers.link_fd < 0 ||
			!find_hindrance(l, lib, true, why))
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

/* ---- the watcher ---- */

/* Whether a thread of this process is on a CPU, or waits for one. */
static bool thread_runs(pid_t tid)
{
	char path[40], text[256] = "", *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	end = n > 0 ? strrchr(text, ')') : NULL;
	return end && end[1] == ' ' && end[2] == 'R';
}

/* Whether the kernel waits, and for whom. */
static void watch_change(struct zn_libraries *l)
{
	uint32_t tgid = 0;
	struct zn_hang h;
	bool runs;

	pthread_mutex_lock(l->lock);
	h = l->hang;
	pthread_mutex_unlock(l->lock);
	if (!h.since_ns)
		return;
	runs = thread_runs(h.tid);
	pthread_mutex_lock(l->lock);
	if (l->hang.since_ns == h.since_ns)
		l->hang.runs = runs;
	pthread_mutex_unlock(l->lock);
	if (runs || !zn_mappers_blocked(&h.who, &tgid))
		return;
	pthread_mutex_lock(l->lock);
	if (l->hang.since_ns == h.since_ns)
		l->hang.blocked_tgid = tgid;
	pthread_mutex_unlock(l->lock);
}

/* The finder hangs itself then, and the loop is not told where others sleep (zn_sandbox_loop()). */
static void *watch(void *arg)
{
	struct zn_libraries *l = arg;
	uint64_t times;

	while (read(l->watch_timer, &times, sizeof(times)) > 0 && !__atomic_load_n(&l->stop, __ATOMIC_ACQUIRE))
		watch_change(l);
	return NULL;
}

int zn_libraries_start(struct zn_libraries *l)
{
	int err;

	l->watch_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (l->watch_timer < 0)
		return -errno;
	err = -pthread_create(&l->watcher, NULL, watch, l);
	l->watched = err == 0;
	return err;
}

static void stop_watcher(struct zn_libraries *l)
{
	struct itimerspec now = {.it_value.tv_nsec = 1};

	__atomic_store_n(&l->stop, true, __ATOMIC_RELEASE);
	timerfd_settime(l->watch_timer, 0, &now, NULL);
	pthread_join(l->watcher, NULL);
	l->watched = l->stop = false;
	zn_fd_close(&l->watch_timer);
}

void zn_libraries_close(struct zn_libraries *l)
{
	if (l->watched)
		stop_watcher(l);
	wait_for_quiet(l);
	for (struct zn_lib *lib = l->lib; lib < l->lib + ZN_LIBS_MAX; lib++)
		if (lib->used) {
			zn_attach_undo(lib, INT_MAX);
			free_row(l, lib);
		}
	zn_mappers_close(&l->mappers);
	zn_fd_close(&l->hang_timer);
}

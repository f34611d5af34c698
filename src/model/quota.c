/* SPDX-License-Identifier: GPL-2.0 */
/*
 * quota.c: what the log says of owners who have their share of a table, and whose a process is. The shares themselves
 * are struct zn_quota of zernel.h, which BPF programs use too.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"

#define TELL_NS     (60 * ZN_NS_PER_S)
#define NOBODY      65534u
#define NESTING_MAX 33 /* user namespaces inside one another: the kernel allows 32 (kernel/user_namespace.c) */

/* The owner whose refusals are to be logged; false: none, or not yet. */
static bool must_log(struct zn_quota *q, uint64_t now_ns, uint32_t *owner)
{
	*owner = __atomic_load_n(&q->refused_owner, __ATOMIC_RELAXED) - 1;
	return *owner != ZN_OWNER_NONE && (q->logged_ns == 0 || now_ns - q->logged_ns >= TELL_NS);
}

static void log_refused(struct zn_quota *q, const char *table, const char *who, uint32_t owner, uint64_t now_ns)
{
	uint64_t refused = __atomic_load_n(&q->refused, __ATOMIC_RELAXED);

	__atomic_store_n(&q->refused_owner, 0, __ATOMIC_RELAXED);
	zn_log(ZN_WARN,
		"quota: %s: %llu refused, the last one to %s, who holds %d of %u; what was refused is not shown", table,
		(unsigned long long)(refused - q->logged_refused), who, zn_quota_owner(q, owner)->held, q->size);
	q->logged_ns = now_ns;
	q->logged_refused = refused;
}

/* A user, or a job by its name, or by its slot where its name cannot be had. a: NULL, or what knows the jobs. */
static void owner_name(struct zn_arena *a, uint32_t owner, char name[32])
{
	uint32_t slot = owner - ZN_OWNER_JOB(0);
	const struct zn_job_shared *job = a ? zn_arena_job(a, slot) : NULL; /* it maps the job's page */

	if (owner < ZN_OWNER_JOB(0))
		snprintf(name, 32, "user %u", owner);
	else if (slot == ZN_JOBS_MAX)
		snprintf(name, 32, "a job that has been forgotten");
	else if (job && job->name[0])
		snprintf(name, 32, "job %.*s", ZN_JOB_NAME, job->name);
	else
		snprintf(name, 32, "the job in slot %u", slot);
}

static void tell_of(struct zn_quota *q, const char *table, struct zn_arena *a, uint64_t now_ns)
{
	uint32_t owner;
	char name[32];

	if (!must_log(q, now_ns, &owner))
		return;
	owner_name(a, owner, name);
	log_refused(q, table, name, owner, now_ns);
}

void zn_quota_tell(struct zn_quota *q, const char *table, uint64_t now_ns)
{
	tell_of(q, table, NULL, now_ns);
}

void zn_quotas_tell(struct zn_arena *a, uint64_t now_ns)
{
	static const char *const label[] = {
#define X(e, table, loss) table,
		ZN_QUOTAS(X)
#undef X
	};

	for (enum zn_quota_table t = 0; t < ZN_QUOTA_COUNT; t++)
		tell_of(&a->shared->quota[t], label[t], a, now_ns);
}

void zn_quotas_forget_job(struct zn_shared *s, uint32_t slot)
{
	for (enum zn_quota_table t = 0; t < ZN_QUOTA_COUNT; t++) {
		uint32_t refused = ZN_OWNER_JOB(slot) + 1;

		__atomic_compare_exchange_n(&s->quota[t].refused_owner, &refused, ZN_OWNER_JOB(ZN_JOBS_MAX) + 1, false,
			__ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

uint32_t zn_quota_at(struct zn_quota *q, uint32_t owner)
{
	const struct zn_quota_owner *o = zn_quota_owner(q, owner);

	return o == &q->rest ? ZN_QUOTA_OWNERS : (uint32_t)(o - q->row);
}

void zn_quota_correct(struct zn_quota *q, const int32_t held[ZN_QUOTA_OWNERS + 1], int32_t before[ZN_QUOTA_OWNERS + 1])
{
	for (uint32_t i = 0; i <= ZN_QUOTA_OWNERS; i++) {
		struct zn_quota_owner *o = i < ZN_QUOTA_OWNERS ? &q->row[i] : &q->rest;
		int32_t differs = held[i] - __atomic_load_n(&o->held, __ATOMIC_RELAXED);

		if (differs && differs == before[i]) {
			__atomic_fetch_add(&o->held, differs, __ATOMIC_RELAXED);
			__atomic_fetch_add(&q->used, differs, __ATOMIC_RELAXED);
			differs = 0;
		}
		before[i] = differs;
	}
}

/* From "Uid:" in status. The name above it is hostile, but has no line of its own: the kernel escapes line feeds
 * in it. */
uint32_t zn_uid_of(int pid)
{
	char path[32], text[1024];
	const char *at;
	unsigned uid;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, "\nUid:\t");
	return at && sscanf(at, "\nUid:\t%u", &uid) == 1 ? uid : ZN_UNKNOWN;
}

/* Takes over a descriptor of a user namespace. The owner of the outermost one that is not root's, or uid, or its range.
 * NS_GET_PARENT fails at the daemon's own namespace, which is where to stop (ioctl_ns(2)). */
static uint32_t outermost_owner(int ns, uint32_t uid)
{
	uid_t owner = ZN_OWNER_NONE; /* of the outermost one */

	for (int depth = 0; ns >= 0 && depth < NESTING_MAX; depth++) {
		int parent = ioctl(ns, NS_GET_PARENT);

		if (parent >= 0 && ioctl(ns, NS_GET_OWNER_UID, &owner) == 0 && owner != ZN_OWNER_ROOT)
			uid = owner;
		close(ns);
		ns = parent;
	}
	if (ns >= 0)
		close(ns);
	return owner == ZN_OWNER_ROOT ? ZN_OWNER_RANGE(uid) : uid;
}

/* 1, 0, or -errno: it cannot be looked at. */
static int is_own_namespace(const char *path)
{
	struct stat own, other;

	if (stat("/proc/self/ns/user", &own) || stat(path, &other))
		return -errno;
	return own.st_ino == other.st_ino && own.st_dev == other.st_dev;
}

/* -EACCES: this thread may not look at the process's namespace; *owner is its user then. */
static int look_for_owner(int pid, uint32_t *owner)
{
	char path[40];
	int own;

	*owner = zn_uid_of(pid);
	if (*owner == ZN_UNKNOWN)
		*owner = NOBODY;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	own = is_own_namespace(path);
	if (own == 0)
		*owner = outermost_owner(open(path, O_RDONLY | O_CLOEXEC), *owner);
	return own < 0 ? own : 0;
}

/* ---- for the loop, which may look at nobody's namespaces: another thread does it, and nothing that can block ---- */

static struct {
	pthread_mutex_t asking; /* one question at a time */
	pthread_mutex_t lock;   /* over what follows */
	pthread_cond_t changed;
	bool runs, open; /* open: a question without an answer */
	int pid;
	uint32_t owner;
} clerk = {.asking = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *answer_questions(void *unused)
{
	pthread_mutex_lock(&clerk.lock);
	for (;;) {
		while (!clerk.open)
			pthread_cond_wait(&clerk.changed, &clerk.lock);
		look_for_owner(clerk.pid, &clerk.owner);
		clerk.open = false;
		pthread_cond_broadcast(&clerk.changed);
	}
	return unused;
}

static uint32_t ask_clerk(int pid)
{
	uint32_t owner;

	pthread_mutex_lock(&clerk.asking);
	pthread_mutex_lock(&clerk.lock);
	clerk.pid = pid;
	clerk.open = true;
	pthread_cond_broadcast(&clerk.changed);
	while (clerk.open)
		pthread_cond_wait(&clerk.changed, &clerk.lock);
	owner = clerk.owner;
	pthread_mutex_unlock(&clerk.lock);
	pthread_mutex_unlock(&clerk.asking);
	return owner;
}

int zn_owner_start(void)
{
	pthread_t thread;
	int err = zn_pages_thread(&thread, answer_questions, NULL);

	clerk.runs = err == 0;
	return err;
}

uint32_t zn_owner_of(int pid)
{
	uint32_t owner;

	return look_for_owner(pid, &owner) == -EACCES && clerk.runs ? ask_clerk(pid) : owner;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mapped.c: which processes map a library that is hooked or waits, as far as was seen; and of which of them the GPU
 * memory was not seen as a whole, as they had a GPU open before their library was hooked.
 */
#include "zernel.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#define JUDGE_MS 5     /* for that at most, but for the last of them */
#define JUDGED   16    /* processes that map a library which is not hooked, looked at in one check */
#define SAY_MS   60000 /* between two lines of the log about the same */
/* A library that is hooked this long after a process mapped it, or sooner, was hooked in time: it is a round of
 * the finder, and a driver takes about as long to make a first context. */
#define LATE_NS (250 * ZN_NS_PER_MS)

static void free_by(struct zn_mapped *t, struct zn_mapped_by *m)
{
	t->changed |= m->partial;
	if (m->pid)
		zn_quota_give(&t->quota, m->owner);
	*m = (struct zn_mapped_by){0};
}

/* What a process opens after its library was hooked is seen, and it has no memory on a GPU that it has not open. Of one
 * with more open files than are looked at nothing is promised. */
static void judge_one(struct zn_mapped *t, struct zn_mapped_by *m)
{
	const struct zn_lib *lib = &t->lib[m->lib];
	uint64_t hooked_ns = lib->hooked_ns ? lib->hooked_ns : zn_clock_ns(CLOCK_BOOTTIME);
	uint64_t majors[ZN_MAJOR_WORDS];

	if (m->partial || lib->kind == ZN_LIB_NCCL || hooked_ns <= m->since_ns + LATE_NS)
		return;
	memcpy(majors, t->probe->arena.shared->gpu_majors, sizeof(majors));
	m->partial = zn_open_gpus(m->pid, majors, t->options->gpu_majors, &m->gpus) != ZN_OPEN_GPUS_NONE;
	t->changed |= m->partial;
}

void zn_mapped_hooked(struct zn_mapped *t, struct zn_lib *lib)
{
	lib->hooked_ns = lib->leaving || !zn_attach_count(t->probe, lib) ? 0 : zn_clock_ns(CLOCK_BOOTTIME);
	for (int i = 0; i < ZN_MAPPED_MAX; i++)
		if (t->by[i].pid && &t->lib[t->by[i].lib] == lib)
			judge_one(t, &t->by[i]);
}

void zn_mapped_judge(struct zn_mapped *t)
{
	uint64_t until_ns = zn_now_ns() + JUDGE_MS * ZN_NS_PER_MS;
	int judged = 0;

	for (int n = 0; n < ZN_MAPPED_MAX && judged < JUDGED && zn_now_ns() < until_ns; n++) {
		struct zn_mapped_by *m = &t->by[t->judge_at++ % ZN_MAPPED_MAX];

		if (!m->pid || m->partial || t->lib[m->lib].hooked_ns || t->lib[m->lib].kind == ZN_LIB_NCCL)
			continue;
		judged++;
		judge_one(t, m);
	}
}

static void say_partials(struct zn_mapped *t, uint32_t before)
{
	uint64_t now_ns = zn_now_ns();

	if (t->partials.count <= before || (t->said_ns && now_ns - t->said_ns < SAY_MS * ZN_NS_PER_MS))
		return;
	t->said_ns = now_ns;
	zn_log(ZN_INFO,
		"libraries: GPU memory is not known of %u processes, %u among them: they had a GPU open before their library was hooked",
		t->partials.count, t->partials.pid[t->partials.count - 1]);
}

void zn_mapped_tell(struct zn_mapped *t)
{
	uint32_t before = t->partials.count;

	if (!t->changed)
		return;
	t->changed = false;
	pthread_mutex_lock(t->lock);
	t->partials.count = 0;
	t->partials.gpus = 0;
	for (int i = 0; i < ZN_MAPPED_MAX; i++) {
		if (!t->by[i].pid || !t->by[i].partial)
			continue;
		t->partials.pid[t->partials.count++] = (uint32_t)t->by[i].pid;
		t->partials.gpus |= t->by[i].gpus;
	}
	pthread_mutex_unlock(t->lock);
	say_partials(t, before);
}

bool zn_mapped_is_partial(const struct zn_mapped *t, uint32_t pid)
{
	for (uint32_t i = 0; i < t->partials.count; i++)
		if (t->partials.pid[i] == pid)
			return true;
	return false;
}

uint64_t zn_mapped_partial_gpus(const struct zn_mapped *t)
{
	return t->partials.gpus;
}

enum zn_ledger zn_mapped_ledger(const struct zn_mapped *t, int pid)
{
	uint64_t newest_ns = 0;
	bool room = false;

	for (const struct zn_lib *lib = t->lib; lib < t->lib + ZN_LIBS_MAX; lib++)
		if (lib->used && lib->kind != ZN_LIB_NCCL && lib->hooked_ns > newest_ns)
			newest_ns = lib->hooked_ns;
	if (zn_start_ns(pid) + LATE_NS >= newest_ns)
		return ZN_LEDGER_WHOLE;
	for (int i = 0; i < ZN_MAPPED_MAX; i++) {
		if (t->by[i].pid == pid)
			return ZN_LEDGER_WHOLE; /* or partial, which zn_libraries_is_partial() tells */
		room |= !t->by[i].pid;
	}
	return room ? ZN_LEDGER_UNKNOWN : ZN_LEDGER_PARTIAL;
}

static struct zn_mapped_by *find_by(struct zn_mapped *t, int pid, int lib)
{
	for (int i = 0; i < ZN_MAPPED_MAX; i++)
		if (t->by[i].pid == pid && t->by[i].lib == lib)
			return &t->by[i];
	return NULL;
}

static bool still_maps(const struct zn_mapped_by *m)
{
	char path[80];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", m->pid, m->from, m->to);
	return lstat(path, &st) == 0 || errno == EACCES || errno == EPERM;
}

/* Nor is it known to have ended where it cannot be asked, as without a free descriptor. */
static bool still_lives(const struct zn_mapped_by *m)
{
	uint64_t ticks = zn_start_ticks(m->pid);

	return ticks ? ticks == m->start_ticks : !zn_process_ended((uint32_t)m->pid);
}

/* False: another process has its id by now, or another program runs in it, which has mapped the library anew. */
static bool is_same(const struct zn_mapped *t, const struct zn_mapped_by *m, uint64_t ticks, uint64_t from)
{
	return m->start_ticks == ticks && (m->from == from || !t->event_ns || still_maps(m));
}

/* A place for one more, of the process's owner. NULL: he has his share. */
static struct zn_mapped_by *claim_by(struct zn_mapped *t, int pid, struct zn_lib *lib)
{
	uint32_t owner = zn_owner_of(pid);
	struct zn_mapped_by *m = find_by(t, 0, 0);

	if (!m || !zn_quota_take(&t->quota, owner))
		return NULL;
	m->owner = owner;
	lib->mappers++;
	return m;
}

void zn_mapped_note(struct zn_mapped *t, int pid, struct zn_lib *lib, uint64_t from, uint64_t to)
{
	int i = (int)(lib - t->lib);
	struct zn_mapped_by *m = find_by(t, pid, i);
	uint64_t ticks = zn_start_ticks(pid);

	if (m && is_same(t, m, ticks, from)) {
		m->from = from;
		m->to = to;
		return;
	}
	if (!m)
		m = claim_by(t, pid, lib);
	if (!m)
		return;
	t->changed |= m->partial;
	*m = (struct zn_mapped_by){
		.pid = pid, .lib = i, .owner = m->owner, .start_ticks = ticks, .from = from, .to = to};
	m->since_ns = t->event_ns ? t->event_ns : zn_start_ns(pid);
	judge_one(t, m);
}

void zn_mapped_process(struct zn_mapped *t, uint64_t event_ns)
{
	t->event_ns = event_ns;
}

bool zn_mapped_check(struct zn_mapped *t, uint64_t until_ns)
{
	for (; t->check_at < ZN_MAPPED_MAX; t->check_at++) {
		struct zn_mapped_by *m = &t->by[t->check_at];

		if (!m->pid)
			continue;
		if (zn_now_ns() > until_ns)
			return false;
		if (still_maps(m) && still_lives(m))
			continue;
		t->lib[m->lib].mappers--;
		free_by(t, m);
	}
	t->check_at = 0;
	return true;
}

void zn_mapped_forget(struct zn_mapped *t, const struct zn_lib *lib)
{
	for (int i = 0; i < ZN_MAPPED_MAX; i++)
		if (t->by[i].pid && &t->lib[t->by[i].lib] == lib)
			free_by(t, &t->by[i]);
}

uint32_t zn_mapped_owner(
	const struct zn_mapped *t, const struct zn_lib *lib, bool (*may)(void *to, uint32_t owner), void *to)
{
	for (int i = 0; i < ZN_MAPPED_MAX; i++)
		if (t->by[i].pid && &t->lib[t->by[i].lib] == lib && may(to, t->by[i].owner))
			return t->by[i].owner;
	return ZN_UNKNOWN;
}

void zn_mapped_open(struct zn_mapped *t, struct zn_lib *lib, struct zn_probe *probe, const struct zn_options *options,
	pthread_mutex_t *lock)
{
	t->lib = lib;
	t->probe = probe;
	t->options = options;
	t->lock = lock;
	t->quota = (struct zn_quota){.size = ZN_MAPPED_MAX, .reserve = ZN_MAPPED_MAX / 16};
}

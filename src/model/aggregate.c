/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The aggregator: reads the arena as memory and derives what is shown from it: which processes there are, rates,
 * quantiles, sums over processes. BPF programs add while this reads; each number is read once, so that it is
 * consistent in itself.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static bool bit_test(const uint8_t *bits, uint32_t i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

/* A row of a table that is mapped as its rows are used; map: NULL where all of it is there. */
static bool is_mapped(struct zn_arena *a, const uint8_t *bits, uint32_t i, int (*map)(struct zn_arena *a, uint32_t i))
{
	return !map || bit_test(bits, i) || map(a, i) == 0;
}

struct zn_proc *zn_arena_proc(struct zn_arena *a, uint32_t row)
{
	if (row >= ZN_PROCS_MAX)
		return NULL;
	return is_mapped(a, a->proc_mapped, row, a->ops->map_proc) ? &a->procs[row] : NULL;
}

struct zn_hist *zn_arena_hist(struct zn_arena *a, uint32_t slot)
{
	if (slot < ZN_HISTS_FIRST || slot >= ZN_HISTS_MAX)
		return NULL;
	return is_mapped(a, a->hist_mapped, slot, a->ops->map_hist) ? &a->hists[slot] : NULL;
}

struct zn_coarse_hist *zn_arena_coarse(struct zn_arena *a, uint32_t index)
{
	if (index >= ZN_IO_MAX || !a->coarse)
		return NULL;
	return is_mapped(a, a->coarse_mapped, index, a->ops->map_coarse) ? &a->coarse[index] : NULL;
}

struct zn_job_row *zn_arena_job(struct zn_arena *a, uint32_t slot)
{
	if (slot >= ZN_JOBS_MAX || !a->jobs)
		return NULL;
	return is_mapped(a, a->job_mapped, slot, a->ops->map_job) ? &a->jobs[slot] : NULL;
}

struct zn_skew *zn_arena_skew(struct zn_arena *a, uint32_t slot)
{
	if (slot >= ZN_SKEWS_MAX || !a->skews || !a->shared->skew_used[slot])
		return NULL;
	if (!is_mapped(a, a->skew_mapped, slot, a->ops->map_skew))
		return NULL;
	return a->skews[slot].hash ? &a->skews[slot] : NULL;
}

static void plain_untask(struct zn_plain *p, uint32_t tgid)
{
	for (uint32_t i = 0; i < p->task_count; i++)
		if (p->tasks[i].tgid == tgid) {
			p->tasks[i] = p->tasks[--p->task_count];
			return;
		}
}

/* A histogram that is nobody's any more. */
static void plain_hist_free(struct zn_plain *p, uint32_t hist)
{
	memset(&p->arena.hists[hist], 0, sizeof(struct zn_hist));
	p->hists[p->hist_count++] = hist;
	p->arena.shared->quota[ZN_QUOTA_HISTOGRAM].used--;
}

static void plain_release(struct zn_arena *a, uint32_t row)
{
	struct zn_plain *p = (struct zn_plain *)a;
	struct zn_proc *proc = &a->procs[row];

	for (uint32_t d = 0; d < ZN_DETAIL_SLOTS; d++)
		if (proc->hist[d])
			plain_hist_free(p, proc->hist[d]);
	plain_untask(p, proc->tgid);
	memset(proc, 0, sizeof(*proc));
	a->shared->row_tgid[row] = 0;
	a->shared->procs--;
	p->rows[p->row_count++] = row;
}

static size_t plain_comms(struct zn_arena *a, struct zn_comm *to, size_t cap)
{
	struct zn_plain *p = (struct zn_plain *)a;
	size_t n = p->comm_count < cap ? p->comm_count : cap;

	memcpy(to, p->comms, n * sizeof(*to));
	return n;
}

void zn_job_row_claim(struct zn_job_row *row, const char name[ZN_JOB_NAME], uint32_t serial)
{
	memset(row, 0, sizeof(*row));
	strncpy(row->name, name, sizeof(row->name) - 1);
	row->start_ns = zn_now_ns();
	__atomic_store_n(&row->serial, serial, __ATOMIC_RELEASE);
}

uint32_t zn_job_row_step(struct zn_job_row *row, const char *step)
{
	char name[sizeof(row->step[0].name)] = "";
	uint32_t i = 0;

	strncpy(name, step, sizeof(name) - 1);
	while (i < row->step_count && memcmp(row->step[i].name, name, sizeof(name)))
		i++;
	if (i == ZN_STEPS_MAX) {
		row->steps_lost++;
		return ZN_STEPS_MAX;
	}
	if (i == row->step_count) {
		memcpy(row->step[i].name, name, sizeof(name));
		row->step[i].start_ns = zn_now_ns();
		row->step_count = i + 1;
	}
	return i;
}

void zn_job_row_group(struct zn_job_row *row, const struct zn_cgroup *cgroup)
{
	if (cgroup->level == ZN_CGROUP_STEP && cgroup->step < ZN_STEPS_MAX)
		row->step[cgroup->step].end_ns = 0;
	if (cgroup->level != ZN_CGROUP_JOB)
		return;
	__atomic_fetch_add(&row->cgroups, 1, __ATOMIC_RELAXED);
	row->cgroup_seen = 1;
	row->gone_ns = 0;
}

void zn_job_row_group_gone(struct zn_job_row *row, const struct zn_cgroup *cgroup)
{
	if (cgroup->level == ZN_CGROUP_STEP && cgroup->step < ZN_STEPS_MAX)
		row->step[cgroup->step].end_ns = zn_now_ns();
	if (cgroup->level == ZN_CGROUP_JOB && __atomic_fetch_sub(&row->cgroups, 1, __ATOMIC_RELAXED) == 1)
		row->gone_ns = zn_now_ns();
}

static uint32_t plain_name_at(const struct zn_plain *p, const char *name)
{
	uint32_t i = 0;

	while (i < p->name_count && strncmp(p->names[i].name, name, ZN_JOB_NAME))
		i++;
	return i;
}

static int plain_job_alias(struct zn_arena *a, uint32_t slot, const char name[ZN_JOB_NAME])
{
	struct zn_plain *p = (struct zn_plain *)a;
	uint32_t i = plain_name_at(p, name);

	if (i < p->name_count)
		return p->names[i].slot == slot ? 0 : -EEXIST;
	if (i == ZN_LEN(p->names))
		return -ENOSPC;
	memset(p->names[i].name, 0, ZN_JOB_NAME);
	strncpy(p->names[i].name, name, ZN_JOB_NAME - 1);
	p->names[i].slot = slot;
	p->name_count++;
	return 0;
}

static int plain_job_claim(struct zn_arena *a, const char name[ZN_JOB_NAME])
{
	struct zn_plain *p = (struct zn_plain *)a;
	uint32_t i = plain_name_at(p, name), slot = 0;

	if (i < p->name_count)
		return p->names[i].slot;
	while (slot < ZN_JOBS_MAX && a->jobs[slot].serial)
		slot++;
	if (slot == ZN_JOBS_MAX || plain_job_alias(a, slot, name)) {
		a->shared->lost[ZN_LOST_JOB]++;
		return -ENOSPC;
	}
	zn_job_row_claim(&a->jobs[slot], name, ++a->shared->next_id);
	a->shared->jobs++;
	return slot;
}

static void plain_job_unname(struct zn_arena *a, uint32_t slot)
{
	struct zn_plain *p = (struct zn_plain *)a;

	for (uint32_t i = p->name_count; i-- > 0;)
		if (p->names[i].slot == slot)
			p->names[i] = p->names[--p->name_count];
}

static void plain_job_forget(struct zn_arena *a, uint32_t slot)
{
	struct zn_plain *p = (struct zn_plain *)a;

	if (!a->jobs[slot].serial)
		return;
	plain_job_unname(a, slot);
	for (uint32_t i = p->task_count; i-- > 0;)
		if (p->tasks[i].job.slot == slot)
			p->tasks[i] = p->tasks[--p->task_count];
	for (uint32_t i = p->cgroup_count; i-- > 0;)
		if (p->cgroups[i].cgroup.job.slot == slot)
			p->cgroups[i] = p->cgroups[--p->cgroup_count];
	memset(&a->jobs[slot], 0, sizeof(a->jobs[slot]));
	a->shared->jobs--;
}

static int plain_job_task(struct zn_arena *a, uint32_t slot, uint32_t tgid)
{
	struct zn_plain *p = (struct zn_plain *)a;
	struct zn_tag tag = {slot, a->jobs[slot].serial};

	plain_untask(p, tgid);
	if (p->task_count == ZN_LEN(p->tasks)) {
		a->shared->lost[ZN_LOST_TASK]++;
		return -ENOSPC;
	}
	p->tasks[p->task_count].tgid = tgid;
	p->tasks[p->task_count++].job = tag;
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		if (a->shared->row_tgid[row] == tgid && !a->procs[row].exit_ns)
			a->procs[row].job = tag;
	return 0;
}

static void plain_job_tasks(struct zn_arena *a, void (*task)(void *to, const struct zn_tag *job), void *to)
{
	const struct zn_plain *p = (const struct zn_plain *)a;

	for (uint32_t i = 0; i < p->task_count; i++)
		task(to, &p->tasks[i].job);
}

static uint32_t plain_cgroup_at(const struct zn_plain *p, const struct zn_cgroup_key *key)
{
	uint32_t i = 0;

	while (i < p->cgroup_count && memcmp(&p->cgroups[i].key, key, sizeof(*key)))
		i++;
	return i;
}

static void plain_job_cgroup_gone(struct zn_arena *a, const struct zn_cgroup_key *key)
{
	struct zn_plain *p = (struct zn_plain *)a;
	uint32_t i = plain_cgroup_at(p, key);
	struct zn_cgroup group;

	if (i == p->cgroup_count)
		return;
	group = p->cgroups[i].cgroup;
	p->cgroups[i] = p->cgroups[--p->cgroup_count];
	if (group.job.serial == a->jobs[group.job.slot].serial)
		zn_job_row_group_gone(&a->jobs[group.job.slot], &group);
}

static int plain_job_cgroup(
	struct zn_arena *a, uint32_t slot, const struct zn_cgroup_key *key, uint32_t level, const char *step)
{
	struct zn_plain *p = (struct zn_plain *)a;
	struct zn_cgroup cgroup = {{slot, a->jobs[slot].serial}, level, ZN_STEPS_MAX};
	uint32_t i = plain_cgroup_at(p, key);

	if (i < p->cgroup_count && p->cgroups[i].cgroup.job.serial == cgroup.job.serial)
		return 0;
	plain_job_cgroup_gone(a, key); /* it was another job's, or still is */
	i = p->cgroup_count;
	if (i == ZN_LEN(p->cgroups)) {
		a->shared->lost[ZN_LOST_TASK]++;
		return -ENOSPC;
	}
	if (step)
		cgroup.step = zn_job_row_step(&a->jobs[slot], step);
	p->cgroups[i].key = *key;
	p->cgroups[i].cgroup = cgroup;
	p->cgroup_count++;
	zn_job_row_group(&a->jobs[slot], &cgroup);
	return 0;
}

static size_t plain_io(struct zn_arena *a, struct zn_io_entry *to, size_t cap)
{
	struct zn_plain *p = (struct zn_plain *)a;
	size_t n = p->io_count < cap ? p->io_count : cap;

	memcpy(to, p->io, n * sizeof(*to));
	return n;
}

static struct zn_io_entry *plain_io_find(struct zn_plain *p, const struct zn_io_key *key)
{
	for (uint32_t i = 0; i < p->io_count; i++)
		if (memcmp(&p->io[i].key, key, sizeof(*key)) == 0)
			return &p->io[i];
	return NULL;
}

static void plain_io_cut(struct zn_arena *a, const struct zn_io_key *key)
{
	struct zn_plain *p = (struct zn_plain *)a;
	struct zn_io_entry *e = plain_io_find(p, key);

	if (e)
		*e = p->io[--p->io_count];
}

static void plain_io_free(struct zn_arena *a, const struct zn_io_row *row)
{
	struct zn_plain *p = (struct zn_plain *)a;
	struct zn_quota *quota = a->shared->quota;

	if (row->hist < ZN_HISTS_MAX) {
		plain_hist_free(p, row->hist);
	} else {
		memset(&a->coarse[row->hist - ZN_HISTS_MAX], 0, sizeof(struct zn_coarse_hist));
		p->coarse[p->coarse_count++] = row->hist - ZN_HISTS_MAX;
	}
	zn_quota_give(&quota[ZN_QUOTA_IO], row->owner);
	zn_quota_give(&quota[ZN_QUOTA_IO_USER], row->user);
}

static void plain_skew_release(struct zn_arena *a, uint32_t slot)
{
	uint32_t hist = a->skews[slot].hist;

	if (hist)
		plain_hist_free((struct zn_plain *)a, hist);
	memset(&a->skews[slot], 0, sizeof(a->skews[slot]));
	a->shared->skew_used[slot] = 0;
}

static void plain_ioctls(struct zn_arena *a, void (*call)(void *to, uint32_t id, uint64_t start_ns), void *to)
{
	const struct zn_plain *p = (const struct zn_plain *)a;

	if (p->ioctl_id)
		call(to, p->ioctl_id, p->ioctl_ns);
}

static const struct zn_arena_ops plain_ops = {
	.release = plain_release,
	.comms = plain_comms,
	.skew_release = plain_skew_release,
	.ioctls = plain_ioctls,
	.job_claim = plain_job_claim,
	.job_alias = plain_job_alias,
	.job_unname = plain_job_unname,
	.job_forget = plain_job_forget,
	.job_task = plain_job_task,
	.job_tasks = plain_job_tasks,
	.job_cgroup = plain_job_cgroup,
	.job_cgroup_gone = plain_job_cgroup_gone,
	.io = plain_io,
	.io_cut = plain_io_cut,
	.io_free = plain_io_free,
};

#define PLAIN_SHARED ((sizeof(struct zn_shared) + 4095) & ~4095UL)
#define PLAIN_PROCS  (ZN_PROCS_MAX * sizeof(struct zn_proc))
#define PLAIN_HISTS  (ZN_HISTS_MAX * sizeof(struct zn_hist))
#define PLAIN_JOBS   (ZN_JOBS_MAX * sizeof(struct zn_job_row))
#define PLAIN_COARSE (ZN_IO_MAX * sizeof(struct zn_coarse_hist))
#define PLAIN_BYTES                                                                                                    \
	(PLAIN_SHARED + PLAIN_PROCS + PLAIN_HISTS + PLAIN_JOBS + PLAIN_COARSE + ZN_SKEWS_MAX * sizeof(struct zn_skew))

int zn_plain_open(struct zn_plain *p)
{
	char *at = mmap(NULL, PLAIN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	memset(p, 0, sizeof(*p));
	if (at == MAP_FAILED)
		return -errno;
	p->memory = at;
	p->arena.ops = &plain_ops;
	p->arena.shared = (void *)at;
	p->arena.procs = (void *)(at + PLAIN_SHARED);
	p->arena.hists = (void *)(at + PLAIN_SHARED + PLAIN_PROCS);
	p->arena.jobs = (void *)(at + PLAIN_SHARED + PLAIN_PROCS + PLAIN_HISTS);
	p->arena.coarse = (void *)(at + PLAIN_SHARED + PLAIN_PROCS + PLAIN_HISTS + PLAIN_JOBS);
	p->arena.skews = (void *)(at + PLAIN_SHARED + PLAIN_PROCS + PLAIN_HISTS + PLAIN_JOBS + PLAIN_COARSE);
	p->arena.shared->quota[ZN_QUOTA_IO] = (struct zn_quota){.size = ZN_IO_MAX, .reserve = ZN_IO_MAX / 16};
	p->arena.shared->quota[ZN_QUOTA_IO_USER] = (struct zn_quota){.size = ZN_IO_OF_USER};
	while (p->row_count < ZN_PROCS_MAX) {
		p->rows[p->row_count] = ZN_PROCS_MAX - 1 - p->row_count;
		p->row_count++;
	}
	for (uint32_t slot = ZN_HISTS_MAX - 1; slot >= ZN_HISTS_FIRST; slot--)
		p->hists[p->hist_count++] = slot;
	for (uint32_t i = ZN_IO_MAX; i-- > 0;)
		p->coarse[p->coarse_count++] = i;
	return 0;
}

void zn_plain_close(struct zn_plain *p)
{
	if (p->memory)
		munmap(p->memory, PLAIN_BYTES);
	p->memory = NULL;
}

struct zn_proc *zn_plain_claim(struct zn_plain *p, uint32_t tgid, const char *comm)
{
	struct zn_shared *s = p->arena.shared;
	struct zn_proc *proc;
	uint32_t row;

	if (p->row_count == 0) {
		s->lost[ZN_LOST_PROCESS]++;
		return NULL;
	}
	row = p->rows[--p->row_count];
	proc = &p->arena.procs[row];
	proc->tgid = tgid;
	proc->id = ++s->next_id;
	proc->first_ns = zn_now_ns();
	strncpy(proc->comm, comm, sizeof(proc->comm) - 1);
	for (uint32_t i = 0; i < p->task_count; i++)
		if (p->tasks[i].tgid == tgid)
			proc->job = p->tasks[i].job;
	s->row_tgid[row] = tgid;
	s->procs++;
	return proc;
}

void zn_plain_exit(struct zn_plain *p, struct zn_proc *proc)
{
	(void)p;
	proc->exit_ns = zn_now_ns();
}

uint32_t zn_plain_hist(struct zn_plain *p)
{
	if (p->hist_count == 0)
		return 0;
	p->arena.shared->quota[ZN_QUOTA_HISTOGRAM].used++;
	return p->hists[--p->hist_count];
}

bool zn_plain_record(struct zn_plain *p, struct zn_proc *proc, enum zn_detail detail, uint64_t ns, uint64_t bytes)
{
	struct zn_hist *h;

	if (!proc->hist[detail]) {
		if (p->hist_count == 0) {
			p->arena.shared->lost[ZN_LOST_SERIES]++;
			return false;
		}
		proc->hist[detail] = zn_plain_hist(p);
	}
	h = &p->arena.hists[proc->hist[detail]];
	zn_hist_add(h, ns);
	h->bytes += bytes;
	return true;
}

/* As BPF does, but that a read or a write is never coarse. NULL: there is no room for its owner. */
static struct zn_io_entry *plain_io_claim(struct zn_plain *p, const struct zn_io_key *key)
{
	struct zn_quota *quota = p->arena.shared->quota;
	struct zn_io_entry e = {.key = *key, .row = p->io_of};
	bool whole = key->op <= ZN_IO_WRITE;

	if (p->io_count == ZN_LEN(p->io) || !(whole ? p->hist_count : p->coarse_count))
		return NULL;
	if (!zn_quota_take(&quota[ZN_QUOTA_IO_USER], e.row.user))
		return NULL;
	if (!zn_quota_take(&quota[ZN_QUOTA_IO], e.row.owner)) {
		zn_quota_give(&quota[ZN_QUOTA_IO_USER], e.row.user);
		return NULL;
	}
	e.row.hist = whole ? zn_plain_hist(p) : ZN_HISTS_MAX + p->coarse[--p->coarse_count];
	p->io[p->io_count] = e;
	return &p->io[p->io_count++];
}

static struct zn_hist *plain_coarse_add(struct zn_coarse_hist *h, uint64_t ns)
{
	h->calls++;
	h->sum_ns += ns;
	h->bucket[zn_coarse_bucket(ns)]++;
	if (ns > h->max_ns)
		h->max_ns = ns;
	return (struct zn_hist *)h;
}

struct zn_hist *zn_plain_io(struct zn_plain *p, const struct zn_io_key *key, uint64_t ns)
{
	struct zn_io_entry *e = plain_io_find(p, key);

	if (!e)
		e = plain_io_claim(p, key);
	if (!e) {
		p->arena.shared->lost[ZN_LOST_IO]++;
		return NULL;
	}
	if (e->row.hist >= ZN_HISTS_MAX)
		return plain_coarse_add(&p->arena.coarse[e->row.hist - ZN_HISTS_MAX], ns);
	zn_hist_add(&p->arena.hists[e->row.hist], ns);
	return &p->arena.hists[e->row.hist];
}

void zn_hist_merge(struct zn_hist *restrict to, const struct zn_hist *restrict from)
{
	to->calls += from->calls;
	to->errors += from->errors;
	to->bytes += from->bytes;
	to->sum_ns += from->sum_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
#pragma GCC unroll 4
	for (uint32_t i = 0; i < ZN_SLOTS; i++)
		to->slot[i] += from->slot[i];
}

void zn_hist_merge_coarse(struct zn_hist *restrict to, const struct zn_coarse_hist *restrict from)
{
	to->calls += from->calls;
	to->errors += from->errors;
	to->bytes += from->bytes;
	to->sum_ns += from->sum_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	for (uint32_t i = 0; i < ZN_COARSE_BUCKETS; i++)
		to->slot[zn_coarse_middle(i)] += from->bucket[i];
}

/* Sums over powers of two: the first slot, the slots of each power, the last slot. */
#define POWERS    (ZN_LAST_POWER - ZN_FIRST_POWER + 2)
#define PER_POWER (1 << ZN_SLOT_BITS)

static uint32_t power_first(uint32_t power)
{
	return power ? 1 + (power - 1) * PER_POWER : 0;
}

/* Returns the sum of all. */
static uint64_t powers_sum(const struct zn_hist *h, uint64_t to[POWERS])
{
	uint64_t all;

	to[0] = h->slot[0];
	to[POWERS - 1] = h->slot[ZN_SLOTS - 1];
	all = to[0] + to[POWERS - 1];
	for (uint32_t p = 1; p < POWERS - 1; p++) {
		const __u64 *slot = &h->slot[power_first(p)];
		uint64_t n = 0;

#pragma GCC unroll 16
		for (uint32_t i = 0; i < PER_POWER; i++)
			n += slot[i];
		to[p] = n;
		all += n;
	}
	return all;
}

uint64_t zn_hist_count(const struct zn_hist *h)
{
	uint64_t powers[POWERS];

	return powers_sum(h, powers);
}

/* The nearest-rank definition: the slot of the smallest recorded duration with at least q per mille at or below it. */
static uint32_t quantile_slot(const struct zn_hist *h, const uint64_t powers[POWERS], uint64_t count, uint32_t q)
{
	uint64_t rank = (uint64_t)(((__uint128_t)count * q + 999) / 1000), seen = 0;
	uint32_t p = 0, i;

	if (rank == 0)
		rank = 1;
	while (p < POWERS - 1 && seen + powers[p] < rank)
		seen += powers[p++];
	for (i = power_first(p); i < ZN_SLOTS - 1; i++) {
		seen += h->slot[i];
		if (seen >= rank)
			break;
	}
	return i;
}

static uint64_t quantile(const struct zn_hist *h, const uint64_t powers[POWERS], uint64_t count, uint32_t q)
{
	uint32_t i = quantile_slot(h, powers, count, q);
	uint64_t middle;

	if (i == ZN_SLOTS - 1)
		return h->max_ns;
	middle = (zn_slot_floor(i) + zn_slot_floor(i + 1)) / 2;
	return middle < h->max_ns ? middle : h->max_ns;
}

uint64_t zn_hist_quantile(const struct zn_hist *h, uint32_t q)
{
	uint64_t powers[POWERS], count = powers_sum(h, powers);

	return count ? quantile(h, powers, count, q) : 0;
}

struct zn_summary zn_hist_summary(const struct zn_hist *h)
{
	uint64_t powers[POWERS], count = powers_sum(h, powers);

	if (!count)
		return (struct zn_summary){0};
	return (struct zn_summary){count, quantile(h, powers, count, 500), quantile(h, powers, count, 990)};
}

#define LE_FIRST_POWER 10 /* 4^5 ns = 2^10 ns */

uint64_t zn_le_ns(uint32_t i)
{
	return i < ZN_LE_COUNT - 1 ? 1ULL << (LE_FIRST_POWER + 2 * i) : UINT64_MAX;
}

/* A slot holds [floor, next floor), so the limits are exclusive by one nanosecond. */
static void cumulate(const uint64_t powers[POWERS], uint64_t le[ZN_LE_COUNT])
{
	uint64_t seen = 0;
	uint32_t p = 0;

	for (uint32_t i = 0; i < ZN_LE_COUNT; i++) {
		uint32_t end = i < ZN_LE_COUNT - 1 ? LE_FIRST_POWER + 2 * i - ZN_FIRST_POWER + 1 : POWERS;

		while (p < end)
			seen += powers[p++];
		le[i] = seen;
	}
}

void zn_hist_spread(const struct zn_hist *h, struct zn_spread *to)
{
	uint64_t powers[POWERS], count = powers_sum(h, powers);

	to->sum_ns = h->sum_ns;
	to->p50_ns = count ? quantile(h, powers, count, 500) : 0;
	to->p99_ns = count ? quantile(h, powers, count, 990) : 0;
	cumulate(powers, to->le);
}

/* The bucket of a time, above 0: halved or doubled into (1, 2], then by its 32 steps. */
static int32_t bucket_of(double seconds)
{
	const double step = 1.0218971486541166; /* 2^(1/32) */
	int32_t index = 0;
	double end = step;

	for (; seconds <= 1; seconds *= 2)
		index -= 1 << ZN_SCALE;
	for (; seconds > 2; seconds /= 2)
		index += 1 << ZN_SCALE;
	for (; seconds > end; end *= step)
		index++;
	return index;
}

static const int16_t *slot_buckets(void)
{
	static int16_t bucket[ZN_SLOTS]; /* made when it is first asked for; 0 of slot 0 is not used */
	static bool made;

	for (uint32_t i = 1; !made && i < ZN_SLOTS; i++) {
		uint64_t floor = zn_slot_floor(i), end = i < ZN_SLOTS - 1 ? zn_slot_floor(i + 1) : floor;

		bucket[i] = (int16_t)bucket_of((double)(floor + end) / 2e9);
	}
	made = true;
	return bucket;
}

void zn_hist_buckets(const struct zn_hist *h, struct zn_buckets *to)
{
	const int16_t *index = slot_buckets();

	to->zero = *(const volatile __u64 *)&h->slot[0];
	to->count = to->zero;
	to->sum_ns = h->sum_ns;
	to->max_ns = h->max_ns;
	to->used = 0;
	for (uint32_t i = 1; i < ZN_SLOTS; i++) {
		uint64_t n = *(const volatile __u64 *)&h->slot[i];

		if (!n)
			continue;
		to->bucket[to->used++] = (struct zn_bucket){index[i], n};
		to->count += n;
	}
}

void zn_agg_init(struct zn_agg *a, struct zn_arena *arena)
{
	if (a->arena) /* a fresh one is zero, and memory that nobody needs is not touched */
		memset(a, 0, sizeof(*a));
	a->arena = arena;
	a->measured = UINT64_MAX;
}

static uint64_t sum(const __u64 *v, uint32_t from, uint32_t to)
{
	uint64_t n = 0;

	for (uint32_t i = from; i < to; i++)
		n += v[i];
	return n;
}

bool zn_count_is_gauge(uint32_t count)
{
	return count == ZN_C_HOST_PINNED || count == ZN_C_LIVE_ALLOCS || count == ZN_C_CAPTURES ||
		count == ZN_C_CHILDREN || count == ZN_C_WORKERS;
}

static uint64_t launches_of(const struct zn_proc *p)
{
	return sum(p->count, ZN_C_LAUNCH_KERNEL, ZN_C_LAUNCH_CAPTURED);
}

static void info_start(struct zn_agg *a, uint32_t row, const struct zn_proc *p)
{
	struct zn_info *info = &a->info[row];

	*info = (struct zn_info){.id = p->id,
		.first_tick_ns = zn_now_ns(),
		.gone_id = info->gone_id,
		.exit_code = info->exit_code,
		.gone_ns = info->gone_ns};
	memcpy(info->comm, p->comm, sizeof(info->comm));
}

/* What it has in the table goes by the next tick. */
static void comms_drop(struct zn_agg *a, uint32_t tgid)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->comm_count; i++)
		if (a->comms[i].tgid != tgid)
			a->comms[kept++] = a->comms[i];
	a->comm_count = kept;
}

/* Keeps the sums of a process that has gone, and gives its row back. Gauges end with it. */
static void retire(struct zn_agg *a, uint32_t row, struct zn_proc *p)
{
	if (a->gone_row)
		a->gone_row(a->jobs, row, p);
	for (uint32_t d = 0; d < ZN_DETAIL_COUNT; d++) {
		struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

		if (h)
			zn_hist_merge(&a->gone[d], h);
	}
	for (uint32_t i = 0; i < ZN_COUNT_COUNT; i++)
		if (!zn_count_is_gauge(i))
			a->gone_count[i] += p->count[i];
	comms_drop(a, p->tgid);
	a->info[row].gone_id = p->id;
	a->info[row].exit_code = p->exit_code;
	a->info[row].gone_ns = p->exit_ns;
	a->arena->ops->release(a->arena, row);
	a->info[row].id = 0;
}

#define FACTS_PATIENCE_NS (2 * ZN_NS_PER_S)

/* A GPU is named once the process's environment is known, or cannot be known: a name that changes would break series.
 * Of one that has gone already it may be known still. */
static bool facts_of(struct zn_agg *a, const struct zn_info *info, const struct zn_proc *p, struct zn_facts *facts)
{
	*facts = (struct zn_facts){.gone = true, .owner = a->facts ? ZN_OWNER_NOBODY : ZN_OWNER_ROOT};
	if (!a->facts || a->facts(a->owner, p, facts))
		return true;
	return p->exit_ns || zn_now_ns() - info->first_tick_ns >= FACTS_PATIENCE_NS;
}

static bool touched(const struct zn_proc_gpu *g)
{
	return g->peak_bytes || g->fail_oom || g->fail_other || g->total_bytes || sum(g->alloc_calls, 0, ZN_KIND_COUNT);
}

#define LOOK_FIRST_NS (ZN_NS_PER_S / 2)
#define LOOK_MAX_NS   (64 * ZN_NS_PER_S)

/* Open devices decide where the driver has a list. */
static bool asks_for_looks(const struct zn_agg *a, const struct zn_proc *p)
{
	return a->look && a->gpus.listed && !p->exit_ns;
}

/* It may open its devices, or be given its context, after it was looked at: so it is looked at again, ever more rarely. */
static void look_again(struct zn_agg *a, struct zn_info *info, const struct zn_proc *p)
{
	uint64_t now_ns = zn_now_ns();

	if (!asks_for_looks(a, p) || now_ns < info->look_ns)
		return;
	a->look(a->owner, p);
	info->look_wait_ns = info->look_wait_ns ? 2 * info->look_wait_ns : LOOK_FIRST_NS;
	if (info->look_wait_ns > LOOK_MAX_NS)
		info->look_wait_ns = LOOK_MAX_NS;
	info->look_ns = now_ns + info->look_wait_ns;
}

static bool is_unknown(const struct zn_agg *a, const struct zn_info *info, uint32_t o)
{
	return info->resolved[o] && zn_gpu_unknown(&a->gpus.gpu[info->gpu[o]]);
}

/* Whether to wait for another look before its memory is shown as that of an unknown GPU. */
static bool waits_for_look(const struct zn_agg *a, const struct zn_info *info, const struct zn_proc *p)
{
	return asks_for_looks(a, p) && zn_now_ns() - info->first_tick_ns < FACTS_PATIENCE_NS;
}

static void resolve_gpu(
	struct zn_agg *a, struct zn_info *info, const struct zn_proc *p, const struct zn_facts *facts, uint32_t o)
{
	if (is_unknown(a, info, o) && facts->looks != info->looks)
		info->resolved[o] = false;
	if (!info->resolved[o]) {
		uint64_t refused = a->gpus.quota.refused;

		info->gpu[o] = zn_gpus_resolve(&a->gpus, p, facts, o);
		info->resolved[o] = info->gpu[o] >= 0;
		a->arena->shared->lost[ZN_LOST_GPU] += a->gpus.quota.refused - refused;
	}
	if (info->gpu[o] < 0) {
		a->arena->shared->lost[ZN_LOST_GPU]++;
	} else if (is_unknown(a, info, o)) {
		look_again(a, info, p);
		info->resolved[o] = !waits_for_look(a, info, p);
	} else if (o < ZN_PROC_GPUS) {
		/* a driver that says otherwise is right: the name is looked for anew */
		info->resolved[o] = zn_gpu_identify(&a->gpus.gpu[info->gpu[o]], &p->gpu[o]);
	}
}

static void resolve_gpus(struct zn_agg *a, uint32_t row, const struct zn_proc *p)
{
	struct zn_info *info = &a->info[row];
	struct zn_facts facts = {.looks = info->looks};
	bool asked = false;

	for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++) {
		if (!touched(&p->gpu[o]))
			continue;
		if (!asked && (!info->resolved[o] || (asks_for_looks(a, p) && is_unknown(a, info, o)))) {
			if (!facts_of(a, info, p, &facts))
				return;
			asked = true;
		}
		resolve_gpu(a, info, p, &facts, o);
	}
	if (asked)
		info->looks = facts.looks;
}

static void ledger_look(struct zn_agg *a, uint32_t row, const struct zn_proc *p)
{
	enum zn_ledger ledger = a->ledger ? a->ledger(a->owner, p) : ZN_LEDGER_WHOLE;

	a->info[row].ledger = p->count[ZN_C_ALLOC_DROPPED] ? ZN_LEDGER_PARTIAL : ledger;
}

bool zn_agg_memory_known(const struct zn_agg *a, uint32_t row)
{
	return a->info[row].ledger == ZN_LEDGER_WHOLE;
}

static void share_add(struct zn_proc_gpu *to, const struct zn_proc_gpu *from)
{
	to->used_bytes += from->used_bytes;
	to->peak_bytes += from->peak_bytes;
	for (uint32_t k = 0; k < ZN_KIND_COUNT; k++) {
		to->alloc_calls[k] += from->alloc_calls[k];
		to->alloc_bytes[k] += from->alloc_bytes[k];
	}
	to->free_calls += from->free_calls;
	to->fail_oom += from->fail_oom;
	to->fail_other += from->fail_other;
}

/* Peaks of two ordinals need not have been at one time, so their sum would invent a peak: the highest sum seen at a
 * refresh, and the higher of the two, are what is known. */
static uint64_t joint_peak(struct zn_info *info, uint32_t first, const struct zn_share *s, uint64_t highest)
{
	if (s->sum.used_bytes > info->share_peak[first])
		info->share_peak[first] = s->sum.used_bytes;
	return highest > info->share_peak[first] ? highest : info->share_peak[first];
}

static bool share_of(struct zn_info *info, const struct zn_proc *p, uint32_t first, struct zn_share *to)
{
	uint64_t highest = 0;
	uint32_t ordinals = 0;

	for (uint32_t o = 0; o < first; o++)
		if (info->resolved[o] && info->gpu[o] == info->gpu[first])
			return false;
	*to = (struct zn_share){.gpu = info->gpu[first], .partial = info->ledger != ZN_LEDGER_WHOLE};
	for (uint32_t o = first; o <= ZN_PROC_GPUS; o++) {
		if (!info->resolved[o] || info->gpu[o] != info->gpu[first])
			continue;
		share_add(&to->sum, &p->gpu[o]);
		if (p->gpu[o].peak_bytes > highest)
			highest = p->gpu[o].peak_bytes;
		ordinals++;
	}
	if (ordinals > 1)
		to->sum.peak_bytes = joint_peak(info, first, to, highest);
	return true;
}

size_t zn_agg_shares(struct zn_agg *a, uint32_t row, struct zn_share to[ZN_PROC_GPUS + 1])
{
	const struct zn_proc *p = zn_arena_proc(a->arena, row);
	struct zn_info *info = &a->info[row];
	size_t n = 0;

	for (uint32_t o = 0; p && o <= ZN_PROC_GPUS; o++)
		if (info->resolved[o] && share_of(info, p, o, &to[n]))
			n++;
	return n;
}

/* Without the driver's list no minor number is known: a GPU is called by it where its device file told its name. */
static bool has_minor(const struct zn_gpus *g, const struct zn_gpu *gpu, uint64_t minors)
{
	char id[12];

	if (g->listed && gpu->minor < 0)
		return minors; /* a MIG instance, of any GPU */
	if (gpu->vendor == ZN_VENDOR_AMD && gpu->minor >= 0)
		return minors & ZN_RENDER_BIT(gpu->minor);
	for (int minor = 0; minors; minor++, minors >>= 1) {
		if (!(minors & 1))
			continue;
		snprintf(id, sizeof(id), "%d", minor);
		if (g->listed ? gpu->minor == minor : strcmp(gpu->id, id) == 0)
			return true;
	}
	return false;
}

static void gpus_clear(struct zn_agg *a)
{
	uint64_t minors = a->partial_gpus ? a->partial_gpus(a->owner) : 0;

	for (uint32_t i = 0; i < a->gpus.count; i++) {
		struct zn_gpu *gpu = &a->gpus.gpu[i];

		gpu->used_bytes = gpu->processes = 0;
		gpu->partial = has_minor(&a->gpus, gpu, minors);
	}
}

/* Memory that was not seen, on a GPU that cannot be told, may be on any GPU; on one of the driver's list it is only where the
 * process has its device open, which zn_agg.partial_gpus tells. */
static void gpu_is_partial(struct zn_agg *a, struct zn_gpu *gpu)
{
	gpu->partial = true;
	for (uint32_t i = 0; i < a->gpus.count && zn_gpu_unknown(gpu) && !a->gpus.listed; i++)
		a->gpus.gpu[i].partial = true;
}

static void gpu_add(struct zn_agg *a, const struct zn_share *share)
{
	struct zn_gpu *gpu = &a->gpus.gpu[share->gpu];

	gpu->used_bytes += share->sum.used_bytes;
	gpu->processes += share->sum.used_bytes > 0;
	if (share->partial)
		gpu_is_partial(a, gpu);
}

static void gpus_sum(struct zn_agg *a)
{
	struct zn_share share[ZN_PROC_GPUS + 1];
	bool used[ZN_GPUS_MAX] = {false};

	gpus_clear(a);
	for (uint32_t r = 0; r < a->row_count; r++) {
		size_t n = zn_agg_shares(a, a->row[r], share);

		for (size_t i = 0; i < n; i++) {
			used[share[i].gpu] = true;
			gpu_add(a, &share[i]);
		}
	}
	for (uint32_t i = 0; i < a->gpus.count; i++)
		if (!a->gpus.gpu[i].partial && a->gpus.gpu[i].used_bytes > a->gpus.gpu[i].peak_bytes)
			a->gpus.gpu[i].peak_bytes = a->gpus.gpu[i].used_bytes;
	zn_gpus_forget(&a->gpus, used);
}

static void comms_read(struct zn_agg *a)
{
	a->comm_count = a->arena->ops->comms ? a->arena->ops->comms(a->arena, a->comms, ZN_COMMS_MAX) : 0;
}

void zn_agg_refresh(struct zn_agg *a)
{
	struct zn_shared *s = a->arena->shared;

	if (a->arena->ops->reuse)
		a->arena->ops->reuse(a->arena);
	a->row_count = 0;
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		struct zn_proc *p = s->row_tgid[row] ? zn_arena_proc(a->arena, row) : NULL;

		if (!p)
			continue;
		if (a->info[row].id != p->id)
			info_start(a, row, p);
		if (!p->exit_ns || a->gone_row)
			resolve_gpus(a, row, p);
		ledger_look(a, row, p);
		if (p->exit_ns) {
			retire(a, row, p);
			continue;
		}
		a->row[a->row_count++] = row;
	}
	gpus_sum(a);
}

static uint64_t rate(uint64_t now, uint64_t before, uint64_t ns)
{
	return ns ? (uint64_t)((__uint128_t)(now - before) * 1000 * ZN_NS_PER_S / ns) : 0;
}

uint64_t zn_agg_cost(const struct zn_agg *a, const __u64 *count, enum zn_family f)
{
	uint64_t ns = 0;

	for (enum zn_first first = 0; first < ZN_FIRST_COUNT; first++)
		ns += count[ZN_C_HIT(f, first)] * a->arena->shared->cost_ns[first];
	return ns;
}

/* What the probes of each family cost all processes together. */
static void family_rates(struct zn_agg *a, uint64_t ns)
{
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		uint64_t cost = zn_agg_cost(a, a->gone_count, f);

		for (uint32_t r = 0; r < a->row_count; r++)
			cost += zn_agg_cost(a, a->arena->procs[a->row[r]].count, f);
		a->family_cost_rate[f] = rate(cost, a->family_cost_ns[f], ns);
		a->family_cost_ns[f] = cost;
	}
}

/* Takes over a sum that never falls; returns what was added. A segment that ends while it is read may be seen shorter. */
static uint64_t advance(uint64_t *sum_ns, uint64_t now)
{
	uint64_t more = now > *sum_ns ? now - *sum_ns : 0;

	*sum_ns += more;
	return more;
}

uint64_t zn_agg_count(const struct zn_agg *a, uint32_t row, uint32_t count)
{
	uint64_t now = a->arena->procs[row].count[count], shown = 0;

	if (count >= ZN_C_STALL_CPU && count <= ZN_C_STALL_OTHER)
		shown = a->info[row].stall_ns[count - ZN_C_STALL_CPU];
	return now > shown ? now : shown;
}

static void note_waits(struct zn_agg *a, uint32_t row, const struct zn_proc *p, uint64_t now_ns)
{
	struct zn_info *info = &a->info[row];
	uint64_t ns[ZN_STALL_COUNT];

	memcpy(ns, p->count + ZN_C_STALL_CPU, sizeof(ns));
	if (a->arena->ops->stalls)
		a->arena->ops->stalls(a->arena, row, now_ns, ns);
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		info->stall_tick_ns[s] = advance(&info->stall_ns[s], ns[s]);
	for (uint32_t i = 0; i < ZN_LEN(info->worker_ns); i++)
		info->worker_tick_ns[i] = advance(&info->worker_ns[i], p->count[ZN_C_WORKER_BUSY_NS + i]);
}

static bool has_members(const struct zn_agg *a, const struct zn_skew *s)
{
	for (uint32_t m = 0; m < ZN_SKEW_RANKS && m < s->members; m++) {
		const struct zn_skew_rank *rank = &s->member[m];

		if (rank->id && rank->row < ZN_PROCS_MAX && a->info[rank->row].id == rank->id)
			return true;
	}
	return !s->members; /* the first one is about to join */
}

/* A communicator that all have left, or died in, is given back. */
static void release_skews(struct zn_agg *a)
{
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = zn_arena_skew(a->arena, slot);

		if (s && !has_members(a, s))
			a->arena->ops->skew_release(a->arena, slot);
	}
}

void zn_agg_tick(struct zn_agg *a, uint64_t now_ns)
{
	uint64_t ns = a->tick_ns ? now_ns - a->tick_ns : 0;

	zn_agg_refresh(a);
	for (uint32_t r = 0; r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);
		struct zn_info *info = &a->info[a->row[r]];
		uint64_t launches = launches_of(p), cost = 0;
		uint64_t lived = now_ns > p->first_ns ? now_ns - p->first_ns : 0;

		for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
			cost += zn_agg_cost(a, p->count, f);
		info->launch_rate = rate(launches, info->launches, lived < ns ? lived : ns);
		info->cost_rate = rate(cost, info->cost_ns, lived < ns ? lived : ns);
		info->launches = launches;
		info->cost_ns = cost;
		note_waits(a, a->row[r], p, now_ns);
	}
	family_rates(a, ns);
	release_skews(a);
	a->tick_ns = now_ns;
	if (a->arena->ops->sweep)
		a->arena->ops->sweep(a->arena);
	comms_read(a);
}

const struct zn_hist *zn_agg_merge_live(struct zn_agg *a, enum zn_detail detail)
{
	memset(&a->merged, 0, sizeof(a->merged));
	for (uint32_t r = 0; r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);
		const struct zn_hist *h = p ? zn_arena_hist(a->arena, p->hist[detail]) : NULL;

		if (h && h->calls)
			zn_hist_merge(&a->merged, h);
	}
	return &a->merged;
}

const struct zn_hist *zn_agg_merge(struct zn_agg *a, enum zn_detail detail)
{
	zn_agg_merge_live(a, detail);
	if (a->gone[detail].calls)
		zn_hist_merge(&a->merged, &a->gone[detail]);
	return &a->merged;
}

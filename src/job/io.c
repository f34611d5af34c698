/* SPDX-License-Identifier: GPL-2.0 */
/*
 * io.c: file I/O as it is shown: by job, mount and operation. The kernel's programs count by device and shard, in
 * rows of the arena; sums are those of a job on a mount, with the rows of each operation in a chain. Figures are sums
 * over rows, read where they are. When a device's number comes to mean another file system, its rows are cut: what
 * they hold stays where it was counted, and what follows is counted in new ones.
 */
#include "zernel.h"
#include <string.h>

#define SETTLE_NS (2 * ZN_NS_PER_S)   /* nobody adds to a row any more that was cut this long ago */
#define IDLE_NS   (600 * ZN_NS_PER_S) /* then what is of no job and of no mount of the host goes */
/* Calls per second from which on reads or writes are spread over groups of CPUs. Adding to a cache line that
 * another CPU has takes a few 100 ns, so below this at most some 3 % of one CPU's time. */
#define SPREAD_CALLS 100000

void zn_io_sums_init(struct zn_io_sums *f, struct zn_arena *arena, struct zn_jobs *jobs)
{
	if (f->arena) /* a fresh one is zero, and memory that nobody needs is not touched */
		memset(f, 0, sizeof(*f));
	f->arena = arena;
	f->jobs = jobs;
	f->quota = (struct zn_quota){.size = ZN_IO_SUMS_MAX, .reserve = ZN_IO_SUMS_MAX / 16};
	zn_mounts_init(&f->mounts);
}

/* ---- Histograms of both kinds, as one is numbered by the rows. ---- */

/* The part that whole and coarse histograms have in common: do not read past max_ns. NULL: it cannot be read. */
static const struct zn_hist *hist_of_slot(const struct zn_io_sums *f, uint32_t slot)
{
	if (slot < ZN_HISTS_MAX)
		return zn_arena_hist(f->arena, slot);
	return (const struct zn_hist *)zn_arena_coarse(f->arena, slot - ZN_HISTS_MAX);
}

static void merge_into(struct zn_io_sums *f, struct zn_hist_sum *to, uint32_t slot)
{
	const struct zn_hist *h = hist_of_slot(f, slot);

	if (h && slot < ZN_HISTS_MAX)
		zn_hist_merge(to, h);
	else if (h)
		zn_hist_merge_coarse(to, (const struct zn_coarse_hist *)h);
}

/* Adds one to another of the same kind, which nobody else changes. */
static void fold_into(struct zn_io_sums *f, uint32_t to, uint32_t slot)
{
	uint32_t into = to - ZN_HISTS_MAX, from = slot - ZN_HISTS_MAX;

	if (slot < ZN_HISTS_MAX)
		zn_hist_fold(zn_arena_hist(f->arena, to), to, zn_arena_hist(f->arena, slot));
	else
		zn_hist_fold_coarse(zn_arena_coarse(f->arena, into), into, zn_arena_coarse(f->arena, from));
}

/* ---- Chains of rows. ---- */

static struct zn_io_sum_op *op_of(struct zn_io_sums *f, const struct zn_io_sum_row *row)
{
	return &f->io_sum[row->io_sum].op[row->key.op];
}

static void chain_add(struct zn_io_sums *f, uint32_t slot, uint32_t io_sum)
{
	struct zn_io_sum_row *row = &f->row[slot];

	row->io_sum = io_sum;
	row->next = op_of(f, row)->first;
	op_of(f, row)->first = slot;
}

static void chain_remove(struct zn_io_sums *f, uint32_t slot)
{
	uint32_t *at = &op_of(f, &f->row[slot])->first;

	while (*at && *at != slot)
		at = &f->row[*at].next;
	if (*at)
		*at = f->row[slot].next;
}

static void row_set(struct zn_io_sum_row *row, enum zn_io_sum_row_state state)
{
	row->state = state;
	row->since_ns = zn_now_ns();
}

static void row_cut(struct zn_io_sums *f, uint32_t slot)
{
	f->arena->ops->io_cut(f->arena, &f->row[slot].key);
	row_set(&f->row[slot], ZN_ROW_CUT);
}

/* Out of its chain, and back to the arena once it is settled. */
static void row_leave(struct zn_io_sums *f, uint32_t slot)
{
	if (f->row[slot].state == ZN_ROW_LIVE)
		row_cut(f, slot);
	chain_remove(f, slot);
	f->row[slot].state = ZN_ROW_LEAVING;
}

static bool row_settled(const struct zn_io_sum_row *row, uint64_t now_ns)
{
	return row->since_ns + SETTLE_NS <= now_ns;
}

/* ---- Flows. ---- */

/* Marks those that differ in the type of file system alone. */
static void mark_same_mount(struct zn_io_sums *f, struct zn_io_sum *io_sum)
{
	for (uint32_t i = 0; i < f->high; i++) {
		struct zn_io_sum *other = &f->io_sum[i];

		if (other != io_sum && other->used && zn_job_ref_same(other->job, io_sum->job) &&
			!strcmp(other->point, io_sum->point))
			other->same_mount = io_sum->same_mount = true;
	}
}

static uint32_t io_sum_make(struct zn_io_sums *f, const struct zn_io_sum_row *row, const struct zn_mount *mount)
{
	uint32_t i = 0;

	if (!zn_quota_try(&f->quota, row->of.user))
		return ZN_IO_SUMS_MAX;
	while (i < ZN_IO_SUMS_MAX && f->io_sum[i].used)
		i++;
	if (i == ZN_IO_SUMS_MAX) {
		zn_quota_give(&f->quota, row->of.user);
		return i;
	}
	f->io_sum[i] =
		(struct zn_io_sum){.used = true, .job = row->key.job, .owner = row->of.user, .active_ns = zn_now_ns()};
	snprintf(f->io_sum[i].point, ZN_MOUNT_BYTES, "%s", mount->point);
	snprintf(f->io_sum[i].fstype, ZN_FSTYPE_BYTES, "%s", mount->fstype);
	if (i >= f->high)
		f->high = i + 1;
	mark_same_mount(f, &f->io_sum[i]);
	return i;
}

static uint32_t io_sum_find(struct zn_io_sums *f, const struct zn_io_sum_row *row, const struct zn_mount *mount)
{
	for (uint32_t i = 0; i < f->high; i++)
		if (f->io_sum[i].used && zn_job_ref_same(f->io_sum[i].job, row->key.job) &&
			!strcmp(f->io_sum[i].point, mount->point) && !strcmp(f->io_sum[i].fstype, mount->fstype))
			return i;
	return io_sum_make(f, row, mount);
}

static void io_sum_drop(struct zn_io_sums *f, struct zn_io_sum *io_sum)
{
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
		while (io_sum->op[op].first)
			row_leave(f, io_sum->op[op].first);
	io_sum->used = false;
	zn_quota_give(&f->quota, io_sum->owner);
}

static bool io_sum_empty(const struct zn_io_sum *io_sum)
{
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
		if (io_sum->op[op].first)
			return false;
	return true;
}

/* ---- What the arena has. ---- */

/* Counts a row that cannot be shown, as `table` has no room for it: once, however often it is tried again. */
static void count_row_lost(struct zn_io_sums *f, struct zn_io_sum_row *row, struct zn_quota *table)
{
	if (row->lost)
		return;
	row->lost = true;
	zn_quota_refuse(table, row->of.user);
	__atomic_fetch_add(&f->arena->shared->lost[ZN_LOST_MOUNT], 1, __ATOMIC_RELAXED);
}

/* The mount of a row. While the table has no room for the device it has no name at all, and is not shown. */
static struct zn_mount *mount_of(struct zn_io_sums *f, uint32_t slot)
{
	struct zn_mount *mount = zn_mounts_use(&f->mounts, f->row[slot].key.dev, 0, 0, f->row[slot].of.user);

	if (!mount)
		count_row_lost(f, &f->row[slot], &f->mounts.quota);
	return mount;
}

static bool row_bind(struct zn_io_sums *f, uint32_t slot, const struct zn_mount *mount)
{
	uint32_t io_sum = io_sum_find(f, &f->row[slot], mount);

	if (io_sum == ZN_IO_SUMS_MAX) {
		count_row_lost(f, &f->row[slot], &f->quota);
		return false;
	}
	chain_add(f, slot, io_sum);
	f->row[slot].version = mount->version;
	return true;
}

/* False: there is no room to show it. */
static bool row_show(struct zn_io_sums *f, uint32_t slot)
{
	struct zn_mount *mount = mount_of(f, slot);

	if (!mount || !row_bind(f, slot, mount))
		return false;
	row_set(&f->row[slot], ZN_ROW_LIVE);
	return true;
}

/* Notes that the figures of its job lack this operation. */
static void row_hidden(struct zn_io_sums *f, uint32_t slot)
{
	const struct zn_io_key *key = &f->row[slot].key;

	if (key->job.serial && key->job.slot < ZN_JOBS_MAX)
		f->hidden[key->job.slot] |= (uint16_t)(1u << key->op);
}

static void row_new(struct zn_io_sums *f, const struct zn_io_entry *e)
{
	uint32_t slot = e->row.hist;

	f->row[slot] = (struct zn_io_sum_row){.key = e->key, .of = e->row};
	row_set(&f->row[slot], ZN_ROW_WAITING);
	if (!row_show(f, slot))
		row_hidden(f, slot);
	if (slot >= f->row_high)
		f->row_high = slot + 1;
}

/* Its counts so far are older than this tick. */
static void row_not_of_tick(struct zn_io_sums *f, uint32_t slot)
{
	const struct zn_hist *h = hist_of_slot(f, slot);
	struct zn_io_sum_op *op = op_of(f, &f->row[slot]);

	if (!h)
		return;
	op->tick_calls += h->calls;
	op->tick_bytes += h->bytes;
	op->tick_ns += h->sum_ns;
}

/* A device that got its name takes its figures along; what it was shown as goes with the last of its rows. */
static void row_rename(struct zn_io_sums *f, uint32_t slot, const struct zn_mount *mount)
{
	struct zn_io_sum *before = &f->io_sum[f->row[slot].io_sum];

	chain_remove(f, slot);
	if (!row_bind(f, slot, mount)) {
		chain_add(f, slot, f->row[slot].io_sum);
		return;
	}
	row_not_of_tick(f, slot);
	if (io_sum_empty(before))
		io_sum_drop(f, before);
}

static void row_check(struct zn_io_sums *f, uint32_t slot)
{
	struct zn_io_sum_row *row = &f->row[slot];
	struct zn_mount *mount = mount_of(f, slot);

	if (!mount || row->version == mount->version)
		return;
	if (row->version < mount->cut)
		row_cut(f, slot);
	else
		row_rename(f, slot, mount);
}

/* Gives their names to all rows. */
static void rows_check(struct zn_io_sums *f)
{
	f->version = f->mounts.version; /* before it, as it may ask for one more mount */
	for (uint32_t slot = ZN_HISTS_FIRST; slot < f->row_high; slot++)
		if (f->row[slot].state == ZN_ROW_LIVE)
			row_check(f, slot);
}

static void rows_read(struct zn_io_sums *f)
{
	size_t n = f->arena->ops->io ? f->arena->ops->io(f->arena, f->entry, ZN_IO_MAX) : 0;

	for (size_t i = 0; i < n; i++) {
		const struct zn_io_entry *e = &f->entry[i];

		if (e->row.hist < ZN_LEN(f->row) && e->key.op < ZN_IO_OP_COUNT &&
			f->row[e->row.hist].state == ZN_ROW_FREE)
			row_new(f, e);
	}
	f->row_count = (uint32_t)n;
	if (f->jobs)
		f->jobs->crowded = f->row_count > ZN_IO_MAX / 8 * 7; /* more than the jobs of one user may have */
}

/* all: whether anything is known to have changed or not. To read a table that is nearly empty costs a look at all its
 * places. */
static void rows_refresh(struct zn_io_sums *f, bool all)
{
	uint64_t made = __atomic_load_n(&f->arena->shared->io_made, __ATOMIC_ACQUIRE);

	if (all || f->version != f->mounts.version)
		rows_check(f);
	if (all || f->made != made)
		rows_read(f);
	f->made = made;
	zn_mounts_hurry(&f->mounts); /* at the end, as it comes back here to give the new names */
}

void zn_io_sums_refresh(struct zn_io_sums *f)
{
	rows_refresh(f, false);
}

/* ---- The tick. ---- */

struct zn_io_sum_total zn_io_sum_total(const struct zn_io_sums *f, const struct zn_io_sum *io_sum, enum zn_io_op op)
{
	struct zn_io_sum_total sum = {0};

	for (uint32_t slot = io_sum->op[op].first; slot; slot = f->row[slot].next) {
		const struct zn_hist *h = hist_of_slot(f, slot);

		if (!h)
			continue;
		sum.calls += h->calls;
		sum.errors += h->errors;
		sum.bytes += h->bytes;
		sum.ns += h->sum_ns;
	}
	return sum;
}

static uint64_t rate_per(uint64_t now, uint64_t before, uint64_t scale, uint64_t ns)
{
	return now > before && ns ? (uint64_t)((__uint128_t)(now - before) * scale * ZN_NS_PER_S / ns) : 0;
}

static void op_tick(struct zn_io_sums *f, struct zn_io_sum *io_sum, enum zn_io_op op, uint64_t now_ns)
{
	struct zn_io_sum_total sum = zn_io_sum_total(f, io_sum, op);
	uint64_t ns = f->tick_ns ? now_ns - f->tick_ns : 0;
	struct zn_io_sum_op *o = &io_sum->op[op];

	if (sum.calls > o->tick_calls)
		io_sum->active_ns = now_ns;
	o->call_rate = rate_per(sum.calls, o->tick_calls, 1000, ns);
	o->byte_rate = rate_per(sum.bytes, o->tick_bytes, 1, ns);
	o->spent_ns = sum.ns > o->tick_ns ? sum.ns - o->tick_ns : 0;
	o->tick_calls = sum.calls;
	o->tick_bytes = sum.bytes;
	o->tick_ns = sum.ns;
}

/* Rows that were cut long ago become one of each kind, so that a job that mounts again and again keeps no more
 * than that. */
static void op_fold(struct zn_io_sums *f, struct zn_io_sum *io_sum, enum zn_io_op op, uint64_t now_ns)
{
	uint32_t into[2] = {0}, next;

	for (uint32_t slot = io_sum->op[op].first; slot; slot = next) {
		uint32_t *to = &into[slot >= ZN_HISTS_MAX];

		next = f->row[slot].next;
		if (!hist_of_slot(f, slot) || f->row[slot].state != ZN_ROW_CUT || !row_settled(&f->row[slot], now_ns))
			continue;
		if (*to) {
			fold_into(f, *to, slot);
			f->row[*to].of.partial |= f->row[slot].of.partial;
			row_leave(f, slot);
		} else {
			*to = slot;
		}
	}
}

/* Whether some device of it is mounted on the host. */
static bool is_mounted(struct zn_io_sums *f, const struct zn_io_sum *io_sum)
{
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
		for (uint32_t slot = io_sum->op[op].first; slot; slot = f->row[slot].next) {
			struct zn_mount *mount = f->row[slot].state == ZN_ROW_LIVE ? mount_of(f, slot) : NULL;

			if (mount && mount->state == ZN_MOUNT_HOST)
				return true;
		}
	return false;
}

/* The sums of a job stay until the job is forgotten. */
static bool is_over(struct zn_io_sums *f, const struct zn_io_sum *io_sum, uint64_t now_ns)
{
	if (io_sum_empty(io_sum))
		return true;
	if (io_sum->job.serial)
		return f->jobs && !zn_jobs_at(f->jobs, io_sum->job);
	return io_sum->active_ns + IDLE_NS <= now_ns && !is_mounted(f, io_sum);
}

static void io_sum_tick(struct zn_io_sums *f, struct zn_io_sum *io_sum, uint64_t now_ns)
{
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
		if (!io_sum->op[op].first)
			continue;
		op_tick(f, io_sum, op, now_ns);
		op_fold(f, io_sum, op, now_ns);
	}
	if (is_over(f, io_sum, now_ns))
		io_sum_drop(f, io_sum);
}

/* So many at one time that CPUs would wait for one another: each group of them gets a shard, see vfs.bpf.c. */
static void row_spread(struct zn_io_sums *f, uint32_t slot, uint64_t now_ns)
{
	struct zn_io_sum_row *row = &f->row[slot];
	struct zn_hist *h = slot < ZN_HISTS_MAX && row->key.shard == 0 ? zn_arena_hist(f->arena, slot) : NULL;
	uint64_t calls = h ? h->calls : 0;

	if (!h || row->key.op > ZN_IO_WRITE)
		return;
	if (f->tick_ns && rate_per(calls, row->calls, 1, now_ns - f->tick_ns) >= SPREAD_CALLS)
		h->spread = 1;
	row->calls = calls;
}

/* Shows what there was no room for, if there is now. Until then it is kept as others are: of a job until that is
 * forgotten. */
static void row_wait(struct zn_io_sums *f, uint32_t slot, uint64_t now_ns)
{
	struct zn_io_sum_row *row = &f->row[slot];
	const struct zn_hist *h = hist_of_slot(f, slot);
	uint64_t calls = h ? h->calls : 0;

	if (row_show(f, slot)) {
		row_not_of_tick(f, slot);
		return;
	}
	if (calls > row->calls)
		row->since_ns = now_ns;
	row->calls = calls;
	if (row->key.job.serial ? f->jobs && !zn_jobs_at(f->jobs, row->key.job) : row->since_ns + IDLE_NS <= now_ns) {
		row_cut(f, slot);
		row->state = ZN_ROW_LEAVING;
	} else {
		row_hidden(f, slot);
	}
}

static void rows_tick(struct zn_io_sums *f, uint64_t now_ns)
{
	memset(f->hidden, 0, sizeof(f->hidden));
	for (uint32_t slot = ZN_HISTS_FIRST; slot < f->row_high; slot++) {
		struct zn_io_sum_row *row = &f->row[slot];

		if (row->state == ZN_ROW_WAITING) {
			row_wait(f, slot, now_ns);
		} else if (row->state == ZN_ROW_LIVE) {
			row_spread(f, slot, now_ns);
		} else if (row->state == ZN_ROW_LEAVING && row_settled(row, now_ns)) {
			f->arena->ops->io_free(f->arena, &row->of);
			row->state = ZN_ROW_FREE;
		}
	}
}

void zn_io_sums_tick(struct zn_io_sums *f, uint64_t now_ns)
{
	/* Whatever was missed that changes a thread's series (an exit that no program saw) is right again from
	 * here on. */
	zn_io_changed(f->arena->shared);
	rows_refresh(f, true);
	for (uint32_t i = 0; i < f->high; i++)
		if (f->io_sum[i].used)
			io_sum_tick(f, &f->io_sum[i], now_ns);
	while (f->high && !f->io_sum[f->high - 1].used)
		f->high--;
	rows_tick(f, now_ns);
	zn_mounts_tick(&f->mounts, now_ns);
	f->tick_ns = now_ns;
}

/* ---- What is shown. ---- */

const char *zn_io_sum_job(const struct zn_io_sums *f, const struct zn_io_sum *io_sum)
{
	const struct zn_job *job;

	if (!io_sum->job.serial)
		return "";
	job = f->jobs ? zn_jobs_at(f->jobs, io_sum->job) : NULL;
	return job && zn_jobs_find(f->jobs, job->id, ZN_UNKNOWN) == job ? job->id : NULL;
}

bool zn_io_sum_of(const struct zn_io_sum *io_sum, const struct zn_job *job)
{
	return io_sum->used && zn_job_ref_same(io_sum->job, (struct zn_job_ref){job->slot, job->serial});
}

static void merge_op(struct zn_io_sums *f, const struct zn_io_sum *io_sum, enum zn_io_op op)
{
	for (uint32_t slot = io_sum->op[op].first; slot; slot = f->row[slot].next)
		merge_into(f, &f->merged, slot);
}

static bool is_same_mount(const struct zn_io_sum *a, const struct zn_io_sum *b)
{
	return a != b && a->used && zn_job_ref_same(a->job, b->job) && !strcmp(a->point, b->point);
}

const struct zn_hist *zn_io_sum_merge(
	struct zn_io_sums *f, const struct zn_io_sum *io_sum, enum zn_io_op op, bool same_mount)
{
	memset(&f->merged, 0, sizeof(f->merged));
	merge_op(f, io_sum, op);
	for (uint32_t i = 0; same_mount && io_sum->same_mount && i < f->high; i++) {
		if (!is_same_mount(&f->io_sum[i], io_sum) || !f->io_sum[i].op[op].first)
			continue;
		if (&f->io_sum[i] < io_sum)
			return NULL;
		merge_op(f, &f->io_sum[i], op);
	}
	return &f->merged.hist;
}

/* NULL: it is of no job, or of a forgotten job. */
static const struct zn_job_shared *row_of(const struct zn_io_sums *f, struct zn_job_ref job)
{
	const struct zn_job_shared *row = job.serial ? zn_arena_job(f->arena, job.slot) : NULL;

	return row && row->serial == job.serial ? row : NULL;
}

static uint32_t ops_of(const __u64 count[ZN_IO_OP_COUNT])
{
	uint32_t ops = 0;

	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
		ops |= (uint32_t)(count[op] > 0) << op;
	return ops;
}

uint32_t zn_io_sums_missed(const struct zn_io_sums *f, struct zn_job_ref job)
{
	const struct zn_job_shared *row = row_of(f, job);

	return row ? ops_of(row->io_missed) : 0;
}

uint32_t zn_io_sums_lost(const struct zn_io_sums *f, struct zn_job_ref job)
{
	const struct zn_job_shared *row = row_of(f, job);

	return row ? f->hidden[job.slot] | ops_of(row->io_lost) | ops_of(row->io_missed) : 0;
}

bool zn_io_sum_whole(const struct zn_io_sums *f, const struct zn_io_sum *io_sum, enum zn_io_op op, uint32_t lost)
{
	bool whole = io_sum->op[op].first && !(zn_io_sums_missed(f, io_sum->job) >> op & 1);

	if (!(lost >> op & 1))
		return true;
	for (uint32_t slot = io_sum->op[op].first; slot; slot = f->row[slot].next)
		whole &= !f->row[slot].of.partial;
	return whole;
}

void zn_io_sums_causes(const struct zn_io_sums *f, struct zn_causes *c)
{
	for (uint32_t i = 0; i < f->high; i++) {
		const struct zn_io_sum *io_sum = &f->io_sum[i];
		uint64_t ns = io_sum->op[ZN_IO_READ].spent_ns + io_sum->op[ZN_IO_OPEN].spent_ns +
			io_sum->op[ZN_IO_STAT].spent_ns;

		if (io_sum->used && ns)
			zn_causes_files(c, io_sum->job, ns, io_sum->point);
	}
}

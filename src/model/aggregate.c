/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The aggregator: reads the arena as memory and derives what is shown from it: which processes there are, rates,
 * quantiles, sums over processes. BPF programs add while this reads; each number is read once, so that it is
 * consistent in itself.
 */
#include "zernel.h"
#include <string.h>

void zn_agg_init(struct zn_agg *a, struct zn_arena *arena)
{
	if (a->arena) /* a fresh one is zero, and memory that nobody needs is not touched */
		memset(a, 0, sizeof(*a));
	a->arena = arena;
	a->measured = UINT64_MAX;
}

uint64_t zn_counter_advance(uint64_t *seen, uint64_t now)
{
	uint64_t more = now > *seen ? now - *seen : 0;

	*seen += more;
	return more;
}

bool zn_counter_is_gauge(uint32_t count)
{
	return count == ZN_C_HOST_PINNED || count == ZN_C_LIVE_ALLOCS || count == ZN_C_CAPTURES ||
		count == ZN_C_CHILDREN || count == ZN_C_WORKERS;
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

/* Its entries in the table go by the next tick. */
static void comms_drop(struct zn_agg *a, uint32_t tgid)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->comm_count; i++)
		if (a->comms[i].tgid != tgid)
			a->comms[kept++] = a->comms[i];
	a->comm_count = kept;
}

/* Keeps the sums of a process that has gone, and gives its row back. Gauges end with it. */
static void retire_row(struct zn_agg *a, uint32_t row, struct zn_proc *p)
{
	if (a->gone_row)
		a->gone_row(a->jobs, row, p);
	for (uint32_t d = 0; d < ZN_OPERATION_COUNT; d++) {
		struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

		if (h)
			zn_hist_merge(&a->gone[d], h);
	}
	for (uint32_t i = 0; i < ZN_COUNTER_COUNT; i++)
		if (!zn_counter_is_gauge(i))
			a->gone_count[i] += p->count[i];
	comms_drop(a, p->tgid);
	a->info[row].gone_id = p->id;
	a->info[row].exit_code = p->exit_code;
	a->info[row].gone_ns = p->exit_ns;
	a->arena->ops->release(a->arena, row);
	a->info[row].id = 0;
}

#define PROCESS_INFO_NS (2 * ZN_NS_PER_S)

/* A GPU is named once the process's environment is known, or cannot be known: a name that changes would break
 * series. The environment of a process that has gone may be known still. */
static bool ask_process_info(
	struct zn_agg *a, const struct zn_info *info, const struct zn_proc *p, struct zn_process_info *process_info)
{
	*process_info =
		(struct zn_process_info){.gone = true, .owner = a->process_info ? ZN_OWNER_NOBODY : ZN_OWNER_ROOT};
	if (!a->process_info || a->process_info(a->owner, p, process_info))
		return true;
	return p->exit_ns || zn_now_ns() - info->first_tick_ns >= PROCESS_INFO_NS;
}

static bool gpu_touched(const struct zn_proc_gpu *g)
{
	uint64_t calls = 0;

	for (uint32_t kind = 0; kind < ZN_KIND_COUNT; kind++)
		calls += g->alloc_calls[kind];
	return calls || g->peak_bytes || g->fail_oom || g->fail_other || g->total_bytes;
}

#define LOOK_FIRST_NS (ZN_NS_PER_S / 2)
#define LOOK_MAX_NS   (64 * ZN_NS_PER_S)

/* Open devices decide where the driver has a list. */
static bool asks_for_looks(const struct zn_agg *a, const struct zn_proc *p)
{
	return a->look && a->gpus.listed && !p->exit_ns;
}

/* It may open its devices, or be given its context, after it was looked at: so it is looked at again, ever more
 * rarely. */
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
	return asks_for_looks(a, p) && zn_now_ns() - info->first_tick_ns < PROCESS_INFO_NS;
}

static void resolve_gpu(struct zn_agg *a, struct zn_info *info, const struct zn_proc *p,
	const struct zn_process_info *process_info, uint32_t o)
{
	if (is_unknown(a, info, o) && process_info->looks != info->looks)
		info->resolved[o] = false;
	if (!info->resolved[o]) {
		uint64_t refused = a->gpus.quota.refused;

		info->gpu[o] = zn_gpus_resolve(&a->gpus, p, process_info, o);
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
	struct zn_process_info process_info = {.looks = info->looks};
	bool asked = false;

	for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++) {
		if (!gpu_touched(&p->gpu[o]))
			continue;
		if (!asked && (!info->resolved[o] || (asks_for_looks(a, p) && is_unknown(a, info, o)))) {
			if (!ask_process_info(a, info, p, &process_info))
				return;
			asked = true;
		}
		resolve_gpu(a, info, p, &process_info, o);
	}
	if (asked)
		info->looks = process_info.looks;
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
static uint64_t joint_peak(struct zn_info *info, uint32_t first, const struct zn_gpu_usage *s, uint64_t highest)
{
	if (s->sum.used_bytes > info->share_peak[first])
		info->share_peak[first] = s->sum.used_bytes;
	return highest > info->share_peak[first] ? highest : info->share_peak[first];
}

static bool share_of(struct zn_info *info, const struct zn_proc *p, uint32_t first, struct zn_gpu_usage *to)
{
	uint64_t highest = 0;
	uint32_t ordinals = 0;

	for (uint32_t o = 0; o < first; o++)
		if (info->resolved[o] && info->gpu[o] == info->gpu[first])
			return false;
	*to = (struct zn_gpu_usage){.gpu = info->gpu[first], .partial = info->ledger != ZN_LEDGER_WHOLE};
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

size_t zn_agg_shares(struct zn_agg *a, uint32_t row, struct zn_gpu_usage to[ZN_PROC_GPUS + 1])
{
	const struct zn_proc *p = zn_arena_proc(a->arena, row);
	struct zn_info *info = &a->info[row];
	size_t n = 0;

	for (uint32_t o = 0; p && o <= ZN_PROC_GPUS; o++)
		if (info->resolved[o] && share_of(info, p, o, &to[n]))
			n++;
	return n;
}

/* Without the driver's list no minor number is known: a GPU has it as its name where its device file gave the
 * number. */
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

/* Memory that was not seen, of an unknown GPU, may be on any GPU. On a GPU of the driver's list it can only be if
 * the process has its device open; see zn_agg.partial_gpus. */
static void gpu_is_partial(struct zn_agg *a, struct zn_gpu *gpu)
{
	gpu->partial = true;
	for (uint32_t i = 0; i < a->gpus.count && zn_gpu_unknown(gpu) && !a->gpus.listed; i++)
		a->gpus.gpu[i].partial = true;
}

static void gpu_add(struct zn_agg *a, const struct zn_gpu_usage *share)
{
	struct zn_gpu *gpu = &a->gpus.gpu[share->gpu];

	gpu->used_bytes += share->sum.used_bytes;
	gpu->processes += share->sum.used_bytes > 0;
	if (share->partial)
		gpu_is_partial(a, gpu);
}

static void gpus_sum(struct zn_agg *a)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
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

#define DRM_NS (60 * ZN_NS_PER_S)

void zn_agg_follow_gpus(struct zn_agg *a, const char *nvidia, const char *drm)
{
	uint64_t now_ns = zn_now_ns();
	bool due = now_ns >= a->drm_due_ns;

	if (due)
		a->drm_due_ns = now_ns + DRM_NS;
	if (!zn_gpus_grown(&a->gpus, nvidia, due ? drm : NULL))
		return;
	zn_gpus_read(&a->gpus, nvidia, drm);
	for (uint32_t row = 0; row < ZN_LEN(a->info); row++)
		memset(a->info[row].resolved, 0, sizeof(a->info[row].resolved));
	zn_log(ZN_INFO, "gpus: the drivers have %u of NVIDIA's and %u of AMD's now", a->gpus.nvidia,
		a->gpus.listed - a->gpus.nvidia);
}

void zn_agg_refresh(struct zn_agg *a)
{
	struct zn_shared *s = a->arena->shared;
	uint64_t gone;

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
		gone = __atomic_load_n(&p->exit_ns, __ATOMIC_ACQUIRE); /* before what it has done is added up */
		zn_arena_gather(a->arena, p);
		if (gone) {
			retire_row(a, row, p);
			continue;
		}
		a->row[a->row_count++] = row;
	}
	gpus_sum(a);
}

static uint64_t rate_of(uint64_t now, uint64_t before, uint64_t ns)
{
	return ns && now > before ? (uint64_t)((__uint128_t)(now - before) * 1000 * ZN_NS_PER_S / ns) : 0;
}

/* What hooked calls of a family cost, in ns, by a process's counters (or the sums of those that have gone). What they
 * saved is read before the calls are, which are counted first. */
static uint64_t cost_of_calls(const struct zn_agg *a, const __u64 *count, enum zn_family f)
{
	uint64_t ns = 0, saved_ns = __atomic_load_n(&count[ZN_C_SAVED_NS(f)], __ATOMIC_ACQUIRE);

	if (f == ZN_FAM_CUDA_TRACE)
		saved_ns += count[ZN_C_LAUNCH_UNTIMED] * a->arena->shared->return_ns;
	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++)
		ns += count[ZN_C_HIT(f, first)] * a->arena->shared->cost_ns[first];
	return ns > saved_ns ? ns - saved_ns : 0;
}

/* What the probes of each family cost all processes together. */
static void family_rates(struct zn_agg *a, uint64_t ns)
{
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		uint64_t cost = cost_of_calls(a, a->gone_count, f);

		for (uint32_t r = 0; r < a->row_count; r++)
			cost += cost_of_calls(a, a->arena->procs[a->row[r]].count, f);
		a->family_cost_rate[f] = rate_of(cost, a->family_cost_ns[f], ns);
		a->family_cost_ns[f] = cost;
	}
}

/* Takes over a sum that never falls; returns what was added. A segment that ends while it is read may be seen
 * shorter. */
uint64_t zn_agg_count(const struct zn_agg *a, uint32_t row, uint32_t count)
{
	uint64_t now = a->arena->procs[row].count[count], shown = 0;

	if (count >= ZN_C_STALL_CPU && count <= ZN_C_STALL_OTHER)
		shown = a->info[row].stall_ns[count - ZN_C_STALL_CPU];
	return now > shown ? now : shown;
}

static void note_waits(struct zn_agg *a, uint32_t row, const struct zn_proc *p, uint64_t now_ns)
{
	const struct zn_spent *spent = &a->arena->shared->spent[row];
	struct zn_info *info = &a->info[row];
	uint64_t ns[ZN_STALL_COUNT];

	info->unseen_tick_ns =
		zn_counter_advance(&info->unseen_ns, spent->id == p->id ? spent->unseen_ns[ZN_SPARE_SWITCHES] : 0);
	memcpy(ns, p->count + ZN_C_STALL_CPU, sizeof(ns));
	if (a->arena->ops->stalls)
		a->arena->ops->stalls(a->arena, row, now_ns, ns);
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		info->stall_tick_ns[s] = zn_counter_advance(&info->stall_ns[s], ns[s]);
	for (uint32_t i = 0; i < ZN_LEN(info->worker_ns); i++)
		info->worker_tick_ns[i] = zn_counter_advance(&info->worker_ns[i], p->count[ZN_C_WORKER_BUSY_NS + i]);
}

/* Whoever joins is counted first, and written down then: its tgid last. */
static bool has_members(const struct zn_agg *a, const struct zn_skew *s)
{
	for (uint32_t m = 0; m < ZN_SKEW_RANKS && m < s->members; m++) {
		const struct zn_skew_rank *rank = &s->member[m];
		bool joins = !__atomic_load_n(&rank->tgid, __ATOMIC_ACQUIRE);
		const struct zn_proc *p = joins ? NULL : zn_arena_proc(a->arena, rank->row);

		if (joins || (rank->id && p && p->id == rank->id))
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
		uint64_t launches = ZN_LAUNCHES(p->count), cost = 0;
		uint64_t lived = now_ns > p->first_ns ? now_ns - p->first_ns : 0;

		for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
			cost += cost_of_calls(a, p->count, f);
		info->launch_rate = rate_of(launches, info->launches, lived < ns ? lived : ns);
		info->cost_rate = rate_of(cost, info->cost_ns, lived < ns ? lived : ns);
		info->launches = launches;
		info->cost_ns = cost;
		note_waits(a, a->row[r], p, now_ns);
	}
	family_rates(a, ns);
	release_skews(a);
	a->interval_ns = ns;
	a->tick_ns = now_ns;
	if (a->arena->ops->sweep)
		a->arena->ops->sweep(a->arena);
	comms_read(a);
}

const struct zn_hist *zn_agg_merge_live(struct zn_agg *a, enum zn_operation operation)
{
	if (a->merged.hist.calls) /* most operations are in no process */
		memset(&a->merged, 0, sizeof(a->merged));
	for (uint32_t r = 0; r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);
		const struct zn_hist *h = p ? zn_arena_hist(a->arena, p->hist[operation]) : NULL;

		if (h && h->calls)
			zn_hist_merge(&a->merged, h);
	}
	return &a->merged.hist;
}

const struct zn_hist *zn_agg_merge(struct zn_agg *a, enum zn_operation operation)
{
	zn_agg_merge_live(a, operation);
	if (a->gone[operation].hist.calls)
		zn_hist_merge(&a->merged, &a->gone[operation].hist);
	return &a->merged.hist;
}

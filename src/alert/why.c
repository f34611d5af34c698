/* SPDX-License-Identifier: GPL-2.0 */
/*
 * why.c: what a cause of lost time means, and what to do about it, in words. Each number of a sentence is in /metrics
 * or in the snapshot; which metric has the time is said beside it.
 */
#include "zernel.h"
#include <string.h>

#define SKEW        "zernel_nccl_issue_late_seconds_total"
#define ALL_WAIT    "zernel_nccl_all_wait_seconds"
#define RETRANSMITS "zernel_tcp_retransmits_total"
#define MISSING     "zernel_nccl_missing_rank_seconds"
#define STALL       "zernel_step_stall_ratio"
#define LOADER      "zernel_dataloader_wait_seconds"
#define FILES       "zernel_io_latency_seconds"
#define COPIES      "zernel_cuda_sync_seconds"
#define LAUNCH      "zernel_cuda_launch_latency_seconds"
#define AGE         "zernel_job_progress_age_seconds"
#define STARTUP     "zernel_job_startup_seconds"

static const struct {
	const char *what, *next, *metric;
	bool likely;
} meanings[ZN_CAUSE_COUNT] = {
	[ZN_CAUSE_HANG] = {"is lost to a rank that does not come",
		"look at that process: its stack (py-spy dump --pid, gdb -p), its log, its node's kernel log", MISSING},
	[ZN_CAUSE_ALL_WAIT] = {"passes while all ranks of this node wait",
		"look at the job's other nodes: who is missing there; then at the GPUs (nvidia-smi, the kernel's log)",
		ALL_WAIT, true},
	[ZN_CAUSE_NETWORK] = {"is waiting for other ranks, while TCP sends much of it again",
		"look for lost packets: links, switches, congestion (ethtool -S, ss -ti); compare with other nodes",
		RETRANSMITS},
	[ZN_CAUSE_STRAGGLER] = {"is waiting for a rank that comes late",
		"compare that rank with the others: its data, its CPU, its files; zernel why of its own process", SKEW},
	[ZN_CAUSE_COMMUNICATION] = {"is waiting for other ranks, none of which stands out on this node",
		"look at the other nodes of the job, at the network (retransmits), and at how much is communicated",
		STALL, true},
	[ZN_CAUSE_INPUT_CPU] = {"is waiting for data whose loader's workers are busy",
		"there are no CPUs to spare: take cheaper transforms, cache what is decoded, or give the job more CPUs",
		LOADER},
	[ZN_CAUSE_INPUT_WORKERS] = {"is waiting for data whose loader's workers are busy, and are fewer than the CPUs",
		"give the loader more workers: num_workers of the DataLoader", LOADER},
	[ZN_CAUSE_INPUT_FILES] = {"is waiting for data whose loader's workers wait for files",
		"read fewer and larger files, stage the data to a local disk, or add workers to have more reads under way",
		FILES},
	[ZN_CAUSE_INPUT_TRANSFER] = {"is waiting for data although its loader's workers are idle",
		"raise prefetch_factor; look at the pinning thread, and at what follows the loader in the program",
		LOADER, true},
	[ZN_CAUSE_INPUT_ITSELF] = {"runs on the CPU outside of GPU calls, in a process that reads files itself, with no worker",
		"if that is its data, let workers load it: num_workers of the DataLoader; else profile it (py-spy, perf)",
		STALL, true},
	[ZN_CAUSE_CHECKPOINT] = {"is writing files while nothing is launched",
		"write checkpoints less often, from a thread of their own, or to a faster file system", STALL},
	[ZN_CAUSE_STORAGE] = {"is blocked on files or page faults",
		"look at the mounts and their durations (zernel watch, view i); let a loader's workers read, where it has none",
		STALL},
	[ZN_CAUSE_CPUS] = {"is waiting for a free CPU",
		"give the job more CPUs, or fewer threads and workers; look for other programs on its CPUs", STALL},
	[ZN_CAUSE_THROTTLED] = {"is waiting for a CPU because the control group has had its share",
		"give the job more CPU time (cpu.max, --cpus-per-task), or fewer threads and workers", STALL},
	[ZN_CAUSE_LAUNCHES] = {"is launching: the GPU gets its work more slowly than it does it",
		"use CUDA graphs, torch.compile, or larger batches, so that each launch does more", LAUNCH},
	[ZN_CAUSE_COPIES] = {"is copying between host and GPU, and waiting for it",
		"use pinned memory and non_blocking=True; do not call .item() or .cpu() in each step", COPIES},
	[ZN_CAUSE_HOST] = {"runs on the CPU outside of GPU calls, and the GPU waits for that",
		"profile the program on the CPU (py-spy, perf): Python code, tokenizers, losses that are computed there",
		STALL, true},
	[ZN_CAUSE_IDLE] = {"passes without anything launched, copied, read or waited for",
		"see whether the program still has work; a notebook that is open holds its GPUs too", AGE, true},
	[ZN_CAUSE_STARTUP] = {"is starting: nothing has been launched yet",
		"see which phase takes long: imports, files of the model, or the other ranks of NCCL", STARTUP},
	[ZN_CAUSE_STOPPED] = {"passes in processes that cannot go on",
		"see who stopped it: a debugger, scontrol suspend, a freezer; if nobody did, its file system (kernel's log)",
		AGE},
};

/* ---- What is added to what a cause means. ---- */

static void say_hang(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	const struct zn_missing *m = &g->missing;
	char does[ZN_DOING_TEXT];

	if (!m->waiters)
		return;
	zn_missing_says(m, does);
	zn_out_text(o, ": ");
	if (m->rank != ZN_UNKNOWN) {
		zn_out_text(o, "rank ");
		zn_out_u64(o, m->rank);
		zn_out_text(o, ", ");
	}
	zn_out_text(o, "process ");
	zn_out_u64(o, m->tgid);
	zn_out_text(o, ", ");
	zn_out_text(o, does);
	zn_out_text(o, m->gone_ns ? ", " : ", for ");
	zn_out_u64(o, (now_ns - (m->gone_ns ? m->gone_ns : m->since_ns)) / ZN_NS_PER_S);
	zn_out_text(o, m->gone_ns ? " s ago" : " s");
}

static const char *const late_does[ZN_STALL_COUNT] = {
	[ZN_STALL_CPU] = "which runs on the CPU",
	[ZN_STALL_GPU] = "which waits for its GPU",
	[ZN_STALL_DATA] = "which waits for data",
	[ZN_STALL_DIST] = "which waits for other ranks",
	[ZN_STALL_IO] = "which is blocked on files",
	[ZN_STALL_RUNQUEUE] = "which waits for a free CPU",
	[ZN_STALL_OTHER] = "which sleeps",
};

static void say_straggler(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	(void)now_ns;
	if (!g->numbers.late_pid)
		return;
	zn_out_text(o, ": ");
	if (g->numbers.late_rank != ZN_UNKNOWN) {
		zn_out_text(o, "rank ");
		zn_out_u64(o, g->numbers.late_rank);
		zn_out_text(o, ", ");
	}
	zn_out_text(o, "process ");
	zn_out_u64(o, g->numbers.late_pid);
	if (g->numbers.late_in >= ZN_STALL_COUNT)
		return;
	zn_out_text(o, ", ");
	zn_out_text(o, late_does[g->numbers.late_in]);
	zn_out_char(o, ' ');
	zn_out_u64(o, g->numbers.late_percent);
	zn_out_text(o, " % of its time, the others ");
	zn_out_u64(o, g->numbers.others_percent);
	zn_out_text(o, " %");
}

static void say_workers(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	(void)now_ns;
	if (!g->numbers.workers || g->numbers.workers_busy == ZN_UNKNOWN)
		return;
	zn_out_text(o, ": ");
	zn_out_u64(o, g->numbers.workers);
	zn_out_text(o, g->numbers.workers == 1 ? " worker, busy " : " workers, busy ");
	zn_out_u64(o, g->numbers.workers_busy);
	zn_out_text(o, " % of the time");
}

static void say_cpus(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	say_workers(o, g, now_ns);
	if (!g->numbers.cpus || !g->numbers.workers)
		return;
	zn_out_text(o, "; CPUs: ");
	zn_out_u64(o, g->numbers.cpus);
}

static void say_stopped(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	(void)now_ns;
	if (!g->stopped_pid)
		return;
	zn_out_text(o, "; process ");
	zn_out_u64(o, g->stopped_pid);
	zn_out_char(o, ' ');
	zn_out_text(o, zn_stopped_says(g->stop));
}

static void say_all_wait(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	char text[ZN_ALL_WAIT_TEXT];

	if (!g->all_wait.here)
		return;
	zn_all_wait_for(&g->all_wait, text);
	zn_out_text(o, ", now for ");
	zn_out_u64(o, (now_ns - g->all_wait.since_ns) / ZN_NS_PER_S);
	zn_out_text(o, " s: ");
	zn_out_text(o, text);
	say_stopped(o, g, now_ns);
}

static void say_retransmits(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	(void)now_ns;
	if (!g->numbers.retransmits)
		return;
	zn_out_text(o, ": ");
	zn_out_u64(o, g->numbers.retransmits);
	zn_out_text(o, " segments a second");
}

static void say_throttled(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	(void)now_ns;
	if (!g->throttled_percent)
		return;
	zn_out_text(o, ": kept from its CPUs ");
	zn_out_u64(o, g->throttled_percent);
	zn_out_text(o, " % of the time");
}

/* The last one may go on. */
static void say_checkpoints(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	const struct zn_checkpoint_sum *c = &g->numbers.checkpoints;
	char bytes[ZN_UNITS_CELL], rate[ZN_UNITS_CELL];

	(void)now_ns;
	if (!c->count || !c->last_ns)
		return;
	zn_out_text(o, ": checkpoints: ");
	zn_out_u64(o, c->count);
	zn_out_text(o, ", the last one of ");
	zn_out_text(o, zn_units_bytes(bytes, c->last_bytes));
	zn_out_text(o, " in ");
	zn_out_u64(o, (c->last_ns + ZN_NS_PER_S / 2) / ZN_NS_PER_S);
	zn_out_text(o, " s, ");
	zn_out_text(o, zn_units_bytes(rate, (uint64_t)((__uint128_t)c->last_bytes * ZN_NS_PER_S / c->last_ns)));
	zn_out_text(o, " a second");
}

static void say_storage(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	if (g->numbers.mount[0]) {
		zn_out_text(o, ": most of it on ");
		zn_out_text(o, g->numbers.mount);
	}
	say_stopped(o, g, now_ns);
}

static void say_reads(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	char bytes[ZN_UNITS_CELL];

	(void)now_ns;
	zn_out_text(o, ": ");
	zn_out_text(o, zn_units_bytes(bytes, g->numbers.read_rate));
	zn_out_text(o, " a second");
	if (!g->numbers.mount[0])
		return;
	zn_out_text(o, ", most of it on ");
	zn_out_text(o, g->numbers.mount);
}

static void say_mount(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns)
{
	say_workers(o, g, now_ns);
	if (!g->numbers.mount[0])
		return;
	zn_out_text(o, "; most of it on ");
	zn_out_text(o, g->numbers.mount);
}

static void (*const says[ZN_CAUSE_COUNT])(struct zn_out *o, const struct zn_cause_group *g, uint64_t now_ns) = {
	[ZN_CAUSE_HANG] = say_hang,
	[ZN_CAUSE_STRAGGLER] = say_straggler,
	[ZN_CAUSE_INPUT_CPU] = say_workers,
	[ZN_CAUSE_INPUT_FILES] = say_mount,
	[ZN_CAUSE_INPUT_TRANSFER] = say_workers,
	[ZN_CAUSE_INPUT_WORKERS] = say_cpus,
	[ZN_CAUSE_ALL_WAIT] = say_all_wait,
	[ZN_CAUSE_NETWORK] = say_retransmits,
	[ZN_CAUSE_THROTTLED] = say_throttled,
	[ZN_CAUSE_STORAGE] = say_storage,
	[ZN_CAUSE_CHECKPOINT] = say_checkpoints,
	[ZN_CAUSE_STOPPED] = say_stopped,
	[ZN_CAUSE_INPUT_ITSELF] = say_reads,
};

/* ---- The list. ---- */

uint32_t zn_why_percent(uint64_t part, uint64_t all)
{
	return all ? (uint32_t)((part * 100 + all / 2) / all) : 0;
}

static void fill_why(struct zn_why *w, const struct zn_cause_group *g, uint64_t now_ns)
{
	struct zn_out o = {.at = w->says, .cap = sizeof(w->says) - 1};

	w->next = meanings[w->cause].next;
	w->metric = meanings[w->cause].metric;
	w->sure = meanings[w->cause].likely || (w->cause == ZN_CAUSE_STRAGGLER && g->numbers.late_likely) ? "likely"
													  : "measured";
	if (w->cause == ZN_CAUSE_ALL_WAIT && g->all_wait.here && g->all_wait.here == g->all_wait.nranks)
		w->next = "look at the GPUs (nvidia-smi, the kernel's log); one long kernel looks the same";
	zn_out_u64(&o, w->percent);
	zn_out_text(&o, " % of the time ");
	zn_out_text(&o, meanings[w->cause].what);
	if (says[w->cause])
		says[w->cause](&o, g, now_ns);
	w->says[o.len] = 0;
}

/* A hang stops everything else, so it is shown at once and first. */
static bool stands_still(const struct zn_cause_group *g, enum zn_cause cause)
{
	return (cause == ZN_CAUSE_HANG && g->missing.waiters) || (cause == ZN_CAUSE_ALL_WAIT && g->all_wait.here) ||
		(cause == ZN_CAUSE_STOPPED && g->stopped && g->stopped == g->processes);
}

/* Before all that lost less. */
static void insert_why(struct zn_why to[ZN_CAUSE_COUNT], size_t count, const struct zn_why *w)
{
	size_t at = count;

	for (; at && !to[at - 1].still && (w->still || to[at - 1].lost_ns < w->lost_ns); at--)
		to[at] = to[at - 1];
	to[at] = *w;
}

size_t zn_why_list(const struct zn_cause_group *g, const struct zn_cause_step *window, uint64_t now_ns,
	struct zn_why to[ZN_CAUSE_COUNT])
{
	size_t count = 0;

	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++) {
		struct zn_why w = {.cause = cause, .lost_ns = window->lost_ns[cause]};

		w.percent = zn_why_percent(w.lost_ns, window->time_ns);
		w.still = stands_still(g, cause);
		if (w.percent < ZN_WHY_LEAST && !w.still)
			continue;
		fill_why(&w, g, now_ns);
		insert_why(to, count++, &w);
	}
	return count;
}

void zn_why_none(const struct zn_cause_step *window, char to[ZN_WHY_MAX])
{
	uint32_t gpu = zn_why_percent(window->gpu_ns, window->time_ns);

	if (!window->time_ns)
		snprintf(to, ZN_WHY_MAX, "nothing has launched work on a GPU yet");
	else if (gpu >= 50)
		snprintf(to, ZN_WHY_MAX,
			"no cause found: %u %% waits for the GPU, which is what a GPU-bound job looks like", gpu);
	else
		snprintf(to, ZN_WHY_MAX, "no cause found: nothing takes %d %% of the time; %u %% waits for the GPU",
			ZN_WHY_LEAST, gpu);
}

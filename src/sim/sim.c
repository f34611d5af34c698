/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sim.c: what --simulate shows: two training jobs of four ranks on four GPUs. Now and then all of them stop to write
 * a checkpoint; the first job ends from time to time and is followed by another. Without a scenario one rank leaks
 * GPU memory, another waits for its data, so that the others wait for it in all_reduce, and the second job was given
 * a GPU that it never uses. A scenario has one fault in the second half of each cycle, and no other; "pauses" has
 * what is long and no fault. Those of a node are of one of a larger job: daemons with one seed have the same
 * communicators. The figures are written where BPF programs would write them, so that all else is the real thing.
 */
#include <string.h>

#include "zernel.h"

#define MIB       (1ULL << 20)
#define FIRST_PID 1000
#define INIT_NS   1800000000

#define LAUNCH_NS     142000ULL
#define SPIKE_PERMILL 11
#define SPIKE_FROM_NS 800000
#define SPIKE_TO_NS   2000000
#define GRAPH_EVERY   64 /* launches */

/* All ranks launch some 2,000 kernels a second, a little more or less in turn, and few while they write a checkpoint,
 * when nothing else goes on either. */
#define SWING_MS         90000
#define SWING_PERMILL    80
#define CHECKPOINT_LEAVE 8 /* one launch in so many */

#define SLOW_LOADER 3  /* times */
#define STALL_EVERY 60 /* batches: a new file is opened */
#define STALL_TIMES 7

/* Of scenarios: a cycle gives the built-in rules the time that they look back on, and that they wait. */
#define CYCLE_S        240
#define STARVED_TIMES  12
#define SLOW_TIMES     4
#define LATE_NS        15000000 /* at each all_reduce */
#define EARLY_NS       300000   /* below this, at every collective */
#define RETRANSMIT_MS  10
#define COST_NS        1000 /* of a hooked call */
#define TINY_LAUNCHES  14   /* per millisecond */
#define LOST_EVERY_MS  1000
#define ERROR_EVERY_MS 5000
#define BROKEN_GPU     2
#define BROKEN_XID     94  /* a memory error that was contained */
#define BROKEN_RESULT  226 /* CUDA_ERROR_CONTAINED, which the process is given that uses it */
#define HUNG_RANK      5
#define COPY_TIMES     40
#define MANY_LAUNCHES  7 /* per millisecond */
#define MANY_CPUS      64
#define IMPORT_NS      4000000000ULL /* of a process, before its first call */
#define PAUSES_S       600

/* The first job runs this long, and the next one comes after a pause. */
#define JOB_MS       300000
#define JOB_PAUSE_MS 10000

enum copy { NO_COPY = -1, HTOD = ZN_C_COPY_BYTES_HTOD, DTOH = ZN_C_COPY_BYTES_DTOH };
#define COPY_CALLS (ZN_C_COPY_CALLS_HTOD - ZN_C_COPY_BYTES_HTOD)

/* What a rank does again and again. It takes middle_ns, a little less or more; or at least that, and at most
 * skew_ns more. */
static const struct event {
	enum zn_operation operation;
	enum zn_family family;
	uint32_t every_ms;
	uint64_t middle_ns, skew_ns;
	uint64_t bytes;
	enum copy copy;
} events[] = {
	{ZN_H_DATALOAD, ZN_FAMILY_COUNT, 200, 8000000, 0, 0, NO_COPY},
	{ZN_H_SYNC_HTOD, ZN_FAM_CUDA_TRACE, 200, 3100000, 0, 77 * MIB, HTOD},
	{ZN_H_SYNC_DTOH, ZN_FAM_CUDA_TRACE, 200, 41000, 0, 4, DTOH},
	{ZN_H_SYNC_STREAM, ZN_FAM_CUDA_TRACE, 100, 11000000, 0, 0, NO_COPY},
	{ZN_H_SYNC_EVENT, ZN_FAM_CUDA_TRACE, 50, 420000, 0, 0, NO_COPY},
	{ZN_H_NCCL_ALL_REDUCE, ZN_FAM_NCCL, 100, 34000000, 33000000, 128 * MIB, NO_COPY},
	{ZN_H_NCCL_ALL_GATHER, ZN_FAM_NCCL, 200, 9000000, 4000000, 64 * MIB, NO_COPY},
	{ZN_H_NCCL_BROADCAST, ZN_FAM_NCCL, 5000, 2000000, 1000000, 16 * MIB, NO_COPY},
	{ZN_H_NCCL_GROUP, ZN_FAM_NCCL, 200, 260000, 0, 0, NO_COPY},
};

/* How long a launch takes on each rank, per mille. */
static const uint16_t launch_permill[ZN_SIM_RANKS] = {1000, 985, 1015, 1120, 960, 1005, 990, 1030};

static const uint16_t cycle_s[ZN_SCENARIO_COUNT] = {[ZN_SCENARIO_IDLE_GPU] = 2400,
	[ZN_SCENARIO_NEARLY_IDLE] = 2400,
	[ZN_SCENARIO_SLOW_LAUNCH] = 900,
	[ZN_SCENARIO_OOM] = 900,
	[ZN_SCENARIO_HOST_MEMORY] = 600,
	[ZN_SCENARIO_XID] = 900,
	[ZN_SCENARIO_AMDGPU] = 900,
	[ZN_SCENARIO_SERVER] = 900,
	[ZN_SCENARIO_LINK] = 900,
	[ZN_SCENARIO_PAUSES] = PAUSES_S};

static void launch_kernels(struct zn_sim *s, uint32_t rank)
{
	struct zn_proc *p = s->rank[rank];
	bool spike = zn_random_below(&s->state, 1000) < SPIKE_PERMILL;
	uint64_t ns = spike ? SPIKE_FROM_NS + zn_random_below(&s->state, SPIKE_TO_NS - SPIKE_FROM_NS)
			    : zn_random_around(&s->state, LAUNCH_NS * launch_permill[rank] / 1000);

	if (zn_scenario_suffers(s, rank, ZN_SCENARIO_SLOW_LAUNCH))
		ns *= SLOW_TIMES;
	zn_memory_record(&s->memory, p, ZN_H_LAUNCH, ns, 0);
	p->count[zn_random_below(&s->state, GRAPH_EVERY) ? ZN_C_LAUNCH_KERNEL : ZN_C_LAUNCH_GRAPH]++;
	p->count[ZN_C_HITS + ZN_FAM_CUDA_TRACE]++;
}

/* While a rank waits for its data, the others wait for it in all_reduce. It comes last itself, and waits for no
 * rank. */
static uint64_t event_duration(struct zn_sim *s, uint32_t rank, const struct event *ev)
{
	uint64_t ns, skew = zn_scenario_straggles(s, rank) ? ev->skew_ns / 8 : ev->skew_ns;

	if (ev->skew_ns)
		return zn_random_skewed(&s->state, ev->middle_ns, skew);
	ns = zn_random_around(&s->state, ev->middle_ns);
	if (ev->operation == ZN_H_SYNC_HTOD && zn_scenario_suffers(s, rank, ZN_SCENARIO_HOST_COPIES))
		return COPY_TIMES * ns;
	if (ev->operation != ZN_H_DATALOAD)
		return ns;
	if (zn_random_below(&s->state, STALL_EVERY) == 0)
		return STALL_TIMES * ns;
	if (zn_scenario_suffers(s, rank, ZN_SCENARIO_STARVATION))
		return STARVED_TIMES * ns;
	return zn_scenario_straggles(s, rank) ? SLOW_LOADER * ns : ns;
}

static void note_issue(struct zn_skew *skew, uint32_t member)
{
	uint64_t n = skew->member[member].issued++;

	skew->at_ns[n & (ZN_SKEW_WINDOW - 1)][member] = zn_now_ns();
}

/* When a rank issues a collective, beside the others: random numbers of its own. */
static void issue_collective(struct zn_sim *s, uint32_t rank, enum zn_operation operation)
{
	struct zn_skew *skew = s->skew[rank / ZN_SIM_JOB_RANKS];
	bool late = zn_scenario_straggles(s, rank) && operation == ZN_H_NCCL_ALL_REDUCE,
	     last = rank % ZN_SIM_JOB_RANKS == ZN_SIM_JOB_RANKS - 1;
	uint64_t ns = zn_random_below(&s->skew_state, EARLY_NS) + (late ? LATE_NS : 0);

	if (!skew)
		return;
	note_issue(skew, rank % ZN_SIM_JOB_RANKS);
	skew->member[rank % ZN_SIM_JOB_RANKS].late_ns += ns;
	skew->member[rank % ZN_SIM_JOB_RANKS].last += last;
	if (!last)
		return;
	skew->done++;
	zn_hist_add(&s->memory.arena.hists[skew->hist], ns);
}

static void record_event(struct zn_sim *s, uint32_t rank, const struct event *ev)
{
	struct zn_proc *p = s->rank[rank];

	zn_memory_record(&s->memory, p, ev->operation, event_duration(s, rank, ev), ev->bytes);
	if (ev->skew_ns)
		issue_collective(s, rank, ev->operation);
	if (ev->copy != NO_COPY) {
		p->count[ev->copy] += ev->bytes;
		p->count[ev->copy + COPY_CALLS]++;
	}
	if (ev->family < ZN_FAMILY_COUNT)
		p->count[ZN_C_HITS + ev->family]++;
}

/* One communicator for each job. */
static void start_comms(struct zn_sim *s)
{
	s->memory.comm_count = 0;
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++) {
		const struct zn_skew *skew = s->skew[i / ZN_SIM_JOB_RANKS];

		if (s->rank[i])
			s->memory.comms[s->memory.comm_count++] =
				(struct zn_comm){.hash = s->comm[i / ZN_SIM_JOB_RANKS],
					.rank = i % ZN_SIM_JOB_RANKS,
					.nranks = ZN_SIM_JOB_RANKS,
					.tgid = s->rank[i]->tgid,
					.skew = skew ? (uint16_t)(skew - s->memory.arena.skews + 1) : 0,
					.member = i % ZN_SIM_JOB_RANKS};
	}
}

static void start_rank(struct zn_sim *s, uint32_t rank)
{
	struct zn_proc *p = zn_memory_claim(&s->memory, FIRST_PID + s->pids++, "python3");

	s->rank[rank] = p;
	if (!p)
		return;
	zn_sim_gpu_start(s, rank);
	zn_memory_record(&s->memory, p, ZN_H_NCCL_INIT, zn_random_around(&s->state, INIT_NS), 0);
	p->count[ZN_C_HITS + ZN_FAM_NCCL]++;
}

static void start_skew(struct zn_sim *s, uint32_t job)
{
	struct zn_memory_arena *p = &s->memory;
	uint32_t slot = 0;

	while (slot < ZN_SKEWS_MAX && p->arena.skews[slot].hash)
		slot++;
	s->skew[job] = slot < ZN_SKEWS_MAX && p->hist_count ? &p->arena.skews[slot] : NULL;
	if (!s->skew[job])
		return;
	*s->skew[job] = (struct zn_skew){.of = ZN_SKEW_OF(ZN_OWNER_ROOT, s->comm[job]),
		.hash = s->comm[job],
		.members = ZN_SIM_JOB_RANKS,
		.nranks = zn_scenario_ranks(s),
		.hist = zn_memory_hist(p)};
	p->arena.shared->skew_used[slot] = 1;
	for (uint32_t i = 0; i < ZN_SIM_JOB_RANKS; i++) {
		const struct zn_proc *rank = s->rank[job * ZN_SIM_JOB_RANKS + i];

		s->skew[job]->member[i].rank = i;
		if (rank)
			s->skew[job]->member[i] = (struct zn_skew_rank){.tgid = rank->tgid,
				.row = (uint32_t)(rank - p->arena.procs),
				.id = rank->id,
				.rank = i};
	}
}

static void end_ranks(struct zn_sim *s, uint32_t job)
{
	for (uint32_t i = 0; i < ZN_SIM_JOB_RANKS; i++) {
		if (s->rank[job * ZN_SIM_JOB_RANKS + i])
			zn_memory_exit(&s->memory, s->rank[job * ZN_SIM_JOB_RANKS + i]);
		s->rank[job * ZN_SIM_JOB_RANKS + i] = NULL;
	}
	s->skew[job] = NULL;
	start_comms(s);
}

static void start_ranks(struct zn_sim *s, uint32_t job)
{
	s->comm[job] = zn_random_draw(&s->comm_state) | 1;
	for (uint32_t i = 0; i < ZN_SIM_JOB_RANKS; i++)
		start_rank(s, job * ZN_SIM_JOB_RANKS + i);
	start_skew(s, job);
	start_comms(s);
}

int zn_sim_open(struct zn_sim *s, uint64_t seed)
{
	int err;

	*s = (struct zn_sim){.state = seed,
		.seed = seed,
		.file_state = ~seed,
		.kernel_state = seed + 1,
		.skew_state = seed + 2,
		.server_state = seed + 3,
		.stack_state = seed + 4};
	zn_sim_scenario(s, ZN_SCENARIO_MIXED, 0);
	s->comm_state = zn_random_draw(&s->state);
	err = zn_memory_open(&s->memory);
	for (uint32_t job = 0; !err && job < ZN_SIM_JOBS; job++)
		start_ranks(s, job);
	return err;
}

void zn_sim_scenario(struct zn_sim *s, enum zn_scenario scenario, uint64_t seconds)
{
	if (!seconds)
		seconds = cycle_s[scenario] ? cycle_s[scenario] : CYCLE_S;
	s->scenario = scenario;
	s->cycle_ms = seconds * 1000;
	for (uint32_t job = 0; job < ZN_SIM_JOBS; job++)
		if (s->skew[job])
			s->skew[job]->nranks = zn_scenario_ranks(s);
	if (scenario == ZN_SCENARIO_SERVER)
		zn_sim_servers_start(s);
	if (scenario == ZN_SCENARIO_OVERHEAD)
		s->memory.arena.shared->cost_ns[0] = COST_NS;
}

void zn_sim_close(struct zn_sim *s)
{
	zn_memory_close(&s->memory);
}

/* ---- Jobs. ---- */

#define SAYS_EVERY_MS 1000
#define STEP_MS       500

/* The second job says of itself where it is. */
static void annotate_job(struct zn_sim *s)
{
	const struct zn_proc *p = s->rank[ZN_SIM_JOB_RANKS];
	const char *phase = zn_scenario_writes(s, ZN_SIM_JOB_RANKS) ? "checkpoint" : "train";
	struct zn_annotation by = {.at_ns = zn_now_ns(), .at_wall_ms = zn_wall_ms()};
	char text[ZN_TEXT_MAX], why[ZN_TEXT_MAX];

	if (!p || s->elapsed_ms % SAYS_EVERY_MS)
		return;
	by.pid = p->tgid;
	snprintf(text, sizeof(text), "step=%llu,phase=%s", (unsigned long long)s->elapsed_ms / STEP_MS, phase);
	zn_annotations_say(s->annotations, p->job, &by, text, why);
}

static void jobs_run(struct zn_sim *s)
{
	uint64_t at = s->elapsed_ms % (JOB_MS + JOB_PAUSE_MS);

	if (at == JOB_MS) {
		end_ranks(s, 0);
		zn_sim_job_end(s, 0);
	} else if (at == 0) {
		start_ranks(s, 0);
		zn_sim_job_start(s, 0);
	}
}

/* In this millisecond: 1 to 3, with a chance of one more or one less that rises and falls with time. */
static uint64_t launch_count(struct zn_sim *s, uint32_t rank)
{
	uint64_t half = SWING_MS / 2, at = s->elapsed_ms % SWING_MS, n = 1 + zn_random_below(&s->state, 3);
	uint64_t up = (at < half ? at : SWING_MS - at) * 2 * SWING_PERMILL / half; /* 0 to 2 * SWING_PERMILL */
	bool change = zn_random_below(&s->state, 1000) < (up < SWING_PERMILL ? SWING_PERMILL - up : up - SWING_PERMILL);

	if (zn_scenario_writes(s, rank))
		return zn_random_below(&s->state, CHECKPOINT_LEAVE) == 0;
	if (zn_scenario_suffers(s, rank, ZN_SCENARIO_LAUNCH_BOUND))
		return MANY_LAUNCHES;
	if (s->phase == ZN_SCENARIO_OVERHEAD)
		return TINY_LAUNCHES;
	return change ? up < SWING_PERMILL ? n - 1 : n + 1 : n;
}

/* Where a millisecond of a launching thread goes, in us, by enum zn_stall, and how long the rank's workers are
 * busy in it. */
#define WORKERS 4
enum {
	SPENT_NORMAL,
	SPENT_STRAGGLER,
	SPENT_BEHIND,
	SPENT_STARVED,
	SPENT_CHECKPOINT,
	SPENT_ASLEEP,
	SPENT_WAITING,
	SPENT_COMPUTING,
	SPENT_LOADING,
	SPENT_TALKING,
	SPENT_QUEUED,
	SPENT_READING,
	SPENT_STARTING,
	SPENT_TRANSFERRING,
	SPENT_SLOW,
	SPENT_SLOW_PEER
};
static const struct {
	uint16_t us[ZN_STALL_COUNT], busy_us;
} spent[] = {
	[SPENT_NORMAL] = {{300, 560, 40, 60, 20, 10, 10}, 550},
	[SPENT_STRAGGLER] = {{300, 520, 125, 15, 20, 10, 10}, 985},
	[SPENT_STARVED] = {{300, 180, 450, 30, 20, 10, 10}, 985},
	[SPENT_CHECKPOINT] = {{200, 0, 0, 40, 740, 10, 10}, 20},
	[SPENT_ASLEEP] = {{0, 0, 0, 0, 0, 0, 1000}, 0},
	[SPENT_WAITING] = {{0, 1000, 0, 0, 0, 0, 0}, 0},
	[SPENT_BEHIND] = {{240, 240, 20, 460, 20, 10, 10}, 550},
	[SPENT_COMPUTING] = {{960, 20, 0, 0, 0, 10, 10}, 20},
	[SPENT_LOADING] = {{820, 80, 0, 10, 70, 10, 10}, 0},
	[SPENT_TALKING] = {{200, 120, 20, 620, 20, 10, 10}, 550},
	[SPENT_QUEUED] = {{250, 280, 20, 20, 20, 400, 10}, 550},
	[SPENT_READING] = {{200, 200, 20, 20, 540, 10, 10}, 550},
	[SPENT_STARTING] = {{300, 0, 0, 0, 680, 10, 10}, 0},
	[SPENT_TRANSFERRING] = {{300, 180, 450, 30, 20, 10, 10}, 200},
	[SPENT_SLOW] = {{700, 160, 40, 60, 20, 10, 10}, 550},
	[SPENT_SLOW_PEER] = {{200, 660, 40, 60, 20, 10, 10}, 550},
};

/* Of the rank that the others wait for, and of the others. */
static const uint8_t spent_still[][2] = {
	[ZN_STILL_ASLEEP] = {SPENT_ASLEEP, SPENT_WAITING},
	[ZN_STILL_DRIVER] = {SPENT_ASLEEP, SPENT_WAITING},
	[ZN_STILL_ALL] = {SPENT_WAITING, SPENT_WAITING},
	[ZN_STILL_NODE] = {SPENT_ASLEEP, SPENT_ASLEEP},
	[ZN_STILL_PEER] = {SPENT_WAITING, SPENT_WAITING},
	[ZN_STILL_CHECKPOINT] = {SPENT_CHECKPOINT, SPENT_WAITING},
	[ZN_STILL_EVALUATION] = {SPENT_NORMAL, SPENT_WAITING},
	[ZN_STILL_COMPILE] = {SPENT_COMPUTING, SPENT_COMPUTING},
	[ZN_STILL_STOPPED] = {SPENT_WAITING, SPENT_WAITING}, /* each inside a call */
};

static const struct {
	enum zn_scenario scenario;
	uint8_t spent;
} spent_in[] = {
	{ZN_SCENARIO_STARVATION, SPENT_STARVED},
	{ZN_SCENARIO_COMMUNICATION, SPENT_TALKING},
	{ZN_SCENARIO_RETRANSMITS, SPENT_TALKING},
	{ZN_SCENARIO_CPU_SHORTAGE, SPENT_QUEUED},
	{ZN_SCENARIO_STORAGE, SPENT_READING},
	{ZN_SCENARIO_HOST_CODE, SPENT_COMPUTING},
	{ZN_SCENARIO_OWN_LOADER, SPENT_LOADING},
	{ZN_SCENARIO_CPU_LIMIT, SPENT_QUEUED},
	{ZN_SCENARIO_FEW_WORKERS, SPENT_STARVED},
	{ZN_SCENARIO_SLOW_FILES, SPENT_STARVED},
	{ZN_SCENARIO_SLOW_TRANSFER, SPENT_TRANSFERRING},
	{ZN_SCENARIO_LAUNCH_BOUND, SPENT_COMPUTING},
	{ZN_SCENARIO_STARTUP, SPENT_STARTING},
	{ZN_SCENARIO_NODE_SLOW, SPENT_SLOW},
	{ZN_SCENARIO_NODE_SLOW_PEER, SPENT_SLOW_PEER},
};

static uint32_t spent_of(const struct zn_sim *s, uint32_t rank)
{
	if (zn_scenario_still_kind(s, rank))
		return spent_still[zn_scenario_still_kind(s, rank)][rank != HUNG_RANK];
	if (zn_scenario_writes(s, rank))
		return SPENT_CHECKPOINT;
	for (size_t i = 0; i < ZN_LEN(spent_in); i++)
		if (zn_scenario_suffers(s, rank, spent_in[i].scenario))
			return spent_in[i].spent;
	if (s->phase == ZN_SCENARIO_STRAGGLER && rank < ZN_SIM_JOB_RANKS && !zn_scenario_straggles(s, rank))
		return SPENT_BEHIND;
	return zn_scenario_straggles(s, rank) ? SPENT_STRAGGLER : SPENT_NORMAL;
}

static void spend_time(struct zn_sim *s, uint32_t rank)
{
	uint32_t i = spent_of(s, rank), workers = zn_scenario_suffers(s, rank, ZN_SCENARIO_OWN_LOADER) ? 0 : WORKERS;
	struct zn_proc *p = s->rank[rank];

	for (enum zn_stall c = 0; c < ZN_STALL_COUNT; c++)
		p->count[ZN_C_STALL_CPU + c] += spent[i].us[c] * 1000u;
	if (zn_scenario_suffers(s, rank, ZN_SCENARIO_CPU_LIMIT))
		s->throttled_ns += spent[i].us[ZN_STALL_RUNQUEUE] * 1000u;
	p->count[ZN_C_WORKERS] = workers;
	p->count[ZN_C_WORKER_BUSY_NS] += workers * spent[i].busy_us * 1000u;
	p->count[ZN_C_WORKER_IDLE_NS] += workers * (1000u - spent[i].busy_us) * 1000u;
}

static void launch_many(struct zn_sim *s, uint32_t rank)
{
	uint64_t launches = launch_count(s, rank);

	for (uint64_t n = launches; n; n--)
		launch_kernels(s, rank);
	zn_sim_kernel(s, rank, launches);
	if (zn_scenario_suffers(s, rank, ZN_SCENARIO_RETRANSMITS) &&
		(s->elapsed_ms + rank * ZN_SIM_STAGGER_MS) % RETRANSMIT_MS == 0)
		s->rank[rank]->count[ZN_C_TCP_RETRANSMITS]++;
}

/* What the rank that the others wait for does. */
static void run_still(struct zn_sim *s, uint32_t rank)
{
	if (rank != HUNG_RANK)
		return;
	if (s->still == ZN_STILL_CHECKPOINT)
		zn_sim_files_checkpoint(s, rank);
	else if (s->still == ZN_STILL_EVALUATION)
		launch_many(s, rank);
}

/* A rank's calls other than launches do not fall on the same millisecond as another's. */
static void run_rank(struct zn_sim *s, uint32_t rank)
{
	spend_time(s, rank);
	if (zn_scenario_still_kind(s, rank)) {
		run_still(s, rank);
		return;
	}
	if (zn_scenario_suffers(
		    s, rank, ZN_SCENARIO_STARTUP)) { /* it reads its model, and has launched nothing so far */
		zn_sim_files_work(s, rank);
		return;
	}
	launch_many(s, rank);
	for (size_t i = 0; i < ZN_LEN(events) && !zn_scenario_writes(s, rank); i++)
		if ((s->elapsed_ms + rank * ZN_SIM_STAGGER_MS) % events[i].every_ms == 0)
			record_event(s, rank, &events[i]);
	if (zn_scenario_writes(s, rank))
		zn_sim_files_checkpoint(s, rank);
	else
		zn_sim_files_work(s, rank);
	zn_sim_gpu_breathe(s, rank);
}

static void enter_driver(struct zn_sim *s, bool enters)
{
	struct zn_proc *p = s->rank[HUNG_RANK];

	s->memory.ioctl_id = enters ? p->id : 0;
	s->memory.ioctl_ns = zn_now_ns();
	p->in_ioctl = enters;
}

/* What the ranks do as it begins, and as it ends: they issue a collective that is waited for, all but the one that
 * is missing; that one; or all of them, as the others of a larger job do, or did before. */
enum issues { ISSUE_NONE, ISSUE_OTHERS, ISSUE_MISSING, ISSUE_ALL };
static const struct {
	uint8_t begin, end;
} issues_still[] = {
	[ZN_STILL_NOT] = {ISSUE_NONE, ISSUE_NONE},
	[ZN_STILL_ASLEEP] = {ISSUE_OTHERS, ISSUE_MISSING},
	[ZN_STILL_DRIVER] = {ISSUE_OTHERS, ISSUE_MISSING},
	[ZN_STILL_ALL] = {ISSUE_NONE, ISSUE_NONE},
	[ZN_STILL_NODE] = {ISSUE_NONE, ISSUE_ALL},
	[ZN_STILL_PEER] = {ISSUE_ALL, ISSUE_NONE},
	[ZN_STILL_CHECKPOINT] = {ISSUE_OTHERS, ISSUE_MISSING},
	[ZN_STILL_EVALUATION] = {ISSUE_OTHERS, ISSUE_MISSING},
	[ZN_STILL_COMPILE] = {ISSUE_NONE, ISSUE_NONE},
	[ZN_STILL_STOPPED] = {ISSUE_NONE, ISSUE_NONE},
};

static bool issues_collective(uint8_t what, uint32_t member)
{
	return what == ISSUE_ALL || what == (member == HUNG_RANK % ZN_SIM_JOB_RANKS ? ISSUE_MISSING : ISSUE_OTHERS);
}

static void stand_still(struct zn_sim *s)
{
	struct zn_skew *skew = s->skew[HUNG_RANK / ZN_SIM_JOB_RANKS];
	uint32_t now = zn_scenario_still(s), before = s->still;

	if (!skew || now == before)
		return;
	s->still = now;
	for (uint32_t m = 0; m < ZN_SIM_JOB_RANKS; m++)
		if (issues_collective(issues_still[before].end, m) || issues_collective(issues_still[now].begin, m))
			note_issue(skew, m);
	if (now == ZN_STILL_DRIVER || before == ZN_STILL_DRIVER)
		enter_driver(s, now == ZN_STILL_DRIVER);
}

/* The second job ends and another one comes, which is long in its start. */
static void start_anew(struct zn_sim *s, enum zn_scenario before)
{
	if (s->phase != ZN_SCENARIO_STARTUP || before == s->phase || !s->jobs)
		return;
	end_ranks(s, 1);
	zn_sim_job_end(s, 1);
	start_ranks(s, 1);
	zn_sim_job_start(s, 1);
}

/* Somebody has suspended the second job, or its missing rank does not come back from the driver. */
static enum zn_stop stop_of(const struct zn_sim *s, uint32_t rank)
{
	if (s->still == ZN_STILL_STOPPED)
		return ZN_STOP_SIGNAL;
	return s->still == ZN_STILL_DRIVER && rank == HUNG_RANK ? ZN_STOP_BLOCKED : ZN_STOP_NONE;
}

void zn_sim_stop(const struct zn_sim *s, struct zn_stopped *stopped)
{
	for (uint32_t rank = ZN_SIM_JOB_RANKS; rank < ZN_SIM_RANKS; rank++) {
		const struct zn_proc *p = s->rank[rank];
		uint32_t row = p ? (uint32_t)(p - s->memory.arena.procs) : 0;
		enum zn_stop now = p ? stop_of(s, rank) : ZN_STOP_NONE;

		if (!p)
			continue;
		if (!now || stopped->id[row] != p->id || !stopped->since_ns[row])
			stopped->since_ns[row] = now ? stopped->tick_ns : 0;
		stopped->id[row] = p->id;
		stopped->kind[row] = now;
	}
}

void zn_sim_limits(const struct zn_sim *s, struct zn_causes *c)
{
	const struct zn_proc *p = s->rank[ZN_SIM_JOB_RANKS];

	c->cpus = s->phase == ZN_SCENARIO_FEW_WORKERS ? MANY_CPUS : WORKERS;
	if (p && p->job.serial && p->job.slot < ZN_JOBS_MAX)
		zn_causes_throttled(c, &c->group[p->job.slot], 0, s->throttled_ns);
}

static void count_losses(struct zn_sim *s)
{
	if (s->phase == ZN_SCENARIO_LOSSES && s->elapsed_ms % LOST_EVERY_MS == 0)
		s->memory.arena.shared->lost[ZN_LOST_SERIES]++;
}

/* Of the GPU's second rank: of the job that suffers. */
static void fail_call(struct zn_sim *s)
{
	struct zn_proc *p = s->rank[2 * BROKEN_GPU + 1];
	struct zn_failed *f = p ? zn_arena_failed(&s->memory.arena, (uint32_t)(p - s->memory.arena.procs)) : NULL;

	if (!f)
		return;
	if (!f->since_key)
		f->since_ns = zn_now_ns();
	f->last_ns = zn_now_ns();
	f->since_key = ZN_FAILED_KEY(zn_hooks_number("cuStreamSynchronize"), BROKEN_RESULT);
	zn_failed_count(f, f->since_key, 1);
	p->count[ZN_C_CUDA_ERRORS]++;
}

static void report_error(struct zn_sim *s)
{
	if (!s->xids || s->elapsed_ms % ERROR_EVERY_MS)
		return;
	if (s->phase == ZN_SCENARIO_XID) {
		zn_xids_add(s->xids, zn_sim_gpu_pci(BROKEN_GPU), BROKEN_XID, false);
		fail_call(s);
	} else if (s->phase == ZN_SCENARIO_AMDGPU)
		zn_amdgpu_add(s->xids, zn_sim_gpu_pci(BROKEN_GPU), ZN_AMDGPU_RESET);
}

void zn_sim_step(struct zn_sim *s, uint64_t ms)
{
	for (; ms; ms--) {
		enum zn_scenario before = s->phase;

		s->elapsed_ms++;
		s->phase = zn_scenario_phase(s);
		start_anew(s, before);
		stand_still(s);
		for (uint32_t rank = 0; rank < ZN_SIM_RANKS; rank++)
			if (s->rank[rank] && !zn_scenario_idles(s, rank))
				run_rank(s, rank);
		count_losses(s);
		zn_sim_job_kill(s);
		report_error(s);
		zn_sim_files_node(s);
		zn_sim_servers_run(s);
		zn_sim_stacks_run(s);
		if (s->jobs)
			jobs_run(s);
		if (s->annotations)
			annotate_job(s);
		zn_sim_gpu_leak(s);
	}
}

/* No variable limits the GPUs that a rank sees, so its ordinals are the node's. */
bool zn_sim_process_info(void *sim, const struct zn_proc *p, struct zn_process_info *to)
{
	(void)sim;
	*to = (struct zn_process_info){.id = p->id, .start_ns = p->first_ns - IMPORT_NS};
	return true;
}

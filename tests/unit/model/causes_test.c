/* SPDX-License-Identifier: GPL-2.0 */
/* causes_test.c: what the time of processes is laid to, and what is said of it, over an arena of plain memory. */
#include "zernel.h"
#include "clock.h"
#include "resident.h"
#include "t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define S  ZN_NS_PER_S
#define MS ZN_NS_PER_MS

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_progress progress;
static struct zn_ranks ranks;
static struct zn_causes causes;
static struct zn_proc *p;
static struct zn_why why[ZN_CAUSE_COUNT];

static struct zn_cause_group *group(void)
{
	return &causes.group[ZN_JOBS_MAX];
}

/* A process that has launched, and whose first tick is over. */
static void start(void)
{
	clock_ns = 1000 * S;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	memset(&progress, 0, sizeof(progress));
	memset(&ranks, 0, sizeof(ranks));
	memset(&causes, 0, sizeof(causes));
	zn_ranks_init(&ranks, &agg, &progress, NULL);
	zn_causes_init(&causes, &agg, &progress, &ranks);
	p = zn_memory_claim(&memory, 100, "python3");
	p->count[ZN_C_LAUNCH_KERNEL] = 1;
}

static void tick(void)
{
	clock_ns += S;
	zn_agg_tick(&agg, clock_ns);
	zn_progress_tick(&progress, &agg, clock_ns);
	zn_ranks_tick(&ranks, clock_ns);
	zn_causes_tick(&causes, clock_ns);
}

static char proc[] = "/tmp/zernel-causes-XXXXXX";
static uint64_t throttled_ns;

#define OWN_CPUS "80000000,0000007f"

static void status_make(uint32_t pid, const char *cpus)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u", proc, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%u/status", proc, pid);
	f = fopen(path, "w");
	CHECK(f != NULL);
	fprintf(f, "Name:\tCpus_allowed:\tfff\nUid:\t0\nCpus_allowed:\t%s\nCpus_allowed_list:\t0-6,63\n", cpus);
	fclose(f);
}

/* Process 100 may run on eight CPUs, and 101 on four others. */
static void proc_make(void)
{
	CHECK(mkdtemp(proc) != NULL);
	status_make(100, OWN_CPUS);
	status_make(101, "00000000,000f0000");
}

/* A second of which so many milliseconds were spent in each state; in us for launches and blocking copies. */
struct second {
	uint16_t ms[ZN_STALL_COUNT];
	uint16_t busy_ms, idle_ms; /* of workers */
	uint16_t launch_ms, copy_ms;
	uint32_t read, written;
	uint16_t files_ms;
	enum zn_cause cause; /* ZN_CAUSE_COUNT: none */
	uint16_t lost_ms;
	uint16_t retransmits, throttled_ms;
	bool cpus; /* that there are more than workers */
};

static void pass(const struct second *s)
{
	for (enum zn_stall i = 0; i < ZN_STALL_COUNT; i++)
		p->count[ZN_C_STALL_CPU + i] += s->ms[i] * MS;
	p->count[ZN_C_WORKERS] = 4;
	p->count[ZN_C_WORKER_BUSY_NS] += s->busy_ms * MS;
	p->count[ZN_C_WORKER_IDLE_NS] += s->idle_ms * MS;
	p->count[ZN_C_IO_READ_BYTES] += s->read;
	p->count[ZN_C_IO_WRITE_BYTES] += s->written;
	p->count[ZN_C_LAUNCH_KERNEL] += s->launch_ms > 0;
	if (s->launch_ms)
		zn_memory_record(&memory, p, ZN_H_LAUNCH, s->launch_ms * MS, 0);
	if (s->copy_ms)
		zn_memory_record(&memory, p, ZN_H_SYNC_HTOD, s->copy_ms * MS, 0);
	p->count[ZN_C_TCP_RETRANSMITS] += s->retransmits;
	causes.proc = s->cpus ? proc : NULL;
	tick();
	if (!p->job.serial)
		CHECK_EQ(group()->queue_pid, s->ms[ZN_STALL_RUNQUEUE] > 200 ? 100 : 0);
	if (group()->queue_pid)
		zn_causes_throttled(&causes, group(), 0, throttled_ns += s->throttled_ms * MS);
	if (s->files_ms)
		zn_causes_files(&causes, (struct zn_job_ref){0}, s->files_ms * MS, "/data");
}

/* in: cpu gpu data dist io runqueue other */
static const struct second seconds[] = {
	{{300, 560, 40, 60, 20, 10, 10}, 500, 500, 200, 5, 0, 0, 0, ZN_CAUSE_COUNT, 0, 0, 0, false}, /* healthy */
	{{300, 180, 450}, 900, 50, 200, 0, 0, 0, 0, ZN_CAUSE_INPUT_CPU, 450, 0, 0, false},
	{{300, 180, 450}, 900, 50, 200, 0, 1 << 20, 0, 600, ZN_CAUSE_INPUT_FILES, 450, 0, 0, false},
	{{300, 180, 450}, 900, 50, 200, 0, 1 << 20, 0, 300, ZN_CAUSE_INPUT_CPU, 450, 0, 0, false},
	{{300, 180, 450}, 100, 900, 200, 0, 0, 0, 0, ZN_CAUSE_INPUT_TRANSFER, 450, 0, 0, false},
	{{200, 100, 0, 650}, 0, 0, 100, 0, 0, 0, 0, ZN_CAUSE_COMMUNICATION, 650, 49, 0, false},
	{{200, 100, 0, 650}, 0, 0, 100, 0, 0, 0, 0, ZN_CAUSE_NETWORK, 650, 50, 0, false},
	{{50, 0, 0, 0, 900}, 0, 0, 0, 0, 0, 1 << 30, 0, ZN_CAUSE_CHECKPOINT, 900, 0, 0, false},
	{{50, 0, 0, 0, 900}, 0, 0, 0, 0, 1 << 30, 1, 0, ZN_CAUSE_STORAGE, 900, 0, 0, false},
	{{300, 300, 0, 0, 0, 400}, 0, 0, 200, 0, 0, 0, 0, ZN_CAUSE_CPUS, 400, 0, 0, false},
	{{300, 300, 0, 0, 0, 400}, 0, 0, 200, 0, 0, 0, 0, ZN_CAUSE_THROTTLED, 400, 0, 380, false},
	{{300, 300, 0, 0, 0, 400}, 0, 0, 200, 0, 0, 0, 0, ZN_CAUSE_CPUS, 400, 0, 190, false},
	{{300, 180, 450}, 900, 50, 200, 0, 0, 0, 0, ZN_CAUSE_INPUT_WORKERS, 450, 0, 0, true},
	{{950, 50}, 0, 0, 900, 0, 0, 0, 0, ZN_CAUSE_LAUNCHES, 900, 0, 0, false},
	{{950, 50}, 0, 0, 20, 0, 0, 0, 0, ZN_CAUSE_HOST, 930, 0, 0, false},
	{{300, 700}, 0, 0, 200, 600, 0, 0, 0, ZN_CAUSE_COPIES, 600, 0, 0, false},
	{{0, 0, 0, 0, 0, 0, 1000}, 0, 0, 0, 0, 0, 0, 0, ZN_CAUSE_IDLE, 1000, 0, 0, false},
	{{0}, 0, 0, 0, 0, 0, 0, 0, ZN_CAUSE_IDLE, 1000, 0, 0, false}, /* a sleep that has not ended has no cause yet */
	{{2000, 3000, 0, 0, 0, 0, 4000}, 0, 0, 200, 0, 0, 0, 0, ZN_CAUSE_COUNT, 0, 0, 0, false}, /* many threads */
};

T(what_time_is_laid_to)
{
	for (size_t i = 0; i < ZN_LEN(seconds); i++) {
		const struct second *s = &seconds[i];
		struct zn_cause_step window;
		uint64_t before[ZN_CAUSE_COUNT];
		size_t n;

		start();
		tick();
		for (int warm = 0; warm < 2; warm++)
			pass(s);
		memcpy(before, group()->lost_ns, sizeof(before));
		for (int n_ = 0; n_ < 10; n_++)
			pass(s);
		for (enum zn_cause c = 0; c < ZN_CAUSE_COUNT && s->cause < ZN_CAUSE_COUNT; c++)
			if (c == s->cause)
				CHECK_EQ(group()->lost_ns[c] - before[c], 10 * s->lost_ms * MS);
		window = zn_causes_window(group(), 1);
		n = zn_why_list(group(), &window, clock_ns, why);
		CHECK_EQ(n, s->cause < ZN_CAUSE_COUNT);
		if (n != (s->cause < ZN_CAUSE_COUNT))
			fprintf(stderr, "row %zu: %zu causes, the first %s\n", i, n,
				n ? zn_cause_label(why[0].cause) : "");
		if (n)
			CHECK_EQ(why[0].cause, s->cause);
		if (n)
			CHECK_EQ(why[0].percent, (s->lost_ms + 5) / 10);
	}
}

/* A loader that works on while nobody waits for it: each wait has its cause from its first second on. */
/* A tick may take as long as several steps. */
T(each_step_of_a_long_tick_has_its_part)
{
	start();
	tick();
	for (int i = 0; i < 6; i++) {
		clock_ns += 19 * S;
		tick();
	}
	CHECK(group()->steps >= 20);
	for (uint32_t i = 0; i < 20; i++)
		CHECK(group()->step[(group()->steps - i) % ZN_CAUSE_STEPS].time_ns);
	CHECK_EQ(zn_causes_window(group(), ZN_CAUSE_STEPS).time_ns, 120 * S);
}

/* Without the scheduler nothing is known of what a process loses, nor that it loses nothing; but that it hangs is. */
T(time_that_nobody_watched)
{
	start();
	agg.measured &= ~(1ULL << ZN_FAM_SCHED);
	for (int i = 0; i < 12; i++)
		tick();
	CHECK_EQ(zn_causes_window(group(), ZN_CAUSE_STEPS).time_ns, 0);
	agg.measured |= 1ULL << ZN_FAM_SCHED;
	for (int i = 0; i < 12; i++)
		tick();
	CHECK(zn_causes_window(group(), ZN_CAUSE_STEPS).time_ns >= 10 * S);
}

T(waits_for_data_with_pauses)
{
	static const struct second works = {.ms = {300, 700}, .busy_ms = 950, .files_ms = 0, .cpus = true};
	static const struct second waits = {.ms = {300, 180, 450}, .busy_ms = 950, .cpus = true};
	const uint64_t *lost = group()->lost_ns;
	struct second reads = works;

	start();
	tick();
	for (int n = 0; n < 10; n++) {
		pass(&works);
		pass(&waits);
	}
	CHECK_EQ(lost[ZN_CAUSE_INPUT_WORKERS], 4500 * MS);
	reads.files_ms = 600;
	for (int n = 0; n < 10; n++) {
		pass(&reads);
		pass(&waits);
	}
	CHECK_EQ(lost[ZN_CAUSE_INPUT_FILES], 4500 * MS);
	CHECK_EQ(lost[ZN_CAUSE_INPUT_CPU], 0);
}

/* Ranks have CPUs of their own: each has enough, and so have both together, or one of them has not. */
T(cpus_of_ranks)
{
	static const struct second waits = {.ms = {300, 180, 450}, .busy_ms = 950, .cpus = true};
	const uint64_t *lost = group()->lost_ns;
	struct zn_proc *other;

	start();
	other = zn_memory_claim(&memory, 101, "python3");
	other->count[ZN_C_LAUNCH_KERNEL] = 1;
	tick();
	for (int n = 0; n < 20; n++) {
		other->count[ZN_C_WORKERS] = n < 10 ? 3 : 4;
		other->count[ZN_C_STALL_DATA] += 500 * MS;
		other->count[ZN_C_WORKER_BUSY_NS] += 900 * MS;
		pass(&waits);
	}
	CHECK_EQ(lost[ZN_CAUSE_INPUT_WORKERS], 20 * 450 * MS + 10 * 500 * MS);
	CHECK_EQ(lost[ZN_CAUSE_INPUT_CPU], 10 * 500 * MS);
	other->count[ZN_C_WORKERS] = 1;
	status_make(100, "00000000,000f0000"); /* both on the same four */
	for (int n = 0; n < 10; n++)
		pass(&waits);
	CHECK(lost[ZN_CAUSE_INPUT_CPU] > 10 * 500 * MS);
	status_make(100, OWN_CPUS);
}

/* One thread waits for data, another one for a file, and a third one ends a copy that it began long ago. */
T(a_second_is_lost_once)
{
	static const struct second s = {.ms = {0, 0, 1000, 0, 1000}, .busy_ms = 900, .copy_ms = 900, .written = 1};
	uint64_t all = 0;

	start();
	tick();
	for (int n = 0; n < 10; n++)
		pass(&s);
	for (enum zn_cause c = 0; c < ZN_CAUSE_COUNT; c++)
		all += group()->lost_ns[c];
	CHECK_EQ(all, 10 * S);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_CHECKPOINT] + group()->lost_ns[ZN_CAUSE_STORAGE], 5 * S);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_INPUT_CPU], 5 * S);
}

/* Launches that were counted and not timed: the others stand for them, and where there are none it is nobody's code. */
T(launches_that_were_not_timed)
{
	const struct second timed = {.ms = {950, 50}, .launch_ms = 90}, none = {.ms = {950, 50}};
	uint64_t before[ZN_CAUSE_COUNT];

	start();
	tick();
	for (int warm = 0; warm < 2; warm++)
		pass(&timed);
	memcpy(before, group()->lost_ns, sizeof(before));
	p->count[ZN_C_LAUNCH_KERNEL] += 9;
	p->count[ZN_C_LAUNCH_CAPTURED] += 90;
	p->count[ZN_C_LAUNCH_UNTIMED] += 99;
	pass(&timed);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_LAUNCHES] - before[ZN_CAUSE_LAUNCHES], 900 * MS);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_HOST] - before[ZN_CAUSE_HOST], 50 * MS);
	memcpy(before, group()->lost_ns, sizeof(before));
	p->count[ZN_C_LAUNCH_KERNEL] += 9;
	p->count[ZN_C_LAUNCH_UNTIMED] += 9;
	pass(&none);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_LAUNCHES], before[ZN_CAUSE_LAUNCHES]);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_HOST], before[ZN_CAUSE_HOST]);
	p->count[ZN_C_LAUNCH_CAPTURED] += 9;
	p->count[ZN_C_LAUNCH_UNTIMED] += 9;
	pass(&none); /* it launched nothing, and that is known */
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_HOST] - before[ZN_CAUSE_HOST], 950 * MS);
}

/* What nobody has seen is not laid to anything. */
T(time_that_was_spared_is_not_idle)
{
	static const struct second idle = {
		{0, 0, 0, 0, 0, 0, 100}, 0, 0, 0, 0, 0, 0, 0, ZN_CAUSE_IDLE, 1000, 0, 0, false};
	struct zn_spent *spent;
	uint64_t before;

	start();
	tick();
	pass(&idle);
	spent = &memory.arena.shared->spent[p - memory.arena.procs];
	spent->id = p->id;
	before = group()->lost_ns[ZN_CAUSE_IDLE];
	for (int i = 0; i < 10; i++) {
		spent->unseen_ns[ZN_SPARE_SWITCHES] += S / 2;
		pass(&idle);
	}
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_IDLE], before);
	pass(&idle);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_IDLE], before + S);
}

/* Of what a job sends over TCP so much is sent again, second by second; and what its waits for other ranks are lost to
 * then. */
static void send_second(uint64_t bytes, uint16_t again)
{
	const struct second s = {.ms = {200, 100, 0, 650}, .launch_ms = 100, .retransmits = again};

	p->count[ZN_C_TCP_SENT] += bytes;
	pass(&s);
}

static enum zn_cause lost_to(uint64_t bytes, uint16_t again)
{
	uint64_t before[ZN_CAUSE_COUNT];

	send_second(bytes, again); /* a tick says what the one before it was */
	memcpy(before, group()->lost_ns, sizeof(before));
	send_second(bytes, again);
	return group()->lost_ns[ZN_CAUSE_NETWORK] > before[ZN_CAUSE_NETWORK] ? ZN_CAUSE_NETWORK
									     : ZN_CAUSE_COMMUNICATION;
}

T(a_connection_that_loses_much_gets_little_through)
{
	start();
	tick();
	send_second(0, 0);
	CHECK_EQ(lost_to(1 << 30, 49), ZN_CAUSE_COMMUNICATION); /* little of a gigabyte */
	start();
	tick();
	send_second(0, 0);
	CHECK_EQ(lost_to(10 << 20, 20), ZN_CAUSE_NETWORK);
	for (int n = 0; n < 6; n++) /* TCP waits */
		CHECK_EQ(lost_to(0, n % 2), ZN_CAUSE_NETWORK);
	for (int n = 0; n < 10; n++)
		send_second(100 << 20, 0);
	CHECK_EQ(lost_to(100 << 20, 0), ZN_CAUSE_COMMUNICATION);
	CHECK_EQ(lost_to(100 << 20, 1), ZN_CAUSE_COMMUNICATION);
}

/* What is sent again in a tick is of its own seconds, and not of those of the next one. */
T(a_long_tick_before_a_short_one)
{
	const struct second waits = {.ms = {200, 100, 0, 650}, .launch_ms = 100};

	start();
	tick();
	send_second(0, 0);
	clock_ns += 9 * S;
	send_second(0, 60);
	pass(&waits);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_NETWORK], 0);
	send_second(0, 60);
	clock_ns += 9 * S;
	pass(&waits);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_NETWORK], 650 * MS);
	CHECK_EQ(group()->numbers.retransmits, 60);
}

T(a_small_connection_holds_nobody_back)
{
	start();
	tick();
	send_second(0, 0);
	for (int n = 0; n < 20; n++)
		CHECK_EQ(lost_to(1000, 5), ZN_CAUSE_COMMUNICATION);
}

T(sentences_have_their_numbers)
{
	static const struct {
		size_t second;
		const char *says;
	} rows[] = {
		{1, "45 % of the time is waiting for data whose loader's workers are busy: 4 workers, busy 95 % of the time"},
		{2, "45 % of the time is waiting for data whose loader's workers wait for files: 4 workers, busy 95 % of the time; most of it on /data"},
		{9, "40 % of the time is waiting for a free CPU"},
		{6, "65 % of the time is waiting for other ranks, while TCP sends much of it again: 50 segments a second"},
		{10, "40 % of the time is waiting for a CPU because the control group has had its share: kept from its CPUs 38 % of the time"},
		{12, "45 % of the time is waiting for data whose loader's workers are busy, and are fewer than the CPUs: 4 workers, busy 95 % of the time; CPUs: 8"},
		{8, "90 % of the time is blocked on files or page faults"},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_cause_step window;

		start();
		tick();
		for (int n = 0; n < 20; n++)
			pass(&seconds[rows[i].second]);
		window = zn_causes_window(group(), 1);
		CHECK_EQ(zn_why_list(group(), &window, clock_ns, why), 1);
		CHECK_STR(why[0].says, rows[i].says);
		CHECK(why[0].next[0] && why[0].metric[0] && why[0].sure[0]);
	}
}

T(every_cause_has_its_words)
{
	struct zn_cause_step window = {.time_ns = ZN_CAUSE_COUNT};

	start();
	for (enum zn_cause c = 0; c < ZN_CAUSE_COUNT; c++)
		window.lost_ns[c] = ZN_CAUSE_COUNT + c; /* longest last */
	memset(group()->numbers.mount, 'm', sizeof(group()->numbers.mount) - 1);
	group()->numbers.workers = group()->numbers.workers_busy = 4294967294u;
	group()->numbers.late_pid = group()->numbers.late_rank = 4294967294u;
	group()->missing = (struct zn_missing){.waiters = 1, .rank = 4294967294u, .tgid = 4294967294u, .since_ns = 1};
	group()->all_wait = (struct zn_all_wait){.here = 1, .nranks = 4294967294u, .since_ns = 1};
	group()->numbers.retransmits = group()->throttled_percent = group()->numbers.cpus = group()->stopped_pid =
		4294967294u;
	CHECK_EQ(zn_why_list(group(), &window, UINT64_MAX, why), ZN_CAUSE_COUNT);
	for (size_t i = 0; i < ZN_CAUSE_COUNT; i++) {
		CHECK_EQ(why[i].cause, i < 2 ? i : ZN_CAUSE_COUNT + 1 - i); /* who stands still is first */
		CHECK(strstr(why[i].says, " % of the time ") != NULL);
		CHECK(strlen(why[i].says) < ZN_WHY_MAX - 1);
		CHECK(strlen(why[i].next) > 10);
		CHECK(!strncmp(why[i].metric, "zernel_", 7));
	}
}

T(a_process_that_has_not_begun_is_not_there)
{
	start();
	p->count[ZN_C_LAUNCH_KERNEL] = 0;
	for (int n = 0; n < 3; n++)
		pass(&seconds[16]);
	CHECK_EQ(group()->processes, 0);
	CHECK_EQ(zn_causes_window(group(), 1).time_ns, 0);
}

T(steps_are_kept_for_15_minutes)
{
	start();
	tick();
	for (int n = 0; n < 2 * ZN_CAUSE_STEPS * ZN_CAUSE_STEP_S; n++)
		pass(&seconds[9]);
	CHECK(zn_causes_window(group(), UINT32_MAX).time_ns <= ZN_CAUSE_STEPS * ZN_CAUSE_STEP_S * S);
	CHECK(zn_causes_window(group(), UINT32_MAX).time_ns > (ZN_CAUSE_STEPS - 2) * ZN_CAUSE_STEP_S * S);
	CHECK(zn_causes_window(group(), 12).time_ns >= 60 * S);
	CHECK(zn_causes_window(group(), 12).time_ns < 66 * S);
}

/* Ticks come a little sooner and later than they should, and at times much later. */
T(steps_are_on_time)
{
	uint32_t before;

	start();
	tick();
	before = group()->steps;
	for (uint32_t k = 1; k <= 60; k++) {
		clock_ns += k % 2 ? 300000 : -300000;
		tick();
	}
	CHECK_EQ(group()->steps - before, 12);
	before = group()->steps;
	clock_ns += 59 * S;
	tick();
	CHECK_EQ(group()->steps - before, 12);
	CHECK_EQ(zn_causes_window(group(), UINT32_MAX).time_ns, 120 * S);
	for (int i = 0; i < 3; i++) {
		before = group()->steps;
		clock_ns += 6 * S + S / 2; /* 7.5 s: two steps at each other tick */
		tick();
		CHECK_EQ(group()->steps - before, 1 + i % 2);
	}
	clock_ns += 3600 * S;
	tick();
	CHECK_EQ(zn_causes_window(group(), UINT32_MAX).time_ns, 3601 * S);
}

/* A hang is said at once, though it has taken nothing of the last minute yet. */
T(what_stands_still_is_said_at_once)
{
	struct zn_cause_step window = {.time_ns = 100, .lost_ns = {[ZN_CAUSE_CPUS] = 50}};

	start();
	group()->all_wait = (struct zn_all_wait){.here = 4, .nranks = 8, .since_ns = clock_ns - 11 * S};
	CHECK_EQ(zn_why_list(group(), &window, clock_ns, why), 2);
	CHECK_EQ(why[0].cause, ZN_CAUSE_ALL_WAIT);
	CHECK_STR(why[0].says,
		"0 % of the time passes while all ranks of this node wait, now for 11 s: for the GPU, or for one of the 4 ranks of other nodes");
	CHECK_EQ(why[1].cause, ZN_CAUSE_CPUS);
	CHECK(strstr(why[0].next, "other nodes") != NULL);
	group()->all_wait.nranks = 4; /* nobody is elsewhere */
	zn_why_list(group(), &window, clock_ns, why);
	CHECK(strstr(why[0].says, "now for 11 s: for the GPU: none of them is missing") != NULL);
	CHECK(strstr(why[0].next, "other nodes") == NULL);
}

/* Who is stopped is lost to that, whatever call it is in. */
T(a_process_that_is_stopped_inside_a_call)
{
	static struct zn_stopped stopped;
	const struct second s = {.ms = {0, 1000}};
	struct zn_cause_step window;

	start();
	causes.stopped = &stopped;
	tick();
	for (int n = 0; n < 3; n++)
		pass(&s);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_STOPPED], 0);
	stopped.id[p - memory.arena.procs] = p->id;
	stopped.kind[p - memory.arena.procs] = ZN_STOP_SIGNAL;
	stopped.since_ns[p - memory.arena.procs] = clock_ns;
	for (int n = 0; n < 3; n++)
		pass(&s);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_STOPPED], 3 * S);
	CHECK_EQ(group()->stopped, 1);
	window = zn_causes_window(group(), 12);
	CHECK(window.gpu_ns <= 3 * S);
	CHECK_EQ(zn_why_list(group(), &window, clock_ns, why), 1);
	CHECK(why[0].still);
	CHECK(strstr(why[0].says, "cannot go on; process 100 is stopped by a signal or a debugger") != NULL);
	stopped.kind[p - memory.arena.procs] = ZN_STOP_BLOCKED; /* in a file that it waits for */
	pass(&(const struct second){.ms = {[ZN_STALL_IO] = 1000}});
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_STOPPED], 3 * S);
	CHECK_EQ(group()->lost_ns[ZN_CAUSE_STORAGE], S);
	window = (struct zn_cause_step){.time_ns = 100, .lost_ns = {[ZN_CAUSE_STORAGE] = 90}};
	zn_why_list(group(), &window, clock_ns, why);
	CHECK(strstr(why[0].says, "; process 100 is in uninterruptible sleep (state D)") != NULL);
}

/* A loader without workers computes and reads in the process itself; one that reads little is just a program that
 * computes. */
T(a_process_that_loads_its_data_itself)
{
	static const struct {
		uint32_t read;
		enum zn_cause cause;
	} rows[] = {{2 << 20, ZN_CAUSE_INPUT_ITSELF}, {100 << 10, ZN_CAUSE_HOST}, {0, ZN_CAUSE_HOST}};

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		for (uint32_t workers = 0; workers < 2; workers++) {
			struct zn_cause_step window;

			start();
			tick();
			for (int n = 0; n < 40; n++) {
				p->count[ZN_C_STALL_CPU] += 950 * MS;
				p->count[ZN_C_LAUNCH_KERNEL]++;
				zn_memory_record(&memory, p, ZN_H_LAUNCH, 1000, 0);
				p->count[ZN_C_WORKERS] = workers;
				p->count[ZN_C_IO_READ_BYTES] += rows[i].read;
				tick();
				zn_causes_files(&causes, (struct zn_job_ref){0}, 10 * MS, "/data");
			}
			window = zn_causes_window(group(), 1);
			CHECK_EQ(zn_why_list(group(), &window, clock_ns, why), 1);
			CHECK_EQ(why[0].cause, workers ? ZN_CAUSE_HOST : rows[i].cause);
			if (why[0].cause == ZN_CAUSE_INPUT_ITSELF)
				CHECK(strstr(why[0].says, "with no worker: ") &&
					strstr(why[0].says, " a second, most of it on /data"));
		}
}

/* The others wait for it on their GPUs: by as much as it waits less for its own, and for no longer than it was late. */
T(a_rank_that_is_late_on_the_gpu)
{
	struct zn_proc *late;
	struct zn_skew *s;
	struct zn_cause_step window;

	start();
	late = zn_memory_claim(&memory, 200, "python3");
	late->count[ZN_C_LAUNCH_KERNEL] = 1;
	s = &memory.arena.skews[0];
	*s = (struct zn_skew){.of = 7, .hash = 7, .members = 2, .nranks = 2};
	memory.arena.shared->skew_used[0] = 1;
	s->member[0] =
		(struct zn_skew_rank){.id = p->id, .row = (uint32_t)(p - memory.arena.procs), .tgid = 100, .rank = 0};
	s->member[1] = (struct zn_skew_rank){
		.id = late->id, .row = (uint32_t)(late - memory.arena.procs), .tgid = 200, .rank = 1};
	tick();
	for (int n = 0; n < 60; n++) {
		p->count[ZN_C_LAUNCH_KERNEL]++;
		late->count[ZN_C_LAUNCH_KERNEL]++;
		p->count[ZN_C_STALL_GPU] += 900 * MS;
		p->count[ZN_C_STALL_CPU] += 100 * MS;
		late->count[ZN_C_STALL_GPU] += 200 * MS;
		late->count[ZN_C_STALL_CPU] += 800 * MS;
		s->member[0].issued++;
		s->member[1].issued++;
		s->member[1].late_ns += 600 * MS;
		tick();
	}
	window = zn_causes_window(group(), 1);
	CHECK_EQ(zn_why_list(group(), &window, clock_ns, why), 1);
	CHECK_EQ(why[0].cause, ZN_CAUSE_STRAGGLER);
	CHECK_STR(why[0].sure, "likely");
	CHECK_EQ(why[0].percent, 30); /* 600 ms of one of two */
	CHECK(strstr(why[0].says, "rank 1, process 200, which runs on the CPU 80 % of its time, the others 10 %") !=
		NULL);
	CHECK_EQ(zn_why_percent(window.gpu_ns, window.time_ns), 25);
	for (int n = 0; n < 60;
		n++) { /* it waits for its GPU as the other one does: a host that is behind costs nobody anything */
		p->count[ZN_C_LAUNCH_KERNEL]++;
		late->count[ZN_C_LAUNCH_KERNEL]++;
		p->count[ZN_C_STALL_GPU] += 900 * MS;
		late->count[ZN_C_STALL_GPU] += 890 * MS;
		s->member[1].late_ns += 600 * MS;
		tick();
	}
	window = zn_causes_window(group(), 1);
	CHECK_EQ(zn_why_list(group(), &window, clock_ns, why), 0);
}

/* The slot of a job that is over may be the next one's. */
T(another_job_begins_anew)
{
	struct zn_cause_step window;

	start();
	p->job = (struct zn_job_ref){3, 7};
	tick();
	pass(&seconds[9]);
	CHECK_EQ(causes.group[3].lost_ns[ZN_CAUSE_CPUS], 400 * MS);
	p->job.serial = 8;
	memset(causes.group[3].step, 0xff, sizeof(causes.group[3].step));
	pass(&seconds[9]);
	CHECK_EQ(causes.group[3].serial, 8);
	CHECK_EQ(causes.group[3].lost_ns[ZN_CAUSE_CPUS], 400 * MS);
	window = zn_causes_window(&causes.group[3], ZN_CAUSE_STEPS);
	CHECK_EQ(window.lost_ns[ZN_CAUSE_CPUS], 400 * MS);
	for (int i = 0; i < 60; i++)
		pass(&seconds[9]);
	CHECK(causes.group[3].steps > 1);
	window = zn_causes_window(&causes.group[3], ZN_CAUSE_STEPS);
	CHECK_EQ(window.lost_ns[ZN_CAUSE_CPUS], causes.group[3].lost_ns[ZN_CAUSE_CPUS]);
	zn_causes_files(&causes, (struct zn_job_ref){3, 7}, S, "/old");
	CHECK_EQ(causes.group[3].files_ns, 0);
	zn_causes_files(&causes, (struct zn_job_ref){3, 8}, S, "/new");
	zn_causes_files(&causes, (struct zn_job_ref){3, 8}, S / 2, "/other");
	CHECK_EQ(causes.group[3].files_ns, S + S / 2);
	CHECK_STR(causes.group[3].mount, "/new");
}

/* Steps go on after the end of a job, and take no memory: each of these could have 8 pages. */
T(jobs_that_are_over_take_no_memory)
{
	struct zn_causes *c;
	size_t before;

	start();
	c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(c != MAP_FAILED);
	madvise(c, sizeof(*c), MADV_NOHUGEPAGE);
	zn_causes_init(c, &agg, &progress, &ranks);
	for (uint32_t i = 0; i < ZN_JOBS_MAX; i++)
		c->group[i].used = true;
	c->group[0].step[ZN_CAUSE_STEPS - 1].lost_ns[0] = 7; /* of a job that was in its place before */
	zn_causes_tick(c, clock_ns);
	before = resident_bytes();
	CHECK(before > 0);
	for (uint32_t i = 0; i < 2 * ZN_CAUSE_STEPS; i++)
		zn_causes_tick(c, clock_ns += 5 * S);
	CHECK_EQ(c->group[ZN_JOBS_MAX - 1].steps, 2 * ZN_CAUSE_STEPS);
	CHECK_EQ(c->group[0].step[ZN_CAUSE_STEPS - 1].lost_ns[0], 0);
	CHECK(resident_bytes() < before + ZN_JOBS_MAX * 4096);
	munmap(c, sizeof(*c));
}

T(nothing_is_said_as_that)
{
	struct zn_cause_step window = {0};
	char text[ZN_WHY_MAX];

	zn_why_none(&window, text);
	CHECK_STR(text, "nothing has launched work on a GPU yet");
	window = (struct zn_cause_step){.time_ns = 100, .gpu_ns = 71};
	zn_why_none(&window, text);
	CHECK_STR(text, "no cause found: 71 % waits for the GPU, which is what a GPU-bound job looks like");
	window.gpu_ns = 20;
	zn_why_none(&window, text);
	CHECK_STR(text, "no cause found: nothing takes 10 % of the time; 20 % waits for the GPU");
}

int main(void)
{
	proc_make();
	RUN(what_time_is_laid_to);
	RUN(each_step_of_a_long_tick_has_its_part);
	RUN(time_that_nobody_watched);
	RUN(waits_for_data_with_pauses);
	RUN(cpus_of_ranks);
	RUN(a_second_is_lost_once);
	RUN(launches_that_were_not_timed);
	RUN(time_that_was_spared_is_not_idle);
	RUN(a_connection_that_loses_much_gets_little_through);
	RUN(a_long_tick_before_a_short_one);
	RUN(a_small_connection_holds_nobody_back);
	RUN(sentences_have_their_numbers);
	RUN(every_cause_has_its_words);
	RUN(a_process_that_has_not_begun_is_not_there);
	RUN(steps_are_kept_for_15_minutes);
	RUN(steps_are_on_time);
	RUN(what_stands_still_is_said_at_once);
	RUN(a_process_that_is_stopped_inside_a_call);
	RUN(a_process_that_loads_its_data_itself);
	RUN(a_rank_that_is_late_on_the_gpu);
	RUN(another_job_begins_anew);
	RUN(jobs_that_are_over_take_no_memory);
	RUN(nothing_is_said_as_that);
	if (system(strcat(strcpy((char[64]){0}, "rm -r "), proc)))
		return 1;
	zn_memory_close(&memory);
	return t_end();
}

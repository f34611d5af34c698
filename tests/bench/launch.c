/* SPDX-License-Identifier: GPL-2.0 */
/*
 * launch LIBRARY...: calls functions of a libcuda, the fake one or a real one, and times them. Several copies of it are
 * compared in turns, by what was put on each. Reads lines:
 *	time FUNCTION CALLS            prints the mean time of a call of the first library, ns
 *	sample FUNCTION CALLS          prints p50 and p99 of calls of it that are timed one by one, ns
 *	turns FUNCTION THREADS CALLS TURNS
 *	                               each thread at once calls each library in turn so often, and that so many times;
 *	                               prints "real-time" or "normal", the priority, and for each turn and library the
 *	                               CPU time of a call, ns
 *	set KNOB VALUE                 of the fake library
 *	place FUNCTION                 prints where a probe stands, bytes behind its entry, and on which instruction
 *	wait FUNCTION 0|1 [WHICH]      until there is no breakpoint there, or one, in library WHICH (0); prints the time
 *	                               it took, us
 */
#define ZN_IN_probe /* what zernel.h keeps for the files of src/probe */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "zernel.h"

#define LIBRARIES_MAX 4
#define THREADS_MAX   16
#define TURNS_MAX     1000
#define SAMPLES_MAX   100000
#define WARM_CALLS    50
#define REST_US       500 /* after each turn, for who else wants these CPUs */
#define WAIT_US       5000000
#define BREAKPOINT    0xcc

static struct library {
	void *handle;
	const char *path;
	void *context;
} libraries[LIBRARIES_MAX];
static int library_count;
static uint64_t sample[SAMPLES_MAX];

/* One call of any function: what the fakes look at is a handful of arguments, all 0 here. */
typedef int call_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static void library_add(const char *path)
{
	struct library *l = &libraries[library_count++];

	l->path = path;
	l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* of several copies each calls its own functions */
	if (!l->handle)
		die(path, dlerror());
	((int (*)(unsigned))symbol(l->handle, "cuInit"))(0);
	((int (*)(void **, int))symbol(l->handle, "cuDevicePrimaryCtxRetain"))(&l->context, 0);
}

static void contexts_set(void)
{
	for (int i = 0; i < library_count; i++)
		((int (*)(void *))symbol(libraries[i].handle, "cuCtxSetCurrent"))(libraries[i].context);
}

static void calls_make(call_fn *call, long calls)
{
	for (long i = 0; i < calls; i++)
		call(0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void time_calls(const char *name, long calls)
{
	call_fn *call = (call_fn *)symbol(libraries[0].handle, name);
	uint64_t start;

	calls_make(call, WARM_CALLS);
	start = now_ns();
	calls_make(call, calls);
	printf("%.3f\n", (double)(now_ns() - start) / (double)calls);
}

/* ---- turns ---- */

static struct {
	call_fn *call[LIBRARIES_MAX];
	long threads, calls, turns;
	pthread_barrier_t barrier;
	double ns[THREADS_MAX][TURNS_MAX][LIBRARIES_MAX];
} round_of;

struct worker {
	pthread_t thread;
	int number;
	bool real_time;
};

/* What other threads do meanwhile on this CPU is not in it. */
static uint64_t own_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A CPU of its own, if there are enough, the last one first, and nobody before it there. */
static bool cpu_take(int number)
{
	struct sched_param priority = {.sched_priority = 1};
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(cpus - 1 - number % cpus, &cpu);
	return sched_setaffinity(0, sizeof(cpu), &cpu) == 0 && sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}

static double block_run(call_fn *call)
{
	uint64_t start;

	calls_make(call, WARM_CALLS);
	pthread_barrier_wait(&round_of.barrier);
	start = own_ns();
	calls_make(call, round_of.calls);
	return (double)(own_ns() - start) / (double)round_of.calls;
}

/* Each library comes first, second, ... equally often, and before and behind each other one. */
static int library_at(long turn, int place)
{
	int at = (int)((turn / 2 + place) % library_count);

	return turn & 1 ? library_count - 1 - at : at;
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;

	w->real_time = cpu_take(w->number);
	contexts_set();
	for (long turn = 0; turn < round_of.turns; turn++) {
		for (int place = 0; place < library_count; place++) {
			int at = library_at(turn, place);

			round_of.ns[w->number][turn][at] = block_run(round_of.call[at]);
		}
		pause_us(REST_US);
	}
	return NULL;
}

static void turns_print(bool real_time)
{
	fputs(real_time ? "real-time" : "normal", stdout);
	for (long turn = 0; turn < round_of.turns; turn++)
		for (int i = 0; i < library_count; i++) {
			double sum = 0;

			for (long w = 0; w < round_of.threads; w++)
				sum += round_of.ns[w][turn][i];
			printf(" %.2f", sum / (double)round_of.threads);
		}
	puts("");
}

static void turns_run(const char *name, long threads, long calls, long turns)
{
	struct worker workers[THREADS_MAX];
	bool real_time = true;

	for (int i = 0; i < library_count; i++)
		round_of.call[i] = (call_fn *)symbol(libraries[i].handle, name);
	round_of.threads = threads;
	round_of.calls = calls;
	round_of.turns = turns;
	pthread_barrier_init(&round_of.barrier, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){.number = i};
		if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]))
			die("turns", "no thread can be made");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		real_time = real_time && workers[i].real_time;
	}
	pthread_barrier_destroy(&round_of.barrier);
	turns_print(real_time);
}

static void sample_calls(const char *name, long calls)
{
	call_fn *call = (call_fn *)symbol(libraries[0].handle, name);

	for (long i = 0; i < calls; i++) {
		uint64_t start = now_ns();

		calls_make(call, 1);
		sample[i] = now_ns() - start;
	}
	qsort(sample, (size_t)calls, sizeof(sample[0]), by_size);
	printf("%lu %lu\n", sample[calls / 2], sample[calls * 99 / 100]);
}

static struct zn_entry place_of(const char *name)
{
	struct zn_elf_symbol wanted = {.name = name};
	int fd = open(libraries[0].path, O_RDONLY | O_CLOEXEC);
	const char *why = "no such function";
	struct zn_place place;

	if (fd < 0 || zn_elf_symbols(fd, &wanted, 1, ZN_ELF_BUDGET, &why) != 1)
		die(name, why);
	place = zn_place_of(fd, &wanted);
	close(fd);
	return place.entry;
}

static void wait_for(const char *name, bool there, long which)
{
	const volatile uint8_t *code = (uint8_t *)symbol(libraries[which].handle, name) + place_of(name).at;
	uint64_t start = now_ns();

	while ((*code == BREAKPOINT) != there && now_ns() - start < WAIT_US * 1000ULL)
		pause_us(50);
	if ((*code == BREAKPOINT) != there)
		die(name, "the breakpoint does not come or go");
	printf("%lu\n", (now_ns() - start) / 1000);
}

static void obey(const char *line)
{
	struct zn_entry place;
	char name[64];
	long a, b = 0, c;

	if (sscanf(line, "turns %63s %ld %ld %ld", name, &a, &b, &c) == 4 && a > 0 && a <= THREADS_MAX && b > 0 &&
		c > 0 && c <= TURNS_MAX)
		turns_run(name, a, b, c);
	else if (sscanf(line, "time %63s %ld", name, &a) == 2 && a > 0)
		time_calls(name, a);
	else if (sscanf(line, "sample %63s %ld", name, &a) == 2 && a > 0 && a <= SAMPLES_MAX)
		sample_calls(name, a);
	else if (sscanf(line, "set %63s %ld", name, &a) == 2)
		printf("%d\n", ((int (*)(const char *, long))symbol(libraries[0].handle, "fake_cuda_set"))(name, a));
	else if (sscanf(line, "place %63s", name) == 1) {
		place = place_of(name);
		printf("%u %s\n", place.at, zn_insn_label(place.first));
	} else if (sscanf(line, "wait %63s %ld %ld", name, &a, &b) >= 2 && b >= 0 && b < library_count)
		wait_for(name, a != 0, b);
	else
		die("not understood", line);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[256];

	if (argc < 2 || argc - 1 > LIBRARIES_MAX)
		die("usage", "launch LIBRARY...");
	for (int i = 1; i < argc; i++)
		library_add(argv[i]);
	contexts_set();
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}

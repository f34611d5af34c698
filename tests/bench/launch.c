/* SPDX-License-Identifier: GPL-2.0 */
/*
 * launch LIBRARY: calls functions of a libcuda, the fake one or a real one, and times them. Reads lines:
 *	time FUNCTION THREADS CALLS    prints the mean time of a call, ns, over all threads at once
 *	sample FUNCTION CALLS          prints p50 and p99 of calls that are timed one by one, ns
 *	set KNOB VALUE                 of the fake library
 *	place FUNCTION                 prints where a probe stands, bytes behind its entry, and on which instruction
 *	wait FUNCTION 0|1              until there is no breakpoint there, or one; prints the time it took, us
 */
#define ZN_IN_probe /* what zernel.h keeps for the files of src/probe */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "zernel.h"

#define THREADS_MAX 16
#define SAMPLES_MAX 100000
#define WARM_CALLS  1000
#define WAIT_US     5000000
#define BREAKPOINT  0xcc

static void *library;
static const char *library_path;
static void *context;
static int (*set_current)(void *ctx);
static uint64_t sample[SAMPLES_MAX];

/* One call of any function: what the fakes look at is a handful of arguments, all 0 here. */
typedef int call_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

struct work {
	pthread_t thread;
	call_fn *call;
	long calls;
	uint64_t ns;
};

static pthread_barrier_t barrier;

static void calls_make(call_fn *call, long calls)
{
	for (long i = 0; i < calls; i++)
		call(0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void *work_run(void *arg)
{
	struct work *w = arg;
	uint64_t start;

	set_current(context);
	calls_make(w->call, WARM_CALLS);
	pthread_barrier_wait(&barrier);
	start = now_ns();
	calls_make(w->call, w->calls);
	w->ns = now_ns() - start;
	return NULL;
}

static void time_calls(const char *name, long threads, long calls)
{
	struct work work[THREADS_MAX];
	double sum = 0;

	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (long i = 0; i < threads; i++) {
		work[i] = (struct work){.call = (call_fn *)symbol(library, name), .calls = calls};
		pthread_create(&work[i].thread, NULL, work_run, &work[i]);
	}
	for (long i = 0; i < threads; i++) {
		pthread_join(work[i].thread, NULL);
		sum += (double)work[i].ns / (double)calls;
	}
	printf("%.3f\n", sum / (double)threads);
}

static void sample_calls(const char *name, long calls)
{
	call_fn *call = (call_fn *)symbol(library, name);

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
	int fd = open(library_path, O_RDONLY | O_CLOEXEC);
	const char *why = "no such function";
	struct zn_place place;

	if (fd < 0 || zn_elf_symbols(fd, &wanted, 1, ZN_ELF_BUDGET, &why) != 1)
		die(name, why);
	place = zn_place_of(fd, &wanted);
	close(fd);
	return place.entry;
}

static void wait_for(const char *name, bool there)
{
	const volatile uint8_t *code = (uint8_t *)symbol(library, name) + place_of(name).at;
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
	long a, b;

	if (sscanf(line, "time %63s %ld %ld", name, &a, &b) == 3 && a > 0 && a <= THREADS_MAX && b > 0)
		time_calls(name, a, b);
	else if (sscanf(line, "sample %63s %ld", name, &a) == 2 && a > 0 && a <= SAMPLES_MAX)
		sample_calls(name, a);
	else if (sscanf(line, "set %63s %ld", name, &a) == 2)
		printf("%d\n", ((int (*)(const char *, long))symbol(library, "fake_cuda_set"))(name, a));
	else if (sscanf(line, "place %63s", name) == 1) {
		place = place_of(name);
		printf("%u %s\n", place.at, zn_insn_label(place.first));
	} else if (sscanf(line, "wait %63s %ld", name, &a) == 2)
		wait_for(name, a != 0);
	else
		die("not understood", line);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[256];

	if (argc != 2)
		die("usage", "launch LIBRARY");
	library_path = argv[1];
	library = library_open(argv[1]);
	set_current = symbol(library, "cuCtxSetCurrent");
	((int (*)(unsigned))symbol(library, "cuInit"))(0);
	((int (*)(void **, int))symbol(library, "cuDevicePrimaryCtxRetain"))(&context, 0);
	set_current(context);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}

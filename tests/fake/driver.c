/* SPDX-License-Identifier: GPL-2.0 */
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

struct cuda_library cuda;

struct nccl_library nccl;

#define CUDA_SYMBOL(name, args) {#name, (void **)&cuda.name},
#define NCCL_SYMBOL(name, args) {"nccl" #name, (void **)&nccl.name},
struct symbol {
	const char *name;
	void **to;
};
static const struct symbol cuda_symbols[] = {CUDA_CALLS(CUDA_SYMBOL){"fake_cuda_set", (void **)&cuda.set}};
static const struct symbol nccl_symbols[] = {NCCL_CALLS(NCCL_SYMBOL){"fake_nccl_set", (void **)&nccl.set}};

struct arguments opt = {.scenarios = (char[]){"idle"}, .threads = 4, .calls = 10007, .rank = 1};

struct done did;

void die(const char *what, const char *why)
{
	fprintf(stderr, "driver: %s: %s\n", what, why);
	exit(1);
}

void must(int got, int want, const char *what)
{
	char why[64];

	if (got == want)
		return;
	snprintf(why, sizeof(why), "returned %d, not %d", got, want);
	die(what, why);
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void sleep_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	if (ms > 0)
		nanosleep(&t, NULL);
}

static void read_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

static void run_idle(void)
{
}

/* `before`, where there is one, runs in front of the gate. */
static const struct scenario {
	const char *name;
	void (*before)(void);
	void (*run)(void);
} scenarios[] = {
	{"memory", NULL, run_memory},
	{"early", before_early, run_early},
	{"launches", NULL, run_launches},
	{"syncs", NULL, run_syncs},
	{"copies", NULL, run_copies},
	{"nccl", NULL, run_nccl},
	{"latency", NULL, run_latency},
	{"storm", NULL, run_storm},
	{"tcp", NULL, run_tcp},
	{"devices", NULL, run_devices},
	{"gate", NULL, read_line}, /* another one, between two others; each byte up to the line's end is a call */
	{"idle", NULL, run_idle},
};

static const struct scenario *scenario_named(const char *name)
{
	const struct scenario *s;

	for (s = scenarios; s < scenarios + COUNT(scenarios); s++)
		if (!strcmp(s->name, name))
			return s;
	die(name, "no such scenario");
	return NULL;
}

static void each_scenario(bool before)
{
	char *names = strdup(opt.scenarios), *rest = names, *name;
	const struct scenario *s;

	while ((name = strsep(&rest, ","))) {
		s = scenario_named(name);
		if (!before)
			s->run();
		else if (s->before)
			s->before();
	}
	free(names);
}

static void load(const char *path, const struct symbol *symbols, size_t count)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	size_t i;

	if (!library)
		die("dlopen", dlerror());
	for (i = 0; i < count; i++) {
		*symbols[i].to = dlsym(library, symbols[i].name);
		if (!*symbols[i].to)
			die(symbols[i].name, "not in the library");
	}
}

static void load_libraries(void)
{
	int count = 0;

	sleep_ms(opt.delay_ms);
	if (!opt.cuda_path)
		return;
	load(opt.cuda_path, cuda_symbols, COUNT(cuda_symbols));
	if (opt.nccl_path)
		load(opt.nccl_path, nccl_symbols, COUNT(nccl_symbols));
	must(cuda.cuInit(0), 0, "cuInit");
	must(cuda.cuDeviceGetCount(&count), 0, "cuDeviceGetCount");
	must(count >= GPUS, 1, "having 4 devices");
}

static void wait_at_gate(void)
{
	sleep_ms(opt.ready_ms);
	if (!opt.gate)
		return;
	printf("ready\n");
	fflush(stdout);
	read_line();
}

static void hold(void)
{
	char bytes[256];

	sleep_ms(opt.hold_ms);
	while (opt.hold_stdin && read(STDIN_FILENO, bytes, sizeof(bytes)) > 0)
		;
}

static const struct option options[] = {
	{"cuda", required_argument, NULL, 'c'},
	{"nccl", required_argument, NULL, 'n'},
	{"delay-ms", required_argument, NULL, 'd'},
	{"ready-ms", required_argument, NULL, 'r'},
	{"hold-ms", required_argument, NULL, 'h'},
	{"hold-stdin", no_argument, &opt.hold_stdin, 1},
	{"gate", no_argument, &opt.gate, 1},
	{"scenario", required_argument, NULL, 's'},
	{"threads", required_argument, NULL, 't'},
	{"calls", required_argument, NULL, 'l'},
	{"rank", required_argument, NULL, 'k'},
	{0},
};

static int number(int most)
{
	char *end;
	long n = strtol(optarg, &end, 10);

	if (*end || n < 0 || n > most)
		die(optarg, "not a number that is possible here");
	return (int)n;
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 'c': opt.cuda_path = optarg; break;
		case 'n': opt.nccl_path = optarg; break;
		case 'd': opt.delay_ms = number(3600000); break;
		case 'r': opt.ready_ms = number(3600000); break;
		case 'h': opt.hold_ms = number(3600000); break;
		case 's': opt.scenarios = optarg; break;
		case 't': opt.threads = number(THREADS_MAX); break;
		case 'l': opt.calls = number(1000000000); break;
		case 'k': opt.rank = number(3); break;
		case 0: break;
		default: exit(2);
		}
	if (!opt.cuda_path && strcmp(opt.scenarios, "idle"))
		die(opt.scenarios, "needs --cuda");
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	load_libraries();
	each_scenario(true);
	wait_at_gate();
	each_scenario(false);
	print_report();
	hold();
	return 0;
}

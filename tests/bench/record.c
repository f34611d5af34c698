/* SPDX-License-Identifier: GPL-2.0 */
/*
 * record: what it costs to record one duration, and to know the 99th percentile after it, in a histogram and
 * in the cheapest structure that keeps every sample: a sorted array, one binary search and one memmove() per
 * sample. Prints one "name ns" per line, medians of many blocks.
 */
#include <stdbool.h>
#include <string.h>

#include "bench.h"
#include "zernel.h"

#define VALUES     4096 /* a power of two */
#define BLOCK      100
#define BLOCKS     2001
#define FEW        100
#define MANY       100000000ULL
#define KEPT       100000
#define KEPT_SLACK (BLOCK * BLOCKS)

static uint64_t value[VALUES];
static uint64_t ns[BLOCKS];
static volatile uint64_t seen; /* so that no quantile is optimised away */

/* Durations with a heavy tail, 1 us to 16 ms; a fixed generator, so that each run records the same. */
static void values_make(void)
{
	uint64_t state = 88172645463325252ULL;

	for (int i = 0; i < VALUES; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		value[i] = (1024 + (state >> 54)) << (__builtin_clzll(state | 1ULL << 50) & 15);
	}
}

static void report(const char *name)
{
	qsort(ns, BLOCKS, sizeof(ns[0]), by_size);
	printf("%s %.2f\n", name, (double)ns[BLOCKS / 2] / BLOCK);
}

static void hist_fill(struct zn_hist *h, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		zn_hist_add(h, value[i & (VALUES - 1)]);
}

/* The time of BLOCK more records in a histogram that holds `count`. */
static void hist_bench(const char *name, uint64_t count, bool quantile)
{
	static struct zn_hist h;

	memset(&h, 0, sizeof(h));
	hist_fill(&h, count);
	for (int b = 0; b < BLOCKS; b++) {
		uint64_t start;

		if (count == FEW) {
			memset(&h, 0, sizeof(h));
			hist_fill(&h, FEW);
		}
		start = now_ns();
		for (int i = 0; i < BLOCK; i++) {
			zn_hist_add(&h, value[(b * BLOCK + i) & (VALUES - 1)]);
			if (quantile)
				seen = zn_hist_quantile(&h, 990);
		}
		ns[b] = now_ns() - start;
	}
	report(name);
}

static uint64_t kept[KEPT + KEPT_SLACK];
static size_t kept_count;

static void kept_add(uint64_t v)
{
	size_t low = 0, high = kept_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (kept[middle] < v)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&kept[low + 1], &kept[low], (kept_count - low) * sizeof(kept[0]));
	kept[low] = v;
	kept_count++;
}

static void kept_fill(void)
{
	for (kept_count = 0; kept_count < KEPT; kept_count++)
		kept[kept_count] = value[kept_count & (VALUES - 1)];
	qsort(kept, kept_count, sizeof(kept[0]), by_size);
}

static void kept_bench(const char *name)
{
	kept_fill();
	for (int b = 0; b < BLOCKS; b++) {
		uint64_t start;

		if (b % 100 == 0)
			kept_fill();
		start = now_ns();
		for (int i = 0; i < BLOCK; i++) {
			kept_add(value[(b * BLOCK + i) & (VALUES - 1)]);
			seen = kept[kept_count * 99 / 100];
		}
		ns[b] = now_ns() - start;
	}
	report(name);
}

int main(void)
{
	values_make();
	hist_bench("few", FEW, false);
	hist_bench("many", MANY, false);
	hist_bench("few_p99", FEW, true);
	hist_bench("many_p99", MANY, true);
	kept_bench("kept_p99");
	printf("bytes %zu\n", sizeof(struct zn_hist));
	printf("kept_bytes %zu\n", KEPT * sizeof(kept[0]));
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 */
/* histogram.c: sums, quantiles and buckets of histograms, also while BPF programs add to them. */
#include "zernel.h"

void zn_hist_merge(struct zn_hist *restrict to, const struct zn_hist *restrict from)
{
	to->calls += from->calls;
	to->errors += from->errors;
	to->bytes += from->bytes;
	to->sum_ns += from->sum_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
#pragma GCC unroll 4
	for (uint32_t i = 0; i < ZN_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
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
		to->bucket[zn_coarse_middle(i)] += from->bucket[i];
}

/* Sums over powers of two: the first bucket, the buckets of each power, the last bucket. */
#define POWERS    (ZN_LAST_POWER - ZN_FIRST_POWER + 2)
#define PER_POWER (1 << ZN_BUCKET_BITS)

static uint32_t power_first(uint32_t power)
{
	return power ? 1 + (power - 1) * PER_POWER : 0;
}

/* Returns the sum of all. */
static uint64_t powers_sum(const struct zn_hist *h, uint64_t to[POWERS])
{
	uint64_t all;

	to[0] = h->bucket[0];
	to[POWERS - 1] = h->bucket[ZN_BUCKETS - 1];
	all = to[0] + to[POWERS - 1];
	for (uint32_t p = 1; p < POWERS - 1; p++) {
		const __u64 *bucket = &h->bucket[power_first(p)];
		uint64_t n = 0;

#pragma GCC unroll 16
		for (uint32_t i = 0; i < PER_POWER; i++)
			n += bucket[i];
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

/* The nearest-rank definition: the bucket of the smallest recorded duration with at least q per mille at or below
 * it. */
static uint32_t quantile_slot(const struct zn_hist *h, const uint64_t powers[POWERS], uint64_t count, uint32_t q)
{
	uint64_t rank = (uint64_t)(((__uint128_t)count * q + 999) / 1000), seen = 0;
	uint32_t p = 0, i;

	if (rank == 0)
		rank = 1;
	while (p < POWERS - 1 && seen + powers[p] < rank)
		seen += powers[p++];
	for (i = power_first(p); i < ZN_BUCKETS - 1; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			break;
	}
	return i;
}

static uint64_t quantile_of(const struct zn_hist *h, const uint64_t powers[POWERS], uint64_t count, uint32_t q)
{
	uint32_t i = quantile_slot(h, powers, count, q);
	uint64_t middle;

	if (i == ZN_BUCKETS - 1)
		return h->max_ns;
	middle = (zn_bucket_floor(i) + zn_bucket_floor(i + 1)) / 2;
	return middle < h->max_ns ? middle : h->max_ns;
}

uint64_t zn_hist_quantile(const struct zn_hist *h, uint32_t q)
{
	uint64_t powers[POWERS], count = powers_sum(h, powers);

	return count ? quantile_of(h, powers, count, q) : 0;
}

struct zn_summary zn_hist_summary(const struct zn_hist *h)
{
	uint64_t powers[POWERS], count = powers_sum(h, powers);

	if (!count)
		return (struct zn_summary){0};
	return (struct zn_summary){count, quantile_of(h, powers, count, 500), quantile_of(h, powers, count, 990)};
}

#define LE_FIRST_POWER 10 /* 4^5 ns = 2^10 ns */

uint64_t zn_le_ns(uint32_t i)
{
	return i < ZN_LE_COUNT - 1 ? 1ULL << (LE_FIRST_POWER + 2 * i) : UINT64_MAX;
}

/* A bucket holds [floor, next floor), so the limits are exclusive by one nanosecond. */
static void cumulate_powers(const uint64_t powers[POWERS], uint64_t le[ZN_LE_COUNT])
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
	to->p50_ns = count ? quantile_of(h, powers, count, 500) : 0;
	to->p99_ns = count ? quantile_of(h, powers, count, 990) : 0;
	cumulate_powers(powers, to->le);
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

static const int16_t *exp_buckets_of(void)
{
	static int16_t bucket[ZN_BUCKETS]; /* made when it is first asked for; 0 of bucket 0 is not used */
	static bool made;

	for (uint32_t i = 1; !made && i < ZN_BUCKETS; i++) {
		uint64_t floor = zn_bucket_floor(i), end = i < ZN_BUCKETS - 1 ? zn_bucket_floor(i + 1) : floor;

		bucket[i] = (int16_t)bucket_of((double)(floor + end) / 2e9);
	}
	made = true;
	return bucket;
}

void zn_hist_buckets(const struct zn_hist *h, struct zn_exp_buckets *to)
{
	const int16_t *index = exp_buckets_of();

	to->zero = *(const volatile __u64 *)&h->bucket[0];
	to->count = to->zero;
	to->sum_ns = h->sum_ns;
	to->max_ns = h->max_ns;
	to->used = 0;
	for (uint32_t i = 1; i < ZN_BUCKETS; i++) {
		uint64_t n = *(const volatile __u64 *)&h->bucket[i];

		if (!n)
			continue;
		to->bucket[to->used++] = (struct zn_exp_bucket){index[i], n};
		to->count += n;
	}
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * histogram_test.c: the histogram: which bucket a duration belongs to, quantiles against the exact ones of sorted
 * samples, merging, and the cumulative counts of the twin histograms.
 */
#include <math.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define SAMPLES_MAX 100000
#define TOLERANCE   32 /* per mille */

static uint64_t state;
static struct zn_hist hist;
static uint64_t sample[SAMPLES_MAX];

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Within (0, 1]. */
static double unit(void)
{
	return (double)((draw() >> 11) + 1) / (double)(1ULL << 53);
}

static void check_slot(uint64_t ns)
{
	uint32_t bucket = zn_bucket_of(ns);

	CHECK(bucket < ZN_BUCKETS);
	CHECK(zn_bucket_floor(bucket) <= ns);
	CHECK(bucket == ZN_BUCKETS - 1 || ns < zn_bucket_floor(bucket + 1));
}

T(buckets_around_powers_of_two)
{
	check_slot(0);
	for (uint32_t power = 0; power < 64; power++)
		for (int off = -1; off <= 1; off++)
			check_slot((1ULL << power) + (uint64_t)off);
	check_slot(UINT64_MAX);
	CHECK_EQ(zn_bucket_of(127), 0);
	CHECK_EQ(zn_bucket_of(128), 1);
	CHECK_EQ(zn_bucket_of((1ULL << ZN_LAST_POWER) - 1), ZN_BUCKETS - 2);
	CHECK_EQ(zn_bucket_of(1ULL << ZN_LAST_POWER), ZN_BUCKETS - 1);
}

T(buckets_of_random_durations)
{
	state = 88172645463325252;
	for (uint32_t i = 0; i < 1000000; i++)
		check_slot(draw() >> (draw() & 63));
}

T(buckets_are_monotone_and_narrow)
{
	CHECK_EQ(zn_bucket_floor(0), 0);
	CHECK_EQ(zn_bucket_floor(1), 1 << ZN_FIRST_POWER);
	CHECK_EQ(zn_bucket_floor(ZN_BUCKETS - 1), 1ULL << ZN_LAST_POWER);
	for (uint32_t i = 1; i < ZN_BUCKETS - 1; i++) {
		uint64_t floor = zn_bucket_floor(i), next = zn_bucket_floor(i + 1);

		CHECK(next > floor);
		CHECK((next - floor) * 16 <= floor);
		CHECK_EQ(zn_bucket_of(floor), i);
		CHECK_EQ(zn_bucket_of(next - 1), i);
	}
}

static double uniform(uint32_t i)
{
	(void)i;
	return 128 + unit() * 137e9;
}

static double bimodal(uint32_t i)
{
	return i % 3 ? 4000 + 500 * unit() : 9e6 + 2e6 * unit();
}

static double pareto(uint32_t i)
{
	(void)i;
	return 1000 / pow(unit(), 1 / 1.1);
}

static double lognormal(uint32_t i)
{
	(void)i;
	return exp(11 + 2 * sqrt(-2 * log(unit())) * cos(2 * M_PI * unit()));
}

static double every_magnitude(uint32_t i)
{
	(void)i;
	return exp2(ZN_FIRST_POWER + unit() * (ZN_LAST_POWER - ZN_FIRST_POWER));
}

static double constant(uint32_t i)
{
	(void)i;
	return 142857;
}

static double two_points(uint32_t i)
{
	return i % 1000 ? 151 : 99999999999;
}

static double bucket_ends(uint32_t i)
{
	uint32_t bucket = 2 + i / 2 % (ZN_BUCKETS - 2);

	return (double)zn_bucket_floor(bucket) - (i & 1);
}

static const struct {
	const char *name;
	double (*ns)(uint32_t i);
	uint32_t count;
} samples[] = {
	{"quantiles: uniform", uniform, SAMPLES_MAX},
	{"quantiles: bimodal", bimodal, SAMPLES_MAX},
	{"quantiles: Pareto", pareto, SAMPLES_MAX},
	{"quantiles: lognormal", lognormal, SAMPLES_MAX},
	{"quantiles: every magnitude", every_magnitude, SAMPLES_MAX},
	{"quantiles: constant", constant, 10007},
	{"quantiles: two points", two_points, 10007},
	{"quantiles: ends of buckets", bucket_ends, 2 * (ZN_BUCKETS - 2)},
	{"quantiles: one", uniform, 1},
	{"quantiles: two", uniform, 2},
	{"quantiles: three", pareto, 3},
	{"quantiles: seven", lognormal, 7},
	{"quantiles: 101", every_magnitude, 101},
};

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Records the samples, kept to where the promise holds: 128 ns to 137 s. */
static void record(double (*ns)(uint32_t i), uint32_t count)
{
	const double most = (double)(1ULL << ZN_LAST_POWER) - 1;

	hist = (struct zn_hist){0};
	state = 88172645463325252;
	for (uint32_t i = 0; i < count; i++) {
		sample[i] = (uint64_t)fmin(fmax(ns(i), 1 << ZN_FIRST_POWER), most);
		zn_hist_add(&hist, sample[i]);
	}
	qsort(sample, count, sizeof(sample[0]), by_size);
}

static void check_quantiles(uint32_t count)
{
	struct zn_summary summary = zn_hist_summary(&hist);
	uint64_t before = 0;

	for (uint32_t q = 1; q <= 999; q++) {
		uint64_t exact = sample[((uint64_t)count * q + 999) / 1000 - 1];
		uint64_t got = zn_hist_quantile(&hist, q);
		uint64_t off = got > exact ? got - exact : exact - got;

		CHECK(off * 1000 <= exact * TOLERANCE);
		CHECK(got <= sample[count - 1]);
		CHECK(got >= before);
		before = got;
	}
	CHECK_EQ(hist.max_ns, sample[count - 1]);
	CHECK(zn_hist_quantile(&hist, 1000) <= hist.max_ns);
	CHECK_EQ(zn_hist_count(&hist), count);
	CHECK_EQ(summary.count, count);
	CHECK_EQ(summary.p50_ns, zn_hist_quantile(&hist, 500));
	CHECK_EQ(summary.p99_ns, zn_hist_quantile(&hist, 990));
	CHECK_EQ(hist.calls, count);
}

static void quantiles(void)
{
	for (size_t i = 0; i < ZN_LEN(samples); i++) {
		t_begin(samples[i].name);
		record(samples[i].ns, samples[i].count);
		check_quantiles(samples[i].count);
	}
}

T(quantiles_at_the_ends)
{
	hist = (struct zn_hist){0};
	for (uint32_t q = 0; q <= 1000; q++)
		CHECK_EQ(zn_hist_quantile(&hist, q), 0);
	CHECK_EQ(zn_hist_summary(&hist).count, 0);
	CHECK_EQ(zn_hist_summary(&hist).p99_ns, 0);
	zn_hist_add(&hist, 0);
	CHECK_EQ(zn_hist_quantile(&hist, 500), 0);
	zn_hist_add(&hist, 100);
	CHECK(zn_hist_quantile(&hist, 990) < 1 << ZN_FIRST_POWER);
	zn_hist_add(&hist, UINT64_MAX);
	CHECK(zn_hist_quantile(&hist, 666) < 1 << ZN_FIRST_POWER);
	CHECK(zn_hist_quantile(&hist, 667) == UINT64_MAX);
	CHECK(zn_hist_quantile(&hist, 1000) == UINT64_MAX);
}

T(a_quantile_of_very_many)
{
	static struct zn_hist_sum sum;

	sum = (struct zn_hist_sum){.hist = {.max_ns = 1 << 20, .carries = ZN_CARRIES_BEHIND}};
	sum.carried[zn_bucket_of(1000)] = 1 << 30;
	sum.carried[zn_bucket_of(1 << 20)] = 1 << 30;
	CHECK(zn_hist_quantile(&sum.hist, 500) < 1024);
	CHECK_EQ(zn_hist_quantile(&sum.hist, 501), 1 << 20);
	CHECK(zn_hist_count(&sum.hist) == 1ULL << 62);
}

/* As BPF does: one bucket and the calls, which is all that the look at them goes by. */
static void grow(struct zn_hist *h, uint64_t ns, uint32_t count)
{
	h->calls += count;
	h->sum_ns += ns * count;
	h->max_ns = ns > h->max_ns ? ns : h->max_ns;
	h->bucket[zn_bucket_of(ns)] += count;
}

/* Buckets of 32 bits, looked at each tick, tell ten times as many calls, and so do sums of them, and differences. */
T(buckets_that_are_carried)
{
	static struct zn_hist h;
	static struct zn_hist_sum sum, twice;
	static struct zn_exp_buckets all;
	uint32_t low[ZN_BUCKETS];
	const uint32_t ticks = 43;
	uint64_t most = ticks * 1000000007ULL, few = ticks * 31ULL;

	memset(&h, 0, sizeof(h));
	for (uint32_t i = 0; i < ticks; i++) {
		grow(&h, 1000, 1000000007);
		grow(&h, 1 << 20, 31);
		zn_hist_carry(&h, 7);
		CHECK_EQ(zn_hist_count(&h), (i + 1) * 1000000038ULL);
	}
	CHECK_EQ(h.carries, 7);
	CHECK_EQ(zn_hist_bucket(&h, zn_bucket_of(1000)), most);
	CHECK_EQ(zn_hist_bucket(&h, zn_bucket_of(1 << 20)), few);
	zn_hist_low(&h, low);
	CHECK_EQ(low[zn_bucket_of(1000)], (uint32_t)most);
	zn_hist_buckets(&h, &all);
	CHECK(all.count == most + few && all.used == 2 && all.bucket[0].count == most && all.bucket[1].count == few);
	memset(&sum, 0, sizeof(sum));
	memset(&twice, 0, sizeof(twice));
	for (uint32_t i = 0; i < 3; i++)
		zn_hist_merge(&sum, &h);
	zn_hist_merge(&twice, &sum.hist); /* as sums of processes that have gone are read */
	zn_hist_merge(&twice, &sum.hist);
	CHECK_EQ(zn_hist_bucket(&twice.hist, zn_bucket_of(1000)), 6 * most);
	CHECK_EQ(zn_hist_bucket(&twice.hist, zn_bucket_of(1 << 20)), 6 * few);
	CHECK_EQ(zn_hist_summary(&twice.hist).count, 6 * (most + few));
	zn_hist_clear(&h);
	grow(&h, 1000, 5);
	h.carries = 7; /* what was kept of it is gone as well */
	CHECK_EQ(zn_hist_count(&h), 5);
	zn_hist_clear(&h);
}

/* One of an arena that takes over what another one has, and sums that grow past 2^31 with no carry in their parts. */
T(folded_histograms_carry)
{
	static struct zn_hist from, to;
	static struct zn_hist_sum sum;

	memset(&from, 0, sizeof(from));
	memset(&to, 0, sizeof(to));
	memset(&sum, 0, sizeof(sum));
	grow(&from, 1000, (1U << 31) - 1);
	grow(&to, 1000, (1U << 31) + 5); /* since the last look */
	for (uint32_t i = 0; i < 3; i++) {
		zn_hist_fold(&to, 9, &from);
		zn_hist_merge(&sum, &from);
	}
	CHECK_EQ(zn_hist_count(&to), 4 * (1ULL << 31) + 2);
	CHECK_EQ(zn_hist_count(&sum.hist), 3 * (1ULL << 31) - 3);
	zn_hist_clear(&to);
}

#define GATHERED_CALLS 300000
static struct zn_hist shard;

/* As the programs of a thread do. */
static void *add_to_shard(void *done)
{
	for (uint64_t i = 1; i <= GATHERED_CALLS; i++) {
		__atomic_fetch_add(&shard.calls, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&shard.sum_ns, i, __ATOMIC_RELAXED);
		__atomic_fetch_add(&shard.bucket[zn_bucket_of(i)], 1, __ATOMIC_RELAXED);
		__atomic_store_n(&shard.max_ns, i, __ATOMIC_RELAXED);
	}
	__atomic_store_n((bool *)done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* One that is gathered again and again while it is added to, into one that is added to as well. */
T(a_shard_that_is_gathered_loses_nothing)
{
	static struct zn_hist own, expect;
	pthread_t thread;
	bool done = false;

	memset(&shard, 0, sizeof(shard));
	memset(&own, 0, sizeof(own));
	memset(&expect, 0, sizeof(expect));
	grow(&own, 50, 11);
	grow(&expect, 50, 11);
	for (uint64_t i = 1; i <= GATHERED_CALLS; i++)
		grow(&expect, i, 1);
	CHECK_EQ(pthread_create(&thread, NULL, add_to_shard, &done), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		zn_hist_gather(&own, &shard);
	pthread_join(thread, NULL);
	zn_hist_gather(&own, &shard);
	CHECK(!memcmp(&own, &expect, sizeof(own)));
	CHECK_EQ(shard.calls + shard.sum_ns + zn_hist_count(&shard), 0);
	CHECK_EQ(shard.max_ns, GATHERED_CALLS);
}

/* A thread that was held up between the two. */
T(a_call_that_is_in_its_bucket_after_it_was_counted_is_gathered)
{
	static struct zn_hist own;

	memset(&shard, 0, sizeof(shard));
	memset(&own, 0, sizeof(own));
	shard.calls = 1;
	zn_hist_gather(&own, &shard);
	shard.bucket[zn_bucket_of(5000)] = 1;
	shard.max_ns = 5000;
	zn_hist_gather(&own, &shard);
	CHECK_EQ(own.calls, 1);
	CHECK_EQ(zn_hist_count(&own), 1);
}

T(coarse_histograms_carry)
{
	static struct zn_coarse_hist h, to;
	static struct zn_hist_sum sum;
	uint32_t bucket = zn_coarse_bucket(1000);

	memset(&h, 0, sizeof(h));
	memset(&to, 0, sizeof(to));
	memset(&sum, 0, sizeof(sum));
	for (uint32_t i = 0; i < 11; i++) {
		h.max_ns = 1000;
		h.calls += 1500000001;
		h.bucket[bucket] += 1500000001;
		zn_hist_carry_coarse(&h, ZN_IO_MAX - 1);
	}
	CHECK_EQ(h.carries, ZN_IO_MAX);
	zn_hist_fold_coarse(&to, 0, &h);
	zn_hist_merge_coarse(&sum, &h);
	zn_hist_merge_coarse(&sum, &to);
	CHECK_EQ(zn_hist_count(&sum.hist), 22 * 1500000001ULL);
	zn_hist_clear_coarse(&h);
	zn_hist_clear_coarse(&to);
	CHECK_EQ(h.carries + to.carries + to.bucket[bucket], 0);
}

/* Before 5.12, of two calls that end at the same time and are longer than any before either is told. */
T(a_call_is_counted_that_is_longer_than_the_longest)
{
	hist = (struct zn_hist){0};
	grow(&hist, 1 << 20, 7);
	grow(&hist, 1000, 5);
	hist.max_ns = 1000;
	CHECK_EQ(zn_hist_count(&hist), 12);
	hist.max_ns = 0;
	CHECK_EQ(zn_hist_count(&hist), 12);
}

T(merged_parts_equal_the_whole)
{
	static struct zn_hist part[3];
	static struct zn_hist_sum merged;

	record(lognormal, SAMPLES_MAX);
	hist.bytes = 0;
	for (uint32_t i = 0; i < SAMPLES_MAX; i++) {
		zn_hist_add(&part[i % 3], sample[i]);
		part[i % 3].bytes += i;
		part[i % 3].errors += i % 17 == 0;
		hist.bytes += i;
		hist.errors += i % 17 == 0;
	}
	for (uint32_t i = 0; i < ZN_LEN(part); i++)
		zn_hist_merge(&merged, &part[i]);
	CHECK(!memcmp(&merged, &hist, sizeof(hist)));
	CHECK(merged.hist.errors && merged.hist.bytes && merged.hist.sum_ns);
	zn_hist_merge(&merged, &(struct zn_hist){0});
	CHECK(!memcmp(&merged, &hist, sizeof(hist)));
}

/* Each coarse bucket is some buckets of a whole histogram, of which one has its middle. */
T(coarse_buckets)
{
	for (uint64_t ns = 1; ns < 1ULL << 40; ns += 1 + ns / 97) {
		uint32_t bucket = zn_coarse_bucket(ns), middle = zn_coarse_middle(bucket);
		uint64_t shown = (zn_bucket_floor(middle) + zn_bucket_floor(middle + 1)) / 2;

		CHECK(bucket < ZN_COARSE_BUCKETS && middle < ZN_BUCKETS);
		CHECK_EQ(zn_coarse_bucket(zn_bucket_floor(middle)), bucket);
		CHECK(ns < 1 << ZN_FIRST_POWER || ns >> ZN_LAST_POWER || (8 * shown >= 7 * ns && 8 * shown <= 9 * ns));
	}
	CHECK_EQ(zn_coarse_bucket(UINT64_MAX), ZN_COARSE_BUCKETS - 1);
}

T(limits_are_powers_of_four)
{
	for (uint32_t i = 0; i < ZN_LE_COUNT - 1; i++)
		CHECK_EQ(zn_le_ns(i, false), 1024ULL << 2 * i);
	CHECK_EQ(zn_le_ns(ZN_LE_COUNT - 2, false), 68719476736);
	CHECK(zn_le_ns(ZN_LE_COUNT - 1, false) == UINT64_MAX);
}

T(fine_limits_are_powers_of_two)
{
	struct zn_spread s;

	CHECK_EQ(zn_le_ns(0, true), 1048576);
	CHECK_EQ(zn_le_ns(ZN_LE_FINE_COUNT - 2, true), 137438953472);
	CHECK(zn_le_ns(ZN_LE_FINE_COUNT - 1, true) == UINT64_MAX);
	for (uint32_t limit = 0; limit < ZN_LE_FINE_COUNT - 1; limit++)
		for (int off = -1; off <= 1; off++) {
			hist = (struct zn_hist){0};
			zn_hist_add(&hist, zn_le_ns(limit, true) + (uint64_t)off);
			zn_hist_spread(&hist, true, &s);
			CHECK_EQ(s.count, 1);
			for (uint32_t i = 0; i < ZN_LE_FINE_COUNT; i++)
				CHECK_EQ(s.le[i], i > limit || (i == limit && off < 0));
		}
}

/* A bucket begins at a limit, so what lasts exactly as long as the limit counts as longer. */
T(cumulative_counts_are_exact_at_limits)
{
	struct zn_spread s;

	for (uint32_t limit = 0; limit < ZN_LE_COUNT - 1; limit++)
		for (int off = -1; off <= 1; off++) {
			hist = (struct zn_hist){0};
			zn_hist_add(&hist, zn_le_ns(limit, false) + (uint64_t)off);
			zn_hist_spread(&hist, false, &s);
			for (uint32_t i = 0; i < ZN_LE_COUNT; i++)
				CHECK_EQ(s.le[i], i > limit || (i == limit && off < 0));
		}
}

T(cumulative_counts_of_many)
{
	struct zn_spread s;

	record(every_magnitude, SAMPLES_MAX);
	zn_hist_spread(&hist, false, &s);
	for (uint32_t i = 0; i < ZN_LE_COUNT; i++) {
		uint64_t below = 0;

		while (below < SAMPLES_MAX && sample[below] < zn_le_ns(i, false))
			below++;
		CHECK_EQ(s.le[i], below);
	}
	CHECK_EQ(s.le[ZN_LE_COUNT - 1], SAMPLES_MAX);
	CHECK_EQ(s.sum_ns, hist.sum_ns);
	CHECK_EQ(s.p50_ns, zn_hist_quantile(&hist, 500));
	CHECK_EQ(s.p99_ns, zn_hist_quantile(&hist, 990));
}

/* Each bucket has an exponential one of its own, which its middle is in. The C library tells the limits. */
T(every_bucket_has_an_exponential_one)
{
	static struct zn_hist h;
	static struct zn_exp_buckets b;

	memset(&h, 0, sizeof(h));
	for (uint32_t i = 0; i < ZN_BUCKETS; i++)
		h.bucket[i] = i + 1;
	h.sum_ns = 12345;
	h.max_ns = 678;
	zn_hist_buckets(&h, &b);
	CHECK_EQ(b.used, ZN_BUCKETS_MAX);
	CHECK_EQ(b.zero, 1);
	CHECK_EQ(b.count, ZN_BUCKETS * (ZN_BUCKETS + 1) / 2);
	CHECK_EQ(b.sum_ns, 12345);
	CHECK_EQ(b.max_ns, 678);
	for (uint32_t i = 0; i < b.used; i++) {
		uint64_t floor = zn_bucket_floor(i + 1), end = i + 2 < ZN_BUCKETS ? zn_bucket_floor(i + 2) : floor;
		double middle = (double)(floor + end) / 2e9;

		CHECK_EQ(b.bucket[i].count, i + 2);
		CHECK(i == 0 || b.bucket[i].index > b.bucket[i - 1].index);
		CHECK(middle > exp2(b.bucket[i].index / 32.0) && middle <= exp2((b.bucket[i].index + 1) / 32.0));
	}
	memset(&h, 0, sizeof(h));
	zn_hist_buckets(&h, &b);
	CHECK_EQ(b.used + b.zero + b.count, 0);
}

int main(void)
{
	RUN(buckets_around_powers_of_two);
	RUN(buckets_of_random_durations);
	RUN(buckets_are_monotone_and_narrow);
	quantiles();
	RUN(quantiles_at_the_ends);
	RUN(a_quantile_of_very_many);
	RUN(buckets_that_are_carried);
	RUN(folded_histograms_carry);
	RUN(a_shard_that_is_gathered_loses_nothing);
	RUN(a_call_that_is_in_its_bucket_after_it_was_counted_is_gathered);
	RUN(coarse_histograms_carry);
	RUN(a_call_is_counted_that_is_longer_than_the_longest);
	RUN(merged_parts_equal_the_whole);
	RUN(coarse_buckets);
	RUN(limits_are_powers_of_four);
	RUN(fine_limits_are_powers_of_two);
	RUN(cumulative_counts_are_exact_at_limits);
	RUN(cumulative_counts_of_many);
	RUN(every_bucket_has_an_exponential_one);
	return t_end();
}

/* SPDX-License-Identifier: GPL-2.0 */
/* histogram.c: sums, quantiles and buckets of histograms, also while BPF programs add to them. */
#include "zernel.h"
#include <string.h>

/*
 * A bucket's count is what stands in it and 2^31 for each time that so many were taken out of it. How often that was is
 * kept here for histograms of an arena, by their slot, as BPF does not need it and nearly all have none: memory that is
 * never written to is not taken. A sum has it behind itself.
 */
#define CARRY (1u << ZN_CARRY_BITS)
#define LOOK  (CARRY / 2) /* calls between two looks */

/* Of functions whose time is that of loops over all buckets. */
#define VECTORS __attribute__((optimize("tree-vectorize", "vect-cost-model=dynamic")))

static uint32_t carried[ZN_HISTS_MAX][ZN_BUCKETS];
static uint32_t carried_coarse[ZN_IO_MAX][ZN_COARSE_BUCKETS];

static const uint32_t *carried_of(const struct zn_hist *h)
{
	if (h->carries == ZN_CARRIES_BEHIND)
		return ((const struct zn_hist_sum *)h)->carried;
	return h->carries && h->carries < ZN_HISTS_MAX ? carried[h->carries] : NULL;
}

static uint32_t bucket_read(const uint32_t *bucket)
{
	return __atomic_load_n(bucket, __ATOMIC_RELAXED);
}

/* c: what was taken out of all of them, or NULL. */
static inline uint64_t bucket_whole(const struct zn_hist *h, const uint32_t *c, uint32_t bucket)
{
	return bucket_read(&h->bucket[bucket]) + (c ? (uint64_t)c[bucket] << ZN_CARRY_BITS : 0);
}

uint64_t zn_hist_bucket(const struct zn_hist *h, uint32_t bucket)
{
	return bucket_whole(h, carried_of(h), bucket);
}

void zn_hist_low(const struct zn_hist *h, uint32_t to[ZN_BUCKETS])
{
	memset(to, 0, ZN_BUCKETS * sizeof(*to));
	zn_hist_low_add(h, to);
}

VECTORS void zn_hist_low_add(const struct zn_hist *h, uint32_t to[ZN_BUCKETS])
{
	const uint32_t *c = carried_of(h);

	for (uint32_t i = 0; i < ZN_BUCKETS; i++)
		to[i] += h->bucket[i];
	for (uint32_t i = 0; c && i < ZN_BUCKETS; i++)
		to[i] += c[i] << ZN_CARRY_BITS;
}

/* Adds to a bucket that nobody else adds to; carries: where it keeps what is too much. True: it kept something. */
static bool bucket_add(uint32_t *bucket, uint32_t *carries, uint64_t count)
{
	uint64_t sum = *bucket + (count & (CARRY - 1));
	uint32_t over = (uint32_t)(sum >> ZN_CARRY_BITS) + (uint32_t)(count >> ZN_CARRY_BITS);

	*bucket = (uint32_t)sum & (CARRY - 1);
	if (over)
		*carries += over;
	return over != 0;
}

/* What both kinds have in common. */
static void sums_add(struct zn_hist *restrict to, const struct zn_hist *restrict from)
{
	to->calls += from->calls;
	to->errors += from->errors;
	to->bytes += from->bytes;
	to->sum_ns += from->sum_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
}

/* All in one go where nothing is carried, and nothing will be: what stands in the buckets is 2^31 - 1 at most. */
VECTORS static bool add_plain(struct zn_hist *restrict to, const struct zn_hist *restrict from)
{
	uint32_t sum[ZN_BUCKETS], all = 0;

	if (from->carries)
		return false;
	for (uint32_t i = 0; i < ZN_BUCKETS; i++) {
		uint32_t n = from->bucket[i], before = to->bucket[i];

		sum[i] = before + n;
		all |= sum[i] | before | n;
	}
	if (all & CARRY)
		return false;
	memcpy(to->bucket, sum, sizeof(sum));
	return true;
}

static void add_carried(struct zn_hist *to, uint32_t *carries, uint32_t place, const struct zn_hist *from)
{
	for (uint32_t i = 0; i < ZN_BUCKETS; i++)
		if (bucket_add(&to->bucket[i], &carries[i], zn_hist_bucket(from, i)))
			to->carries = place;
}

void zn_hist_merge(struct zn_hist_sum *restrict to, const struct zn_hist *restrict from)
{
	sums_add(&to->hist, from);
	if (!add_plain(&to->hist, from))
		add_carried(&to->hist, to->carried, ZN_CARRIES_BEHIND, from);
}

void zn_hist_fold(struct zn_hist *restrict to, uint32_t slot, const struct zn_hist *restrict from)
{
	sums_add(to, from);
	if (!add_plain(to, from))
		add_carried(to, carried[slot], slot, from);
}

static uint64_t coarse_bucket(const struct zn_coarse_hist *h, uint32_t i)
{
	uint64_t n = bucket_read(&h->bucket[i]);

	return h->carries && h->carries <= ZN_IO_MAX
		? n + ((uint64_t)carried_coarse[h->carries - 1][i] << ZN_CARRY_BITS)
		: n;
}

void zn_hist_merge_coarse(struct zn_hist_sum *restrict to, const struct zn_coarse_hist *restrict from)
{
	sums_add(&to->hist, (const struct zn_hist *)from);
	for (uint32_t i = 0; i < ZN_COARSE_BUCKETS; i++) {
		uint32_t middle = zn_coarse_middle(i);

		if (bucket_add(&to->hist.bucket[middle], &to->carried[middle], coarse_bucket(from, i)))
			to->hist.carries = ZN_CARRIES_BEHIND;
	}
}

void zn_hist_fold_coarse(struct zn_coarse_hist *restrict to, uint32_t index, const struct zn_coarse_hist *restrict from)
{
	sums_add((struct zn_hist *)to, (const struct zn_hist *)from);
	for (uint32_t i = 0; i < ZN_COARSE_BUCKETS; i++)
		if (bucket_add(&to->bucket[i], &carried_coarse[index][i], coarse_bucket(from, i)))
			to->carries = index + 1;
}

static void max_raise(__u64 *max_ns, __u64 to)
{
	__u64 known = __atomic_load_n(max_ns, __ATOMIC_RELAXED);

	while (to > known &&
		!__atomic_compare_exchange_n(max_ns, &known, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* A program that is held up between two of its additions may add to a bucket when calls are 0 already: so the buckets
 * themselves are looked at. */
void zn_hist_gather(struct zn_hist *to, struct zn_hist *from)
{
	zn_move(&to->calls, &from->calls);
	zn_move(&to->sum_ns, &from->sum_ns);
	max_raise(&to->max_ns, __atomic_load_n(&from->max_ns, __ATOMIC_RELAXED));
	for (uint32_t i = 0; i < ZN_BUCKETS; i++)
		if (from->bucket[i])
			__atomic_fetch_add(&to->bucket[i], __atomic_exchange_n(&from->bucket[i], 0, __ATOMIC_RELAXED),
				__ATOMIC_RELAXED);
}

/* Takes 2^31 out of each bucket that has them; BPF may be adding to it. True: out of some. */
static bool take_out(uint32_t *bucket, uint32_t *carries, uint32_t count)
{
	bool any = false;

	for (uint32_t i = 0; i < count; i++) {
		if (!(bucket_read(&bucket[i]) & CARRY))
			continue;
		carries[i]++;
		__atomic_fetch_sub(&bucket[i], CARRY, __ATOMIC_RELAXED);
		any = true;
	}
	return any;
}

/* A bucket has less than 2^31 after a look, and less than 2^30 calls and those of one tick more at the next. */
void zn_hist_carry(struct zn_hist *h, uint32_t slot)
{
	uint64_t calls = h->calls;

	if (calls - h->carried_calls < LOOK)
		return;
	h->carried_calls = calls;
	if (take_out(h->bucket, carried[slot], ZN_BUCKETS))
		h->carries = slot;
}

void zn_hist_carry_coarse(struct zn_coarse_hist *h, uint32_t index)
{
	uint32_t calls = (uint32_t)h->calls;

	if (calls - h->carried_calls < LOOK)
		return;
	h->carried_calls = calls;
	if (take_out(h->bucket, carried_coarse[index], ZN_COARSE_BUCKETS))
		h->carries = index + 1;
}

void zn_hist_clear(struct zn_hist *h)
{
	if (h->carries && h->carries < ZN_HISTS_MAX)
		memset(carried[h->carries], 0, sizeof(carried[0]));
	memset(h, 0, sizeof(*h));
}

void zn_hist_clear_coarse(struct zn_coarse_hist *h)
{
	if (h->carries && h->carries <= ZN_IO_MAX)
		memset(carried_coarse[h->carries - 1], 0, sizeof(carried_coarse[0]));
	memset(h, 0, sizeof(*h));
}

/* Sums over powers of two: the first bucket, the buckets of each power, the last bucket. */
#define POWERS    (ZN_LAST_POWER - ZN_FIRST_POWER + 2)
#define PER_POWER (1 << ZN_BUCKET_BITS)

static uint32_t power_first(uint32_t power)
{
	return power ? 1 + (power - 1) * PER_POWER : 0;
}

/* The first power of which no bucket has any: none is above that of the longest. A call that is being added is told
 * once BPF has told how long it was. */
static uint32_t powers_used(const struct zn_hist *h)
{
	uint32_t bucket = zn_bucket_of(h->max_ns);

	return bucket == ZN_BUCKETS - 1 ? POWERS - 1 : bucket ? (bucket - 1) / PER_POWER + 2 : 1;
}

/* From one power up to another, which returns their sum. */
static uint64_t powers_between(const struct zn_hist *h, uint32_t from, uint32_t until, uint64_t to[POWERS])
{
	const uint32_t *c = carried_of(h);
	uint64_t all = 0;

	for (uint32_t p = from; p < until; p++) {
		const uint32_t *bucket = &h->bucket[power_first(p)];
		uint64_t n = 0;

#pragma GCC unroll 16
		for (uint32_t i = 0; i < PER_POWER; i++)
			n += bucket[i];
		for (uint32_t i = 0; c && i < PER_POWER; i++)
			n += (uint64_t)c[power_first(p) + i] << ZN_CARRY_BITS;
		to[p] = n;
		all += n;
	}
	return all;
}

/* Returns the sum of all. Where BPF has no atomic operation that returns a value, the longest call may not be told, if
 * another one that was the longest ended at the same time: then some are missing. */
static uint64_t powers_sum(const struct zn_hist *h, uint64_t to[POWERS])
{
	uint32_t used = powers_used(h);
	uint64_t calls = h->calls, all;

	to[0] = zn_hist_bucket(h, 0);
	to[POWERS - 1] = zn_hist_bucket(h, ZN_BUCKETS - 1);
	all = to[0] + to[POWERS - 1] + powers_between(h, 1, used, to);
	if (all < calls)
		return all + powers_between(h, used, POWERS - 1, to);
	for (uint32_t p = used; p < POWERS - 1; p++)
		to[p] = 0;
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
	const uint32_t *c = carried_of(h);
	uint64_t rank = count / 1000 * q + (count % 1000 * q + 999) / 1000, seen = 0; /* rounded up */
	uint32_t p = 0, i;

	if (rank == 0)
		rank = 1;
	while (p < POWERS - 1 && seen + powers[p] < rank)
		seen += powers[p++];
	for (i = power_first(p); i < ZN_BUCKETS - 1; i++) {
		seen += bucket_whole(h, c, i);
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

/* Of the limits in text: the first one's power of 2, the step, how many there are with the last, which is all. */
struct limits {
	uint32_t first_power, step, count;
};
static const struct limits wide = {10, 2, ZN_LE_COUNT}, fine = {20, 1, ZN_LE_FINE_COUNT};

static uint64_t limit_of(const struct limits *l, uint32_t i)
{
	return i < l->count - 1 ? 1ULL << (l->first_power + l->step * i) : UINT64_MAX;
}

uint64_t zn_le_ns(uint32_t i, bool is_fine)
{
	return limit_of(is_fine ? &fine : &wide, i);
}

/* A bucket holds [floor, next floor), so the limits are exclusive by one nanosecond. */
static inline void cumulate_powers(
	const uint64_t powers[POWERS], struct limits l, uint64_t count, uint64_t le[ZN_LE_FINE_COUNT])
{
	uint64_t seen = 0;
	uint32_t p = 0;

#pragma GCC unroll 32
	for (; p <= l.first_power - ZN_FIRST_POWER; p++)
		seen += powers[p];
	le[0] = seen;
#pragma GCC unroll 32
	for (uint32_t i = 1; i < l.count - 1; i++) {
		for (uint32_t n = 0; n < l.step; n++)
			seen += powers[p++];
		le[i] = seen;
	}
	le[l.count - 1] = count;
}

void zn_hist_spread(const struct zn_hist *h, bool is_fine, struct zn_spread *to)
{
	uint64_t powers[POWERS];

	to->count = powers_sum(h, powers);
	to->sum_ns = h->sum_ns;
	to->p50_ns = to->count ? quantile_of(h, powers, to->count, 500) : 0;
	to->p99_ns = to->count ? quantile_of(h, powers, to->count, 990) : 0;
	if (is_fine)
		cumulate_powers(powers, fine, to->count, to->le);
	else
		cumulate_powers(powers, wide, to->count, to->le);
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

	to->zero = zn_hist_bucket(h, 0);
	to->count = to->zero;
	to->sum_ns = h->sum_ns;
	to->max_ns = h->max_ns;
	to->used = 0;
	for (uint32_t i = 1; i < ZN_BUCKETS; i++) {
		uint64_t n = zn_hist_bucket(h, i);

		if (!n)
			continue;
		to->bucket[to->used++] = (struct zn_exp_bucket){index[i], n};
		to->count += n;
	}
}

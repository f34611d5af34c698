/* SPDX-License-Identifier: GPL-2.0 */
/*
 * random.c: random numbers of --simulate: whole numbers only, so that a seed gives the same figures on every machine;
 * the shapes of the distributions are rough.
 */
#include "zernel.h"

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t zn_random_draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

uint64_t zn_random_below(uint64_t *state, uint64_t limit)
{
	return (zn_random_draw(state) >> 32) * limit >> 32;
}

/* Roughly log-normal with sigma 0.15: four 16-bit numbers add up to a bell, then exp(x) is near 1 + x + x^2
 * / 2. */
uint64_t zn_random_around(uint64_t *state, uint64_t middle_ns)
{
	const int64_t one = 1 << 20, sigma = one * 15 / 100, mean = 2 * 65535, deviation = 37837;
	uint64_t r = zn_random_draw(state);
	int64_t x = (int64_t)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48)) - mean;

	x = x * sigma / deviation;
	return middle_ns * (uint64_t)(one + x + x * x / (2 * one)) / (uint64_t)one;
}

/* From least on; a limit drawn first makes the upper end rare. */
uint64_t zn_random_skewed(uint64_t *state, uint64_t least_ns, uint64_t more_ns)
{
	return least_ns + zn_random_below(state, zn_random_below(state, more_ns + 1) + 1);
}

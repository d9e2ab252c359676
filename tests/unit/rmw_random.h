/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeded random numbers for the tests of rmw. WEIR_SEED=n repeats a run. */
#ifndef TESTS_UNIT_RMW_RANDOM_H
#define TESTS_UNIT_RMW_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The seed of this run, printed. */
static inline uint64_t
random_seed(void)
{
	const char *env = getenv("WEIR_SEED");
	uint64_t seed = env != NULL ? strtoull(env, NULL, 0) : (uint64_t)time(NULL);

	printf("WEIR_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

/* 64 random bits: splitmix64. */
static inline uint64_t
random_bits(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* A number in [0, n). */
static inline uint64_t
random_below(uint64_t *state, uint64_t n)
{
	return random_bits(state) % n;
}

#endif

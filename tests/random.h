/* SPDX-License-Identifier: BSD-3-Clause */
/* Randomness of tests: a seed that is printed, so that WEIR_SEED plays the run again, and what it draws. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* WEIR_SEED, or that of every `make test` (tests/functional/tap.py has it, too). `make soak` sets another one each time. */
static inline uint64_t
random_seed(void)
{
	const char *text = getenv("WEIR_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 20221122;

	fprintf(stderr, "WEIR_SEED=%" PRIu64 "\n", seed);
	return seed;
}

/* 64 bits: splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t
random_bits(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A number of [0, n). */
static inline uint64_t
random_below(uint64_t *state, uint64_t n)
{
	return random_bits(state) % n;
}

#endif

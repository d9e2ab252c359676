/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/loop.h"

/* The largest sum, of 256 ranks, is below 2^24: fp32 has all integers up to there. */
#define OWN_BITS    15
#define COMMON_BITS 10

static uint32_t
own(uint64_t seed, unsigned int rank, unsigned int iteration)
{
	uint64_t z = seed + rank * UINT64_C(0x9e3779b97f4a7c15) +
		iteration * UINT64_C(0xd1b54a32d192ed03) + 1;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(z >> (64 - OWN_BITS)) | 1; /* no rank contributes nothing */
}

/* Fibonacci hashing: neighbours, blocks and iterations all differ, and compilers make vectors of it. */
static inline uint32_t
common(unsigned int iteration, uint32_t i)
{
	return (i * 2654435769u + iteration * 2246822519u) >> (32 - COMMON_BITS);
}

void
loop_data_fill(uint64_t seed, unsigned int rank, unsigned int iteration, size_t count, float *to)
{
	uint32_t mine = own(seed, rank, iteration);

	for (size_t i = 0; i < count; i++)
		to[i] = (float)(int32_t)(mine + common(iteration, (uint32_t)i));
}

size_t
loop_data_wrong(uint64_t seed, unsigned int ranks, const uint8_t *present, unsigned int iteration,
	size_t first, size_t count, const float *got)
{
	uint32_t sum = 0, in = 0, wrong = 0;

	for (unsigned int r = 0; r < ranks; r++)
		if (present == NULL || (present[r / 8] >> r % 8 & 1) != 0) {
			sum += own(seed, r, iteration);
			in++;
		}
	for (size_t i = 0; i < count; i++)
		wrong += got[i] !=
			(float)(int32_t)(sum + in * common(iteration, (uint32_t)(first + i)));
	return wrong;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>
#include <stdlib.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
/* The largest sum, of 256 ranks, is below 2^24: fp32 has all integers up to there. */
#define OWN_BITS    15
#define COMMON_BITS 10

/* The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t
mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t
train_stream(uint64_t seed, uint64_t number)
{
	return mix(mix(seed + GOLDEN) + number * GOLDEN);
}

double
train_uniform(uint64_t stream, uint64_t index)
{
	return (double)(mix(stream + index * GOLDEN) >> 11) * 0x1p-53;
}

struct train_slow
train_slow(const struct train_options *o, unsigned int rank, unsigned int iteration)
{
	uint64_t stream = mix(mix(mix(o->seed + GOLDEN) + rank * GOLDEN + 1) + iteration * GOLDEN);
	double times = o->slow_min + (o->slow_max - o->slow_min) * train_uniform(stream, 1);
	uint64_t unit = o->slow_unit_us != 0 ? o->slow_unit_us : o->compute_us;

	if (train_uniform(stream, 0) * 1e6 >= (double)o->slow_ppm)
		return (struct train_slow){0};
	return (struct train_slow){
		.us = (uint64_t)(times * (double)unit),
		.point = (enum train_point)(TRAIN_POINTS * train_uniform(stream, 2)),
	};
}

int
train_buckets_make(struct train_buckets *plan, const size_t *counts, unsigned int tensors,
	uint64_t scale, uint64_t bucket)
{
	*plan = (struct train_buckets){.tensors = tensors};
	plan->first = calloc(tensors + 1u, sizeof(*plan->first));
	if (plan->first == NULL)
		return -ENOMEM;
	for (unsigned int t = tensors; t-- > 0;) {
		size_t count = (counts[t] + scale / 2) / scale, open = plan->first[plan->buckets];

		count = count == 0 ? 1 : count;
		if (bucket != 0 && plan->elements != open && plan->elements - open + count > bucket)
			plan->first[++plan->buckets] = plan->elements;
		plan->elements += count;
	}
	plan->first[++plan->buckets] = plan->elements;
	return 0;
}

uint64_t
train_buckets_blocks(const struct train_buckets *plan, unsigned int per_block)
{
	uint64_t blocks = 0;

	for (unsigned int b = 0; b < plan->buckets; b++)
		blocks += (plan->first[b + 1] - plan->first[b] + per_block - 1) / per_block;
	return blocks;
}

static uint32_t
own(uint64_t seed, unsigned int rank, unsigned int iteration)
{
	uint64_t at = (uint64_t)iteration << 8 | rank;

	/* | 1: no rank contributes nothing. */
	return (uint32_t)(train_uniform(train_stream(seed, 0), at) * (1 << OWN_BITS)) | 1;
}

/* Fibonacci hashing: neighbours, blocks and iterations differ, and compilers make vectors of it. */
static inline uint32_t
common(unsigned int iteration, uint32_t i)
{
	return (i * 2654435769u + iteration * 2246822519u) >> (32 - COMMON_BITS);
}

void
train_tensors_fill(
	uint64_t seed, unsigned int rank, unsigned int iteration, size_t count, float *to)
{
	uint32_t mine = own(seed, rank, iteration);

	for (size_t i = 0; i < count; i++)
		to[i] = (float)(int32_t)(mine + common(iteration, (uint32_t)i));
}

size_t
train_tensors_wrong(uint64_t seed, unsigned int ranks, const uint8_t *present,
	unsigned int iteration, size_t first, size_t count, const float *got)
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

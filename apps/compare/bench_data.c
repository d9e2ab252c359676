/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/compare/bench.h"

#include <math.h>
#include <string.h>

/* splitmix64: every element on its own, so that each rank knows what the others give. */
static uint32_t
random_bits(uint64_t seed, unsigned int rank, size_t i)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + ((uint64_t)rank << 40) + i + 1;

	x *= 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) >> 32);
}

static float
as_float(uint32_t bits)
{
	return (float)((int32_t)(bits >> 8) - (1 << 23)) * 0x1p-23f;
}

void
bench_fill(uint64_t seed, bool fp32, unsigned int rank, size_t count, void *to)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = random_bits(seed, rank, i);

		if (fp32)
			((float *)to)[i] = as_float(bits);
		else
			((uint32_t *)to)[i] = bits;
	}
}

size_t
bench_given(const struct bench_operation *operation, unsigned int ranks)
{
	return operation->collective == BENCH_ALLGATHER ? operation->total / ranks
							: operation->total;
}

size_t
bench_gotten(const struct bench_operation *operation, unsigned int ranks)
{
	return operation->collective == BENCH_REDUCESCATTER ? operation->total / ranks
							    : operation->total;
}

static bool
wrong_sum(bool fp32, uint64_t seed, unsigned int ranks, size_t i, const void *got)
{
	uint32_t whole = 0;
	double sum = 0, size = 0;
	float value;

	for (unsigned int rank = 0; rank < ranks; rank++) {
		uint32_t bits = random_bits(seed, rank, i);

		whole += bits;
		if (fp32) {
			sum += as_float(bits);
			size += fabs(as_float(bits));
		}
	}
	if (!fp32)
		return memcmp(got, &whole, sizeof(whole)) != 0;
	memcpy(&value, got, sizeof(value));
	/* Not "greater than": a NaN is wrong. */
	return !(fabs(value - sum) <= (ranks - 1) * 0x1p-24 * (1 + 0x1p-14) * size);
}

size_t
bench_wrong(const struct bench_operation *operation, uint64_t seed, unsigned int rank,
	unsigned int ranks, const void *got)
{
	size_t count = bench_gotten(operation, ranks), slice = operation->total / ranks, wrong = 0;
	const uint8_t *at = got;

	for (size_t i = 0; i < count; i++, at += 4) {
		/* Who gave this element, and which of theirs it is. */
		unsigned int giver = (unsigned int)(slice == 0 ? 0 : i / slice);
		size_t place = operation->collective == BENCH_ALLTOALL ? rank * slice + i % slice
								       : i % (slice ? slice : 1);
		uint32_t bits;
		float value;

		if (operation->collective == BENCH_ALLREDUCE) {
			wrong += wrong_sum(operation->fp32, seed, ranks, i, at);
			continue;
		}
		if (operation->collective == BENCH_REDUCESCATTER) {
			wrong += wrong_sum(operation->fp32, seed, ranks, rank * slice + i, at);
			continue;
		}
		bits = random_bits(seed, giver, place);
		value = as_float(bits);
		wrong += memcmp(at, operation->fp32 ? (const void *)&value : &bits, 4) != 0;
	}
	return wrong;
}

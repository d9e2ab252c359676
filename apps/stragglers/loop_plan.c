/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/loop.h"

#include <errno.h>
#include <stdlib.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

int
loop_plan_make(struct loop_plan *plan, const size_t *counts, unsigned int tensors,
	unsigned int scale, size_t bucket)
{
	*plan = (struct loop_plan){.tensors = tensors};
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

void
loop_plan_destroy(struct loop_plan *plan)
{
	free(plan->first);
	*plan = (struct loop_plan){0};
}

uint64_t
loop_plan_blocks(const struct loop_plan *plan, unsigned int per_block)
{
	uint64_t blocks = 0;

	for (unsigned int b = 0; b < plan->buckets; b++)
		blocks += (plan->first[b + 1] - plan->first[b] + per_block - 1) / per_block;
	return blocks;
}

/* The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t
mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A number of a stream, uniform in [0, 1). */
static double
uniform(uint64_t stream, unsigned int index)
{
	return (double)(mix(stream + index * GOLDEN) >> 11) * 0x1p-53;
}

struct loop_slow
loop_slow(const struct loop_options *o, unsigned int rank, unsigned int iteration)
{
	uint64_t stream = mix(mix(mix(o->seed + GOLDEN) + rank * GOLDEN + 1) + iteration * GOLDEN);
	double times = o->slow_min + (o->slow_max - o->slow_min) * uniform(stream, 1);

	if (uniform(stream, 0) * 1e6 >= o->slow_ppm)
		return (struct loop_slow){0};
	return (struct loop_slow){
		.us = (uint64_t)(times * o->slow_unit_us),
		.point = (enum loop_point)(LOOP_POINTS * uniform(stream, 2)),
	};
}

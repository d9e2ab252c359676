/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t
mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

double
train_uniform(uint64_t seed, enum train_stream stream, uint64_t index)
{
	uint64_t start = mix(mix(seed + GOLDEN) + ((uint64_t)stream + 1) * GOLDEN);

	return (double)(mix(start + index * GOLDEN) >> 11) * 0x1p-53;
}

/* Box and Muller. */
double
train_normal(uint64_t seed, enum train_stream stream, uint64_t index)
{
	double u = 1 - train_uniform(seed, stream, 2 * index); /* (0, 1] */
	double v = train_uniform(seed, stream, 2 * index + 1);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

int
train_set_make(struct train_set *set, uint64_t seed, enum train_stream stream, unsigned int count)
{
	*set = (struct train_set){
		.count = count,
		.x = calloc(count, sizeof(*set->x)),
		.label = calloc(count, sizeof(*set->label)),
	};
	if (set->x == NULL || set->label == NULL) {
		train_set_destroy(set);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < count; i++) {
		uint64_t at = (uint64_t)i * 6; /* numbers for this point; normals take two each */
		/* Drawn, not dealt out in turn: every host's share has all classes. */
		unsigned int class =
			(unsigned int)(TRAIN_CLASSES * train_uniform(seed, stream, at + 1));
		/* The arms begin a little off the middle, where they would be one. */
		double along = 0.15 + 0.85 * train_uniform(seed, stream, at);
		double angle = 2 * M_PI * ((double)class / TRAIN_CLASSES + TRAIN_ARM_TURNS * along);

		set->label[i] = (uint8_t) class;
		set->x[i][0] = (float)(TRAIN_ARM_RADIUS * along * cos(angle) +
			TRAIN_NOISE * train_normal(seed, stream, at / 2 + 1));
		set->x[i][1] = (float)(TRAIN_ARM_RADIUS * along * sin(angle) +
			TRAIN_NOISE * train_normal(seed, stream, at / 2 + 2));
	}
	return 0;
}

void
train_set_destroy(struct train_set *set)
{
	free(set->x);
	free(set->label);
	*set = (struct train_set){0};
}

/* Fisher and Yates. */
static void
shuffle(struct train_share *share)
{
	uint64_t at = ((uint64_t)share->rank << 24 | share->epoch) << 32;

	for (unsigned int i = share->count - 1; i > 0; i--) {
		unsigned int j =
			(unsigned int)(train_uniform(share->seed, TRAIN_STREAM_ORDER, at + i) *
				(i + 1));
		uint32_t held = share->order[i];

		share->order[i] = share->order[j];
		share->order[j] = held;
	}
}

int
train_share_make(struct train_share *share, uint64_t seed, unsigned int points, unsigned int rank,
	unsigned int ranks)
{
	*share = (struct train_share){
		.seed = seed,
		.rank = rank,
		.count = points / ranks + (rank < points % ranks),
	};
	share->order = calloc(share->count, sizeof(*share->order));
	if (share->order == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < share->count; i++)
		share->order[i] = i * ranks + rank;
	shuffle(share);
	return 0;
}

void
train_share_destroy(struct train_share *share)
{
	free(share->order);
	share->order = NULL;
}

const uint32_t *
train_share_next(struct train_share *share, unsigned int count)
{
	const uint32_t *batch;

	if (share->count - share->next < count) {
		share->epoch++;
		share->next = 0;
		shuffle(share);
	}
	batch = share->order + share->next;
	share->next += count;
	return batch;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE      0.10 /* standard deviation across an arm; arms are about 0.6 apart */
#define ARM_TURNS  0.8
#define ARM_RADIUS 2.0
#define WIDTH      TRAIN_HIDDEN /* of the widest layer */

/* Normal with mean 0 and variance 1, of Box and Muller; takes the numbers 2 index and 2 index + 1. */
static double
normal(uint64_t stream, uint64_t index)
{
	double u = 1 - train_uniform(stream, 2 * index); /* (0, 1] */
	double v = train_uniform(stream, 2 * index + 1);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

int
train_set_make(struct train_set *set, uint64_t stream, unsigned int count)
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
		uint64_t at = (uint64_t)i * 6; /* numbers of this point; normals take two each */
		/* Drawn, not dealt out in turn: the share of every host has all classes. */
		unsigned int class = (unsigned int)(TRAIN_CLASSES * train_uniform(stream, at + 1));
		/* The arms begin a little off the centre, where they would meet. */
		double along = 0.15 + 0.85 * train_uniform(stream, at);
		double angle = 2 * M_PI * ((double)class / TRAIN_CLASSES + ARM_TURNS * along);

		set->label[i] = (uint8_t) class;
		set->x[i][0] = (float)(ARM_RADIUS * along * cos(angle) +
			NOISE * normal(stream, at / 2 + 1));
		set->x[i][1] = (float)(ARM_RADIUS * along * sin(angle) +
			NOISE * normal(stream, at / 2 + 2));
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
		unsigned int j = (unsigned int)(train_uniform(share->stream, at + i) * (i + 1));
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
		.stream = train_stream(seed, TRAIN_STREAM_ORDER),
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

/* Units of each layer, the input's first. */
static const unsigned int units[TRAIN_LAYERS + 1] = {
	TRAIN_INPUTS, TRAIN_HIDDEN, TRAIN_HIDDEN, TRAIN_CLASSES};

_Static_assert(TRAIN_CLASSES <= WIDTH && TRAIN_INPUTS <= WIDTH, "WIDTH is the widest layer's");

/* What the units give for one point; out[0] is the point, out[TRAIN_LAYERS] the classes'
 * probabilities. */
struct activations {
	double out[TRAIN_LAYERS + 1][WIDTH];
};

void
train_model_init(struct train_model *model, uint64_t seed)
{
	uint64_t stream = train_stream(seed, TRAIN_STREAM_WEIGHTS);
	unsigned int at = 0;

	memset(model, 0, sizeof(*model));
	for (unsigned int l = 0; l < TRAIN_LAYERS; l++) {
		double bound = sqrt(6.0 / (units[l] + units[l + 1]));

		for (unsigned int i = 0; i < units[l + 1] * (units[l] + 1); i++, at++)
			if (i % (units[l] + 1) != units[l]) /* no bias */
				model->weights[at] =
					(float)(bound * (2 * train_uniform(stream, at) - 1));
	}
}

static void
softmax(double *x, unsigned int count)
{
	double most = x[0], sum = 0;

	for (unsigned int i = 1; i < count; i++)
		most = fmax(most, x[i]);
	for (unsigned int i = 0; i < count; i++)
		sum += x[i] = exp(x[i] - most);
	for (unsigned int i = 0; i < count; i++)
		x[i] /= sum;
}

static void
forward(const struct train_model *model, const float *x, struct activations *a)
{
	const float *w = model->weights;

	for (unsigned int i = 0; i < TRAIN_INPUTS; i++)
		a->out[0][i] = (double)x[i];
	for (unsigned int l = 0; l < TRAIN_LAYERS; l++)
		for (unsigned int o = 0; o < units[l + 1]; o++) {
			double sum = 0;

			for (unsigned int i = 0; i < units[l]; i++)
				sum += (double)*w++ * a->out[l][i];
			sum += (double)*w++;
			a->out[l + 1][o] = l + 1 < TRAIN_LAYERS ? tanh(sum) : sum;
		}
	softmax(a->out[TRAIN_LAYERS], TRAIN_CLASSES);
}

/* Cross entropy of the right class; not infinite where its probability has underflowed. */
static double
loss_of(const struct activations *a, unsigned int label)
{
	return -log(fmax(a->out[TRAIN_LAYERS][label], 1e-300));
}

/*
 * Add one point's gradient to `sums`. delta is the loss's derivative by what enters a layer's units; at the
 * end, for softmax and cross entropy together, it is probability minus truth.
 */
static void
backward(const struct train_model *model, const struct activations *a, unsigned int label,
	double *sums)
{
	double delta[WIDTH], before[WIDTH];
	unsigned int begin = TRAIN_WEIGHTS;

	for (unsigned int o = 0; o < TRAIN_CLASSES; o++)
		delta[o] = a->out[TRAIN_LAYERS][o] - (o == label);
	for (unsigned int l = TRAIN_LAYERS; l-- > 0;) {
		const float *w;
		double *s;

		begin -= units[l + 1] * (units[l] + 1);
		w = model->weights + begin;
		s = sums + begin;
		memset(before, 0, sizeof(before));
		for (unsigned int o = 0; o < units[l + 1]; o++) {
			for (unsigned int i = 0; i < units[l]; i++) {
				before[i] += (double)*w++ * delta[o];
				*s++ += delta[o] * a->out[l][i];
			}
			w++;
			*s++ += delta[o];
		}
		for (unsigned int i = 0; i < units[l]; i++)
			delta[i] = before[i] * (1 - a->out[l][i] * a->out[l][i]);
	}
}

double
train_gradient(struct train_model *model, const struct train_set *set, const uint32_t *points,
	unsigned int count, float *gradient)
{
	struct activations a;
	double loss = 0;

	memset(model->sums, 0, sizeof(model->sums));
	for (unsigned int n = 0; n < count; n++) {
		uint32_t p = points[n];

		forward(model, set->x[p], &a);
		loss += loss_of(&a, set->label[p]);
		backward(model, &a, set->label[p], model->sums);
	}
	for (unsigned int i = 0; i < TRAIN_WEIGHTS; i++)
		gradient[i] = (float)(model->sums[i] / count);
	return loss / count;
}

unsigned int
train_elements(unsigned int block)
{
	return TRAIN_WEIGHTS + (TRAIN_WEIGHTS + block - 2) / (block - 1);
}

/* Weights in the block that begins with this one. */
static unsigned int
weights_in(unsigned int first, unsigned int block)
{
	return TRAIN_WEIGHTS - first < block - 1 ? TRAIN_WEIGHTS - first : block - 1;
}

void
train_pack(const float *gradient, unsigned int block, float *packed)
{
	for (unsigned int first = 0, n; first < TRAIN_WEIGHTS; first += n) {
		n = weights_in(first, block);
		memcpy(packed, gradient + first, n * sizeof(*packed));
		packed[n] = 1;
		packed += n + 1;
	}
}

void
train_step(
	struct train_model *model, const float *sum, unsigned int block, float rate, float momentum)
{
	for (unsigned int first = 0, n; first < TRAIN_WEIGHTS; first += n, sum += n + 1) {
		float count;

		n = weights_in(first, block);
		count = sum[n];
		for (unsigned int i = 0; count > 0 && i < n; i++) {
			float *velocity = &model->velocity[first + i];

			*velocity = momentum * *velocity + sum[i] / count;
			model->weights[first + i] -= rate * *velocity;
		}
	}
}

struct train_score
train_evaluate(const struct train_model *model, const struct train_set *set)
{
	struct train_score score = {0};
	struct activations a;

	for (unsigned int p = 0; p < set->count; p++) {
		const double *out = a.out[TRAIN_LAYERS];
		unsigned int best = 0;

		forward(model, set->x[p], &a);
		for (unsigned int o = 1; o < TRAIN_CLASSES; o++)
			if (out[o] > out[best])
				best = o;
		score.accuracy += best == set->label[p];
		score.loss += loss_of(&a, set->label[p]);
	}
	score.accuracy /= set->count;
	score.loss /= set->count;
	return score;
}

static uint64_t
fnv1a(uint64_t hash, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

uint64_t
train_checksum(const struct train_model *model)
{
	uint64_t hash = fnv1a(UINT64_C(0xcbf29ce484222325), model->weights, sizeof(model->weights));

	return fnv1a(hash, model->velocity, sizeof(model->velocity));
}

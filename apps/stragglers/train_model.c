/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <math.h>
#include <string.h>

#define WIDTH TRAIN_HIDDEN /* of the widest layer */

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
	unsigned int at = 0;

	memset(model, 0, sizeof(*model));
	for (unsigned int l = 0; l < TRAIN_LAYERS; l++) {
		double bound = sqrt(6.0 / (units[l] + units[l + 1]));

		for (unsigned int i = 0; i < units[l + 1] * (units[l] + 1); i++, at++)
			if (i % (units[l] + 1) != units[l]) /* no bias */
				model->weights[at] = (float)(bound *
					(2 * train_uniform(seed, TRAIN_STREAM_WEIGHTS, at) - 1));
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
	if (gradient == NULL) {
		memset(packed, 0, train_elements(block) * sizeof(*packed));
		return;
	}
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

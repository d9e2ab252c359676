/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-train: data-parallel training through a Weir switch while hosts are slow. One process per host. In each
 * iteration a host computes (it sleeps, in place of an accelerator), adds its gradients to those of the others
 * by AllReduce, and uses the sum. There are two workloads:
 *
 *	model.c    a small model that learns, until it reaches a target accuracy
 *	tensors.c  the shape of a large model: its tensors in buckets, and sums that are checked exactly; also random
 *	           numbers, and who is slow when
 *
 * and around them:
 *
 *	train.c    options, the iterations
 *	report.c   what is printed, and the JSON report
 *
 * Everything random is a function of the seed. The order in which the switch adds floats, and who is late, may
 * differ between runs. All functions are for the main thread. Codes are 0 or -errno; the text is on stderr.
 */
#ifndef APPS_STRAGGLERS_TRAIN_H
#define APPS_STRAGGLERS_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/libweir/weir.h"
#include "pktbuf/wire/wire.h"

enum train_exit {
	TRAIN_RIGHT =
		0, /* every sum is right; the target was reached, and all hosts have the same weights */
	TRAIN_FAILED = 1, /* an error, a wrong sum, or hosts with different weights */
	TRAIN_USAGE = 2,
	TRAIN_MISSED = 3, /* no error, but the target was not reached */
};

struct train_options {
	struct weir_config weir;
	const char *json; /* a file; NULL: none */
	uint64_t seed;
	uint64_t iterations, warmup; /* the model: iterations at most, and no warm-up */
	uint64_t compute_us; /* of an iteration: a third forward, two thirds backward */
	uint64_t slow_ppm; /* probability that a host is slow in an iteration */
	uint64_t slow_unit_us; /* 0: compute_us */
	double slow_min, slow_max; /* how much longer a slow host takes, in these units */
	/* The model. */
	double target; /* accuracy, (0, 1] */
	uint64_t every; /* evaluate every so many iterations */
	uint64_t batch; /* points per host and iteration */
	double rate, momentum;
	/* Tensors. */
	const char *shapes; /* a file; NULL: none */
	uint64_t elements; /* of one tensor; 0 without shapes: the model */
	uint64_t scale; /* tensors have so many times fewer elements */
	uint64_t bucket; /* elements of a bucket, about; 0: one bucket for all tensors */
};

/* -- random numbers and slow hosts (tensors.c) */

/* Start of a stream of random numbers; streams with different numbers are independent. */
uint64_t train_stream(uint64_t seed, uint64_t number);
/* Number `index` of a stream: uniform in [0, 1), 53 bits. */
double train_uniform(uint64_t stream, uint64_t index);

enum train_point {
	TRAIN_BEFORE_FORWARD,
	TRAIN_BEFORE_BACKWARD,
	TRAIN_BEFORE_ALLREDUCE,
	TRAIN_POINTS,
};

struct train_slow {
	uint64_t us; /* 0: not slow */
	enum train_point point;
};

/*
 * The Slow Worker Pattern: with probability slow_ppm a host stands still in an iteration, at one of the points,
 * for slow_min to slow_max units. A function of seed, rank and iteration alone, so all policies meet the same
 * delays; a host that is slow at some probability is slow at each higher one, for as long and at the same point.
 */
struct train_slow train_slow(
	const struct train_options *options, unsigned int rank, unsigned int iteration);

/* -- tensors (tensors.c) */

/*
 * The gradients of a model as they lie in memory: the last tensor first, because backward propagation finishes it
 * first, in buckets of whole tensors, each one AllReduce. PyTorch's DistributedDataParallel and Horovod do the same.
 */
struct train_buckets {
	size_t elements; /* of all tensors together */
	unsigned int tensors, buckets;
	size_t *first; /* [buckets + 1]; bucket b has the elements [first[b], first[b + 1]) */
};

/*
 * Plan tensors of these counts, each divided by `scale` (rounded, at least 1 element). A bucket is closed when the
 * next tensor would make it larger than `bucket` elements (0: never). 0 or -ENOMEM; the caller frees first.
 */
int train_buckets_make(struct train_buckets *plan, const size_t *counts, unsigned int tensors,
	uint64_t scale, uint64_t bucket);
/* Blocks of all buckets, of at most so many elements each. */
uint64_t train_buckets_blocks(const struct train_buckets *plan, unsigned int per_block);

/*
 * Contents of the tensors: element i of rank r in iteration k is own(r, k) + common(k, i), small integers. Sums in
 * fp32 are exact in any order for up to 256 ranks, and each subset of ranks, iteration and element has its own sum.
 */
void train_tensors_fill(
	uint64_t seed, unsigned int rank, unsigned int iteration, size_t count, float *to);
/* How many of the elements [first, first + count) at `got` are not the sum of ranks [0, ranks) or, if present is not
 * NULL, of those in this bitmap (as on the wire). */
size_t train_tensors_wrong(uint64_t seed, unsigned int ranks, const uint8_t *present,
	unsigned int iteration, size_t first, size_t count, const float *got);

/* -- the model (model.c) */

#define TRAIN_INPUTS      2
#define TRAIN_CLASSES     4
#define TRAIN_POINTS_ALL  6000 /* to train with, of all hosts together */
#define TRAIN_POINTS_TEST 1000 /* held out */
#define TRAIN_LAYERS      3 /* of weights: two hidden layers and the output */
#define TRAIN_HIDDEN      32
#define TRAIN_WEIGHTS                                                                              \
	(TRAIN_HIDDEN * (TRAIN_INPUTS + 1) + TRAIN_HIDDEN * (TRAIN_HIDDEN + 1) +                   \
		TRAIN_CLASSES * (TRAIN_HIDDEN + 1))
#define TRAIN_ELEMENTS_MAX (2 * TRAIN_WEIGHTS)

/* Points of the plane on TRAIN_CLASSES arms of a spiral, with noise: no line separates the classes. */
struct train_set {
	unsigned int count;
	float (*x)[TRAIN_INPUTS];
	uint8_t *label; /* [0, TRAIN_CLASSES) */
};

enum train_streams { /* of random numbers */
	TRAIN_STREAM_TRAIN = 1,
	TRAIN_STREAM_TEST,
	TRAIN_STREAM_WEIGHTS,
	TRAIN_STREAM_ORDER,
};

/* Make `count` points of a stream. 0 or -ENOMEM; the caller destroys the set on success. */
int train_set_make(struct train_set *set, uint64_t stream, unsigned int count);
void train_set_destroy(struct train_set *set);

/* A host's share of the set: every ranks-th point, in an order that is shuffled for each epoch. */
struct train_share {
	uint64_t stream;
	unsigned int rank, count, next; /* next: where the next batch begins */
	unsigned int epoch;
	uint32_t *order; /* [count], numbers of points of the set; the caller frees it */
};

/* points: of the whole set, at least one for each rank. 0 or -ENOMEM. */
int train_share_make(struct train_share *share, uint64_t seed, unsigned int points,
	unsigned int rank, unsigned int ranks);
/* The next `count` points, [1, share->count]; valid until the next call. The rest of an epoch that is too short is
 * left out. */
const uint32_t *train_share_next(struct train_share *share, unsigned int count);

/*
 * A multilayer perceptron, tanh in the hidden layers, softmax and cross entropy at the end; stochastic gradient
 * descent with momentum. Weights are fp32 and everything computed from them fp64, so that the gradient can be checked
 * by finite differences. Large: not for a stack.
 */
struct train_model {
	/* Layer by layer: for each output the weights of its inputs, and its bias. */
	float weights[TRAIN_WEIGHTS], velocity[TRAIN_WEIGHTS];
	double sums[TRAIN_WEIGHTS]; /* of train_gradient */
};

/* Weights from a seed, Glorot's: uniform within sqrt(6 / (inputs + outputs)) around 0; biases 0. */
void train_model_init(struct train_model *model, uint64_t seed);
/* Write the gradient of the mean loss over these points, TRAIN_WEIGHTS floats. Returns the loss. */
double train_gradient(struct train_model *model, const struct train_set *set,
	const uint32_t *points, unsigned int count, float *gradient);

/*
 * What hosts add up: the gradient in blocks as the switch takes them, `block` elements each, [2, ...), the last one
 * shorter. The last element of each counts the gradients that the block is the sum of: a host that has computed one
 * adds 1, a host that has not adds 0. So the step of each block is a mean, whichever hosts are missing from it.
 */

/* Elements of TRAIN_WEIGHTS in such blocks, [TRAIN_WEIGHTS + 1, TRAIN_ELEMENTS_MAX]. */
unsigned int train_elements(unsigned int block);
/* Write a gradient as such blocks. */
void train_pack(const float *gradient, unsigned int block, float *packed);
/* One step: velocity = momentum x velocity + mean, weights -= rate x velocity. sum: packed. A block without any
 * gradient changes nothing. */
void train_step(struct train_model *model, const float *sum, unsigned int block, float rate,
	float momentum);

/* The share of a set's points that the model gets right, and its mean loss over them. */
struct train_score {
	double accuracy, loss;
};
struct train_score train_evaluate(const struct train_model *model, const struct train_set *set);
/* FNV-1a of the weights and the velocity: equal if every bit is. */
uint64_t train_checksum(const struct train_model *model);

/* -- the run */

struct train_iteration {
	uint64_t us; /* from the end of the one before to its own */
	uint64_t slow_us; /* of these, this host stood still on purpose */
	uint64_t partial_blocks;
	bool missed; /* this host is missing from some block of the sum */
	bool given_up; /* not computed to the end: the sum was there already */
};

struct train_mark { /* an evaluation */
	unsigned int iteration;
	double seconds;
	struct train_score score;
};

struct train_run {
	const struct train_options *options;
	struct weir *weir;
	unsigned int rank, ranks;
	struct train_buckets plan;
	uint64_t blocks; /* of an iteration */
	float *send, *recv; /* [plan.elements] */
	struct train_iteration *iterations; /* [options->iterations] */
	unsigned int done; /* iterations that count */
	uint64_t us; /* of all of them */
	uint64_t wrong; /* elements */
	uint64_t contributions, results; /* in all results, of any source; blocks */
	/* The model; NULL: tensors. */
	struct train_model *model;
	struct train_set train, test;
	struct train_share share;
	unsigned int block; /* elements */
	struct train_mark *marks; /* [mark_count] */
	unsigned int mark_count;
	bool reached, diverged; /* the target was; some host has other weights */
	uint64_t checksum;
};

/* Rank 0 prints to stdout as it goes; all print their last line. */
void train_report_mark(const struct train_run *run);
void train_report_end(const struct train_run *run);
/* error: why the run ended early, or NULL. Returns 0, or -errno after a message if the file can't be written. */
int train_report_json(const struct train_run *run, const char *error);
/* `weir-train: rank N: ...` on stderr. */
void train_say(const struct train_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif

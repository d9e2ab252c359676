/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-train: a small model trained through the switch. One process per host, data-parallel: each host
 * computes the gradient of a batch of its own share of the data, AllReduce adds the gradients, and every
 * host applies the same sum to the same weights. So what partial results cost is seen where it matters, in
 * time and iterations to an accuracy.
 *
 *	train.c          main: options, open, run, report, exit status
 *	train_options.c  the command line
 *	train_data.c     points of several classes, and random numbers, from a seed
 *	train_model.c    a multilayer perceptron: gradient, step, accuracy, checksum
 *	train_slow.c     who is slow when
 *	train_run.c      the training loop through the switch
 *	train_alone.c    the same for all hosts in one process, without a switch
 *	train_report.c   progress, the last line and the JSON report
 *
 * Everything random is a function of the seed. What may differ between two runs is the order in which the
 * switch adds floats, and who is late. Every function here is for the main thread.
 */
#ifndef APPS_STRAGGLERS_TRAIN_H
#define APPS_STRAGGLERS_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/libweir/weir.h"
#include "pktbuf/wire/wire.h"

/* Exit statuses. */
enum train_exit {
	TRAIN_REACHED = 0, /* the target accuracy, and every replica has the same weights */
	TRAIN_FAILED = 1, /* an error, or replicas that parted */
	TRAIN_USAGE = 2,
	TRAIN_MISSED = 3, /* nothing wrong, but the target was not reached */
};

/* -- random numbers and data (train_data.c) */

/* What random numbers are for: numbers of different streams have nothing to do with each other. */
enum train_stream {
	TRAIN_STREAM_TRAIN,
	TRAIN_STREAM_TEST,
	TRAIN_STREAM_WEIGHTS,
	TRAIN_STREAM_ORDER,
	TRAIN_STREAM_SLOW,
};

/* Number `index` of a stream of a seed: uniform in [0, 1), 53 bits. */
double train_uniform(uint64_t seed, enum train_stream stream, uint64_t index);
/* Normal with mean 0 and variance 1; takes the place of the numbers 2 index and 2 index + 1. */
double train_normal(uint64_t seed, enum train_stream stream, uint64_t index);

#define TRAIN_INPUTS     2
#define TRAIN_CLASSES    4
#define TRAIN_POINTS     6000 /* to train with, of all hosts together */
#define TRAIN_TEST       1000 /* held out */
#define TRAIN_NOISE      0.10 /* standard deviation across an arm; arms are about 0.6 apart */
#define TRAIN_ARM_TURNS  0.8
#define TRAIN_ARM_RADIUS 2.0

/*
 * Points of the plane on TRAIN_CLASSES arms of a spiral, with noise: no line parts the classes, so that
 * the hidden layers have something to do.
 */
struct train_set {
	unsigned int count;
	float (*x)[TRAIN_INPUTS];
	uint8_t *label; /* [0, TRAIN_CLASSES) */
};

/* Make `count` points of a stream (TRAIN or TEST). 0 or -ENOMEM; the caller destroys it on success. */
int train_set_make(
	struct train_set *set, uint64_t seed, enum train_stream stream, unsigned int count);
void train_set_destroy(struct train_set *set);

/* A host's share of the set: every ranks-th point, in an order that is shuffled for each epoch. */
struct train_share {
	uint64_t seed;
	unsigned int rank;
	unsigned int count, next; /* points; where the next batch begins */
	unsigned int epoch;
	uint32_t *order; /* [count], numbers of points of the set */
};

/* points: of the whole set; at least one for each rank. 0 or -ENOMEM. */
int train_share_make(struct train_share *share, uint64_t seed, unsigned int points,
	unsigned int rank, unsigned int ranks);
void train_share_destroy(struct train_share *share);
/* The next `count` points, [1, share->count]; valid until the next call. An epoch's rest that is too
 * short is left out. */
const uint32_t *train_share_next(struct train_share *share, unsigned int count);

/* -- the model (train_model.c) */

#define TRAIN_LAYERS 3 /* of weights: two hidden layers and the output */
#define TRAIN_HIDDEN 32
#define TRAIN_WEIGHTS                                                                              \
	(TRAIN_HIDDEN * (TRAIN_INPUTS + 1) + TRAIN_HIDDEN * (TRAIN_HIDDEN + 1) +                   \
		TRAIN_CLASSES * (TRAIN_HIDDEN + 1))

/*
 * A multilayer perceptron, tanh in the hidden layers, softmax and cross entropy at the end; stochastic
 * gradient descent with momentum. Weights are fp32 and what is computed from them fp64: it is a
 * small model, and its gradient can be checked with finite differences. About 200 kB in all, never on a
 * stack.
 */
struct train_model {
	float weights
		[TRAIN_WEIGHTS]; /* layer by layer: for each output its inputs' weights, its bias */
	float velocity[TRAIN_WEIGHTS];
	double sums[TRAIN_WEIGHTS]; /* of train_gradient */
};

/* Weights from a seed, Glorot's: uniform within sqrt(6 / (inputs + outputs)) around 0; biases 0. */
void train_model_init(struct train_model *model, uint64_t seed);

/* Write the gradient of the mean loss over these points, TRAIN_WEIGHTS floats. Returns the loss. */
double train_gradient(struct train_model *model, const struct train_set *set,
	const uint32_t *points, unsigned int count, float *gradient);

/*
 * What hosts add up: the gradient in blocks as the switch takes them, `block` elements each, [2, ...), the last
 * one shorter. The last element of each says how many gradients the block is the sum of: 1 of a host that
 * has computed one, 0 of one that has not. So each block's step is the mean of what came, whoever was late in
 * that very block, gave up its computation, or sends what it is owed, too.
 */
#define TRAIN_ELEMENTS_MAX (2 * TRAIN_WEIGHTS)

/* Elements of TRAIN_WEIGHTS in such blocks, [TRAIN_WEIGHTS + 1, TRAIN_ELEMENTS_MAX]. */
unsigned int train_elements(unsigned int block);
/* Write a gradient as such blocks; NULL: none, all zero. */
void train_pack(const float *gradient, unsigned int block, float *packed);

/*
 * One step: velocity = momentum x velocity + mean, weights -= rate x velocity. sum: packed; where it is of no
 * gradient nothing changes.
 */
void train_step(struct train_model *model, const float *sum, unsigned int block, float rate,
	float momentum);

/* The share of a set's points that the model gets right, and its mean loss over them. */
struct train_score {
	double accuracy, loss;
};
struct train_score train_evaluate(const struct train_model *model, const struct train_set *set);

/* FNV-1a of the weights and the velocity: equal if every bit is. */
uint64_t train_checksum(const struct train_model *model);

/* -- options (train_options.c) */

struct train_options {
	struct weir_config weir;
	bool alone; /* all hosts in this process, without a switch */
	uint64_t seed;
	double target; /* accuracy, (0, 1] */
	unsigned int iterations; /* at most */
	unsigned int every; /* evaluate every so many iterations */
	unsigned int batch; /* points per host and iteration */
	double rate, momentum;
	double compute_ms; /* sleep per iteration, in the place of an accelerator's work */
	unsigned int slow_ppm; /* probability that a host is slow in an iteration */
	double slow_min, slow_max; /* how much longer it takes then, in units of compute_ms */
	const char *json; /* a file; NULL: none */
};

/* Parse the command line. 0: run; else the exit status plus 1 (so that 1 is "exit with 0"). */
int train_options_parse(struct train_options *options, int argc, char **argv);

/* -- slow hosts (train_slow.c) */

/* At which of three points of its computation a slow host stands still. */
enum train_point {
	TRAIN_BEFORE,
	TRAIN_AMIDST,
	TRAIN_AFTER,
};

/*
 * The Slow Worker Pattern. Returns for how many milliseconds the host stands still in this iteration, 0
 * mostly, and where. A function of the seed, the rank and the iteration alone: all policies meet
 * the same slow hosts.
 */
double train_slow_ms(const struct train_options *options, unsigned int rank, uint64_t iteration,
	enum train_point *point);

/* -- the run (train_run.c, train_alone.c) */

/* What happened; all counts are iterations of this host unless it says otherwise. */
struct train_counts {
	uint64_t slow; /* in which it stood still */
	uint64_t computed; /* for which it computed a gradient */
	uint64_t given_up; /* for which it has none: the result was there before */
	uint64_t missed; /* whose result its contribution is not in, in at least one block */
	uint64_t partial; /* whose result not all sources are in, in at least one block */
	uint64_t partial_blocks; /* blocks */
};

/* One evaluation. */
struct train_mark {
	unsigned int iteration;
	double seconds;
	struct train_score score;
};

struct train_run {
	const struct train_options *options;
	struct weir *weir; /* NULL: alone */
	unsigned int rank, ranks;
	struct train_model model;
	struct train_set train, test;
	struct train_share *shares; /* of this rank; alone: [ranks] */
	unsigned int share_count;
	unsigned int block, elements; /* of what is added up */
	float gradient[TRAIN_WEIGHTS];
	float send[TRAIN_ELEMENTS_MAX], sum[TRAIN_ELEMENTS_MAX];
	struct train_counts counts;
	unsigned int iteration; /* that are done */
	uint64_t began_ns;
	double seconds; /* from the beginning to the last evaluation */
	double slow_seconds; /* stood still */
	struct train_mark *marks;
	unsigned int mark_count;
	bool reached;
	uint64_t checksum;
	unsigned int replicas; /* hosts whose weights were compared; 0: not compared */
	bool parted; /* some replica has other weights */
};

/* Make the data and the model of `ranks` hosts. 0 or -ENOMEM, said. train_destroy is always right. */
int train_prepare(struct train_run *run, const struct train_options *options, struct weir *weir,
	unsigned int rank, unsigned int ranks);
void train_destroy(struct train_run *run);

/* Train until the target is reached or the iterations are over. 0 or -errno, said. */
int train_run_switch(struct train_run *run);
int train_run_alone(struct train_run *run);

/* After `iteration`: evaluate if it is time. 1: the target is reached; 0: go on; -ENOMEM. */
int train_mark(struct train_run *run);

uint64_t train_now_ns(void);

/* -- what is said (train_report.c) */

/* Rank 0 prints to stdout, the others their last line only. */
void train_report_header(const struct train_run *run);
void train_report_mark(const struct train_run *run);
void train_report_end(const struct train_run *run);
/* error: why the run ended early, or NULL. 0, or -errno when the file can't be written, said. */
int train_report_json(const struct train_run *run, const char *error);
/* `weir-train: rank N: ...` on stderr. */
void train_say(const struct train_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif

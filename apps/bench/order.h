/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In what order the contributions of a generator arrive. A lap has each frame once, and is played again and again.
 *
 * Row r of the frames belongs to slot r modulo `slots`, and slot k to job k modulo `jobs`. A slot has one block at a
 * time. In every order all contributions to a slot's block come before the first one to its next block, at least half
 * the blocks under way earlier: so one half is in flight while the other finishes. No source is ahead of another one
 * of its job by more than that half, which is inside the window.
 */
#ifndef APPS_BENCH_ORDER_H
#define APPS_BENCH_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum order {
	ORDER_RUNS, /* a source chosen at random sends a run of contributions, then another one */
	ORDER_BLOCK, /* a block's contributions one after the other */
	ORDER_SOURCE, /* a source's contributions to half a window, then the next source's */
	ORDER_RANDOM, /* half a window's contributions shuffled */
	ORDERS
};

#define ORDER_RUN 32 /* contributions at most; lengths of runs are equally likely */

struct order_config {
	enum order order;
	unsigned int rows; /* a multiple of slots */
	unsigned int slots; /* blocks under way, [1, 65535], a multiple of jobs */
	unsigned int jobs; /* [1, 256] */
	unsigned int sources; /* [2, 256] of each job */
	uint64_t seed; /* of ORDER_RUNS */
};

/* A contribution. */
struct step {
	uint32_t frame; /* row * sources + source */
	uint16_t slot, source;
};

/* The lap, rows * sources steps: free(3) it. NULL: no memory. */
struct step *lap_create(const struct order_config *config);

#endif

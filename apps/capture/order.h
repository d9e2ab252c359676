/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In which order contributions arrive, so that no source ever sends block b before block
 * b - window is complete: what libweir's hosts would keep to, and what the switch holds them to.
 */
#ifndef APPS_CAPTURE_ORDER_H
#define APPS_CAPTURE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/capture/plan.h"

struct order_config {
	enum capture_order order;
	unsigned int sources; /* [1, 256] */
	uint32_t window; /* a power of two */
	uint64_t blocks; /* 0: endless */
	uint64_t seed;
	unsigned int duplicates; /* percent of the steps that are repeated soon after */
};

struct order_step {
	uint64_t block; /* from 0, never wrapping */
	unsigned int source; /* [0, sources) */
	bool duplicate; /* this step was there before */
	bool completes; /* all sources are in the block now */
};

struct order;

/* NULL without memory: 16 bytes per source and block of the window. */
struct order *capture_order_create(const struct order_config *config);
void capture_order_destroy(struct order *order); /* NULL is fine */

/* The next step; false: there is none. */
bool order_next(struct order *order, struct order_step *step);

/* splitmix64: the next number of *state. */
uint64_t order_random(uint64_t *state);

#endif

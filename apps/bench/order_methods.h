/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways to a sum that does not depend on the order of arrival, as weir-bench order compares them. */
#ifndef APPS_BENCH_ORDER_METHODS_H
#define APPS_BENCH_ORDER_METHODS_H

#include <stddef.h>
#include <stdint.h>

#include "rmw/kernels.h"

#define ORDER_SOURCES_MAX 256

/* A block in flight. */
struct order_block {
	void *acc; /* what the method adds up in */
	const uint8_t *kept[ORDER_SOURCES_MAX]; /* by rank; NULL: not here, or added already */
	unsigned int heard, next; /* contributions; the rank whose turn it is */
};

struct order_state {
	unsigned int sources, elements;
	size_t bytes; /* of a payload */
	const struct rmw_reduction *sum;
	rmw_copy_fn copy;
	uint8_t **piece; /* free ones, the last freed on top */
	unsigned int nb_pieces, pieces, least; /* free, all, fewest that were free */
	struct order_block *block;
	unsigned int depth;
	float *result; /* of the block completed last, `elements` */
};

struct order_method {
	const char *name;
	size_t acc_bytes; /* of an element */
	size_t (*reserve)(size_t sources, size_t payload); /* bytes to keep, a block in flight */
	/* A contribution is here; the block's last one makes the result. The payload stays where it is
	 * until then. */
	void (*add)(struct order_state *state, struct order_block *block, unsigned int rank,
		const uint8_t *payload);
};

extern const struct order_method order_methods[];
extern const unsigned int order_methods_count;

#endif

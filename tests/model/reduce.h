/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements reduced one by one, in plain C: what the reference switch answers. Pure functions. */
#ifndef TESTS_MODEL_REDUCE_H
#define TESTS_MODEL_REDUCE_H

#include <stdbool.h>

#include "pktbuf/wire/wire.h"

/* Is there such a reduction? dtype, op: any number. */
bool reduce_served(unsigned int dtype, unsigned int op);

/* Element `element` of the result, from that of each of n contributions, [1, 256], in the order in which
 * they are added. */
void reduce_element(enum weir_dtype dtype, enum weir_op op, const uint8_t *const *contributions,
	unsigned int n, unsigned int element, uint8_t *result);

#endif

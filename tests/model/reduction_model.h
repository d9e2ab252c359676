/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reduction of one element is, slow and obvious: integers in 128 bits, floating-point numbers
 * in quadruple precision, from which rounding once more to fp64 or fp32 changes nothing (113 bits
 * are more than 2 * 53 + 2), fp16, bf16 and fp8 by looking for the nearest of their numbers.
 */
#ifndef TESTS_MODEL_REDUCTION_MODEL_H
#define TESTS_MODEL_REDUCTION_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "rmw/kernels.h"

/* Is there such a reduction? */
bool reduction_model_has(enum weir_dtype type, enum weir_op op);

/* The result's bits; x: the contributions' bits, in the order in which they came; count: [1, 256]. */
uint64_t reduction_model(
	enum weir_dtype type, enum weir_op op, const uint64_t *x, unsigned int count);

/* The average's bits of a sum that lies in the accumulator, which has 32 bits for types of fewer. */
uint64_t reduction_model_average(enum weir_dtype type, uint64_t sum, unsigned int count);

/* fp16, bf16 or fp8 to fp32 and back. */
uint32_t reduction_model_widen(enum weir_dtype type, uint16_t half);
uint16_t reduction_model_round(enum weir_dtype type, uint32_t fp32);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for any CPU, one element at a time: what the others must be equal to, bit by bit. */
#include <string.h>

#include "rmw/kernels_priv.h"

static void
sum_int32(void *restrict acc, const void *restrict src, size_t n)
{
	uint8_t *to = acc;
	const uint8_t *from = src;

	/* memcpy: both may lie at any byte. Unsigned: wraps. */
	for (size_t i = 0; i < 4 * n; i += 4) {
		uint32_t a, b;

		memcpy(&a, to + i, sizeof(a));
		memcpy(&b, from + i, sizeof(b));
		a += b;
		memcpy(to + i, &a, sizeof(a));
	}
}

static void
sum_fp32(void *restrict acc, const void *restrict src, size_t n)
{
	uint8_t *to = acc;
	const uint8_t *from = src;

	for (size_t i = 0; i < 4 * n; i += 4) {
		float a, b;

		memcpy(&a, to + i, sizeof(a));
		memcpy(&b, from + i, sizeof(b));
		a = rmw_add_fp32(a, b);
		memcpy(to + i, &a, sizeof(a));
	}
}

static void
copy(void *restrict to, const void *restrict from, size_t bytes)
{
	memcpy(to, from, bytes);
}

const struct rmw_kernels rmw_kernels_scalar = {
	.reduce =
		{
			[RMW_TYPE_INT32][RMW_OP_SUM] = sum_int32,
			[RMW_TYPE_FP32][RMW_OP_SUM] = sum_fp32,
		},
	.copy = copy,
};

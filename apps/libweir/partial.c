/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/weir_priv.h"

#include <errno.h>
#include <string.h>

static bool
computable(unsigned int dtype)
{
	return dtype == WEIR_DTYPE_INT32 || dtype == WEIR_DTYPE_UINT32 ||
		dtype == WEIR_DTYPE_INT64 || dtype == WEIR_DTYPE_UINT64 ||
		dtype == WEIR_DTYPE_FP32 || dtype == WEIR_DTYPE_FP64;
}

static bool
is_sum(const struct weir_request *o)
{
	return weir_collective_reduces(o->geometry.collective) && o->op == WEIR_OP_SUM;
}

bool
weir_partial_can(const struct weir *weir, const struct weir_request *o)
{
	return weir->partial != WEIR_PARTIAL_RESCALE || !is_sum(o) || computable(o->dtype);
}

bool
weir_partial_feeds_back(const struct weir *weir, const struct weir_request *o)
{
	return weir->error_feedback && o->geometry.collective == WEIR_COLLECTIVE_ALLREDUCE &&
		is_sum(o) && computable(o->dtype);
}

/* x * n / in, to nearest, halves away from 0. */
static __int128
scaled(__int128 x, unsigned int n, unsigned int in)
{
	__int128 twice = 2 * x * n;

	return (twice + (x < 0 ? -(__int128)in : (__int128)in)) / (2 * (__int128)in);
}

#define INTEGERS(type, least, most)                                                                \
	for (size_t i = 0; i < count; i++) {                                                       \
		__int128 x = scaled(((type *)data)[i], n, in);                                     \
                                                                                                   \
		((type *)data)[i] = x < (least) ? (least) : x > (most) ? (most) : (type)x;         \
	}                                                                                          \
	break

static void
rescale(unsigned int dtype, void *data, size_t count, unsigned int n, unsigned int in)
{
	float *floats = data;
	double *doubles = data;

	switch (dtype) {
	case WEIR_DTYPE_INT32: INTEGERS(int32_t, INT32_MIN, INT32_MAX);
	case WEIR_DTYPE_UINT32: INTEGERS(uint32_t, 0, UINT32_MAX);
	case WEIR_DTYPE_INT64: INTEGERS(int64_t, INT64_MIN, INT64_MAX);
	case WEIR_DTYPE_UINT64: INTEGERS(uint64_t, 0, UINT64_MAX);
	case WEIR_DTYPE_FP32:
		for (size_t i = 0; i < count; i++)
			floats[i] = (float)((double)floats[i] * n / in);
		break;
	default:
		for (size_t i = 0; i < count; i++)
			doubles[i] = doubles[i] * n / in;
	}
}

static unsigned int
sources_in(const uint8_t *present)
{
	unsigned int in = 0;

	for (unsigned int i = 0; i < WEIR_BITMAP_BYTES; i++)
		in += (unsigned int)__builtin_popcount(present[i]);
	return in;
}

int
weir_partial_conclude(struct weir *weir, struct weir_request *o)
{
	if (o->code != WEIR_PARTIAL || weir->partial == WEIR_PARTIAL_AS_IS)
		return o->code;
	if (weir->partial == WEIR_PARTIAL_FAIL)
		return -EIO; /* the text is there */
	if (!is_sum(o) || weir_geometry_received(&o->geometry) == 0)
		return o->code;
	for (size_t i = 0; i < o->degraded_count; i++) {
		const struct weir_degraded *d = &o->degraded[i];
		unsigned int in = sources_in(d->present);

		if (in != 0)
			rescale(o->dtype, o->recv + d->first * o->geometry.element_bytes, d->count,
				weir->sources, in);
	}
	return WEIR_PARTIAL;
}

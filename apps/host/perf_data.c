/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/host/perf.h"

#include <math.h>
#include <string.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
#define CHUNK  1024 /* elements that are checked at a time: their sums stay in L1 */

/* The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t
mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The start of a rank's stream of one iteration: element i is mix(start + i * GOLDEN). */
static uint64_t
stream(const struct perf_data *data, unsigned int rank, uint64_t iteration)
{
	return mix(mix(mix(data->seed + GOLDEN) + rank * GOLDEN + 1) + iteration * GOLDEN);
}

static inline int32_t
as_int32(uint64_t start, size_t i)
{
	return (int32_t)(uint32_t)(mix(start + i * GOLDEN) >> 32);
}

static inline float
as_float(uint64_t start, size_t i)
{
	return (float)as_int32(start, i) * 0x1p-31f;
}

void
perf_data_fill(const struct perf_data *data, unsigned int rank, uint64_t iteration, size_t first,
	size_t count, void *to)
{
	uint64_t start = stream(data, rank, iteration);
	int32_t *integers = to;
	float *floats = to;

	if (data->dtype == WEIR_DTYPE_INT32)
		for (size_t i = 0; i < count; i++)
			integers[i] = as_int32(start, first + i);
	else
		for (size_t i = 0; i < count; i++)
			floats[i] = as_float(start, first + i);
}

static bool
is_in(const uint8_t *present, unsigned int rank)
{
	return present == NULL || (present[rank / 8] >> (rank % 8) & 1) != 0;
}

static size_t
wrong_integers(const struct perf_data *data, const uint8_t *present, uint64_t iteration,
	size_t first, size_t count, const int32_t *got)
{
	uint32_t sums[CHUNK] = {0};
	size_t wrong = 0;

	for (unsigned int r = 0; r < data->ranks; r++) {
		uint64_t start = stream(data, r, iteration);

		for (size_t i = 0; is_in(present, r) && i < count; i++)
			sums[i] += (uint32_t)as_int32(start, first + i);
	}
	for (size_t i = 0; i < count; i++)
		wrong += (uint32_t)got[i] != sums[i];
	return wrong;
}

static size_t
wrong_floats(const struct perf_data *data, const uint8_t *present, uint64_t iteration, size_t first,
	size_t count, const float *got)
{
	double sums[CHUNK] = {0}, sizes[CHUNK] = {0}, relative, slack;
	unsigned int in = 0;
	size_t wrong = 0;

	for (unsigned int r = 0; r < data->ranks; r++) {
		uint64_t start = stream(data, r, iteration);

		in += is_in(present, r);
		for (size_t i = 0; is_in(present, r) && i < count; i++) {
			double x = (double)as_float(start, first + i);

			sums[i] += x;
			sizes[i] += fabs(x);
		}
	}
	relative = in > 1 ? (in - 1) * 0x1p-24 * (1 + 0x1p-14) : 0;
	slack = in > 1 ? in * 0x1p-149 : 0;
	for (size_t i = 0; i < count; i++)
		/* negated, so that a NaN is wrong */
		wrong += !(fabs((double)got[i] - sums[i]) <= relative * sizes[i] + slack);
	return wrong;
}

size_t
perf_data_wrong(const struct perf_data *data, const uint8_t *present, uint64_t iteration,
	size_t first, size_t count, const void *got)
{
	const char *at = got;
	size_t wrong = 0;

	for (size_t done = 0; done < count; done += CHUNK) {
		size_t n = count - done < CHUNK ? count - done : CHUNK;

		if (data->dtype == WEIR_DTYPE_INT32)
			wrong += wrong_integers(data, present, iteration, first + done, n,
				(const int32_t *)(const void *)(at + done * 4));
		else
			wrong += wrong_floats(data, present, iteration, first + done, n,
				(const float *)(const void *)(at + done * 4));
	}
	return wrong;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

double
train_slow_ms(const struct train_options *options, unsigned int rank, uint64_t iteration,
	enum train_point *point)
{
	uint64_t at = (iteration << 8 | rank) * 3;
	double u = train_uniform(options->seed, TRAIN_STREAM_SLOW, at + 1);

	*point = (enum train_point)(3 * train_uniform(options->seed, TRAIN_STREAM_SLOW, at + 2));
	if (train_uniform(options->seed, TRAIN_STREAM_SLOW, at) * 1e6 >= options->slow_ppm)
		return 0;
	return options->compute_ms *
		(options->slow_min + u * (options->slow_max - options->slow_min));
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * One iteration of all hosts: the sum of those that are in time, as the switch would give it. owed:
 * [ranks][TRAIN_ELEMENTS_MAX], what --error-feedback keeps for the next iteration.
 */
static void
iterate(struct train_run *run, float (*owed)[TRAIN_ELEMENTS_MAX])
{
	const struct train_options *o = run->options;
	enum train_point point;
	bool whole = true;

	memset(run->sum, 0, sizeof(run->sum));
	for (unsigned int r = 0; r < run->ranks; r++) {
		bool slow = train_slow_ms(o, r, run->iteration, &point) > 0;

		train_gradient(&run->model, &run->train,
			train_share_next(&run->shares[r], o->batch), o->batch, run->gradient);
		run->counts.computed++;
		run->counts.slow += slow;
		run->counts.missed += slow;
		train_pack(run->gradient, run->block, run->send);
		whole = whole && !slow;
		for (unsigned int i = 0; i < run->elements; i++) {
			float x = run->send[i] + owed[r][i];

			owed[r][i] = slow && o->weir.error_feedback ? x : 0;
			run->sum[i] += slow ? 0 : x;
		}
	}
	run->counts.partial += !whole;
}

int
train_run_alone(struct train_run *run)
{
	const struct train_options *o = run->options;
	float(*owed)[TRAIN_ELEMENTS_MAX] = calloc(run->ranks, sizeof(*owed));
	int code = 0;

	if (owed == NULL) {
		train_say(run, "out of memory");
		return -ENOMEM;
	}
	run->began_ns = train_now_ns();
	while (code == 0 && run->iteration < o->iterations) {
		iterate(run, owed);
		train_step(&run->model, run->sum, run->block, (float)o->rate, (float)o->momentum);
		run->iteration++;
		code = train_mark(run);
	}
	free(owed);
	run->checksum = train_checksum(&run->model);
	return code < 0 ? code : 0;
}

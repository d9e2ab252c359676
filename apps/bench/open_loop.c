/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/open_loop.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_cycles.h>

#define DRAIN_MS 20
#define BURST    32

int
samples_create(struct samples *samples, size_t most)
{
	*samples = (struct samples){.value = calloc(most, sizeof(double)), .most = most};
	return samples->value == NULL ? -ENOMEM : 0;
}

void
samples_destroy(struct samples *samples)
{
	free(samples->value);
	samples->value = NULL;
}

void
open_loop_run(const struct open_loop_load *load, double rate, uint64_t ms, struct open_loop *result)
{
	double hz = (double)rte_get_tsc_hz(), step = hz / rate;
	uint64_t total = (uint64_t)(rate * (double)ms / 1000) / load->group * load->group;
	uint64_t limit = (uint64_t)hz / 1000 * (4 * ms + DRAIN_MS);
	uint64_t patience = (uint64_t)hz / 1000 * DRAIN_MS;
	uint64_t began = rte_rdtsc(), now = began, last = began, ended = 0;

	*result = (struct open_loop){0};
	while (result->sent < total || result->done < total) {
		uint64_t due = (uint64_t)((double)(now - began) / step) + 1;
		unsigned int sent = 0, done;

		due = due < total ? due : total;
		if (due > result->sent) {
			uint64_t n = due - result->sent;

			sent = load->send(load->context, n < BURST ? (unsigned int)n : BURST,
				(double)began + step * (double)result->sent, step);
			result->sent += sent;
			if (result->sent == total)
				ended = rte_rdtsc();
		}
		done = load->poll(load->context);
		result->done += done;
		now = rte_rdtsc();
		if (sent > 0 || done > 0)
			last = now;
		/* A device that takes or gives nothing any more ends it, too. */
		if (now - last > patience || now - began > limit)
			break;
	}
	result->rate = (double)result->sent * hz / (double)((ended != 0 ? ended : now) - began);
	result->cycles = now - began;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the workers' stretches say together. See generator.h. */
#include <rte_cycles.h>

#include "apps/bench/generator_priv.h"

/* Packets per second of CPU time; 0: the worker did not get to measure in this phase. */
static double
rate_of(const struct stretch *stretch)
{
	double aside =
		(double)(stretch->aside_to - stretch->aside_from) * 1e9 / (double)rte_get_tsc_hz();
	double ns = (double)stretch->to - (double)stretch->from - aside;

	if (stretch->from == 0 || ns <= 0)
		return 0;
	return (double)(stretch->packets_to - stretch->packets_from) / ns * 1e9;
}

/* Share of the stretch that the thread had a CPU. */
static double
cpu_of(const struct stretch *stretch)
{
	double ns = (double)(stretch->tsc_to - stretch->tsc_from) * 1e9 / (double)rte_get_tsc_hz();

	return ns > 0 ? RTE_MIN((double)(stretch->to - stretch->from) / ns, 1.0) : 0;
}

/* One pair of phases over all workers. false: a worker did not get the CPU. */
static bool
sum_pair(const struct generator *generators, const struct generator_work *work, unsigned int pair,
	struct generator_sample *sample)
{
	double instructions = 0, cycles = 0, packets = 0;

	*sample = (struct generator_sample){.instructions = -1, .cycles = -1, .cpu = 1};
	for (unsigned int i = 0; i < work->workers; i++) {
		const struct stretch *own = &generators[i].stretch[2 * pair];
		double rate = rate_of(own), bare = rate_of(own + 1);

		if (rate <= 0 || bare <= 0)
			return false;
		sample->rate += rate;
		sample->bare_rate += bare;
		sample->cpu = RTE_MIN(sample->cpu, RTE_MIN(cpu_of(own), cpu_of(own + 1)));
		packets += (double)(own->packets_to - own->packets_from);
		instructions +=
			(double)(own->counts_to.instructions - own->counts_from.instructions);
		cycles += (double)(own->counts_to.cycles - own->counts_from.cycles);
	}
	if (work->authenticated) /* with those of the hosts, they say nothing */
		return true;
	if (instructions > 0)
		sample->instructions = instructions / packets;
	if (cycles > 0)
		sample->cycles = cycles / packets;
	return true;
}

/* The time between polls that such a share of them does not exceed. */
static double
gap_below(const uint32_t *gaps, double share)
{
	uint64_t all = 0, below = 0;

	for (unsigned int i = 0; i < GENERATOR_GAPS; i++)
		all += gaps[i];
	for (unsigned int i = 0; i < GENERATOR_GAPS; i++) {
		below += gaps[i];
		if ((double)below >= share * (double)all)
			return (i + 1.0) / GENERATOR_GAP;
	}
	return 0;
}

void
generator_sum_up(const struct generator *generators, const struct generator_work *work,
	struct generator_result *result)
{
	for (unsigned int r = 0; work->packets == 0 && r < work->repeat; r++)
		if (sum_pair(generators, work, r, &result->sample[result->samples]))
			result->samples++;
	for (unsigned int i = 0; i < 2; i++) {
		result->gap_us[i][0] = gap_below(generators[0].gaps[i], 0.999);
		result->gap_us[i][1] = gap_below(generators[0].gaps[i], 0.9999);
	}
	for (unsigned int i = 0; i < work->workers; i++) {
		result->verified += generators[i].verified;
		result->wrong += generators[i].wrong;
		result->contributions += generators[i].packets;
		if (work->packets != 0)
			result->counted += generators[i].stretch[0].packets_to -
				generators[i].stretch[0].packets_from;
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets per second of one worker: SwitchML beside the switch's own AllReduce, in turn, on the same hosts. A round is a
 * window of blocks, or of slots, from all hosts: what is timed are the turns from the first contribution to the last answer,
 * and freeing the answers, as a device does.
 *
 *     meson test -C build --benchmark --verbose switchml_64 switchml_256
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "ppe/load.h"
#include "ppe/ppe_priv.h"
#include "tests/eal/rig.h"

#define HOSTS   8
#define WINDOW  64
#define ROUNDS  2001
#define HEADERS 42

extern const struct ppe_program_file weir_program;

static struct rig rig;
static unsigned int elements;
static uint16_t generation;

static double
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void
fail(const char *what)
{
	fprintf(stderr, "bench_switchml: %s\n", what);
	exit(1);
}

static void
load(void)
{
	const struct ppe_value values[] = {{.number = HOSTS}, {.number = WINDOW},
		{.number = elements}, {.number = 0}, {.number = 0xbee0}, {.number = 0},
		{.number = 0}};

	if (ppe_program_load(rig.ppe, weir_program.program, values) < 0)
		fail("it does not load");
	for (unsigned int i = 0; i < 10; i++) {
		rig_turn(&rig);
		ppe_programs_tick(rig.ppe);
	}
}

/* A host's contribution to slot and set, or to a block, from its port. */
static void
offer(bool switchml, unsigned int host, uint32_t round, unsigned int slot)
{
	static uint32_t values[256];
	uint8_t frame[HEADERS + 64 + sizeof(values)], mac[6];
	struct weir_header h;

	if (!switchml) {
		h = rig_contribution(1, generation, host, round * WINDOW + slot, elements);
		rig_offer(&rig, host, &h, values, 4 * elements);
		return;
	}
	memset(frame, 0, sizeof(frame));
	rig_source_mac(host, mac);
	rig_headers(frame, mac, rig_source_ip(host), 12345, 0xbee0, 10 + 4 * elements);
	weir_put16(frame + HEADERS + 6, (uint16_t)(slot | (round % 2 << 15)));
	rig_send(&rig, host, frame, HEADERS + 10 + 4 * elements);
}

/* Returns how many answers there were. */
static unsigned int
take_answers(void)
{
	struct rte_mbuf *answers[64];
	unsigned int n, total = 0;

	for (unsigned int port = 0; port < HOSTS; port++)
		while ((n = rte_ring_sc_dequeue_burst(
				rig.from[port][0], (void **)answers, 64, NULL)) > 0) {
			rte_pktmbuf_free_bulk(answers, n);
			total += n;
		}
	return total;
}

/* ns of CPU time per contribution. */
static double
run_round(bool switchml, uint32_t round)
{
	unsigned int answers = 0;
	double began;

	for (unsigned int slot = 0; slot < WINDOW; slot++)
		for (unsigned int host = 0; host < HOSTS; host++)
			offer(switchml, host, round, slot);
	began = cpu_ns();
	for (unsigned int turns = 0; answers < HOSTS * WINDOW; turns++) {
		rig_turn(&rig);
		answers += take_answers();
		if (turns > 1000)
			fail("answers are missing");
	}
	return (cpu_ns() - began) / (HOSTS * WINDOW);
}

static int
compare(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1
						       : *(const double *)a > *(const double *)b;
}

static double
median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

int
main(int argc, char **argv)
{
	static double ns[2][ROUNDS], ratio[ROUNDS];
	struct rig_config config = {.workers = 1,
		.threads = 20,
		.ports = HOSTS,
		.jobs = 1,
		.unchecked = true,
		.packets = 8191,
		.frames = 8191,
		.first_generation = 1};
	struct ppe_stats stats;
	double both[2];

	elements = argc > 1 ? (unsigned int)atoi(argv[1]) : 64;
	config.job[0] = rig_job(1, HOSTS, WINDOW, (uint16_t)elements);
	rig_start(&rig, &config);
	generation = rig_join(&rig, 0, false);
	load();
	for (uint32_t round = 0; round < 10; round++)
		for (unsigned int s = 0; s < 2; s++)
			run_round(s, round);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (unsigned int s = 0; s < 2; s++)
			ns[s][round] = run_round(s, 10 + round);
		ratio[round] = ns[0][round] / ns[1][round];
	}
	for (unsigned int s = 0; s < 2; s++)
		both[s] = median(ns[s]);
	ppe_stats_read(rig.ppe, &stats);
	if (stats.worker[0].batched < stats.received / 10 * 9)
		fail("too few packets were in batches");
	printf("%3u elements, %u hosts: AllReduce %6.1f ns %5.2f Mpps, SwitchML %6.1f ns %5.2f "
	       "Mpps, ratio %.2f\n",
		elements, HOSTS, both[0], 1e3 / both[0], both[1], 1e3 / both[1], median(ratio));
	if (rig_stop(&rig) != NULL)
		fail("something was not returned");
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one job, block, record, source or station more costs: computed, as the switch does before it
 * starts, and taken from DPDK's heap, by the difference of two switches that differ in nothing else.
 * Both agree, and everything comes back.
 */
#include <criterion/criterion.h>

#include <rte_dev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "ppe/ppe.h"
#include "ppe/programs/programs.h"
#include "rmw/kernels.h"
#include "tests/eal/rig.h"

#define DEVICE       "net_null0"
#define OTHER        "net_null1"
#define DEVICE_KEEPS 1024u /* net_null never frees its dummy packets */
#define JOB_JOINS    16384u /* what a job's home shard has for joins is not computed */

struct shape {
	uint32_t jobs, sources, window, elements, stations;
	bool deterministic;
};

struct use {
	struct ppe_memory needed; /* as the switch computes it before it starts */
	uint64_t taken; /* from DPDK's heap, the heap's own data included */
};

static uint64_t
heap_used(void)
{
	struct rte_malloc_socket_stats stats;
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
			bytes += stats.heap_allocsz_bytes;
	return bytes;
}

static struct use
measure(const struct shape *shape)
{
	static const struct pktbuf_port_config port = {.name = "p0",
		.device = DEVICE,
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 512,
		.tx_descriptors = 512};
	const struct ppe_config config = {.programs = ppe_programs(),
		.workers = 1,
		.threads = 20,
		.burst = 32,
		.batch = 256,
		.idle = PPE_IDLE_SLEEP,
		.idle_sleep_us = 50,
		.crossbar_depth = 1024,
		.queue_depth = 1024,
		.queue_wait_ms = 100,
		.timer_threads = 100,
		.fdb_entries = shape->stations,
		.fdb_timeout_s = 300,
		.exception_port = -1,
		.isa = RMW_ISA_AUTO,
		.first_generation = 1,
		.packets = 1024,
		.packet_bytes = 2048,
		.headers = 1024,
		.identity = {
			.ip = 0x0a4d00fe, .port_base = WEIR_PORT_BASE, .port_ext = WEIR_PORT_EXT}};
	static struct ppe_job job[2];
	struct ppe_jobs jobs = {.by_id = {NULL}};
	struct ppe_leaks leaks;
	uint64_t before, heap;
	uint16_t other;
	struct use use = {.taken = 0};
	struct ppe *ppe;

	for (unsigned int j = 0; j < shape->jobs; j++) {
		job[j] = rig_job((uint8_t)(j + 1), (uint16_t)shape->sources,
			(uint16_t)shape->window, (uint16_t)shape->elements);
		job[j].deterministic = shape->deterministic;
		jobs.by_id[j + 1] = &job[j];
	}
	ppe_memory_needed(&config, 1, &jobs, &use.needed);
	/* What all devices share is there while there is one: this one stays. */
	if (rte_eth_dev_get_port_by_name(OTHER, &other) != 0)
		cr_assert_eq(rte_eal_hotplug_add("vdev", OTHER, ""), 0);
	before = heap_used();
	cr_assert_eq(rte_eal_hotplug_add("vdev", DEVICE, ""), 0);
	heap = heap_used();
	ppe = ppe_create(&config, &port, 1, &jobs);
	cr_assert_not_null(ppe);
	use.taken = heap_used() - heap;
	ppe_destroy(ppe, &leaks);
	rte_eal_hotplug_remove("vdev", DEVICE);
	cr_assert_leq(heap_used(), before + DEVICE_KEEPS, "%d bytes did not come back",
		(int)(heap_used() - before));
	return use;
}

/* The second shape has `n` things more than the first. */
static double
one_more(const char *name, const struct shape *first, const struct shape *second, double n,
	double extra)
{
	struct use before = measure(first), after = measure(second);
	double computed = ((double)after.needed.total - (double)before.needed.total) / n;
	double taken = ((double)after.taken - (double)before.taken) / n;

	cr_expect(taken >= computed * 0.98 - 128 && taken <= computed * 1.02 + 128 + extra,
		"a %s: %.1f bytes were computed, and %.1f taken", name, computed, taken);
	return taken;
}

static void
all_things(const struct shape *base)
{
	struct shape more = *base;
	double payload = 4.0 * base->elements, block;

	more.jobs++;
	one_more("job", base, &more, 1, JOB_JOINS);
	more = *base;
	more.window *= 2;
	block = one_more("block", base, &more, base->window, 0);
	if (!base->deterministic) /* three buffers and two records */
		cr_expect(block >= 3 * payload + 2 * 200 && block <= 3 * payload + 900,
			"a block takes %.1f bytes", block);
	more = *base;
	more.stations *= 2;
	one_more("station", base, &more, base->stations, 0);
	more = *base;
	more.sources *= 2;
	if (!base->deterministic)
		cr_expect_eq(one_more("source", base, &more, base->sources, 0), 0);
	else
		one_more("source", base, &more, base->sources, 0);
}

Test(ppe_memory, computed_memory_is_taken, .timeout = 90)
{
	rig_start_eal(1);
	for (uint32_t elements = 64; elements <= 1024; elements *= 4)
		all_things(&(struct shape){.jobs = 1,
			.sources = 8,
			.window = 16,
			.elements = elements,
			.stations = 4096});
}

Test(ppe_memory, computed_memory_of_deterministic_jobs, .timeout = 90)
{
	rig_start_eal(1);
	all_things(&(struct shape){.jobs = 1,
		.sources = 8,
		.window = 16,
		.elements = 256,
		.stations = 4096,
		.deterministic = true});
}

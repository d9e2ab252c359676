/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine alone, linked without the built-in programs, with a program of a few lines that counts packets. */
#include <stdio.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include <rte_cycles.h>
#include <rte_eal.h>

#include "ppe/ppe.h"
#include "ppe/program_fast.h"

static unsigned long counted;

static struct ppe_next
count(struct ppe_worker *worker, struct ppe_thread *thread)
{
	__atomic_store_n(&counted, counted + 1, __ATOMIC_RELAXED);
	ppe_consume(worker, thread);
	return PPE_END;
}

static int
create(const struct ppe_setup *setup, void **state)
{
	const struct ppe_match every = {.conditions = 0};

	(void)state;
	return ppe_match_add(setup, &every);
}

static uint64_t
read_counted(const void *state)
{
	(void)state;
	return __atomic_load_n(&counted, __ATOMIC_RELAXED);
}

static const struct ppe_program counter = {.name = "counter",
	.first = count,
	.create = create,
	.statistics = {{"counted", "weir_counted_total", "packets counted", PPE_STATISTIC_COUNTER,
		false, read_counted}}};

Test(ppe_alone, an_engine_with_a_program_of_a_few_lines, .timeout = 120)
{
	static char words[][32] = {"eal", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"-m", "128", "--lcores=0@0,1@0", "--vdev=net_null0", ""};
	char *argv[RTE_DIM(words)];
	static const struct ppe_program *const programs[] = {&counter, NULL};
	const struct pktbuf_port_config port = {.name = "p0",
		.device = "net_null0",
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 512,
		.tx_descriptors = 512};
	const struct ppe_config config = {.programs = programs,
		.workers = 1,
		.threads = 20,
		.burst = 32,
		.batch = 1,
		.idle = PPE_IDLE_YIELD,
		.idle_sleep_us = 50,
		.crossbar_depth = 1024,
		.queue_depth = 1024,
		.queue_wait_ms = 100,
		.timer_threads = 100,
		.exception_port = -1,
		.first_generation = 1,
		.packets = 2048,
		.packet_bytes = 2048,
		.headers = 1024};
	const struct ppe_jobs jobs = {.by_id = {NULL}};
	struct ppe_stats stats;
	struct ppe_leaks leaks;
	struct ppe *ppe;

	snprintf(words[RTE_DIM(words) - 1], sizeof(words[0]), "--file-prefix=weir_alone_%d",
		(int)getpid());
	for (unsigned int i = 0; i < RTE_DIM(words); i++)
		argv[i] = words[i];
	cr_assert_geq(rte_eal_init(RTE_DIM(argv), argv), 0);
	ppe = ppe_create(&config, &port, 1, &jobs);
	cr_assert_not_null(ppe);
	cr_assert_eq(ppe_start(ppe), 0);
	while (__atomic_load_n(&counted, __ATOMIC_RELAXED) < 1000)
		rte_delay_us_sleep(1000);
	cr_assert_eq(ppe_stop(ppe, 10000), 0);
	ppe_stats_read(ppe, &stats);
	cr_expect_str_eq(stats.statistic[0].what->key, "counted");
	cr_expect_null(stats.statistic[1].what);
	cr_expect_eq(ppe_statistic_value(&stats, "counted"), counted);
	cr_expect_eq(stats.consumed, counted);
	cr_expect_eq(ppe_statistic_value(&stats, "other"), 0);
	ppe_destroy(ppe, &leaks);
	cr_expect_eq(leaks.packets, 0);
	cr_expect_eq(leaks.records, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine alone, linked without the built-in programs, with a program of a few lines that counts packets. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <criterion/criterion.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>

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

static struct ppe *
start(const char *device, const char *other)
{
	static char words[][160] = {"eal", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"-m", "128", "--log-level=pmd.net.memif:error", "--lcores=0@0,1@0", "", "", ""};
	char *argv[RTE_DIM(words)];
	static const struct ppe_program *const programs[] = {&counter, NULL};
	struct pktbuf_port_config port = {.name = "p0",
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
	struct ppe *ppe;

	snprintf(words[RTE_DIM(words) - 3], sizeof(words[0]), "--file-prefix=weir_alone_%d",
		(int)getpid());
	snprintf(words[RTE_DIM(words) - 2], sizeof(words[0]), "--vdev=%s", device);
	snprintf(words[RTE_DIM(words) - 1], sizeof(words[0]), "--vdev=%s", other);
	for (unsigned int i = 0; i < RTE_DIM(words); i++)
		argv[i] = words[i];
	cr_assert_geq(rte_eal_init(RTE_DIM(argv), argv), 0);
	strlcpy(port.device, device, sizeof(port.device));
	ppe = ppe_create(&config, &port, 1, &jobs);
	cr_assert_not_null(ppe);
	cr_assert_eq(ppe_start(ppe), 0);
	return ppe;
}

static void
wait_for(unsigned long packets)
{
	while (__atomic_load_n(&counted, __ATOMIC_RELAXED) < packets)
		rte_delay_us_sleep(1000);
}

Test(ppe_alone, an_engine_with_a_program_of_a_few_lines, .timeout = 120)
{
	struct ppe *ppe = start("net_null0", "net_null1");
	struct ppe_stats stats;
	struct ppe_leaks leaks;

	wait_for(1000);
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

static bool stopped;

static void
stop_in_interrupt_thread(void *peer)
{
	(void)rte_eth_dev_stop(((struct pktbuf_port *)peer)->id);
	__atomic_store_n(&stopped, true, __ATOMIC_RELEASE);
}

/* In another thread, the driver may hang. */
static void
stop_peer(struct pktbuf_port *peer)
{
	stopped = false;
	cr_assert_eq(rte_eal_alarm_set(1, stop_in_interrupt_thread, peer), 0);
	while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE))
		rte_delay_us_sleep(100);
}

/* The switch refuses a peer until it has seen the end of the one before. */
static void
connect_to(struct pktbuf_port *peer)
{
	struct rte_eth_link link = {.link_status = RTE_ETH_LINK_DOWN};

	while (link.link_status == RTE_ETH_LINK_DOWN) {
		if (peer->started)
			stop_peer(peer);
		cr_assert_eq(pktbuf_port_start(peer), 0);
		for (unsigned int i = 0; i < 1000 && link.link_status == RTE_ETH_LINK_DOWN; i++) {
			rte_delay_us_sleep(100);
			cr_assert_eq(rte_eth_link_get_nowait(peer->id, &link), 0);
		}
	}
}

/* Its driver unmaps the memory of a peer that goes away, whoever reads it. */
Test(ppe_alone, peers_at_a_memif_that_go_away_while_they_send, .timeout = 120)
{
	struct rte_mempool *pool;
	struct pktbuf_port peer;
	struct pktbuf_port_config config = {.name = "peer",
		.device = "net_memif1",
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 512,
		.tx_descriptors = 512};
	char server[64], client[64];
	struct ppe_leaks leaks;
	struct ppe *ppe;

	/* An abstract socket: a test that fails leaves no file. */
	snprintf(server, sizeof(server), "net_memif0,role=server,socket=weir_alone_%d",
		(int)getpid());
	snprintf(client, sizeof(client), "net_memif1,role=client,socket=weir_alone_%d",
		(int)getpid());
	ppe = start(server, client);
	pool = pktbuf_packet_pool("peer", 2047, 2048, 0, 0);
	cr_assert_not_null(pool);
	cr_assert_eq(pktbuf_port_open(&peer, &config, pool), 0);
	for (unsigned int turn = 0; turn < 300; turn++) {
		connect_to(&peer);
		for (unsigned int i = 0; i < 256; i++) {
			struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

			memset(rte_pktmbuf_append(m, 1400), 0, 1400);
			if (rte_eth_tx_burst(peer.id, 0, &m, 1) == 0)
				rte_pktmbuf_free(m);
		}
	}
	wait_for(1000);
	cr_assert_eq(ppe_stop(ppe, 10000), 0);
	pktbuf_port_close(&peer);
	ppe_destroy(ppe, &leaks);
	cr_expect_eq(leaks.packets, 0);
}

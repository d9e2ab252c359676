/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steering: hosts choose the UDP port by the block, and a device with the switch's flow rules gives each packet to the worker
 * that owns the block. The test plays hosts and device. Without rules, or with hosts that use one port, packets hop, and the
 * sums are the same.
 */
#include <rte_errno.h>
#include <rte_flow.h>

#include "ppe/ppe_priv.h"
#include "tests/eal/bench_tree.h" /* expect_sum() */

#define JOB      5
#define SOURCES  4
#define PORTS    2
#define WINDOW   16
#define BLOCKS   (8 * WINDOW)
#define ELEMENTS 64
#define UDP_AT   36

/* ---- the device ---- */

static bool takes_rules;
static struct rte_flow {
	uint16_t port, udp, queue;
} rules[PORTS * WEIR_PORTS_MAX * 2];
static unsigned int nb_rules;

struct rte_flow *
rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
	const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
	struct rte_flow_error *error __rte_unused)
{
	const struct rte_flow_item_ipv4 *ip = pattern[1].spec, *ip_mask = pattern[1].mask;
	const struct rte_flow_item_udp *udp = pattern[2].spec, *udp_mask = pattern[2].mask;
	const struct rte_flow_action_queue *to = actions[0].conf;

	cr_assert(attr->ingress && pattern[0].type == RTE_FLOW_ITEM_TYPE_ETH &&
		pattern[1].type == RTE_FLOW_ITEM_TYPE_IPV4 &&
		pattern[2].type == RTE_FLOW_ITEM_TYPE_UDP &&
		pattern[3].type == RTE_FLOW_ITEM_TYPE_END &&
		actions[0].type == RTE_FLOW_ACTION_TYPE_QUEUE &&
		actions[1].type == RTE_FLOW_ACTION_TYPE_END);
	cr_assert(ip->hdr.dst_addr == RTE_BE32(RIG_SWITCH_IP) &&
		ip_mask->hdr.dst_addr == UINT32_MAX && udp_mask->hdr.dst_port == UINT16_MAX);
	if (!takes_rules) {
		rte_errno = ENOSYS;
		return NULL;
	}
	cr_assert_lt(nb_rules, RTE_DIM(rules));
	rules[nb_rules] = (struct rte_flow){port, rte_be_to_cpu_16(udp->hdr.dst_port), to->index};
	return &rules[nb_rules++];
}

int
rte_flow_flush(uint16_t port __rte_unused, struct rte_flow_error *error __rte_unused)
{
	nb_rules = 0;
	return 0;
}

/* Without a rule, the queue of a packet depends on its source. */
static unsigned int
queue_of(struct rig *at, unsigned int port, const uint8_t *bytes)
{
	for (unsigned int i = 0; i < nb_rules; i++)
		if (rules[i].port == port && rules[i].udp == weir_get16(bytes + UDP_AT))
			return rules[i].queue;
	return bytes[11] / PORTS % at->queues;
}

/* ---- the hosts ---- */

/* Send a block to one of so many UDP ports. */
static void
contribute_to(unsigned int source, uint32_t block, unsigned int ports)
{
	const struct weir_header h = contribution(source, block);
	unsigned int bytes = write_frame(&h, 4 * ELEMENTS);

	weir_put16(frame + UDP_AT,
		weir_block_port(weir_get16(frame + UDP_AT), ports, JOB, WINDOW, block));
	rig_fix_checksums(frame);
	rig_send(&rig, source % PORTS, frame, bytes);
}

/* Each source of the port gets each block's sum once. */
static void
expect_results(unsigned int port, uint32_t first)
{
	unsigned int results[WINDOW] = {0};

	for (unsigned int n = 0; n < WINDOW * SOURCES / PORTS; n++) {
		cr_assert(receive(port) && got.status == WEIR_STATUS_OK,
			"blocks from %u: %u results at port %u", first, n, port);
		cr_assert(got.block_id - first < WINDOW && got.grad_cnt == ELEMENTS &&
			payload_bytes == 4 * ELEMENTS);
		results[got.block_id - first]++;
		expect_sum(got.block_id, (1 << SOURCES) - 1);
	}
	for (unsigned int b = 0; b < WINDOW; b++)
		cr_assert_eq(results[b], SOURCES / PORTS, "block %u at port %u", first + b, port);
}

struct found {
	uint64_t hops, batched;
};

static struct found
count(void)
{
	struct found found = {0, 0};
	struct ppe_stats stats;

	rig_settle(&rig, &stats);
	for (unsigned int w = 0; w < stats.nb_workers; w++) {
		found.hops += stats.worker[w].hops_out;
		found.batched += stats.worker[w].batched;
	}
	return found;
}

static void
with_queues(struct rig_config *config)
{
	config->lcores = true;
	config->queues = config->workers;
	config->job[0].id = JOB;
}

/* Reduce some windows of blocks. old: hosts that use one port. */
static struct found
run_windows(unsigned int workers, bool rules_taken, bool extended, bool old)
{
	struct found before, after;

	takes_rules = rules_taken;
	start(.workers = workers, .sources = SOURCES, .ports = PORTS, .window = WINDOW,
		.elements = ELEMENTS, .timeout_ms = 1000, .late = true, .base_form = !extended,
		.change = with_queues);
	rig.queue_of = queue_of;
	for (unsigned int p = 0; p < PORTS; p++)
		cr_assert_eq(ppe_port_steers(rig.ppe, p), rules_taken);
	generation = rig_join(&rig, 0, !extended);
	cr_assert_eq(rig.udp_ports, workers);
	before = count();
	for (uint32_t first = 0; first < BLOCKS; first += WINDOW) {
		for (uint32_t b = first; b < first + WINDOW; b++)
			for (unsigned int s = 0; s < SOURCES; s++)
				contribute_to(s, b, old ? 1 : rig.udp_ports);
		for (unsigned int port = 0; port < PORTS; port++)
			expect_results(port, first);
	}
	after = count();
	stop();
	return (struct found){after.hops - before.hops, after.batched - before.batched};
}

static void
steered(unsigned int workers, bool extended)
{
	struct found found = run_windows(workers, true, extended, false);

	cr_assert_eq(nb_rules, PORTS * workers * 2);
	cr_assert_eq(found.hops, 0, "%u hops", (unsigned int)found.hops);
}

/* As many hop as if the device knew nothing. */
static void
not_steered(unsigned int workers, bool rules_taken, bool old)
{
	struct found found = run_windows(workers, rules_taken, true, old);

	cr_assert_eq(found.hops, BLOCKS * SOURCES * (workers - 1) / workers, "%u hops",
		(unsigned int)found.hops);
	/* Which of the ports a packet came to makes no difference to the flow cache. */
	cr_assert(rig.config.batch == 1 || found.batched > 0);
}

CASE(ppe_steering, two_workers, steered(2, true))
CASE(ppe_steering, two_workers_base_form, steered(2, false))
CASE(ppe_steering, three_workers, steered(3, true))
CASE(ppe_steering, four_workers, steered(4, true))
CASE(ppe_steering, four_workers_base_form, steered(4, false))
CASE(ppe_steering, device_without_rules, not_steered(2, false, false))
CASE(ppe_steering, device_without_rules_four_workers, not_steered(4, false, false))
CASE(ppe_steering, old_hosts, not_steered(2, true, true))
CASE(ppe_steering, old_hosts_four_workers, not_steered(4, true, true))

/* The switch of a job's residue and the port of a host are chosen alike. */
Test(ppe_steering, ports_are_shards)
{
	for (unsigned int shards = 1; shards <= PPE_WORKERS_MAX; shards++)
		for (unsigned int id = 0; id < WEIR_JOBS_MAX; id += 5)
			for (uint16_t window = 1; window <= PPE_WINDOW_MAX; window *= 2) {
				const struct ppe_job job = {.id = (uint8_t)id, .window = window};

				for (uint32_t block = UINT32_MAX - 40; block != 40; block++)
					cr_assert_eq(weir_block_port(WEIR_PORT_EXT, shards, job.id,
							     window, block),
						WEIR_PORT_EXT +
							2 * ppe_job_shard(&job, block, shards));
			}
}

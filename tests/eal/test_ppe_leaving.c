/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices keep what they have sent until they are called again: jobs must not wait for more traffic. */
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "tests/eal/bench.h"

#define PORTS    2
#define WINDOW   2
#define ELEMENTS 256 /* results refer to the buffer */
#define KEPT     256

/* What the device of a port keeps. */
static struct keeper {
	struct rte_mbuf *kept[KEPT];
	unsigned int count;
	unsigned int most; /* ever kept */
	unsigned int referring; /* of those kept now: chains */
	bool never; /* gives back nothing */
} keeper[PORTS];

/* A device with a long ring, played by a callback: packets are kept when they are sent, and freed
 * when it is called with none, or never. */
static uint16_t
keep(uint16_t port __rte_unused, uint16_t queue __rte_unused, struct rte_mbuf *packets[],
	uint16_t n, void *arg)
{
	struct keeper *k = arg;

	for (uint16_t i = 0; i < n && k->count < KEPT; i++) {
		rte_pktmbuf_refcnt_update(packets[i], 1); /* of all segments */
		k->kept[k->count++] = packets[i];
		k->referring += packets[i]->nb_segs > 1;
	}
	k->most = RTE_MAX(k->most, k->count);
	if (n > 0 || k->never)
		return n;
	rte_pktmbuf_free_bulk(k->kept, k->count);
	k->count = k->referring = 0;
	return 0;
}

/* Reduces blocks until the devices have shown that they give packets back. Returns the next block. */
static uint32_t
start_with_devices(unsigned int workers)
{
	struct ppe_port_queue queue[PORTS] = {{.is_copied = true}};
	uint32_t block = 0;

	start(.workers = workers, .window = WINDOW, .elements = ELEMENTS, .generation = 7);
	for (unsigned int p = 0; p < PORTS; p++) {
		char name[32];
		uint16_t id;

		snprintf(name, sizeof(name), "net_ring_rig0_%u", p);
		cr_assert_eq(rte_eth_dev_get_port_by_name(name, &id), 0, "no device %s", name);
		cr_assert_not_null(rte_eth_add_tx_callback(id, 0, keep, &keeper[p]));
	}
	for (; queue[0].is_copied || queue[1].is_copied; block++) {
		cr_assert_lt(block, 1000, "results are copied for ever");
		reduce(block);
		pass_ms(3);
		for (unsigned int p = 0; p < PORTS; p++)
			ppe_port_queue_read(rig.ppe, p, &queue[p]);
	}
	return block;
}

static void
leaves(unsigned int workers)
{
	uint32_t block = start_with_devices(workers);

	for (uint32_t end = block + WINDOW; block < end; block++)
		reduce(block);
	publish(NULL);
	pass_ms(100);
	cr_expect_eq(
		ppe_jobs_leaving(rig.ppe), 0, "the job waits for packets that quiet devices keep");
	cr_expect_not(ppe_job_is_leaving(rig.ppe, 1, 0));
	stop();
	for (unsigned int p = 0; p < PORTS; p++)
		cr_expect_gt(keeper[p].most, 0, "the device of port %u kept nothing", p);
}

CASE(ppe_leaving, quiet_devices_give_back_what_a_leaving_job_needs, leaves(1))
CASE(ppe_leaving, quiet_devices_of_two_workers, leaves(2))

/* 3 x window buffers are all there are: devices that have given packets back, and now never do, get window of them. */
Test(ppe_leaving, a_job_goes_on_when_devices_keep_all_that_they_get, .timeout = 90)
{
	uint32_t block = start_with_devices(1);

	keeper[0].never = keeper[1].never = true;
	for (uint32_t end = block + 8 * WINDOW; block < end; block++)
		reduce(block);
	cr_expect_eq(job_stats(1).held_back, 0);
	for (unsigned int p = 0; p < PORTS; p++) {
		cr_expect_geq(keeper[p].count, 8 * WINDOW);
		cr_expect(keeper[p].referring >= 1 && keeper[p].referring <= WINDOW,
			"%u of %u kept results refer to buffers", keeper[p].referring,
			keeper[p].count);
		keeper[p].never = false;
	}
	pass_ms(2000);
	cr_expect_eq(keeper[0].count + keeper[1].count, 0);
	stop();
}

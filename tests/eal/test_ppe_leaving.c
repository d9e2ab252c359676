/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices keep what they have sent until they are called again: jobs must not wait for more traffic. */
#include <criterion/criterion.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "tests/eal/rig.h"

#define PORTS    2
#define WINDOW   2
#define ELEMENTS 16
#define KEPT     256
#define JOB      1

/* What the device of a port keeps; its worker's. */
struct keeper {
	struct rte_mbuf *kept[KEPT];
	unsigned int count;
	uint32_t most; /* ever kept */
};

static struct rig rig;
static struct keeper keeper[PORTS];

/* A device with a long ring, played by a callback: packets are kept when they are sent, and freed
 * when it is called with none. */
static uint16_t
keep(uint16_t port __rte_unused, uint16_t queue __rte_unused, struct rte_mbuf *packets[],
	uint16_t n, void *arg)
{
	struct keeper *k = arg;

	for (uint16_t i = 0; i < n && k->count < KEPT; i++) {
		rte_pktmbuf_refcnt_update(packets[i], 1);
		k->kept[k->count++] = packets[i];
	}
	if (k->count > k->most)
		__atomic_store_n(&k->most, k->count, __ATOMIC_RELAXED);
	if (n > 0)
		return n;
	rte_pktmbuf_free_bulk(k->kept, k->count);
	k->count = 0;
	return 0;
}

static void
start(unsigned int workers)
{
	struct rig_config config = {.workers = workers, .threads = 4, .ports = PORTS, .jobs = 1};

	config.job[0] = rig_job(JOB, PORTS, WINDOW, ELEMENTS);
	config.job[0].fixed_generation = 7;
	rig_start(&rig, &config);
	for (unsigned int p = 0; p < PORTS; p++) {
		char name[32];
		uint16_t id;

		snprintf(name, sizeof(name), "net_ring_rig0_%u", p);
		cr_assert_eq(rte_eth_dev_get_port_by_name(name, &id), 0, "no device %s", name);
		cr_assert_not_null(rte_eth_add_tx_callback(id, 0, keep, &keeper[p]));
	}
}

/* Contribute from both sources, and again until the result is there; false: it never came. */
static bool
reduce(uint32_t block)
{
	struct weir_header h = rig_contribution(JOB, 7, 0, block, ELEMENTS);
	const uint32_t values[ELEMENTS] = {block};
	uint8_t frame[RIG_FRAME_MAX];
	unsigned int got[PORTS] = {0};

	for (unsigned int tries = 0; tries < 100 && (!got[0] || !got[1]); tries++) {
		for (unsigned int s = 0; s < PORTS; s++) {
			h.src_id = (uint8_t)s;
			if (!got[s])
				rig_send(&rig, s, frame,
					rig_frame(frame, s, &h, values, sizeof(values)));
		}
		for (unsigned int p = 0; p < PORTS; p++)
			while (rig_receive(&rig, p, frame, 10) > 0)
				got[p]++;
	}
	return got[0] && got[1];
}

static void
stop(void)
{
	const char *error = rig_stop(&rig);

	cr_expect_null(error, "%s", error);
	for (unsigned int p = 0; p < PORTS; p++)
		cr_expect_gt(keeper[p].most, 0, "the device of port %u kept nothing", p);
}

static void
leaves(unsigned int workers)
{
	static const struct ppe_jobs none;
	unsigned int left = 1;

	start(workers);
	for (uint32_t block = 0; block < WINDOW; block++)
		cr_expect(reduce(block), "no result of block %u", block);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &none), 0);
	for (unsigned int ms = 0; ms < 2000 && left > 0; ms++) {
		left = ppe_jobs_leaving(rig.ppe);
		rte_delay_us_sleep(1000);
	}
	cr_expect_eq(left, 0, "the job waits for packets that quiet devices keep");
	cr_expect_not(ppe_job_is_leaving(rig.ppe, JOB, 0));
	stop();
}

CASE(ppe_leaving, quiet_devices_give_back_what_a_leaving_job_needs, leaves(1))
CASE(ppe_leaving, quiet_devices_of_two_workers, leaves(2))

/* 2 x window buffers are all there are: were they kept until more is sent, nothing more would be. */
Test(ppe_leaving, a_job_goes_on_when_devices_keep_all_its_buffers, .timeout = 90)
{
	start(1);
	for (uint32_t block = 0; block < 8 * WINDOW; block++)
		if (!reduce(block)) {
			cr_expect_fail("no result of block %u", block);
			break;
		}
	stop();
}

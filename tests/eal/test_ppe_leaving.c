/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices keep what they have sent until they are called again: jobs must not wait for more traffic. */
#include <criterion/criterion.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "tests/eal/rig.h"

#define PORTS    2
#define WINDOW   2
#define ELEMENTS 256 /* results refer to the buffer */
#define KEPT     256
#define JOB      1

/* What the device of a port keeps; its worker's. */
struct keeper {
	struct rte_mbuf *kept[KEPT];
	unsigned int count;
	uint32_t most; /* ever kept */
	uint32_t referring; /* of those kept now: chains */
	bool never; /* gives back nothing; test: rw */
};

static struct rig rig;
static struct keeper keeper[PORTS];

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
	if (k->count > k->most)
		__atomic_store_n(&k->most, k->count, __ATOMIC_RELAXED);
	if (n > 0 || __atomic_load_n(&k->never, __ATOMIC_RELAXED))
		return n;
	rte_pktmbuf_free_bulk(k->kept, k->count);
	__atomic_store_n(&k->count, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&k->referring, 0, __ATOMIC_RELAXED);
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

/* Reduce blocks until the devices have shown that they give packets back. Returns the next block. */
static uint32_t
reduce_until_referred(void)
{
	struct ppe_port_queue queue[PORTS] = {{.is_copied = true}};
	uint32_t block = 0;

	for (; queue[0].is_copied || queue[1].is_copied; block++) {
		cr_assert_lt(block, 1000, "results are copied for ever");
		cr_assert(reduce(block), "no result of block %u", block);
		rte_delay_us_sleep(3000);
		for (unsigned int p = 0; p < PORTS; p++)
			ppe_port_queue_read(rig.ppe, p, &queue[p]);
	}
	return block;
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
	uint32_t block;

	start(workers);
	block = reduce_until_referred();
	for (uint32_t end = block + WINDOW; block < end; block++)
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

static void
set_never(bool never)
{
	for (unsigned int p = 0; p < PORTS; p++)
		__atomic_store_n(&keeper[p].never, never, __ATOMIC_RELAXED);
}

/* 3 x window buffers are all there are: devices that have given packets back, and now never do, get window of them. */
Test(ppe_leaving, a_job_goes_on_when_devices_keep_all_that_they_get, .timeout = 90)
{
	struct ppe_job_stats stats;
	uint32_t block;

	start(1);
	block = reduce_until_referred();
	set_never(true);
	for (uint32_t end = block + 8 * WINDOW; block < end; block++)
		cr_expect(reduce(block), "no result of block %u", block);
	cr_assert_eq(ppe_job_stats_read(rig.ppe, JOB, &stats), 0);
	cr_expect_eq(stats.held_back, 0);
	for (unsigned int p = 0; p < PORTS; p++) {
		cr_expect_geq(keeper[p].count, 8 * WINDOW);
		cr_expect(keeper[p].referring >= 1 && keeper[p].referring <= WINDOW,
			"%u of %u kept results refer to buffers", keeper[p].referring,
			keeper[p].count);
	}
	set_never(false);
	for (unsigned int ms = 0; ms < 2000 && keeper[0].count + keeper[1].count > 0; ms++)
		rte_delay_us_sleep(1000);
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Output queues of devices that take nothing, keep what they have sent, or cannot send all. The time is the test's. */
#include <criterion/criterion.h>

#include <string.h>

#include <rte_cycles.h>

#include "pktbuf/outq_fast.h"
#include "pktbuf/pool.h"
#include "tests/eal/rig.h"
#include "tests/eal/ring_port.h"

#define WAIT_MS 100

static struct rte_mempool *pool;
static struct pktbuf_outq *outq;
static uint64_t now, wait;
static unsigned int released; /* payloads */

static void
start(void)
{
	rig_start_eal(1);
	pool = pktbuf_packet_pool("packets", 511, 2048, 0, 0);
	cr_assert_not_null(pool);
	open_port(pool);
	outq = pktbuf_outq_create(&port, 0, 64, pool, WAIT_MS, 0);
	cr_assert_not_null(outq);
	wait = WAIT_MS * rte_get_tsc_hz() / 1000;
	now = wait;
}

static void
stop(void)
{
	struct rte_mbuf *packet;

	pktbuf_outq_destroy(outq);
	while (rte_ring_dequeue(from, (void **)&packet) == 0)
		rte_pktmbuf_free(packet);
	pktbuf_port_close(&port);
	cr_expect_eq(rte_mempool_avail_count(pool), pool->size);
	rig_stop_eal();
}

static struct rte_mbuf *
packet_of(uint32_t bytes)
{
	struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);

	memset(rte_pktmbuf_append(packet, (uint16_t)bytes), 0x5a, bytes);
	return packet;
}

static void
push(struct rte_mbuf *packet, enum pktbuf_refusal refusal)
{
	cr_assert_eq(pktbuf_outq_push(outq, PKTBUF_PRIO_RESULT, packet), refusal);
	if (refusal != PKTBUF_QUEUED)
		rte_pktmbuf_free(packet);
}

static void
push_n(unsigned int n, enum pktbuf_refusal refusal)
{
	while (n-- > 0)
		push(packet_of(60), refusal);
}

static unsigned int
flush(void)
{
	uint32_t waiting = 0;

	return pktbuf_outq_flush(outq, &waiting);
}

static struct rte_mbuf *
taken(void)
{
	struct rte_mbuf *packet = NULL;

	(void)rte_ring_dequeue(from, (void **)&packet);
	return packet;
}

static void
payload_released(void *address, void *opaque)
{
	RTE_SET_USED(address);
	RTE_SET_USED(opaque);
	released++;
}

/* A header that refers to 600 bytes of others. */
static struct rte_mbuf *
result(void)
{
	static uint8_t payload[600];
	static struct rte_mbuf_ext_shared_info info[16];
	static unsigned int next;
	struct rte_mbuf *packet = packet_of(58), *attach = rte_pktmbuf_alloc(pool);
	struct rte_mbuf_ext_shared_info *count = &info[next++ % RTE_DIM(info)];

	memset(payload, 0xa5, sizeof(payload));
	*count = (struct rte_mbuf_ext_shared_info){.free_cb = payload_released, .refcnt = 1};
	rte_pktmbuf_attach_extbuf(
		attach, payload, rte_mem_virt2iova(payload), sizeof(payload), count);
	attach->data_len = sizeof(payload);
	attach->pkt_len = sizeof(payload);
	cr_assert_eq(rte_pktmbuf_chain(packet, attach), 0);
	return packet;
}

Test(pktbuf_outq, what_waits_too_long_is_dropped, .timeout = 90)
{
	start();
	push_n(DEVICE + 10, PKTBUF_QUEUED);
	cr_assert_eq(flush(), DEVICE);
	cr_assert_eq(pktbuf_outq_tend(outq, now, false), 0);
	push_n(5, PKTBUF_QUEUED); /* later */
	cr_assert_eq(pktbuf_outq_tend(outq, now += wait - 1, false), 0);
	cr_assert_eq(pktbuf_outq_age_ms(outq, now), WAIT_MS - 1);
	cr_assert(!outq->is_stalled);
	cr_assert_eq(pktbuf_outq_tend(outq, ++now, false), 10);
	cr_assert(outq->is_stalled);
	cr_assert_eq(pktbuf_outq_depth(outq), 5);
	cr_assert_eq(pktbuf_outq_tend(outq, now += wait, false), 5);
	cr_assert_eq(pktbuf_outq_tend(outq, now += wait, false), 0);
	cr_assert(outq->is_stalled, "nothing shows that the device takes packets again");
	rte_pktmbuf_free(taken());
	push_n(1, PKTBUF_QUEUED);
	cr_assert_eq(flush(), 1);
	cr_assert_eq(pktbuf_outq_tend(outq, now += wait, false), 0);
	cr_assert(!outq->is_stalled);
	stop();
}

Test(pktbuf_outq, a_stop_waits_less, .timeout = 90)
{
	start();
	outq->patience *= 100;
	push_n(DEVICE + 3, PKTBUF_QUEUED);
	cr_assert_eq(flush(), DEVICE);
	cr_assert_eq(pktbuf_outq_tend(outq, now, false), 0);
	cr_assert_eq(pktbuf_outq_tend(outq, now += wait, false), 0);
	cr_assert_eq(pktbuf_outq_tend(outq, now, true), 3);
	stop();
}

Test(pktbuf_outq, a_slow_device_is_not_stalled, .timeout = 90)
{
	start();
	push_n(DEVICE + 20, PKTBUF_QUEUED);
	cr_assert_eq(flush(), DEVICE);
	for (unsigned int i = 0; i < 20; i++) {
		cr_assert_eq(pktbuf_outq_tend(outq, now += wait / 40, false), 0);
		rte_pktmbuf_free(taken());
		cr_assert_eq(flush(), 1);
	}
	cr_assert_eq(pktbuf_outq_depth(outq), 0);
	cr_assert(!outq->is_stalled);
	stop();
}

Test(pktbuf_outq, without_a_link_nothing_waits, .timeout = 90)
{
	start();
	push_n(DEVICE + 3, PKTBUF_QUEUED);
	cr_assert_eq(flush(), DEVICE);
	port.frame_max = 0;
	cr_assert_eq(pktbuf_outq_tend(outq, now, false), 3);
	cr_assert_eq(pktbuf_outq_depth(outq), 0);
	push_n(1, PKTBUF_PORT_STALLED);
	port.frame_max = UINT32_MAX;
	cr_assert_eq(pktbuf_outq_tend(outq, ++now, false), 0);
	push_n(1, PKTBUF_QUEUED);
	stop();
}

Test(pktbuf_outq, a_queue_that_fills_gets_what_is_free, .timeout = 90)
{
	start();
	pktbuf_outq_limit(outq, 0);
	cr_assert_eq(outq->limit, 64, "the device takes all");
	push_n(DEVICE + 10, PKTBUF_QUEUED);
	cr_assert_eq(flush(), DEVICE);
	pktbuf_outq_limit(outq, 30);
	push_n(20, PKTBUF_QUEUED);
	push_n(1, PKTBUF_QUEUE_FULL);
	pktbuf_outq_limit(outq, 0);
	push_n(1, PKTBUF_QUEUE_FULL);
	for (struct rte_mbuf *packet; flush() > 0 || rte_ring_count(from) > 0;)
		while ((packet = taken()) != NULL)
			rte_pktmbuf_free(packet);
	push_n(16, PKTBUF_QUEUED); /* that many in any case */
	push_n(1, PKTBUF_QUEUE_FULL);
	stop();
}

Test(pktbuf_outq, a_device_that_gives_packets_back_gets_references, .timeout = 90)
{
	struct rte_mbuf *packet;

	start();
	/* Not known yet: copied. */
	push(result(), PKTBUF_QUEUED);
	cr_assert_eq(released, 1);
	cr_assert_eq(flush(), 1);
	packet = taken();
	cr_assert(packet->nb_segs == 1 && packet->pkt_len == 658);
	cr_assert_eq(*rte_pktmbuf_mtod_offset(packet, uint8_t *, 57), 0x5a);
	cr_assert_eq(*rte_pktmbuf_mtod_offset(packet, uint8_t *, 58), 0xa5);
	rte_pktmbuf_free(packet);
	(void)pktbuf_outq_tend(outq, ++now, false);
	cr_assert(outq->is_prompt);
	push(result(), PKTBUF_QUEUED);
	cr_assert_eq(released, 1);
	cr_assert_eq(flush(), 1);
	packet = taken();
	cr_assert_eq(packet->nb_segs, 2);
	rte_pktmbuf_free(packet);
	cr_assert_eq(released, 2);
	stop();
}

Test(pktbuf_outq, a_device_that_keeps_packets_gets_copies, .timeout = 90)
{
	struct rte_mbuf *kept[3];

	start();
	/* Given back when others have been sent: as by a driver that frees a slot when it uses it again. */
	push_n(1, PKTBUF_QUEUED);
	cr_assert_eq(flush(), 1);
	kept[0] = taken();
	push_n(1, PKTBUF_QUEUED);
	cr_assert_eq(flush(), 1);
	rte_pktmbuf_free(kept[0]);
	kept[0] = taken();
	(void)pktbuf_outq_tend(outq, ++now, false);
	cr_assert(!outq->is_prompt && !outq->refers);
	rte_pktmbuf_free(kept[0]);

	/* It was prompt, and is no longer: so a quiet one shows. */
	outq->is_prompt = true;
	for (unsigned int i = 0; i < 2; i++)
		(void)pktbuf_outq_tend(outq, ++now, false);
	push(result(), PKTBUF_QUEUED);
	cr_assert_eq(flush(), 1);
	kept[1] = taken();
	cr_assert_eq(kept[1]->nb_segs, 2);
	for (unsigned int i = 0; i < 6; i++)
		(void)pktbuf_outq_tend(outq, ++now, false);
	cr_assert(!outq->is_prompt && !outq->refers);
	push(result(), PKTBUF_QUEUED);
	cr_assert_eq(released, 1, "copied");
	rte_pktmbuf_free(kept[1]);
	cr_assert_eq(released, 2);
	stop();
}

Test(pktbuf_outq, what_a_device_cannot_send_is_not_queued, .timeout = 90)
{
	struct rte_mbuf *tagged, *chain;

	start();
	port.frame_max = 100;
	(void)pktbuf_outq_tend(outq, now, false);
	push(packet_of(100), PKTBUF_QUEUED);
	push(packet_of(101), PKTBUF_TOO_LONG);
	tagged = packet_of(104);
	rte_pktmbuf_mtod(tagged, struct rte_ether_hdr *)->ether_type =
		RTE_BE16(RTE_ETHER_TYPE_VLAN);
	push(tagged, PKTBUF_QUEUED);
	port.frame_max = UINT32_MAX;
	port.segments_max = 1;
	(void)pktbuf_outq_tend(outq, ++now, false);
	chain = packet_of(60);
	cr_assert_eq(rte_pktmbuf_chain(chain, packet_of(700)), 0);
	push(chain, PKTBUF_QUEUED);
	cr_assert_eq(outq->fifo[PKTBUF_PRIO_RESULT]
			     .ring[(outq->fifo[PKTBUF_PRIO_RESULT].tail - 1) & 63]
			     ->nb_segs,
		1);
	chain = packet_of(2000);
	cr_assert_eq(rte_pktmbuf_chain(chain, packet_of(2000)), 0);
	push(chain, PKTBUF_TOO_LONG);
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools, results by reference and output queues, on a real EAL with ring devices. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

#include "pktbuf/pktbuf.h"
#include "tests/eal/rig.h"

static struct pktbuf_pools pools;
static struct pktbuf_port port;
static struct rte_ring *to, *from;
static const struct pktbuf_identity identity = {
	.mac = {2, 0, 0, 0, 0, 0xfe}, .port_base = 12000, .port_ext = 12001, .ip = 0x0a4d00fe};
static const struct pktbuf_endpoint host = {
	.mac = {2, 0, 0, 0, 0, 1}, .ip = 0x0a4d0001, .udp = 40000, .extended = 1, .valid = 1};

static struct pktbuf_port_config
config_of(const char *device)
{
	struct pktbuf_port_config config = {.name = "p",
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 64,
		.tx_descriptors = 64};

	snprintf(config.device, sizeof(config.device), "%s", device);
	return config;
}

/* A port whose transmit side is a ring of 15 packets. */
static void
start(unsigned int headers, unsigned int attaches)
{
	struct pktbuf_port_config config = config_of("net_ring_small");

	rig_start_eal(1);
	pools.packets = pktbuf_packet_pool("packets", 255, 2048, 0, 0);
	pools.headers = pktbuf_header_pool("headers", headers, 0, 0);
	pools.attaches = pktbuf_attach_pool("attaches", attaches, 0, 0);
	cr_assert(pools.packets && pools.headers && pools.attaches);
	to = rte_ring_create("to", 16, 0, 0);
	from = rte_ring_create("from", 16, 0, 0);
	cr_assert_geq(rte_eth_from_rings("small", &to, 1, &from, 1, 0), 0);
	cr_assert_eq(pktbuf_port_open(&port, &config, pools.packets), 0);
	cr_assert_eq(pktbuf_port_start(&port), 0);
}

static void
stop(void)
{
	pktbuf_port_close(&port);
	cr_expect_eq(rte_mempool_avail_count(pools.packets), pools.packets->size);
	cr_expect_eq(rte_mempool_avail_count(pools.headers), pools.headers->size);
	cr_expect_eq(rte_mempool_avail_count(pools.attaches), pools.attaches->size);
	rig_stop_eal();
}

static unsigned int released;

static void
on_release(void *data, void *opaque)
{
	cr_assert_eq(data, opaque);
	released++;
}

static uint8_t block[4096];

static struct pktbuf_payload
payload_of(uint32_t bytes)
{
	return (struct pktbuf_payload){.data = block,
		.iova = rte_mem_virt2iova(block),
		.bytes = bytes,
		.sum = pktbuf_sum_bytes(block, bytes),
		.released = on_release,
		.opaque = block};
}

static unsigned int
flatten(const struct rte_mbuf *m, uint8_t *out)
{
	unsigned int n = 0;

	for (; m != NULL; m = m->next) {
		memcpy(out + n, rte_pktmbuf_mtod(m, void *), m->data_len);
		n += m->data_len;
	}
	return n;
}

Test(pktbuf_eal, a_result_refers_to_its_payload, .timeout = 30)
{
	uint64_t random = rig_seed();
	uint8_t flat[8192];

	start(31, 31);
	for (unsigned int i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)rig_random(&random);
	for (unsigned int bytes = 1; bytes <= sizeof(block); bytes += 1 + bytes / 7) {
		for (unsigned int form = 0; form < 2; form++) {
			struct weir_header h = {.job_id = 1,
						   .block_id = bytes,
						   .grad_cnt = 1,
						   .extended = form == 1},
					   back;
			struct pktbuf_payload payload = payload_of(bytes);
			struct rte_mbuf *m;
			const uint8_t *p;
			unsigned int n;

			released = 0;
			m = pktbuf_result_build(&pools, &port, &identity, &host, &h, &payload);
			cr_assert_not_null(m);
			cr_assert_eq(m->nb_segs, 2);
			cr_assert_eq(rte_pktmbuf_mtod(m->next, void *), block, "copied");
			cr_assert_eq(m->pkt_len, 42 + weir_header_bytes(form == 1) + bytes);
			cr_assert_eq(flatten(m, flat), m->pkt_len);
			cr_assert(rig_checksums_hold(flat), "%u bytes", bytes);
			cr_assert(rig_parse(flat, m->pkt_len, &back, &p, &n));
			cr_assert(n == bytes && back.block_id == bytes &&
				memcmp(p, block, bytes) == 0);
			cr_assert_eq(
				memcmp(flat, host.mac, 6) | memcmp(flat + 6, identity.mac, 6), 0);
			cr_assert_eq(weir_get16(flat + 36), host.udp);
			rte_pktmbuf_free(m);
			cr_assert_eq(released, 1);
		}
	}
	stop();
}

Test(pktbuf_eal, each_destination_releases_once, .timeout = 30)
{
	const struct weir_header h = {.extended = true};
	struct pktbuf_payload payload = payload_of(100);
	struct rte_mbuf *m[5];

	start(31, 31);
	for (unsigned int i = 0; i < 5; i++)
		m[i] = pktbuf_result_build(&pools, &port, &identity, &host, &h, &payload);
	for (unsigned int i = 0; i < 5; i++) {
		cr_assert_eq(released, i);
		rte_pktmbuf_free(m[i]);
	}
	cr_assert_eq(released, 5);
	stop();
}

Test(pktbuf_eal, empty_pools_are_an_error_and_leak_nothing, .timeout = 30)
{
	const struct weir_header h = {.extended = true};
	struct pktbuf_payload payload = payload_of(100);
	struct rte_mbuf *m[7], *more;

	start(15, 7);
	for (unsigned int i = 0; i < 7; i++)
		m[i] = pktbuf_result_build(&pools, &port, &identity, &host, &h, &payload);
	cr_assert_null(pktbuf_result_build(&pools, &port, &identity, &host, &h, &payload));
	cr_assert_eq(released, 0);
	more = pktbuf_reply_build(&pools, &port, &identity, &host, &h, NULL, 0);
	cr_assert_not_null(more);
	rte_pktmbuf_free(more);
	for (unsigned int i = 0; i < 7; i++)
		rte_pktmbuf_free(m[i]);
	stop();
}

Test(pktbuf_eal, replies_carry_small_payloads, .timeout = 30)
{
	uint8_t flat[256], small[64];

	start(31, 31);
	memset(small, 0xa5, sizeof(small));
	for (unsigned int bytes = 0; bytes <= 64; bytes++) {
		struct weir_header h = {.extended = bytes % 2, .block_id = bytes}, back;
		struct rte_mbuf *m = pktbuf_reply_build(
			&pools, &port, &identity, &host, &h, small, (uint8_t)bytes);
		const uint8_t *p;
		unsigned int n;

		cr_assert(m != NULL && m->nb_segs == 1);
		flatten(m, flat);
		cr_assert(rig_checksums_hold(flat));
		cr_assert(rig_parse(flat, m->pkt_len, &back, &p, &n));
		cr_assert(n == bytes && back.block_id == bytes && memcmp(p, small, n) == 0);
		rte_pktmbuf_free(m);
	}
	stop();
}

Test(pktbuf_eal, checksums_are_left_to_a_device_that_can, .timeout = 30)
{
	const struct weir_header h = {.extended = true};
	struct pktbuf_payload payload = payload_of(100);
	const uint64_t wanted =
		RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
	struct pktbuf_port able;
	struct rte_mbuf *m;
	uint8_t flat[256];

	start(31, 31);
	able = port;
	able.tx_checksum = PKTBUF_CHECKSUM_OFFLOAD;
	m = pktbuf_result_build(&pools, &able, &identity, &host, &h, &payload);
	cr_assert_eq(m->ol_flags & wanted, wanted);
	cr_assert(m->l2_len == 14 && m->l3_len == 20);
	rte_pktmbuf_free(m);
	able.tx_checksum = PKTBUF_CHECKSUM_OFF;
	m = pktbuf_result_build(&pools, &able, &identity, &host, &h, &payload);
	flatten(m, flat);
	cr_assert_eq(weir_get16(flat + 40), 0, "UDP checksum: not computed");
	cr_assert_eq(m->ol_flags & wanted, 0);
	rte_pktmbuf_free(m);
	stop();
}

/* A packet that carries a number. */
static struct rte_mbuf *
numbered(uint32_t number)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pools.packets);

	*(uint32_t *)(void *)rte_pktmbuf_append(m, 60) = number;
	return m;
}

static uint32_t
next_number(void)
{
	struct rte_mbuf *m;
	uint32_t number;

	if (rte_ring_dequeue(from, (void **)&m) < 0)
		return UINT32_MAX;
	number = *rte_pktmbuf_mtod(m, uint32_t *);
	rte_pktmbuf_free(m);
	return number;
}

Test(pktbuf_eal, output_queues_are_bounded_ordered_and_strict, .timeout = 30)
{
	struct pktbuf_outq *outq;
	struct rte_mbuf *extra;

	start(31, 31);
	cr_assert_null(pktbuf_outq_create(&port, 0, 24, 0), "24 is no power of two");
	outq = pktbuf_outq_create(&port, 0, 32, 0);
	for (uint32_t i = 0; i < 32; i++) {
		cr_assert(pktbuf_outq_push(outq, PKTBUF_PRIO_BULK, numbered(100 + i)));
		if (i < 10)
			cr_assert(pktbuf_outq_push(outq, PKTBUF_PRIO_RESULT, numbered(i)));
	}
	extra = numbered(1);
	cr_assert(!pktbuf_outq_push(outq, PKTBUF_PRIO_BULK, extra), "33 in a queue of 32");
	rte_pktmbuf_free(extra);
	cr_assert_eq(pktbuf_outq_depth(outq), 42);

	/* The device takes 15: the results, then bulk; the rest stays and leaves later, in order. */
	cr_assert_eq(pktbuf_outq_flush(outq), 15);
	for (uint32_t i = 0; i < 15; i++)
		cr_assert_eq(next_number(), i < 10 ? i : 100 + i - 10);
	cr_assert(pktbuf_outq_push(outq, PKTBUF_PRIO_RESULT, numbered(10)));
	cr_assert_eq(pktbuf_outq_flush(outq), 15);
	cr_assert_eq(next_number(), 10);
	for (uint32_t i = 0; i < 14; i++)
		cr_assert_eq(next_number(), 105 + i);
	cr_assert_eq(pktbuf_outq_flush(outq), 13);
	for (uint32_t i = 0; i < 13; i++)
		cr_assert_eq(next_number(), 119 + i);
	cr_assert_eq(pktbuf_outq_flush(outq), 0);
	cr_assert_eq(outq->fifo[PKTBUF_PRIO_RESULT].packets, 11);
	cr_assert_eq(outq->fifo[PKTBUF_PRIO_BULK].packets, 32);
	cr_assert_eq(outq->fifo[PKTBUF_PRIO_BULK].bytes, 32 * 60);
	cr_assert(pktbuf_outq_push(outq, PKTBUF_PRIO_BULK, numbered(1)));
	pktbuf_outq_destroy(outq); /* frees what waits */
	pktbuf_outq_destroy(NULL);
	stop();
}

Test(pktbuf_eal, a_port_that_can_not_be_had_is_refused, .timeout = 30)
{
	struct pktbuf_port_config config = config_of("net_nothing0");
	struct pktbuf_port other;

	start(31, 31);
	cr_assert_eq(pktbuf_port_open(&other, &config, pools.packets), -ENODEV);
	config = config_of("net_ring_small,some=argument");
	config.rx_queues = 2;
	cr_assert_eq(pktbuf_port_open(&other, &config, pools.packets), -ENOTSUP);
	config.rx_queues = 1;
	config.tx_checksum = PKTBUF_CHECKSUM_OFFLOAD;
	cr_assert_eq(pktbuf_port_open(&other, &config, pools.packets), -ENOTSUP);
	stop();
}

Test(pktbuf_eal, private_areas_are_whole_lines, .timeout = 30)
{
	struct rte_mbuf *m;

	start(31, 31);
	m = rte_pktmbuf_alloc(pools.packets);
	cr_assert_eq((uintptr_t)pktbuf_priv(m) % 64, 0);
	cr_assert_geq((uint8_t *)m->buf_addr - (uint8_t *)pktbuf_priv(m), PKTBUF_PRIV_BYTES);
	cr_assert_geq(rte_pktmbuf_tailroom(m), 2048);
	rte_pktmbuf_free(m);
	stop();
}

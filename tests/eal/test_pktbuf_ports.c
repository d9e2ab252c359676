/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools, output queues against a slow model, and ports that can't be had; on ring devices. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "pktbuf/pktbuf.h"
#include "tests/eal/rig.h"
#include "tests/eal/ring_port.h"

static struct rte_mempool *pool;

static void
start(void)
{
	rig_start_eal(1);
	pool = pktbuf_packet_pool("packets", 511, 2048, 0, 0);
	cr_assert_not_null(pool);
	open_port(pool);
}

static void
stop(void)
{
	pktbuf_port_close(&port);
	cr_expect_eq(rte_mempool_avail_count(pool), pool->size);
	rig_stop_eal();
}

/* Take all that a pool has, fill every byte that is an mbuf's own, and give back. */
static void
drain_and_fill(struct rte_mempool *p, unsigned int n, unsigned int priv, unsigned int data)
{
	struct rte_mbuf **all = calloc(n + 1, sizeof(struct rte_mbuf *));

	cr_assert_not_null(p, "%s", rte_strerror(rte_errno));
	cr_assert_eq(p->size, n);
	cr_assert_str_eq(rte_mempool_get_ops(p->ops_index)->name, "ring_mt_rts");
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < n; i++) {
			cr_assert_not_null(all[i] = rte_pktmbuf_alloc(p));
			cr_assert_eq((uintptr_t)pktbuf_priv(all[i]) % 64, 0);
			cr_assert_eq(pktbuf_priv(all[i]), (uint8_t *)all[i] + sizeof(*all[i]));
			cr_assert_eq(rte_pktmbuf_priv_size(p), priv);
			cr_assert_eq(all[i]->buf_addr, (uint8_t *)pktbuf_priv(all[i]) + priv);
			cr_assert_geq(rte_pktmbuf_tailroom(all[i]), data);
			memset(pktbuf_priv(all[i]), (int)i, priv);
			memset(rte_pktmbuf_mtod(all[i], void *), (int)i, data);
		}
		cr_assert_null(rte_pktmbuf_alloc(p), "more than %u", n);
		cr_assert_eq(rte_mempool_avail_count(p), 0);
		for (unsigned int i = 0; i < n; i++) {
			const uint8_t *own = pktbuf_priv(all[i]);
			const uint8_t *bytes = rte_pktmbuf_mtod(all[i], const uint8_t *);

			for (unsigned int b = 0; b < priv; b++)
				cr_assert_eq(own[b], (uint8_t)i);
			for (unsigned int b = 0; b < data; b++)
				cr_assert_eq(bytes[b], (uint8_t)i);
			rte_pktmbuf_free(all[i]);
		}
		cr_assert_eq(rte_mempool_avail_count(p), n);
	}
	free(all);
}

Test(pktbuf_ports, pools_give_all_and_take_it_back, .timeout = 90)
{
	rig_start_eal(0);
	for (unsigned int cache = 0; cache <= 32; cache += 32) {
		struct rte_mempool *p[3] = {pktbuf_packet_pool("p", 255, 9216, cache, 0),
			pktbuf_header_pool("h", 300, cache, 0),
			pktbuf_attach_pool("a", 63, cache, 0)};

		drain_and_fill(p[0], 255, PKTBUF_PRIV_BYTES, 9216);
		drain_and_fill(p[1], 300, PKTBUF_SMALL_PRIV_BYTES, PKTBUF_HEADER_DATA_BYTES);
		drain_and_fill(p[2], 63, PKTBUF_SMALL_PRIV_BYTES, 0);
		for (unsigned int i = 0; i < 3; i++)
			rte_mempool_free(p[i]);
	}
	rig_stop_eal();
}

Test(pktbuf_ports, wrong_pools_are_refused, .timeout = 90)
{
	struct rte_mempool *p;

	rig_start_eal(0);
	p = pktbuf_packet_pool("p", 15, 2048, 512, 0);
	cr_assert_not_null(p);
	cr_assert_leq(p->cache_size, 10, "a cache is at most n / 1.5");
	cr_assert_null(pktbuf_packet_pool("p", 15, 2048, 0, 0));
	cr_assert_eq(rte_errno, EEXIST);
	cr_assert_null(pktbuf_header_pool("h", 2047, 513, 0));
	cr_assert_eq(rte_errno, EINVAL);
	cr_assert_null(pktbuf_packet_pool("large", 1000000, 9216, 0, 0));
	cr_assert_eq(rte_errno, ENOMEM);
	rte_mempool_free(p);
	rig_stop_eal();
}

/* Bytes of a pool's objects, as the pool tells, and of its ring. */
static size_t
bytes_of(struct rte_mempool *p)
{
	size_t n = p->size;
	size_t bytes = n * (p->header_size + p->elt_size + p->trailer_size) +
		rte_align32pow2((uint32_t)n + 1) * sizeof(void *);

	rte_mempool_free(p);
	return bytes;
}

Test(pktbuf_ports, pools_tell_their_bytes_near_enough, .timeout = 90)
{
	rig_start_eal(0);
	for (unsigned int n = 255; n < 4096; n = 2 * n + 1) {
		const size_t told[] = {pktbuf_packet_pool_bytes(n, 2048),
			pktbuf_header_pool_bytes(n), pktbuf_attach_pool_bytes(n)};
		const size_t real[] = {bytes_of(pktbuf_packet_pool("p", n, 2048, 0, 0)),
			bytes_of(pktbuf_header_pool("h", n, 0, 0)),
			bytes_of(pktbuf_attach_pool("a", n, 0, 0))};

		for (unsigned int i = 0; i < 3; i++)
			cr_assert(told[i] >= real[i] && told[i] <= real[i] + real[i] / 3,
				"%u of pool %u: %zu bytes told, %zu real", n, i, told[i], real[i]);
	}
	rig_stop_eal();
}

/* A packet of `bytes` that carries a number. */
static struct rte_mbuf *
numbered(uint32_t number, uint16_t bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	cr_assert_not_null(m);
	memcpy(rte_pktmbuf_append(m, bytes), &number, sizeof(number));
	return m;
}

/* The number of the next packet that left; UINT32_MAX: none did. */
static uint32_t
next_number(void)
{
	struct rte_mbuf *m;
	uint32_t number;

	if (rte_ring_dequeue(from, (void **)&m) < 0)
		return UINT32_MAX;
	memcpy(&number, rte_pktmbuf_mtod(m, void *), sizeof(number));
	rte_pktmbuf_free(m);
	return number;
}

/* What an output queue and its device are: lists of numbers, moved one at a time. */
struct slow_queue {
	uint32_t waits[PKTBUF_PRIOS][1024], device[DEVICE];
	unsigned int n[PKTBUF_PRIOS], on_device;
	uint64_t packets[PKTBUF_PRIOS], bytes[PKTBUF_PRIOS];
};

static uint16_t
bytes_of_number(uint32_t number)
{
	return (uint16_t)(60 + number % 1000);
}

/* Strictly by priority, in order, as long as there is room. Returns how many. */
static unsigned int
slow_flush(struct slow_queue *s)
{
	unsigned int sent = 0;

	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++) {
		while (s->n[p] > 0 && s->on_device < DEVICE) {
			s->device[s->on_device++] = s->waits[p][0];
			s->packets[p]++;
			s->bytes[p] += bytes_of_number(s->waits[p][0]);
			memmove(s->waits[p], s->waits[p] + 1, --s->n[p] * sizeof(uint32_t));
			sent++;
		}
	}
	return sent;
}

static unsigned int
flush(struct pktbuf_outq *outq)
{
	uint32_t waiting = 0;
	unsigned int sent = pktbuf_outq_flush(outq, &waiting);

	cr_assert_eq(waiting, pktbuf_outq_depth(outq));
	return sent;
}

static void
try_push(struct pktbuf_outq *outq, struct slow_queue *s, unsigned int p, uint32_t number)
{
	struct rte_mbuf *m = numbered(number, bytes_of_number(number));
	bool room = s->n[p] < outq->depth;

	cr_assert_eq(pktbuf_outq_push(outq, p, m), room ? PKTBUF_QUEUED : PKTBUF_QUEUE_FULL);
	if (room)
		s->waits[p][s->n[p]++] = number;
	else
		rte_pktmbuf_free(m); /* still ours */
}

static void
take_one(struct slow_queue *s)
{
	cr_assert_eq(next_number(), s->on_device > 0 ? s->device[0] : UINT32_MAX);
	if (s->on_device > 0)
		memmove(s->device, s->device + 1, --s->on_device * sizeof(uint32_t));
}

static void
play(uint32_t depth, uint64_t *random)
{
	static struct slow_queue s;
	struct pktbuf_outq *outq = pktbuf_outq_create(&port, 0, depth, pool, 100, 0);

	cr_assert_not_null(outq);
	memset(&s, 0, sizeof(s));
	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++) /* soon past 2^32 */
		outq->fifo[p].head = outq->fifo[p].tail = UINT32_MAX - 100 + p;
	for (uint32_t step = 0; step < 4000; step++) {
		unsigned int dice = (unsigned int)(rig_random(random) % 16);
		unsigned int n = (unsigned int)(rig_random(random) % 40);

		if (dice < 12)
			for (unsigned int i = 0; i < n / 4; i++)
				try_push(outq, &s, dice % PKTBUF_PRIOS, step * 10 + i);
		else if (dice < 14)
			cr_assert_eq(flush(outq), slow_flush(&s), "step %u", step);
		else
			for (unsigned int i = 0; i < n; i++)
				take_one(&s);
		cr_assert_eq(pktbuf_outq_depth(outq), s.n[0] + s.n[1]);
		for (unsigned int p = 0; p < PKTBUF_PRIOS; p++) {
			cr_assert_eq(outq->fifo[p].packets, s.packets[p]);
			cr_assert_eq(outq->fifo[p].bytes, s.bytes[p]);
		}
	}
	while (s.on_device > 0)
		take_one(&s);
	pktbuf_outq_destroy(outq); /* with what waits */
	pktbuf_outq_destroy(NULL);
	cr_assert_eq(rte_mempool_avail_count(pool), pool->size, "depth %u", depth);
}

Test(pktbuf_ports, output_queues_do_as_the_model, .timeout = 90)
{
	uint64_t random = rig_seed();

	start();
	for (uint32_t depth = 1; depth <= 128; depth *= 2)
		play(depth, &random);
	stop();
}

Test(pktbuf_ports, wrong_output_queues_are_refused, .timeout = 90)
{
	static const uint32_t odd[] = {0, 3, 24, 4095, UINT32_MAX};

	start();
	for (size_t i = 0; i < RTE_DIM(odd); i++) {
		rte_errno = 0;
		cr_assert_null(pktbuf_outq_create(&port, 0, odd[i], pool, 100, 0));
		cr_assert_eq(rte_errno, EINVAL, "depth %u", odd[i]);
	}
	cr_assert_geq(pktbuf_outq_bytes(UINT32_C(1) << 31), (size_t)2 * 8 << 31);
	rte_errno = 0;
	cr_assert_null(pktbuf_outq_create(&port, 0, UINT32_C(1) << 31, pool, 100, 0));
	cr_assert_eq(rte_errno, ENOMEM);
	stop();
}

Test(pktbuf_ports, ports_say_why_they_can_not_be, .timeout = 90)
{
#define SMALL  .device = "net_ring_small"
#define QUEUES .rx_queues = 1, .tx_queues = 1
	static const struct {
		struct pktbuf_port_config config;
		int rc;
	} wrong[] = {
		{{.device = "net_nothing0"}, -ENODEV},
		{{.device = "net_ring_smal"}, -ENODEV},
		{{.device = ""}, -ENODEV},
		{{SMALL, .rx_queues = 2, .tx_queues = 1}, -ENOTSUP},
		{{SMALL, .rx_queues = 1, .tx_queues = 2}, -ENOTSUP},
		{{SMALL, .rx_queues = 1, .tx_queues = UINT16_MAX}, -ENOTSUP},
		{{SMALL, QUEUES, .rx_checksum = PKTBUF_CHECKSUM_OFFLOAD}, -ENOTSUP},
		{{SMALL, QUEUES, .tx_checksum = PKTBUF_CHECKSUM_OFFLOAD}, -ENOTSUP},
		{{SMALL, QUEUES, .mtu = 1}, -EINVAL},
	};
	const struct pktbuf_port_config good = config_of("net_ring_small,what=follows,is=EAL's");
	struct pktbuf_port other;

	start();
	pktbuf_port_stop(&port);
	for (unsigned int i = 0; i < RTE_DIM(wrong); i++) {
		cr_assert_eq(pktbuf_port_open(&other, &wrong[i].config, pool), wrong[i].rc,
			"case %u", i);
		/* The device is as good as before. */
		cr_assert_eq(pktbuf_port_open(&port, &good, pool), 0, "after case %u", i);
	}
	cr_assert_eq(pktbuf_port_start(&port), 0);
	stop();
}

Test(pktbuf_ports, a_port_receives_and_tells_what_it_is, .timeout = 90)
{
	struct pktbuf_port_config config = config_of("net_ring_small");
	struct rte_mbuf *m[8];
	char text[256] = "";
	FILE *out;

	start();
	cr_assert(port.started);
	cr_assert_eq(pktbuf_port_rx(&port, 0, m, 8), 0);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(rte_ring_enqueue(to, numbered(i, 60)), 0);
	cr_assert_eq(pktbuf_port_rx(&port, 0, m, 8), 8);
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t number;

		memcpy(&number, rte_pktmbuf_mtod(m[i], void *), sizeof(number));
		cr_assert_eq(number, i);
		rte_pktmbuf_free(m[i]);
	}
	cr_assert_eq(pktbuf_port_rx(&port, 0, m, 8), 2);
	rte_pktmbuf_free(m[0]);
	rte_pktmbuf_free(m[1]);

	/* AUTO on a device without offloads is software; OFF stays what it is. */
	cr_assert(port.rx_checksum == PKTBUF_CHECKSUM_SOFTWARE &&
		port.tx_checksum == PKTBUF_CHECKSUM_SOFTWARE);
	pktbuf_port_stop(&port);
	cr_assert(!port.started);
	config.rx_checksum = config.tx_checksum = PKTBUF_CHECKSUM_OFF;
	config.promiscuous = true;
	cr_assert_eq(pktbuf_port_open(&port, &config, pool), 0);
	out = fmemopen(text, sizeof(text), "w");
	pktbuf_port_print(&port, out);
	fclose(out);
	cr_assert_not_null(strstr(text, "net_ring"));
	cr_assert_not_null(strstr(text, "checksums rx off tx off\n"));
	cr_assert_eq(strchr(text, '\n'), text + strlen(text) - 1, "one line");
	stop();
}

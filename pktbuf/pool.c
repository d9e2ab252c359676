/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/pool.h"

static struct rte_mempool *
make(const char *name, unsigned int n, unsigned int priv, unsigned int data, unsigned int cache,
	int socket)
{
	return rte_pktmbuf_pool_create_by_ops(name, n, RTE_MIN(cache, n * 2 / 3), (uint16_t)priv,
		(uint16_t)data, socket, "ring_mt_rts");
}

struct rte_mempool *
pktbuf_packet_pool(
	const char *name, unsigned int n, unsigned int data_bytes, unsigned int cache, int socket)
{
	return make(name, n, PKTBUF_PRIV_BYTES, data_bytes + RTE_PKTMBUF_HEADROOM, cache, socket);
}

struct rte_mempool *
pktbuf_header_pool(const char *name, unsigned int n, unsigned int cache, int socket)
{
	return make(name, n, PKTBUF_SMALL_PRIV_BYTES,
		PKTBUF_HEADER_DATA_BYTES + RTE_PKTMBUF_HEADROOM, cache, socket);
}

struct rte_mempool *
pktbuf_attach_pool(const char *name, unsigned int n, unsigned int cache, int socket)
{
	return make(name, n, PKTBUF_SMALL_PRIV_BYTES, 0, cache, socket);
}

/* An object's header and trailer in the pool, alignment, and its place in the ring. */
#define OVERHEAD (RTE_CACHE_LINE_SIZE * 2 + 2 * sizeof(void *))

size_t
pktbuf_packet_pool_bytes(unsigned int n, unsigned int data_bytes)
{
	return (size_t)n *
		(sizeof(struct rte_mbuf) + PKTBUF_PRIV_BYTES + data_bytes + RTE_PKTMBUF_HEADROOM +
			OVERHEAD);
}

size_t
pktbuf_header_pool_bytes(unsigned int n)
{
	return (size_t)n *
		(sizeof(struct rte_mbuf) + PKTBUF_SMALL_PRIV_BYTES + PKTBUF_HEADER_DATA_BYTES +
			RTE_PKTMBUF_HEADROOM + OVERHEAD);
}

size_t
pktbuf_attach_pool_bytes(unsigned int n)
{
	return (size_t)n * (sizeof(struct rte_mbuf) + PKTBUF_SMALL_PRIV_BYTES + OVERHEAD);
}

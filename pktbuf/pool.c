/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/pool.h"

#include <stdbool.h>

#include <rte_eal.h>
#include <rte_errno.h>

/* If devices use virtual addresses, the iova of a packet is the address of its bytes. */
static void
address_is_iova(struct rte_mempool *pool, void *arg, void *object, unsigned int i)
{
	struct rte_mbuf *m = object;

	RTE_SET_USED(pool);
	RTE_SET_USED(arg);
	RTE_SET_USED(i);
	m->buf_iova = (uintptr_t)m->buf_addr;
}

/*
 * Without huge pages, a mempool lets no object cross a page of 4 KiB, which wastes up to half of
 * each page and lets the objects' first lines share a few sets of L1. If devices see virtual
 * addresses, that is unnecessary. So declare that IOVAs are not needed, and set them. (Drivers that
 * register memory with their device skip such a pool; they need huge pages anyway.)
 */
static struct rte_mempool *
make(const char *name, const char *ops, unsigned int n, unsigned int priv, unsigned int data,
	unsigned int cache, int socket)
{
	bool packed = !rte_eal_has_hugepages() && rte_eal_iova_mode() == RTE_IOVA_VA;
	struct rte_pktmbuf_pool_private sizes = {
		.mbuf_data_room_size = (uint16_t)data, .mbuf_priv_size = (uint16_t)priv};
	struct rte_mempool *pool = rte_mempool_create_empty(name, n,
		(unsigned int)sizeof(struct rte_mbuf) + priv + data, RTE_MIN(cache, n * 2 / 3),
		sizeof(sizes), socket, packed ? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0);
	int rc;

	if (pool == NULL)
		return NULL;
	rc = rte_mempool_set_ops_byname(pool, ops, NULL);
	if (rc == 0) {
		rte_pktmbuf_pool_init(pool, &sizes);
		rc = rte_mempool_populate_default(pool);
	}
	if (rc < 0) {
		rte_mempool_free(pool);
		rte_errno = -rc;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	if (packed)
		rte_mempool_obj_iter(pool, address_is_iova, NULL);
	return pool;
}

#define LCORES "ring_mt_rts"

struct rte_mempool *
pktbuf_packet_pool(
	const char *name, unsigned int n, unsigned int data_bytes, unsigned int cache, int socket)
{
	return make(name, LCORES, n, PKTBUF_PRIV_BYTES, data_bytes + RTE_PKTMBUF_HEADROOM, cache,
		socket);
}

struct rte_mempool *
pktbuf_header_pool(const char *name, unsigned int n, unsigned int cache, int socket)
{
	return make(name, LCORES, n, PKTBUF_SMALL_PRIV_BYTES,
		PKTBUF_HEADER_DATA_BYTES + RTE_PKTMBUF_HEADROOM, cache, socket);
}

struct rte_mempool *
pktbuf_attach_pool(const char *name, unsigned int n, unsigned int cache, int socket)
{
	return make(name, LCORES, n, PKTBUF_SMALL_PRIV_BYTES, 0, cache, socket);
}

struct rte_mempool *
pktbuf_stack_pool(const char *name, unsigned int n, unsigned int data_bytes, int socket)
{
	return make(name, "stack", n, 0, data_bytes + RTE_PKTMBUF_HEADROOM, 0, socket);
}

struct rte_mbuf *
pktbuf_packet_copy(struct rte_mbuf *packet, struct rte_mempool *pool)
{
	struct rte_mbuf *copy = rte_pktmbuf_copy(packet, pool, 0, UINT32_MAX);

	rte_pktmbuf_free(packet);
	return copy;
}

/* Header and trailer of an object, alignment, and its place in the ring. */
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

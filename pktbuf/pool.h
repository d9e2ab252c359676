/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mbuf pools. Three kinds of a switch:
 *
 *   packets   received packets and copies; with a private area of PKTBUF_PRIV_BYTES, where the
 *             engines keep the state of a thread that hops to another lcore
 *   headers   the headers of results and replies, and small payloads
 *   attaches  mbufs without data, through which a result refers to its payload; the private area
 *             holds the reference count
 *
 * These use the ring_mt_rts mempool: if an lcore is preempted while it exchanges mbufs with the
 * common ring, the others continue. With DPDK's default they would spin until it runs again, which
 * stops a machine whose lcores share CPUs (DPDK Programmer's Guide, Ring Library, "Relaxed Tail
 * Sync").
 */
#ifndef PKTBUF_POOL_H
#define PKTBUF_POOL_H

#include <stddef.h>

#include <rte_mbuf.h>

#define PKTBUF_PRIV_BYTES        192 /* private area of a packet mbuf */
#define PKTBUF_SMALL_PRIV_BYTES  64 /* private area of header and attach mbufs */
#define PKTBUF_HEADER_DATA_BYTES 640 /* room of a header mbuf behind the headroom */

/* The pools of a switch. */
struct pktbuf_pools {
	struct rte_mempool *packets, *headers, *attaches;
};

/*
 * Make a pool of n mbufs, each lcore caching up to `cache` of them ([0, 512], at most n / 1.5).
 * data_bytes: the largest frame, or the driver's frame size when that is larger (net_af_packet
 * copies a whole ring frame); headroom is added. Control thread, after EAL. Returns NULL with
 * rte_errno. The caller frees with rte_mempool_free when every mbuf is back.
 */
struct rte_mempool *pktbuf_packet_pool(
	const char *name, unsigned int n, unsigned int data_bytes, unsigned int cache, int socket);
struct rte_mempool *pktbuf_header_pool(
	const char *name, unsigned int n, unsigned int cache, int socket);
struct rte_mempool *pktbuf_attach_pool(
	const char *name, unsigned int n, unsigned int cache, int socket);

/*
 * For threads that are no lcores and take turns under a lock: no cache, no private area, and the
 * mbuf that was freed last is the next one. For the rest as pktbuf_packet_pool().
 */
struct rte_mempool *pktbuf_stack_pool(
	const char *name, unsigned int n, unsigned int data_bytes, int socket);

/* Approximate bytes of such a pool (the ring and per-object overhead are estimated). */
size_t pktbuf_packet_pool_bytes(unsigned int n, unsigned int data_bytes);
size_t pktbuf_header_pool_bytes(unsigned int n);
size_t pktbuf_attach_pool_bytes(unsigned int n);

/*
 * Copy the packet and its bytes into one mbuf, or a chain if one is too short. Consumes the packet,
 * even on failure. NULL: the pool is empty. The thread that owns the packet. Cost: an mbuf, and a
 * copy of all bytes.
 */
struct rte_mbuf *pktbuf_packet_copy(struct rte_mbuf *packet, struct rte_mempool *pool);

/* The private area of an mbuf of one of these pools; aligned to 64 bytes. */
static inline void *
pktbuf_priv(struct rte_mbuf *packet)
{
	return rte_mbuf_to_priv(packet);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Damage to packets, made on purpose. Any thread that owns the packet. */
#ifndef PKTBUF_ALTER_H
#define PKTBUF_ALTER_H

#include <stdint.h>

#include <rte_mbuf.h>

/*
 * A copy of a packet in one piece, whose bytes are nobody else's, and whose checksums neither a
 * device nor a flag vouches for: those that a device was to write are written here, and those that
 * one has found right are to be looked at again. NULL: the pool is empty, or the packet too long for
 * one of its mbufs. Copies the packet.
 */
struct rte_mbuf *pktbuf_bare_copy(const struct rte_mbuf *packet, struct rte_mempool *pool);

/* Flip a bit of a packet in one piece; bit: [0, 8 * data_len). */
void pktbuf_flip_bit(struct rte_mbuf *packet, uint32_t bit);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Deliberate damage to packets. For the thread that owns the packet. */
#ifndef PKTBUF_ALTER_H
#define PKTBUF_ALTER_H

#include <stdint.h>

#include <rte_mbuf.h>

/*
 * Copy a packet into one mbuf with its own bytes. No device or flag vouches for the copy's
 * checksums: those that a device was to write are written here, and those that it has verified must
 * be verified again. NULL: the pool is empty, or the packet too long for one of its mbufs.
 */
struct rte_mbuf *pktbuf_bare_copy(const struct rte_mbuf *packet, struct rte_mempool *pool);

/* Flip a bit of a packet in one piece; bit: [0, 8 * data_len). */
void pktbuf_flip_bit(struct rte_mbuf *packet, uint32_t bit);

#endif

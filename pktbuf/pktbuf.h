/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet buffers: everything that touches the bytes of a packet. The room's public page.
 *
 *   types.h     types of elements and operations (no DPDK; part of libweir's header)
 *   wire.h      the aggregation protocol's headers (no DPDK; the hosts use it, too)
 *   pool.h      mbuf pools, and the private area that a packet carries
 *   head.h      the first 192 bytes of a packet, parsed once
 *   cursor.h    the rest, in contiguous spans over a chain of mbufs
 *   checksum.h  IPv4 and UDP checksums of what arrives; sums of what will leave
 *   result.h    results and replies: one small header mbuf per destination, the payload attached
 *               by reference
 *   port.h      ethdev ports: open, start, receive
 *   outq.h      output queues: two priorities, bounded
 *
 * Trio's packet buffer splits a packet into a head, which goes to the thread, and a tail, which
 * stays and is read in chunks; so here: head.h and cursor.h.
 *
 * Ownership: a pool, a port's queue and an output queue belong to one lcore each, except that any
 * lcore may free any mbuf. No lock and no atomic operation of our own; DPDK's pools exchange
 * mbufs between lcores in bulk, through a ring.
 */
#ifndef PKTBUF_PKTBUF_H
#define PKTBUF_PKTBUF_H

#include "pktbuf/checksum.h"
#include "pktbuf/cursor.h"
#include "pktbuf/head.h"
#include "pktbuf/outq_fast.h"
#include "pktbuf/pool.h"
#include "pktbuf/port.h"
#include "pktbuf/result.h"
#include "pktbuf/wire/wire.h"

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet buffers: everything that touches the bytes of a packet. The public header of this folder.
 *
 *   wire/       element types and the protocol's headers (no DPDK; hosts use them too)
 *   pool.h      mbuf pools, and the private area that a packet carries
 *   head.h      the first 192 bytes of a packet, parsed once
 *   cursor.h    the rest, in contiguous spans over a chain of mbufs
 *   checksum.h  IPv4 and UDP checksums of received packets; sums for results
 *   result.h    results and replies: one small header mbuf per destination, the payload attached
 *               by reference
 *   port.h      ethdev ports: open, start, receive
 *   memif.h     what ports of net_memif need besides
 *   outq.h      output queues: two priorities, bounded
 *
 * Trio's packet buffer splits a packet into a head, which goes to the thread, and a tail, which
 * stays and is read in chunks. head.h and cursor.h do the same.
 *
 * Ownership: a pool, a port's queue and an output queue belong to one lcore each, but any lcore may
 * free any mbuf. There is no lock and no atomic operation besides those of DPDK's pools, which
 * exchange mbufs between lcores in bulk, through a ring.
 */
#ifndef PKTBUF_PKTBUF_H
#define PKTBUF_PKTBUF_H

#include "pktbuf/checksum.h"
#include "pktbuf/cursor.h"
#include "pktbuf/head.h"
#include "pktbuf/outq_fast.h"
#include "pktbuf/pool.h"
#include "pktbuf/port.h"
#include "pktbuf/result_fast.h"
#include "pktbuf/wire/wire.h"

#endif

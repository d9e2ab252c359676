/* SPDX-License-Identifier: BSD-3-Clause */
/* What ThreadSanitizer must be told of a rig: handover.c. Nothing without it. */
#ifndef TESTS_THREAD_HANDOVER_H
#define TESTS_THREAD_HANDOVER_H

#include <rte_mbuf.h>

#ifdef __SANITIZE_THREAD__

/* Once, after EAL has started: of all mempools. */
void handover_pools(void);

/* Of the queues of a port that is open: what workers and port give each other. */
void handover_port(uint16_t port, uint16_t queues);

/* The caller gives a packet to a ring that a port reads, or has it from one that a port writes. */
void handover_put(struct rte_mbuf *packet);
void handover_get(struct rte_mbuf *packet);

#else

#define handover_pools()            ((void)0)
#define handover_port(port, queues) ((void)(port))
#define handover_put(packet)        ((void)(packet))
#define handover_get(packet)        ((void)(packet))

#endif

#endif

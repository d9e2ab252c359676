/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports of net_memif. Its driver (DPDK 22.11 to 25.11) handles peers in EAL's interrupt thread
 * and does not wait for the threads that receive and send: when a peer goes away, it unmaps
 * memory that they may be reading, and a stop at the same time frees that memory twice. So the
 * driver's munmap() is replaced by one that waits for those threads, and ports are stopped and
 * closed in the interrupt thread.
 */
#ifndef PKTBUF_MEMIF_H
#define PKTBUF_MEMIF_H

#include <stdint.h>

#include <rte_version.h>

/* The driver, and the prefix of its devices' names. */
#define PKTBUF_MEMIF "net_memif"

/* May a packet that one mbuf can hold be sent as a chain? DPDK 24.11 sets MEMIF_DESC_FLAG_NEXT for
 * a chain and never clears it: the next packet in that slot of the ring takes others with it. */
#define PKTBUF_MEMIF_CHAINS (RTE_VERSION < RTE_VERSION_NUM(23, 0, 0, 0))

/*
 * Before a port starts: wait(arg), in EAL's interrupt thread, returns when every receive and
 * send that has begun has returned. NULL: nobody receives or sends any more; returns when no
 * wait() runs. Control thread, once EAL has loaded the driver. If the driver's munmap() cannot
 * be replaced, the log says so.
 */
void pktbuf_memif_guard(void (*wait)(void *arg), void *arg);

/* Stop and close an ethdev, in the interrupt thread, and wait: no peer comes in between. */
void pktbuf_memif_close(uint16_t port);

#endif

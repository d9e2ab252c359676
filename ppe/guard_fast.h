/* SPDX-License-Identifier: BSD-3-Clause */
/* The guard's checks, inline. Segments call them; see ppe/guard.h. */
#ifndef PPE_GUARD_FAST_H
#define PPE_GUARD_FAST_H

#include <rte_ether.h>

#include "ppe/guard.h"
#include "ppe/worker_priv.h"

/* A MAC address as a key of a hash table. */
static inline uint64_t
guard_mac_key(const uint8_t *mac)
{
	uint64_t key = 0;

	memcpy(&key, mac, RTE_ETHER_ADDR_LEN);
	return key;
}

/*
 * Returns whether the frame may carry its source addresses on its port; otherwise drops it. job:
 * its bindings of the packet's own IPv4 address do not count, because the packet may prove that its
 * source has moved; or GUARD_NO_JOB. Cost: few instructions; with bindings or lists, a lookup per
 * address.
 */
static inline bool
guard_passes(struct ppe_worker *worker, struct ppe_thread *thread, int job)
{
	const struct pktbuf_head *head = &thread->head;

	if (likely(worker->guard->active == 0 && (head->flags & PKTBUF_HEAD_IPV4) != 0 &&
		    head->ip_src != worker->identity->ip &&
		    memcmp(head->bytes + RTE_ETHER_ADDR_LEN, worker->identity->mac,
			    RTE_ETHER_ADDR_LEN) != 0))
		return true;
	return guard_examine(worker, thread, job);
}

/* Returns whether a frame conforms; otherwise counts it. The exception port has no limits. */
static inline bool
guard_conforms(struct ppe_worker *worker, uint16_t port, enum guard_policer which)
{
	struct rmw_policer *policer = &worker->guard->policer[port][which];

	if (policer->burst == 0 || port == worker->exception_port ||
		likely(rmw_police(policer, worker->now, 1)))
		return true;
	worker->count.policed[port]++;
	return false;
}

#endif

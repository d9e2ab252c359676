/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ports between the generator, which is this process, and a device under test.
 *
 * net_memif: the generator is the server, the device the client: the client's memory holds the
 * rings, and only a client can have zero-copy. A frame lies in one slot: `bsize` and all mbufs are
 * as large as the largest frame. The fast paths of the driver need exactly that, and DPDK 22.11
 * copies a segment of a chain past the end of a smaller slot.
 *
 * net_af_packet: a veth pair per port, in a network namespace that the bench has entered.
 *
 * For the main thread.
 */
#ifndef APPS_BENCH_LINK_H
#define APPS_BENCH_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#define LINK_PORTS  2
#define LINK_BURST  32
#define LINK_DEVICE 200

struct link_config {
	const char *name; /* of the device under test, [1, 16] letters; unique */
	bool af_packet; /* else memif */
	bool zero_copy; /* memif: at the device */
	unsigned int frame_bytes; /* the largest, without frame check sequence */
	unsigned int slots; /* memif: of a ring, a power of two */
};

struct link {
	uint16_t port[LINK_PORTS]; /* ethdevs of the generator */
	unsigned int ports; /* that are open */
	unsigned int veth; /* number of the veth pairs; 0: none */
	unsigned int buffer_bytes; /* data room that the device's mbufs must have */
	struct rte_mempool *pool;
	char device[LINK_PORTS][LINK_DEVICE]; /* the device's ends, for its EAL */
};

/* Enter a network namespace of our own, which goes with the last process in it. Before EAL and
 * children. 0, or -1 after a line. */
int link_enter_namespace(void);

/* Make the ports; those of memif listen for the device then. 0, or -1 after a line. */
int link_open(struct link *link, const struct link_config *config);

/* Are all ports up? After the device has started. */
bool link_is_up(const struct link *link);

void link_close(struct link *link);

#endif

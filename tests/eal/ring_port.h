/* SPDX-License-Identifier: BSD-3-Clause */
/* A port made of two small rings, for the tests of pktbuf. Main thread. */
#ifndef TESTS_EAL_RING_PORT_H
#define TESTS_EAL_RING_PORT_H

#include <stdio.h>

#include <criterion/criterion.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include "pktbuf/pktbuf.h"

#define DEVICE 15u /* packets that a ring takes */

static struct pktbuf_port port;
static struct rte_ring *to, *from;

/* A queue each way. */
static inline struct pktbuf_port_config
config_of(const char *device)
{
	struct pktbuf_port_config config = {.name = "p",
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 64,
		.tx_descriptors = 64};

	snprintf(config.device, sizeof(config.device), "%s", device);
	return config;
}

/* What is in `to` is received from net_ring_small, what it sends is in `from`. */
static inline void
open_port(struct rte_mempool *packets)
{
	struct pktbuf_port_config config = config_of("net_ring_small");

	to = rte_ring_create("to", DEVICE + 1, 0, 0);
	from = rte_ring_create("from", DEVICE + 1, 0, 0);
	cr_assert(to && from);
	cr_assert_geq(rte_eth_from_rings("small", &to, 1, &from, 1, 0), 0);
	cr_assert_eq(pktbuf_port_open(&port, &config, packets), 0);
	cr_assert_eq(pktbuf_port_start(&port), 0);
}

#endif

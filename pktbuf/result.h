/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results and replies: what the switch itself sends.
 *
 * A result is a chain of two mbufs per destination: a small header mbuf (Ethernet, IPv4, UDP,
 * aggregation header), and an attach mbuf that refers to the payload where it lies. Each attach
 * mbuf carries its own reference count of 1 in its private area, so no count is shared between
 * destinations or lcores: freeing it calls `released` once, on the lcore that frees, and the
 * payload's owner counts. The payload is never copied here.
 *
 * Checksums: the payload's sum is computed once per block by the caller; each destination's header
 * is added to it, or the device does it all.
 */
#ifndef PKTBUF_RESULT_H
#define PKTBUF_RESULT_H

#include <stdint.h>

#include <rte_mbuf.h>

#include "pktbuf/pool.h"
#include "pktbuf/port.h"
#include "pktbuf/wire.h"

/* Who the switch is. Host order. */
struct pktbuf_identity {
	uint8_t mac[6];
	uint16_t port_base, port_ext; /* UDP ports of the two header forms */
	uint32_t ip;
};

/* Where a packet goes. Host order. */
struct pktbuf_endpoint {
	uint8_t mac[6];
	uint16_t port; /* switch port, by index */
	uint32_t ip;
	uint16_t udp;
	uint8_t extended; /* the header form that it understands */
	uint8_t valid;
};
static_assert(sizeof(struct pktbuf_endpoint) == 16, "a quarter of a cache line");

/* A payload to refer to. */
struct pktbuf_payload {
	void *data; /* must stay until `released` has been called for each result built */
	rte_iova_t iova;
	uint32_t bytes; /* [1, 65000] */
	uint32_t sum; /* pktbuf_sum_bytes() of it */
	rte_mbuf_extbuf_free_callback_t released; /* (data, opaque), on the freeing thread */
	void *opaque;
};

/*
 * Build a result for `to`, leaving by `port` (whose checksum mode counts). header->extended says
 * the form. The chain is the caller's. NULL: a pool is empty; nothing was attached. Worker.
 * Cost: 4 lines written (two mbufs, header data, the count); the payload is not touched.
 */
struct rte_mbuf *pktbuf_result_build(const struct pktbuf_pools *pools,
	const struct pktbuf_port *port, const struct pktbuf_identity *identity,
	const struct pktbuf_endpoint *to, const struct weir_header *header,
	const struct pktbuf_payload *payload);

/* The same with a small payload that is copied behind the header: at most 64 bytes, NULL with 0. */
struct rte_mbuf *pktbuf_reply_build(const struct pktbuf_pools *pools,
	const struct pktbuf_port *port, const struct pktbuf_identity *identity,
	const struct pktbuf_endpoint *to, const struct weir_header *header, const void *payload,
	uint8_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results and replies, the packets that the switch itself sends.
 *
 * A result goes to many destinations, block after block. Constant parts are written once: a *header
 * template* per destination (Ethernet, IPv4 and UDP headers, and their partial checksums), and per
 * block the *shared header* of all copies (aggregation header, lengths, payload sum). A result then
 * takes a copy of one line, two lengths, and the folding of two sums.
 *
 * A small payload is copied behind the headers. A larger one is never copied: the packet is a chain
 * of a header mbuf and an attach mbuf that refers to the payload. Each attach mbuf carries its own
 * reference count of 1 in its private area, so destinations and lcores share no count: freeing it
 * calls `released` once, on the lcore that frees it, and the payload's owner counts. At the limit
 * between small and large, a copy costs as much as creating and freeing an attach mbuf.
 *
 * Checksums: the payload's sum is computed once per block by the caller, and only when some port
 * needs it (pktbuf_port.tx_checksum).
 */
#ifndef PKTBUF_RESULT_H
#define PKTBUF_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "pktbuf/pool.h"
#include "pktbuf/port.h"
#include "pktbuf/wire/wire.h"

/* The largest payload, in bytes, that is copied. */
#define PKTBUF_COPY_BYTES 512

/* The switch's own addresses. Host order. */
struct pktbuf_identity {
	uint8_t mac[6];
	uint16_t port_base, port_ext; /* UDP ports of the two header forms */
	uint32_t ip;
	/* computed by ppe_create: */
	uint16_t ports; /* UDP ports of each form, for hosts to choose from: weir_block_port() */
	uint16_t port_any; /* bits in which these differ; neither form's own port has one of them */
};

/* Is the UDP port the form's own (port_base, port_ext) or one of its others? */
static inline bool
pktbuf_port_is(const struct pktbuf_identity *self, uint16_t udp, uint16_t form)
{
	return ((udp ^ form) & ~self->port_any) == 0;
}

/* A destination. Host order. */
struct pktbuf_endpoint {
	uint8_t mac[6];
	uint16_t port; /* switch port, by index */
	uint32_t ip;
	uint16_t udp;
	uint8_t extended; /* the header form */
	uint8_t valid : 1;
	uint8_t skips_own : 1; /* its own slices are left out: pktbuf/wire/collectives.h */
};
static_assert(sizeof(struct pktbuf_endpoint) == 16, "a quarter of a cache line");

/* A destination's headers. Sums are unfolded, in host order, without lengths. */
struct pktbuf_header_template {
	uint8_t frame[42]; /* lengths and checksums are 0 */
	uint16_t port; /* switch port, by index */
	uint32_t ip_sum; /* of the IPv4 header */
	uint32_t pseudo_sum; /* of the UDP pseudo-header */
	uint32_t udp_sum; /* of the pseudo-header and the UDP header */
	uint8_t extended;
	uint8_t source; /* src_id of results to it */
	uint8_t spare[6];
} __rte_cache_aligned;
static_assert(
	sizeof(struct pktbuf_header_template) == RTE_CACHE_LINE_SIZE, "one line per destination");

/* The common part of all copies of a result, in one header form. */
struct pktbuf_shared_header {
	uint8_t header[WEIR_EXT_BYTES]; /* src_id 0 */
	uint8_t header_bytes;
	uint16_t ip_length, udp_length; /* big-endian, as in the headers */
	uint32_t sum; /* of lengths, header and payload; as a template's */
	uint32_t constant; /* of it: lengths, and the header from its second word on */
};

/* A payload to copy or to refer to. */
struct pktbuf_payload {
	void *data; /* if referred to, valid until `released` was called for each result built */
	rte_iova_t iova;
	uint32_t bytes; /* [0, 65000] */
	uint32_t sum; /* pktbuf_sum_bytes() of it, when a port computes checksums in software */
	rte_mbuf_extbuf_free_callback_t released; /* (data, opaque), on the freeing thread */
	void *opaque;
};

/* Is this payload referred to, rather than copied? */
static inline bool
pktbuf_payload_referred(const struct pktbuf_payload *payload)
{
	return payload->bytes > PKTBUF_COPY_BYTES;
}

/* Write the header template of an endpoint. source: the src_id of results to it. Any thread. */
void pktbuf_header_template_write(struct pktbuf_header_template *out,
	const struct pktbuf_identity *identity, const struct pktbuf_endpoint *to, uint8_t source);

/* Write the shared header of a header and a payload, in the form of header->extended; src_id is
 * ignored. Any thread. */
void pktbuf_shared_header_write(struct pktbuf_shared_header *shared,
	const struct weir_header *header, const struct pktbuf_payload *payload);

/* Mbufs that are taken from a pool together. */
#define PKTBUF_SUPPLY_MAX 64
struct pktbuf_supply {
	struct rte_mempool *pool;
	unsigned int wanted; /* about this many more */
	unsigned int n;
	struct rte_mbuf *mbuf[PKTBUF_SUPPLY_MAX];
};

/* Results that are built one after the other: pktbuf_results_begin(), pktbuf_result_build() for
 * each, and pktbuf_results_end(), in pktbuf/result_fast.h. Worker. */
struct pktbuf_results {
	const struct pktbuf_port *const *port; /* by index */
	struct pktbuf_supply headers, attaches;
};

/* Take more mbufs; returns the next. NULL: the pool is empty. */
struct rte_mbuf *pktbuf_supply_refill(struct pktbuf_supply *supply);

/* Append another payload, by reference, to a result that was just built with a referred one, and
 * whose shared header includes it already. false: the pool is empty, and the result unchanged.
 * Worker. */
bool pktbuf_result_add(
	struct pktbuf_results *results, struct rte_mbuf *result, const struct pktbuf_payload *more);

/*
 * Append at most 64 bytes, copied, to a result that was just built; its shared header includes them
 * already. 0; -ENOMEM: the pool is empty, and the result unchanged. Worker.
 */
int pktbuf_result_end(
	const struct pktbuf_pools *pools, struct rte_mbuf *result, const void *end, uint32_t bytes);

/*
 * One reply to one endpoint, with a payload of at most 255 bytes that is copied behind the header,
 * NULL with 0. The packet is the caller's. NULL: the pool is empty. Worker.
 */
struct rte_mbuf *pktbuf_reply_build(const struct pktbuf_pools *pools,
	const struct pktbuf_port *const *port, const struct pktbuf_identity *identity,
	const struct pktbuf_endpoint *to, const struct weir_header *header, const void *payload,
	uint8_t bytes);

#endif

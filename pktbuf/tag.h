/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tags of authenticated jobs: GMAC with AES-256 (NIST SP 800-38D) for contributions and results,
 * HMAC-SHA256 (RFC 2104) for keys, joins and replies.
 *
 * GMAC comes from ipsec_mb, the library of DPDK's software crypto devices, HMAC from OpenSSL
 * (docs/architecture.md). Two messages must never share a GMAC key and nonce, or
 * an attacker can forge any packet. So a key lives for one generation, and the nonce is the block's
 * number, which occurs once in it.
 */
#ifndef PKTBUF_TAG_H
#define PKTBUF_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "pktbuf/wire/wire.h"

/* An expanded key of GMAC, without pointers: 1008 bytes in ipsec_mb 1.3, 1264 in 2.0. */
struct pktbuf_tag_key {
	uint8_t expanded[1280];
} __rte_cache_aligned;

/* A message's nonce. */
struct pktbuf_nonce {
	uint64_t number; /* of the block in its generation, [0, 2^64) */
	uint32_t slice; /* 24 bits: receiver's rank + 1 if results differ by receiver; else 0 */
	uint8_t status; /* enum weir_status; 0 in a contribution */
};

/* HMAC's working memory: one per thread that uses it. */
struct pktbuf_hmac;

/* Choose the implementation for this CPU. Control thread; may be repeated. 0, -ENOTSUP, -ENOMEM. */
int pktbuf_tag_init(void);

/* Expand a key. After pktbuf_tag_init(); any thread. Cost: 0.1 us. */
void pktbuf_tag_expand(struct pktbuf_tag_key *key, const uint8_t bytes[WEIR_KEY_BYTES]);

/*
 * Make the tag of a message: header, then payload. Any thread. Cost: 30 ns, and 1 ns per 18 bytes.
 */
void pktbuf_tag_make(const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce,
	const uint8_t header[WEIR_EXT_BYTES], const void *payload, uint32_t bytes,
	uint8_t tag[WEIR_TAG_BYTES]);

/* pktbuf_tag_make() for a payload in n pieces. */
struct pktbuf_piece {
	const void *data;
	uint32_t bytes;
};
void pktbuf_tag_make_pieces(const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce,
	const uint8_t header[WEIR_EXT_BYTES], const struct pktbuf_piece *pieces, unsigned int n,
	uint8_t tag[WEIR_TAG_BYTES]);

/*
 * Returns whether the tag behind a message is right. The message is bytes [offset, offset + length)
 * of the packet, followed by at least WEIR_TAG_BYTES; any segmentation. Compares in constant time.
 * Cost: as pktbuf_tag_make(). next: as many bytes that will be read next, prefetched meanwhile;
 * NULL: none.
 */
bool pktbuf_tag_holds(const struct pktbuf_tag_key *key, struct pktbuf_nonce nonce,
	const struct rte_mbuf *packet, uint32_t offset, uint32_t length, const uint8_t *next);

/* Returns whether two tags are equal, in constant time. */
bool pktbuf_tag_equal(const uint8_t a[WEIR_TAG_BYTES], const uint8_t b[WEIR_TAG_BYTES]);

/* Control thread. NULL: no memory. */
struct pktbuf_hmac *pktbuf_hmac_create(void);
void pktbuf_hmac_destroy(struct pktbuf_hmac *hmac); /* NULL is fine */

/*
 * HMAC-SHA256 of a message of at most 255 bytes. false: no memory, and `out` is zeros. For the
 * thread that owns hmac. Cost: 0.6 us, and OpenSSL allocates, so not for every packet.
 */
bool pktbuf_hmac(struct pktbuf_hmac *hmac, const uint8_t key[WEIR_KEY_BYTES], const void *message,
	size_t bytes, uint8_t out[WEIR_KEY_BYTES]);

/* HMAC's message for the key of a source: label, src_id, epoch. Any thread. */
#define PKTBUF_SOURCE_MESSAGE_BYTES (sizeof(WEIR_LABEL_SOURCE) - 1 + 1 + 8)
void pktbuf_source_message(
	uint8_t source, uint64_t epoch, uint8_t message[PKTBUF_SOURCE_MESSAGE_BYTES]);

/* The key of a source in an epoch, from the job's: with it the source proves its joins. Any thread.
 * false: no memory. OpenSSL allocates. */
bool pktbuf_member_key(const uint8_t job[WEIR_KEY_BYTES], uint8_t source, uint64_t epoch,
	uint8_t key[WEIR_KEY_BYTES]);

#endif

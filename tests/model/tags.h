/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys and tags of proved joins and authenticated jobs as docs/protocol.md says them, by OpenSSL alone and one call
 * at a time, and CRC32C bit by bit: what the switch and the hosts' library are compared with.
 */
#ifndef TESTS_MODEL_TAGS_H
#define TESTS_MODEL_TAGS_H

#include <stddef.h>
#include <stdint.h>

#include "pktbuf/wire/wire.h"

void tags_source_key(const uint8_t job[32], uint8_t source, uint64_t epoch, uint8_t key[32]);

/* The keys of a generation: contributions' (from the source's key), results' (from the job's). */
void tags_contributions_key(const uint8_t source[32], const uint8_t challenge[16],
	uint16_t generation, uint8_t key[32]);
void tags_results_key(
	const uint8_t job[32], const uint8_t challenge[16], uint16_t generation, uint8_t key[32]);

/* The results' key as the accepted reply to a join has it, or back. */
void tags_wrap(const uint8_t source[32], const uint8_t nonce[16], const uint8_t challenge[16],
	uint16_t generation, uint8_t key[32]);

/* GMAC of header and payload. */
void tags_gmac(const uint8_t key[32], uint8_t status, uint64_t number, const uint8_t header[16],
	const void *payload, size_t bytes, uint8_t tag[16]);

/* The same of a result that differs by receiver: slice is its rank + 1. */
void tags_gmac_slice(const uint8_t key[32], uint32_t slice, uint8_t status, uint64_t number,
	const uint8_t header[16], const void *payload, size_t bytes, uint8_t tag[16]);

/* The first 16 bytes of HMAC-SHA256 of up to three pieces, one after the other. */
void tags_hmac(const uint8_t key[32], const char *label, const void *a, size_t a_bytes,
	const void *b, size_t b_bytes, uint8_t tag[16]);

/* The tag of a proved join, from header and proof. address, port: of the sender, host order. */
void tags_join(const uint8_t source[32], uint32_t address, uint16_t port,
	const uint8_t join[WEIR_EXT_BYTES + sizeof(struct weir_join_proof)], uint8_t tag[16]);

/* The CRC of what had the CRC `crc` (0: nothing) and of these bytes behind it. RFC 3720, appendix B.4. */
uint32_t tags_crc32c(uint32_t crc, const uint8_t *bytes, size_t n);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A source's key: the proofs of its joins, and in an authenticated job the tags of all packets
 * (docs/protocol.md, "Authenticated jobs"). OpenSSL does the cryptography. One thread at a time may
 * use it.
 */
#ifndef APPS_LIBWEIR_AUTH_H
#define APPS_LIBWEIR_AUTH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "pktbuf/wire/wire.h"

struct weir_auth;

void weir_auth_destroy(struct weir_auth *auth); /* NULL is fine */

/* Draw the nonce of a join; its first 4 bytes are the block id. */
int weir_auth_draw(struct weir_auth *auth, uint32_t *block_id);

/*
 * Write a join's payload and tag after its header. Returns the bytes of the packet, 0 on failure.
 * Each call is a transmission; the join carries their count. from: the address and port that the
 * join is sent from.
 */
size_t weir_auth_join(struct weir_auth *auth, const struct sockaddr_in *from, uint8_t *packet);

/* Quote this challenge of the switch in the next joins. false: it is quoted already. */
bool weir_auth_challenge(struct weir_auth *auth, const uint8_t challenge[WEIR_CHALLENGE_BYTES]);

/* Derive the generation's keys, after the switch of an authenticated job has accepted the join
 * under the quoted challenge. wrapped: the results' key, from the reply. false: no memory. */
bool weir_auth_begin(
	struct weir_auth *auth, uint16_t generation, const uint8_t wrapped[WEIR_KEY_BYTES]);

/*
 * Compute the tag of a contribution (what: WEIR_IV_CONTRIBUTION; pieces: its header and payload),
 * or of an acknowledgement (WEIR_IV_ACKNOWLEDGE; a header). false: no memory, and the tag is zeros.
 */
bool weir_auth_tag(struct weir_auth *auth, uint32_t what, uint64_t number,
	const struct iovec *pieces, unsigned int n, uint8_t tag[WEIR_TAG_BYTES]);

/* Is this packet of `bytes`, with its tag at the end, the block's result? slice: rank + 1 if the
 * result is for this receiver alone; else 0. */
bool weir_auth_result(struct weir_auth *auth, uint64_t number, uint32_t slice,
	const uint8_t *packet, size_t bytes);

/* Is this packet the answer to the packet with the tag `answered`? NULL: to the join. */
bool weir_auth_reply(struct weir_auth *auth, const uint8_t answered[WEIR_TAG_BYTES],
	const uint8_t *packet, size_t bytes);

#endif

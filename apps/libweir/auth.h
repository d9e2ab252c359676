/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A source's key: the proofs of its joins, and in an authenticated job the tags of all packets (docs/protocol.md,
 * "Authenticated jobs"). All by OpenSSL. One thread at a time.
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

/* key: this source's; or, if of_job, the job's, of which the source's is derived. 0 or -ENOMEM. */
int weir_auth_create(
	struct weir_auth **auth, const uint8_t key[WEIR_KEY_BYTES], bool of_job, uint8_t source);
void weir_auth_destroy(struct weir_auth *auth); /* NULL is fine */

/* Draw the nonce of a join; its first 4 bytes are the block id. */
int weir_auth_draw(struct weir_auth *auth, uint32_t *block_id);

/* Write a join's payload and tag behind its header; returns the bytes of all, 0 on failure. Each call is a transmission
 * of the join, which counts them. from: the address and port that it is sent from. */
size_t weir_auth_join(struct weir_auth *auth, const struct sockaddr_in *from, uint8_t *packet);

/* The switch's challenge; false: it is the one that is quoted already. */
bool weir_auth_challenge(struct weir_auth *auth, const uint8_t challenge[WEIR_CHALLENGE_BYTES]);

/* The join is accepted under the challenge that is quoted, in an authenticated job: the generation's keys. wrapped: the
 * results' key, as the reply has it. false: no memory. */
bool weir_auth_begin(
	struct weir_auth *auth, uint16_t generation, const uint8_t wrapped[WEIR_KEY_BYTES]);

/*
 * The tag of a contribution (what: WEIR_IV_CONTRIBUTION), its header and payload in pieces, or of an acknowledgement
 * (WEIR_IV_ACKNOWLEDGE), a header. false: no memory, and the tag is zeros.
 */
bool weir_auth_tag(struct weir_auth *auth, uint32_t what, uint64_t number,
	const struct iovec *pieces, unsigned int n, uint8_t tag[WEIR_TAG_BYTES]);

/* Whether a packet of `bytes`, its tag at the end, is the block's result. slice: rank + 1 where it is for this
 * receiver alone; else 0. */
bool weir_auth_result(struct weir_auth *auth, uint64_t number, uint32_t slice,
	const uint8_t *packet, size_t bytes);

/* Whether a packet is the answer to what has this tag; NULL: to the join. */
bool weir_auth_reply(struct weir_auth *auth, const uint8_t answered[WEIR_TAG_BYTES],
	const uint8_t *packet, size_t bytes);

#endif

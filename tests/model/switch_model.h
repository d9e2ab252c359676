/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference switch: docs/protocol.md for one job, slow and obvious.
 *
 * A state machine without clock, threads, sockets or randomness: datagrams go in with the time,
 * datagrams come out through a callback. What the real switch does is compared with it, and it is
 * what libweir is tested against. It favours being read beside the page over everything else: it
 * keeps whole blocks in plain arrays, copies, and adds element by element.
 *
 * It serves every collective, type and operation; sources' ranks are their ids. Floating point is reduced in
 * the order of arrival.
 * One thread at a time.
 */
#ifndef TESTS_MODEL_SWITCH_MODEL_H
#define TESTS_MODEL_SWITCH_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pktbuf/wire/wire.h"

enum model_policy { MODEL_WAIT, MODEL_PARTIAL, MODEL_ERROR };

struct model_config {
	uint8_t job;
	unsigned int sources; /* [1, 256]; their ids are [0, sources) */
	unsigned int window; /* a power of two */
	unsigned int elements; /* per block at most */
	bool full_rows; /* of alltoall */
	enum weir_dtype dtype; /* what the base form means */
	enum weir_op op;
	enum model_policy policy;
	uint32_t timeout_ms;
	uint32_t group; /* host order; results by multicast; 0: unicast */
	bool without_probes; /* an older switch */
	uint16_t fixed_generation; /* 0: sources join */
	unsigned int block_bits; /* block ids count modulo 2^block_bits; 0: 32 */
	uint16_t first_generation; /* the one that joins begin first; 0: 1 */
	uint32_t address[WEIR_SOURCES_MAX]; /* host order; 0: any address will do */
};

/* A UDP end point, and what of Ethernet is pinned with it: 0 where a test has no Ethernet. */
struct model_peer {
	uint32_t address; /* host order */
	uint16_t port; /* host order */
	uint8_t link; /* the switch's port that leads there */
	uint8_t mac[6];
};

/* A datagram that the switch sends, from its UDP port of the form. Valid during the callback. */
struct model_packet {
	struct model_peer to; /* of a multicast: the group at a link; the port is the form's own */
	bool multicast;
	bool extended; /* the form */
	const uint8_t *bytes; /* the UDP payload */
	size_t size;
};

typedef void (*model_send)(void *argument, const struct model_packet *packet);

/* What ppe/ppe.h counts for a job, under the same names. */
struct model_counters {
	uint64_t contributions, duplicates, late, asked_again;
	uint64_t blocks_opened, blocks_complete, blocks_partial, blocks_error, blocks_mismatch;
	uint64_t blocks_waiting, held_back, policed, expired, stale, results, joins, generations;
	uint64_t upward, upward_repeats, answers; /* 0: the model is the root of its tree */
	uint64_t acknowledged;
	uint64_t probes;
	uint64_t forged; /* 0: the model knows no keys */
	uint64_t crc; /* 0: nor CRCs */
	uint64_t expelled; /* 0: the model expels nobody */
	uint64_t revokes; /* 0: nor ends a generation */
	uint64_t unguarded; /* 0: nor binds addresses */
	uint64_t out_of_turn; /* 0: it has no deterministic jobs */
};

/* A block, for tests that look inside. */
struct model_block {
	bool held, open;
	uint32_t id;
	uint16_t elements;
	uint8_t in[WEIR_BITMAP_BYTES]; /* whose contributions are in the sum */
};

struct model;

/* NULL without memory. The model owns nothing of config afterwards. */
struct model *model_create(const struct model_config *config);
void model_destroy(struct model *model); /* NULL is fine */

/*
 * A datagram arrived at the switch's port of the form (extended or not) at now_ms (never running
 * backwards). Sends 0 to `sources` datagrams. Returns what became of the packet: "consumed",
 * "join", or the reason of its drop, in the words of docs/counters.md; a literal.
 */
const char *model_input(struct model *model, uint64_t now_ms, bool extended,
	const struct model_peer *from, const uint8_t *bytes, size_t size, model_send send,
	void *argument);

/* Time passes: blocks without a new contribution for the timeout meet the policy. */
void model_tick(struct model *model, uint64_t now_ms, model_send send, void *argument);

/* From now on this policy and this timeout hold, for open blocks too. */
void model_set_policy(struct model *model, enum model_policy policy, uint32_t timeout_ms);

/* Elements that a contribution with this header carries, by its collective. */
unsigned int model_contributed(const struct model *model, const struct weir_header *header);

/* The running generation, 0 before the first. */
uint16_t model_generation(const struct model *model);

/* Blocks held now, open and done: never more than 2 * window. */
unsigned int model_blocks(const struct model *model);

/*
 * The residue (block modulo window) that `block` is in: the block opened next, and up to two held.
 */
uint32_t model_look(const struct model *model, uint32_t block, struct model_block *older,
	struct model_block *newer);

const struct model_counters *model_count(const struct model *model);

#endif

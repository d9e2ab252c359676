/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference switch's own page: what it remembers, and how it sends (switch_model_send.c). */
#ifndef TESTS_MODEL_SWITCH_MODEL_PRIV_H
#define TESTS_MODEL_SWITCH_MODEL_PRIV_H

#include "tests/model/switch_model.h"

/* A set of sources, as on the wire. */
struct set {
	uint8_t bits[WEIR_BITMAP_BYTES];
};

struct block {
	bool held; /* the record exists */
	bool open; /* still adding; else its result is fixed */
	uint32_t id;
	uint64_t opened_ms, progress_ms;
	struct weir_header first; /* of the contribution that opened it */
	struct set in; /* whose contributions are in the sum */
	struct set heard; /* who has contributed, or tried: what acknowledges block - window */
	struct set received; /* who has said otherwise that it has the result */
	bool final; /* of every contribution */
	bool overdue; /* counted as waiting */
	uint8_t status; /* of the result */
	struct weir_mismatch mismatch;
	uint8_t *given[WEIR_SOURCES_MAX]; /* their payloads; NULL: not in */
	uint8_t order[WEIR_SOURCES_MAX]; /* of their arrival */
	unsigned int added;
};

/* The blocks of one residue modulo the window. */
struct residue {
	uint32_t next; /* the block that is opened next */
	struct block older, newer; /* older: done, not yet released */
};

struct joined {
	bool valid;
	uint32_t nonce;
	bool base_results;
	bool skips_own; /* its own slices are left out */
	bool asks_list; /* it takes the list of settings */
	struct model_peer peer;
	unsigned int order; /* of all joins */
};

struct model {
	struct model_config c;
	uint16_t generation; /* 0: none yet */
	uint16_t last_generation;
	struct joined running[WEIR_SOURCES_MAX];
	struct joined collecting[WEIR_SOURCES_MAX]; /* for the next generation */
	struct joined displaced[WEIR_SOURCES_MAX]; /* who was the source before */
	unsigned int joins;
	struct residue *residues;
	struct model_counters count;
	uint64_t now_ms;
	model_send send;
	void *argument;
};

static inline bool
set_has(const struct set *set, unsigned int s)
{
	return (set->bits[s / 8] >> (s % 8) & 1) != 0;
}

static inline void
set_add(struct set *set, unsigned int s)
{
	set->bits[s / 8] |= (uint8_t)(1u << (s % 8));
}

static inline unsigned int
set_count(const struct set *set)
{
	unsigned int n = 0;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		n += set_has(set, s);
	return n;
}

/* A reply to one packet, to where it came from, in its form, with nothing but a status. */
void model_reply(struct model *m, const struct model_peer *to, const struct weir_header *to_what,
	uint8_t status, const struct set *bitmap);

/* Tell the process that a source was before whose join has displaced it. */
void model_displaced(struct model *m, uint8_t source, const struct joined *former,
	const struct model_peer *newer);

/* Is this collective, with this root, type and operation, served? */
bool model_served(const struct model *m, const struct weir_header *h);

/* Does the contribution fit this payload, and the job? */
bool model_fits(const struct model *m, const struct weir_header *h, size_t payload);

/* Keep what a source gave; false: no memory. Forget the block. */
bool model_keep(struct block *b, uint8_t source, const uint8_t *payload, size_t bytes);
void model_forget(struct block *b);

/* What a source gets of the block; at most 8 * WEIR_ELEMENTS_MAX bytes. */
size_t model_payload(
	const struct model *m, const struct block *b, unsigned int source, uint8_t *to);

/* Do all get the same? Is what all wait for missing? */
bool model_same_for_all(const struct model *m, const struct block *b);
bool model_lacks_root(const struct block *b);

/* The fixed result of a block, to one source. */
void model_send_result(struct model *m, const struct block *b, unsigned int source,
	const struct model_peer *to, bool extended);

/* The fixed result of a block to all sources, or to the group. */
void model_send_to_all(struct model *m, const struct block *b);

/* The reply to an accepted join. */
void model_accept_join(struct model *m, uint8_t source);

#endif

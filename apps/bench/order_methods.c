/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/order_methods.h"

#include <string.h>

#include "apps/bench/exact.h"

static void
begin_or_add(const struct order_state *s, struct order_block *b, const uint8_t *payload,
	unsigned int nth)
{
	(nth == 0 ? s->sum->begin : s->sum->reduce)(b->acc, payload, s->elements);
}

/* The block is over: who looks at the result finds it here. */
static void
end(struct order_state *s, struct order_block *b)
{
	s->result = b->acc;
	b->heard = 0;
	b->next = 0;
}

static const uint8_t *
keep(struct order_state *s, const uint8_t *payload)
{
	uint8_t *piece = s->piece[--s->nb_pieces];

	if (s->nb_pieces < s->least)
		s->least = s->nb_pieces;
	s->copy(piece, payload, s->bytes);
	return piece;
}

static void
give_back(struct order_state *s, const uint8_t *kept)
{
	s->piece[s->nb_pieces++] = (uint8_t *)(uintptr_t)kept;
}

/* As they come: what a job does that is not deterministic. */
static void
add_at_once(struct order_state *s, struct order_block *b, unsigned int rank, const uint8_t *payload)
{
	(void)rank;
	begin_or_add(s, b, payload, b->heard);
	if (++b->heard == s->sources)
		end(s, b);
}

/* In its turn at once; out of turn it is kept until then. */
static void
add_in_turn(struct order_state *s, struct order_block *b, unsigned int rank, const uint8_t *payload)
{
	if (rank != b->next) {
		b->kept[rank] = keep(s, payload);
		b->heard++;
		return;
	}
	begin_or_add(s, b, payload, b->next);
	for (b->next++; b->next < s->sources && b->kept[b->next] != NULL; b->next++) {
		begin_or_add(s, b, b->kept[b->next], b->next);
		give_back(s, b->kept[b->next]);
		b->kept[b->next] = NULL;
	}
	if (++b->heard == s->sources)
		end(s, b);
}

/* All are kept, and added at the end. */
static void
add_at_the_end(
	struct order_state *s, struct order_block *b, unsigned int rank, const uint8_t *payload)
{
	b->kept[rank] = keep(s, payload);
	if (++b->heard < s->sources)
		return;
	for (unsigned int r = 0; r < s->sources; r++) {
		begin_or_add(s, b, b->kept[r], r);
		give_back(s, b->kept[r]);
		b->kept[r] = NULL;
	}
	end(s, b);
}

/* The same without a copy: the packets themselves wait. */
static void
add_held(struct order_state *s, struct order_block *b, unsigned int rank, const uint8_t *payload)
{
	b->kept[rank] = payload;
	if (++b->heard < s->sources)
		return;
	for (unsigned int r = 0; r < s->sources; r++) {
		begin_or_add(s, b, b->kept[r], r);
		b->kept[r] = NULL;
	}
	end(s, b);
}

/* Without rounding, so in any order; rounded at the end. */
static void
add_exactly(struct order_state *s, struct order_block *b, unsigned int rank, const uint8_t *payload)
{
	struct exact *acc = b->acc;
	float *result = b->acc;

	(void)rank;
	if (b->heard == 0)
		memset(acc, 0, s->elements * sizeof(*acc));
	for (unsigned int i = 0; i < s->elements; i++) {
		uint32_t bits;

		memcpy(&bits, payload + 4 * i, sizeof(bits));
		exact_add(&acc[i], bits);
	}
	if (++b->heard < s->sources)
		return;
	for (unsigned int i = 0; i < s->elements; i++) {
		struct exact last = acc[i];

		result[i] = exact_result(&last);
	}
	end(s, b);
}

static size_t
nothing_more(size_t sources, size_t payload)
{
	(void)sources;
	(void)payload;
	return 0;
}

static size_t
all_but_one(size_t sources, size_t payload)
{
	return (sources - 1) * payload;
}

static size_t
all_of_them(size_t sources, size_t payload)
{
	return sources * payload;
}

const struct order_method order_methods[] = {
	{"at once", 4, nothing_more, add_at_once},
	{"in turn", 4, all_but_one, add_in_turn},
	{"at the end", 4, all_of_them, add_at_the_end},
	{"held", 4, all_of_them, add_held},
	{"exact", sizeof(struct exact), nothing_more, add_exactly},
};

const unsigned int order_methods_count = sizeof(order_methods) / sizeof(order_methods[0]);

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of a block: what ranges of ranks send and get is what their ranks send and get one by one, moved element by
 * element here.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "pktbuf/wire/collectives.h"
#include "tests/random.h"

#define RANKS_MAX    256
#define ELEMENTS_MAX 700

/* Elements are numbers of their own: whose, and which. */
static uint32_t root_buffer[RANKS_MAX * ELEMENTS_MAX], leaf_buffer[RANKS_MAX * ELEMENTS_MAX];

static uint64_t state;

static void
begin(void)
{
	state = random_seed();
}

TestSuite(pktbuf_parts, .init = begin, .timeout = 90);

static uint32_t
element(unsigned int rank, uint32_t i)
{
	return 1 + rank * ELEMENTS_MAX + i;
}

/* Deal the elements out to n ranks: who has element i. */
static void
deal(uint32_t elements, unsigned int n, uint16_t owner[ELEMENTS_MAX])
{
	uint32_t left[RANKS_MAX] = {0}, at = 0;

	for (uint32_t i = 0; i < elements; i++)
		left[i % n]++;
	for (unsigned int rank = 0; rank < n; rank++)
		for (; left[rank] > 0; left[rank]--)
			owner[at++] = (uint16_t)rank;
}

struct shape {
	const struct collective_row *row;
	uint32_t elements;
	unsigned int n, root;
	uint16_t owner[ELEMENTS_MAX];
};

/* The elements that these ranks send, one by one. Returns how many. */
static uint32_t
sends(const struct shape *s, unsigned int first, unsigned int count, uint32_t *to)
{
	uint32_t n = 0;

	for (unsigned int r = first; r < first + count; r++)
		for (uint32_t i = 0; s->row->contribution == CONTRIBUTION_SLICE && i < s->elements;
			i++)
			if (s->owner[i] == r)
				to[n++] = element(0, i);
	/* Side by side, by receiver. */
	for (unsigned int c = 0; s->row->contribution == CONTRIBUTION_ROW && c < s->n; c++)
		for (unsigned int r = first; r < first + count; r++)
			for (uint32_t i = 0; i < s->elements; i++)
				if (s->owner[i] == c)
					to[n++] = element(r, i);
	if (s->row->contribution == CONTRIBUTION_REDUCE ||
		(s->row->contribution == CONTRIBUTION_ROOT && s->root >= first &&
			s->root < first + count))
		for (uint32_t i = 0; i < s->elements; i++)
			to[n++] = element(0, i);
	return n;
}

/* What these ranks get, one by one. */
static uint32_t
gets(const struct shape *s, unsigned int first, unsigned int count, uint32_t *to)
{
	uint32_t n = 0;

	for (unsigned int c = first; c < first + count; c++) {
		for (uint32_t i = 0; s->row->result == RESULT_SLICE && i < s->elements; i++)
			if (s->owner[i] == c)
				to[n++] = element(0, i);
		for (unsigned int r = 0; s->row->result == RESULT_COLUMN && r < s->n; r++)
			for (uint32_t i = 0; i < s->elements; i++)
				if (s->owner[i] == c)
					to[n++] = element(r, i);
	}
	if (s->row->result == RESULT_WHOLE &&
		(s->row->to == TO_ALL || (s->root >= first && s->root < first + count)))
		for (uint32_t i = 0; i < s->elements; i++)
			to[n++] = element(0, i);
	return n;
}

/* A switch with the ranks [first, first + count) collects a contribution of some of them. */
static void
collect(const struct shape *s, uint32_t *buffer, unsigned int first, unsigned int count,
	unsigned int from, unsigned int ranks, const uint32_t *sent, uint32_t n)
{
	uint32_t at = 0;

	if (s->row->contribution == CONTRIBUTION_SLICE)
		at = weir_slices(s->elements, s->n, from, ranks).first;
	if (s->row->contribution != CONTRIBUTION_ROW) {
		memcpy(buffer + at, sent, n * sizeof(*sent));
		return;
	}
	for (unsigned int c = 0; c < s->n; c++) {
		uint32_t run = ranks * weir_slice(s->elements, s->n, c).count;

		memcpy(buffer + row_cell(s->elements, s->n, count, from - first, c), sent,
			run * sizeof(*sent));
		sent += run;
	}
}

/* All contributions in, as a tree of random sources sends them; then each source's part. */
static void
check(const struct shape *s)
{
	static uint32_t sent[RANKS_MAX * ELEMENTS_MAX], wanted[RANKS_MAX * ELEMENTS_MAX];
	uint32_t extent = row_extent(s->row, s->elements, s->n, 0, s->n);

	cr_assert_leq(extent, RANKS_MAX * ELEMENTS_MAX);
	for (unsigned int first = 0, count; first < s->n; first += count) {
		uint32_t n, here = 0, up = 0;

		count = 1 + (unsigned int)random_below(&state, s->n - first);
		n = sends(s, first, count, sent);
		cr_assert_eq(n, row_contributed(s->row, s->elements, s->n, first, count, s->root),
			"%u ranks from %u of %u send %u of %u elements", count, first, s->n, n,
			s->elements);
		collect(s, root_buffer, 0, s->n, first, count, sent, n);
		/* A leaf makes this contribution of its hosts'. */
		memset(leaf_buffer, 0, sizeof(leaf_buffer));
		for (unsigned int r = first; r < first + count; r++) {
			here = sends(s, r, 1, wanted);
			collect(s, leaf_buffer, first, count, r, 1, wanted, here);
		}
		if (s->row->contribution == CONTRIBUTION_SLICE)
			up = weir_slices(s->elements, s->n, first, count).first;
		cr_assert_leq(up + n, row_extent(s->row, s->elements, s->n, first, count));
		cr_assert_eq(memcmp(leaf_buffer + up, sent, n * sizeof(*sent)), 0,
			"%u ranks from %u of %u, %u elements: another contribution", count, first,
			s->n, s->elements);
	}
	for (unsigned int first = 0, count; first < s->n; first += count) {
		struct weir_slice part;
		uint32_t n;

		count = 1 + (unsigned int)random_below(&state, s->n - first);
		part = row_part(s->row, s->elements, s->n, first, count, s->root);
		n = gets(s, first, count, wanted);
		cr_assert_eq(part.count, n, "%u ranks from %u of %u get %u of %u elements, not %u",
			count, first, s->n, part.count, s->elements, n);
		cr_assert_leq(part.first + part.count, extent);
		cr_assert_leq(n, row_extent(s->row, s->elements, s->n, first, count));
		cr_assert_eq(memcmp(root_buffer + part.first, wanted, n * sizeof(*wanted)), 0,
			"%u ranks from %u of %u, %u elements: another part", count, first, s->n,
			s->elements);
	}
}

static void
check_row(enum weir_collective collective)
{
	struct shape s = {.row = &collective_table[collective]};

	for (unsigned int run = 0; run < 300; run++) {
		s.n = 1 + (unsigned int)random_below(&state, run % 10 == 0 ? RANKS_MAX : 12);
		s.elements = (uint32_t)random_below(&state,
			(s.row->contribution == CONTRIBUTION_ROW && s.n > 12) || run % 3 == 0
				? 40
				: ELEMENTS_MAX);
		s.root = s.row->rooted ? (unsigned int)random_below(&state, s.n) : 0;
		deal(s.elements, s.n, s.owner);
		memset(root_buffer, 0, sizeof(root_buffer));
		check(&s);
	}
}

#define X(name, code, text, contribution, result, to)                                              \
	Test(pktbuf_parts, of_##name)                                                              \
	{                                                                                          \
		check_row(WEIR_COLLECTIVE_##name);                                                 \
	}
WEIR_COLLECTIVE_LIST(X)
#undef X

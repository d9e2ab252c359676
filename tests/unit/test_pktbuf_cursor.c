/* SPDX-License-Identifier: BSD-3-Clause */
/* Cursors over every way to cut a small packet, and over large ones cut at random. */
#include "pktbuf/cursor.h"
#include "tests/unit/packet.h"

TestSuite(pktbuf_cursor, .init = packet_begin, .timeout = 90);

static uint32_t
smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Walk [offset, offset + length) by spans; they must be the flat frame's bytes and no others. */
static void
walk(const struct rte_mbuf *m, const uint8_t *flat, uint32_t n, uint32_t offset, uint32_t length)
{
	uint32_t start = smaller(offset, n), want = smaller(length, n - start), done = 0, here;
	struct pktbuf_cursor cursor;
	const uint8_t *p;

	pktbuf_cursor_init(&cursor, m, offset, length);
	cr_assert_eq(cursor.left, want);
	while ((p = pktbuf_cursor_span(&cursor, &here)) != NULL) {
		cr_assert(here > 0 && here <= want - done);
		cr_assert_eq(memcmp(p, flat + start + done, here), 0);
		done += here;
		pktbuf_cursor_advance(&cursor, here);
		cr_assert_eq(cursor.left, want - done);
	}
	cr_assert_eq(done, want);
	cr_assert_eq(here, 0);
}

/* The same by copies of `step` bytes; the last is short. Nothing is written behind what is told. */
static void
copy(const struct rte_mbuf *m, const uint8_t *flat, uint32_t n, uint32_t offset, uint32_t length,
	uint32_t step)
{
	uint32_t start = smaller(offset, n), want = smaller(length, n - start), done = 0;
	struct pktbuf_cursor cursor;
	uint8_t out[2048];

	pktbuf_cursor_init(&cursor, m, offset, length);
	do {
		uint32_t expect = smaller(step, want - done);

		memset(out, 0xa5, step + 1);
		cr_assert_eq(pktbuf_cursor_copy(&cursor, out, step), expect);
		cr_assert_eq(memcmp(out, flat + start + done, expect), 0);
		for (uint32_t i = expect; i <= step; i++)
			cr_assert_eq(out[i], 0xa5);
		done += expect;
	} while (done < want);
	cr_assert_eq(pktbuf_cursor_copy(&cursor, out, step), 0);
}

Test(pktbuf_cursor, every_cut_of_eight_bytes)
{
	const uint8_t flat[8] = {1, 2, 3, 4, 5, 6, 7, 8};

	/* Bit i of `cuts`: the packet is cut behind byte i; `empty`: where empty segments stand. */
	for (unsigned int cuts = 0; cuts < 128; cuts++) {
		for (unsigned int empty = 0; empty < 4; empty++) {
			uint16_t sizes[32];
			unsigned int n = 0;
			const struct rte_mbuf *m;

			if (empty & 1)
				sizes[n++] = 0;
			sizes[n] = 0;
			for (unsigned int i = 0; i < 8; i++) {
				sizes[n]++;
				if (i == 7 || (cuts & 1u << i) == 0)
					continue;
				n++;
				if (empty & 2) {
					sizes[n++] = 0;
					sizes[n++] = 0;
				}
				sizes[n] = 0;
			}
			n++;
			if (empty & 1)
				sizes[n++] = 0;
			m = packet_guarded(flat, sizes, n);
			for (uint32_t offset = 0; offset <= 10; offset++) {
				for (uint32_t length = 0; length <= 10; length++) {
					walk(m, flat, 8, offset, length);
					copy(m, flat, 8, offset, length, 1 + (offset + cuts) % 9);
				}
			}
		}
	}
}

Test(pktbuf_cursor, random_cuts_and_ranges)
{
	uint8_t flat[1500];

	for (size_t i = 0; i < sizeof(flat); i++)
		flat[i] = (uint8_t)random_bits(&seed);
	for (unsigned int turn = 0; turn < 4000; turn++) {
		uint32_t n = (uint32_t)(random_bits(&seed) % (sizeof(flat) + 1));
		uint32_t offset = (uint32_t)(random_bits(&seed) % (n + 20));
		uint32_t length = (uint32_t)(random_bits(&seed) % (n + 20));
		const struct rte_mbuf *m = packet_make(flat, n, &seed);

		walk(m, flat, n, offset, length);
		copy(m, flat, n, offset, length, 1 + (uint32_t)(random_bits(&seed) % 700));
	}
}

Test(pktbuf_cursor, advance_over_many_segments_to_exact_ends)
{
	uint8_t flat[64];

	for (uint8_t i = 0; i < sizeof(flat); i++)
		flat[i] = i;
	for (unsigned int turn = 0; turn < 4000; turn++) {
		const struct rte_mbuf *m = packet_make(flat, sizeof(flat), &seed);
		uint32_t by = (uint32_t)(random_bits(&seed) % (sizeof(flat) + 1)), here;
		struct pktbuf_cursor cursor;
		const uint8_t *p;

		pktbuf_cursor_init(&cursor, m, 0, sizeof(flat));
		pktbuf_cursor_advance(&cursor, by);
		pktbuf_cursor_advance(&cursor, 0);
		cr_assert_eq(cursor.left, sizeof(flat) - by);
		p = pktbuf_cursor_span(&cursor, &here);
		if (by == sizeof(flat)) {
			cr_assert(p == NULL && here == 0);
			continue;
		}
		cr_assert(p != NULL && here > 0 && *p == by);
		pktbuf_cursor_advance(&cursor, cursor.left);
		cr_assert_null(pktbuf_cursor_span(&cursor, &here));
	}
}

Test(pktbuf_cursor, spans_lie_in_the_packet_itself)
{
	const uint8_t flat[30] = {0};
	const uint16_t sizes[] = {10, 0, 20};
	const struct rte_mbuf *m = packet_guarded(flat, sizes, 3);
	struct pktbuf_cursor cursor;
	uint32_t here;

	pktbuf_cursor_init(&cursor, m, 4, 20);
	cr_assert_eq(pktbuf_cursor_span(&cursor, &here), (const uint8_t *)m->buf_addr + 4);
	cr_assert_eq(here, 6);
	cr_assert_eq(pktbuf_cursor_span(&cursor, &here), (const uint8_t *)m->buf_addr + 4,
		"the cursor stays");
	pktbuf_cursor_advance(&cursor, 6);
	cr_assert_eq(pktbuf_cursor_span(&cursor, &here), m->next->next->buf_addr);
	cr_assert_eq(here, 14);
}

Test(pktbuf_cursor, the_largest_numbers_are_cut)
{
	const uint8_t flat[30] = {0};
	const uint16_t sizes[] = {10, 20};
	const struct rte_mbuf *m = packet_guarded(flat, sizes, 2);
	struct pktbuf_cursor cursor;

	pktbuf_cursor_init(&cursor, m, UINT32_MAX, UINT32_MAX);
	cr_assert_eq(cursor.left, 0);
	pktbuf_cursor_init(&cursor, m, 29, UINT32_MAX);
	cr_assert_eq(cursor.left, 1);
	pktbuf_cursor_init(&cursor, m, 30, UINT32_MAX);
	cr_assert_eq(cursor.left, 0);
	pktbuf_cursor_init(&cursor, m, 0, 0);
	cr_assert_eq(cursor.left, 0);
}

Test(pktbuf_cursor, a_chain_shorter_than_it_says_ends)
{
	const uint8_t flat[30] = {0};
	const uint16_t sizes[] = {10, 20};
	struct rte_mbuf *m = packet_guarded(flat, sizes, 2);
	struct pktbuf_cursor cursor;
	uint8_t out[64];
	uint32_t here;

	m->pkt_len = 60;
	pktbuf_cursor_init(&cursor, m, 5, 50);
	cr_assert_eq(pktbuf_cursor_copy(&cursor, out, 50), 25);
	cr_assert_null(pktbuf_cursor_span(&cursor, &here));
	pktbuf_cursor_init(&cursor, m, 40, 10);
	cr_assert_null(pktbuf_cursor_span(&cursor, &here));
}

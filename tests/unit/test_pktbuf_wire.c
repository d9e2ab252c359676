/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire's headers: bytes written down by hand, round trips in both directions, serial numbers.
 */
#include "tests/unit/packet.h"

TestSuite(pktbuf_wire, .init = packet_begin, .timeout = 90);

static void
same(const struct weir_header *a, const struct weir_header *b)
{
	cr_assert_eq(a->job_id, b->job_id);
	cr_assert_eq(a->block_id, b->block_id);
	cr_assert_eq(a->gen_id, b->gen_id);
	cr_assert_eq(a->grad_cnt, b->grad_cnt);
	cr_assert_eq(a->src_id, b->src_id);
	cr_assert_eq(a->src_cnt, b->src_cnt);
	cr_assert_eq(a->status, b->status);
	cr_assert_eq(a->final, b->final);
	cr_assert_eq(a->degraded, b->degraded);
	cr_assert_eq(a->collective, b->collective);
	cr_assert_eq(a->op, b->op);
	cr_assert_eq(a->dtype, b->dtype);
	cr_assert_eq(a->root, b->root);
	cr_assert_eq(a->flags, b->flags);
	cr_assert_eq(a->extended, b->extended);
}

Test(pktbuf_wire, bytes_by_hand)
{
	static const struct {
		uint8_t bytes[16];
		struct weir_header header;
	} known[] = {
		/* A contribution in the base form: job 3, block 0x01020304, source 5, 1024
		 * elements. */
		{{3, 1, 2, 3, 4, 0x00, 5, 0, 0xff, 0xfe, 0x04, 0x00},
			{.job_id = 3,
				.block_id = 0x01020304,
				.src_id = 5,
				.gen_id = 0xfffe,
				.grad_cnt = 1024}},
		/* A result in the base form, final and partial, of 7 sources, 4095 elements. */
		{{255, 0xff, 0xff, 0xff, 0xff, 0x18, 0, 7, 0, 1, 0x0f, 0xff},
			{.job_id = 255,
				.block_id = UINT32_MAX,
				.status = WEIR_STATUS_PARTIAL,
				.final = true,
				.src_cnt = 7,
				.gen_id = 1,
				.grad_cnt = 4095}},
		/* A join in the extended form that asks for base results. */
		{{9, 0, 0, 0, 77, 0x00, 200, 0, 0, 0, 0, 0, 0xf0, 0x01, 0, 0},
			{.job_id = 9,
				.block_id = 77,
				.src_id = 200,
				.collective = WEIR_COLLECTIVE_JOIN,
				.flags = WEIR_FLAG_BASE_RESULTS,
				.extended = true}},
		/* A degraded reduce to root 130: max of fp64, refused. */
		{{1, 0, 1, 0, 0, 0x94, 2, 3, 0x80, 0x00, 0, 8, 0x13, 0xb0, 130, 9},
			{.job_id = 1,
				.block_id = 0x10000,
				.status = WEIR_STATUS_REFUSED,
				.degraded = true,
				.src_id = 2,
				.src_cnt = 3,
				.gen_id = 0x8000,
				.grad_cnt = 8,
				.collective = WEIR_COLLECTIVE_REDUCE,
				.op = WEIR_OP_MAX,
				.dtype = WEIR_DTYPE_FP64,
				.root = 130,
				.extended = true}},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct weir_header *h = &known[i].header;
		unsigned int n = h->extended ? 16 : 12;
		struct weir_header back = {.extended = h->extended};
		uint8_t out[17];

		memset(out, 0xa5, sizeof(out));
		cr_assert_eq(weir_header_bytes(h->extended), n);
		cr_assert_eq(weir_header_write(h, out), n);
		cr_assert_eq(memcmp(out, known[i].bytes, n), 0, "header %zu", i);
		for (size_t b = n; b < sizeof(out); b++)
			cr_assert_eq(out[b], 0xa5, "header %zu writes byte %zu", i, b);
		weir_header_read(&back, known[i].bytes);
		same(h, &back);
	}
}

Test(pktbuf_wire, headers_come_back)
{
	for (unsigned int turn = 0; turn < 50000; turn++) {
		uint64_t r = random_bits(&seed), s = random_bits(&seed);
		struct weir_header h = {.job_id = (uint8_t)r,
			.block_id = (uint32_t)(r >> 8),
			.src_id = (uint8_t)(r >> 40),
			.src_cnt = (uint8_t)(r >> 48),
			.status = r >> 56 & 0xf,
			.final = r >> 60 & 1,
			.degraded = r >> 61 & 1,
			.gen_id = (uint16_t)s,
			.grad_cnt = s >> 16 & 0xfff,
			.collective = s >> 28 & 0xf,
			.op = s >> 32 & 0xf,
			.dtype = s >> 36 & 0xf,
			.flags = s >> 40 & 0xf,
			.root = (uint8_t)(s >> 44),
			.extended = turn % 2};
		/* What the base form does not carry stays as the caller set it. */
		struct weir_header back = {.collective = h.collective,
			.op = h.op,
			.dtype = h.dtype,
			.flags = h.flags,
			.root = h.root,
			.extended = h.extended};
		uint8_t *out = malloc(weir_header_bytes(h.extended)); /* exact, for sanitizers */

		if (h.extended)
			back = (struct weir_header){.collective = 9, .root = 9, .extended = true};
		weir_header_write(&h, out);
		weir_header_read(&back, out);
		same(&h, &back);
		free(out);
	}
}

Test(pktbuf_wire, any_bytes_decode_and_reserved_bits_are_ignored)
{
	static const uint8_t carried[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xfc, 0xff, 0xff, 0xff,
		0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f};

	for (unsigned int turn = 0; turn < 50000; turn++) {
		bool extended = turn % 2;
		struct weir_header h = {.extended = extended};
		uint8_t in[16], out[16];

		for (unsigned int i = 0; i < 16; i++)
			in[i] = (uint8_t)random_bits(&seed);
		in[15] = in[5] >> 4; /* the two places of a status agree */
		weir_header_read(&h, in);
		weir_header_write(&h, out);
		for (unsigned int i = 0; i < weir_header_bytes(extended); i++)
			cr_assert_eq(out[i], in[i] & carried[i], "byte %u", i);
	}
}

Test(pktbuf_wire, a_status_in_either_place_is_seen)
{
	for (uint8_t status = 0; status < 16; status++) {
		struct weir_header h = {.extended = true};
		uint8_t p[16] = {0};

		p[5] = (uint8_t)(status << 4);
		weir_header_read(&h, p);
		cr_assert_eq(h.status, status);
		p[5] = 0;
		p[15] = status;
		weir_header_read(&h, p);
		cr_assert_eq(h.status, status);
	}
}

Test(pktbuf_wire, too_many_elements_do_not_touch_the_reserved_bits)
{
	const struct weir_header h = {
		.grad_cnt = 0xffff, .op = 0xff, .flags = 0xff, .extended = true};
	uint8_t p[16];

	weir_header_write(&h, p);
	cr_assert_eq(weir_get16(p + 10), 4095);
	cr_assert(p[12] == 0x0f && p[13] == 0x0f);
}

Test(pktbuf_wire, numbers_are_big_endian)
{
	uint8_t b[4];

	weir_put16(b, 0x8001);
	cr_assert(b[0] == 0x80 && b[1] == 0x01 && weir_get16(b) == 0x8001);
	weir_put32(b, 0xfedcba98);
	cr_assert(b[0] == 0xfe && b[1] == 0xdc && b[2] == 0xba && b[3] == 0x98);
	cr_assert_eq(weir_get32(b), 0xfedcba98);
}

Test(pktbuf_wire, blocks_are_serial_numbers)
{
	static const uint32_t places[] = {
		0, 1, 4096, INT32_MAX, UINT32_C(1) << 31, UINT32_MAX - 4096, UINT32_MAX};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		for (int32_t ahead = -4096; ahead <= 4096; ahead++) {
			uint32_t other = places[i] + (uint32_t)ahead;

			cr_assert_eq(weir_block_diff(other, places[i]), ahead);
			cr_assert_eq(weir_block_diff(places[i], other), -ahead);
		}
		cr_assert_eq(weir_block_diff(places[i] + INT32_MAX, places[i]), INT32_MAX);
		cr_assert_eq(weir_block_diff(places[i] - INT32_MAX, places[i]), -INT32_MAX);
	}
}

Test(pktbuf_wire, elements_have_sizes_and_codes_have_texts)
{
	cr_assert_eq(weir_dtype_bytes(WEIR_DTYPE_BF16), 2);
	cr_assert_eq(weir_dtype_bytes(WEIR_DTYPE_INT64), 8);
	for (unsigned int dtype = WEIR_DTYPES; dtype < 300; dtype++)
		cr_assert_eq(weir_dtype_bytes(dtype), 0);
	cr_assert_str_eq(weir_status_text(WEIR_STATUS_OK), "ok");
	cr_assert_str_eq(weir_status_text(10), "displaced");
	cr_assert_str_eq(weir_status_text(11), "?");
	cr_assert_str_eq(weir_field_text(5), "grad_cnt");
	cr_assert_str_eq(weir_field_text(0), "?");
}

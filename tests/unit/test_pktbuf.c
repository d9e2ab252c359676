/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of packets: heads, cursors, checksums and the wire's headers, on hand-built chains. */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>

#include "pktbuf/checksum.h"
#include "pktbuf/cursor.h"
#include "pktbuf/head.h"
#include "pktbuf/port.h"
#include "pktbuf/wire/wire.h"
#include "tests/random.h"
#include "tests/unit/chain.h"

static uint64_t seed;

static void
begin(void)
{
	seed = random_seed();
}

TestSuite(pktbuf, .init = begin, .timeout = 90);

/* RFC 1071, byte pair by byte pair. */
static uint16_t
slow_sum(uint32_t sum, const uint8_t *p, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum += (i & 1) ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/*
 * A right frame: Ethernet, IPv4 with `options` words of options, UDP, payload. Returns its length.
 */
static unsigned int
frame(uint8_t *f, unsigned int options, unsigned int payload)
{
	unsigned int l4 = 14 + 20 + 4 * options, udp = 8 + payload;
	uint32_t sum;

	memset(f, 0, l4 + 8);
	for (unsigned int i = 0; i < 12; i++)
		f[i] = (uint8_t)(2 + i);
	weir_put16(f + 12, 0x0800);
	f[14] = (uint8_t)(0x45 + options);
	weir_put16(f + 16, (uint16_t)(l4 - 14 + udp));
	f[22] = 64;
	f[23] = 17;
	weir_put32(f + 26, 0x0a4d0001);
	weir_put32(f + 30, 0x0a4d00fe);
	for (unsigned int i = 0; i < 4 * options; i++)
		f[34 + i] = 1; /* no operation */
	weir_put16(f + 24, (uint16_t)~slow_sum(0, f + 14, l4 - 14));
	weir_put16(f + l4, 40000);
	weir_put16(f + l4 + 2, WEIR_PORT_EXT);
	weir_put16(f + l4 + 4, (uint16_t)udp);
	for (unsigned int i = 0; i < payload; i++)
		f[l4 + 8 + i] = (uint8_t)random_bits(&seed);
	sum = slow_sum(17 + udp, f + 26, 8);
	sum = slow_sum(sum, f + l4, udp);
	weir_put16(f + l4 + 6, sum == 0xffff ? 0xffff : (uint16_t)~sum);
	return l4 + udp;
}

static struct pktbuf_head
parse(const uint8_t *f, unsigned int n, bool split)
{
	uint8_t *scratch = malloc(PKTBUF_HEAD_BYTES);
	struct rte_mbuf *m = chain_make(f, n, split ? &seed : NULL);
	struct pktbuf_head head;

	pktbuf_head_parse(&head, m, scratch);
	cr_assert_eq(head.length, n);
	cr_assert_eq(memcmp(head.bytes, f, n < PKTBUF_HEAD_BYTES ? n : PKTBUF_HEAD_BYTES), 0);
	head.bytes = NULL;
	chain_free(m);
	free(scratch);
	return head;
}

Test(pktbuf, head_of_a_good_frame_in_any_split)
{
	uint8_t f[2048];

	for (unsigned int turn = 0; turn < 3000; turn++) {
		unsigned int options = turn % 11, payload = turn % 700;
		unsigned int n = frame(f, options, payload);
		struct pktbuf_head h = parse(f, n, turn % 3 != 0);

		cr_assert_eq(h.flags,
			PKTBUF_HEAD_IPV4 | PKTBUF_HEAD_UDP |
				(options > 0 ? PKTBUF_HEAD_OPTIONS : 0));
		cr_assert_eq(h.ether_type, 0x0800);
		cr_assert(h.l3 == 14 && h.l4 == 34 + 4 * options && h.ip_proto == 17);
		cr_assert(h.ip_src == 0x0a4d0001 && h.ip_dst == 0x0a4d00fe);
		cr_assert(h.udp_src == 40000 && h.udp_dst == WEIR_PORT_EXT);
		cr_assert(h.payload == h.l4 + 8 && h.payload_length == payload);
	}
}

Test(pktbuf, head_of_a_truncated_frame_is_bad)
{
	uint8_t f[256];
	unsigned int n = frame(f, 2, 100);

	for (unsigned int cut = 0; cut < n; cut++) {
		for (int split = 0; split < 4; split++) {
			struct pktbuf_head h = parse(f, cut, split > 0);

			if (cut < 14)
				cr_assert(h.flags == 0 && h.ether_type == 0);
			else
				cr_assert_eq(h.flags, PKTBUF_HEAD_BAD, "cut %u", cut);
		}
	}
	/* An Ethernet frame may be longer than the packet in it. */
	cr_assert_eq(parse(f, n + 20, false).flags & PKTBUF_HEAD_UDP, PKTBUF_HEAD_UDP);
}

Test(pktbuf, head_of_lying_lengths_is_bad)
{
	uint8_t f[256];
	unsigned int n = frame(f, 0, 50);

	for (unsigned int ihl = 0; ihl < 16; ihl++) {
		struct pktbuf_head h;

		f[14] = (uint8_t)(0x40 | ihl);
		h = parse(f, n, true);
		cr_assert_eq((h.flags & PKTBUF_HEAD_IPV4) != 0, ihl >= 5, "IHL %u", ihl);
	}
	for (unsigned int version = 0; version < 16; version++) {
		f[14] = (uint8_t)(version << 4 | 5);
		cr_assert_eq((parse(f, n, true).flags & PKTBUF_HEAD_IPV4) != 0, version == 4);
	}
	f[14] = 0x45;
	for (unsigned int total = 0; total < 200; total++) {
		struct pktbuf_head h;

		weir_put16(f + 16, (uint16_t)total);
		h = parse(f, n, true);
		/* UDP of 58 bytes must fit, and all must fit the frame. */
		cr_assert_eq((h.flags & PKTBUF_HEAD_UDP) != 0, total == n - 14, "total %u", total);
		cr_assert_eq((h.flags & PKTBUF_HEAD_BAD) != 0, total != n - 14, "total %u", total);
	}
	weir_put16(f + 16, (uint16_t)(n - 14));
	for (unsigned int udp = 0; udp < 200; udp++) {
		struct pktbuf_head h;

		weir_put16(f + 38, (uint16_t)udp);
		h = parse(f, n, true);
		cr_assert_eq(
			(h.flags & PKTBUF_HEAD_UDP) != 0, udp >= 8 && udp <= 58, "UDP %u", udp);
		if (h.flags & PKTBUF_HEAD_UDP)
			cr_assert_eq(h.payload_length, udp - 8);
	}
}

Test(pktbuf, head_of_fragments_and_others)
{
	uint8_t f[256];
	unsigned int n = frame(f, 0, 50);

	f[20] = 0x20; /* more fragments */
	cr_assert_eq(parse(f, n, true).flags, PKTBUF_HEAD_IPV4 | PKTBUF_HEAD_FRAGMENT);
	f[20] = 0x00;
	f[21] = 0x01; /* an offset */
	cr_assert_eq(parse(f, n, true).flags, PKTBUF_HEAD_IPV4 | PKTBUF_HEAD_FRAGMENT);
	f[20] = 0x40; /* don't fragment */
	f[21] = 0x00;
	cr_assert_eq(parse(f, n, true).flags, PKTBUF_HEAD_IPV4 | PKTBUF_HEAD_UDP);
	f[23] = 6;
	cr_assert_eq(parse(f, n, true).flags, PKTBUF_HEAD_IPV4);
	weir_put16(f + 12, 0x8100); /* a tag is not looked into */
	cr_assert_eq(parse(f, n, true).flags, 0);
	weir_put16(f + 12, 0x0806);
	cr_assert_eq(parse(f, n, true).ether_type, 0x0806);
}

Test(pktbuf, head_survives_noise)
{
	uint8_t f[400];

	for (unsigned int turn = 0; turn < 20000; turn++) {
		unsigned int n = (unsigned int)(random_bits(&seed) % sizeof(f));

		for (unsigned int i = 0; i < n; i++)
			f[i] = (uint8_t)random_bits(&seed);
		if (n >= 15 && turn % 2 == 0) {
			weir_put16(f + 12, 0x0800);
			f[14] = 0x45;
		}
		parse(f, n, turn % 4 != 0);
	}
}

Test(pktbuf, cursor_reads_what_is_there)
{
	uint8_t flat[600], out[600];

	for (unsigned int turn = 0; turn < 5000; turn++) {
		uint32_t n = 1 + (uint32_t)(random_bits(&seed) % sizeof(flat)), here, done = 0;
		uint32_t offset = (uint32_t)(random_bits(&seed) % (n + 10));
		uint32_t length = (uint32_t)(random_bits(&seed) % (n + 10));
		uint32_t start = offset < n ? offset : n;
		uint32_t want = length < n - start ? length : n - start;
		struct pktbuf_cursor cursor;
		struct rte_mbuf *m;

		for (uint32_t i = 0; i < n; i++)
			flat[i] = (uint8_t)random_bits(&seed);
		m = chain_make(flat, n, &seed);
		pktbuf_cursor_init(&cursor, m, offset, length);
		cr_assert_eq(cursor.left, want);
		while (done < want) {
			uint32_t take = 1 + (uint32_t)(random_bits(&seed) % 40);
			const uint8_t *p = pktbuf_cursor_span(&cursor, &here);

			cr_assert(p != NULL && here > 0 && here <= want - done);
			cr_assert_eq(memcmp(p, flat + start + done, here), 0);
			if (turn % 2 == 0) {
				take = take < here ? take : here;
				pktbuf_cursor_advance(&cursor, take);
			} else {
				uint32_t expect = take < want - done ? take : want - done;

				take = pktbuf_cursor_copy(&cursor, out, take);
				cr_assert_eq(take, expect);
				cr_assert_eq(memcmp(out, flat + start + done, take), 0);
			}
			done += take;
		}
		cr_assert_null(pktbuf_cursor_span(&cursor, &here));
		cr_assert_eq(here, 0);
		cr_assert_eq(pktbuf_cursor_copy(&cursor, out, 5), 0);
		chain_free(m);
	}
}

static enum pktbuf_verdict
verify(const uint8_t *f, unsigned int n, enum pktbuf_checksum mode, uint64_t ol_flags)
{
	const struct pktbuf_port port = {.rx_checksum = mode};
	uint8_t scratch[PKTBUF_HEAD_BYTES];
	struct rte_mbuf *m = chain_make(f, n, &seed);
	struct pktbuf_head head;
	enum pktbuf_verdict verdict;

	m->ol_flags = ol_flags;
	pktbuf_head_parse(&head, m, scratch);
	cr_assert(head.flags & PKTBUF_HEAD_UDP);
	verdict = pktbuf_checksum_verify(&port, m, &head);
	chain_free(m);
	return verdict;
}

Test(pktbuf, checksums_right_and_wrong_in_any_split)
{
	uint8_t f[1024];

	for (unsigned int turn = 0; turn < 3000; turn++) {
		unsigned int n = frame(f, turn % 3, turn % 301), at;

		cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_SOFTWARE, 0), PKTBUF_CHECKSUM_GOOD);
		at = 22 + (unsigned int)(random_bits(&seed) % 1); /* time to live */
		f[at] ^= 0x10;
		cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_SOFTWARE, 0), PKTBUF_CHECKSUM_BAD_IP);
		cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_OFF, 0), PKTBUF_CHECKSUM_GOOD);
		f[at] ^= 0x10;
		at = 34 + 4 * (turn % 3); /* the UDP header, but not its length */
		f[at + turn % 4] ^= 1;
		cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_SOFTWARE, 0), PKTBUF_CHECKSUM_BAD_UDP);
		f[at + turn % 4] ^= 1;
		if (n > at + 8) {
			f[n - 1] ^= 0x80;
			cr_assert_eq(
				verify(f, n, PKTBUF_CHECKSUM_SOFTWARE, 0), PKTBUF_CHECKSUM_BAD_UDP);
		}
		weir_put16(f + at + 6, 0); /* not computed: RFC 768 */
		cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_SOFTWARE, 0), PKTBUF_CHECKSUM_GOOD);
	}
}

Test(pktbuf, verdicts_of_a_device_are_taken)
{
	const uint64_t good = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
	uint8_t f[256];
	unsigned int n = frame(f, 0, 33);

	cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_OFFLOAD, RTE_MBUF_F_RX_IP_CKSUM_BAD),
		PKTBUF_CHECKSUM_BAD_IP);
	cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_OFFLOAD,
			     RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_BAD),
		PKTBUF_CHECKSUM_BAD_UDP);
	cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_SOFTWARE, RTE_MBUF_F_RX_L4_CKSUM_BAD),
		PKTBUF_CHECKSUM_GOOD);
	f[n - 1] ^= 1;
	cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_OFFLOAD, good), PKTBUF_CHECKSUM_GOOD);
	cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_OFFLOAD, 0), PKTBUF_CHECKSUM_BAD_UDP);
	f[22] ^= 1;
	cr_assert_eq(verify(f, n, PKTBUF_CHECKSUM_OFFLOAD, 0), PKTBUF_CHECKSUM_BAD_IP);
}

Test(pktbuf, wire_headers_come_back_as_they_went)
{
	static const uint8_t bytes[16] = {0x07, 0xde, 0xad, 0xbe, 0xef, 0x3c, 0x05, 0x09, 0x12,
		0x34, 0x0a, 0xbc, 0x81, 0xa1, 0x2a, 0x03};
	const struct weir_header known = {.job_id = 7,
		.block_id = 0xdeadbeef,
		.status = 3,
		.final = true,
		.degraded = true,
		.src_id = 5,
		.src_cnt = 9,
		.gen_id = 0x1234,
		.grad_cnt = 0xabc,
		.collective = 8,
		.op = 1,
		.dtype = 10,
		.flags = 1,
		.root = 0x2a,
		.extended = true};
	uint8_t out[16];

	cr_assert_eq(weir_header_write(&known, out), 16);
	cr_assert_eq(memcmp(out, bytes, 16), 0);
	for (unsigned int turn = 0; turn < 20000; turn++) {
		struct weir_header h = {.extended = turn % 2}, back = {.extended = turn % 2};
		uint64_t r = random_bits(&seed), s = random_bits(&seed);
		unsigned int n;

		h.job_id = (uint8_t)r;
		h.block_id = (uint32_t)(r >> 8);
		h.src_id = (uint8_t)(r >> 40);
		h.src_cnt = (uint8_t)(r >> 48);
		h.status = r >> 56 & 0xf;
		h.final = r >> 60 & 1;
		h.degraded = r >> 61 & 1;
		h.gen_id = (uint16_t)s;
		h.grad_cnt = s >> 16 & 0xfff;
		if (h.extended) {
			h.collective = s >> 28 & 0xf;
			h.op = s >> 32 & 0xf;
			h.dtype = s >> 36 & 0xf;
			h.flags = s >> 40 & 0xf;
			h.root = (uint8_t)(s >> 44);
		}
		n = weir_header_write(&h, out);
		cr_assert_eq(n, weir_header_bytes(h.extended));
		weir_header_read(&back, out);
		cr_assert(back.job_id == h.job_id && back.block_id == h.block_id &&
			back.src_id == h.src_id && back.src_cnt == h.src_cnt &&
			back.status == h.status && back.final == h.final &&
			back.degraded == h.degraded && back.gen_id == h.gen_id &&
			back.grad_cnt == h.grad_cnt && back.collective == h.collective &&
			back.op == h.op && back.dtype == h.dtype && back.flags == h.flags &&
			back.root == h.root);
	}
	cr_assert_eq(weir_block_diff(2, UINT32_MAX), 3);
	cr_assert_eq(weir_block_diff(UINT32_MAX, 2), -3);
}

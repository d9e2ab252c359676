/* SPDX-License-Identifier: BSD-3-Clause */
/* Heads of good, cut, lying and foreign frames, compared with a slow parse of the flat frame. */
#include "pktbuf/head.h"
#include "tests/unit/packet.h"

TestSuite(pktbuf_head, .init = packet_begin, .timeout = 90);

/* What the page of head.h says, field by field, from a flat frame. Only valid fields are set. */
static struct pktbuf_head
slow_parse(const uint8_t *f, unsigned int n)
{
	struct pktbuf_head e = {.length = n};
	unsigned int words, total, room, udp;

	if (n < 14)
		return e;
	e.ether_type = (uint16_t)(f[12] * 256 + f[13]);
	if (e.ether_type != 0x0800)
		return e;
	e.flags = PKTBUF_HEAD_BAD;
	if (n < 34)
		return e;
	words = f[14] % 16;
	total = f[16] * 256u + f[17];
	if (f[14] / 16 != 4 || words < 5 || total < 4 * words || total > n - 14)
		return e;
	e.flags = PKTBUF_HEAD_IPV4 | (words > 5 ? PKTBUF_HEAD_OPTIONS : 0);
	e.l3 = 14;
	e.l4 = (uint8_t)(14 + 4 * words);
	e.ip_proto = f[23];
	for (unsigned int i = 0; i < 4; i++) {
		e.ip_src = e.ip_src * 256 + f[26 + i];
		e.ip_dst = e.ip_dst * 256 + f[30 + i];
	}
	/* The bit 0x20 says that more follow; the low 13 bits are the offset. */
	if ((f[20] & 0x20) != 0 || f[20] % 32 != 0 || f[21] != 0) {
		e.flags |= PKTBUF_HEAD_FRAGMENT;
		return e;
	}
	if (e.ip_proto != 17)
		return e;
	room = total - 4 * words;
	udp = room < 8 ? 0 : f[e.l4 + 4] * 256u + f[e.l4 + 5];
	if (udp < 8 || udp > room) {
		e.flags |= PKTBUF_HEAD_BAD;
		return e;
	}
	e.flags |= PKTBUF_HEAD_UDP;
	e.udp_src = (uint16_t)(f[e.l4] * 256 + f[e.l4 + 1]);
	e.udp_dst = (uint16_t)(f[e.l4 + 2] * 256 + f[e.l4 + 3]);
	e.payload = (uint16_t)(e.l4 + 8);
	e.payload_length = (uint16_t)(udp - 8);
	return e;
}

/* Parse, compare with the slow parse, and return the flags. */
static unsigned int
check(const uint8_t *f, unsigned int n, bool split)
{
	const struct rte_mbuf *m = packet_make(f, n, split ? &seed : NULL);
	const struct pktbuf_head e = slow_parse(f, n);
	uint8_t scratch[PKTBUF_HEAD_BYTES];
	struct pktbuf_head h;

	memset(&h, 0xee, sizeof(h));
	pktbuf_head_parse(&h, m, scratch);
	cr_assert_eq(h.length, n);
	cr_assert(n == 0 || memcmp(h.bytes, f, n < PKTBUF_HEAD_BYTES ? n : PKTBUF_HEAD_BYTES) == 0);
	cr_assert_eq(h.ether_type, e.ether_type);
	cr_assert_eq(h.flags, e.flags, "flags %#x, not %#x, of %u bytes", h.flags, e.flags, n);
	if (e.flags & PKTBUF_HEAD_IPV4)
		cr_assert(h.l3 == e.l3 && h.l4 == e.l4 && h.ip_proto == e.ip_proto &&
			h.ip_src == e.ip_src && h.ip_dst == e.ip_dst);
	if (e.flags & PKTBUF_HEAD_UDP)
		cr_assert(h.udp_src == e.udp_src && h.udp_dst == e.udp_dst &&
			h.payload == e.payload && h.payload_length == e.payload_length);
	return h.flags;
}

Test(pktbuf_head, every_truncation_in_any_split)
{
	uint8_t f[512];

	for (unsigned int options = 0; options <= 10; options++) {
		unsigned int n = packet_frame(f, options, 150, &seed);

		for (unsigned int cut = 0; cut <= n; cut++)
			for (unsigned int split = 0; split < 8; split++)
				cr_assert_eq((check(f, cut, split > 0) & PKTBUF_HEAD_UDP) != 0,
					cut == n);
		/* Ethernet pads: more bytes than the packet has are no lie. */
		for (unsigned int pad = 0; pad < 40; pad++)
			cr_assert(check(f, n + pad, true) & PKTBUF_HEAD_UDP);
	}
}

Test(pktbuf_head, first_bytes_are_copied_only_when_they_are_not_contiguous)
{
	uint8_t f[512], scratch[PKTBUF_HEAD_BYTES];
	unsigned int n = packet_frame(f, 0, 300, &seed);

	for (unsigned int first = 0; first <= n; first++) {
		const uint16_t sizes[] = {(uint16_t)first, (uint16_t)(n - first)};
		const struct rte_mbuf *m = packet_guarded(f, sizes, 2);
		struct pktbuf_head h;

		pktbuf_head_parse(&h, m, scratch);
		if (first >= PKTBUF_HEAD_BYTES)
			cr_assert_eq(h.bytes, rte_pktmbuf_mtod(m, const uint8_t *));
		else if (first > 0)
			cr_assert_eq(h.bytes, scratch, "a first segment of %u bytes", first);
		cr_assert_eq(memcmp(h.bytes, f, PKTBUF_HEAD_BYTES), 0);
	}
}

Test(pktbuf_head, every_version_and_header_length)
{
	uint8_t f[512];

	for (unsigned int payload = 0; payload < 60; payload += 3) {
		unsigned int n = packet_frame(f, 0, payload, &seed);

		for (unsigned int first = 0; first < 256; first++) {
			f[14] = (uint8_t)first;
			check(f, n, first % 2 == 0);
		}
	}
}

/* VLAN, ARP and IPv6 are among the types. */
Test(pktbuf_head, every_value_of_each_field)
{
	enum { TYPE = 12, TOTAL = 16, FRAGMENT = 20, UDP = 38, PROTOCOL = 23 };
	static const unsigned int fields[] = {TYPE, TOTAL, FRAGMENT, UDP};
	uint8_t f[512];

	for (unsigned int k = 0; k < 3 * 4; k++) {
		unsigned int options = k / 4, n = packet_frame(f, options, 70, &seed);
		unsigned int field = fields[k % 4], at = field + (field == UDP ? 4 * options : 0);

		for (unsigned int value = 0; value < 65536; value++) {
			unsigned int flags;

			weir_put16(f + at, (uint16_t)value);
			flags = check(f, n, value % 16 == 0);
			if (field == TYPE)
				cr_assert_eq(flags != 0, value == 0x0800, "type %#x", value);
			/* A whole packet has neither "more" nor an offset: the two high bits are
			 * free. */
			if (field == FRAGMENT)
				cr_assert_eq((flags & PKTBUF_HEAD_UDP) != 0, value % 0x4000 == 0);
		}
		packet_frame(f, options, 70, &seed);
		for (unsigned int protocol = 0; protocol < 256; protocol++) {
			f[PROTOCOL] = (uint8_t)protocol;
			cr_assert_eq((check(f, n, true) & PKTBUF_HEAD_UDP) != 0, protocol == 17);
		}
	}
}

Test(pktbuf_head, short_frames_have_no_type)
{
	uint8_t f[14];

	memset(f, 0x08, sizeof(f));
	for (unsigned int n = 0; n < 14; n++)
		for (unsigned int split = 0; split < 50; split++)
			cr_assert_eq(check(f, n, split > 0), 0);
}

Test(pktbuf_head, noise_and_damaged_frames)
{
	uint8_t f[2048];

	for (unsigned int turn = 0; turn < 30000; turn++) {
		unsigned int n = packet_frame(f, (unsigned int)(random_bits(&seed) % 11),
			(unsigned int)(random_bits(&seed) % (turn % 10 == 0 ? 1800 : 200)), &seed);
		unsigned int hits = turn % 5 == 0 ? n : (unsigned int)(random_bits(&seed) % 4);

		for (unsigned int i = 0; i < hits; i++)
			f[12 + random_bits(&seed) % 70 % (n - 12)] = (uint8_t)random_bits(&seed);
		if (turn % 3 == 0)
			n = (unsigned int)(random_bits(&seed) % (n + 1));
		check(f, n, turn % 4 != 0);
	}
}

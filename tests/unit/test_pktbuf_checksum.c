/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums of what arrives, against a byte-wise RFC 1071, and the verdicts of devices. */
#include "pktbuf/checksum.h"
#include "pktbuf/port.h"
#include "tests/unit/packet.h"

TestSuite(pktbuf_checksum, .init = packet_begin, .timeout = 90);

static enum pktbuf_verdict
verdict(const struct rte_mbuf *m, enum pktbuf_checksum mode)
{
	const struct pktbuf_port port = {.rx_checksum = mode};
	uint8_t scratch[PKTBUF_HEAD_BYTES];
	struct pktbuf_head head;

	pktbuf_head_parse(&head, m, scratch);
	cr_assert(head.flags & PKTBUF_HEAD_UDP);
	return pktbuf_checksum_verify(&port, m, &head);
}

/* In software, split at random. */
static enum pktbuf_verdict
software(const uint8_t *f, unsigned int n)
{
	return verdict(packet_make(f, n, &seed), PKTBUF_CHECKSUM_SOFTWARE);
}

/* The sum as it lies in memory. */
static uint16_t
sum_of(const uint8_t *p, size_t n)
{
	uint16_t sum = pktbuf_sum_bytes(p, n);
	uint8_t b[2];

	memcpy(b, &sum, 2);
	return weir_get16(b);
}

Test(pktbuf_checksum, sums_of_rfc_1071)
{
	static const uint8_t bytes[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

	cr_assert_eq(sum_of(bytes, 8), 0xddf2); /* its section 3 */
	cr_assert_eq(sum_of(bytes, 0), 0);
	cr_assert_eq(sum_of(bytes + 2, 1), 0xf200, "an odd byte is padded with zero");
}

/* Random bytes, all ones, zeros, and every other word all ones. */
static uint8_t
filler(unsigned int fill, unsigned int i)
{
	const uint8_t bytes[] = {(uint8_t)random_bits(&seed), 0xff, 0, (i & 2) != 0 ? 0xff : 0};

	return bytes[fill];
}

static const unsigned int vectors[] = {128, 256, 512}; /* as far as this CPU has them */

Test(pktbuf_checksum, sums_at_any_address_and_length)
{
	uint8_t *all = malloc(65535 + 8);

	for (unsigned int turn = 0; turn < 3 * 4; turn++) {
		pktbuf_sum_select(vectors[turn % 3]);
		for (unsigned int i = 0; i < 65535 + 8; i++)
			all[i] = filler(turn / 3, i);
		for (unsigned int n = 0; n <= 65535; n += n < 300 ? 1 : n / 16)
			for (unsigned int at = 0; at < 8; at++)
				cr_assert_eq(sum_of(all + at, n), packet_sum(0, all + at, n),
					"%u bytes at %u, %u bits", n, at, vectors[turn % 3]);
		cr_assert_eq(sum_of(all + 1, 65535), packet_sum(0, all + 1, 65535));
	}
	free(all);
}

Test(pktbuf_checksum, sums_read_nothing_beyond_the_end)
{
	uint8_t all[600];

	for (unsigned int i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)random_bits(&seed);
	for (unsigned int turn = 0; turn < 3 * sizeof(all); turn++) {
		uint16_t n = (uint16_t)(turn / 3);

		pktbuf_sum_select(vectors[turn % 3]);
		cr_assert_eq(
			sum_of(packet_guarded(all, &n, 1)->buf_addr, n), packet_sum(0, all, n));
	}
}

Test(pktbuf_checksum, good_frames_cut_at_any_two_places)
{
	uint8_t f[256];

	for (unsigned int payload = 0; payload < 34; payload += 11) { /* even and odd */
		unsigned int n = packet_frame(f, payload % 2, payload, &seed);

		for (unsigned int a = 0; a <= n; a++) {
			for (unsigned int b = a; b <= n; b++) {
				const uint16_t sizes[] = {
					(uint16_t)a, (uint16_t)(b - a), (uint16_t)(n - b)};

				cr_assert_eq(verdict(packet_guarded(f, sizes, 3),
						     PKTBUF_CHECKSUM_SOFTWARE),
					PKTBUF_CHECKSUM_GOOD, "%u, %u of %u", a, b, n);
			}
		}
	}
}

Test(pktbuf_checksum, every_single_bit_counts)
{
	uint8_t f[256], scratch[PKTBUF_HEAD_BYTES];

	for (unsigned int options = 0; options < 3; options++) {
		unsigned int n = packet_frame(f, options, 21, &seed), l4 = 34 + 4 * options;

		for (unsigned int bit = 14 * 8; bit < n * 8; bit++) {
			struct pktbuf_head head;

			f[bit / 8] ^= (uint8_t)(1u << bit % 8);
			pktbuf_head_parse(&head, packet_make(f, n, NULL), scratch);
			if (head.flags & PKTBUF_HEAD_UDP) {
				cr_assert_eq(software(f, n),
					bit / 8 < l4 ? PKTBUF_CHECKSUM_BAD_IP
						     : PKTBUF_CHECKSUM_BAD_UDP,
					"bit %u of byte %u", bit % 8, bit / 8);
				cr_assert_eq(verdict(packet_make(f, n, &seed), PKTBUF_CHECKSUM_OFF),
					PKTBUF_CHECKSUM_GOOD);
			}
			f[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

Test(pktbuf_checksum, the_pseudo_header_counts)
{
	uint8_t f[256];
	unsigned int n = packet_frame(f, 0, 21, &seed);

	/* Another address, and an IPv4 checksum that is right for it: UDP's is not. */
	f[29] ^= 4;
	weir_put16(f + 24, 0);
	weir_put16(f + 24, (uint16_t)~packet_sum(0, f + 14, 20));
	cr_assert_eq(software(f, n), PKTBUF_CHECKSUM_BAD_UDP);
}

Test(pktbuf_checksum, any_payload_in_any_split)
{
	uint8_t f[2048];

	for (unsigned int turn = 0; turn < 4000; turn++) {
		unsigned int n = packet_frame(f, (unsigned int)(random_bits(&seed) % 11),
			(unsigned int)(random_bits(&seed) % 1500), &seed);
		unsigned int l4 = 14 + (f[14] & 0xfu) * 4;
		unsigned int at = (unsigned int)(random_bits(&seed) % (n - l4));
		uint8_t by = (uint8_t)(1 + random_bits(&seed) % 255);

		for (unsigned int i = 26; i < 34; i++) /* addresses with carries */
			if (random_bits(&seed) % 2 == 0)
				f[i] = 0xff;
		packet_fix(f);
		cr_assert_eq(software(f, n), PKTBUF_CHECKSUM_GOOD);
		if (at == 4 || at == 5) /* not the length */
			continue;
		f[l4 + at] ^= by;
		if (weir_get16(f + l4 + 6) == 0) /* "not computed" */
			continue;
		cr_assert_eq(software(f, n), PKTBUF_CHECKSUM_BAD_UDP);
	}
}

Test(pktbuf_checksum, zero_is_not_computed_and_all_ones_is_zero)
{
	uint8_t f[256];
	unsigned int n = packet_frame(f, 0, 20, &seed);

	weir_put16(f + 40, 0);
	f[n - 1] ^= 0x55;
	cr_assert_eq(software(f, n), PKTBUF_CHECKSUM_GOOD);

	/* A payload whose last word makes the checksum 0: it is sent as all ones, and holds. */
	packet_frame(f, 0, 20, &seed);
	weir_put16(f + n - 2, 0);
	packet_fix(f);
	weir_put16(f + n - 2, weir_get16(f + 40));
	packet_fix(f);
	cr_assert_eq(weir_get16(f + 40), 0xffff);
	cr_assert_eq(software(f, n), PKTBUF_CHECKSUM_GOOD);
	f[n - 1] ^= 1;
	cr_assert_eq(software(f, n), PKTBUF_CHECKSUM_BAD_UDP);
}

Test(pktbuf_checksum, padding_does_not_count)
{
	uint8_t f[256];

	for (unsigned int payload = 0; payload < 20; payload++) {
		unsigned int n = packet_frame(f, 0, payload, &seed);

		memset(f + n, 0xa5, 40); /* Ethernet's padding */
		cr_assert_eq(software(f, n + 40), PKTBUF_CHECKSUM_GOOD);
		/* IPv4 may carry more than UDP says. */
		weir_put16(f + 16, (uint16_t)(n + 9 - 14));
		packet_fix(f);
		cr_assert_eq(software(f, n + 40), PKTBUF_CHECKSUM_GOOD);
	}
}

Test(pktbuf_checksum, the_largest_datagram_in_thousands_of_segments)
{
	uint8_t *f = malloc(42 + 65507);
	unsigned int n = packet_frame(f, 0, 65507, &seed);

	for (unsigned int turn = 0; turn < 3; turn++) {
		struct rte_mbuf *first = chain_segment(f, 41), *last = first;

		if (turn == 2) { /* all ones carry most */
			memset(f + 42, 0xff, 65507);
			packet_fix(f);
			memcpy(first->buf_addr, f, 41);
		}
		for (unsigned int at = 41, take; at < n; at += take) {
			take = turn == 0 ? 17 : 1 + (unsigned int)(random_bits(&seed) % 30);
			take = take < n - at ? take : n - at;
			last->next = chain_segment(f + at, (uint16_t)take);
			last = last->next;
			first->pkt_len += take;
			first->nb_segs++;
		}
		cr_assert_eq(verdict(first, PKTBUF_CHECKSUM_SOFTWARE), PKTBUF_CHECKSUM_GOOD);
		*rte_pktmbuf_mtod(last, uint8_t *) ^= 1;
		cr_assert_eq(verdict(first, PKTBUF_CHECKSUM_SOFTWARE), PKTBUF_CHECKSUM_BAD_UDP);
		chain_free(first);
	}
	free(f);
}

/* All verdicts of a device, on frames that are right and wrong, in all modes. */
Test(pktbuf_checksum, verdicts_of_a_device_are_taken)
{
	static const struct {
		uint64_t ip, udp;
		int knows, right;
	} says[] = {
		{RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN, RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN, 0, 0},
		{RTE_MBUF_F_RX_IP_CKSUM_BAD, RTE_MBUF_F_RX_L4_CKSUM_BAD, 1, 0},
		{RTE_MBUF_F_RX_IP_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_GOOD, 1, 1},
		/* "Not correct in the packet data, but the integrity is verified." */
		{RTE_MBUF_F_RX_IP_CKSUM_NONE, RTE_MBUF_F_RX_L4_CKSUM_NONE, 1, 1},
	};
	static const enum pktbuf_checksum modes[] = {
		PKTBUF_CHECKSUM_OFFLOAD, PKTBUF_CHECKSUM_SOFTWARE, PKTBUF_CHECKSUM_OFF};

	for (unsigned int turn = 0; turn < 4 * 4 * 3 * 4; turn++) {
		unsigned int i = turn % 4, u = turn / 4 % 4, real = turn / 48;
		enum pktbuf_checksum mode = modes[turn / 16 % 3];
		enum pktbuf_verdict got;
		bool device = mode == PKTBUF_CHECKSUM_OFFLOAD;
		bool ip = device && says[i].knows ? says[i].right : !(real & 1);
		bool udp = device && says[u].knows ? says[u].right : !(real & 2);
		uint8_t f[256];
		unsigned int n = packet_frame(f, 0, 33, &seed);
		struct rte_mbuf *m;

		f[22] ^= real & 1; /* time to live: IPv4's checksum alone */
		f[n - 1] ^= real & 2;
		m = packet_make(f, n, &seed);
		m->ol_flags = says[i].ip | says[u].udp | RTE_MBUF_F_RX_RSS_HASH;
		got = verdict(m, mode);
		if (mode == PKTBUF_CHECKSUM_OFF)
			ip = udp = true;
		cr_assert_eq(got,
			!ip           ? PKTBUF_CHECKSUM_BAD_IP
				: udp ? PKTBUF_CHECKSUM_GOOD
				      : PKTBUF_CHECKSUM_BAD_UDP,
			"mode %d, device says %u and %u, frame is %u: %d", mode, i, u, real, got);
	}
}

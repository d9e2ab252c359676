/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C: the examples of RFC 3720, and each implementation against a bitwise one. */
#include "pktbuf/wire/crc32c.h"
#include "tests/model/tags.h"
#include "tests/unit/packet.h"

static const unsigned int vectors[] = {0, 128, 512}; /* as far as this CPU has them */

TestSuite(pktbuf_crc32c, .init = packet_begin, .timeout = 90);

#define MOST 9500 /* bytes: more than two rounds of each loop */

Test(pktbuf_crc32c, examples_of_rfc_3720)
{
	static const uint8_t command[48] = {0x01,
		0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02};
	uint8_t zeros[32] = {0}, ones[32], up[32], down[32], end[4];
	const struct {
		const uint8_t *bytes;
		size_t length;
		uint8_t crc[4]; /* as it is sent */
	} example[] = {
		{zeros, 32, {0xaa, 0x36, 0x91, 0x8a}},
		{ones, 32, {0x43, 0xab, 0xa8, 0x62}},
		{up, 32, {0x4e, 0x79, 0xdd, 0x46}},
		{down, 32, {0x5c, 0xdb, 0x3f, 0x11}},
		{command, 48, {0x56, 0x3a, 0x96, 0xd9}},
	};

	memset(ones, 0xff, sizeof(ones));
	for (unsigned int i = 0; i < 32; i++) {
		up[i] = (uint8_t)i;
		down[31 - i] = (uint8_t)i;
	}
	for (unsigned int v = 0; v < 3; v++) {
		weir_crc32c_select(vectors[v]);
		for (unsigned int i = 0; i < 5; i++) {
			weir_crc32c_put(end, weir_crc32c(0, example[i].bytes, example[i].length));
			cr_assert_arr_eq(
				end, example[i].crc, 4, "example %u, %u bits", i, vectors[v]);
		}
	}
}

Test(pktbuf_crc32c, any_address_length_and_split)
{
	uint8_t *all = malloc(MOST + 64 + 4);

	for (unsigned int i = 0; i < MOST + 64; i++)
		all[i] = (uint8_t)random_bits(&seed);
	for (unsigned int n = 0; n <= MOST;
		n += n < 400 ? 1 : 1 + (unsigned int)random_bits(&seed) % 90) {
		const uint8_t *p = all + random_bits(&seed) % 64;
		size_t first = random_bits(&seed) % (n + 1);
		uint32_t right = tags_crc32c(0, p, n);

		for (unsigned int v = 0; v < 3; v++) {
			weir_crc32c_select(vectors[v]);
			cr_assert_eq(
				weir_crc32c(0, p, n), right, "%u bytes, %u bits", n, vectors[v]);
			cr_assert_eq(weir_crc32c(weir_crc32c(0, p, first), p + first, n - first),
				right, "%zu of %u bytes, %u bits", first, n, vectors[v]);
		}
	}
	free(all);
}

/* What ends with its CRC has the residue, and no more when up to 3 bits are flipped: RFC 3385,
 * 4. */
Test(pktbuf_crc32c, flipped_bits)
{
	uint8_t bytes[4116 + 4];
	const size_t n = sizeof(bytes);

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)random_bits(&seed);
	weir_crc32c_put(bytes + n - 4, weir_crc32c(0, bytes, n - 4));
	cr_assert_eq(weir_crc32c(0, bytes, n), WEIR_CRC32C_RESIDUE);
	for (unsigned int turn = 0; turn < 20000; turn++) {
		size_t bit[3];

		for (unsigned int i = 0; i < 3; i++) {
			bit[i] = random_bits(&seed) % (8 * n);
			bytes[bit[i] / 8] ^= (uint8_t)(1 << bit[i] % 8);
		}
		cr_assert_neq(weir_crc32c(0, bytes, n), WEIR_CRC32C_RESIDUE, "%zu %zu %zu", bit[0],
			bit[1], bit[2]);
		for (unsigned int i = 0; i < 3; i++)
			bytes[bit[i] / 8] ^= (uint8_t)(1 << bit[i] % 8);
	}
}

/* Several messages at once: right, and with up to 3 flipped bits in one of them, or the same
 * ones in two. */
Test(pktbuf_crc32c, several_at_once)
{
	static const unsigned int lengths[] = {
		16, 31, 63, 64, 65, 127, 128, 191, 192, 276, 1040, 4112, 4116};
	uint8_t *all = malloc(8 * 4200);

	for (unsigned int turn = 0; turn < 40000; turn++) {
		size_t n = lengths[random_bits(&seed) % 13], count = 1 + random_bits(&seed) % 8;
		size_t bit[3], one = random_bits(&seed) % count, other = random_bits(&seed) % count;
		const uint8_t *message[8];
		bool right = turn % 2 == 0;

		for (unsigned int i = 0; i < count; i++) {
			uint8_t *p = all + 4200 * i + random_bits(&seed) % 64;

			for (size_t b = 0; b < 16; b++)
				p[random_bits(&seed) % (n - 4)] = (uint8_t)random_bits(&seed);
			weir_crc32c_put(p + n - 4, weir_crc32c(0, p, n - 4));
			message[i] = p;
		}
		weir_crc32c_select(turn % 16 < 2 ? 128 : 512);
		cr_assert(weir_crc32c_hold(message, (unsigned int)count, n), "%zu of %zu bytes",
			count, n);
		if (right)
			continue;
		for (unsigned int i = 0; i < 3; i++) {
			bit[i] = random_bits(&seed) % (8 * n);
			((uint8_t *)(uintptr_t)message[one])[bit[i] / 8] ^=
				(uint8_t)(1 << bit[i] % 8);
			if (other != one)
				((uint8_t *)(uintptr_t)message[other])[bit[i] / 8] ^=
					(uint8_t)(1 << bit[i] % 8);
		}
		cr_assert(!weir_crc32c_hold(message, (unsigned int)count, n),
			"%zu of %zu bytes: %zu %zu %zu in %zu and %zu", count, n, bit[0], bit[1],
			bit[2], one, other);
	}
	free(all);
}

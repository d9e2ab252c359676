/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/wire/crc32c.h"

#include "pktbuf/wire/crc32c_priv.h"

static weir_crc32c_fn crc_of = weir_crc32c_table;

void
weir_crc32c_select(unsigned int bits)
{
	crc_of = weir_crc32c_table;
#ifdef __x86_64__
	if (bits >= 128 && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
		crc_of = weir_crc32c_sse42;
	if (bits >= 512 && crc_of == weir_crc32c_sse42 && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("vpclmulqdq"))
		crc_of = weir_crc32c_avx512;
#else
	(void)bits;
#endif
}

static __attribute__((constructor)) void
select_widest(void)
{
	weir_crc32c_select(512);
}

uint32_t
weir_crc32c(uint32_t crc, const void *bytes, size_t length)
{
	return ~crc_of(~crc, bytes, length);
}

bool
weir_crc32c_hold(const uint8_t *const message[], unsigned int n, size_t length)
{
	bool hold = true;

#ifdef __x86_64__
	if (n > 1 && crc_of == weir_crc32c_avx512)
		return weir_crc32c_avx512_hold(message, n, length);
#endif
	for (unsigned int i = 0; i < n; i++)
		hold = hold && weir_crc32c(0, message[i], length) == WEIR_CRC32C_RESIDUE;
	return hold;
}

/* For each byte, what it adds after 0 to 3 more bytes: "slicing" (M. Kounavis, F. Berry, 2005). */
#define SLICES 4
static uint32_t table[SLICES][256];

static __attribute__((constructor)) void
fill_table(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (unsigned int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
		table[0][byte] = crc;
	}
	for (unsigned int i = 1; i < SLICES; i++)
		for (unsigned int byte = 0; byte < 256; byte++)
			table[i][byte] =
				table[i - 1][byte] >> 8 ^ table[0][table[i - 1][byte] & 0xff];
}

uint32_t
weir_crc32c_table(uint32_t crc, const uint8_t *bytes, size_t length)
{
	for (; length >= SLICES; length -= SLICES, bytes += SLICES)
		crc = table[3][(crc ^ bytes[0]) & 0xff] ^ table[2][(crc >> 8 ^ bytes[1]) & 0xff] ^
			table[1][(crc >> 16 ^ bytes[2]) & 0xff] ^ table[0][crc >> 24 ^ bytes[3]];
	while (length-- > 0)
		crc = crc >> 8 ^ table[0][(crc ^ *bytes++) & 0xff];
	return crc;
}

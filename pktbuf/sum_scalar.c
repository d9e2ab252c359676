/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/sum_priv.h"

/* Two chains, which the compiler vectorizes. */
uint64_t
pktbuf_sum_scalar(const uint8_t *bytes, size_t length)
{
	uint64_t low = 0, high = 0;
	size_t words = length / 8;

	for (size_t i = 0; i < words; i++) {
		uint64_t word;

		memcpy(&word, bytes + 8 * i, 8);
		low += word & 0xffffffff;
		high += word >> 32;
	}
	return low + high + pktbuf_sum_rest(bytes + 8 * words, length - 8 * words);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/sum_priv.h"

/* The compiler vectorizes it. */
uint64_t
pktbuf_sum_scalar(const uint8_t *bytes, size_t length, uint64_t sum)
{
	size_t words = length / 4;

	for (size_t i = 0; i < words; i++)
		sum += pktbuf_sum_word(bytes + 4 * i);
	return sum + pktbuf_sum_last(bytes + length, length % 4);
}

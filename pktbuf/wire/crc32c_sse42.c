/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/wire/crc32c_priv.h"

#include <wmmintrin.h>

/* An instruction takes 3 cycles, and one begins per cycle: three parts of at most this many words
 * go side by side. */
#define WORDS_MAX 128

static uint32_t after[2 * WORDS_MAX + 1]; /* R(64 i - 33): i words follow */

static __attribute__((constructor)) void
fill(void)
{
	if (!__builtin_cpu_supports("sse4.2"))
		return;
	after[1] = 1; /* x^31 */
	for (unsigned int i = 2; i <= 2 * WORDS_MAX; i++)
		after[i] = (uint32_t)_mm_crc32_u64(after[i - 1], 0);
}

static inline uint64_t
word_at(const uint8_t *bytes, size_t i)
{
	uint64_t word;

	memcpy(&word, bytes + i * sizeof(word), sizeof(word));
	return word;
}

/* What a part with this CRC, followed by `words` words, adds to the last word. */
static inline uint64_t
shifted(uint64_t crc, size_t words)
{
	return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(
		_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)after[words]), 0));
}

uint32_t
weir_crc32c_sse42(uint32_t crc, const uint8_t *bytes, size_t length)
{
	while (length >= 3 * 8 * sizeof(uint64_t)) {
		size_t all = length / (3 * sizeof(uint64_t)),
		       words = all < WORDS_MAX ? all : WORDS_MAX;
		const uint8_t *second = bytes + words * sizeof(uint64_t);
		const uint8_t *third = second + words * sizeof(uint64_t);
		uint64_t a = crc, b = 0, c = 0;

		for (size_t i = 0; i < words - 1; i++) {
			a = _mm_crc32_u64(a, word_at(bytes, i));
			b = _mm_crc32_u64(b, word_at(second, i));
			c = _mm_crc32_u64(c, word_at(third, i));
		}
		a = _mm_crc32_u64(a, word_at(bytes, words - 1));
		b = _mm_crc32_u64(b, word_at(second, words - 1));
		c = _mm_crc32_u64(
			c, word_at(third, words - 1) ^ shifted(a, 2 * words) ^ shifted(b, words));
		crc = (uint32_t)c;
		bytes = third + words * sizeof(uint64_t);
		length -= 3 * words * sizeof(uint64_t);
	}
	return crc32c_serial(crc, bytes, length);
}

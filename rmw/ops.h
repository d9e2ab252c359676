/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engines' operations on single words of memory: what Trio does beside its memory, as inline
 * functions. (The policer is in policer.h, additions of vectors are in kernels.h.)
 *
 * The owner of the word calls them. A word has 4 or 8 bytes, is aligned to its size, and is in host
 * order. Arithmetic wraps. No operation can fail; each costs the word's cache line and one to three
 * instructions.
 */
#ifndef RMW_OPS_H
#define RMW_OPS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* A packet and byte counter: 16 bytes, so that four fill a line and none lies in two. owner: rw,
 * others: ro (each field alone is consistent; the two may be a packet apart) */
struct rmw_counter {
	_Alignas(16) uint64_t packets;
	uint64_t bytes;
};
static_assert(sizeof(struct rmw_counter) == 16, "two words");

/* `packets` packets of `bytes` bytes together. */
static inline void
rmw_count_burst(struct rmw_counter *counter, uint32_t packets, uint64_t bytes)
{
	counter->packets += packets;
	counter->bytes += bytes;
}

/* One packet of `bytes` bytes. */
static inline void
rmw_count(struct rmw_counter *counter, uint32_t bytes)
{
	rmw_count_burst(counter, 1, bytes);
}

/* rmw_fetch_and32(word, operand), ...: change the word and return its value before. */
#define RMW_FETCH(name, bits, after)                                                               \
	static inline uint##bits##_t name##bits(uint##bits##_t *word, uint##bits##_t operand)      \
	{                                                                                          \
		uint##bits##_t before = *word;                                                     \
                                                                                                   \
		*word = after;                                                                     \
		return before;                                                                     \
	}
#define RMW_FETCHES(bits)                                                                          \
	RMW_FETCH(rmw_fetch_and, bits, before &operand)                                            \
	RMW_FETCH(rmw_fetch_or, bits, before | operand)                                            \
	RMW_FETCH(rmw_fetch_xor, bits, before ^ operand)                                           \
	RMW_FETCH(rmw_fetch_clear, bits, before & ~operand) /* all bits: read and reset */         \
	RMW_FETCH(rmw_fetch_add, bits, before + operand)                                           \
	RMW_FETCH(rmw_swap, bits, operand)                                                         \
	/* The bits of mask become those of value: a field of a word that has several. */          \
	static inline void rmw_write_masked##bits(                                                 \
		uint##bits##_t *word, uint##bits##_t value, uint##bits##_t mask)                   \
	{                                                                                          \
		*word = (*word & ~mask) | (value & mask);                                          \
	}
RMW_FETCHES(32)
RMW_FETCHES(64)

/*
 * The two 32-bit halves of a word, each plus its half of operand; no carry passes from the low half
 * to the high one. The sum without the two top bits cannot carry out of a half; these are added by
 * exclusive or, whose carry would be lost anyway.
 */
static inline void
rmw_add32x2(uint64_t *word, uint64_t operand)
{
	const uint64_t top = UINT64_C(0x8000000080000000);

	*word = ((*word & ~top) + (operand & ~top)) ^ ((*word ^ operand) & top);
}

/*
 * rmw_add32x2 on `n` words: 2 n additions of 32 bits, of which an engine of Trio does two per
 * clock. words, operands: aligned to 8, not overlapping. For many, at any alignment: the kernel of
 * WEIR_DTYPE_UINT32 and WEIR_OP_SUM (kernels.h). Cost: a cycle or less per word.
 */
static inline void
rmw_add32_words(uint64_t *restrict words, const uint64_t *restrict operands, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rmw_add32x2(&words[i], operands[i]);
}

#endif

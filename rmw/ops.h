/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engines' operations on single words of memory: what Trio does beside its memory, as inline
 * functions. (Its policer is in policer.h, its adds over vectors in kernels.h.)
 *
 * All are for the owner of the word. A word is 4 or 8 bytes, aligned to its size, in host order.
 * Arithmetic wraps. None can fail; each costs the word's cache line and an instruction or three.
 * "fetch" means that the value before the operation is returned.
 */
#ifndef RMW_OPS_H
#define RMW_OPS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* A packet/byte counter: 16 bytes, so that four lie in a line and none in two. owner: rw, others:
 * ro (each field alone is whole; the two may be a packet apart) */
struct rmw_counter {
	_Alignas(16) uint64_t packets;
	uint64_t bytes;
};
static_assert(sizeof(struct rmw_counter) == 16, "two words");

/* One packet of `bytes` bytes. */
static inline void
rmw_count(struct rmw_counter *counter, uint32_t bytes)
{
	counter->packets++;
	counter->bytes += bytes;
}

/* `packets` packets of `bytes` bytes together: a burst in one update. */
static inline void
rmw_count_burst(struct rmw_counter *counter, uint32_t packets, uint64_t bytes)
{
	counter->packets += packets;
	counter->bytes += bytes;
}

/* word &= operand */
static inline uint32_t
rmw_fetch_and32(uint32_t *word, uint32_t operand)
{
	uint32_t before = *word;

	*word = before & operand;
	return before;
}

static inline uint64_t
rmw_fetch_and64(uint64_t *word, uint64_t operand)
{
	uint64_t before = *word;

	*word = before & operand;
	return before;
}

/* word |= operand */
static inline uint32_t
rmw_fetch_or32(uint32_t *word, uint32_t operand)
{
	uint32_t before = *word;

	*word = before | operand;
	return before;
}

static inline uint64_t
rmw_fetch_or64(uint64_t *word, uint64_t operand)
{
	uint64_t before = *word;

	*word = before | operand;
	return before;
}

/* word ^= operand */
static inline uint32_t
rmw_fetch_xor32(uint32_t *word, uint32_t operand)
{
	uint32_t before = *word;

	*word = before ^ operand;
	return before;
}

static inline uint64_t
rmw_fetch_xor64(uint64_t *word, uint64_t operand)
{
	uint64_t before = *word;

	*word = before ^ operand;
	return before;
}

/* word &= ~operand: the bits of operand are cleared; all of them: read and reset. */
static inline uint32_t
rmw_fetch_clear32(uint32_t *word, uint32_t operand)
{
	uint32_t before = *word;

	*word = before & ~operand;
	return before;
}

static inline uint64_t
rmw_fetch_clear64(uint64_t *word, uint64_t operand)
{
	uint64_t before = *word;

	*word = before & ~operand;
	return before;
}

/* word = value; returns what was there. */
static inline uint32_t
rmw_swap32(uint32_t *word, uint32_t value)
{
	uint32_t before = *word;

	*word = value;
	return before;
}

static inline uint64_t
rmw_swap64(uint64_t *word, uint64_t value)
{
	uint64_t before = *word;

	*word = value;
	return before;
}

/* The bits of mask become those of value, the others stay: a field of a word that has several. */
static inline void
rmw_write_masked32(uint32_t *word, uint32_t value, uint32_t mask)
{
	*word = (*word & ~mask) | (value & mask);
}

static inline void
rmw_write_masked64(uint64_t *word, uint64_t value, uint64_t mask)
{
	*word = (*word & ~mask) | (value & mask);
}

/* word += operand; returns the value before. To subtract, add the two's complement. */
static inline uint32_t
rmw_fetch_add32(uint32_t *word, uint32_t operand)
{
	uint32_t before = *word;

	*word = before + operand;
	return before;
}

static inline uint64_t
rmw_fetch_add64(uint64_t *word, uint64_t operand)
{
	uint64_t before = *word;

	*word = before + operand;
	return before;
}

/*
 * The two 32-bit halves of a word, each plus its half of operand; no carry passes from the low half
 * to the high one. The sum without the two top bits can't carry out of a half; these are added by
 * exclusive or, whose carry would be lost anyway.
 */
static inline void
rmw_add32x2(uint64_t *word, uint64_t operand)
{
	const uint64_t top = UINT64_C(0x8000000080000000);

	*word = ((*word & ~top) + (operand & ~top)) ^ ((*word ^ operand) & top);
}

/*
 * rmw_add32x2 on `n` words: 2 n adds of 32 bits, of which an engine of Trio does two per clock.
 * words, operands: aligned to 8, not overlapping. For many, at any alignment: the kernel of
 * RMW_TYPE_UINT32 or INT32 and RMW_OP_SUM (kernels.h). Cost: a cycle or less per word.
 */
static inline void
rmw_add32_words(uint64_t *restrict words, const uint64_t *restrict operands, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rmw_add32x2(&words[i], operands[i]);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engines' operations on single words of memory, as inline functions. (The policer is in policer.h,
 * additions over vectors in kernels.h.)
 *
 * All are for the owner of the word. A word is 4 or 8 bytes, aligned to its size, in host order.
 * Arithmetic wraps. None can fail; each costs the word's cache line and one to three instructions.
 * "fetch" returns the value before the operation.
 */
#ifndef RMW_OPS_H
#define RMW_OPS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* A packet/byte counter: 16 bytes, so that it never crosses a cache line. owner: rw, others: ro (each
 * field is consistent alone; the two may differ by a packet) */
struct rmw_counter {
	_Alignas(16) uint64_t packets;
	uint64_t bytes;
};
static_assert(sizeof(struct rmw_counter) == 16, "two words");

/* Count one packet of `bytes` bytes. */
static inline void
rmw_count(struct rmw_counter *counter, uint32_t bytes)
{
	counter->packets++;
	counter->bytes += bytes;
}

/* Count a burst of `packets` packets with `bytes` bytes together. */
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

/* word &= ~operand: clear the bits of operand. With all bits set: read and reset. */
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

/* word = value; returns the value before. */
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

/* Set the bits of mask to those of value and keep the others: writes a field of a word. */
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
 * Add each 32-bit half of operand to that of the word, without a carry from the low half to the high
 * one. The sum without the top bits can't carry out of a half; the top bits are added by exclusive or,
 * because their carry is lost anyway.
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
 * WEIR_DTYPE_UINT32 or INT32 and WEIR_OP_SUM (kernels.h). Cost: a cycle or less per word.
 */
static inline void
rmw_add32_words(uint64_t *restrict words, const uint64_t *restrict operands, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rmw_add32x2(&words[i], operands[i]);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The engines' word operations against plain references, on random words. */
#include <string.h>

#include <criterion/criterion.h>

#include "rmw/ops.h"
#include "tests/random.h"

#define ROUNDS 100000

/* Random words, and the ones whose carries and signs are special. */
static uint64_t
word(uint64_t *state)
{
	static const uint64_t special[] = {0, 1, UINT64_MAX, INT64_MAX, UINT64_C(1) << 63,
		UINT64_C(0xffffffff), UINT64_C(0x100000000), UINT64_C(0x80000000),
		UINT64_C(0x8000000080000000), UINT64_C(0x7fffffff7fffffff)};
	uint64_t i = random_below(state, 20);

	return i < 10 ? special[i] : random_bits(state);
}

Test(rmw_ops, counters, .timeout = 90)
{
	struct rmw_counter counter = {0};
	uint64_t state = random_seed(), packets = 0, bytes = 0;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint32_t n = (uint32_t)random_below(&state, 300), size = (uint32_t)word(&state);

		rmw_count(&counter, size);
		packets++;
		bytes += size;
		rmw_count_burst(&counter, n, (uint64_t)n * size);
		packets += n;
		bytes += (uint64_t)n * size;
		cr_assert(counter.packets == packets && counter.bytes == bytes);
	}
}

/* Bit by bit, as a table of truth says. */
#define BIT_OP(name, type, bits, is)                                                               \
	static type reference_##name##bits(type a, type b)                                         \
	{                                                                                          \
		type result = 0;                                                                   \
                                                                                                   \
		for (unsigned int i = 0; i < bits; i++) {                                          \
			bool x = a >> i & 1, y = b >> i & 1;                                       \
                                                                                                   \
			result |= (type)(is) << i;                                                 \
		}                                                                                  \
		return result;                                                                     \
	}                                                                                          \
	Test(rmw_ops, fetch_##name##bits, .timeout = 90)                                           \
	{                                                                                          \
		uint64_t state = random_seed();                                                    \
                                                                                                   \
		for (unsigned int i = 0; i < ROUNDS; i++) {                                        \
			type a = (type)word(&state), b = (type)word(&state);                       \
			type w[3] = {(type)0x5555, a, (type)0xaaaa};                               \
                                                                                                   \
			cr_assert_eq(rmw_fetch_##name##bits(&w[1], b), a);                         \
			cr_assert_eq(w[1], reference_##name##bits(a, b));                          \
			cr_assert(w[0] == 0x5555 && w[2] == 0xaaaa);                               \
		}                                                                                  \
	}

BIT_OP(and, uint32_t, 32, x &&y)
BIT_OP(and, uint64_t, 64, x &&y)
BIT_OP(or, uint32_t, 32, x || y)
BIT_OP(or, uint64_t, 64, x || y)
BIT_OP(xor, uint32_t, 32, x != y)
BIT_OP(xor, uint64_t, 64, x != y)
BIT_OP(clear, uint32_t, 32, x && !y)
BIT_OP(clear, uint64_t, 64, x && !y)

Test(rmw_ops, swap_and_masked_write, .timeout = 90)
{
	uint64_t state = random_seed();

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t w = word(&state), value = word(&state), mask = word(&state), before = w;
		uint32_t w32 = (uint32_t)w, before32 = w32;

		cr_assert_eq(rmw_swap64(&w, value), before);
		cr_assert_eq(w, value);
		cr_assert_eq(rmw_swap32(&w32, (uint32_t)value), before32);
		cr_assert_eq(w32, (uint32_t)value);

		w = before;
		w32 = before32;
		rmw_write_masked64(&w, value, mask);
		rmw_write_masked32(&w32, (uint32_t)value, (uint32_t)mask);
		for (unsigned int bit = 0; bit < 64; bit++)
			cr_assert_eq(w >> bit & 1, (mask >> bit & 1 ? value : before) >> bit & 1);
		cr_assert_eq(w32, (uint32_t)w);
	}
}

Test(rmw_ops, adds, .timeout = 90)
{
	uint64_t state = random_seed();

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t a = word(&state), b = word(&state), w = a;
		uint32_t low = (uint32_t)a + (uint32_t)b;
		uint32_t high = (uint32_t)(a >> 32) + (uint32_t)(b >> 32), w32 = (uint32_t)a;

		rmw_add32x2(&w, b);
		cr_assert_eq(w, (uint64_t)high << 32 | low, "%lx + %lx", a, b);
		cr_assert_eq(rmw_fetch_add32(&w32, (uint32_t)b), (uint32_t)a);
		cr_assert_eq(w32, low);
		w = a;
		cr_assert_eq(rmw_fetch_add64(&w, b), a);
		cr_assert_eq(w - b, a);
	}
}

Test(rmw_ops, add32_words, .timeout = 90)
{
	uint64_t state = random_seed();

	for (size_t n = 0; n <= 40; n++) {
		uint64_t a[42], b[42], expected[42];

		for (size_t i = 0; i < 42; i++) {
			a[i] = expected[i] = word(&state);
			b[i] = word(&state);
			if (i < n)
				expected[i] = (uint64_t)(uint32_t)((a[i] >> 32) + (b[i] >> 32))
						<< 32 |
					(uint32_t)(a[i] + b[i]);
		}
		rmw_add32_words(a, b, n);
		cr_assert_eq(memcmp(a, expected, sizeof(a)), 0, "n %zu", n);
	}
}

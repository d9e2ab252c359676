/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Templates of the vector kernels: loops over whole vectors and a remainder. The file of each
 * family of types is compiled once per instruction set. The operations passed to a loop are
 * inlined.
 */
#ifndef RMW_KERNELS_VECTOR_H
#define RMW_KERNELS_VECTOR_H

#include "rmw/kernels_avx2.h"
#include "rmw/kernels_avx512.h"
#include "rmw/kernels_priv.h"

#ifdef V_BYTES
#define V_INLINE static inline __attribute__((always_inline))

/*
 * `bytes` bytes of acc = op(op(acc, src[0]), src[1]) ..., or, if there is `first`, of acc =
 * op(first(src[0]), src[1]) ... `rest` handles the remainder. It is not inlined, because with AVX2
 * it needs an aligned stack frame, which would cost every call.
 */
V_INLINE void
v_reduce(void *restrict acc, const void *const *src, unsigned int n_src, size_t bytes,
	vector (*first)(vector), vector (*op)(vector, vector),
	void (*rest)(uint8_t *restrict, const void *const *, unsigned int, size_t, size_t))
{
	uint8_t *to = acc;
	const uint8_t *from = src[0];
	size_t i = 0;

#define V_START(at)                                                                                \
	(first != NULL ? first(v_load(from + (at))) : op(v_load(to + (at)), v_load(from + (at))))
	for (; i + 4 * V_BYTES <= bytes; i += 4 * V_BYTES) {
		vector v0 = V_START(i), v1 = V_START(i + V_BYTES);
		vector v2 = V_START(i + 2 * V_BYTES), v3 = V_START(i + 3 * V_BYTES);

		for (unsigned int s = 1; s < n_src; s++) {
			const uint8_t *more = (const uint8_t *)src[s] + i;

			v0 = op(v0, v_load(more));
			v1 = op(v1, v_load(more + V_BYTES));
			v2 = op(v2, v_load(more + 2 * V_BYTES));
			v3 = op(v3, v_load(more + 3 * V_BYTES));
		}
		v_store(to + i, v0);
		v_store(to + i + V_BYTES, v1);
		v_store(to + i + 2 * V_BYTES, v2);
		v_store(to + i + 3 * V_BYTES, v3);
	}
	for (; i + V_BYTES <= bytes; i += V_BYTES) {
		vector v = V_START(i);

		for (unsigned int s = 1; s < n_src; s++)
			v = op(v, v_load((const uint8_t *)src[s] + i));
		v_store(to + i, v);
	}
#undef V_START
	if (i < bytes)
		rest(to, src, n_src, i, bytes - i);
}

/* acc = op(acc, with), of `bytes` bytes. */
V_INLINE void
v_finish(void *acc, size_t bytes, vector with, vector (*op)(vector, vector))
{
	uint8_t *to = acc;
	size_t i = 0;

	for (; i + V_BYTES <= bytes; i += V_BYTES)
		v_store(to + i, op(v_load(to + i), with));
	if (i < bytes)
		v_store_part(to + i, op(v_load_part(to + i, bytes - i), with), bytes - i);
}

/*
 * n elements of acc = op(op(acc, load(src[0])), load(src[1])) ...; if there is `first`, of acc
 * = op(first(src[0]), load(src[1])) .... `size`: bytes of an element of a source.
 */
V_INLINE void
v_reduce_wide(void *restrict acc, const void *const *src, unsigned int n_src, size_t n, size_t size,
	vector (*first)(const uint8_t *, size_t), vector (*load)(const uint8_t *, size_t),
	vector (*op)(vector, vector))
{
	uint8_t *to = acc;
	const uint8_t *from = src[0];
	size_t i = 0;

#define V_START(at)                                                                                \
	(first != NULL ? first(from + size * (at), V_WORDS)                                        \
		       : op(v_load(to + 4 * (at)), load(from + size * (at), V_WORDS)))
	for (; i + 4 * V_WORDS <= n; i += 4 * V_WORDS) {
		vector v0 = V_START(i), v1 = V_START(i + V_WORDS);
		vector v2 = V_START(i + 2 * V_WORDS), v3 = V_START(i + 3 * V_WORDS);

		for (unsigned int s = 1; s < n_src; s++) {
			const uint8_t *more = (const uint8_t *)src[s] + size * i;

			v0 = op(v0, load(more, V_WORDS));
			v1 = op(v1, load(more + size * V_WORDS, V_WORDS));
			v2 = op(v2, load(more + 2 * size * V_WORDS, V_WORDS));
			v3 = op(v3, load(more + 3 * size * V_WORDS, V_WORDS));
		}
		v_store(to + 4 * i, v0);
		v_store(to + 4 * i + V_BYTES, v1);
		v_store(to + 4 * i + 2 * V_BYTES, v2);
		v_store(to + 4 * i + 3 * V_BYTES, v3);
	}
#undef V_START
	while (i < n) {
		size_t rest = n - i < V_WORDS ? n - i : V_WORDS;
		vector v = first != NULL ? first(from + size * i, rest)
					 : op(rest == V_WORDS ? v_load(to + 4 * i)
							      : v_load_part(to + 4 * i, 4 * rest),
						   load(from + size * i, rest));

		for (unsigned int s = 1; s < n_src; s++)
			v = op(v, load((const uint8_t *)src[s] + size * i, rest));
		if (rest == V_WORDS)
			v_store(to + 4 * i, v);
		else
			v_store_part(to + 4 * i, v, 4 * rest);
		i += rest;
	}
}

/* Store op(acc, with), for n elements of 32 bits, as results of `size` bytes, in place: each vector
 * is read before its results are written, and these are never longer. */
V_INLINE void
v_narrow(void *acc, size_t n, size_t size, vector with, vector (*op)(vector, vector),
	void (*store)(uint8_t *, vector, size_t))
{
	uint8_t *p = acc;
	size_t i = 0;

	for (; i + V_WORDS <= n; i += V_WORDS)
		store(p + size * i, op(v_load(p + 4 * i), with), V_WORDS);
	if (i < n)
		store(p + size * i, op(v_load_part(p + 4 * i, 4 * (n - i)), with), n - i);
}

static inline vector
v_same(vector x)
{
	return x;
}

/* A pair of functions: NAME_begin, whose first contribution goes through `first`, and NAME. */
#define V_REDUCE(name, bits, first, op)                                                            \
	V_REDUCE_AS(name##_begin, bits, first, first(v_load_part(from, bytes)), op)                \
	V_REDUCE_AS(name, bits, NULL, op(v_load_part(to, bytes), v_load_part(from, bytes)), op)

#define V_REDUCE_AS(name, bits, first, start, op)                                                  \
	static __attribute__((noinline)) void name##_rest(uint8_t *restrict acc,                   \
		const void *const *src, unsigned int n_src, size_t at, size_t bytes)               \
	{                                                                                          \
		uint8_t *to = acc + at;                                                            \
		const uint8_t *from = (const uint8_t *)src[0] + at;                                \
		vector v = start;                                                                  \
                                                                                                   \
		for (unsigned int s = 1; s < n_src; s++)                                           \
			v = op(v, v_load_part((const uint8_t *)src[s] + at, bytes));               \
		v_store_part(to, v, bytes);                                                        \
	}                                                                                          \
	static void name(                                                                          \
		void *restrict acc, const void *const src[], unsigned int n_src, size_t n)         \
	{                                                                                          \
		if (n_src == 1) /* a loop of its own */                                            \
			v_reduce(acc, src, 1, n *(bits / 8), first, op, name##_rest);              \
		else                                                                               \
			v_reduce(acc, src, n_src, n *(bits / 8), first, op, name##_rest);          \
	}

#define V_REDUCE_WIDE(name, size, first, load, op)                                                 \
	static void name##_begin(                                                                  \
		void *restrict acc, const void *const src[], unsigned int n_src, size_t n)         \
	{                                                                                          \
		v_reduce_wide(acc, src, n_src, n, size, first, load, op);                          \
	}                                                                                          \
	static void name(                                                                          \
		void *restrict acc, const void *const src[], unsigned int n_src, size_t n)         \
	{                                                                                          \
		v_reduce_wide(acc, src, n_src, n, size, NULL, load, op);                           \
	}

#endif
#endif

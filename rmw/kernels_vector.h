/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Templates of the vector kernels: loops over whole vectors and a remainder. The file of each family of types is
 * compiled once per instruction set. The operations passed to a loop are inlined.
 */
#ifndef RMW_KERNELS_VECTOR_H
#define RMW_KERNELS_VECTOR_H

#include "rmw/kernels_avx2.h"
#include "rmw/kernels_avx512.h"
#include "rmw/kernels_priv.h"

#ifdef V_BYTES
#define V_INLINE static inline __attribute__((always_inline))

/* acc = op(acc, src), of `bytes` bytes. `rest` handles the remainder. It is not inlined, because with AVX2 it needs
 * an aligned stack frame, which would cost every call. */
V_INLINE void
v_reduce(void *restrict acc, const void *restrict src, size_t bytes, vector (*op)(vector, vector),
	void (*rest)(uint8_t *restrict, const uint8_t *restrict, size_t))
{
	uint8_t *to = acc;
	const uint8_t *from = src;
	size_t i = 0;

	for (; i + 4 * V_BYTES <= bytes; i += 4 * V_BYTES) {
		vector v0 = op(v_load(to + i), v_load(from + i));
		vector v1 = op(v_load(to + i + V_BYTES), v_load(from + i + V_BYTES));
		vector v2 = op(v_load(to + i + 2 * V_BYTES), v_load(from + i + 2 * V_BYTES));
		vector v3 = op(v_load(to + i + 3 * V_BYTES), v_load(from + i + 3 * V_BYTES));

		v_store(to + i, v0);
		v_store(to + i + V_BYTES, v1);
		v_store(to + i + 2 * V_BYTES, v2);
		v_store(to + i + 3 * V_BYTES, v3);
	}
	for (; i + V_BYTES <= bytes; i += V_BYTES)
		v_store(to + i, op(v_load(to + i), v_load(from + i)));
	if (i < bytes)
		rest(to + i, from + i, bytes - i);
}

/* to = op(from), of `bytes` bytes; `rest` as above. */
V_INLINE void
v_map(void *restrict to, const void *restrict from, size_t bytes, vector (*op)(vector),
	void (*rest)(uint8_t *restrict, const uint8_t *restrict, size_t))
{
	uint8_t *t = to;
	const uint8_t *f = from;
	size_t i = 0;

	for (; i + 4 * V_BYTES <= bytes; i += 4 * V_BYTES) {
		vector v0 = op(v_load(f + i)), v1 = op(v_load(f + i + V_BYTES));
		vector v2 = op(v_load(f + i + 2 * V_BYTES)), v3 = op(v_load(f + i + 3 * V_BYTES));

		v_store(t + i, v0);
		v_store(t + i + V_BYTES, v1);
		v_store(t + i + 2 * V_BYTES, v2);
		v_store(t + i + 3 * V_BYTES, v3);
	}
	for (; i + V_BYTES <= bytes; i += V_BYTES)
		v_store(t + i, op(v_load(f + i)));
	if (i < bytes)
		rest(t + i, f + i, bytes - i);
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

/* acc = load(src), for n elements of `size` bytes. */
V_INLINE void
v_widen(void *restrict acc, const void *restrict src, size_t n, size_t size,
	vector (*load)(const uint8_t *, size_t))
{
	uint8_t *to = acc;
	const uint8_t *from = src;
	size_t i = 0;

	for (; i + V_WORDS <= n; i += V_WORDS)
		v_store(to + 4 * i, load(from + size * i, V_WORDS));
	if (i < n)
		v_store_part(to + 4 * i, load(from + size * i, n - i), 4 * (n - i));
}

/* acc = op(acc, load(src)), for n elements of `size` bytes. */
V_INLINE void
v_reduce_wide(void *restrict acc, const void *restrict src, size_t n, size_t size,
	vector (*load)(const uint8_t *, size_t), vector (*op)(vector, vector))
{
	uint8_t *to = acc;
	const uint8_t *from = src;
	size_t i = 0;

	for (; i + 4 * V_WORDS <= n; i += 4 * V_WORDS) {
		uint8_t *t = to + 4 * i;
		const uint8_t *f = from + size * i;
		vector v0 = op(v_load(t), load(f, V_WORDS));
		vector v1 = op(v_load(t + V_BYTES), load(f + size * V_WORDS, V_WORDS));
		vector v2 = op(v_load(t + 2 * V_BYTES), load(f + 2 * size * V_WORDS, V_WORDS));
		vector v3 = op(v_load(t + 3 * V_BYTES), load(f + 3 * size * V_WORDS, V_WORDS));

		v_store(t, v0);
		v_store(t + V_BYTES, v1);
		v_store(t + 2 * V_BYTES, v2);
		v_store(t + 3 * V_BYTES, v3);
	}
	for (; i + V_WORDS <= n; i += V_WORDS)
		v_store(to + 4 * i, op(v_load(to + 4 * i), load(from + size * i, V_WORDS)));
	if (i < n) {
		size_t rest = n - i;

		v_store_part(to + 4 * i,
			op(v_load_part(to + 4 * i, 4 * rest), load(from + size * i, rest)),
			4 * rest);
	}
}

/* Store op(acc, with), for n elements of 32 bits, as results of `size` bytes, in place: each vector is read before
 * its results are written, and these are never longer. */
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

#define V_REST(name, result)                                                                       \
	static __attribute__((noinline)) void name##_rest(                                         \
		uint8_t *restrict to, const uint8_t *restrict from, size_t bytes)                  \
	{                                                                                          \
		v_store_part(to, result, bytes);                                                   \
	}

#define V_REDUCE(name, bits, op)                                                                   \
	V_REST(name, op(v_load_part(to, bytes), v_load_part(from, bytes)))                         \
	static void name(void *restrict acc, const void *restrict src, size_t n)                   \
	{                                                                                          \
		v_reduce(acc, src, n *(bits / 8), op, name##_rest);                                \
	}

#define V_MAP(name, bits, op)                                                                      \
	V_REST(name, op(v_load_part(from, bytes)))                                                 \
	static void name(void *restrict acc, const void *restrict src, size_t n)                   \
	{                                                                                          \
		v_map(acc, src, n *(bits / 8), op, name##_rest);                                   \
	}

#define V_WIDE(name, size, load)                                                                   \
	static void name(void *restrict acc, const void *restrict src, size_t n)                   \
	{                                                                                          \
		v_widen(acc, src, n, size, load);                                                  \
	}

#define V_REDUCE_WIDE(name, size, load, op)                                                        \
	static void name(void *restrict acc, const void *restrict src, size_t n)                   \
	{                                                                                          \
		v_reduce_wide(acc, src, n, size, load, op);                                        \
	}

#endif
#endif

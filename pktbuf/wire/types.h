/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types of elements, operations and collectives, for the switch, the hosts' library and its users.
 * Part of libweir's installed header; pktbuf/wire/wire.h has the layout of packets.
 */
#ifndef PKTBUF_TYPES_H
#define PKTBUF_TYPES_H

#define WEIR_SOURCES_MAX  256 /* source ids are [0, 256) */
#define WEIR_BITMAP_BYTES 32 /* source s is bit (s % 8), LSB first, of byte (s / 8) */
#define WEIR_KEY_BYTES    32 /* of a key of an authenticated job */

/*
 * The types of elements: name, code on the wire (ext.dtype), text, bytes, kind, and for floating
 * point the bits of exponent and fraction. FINITE is floating point without infinities, whose only
 * NaN has all bits set (OCP 8-bit Floating Point Specification 1.0).
 */
#define WEIR_DTYPE_LIST(X)                                                                         \
	X(INT8, 0, "int8", 1, SIGNED, 0, 0)                                                        \
	X(UINT8, 1, "uint8", 1, UNSIGNED, 0, 0)                                                    \
	X(INT16, 2, "int16", 2, SIGNED, 0, 0)                                                      \
	X(UINT16, 3, "uint16", 2, UNSIGNED, 0, 0)                                                  \
	X(INT32, 4, "int32", 4, SIGNED, 0, 0)                                                      \
	X(UINT32, 5, "uint32", 4, UNSIGNED, 0, 0)                                                  \
	X(INT64, 6, "int64", 8, SIGNED, 0, 0)                                                      \
	X(UINT64, 7, "uint64", 8, UNSIGNED, 0, 0)                                                  \
	X(FP16, 8, "fp16", 2, FLOAT, 5, 10)                                                        \
	X(BF16, 9, "bf16", 2, FLOAT, 8, 7)                                                         \
	X(FP32, 10, "fp32", 4, FLOAT, 8, 23)                                                       \
	X(FP64, 11, "fp64", 8, FLOAT, 11, 52)                                                      \
	X(FP8_E4M3, 12, "fp8_e4m3", 1, FINITE, 4, 3)                                               \
	X(FP8_E5M2, 13, "fp8_e5m2", 1, FLOAT, 5, 2)

enum weir_dtype {
#define WEIR_X(name, code, ...) WEIR_DTYPE_##name = code,
	WEIR_DTYPE_LIST(WEIR_X)
#undef WEIR_X
};

/* The operations that reduce: name, code on the wire (ext.op), text, and whether ALL types have it
 * or INTEGERS alone. */
#define WEIR_OP_LIST(X)                                                                            \
	X(SUM, 0, "sum", ALL)                                                                      \
	X(PROD, 1, "prod", ALL)                                                                    \
	X(MIN, 2, "min", ALL)                                                                      \
	X(MAX, 3, "max", ALL)                                                                      \
	X(AVG, 4, "avg", ALL)                                                                      \
	X(BAND, 5, "band", INTEGERS)                                                               \
	X(BOR, 6, "bor", INTEGERS)                                                                 \
	X(BXOR, 7, "bxor", INTEGERS)                                                               \
	X(LAND, 8, "land", INTEGERS)                                                               \
	X(LOR, 9, "lor", INTEGERS)                                                                 \
	X(LXOR, 10, "lxor", INTEGERS)

enum weir_op {
#define WEIR_X(name, code, ...) WEIR_OP_##name = code,
	WEIR_OP_LIST(WEIR_X)
#undef WEIR_X
};

/*
 * The collectives: name, code on the wire (ext.collective), text, and what makes a row of the table
 * in pktbuf/wire/collectives.h: contribution, result, receivers. The base form means ALLREDUCE, and
 * BARRIER when grad_cnt is 0. The last three are headers of the protocol and no collectives: they
 * have no receivers.
 */
#define WEIR_COLLECTIVE_LIST(X)                                                                    \
	X(ALLREDUCE, 0, "allreduce", REDUCE, WHOLE, ALL)                                           \
	X(REDUCE, 1, "reduce", REDUCE, WHOLE, ROOT)                                                \
	X(REDUCESCATTER, 2, "reducescatter", REDUCE, SLICE, EACH)                                  \
	X(BROADCAST, 3, "broadcast", ROOT, WHOLE, ALL)                                             \
	X(SCATTER, 4, "scatter", ROOT, SLICE, EACH)                                                \
	X(GATHER, 5, "gather", SLICE, WHOLE, ROOT)                                                 \
	X(ALLGATHER, 6, "allgather", SLICE, WHOLE, ALL)                                            \
	X(ALLTOALL, 7, "alltoall", ROW, COLUMN, EACH)                                              \
	X(BARRIER, 8, "barrier", NOTHING, NOTHING, ALL)                                            \
	X(PROBE, 13, "probe", NOTHING, NOTHING, NONE)                                              \
	X(ACKNOWLEDGE, 14, "acknowledge", NOTHING, NOTHING, NONE)                                  \
	X(JOIN, 15, "join", NOTHING, NOTHING, NONE)

enum weir_collective {
#define WEIR_X(name, code, ...) WEIR_COLLECTIVE_##name = code,
	WEIR_COLLECTIVE_LIST(WEIR_X)
#undef WEIR_X
};

enum {
#define WEIR_X(...) +1
	WEIR_DTYPES = 0 WEIR_DTYPE_LIST(WEIR_X), /* codes are [0, WEIR_DTYPES) */
	WEIR_OPS = 0 WEIR_OP_LIST(WEIR_X)
#undef WEIR_X
};

/* Size of an element in bytes, 0 for a dtype that does not exist. dtype: any value. */
static inline unsigned int
weir_dtype_bytes(unsigned int dtype)
{
	switch (dtype) {
#define WEIR_X(name, code, text, bytes, ...)                                                       \
	case code: return bytes;
		WEIR_DTYPE_LIST(WEIR_X)
#undef WEIR_X
	default: return 0;
	}
}

/* Is it a floating-point type? 0 or 1. dtype: any value. */
static inline int
weir_dtype_is_float(unsigned int dtype)
{
	enum { WEIR_SIGNED, WEIR_UNSIGNED, WEIR_FLOAT, WEIR_FINITE };

	switch (dtype) {
#define WEIR_X(name, code, text, bytes, kind, ...)                                                 \
	case code: return WEIR_##kind >= WEIR_FLOAT;
		WEIR_DTYPE_LIST(WEIR_X)
#undef WEIR_X
	default: return 0;
	}
}

/* Do elements of this type have this operation? 0 or 1. dtype, op: any value. */
static inline int
weir_dtype_has_op(unsigned int dtype, unsigned int op)
{
	enum { WEIR_ALL, WEIR_INTEGERS };

	switch (op) {
#define WEIR_X(name, code, text, types)                                                            \
	case code:                                                                                 \
		return dtype < WEIR_DTYPES &&                                                      \
			(WEIR_##types == WEIR_ALL || !weir_dtype_is_float(dtype));
		WEIR_OP_LIST(WEIR_X)
#undef WEIR_X
	default: return 0;
	}
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types of elements and operations: the names that the switch, the hosts' library and the programs
 * that use it have in common. Part of libweir's installed header; what only packets need is in
 * pktbuf/wire/wire.h.
 */
#ifndef PKTBUF_TYPES_H
#define PKTBUF_TYPES_H

#define WEIR_SOURCES_MAX  256 /* source ids are [0, 256) */
#define WEIR_BITMAP_BYTES 32 /* source s is bit (s % 8), LSB first, of byte (s / 8) */
#define WEIR_KEY_BYTES    32 /* of a key of an authenticated job */

/* The types of elements, with their code on the wire (ext.dtype) and the size in bytes. */
#define WEIR_DTYPE_LIST(X)                                                                         \
	X(INT8, 0, "int8", 1)                                                                      \
	X(UINT8, 1, "uint8", 1)                                                                    \
	X(INT16, 2, "int16", 2)                                                                    \
	X(UINT16, 3, "uint16", 2)                                                                  \
	X(INT32, 4, "int32", 4)                                                                    \
	X(UINT32, 5, "uint32", 4)                                                                  \
	X(INT64, 6, "int64", 8)                                                                    \
	X(UINT64, 7, "uint64", 8)                                                                  \
	X(FP16, 8, "fp16", 2)                                                                      \
	X(BF16, 9, "bf16", 2)                                                                      \
	X(FP32, 10, "fp32", 4)                                                                     \
	X(FP64, 11, "fp64", 8)

enum weir_dtype {
#define WEIR_X(name, code, text, bytes) WEIR_DTYPE_##name = code,
	WEIR_DTYPE_LIST(WEIR_X)
#undef WEIR_X
};

/* The operations that reduce, with their code on the wire (ext.op). */
#define WEIR_OP_LIST(X)                                                                            \
	X(SUM, 0, "sum")                                                                           \
	X(PROD, 1, "prod")                                                                         \
	X(MIN, 2, "min")                                                                           \
	X(MAX, 3, "max")                                                                           \
	X(AVG, 4, "avg")                                                                           \
	X(BAND, 5, "band")                                                                         \
	X(BOR, 6, "bor")                                                                           \
	X(BXOR, 7, "bxor")                                                                         \
	X(LAND, 8, "land")                                                                         \
	X(LOR, 9, "lor")                                                                           \
	X(LXOR, 10, "lxor")

enum weir_op {
#define WEIR_X(name, code, text) WEIR_OP_##name = code,
	WEIR_OP_LIST(WEIR_X)
#undef WEIR_X
};

/* Size of an element in bytes, 0 for a dtype that does not exist. dtype: any value. */
static inline unsigned int
weir_dtype_bytes(unsigned int dtype)
{
	switch (dtype) {
#define WEIR_X(name, code, text, bytes)                                                            \
	case code: return bytes;
		WEIR_DTYPE_LIST(WEIR_X)
#undef WEIR_X
	default: return 0;
	}
}

#endif

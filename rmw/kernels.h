/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector kernels: what makes one vector of many, element by element, for each element type and
 * operation, in variants for what the CPU has. No DPDK here.
 *
 * WHAT IS SERVED. The table has a cell per type and operation: begin, reduce and finish, explained
 * at struct rmw_reduction. An empty cell is NULL and means "not supported", which the caller turns
 * into an answer of its protocol:
 *
 *                             int8-64, uint8-64    fp16, bf16    fp32, fp64
 *     sum, prod               x                    x             x
 *     min, max                x                    x             x
 *     avg                     x                    x             x
 *     band, bor, bxor         x                    -             -
 *     land, lor, lxor         x                    -             -
 *
 * An accumulator's elements are those of the type; they have 32 bits in their stead for sum, prod
 * and avg of fp16 and bf16, which accumulate in fp32, and for avg of int8 and int16, signed or not,
 * whose sum of 256 contributions is exact there. So a buffer of 4 bytes for each element (8 for
 * types of 8) serves every cell.
 *
 * RESULTS ARE THE SAME BITS IN EVERY VARIANT, so that a sum does not depend on the machine, nor on
 * where a packet was cut:
 *   integers   sum and prod wrap (two's complement). avg is the sum, for 32 and 64 bits the wrapped
 *              one, divided by the number of contributions, rounded towards zero. land, lor, lxor
 *              take what is not 0 for true and give 0 or 1, of a single contribution too.
 *   fp32 sum   IEEE 754 binary32, in the rounding mode and with the denormal handling of the
 *              thread's MXCSR, which nobody in Weir changes: round to nearest, ties to even,
 *              denormals kept (never flushed). Each element is one addition, acc + src. When one
 *              operand is NaN, the result is that NaN, made quiet (bit 22 set), sign and payload
 *              kept; when both are, that of acc, the first operand. inf + -inf is 0xffc00000. That
 *              is what x86's addition does with acc as its first operand; a compiler may exchange
 *              the operands of a C addition (and does), so the kernels spell the instruction.
 *              Floating-point sums depend on the order of the additions: a block's result is that
 *              of the order in which its contributions were added. A single contribution is
 *              copied, a signalling NaN too.
 *   fp32 prod, fp64
 *              the same, with 0 * inf for inf + -inf, and bit 51 for bit 22 (the NaN of an invalid
 *              operation is 0xfff8000000000000). Products depend on the order as sums do.
 *   fp16, bf16 sum, prod
 *              made fp32 (exactly; a signalling NaN of fp16 becomes quiet here), accumulated as
 *              fp32, and rounded once, by finish: to nearest, ties to even, to a denormal where it
 *              is one, from halfway beyond the largest number to infinity. A NaN keeps its sign
 *              and the upper bits of its payload, and becomes quiet. fp16 as F16C does both.
 *   floating-point avg
 *              the accumulated sum, divided in the accumulator's type by the number of
 *              contributions (a division, not a product with the reciprocal), then, for fp16 and
 *              bf16, rounded as above.
 *   floating-point min, max
 *              minimum and maximum of IEEE 754-2019: -0 is less than 0, and with a NaN among the
 *              contributions the result is the canonical quiet NaN, 0x7e00, 0x7fc0, 0x7fc00000 or
 *              0x7ff8000000000000, of a single contribution too. So the order does not matter.
 *
 * MEMORY. acc and src must not overlap. Both may lie anywhere (src is a packet's payload, at any
 * byte); acc aligned to 64 is faster. Exactly n elements are read from each, and written to acc:
 * not a byte beyond, be it only read. Elements are little-endian, as on the wire and as x86 has
 * them.
 *
 * DESIGN. The scalar kernels say what the bits are (kernels_scalar_*.c, one file per family of
 * types). The vector ones are written once (kernels_vector_*.c), over a header of operations per
 * instruction set (kernels_avx2.h, kernels_avx512.h), and compiled for each with its own flags,
 * because the rest of the program is compiled for any x86-64 (DPDK: corei7); the table to use is
 * chosen by the CPU's features when the program starts. An indirect call per segment of a packet
 * is nothing beside 1024 additions. The kernels are loops of four vectors; what is left is a masked
 * vector for AVX-512, and for AVX2, which has no masks for bytes, one by way of the stack.
 *
 * Not used are AVX512-BF16, whose conversion takes denormals for 0, and the arithmetic of
 * AVX512-FP16, which rounds to fp16 at every step: both would change the bits.
 *
 * Measured on one core of a Sapphire Rapids (2 MiB L2), 1024 elements, acc aligned and src 58 bytes
 * into a line, GB/s of src (as much is read and written in acc); `weir-bench kernels` has a line for
 * every cell:
 *
 *                      int32 sum                fp32 sum
 *               scalar  AVX2  AVX-512    scalar  AVX2  AVX-512    copy
 *     in L1         46    72      129        13    93      129     126
 *     in L2         32    45       47        10    44       47      45
 *     beyond L2     15    15       15        11    15       15      15
 *
 * So from L2 on a vector kernel is as fast as a copy: it waits for the cache, not for the adds.
 * (Scalar int32 is vectorised by the compiler, for SSE2.) finish runs once per block.
 */
#ifndef RMW_KERNELS_H
#define RMW_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pktbuf/wire/types.h"

/* Instruction sets, narrowest first: name, number, text (as in the configuration). */
#define RMW_ISA_LIST(X)                                                                            \
	X(AUTO, 0, "auto")                                                                         \
	X(SCALAR, 1, "scalar")                                                                     \
	X(AVX2, 2, "avx2")                                                                         \
	X(AVX512, 3, "avx512")

enum rmw_isa {
#define X(name, code, text) RMW_ISA_##name = code,
	RMW_ISA_LIST(X)
#undef X
};

enum { RMW_ISA_COUNT = 4 };

/*
 * The first contribution: acc[i] = src[i], i in [0, n_elements), made what the accumulator has (of
 * more bits, 0 or 1, its NaN canonical). acc is only written. n_elements may be 0. Owner of acc.
 */
typedef void (*rmw_begin_fn)(void *restrict acc, const void *restrict src, size_t n_elements);

/* Another one: acc[i] = acc[i] OP src[i], i in [0, n_elements); n_elements may be 0. Owner of acc. */
typedef void (*rmw_reduce_fn)(void *restrict acc, const void *restrict src, size_t n_elements);

/*
 * acc becomes the result, in place, its elements packed from the front. count: how many
 * contributions are in acc, [1, 256]. What then lies behind the result, up to the accumulator's
 * end, is undefined. Once, after the last contribution. n_elements may be 0. Owner of acc.
 */
typedef void (*rmw_finish_fn)(void *acc, size_t n_elements, unsigned int count);

/*
 * How contributions become a result: begin, any number of times reduce, finish. Begin and reduce
 * may be applied piece by piece, elements [i, j) of src to those of acc, i * acc_bytes into it.
 */
struct rmw_reduction {
	rmw_begin_fn begin;
	rmw_reduce_fn reduce;
	rmw_finish_fn finish; /* NULL: acc is the result */
	uint8_t acc_bytes; /* of an element of acc: the type's size, or 4 where that is more */
};

/* Copy `bytes` bytes; they must not overlap. Exactly these are read and written. Owner of `to`. */
typedef void (*rmw_copy_fn)(void *restrict to, const void *restrict from, size_t bytes);

/*
 * Choose the variant that rmw_reduction and rmw_kernel_copy give from now on: the widest that this CPU
 * has and that is not wider than `limit` (RMW_ISA_AUTO: no limit; a number out of range too).
 * Returns it, never AUTO. Control thread, before the kernels are asked for; without a call, AUTO.
 */
enum rmw_isa rmw_kernels_select(enum rmw_isa limit);

/*
 * The chosen reduction; NULL: not supported. type, op: any number. Valid for ever. Not per packet:
 * keep the pointer.
 */
const struct rmw_reduction *rmw_reduction(enum weir_dtype type, enum weir_op op);

/* The reduction of one variant, whatever is chosen; NULL: not supported, by it or by this CPU.
 * isa: any number, AUTO stands for the widest. Any thread. For tests and benches. */
const struct rmw_reduction *rmw_reduction_of(
	enum rmw_isa isa, enum weir_dtype type, enum weir_op op);

/* The chosen copy. Not per packet: keep the pointer. */
rmw_copy_fn rmw_kernel_copy(void);

/* Can this CPU, and this build, run the variant? AUTO: true. isa: any number. Any thread. */
bool rmw_isa_supported(enum rmw_isa isa);

/* That of one variant; NULL: this CPU lacks it. isa: as above. Any thread. */
rmw_copy_fn rmw_kernel_copy_of(enum rmw_isa isa);

/* The text of an instruction set, "?" for a number that does not exist; the number of a text, or -EINVAL. */
const char *rmw_isa_name(enum rmw_isa isa);
int rmw_isa_parse(const char *name);

#endif

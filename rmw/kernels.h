/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector kernels: they reduce many vectors to one, element by element, for each element type and
 * operation, in variants for the CPU's instruction sets. No DPDK here.
 *
 * WHAT IS SERVED. The table has a cell per type and operation: begin, reduce and finish, explained
 * at struct rmw_reduction. Integers have all operations; floating point has sum, prod, min, max and
 * avg. The other cells are NULL, which the caller answers with its protocol's "unsupported".
 *
 * An element of the accumulator has the type's size, or 32 bits: for sum, prod and avg of fp16,
 * bf16 and fp8, which accumulate in fp32; for avg of int8 and int16, signed or not, whose sum of
 * 256 contributions is exact there; and where a variant needs it. So 4 bytes per element (8 for
 * types of 8) serve every cell.
 *
 * RESULTS HAVE THE SAME BITS IN EVERY VARIANT: a sum does not depend on the machine, nor on where a
 * packet was cut.
 *   integers   sum and prod wrap. avg is the sum (wrapped for 32 and 64 bits) divided by the number
 *              of contributions, towards zero. land, lor, lxor take nonzero values as true and give
 *              0 or 1, even for a single contribution.
 *   fp32, fp64 sum, prod
 *              IEEE 754, to nearest, ties to even, denormals kept (the default MXCSR, which Weir
 *              never changes). Each element is one operation, acc OP src. If one operand is NaN,
 *              the result is that NaN made quiet, with its sign and payload; if both are, that of
 *              acc. An invalid operation gives the negative quiet NaN with no payload. That is what
 *              x86's instructions do with acc as first operand; compilers exchange the operands of
 *              a C addition, so the kernels spell the instruction. Results depend on the order. A
 *              single contribution is copied, even a signalling NaN.
 *   fp16, bf16, fp8 sum, prod
 *              converted to fp32 (exactly), accumulated there, and rounded once by finish: to
 *              nearest, ties to even, to denormals, and from halfway beyond the largest number to
 *              infinity. fp8_e4m3 has no infinity, and rounds to NaN instead: OCP's conversion
 *              without saturation, so that an overflow is seen. A NaN keeps its sign and the upper
 *              bits of its payload, and becomes quiet. fp16 as F16C does.
 *   floating-point avg
 *              the accumulated sum, divided in the accumulator's type by the number of
 *              contributions (a division, not a product with the reciprocal), then rounded as
 *              above.
 *   floating-point min, max
 *              minimum and maximum of IEEE 754-2019: -0 is less than 0, and with a NaN among the
 *              contributions the result is the canonical quiet NaN (weir_dtype_float() in
 *              pktbuf/wire/wire.h), also of a single contribution. So the order does not matter.
 *
 * MEMORY. acc and src must not overlap. Both may have any alignment (src is a packet's payload); an
 * acc aligned to 64 is faster. Exactly n elements are read from each and written to acc. Elements
 * are little-endian.
 *
 * DESIGN. The scalar kernels define the bits (kernels_scalar_*.c, a file per family of types). The
 * vector kernels are written once (kernels_vector_*.c), over a header of operations per instruction
 * set (kernels_avx2.h, kernels_avx512.h), and compiled for each with its own flags, because the
 * rest of the program is compiled for any x86-64. The CPU's features select the table when the
 * program starts. The kernels are loops of four vectors, which take all contributions of a call
 * before they are stored; a single contribution has a loop of its own. The remainder takes a masked
 * vector with AVX-512, and a copy on the stack with AVX2, which has no byte masks. AVX512-BF16,
 * whose conversion takes denormals for 0, and AVX512-FP16, which rounds to fp16 at every step, are
 * not used: they would change the bits.
 *
 * Measured on one core of a Sapphire Rapids (2 MiB L2), 1024 elements, acc aligned and src 58 bytes
 * into a line, GB/s of src (as much is read and written in acc); `weir-bench kernels` measures
 * every cell:
 *
 *                      int32 sum                fp32 sum
 *               scalar  AVX2  AVX-512    scalar  AVX2  AVX-512    copy
 *     in L1         46    72      129        13    93      129     126
 *     in L2         32    45       47        10    44       47      45
 *     beyond L2     15    15       15        11    15       15      15
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
 * Contributions src[0] to src[n_src - 1], each of n_elements, in this order. reduce: acc[i] =
 * acc[i] OP src[0][i] OP src[1][i] ...; begin: acc[i] = src[0][i] OP src[1][i] ..., where src[0] is
 * converted to the accumulator's form and acc is only written. The result has the same bits as if
 * each contribution were added by a call of its own. n_src: at least 1; n_elements may be 0. The
 * vector kernels read and write acc once, however many contributions there are. Owner of acc.
 */
typedef void (*rmw_reduce_fn)(
	void *restrict acc, const void *const src[], unsigned int n_src, size_t n_elements);

/*
 * Turn acc into the result, in place, its elements packed from the front. count: contributions in
 * acc, [1, 256]. The bytes between the result's and the accumulator's end are undefined. Call once,
 * after the last contribution. n_elements may be 0. Owner of acc.
 */
typedef void (*rmw_finish_fn)(void *acc, size_t n_elements, unsigned int count);

/*
 * How contributions become a result: begin once, reduce any number of times, finish once. Begin and
 * reduce may be applied piece by piece: elements [i, j) of src go to acc at byte i * acc_bytes.
 */
struct rmw_reduction {
	rmw_reduce_fn begin, reduce;
	rmw_finish_fn finish; /* NULL: acc is the result */
	uint8_t acc_bytes; /* of an element of acc: the type's size or 4 */
};

/* Copy exactly `bytes` bytes, which must not overlap. Owner of `to`. */
typedef void (*rmw_copy_fn)(void *restrict to, const void *restrict from, size_t bytes);

/*
 * Choose the variant that rmw_reduction and rmw_kernel_copy return from now on: the widest that
 * this CPU has, up to `limit` (RMW_ISA_AUTO or a number out of range: no limit, also the default).
 * Returns the variant, never AUTO. Control thread, before the first use of the kernels.
 */
enum rmw_isa rmw_kernels_select(enum rmw_isa limit);

/*
 * The chosen variant's reduction; NULL: not supported. type, op: any number. Valid forever. Keep
 * the pointer instead of a call per packet.
 */
const struct rmw_reduction *rmw_reduction(enum weir_dtype type, enum weir_op op);

/* The reduction of a given variant; NULL: the variant or this CPU does not support it. isa: any
 * number; AUTO: the widest. Any thread. For tests and benches. */
const struct rmw_reduction *rmw_reduction_of(
	enum rmw_isa isa, enum weir_dtype type, enum weir_op op);

/*
 * Sums of sums: a sum, product or average whose elements are narrower than 4 bytes has an
 * accumulator of fp32, or of 32 bits, in every variant. Where it is not finished but reduced
 * further, as between the switches of a tree, *wide is that reduction: its contributions are such
 * accumulators, and finish makes the narrow result of them; count: of the elements in all of them.
 * false: this type and operation have no such accumulator, and a finished result is a contribution
 * like any other, but an average must not be finished before. type, op: any number. _of: of a given
 * variant, for tests. Control thread.
 */
bool rmw_reduction_wide(enum weir_dtype type, enum weir_op op, struct rmw_reduction *wide);
bool rmw_reduction_wide_of(
	enum rmw_isa isa, enum weir_dtype type, enum weir_op op, struct rmw_reduction *wide);

/* The chosen variant's copy. Keep the pointer. */
rmw_copy_fn rmw_kernel_copy(void);

/* Can this CPU, and this build, run the variant? AUTO: true. isa: any number. Any thread. */
bool rmw_isa_supported(enum rmw_isa isa);

/* The copy of a given variant; NULL: this CPU does not support it. isa: as above. Any thread. */
rmw_copy_fn rmw_kernel_copy_of(enum rmw_isa isa);

/* The text of an instruction set, "?" for other numbers; the number of a text, or -EINVAL. */
const char *rmw_isa_name(enum rmw_isa isa);
int rmw_isa_parse(const char *name);

#endif

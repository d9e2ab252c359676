/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench kernels: the vector kernels of every type and operation, in every instruction set,
 * beside the loop that the compiler makes of plain C for the same instruction set, and beside a
 * copy of as many bytes. Accumulators begin lines, contributions lie 58 bytes into one, as behind a
 * packet's headers; as many blocks as `kib` takes are reduced in turn. Rates are per second of CPU
 * time. Without EAL.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "apps/bench/bench.h"
#include "apps/bench/kernels_loops.h"
#include "pktbuf/wire/wire.h"

#define LINE    64u
#define INTO    58u /* Ethernet, IPv4, UDP, aggregation header, extension: 14 + 20 + 8 + 12 + 4 */
#define BATCH   64u /* blocks between two looks at the clock */
#define SOURCES 8u /* of the blocks that are begun, reduced and finished */

static struct option_list kib = {2, {16, 512}};
static uint64_t elements = 1024;
static const char *only_type = "all", *only_op = "all";

static const struct option_row options[] = {
	{"type", 0, OPTION_TEXT, &only_type, 0, 0, "TYPE", "of elements: int8, ..., fp64, or all"},
	{"op", 0, OPTION_TEXT, &only_op, 0, 0, "OP", "operation: sum, ..., lxor, or all"},
	{"elements", 0, OPTION_UINT, &elements, 1, 65536, NULL, "of a block"},
	{"kib", 0, OPTION_LIST, &kib, 1, 1 << 20, NULL,
		"KiB of accumulators and contributions in turn"},
	{0},
};

static const enum rmw_isa isas[] = {RMW_ISA_SCALAR, RMW_ISA_AVX2, RMW_ISA_AVX512};
enum { ISAS = sizeof(isas) / sizeof(isas[0]) };

/* What is measured of a cell: GB/s of contributions. */
enum what {
	KERNEL, /* of an instruction set, and the loop of the same one */
	LOOP = KERNEL + ISAS,
	COPY = LOOP + ISAS, /* by the widest */
	BLOCK, /* begun, reduced and finished, by the widest */
	WHATS,
};

struct cell {
	enum weir_dtype type;
	enum weir_op op;
	size_t src_bytes, acc_stride, src_stride, blocks;
	uint8_t *acc, *src; /* blocks times their strides */
	const struct rmw_reduction *widest;
};

static kernels_loop_fn
loop_of(enum rmw_isa isa, enum weir_dtype type, enum weir_op op)
{
	if (!rmw_isa_supported(isa))
		return NULL;
#ifdef __x86_64__
	if (isa != RMW_ISA_SCALAR)
		return (isa == RMW_ISA_AVX2 ? kernels_loop_avx2 : kernels_loop_avx512)(type, op);
#endif
	return kernels_loop_scalar(type, op);
}

/* Floating-point numbers are 1 and -1: sums and products of any number of them stay normal. */
static void
fill(const struct cell *c, uint8_t *to, uint64_t *state)
{
	const struct weir_float f = weir_dtype_float(c->type);
	size_t size = weir_dtype_bytes(c->type);

	for (size_t i = 0; i < elements; i++) {
		uint64_t bits = bench_random(state) >> (64 - 8 * size);

		if (f.exponent_bits != 0) /* 1 or -1 */
			bits = ((UINT64_C(1) << (f.exponent_bits - 1)) - 1) << f.fraction_bits |
				(bits & UINT64_C(1) << (8 * size - 1));
		memcpy(to + i * size, &bits, size);
	}
}

static int
cell_create(struct cell *c, uint64_t bytes)
{
	uint64_t state = 1;

	c->widest = rmw_reduction_of(RMW_ISA_AUTO, c->type, c->op);
	c->src_bytes = elements * weir_dtype_bytes(c->type);
	c->acc_stride = RTE_ALIGN(elements * c->widest->acc_bytes, (uint64_t)LINE);
	c->src_stride = RTE_ALIGN(INTO + c->src_bytes, (size_t)LINE);
	c->blocks = RTE_MAX(bytes / (c->acc_stride + c->src_stride), 1u);
	c->acc = aligned_alloc(LINE, c->blocks * c->acc_stride);
	c->src = aligned_alloc(LINE, c->blocks * c->src_stride);
	if (c->acc == NULL || c->src == NULL) {
		warnx("no memory for blocks");
		return -1;
	}
	for (size_t b = 0; b < c->blocks; b++)
		fill(c, c->src + b * c->src_stride + INTO, &state);
	return 0;
}

/* A block of the first contributions, in one pass. */
static void
whole_block(const struct cell *c, const struct rmw_reduction *r, uint8_t *acc)
{
	const void *src[SOURCES];

	for (unsigned int s = 0; s < SOURCES; s++)
		src[s] = c->src + s % c->blocks * c->src_stride + INTO;
	r->begin(acc, src, SOURCES, elements);
	if (r->finish != NULL)
		r->finish(acc, elements, SOURCES);
}

/* GB/s, or BENCH_NONE. */
static double
rate(const struct cell *c, unsigned int what)
{
	bool is_loop = what >= LOOP && what < COPY;
	enum rmw_isa isa = what < COPY ? isas[what % ISAS] : RMW_ISA_AUTO;
	/* A loop's accumulators are plain numbers; a kernel's are what it makes of them. */
	const struct rmw_reduction *r =
		rmw_reduction_of(is_loop ? RMW_ISA_SCALAR : isa, c->type, c->op);
	kernels_loop_fn loop = is_loop ? loop_of(isa, c->type, c->op) : NULL;
	rmw_copy_fn copy = rmw_kernel_copy_of(RMW_ISA_AUTO);
	uint64_t began, now, done = 0;
	size_t b = 0;

	if (is_loop ? loop == NULL : r == NULL)
		return BENCH_NONE;
	for (size_t i = 0; i < c->blocks; i++) /* also warms up */
		r->begin(c->acc + i * c->acc_stride,
			(const void *[]){c->src + i * c->src_stride + INTO}, 1, elements);
	began = bench_cpu_ns();
	do {
		for (unsigned int i = 0; i < BATCH; i++) {
			uint8_t *acc = c->acc + b * c->acc_stride;
			const void *src = c->src + b * c->src_stride + INTO;

			if (what == BLOCK)
				whole_block(c, r, acc);
			else if (what == COPY)
				copy(acc, src, c->src_bytes);
			else if (loop != NULL)
				loop(acc, src, elements);
			else
				r->reduce(acc, &src, 1, elements);
			b = b + 1 == c->blocks ? 0 : b + 1;
		}
		done += BATCH * (what == BLOCK ? SOURCES : 1);
		now = bench_cpu_ns();
	} while (now - began < bench_common.phase_ms * 1000000);
	return (double)(done * c->src_bytes) / (double)(now - began);
}

/* bench.h: kind, value, key, title, unit, width, digits */
#define COLUMNS(X)                                                                                 \
	X(NUMBER, size, "kib", "KiB", NULL, 5, 0)                                                  \
	X(TEXT, weir_dtype_text(type), "type", "type", NULL, -6, 0)                                \
	X(TEXT, weir_op_text(op), "op", "op", NULL, -4, 0)                                         \
	X(NUMBER, m[KERNEL], "scalar", "scalar", "GB/s", 7, 2)                                     \
	X(NUMBER, m[LOOP], "scalar_bare", NULL, NULL, 0, 0)                                        \
	X(NUMBER, m[KERNEL + 1], "avx2", "avx2", "GB/s", 7, 2)                                     \
	X(NUMBER, m[LOOP + 1], "avx2_bare", NULL, NULL, 0, 0)                                      \
	X(NUMBER, m[KERNEL + 2], "avx512", "avx512", "GB/s", 7, 2)                                 \
	X(NUMBER, m[LOOP + 2], "avx512_bare", NULL, NULL, 0, 0)                                    \
	X(NUMBER, m[LOOP + widest], NULL, "bare", "GB/s", 7, 2)                                    \
	X(NUMBER, m[BLOCK], "block", "block", "GB/s", 7, 2)                                        \
	X(NUMBER, m[COPY], "copy", "copy", "GB/s", 7, 2)                                           \
	X(NUMBER, m[widest] / m[LOOP + widest], NULL, "kernel", "x bare", 0, 2)                    \
	X(NUMBER, m[widest] / m[COPY], NULL, "kernel", "x copy", 0, 2)                             \
	X(NUMBER, elements, "elements", NULL, NULL, 0, 0)                                          \
	X(NUMBER, SOURCES, "sources", NULL, NULL, 0, 0)
static const struct table_column columns[] = {COLUMNS(BENCH_COLUMN)};

static int
run_cell(enum weir_dtype type, enum weir_op op, uint64_t size)
{
	static double rates[WHATS][BENCH_REPEAT_MAX];
	struct cell c = {.type = type, .op = op};
	double m[WHATS];
	unsigned int widest = 0;
	int rc = 2;

	if (cell_create(&c, size << 10) == 0) {
		/* Interleaved, so that a disturbance affects all of them. */
		for (unsigned int i = 0; i < bench_common.repeat; i++)
			for (unsigned int what = 0; what < WHATS; what++)
				rates[what][i] = rate(&c, what);
		for (unsigned int what = 0; what < WHATS; what++) {
			m[what] = bench_median(rates[what], bench_common.repeat);
			if (what < LOOP && isfinite(m[what]))
				widest = what;
		}
		bench_row((struct table_cell[]){COLUMNS(BENCH_CELL)});
		rc = 0;
	}
	free(c.acc);
	free(c.src);
	return rc;
}

static bool
chosen(const char *only, const char *name)
{
	return strcmp(only, "all") == 0 || strcmp(only, name) == 0;
}

static int
run(void)
{
	const unsigned int each = WEIR_DTYPES * WEIR_OPS;
	unsigned int cells = 0;
	int rc = 0;

	bench_note("contributions of %" PRIu64 " elements; %s is the widest instruction set here",
		elements, rmw_isa_name(rmw_kernels_select(RMW_ISA_AUTO)));
	bench_note("bare: plain C, vectorized by the compiler for the widest; block: %u "
		   "contributions begun and finished in one pass by the widest",
		SOURCES);
	bench_table(columns, sizeof(columns) / sizeof(columns[0]));
	for (unsigned int i = 0; i < kib.count * each && rc == 0; i++) {
		enum weir_dtype type = (enum weir_dtype)(i % each / WEIR_OPS);
		enum weir_op op = (enum weir_op)(i % WEIR_OPS);

		if (!chosen(only_type, weir_dtype_text(type)) ||
			!chosen(only_op, weir_op_text(op)) ||
			rmw_reduction_of(RMW_ISA_SCALAR, type, op) == NULL)
			continue;
		rc = run_cell(type, op, kib.value[i / each]);
		cells++;
	}
	if (cells == 0) {
		warnx("no kernel of type %s and operation %s", only_type, only_op);
		return STATUS_USAGE;
	}
	return rc;
}

const struct bench bench_kernels = {
	.name = "kernels",
	.help = "vector kernels, beside plain loops and a copy",
	.options = options,
	.run = run,
};

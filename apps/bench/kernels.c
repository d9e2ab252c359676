/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench kernels: the vector kernels of every type and operation, in every instruction set,
 * beside the loop that the compiler makes of plain C for the same instruction set, and beside a
 * copy of as many bytes. Accumulators begin lines, contributions lie 58 bytes into one, as behind a
 * packet's headers; as many blocks as `kib` takes are reduced in turn. Rates are per second of CPU
 * time. Without EAL.
 *
 * First a block of every variant is compared with the scalar one: other bits end the bench.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "apps/bench/bench.h"
#include "apps/bench/kernels_loops.h"

#define LINE  64u
#define INTO  58u /* Ethernet, IPv4, UDP, aggregation header, extension: 14 + 20 + 8 + 12 + 4 */
#define BATCH 64u /* blocks between two looks at the clock */

static struct bench_list kib = {.count = 2, .value = {16, 512}};
static uint64_t elements = 1024, sources = 8;
static const char *only_type = "all", *only_op = "all";

static const struct bench_option options[] = {
	{"type", BENCH_TEXT, &only_type, 0, 0, NULL, "of elements: int8, ..., fp64, or all"},
	{"op", BENCH_TEXT, &only_op, 0, 0, NULL, "operation: sum, ..., lxor, or all"},
	{"elements", BENCH_UINT, &elements, 1, 65536, NULL, "of a block"},
	{"kib", BENCH_LIST, &kib, 1, 1 << 20, NULL, "of accumulators and contributions in turn"},
	{"sources", BENCH_UINT, &sources, 1, 256, NULL,
		"of the blocks that are begun, reduced and finished"},
	{0},
};

static const enum rmw_isa isas[] = {RMW_ISA_SCALAR, RMW_ISA_AVX2, RMW_ISA_AVX512};
enum { ISAS = sizeof(isas) / sizeof(isas[0]), REPEATS = 99 };

/* What is measured of a cell: GB/s of contributions. */
enum what {
	KERNEL, /* of an instruction set, and the loop of the same one */
	LOOP = KERNEL + ISAS,
	COPY = LOOP + ISAS, /* by the widest */
	BLOCK, /* begun, reduced and finished, by the widest */
	WHATS,
};

struct cell {
	enum rmw_type type;
	enum rmw_op op;
	size_t src_bytes, acc_stride, src_stride, blocks;
	uint8_t *acc, *src; /* blocks times their strides */
	const struct rmw_reduction *widest;
	double rate[WHATS][REPEATS];
};

static rmw_reduce_fn
loop_of(enum rmw_isa isa, enum rmw_type type, enum rmw_op op)
{
	if (!rmw_isa_supported(isa))
		return NULL;
	switch (isa) {
	case RMW_ISA_SCALAR: return kernels_loop_scalar(type, op);
#ifdef __x86_64__
	case RMW_ISA_AVX2: return kernels_loop_avx2(type, op);
	case RMW_ISA_AVX512: return kernels_loop_avx512(type, op);
#else
	case RMW_ISA_AVX2:
	case RMW_ISA_AVX512:
#endif
	case RMW_ISA_AUTO:
	default: return NULL;
	}
}

/* Floating-point numbers are 1 and -1: sums and products of any number of them stay normal. */
static void
fill(const struct cell *c, uint8_t *to, uint64_t *state)
{
	static const uint64_t one[] = {0x3c00, 0x3f80, 0x3f800000, UINT64_C(0x3ff0000000000000)};
	size_t size = rmw_type_size(c->type);

	for (size_t i = 0; i < elements; i++) {
		uint64_t bits = *state = *state * UINT64_C(6364136223846793005) + 1;

		bits >>= 64 - 8 * size;
		if (c->type >= RMW_TYPE_FP16)
			bits = one[c->type - RMW_TYPE_FP16] |
				(bits & UINT64_C(1) << (8 * size - 1));
		memcpy(to + i * size, &bits, size);
	}
}

static uint8_t *
memory_of(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("weir-bench: mmap");
		return NULL;
	}
	if (strcmp(bench_common.huge, "no") != 0)
		(void)madvise(p, bytes, MADV_HUGEPAGE); /* where there are some */
	return p;
}

static size_t
lines(size_t bytes)
{
	return (bytes + LINE - 1) / LINE * LINE;
}

static int
cell_create(struct cell *c, uint64_t bytes)
{
	uint64_t state = 1;

	c->widest = rmw_reduction_of(RMW_ISA_AUTO, c->type, c->op);
	c->src_bytes = elements * rmw_type_size(c->type);
	c->acc_stride = lines(elements * c->widest->acc_bytes);
	c->src_stride = lines(INTO + c->src_bytes);
	c->blocks = bytes / (c->acc_stride + c->src_stride);
	if (c->blocks == 0)
		c->blocks = 1;
	c->acc = memory_of(c->blocks * c->acc_stride);
	c->src = memory_of(c->blocks * c->src_stride);
	if (c->acc == NULL || c->src == NULL)
		return -1;
	for (size_t b = 0; b < c->blocks; b++) {
		fill(c, c->src + b * c->src_stride + INTO, &state);
		c->widest->begin(
			c->acc + b * c->acc_stride, c->src + b * c->src_stride + INTO, elements);
	}
	return 0;
}

static void
cell_destroy(struct cell *c)
{
	if (c->acc != NULL)
		munmap(c->acc, c->blocks * c->acc_stride);
	if (c->src != NULL)
		munmap(c->src, c->blocks * c->src_stride);
}

/* A block from the first contributions, in turn. */
static void
whole_block(const struct cell *c, const struct rmw_reduction *r, uint8_t *acc, size_t from)
{
	for (uint64_t s = 0; s < sources; s++)
		(s == 0 ? r->begin : r->reduce)(
			acc, c->src + (from + s) % c->blocks * c->src_stride + INTO, elements);
	if (r->finish != NULL)
		r->finish(acc, elements, (unsigned int)sources);
}

/* 0, or 1 after a line. */
static int
compare(const struct cell *c)
{
	uint8_t *expected = memory_of(c->acc_stride), *seen = memory_of(c->acc_stride);
	int rc = expected == NULL || seen == NULL;

	for (size_t i = 0; i < ISAS && rc == 0; i++) {
		const struct rmw_reduction *r = rmw_reduction_of(isas[i], c->type, c->op);

		if (r == NULL)
			continue;
		whole_block(c, r, i == 0 ? expected : seen, 0);
		rc = i > 0 && memcmp(seen, expected, c->src_bytes) != 0;
		if (rc != 0)
			fprintf(stderr, "weir-bench: %s %s: %s gives other bits than scalar\n",
				rmw_type_name(c->type), rmw_op_name(c->op), rmw_isa_name(isas[i]));
	}
	if (expected != NULL)
		munmap(expected, c->acc_stride);
	if (seen != NULL)
		munmap(seen, c->acc_stride);
	return rc;
}

static uint64_t
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* What one of them does to block b; how many contributions it was, 0: there is no such thing. */
static uint64_t
step(const struct cell *c, unsigned int what, rmw_reduce_fn reduce, rmw_copy_fn copy, size_t b)
{
	uint8_t *acc = c->acc + b * c->acc_stride;
	const uint8_t *src = c->src + b * c->src_stride + INTO;

	if (what == BLOCK) {
		whole_block(c, c->widest, acc, b);
		return sources;
	}
	if (what == COPY)
		copy(acc, src, c->src_bytes);
	else
		reduce(acc, src, elements);
	return 1;
}

/* GB/s, or BENCH_NONE. */
static double
rate(const struct cell *c, unsigned int what, uint64_t ns)
{
	enum rmw_isa isa = what < COPY ? isas[what % ISAS] : RMW_ISA_AUTO;
	const struct rmw_reduction *r = rmw_reduction_of(isa, c->type, c->op);
	/* A loop's accumulators are plain numbers; a kernel's are what it makes of them. */
	const struct rmw_reduction *first =
		what >= LOOP && what < COPY ? rmw_reduction_of(RMW_ISA_SCALAR, c->type, c->op) : r;
	rmw_copy_fn copy = rmw_kernel_copy_of(RMW_ISA_AUTO);
	rmw_reduce_fn reduce = what >= LOOP && what < COPY ? loop_of(isa, c->type, c->op)
		: r == NULL                                ? NULL
							   : r->reduce;
	uint64_t began, now, done = 0;
	size_t b = 0;

	if (reduce == NULL)
		return BENCH_NONE;
	for (size_t i = 0; i < c->blocks; i++) { /* also warms up */
		first->begin(
			c->acc + i * c->acc_stride, c->src + i * c->src_stride + INTO, elements);
		(void)step(c, what, reduce, copy, i);
	}
	began = cpu_ns();
	do {
		for (unsigned int i = 0; i < BATCH; i++) {
			done += step(c, what, reduce, copy, b);
			b = b + 1 == c->blocks ? 0 : b + 1;
		}
		now = cpu_ns();
	} while (now - began < ns);
	return (double)(done * c->src_bytes) / (double)(now - began);
}

static void
print_rate(FILE *out, double value)
{
	if (value == BENCH_NONE)
		fprintf(out, " %8s", "-");
	else
		fprintf(out, " %8.2f", value);
}

static void
report_cell(struct bench_report *report, struct cell *c, uint64_t size)
{
	FILE *out = bench_table(report);
	unsigned int widest = 0;
	double median[WHATS];

	for (unsigned int what = 0; what < WHATS; what++)
		median[what] = bench_median(c->rate[what], bench_common.repeat);
	fprintf(out, "%6" PRIu64 "  %-6s %-4s", size, rmw_type_name(c->type), rmw_op_name(c->op));
	bench_observe(report, json_pack("{s:f}", "copy", median[COPY]));
	for (unsigned int i = 0; i < ISAS; i++) {
		json_t *params =
			json_pack("{s:s, s:s, s:s, s:I, s:I}", "type", rmw_type_name(c->type), "op",
				rmw_op_name(c->op), "isa", rmw_isa_name(isas[i]), "elements",
				(json_int_t)elements, "kib", (json_int_t)size);

		print_rate(out, median[KERNEL + i]);
		if (median[KERNEL + i] == BENCH_NONE) {
			json_decref(params);
			continue;
		}
		widest = i;
		bench_add(report, "reduce", params, median[KERNEL + i], "GB/s", median[LOOP + i],
			median[LOOP + i] == BENCH_NONE ? NULL : "bare loop");
	}
	print_rate(out, median[LOOP + widest]);
	print_rate(out, median[COPY]);
	print_rate(out, median[BLOCK]);
	print_rate(out,
		median[LOOP + widest] == BENCH_NONE
			? BENCH_NONE
			: median[KERNEL + widest] / median[LOOP + widest]);
	print_rate(out, median[KERNEL + widest] / median[COPY]);
	fputc('\n', out);
	bench_add(report, "block",
		json_pack("{s:s, s:s, s:I, s:I, s:I}", "type", rmw_type_name(c->type), "op",
			rmw_op_name(c->op), "elements", (json_int_t)elements, "kib",
			(json_int_t)size, "sources", (json_int_t)sources),
		median[BLOCK], "GB/s", median[COPY], "copy");
}

static int
run_cell(struct bench_report *report, enum rmw_type type, enum rmw_op op, uint64_t size)
{
	static struct cell c;
	int rc;

	c = (struct cell){.type = type, .op = op};
	bench_progress(
		report, "%s %s, %" PRIu64 " KiB", rmw_type_name(type), rmw_op_name(op), size);
	rc = cell_create(&c, size << 10) < 0 ? 2 : compare(&c);
	/* Interleaved, so that what disturbs them disturbs all. */
	for (unsigned int i = 0; i < bench_common.repeat && rc == 0; i++)
		for (unsigned int what = 0; what < WHATS; what++)
			c.rate[what][i] = rate(&c, what, bench_common.phase_ms * 1000000);
	bench_progress(report, NULL);
	if (rc == 0)
		report_cell(report, &c, size);
	cell_destroy(&c);
	return rc;
}

static bool
chosen(const char *only, const char *name)
{
	return strcmp(only, "all") == 0 || strcmp(only, name) == 0;
}

static int
run(struct bench_report *report)
{
	FILE *out = bench_table(report);
	unsigned int cells = 0;
	int rc = 0;

	fprintf(out,
		"# weir-bench kernels: GB/s of contributions of %" PRIu64
		" elements; %s is the widest\n"
		"# bare   plain C, vectorised by the compiler for the widest instruction set\n"
		"# block  of %" PRIu64
		" contributions: begun, reduced, finished, by the widest\n#\n"
		"#  KiB  type   op     scalar     avx2   avx512     bare     copy    block"
		"   x bare   x copy\n",
		elements, rmw_isa_name(rmw_kernels_select(RMW_ISA_AUTO)), sources);
	for (unsigned int k = 0; k < kib.count; k++)
		for (unsigned int t = 0; t < RMW_TYPE_COUNT; t++)
			for (unsigned int o = 0; o < RMW_OP_COUNT && rc == 0; o++) {
				enum rmw_type type = (enum rmw_type)t;
				enum rmw_op op = (enum rmw_op)o;

				if (!chosen(only_type, rmw_type_name(type)) ||
					!chosen(only_op, rmw_op_name(op)) ||
					rmw_reduction_of(RMW_ISA_SCALAR, type, op) == NULL)
					continue;
				rc = run_cell(report, type, op, kib.value[k]);
				cells++;
			}
	if (cells == 0) {
		fprintf(stderr, "weir-bench: no kernel of type %s and operation %s\n", only_type,
			only_op);
		return 2;
	}
	return rc;
}

const struct bench bench_kernels = {
	.name = "kernels",
	.help = "vector kernels of every type and operation; beside plain loops and a copy",
	.options = options,
	.run = run,
};

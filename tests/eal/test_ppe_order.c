/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deterministic jobs: the same contributions in thousands of orders of arrival, with duplicates, losses and
 * results that are asked for again; on 1 and 4 workers, with 2 to 64 sources, and values of very different
 * magnitudes. The bits of every result are those of the sum in the order of the sources. Without the option
 * some are not, or the test would show nothing.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include <rte_cycles.h>

#include "tests/eal/rig.h"

#define PORTS    4
#define ELEMENTS 48
#define WINDOW   16
#define SOURCES  64
#define ITEMS    (2 * WINDOW * SOURCES)

struct shape {
	unsigned int workers, sources, rounds; /* a round is a window of blocks */
	uint8_t dtype, op, collective;
	bool ordered, segmented;
	const uint8_t *ids; /* of the sources, ascending; NULL: [0, sources) */
};

struct item {
	uint32_t block;
	uint8_t rank;
};

struct play {
	struct rig rig;
	const struct shape *shape;
	const struct rmw_reduction *reduction;
	uint64_t random;
	uint16_t generation;
	unsigned int bytes; /* of a payload */
	uint8_t value[SOURCES][ELEMENTS * 8], expected[ELEMENTS * 8],
		frame[RIG_FRAME_MAX]; /* by rank */
	bool has[WINDOW][SOURCES]; /* by rank: got the block's result */
	unsigned int missing, same, others;
	struct item item[ITEMS];
	unsigned int items;
};

static unsigned int
below(struct play *p, unsigned int n)
{
	return (unsigned int)(rig_random(&p->random) % n);
}

static uint8_t
id_of(const struct play *p, unsigned int rank)
{
	return p->shape->ids == NULL ? (uint8_t)rank : p->shape->ids[rank];
}

static unsigned int
rank_of(const struct play *p, uint8_t id)
{
	unsigned int rank = 0;

	while (id_of(p, rank) != id)
		rank++;
	return rank;
}

/* Short types are added up in fp32, and rounded once: only where much cancels out it shows in what order.
 * So the first two sources' cancel, and the others' are small. */
static unsigned int
exponent_of(struct play *p, unsigned int rank, unsigned int least, unsigned int range)
{
	if (weir_dtype_bytes(p->shape->dtype) > 2 || p->shape->op == WEIR_OP_PROD)
		return least + below(p, range);
	return rank < 2 ? least + range - 1 : least + below(p, 4);
}

/* Any bits of the mantissa and the sign, and an exponent of a middle range. */
static void
make_values(struct play *p)
{
	static const struct {
		uint8_t mantissa, least, range;
	} kind[] = {[WEIR_DTYPE_FP16] = {10, 4, 20},
		[WEIR_DTYPE_BF16] = {7, 107, 40},
		[WEIR_DTYPE_FP32] = {23, 107, 40},
		[WEIR_DTYPE_FP8_E4M3] = {3, 1, 13},
		[WEIR_DTYPE_FP8_E5M2] = {2, 1, 29}};
	unsigned int size = weir_dtype_bytes(p->shape->dtype);

	for (unsigned int s = 0; s < p->shape->sources; s++)
		for (unsigned int i = 0; i < ELEMENTS; i++) {
			uint64_t word = rig_random(&p->random), exponent;
			uint8_t *to = p->value[s] + i * size;

			if (p->shape->dtype == WEIR_DTYPE_FP64) {
				exponent = 983 + below(p, 80);
				word = (word & ~(UINT64_C(0x7ff) << 52)) | exponent << 52;
			} else {
				unsigned int m = kind[p->shape->dtype].mantissa;

				exponent = exponent_of(p, s, kind[p->shape->dtype].least,
					kind[p->shape->dtype].range);
				word = (word & ((UINT64_C(1) << m) - 1)) | exponent << m |
					(word >> 63) << (8 * size - 1);
			}
			if (s == 1 && size <= 2 && p->shape->op != WEIR_OP_PROD) {
				memcpy(&word, p->value[0] + i * size, size);
				word ^= UINT64_C(1) << (8 * size - 1);
			}
			memcpy(to, &word, size);
		}
}

/* The same without any of the switch's code, where that is a line. */
static void
check_plainly(const struct play *p, uint64_t in)
{
	for (unsigned int i = 0; i < ELEMENTS; i++) {
		float sum = -0.0f, value, expected;

		for (unsigned int s = 0; s < p->shape->sources; s++) {
			memcpy(&value, p->value[s] + 4ul * i, 4);
			if ((in >> s & 1) != 0)
				sum = sum + value;
		}
		memcpy(&expected, p->expected + 4ul * i, 4);
		cr_assert_eq(
			sum, expected, "element %u: %a, not %a", i, (double)expected, (double)sum);
	}
}

/* The plain way, source after source; `in`: those that are. */
static void
expect(struct play *p, uint64_t in)
{
	unsigned int count = 0;

	for (unsigned int s = 0; s < p->shape->sources; s++)
		if ((in >> s & 1) != 0)
			(count++ == 0 ? p->reduction->begin : p->reduction->reduce)(
				p->expected, (const void *[]){p->value[s]}, 1, ELEMENTS);
	if (p->reduction->finish != NULL)
		p->reduction->finish(p->expected, ELEMENTS, count);
	if (p->shape->dtype == WEIR_DTYPE_FP32 && p->shape->op == WEIR_OP_SUM)
		check_plainly(p, in);
}

static void
start(struct play *p, const struct shape *shape, uint8_t policy, uint32_t dead_after_ms)
{
	uint8_t ids[SOURCES];
	struct rig_config config = {
		.lcores = true, .workers = shape->workers, .threads = 8, .ports = PORTS, .jobs = 1};

	p->shape = shape;
	for (unsigned int rank = 0; rank < shape->sources; rank++)
		ids[rank] = id_of(p, rank);
	config.job[0] = rig_job_of(1, ids, (uint16_t)shape->sources, WINDOW, 2 * ELEMENTS);
	config.job[0].deterministic = shape->ordered;
	config.job[0].policy = policy;
	config.job[0].dead_after_ms = dead_after_ms * RIG_SLOW;
	config.job[0].timeout_ms = policy == PPE_POLICY_PARTIAL ? 200 * RIG_SLOW : 60000;
	p->random = rig_seed();
	p->bytes = ELEMENTS * weir_dtype_bytes(shape->dtype);
	p->reduction = rmw_reduction_of(RMW_ISA_SCALAR, shape->dtype, shape->op);
	rig_start(&p->rig, &config);
	p->rig.seed = shape->segmented ? p->random : 0;
	make_values(p);
	p->generation = rig_join(&p->rig, 0, false);
}

static void
stop(struct play *p)
{
	const char *failure = rig_stop(&p->rig);

	cr_assert_null(failure, "%s", failure);
	free(p);
}

static void
contribute(struct play *p, struct item item)
{
	struct weir_header h = {.job_id = 1,
		.block_id = item.block,
		.src_id = id_of(p, item.rank),
		.gen_id = p->generation,
		.grad_cnt = ELEMENTS,
		.dtype = p->shape->dtype,
		.op = p->shape->op,
		.collective = p->shape->collective,
		.extended = true};

	rig_send(&p->rig, h.src_id % PORTS, p->frame,
		rig_frame(p->frame, h.src_id, &h, p->value[item.rank], p->bytes));
}

/* What of the sum does this rank get? */
static struct weir_slice
part_of(const struct play *p, unsigned int rank)
{
	if (p->shape->collective == WEIR_COLLECTIVE_REDUCESCATTER)
		return weir_slice(ELEMENTS, p->shape->sources, rank);
	if (p->shape->collective == WEIR_COLLECTIVE_REDUCE && rank != 0)
		return (struct weir_slice){0, 0};
	return (struct weir_slice){0, ELEMENTS};
}

/* Take what has come; results of the window that begins at `first` are compared. */
static void
receive(struct play *p, uint32_t first)
{
	for (unsigned int port = 0; port < PORTS; port++) {
		struct weir_header h;
		const uint8_t *payload;
		unsigned int n, bytes;

		while ((n = rig_receive(&p->rig, port, p->frame, 0)) > 0) {
			struct weir_slice part;
			unsigned int rank, size = weir_dtype_bytes(p->shape->dtype);

			cr_assert(rig_parse(p->frame, n, &h, &payload, &bytes));
			if (h.status == WEIR_STATUS_WAITING)
				continue; /* a repeat, while others are missing */
			cr_assert(h.status == WEIR_STATUS_OK || h.status == WEIR_STATUS_PARTIAL,
				"%s", weir_status_text(h.status));
			rank = rank_of(p, h.src_id);
			part = part_of(p, rank);
			cr_assert_geq(bytes, part.count * size);
			cr_assert_eq(h.grad_cnt, ELEMENTS);
			if (memcmp(payload, p->expected + part.first * size, part.count * size) ==
				0)
				p->same++;
			else
				p->others++;
			if (h.block_id - first < WINDOW && !p->has[h.block_id - first][rank]) {
				p->has[h.block_id - first][rank] = true;
				p->missing--;
			}
		}
	}
}

static void
shuffle(struct play *p)
{
	for (unsigned int i = p->items; i > 1; i--) {
		unsigned int j = below(p, i);
		struct item item = p->item[i - 1];

		p->item[i - 1] = p->item[j];
		p->item[j] = item;
	}
}

/* All contributions to a window of blocks, some twice, in any order. */
static void
send_round(struct play *p, uint32_t first)
{
	p->items = 0;
	for (uint32_t b = 0; b < WINDOW; b++)
		for (unsigned int s = 0; s < p->shape->sources; s++)
			for (unsigned int n = below(p, 8) == 0 ? 2 : 1; n > 0; n--)
				p->item[p->items++] = (struct item){first + b, (uint8_t)s};
	shuffle(p);
	memset(p->has, 0, sizeof(p->has));
	p->missing = WINDOW * p->shape->sources;
	for (unsigned int i = 0; i < p->items; i++) {
		contribute(p, p->item[i]);
		if (i % 64 == 63)
			receive(p, first);
	}
}

/* Until each source has every result; whoever lacks one asks again, as after a loss. */
static void
receive_round(struct play *p, uint32_t first)
{
	for (unsigned int turn = 0; p->missing > 0; turn++) {
		struct ppe_stats stats;

		cr_assert_lt(turn, 50, "%u results are missing", p->missing);
		rig_settle(&p->rig, &stats);
		receive(p, first);
		for (unsigned int b = 0; b < WINDOW && p->missing > 0 && turn > 0; b++)
			for (unsigned int s = 0; s < p->shape->sources; s++)
				if (!p->has[b][s])
					contribute(p, (struct item){first + b, (uint8_t)s});
	}
	for (unsigned int n = 0; n < 8; n++)
		contribute(p, p->item[below(p, p->items)]);
}

static void
check(const struct shape *shape)
{
	struct play *p = calloc(1, sizeof(*p));
	struct ppe_job_stats stats;

	start(p, shape, PPE_POLICY_WAIT, 0);
	expect(p, UINT64_MAX);
	for (uint32_t round = 0; round < shape->rounds; round++) {
		send_round(p, round * WINDOW);
		receive_round(p, round * WINDOW);
	}
	ppe_job_stats_read(p->rig.ppe, 1, &stats);
	if (shape->ordered) {
		cr_expect_eq(
			p->others, 0, "%u of %u results differ", p->others, p->others + p->same);
		cr_expect_gt(stats.out_of_turn, 0);
	} else {
		cr_expect_gt(p->others, 0, "the order makes no difference");
		cr_expect_eq(stats.out_of_turn, 0);
	}
	cr_expect_eq(stats.blocks_complete, shape->rounds * WINDOW);
	stop(p);
}

#define SHAPE(name, ...)                                                                           \
	Test(ppe_order, name, .timeout = 120)                                                      \
	{                                                                                          \
		const struct shape shape = {__VA_ARGS__};                                          \
                                                                                                   \
		check(&shape);                                                                     \
	}
#define FP32             .dtype = WEIR_DTYPE_FP32
#define ORDER(name, ...) SHAPE(name, .ordered = true, FP32, __VA_ARGS__)

ORDER(two_sources, .workers = 1, .sources = 2, .rounds = 130)
ORDER(three_sources, .workers = 1, .sources = 3, .rounds = 130)
ORDER(five_sources_four_workers, .workers = 4, .sources = 5, .rounds = 130)
ORDER(eight_sources, .workers = 1, .sources = 8, .rounds = 130)
ORDER(eight_sources_four_workers, .workers = 4, .sources = 8, .rounds = 130)
ORDER(eight_sources_in_segments, .workers = 1, .sources = 8, .rounds = 30, .segmented = true)
ORDER(many_sources, .workers = 1, .sources = 64, .rounds = 20)
ORDER(many_sources_four_workers, .workers = 4, .sources = 64, .rounds = 20)
/* Ranks are not ids. */
static const uint8_t sparse[] = {3, 7, 64, 200, 255};
ORDER(sparse_sources, .workers = 4, .sources = 5, .rounds = 30, .ids = sparse)

ORDER(reduce, .workers = 1, .sources = 5, .rounds = 30, .collective = WEIR_COLLECTIVE_REDUCE)
ORDER(reducescatter, .workers = 4, .sources = 5, .rounds = 30,
	.collective = WEIR_COLLECTIVE_REDUCESCATTER, .ids = sparse)

/* All types and operations whose results depend on the order. */
#define KIND(name, type, operation)                                                                \
	SHAPE(name, .ordered = true, .dtype = WEIR_DTYPE_##type, .op = WEIR_OP_##operation,        \
		.workers = 1, .sources = 5, .rounds = 25)                                          \
	SHAPE(name##_without_it, .dtype = WEIR_DTYPE_##type, .op = WEIR_OP_##operation,            \
		.workers = 1, .sources = 5, .rounds = 5)
KIND(fp16_sum, FP16, SUM)
KIND(fp16_avg, FP16, AVG)
KIND(bf16_sum, BF16, SUM)
KIND(bf16_avg, BF16, AVG)
KIND(fp8_e5m2_sum, FP8_E5M2, SUM)
KIND(fp8_e5m2_avg, FP8_E5M2, AVG)
KIND(fp32_prod, FP32, PROD)
KIND(fp32_avg, FP32, AVG)
KIND(fp64_sum, FP64, SUM)
KIND(fp64_prod, FP64, PROD)
KIND(fp64_avg, FP64, AVG)
/* They round once, so seldom differ. */
SHAPE(fp16_prod, .ordered = true, .dtype = WEIR_DTYPE_FP16, .op = WEIR_OP_PROD, .workers = 1,
	.sources = 5, .rounds = 25)
SHAPE(bf16_prod, .ordered = true, .dtype = WEIR_DTYPE_BF16, .op = WEIR_OP_PROD, .workers = 1,
	.sources = 5, .rounds = 25)

/* Exact in fp32, and rounded once. */
SHAPE(fp8_e4m3_sum, .ordered = true, .dtype = WEIR_DTYPE_FP8_E4M3, .workers = 1, .sources = 5,
	.rounds = 25)

SHAPE(without_it_results_differ, FP32, .workers = 1, .sources = 8, .rounds = 10)
SHAPE(without_it_they_differ_by_workers, FP32, .workers = 4, .sources = 3, .rounds = 10)

/* Who is missing has no turn: the sum of the others, in order. */
Test(ppe_order, partial_results, .timeout = 90)
{
	static const struct shape shape = {
		.workers = 1, .sources = 8, .dtype = WEIR_DTYPE_FP32, .ordered = true};
	struct play *p = calloc(1, sizeof(*p));

	start(p, &shape, PPE_POLICY_PARTIAL, 0);
	for (uint32_t b = 0; b < 12; b++) {
		uint64_t in = b == 0 ? 0xfe : b == 1 ? 0x7f : 1 + (rig_random(&p->random) & 0xfe);

		expect(p, in);
		p->items = 0;
		for (unsigned int s = 0; s < shape.sources; s++)
			if ((in >> s & 1) != 0)
				p->item[p->items++] = (struct item){b, (uint8_t)s};
		shuffle(p);
		memset(p->has, 0, sizeof(p->has));
		p->missing = shape.sources;
		for (unsigned int i = 0; i < p->items; i++)
			contribute(p, p->item[i]);
		for (unsigned int ms = 0; p->missing > 0; ms++) {
			struct ppe_stats stats;

			cr_assert_lt(ms, 5000);
			rig_settle(&p->rig, &stats);
			receive(p, b);
		}
	}
	cr_expect_eq(p->others, 0);
	stop(p);
}

/* Sources 1 to 3 contribute, in order, again and again until they have the result. */
static void
contribute_all(struct play *p, uint32_t block, unsigned int most_ms)
{
	struct ppe_stats stats;

	memset(p->has, 0, sizeof(p->has));
	p->missing = 3;
	for (unsigned int ms = 0; p->missing > 0 && ms < most_ms; ms += 20) {
		for (uint8_t rank = 1; rank < 4; rank++) {
			contribute(p, (struct item){block, rank});
			rig_settle(&p->rig, &stats);
		}
		rte_delay_us_sleep(20000);
		receive(p, block);
		p->missing = !p->has[0][1] + !p->has[0][2] + !p->has[0][3];
	}
	cr_assert_eq(p->missing, 0, "block %u", block);
	/* A busy worker may send the last answers later. */
	rig_settle(&p->rig, &stats);
	receive(p, block);
}

/* Nobody waits for the turn of a source that was expelled. */
Test(ppe_order, expelled_sources_have_no_turn, .timeout = 90)
{
	static const struct shape shape = {
		.workers = 1, .sources = 4, .dtype = WEIR_DTYPE_FP32, .ordered = true};
	struct play *p = calloc(1, sizeof(*p));
	struct ppe_job_stats before, after;

	start(p, &shape, PPE_POLICY_PARTIAL, 500);
	expect(p, 0xe);
	contribute_all(p, 0, 5000);
	contribute_all(p, WINDOW, 5000);
	contribute_all(p, 2 * WINDOW, 10000);
	ppe_job_stats_read(p->rig.ppe, 1, &before);
	cr_assert_eq(before.expelled, 1);
	/* All of the first two blocks; and of the third, which any of them may have opened. */
	cr_expect(before.out_of_turn >= 6 && before.out_of_turn <= 8, "%lu", before.out_of_turn);
	contribute_all(p, 1, 1000);
	contribute_all(p, 2, 1000);
	ppe_job_stats_read(p->rig.ppe, 1, &after);
	cr_expect_eq(after.out_of_turn, before.out_of_turn);
	cr_expect_eq(p->others, 0);
	stop(p);
}

/* Take what comes, whatever it is. */
static void
forget_results(struct play *p)
{
	struct ppe_stats stats;

	rig_settle(&p->rig, &stats);
	for (unsigned int port = 0; port < PORTS; port++)
		while (rig_receive(&p->rig, port, p->frame, 0) > 0)
			;
}

/* Blocks that fail, generations that end and a switch that stops forget what waited for its turn: what
 * comes after has none of it, and all memory is back. */
Test(ppe_order, pieces_of_ended_blocks_are_freed, .timeout = 90)
{
	static const struct shape shape = {
		.workers = 4, .sources = 5, .dtype = WEIR_DTYPE_FP32, .ordered = true};
	struct shape other = shape;
	struct play *p = calloc(1, sizeof(*p));

	start(p, &shape, PPE_POLICY_WAIT, 0);
	expect(p, UINT64_MAX);
	/* More of them than fit at once, if a failed block kept its pieces. */
	for (uint32_t block = 0; block < 4 * WINDOW; block++) {
		for (uint8_t rank = 1; rank < 4; rank++)
			contribute(p, (struct item){block, rank});
		other.op = WEIR_OP_PROD;
		p->shape = &other;
		contribute(p, (struct item){block, 4});
		contribute(p, (struct item){block, 0});
		p->shape = &shape;
		forget_results(p);
	}
	for (unsigned int round = 0; round < 3; round++) {
		for (uint32_t block = 0; block < WINDOW; block++)
			for (uint8_t rank = 1; rank < 5 && round > 0; rank++)
				contribute(p, (struct item){block, rank});
		forget_results(p);
		p->generation = rig_join(&p->rig, 0, false);
		send_round(p, 0);
		receive_round(p, 0);
		forget_results(p);
		/* Begun, and never done. */
		p->generation = rig_join(&p->rig, 0, false);
	}
	cr_expect_eq(p->others, 0);
	for (uint32_t block = 0; block < WINDOW; block++)
		for (uint8_t rank = 1; rank < 5; rank++)
			contribute(p, (struct item){block, rank});
	forget_results(p);
	stop(p);
}

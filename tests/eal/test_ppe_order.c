/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deterministic jobs: the same contributions in thousands of orders of arrival, with duplicates, losses and
 * results that are asked for again; on 1 and 4 workers, with 2 to 64 sources, and values of very different
 * magnitudes. The bits of every result are those of the sum in the order of the sources. Without the option
 * some are not, or the test would show nothing.
 */
#include "tests/eal/bench.h"

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

static const struct shape *of; /* of this test */
static const struct rmw_reduction *reduction;
static uint64_t random_state;
static uint8_t values[SOURCES][ELEMENTS * 8], wanted[ELEMENTS * 8]; /* by rank; their sum */
static bool has[WINDOW][SOURCES]; /* by rank: got the block's result */
static unsigned int missing, same, others;
static struct item list[ITEMS];
static unsigned int items;

static unsigned int
below(unsigned int n)
{
	return (unsigned int)(rig_random(&random_state) % n);
}

static uint8_t
id_of(unsigned int rank)
{
	return of->ids == NULL ? (uint8_t)rank : of->ids[rank];
}

static unsigned int
rank_of(uint8_t id)
{
	unsigned int rank = 0;

	while (id_of(rank) != id)
		rank++;
	return rank;
}

/* Short types are added up in fp32, and rounded once: only where much cancels out it shows in what order.
 * So the first two sources' cancel, and the others' are small. */
static unsigned int
exponent_of(unsigned int rank, unsigned int least, unsigned int range)
{
	if (weir_dtype_bytes(of->dtype) > 2 || of->op == WEIR_OP_PROD)
		return least + below(range);
	return rank < 2 ? least + range - 1 : least + below(4);
}

/* Any bits of the mantissa and the sign, and an exponent of a middle range. */
static void
make_values(void)
{
	static const struct {
		uint16_t least, range;
	} kind[] = {[WEIR_DTYPE_FP16] = {4, 20},
		[WEIR_DTYPE_BF16] = {107, 40},
		[WEIR_DTYPE_FP32] = {107, 40},
		[WEIR_DTYPE_FP64] = {983, 80},
		[WEIR_DTYPE_FP8_E4M3] = {1, 13},
		[WEIR_DTYPE_FP8_E5M2] = {1, 29}};
	unsigned int size = weir_dtype_bytes(of->dtype);
	unsigned int m = weir_dtype_float(of->dtype).fraction_bits;

	for (unsigned int s = 0; s < of->sources; s++)
		for (unsigned int i = 0; i < ELEMENTS; i++) {
			uint64_t word = rig_random(&random_state), exponent;
			uint8_t *to = values[s] + i * size;

			exponent = exponent_of(s, kind[of->dtype].least, kind[of->dtype].range);
			word = (word & ((UINT64_C(1) << m) - 1)) | exponent << m |
				(word >> 63) << (8 * size - 1);
			if (s == 1 && size <= 2 && of->op != WEIR_OP_PROD) {
				memcpy(&word, values[0] + i * size, size);
				word ^= UINT64_C(1) << (8 * size - 1);
			}
			memcpy(to, &word, size);
		}
}

/* The same without any of the switch's code, where that is a line. */
static void
check_plainly(uint64_t in)
{
	for (unsigned int i = 0; i < ELEMENTS; i++) {
		float sum = -0.0f, value, is;

		for (unsigned int s = 0; s < of->sources; s++) {
			memcpy(&value, values[s] + 4ul * i, 4);
			if ((in >> s & 1) != 0)
				sum = sum + value;
		}
		memcpy(&is, wanted + 4ul * i, 4);
		cr_assert_eq(sum, is, "element %u: %a, not %a", i, (double)is, (double)sum);
	}
}

/* The plain way, source after source; `in`: those that are. */
static void
reduce_plainly(uint64_t in)
{
	unsigned int count = 0;

	for (unsigned int s = 0; s < of->sources; s++)
		if ((in >> s & 1) != 0)
			(count++ == 0 ? reduction->begin : reduction->reduce)(
				wanted, (const void *[]){values[s]}, 1, ELEMENTS);
	if (reduction->finish != NULL)
		reduction->finish(wanted, ELEMENTS, count);
	if (of->dtype == WEIR_DTYPE_FP32 && of->op == WEIR_OP_SUM)
		check_plainly(in);
}

static uint32_t dead_after_ms;

static void
as_shaped(struct rig_config *config)
{
	config->lcores = true;
	config->job[0].deterministic = of->ordered;
	config->job[0].dead_after_ms = dead_after_ms * RIG_SLOW;
}

static void
start_shape(const struct shape *shape, enum ppe_policy policy)
{
	of = shape;
	random_state = rig_seed();
	reduction = rmw_reduction_of(RMW_ISA_SCALAR, shape->dtype, shape->op);
	start(.workers = shape->workers, .sources = shape->sources, .ids = shape->ids,
		.ports = PORTS, .window = WINDOW, .elements = 2 * ELEMENTS, .policy = policy,
		.timeout_ms = policy == PPE_POLICY_PARTIAL ? 200 * RIG_SLOW : 60000,
		.change = as_shaped);
	rig.seed = shape->segmented ? random_state : 0;
	make_values();
}

static void
put_in(struct item item)
{
	struct weir_header h = {.job_id = 1,
		.block_id = item.block,
		.src_id = id_of(item.rank),
		.gen_id = generation,
		.grad_cnt = ELEMENTS,
		.dtype = of->dtype,
		.op = of->op,
		.collective = of->collective,
		.extended = true};

	rig_send(&rig, h.src_id % PORTS, frame,
		rig_frame(frame, h.src_id, &h, values[item.rank],
			ELEMENTS * weir_dtype_bytes(of->dtype)));
}

/* What of the sum does this rank get? */
static struct weir_slice
part_of(unsigned int rank)
{
	if (of->collective == WEIR_COLLECTIVE_REDUCESCATTER)
		return weir_slice(ELEMENTS, of->sources, rank);
	if (of->collective == WEIR_COLLECTIVE_REDUCE && rank != 0)
		return (struct weir_slice){0, 0};
	return (struct weir_slice){0, ELEMENTS};
}

/* Take what has come; results of the window that begins at `first` are compared. */
static void
take_results(uint32_t first)
{
	for (unsigned int port = 0; port < PORTS; port++) {
		unsigned int n;

		while ((n = rig_receive(&rig, port, frame, 0)) > 0) {
			struct weir_slice part;
			unsigned int rank, size = weir_dtype_bytes(of->dtype);

			cr_assert(rig_parse(frame, n, &got, &payload, &payload_bytes));
			if (got.status == WEIR_STATUS_WAITING)
				continue; /* a repeat, while others are missing */
			cr_assert(got.status == WEIR_STATUS_OK || got.status == WEIR_STATUS_PARTIAL,
				"%s", weir_status_text(got.status));
			rank = rank_of(got.src_id);
			part = part_of(rank);
			cr_assert_geq(payload_bytes, part.count * size);
			cr_assert_eq(got.grad_cnt, ELEMENTS);
			if (memcmp(payload, wanted + part.first * size, part.count * size) == 0)
				same++;
			else
				others++;
			if (got.block_id - first < WINDOW && !has[got.block_id - first][rank]) {
				has[got.block_id - first][rank] = true;
				missing--;
			}
		}
	}
}

static void
shuffle(void)
{
	for (unsigned int i = items; i > 1; i--) {
		unsigned int j = below(i);
		struct item item = list[i - 1];

		list[i - 1] = list[j];
		list[j] = item;
	}
}

/* All contributions to a window of blocks, some twice, in any order. */
static void
send_round(uint32_t first)
{
	items = 0;
	for (uint32_t b = 0; b < WINDOW; b++)
		for (unsigned int s = 0; s < of->sources; s++)
			for (unsigned int n = below(8) == 0 ? 2 : 1; n > 0; n--)
				list[items++] = (struct item){first + b, (uint8_t)s};
	shuffle();
	memset(has, 0, sizeof(has));
	missing = WINDOW * of->sources;
	for (unsigned int i = 0; i < items; i++) {
		put_in(list[i]);
		if (i % 64 == 63)
			take_results(first);
	}
}

/* Until each source has every result; whoever lacks one asks again, as after a loss. */
static void
receive_round(uint32_t first)
{
	for (unsigned int turn = 0; missing > 0; turn++) {
		cr_assert_lt(turn, 50, "%u results are missing", missing);
		rig_rest(&rig);
		take_results(first);
		for (unsigned int b = 0; b < WINDOW && missing > 0 && turn > 0; b++)
			for (unsigned int s = 0; s < of->sources; s++)
				if (!has[b][s])
					put_in((struct item){first + b, (uint8_t)s});
	}
	for (unsigned int n = 0; n < 8; n++)
		put_in(list[below(items)]);
}

static void
check(const struct shape *shape)
{
	struct ppe_job_stats stats;

	start_shape(shape, PPE_POLICY_WAIT);
	reduce_plainly(UINT64_MAX);
	for (uint32_t round = 0; round < shape->rounds; round++) {
		send_round(round * WINDOW);
		receive_round(round * WINDOW);
	}
	ppe_job_stats_read(rig.ppe, 1, &stats);
	if (shape->ordered) {
		cr_expect_eq(others, 0, "%u of %u results differ", others, others + same);
		cr_expect_gt(stats.out_of_turn, 0);
	} else {
		cr_expect_gt(others, 0, "the order makes no difference");
		cr_expect_eq(stats.out_of_turn, 0);
	}
	cr_expect_eq(stats.blocks_complete, shape->rounds * WINDOW);
	stop_unread();
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

	start_shape(&shape, PPE_POLICY_PARTIAL);
	for (uint32_t b = 0; b < 12; b++) {
		uint64_t in = b == 0 ? 0xfe
			: b == 1     ? 0x7f
				     : 1 + (rig_random(&random_state) & 0xfe);

		reduce_plainly(in);
		items = 0;
		for (unsigned int s = 0; s < shape.sources; s++)
			if ((in >> s & 1) != 0)
				list[items++] = (struct item){b, (uint8_t)s};
		shuffle();
		memset(has, 0, sizeof(has));
		missing = shape.sources;
		for (unsigned int i = 0; i < items; i++)
			put_in(list[i]);
		for (unsigned int ms = 0; missing > 0; ms++) {
			cr_assert_lt(ms, 5000);
			rig_rest(&rig);
			take_results(b);
		}
	}
	cr_expect_eq(others, 0);
	stop_unread();
}

/* Sources 1 to 3 contribute, in order, again and again until they have the result. */
static void
three_contribute(uint32_t block, unsigned int most_ms)
{
	memset(has, 0, sizeof(has));
	missing = 3;
	for (unsigned int ms = 0; missing > 0 && ms < most_ms; ms += 20) {
		for (uint8_t rank = 1; rank < 4; rank++) {
			put_in((struct item){block, rank});
			rig_rest(&rig);
		}
		rte_delay_us_sleep(20000);
		take_results(block);
		missing = !has[0][1] + !has[0][2] + !has[0][3];
	}
	cr_assert_eq(missing, 0, "block %u", block);
	/* A busy worker may send the last answers later. */
	rig_rest(&rig);
	take_results(block);
}

/* Nobody waits for the turn of a source that was expelled. */
Test(ppe_order, expelled_sources_have_no_turn, .timeout = 90)
{
	static const struct shape shape = {
		.workers = 1, .sources = 4, .dtype = WEIR_DTYPE_FP32, .ordered = true};
	uint64_t out_of_turn;

	dead_after_ms = 500;
	start_shape(&shape, PPE_POLICY_PARTIAL);
	reduce_plainly(0xe);
	three_contribute(0, 5000);
	three_contribute(WINDOW, 5000);
	three_contribute(2 * WINDOW, 10000);
	out_of_turn = job_stats(1).out_of_turn;
	cr_assert_eq(job_stats(1).expelled, 1);
	/* All of the first two blocks; and of the third, which any of them may have opened. */
	cr_expect(out_of_turn >= 6 && out_of_turn <= 8, "%lu", out_of_turn);
	three_contribute(1, 1000);
	three_contribute(2, 1000);
	cr_expect_eq(job_stats(1).out_of_turn, out_of_turn);
	cr_expect_eq(others, 0);
	stop_unread();
}

/* Blocks that fail, generations that end and a switch that stops forget what waited for its turn: what
 * comes after has none of it, and all memory is back. */
Test(ppe_order, pieces_of_ended_blocks_are_freed, .timeout = 90)
{
	static const struct shape shape = {
		.workers = 4, .sources = 5, .dtype = WEIR_DTYPE_FP32, .ordered = true};
	struct shape other = shape;

	start_shape(&shape, PPE_POLICY_WAIT);
	reduce_plainly(UINT64_MAX);
	/* More of them than fit at once, if a failed block kept its pieces. */
	for (uint32_t block = 0; block < 4 * WINDOW; block++) {
		for (uint8_t rank = 1; rank < 4; rank++)
			put_in((struct item){block, rank});
		other.op = WEIR_OP_PROD;
		of = &other;
		put_in((struct item){block, 4});
		put_in((struct item){block, 0});
		of = &shape;
		discard();
	}
	for (unsigned int round = 0; round < 3; round++) {
		for (uint32_t block = 0; block < WINDOW; block++)
			for (uint8_t rank = 1; rank < 5 && round > 0; rank++)
				put_in((struct item){block, rank});
		discard();
		generation = rig_join(&rig, 0, false);
		send_round(0);
		receive_round(0);
		discard();
		/* Begun, and never done. */
		generation = rig_join(&rig, 0, false);
	}
	cr_expect_eq(others, 0);
	for (uint32_t block = 0; block < WINDOW; block++)
		for (uint8_t rank = 1; rank < 5; rank++)
			put_in((struct item){block, rank});
	discard();
	stop_unread();
}

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

#include "tests/eal/rig.h"

#define PORTS    4
#define ELEMENTS 48
#define WINDOW   16
#define SOURCES  64
#define ITEMS    (2 * WINDOW * SOURCES)

struct shape {
	unsigned int workers, sources, rounds; /* a round is a window of blocks */
	uint8_t dtype, op;
	bool ordered, segmented;
};

struct item {
	uint32_t block;
	uint8_t source;
};

struct play {
	struct rig rig;
	const struct shape *shape;
	const struct rmw_reduction *reduction;
	uint64_t random;
	uint16_t generation;
	unsigned int bytes; /* of a payload */
	uint8_t value[SOURCES][ELEMENTS * 8], expected[ELEMENTS * 8], frame[RIG_FRAME_MAX];
	bool has[WINDOW][SOURCES]; /* got the block's result */
	unsigned int missing, same, others;
	struct item item[ITEMS];
	unsigned int items;
};

static unsigned int
below(struct play *p, unsigned int n)
{
	return (unsigned int)(rig_random(&p->random) % n);
}

/* Any bits of the mantissa and the sign, and an exponent of a middle range. */
static void
make_values(struct play *p)
{
	static const struct {
		uint8_t mantissa, least, range;
	} kind[] = {[WEIR_DTYPE_FP16] = {10, 4, 20},
		[WEIR_DTYPE_BF16] = {7, 107, 40},
		[WEIR_DTYPE_FP32] = {23, 107, 40}};
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

				exponent = kind[p->shape->dtype].least +
					below(p, kind[p->shape->dtype].range);
				word = (word & ((UINT64_C(1) << m) - 1)) | exponent << m |
					(word >> 63) << (8 * size - 1);
			}
			memcpy(to, &word, size);
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
				p->expected, p->value[s], ELEMENTS);
	if (p->reduction->finish != NULL)
		p->reduction->finish(p->expected, ELEMENTS, count);
}

static void
start(struct play *p, const struct shape *shape, uint8_t policy)
{
	struct rig_config config = {
		.workers = shape->workers, .threads = 8, .ports = PORTS, .jobs = 1};

	config.job[0] = rig_job(1, (uint16_t)shape->sources, WINDOW, 2 * ELEMENTS);
	config.job[0].deterministic = shape->ordered;
	config.job[0].policy = policy;
	config.job[0].timeout_ms = policy == PPE_POLICY_PARTIAL ? 200 : 60000;
	p->shape = shape;
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
		.src_id = item.source,
		.gen_id = p->generation,
		.grad_cnt = ELEMENTS,
		.dtype = p->shape->dtype,
		.op = p->shape->op,
		.extended = true};

	rig_send(&p->rig, item.source % PORTS, p->frame,
		rig_frame(p->frame, item.source, &h, p->value[item.source], p->bytes));
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
			cr_assert(rig_parse(p->frame, n, &h, &payload, &bytes));
			cr_assert(h.status == WEIR_STATUS_OK || h.status == WEIR_STATUS_PARTIAL);
			cr_assert_eq(h.grad_cnt, ELEMENTS);
			if (memcmp(payload, p->expected, p->bytes) == 0)
				p->same++;
			else
				p->others++;
			if (h.block_id - first < WINDOW && !p->has[h.block_id - first][h.src_id]) {
				p->has[h.block_id - first][h.src_id] = true;
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

	start(p, shape, PPE_POLICY_WAIT);
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
SHAPE(without_it_results_differ, FP32, .workers = 1, .sources = 8, .rounds = 10)
SHAPE(without_it_they_differ_by_workers, FP32, .workers = 4, .sources = 3, .rounds = 10)

/* Who is missing has no turn: the sum of the others, in order. */
Test(ppe_order, partial_results, .timeout = 60)
{
	static const struct shape shape = {
		.workers = 1, .sources = 8, .dtype = WEIR_DTYPE_FP32, .ordered = true};
	struct play *p = calloc(1, sizeof(*p));

	start(p, &shape, PPE_POLICY_PARTIAL);
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

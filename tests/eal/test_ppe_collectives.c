/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective: random blocks, with contributions in any order, in any segmentation, repeated, and
 * asked for again; each source gets its part of each, byte for byte, and nothing else.
 */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <string.h>

#include "tests/eal/blocks.h"

#define ELEMENTS 400
#define WINDOW   8
#define BLOCKS   150

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX], expected[BLOCK_BYTES_MAX];

struct shape {
	unsigned int workers, n;
	uint8_t ids[8];
	bool segmented, multicast;
	bool full; /* blocks of AlltoAll */
	uint64_t skip; /* bit: a rank that asks that its own slices be left out */
};

static unsigned int
below(uint64_t *random, unsigned int limit)
{
	return (unsigned int)(rig_random(random) % limit);
}

/* Numbers of elements: those that divide badly, and any. */
static unsigned int
some_elements(uint64_t *random, unsigned int n, unsigned int most)
{
	const unsigned int odd[] = {0, 1, n - 1, n, n + 1, most, most - 1};
	unsigned int which = below(random, 10);

	if (which < sizeof(odd) / sizeof(odd[0]))
		return RTE_MIN(odd[which], most);
	return below(random, most + 1);
}

static struct block_plan
some_plan(uint64_t *random, const struct shape *shape)
{
	struct block_plan p = {.n = shape->n,
		.ids = shape->ids,
		.skips_own = shape->multicast ? 0 : shape->skip,
		.collective = (enum weir_collective)below(random, WEIR_COLLECTIVE_BARRIER + 1),
		.dtype = (enum weir_dtype)below(random, WEIR_DTYPES),
		.final = below(random, 2) != 0,
		.seed = rig_random(random)};
	unsigned int most;

	if (p.collective <= WEIR_COLLECTIVE_REDUCESCATTER)
		p.dtype = WEIR_DTYPE_INT32;
	most = weir_dtype_bytes(p.dtype) == 8 ? ELEMENTS / 2 : ELEMENTS;
	if (p.collective == WEIR_COLLECTIVE_ALLTOALL)
		most = shape->full ? most - most % p.n : most / p.n;
	p.elements = p.collective == WEIR_COLLECTIVE_BARRIER ? 0 : some_elements(random, p.n, most);
	if (p.collective == WEIR_COLLECTIVE_REDUCE || p.collective == WEIR_COLLECTIVE_BROADCAST ||
		p.collective == WEIR_COLLECTIVE_SCATTER || p.collective == WEIR_COLLECTIVE_GATHER)
		p.root = below(random, p.n);
	return p;
}

/* The next packet at the rank's port is its part of this result. */
static void
expect_part(const struct block_plan *p, unsigned int rank, bool multicast)
{
	unsigned int n = rig_receive(&rig, p->ids[rank] % rig.ports, frame, 5000);
	unsigned int bytes = 0, right = block_result(p, rank, expected);
	const char *what = weir_collective_text(p->collective);
	const uint8_t *payload = NULL;
	struct weir_header h;

	cr_assert(n > 0 && rig_parse(frame, n, &h, &payload, &bytes),
		"%s, %u elements, block %u: rank %u gets nothing", what, p->elements, p->block,
		rank);
	cr_assert(rig_checksums_hold(frame), "%s: a wrong checksum", what);
	cr_assert(h.status == WEIR_STATUS_OK && h.block_id == p->block &&
			h.collective == p->collective && h.src_cnt == p->n &&
			h.src_id == (multicast ? 0 : p->ids[rank]) && h.final == p->final &&
			h.grad_cnt == p->elements && h.root == p->root && !h.degraded,
		"%s, %u elements: rank %u (source %u) gets block %u, not %u, %s of %s, %u sources, "
		"grad_cnt %u, root %u, for source %u",
		what, p->elements, rank, p->ids[rank], h.block_id, p->block,
		weir_status_text(h.status),
		weir_collective_text((enum weir_collective)h.collective), h.src_cnt, h.grad_cnt,
		h.root, h.src_id);
	cr_assert(bytes == right && memcmp(payload, expected, right) == 0,
		"%s of %u elements, block %u, n %u, root %u: rank %u gets %u bytes, not %u, or "
		"others",
		what, p->elements, p->block, p->n, p->root, rank, bytes, right);
}

/* Offer it in any order, some of it twice. */
static void
offer_all(const struct block_plan *p, uint64_t *random)
{
	unsigned int order[8];
	struct ppe_stats stats;
	bool twice = false;

	for (unsigned int i = 0; i < p->n; i++) {
		unsigned int j = below(random, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (unsigned int i = 0; i < p->n; i++) {
		/* The last one's must not overtake a repetition, which would then be an asking again. */
		if (twice && i + 1 == p->n)
			rig_settle(&rig, &stats);
		block_offer(&rig, p, order[i]);
		if (i + 1 < p->n && below(random, 8) == 0) {
			block_offer(&rig, p, order[i]);
			twice = true;
		}
	}
}

static void
start(const struct shape *shape)
{
	struct rig_config config = {.workers = shape->workers,
		.threads = 8,
		.ports = 8,
		.jobs = 1,
		.job = {rig_job_of(5, shape->ids, (uint16_t)shape->n, WINDOW, ELEMENTS)}};

	config.job[0].timeout_ms = 60000;
	config.job[0].group = shape->multicast ? 0xef4d0001 : 0;
	config.job[0].alltoall = shape->full ? PPE_ALLTOALL_FULL : PPE_ALLTOALL_SHORT;
	rig_start(&rig, &config);
	for (unsigned int rank = 0; rank < shape->n; rank++)
		if ((shape->skip >> rank & 1) != 0)
			rig.skips_own[shape->ids[rank] / 64] |= UINT64_C(1)
				<< shape->ids[rank] % 64;
}

/* Each gets its part, in a switch and job of this shape. */
static void
run(const struct shape *shape)
{
	uint64_t random = rig_seed();
	const char *error;
	uint16_t generation;

	start(shape);
	generation = rig_join(&rig, 0, false);
	rig.seed = shape->segmented ? random : 0;
	for (uint32_t block = 0; block < BLOCKS; block++) {
		struct block_plan p = some_plan(&random, shape);
		bool multicast = shape->multicast && block_to_all(&p, 0);

		p.job = 5;
		p.generation = generation;
		p.block = block;
		offer_all(&p, &random);
		for (unsigned int rank = 0; rank < p.n; rank++)
			expect_part(&p, rank, multicast);
		if (below(&random, 3) != 0)
			continue;
		/* A result was lost: who asks again gets the same, alone, and not by multicast. */
		for (unsigned int times = 0; times < 3; times++) {
			unsigned int rank = below(&random, p.n);

			block_offer(&rig, &p, rank);
			expect_part(&p, rank, false);
		}
	}
	for (unsigned int port = 0; port < rig.ports; port++)
		cr_expect_eq(rig_receive(&rig, port, frame, 0), 0, "something is left");
	error = rig_stop(&rig);
	cr_expect_null(error, "%s", error);
}

#define SHAPE(name, ...)                                                                           \
	Test(ppe_collectives, name, .timeout = 120)                                                \
	{                                                                                          \
		run(&(struct shape){__VA_ARGS__});                                                 \
	}

SHAPE(one_source, .workers = 1, .n = 1)
SHAPE(two_sources, .workers = 1, .n = 2, .ids = {0, 1})
SHAPE(three_sources_segmented, .workers = 2, .n = 3, .ids = {0, 1, 2}, .segmented = true)
SHAPE(any_three_sources, .workers = 2, .n = 3, .ids = {3, 7, 200})
SHAPE(five_sources_segmented, .workers = 1, .n = 5, .ids = {0, 1, 2, 3, 4}, .segmented = true)
SHAPE(eight_sources, .workers = 2, .n = 8, .ids = {0, 1, 2, 3, 4, 5, 6, 7})
SHAPE(any_eight_sources_segmented, .workers = 2, .n = 8, .ids = {0, 1, 2, 3, 4, 5, 6, 255},
	.segmented = true)
SHAPE(multicast, .workers = 1, .n = 5, .ids = {0, 1, 2, 3, 4}, .multicast = true)
SHAPE(one_that_skips_its_own, .workers = 1, .n = 1, .skip = 1)
SHAPE(all_skip_their_own, .workers = 2, .n = 8, .ids = {0, 1, 2, 3, 4, 5, 6, 7}, .skip = 0xff)
SHAPE(some_skip_their_own, .workers = 1, .n = 5, .ids = {0, 1, 9, 77, 200}, .skip = 0x15,
	.segmented = true)
SHAPE(full_alltoall_skips_its_own, .workers = 2, .n = 5, .ids = {0, 1, 2, 3, 4}, .skip = 0x1b,
	.full = true)
SHAPE(multicast_skips_nothing, .workers = 1, .n = 5, .ids = {0, 1, 2, 3, 4}, .skip = 0x1f,
	.multicast = true)
SHAPE(full_alltoall, .workers = 2, .n = 8, .ids = {0, 1, 2, 3, 4, 5, 6, 7}, .full = true)
SHAPE(full_alltoall_segmented, .workers = 1, .n = 3, .ids = {3, 7, 200}, .segmented = true,
	.full = true)

/* With slices that don't divide evenly, a column may be longer than a row. */
Test(ppe_collectives, rows_and_columns_must_fit_a_packet, .timeout = 90)
{
	const struct shape shape = {.workers = 1, .n = 3, .ids = {0, 1, 2}, .full = true};
	const struct {
		unsigned int elements;
		enum weir_dtype dtype;
		bool fits;
	} tries[] = {
		{ELEMENTS - 1, WEIR_DTYPE_INT32, true},
		{ELEMENTS, WEIR_DTYPE_INT32, false},
		{ELEMENTS / 2 - 2, WEIR_DTYPE_FP64, true},
		{ELEMENTS / 2, WEIR_DTYPE_FP64, false},
		{ELEMENTS / 2 + 1, WEIR_DTYPE_FP64, false},
	};
	uint64_t dropped = 0;
	struct ppe_stats stats;
	const char *error;
	uint32_t block = 0;
	uint16_t generation;

	start(&shape);
	generation = rig_join(&rig, 0, false);
	for (unsigned int i = 0; i < RTE_DIM(tries); i++) {
		struct block_plan p = {.job = 5,
			.generation = generation,
			.n = shape.n,
			.ids = shape.ids,
			.collective = WEIR_COLLECTIVE_ALLTOALL,
			.dtype = tries[i].dtype,
			.elements = tries[i].elements,
			.block = block};

		for (unsigned int rank = 0; rank < shape.n; rank++)
			block_offer(&rig, &p, rank);
		for (unsigned int rank = 0; tries[i].fits && rank < shape.n; rank++)
			expect_part(&p, rank, false);
		block += tries[i].fits;
		dropped += tries[i].fits ? 0 : shape.n;
		rig_settle(&rig, &stats);
		cr_assert_eq(stats.drops[PPE_DROP_LENGTH], dropped, "%u elements: %" PRIu64,
			tries[i].elements, stats.drops[PPE_DROP_LENGTH]);
	}
	error = rig_stop(&rig);
	cr_expect_null(error, "%s", error);
}

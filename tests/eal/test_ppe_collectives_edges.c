/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of any collective that can't be whole: sources are missing, or disagree. Nobody is left waiting. */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <string.h>

#include "tests/eal/blocks.h"
#include "tests/eal/one_rig.h"

#define SOURCES    5
#define ELEMENTS   300
#define WINDOW     32 /* no block waits for an earlier one */
#define TIMEOUT_MS 300
#define NONE       WEIR_COLLECTIVE_JOIN

static const uint8_t ids[SOURCES] = {1, 4, 9, 77, 200};
static uint8_t frame[RIG_FRAME_MAX], expected[BLOCK_BYTES_MAX];

static bool
rooted(enum weir_collective c)
{
	return c == WEIR_COLLECTIVE_REDUCE || c == WEIR_COLLECTIVE_BROADCAST ||
		c == WEIR_COLLECTIVE_SCATTER || c == WEIR_COLLECTIVE_GATHER;
}

static uint16_t
start(enum ppe_policy policy, enum ppe_alltoall alltoall, uint64_t skip)
{
	struct rig_config config = {.workers = 2,
		.threads = 8,
		.ports = 8,
		.jobs = 1,
		.job = {rig_job_of(5, ids, SOURCES, WINDOW, ELEMENTS)}};

	config.job[0].timeout_ms = TIMEOUT_MS;
	config.job[0].policy = (uint8_t)policy;
	config.job[0].alltoall = (uint8_t)alltoall;
	rig_start(&rig, &config);
	for (unsigned int rank = 0; rank < SOURCES; rank++)
		if ((skip >> rank & 1) != 0)
			rig.skips_own[ids[rank] / 64] |= UINT64_C(1) << ids[rank] % 64;
	return rig_join(&rig, 0, false);
}

/* What the rank receives next. */
static struct weir_header
take(const struct block_plan *p, unsigned int rank, const uint8_t **payload, unsigned int *bytes)
{
	unsigned int n = rig_receive(&rig, p->ids[rank] % rig.ports, frame, 5000);
	struct weir_header h = {0};

	cr_assert(n > 0 && rig_parse(frame, n, &h, payload, bytes), "%s: rank %u gets nothing",
		weir_collective_text(p->collective), rank);
	cr_assert(rig_checksums_hold(frame), "%s: a wrong checksum",
		weir_collective_text(p->collective));
	cr_assert_eq(h.block_id, p->block);
	return h;
}

/* The bitmap of those that are in, at the payload's end. */
static void
expect_bitmap(const struct block_plan *p, const uint8_t *bitmap)
{
	uint8_t right[WEIR_BITMAP_BYTES] = {0};

	for (unsigned int rank = 0; rank < p->n; rank++)
		if ((p->absent >> rank & 1) == 0)
			right[p->ids[rank] / 8] |= (uint8_t)(1u << p->ids[rank] % 8);
	cr_assert_eq(memcmp(bitmap, right, sizeof(right)), 0, "%s: a wrong bitmap",
		weir_collective_text(p->collective));
}

static void
expect_partial(const struct block_plan *p, unsigned int rank)
{
	bool lost = (p->collective == WEIR_COLLECTIVE_BROADCAST ||
			    p->collective == WEIR_COLLECTIVE_SCATTER) &&
		(p->absent >> p->root & 1) != 0;
	unsigned int bytes, right = lost ? 0 : block_result(p, rank, expected);
	const uint8_t *payload;
	struct weir_header h = take(p, rank, &payload, &bytes);

	cr_assert(h.status == (lost ? WEIR_STATUS_ERROR : WEIR_STATUS_PARTIAL) && h.degraded &&
			h.grad_cnt == (lost ? 0 : p->elements),
		"%s: rank %u gets %s", weir_collective_text(p->collective), rank,
		weir_status_text(h.status));
	cr_assert(bytes == right + WEIR_BITMAP_BYTES && memcmp(payload, expected, right) == 0,
		"%s of %u elements, without %#" PRIx64
		", root %u: rank %u gets %u bytes, not %u, or others",
		weir_collective_text(p->collective), p->elements, p->absent, p->root, rank, bytes,
		right + WEIR_BITMAP_BYTES);
	expect_bitmap(p, payload + right);
}

/* Buffers are used again: what was in them before must not come out in place of what is missing. */
static void
expect_zeros(enum ppe_alltoall alltoall, uint64_t skip)
{
	uint64_t random = rig_seed();
	uint16_t generation = start(PPE_POLICY_PARTIAL, alltoall, skip);
	uint32_t block = 0;

	for (unsigned int c = 0; c <= WEIR_COLLECTIVE_BARRIER; c++)
		for (unsigned int times = 0; times < 3; times++) {
			struct block_plan p = {.job = 5,
				.generation = generation,
				.n = SOURCES,
				.ids = ids,
				.collective = (enum weir_collective)c,
				.dtype = WEIR_DTYPE_INT32,
				.elements = c == WEIR_COLLECTIVE_BARRIER ? 0 : 51 + times,
				.skips_own = skip,
				.block = block++,
				.seed = rig_random(&random),
				.absent = 1 + rig_random(&random) % ((1u << SOURCES) - 2)};

			if (rooted(p.collective))
				p.root = (unsigned int)(rig_random(&random) % SOURCES);
			if (c == WEIR_COLLECTIVE_ALLTOALL && alltoall == PPE_ALLTOALL_FULL)
				p.elements *= SOURCES;
			for (unsigned int rank = 0; rank < SOURCES; rank++)
				if ((p.absent >> rank & 1) == 0)
					block_offer(&rig, &p, rank);
			for (unsigned int rank = 0; rank < SOURCES; rank++)
				expect_partial(&p, rank);
			/* Who comes too late is told the same. */
			for (unsigned int rank = 0; rank < SOURCES; rank++)
				if ((p.absent >> rank & 1) != 0) {
					block_offer(&rig, &p, rank);
					expect_partial(&p, rank);
				}
		}
	stop();
}

Test(ppe_collectives_edges, partial_results_have_zeros_for_who_is_missing, .timeout = 90)
{
	expect_zeros(PPE_ALLTOALL_SHORT, 0);
}

Test(ppe_collectives_edges, partial_results_of_full_rows_have_zeros, .timeout = 90)
{
	expect_zeros(PPE_ALLTOALL_FULL, 0);
}

Test(ppe_collectives_edges, partial_results_without_own_slices_have_zeros, .timeout = 90)
{
	expect_zeros(PPE_ALLTOALL_FULL, 0x1d);
}

/* Ranks 0 and 3 send what differs in one field; everybody is told which, and who. */
static void
disagree(struct block_plan p, const struct block_plan *other, enum weir_field field, uint16_t has,
	uint16_t offers)
{
	struct ppe_stats stats;

	block_offer(&rig, &p, 0);
	rig_settle(&rig, &stats); /* it is in before the other comes by another port */
	block_offer(&rig, other, 3);
	for (unsigned int rank = 0; rank < SOURCES; rank++) {
		unsigned int bytes;
		const uint8_t *payload;
		struct weir_header h = take(&p, rank, &payload, &bytes);

		cr_assert_eq(h.status, WEIR_STATUS_MISMATCH, "field %u: %s", field,
			weir_status_text(h.status));
		cr_assert_eq(bytes, sizeof(struct weir_mismatch));
		cr_assert(payload[0] == field && payload[1] == ids[0] && payload[4] == ids[3],
			"field %u of sources %u and %u, not %u of %u and %u", payload[0],
			payload[1], payload[4], field, ids[0], ids[3]);
		cr_assert(weir_get16(payload + 2) == has && weir_get16(payload + 6) == offers,
			"field %u: %u and %u, not %u and %u", field, weir_get16(payload + 2),
			weir_get16(payload + 6), has, offers);
	}
}

Test(ppe_collectives_edges, disagreements_name_the_field_and_both_sources, .timeout = 90)
{
	uint16_t generation = start(PPE_POLICY_WAIT, PPE_ALLTOALL_SHORT, 0);
	/* Rank 1 is the root: what 0 and 3 send is a header. */
	struct block_plan p = {.job = 5,
		.generation = generation,
		.n = SOURCES,
		.ids = ids,
		.collective = WEIR_COLLECTIVE_BROADCAST,
		.dtype = WEIR_DTYPE_INT32,
		.elements = 20,
		.root = 1};
	struct block_plan other = p;

	other.root = 2;
	disagree(p, &other, WEIR_FIELD_ROOT, 1, 2);
	other = p;
	other.block = ++p.block;
	other.elements = 21;
	disagree(p, &other, WEIR_FIELD_LENGTH, 20, 21);
	other = p;
	other.block = ++p.block;
	other.final = true;
	disagree(p, &other, WEIR_FIELD_FINAL, 0, 1);
	other = p;
	other.block = ++p.block;
	other.dtype = WEIR_DTYPE_FP64;
	disagree(p, &other, WEIR_FIELD_DTYPE, WEIR_DTYPE_INT32, WEIR_DTYPE_FP64);
	other = p;
	other.block = ++p.block;
	other.collective = WEIR_COLLECTIVE_SCATTER;
	disagree(p, &other, WEIR_FIELD_COLLECTIVE, WEIR_COLLECTIVE_BROADCAST,
		WEIR_COLLECTIVE_SCATTER);
	p.collective = WEIR_COLLECTIVE_REDUCE;
	other = p;
	other.block = ++p.block;
	other.op = WEIR_OP_MAX;
	disagree(p, &other, WEIR_FIELD_OP, WEIR_OP_SUM, WEIR_OP_MAX);
	stop();
}

static void
expect_whole(const struct block_plan *p, unsigned int rank)
{
	unsigned int bytes, right = block_result(p, rank, expected);
	const uint8_t *payload;
	struct weir_header h = take(p, rank, &payload, &bytes);

	cr_assert(h.status == WEIR_STATUS_OK && bytes == right &&
			memcmp(payload, expected, right) == 0,
		"%s: rank %u gets %s, %u bytes, not %u, or others",
		weir_collective_text(p->collective), rank, weir_status_text(h.status), bytes,
		right);
}

/* After another change: what differs by receiver is nobody's, for it was told by other ranks. */
static void
ask_again(const struct block_plan *p, unsigned int right)
{
	bool to_all = block_to_all(p, 0);

	for (unsigned int rank = 0; rank < 2; rank++) {
		const uint8_t *payload;
		unsigned int bytes;
		struct weir_header h;

		block_offer(&rig, p, rank);
		h = take(p, rank, &payload, &bytes);
		cr_expect(h.status == (to_all ? WEIR_STATUS_OK : WEIR_STATUS_EXPIRED) &&
				bytes == (to_all ? right : 0),
			"%s: told %s", weir_collective_text(p->collective),
			weir_status_text(h.status));
	}
}

/* A job without joins whose sources change has other ranks at once: what was put in places by the former
 * ones is not delivered as a result, nor counted for sources that sent nothing. */
static void
change_sources(enum weir_collective before, enum weir_collective collective)
{
	static const uint8_t others[SOURCES] = {0, 1, 4, 77, 200};
	struct rig_config config = {.workers = 2,
		.threads = 8,
		.ports = 8,
		.jobs = 1,
		.job = {rig_job_of(5, ids, SOURCES, WINDOW, ELEMENTS)}};
	struct block_plan former = {.job = 5,
		.generation = 7,
		.n = SOURCES,
		.ids = ids,
		.collective = collective,
		.dtype = WEIR_DTYPE_INT32,
		.elements = 50,
		.seed = 1};
	struct block_plan next = former;
	struct ppe_jobs table = {0};
	struct ppe_job changed;
	struct ppe_stats stats;

	config.job[0].fixed_generation = 7;
	rig_start(&rig, &config);
	next.ids = others;
	next.seed = 2;
	if (before != NONE) {
		/* A completed block of the residue, which is kept. */
		former.collective = before;
		for (unsigned int rank = 0; rank < SOURCES; rank++)
			block_offer(&rig, &former, rank);
		for (unsigned int rank = 0; rank < SOURCES; rank++)
			expect_whole(&former, rank);
		former.collective = collective;
		former.block = next.block = WINDOW;
	}
	block_offer(&rig, &former, 0);
	block_offer(&rig, &former, 2);
	rig_settle(&rig, &stats);
	changed = rig_job_of(5, others, SOURCES, WINDOW, ELEMENTS);
	changed.fixed_generation = 7;
	changed.instance = rig.job[0].instance;
	table.by_id[5] = &changed;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
	for (unsigned int rank = 0; rank < SOURCES; rank++)
		if (rank != 1)
			block_offer(&rig, &next, rank);
	rig_settle(&rig, &stats);
	cr_assert_eq(rig_receive(&rig, others[3] % rig.ports, frame, 50), 0,
		"%s: a result, of source 9", weir_collective_text(collective));
	block_offer(&rig, &next, 1);
	for (unsigned int rank = 0; rank < SOURCES; rank++)
		expect_whole(&next, rank);
	table.by_id[5] = &rig.job[0];
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
	ask_again(&former, block_result(&next, 0, expected));
	stop();
}

CASE(ppe_collectives_edges, sources_change_under_allreduce,
	change_sources(NONE, WEIR_COLLECTIVE_ALLREDUCE))
CASE(ppe_collectives_edges, sources_change_under_allgather,
	change_sources(NONE, WEIR_COLLECTIVE_ALLGATHER))
CASE(ppe_collectives_edges, sources_change_under_alltoall,
	change_sources(NONE, WEIR_COLLECTIVE_ALLTOALL))
CASE(ppe_collectives_edges, sources_change_under_reducescatter,
	change_sources(NONE, WEIR_COLLECTIVE_REDUCESCATTER))
CASE(ppe_collectives_edges, sources_change_behind_a_block_for_all,
	change_sources(WEIR_COLLECTIVE_ALLREDUCE, WEIR_COLLECTIVE_ALLTOALL))
CASE(ppe_collectives_edges, sources_change_behind_parts,
	change_sources(WEIR_COLLECTIVE_SCATTER, WEIR_COLLECTIVE_ALLREDUCE))

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of any collective whose ranks are not the sources' ids, or that can't be whole: sources are missing, or disagree.
 * Nobody is left waiting. The reference model plays whole blocks in any order: tests/eal/test_ppe_model.c.
 */
#include <inttypes.h>

#include "tests/eal/bench.h"
#include "tests/eal/blocks.h"

#define SOURCES    5
#define ELEMENTS   302
#define WINDOW     32 /* no block waits for an earlier one */
#define REUSED     4 /* blocks of a collective, of which the last ones have buffers of the first ones */
#define TIMEOUT_MS 300
#define NONE       WEIR_COLLECTIVE_JOIN

static const uint8_t ids[SOURCES] = {1, 4, 9, 77, 200};
static uint8_t expected[BLOCK_BYTES_MAX];

static bool full_rows; /* before start */

static void
with_full_rows(struct rig_config *config)
{
	config->job[0].alltoall = full_rows ? PPE_ALLTOALL_FULL : PPE_ALLTOALL_SHORT;
}

/* skip: bit: a rank whose own slices are left out. */
static void
start_with(enum ppe_policy policy, uint16_t window, uint64_t skip)
{
	start(.sources = SOURCES, .ids = ids, .ports = 8, .window = window, .elements = ELEMENTS,
		.timeout_ms = TIMEOUT_MS, .policy = policy, .late = true, .change = with_full_rows);
	for (unsigned int rank = 0; rank < SOURCES; rank++)
		if ((skip >> rank & 1) != 0)
			rig.skips_own[ids[rank] / 64] |= UINT64_C(1) << ids[rank] % 64;
	generation = rig_join(&rig, 0, false);
}

/* What the rank receives next has this status, and these bytes before others. */
static void
take(const struct block_plan *p, unsigned int rank, enum weir_status status, unsigned int bytes,
	unsigned int others)
{
	cr_assert(receive(p->ids[rank]), "%s: rank %u gets nothing",
		weir_collective_text(p->collective), rank);
	cr_assert_eq(got.block_id, p->block);
	cr_assert(got.status == status && payload_bytes == bytes + others &&
			memcmp(payload, expected, bytes) == 0,
		"%s of %u elements, without %#" PRIx64
		", root %u: rank %u gets %s, %u bytes, not %u, or others",
		weir_collective_text(p->collective), p->elements, p->absent, p->root, rank,
		weir_status_text(got.status), payload_bytes, bytes + others);
}

static void
expect_whole(const struct block_plan *p)
{
	for (unsigned int rank = 0; rank < p->n; rank++) {
		take(p, rank, WEIR_STATUS_OK, block_result(p, rank, expected), 0);
		cr_assert(got.collective == p->collective && got.src_cnt == p->n &&
				got.src_id == p->ids[rank] && got.final == p->final &&
				got.grad_cnt == p->elements && got.root == p->root && !got.degraded,
			"%s of %u elements, root %u, final %u: rank %u gets %s, %u sources, source "
			"%u, final %u, %u elements, root %u, degraded %u",
			weir_collective_text(p->collective), p->elements, p->root, p->final, rank,
			weir_collective_text(got.collective), got.src_cnt, got.src_id, got.final,
			got.grad_cnt, got.root, got.degraded);
	}
}

/* Each rank gets its part, and who asks again gets it again. */
static void
expect_parts(bool full, uint64_t skip)
{
	static const unsigned int elements[] = {0, 1, SOURCES - 1, SOURCES, SOURCES + 1, 57, 60};
	struct block_plan p = {.job = 1, .n = SOURCES, .ids = ids, .dtype = WEIR_DTYPE_INT32};

	full_rows = full;
	start_with(PPE_POLICY_WAIT, WINDOW, skip);
	p.generation = generation;
	p.skips_own = skip;
	for (unsigned int c = 0; c < WEIR_COLLECTIVES; c++)
		for (unsigned int i = 0; i < RTE_DIM(elements); i++, p.block++) {
			p.collective = (enum weir_collective)c;
			p.elements = c == WEIR_COLLECTIVE_BARRIER ? 0 : elements[i];
			p.root = collective_table[c].rooted ? i % SOURCES : 0;
			p.final = i % 2;
			p.seed = rig.seed = p.block; /* over segments */
			for (unsigned int rank = SOURCES; rank-- > 0;)
				block_offer(&rig, &p, rank);
			expect_whole(&p);
			block_offer(&rig, &p, i % SOURCES);
			take(&p, i % SOURCES, WEIR_STATUS_OK,
				block_result(&p, i % SOURCES, expected), 0);
		}
	stop();
}

CASE(ppe_collectives_edges, parts_of_any_ranks, expect_parts(false, 0))
CASE(ppe_collectives_edges, parts_without_own_slices, expect_parts(false, 0x15))
CASE(ppe_collectives_edges, parts_of_full_rows_without_own_slices, expect_parts(true, 0x1b))

/* With slices that don't divide evenly, a column may be longer than a row. */
Test(ppe_collectives_edges, rows_and_columns_must_fit_a_packet, .timeout = 90)
{
	static const struct {
		unsigned int elements;
		enum weir_dtype dtype;
		bool fits;
	} tries[] = {
		{ELEMENTS - 2, WEIR_DTYPE_INT32, true},
		{ELEMENTS, WEIR_DTYPE_INT32, false},
		{ELEMENTS / 2 - 1, WEIR_DTYPE_FP64, true},
		{ELEMENTS / 2, WEIR_DTYPE_FP64, false},
		{ELEMENTS / 2 + 1, WEIR_DTYPE_FP64, false},
	};
	struct block_plan p = {
		.job = 1, .n = SOURCES, .ids = ids, .collective = WEIR_COLLECTIVE_ALLTOALL};
	uint64_t dropped = 0;

	full_rows = true;
	start_with(PPE_POLICY_WAIT, WINDOW, 0);
	p.generation = generation;
	for (unsigned int i = 0; i < RTE_DIM(tries); i++) {
		p.elements = tries[i].elements;
		p.dtype = tries[i].dtype;
		for (unsigned int rank = 0; rank < SOURCES; rank++)
			block_offer(&rig, &p, rank);
		if (tries[i].fits) {
			expect_whole(&p);
			p.block++;
		} else {
			dropped += SOURCES;
		}
		expect_drop(PPE_DROP_LENGTH, dropped);
	}
	stop();
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
	unsigned int right = lost ? 0 : block_result(p, rank, expected);

	take(p, rank, lost ? WEIR_STATUS_ERROR : WEIR_STATUS_PARTIAL, right, WEIR_BITMAP_BYTES);
	cr_assert(got.degraded && got.grad_cnt == (lost ? 0 : p->elements));
	expect_bitmap(p, payload + right);
}

/* Buffers are used again: what was in them before must not come out in place of what is missing. */
static void
expect_zeros(bool full, uint64_t skip)
{
	uint64_t random = rig_seed();
	uint32_t block = 0;

	full_rows = full;
	start_with(PPE_POLICY_PARTIAL, 1, skip);
	for (unsigned int c = 0; c < WEIR_COLLECTIVES; c++)
		for (unsigned int times = 0; times < REUSED; times++) {
			struct block_plan p = {.job = 1,
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

			if (collective_table[c].rooted)
				p.root = (unsigned int)(rig_random(&random) % SOURCES);
			if (c == WEIR_COLLECTIVE_ALLTOALL && full)
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

CASE(ppe_collectives_edges, partial_results_have_zeros_for_who_is_missing, expect_zeros(false, 0))
CASE(ppe_collectives_edges, partial_results_of_full_rows_have_zeros, expect_zeros(true, 0))
CASE(ppe_collectives_edges, partial_results_without_own_slices_have_zeros, expect_zeros(true, 0x1d))

/* Rank 0 sends p, and rank 3 what differs in one field; everybody is told which, and who. */
static void
disagree(const struct block_plan *p, const struct block_plan *other, enum weir_field field,
	uint16_t has, uint16_t offers)
{
	block_offer(&rig, p, 0);
	rig_rest(&rig); /* it is in before the other comes by another port */
	block_offer(&rig, other, 3);
	for (unsigned int rank = 0; rank < SOURCES; rank++) {
		take(p, rank, WEIR_STATUS_MISMATCH, 0, sizeof(struct weir_mismatch));
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
	/* Rank 1 is the root: what 0 and 3 send is a header. */
	struct block_plan p = {.job = 1,
		.n = SOURCES,
		.ids = ids,
		.collective = WEIR_COLLECTIVE_BROADCAST,
		.dtype = WEIR_DTYPE_INT32,
		.elements = 20,
		.root = 1};

	start_with(PPE_POLICY_WAIT, WINDOW, 0);
	p.generation = generation;
#define DISAGREE(field, member, other_value)                                                       \
	do {                                                                                       \
		struct block_plan other = p;                                                       \
		other.member = other_value;                                                        \
		disagree(&p, &other, field, (uint16_t)p.member, (uint16_t)other.member);           \
		p.block++;                                                                         \
	} while (0)
	DISAGREE(WEIR_FIELD_ROOT, root, 2);
	DISAGREE(WEIR_FIELD_LENGTH, elements, 21);
	DISAGREE(WEIR_FIELD_FINAL, final, true);
	DISAGREE(WEIR_FIELD_DTYPE, dtype, WEIR_DTYPE_FP64);
	DISAGREE(WEIR_FIELD_COLLECTIVE, collective, WEIR_COLLECTIVE_SCATTER);
	p.collective = WEIR_COLLECTIVE_REDUCE;
	DISAGREE(WEIR_FIELD_OP, op, WEIR_OP_MAX);
	stop();
}

/* After another change: what differs by receiver is nobody's, for it was told by other ranks. */
static void
ask_again(const struct block_plan *p, const struct block_plan *result)
{
	bool to_all = block_to_all(p, 0);

	for (unsigned int rank = 0; rank < 2; rank++) {
		block_offer(&rig, p, rank);
		take(p, rank, to_all ? WEIR_STATUS_OK : WEIR_STATUS_EXPIRED,
			to_all ? block_result(result, 0, expected) : 0, 0);
	}
}

static const uint8_t others[SOURCES] = {0, 1, 4, 77, 200};

/* Source 9 leaves, and 0 comes, so that sources 1 and 4 have other ranks. */
static void
change(void)
{
	static struct ppe_job changed;

	changed = rig_job_of(1, others, SOURCES, WINDOW, ELEMENTS);
	changed.fixed_generation = 7;
	changed.instance = rig.job[0].instance;
	publish(&changed);
}

/* A job without joins whose sources change has other ranks at once: what was put in places by the former
 * ones is not delivered as a result, nor counted for sources that sent nothing. */
static void
change_sources(enum weir_collective before, enum weir_collective collective)
{
	struct block_plan former = {.job = 1,
		.generation = 7,
		.n = SOURCES,
		.ids = ids,
		.collective = collective,
		.dtype = WEIR_DTYPE_INT32,
		.elements = 50,
		.seed = 1};
	struct block_plan next = former, kept = former;

	start(.sources = SOURCES, .ids = ids, .ports = 8, .window = WINDOW, .elements = ELEMENTS,
		.generation = 7);
	next.ids = others;
	next.seed = 2;
	if (before != NONE) {
		/* A completed block of the residue, which is kept. */
		kept.collective = before;
		for (unsigned int rank = 0; rank < SOURCES; rank++)
			block_offer(&rig, &kept, rank);
		expect_whole(&kept);
		former.block = next.block = WINDOW;
	}
	block_offer(&rig, &former, 0);
	/* A sum has the one that leaves in it. Where ranks have places, it is enough that they change. */
	block_offer(&rig, &former, collective == WEIR_COLLECTIVE_ALLREDUCE ? 2 : 1);
	rig_rest(&rig);
	change();
	if (before != NONE && block_to_all(&kept, 0))
		ask_again(&kept, &kept);
	for (unsigned int rank = 0; rank < SOURCES; rank++)
		if (rank != 1)
			block_offer(&rig, &next, rank);
	expect_silence(); /* no result of source 9 */
	block_offer(&rig, &next, 1);
	expect_whole(&next);
	publish(&rig.job[0]);
	ask_again(&former, &next);
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

/* A sum of sources that stay goes on. The parts before it are nobody's any more. */
Test(ppe_collectives_edges, parts_behind_a_sum_that_goes_on, .timeout = 90)
{
	struct block_plan p = {.job = 1,
		.generation = 7,
		.n = SOURCES,
		.ids = ids,
		.collective = WEIR_COLLECTIVE_SCATTER,
		.dtype = WEIR_DTYPE_INT32,
		.elements = 50};

	start(.sources = SOURCES, .ids = ids, .ports = 8, .window = WINDOW, .elements = ELEMENTS,
		.generation = 7);
	for (unsigned int rank = 0; rank < SOURCES; rank++)
		block_offer(&rig, &p, rank);
	expect_whole(&p);
	contribute(ids[0], WINDOW);
	rig_rest(&rig);
	change();
	block_offer(&rig, &p, 1);
	take(&p, 1, WEIR_STATUS_EXPIRED, 0, 0);
	for (unsigned int rank = 0; rank < SOURCES; rank++)
		if (others[rank] != ids[0])
			contribute(others[rank], WINDOW);
	expect_all(WINDOW, WEIR_STATUS_OK, 0);
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective of an authenticated job: each source gets its part under a tag that is its own, whole or
 * partial. Small parts are copied, large ones referred to, with the tag behind them.
 */
#include "tests/eal/auth_rig.h"

#include "tests/eal/blocks.h"

#define ELEMENTS 1000

static const uint8_t ids[SOURCES] = {0, 1, 2};
static uint8_t data[BLOCK_BYTES_MAX];

static struct block_plan
plan_of(enum weir_collective collective, enum weir_dtype dtype, unsigned int elements,
	uint32_t block)
{
	return (struct block_plan){.job = 1,
		.generation = now.generation,
		.n = SOURCES,
		.ids = ids,
		.collective = collective,
		.dtype = dtype,
		.elements = collective == WEIR_COLLECTIVE_BARRIER ? 0 : elements,
		.root = collective_table[collective].rooted ? block % SOURCES : 0,
		.block = block,
		.skips_own = skipping,
		.seed = random_state ^ block};
}

static void
offer_tagged(const struct block_plan *p, unsigned int rank)
{
	struct weir_header h = block_header(p, rank);
	unsigned int bytes = block_contribution(p, rank, data);
	uint8_t bare[16];

	h.flags = WEIR_FLAG_AUTHENTICATED;
	weir_header_write(&h, bare);
	tags_gmac(now.source[rank], 0, p->block, bare, data, bytes, data + bytes);
	rig_send(&rig, rank, frame, rig_frame(frame, rank, &h, data, bytes + TAG));
}

static void
expect_tagged(const struct block_plan *p, unsigned int rank, enum weir_status status)
{
	unsigned int right = block_result(p, rank, data);
	const char *what = weir_collective_text(p->collective);
	uint8_t tag[16], bare[16];
	struct weir_header h = take(rank);

	cr_assert(h.status == status && h.block_id == p->block && h.grad_cnt == p->elements,
		"%s: %s of block %u", what, weir_status_text(h.status), h.block_id);
	cr_assert(payload_bytes == right + (status == WEIR_STATUS_PARTIAL ? 32 : 0) &&
			memcmp(payload, data, right) == 0,
		"%s of %u elements: rank %u gets %u bytes, not %u, or others", what, p->elements,
		rank, payload_bytes, right);
	for (unsigned int s = 0; h.degraded && s < SOURCES; s++)
		cr_assert_eq(payload[right + s / 8] >> s % 8 & 1, ~p->absent >> s & 1,
			"%s: rank %u in the bitmap", what, s);
	memcpy(bare, answer + HEADER, 16);
	bare[6] = 0;
	tags_gmac_slice(now.results, block_to_all(p, rank) ? 0 : rank + 1, h.status, h.block_id,
		bare, payload, payload_bytes, tag);
	cr_assert_eq(memcmp(tag, payload + payload_bytes, 16), 0,
		"%s of %u elements: rank %u's tag", what, p->elements, rank);
}

static void
all_of_them(unsigned int workers, bool segmented)
{
	static const struct {
		enum weir_dtype dtype;
		unsigned int elements;
	} cases[] = {{WEIR_DTYPE_INT32, 0}, {WEIR_DTYPE_INT32, 1}, {WEIR_DTYPE_INT32, 100},
		{WEIR_DTYPE_INT32, 333}, {WEIR_DTYPE_UINT8, 331}, {WEIR_DTYPE_FP64, 166}};
	uint32_t block = 0;

	start_with(workers, ELEMENTS, PPE_POLICY_WAIT, 60000);
	enter();
	rig.seed = segmented ? random_state : 0;
	for (unsigned int c = 0; c < WEIR_COLLECTIVES; c++)
		for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
			bool sum = collective_table[c].contribution == CONTRIBUTION_REDUCE;
			struct block_plan p = plan_of((enum weir_collective)c,
				sum ? WEIR_DTYPE_INT32 : cases[i].dtype,
				sum ? 3 * cases[i].elements : cases[i].elements, block++);

			p.elements = RTE_MIN(p.elements, (unsigned int)ELEMENTS);
			for (unsigned int rank = SOURCES; rank-- > 0;)
				offer_tagged(&p, rank);
			for (unsigned int rank = 0; rank < SOURCES; rank++)
				expect_tagged(&p, rank, WEIR_STATUS_OK);
			/* Who asks again gets the same bytes: a tag of other ones under this nonce would
			 * give the key away. */
			offer_tagged(&p, c % SOURCES);
			expect_tagged(&p, c % SOURCES, WEIR_STATUS_OK);
		}
	expect_drop(PPE_DROP_FORGED, 0);
	stop();
}

CASE(ppe_collectives_auth, one_worker, all_of_them(1, false))
CASE(ppe_collectives_auth, two_workers_segments, all_of_them(2, true))

static void
skip_own(unsigned int workers, bool segmented)
{
	skipping = 3; /* those of rank 1 are in two pieces, and of rank 2 whole */
	all_of_them(workers, segmented);
	skipping = 0;
}

CASE(ppe_collectives_auth, without_own_slices, skip_own(1, false))
CASE(ppe_collectives_auth, without_own_slices_segments, skip_own(2, true))

static void
partial_parts(uint64_t skip)
{
	static const enum weir_collective collectives[] = {WEIR_COLLECTIVE_REDUCESCATTER,
		WEIR_COLLECTIVE_GATHER, WEIR_COLLECTIVE_ALLTOALL, WEIR_COLLECTIVE_REDUCE,
		WEIR_COLLECTIVE_ALLGATHER};

	skipping = skip;
	start_with(2, ELEMENTS, PPE_POLICY_PARTIAL, 300);
	enter();
	for (uint32_t block = 0; block < RTE_DIM(collectives); block++) {
		struct block_plan p =
			plan_of(collectives[block], WEIR_DTYPE_INT32, ELEMENTS / 3, block);

		p.absent = 1u << (block + 1) % SOURCES;
		for (unsigned int rank = 0; rank < SOURCES; rank++)
			if ((p.absent >> rank & 1) == 0)
				offer_tagged(&p, rank);
		for (unsigned int rank = 0; rank < SOURCES; rank++)
			expect_tagged(&p, rank, WEIR_STATUS_PARTIAL);
	}
	stop();
}

CASE(ppe_collectives_auth, parts_of_partial_results, partial_parts(0))
CASE(ppe_collectives_auth, parts_of_partial_results_without_own_slices, partial_parts(6))

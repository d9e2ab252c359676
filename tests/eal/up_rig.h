/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A leaf whose generations begin with joins, turned by hand, between two hosts and two parents that the test plays. The
 * clock stands still unless the test says otherwise. For one test file each; main thread.
 */
#ifndef TESTS_EAL_UP_RIG_H
#define TESTS_EAL_UP_RIG_H

#include "tests/eal/tree_rig.h"

#define RANKS     8 /* of the tree */
#define FIRST     4 /* of the leaf: hosts FIRST and FIRST + 1 at ports 0 and 1 */
#define HOSTS     2
#define PARENTS   2 /* at ports 2 and 3 */
#define PORTS     (HOSTS + PARENTS)
#define BOTH_SETS 3
#define WINDOW    2
#define JOB       1
#define ELEMENTS  8
#define TIMEOUT   100 /* ms */
#define SECOND    1000000 /* us */

static uint8_t sent[RIG_FRAME_MAX];

/* What a parent says of its job, and what it has heard. */
static struct weir_join_reply settings;
static struct above {
	uint32_t nonce;
	uint8_t set;
	uint8_t proof[WEIR_CHALLENGE_BYTES]; /* the long nonce, if the join was proved */
} above[PARENTS];

static inline struct ppe_job
leaf_job(void)
{
	static const uint8_t ids[HOSTS] = {FIRST, FIRST + 1};
	struct ppe_job job = rig_job_of(JOB, ids, HOSTS, WINDOW, ELEMENTS);

	job.first_rank = FIRST;
	job.tree_ranks = RANKS;
	job.timeout_ms = TIMEOUT;
	job.revoke = true;
	job.nb_parents = PARENTS;
	for (unsigned int p = 0; p < PARENTS; p++)
		job.parent[p] = (struct ppe_parent){.name = {'s', (char)('0' + p)},
			.address = 0x0a4e00fe + (p << 8),
			.mac = {0x02, 0x50, 0, 0, 0, (uint8_t)p},
			.port = (uint16_t)(HOSTS + p),
			.udp = WEIR_PORT_EXT,
			.job = (uint8_t)(9 + p)};
	return job;
}

/* Those of a parent that agrees. */
static inline void
agree(const struct ppe_job *job)
{
	settings = (struct weir_join_reply){.dtype_op = (uint8_t)(job->dtype << 4 | job->op),
		.flags = (uint8_t)((job->authenticated ? WEIR_JOIN_AUTHENTICATED : 0) |
			(job->narrow ? WEIR_JOIN_NARROW : 0))};
	weir_put16(settings.window, job->window);
	weir_put16(settings.elements, job->elements);
	weir_put16(settings.sources, job->tree_ranks);
	weir_put32(settings.timeout_ms, 2 * job->timeout_ms);
	settings.up.agreed = (uint8_t)(job->policy | WEIR_JOIN_UP_REVOKE |
		(job->deterministic ? WEIR_JOIN_UP_DETERMINISTIC : 0));
}

static inline void
start_job(unsigned int workers, const struct ppe_job *job)
{
	struct rig_config config = {
		.workers = workers, .threads = 8, .ports = PORTS, .jobs = 1, .job[0] = *job};

	agree(job);
	rig_start(&rig, &config);
}

static inline void
start(unsigned int workers)
{
	const struct ppe_job job = leaf_job();

	start_job(workers, &job);
}

#define BOTH(suite, name) ONE_WORKER_AND_TWO(suite, name)

static inline struct ppe_parent_stats
parent_stats(unsigned int p)
{
	struct ppe_parent_stats parent;

	cr_assert_eq(ppe_parent_stats_read(rig.ppe, JOB, p, &parent), 0);
	return parent;
}

static inline void
pass_us(uint64_t us)
{
	rig_turn_after_us(&rig, us);
}

/* ---- hosts ---- */

static inline void
join(unsigned int rank, uint32_t nonce)
{
	const struct weir_header h = {.job_id = JOB,
		.src_id = (uint8_t)rank,
		.block_id = nonce,
		.collective = WEIR_COLLECTIVE_JOIN,
		.extended = true};

	rig_offer(&rig, rank - FIRST, &h, NULL, 0);
	rig_rest(&rig);
}

static inline void
contribute(unsigned int rank, uint16_t generation, uint32_t block)
{
	const struct weir_header h = rig_contribution(JOB, generation, rank, block, ELEMENTS);
	const uint32_t ones[ELEMENTS] = {1, 1, 1, 1, 1, 1, 1, 1};

	rig_offer(&rig, rank - FIRST, &h, ones, sizeof(ones));
	rig_rest(&rig);
}

/* The next packet to a host. */
static inline void
expect_below(unsigned int rank, enum weir_status status)
{
	cr_assert(receive(rank - FIRST), "rank %u gets nothing", rank);
	cr_assert_eq(got.src_id, rank);
	cr_assert_eq(got.status, status, "rank %u: %s, not %s", rank, weir_status_text(got.status),
		weir_status_text(status));
}

/* These ranks have joined, the host is told. */
static inline void
expect_waiting(unsigned int rank, unsigned int ranks)
{
	expect_below(rank, WEIR_STATUS_WAITING);
	cr_assert_eq(got.src_cnt, RANKS);
	cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
	cr_assert_eq(payload[0], ranks, "ranks %x", payload[0]);
}

/* ---- parents ---- */

static inline void
expect_join_above(unsigned int p, uint8_t set)
{
	const struct ppe_parent *parent = &rig.job[0].parent[p];
	const struct weir_join_proof *proof = (const void *)(frame + L4 + WEIR_EXT_BYTES);

	cr_assert(receive(HOSTS + p), "parent %u: no join", p);
	cr_assert_arr_eq(frame, parent->mac, 6);
	cr_assert_eq(weir_get32(frame + 26), RIG_SWITCH_IP);
	cr_assert_eq(weir_get32(frame + 30), parent->address);
	cr_assert_eq(weir_get16(frame + L3), WEIR_PORT_UP);
	cr_assert_eq(weir_get16(frame + L3 + 2), WEIR_PORT_EXT);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_JOIN);
	cr_assert_eq(got.job_id, parent->job);
	cr_assert_eq(got.gen_id, WEIR_GEN_JOIN);
	cr_assert_eq(got.src_id, FIRST);
	cr_assert_eq(got.src_cnt, HOSTS);
	cr_assert_eq(got.grad_cnt, 0);
	cr_assert_eq(got.flags, WEIR_FLAG_UP | (parent->keyed ? WEIR_FLAG_AUTHENTICATED : 0));
	cr_assert_eq(got.root, set, "parent %u: set %x, not %x", p, got.root, set);
	above[p].nonce = got.block_id;
	above[p].set = got.root;
	if (parent->keyed) {
		cr_assert_eq(payload_bytes, sizeof(*proof) + WEIR_TAG_BYTES);
		memcpy(above[p].proof, proof->nonce, sizeof(proof->nonce));
		cr_assert_eq(weir_get32(proof->nonce), got.block_id);
	} else {
		cr_assert_eq(payload_bytes, 0);
	}
}

static inline void
expect_joins_above(uint8_t set)
{
	for (unsigned int p = 0; p < PARENTS; p++)
		if ((set >> p & 1) != 0)
			expect_join_above(p, set);
}

/* A packet from a parent to the leaf. */
static inline void
say(unsigned int p, const struct weir_header *h, const void *bytes, unsigned int n)
{
	const struct ppe_parent *parent = &rig.job[0].parent[p];
	unsigned int size = rig_frame(sent, 0, h, bytes, n);

	memcpy(sent + 6, parent->mac, 6);
	weir_put32(sent + 26, parent->address);
	weir_put16(sent + L3, WEIR_PORT_EXT);
	weir_put16(sent + L3 + 2, WEIR_PORT_UP);
	rig_fix_checksums(sent);
	rig_send(&rig, HOSTS + p, sent, size);
	rig_rest(&rig);
}

/* The answer to the last join that came to the parent. */
static inline struct weir_header
answer_to_join(unsigned int p, enum weir_status status)
{
	return (struct weir_header){.job_id = rig.job[0].parent[p].job,
		.block_id = above[p].nonce,
		.src_id = FIRST,
		.src_cnt = status == WEIR_STATUS_UNSUPPORTED ? HOSTS : RANKS,
		.status = (uint8_t)status,
		.degraded = status == WEIR_STATUS_WAITING,
		.collective = WEIR_COLLECTIVE_JOIN,
		.extended = true};
}

static inline void
accept_join(unsigned int p, uint16_t generation)
{
	struct weir_header h = answer_to_join(p, WEIR_STATUS_OK);

	h.gen_id = generation;
	h.root = FIRST;
	say(p, &h, &settings, sizeof(settings));
}

static inline void
keep_waiting(unsigned int p, uint8_t common, uint8_t ranks)
{
	struct weir_header h = answer_to_join(p, WEIR_STATUS_WAITING);
	const uint8_t bitmap[WEIR_BITMAP_BYTES] = {ranks};

	h.root = common;
	say(p, &h, bitmap, sizeof(bitmap));
}

static inline void
say_status(unsigned int p, enum weir_status status)
{
	const struct weir_header h = answer_to_join(p, status);

	say(p, &h, NULL, 0);
}

/* The next packet to the parent is this switch's contribution. */
static inline void
expect_block_above(unsigned int p, uint16_t generation, uint32_t block)
{
	cr_assert(receive(HOSTS + p), "parent %u: no contribution", p);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_ALLREDUCE);
	cr_assert_eq(got.gen_id, generation, "generation %u", got.gen_id);
	cr_assert_eq(got.block_id, block);
}

/* ---- both ---- */

/* All hosts join with these nonces: nonce, nonce + 1. */
static inline void
hosts_join(uint32_t nonce)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		join(FIRST + i, nonce + i);
		expect_below(FIRST + i, WEIR_STATUS_WAITING);
	}
}

/* Every host is in the generation, which is returned. */
static inline uint16_t
expect_begun(void)
{
	uint16_t generation = 0;

	for (unsigned int rank = FIRST; rank < FIRST + HOSTS; rank++) {
		expect_below(rank, WEIR_STATUS_OK);
		cr_assert_eq(got.root, rank);
		cr_assert_eq(got.src_cnt, RANKS);
		cr_assert_eq(payload_bytes, sizeof(settings));
		cr_assert_eq(weir_get16(payload + 4), RANKS);
		generation = got.gen_id;
	}
	return generation;
}

/* A generation with these parents, whose own are 100 + p. */
static inline uint16_t
begin(uint32_t nonce, uint8_t set)
{
	hosts_join(nonce);
	expect_joins_above(set);
	for (unsigned int p = 0; p < PARENTS; p++)
		if ((set >> p & 1) != 0)
			accept_join(p, (uint16_t)(100 + p));
	return expect_begun();
}

/* A host's packet finds the generation over. */
static inline void
expect_over(unsigned int rank, uint16_t generation)
{
	contribute(rank, generation, 0);
	expect_below(rank, WEIR_STATUS_STALE);
	cr_assert_eq(got.gen_id, WEIR_GEN_JOIN);
}

#endif

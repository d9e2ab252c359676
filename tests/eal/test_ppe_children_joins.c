/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Switches join at a parent: what it accepts, tells them and waits for. And a switch between the two: it is both.
 * docs/tree.md, "Generations".
 */
#include "tests/eal/bench_tree.h"

#define RANKS      3 /* of each of two children */
#define WINDOW     2
#define HOST_JOB   2
#define SETS       3

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_children_joins, name)

static void
change(struct rig_config *config)
{
	config->job[0].dead_after_ms = 0x012345;
	config->jobs = 2;
	config->job[1] = rig_job(HOST_JOB, 1, WINDOW, 8);
}

/* Children 0 and 3, or, below a parent, 6 and 9. */
#define start_switch(...)                                                                          \
	start(.workers = workers, .children = {RANKS, RANKS}, .window = WINDOW,                    \
		.policy = PPE_POLICY_PARTIAL, .timeout_ms = 500, .change = change, __VA_ARGS__)

/* A child joins: these ranks have joined, and this is the set of parents that all have. */
static void
join_waiting(unsigned int child, uint32_t nonce, uint8_t set, uint64_t ranks, uint8_t common)
{
	join_with(child, nonce, set);
	expect_waiting(child, ranks);
	cr_assert_eq(got.root, common, "set %x, not %x", got.root, common);
}

/* All children have joined: this is in the reply to each, too. */
static uint16_t
expect_begun_here(void)
{
	uint16_t begun = expect_begun();
	struct weir_join_reply reply;

	memcpy(&reply, payload, sizeof(reply));
	cr_assert_eq(weir_get32(reply.group) & 0xffffff, 0x012345);
	return begun;
}

/* ---- a parent ---- */

/* Ranks are those of the job, and only switches have them: otherwise the answer says how many there are. */
BOTH(others_are_refused)
{
	static const struct {
		uint8_t flags, ranks;
	} other[] = {
		{WEIR_FLAG_UP, RANKS - 1},
		{WEIR_FLAG_UP, RANKS + 1},
		{WEIR_FLAG_UP, 0},
		{0, 0}, /* a host */
		{WEIR_FLAG_UP | WEIR_FLAG_BASE_RESULTS, RANKS},
	};
	struct weir_header h;

	start_switch();
	for (unsigned int i = 0; i < RTE_DIM(other); i++) {
		h = note(RANKS, 0, WEIR_COLLECTIVE_JOIN);
		h.flags = other[i].flags;
		h.src_cnt = other[i].ranks;
		offer(&h);
		expect_status(RANKS, WEIR_STATUS_UNSUPPORTED);
		cr_assert_eq(got.src_cnt, RANKS);
	}
	h = note(0, 0, WEIR_COLLECTIVE_JOIN);
	h.job_id = HOST_JOB;
	h.src_cnt = 1;
	offer(&h);
	cr_assert(receive(0));
	cr_assert_eq(got.status, WEIR_STATUS_UNSUPPORTED);
	cr_assert_eq(got.src_cnt, 1);
	join_waiting(0, 50, SETS, 0x07, SETS);
	stop_unread();
}

BOTH(ranks_and_sets)
{
	start_switch();
	join_waiting(3, 51, SETS, 0x38, SETS);
	join_waiting(0, 50, 1, 0x3f, 1); /* all have joined, but with different sets */
	join_waiting(3, 51, SETS, 0x3f, 1);
	join_waiting(3, 61, 2, 0x3f, 0);
	expect_silence();
	join_with(3, 71, 1);
	expect_begun_here();
	stop();
}

/* A switch that joins anew ends the generation. */
BOTH(a_switch_joins_anew)
{
	uint16_t old;

	start_switch();
	join_waiting(0, 50, 1, 0x07, 1);
	join_with(3, 51, 1);
	old = expect_begun_here();
	join_with(3, 51, 1); /* a repetition ends nothing */
	expect_status(3, WEIR_STATUS_OK);
	cr_assert_eq(job_stats(1).revokes, 0);
	join_waiting(3, 61, 1, 0x38, 1);
	cr_assert_eq(job_stats(1).revokes, 1);
	join_with(0, 60, 1);
	cr_assert_neq(expect_begun_here(), old);
	stop_unread();
}

/* A switch that hears nothing takes its parent for dead: a contribution that is held back is answered. */
BOTH(what_is_held_back_is_answered)
{
	start_switch();
	join_waiting(0, 50, 1, 0x07, 1);
	join_with(3, 51, 1);
	expect_begun_here();
	run_block(0);
	/* The other one is silent from now on. */
	contribute(0, WINDOW);
	rig_rest(&rig);
	pass_ms(600);
	expect_all(WINDOW, WEIR_STATUS_PARTIAL, 0x07);
	contribute(0, 2 * WINDOW);
	expect(0, 2 * WINDOW, WEIR_STATUS_WAITING, 0x07);
	stop_unread();
}

/* ---- a switch between ---- */

BOTH(a_switch_between_begins_last)
{
	uint32_t first, next;
	uint16_t old;

	start_switch(.parents = 1, .first_rank = 6, .tree_ranks = 12);
	join_waiting(6, 50, SETS, 0x1c0, SETS);
	join_waiting(9, 51, 1, 0xfc0, 1); /* with different sets it does not join */
	expect_silence();
	join_waiting(6, 60, 1, 0xfc0, 1);
	expect_join_up(0, 1);
	first = parent[0].nonce;
	keep_waiting(0, 1, 0x1ff);
	skip_us(1001);
	join_waiting(6, 60, 1, 0xfff, 1);
	expect_join_up(0, 1);
	cr_assert_eq(parent[0].nonce, first);
	/* Its own parent must wait for longer than it does. */
	weir_put32(settings.timeout_ms, 625);
	accept_join(0, 100);
	skip_us(1001);
	join_with(9, 51, 1);
	expect_status(9, WEIR_STATUS_UNSUPPORTED);
	cr_assert_eq(got.src_cnt, RANKS, "the child's ranks are right");
	expect_join_up(0, 1);
	cr_assert_eq(parent[0].nonce, first);
	weir_put32(settings.timeout_ms, 626);
	accept_join(0, 100);
	old = expect_begun_here();
	expect_silence();
	/* A child joins anew: this ends here, and then above. */
	join_waiting(9, 61, 1, 0xe00, 1);
	cr_assert_eq(job_stats(1).revokes, 1);
	expect_silence();
	join_waiting(6, 70, 1, 0xfc0, 1);
	expect_join_up(0, 1);
	next = parent[0].nonce;
	cr_assert_neq(next, first);
	parent[0].nonce = first;
	accept_join(0, 100); /* late */
	expect_silence();
	parent[0].nonce = next;
	accept_join(0, 101);
	cr_assert_neq(expect_begun_here(), old);
	stop_unread();
}

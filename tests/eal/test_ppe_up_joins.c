/* SPDX-License-Identifier: BSD-3-Clause */
/* A leaf joins at its parents: how generations begin and end on two hops. docs/tree.md, "Generations". */
#include "tests/eal/up_rig.h"

#define SUITE ppe_up_joins

/* ---- how one begins ---- */

BOTH(SUITE, begins_when_all_parents_have_accepted)
{
	uint16_t generation;

	start(workers);
	join(FIRST, 50);
	expect_waiting(FIRST, 0x10);
	expect_silence();
	join(FIRST + 1, 51);
	expect_waiting(FIRST + 1, 0x30);
	expect_joins_above(BOTH_SETS);
	cr_assert_neq(above[0].nonce, above[1].nonce);
	expect_silence();
	cr_assert(parent_stats(0).joining && parent_stats(1).joining);
	accept_join(0, 100);
	expect_silence();
	cr_assert_eq(parent_stats(0).generation, 0);
	accept_join(1, 101);
	generation = expect_begun();
	expect_silence();
	for (unsigned int p = 0; p < PARENTS; p++) {
		struct ppe_parent_stats parent = parent_stats(p);

		cr_assert_eq(parent.generation, 100 + p);
		cr_assert(parent.serves && parent.heard && !parent.joining);
		cr_assert_eq(parent.refused, 0);
	}
	for (uint32_t block = 0; block < WINDOW; block++) {
		contribute(FIRST, generation, block);
		contribute(FIRST + 1, generation, block);
		expect_block_above(block % PARENTS, (uint16_t)(100 + block % PARENTS), block);
	}
	expect_silence();
	/* A host that has missed the answer gets it again, and nothing goes up. */
	pass_us(1001);
	join(FIRST, 50);
	expect_below(FIRST, WEIR_STATUS_OK);
	cr_assert_eq(got.gen_id, generation);
	expect_silence();
	stop_unread();
}

/* A host's repetition repeats the joins above, at most once per millisecond, with the same nonces. */
BOTH(SUITE, hosts_repeat)
{
	struct above first[PARENTS];

	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	memcpy(first, above, sizeof(first));
	join(FIRST, 50);
	expect_waiting(FIRST, 0x30);
	expect_silence();
	rig_pass_us(SECOND);
	expect_silence(); /* no timer repeats */
	join(FIRST, 50);
	expect_waiting(FIRST, 0x30);
	expect_joins_above(BOTH_SETS);
	cr_assert_eq(memcmp(first, above, sizeof(first)), 0);
	expect_silence();
	accept_join(1, 101);
	accept_join(0, 100);
	expect_begun();
	stop_unread();
}

/* While a host is missing again, nothing goes up, and no generation begins. */
BOTH(SUITE, a_host_is_missing_again)
{
	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	for (unsigned int i = 0; i < 2; i++) {
		pass_us(2 * SECOND);
		join(FIRST, 50);
		rig_rest(&rig);
		if (i == 0)
			expect_joins_above(BOTH_SETS);
	}
	expect_waiting(FIRST, 0x30);
	expect_waiting(FIRST, 0x10);
	expect_silence();
	accept_join(0, 100);
	accept_join(1, 101);
	expect_silence();
	join(FIRST + 1, 51);
	expect_waiting(FIRST + 1, 0x30);
	expect_joins_above(BOTH_SETS);
	accept_join(0, 100);
	expect_begun(); /* the other one has accepted already */
	stop_unread();
}

/* Hosts hear which ranks have joined: their own switch's, and those that all parents know. */
BOTH(SUITE, whom_hosts_wait_for)
{
	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	keep_waiting(0, BOTH_SETS, 0x33);
	pass_us(1001);
	join(FIRST, 50);
	expect_waiting(FIRST, 0x30);
	expect_joins_above(BOTH_SETS);
	keep_waiting(1, BOTH_SETS, 0x31);
	pass_us(1001);
	join(FIRST, 50);
	expect_waiting(FIRST, 0x31);
	expect_joins_above(BOTH_SETS);
	cr_assert_eq(parent_stats(0).joined[0], 0x33);
	cr_assert_eq(parent_stats(1).joined[0], 0x31);
	expect_silence();
	stop_unread();
}

/* Of a join that a parent accepted and then waits for again, the newer answer counts. */
BOTH(SUITE, a_parent_changes_its_mind)
{
	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	accept_join(0, 100);
	keep_waiting(0, BOTH_SETS, 0x30);
	accept_join(1, 101);
	expect_silence();
	accept_join(0, 102);
	expect_begun();
	cr_assert_eq(parent_stats(0).generation, 102);
	stop_unread();
}

/* ---- what is no answer ---- */

BOTH(SUITE, other_answers_change_nothing)
{
	uint8_t longer[sizeof(settings) + 1] = {0};
	struct weir_header h;

	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	accept_join(0, 100);
	above[1].nonce++; /* of no join of this switch */
	accept_join(1, 101);
	above[1].nonce--;
	cr_assert_eq(drops(PPE_DROP_STALE), 1);
	h = answer_to_join(1, WEIR_STATUS_OK);
	h.gen_id = WEIR_GEN_JOIN;
	say(1, &h, &settings, sizeof(settings));
	h.gen_id = 101;
	say(1, &h, &settings, sizeof(settings) - 1);
	memcpy(longer, &settings, sizeof(settings));
	say(1, &h, longer, sizeof(longer));
	h = answer_to_join(1, WEIR_STATUS_WAITING);
	say(1, &h, &settings, sizeof(settings));
	cr_assert_eq(drops(PPE_DROP_LENGTH), 4);
	h = answer_to_join(1, WEIR_STATUS_PARTIAL);
	say(1, &h, NULL, 0);
	cr_assert_eq(drops(PPE_DROP_NOT_FROM_PARENT), 1);
	h = answer_to_join(1, WEIR_STATUS_OK);
	h.src_id = FIRST + 1;
	h.gen_id = 101;
	say(1, &h, &settings, sizeof(settings));
	cr_assert_eq(drops(PPE_DROP_NOT_FROM_PARENT), 2);
	h.src_id = FIRST;
	h.job_id = rig.job[0].parent[0].job; /* as if the other parent had it */
	say(1, &h, &settings, sizeof(settings));
	cr_assert_eq(drops(PPE_DROP_NOT_FROM_PARENT), 3);
	say(1, &h, NULL, 0);
	sent[L4 + 8] ^= 1; /* damaged */
	rig_send(&rig, HOSTS + 1, sent, L4 + WEIR_EXT_BYTES);
	expect_silence();
	accept_join(1, 101);
	expect_begun();
	/* A late copy. */
	accept_join(1, 107);
	expect_silence();
	cr_assert_eq(parent_stats(1).generation, 101);
	cr_assert_eq(drops(PPE_DROP_STALE), 2);
	stop_unread();
}

/* A reply whose checksum is wrong is not taken, whatever it says. */
BOTH(SUITE, a_damaged_answer)
{
	struct weir_header h;

	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	accept_join(0, 100);
	h = answer_to_join(1, WEIR_STATUS_OK);
	h.gen_id = 101;
	rig.job[0].parent[1].port = 0; /* where nothing takes it: only to write it */
	rig.job[0].parent[1].port = HOSTS + 1;
	say(0, &h, &settings, sizeof(settings)); /* of the wrong parent */
	expect_silence();
	memcpy(sent + 6, rig.job[0].parent[1].mac, 6);
	weir_put32(sent + 26, rig.job[0].parent[1].address);
	rig_fix_checksums(sent);
	sent[L4 + 9] ^= 7; /* the generation */
	rig_send(&rig, HOSTS + 1, sent, L4 + WEIR_EXT_BYTES + sizeof(settings));
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_UDP_CHECKSUM), 1);
	stop_unread();
}

/* ---- settings ---- */

static void
expect_refused(unsigned int p, enum ppe_parent_setting setting, uint32_t ours, uint32_t theirs)
{
	struct ppe_parent_stats parent = parent_stats(p);

	cr_assert_eq(parent.refused, setting, "%s, not %s", ppe_parent_setting_word(parent.refused),
		ppe_parent_setting_word(setting));
	cr_assert_eq(
		parent.ours, ours, "%s: ours %u", ppe_parent_setting_word(setting), parent.ours);
	cr_assert_eq(parent.theirs, theirs, "%s: theirs %u", ppe_parent_setting_word(setting),
		parent.theirs);
}

/* Parent 0 accepts, with what is in `settings`: hosts that repeat get `unsupported`. Then it agrees. */
static void
disagree(enum ppe_parent_setting setting, uint32_t ours, uint32_t theirs)
{
	accept_join(0, 100);
	expect_silence();
	expect_refused(0, setting, ours, theirs);
	pass_us(1001);
	join(FIRST + 1, 51);
	expect_below(FIRST + 1, WEIR_STATUS_UNSUPPORTED);
	expect_joins_above(BOTH_SETS);
	expect_silence();
	agree(&rig.job[0]);
}

BOTH(SUITE, settings_must_agree)
{
	struct ppe_job job = leaf_job();

	job.policy = PPE_POLICY_PARTIAL;
	job.dead_after_ms = 5000;
	start_job(workers, &job);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	accept_join(1, 101);
	weir_put16(settings.window, 4);
	disagree(PPE_PARENT_WINDOW, WINDOW, 4);
	weir_put16(settings.elements, 9);
	disagree(PPE_PARENT_ELEMENTS, ELEMENTS, 9);
	weir_put16(settings.sources, 6);
	disagree(PPE_PARENT_RANKS, RANKS, 6);
	settings.dtype_op ^= 0x10;
	disagree(PPE_PARENT_TYPE, job.dtype, job.dtype ^ 1u);
	settings.dtype_op ^= 1;
	disagree(PPE_PARENT_OP, job.op, job.op ^ 1u);
	settings.up.agreed ^= 3;
	disagree(PPE_PARENT_POLICY, PPE_POLICY_PARTIAL, PPE_POLICY_ERROR);
	settings.up.agreed ^= WEIR_JOIN_UP_DETERMINISTIC;
	disagree(PPE_PARENT_DETERMINISTIC, 0, 1);
	settings.up.agreed ^= WEIR_JOIN_UP_REVOKE;
	disagree(PPE_PARENT_REJOIN, 1, 0);
	settings.flags ^= WEIR_JOIN_NARROW;
	disagree(PPE_PARENT_NARROW, 0, 1);
	settings.flags ^= WEIR_JOIN_AUTHENTICATED;
	disagree(PPE_PARENT_AUTHENTICATE, 0, 1);
	/* 1.25 x 100 + 1 ms are enough. */
	weir_put32(settings.timeout_ms, 125);
	disagree(PPE_PARENT_TIMEOUT, TIMEOUT, 125);
	settings.up.dead_after[1] = 0x13; /* 5099; 5100 is enough */
	settings.up.dead_after[2] = 0xeb;
	disagree(PPE_PARENT_DEAD_AFTER, 5000, 5099);
	weir_put32(settings.timeout_ms, 126);
	settings.up.dead_after[1] = 0x13;
	settings.up.dead_after[2] = 0xec;
	accept_join(0, 100);
	expect_begun();
	cr_assert_eq(parent_stats(0).refused, 0);
	stop_unread();
}

/* With policy wait nobody times out. */
BOTH(SUITE, timeouts_do_not_matter_to_who_waits)
{
	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	accept_join(1, 101);
	weir_put32(settings.timeout_ms, 1);
	settings.up.dead_after[1] = 0;
	settings.up.dead_after[2] = 1;
	accept_join(0, 100);
	expect_begun();
	stop_unread();
}

/* A job that does not revoke itself can't take part. */
BOTH(SUITE, a_job_that_does_not_revoke)
{
	struct ppe_job job = leaf_job();

	job.revoke = false;
	start_job(workers, &job);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	accept_join(0, 100);
	expect_refused(0, PPE_PARENT_REJOIN, 0, 1);
	stop_unread();
}

/* What a parent refuses comes down. */
BOTH(SUITE, parents_refuse)
{
	struct weir_header h;

	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	h = answer_to_join(0, WEIR_STATUS_UNSUPPORTED);
	h.src_cnt = 5;
	say(0, &h, NULL, 0);
	expect_refused(0, PPE_PARENT_SOURCE_RANKS, HOSTS, 5);
	pass_us(1001);
	join(FIRST, 50);
	expect_below(FIRST, WEIR_STATUS_UNSUPPORTED);
	expect_joins_above(BOTH_SETS);
	say_status(0, WEIR_STATUS_UNSUPPORTED); /* because of its own parents */
	expect_refused(0, PPE_PARENT_ABOVE, 0, 0);
	pass_us(1001);
	join(FIRST + 1, 52); /* a new process does not get an old answer */
	expect_below(FIRST + 1, WEIR_STATUS_WAITING);
	expect_joins_above(BOTH_SETS);
	join(FIRST + 1, 52);
	expect_below(FIRST + 1, WEIR_STATUS_WAITING);
	/* No parent has the job: so neither has this switch. */
	say_status(0, WEIR_STATUS_REFUSED);
	say_status(1, WEIR_STATUS_REFUSED);
	expect_refused(0, PPE_PARENT_GONE, 0, 0);
	pass_us(1001);
	join(FIRST, 50);
	expect_below(FIRST, WEIR_STATUS_REFUSED);
	expect_joins_above(BOTH_SETS);
	/* After a while nobody remembers. */
	pass_us(4 * SECOND);
	hosts_join(60);
	expect_joins_above(BOTH_SETS);
	cr_assert_eq(parent_stats(0).refused, 0);
	pass_us(1001);
	join(FIRST, 60);
	expect_below(FIRST, WEIR_STATUS_WAITING);
	stop_unread();
}

/* ---- how one ends ---- */

/* A host returns after a crash: the rack's generation ends; when all have joined, so does the tree's. */
BOTH(SUITE, a_host_joins_anew)
{
	uint32_t former;
	uint16_t generation, next;

	start(workers);
	generation = begin(50, BOTH_SETS);
	former = above[0].nonce;
	join(FIRST, 60);
	expect_waiting(FIRST, 0x10);
	cr_assert_eq(parent_stats(0).generation, 0);
	cr_assert_not(parent_stats(0).serves);
	expect_over(FIRST + 1, generation);
	expect_silence();
	join(FIRST + 1, 61);
	expect_waiting(FIRST + 1, 0x30);
	expect_joins_above(BOTH_SETS);
	cr_assert_neq(above[0].nonce, former, "one generation of a parent serves one here");
	/* The former join's answer is late. */
	former ^= above[0].nonce;
	above[0].nonce ^= former;
	accept_join(0, 100);
	above[0].nonce ^= former;
	accept_join(1, 111);
	expect_silence();
	accept_join(0, 110);
	next = expect_begun();
	cr_assert_neq(next, generation);
	contribute(FIRST, next, 0);
	contribute(FIRST + 1, next, 0);
	expect_block_above(0, 110, 0);
	stop_unread();
}

/* The parent answers the switch's contribution so, from this generation. */
static void
say_about_block(unsigned int p, uint32_t block, uint16_t generation, enum weir_status status)
{
	const struct weir_header h = {.job_id = rig.job[0].parent[p].job,
		.block_id = block,
		.gen_id = generation,
		.src_id = FIRST,
		.status = (uint8_t)status,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};

	say(p, &h, NULL, 0);
}

static void
ended_above(unsigned int workers, enum weir_status status, uint16_t names)
{
	uint16_t generation;

	start(workers);
	generation = begin(50, BOTH_SETS);
	contribute(FIRST, generation, 1);
	contribute(FIRST + 1, generation, 1);
	expect_block_above(1, 101, 1);
	say_about_block(1, 1, 101, WEIR_STATUS_STALE); /* names the generation that runs */
	say_about_block(1, 1, 55, WEIR_STATUS_EXPIRED); /* names another one */
	cr_assert_eq(stats().revokes, 0);
	say_about_block(1, 1, names, status);
	cr_assert_eq(stats().revokes, 1);
	say_about_block(1, 1, names, status);
	cr_assert_eq(stats().revokes, 1);
	for (unsigned int rank = FIRST; rank < FIRST + HOSTS; rank++)
		expect_over(rank, generation);
	expect_silence();
	cr_assert_neq(begin(60, BOTH_SETS), generation);
	stop_unread();
}

BOTH(SUITE, stale_from_above)
{
	ended_above(workers, WEIR_STATUS_STALE, 105);
}

BOTH(SUITE, stale_from_a_revoked_generation)
{
	ended_above(workers, WEIR_STATUS_STALE, WEIR_GEN_JOIN);
}

BOTH(SUITE, expelled_above)
{
	ended_above(workers, WEIR_STATUS_EXPIRED, 101);
}

BOTH(SUITE, refused_above)
{
	ended_above(workers, WEIR_STATUS_REFUSED, WEIR_GEN_JOIN);
}

/* A leaf that was restarted must not take part in the generation in which it did before. */
BOTH(SUITE, nonces_are_new_after_a_restart)
{
	struct above former[PARENTS];

	start(workers);
	begin(50, BOTH_SETS);
	memcpy(former, above, sizeof(former));
	rig_renew_jobs(&rig);
	hosts_join(60);
	expect_joins_above(BOTH_SETS);
	for (unsigned int p = 0; p < PARENTS; p++)
		cr_assert_neq(above[p].nonce, former[p].nonce);
	stop_unread();
}

/* ---- dead parents, and sets ---- */

/* The block goes up, and then so many probes more. */
static void
expect_asked(unsigned int p, uint16_t generation, uint32_t block, unsigned int probes)
{
	expect_block_above(p, generation, block);
	for (unsigned int i = 0; i < probes; i++) {
		cr_assert(receive(HOSTS + p), "parent %u: probe %u is missing", p, i);
		cr_assert_eq(got.collective, WEIR_COLLECTIVE_PROBE);
	}
	expect_silence();
}

/* A parent is silent about a block for its timeout, 200 ms, and 3 s: the rest goes on without it. */
BOTH(SUITE, a_dead_parent)
{
	uint16_t generation;

	start(workers);
	generation = begin(50, BOTH_SETS);
	contribute(FIRST, generation, 1);
	contribute(FIRST + 1, generation, 1);
	expect_block_above(1, 101, 1);
	pass_us(10 * SECOND); /* nobody has asked */
	contribute(FIRST, generation, 1);
	expect_block_above(1, 101, 1);
	for (unsigned int i = 0; i < 3; i++) {
		pass_us(SECOND + 50000);
		contribute(FIRST, generation, 1);
		expect_asked(1, 101, 1, 24);
	}
	cr_assert_eq(stats().revokes, 0);
	pass_us(100000);
	contribute(FIRST, generation, 1);
	expect_asked(1, 101, 1, 1);
	cr_assert_eq(stats().revokes, 1);
	cr_assert_eq(parent_stats(0).given_up, 0);
	cr_assert_eq(parent_stats(1).given_up, 1);
	expect_over(FIRST, generation);
	cr_assert_eq(got.src_cnt, WEIR_OVER_SILENT);
	generation = begin(60, 1);
	cr_assert_not(parent_stats(1).serves);
	cr_assert_eq(parent_stats(1).generation, 0);
	for (uint32_t block = 0; block < 2; block++) {
		contribute(FIRST, generation, block);
		contribute(FIRST + 1, generation, block);
		expect_block_above(0, 100, block);
	}
	/* The next one is with all again. */
	join(FIRST, 70);
	expect_below(FIRST, WEIR_STATUS_WAITING);
	join(FIRST + 1, 71);
	expect_below(FIRST + 1, WEIR_STATUS_WAITING);
	expect_joins_above(BOTH_SETS);
	stop_unread();
}

/* Time alone is no silence: where hosts seldom ask, a burst of losses may take all answers. */
BOTH(SUITE, few_questions)
{
	uint16_t generation;

	start(workers);
	generation = begin(50, BOTH_SETS);
	contribute(FIRST, generation, 1);
	contribute(FIRST + 1, generation, 1);
	expect_block_above(1, 101, 1);
	pass_us(SECOND);
	contribute(FIRST, generation, 1);
	expect_asked(1, 101, 1, 0);
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(stats().revokes, 0, "after %u", i);
		pass_us(2900000);
		contribute(FIRST, generation, 1);
		expect_asked(1, 101, 1, 24);
	}
	cr_assert_eq(stats().revokes, 1);
	stop_unread();
}

/* Before a pause of all hosts the parent had no reason to answer. */
BOTH(SUITE, a_pause_is_no_silence)
{
	uint16_t generation;

	start(workers);
	generation = begin(50, BOTH_SETS);
	contribute(FIRST, generation, 1);
	contribute(FIRST + 1, generation, 1);
	expect_block_above(1, 101, 1);
	for (unsigned int i = 0; i < 3; i++) {
		pass_us(10 * SECOND);
		contribute(FIRST, generation, 1);
		expect_block_above(1, 101, 1);
	}
	expect_silence();
	cr_assert_eq(stats().revokes, 0);
	stop_unread();
}

/*
 * Another leaf has lost its link to parent 1, and joins at parent 0, whose generation is over. Here all that is due is a
 * block of parent 1, which waits for that leaf: parent 0 is asked, too.
 */
BOTH(SUITE, others_have_left_for_another_parent)
{
	static const uint8_t bitmap[WEIR_BITMAP_BYTES] = {0x30};
	struct weir_header h = {.job_id = 10,
		.block_id = 1,
		.gen_id = 101,
		.src_id = FIRST,
		.status = WEIR_STATUS_WAITING,
		.degraded = true,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};
	uint16_t generation;

	start(workers);
	generation = begin(50, BOTH_SETS);
	contribute(FIRST, generation, 1);
	contribute(FIRST + 1, generation, 1);
	expect_block_above(1, 101, 1);
	pass_us(1001);
	contribute(FIRST, generation, 1);
	expect_block_above(1, 101, 1);
	expect_silence();
	say(1, &h, bitmap, sizeof(bitmap));
	expect_below(FIRST, WEIR_STATUS_WAITING);
	pass_us(1001);
	contribute(FIRST, generation, 1);
	expect_below(FIRST, WEIR_STATUS_WAITING);
	expect_block_above(1, 101, 1);
	cr_assert(receive(HOSTS), "parent 0 is not asked");
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_ACKNOWLEDGE);
	cr_assert_eq(got.gen_id, 100);
	h = (struct weir_header){.job_id = 9,
		.block_id = got.block_id,
		.src_id = FIRST,
		.status = WEIR_STATUS_STALE,
		.collective = WEIR_COLLECTIVE_ACKNOWLEDGE,
		.extended = true};
	say(0, &h, NULL, 0);
	expect_over(FIRST, generation);
	cr_assert_eq(stats().revokes, 1);
	stop_unread();
}

/* An answer, whichever, shows that it lives. */
BOTH(SUITE, a_parent_that_waits_is_not_dead)
{
	static const uint8_t bitmap[WEIR_BITMAP_BYTES] = {0x30};
	uint16_t generation;

	start(workers);
	generation = begin(50, BOTH_SETS);
	contribute(FIRST, generation, 1);
	contribute(FIRST + 1, generation, 1);
	expect_block_above(1, 101, 1);
	for (unsigned int i = 0; i < 5; i++) {
		struct weir_header h = {.job_id = rig.job[0].parent[1].job,
			.block_id = 1,
			.gen_id = 101,
			.src_id = FIRST,
			.status = WEIR_STATUS_WAITING,
			.degraded = true,
			.dtype = WEIR_DTYPE_INT32,
			.extended = true};

		pass_us(2 * SECOND);
		contribute(FIRST, generation, 1);
		expect_block_above(1, 101, 1);
		say(1, &h, bitmap, sizeof(bitmap));
		while (receive(0))
			cr_assert_eq(got.status, WEIR_STATUS_WAITING);
	}
	cr_assert_eq(stats().revokes, 0);
	stop_unread();
}

/* A parent that leaves 8 joins unanswered is left out after 3 s: with other nonces, because those belong to both. */
BOTH(SUITE, a_parent_that_is_dead_from_the_start)
{
	uint32_t former;

	start(workers);
	hosts_join(50);
	for (unsigned int joins = 1; joins < 8; joins++) {
		expect_joins_above(BOTH_SETS);
		expect_silence();
		former = above[0].nonce;
		accept_join(0, 100);
		pass_us(SECOND / 2);
		join(FIRST, 50);
		expect_below(FIRST, WEIR_STATUS_WAITING);
		join(FIRST + 1, 51);
		expect_below(FIRST + 1, WEIR_STATUS_WAITING);
	}
	expect_joins_above(BOTH_SETS);
	expect_join_above(0, 1); /* of the second host */
	expect_silence();
	cr_assert_neq(above[0].nonce, former);
	above[1].nonce = 0;
	accept_join(0, 102);
	expect_begun();
	cr_assert(parent_stats(0).serves && !parent_stats(1).serves);
	stop_unread();
}

/* A parent that refuses is left out at once, if there is another. */
BOTH(SUITE, a_parent_without_the_job)
{
	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	say_status(1, WEIR_STATUS_REFUSED);
	pass_us(1001);
	join(FIRST, 50);
	expect_below(FIRST, WEIR_STATUS_WAITING);
	expect_join_above(0, 1);
	accept_join(0, 100);
	expect_begun();
	stop_unread();
}

/* Another leaf does without a parent: so does this one, at once, and what that parent says does not count any more. */
BOTH(SUITE, others_choose_a_smaller_set)
{
	struct above former[PARENTS];

	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	memcpy(former, above, sizeof(former));
	keep_waiting(0, 1, 0x3f);
	expect_join_above(0, 1);
	expect_silence();
	cr_assert_neq(above[0].nonce, former[0].nonce);
	keep_waiting(0, BOTH_SETS, 0x3f); /* it does not grow again */
	expect_silence();
	accept_join(1, 101);
	cr_assert_eq(drops(PPE_DROP_STALE), 1);
	above[0].nonce = former[0].nonce;
	accept_join(0, 100); /* with both */
	cr_assert_eq(drops(PPE_DROP_STALE), 2);
	expect_silence();
	pass_us(1001);
	join(FIRST, 50);
	expect_below(FIRST, WEIR_STATUS_WAITING);
	expect_join_above(0, 1);
	accept_join(0, 100);
	expect_begun();
	stop_unread();
}

/* No parent connects all leaves: the job waits. A smaller set that begins nothing is given up. */
BOTH(SUITE, no_common_parent)
{
	start(workers);
	hosts_join(50);
	expect_joins_above(BOTH_SETS);
	keep_waiting(0, 0, 0x3f);
	expect_silence();
	keep_waiting(0, 1, 0x3f);
	expect_join_above(0, 1);
	for (unsigned int i = 0; i < 5; i++) {
		keep_waiting(0, 0, 0x3f);
		pass_us(1900000);
		hosts_join(50);
		expect_join_above(0, 1);
		if (i < 4)
			continue;
		keep_waiting(0, 0, 0x3f);
		pass_us(SECOND);
		join(FIRST, 50);
		expect_below(FIRST, WEIR_STATUS_WAITING);
		expect_joins_above(BOTH_SETS);
	}
	expect_silence();
	stop_unread();
}

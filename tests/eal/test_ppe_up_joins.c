/* SPDX-License-Identifier: BSD-3-Clause */
/* A leaf joins at its parents: how generations begin and end on two hops. docs/tree.md, "Generations". */
#include <stddef.h>

#include "tests/eal/bench_tree.h"
#include "tests/model/settings_vectors.h"
#include "tests/model/tags.h"

#define FIRST      4 /* hosts FIRST and FIRST + 1 */
#define RANKS      8
#define PARENTS    2
#define BOTH_SETS  3
#define WINDOW     2
#define ELEMENTS   8
#define TIMEOUT    100 /* ms */
#define SECOND     1000000 /* us */

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_up_joins, name)

#define start_leaf(...)                                                                            \
	start(.workers = workers, .parents = PARENTS, .first_rank = FIRST, .tree_ranks = RANKS,    \
		.window = WINDOW, .elements = ELEMENTS, .timeout_ms = TIMEOUT, __VA_ARGS__)

/* The hosts have joined, and the joins are up. */
#define start_joining(...)                                                                         \
	do {                                                                                       \
		start_leaf(__VA_ARGS__);                                                           \
		hosts_join_up(50, BOTH_SETS);                                                      \
	} while (0)

/* A generation has begun, and block 1 is up at parent 1. */
#define start_block(...)                                                                           \
	do {                                                                                       \
		start_leaf(__VA_ARGS__);                                                           \
		begin(50, BOTH_SETS);                                                              \
		go_up(1);                                                                          \
	} while (0)

/* A host joins, and is answered so. */
static void
join_again(unsigned int rank, uint32_t nonce, enum weir_status status)
{
	join(rank, nonce);
	expect_status(rank, status);
}

/* The same after a millisecond, so that joins go up again. */
static void
join_later(unsigned int rank, uint32_t nonce, enum weir_status status)
{
	skip_us(1001);
	join_again(rank, nonce, status);
}

/* A host asks about block 1 after so long. */
static void
contribute_after_us(uint64_t us)
{
	skip_us(us);
	contribute(FIRST, 1);
}

/* ---- how one begins ---- */

BOTH(begins_when_all_parents_have_accepted)
{
	start_leaf();
	join(FIRST, 50);
	expect_waiting(FIRST, 0x10);
	expect_silence();
	join(FIRST + 1, 51);
	expect_waiting(FIRST + 1, 0x30);
	expect_joins_up(BOTH_SETS);
	cr_assert_neq(parent[0].nonce, parent[1].nonce);
	expect_silence();
	cr_assert(parent_stats(0).joining && parent_stats(1).joining);
	accept_join(0, 100);
	expect_silence();
	cr_assert_eq(parent_stats(0).generation, 0);
	accept_join(1, 101);
	expect_begun();
	expect_silence();
	for (unsigned int p = 0; p < PARENTS; p++) {
		struct ppe_parent_stats stats = parent_stats(p);

		cr_assert_eq(stats.generation, 100 + p);
		cr_assert(stats.serves && stats.heard && !stats.joining);
		cr_assert_eq(stats.refused, 0);
	}
	for (uint32_t block = 0; block < WINDOW; block++)
		go_up(block);
	expect_silence();
	/* A host that has missed the answer gets it again, and nothing goes up. */
	join_later(FIRST, 50, WEIR_STATUS_OK);
	cr_assert_eq(got.gen_id, generation);
	stop();
}

/* A host's repetition repeats the joins above, at most once per millisecond, with the same nonces. */
BOTH(hosts_repeat)
{
	struct parent first[PARENTS];

	start_joining();
	memcpy(first, parent, sizeof(first));
	join(FIRST, 50);
	expect_waiting(FIRST, 0x30);
	expect_silence();
	rig_pass_us(SECOND);
	expect_silence(); /* no timer repeats */
	join(FIRST, 50);
	expect_waiting(FIRST, 0x30);
	expect_joins_up(BOTH_SETS);
	cr_assert_eq(memcmp(first, parent, sizeof(first)), 0);
	expect_silence();
	accept_join(1, 101);
	accept_join(0, 100);
	expect_begun();
	stop_unread();
}

/* While a host is missing again, nothing goes up, and no generation begins. */
BOTH(a_host_is_missing_again)
{
	start_joining();
	for (unsigned int i = 0; i < 2; i++) {
		skip_us(2 * SECOND);
		join(FIRST, 50);
		expect_waiting(FIRST, i == 0 ? 0x30 : 0x10);
		expect_joins_up(i == 0 ? BOTH_SETS : 0);
	}
	expect_silence();
	accept_join(0, 100);
	accept_join(1, 101);
	expect_silence();
	join(FIRST + 1, 51);
	expect_waiting(FIRST + 1, 0x30);
	expect_joins_up(BOTH_SETS);
	accept_join(0, 100);
	expect_begun(); /* the other one has accepted already */
	stop_unread();
}

/* Hosts hear which ranks have joined: their own switch's, and those that all parents know. */
BOTH(whom_hosts_wait_for)
{
	static const uint8_t known[PARENTS] = {0x33, 0x31}, told[PARENTS] = {0x30, 0x31};

	start_joining();
	for (unsigned int p = 0; p < PARENTS; p++) {
		keep_waiting(p, BOTH_SETS, known[p]);
		skip_us(1001);
		join(FIRST, 50);
		expect_waiting(FIRST, told[p]);
		expect_joins_up(BOTH_SETS);
	}
	for (unsigned int p = 0; p < PARENTS; p++)
		cr_assert_eq(parent_stats(p).joined[0], known[p]);
	stop();
}

/* Of a join that a parent accepted and then waits for again, the newer answer counts. */
BOTH(a_parent_changes_its_mind)
{
	start_joining();
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

BOTH(other_answers_change_nothing)
{
	uint8_t longer[sizeof(settings) + 1] = {0};
	struct weir_header h;
	unsigned int n;

	start_joining();
	accept_join(0, 100);
	parent[1].nonce++; /* of no join of this switch */
	accept_join(1, 101);
	parent[1].nonce--;
	expect_drop(PPE_DROP_STALE, 1);
	h = answer_to_join(1, WEIR_STATUS_OK);
	h.gen_id = WEIR_GEN_JOIN;
	say(1, &h, &settings, sizeof(settings));
	h.gen_id = 101;
	say(1, &h, &settings, sizeof(settings) - 1);
	memcpy(longer, &settings, sizeof(settings));
	say(1, &h, longer, sizeof(longer));
	h = answer_to_join(1, WEIR_STATUS_WAITING);
	say(1, &h, &settings, sizeof(settings));
	expect_drop(PPE_DROP_LENGTH, 4);
	refuse_join(1, WEIR_STATUS_PARTIAL);
	expect_drop(PPE_DROP_NOT_FROM_PARENT, 1);
	h = answer_to_join(1, WEIR_STATUS_OK);
	h.src_id = FIRST + 1;
	h.gen_id = 101;
	say(1, &h, &settings, sizeof(settings));
	expect_drop(PPE_DROP_NOT_FROM_PARENT, 2);
	h.src_id = FIRST;
	h.job_id = rig.job[0].parent[0].job; /* as if the other parent had it */
	say(1, &h, &settings, sizeof(settings));
	expect_drop(PPE_DROP_NOT_FROM_PARENT, 3);
	h = answer_to_join(1, WEIR_STATUS_OK);
	h.gen_id = 101;
	n = write_down(1, &h, &settings, sizeof(settings));
	said[L4 + 9] ^= 7; /* the generation */
	rig_send(&rig, rig.job[0].parent[1].port, said, n);
	expect_silence();
	expect_drop(PPE_DROP_UDP_CHECKSUM, 1);
	accept_join(1, 101);
	expect_begun();
	/* A late copy. */
	accept_join(1, 107);
	expect_silence();
	cr_assert_eq(parent_stats(1).generation, 101);
	expect_drop(PPE_DROP_STALE, 2);
	stop_unread();
}

/* ---- settings ---- */

static void
expect_refused(unsigned int p, unsigned int setting, uint32_t ours, uint32_t theirs)
{
	struct ppe_parent_stats stats = parent_stats(p);

	cr_assert_eq(stats.refused, setting, "setting %u, not %u", stats.refused, setting);
	cr_assert_eq(stats.ours, ours, "setting %u: ours %u", setting, stats.ours);
	cr_assert_eq(stats.theirs, theirs, "setting %u: theirs %u", setting, stats.theirs);
}

/* Parent 0 accepts, with what is in `settings`, but one that differs: in the 16 bytes, with the CRC
 * of a job that has CRCs, or in a list, after which comes more. */
static void
accept_with(unsigned int differs, uint32_t value, const struct settings_vector *list)
{
	struct weir_header h = answer_to_join(0, WEIR_STATUS_OK);
	uint8_t header[WEIR_EXT_BYTES], bytes[WEIR_ACCEPTED_MOST];
	struct weir_accepted accepted;
	unsigned int n;
	uint32_t crc;

	h.gen_id = 100;
	weir_header_write(&h, header);
	weir_accepted_read((const uint8_t *)&settings, sizeof(settings), true, &accepted);
	accepted.setting[differs] = value;
	n = weir_accepted_write(&accepted, true, list != NULL, bytes);
	if (list != NULL) {
		memcpy(bytes, &settings, sizeof(settings));
		bytes[offsetof(struct weir_join_reply, elements)] |= WEIR_JOIN_MUST_LIST << 4;
		memcpy(bytes + n, list->entries, list->bytes);
		n += list->bytes;
		weir_put16(bytes + sizeof(settings),
			(uint16_t)(n - sizeof(settings) - 2 + list->longer));
	} else if (differs == WEIR_SETTING_INTEGRITY) {
		crc = tags_crc32c(tags_crc32c(0, header, sizeof(header)), bytes, n);
		for (unsigned int i = 0; i < WEIR_CRC_BYTES; i++)
			bytes[n++] = (uint8_t)(crc >> 8 * i);
	}
	say(0, &h, bytes, n);
}

/* Hosts that repeat their joins get `unsupported`. */
static void
expect_unsupported(unsigned int setting, uint32_t ours, uint32_t theirs)
{
	expect_silence();
	expect_refused(0, setting, ours, theirs);
	join_later(FIRST + 1, 51, WEIR_STATUS_UNSUPPORTED);
	expect_joins_up(BOTH_SETS);
	expect_silence();
}

static void
dead_after_5_s(struct rig_config *config)
{
	config->job[0].dead_after_ms = 5000;
}

/* In the 16 bytes of an older parent, or in the list of a newer one, whose 16 bytes do not count. */
static void
settings_must_agree(unsigned int workers, const struct settings_vector *list)
{
	struct weir_accepted ours;

	start_joining(.policy = PPE_POLICY_PARTIAL, .change = dead_after_5_s);
	weir_accepted_read((const uint8_t *)&settings, sizeof(settings), true, &ours);
	ours.setting[WEIR_SETTING_TIMEOUT] = TIMEOUT;
	ours.setting[WEIR_SETTING_DEAD_AFTER] = 5000;
	accept_join(1, 101);
	for (unsigned int s = 1; s < WEIR_SETTINGS; s++) {
		/* 1.25 x 100 + 1 ms are enough, and 5100. */
		uint32_t theirs = s == WEIR_SETTING_TIMEOUT ? 125
			: s == WEIR_SETTING_DEAD_AFTER      ? 5099
			: s == WEIR_SETTING_REJOIN          ? 0
							    : ours.setting[s] + 1;

		if ((weir_setting_table[s].to & WEIR_SETTING_TO_SWITCH) == 0)
			continue;
		accept_with(s, theirs, list);
		expect_unsupported(s, ours.setting[s], theirs);
	}
	settings.sources[1] = 6;
	accept_with(0, 0, list);
	expect_unsupported(PPE_PARENT_RANKS, RANKS, 6);
	settings.sources[1] = RANKS;
	weir_put32(settings.timeout_ms, 126);
	accept_with(WEIR_SETTING_DEAD_AFTER, 5100, list);
	expect_begun();
	cr_assert_eq(parent_stats(0).refused, 0);
	stop_unread();
}

BOTH(settings_of_an_older_parent_must_agree)
{
	settings_must_agree(workers, NULL);
}

BOTH(settings_of_a_list_must_agree)
{
	settings_must_agree(workers, &settings_vectors[0]);
}

BOTH(unknown_settings)
{
	unsigned int malformed = 0;

	start_joining();
	for (unsigned int i = 0; i < NB_SETTINGS_VECTORS; i++) {
		const struct settings_vector *v = &settings_vectors[i];

		accept_with(0, 0, v);
		expect_silence();
		malformed += v->is == SETTINGS_MALFORMED;
		expect_drop(PPE_DROP_LENGTH, malformed);
		if (v->is == SETTINGS_UNKNOWN)
			expect_unsupported(PPE_PARENT_UNKNOWN, 0, v->unknown);
		if (v->is == SETTINGS_TAKEN)
			expect_refused(0, 0, 0, 0);
	}
	accept_join(0, 100);
	accept_join(1, 101);
	expect_begun();
	stop_unread();
}

/* With policy wait nobody times out. */
BOTH(timeouts_do_not_matter_to_who_waits)
{
	start_joining();
	accept_join(1, 101);
	weir_put32(settings.timeout_ms, 1);
	settings.up.dead_after[1] = 0;
	settings.up.dead_after[2] = 1;
	accept_join(0, 100);
	expect_begun();
	stop_unread();
}

static void
not_revoking(struct rig_config *config)
{
	config->job[0].revoke = false;
}

/* A job that does not revoke itself can't take part. */
BOTH(a_job_that_does_not_revoke)
{
	start_joining(.change = not_revoking);
	accept_join(0, 100);
	expect_refused(0, WEIR_SETTING_REJOIN, 0, 1);
	stop_unread();
}

/* What a parent refuses comes down. */
BOTH(parents_refuse)
{
	struct weir_header h;

	start_joining();
	h = answer_to_join(0, WEIR_STATUS_UNSUPPORTED);
	h.src_cnt = 5;
	say(0, &h, NULL, 0);
	expect_refused(0, PPE_PARENT_SOURCE_RANKS, 2, 5);
	join_later(FIRST, 50, WEIR_STATUS_UNSUPPORTED);
	expect_joins_up(BOTH_SETS);
	refuse_join(0, WEIR_STATUS_UNSUPPORTED); /* because of its own parents */
	expect_refused(0, PPE_PARENT_ABOVE, 0, 0);
	/* A new process does not get an old answer. */
	join_later(FIRST + 1, 52, WEIR_STATUS_WAITING);
	expect_joins_up(BOTH_SETS);
	join_again(FIRST + 1, 52, WEIR_STATUS_WAITING);
	/* No parent has the job: so neither has this switch. */
	refuse_join(0, WEIR_STATUS_REFUSED);
	refuse_join(1, WEIR_STATUS_REFUSED);
	expect_refused(0, PPE_PARENT_GONE, 0, 0);
	join_later(FIRST, 50, WEIR_STATUS_REFUSED);
	expect_joins_up(BOTH_SETS);
	/* After a while nobody remembers. */
	skip_us(4 * SECOND);
	hosts_join_up(60, BOTH_SETS);
	cr_assert_eq(parent_stats(0).refused, 0);
	join_later(FIRST, 60, WEIR_STATUS_WAITING);
	stop_unread();
}

/* ---- how one ends ---- */

/* A host returns after a crash: the rack's generation ends; when all have joined, so does the tree's. */
BOTH(a_host_joins_anew)
{
	uint32_t former, nonce;
	uint16_t old;

	start_leaf();
	old = begin(50, BOTH_SETS);
	former = parent[0].nonce;
	join(FIRST, 60);
	expect_waiting(FIRST, 0x10);
	cr_assert_eq(parent_stats(0).generation, 0);
	cr_assert_not(parent_stats(0).serves);
	expect_over(FIRST + 1);
	expect_silence();
	join(FIRST + 1, 61);
	expect_waiting(FIRST + 1, 0x30);
	expect_joins_up(BOTH_SETS);
	nonce = parent[0].nonce;
	cr_assert_neq(nonce, former, "one generation of a parent serves one here");
	parent[0].nonce = former;
	accept_join(0, 100); /* the former join's answer is late */
	parent[0].nonce = nonce;
	accept_join(1, 111);
	expect_silence();
	accept_join(0, 110);
	cr_assert_neq(expect_begun(), old);
	go_up(0);
	stop_unread();
}

/* A parent answers the switch's contribution so, from this generation. */
static void
tell(uint32_t block, uint16_t its_generation, enum weir_status status)
{
	struct weir_header h = from_above(block, status, 0);

	h.gen_id = its_generation;
	say(parent_of(block), &h, NULL, 0);
}

static void
ended_above(unsigned int workers, enum weir_status status, uint16_t names)
{
	uint16_t old;

	start_block();
	old = generation;
	tell(1, 101, WEIR_STATUS_STALE); /* names the generation that runs */
	tell(1, 55, WEIR_STATUS_EXPIRED); /* names another one */
	cr_assert_eq(job_stats(1).revokes, 0);
	for (unsigned int times = 0; times < 2; times++) {
		tell(1, names, status);
		cr_assert_eq(job_stats(1).revokes, 1);
	}
	expect_over(FIRST);
	expect_over(FIRST + 1);
	expect_silence();
	cr_assert_neq(begin(60, BOTH_SETS), old);
	stop_unread();
}

#define ENDED_ABOVE(name, status, names)                                                           \
	BOTH(name)                                                                                 \
	{                                                                                          \
		ended_above(workers, status, names);                                               \
	}

ENDED_ABOVE(stale_from_above, WEIR_STATUS_STALE, 105)
ENDED_ABOVE(stale_from_a_revoked_generation, WEIR_STATUS_STALE, WEIR_GEN_JOIN)
ENDED_ABOVE(expelled_above, WEIR_STATUS_EXPIRED, 101)
ENDED_ABOVE(refused_above, WEIR_STATUS_REFUSED, WEIR_GEN_JOIN)

/* A leaf that was restarted must not take part in the generation in which it did before. */
BOTH(nonces_are_new_after_a_restart)
{
	struct parent former[PARENTS];

	start_leaf();
	begin(50, BOTH_SETS);
	memcpy(former, parent, sizeof(former));
	rig_renew_jobs(&rig);
	hosts_join_up(60, BOTH_SETS);
	for (unsigned int p = 0; p < PARENTS; p++)
		cr_assert_neq(parent[p].nonce, former[p].nonce);
	stop_unread();
}

/* ---- dead parents, and sets ---- */

/* A host asks about block 1 after so long: it goes up, and then so many probes more. */
static void
expect_asked_after_us(uint64_t us, unsigned int probes)
{
	contribute_after_us(us);
	expect_up(1, WEIR_STATUS_OK, 0);
	for (unsigned int i = 0; i < probes; i++)
		expect_note_up(1, WEIR_COLLECTIVE_PROBE);
	expect_silence();
}

/* A parent is silent about a block for its timeout, 200 ms, and 3 s: the rest goes on without it. */
BOTH(a_dead_parent)
{
	start_block();
	contribute_after_us(10 * SECOND); /* nobody has asked */
	expect_up(1, WEIR_STATUS_OK, 0);
	for (unsigned int i = 0; i < 3; i++)
		expect_asked_after_us(SECOND + 50000, 24);
	cr_assert_eq(job_stats(1).revokes, 0);
	expect_asked_after_us(100000, 1);
	cr_assert_eq(job_stats(1).revokes, 1);
	cr_assert_eq(parent_stats(0).given_up, 0);
	cr_assert_eq(parent_stats(1).given_up, 1);
	expect_over(FIRST);
	cr_assert_eq(got.src_cnt, WEIR_OVER_SILENT);
	begin(60, 1);
	cr_assert_not(parent_stats(1).serves);
	cr_assert_eq(parent_stats(1).generation, 0);
	for (uint32_t block = 0; block < 2; block++)
		go_up(block);
	/* The next one is with all again. */
	hosts_join_up(70, BOTH_SETS);
	stop_unread();
}

/* Time alone is no silence: where hosts seldom ask, a burst of losses may take all answers. */
BOTH(few_questions)
{
	start_block();
	expect_asked_after_us(SECOND, 0);
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(job_stats(1).revokes, 0, "after %u", i);
		expect_asked_after_us(2900000, 24);
	}
	cr_assert_eq(job_stats(1).revokes, 1);
	stop_unread();
}

/* Before a pause of all hosts the parent had no reason to answer. */
BOTH(a_pause_is_no_silence)
{
	start_block();
	for (unsigned int i = 0; i < 3; i++)
		expect_asked_after_us(10 * SECOND, 0);
	cr_assert_eq(job_stats(1).revokes, 0);
	stop_unread();
}

/*
 * Another leaf has lost its link to parent 1, and joins at parent 0, whose generation is over. Here all that is due is a
 * block of parent 1, which waits for that leaf: parent 0 is asked, too.
 */
BOTH(others_have_left_for_another_parent)
{
	struct weir_header h;

	start_block();
	expect_asked_after_us(1001, 0);
	answer(1, WEIR_STATUS_WAITING, 0x30);
	expect_status(FIRST, WEIR_STATUS_WAITING);
	contribute_after_us(1001);
	expect_status(FIRST, WEIR_STATUS_WAITING);
	expect_up(1, WEIR_STATUS_OK, 0);
	cr_assert(receive_up(0), "parent 0 is not asked");
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_ACKNOWLEDGE);
	cr_assert_eq(got.gen_id, 100);
	h = from_above(got.block_id, WEIR_STATUS_STALE, 0);
	h.gen_id = WEIR_GEN_JOIN;
	h.collective = WEIR_COLLECTIVE_ACKNOWLEDGE;
	h.job_id = rig.job[0].parent[0].job;
	say(0, &h, NULL, 0);
	expect_over(FIRST);
	cr_assert_eq(job_stats(1).revokes, 1);
	stop_unread();
}

/* An answer, whichever, shows that it lives. */
BOTH(a_parent_that_waits_is_not_dead)
{
	start_block();
	for (unsigned int i = 0; i < 5; i++) {
		contribute_after_us(2 * SECOND);
		expect_up(1, WEIR_STATUS_OK, 0);
		answer(1, WEIR_STATUS_WAITING, 0x30);
		while (receive(FIRST))
			cr_assert_eq(got.status, WEIR_STATUS_WAITING);
	}
	cr_assert_eq(job_stats(1).revokes, 0);
	stop_unread();
}

/* A parent that leaves 8 joins unanswered is left out after 3 s: with other nonces, because those belong to both. */
BOTH(a_parent_that_is_dead_from_the_start)
{
	uint32_t former;

	start_leaf();
	hosts_join(50);
	for (unsigned int joins = 1; joins < 8; joins++) {
		expect_joins_up(BOTH_SETS);
		expect_silence();
		former = parent[0].nonce;
		accept_join(0, 100);
		skip_us(SECOND / 2);
		hosts_join(50);
	}
	expect_joins_up(BOTH_SETS);
	expect_join_up(0, 1); /* of the second host */
	expect_silence();
	cr_assert_neq(parent[0].nonce, former);
	accept_join(0, 102);
	expect_begun();
	cr_assert(parent_stats(0).serves && !parent_stats(1).serves);
	stop_unread();
}

/* A parent that refuses is left out at once, if there is another. */
BOTH(a_parent_without_the_job)
{
	start_joining();
	refuse_join(1, WEIR_STATUS_REFUSED);
	join_later(FIRST, 50, WEIR_STATUS_WAITING);
	expect_join_up(0, 1);
	accept_join(0, 100);
	expect_begun();
	stop_unread();
}

/* Another leaf does without a parent: so does this one, at once, and what that parent says does not count any more. */
BOTH(others_choose_a_smaller_set)
{
	uint32_t former;

	start_joining();
	former = parent[0].nonce;
	keep_waiting(0, 1, 0x3f);
	expect_join_up(0, 1);
	expect_silence();
	cr_assert_neq(parent[0].nonce, former);
	keep_waiting(0, BOTH_SETS, 0x3f); /* it does not grow again */
	expect_silence();
	accept_join(1, 101);
	expect_drop(PPE_DROP_STALE, 1);
	parent[0].nonce = former;
	accept_join(0, 100); /* with both */
	expect_drop(PPE_DROP_STALE, 2);
	expect_silence();
	join_later(FIRST, 50, WEIR_STATUS_WAITING);
	expect_join_up(0, 1);
	accept_join(0, 100);
	expect_begun();
	stop_unread();
}

/* No parent connects all leaves: the job waits. A smaller set that begins nothing is given up. */
BOTH(no_common_parent)
{
	start_joining();
	keep_waiting(0, 0, 0x3f);
	expect_silence();
	keep_waiting(0, 1, 0x3f);
	expect_join_up(0, 1);
	for (unsigned int i = 0; i < 5; i++) {
		keep_waiting(0, 0, 0x3f);
		skip_us(1900000);
		hosts_join_up(50, 1);
	}
	keep_waiting(0, 0, 0x3f);
	skip_us(SECOND);
	join_again(FIRST, 50, WEIR_STATUS_WAITING);
	expect_joins_up(BOTH_SETS);
	stop();
}

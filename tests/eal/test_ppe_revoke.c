/* SPDX-License-Identifier: BSD-3-Clause */
/* A source joins anew while a generation runs: what that does to the others, as the job says. */
#include "tests/eal/bench.h"

#define WINDOW  4
#define SOURCES 3

static void
with_revoke(struct rig_config *config)
{
	config->job[0].revoke = true;
}

static void
start_revoking(unsigned int workers)
{
	start(.workers = workers, .sources = SOURCES, .timeout_ms = 1000, .change = with_revoke);
}

static void
reduce_all(uint32_t first, uint32_t end)
{
	for (uint32_t block = first; block < end; block++)
		reduce(block);
}

static void
revokes(unsigned int workers)
{
	static const uint32_t nonce[SOURCES] = {6, 7, 5};
	uint16_t former;

	start_revoking(workers);
	former = generation;
	reduce_all(0, WINDOW);
	contribute(0, WINDOW); /* open, when source 2 comes back from a crash */
	contribute(0, WINDOW + 1);
	rig_rest(&rig);
	asks(2, 5, 4);
	cr_expect_eq(job_stats(1).revokes, 1);
	cr_expect_eq(job_stats(1).blocks_in_flight, 0, "blocks are kept for nobody");
	/* Whatever block, whichever shard: repeated, lost, new. */
	for (uint32_t block = 0; block < 3 * WINDOW; block++)
		for (unsigned int s = 0; s < 2; s++) {
			contribute(s, block);
			expect(s, block, WEIR_STATUS_STALE, 0);
			cr_expect_eq(got.gen_id, WEIR_GEN_JOIN);
		}
	/* The next of them does not end anything any more. */
	asks(0, 6, 5);
	asks(2, 5, 5);
	cr_expect_eq(job_stats(1).revokes, 1);
	cr_expect_eq(job_stats(1).generation, former);
	/* The two ask already: with the third it begins, and one that asked once more would end it. */
	join(1, 7);
	expect_joined(nonce);
	reduce_all(0, 3 * WINDOW);
	cr_expect_eq(job_stats(1).revokes, 1);
	stop();
}

CASE(ppe_revoke, the_generation_ends, revokes(1))
CASE(ppe_revoke, the_generation_ends_on_every_worker, revokes(3))

Test(ppe_revoke, without_revoke_a_join_waits, .timeout = 90)
{
	start(.sources = SOURCES, .timeout_ms = 1000);
	reduce(0);
	asks(2, 5, 4);
	reduce_all(1, 3 * WINDOW);
	cr_expect_eq(job_stats(1).revokes, 0);
	stop();
}

/* A late copy of a join is nobody's. */
static void
expect_copy(unsigned int source, uint32_t nonce)
{
	WRONG(note(source, nonce, WEIR_COLLECTIVE_JOIN), /* again */, source, 0, PPE_DROP_STALE,
		NO_ANSWER);
}

/* The network brings a join once more: that of the generation that runs, or that of the one before. */
Test(ppe_revoke, copied_joins_revoke_nothing, .timeout = 90)
{
	const uint32_t first = 77 + 1000; /* as rig_join has them */

	start_revoking(2);
	asks(0, 5, 1);
	rig_rest(&rig);
	generation = rig_join(&rig, 0, false);
	join(2, first + 1000 + 2);
	cr_assert(receive(2) && got.status == WEIR_STATUS_OK && got.gen_id == generation);
	expect_copy(2, first + 2);
	cr_expect_eq(job_stats(1).joining[0], 0);
	reduce_all(0, 2 * WINDOW);
	cr_expect_eq(job_stats(1).revokes, 1);
	stop();
}

/* Source 2 ends the generation; with the joins of all a new one begins. */
static void
begin_anew(const uint32_t *nonce)
{
	asks(2, nonce[2], 4);
	rig_rest(&rig);
	asks(1, nonce[1], 6);
	join(0, nonce[0]);
	expect_joined(nonce);
}

/* Source 0 never hears that its generation has begun: its answers are lost. Before it asks again, source 2
 * ends that generation. Its join is as good for the next one, and for the one after that. */
Test(ppe_revoke, source_with_a_lost_answer_stays_joined, .timeout = 90)
{
	uint32_t nonce[SOURCES] = {21, 22, 23};

	start_revoking(1);
	begin_anew(nonce);
	for (unsigned int round = 1; round < 4; round++) {
		nonce[2] += 10;
		asks(2, nonce[2], 4);
		asks(0, nonce[0], 5);
		nonce[1] += 10;
		join(1, nonce[1]);
		expect_joined(nonce);
	}
	reduce_all(0, WINDOW);
	cr_expect_eq(job_stats(1).revokes, 4);
	stop();
}

static void
forgetful(struct rig_config *config)
{
	config->joins_s = 1;
}

/* A join that is not repeated counts for as long as the configuration says: for a second here. */
Test(ppe_revoke, an_old_join_is_forgotten, .timeout = 90)
{
	start(.workers = 1, .sources = SOURCES, .late = true, .change = forgetful);
	asks(0, 5, 1);
	pass_ms(1500);
	asks(1, 6, 2);
	stop();
}

/* But where a source has asked anew, a late copy of the join of the revoked generation is nobody's. */
Test(ppe_revoke, copied_joins_do_not_replace_newer_ones, .timeout = 90)
{
	static const uint32_t first[SOURCES] = {21, 22, 23}, nonce[SOURCES] = {31, 32, 33};

	start_revoking(1);
	begin_anew(first);
	asks(2, nonce[2], 4);
	asks(0, nonce[0], 5);
	expect_copy(0, first[0]);
	join(1, nonce[1]);
	expect_joined(nonce);
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A source joins anew while a generation runs: what that does to the others, as the job says. */
#include <string.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "tests/eal/one_rig.h"

#define WINDOW  4
#define SOURCES 3

static uint8_t frame[RIG_FRAME_MAX];
static uint16_t generation;

static void
start(bool revoke, unsigned int workers)
{
	struct rig_config config = {.workers = workers, .threads = 4, .ports = SOURCES, .jobs = 1};

	config.job[0] = rig_job(1, SOURCES, WINDOW, 16);
	config.job[0].revoke = revoke;
	rig_start(&rig, &config);
	generation = rig_join(&rig, 0, false);
}

static void
offer(unsigned int s, struct weir_header h, const void *payload, unsigned int bytes)
{
	h.job_id = 1;
	h.src_id = (uint8_t)s;
	h.extended = true;
	rig_send(&rig, s, frame, rig_frame(frame, s, &h, payload, bytes));
}

static void
contribute(unsigned int s, uint32_t block)
{
	const uint32_t value = 1u << s;

	offer(s,
		(struct weir_header){.block_id = block,
			.gen_id = generation,
			.grad_cnt = 1,
			.dtype = WEIR_DTYPE_INT32},
		&value, sizeof(value));
}

static void
join(unsigned int s, uint32_t nonce)
{
	offer(s, (struct weir_header){.block_id = nonce, .collective = WEIR_COLLECTIVE_JOIN}, NULL,
		0);
}

/* The next packet to a source, and its first word. */
static struct weir_header
take(unsigned int s, uint32_t *word)
{
	struct weir_header h = {.status = 255};
	unsigned int n = rig_receive(&rig, s, frame, 2000), bytes;
	const uint8_t *payload;

	cr_assert_gt(n, 0, "source %u gets nothing", s);
	cr_assert(rig_parse(frame, n, &h, &payload, &bytes));
	*word = 0;
	if (bytes >= sizeof(*word))
		memcpy(word, payload, sizeof(*word));
	return h;
}

static void
block_is_summed(uint32_t block)
{
	uint32_t word;

	for (unsigned int s = 0; s < SOURCES; s++)
		contribute(s, block);
	for (unsigned int s = 0; s < SOURCES; s++) {
		cr_assert_eq(take(s, &word).status, WEIR_STATUS_OK);
		cr_assert_eq(word, 7);
	}
}

/* One asks for the next generation, and is told who else does. */
static void
asks(unsigned int s, uint32_t nonce, uint32_t asking)
{
	struct weir_header h;
	uint32_t word;

	join(s, nonce);
	h = take(s, &word);
	cr_assert_eq(h.status, WEIR_STATUS_WAITING, "%s", weir_status_text(h.status));
	cr_assert_eq(h.block_id, nonce);
	cr_assert_eq(word, asking);
}

static void
revokes(unsigned int workers)
{
	struct ppe_stats stats;
	struct weir_header h;
	uint32_t word;

	start(true, workers);
	for (uint32_t block = 0; block < WINDOW; block++)
		block_is_summed(block);
	contribute(0, WINDOW); /* open, when source 2 comes back from a crash */
	contribute(0, WINDOW + 1);
	rig_settle(&rig, &stats);
	asks(2, 5, 4);
	rig_settle(&rig, &stats);
	cr_expect_eq(job_stats(1).revokes, 1);
	cr_expect_eq(job_stats(1).blocks_in_flight, 0, "blocks are kept for nobody");
	/* Whatever block, whichever shard: repeated, lost, new. */
	for (uint32_t block = 0; block < 3 * WINDOW; block++)
		for (unsigned int s = 0; s < 2; s++) {
			contribute(s, block);
			h = take(s, &word);
			cr_expect_eq(h.status, WEIR_STATUS_STALE, "block %u: %s", block,
				weir_status_text(h.status));
			cr_expect_eq(h.gen_id, WEIR_GEN_JOIN);
		}
	/* The next of them does not end anything any more. */
	asks(0, 6, 5);
	asks(2, 5, 5);
	rig_settle(&rig, &stats);
	cr_expect_eq(job_stats(1).revokes, 1);
	cr_expect_eq(job_stats(1).generation, generation);
	/* The two ask already: with the third it begins, and one that asked once more would end it. */
	join(1, 7);
	for (unsigned int s = 0; s < SOURCES; s++) {
		h = take(s, &word);
		cr_assert_eq(h.status, WEIR_STATUS_OK);
		cr_assert_eq(h.block_id, s == 0 ? 6 : s == 1 ? 7 : 5);
		generation = h.gen_id;
	}
	for (uint32_t block = 0; block < 3 * WINDOW; block++)
		block_is_summed(block);
	cr_expect_eq(job_stats(1).revokes, 1);
	stop();
}

CASE(ppe_revoke, the_generation_ends, revokes(1))
CASE(ppe_revoke, the_generation_ends_on_every_worker, revokes(3))

Test(ppe_revoke, without_revoke_a_join_waits, .timeout = 90)
{
	start(false, 2);
	block_is_summed(0);
	asks(2, 5, 4);
	for (uint32_t block = 1; block < 3 * WINDOW; block++)
		block_is_summed(block);
	cr_expect_eq(job_stats(1).revokes, 0);
	stop();
}

/* The network brings a join once more: that of the generation that runs, or that of the one before. */
Test(ppe_revoke, copied_joins_revoke_nothing, .timeout = 90)
{
	const uint32_t first = 77 + 1000; /* as rig_join has them */
	struct ppe_stats stats;
	struct weir_header h;
	uint32_t word;

	start(true, 2);
	asks(0, 5, 1);
	rig_settle(&rig, &stats);
	generation = rig_join(&rig, 0, false);
	join(2, first + 1000 + 2);
	h = take(2, &word);
	cr_expect_eq(h.status, WEIR_STATUS_OK);
	cr_expect_eq(h.gen_id, generation);
	join(2, first + 2);
	rig_settle(&rig, &stats);
	cr_expect_eq(stats.drops[PPE_DROP_STALE], 1);
	cr_expect_eq(job_stats(1).joining[0], 0);
	for (uint32_t block = 0; block < 2 * WINDOW; block++)
		block_is_summed(block);
	cr_expect_eq(job_stats(1).revokes, 1);
	stop();
}

/* The first one to ask, which ends the generation. */
static void
ends(unsigned int s, uint32_t nonce)
{
	struct ppe_stats stats;

	asks(s, nonce, 1u << s);
	rig_settle(&rig, &stats);
}

/* A join of each brings them into the next generation, and each is told. */
static void
all_begin(const uint32_t *nonce)
{
	uint16_t former = generation;
	struct weir_header h;
	uint32_t word;

	for (unsigned int s = 0; s < SOURCES; s++) {
		h = take(s, &word);
		cr_assert_eq(h.status, WEIR_STATUS_OK, "%u: %s", s, weir_status_text(h.status));
		cr_assert_eq(h.block_id, nonce[s]);
		generation = s == 0 ? h.gen_id : generation;
		cr_assert_eq(h.gen_id, generation);
		cr_assert_neq(h.gen_id, former);
	}
}

/* Source 0 never hears that its generation has begun: its answers are lost. Before it asks again, source 2
 * ends that generation. Its join is as good for the next one, and for the one after that. */
Test(ppe_revoke, source_with_a_lost_answer_stays_joined, .timeout = 90)
{
	uint32_t nonce[SOURCES] = {21, 22, 23};

	start(true, 1);
	ends(2, nonce[2]);
	asks(1, nonce[1], 6);
	join(0, nonce[0]);
	all_begin(nonce);
	for (unsigned int round = 1; round < 4; round++) {
		nonce[2] += 10;
		ends(2, nonce[2]);
		asks(0, nonce[0], 5);
		nonce[1] += 10;
		join(1, nonce[1]);
		all_begin(nonce);
	}
	for (uint32_t block = 0; block < WINDOW; block++)
		block_is_summed(block);
	cr_expect_eq(job_stats(1).revokes, 4);
	stop();
}

/* A join that is not repeated counts for as long as the configuration says: for a second here. */
Test(ppe_revoke, an_old_join_is_forgotten, .timeout = 90)
{
	struct rig_config config = {
		.workers = 1, .threads = 4, .ports = SOURCES, .jobs = 1, .joins_s = 1};

	config.job[0] = rig_job(1, SOURCES, WINDOW, 16);
	rig_start(&rig, &config);
	asks(0, 5, 1);
	rte_delay_us_sleep(1500000);
	asks(1, 6, 2);
	stop();
}

/* But where a source has asked anew, a late copy of the join of the revoked generation is nobody's. */
Test(ppe_revoke, copied_joins_do_not_replace_newer_ones, .timeout = 90)
{
	const uint32_t nonce[SOURCES] = {31, 32, 33};
	struct ppe_stats stats;
	uint32_t first[SOURCES] = {21, 22, 23};

	start(true, 1);
	ends(2, first[2]);
	asks(1, first[1], 6);
	join(0, first[0]);
	all_begin(first);
	ends(2, nonce[2]);
	asks(0, nonce[0], 5);
	join(0, first[0]);
	rig_settle(&rig, &stats);
	cr_expect_eq(stats.drops[PPE_DROP_STALE], 1);
	join(1, nonce[1]);
	all_begin(nonce);
	stop();
}

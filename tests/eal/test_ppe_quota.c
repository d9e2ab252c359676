/* SPDX-License-Identifier: BSD-3-Clause */
/* A job that takes all that it may, and cannot let go of it, takes nothing of another. */
#include <inttypes.h>

#include <criterion/criterion.h>

#include "tests/eal/rig.h"

#define WINDOW   4
#define SOURCES  2
#define ELEMENTS 8

enum { GREEDY, BESIDE, JOBS };

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX];
static uint16_t generation[JOBS];

static void
contribute(unsigned int j, unsigned int source, uint32_t block)
{
	const int32_t ones[ELEMENTS] = {1, 1, 1, 1, 1, 1, 1, 1};
	const struct weir_header h =
		rig_contribution(rig.job[j].id, generation[j], source, block, ELEMENTS);

	rig_offer(&rig, source, &h, ones, sizeof(ones));
}

/* The next result of the job that a source gets is of this block and has this status. */
static void
expect(unsigned int j, unsigned int source, uint32_t block, enum weir_status status)
{
	unsigned int bytes, n = rig_receive(&rig, source, frame, 2000);
	const uint8_t *payload;
	struct weir_header h;

	cr_assert(n > 0 && rig_parse(frame, n, &h, &payload, &bytes), "block %u: nothing", block);
	cr_assert(h.job_id == rig.job[j].id && h.block_id == block && h.status == status,
		"job %u block %u is %s", h.job_id, h.block_id, weir_status_text(h.status));
	cr_assert_eq(payload[0], status == WEIR_STATUS_OK ? SOURCES : 1);
}

static struct ppe_job_stats
job_stats(unsigned int j)
{
	struct ppe_job_stats stats;

	cr_assert_eq(ppe_job_stats_read(rig.ppe, rig.job[j].id, &stats), 0);
	return stats;
}

/* Two windows end without source 1, which acknowledges none: all buffers of the job are in use. */
static void
take_all(void)
{
	for (uint32_t block = 0; block < 2 * WINDOW; block++) {
		contribute(GREEDY, 0, block);
		for (unsigned int s = 0; s < SOURCES; s++)
			expect(GREEDY, s, block, WEIR_STATUS_PARTIAL);
	}
	cr_assert_eq(job_stats(GREEDY).buffers_used, 2 * WINDOW);
}

static void
one_block(unsigned int j, uint32_t block)
{
	for (unsigned int s = 0; s < SOURCES; s++)
		contribute(j, s, block);
	for (unsigned int s = 0; s < SOURCES; s++)
		expect(j, s, block, WEIR_STATUS_OK);
}

static void
run(unsigned int workers)
{
	struct rig_config config = {.workers = workers,
		.threads = 8,
		.ports = SOURCES,
		.jobs = JOBS,
		.job = {rig_job(1, SOURCES, WINDOW, ELEMENTS),
			rig_job(2, SOURCES, WINDOW, ELEMENTS)}};
	struct ppe_job_stats greedy, beside;
	struct ppe_stats stats;
	const char *error;

	config.job[GREEDY].policy = PPE_POLICY_PARTIAL;
	config.job[GREEDY].timeout_ms = 100;
	rig_start(&rig, &config);
	for (unsigned int j = 0; j < JOBS; j++)
		generation[j] = rig_join(&rig, j, false);
	take_all();
	for (uint32_t block = 0; block < 5 * WINDOW; block++) {
		contribute(GREEDY, 0, 2 * WINDOW + block % WINDOW);
		one_block(BESIDE, block);
	}
	rig_settle(&rig, &stats);
	greedy = job_stats(GREEDY);
	beside = job_stats(BESIDE);
	cr_expect_eq(greedy.held_back, 5 * WINDOW);
	cr_expect_eq(greedy.buffers_used, 2 * WINDOW);
	cr_expect_eq(greedy.buffers_reserved, 3 * WINDOW);
	cr_expect_eq(beside.held_back, 0);
	cr_expect_eq(beside.blocks_complete, 5 * WINDOW);
	cr_expect_leq(beside.buffers_used, 2 * WINDOW);
	cr_expect_eq(stats.drops[PPE_DROP_HELD_BACK], 5 * WINDOW);
	cr_expect_eq(stats.drops[PPE_DROP_NO_MEMORY] + stats.drops[PPE_DROP_TABLE_FULL], 0);
	/* It goes on as soon as the other one has acknowledged. */
	for (uint32_t block = WINDOW; block < 2 * WINDOW; block++) {
		contribute(GREEDY, 1, block);
		expect(GREEDY, 1, block, WEIR_STATUS_PARTIAL);
	}
	for (uint32_t block = 2 * WINDOW; block < 3 * WINDOW; block++)
		one_block(GREEDY, block);
	error = rig_stop(&rig);
	cr_expect_null(error, "%s", error);
}

CASE(ppe_quota, one_worker, run(1))
CASE(ppe_quota, two_workers, run(2))

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When stragglers are found: the real timer threads and segments of a switch that does not run, under
 * a clock of the test's own. Of each block the time of detection after its last contribution is
 * compared with its job's timeout: never before 1.0 of it, never after 1.1.
 */
#include <stdlib.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "ppe/ppe_priv.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/programs/programs.h"
#include "tests/eal/rig.h"

#define WINDOW_MAX 64

static struct rig rig;
static struct ppe_worker *worker;
static struct collective *state;
static uint64_t hz, random_state;

/* A job of one source, whose blocks stay open although it has contributed: nobody calls complete(). */
struct stage {
	struct job_shard *js;
	struct block *block[WINDOW_MAX];
	uint64_t left[WINDOW_MAX]; /* contributions to come before it straggles */
	uint64_t last[WINDOW_MAX]; /* simulated TSC of the last */
	uint64_t next[WINDOW_MAX]; /* of the next contribution, or of the first */
	uint64_t soonest; /* of these; not after them */
	uint64_t timeout, noticed;
	unsigned int found;
	double least, most;
};
static struct stage stages[4];

static void
build(const uint32_t *timeouts_ms, unsigned int jobs, unsigned int threads)
{
	struct rig_config config = {.workers = 1, .threads = threads, .ports = 1, .jobs = jobs};

	for (unsigned int j = 0; j < jobs; j++) {
		config.job[j] = rig_job((uint8_t)(j + 1), 1, WINDOW_MAX, 16);
		config.job[j].timeout_ms = timeouts_ms[j];
		config.job[j].fixed_generation = 7;
		config.job[j].policy = (uint8_t)(j % 3);
	}
	rig_build(&rig, &config);
	worker = rig.ppe->worker[0];
	state = (struct collective *)(uintptr_t)ppe_program_state(rig.ppe, &collective_program, 0);
	hz = rte_get_tsc_hz();
	worker->now = worker->seen = ppe_tsc();
	ppe_timer_arm(worker, worker->now);
	for (unsigned int j = 0; j < jobs; j++)
		stages[j] = (struct stage){.js = state->job[j + 1],
			.timeout = timeouts_ms[j] * (hz / 1000),
			.least = 1e9};
}

static void
finish(void)
{
	const char *error;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (state->job[id] != NULL)
			block_forget_all(state, state->job[id], false);
	cr_assert_eq(ppe_start(rig.ppe), 0);
	error = rig_stop(&rig);
	cr_expect_null(error, "%s", error);
}

/* Up to `most` cycles, small ones as likely as large ones. */
static uint64_t
some(uint64_t most)
{
	return rig_random(&random_state) % (1 + (most >> rig_random(&random_state) % 8));
}

static void
open_block(struct stage *s, unsigned int residue)
{
	struct contribution c = {.header = {.job_id = s->js->job,
					 .block_id = (uint32_t)s->js->slot[residue].next,
					 .gen_id = s->js->hop.generation,
					 .collective = WEIR_COLLECTIVE_BARRIER}};
	enum weir_status status;

	hash_begin(state->blocks, block_key(s->js->hop.generation, s->js->job, c.header.block_id),
		&c.probe);
	hash_find(state->blocks, &c.probe);
	cr_assert_eq(block_open(state, s->js, &c, worker->now, &s->block[residue], &status),
		PPE_DROP_COUNT);
	s->block[residue]->heard_count = 1;
	s->left[residue] = some(6);
}

/* A contribution: the first opens, others are progress. */
static void
contribute(struct stage *s, unsigned int residue)
{
	if (s->block[residue] == NULL)
		open_block(s, residue);
	else
		s->left[residue]--;
	s->block[residue]->progress = s->last[residue] = worker->now;
	s->next[residue] =
		s->left[residue] == 0 ? UINT64_MAX : worker->now + some(s->timeout * 99 / 100);
}

/* Has the switch noticed? Then the block is over, and another one begins. */
static void
look_for(struct stage *s, unsigned int residue)
{
	struct block *b = s->block[residue];
	double ratio;

	if (b == NULL || (b->state == BLOCK_OPEN && !b->overdue))
		return;
	ratio = (double)(worker->now - s->last[residue]) / (double)s->timeout;
	s->least = RTE_MIN(s->least, ratio);
	s->most = RTE_MAX(s->most, ratio);
	s->found++;
	cr_assert_eq(s->left[residue], 0, "found between two contributions, %f", ratio);
	if (b->state == BLOCK_OPEN)
		block_finish(state, s->js, b, WEIR_STATUS_ERROR);
	s->block[residue] = NULL;
	s->next[residue] = worker->now + some(s->timeout);
	s->soonest = RTE_MIN(s->soonest, s->next[residue]);
}

/* All contributions that are due. Were there any? */
static bool
receive(struct stage *s)
{
	if (s->soonest > worker->now)
		return false;
	s->soonest = UINT64_MAX;
	for (unsigned int r = 0; r < WINDOW_MAX; r++) {
		if (s->next[r] <= worker->now)
			contribute(s, r);
		s->soonest = RTE_MIN(s->soonest, s->next[r]);
	}
	return true;
}

/* All stragglers that the switch has counted. */
static void
notice(struct stage *s)
{
	const struct ppe_job_stats *n = &s->js->count;
	uint64_t noticed = n->blocks_waiting + n->blocks_partial + n->blocks_error;

	if (noticed == s->noticed)
		return;
	for (unsigned int r = 0; r < WINDOW_MAX; r++)
		look_for(s, r);
	s->noticed = n->blocks_waiting + n->blocks_partial + n->blocks_error;
}

/* A turn of the loop: timers, packets, segments. `passed`: since the turn before. */
static void
turn(unsigned int jobs, uint64_t passed)
{
	bool any = false;

	worker->seen = worker->now;
	worker->now += passed;
	ppe_timer_launch(worker);
	for (unsigned int j = 0; j < jobs; j++)
		any |= receive(&stages[j]);
	if (!any)
		worker->seen = worker->now;
	while (worker->live_count > 0) {
		unsigned int live = 0;

		for (unsigned int i = 0; i < worker->live_count; i++) {
			struct ppe_thread *thread = worker->live[i];

			thread->next = thread->next.run(worker, thread);
			if (thread->next.run != NULL)
				worker->live[live++] = thread;
			else
				worker->free[worker->free_count++] = thread;
		}
		worker->live_count = (uint16_t)live;
	}
	for (unsigned int j = 0; j < jobs; j++)
		notice(&stages[j]);
}

/* How long a worker sleeps that may for `most`, and takes a little longer. */
static uint64_t
slept(uint64_t most)
{
	uint64_t wake = ppe_timer_wake(worker), late = some(hz / 50000);

	return late + (wake <= worker->now ? 0 : RTE_MIN(wake - worker->now, most));
}

/* turn_us: of a turn, at most; sleep_us: after each, 0: none. */
static void
play(const uint32_t *timeouts_ms, unsigned int jobs, uint64_t seconds, uint64_t turn_us,
	uint64_t sleep_us)
{
	uint64_t end, us;

	random_state = rig_seed();
	build(timeouts_ms, jobs, 4);
	us = hz / 1000000;
	end = worker->now + seconds * hz;
	for (unsigned int j = 0; j < jobs; j++)
		for (unsigned int r = 0; r < WINDOW_MAX; r++)
			stages[j].next[r] = worker->now + some(stages[j].timeout);
	while (worker->now < end)
		turn(jobs, 1 + some(turn_us * us) + (sleep_us > 0 ? slept(sleep_us * us) : 0));
	for (unsigned int j = 0; j < jobs; j++) {
		struct stage *s = &stages[j];

		printf("timeout %u ms: %u blocks, detection / timeout %f to %f\n", timeouts_ms[j],
			s->found, s->least, s->most);
		cr_expect_gt(s->found, 50);
		cr_expect_geq(s->least, 1.0);
		cr_expect_leq(s->most, 1.1);
	}
	finish();
}

/* A play with these timeouts. */
#define PLAY(name, seconds, turn_us, sleep_us, ...)                                                \
	Test(ppe_timers, name, .timeout = 250)                                                     \
	{                                                                                          \
		static const uint32_t ms[] = {__VA_ARGS__};                                        \
                                                                                                   \
		play(ms, RTE_DIM(ms), seconds, turn_us, sleep_us);                                 \
	}

PLAY(short_timeouts, 2, 20, 0, 1, 2, 5, 10)
PLAY(timeouts_of_the_middle, 15, 200, 0, 20, 50, 200, 500)
PLAY(the_shortest_beside_the_longest, 130, 20, 0, 1, 60000, 100, 1000)
PLAY(the_longest_alone, 600, 10000, 0, 60000)

/* A worker that has nothing to do may sleep for longer than a timeout, but not past it. */
PLAY(of_a_worker_that_sleeps, 15, 5, 10000, 1, 5, 100, 2000)
PLAY(of_a_worker_that_seldom_has_to_wake, 300, 5, 10000, 1000, 60000)

/* Blocks that are open when their job gets another timeout, or policy, are judged by that. */
Test(ppe_timers, open_blocks_follow_their_job, .timeout = 90)
{
	const uint32_t long_ms = 60000;
	struct ppe_job job;
	struct ppe_jobs jobs = {0};
	struct stage *s = &stages[0];

	random_state = rig_seed();
	build(&long_ms, 1, 4);
	for (unsigned int r = 0; r < WINDOW_MAX; r++) {
		contribute(s, r);
		s->left[r] = 0;
	}
	job = rig.job[0];
	job.timeout_ms = 10;
	jobs.by_id[job.id] = &job;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &jobs), 0);
	for (unsigned int us = 0; us < 9900; us += 20)
		turn(0, hz / 50000);
	cr_expect_eq(s->js->count.blocks_waiting, 0);
	for (unsigned int us = 9900; us < 11000; us += 20)
		turn(0, hz / 50000);
	cr_expect_eq(s->js->count.blocks_waiting, WINDOW_MAX);

	/* What has been left to wait is not left when that is over. */
	job.policy = PPE_POLICY_PARTIAL;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &jobs), 0);
	for (unsigned int us = 0; us < 1000; us += 20)
		turn(0, hz / 50000);
	cr_expect_eq(s->js->count.blocks_partial, WINDOW_MAX);
	finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches, turned by hand: which packets they take, what they make of them, and that nothing overtakes what its source sent
 * before. The other tests of this folder run with batches, too, and with WEIR_BATCH=1 without.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ppe/ppe_priv.h"
#include "tests/fuzz/turned.h"

#define ELEMENTS 64
#define SOURCES  3
#define WINDOW   16
#define GEN      7
#define FIRST    2 /* block that batches take */

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX];

static unsigned int
write_contribution(unsigned int source, uint32_t block)
{
	const struct weir_header h = rig_contribution(1, GEN, source, block, ELEMENTS);
	uint32_t values[ELEMENTS];

	for (unsigned int i = 0; i < ELEMENTS; i++)
		values[i] = (source + 1) * 1000 + block * 10 + i;
	return rig_frame(frame, source, &h, values, sizeof(values));
}

static void
contribute(unsigned int source, uint32_t block)
{
	rig_send(&rig, source, frame, write_contribution(source, block));
}

/* A turn, and how many packets its batches took. */
static uint64_t
turn(void)
{
	const struct ppe_worker_stats *count = &rig.ppe->worker[0]->count.worker;
	uint64_t before = count->batched;

	turned_turn(&rig);
	return count->batched - before;
}

/* The next result at the port is the block's. */
static void
expect_result(unsigned int port, uint32_t block)
{
	struct weir_header h;
	const uint8_t *payload;
	unsigned int bytes;
	uint32_t value;

	cr_assert(rig_parse(frame, rig_receive(&rig, port, frame, 0), &h, &payload, &bytes),
		"port %u has no result of block %u", port, block);
	cr_assert_eq(h.block_id, block);
	memcpy(&value, payload + 4 * 7, sizeof(value));
	cr_assert_eq(value, 6000 + SOURCES * (block * 10 + 7));
	cr_assert(rig_checksums_hold(frame));
}

/* The next results at each port are those of the blocks [from, to). */
static void
expect_results(uint32_t from, uint32_t to)
{
	turned_rest(&rig);
	for (unsigned int port = 0; port < SOURCES; port++)
		for (uint32_t block = from; block < to; block++)
			expect_result(port, block);
}

/* A job whose sources' headers are known. */
static void
start(uint16_t threads)
{
	struct rig_config config = {.workers = 1, .threads = threads, .ports = SOURCES, .jobs = 1};

	config.job[0] = rig_job(1, SOURCES, WINDOW, ELEMENTS);
	config.job[0].fixed_generation = GEN;
	setenv("WEIR_BATCH", "256", 1);
	turned_start(&rig, &config);
	/* The first packet tells the source's endpoint, the second one its headers. */
	for (uint32_t block = 0; block < FIRST; block++) {
		for (unsigned int s = 0; s < SOURCES; s++)
			contribute(s, block);
		cr_assert_eq(turn(), 0);
	}
	expect_results(0, FIRST);
}

static void
stop(void)
{
	turned_rest(&rig);
	for (unsigned int port = 0; port < SOURCES; port++)
		while (rig_receive(&rig, port, frame, 0) > 0)
			;
	turned_check_packets(&rig);
	ppe_destroy(rig.ppe, NULL);
	rig_stop_eal();
}

Test(ppe_batch, a_window_in_one_turn, .timeout = 90)
{
	start(4);
	for (uint32_t block = FIRST; block < WINDOW; block++)
		for (unsigned int s = 0; s < SOURCES; s++)
			contribute(s, block);
	cr_assert_eq(turn(), (WINDOW - FIRST) * SOURCES);
	expect_results(FIRST, WINDOW);
	/* The next block of a residue is opened when the one before has been answered. */
	for (unsigned int s = 0; s < SOURCES; s++)
		contribute(s, WINDOW);
	cr_assert_eq(turn(), SOURCES);
	expect_results(WINDOW, WINDOW + 1);
	stop();
}

/* A source's packets behind one that is for a thread are for threads; other sources' are not. */
Test(ppe_batch, nothing_overtakes, .timeout = 90)
{
	const struct weir_header acknowledgement = {.job_id = 1,
		.block_id = FIRST,
		.gen_id = GEN,
		.extended = true,
		.collective = WEIR_COLLECTIVE_ACKNOWLEDGE};
	struct ppe_job_stats job;

	start(4);
	contribute(0, FIRST);
	contribute(0, FIRST); /* a duplicate */
	contribute(0, FIRST + 1);
	for (uint32_t block = FIRST; block < FIRST + 2; block++)
		for (unsigned int s = 1; s < SOURCES; s++)
			contribute(s, block);
	cr_assert_eq(turn(), 1 + 4);
	expect_results(FIRST, FIRST + 1);
	expect_result(0, FIRST); /* the duplicate's answer */
	expect_results(FIRST + 1, FIRST + 2);
	cr_assert_eq(ppe_job_stats_read(rig.ppe, 1, &job), 0);
	cr_assert_eq(job.asked_again, 1, "the duplicate comes after the result");
	cr_assert_eq(turn(), 0);
	contribute(0, FIRST + 2); /* in the next turn it is over */
	rig_offer(&rig, 0, &acknowledgement, NULL, 0);
	contribute(0, FIRST + 3);
	cr_assert_eq(turn(), 1);
	stop();
}

/* What cannot be told from the fixed places of a frame may be anybody's; a frame for another host is nobody's. */
Test(ppe_batch, unusual_frames, .timeout = 90)
{
	unsigned int bytes;

	start(4);
	contribute(0, FIRST);
	bytes = write_contribution(1, FIRST);
	frame[0] ^= 4;
	rig_send(&rig, 0, frame, bytes);
	contribute(0, FIRST + 1);
	cr_assert_eq(turn(), 2);
	bytes = write_contribution(1, FIRST);
	memmove(frame + 16, frame + 12, bytes - 12); /* a VLAN tag */
	memcpy(frame + 12, (uint8_t[]){0x81, 0, 0, 1}, 4);
	rig_send(&rig, 0, frame, bytes + 4);
	contribute(0, FIRST + 2);
	contribute(2, FIRST + 2); /* another port is received later, or earlier */
	cr_assert_leq(turn(), 1);
	stop();
}

/* A damaged payload is not added, and its source may send it again. */
Test(ppe_batch, damaged, .timeout = 90)
{
	unsigned int bytes;

	start(4);
	bytes = write_contribution(0, FIRST);
	frame[bytes - 1] ^= 1;
	rig_send(&rig, 0, frame, bytes);
	contribute(1, FIRST);
	contribute(2, FIRST);
	cr_assert_eq(turn(), 3);
	contribute(0, FIRST);
	cr_assert_eq(turn(), 1);
	expect_results(FIRST, FIRST + 1);
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that number their blocks with few bits, as a capture in a loop does. */
#include <inttypes.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/eal/rig.h"

#define SOURCES  2
#define WINDOW   64
#define ELEMENTS 2
#define BITS     8
#define BLOCKS   (1u << BITS) /* four windows: the fewest that are allowed */
#define JOB      3
#define GEN      9

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX];

static void
start(void)
{
	struct rig_config config = {.workers = 2,
		.threads = 8,
		.ports = SOURCES,
		.jobs = 1,
		.job = {rig_job(JOB, SOURCES, WINDOW, ELEMENTS)}};

	config.job[0].fixed_generation = GEN;
	config.job[0].block_shift = 32 - BITS;
	rig_start(&rig, &config);
}

static void
stop(void)
{
	const char *books = rig_stop(&rig);

	cr_expect_null(books, "%s", books);
}

/* What a source adds to a block. The same in every loop, as in a capture. */
static int32_t
value(unsigned int source, uint32_t block)
{
	return (int32_t)((block % BLOCKS + 1) * (source + 1));
}

static void
offer(unsigned int source, uint32_t block)
{
	struct weir_header h = {.job_id = JOB,
		.gen_id = GEN,
		.src_id = (uint8_t)source,
		.block_id = block,
		.grad_cnt = ELEMENTS,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};
	int32_t values[ELEMENTS] = {value(source, block), -value(source, block)};

	rig_send(&rig, source, frame, rig_frame(frame, source, &h, values, sizeof(values)));
}

/* The next frame for a source answers this block: with its sum, or with a status alone. */
static void
expect(unsigned int source, uint32_t block, enum weir_status status)
{
	struct weir_header h = {.status = 255};
	unsigned int n = rig_receive(&rig, source, frame, 2000), bytes;
	const uint8_t *payload;
	int32_t sum;

	cr_assert_gt(n, 0, "block %" PRIu32 ": source %u gets nothing", block, source);
	cr_assert(rig_parse(frame, n, &h, &payload, &bytes));
	cr_assert_eq(h.status, status, "block %" PRIu32 ": %s, not %s", block,
		weir_status_text(h.status), weir_status_text(status));
	cr_assert_eq(h.block_id, block % BLOCKS, "block %" PRIu32 ", not %" PRIu32, h.block_id,
		block % BLOCKS);
	if (status != WEIR_STATUS_OK)
		return;
	cr_assert_eq(bytes, ELEMENTS * 4);
	memcpy(&sum, payload, sizeof(sum));
	cr_assert_eq(
		sum, value(0, block) + value(1, block), "block %" PRIu32 ": %" PRIi32, block, sum);
}

static void
reduce(uint32_t block)
{
	for (unsigned int s = 0; s < SOURCES; s++)
		offer(s, block);
	for (unsigned int s = 0; s < SOURCES; s++)
		expect(s, block, WEIR_STATUS_OK);
}

Test(ppe_block_bits, loops_follow_each_other, .timeout = 30)
{
	struct ppe_stats stats;

	start();
	/* The ids themselves repeat in one half of the loops, and go on in the other. */
	for (uint32_t i = 0; i < 6 * BLOCKS; i++)
		reduce(i / BLOCKS % 2 == 0 ? i % BLOCKS : i);
	rig_settle(&rig, &stats);
	cr_expect_eq(stats.drops[PPE_DROP_EXPIRED], 0);
	cr_expect_eq(stats.drops[PPE_DROP_WINDOW], 0);
	cr_expect_eq(stats.drops[PPE_DROP_LATE], 0);
	stop();
}

Test(ppe_block_bits, past_and_future_are_half_the_numbers, .timeout = 30)
{
	start();
	for (uint32_t b = 0; b < BLOCKS + 1; b++)
		reduce(b);
	/* Residue 0 awaits block 64: 128 is ahead of it, and 192 as far ahead as behind, so over. */
	offer(0, 128);
	expect(0, 128, WEIR_STATUS_WINDOW);
	offer(0, 192);
	expect(0, 192, WEIR_STATUS_EXPIRED);
	offer(0, 0);
	expect(0, 0, WEIR_STATUS_OK);
	reduce(64);
	offer(0, 0);
	expect(0, 0, WEIR_STATUS_EXPIRED);
	offer(0, 192);
	expect(0, 192, WEIR_STATUS_WINDOW);
	stop();
}

Test(ppe_block_bits, the_next_loop_repairs_a_loss, .timeout = 30)
{
	const uint32_t lost = 70, residue = lost % WINDOW;

	start();
	for (uint32_t b = 0; b < BLOCKS; b++) {
		if (b % WINDOW != residue || b < lost) {
			reduce(b);
			continue;
		}
		for (unsigned int s = 0; s < SOURCES; s++) {
			if (b != lost || s == 0)
				offer(s, b);
			if (b != lost)
				expect(s, b, WEIR_STATUS_WINDOW);
		}
	}
	for (uint32_t b = 0; b < 2 * BLOCKS; b++) {
		/* What source 0 sends is a repeat now, for the lost block; the one before that is
		 * kept for those who ask again. */
		if (b == lost - WINDOW) {
			for (unsigned int s = 0; s < SOURCES; s++) {
				offer(s, b);
				expect(s, b, WEIR_STATUS_OK);
			}
		} else {
			reduce(b);
		}
	}
	stop();
}

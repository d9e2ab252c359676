/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that number their blocks with few bits, as a capture in a loop does. */
#include <inttypes.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/eal/one_rig.h"
#include "tests/model/switch_model.h"

#define SOURCES  2
#define WINDOW   64
#define ELEMENTS 2
#define BITS     8
#define BLOCKS   (1u << BITS) /* four windows: the fewest that are allowed */
#define JOB      3
#define GEN      9

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
	config.job[0].timeout_ms = 60000;
	rig_start(&rig, &config);
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
	struct weir_header h = rig_contribution(JOB, GEN, source, block, ELEMENTS);
	int32_t values[ELEMENTS] = {value(source, block), -value(source, block)};

	rig_offer(&rig, source, &h, values, sizeof(values));
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

Test(ppe_block_bits, loops_follow_each_other, .timeout = 90)
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

Test(ppe_block_bits, past_and_future_are_half_the_numbers, .timeout = 90)
{
	start();
	for (uint32_t b = 0; b < BLOCKS + 1; b++)
		reduce(b);
	/*
	 * Residue 0 awaits block 64: 128 is ahead of it, and 192 as far ahead as behind, so over.
	 */
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

Test(ppe_block_bits, the_next_loop_repairs_a_loss, .timeout = 90)
{
	const uint32_t lost = 70, residue = lost % WINDOW;
	struct ppe_stats stats;

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
		if (b == lost - WINDOW) {
			/* The one before the lost one is kept for those who ask again. */
			for (unsigned int s = 0; s < SOURCES; s++) {
				offer(s, b);
				expect(s, b, WEIR_STATUS_OK);
			}
		} else if (b == lost) {
			/* What source 0 sends is a repeat, and is not answered. */
			offer(0, b);
			rig_settle(&rig, &stats);
			offer(1, b);
			for (unsigned int s = 0; s < SOURCES; s++)
				expect(s, b, WEIR_STATUS_OK);
		} else {
			reduce(b);
		}
	}
	stop();
}

/* What the reference switch sends in answer to one contribution. */
static struct {
	unsigned int count;
	unsigned int source[SOURCES];
	size_t size[SOURCES];
	uint8_t bytes[SOURCES][WEIR_EXT_BYTES + ELEMENTS * 4];
} answers;

static void
keep(void *argument, const struct model_packet *packet)
{
	unsigned int n = answers.count++;

	(void)argument;
	cr_assert_lt(n, SOURCES);
	answers.source[n] = packet->to.address - rig_source_ip(0);
	answers.size[n] = packet->size;
	memcpy(answers.bytes[n], packet->bytes, packet->size);
}

/* One contribution to both switches; every byte that comes back is the same. */
static void
offer_both(struct model *model, unsigned int source, uint32_t block)
{
	struct weir_header h = rig_contribution(JOB, GEN, source, block, ELEMENTS);
	int32_t values[ELEMENTS] = {value(source, block), -value(source, block)};
	struct model_peer from = {.address = rig_source_ip(source), .port = 40000};
	unsigned int size = rig_frame(frame, source, &h, values, sizeof(values));
	struct ppe_stats stats;

	rig_send(&rig, source, frame, size);
	answers.count = 0;
	model_input(model, 0, true, &from, frame + 42, size - 42, keep, NULL);
	/* What is not answered must be done with before the next one comes by another port. */
	if (answers.count == 0)
		rig_settle(&rig, &stats);
	for (unsigned int n = 0; n < answers.count; n++) {
		unsigned int got = rig_receive(&rig, answers.source[n], frame, 2000);

		cr_assert_geq(got, 42 + answers.size[n], "block %" PRIu32 ": %u bytes", block, got);
		cr_assert_arr_eq(frame + 42, answers.bytes[n], answers.size[n],
			"block %" PRIu32 " of source %u", block, source);
	}
}

/* Mostly the next block of each source, in between any id, with any high bits. */
Test(ppe_block_bits, as_the_reference_switch, .timeout = 90)
{
	struct model_config config = {.job = JOB,
		.sources = SOURCES,
		.window = WINDOW,
		.elements = ELEMENTS,
		.dtype = WEIR_DTYPE_INT32,
		.op = WEIR_OP_SUM,
		.timeout_ms = 60000,
		.fixed_generation = GEN,
		.block_bits = BITS};
	struct model *model = model_create(&config);
	uint64_t random = rig_seed();
	uint32_t next[SOURCES] = {0};
	struct ppe_stats stats;

	cr_assert_not_null(model);
	start();
	/* Both know where the sources are before an answer could need it. */
	for (unsigned int s = 0; s < SOURCES; s++)
		offer_both(model, s, 0);
	for (unsigned int i = 0; i < 4000; i++) {
		unsigned int s = (unsigned int)(rig_random(&random) % SOURCES);
		uint32_t high = (uint32_t)rig_random(&random) << BITS;
		uint64_t dice = rig_random(&random) % 16;

		if (dice == 0) {
			offer_both(model, s, (uint32_t)rig_random(&random));
		} else if (dice == 1) {
			next[s] -= (uint32_t)rig_random(&random) % 8; /* some again */
		} else {
			if (next[s] - next[1 - s] + 8 < 17 || next[s] < next[1 - s])
				next[s]++;
			else
				s = 1 - s;
			offer_both(model, s, (next[s] & (BLOCKS - 1)) | high);
		}
	}
	rig_settle(&rig, &stats);
	cr_expect_gt(stats.drops[PPE_DROP_WINDOW], 0);
	cr_expect_gt(stats.drops[PPE_DROP_EXPIRED], 0);
	cr_expect_gt(stats.drops[PPE_DROP_LATE], 0);
	cr_expect_gt(stats.drops[PPE_DROP_DUPLICATE], 0);
	model_destroy(model);
	stop();
}

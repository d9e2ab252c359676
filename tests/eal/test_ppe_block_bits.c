/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that number their blocks with few bits, as a capture in a loop does. */
#include <inttypes.h>

#include "tests/eal/bench.h"
#include "tests/model/switch_model.h"

#define SOURCES  2
#define WINDOW   64
#define ELEMENTS 2
#define BITS     8
#define BLOCKS   (1u << BITS) /* four windows: the fewest that are allowed */
#define GEN      9

static void
with_few_bits(struct rig_config *config)
{
	config->job[0].block_shift = 32 - BITS;
}

static void
start_with_few_bits(void)
{
	start(.window = WINDOW, .elements = ELEMENTS, .generation = GEN, .timeout_ms = 60000,
		.change = with_few_bits);
}

Test(ppe_block_bits, loops_follow_each_other, .timeout = 90)
{
	start_with_few_bits();
	/* The ids themselves repeat in one half of the loops, and go on in the other. */
	for (uint32_t i = 0; i < 6 * BLOCKS; i++)
		reduce(i / BLOCKS % 2 == 0 ? i % BLOCKS : i);
	expect_drop(PPE_DROP_EXPIRED, 0);
	expect_drop(PPE_DROP_WINDOW, 0);
	expect_drop(PPE_DROP_LATE, 0);
	stop();
}

Test(ppe_block_bits, past_and_future_are_half_the_numbers, .timeout = 90)
{
	/* Residue 0 awaits block 64: 128 is ahead of it, and 192 as far ahead as behind, so over. Then it awaits 128. */
	static const struct {
		uint32_t block;
		enum weir_status status;
	} first[] = {{128, WEIR_STATUS_WINDOW}, {192, WEIR_STATUS_EXPIRED}, {0, WEIR_STATUS_OK}},
	  then[] = {{0, WEIR_STATUS_EXPIRED}, {192, WEIR_STATUS_WINDOW}};

	start_with_few_bits();
	for (uint32_t block = 0; block < BLOCKS + 1; block++)
		reduce(block);
	for (unsigned int i = 0; i < RTE_DIM(first); i++) {
		contribute(0, first[i].block);
		expect(0, first[i].block, first[i].status, 0);
	}
	reduce(64);
	for (unsigned int i = 0; i < RTE_DIM(then); i++) {
		contribute(0, then[i].block);
		expect(0, then[i].block, then[i].status, 0);
	}
	stop();
}

Test(ppe_block_bits, the_next_loop_repairs_a_loss, .timeout = 90)
{
	const uint32_t lost = 70;

	start_with_few_bits();
	for (uint32_t block = 0; block < BLOCKS; block++) {
		if (block == lost) {
			contribute(0, block);
		} else if (block < lost || block % WINDOW != lost % WINDOW) {
			reduce(block);
		} else {
			contribute_all(block);
			expect_all(block, WEIR_STATUS_WINDOW, 0);
		}
	}
	for (uint32_t block = 0; block < 2 * BLOCKS; block++) {
		if (block == lost) { /* What source 0 sends is a repeat, and is not answered. */
			contribute(0, block);
			rig_rest(&rig);
			contribute(1, block);
			expect_all(block, WEIR_STATUS_OK, 0);
		} else { /* that before the lost one is kept for those who ask again */
			reduce(block);
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
	const struct weir_header h = contribution(source, block);
	const struct model_peer from = {.address = rig_source_ip(source), .port = 40000};
	unsigned int size = write_frame(&h, 4 * ELEMENTS);

	rig_send(&rig, source, frame, size);
	answers.count = 0;
	model_input(model, 0, true, &from, frame + 42, size - 42, keep, NULL);
	/* What is not answered must be done with before the next one comes by another port. */
	rig_rest(&rig);
	for (unsigned int n = 0; n < answers.count; n++) {
		cr_assert(received(answers.source[n]), "block %" PRIu32, block);
		cr_assert_arr_eq(frame + 42, answers.bytes[n], answers.size[n],
			"block %" PRIu32 " of source %u", block, source);
	}
}

/* Mostly the next block of each source, in between any id, with any high bits. */
Test(ppe_block_bits, as_the_reference_switch, .timeout = 90)
{
	struct model_config config = {.job = 1,
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

	cr_assert_not_null(model);
	start_with_few_bits();
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
	cr_expect_gt(drops(PPE_DROP_WINDOW), 0);
	cr_expect_gt(drops(PPE_DROP_EXPIRED), 0);
	cr_expect_gt(drops(PPE_DROP_LATE), 0);
	cr_expect_gt(drops(PPE_DROP_DUPLICATE), 0);
	model_destroy(model);
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that number their blocks with few bits, as a capture in a loop does; one is beside the reference model: test_ppe_model.c */
#include "tests/eal/bench.h"

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

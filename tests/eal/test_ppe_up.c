/* SPDX-License-Identifier: BSD-3-Clause */
/* Each transition of a block on its way up (docs/tree.md), each loss, and who is taken for the parent. */
#include "tests/eal/leaf_rig.h"

/* ---- the transitions ---- */

BOTH(up_and_down)
{
	start(workers);
	for (uint32_t block = 0; block < 4 * WINDOW; block++) {
		contribute(FIRST, block);
		contribute(FIRST + 1, block);
		expect_silence();
		contribute(FIRST + 2, block);
		expect_sum_above(block, 0x70);
		expect_silence();
		answer(block, WEIR_STATUS_OK);
		expect_results(block, WEIR_STATUS_OK);
	}
	cr_assert_eq(stats().upward, 4 * WINDOW);
	cr_assert_eq(stats().upward_repeats, 0);
	cr_assert_eq(stats().answers, 4 * WINDOW);
	cr_assert_eq(stats().blocks_complete, 4 * WINDOW);
	stop();
}

/* Any packet of any host about the block repeats it, at most once per millisecond, byte for byte. */
BOTH(a_repetition_goes_up_once_per_millisecond)
{
	static uint8_t first[RIG_FRAME_MAX];

	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	memcpy(first, frame, L4 + WEIR_EXT_BYTES + payload_bytes);
	contribute_all(0);
	expect_silence(); /* within the same millisecond */
	rig_turn_after_us(&rig, 1001);
	contribute_all(0);
	acknowledge(FIRST, 0);
	expect_sum_above(0, 0x70);
	cr_assert_arr_eq(frame, first, L4 + WEIR_EXT_BYTES + payload_bytes);
	expect_silence();
	rig_turn_after_us(&rig, 1001);
	acknowledge(FIRST + 1, 0); /* of the block before: it asks for this one's result, too */
	expect_sum_above(0, 0x70);
	cr_assert_eq(stats().upward, 3);
	cr_assert_eq(stats().upward_repeats, 2);
	cr_assert_eq(stats().duplicates, 6);
	cr_assert_eq(drops(PPE_DROP_DUPLICATE), 6);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	rig_turn_after_us(&rig, 1001);
	contribute(FIRST + 1, 0); /* it is done: this host alone is answered */
	expect_result(FIRST + 1, 0, WEIR_STATUS_OK);
	answer(0, WEIR_STATUS_OK); /* the answer to a repetition */
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_DUPLICATE), 7);
	stop();
}

/* The leaf repeats nothing of its own accord. */
BOTH(no_timer_repeats)
{
	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	rig_pass_us(10 * 1000 * TIMEOUT);
	expect_silence();
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	stop();
}

/* The leaf tells the parent that it has a block's result, when a host's packet asks for the next one. */
BOTH(acknowledgements)
{
	start(workers);
	run_block(0);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		acknowledge(rank, WINDOW);
	expect_above(WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	cr_assert_eq(payload_bytes, 0);
	cr_assert_eq(got.grad_cnt, 0);
	expect_silence();
	acknowledge(FIRST, WINDOW);
	expect_silence();
	rig_turn_after_us(&rig, 1001);
	acknowledge(FIRST, WINDOW);
	expect_above(WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	cr_assert_eq(stats().acknowledged, OWN);
	cr_assert_eq(stats().upward, 3);
	/* A block that some contribute to is not acknowledged: they will complete it. */
	contribute(FIRST, WINDOW);
	rig_turn_after_us(&rig, 1001);
	acknowledge(FIRST, WINDOW);
	acknowledge(FIRST, 2 * WINDOW);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_WINDOW), 1);
	contribute(FIRST + 1, WINDOW);
	contribute(FIRST + 2, WINDOW);
	expect_sum_above(WINDOW, 0x70);
	answer(WINDOW, WEIR_STATUS_OK);
	expect_results(WINDOW, WEIR_STATUS_OK);
	stop();
}

/* A contribution that is held back, because a host has not said that it has an older result, acknowledges the newer one. */
BOTH(held_back)
{
	start(workers);
	run_block(0);
	/* The parent ends the next block without this rack. */
	answer(WINDOW, WEIR_STATUS_PARTIAL);
	expect_results(WINDOW, WEIR_STATUS_PARTIAL);
	rig_turn_after_us(&rig, 1001);
	contribute(FIRST, 2 * WINDOW);
	contribute(FIRST + 1, 2 * WINDOW);
	expect_above(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_HELD_BACK), 2);
	/* A result for which there is no buffer comes again later. */
	answer(2 * WINDOW, WEIR_STATUS_PARTIAL);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_HELD_BACK), 3);
	contribute(FIRST + 2, 2 * WINDOW); /* now all have the old one */
	rig_rest(&rig);
	contribute(FIRST, 2 * WINDOW);
	contribute(FIRST + 1, 2 * WINDOW);
	expect_sum_above(2 * WINDOW, 0x70);
	answer(2 * WINDOW, WEIR_STATUS_OK);
	expect_results(2 * WINDOW, WEIR_STATUS_OK);
	stop();
}

/* The parent's result counts, whatever the leaf has of the block. */
BOTH(not_asked_for)
{
	start(workers);
	/* Nothing. */
	answer(0, WEIR_STATUS_PARTIAL);
	expect_silence(); /* no host has an endpoint yet */
	contribute_all(0);
	expect_results(0, WEIR_STATUS_PARTIAL);
	cr_assert_eq(stats().late, OWN);
	/* A part of it. */
	contribute(FIRST, WINDOW);
	answer(WINDOW, WEIR_STATUS_PARTIAL);
	expect_results(WINDOW, WEIR_STATUS_PARTIAL);
	contribute(FIRST + 1, WINDOW);
	expect_result(FIRST + 1, WINDOW, WEIR_STATUS_PARTIAL);
	cr_assert_eq(stats().upward, 0);
	cr_assert_eq(stats().blocks_partial, 2);
	/* Older and newer ones are not taken. */
	answer(0, WEIR_STATUS_OK);
	answer(2 * WINDOW + 2 * WINDOW, WEIR_STATUS_OK);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_DUPLICATE), 1);
	cr_assert_eq(drops(PPE_DROP_WINDOW), 1);
	cr_assert_eq(stats().answers, 2);
	contribute_all(2 * WINDOW); /* one may still want the first */
	expect_above(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	expect_silence();
	contribute_all(2 * WINDOW);
	expect_sum_above(2 * WINDOW, 0x70);
	answer(2 * WINDOW, WEIR_STATUS_OK);
	expect_results(2 * WINDOW, WEIR_STATUS_OK);
	stop();
}

/* The parent finished the block as another one than the hosts here send: they are told what it is. */
BOTH(another_block)
{
	struct weir_header h;

	start(workers);
	h = rig_contribution(JOB, GEN, FIRST, 0, 0);
	h.collective = WEIR_COLLECTIVE_BARRIER;
	h.dtype = 0;
	offer(FIRST, &h, NULL, 0);
	answer(0, WEIR_STATUS_PARTIAL);
	expect_result(FIRST, 0, WEIR_STATUS_PARTIAL);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_ALLREDUCE);
	expect_silence();
	stop();
}

/* A parent's results may be without elements where hosts sent some. */
BOTH(without_elements)
{
	struct weir_header h;

	start(workers);
	run_block(0);
	run_block(1);
	contribute(FIRST, 2);
	for (uint32_t block = 2; block < 4; block++) {
		h = header_to_parent(block, WEIR_STATUS_OK);
		h.collective = WEIR_COLLECTIVE_BARRIER;
		h.op = 0;
		h.dtype = 0;
		h.grad_cnt = 0;
		say(&h, NULL, 0);
		for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
			expect_below(rank, block, WEIR_STATUS_OK);
			cr_assert_eq(payload_bytes, 0);
		}
	}
	expect_silence();
	stop();
}

/* The timeout ends the collection: what is there goes up, and the late host is not added. */
BOTH(partial)
{
	start_with_policy(workers, PPE_POLICY_PARTIAL);
	run_block(0);
	for (unsigned int round = 1; round < 4; round++) {
		uint32_t block = round * WINDOW;

		contribute(FIRST, block);
		contribute(FIRST + 2, block);
		expect_silence();
		rig_pass_us(1200 * TIMEOUT);
		expect_sum_above(block, 0x50);
		expect_silence();
		rig_turn_after_us(&rig, 1001);
		contribute(FIRST + 1, block);
		expect_sum_above(block, 0x50);
		expect_silence();
		contribute(FIRST + 1, block);
		expect_silence();
		cr_assert_eq(stats().late, round);
		cr_assert_eq(stats().duplicates, round);
		answer(block, WEIR_STATUS_PARTIAL);
		expect_results(block, WEIR_STATUS_PARTIAL);
	}
	cr_assert_eq(drops(PPE_DROP_LATE), 3);
	cr_assert_eq(stats().blocks_partial, 3);
	stop();
}

BOTH(error)
{
	start_with_policy(workers, PPE_POLICY_ERROR);
	run_block(0);
	contribute(FIRST + 1, WINDOW);
	rig_pass_us(1200 * TIMEOUT);
	for (unsigned int times = 0; times < 2; times++) {
		expect_above(WINDOW, WEIR_COLLECTIVE_ALLREDUCE, WEIR_STATUS_ERROR);
		cr_assert_eq(got.grad_cnt, 0);
		cr_assert_eq(got.src_cnt, 1);
		cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
		cr_assert_eq(payload[0], 0x20);
		expect_silence();
		rig_turn_after_us(&rig, 1001);
		if (times == 0)
			contribute(FIRST + 1, WINDOW);
	}
	answer(WINDOW, WEIR_STATUS_ERROR);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		expect_below(rank, WINDOW, WEIR_STATUS_ERROR);
		cr_assert_eq(got.grad_cnt, 0);
		cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
		cr_assert_arr_eq(payload, bitmap, sizeof(bitmap));
	}
	cr_assert_eq(stats().blocks_error, 1);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		acknowledge(rank, 2 * WINDOW);
	expect_above(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	stop();
}

/* With the policy wait the timeout changes nothing. */
BOTH(wait)
{
	start(workers);
	contribute(FIRST, 0);
	contribute(FIRST + 1, 0);
	rig_pass_us(3000 * TIMEOUT);
	expect_silence();
	contribute(FIRST, 0);
	expect_below(FIRST, 0, WEIR_STATUS_WAITING); /* the leaf's own answer */
	cr_assert_eq(payload[0], 0x30);
	expect_silence();
	contribute(FIRST + 2, 0);
	expect_sum_above(0, 0x70);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	stop();
}

BOTH(mismatch)
{
	static const uint8_t others[8] = {WEIR_FIELD_OP, 1, 0, 0, 6, 0, 0, 2};
	struct weir_header h;

	start(workers);
	run_block(0);
	contribute(FIRST, WINDOW);
	h = rig_contribution(JOB, GEN, FIRST + 1, WINDOW, 0);
	offer(FIRST + 1, &h, NULL, 0);
	for (unsigned int times = 0; times < 2; times++) {
		expect_above(WINDOW, WEIR_COLLECTIVE_ALLREDUCE, WEIR_STATUS_MISMATCH);
		cr_assert_eq(got.grad_cnt, 0);
		cr_assert_eq(payload_bytes, sizeof(struct weir_mismatch));
		cr_assert_eq(payload[0], WEIR_FIELD_LENGTH);
		cr_assert_eq(payload[1], FIRST);
		cr_assert_eq(weir_get16(payload + 2), ELEMENTS);
		cr_assert_eq(payload[4], FIRST + 1);
		cr_assert_eq(weir_get16(payload + 6), 0);
		expect_silence();
		rig_turn_after_us(&rig, 1001);
		if (times == 0)
			contribute(FIRST + 2, WINDOW);
	}
	cr_assert_eq(drops(PPE_DROP_MISMATCH), 1);
	/* Another rack's may come first. */
	h = header_to_parent(WINDOW, WEIR_STATUS_MISMATCH);
	say(&h, others, sizeof(others));
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		expect_below(rank, WINDOW, WEIR_STATUS_MISMATCH);
		cr_assert_eq(payload_bytes, sizeof(others));
		cr_assert_arr_eq(payload, others, sizeof(others));
	}
	cr_assert_eq(stats().blocks_mismatch, 1);
	stop();
}

/* What the parent says about a block that it has not finished, each host hears when it repeats. */
BOTH(waiting_above)
{
	struct weir_header h;

	start(workers);
	h = header_to_parent(0, WEIR_STATUS_WAITING);
	say(&h, bitmap, sizeof(bitmap)); /* about a block that is not sent yet */
	contribute_all(0);
	expect_sum_above(0, 0x70);
	contribute(FIRST, 0);
	expect_silence();
	say(&h, bitmap, 8);
	say(&h, bitmap, sizeof(bitmap));
	expect_below(FIRST, 0, WEIR_STATUS_WAITING); /* it had asked, and once */
	say(&h, bitmap, sizeof(bitmap));
	expect_silence();
	contribute_all(0);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		expect_below(rank, 0, WEIR_STATUS_WAITING);
		cr_assert_eq(got.degraded, 1);
		cr_assert_eq(payload_bytes, sizeof(bitmap));
		cr_assert_arr_eq(payload, bitmap, sizeof(bitmap));
	}
	h = header_to_parent(0, WEIR_STATUS_UNSUPPORTED);
	say(&h, NULL, 0);
	rig_rest(&rig);
	contribute(FIRST + 1, 0);
	expect_below(FIRST + 1, 0, WEIR_STATUS_UNSUPPORTED);
	cr_assert_eq(payload_bytes, 0);
	cr_assert_eq(drops(PPE_DROP_KNOWN), 1);
	cr_assert_eq(drops(PPE_DROP_LENGTH), 1);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	contribute_all(WINDOW); /* it was about that block */
	expect_sum_above(WINDOW, 0x70);
	contribute(FIRST, WINDOW);
	expect_silence();
	stop();
}

/* ---- probes ---- */

/* A host is told at once, with these ranks. */
static void
probe(unsigned int rank, uint32_t block, uint8_t ranks)
{
	note(rank, block, WEIR_COLLECTIVE_PROBE);
	expect_below(rank, block, WEIR_STATUS_WAITING);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_PROBE);
	cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
	cr_assert_eq(payload[0], ranks, "%#x, not %#x", payload[0], ranks);
}

/* The parent answers the leaf's probe. */
static void
tell_leaf(uint32_t block, enum weir_status status, uint8_t ranks)
{
	const uint8_t in[WEIR_BITMAP_BYTES] = {ranks};
	struct weir_header h = header_to_parent(block, status);

	h.collective = WEIR_COLLECTIVE_PROBE;
	say(&h, in, h.degraded ? sizeof(in) : 0);
}

BOTH(probes)
{
	start(workers);
	contribute(FIRST, 0);
	probe(FIRST, 0, 0x10);
	probe(FIRST + 1, 0, 0x10);
	contribute(FIRST + 1, 0);
	contribute(FIRST + 2, 0);
	expect_sum_above(0, 0x70);
	probe(FIRST, 0, 0x70);
	expect_silence(); /* within the same millisecond */
	rig_turn_after_us(&rig, 1001);
	probe(FIRST + 1, 0, 0x70);
	expect_above(0, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
	cr_assert_eq(payload_bytes, 0);
	cr_assert_eq(got.src_cnt, 0);
	/* The parent lacks this rack: the contribution again, and once. */
	tell_leaf(0, WEIR_STATUS_WAITING, 0x0e);
	expect_sum_above(0, 0x70);
	tell_leaf(0, WEIR_STATUS_WAITING, 0x0e);
	expect_silence();
	rig_turn_after_us(&rig, 1001);
	probe(FIRST, 0, 0x7e);
	expect_silence(); /* twice as long each time */
	rig_turn_after_us(&rig, 1001);
	probe(FIRST, 0, 0x7e);
	expect_above(0, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
	/* It has it: nothing. */
	tell_leaf(0, WEIR_STATUS_WAITING, 0x7c);
	expect_silence();
	probe(FIRST, 0, 0x7c);
	cr_assert_eq(stats().upward_repeats, 1);
	cr_assert_eq(stats().duplicates, 0);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	note(FIRST, 0, WEIR_COLLECTIVE_PROBE);
	expect_result(FIRST, 0, WEIR_STATUS_OK);
	expect_silence();
	stop();
}

/* A parent that does not know probes, or that is silent, is sent the contribution. */
BOTH(probes_without_an_answer)
{
	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	rig_turn_after_us(&rig, 1001);
	probe(FIRST, 0, 0x70);
	expect_above(0, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
	rig_turn_after_us(&rig, 50000);
	probe(FIRST, 0, 0x70);
	expect_sum_above(0, 0x70);
	tell_leaf(0, WEIR_STATUS_UNSUPPORTED, 0);
	expect_silence(); /* no host is told */
	rig_turn_after_us(&rig, 4001);
	probe(FIRST, 0, 0x70);
	expect_sum_above(0, 0x70);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	stop();
}

/* Where answers take 16 ms, hosts that probe sooner do not make the parent send a result twice. */
BOTH(probes_of_a_slow_parent)
{
	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	rig_turn_after_us(&rig, 16000);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	contribute_all(2); /* of the same worker */
	expect_sum_above(2, 0x70);
	rig_turn_after_us(&rig, 2000);
	probe(FIRST, 2, 0x70);
	expect_silence();
	rig_turn_after_us(&rig, 2001); /* in all, twice an eighth of 16 ms */
	probe(FIRST, 2, 0x70);
	expect_above(2, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
	answer(2, WEIR_STATUS_OK);
	expect_results(2, WEIR_STATUS_OK);
	stop();
}

/* A host that probes makes the leaf probe after so many microseconds, and no sooner. */
static void
expect_probe_after_us(uint32_t block, unsigned int us)
{
	rig_turn_after_us(&rig, us - 100);
	probe(FIRST, block, 0x70);
	expect_silence();
	rig_turn_after_us(&rig, 101);
	probe(FIRST, block, 0x70);
	expect_above(block, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
}

/* The answer to a block that went up twice may be to either: it is not timed, and the next block is as patient (Karn). */
BOTH(repeated_blocks_are_not_timed)
{
	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	expect_probe_after_us(0, 1000);
	rig_turn_after_us(&rig, 15000);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	contribute_all(2);
	expect_sum_above(2, 0x70);
	expect_probe_after_us(2, 2000);
	expect_probe_after_us(2, 4000);
	answer(2, WEIR_STATUS_OK);
	expect_results(2, WEIR_STATUS_OK);
	contribute_all(4);
	expect_sum_above(4, 0x70);
	answer(4, WEIR_STATUS_OK); /* this one is timed */
	expect_results(4, WEIR_STATUS_OK);
	contribute_all(6);
	expect_sum_above(6, 0x70);
	expect_probe_after_us(6, 1000);
	stop();
}

/* Nor is a block that waited for another switch; but what its probe says is. */
BOTH(held_up_blocks_are_not_timed)
{
	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	rig_turn_after_us(&rig, 100000);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	contribute_all(2);
	expect_sum_above(2, 0x70);
	expect_probe_after_us(2, 1000);
	rig_turn_after_us(&rig, 8000);
	tell_leaf(2, WEIR_STATUS_WAITING, 0x70);
	rig_turn_after_us(&rig, 100000);
	answer(2, WEIR_STATUS_OK);
	expect_results(2, WEIR_STATUS_OK);
	contribute_all(4);
	expect_sum_above(4, 0x70);
	expect_probe_after_us(4, 2000); /* twice an eighth of 8 ms */
	stop();
}

/* However slow answers are, and however often it has asked in vain, it asks again after 40 ms. */
BOTH(questions_are_never_rare)
{
	start(workers);
	for (uint32_t block = 0; block < 16; block += 2) {
		contribute_all(block);
		expect_sum_above(block, 0x70);
		rig_turn_after_us(&rig, 16000);
		answer(block, WEIR_STATUS_OK);
		expect_results(block, WEIR_STATUS_OK);
	}
	contribute_all(16);
	expect_sum_above(16, 0x70);
	for (unsigned int i = 0; i < 8; i++) {
		rig_turn_after_us(&rig, 40001);
		probe(FIRST, 16, 0x70);
		expect_above(16, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
		tell_leaf(16, WEIR_STATUS_WAITING, 0x70);
	}
	stop();
}

/* A host that waits asks less and less often. A silent parent is asked as often as before: for a second at most. */
BOTH(a_silent_parent)
{
	static const unsigned int ms[] = {41, 81, 161, 1001, 5001}, questions[] = {1, 2, 4, 25, 1};

	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	rig_turn_after_us(&rig, 1001);
	probe(FIRST, 0, 0x70);
	expect_above(0, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
	for (unsigned int i = 0; i < RTE_DIM(ms); i++) {
		rig_turn_after_us(&rig, 1000 * ms[i]);
		probe(FIRST, 0, 0x70);
		if (ms[i] < 3000)
			expect_sum_above(0, 0x70);
		for (unsigned int n = ms[i] < 3000; n < questions[i]; n++)
			expect_above(0, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
		expect_silence();
	}
	/* One answer that it lacks the contribution, however many come. */
	tell_leaf(0, WEIR_STATUS_WAITING, 0x0e);
	expect_sum_above(0, 0x70);
	tell_leaf(0, WEIR_STATUS_WAITING, 0x0e);
	expect_silence();
	stop();
}

/* A host that is late is not in the block, and need not repeat. What ends the block is told when it contributes. */
BOTH(probes_of_a_late_host)
{
	struct weir_header h = header_to_parent(0, WEIR_STATUS_UNSUPPORTED);

	start_with_policy(workers, PPE_POLICY_PARTIAL);
	contribute(FIRST, 0);
	contribute(FIRST + 1, 0);
	rig_pass_us(1200 * TIMEOUT);
	expect_sum_above(0, 0x30);
	probe(FIRST + 2, 0, 0x30);
	expect_above(0, WEIR_COLLECTIVE_PROBE, WEIR_STATUS_OK);
	contribute(FIRST + 2, 0);
	probe(FIRST + 2, 0, 0x70);
	expect_silence();
	say(&h, NULL, 0); /* of the contribution */
	expect_below(FIRST + 2, 0, WEIR_STATUS_UNSUPPORTED);
	probe(FIRST, 0, 0);
	contribute(FIRST, 0);
	expect_below(FIRST, 0, WEIR_STATUS_UNSUPPORTED);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	stop();
}

/* ---- who is the parent ---- */

BOTH(not_from_parent)
{
	const struct weir_header h = header_to_parent(0, WEIR_STATUS_OK);
	static const uint8_t bytes[4 * ELEMENTS];
	unsigned int n;
	uint64_t refused = 0;

	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	n = write_above(&h, bytes, sizeof(bytes));
	disguised(0, 6, n, 0); /* another port of the switch */
	disguised(ABOVE, 11, n, 1); /* MAC address */
	disguised(ABOVE, 29, n, 1); /* IPv4 address */
	disguised(ABOVE, L3 + 1, n, 2); /* UDP port */
	disguised(ABOVE, L4, n, 1); /* job id */
	disguised(ABOVE, L4 + 6, n, 1); /* first rank */
	refused += 6;
	cr_assert_eq(drops(PPE_DROP_NOT_FROM_PARENT), refused);
	disguised(ABOVE, L4 + 9, n, 1); /* generation */
	cr_assert_eq(drops(PPE_DROP_STALE), 1);
	disguised(ABOVE, L4 + 11, n, 1); /* length */
	disguised(ABOVE, L4 + 13, n, 0x70); /* type */
	disguised(ABOVE, L4 + 5, n, WEIR_DEGRADED);
	cr_assert_eq(drops(PPE_DROP_LENGTH), 3);
	sent[n - 1] ^= 1;
	rig_send(&rig, ABOVE, sent, n);
	rig_rest(&rig);
	cr_assert_eq(drops(PPE_DROP_UDP_CHECKSUM), 1);
	rig_send(&rig, ABOVE, sent, L4 + 4);
	rig_send(&rig, ABOVE, sent, L4 - 1);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_MALFORMED), 2);
	n = write_above(&h, bytes, 0);
	weir_put16(sent + 16, 20 + 8 + WEIR_EXT_BYTES - 1);
	weir_put16(sent + L3 + 4, 8 + WEIR_EXT_BYTES - 1);
	disguised(ABOVE, 6, n, 0);
	cr_assert_eq(drops(PPE_DROP_TRUNCATED), 1);
	cr_assert_eq(stats().answers, 0);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	stop();
}

/* Each number of a result's header, at random, and lengths: nothing is written beyond a buffer, and the next block works. */
BOTH(rubbish_from_above)
{
	uint64_t seed = rig_seed();
	static uint8_t bytes[8192];

	start(workers);
	for (uint32_t block = 0; block < 200; block++) {
		contribute_all(block);
		rig_rest(&rig);
		for (unsigned int times = 0; times < 5; times++) {
			struct weir_header h = header_to_parent(block, WEIR_STATUS_OK);
			uint64_t r = rig_random(&seed);

			h.collective = r & 15;
			h.dtype = r >> 4 & 15;
			h.op = (r >> 8 & 3) == 0 ? r >> 10 & 15 : 0;
			h.root = (r >> 14 & 1) == 0 ? 0 : r >> 15 & 255;
			h.grad_cnt = r >> 23 & 4095;
			h.status = r >> 35 & 15;
			h.degraded = r >> 39 & 1;
			h.src_cnt = (uint8_t)(r >> 40);
			h.block_id += (r >> 48 & 3) == 0 ? (r >> 50 & 7) : 0;
			say(&h, bytes, (unsigned int)(rig_random(&seed) % sizeof(bytes)));
		}
		rig_rest(&rig);
		answer(block, WEIR_STATUS_OK);
		rig_rest(&rig);
		for (unsigned int port = 0; port < PORTS; port++)
			while (rig_receive(&rig, port, frame, 0) > 0)
				;
		/* Whatever it was taken for, it is over. */
		contribute(FIRST, block);
		cr_assert(receive(0));
		cr_assert_eq(got.block_id, block);
	}
	stop();
}

/* Hosts can't take the parent's addresses. */
BOTH(guarded)
{
	start(workers);
	memset(sent, 0, sizeof(sent));
	rig_frame(sent, 0, &(struct weir_header){.job_id = 77, .extended = true}, NULL, 0);
	memcpy(sent, (uint8_t[6]){2, 9, 9, 9, 9, 9}, 6); /* it is forwarded */
	memcpy(sent + 6, mac_above, 6);
	rig_send(&rig, 0, sent, L4 + WEIR_EXT_BYTES);
	rig_source_mac(0, sent + 6);
	weir_put32(sent + 26, IP_ABOVE);
	rig_send(&rig, 0, sent, L4 + WEIR_EXT_BYTES);
	rig_pass_us(100 * 1000 * 1000); /* a silent host's addresses may be taken, a parent's not */
	rig_send(&rig, 0, sent, L4 + WEIR_EXT_BYTES);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_SPOOFED_MEMBER), 3);
	stop();
}

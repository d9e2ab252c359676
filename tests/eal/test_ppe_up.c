/* SPDX-License-Identifier: BSD-3-Clause */
/* Each transition of a block on its way up (docs/tree.md), each loss, and who is taken for the parent. */
#include "tests/eal/bench_tree.h"

#define FIRST      4 /* of the hosts' ranks */
#define WINDOW     2
#define ELEMENTS   200
#define TIMEOUT    10 /* ms */
#define ABOVE      7 /* the parent's port */
#define SOME       0x5e /* ranks that are in a degraded result */

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_up, name)

#define start_leaf(...)                                                                            \
	start(.workers = workers, .parents = 1, .sources = 3, .first_rank = FIRST,                 \
		.tree_ranks = 8, .window = WINDOW, .elements = ELEMENTS, .timeout_ms = TIMEOUT,    \
		.generation = 7, __VA_ARGS__)

static void
acknowledge_all(uint32_t block)
{
	for (unsigned int rank = FIRST; rank < FIRST + 3; rank++)
		acknowledge(rank, block);
}

/* ---- the transitions ---- */

BOTH(up_and_down)
{
	start_leaf();
	for (uint32_t block = 0; block < 4 * WINDOW; block++) {
		contribute(FIRST, block);
		contribute(FIRST + 1, block);
		expect_silence();
		contribute(FIRST + 2, block);
		expect_up(block, WEIR_STATUS_OK, 0);
		expect_silence();
		come_down(block);
	}
	cr_assert_eq(job_stats(1).upward, 4 * WINDOW);
	cr_assert_eq(job_stats(1).upward_repeats, 0);
	cr_assert_eq(job_stats(1).answers, 4 * WINDOW);
	cr_assert_eq(job_stats(1).blocks_complete, 4 * WINDOW);
	stop();
}

/* Any packet of any host about the block repeats it, at most once per millisecond, byte for byte. */
BOTH(a_repetition_goes_up_once_per_millisecond)
{
	static uint8_t first[RIG_FRAME_MAX];

	start_leaf();
	go_up(0);
	memcpy(first, frame, L4 + WEIR_EXT_BYTES + payload_bytes);
	contribute_all(0);
	expect_silence(); /* within the same millisecond */
	skip_us(1001);
	contribute_all(0);
	acknowledge(FIRST, 0);
	expect_up(0, WEIR_STATUS_OK, 0);
	cr_assert_arr_eq(frame, first, L4 + WEIR_EXT_BYTES + payload_bytes);
	expect_silence();
	skip_us(1001);
	acknowledge(FIRST + 1, 0); /* of the block before: it asks for this one's result, too */
	expect_up(0, WEIR_STATUS_OK, 0);
	cr_assert_eq(job_stats(1).upward, 3);
	cr_assert_eq(job_stats(1).upward_repeats, 2);
	cr_assert_eq(job_stats(1).duplicates, 6);
	expect_drop(PPE_DROP_DUPLICATE, 6);
	come_down(0);
	skip_us(1001);
	contribute(FIRST + 1, 0); /* it is done: this host alone is answered */
	expect(FIRST + 1, 0, WEIR_STATUS_OK, 0);
	answer(0, WEIR_STATUS_OK, 0); /* the answer to a repetition */
	expect_silence();
	expect_drop(PPE_DROP_DUPLICATE, 7);
	stop();
}

/* The leaf repeats nothing of its own accord. */
BOTH(no_timer_repeats)
{
	start_leaf();
	go_up(0);
	pass_ms(10 * TIMEOUT);
	expect_silence();
	come_down(0);
	stop();
}

/* The leaf tells the parent that it has a block's result, when a host's packet asks for the next one. */
BOTH(acknowledgements)
{
	start_leaf();
	run_block(0);
	acknowledge_all(WINDOW);
	expect_note_up(WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE);
	expect_silence();
	acknowledge(FIRST, WINDOW);
	expect_silence();
	skip_us(1001);
	acknowledge(FIRST, WINDOW);
	expect_note_up(WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE);
	cr_assert_eq(job_stats(1).acknowledged, 3);
	cr_assert_eq(job_stats(1).upward, 3);
	/* A block that some contribute to is not acknowledged: they will complete it. */
	contribute(FIRST, WINDOW);
	skip_us(1001);
	acknowledge(FIRST, WINDOW);
	acknowledge(FIRST, 2 * WINDOW);
	expect_silence();
	expect_drop(PPE_DROP_WINDOW, 1);
	contribute(FIRST + 1, WINDOW);
	contribute(FIRST + 2, WINDOW);
	expect_up(WINDOW, WEIR_STATUS_OK, 0);
	come_down(WINDOW);
	stop();
}

/* A contribution that is held back, because a host has not said that it has an older result, acknowledges the newer one. */
BOTH(held_back)
{
	start_leaf();
	run_block(0);
	/* The parent ends the next block without this rack. */
	answer(WINDOW, WEIR_STATUS_PARTIAL, SOME);
	expect_all(WINDOW, WEIR_STATUS_PARTIAL, SOME);
	skip_us(1001);
	contribute(FIRST, 2 * WINDOW);
	contribute(FIRST + 1, 2 * WINDOW);
	expect_note_up(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE);
	expect_silence();
	expect_drop(PPE_DROP_HELD_BACK, 2);
	/* A result for which there is no buffer comes again later. */
	answer(2 * WINDOW, WEIR_STATUS_PARTIAL, SOME);
	expect_silence();
	expect_drop(PPE_DROP_HELD_BACK, 3);
	contribute(FIRST + 2, 2 * WINDOW); /* now all have the old one */
	rig_rest(&rig);
	contribute(FIRST, 2 * WINDOW);
	contribute(FIRST + 1, 2 * WINDOW);
	expect_up(2 * WINDOW, WEIR_STATUS_OK, 0);
	come_down(2 * WINDOW);
	stop();
}

/* The parent's result counts, whatever the leaf has of the block. */
BOTH(not_asked_for)
{
	start_leaf();
	/* Nothing. */
	answer(0, WEIR_STATUS_PARTIAL, SOME);
	expect_silence(); /* no host has an endpoint yet */
	contribute_all(0);
	expect_all(0, WEIR_STATUS_PARTIAL, SOME);
	cr_assert_eq(job_stats(1).late, 3);
	/* A part of it. */
	contribute(FIRST, WINDOW);
	answer(WINDOW, WEIR_STATUS_PARTIAL, SOME);
	expect_all(WINDOW, WEIR_STATUS_PARTIAL, SOME);
	contribute(FIRST + 1, WINDOW);
	expect(FIRST + 1, WINDOW, WEIR_STATUS_PARTIAL, SOME);
	cr_assert_eq(job_stats(1).upward, 0);
	cr_assert_eq(job_stats(1).blocks_partial, 2);
	/* Older and newer ones are not taken. */
	answer(0, WEIR_STATUS_OK, 0);
	answer(2 * WINDOW + 2 * WINDOW, WEIR_STATUS_OK, 0);
	expect_silence();
	expect_drop(PPE_DROP_DUPLICATE, 1);
	expect_drop(PPE_DROP_WINDOW, 1);
	cr_assert_eq(job_stats(1).answers, 2);
	contribute_all(2 * WINDOW); /* one may still want the first */
	expect_note_up(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE);
	expect_silence();
	run_block(2 * WINDOW);
	stop();
}

/* A header without elements, of another collective. */
static struct weir_header
as_barrier(struct weir_header h)
{
	h.collective = WEIR_COLLECTIVE_BARRIER;
	h.dtype = 0;
	h.grad_cnt = 0;
	return h;
}

/* The parent finished the block as another one than the hosts here send: they are told what it is. */
BOTH(another_block)
{
	struct weir_header h;

	start_leaf();
	h = as_barrier(contribution(FIRST, 0));
	offer(&h);
	answer(0, WEIR_STATUS_PARTIAL, SOME);
	expect(FIRST, 0, WEIR_STATUS_PARTIAL, SOME);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_ALLREDUCE);
	stop();
}

/* A parent's results may be without elements where hosts sent some. */
BOTH(without_elements)
{
	struct weir_header h;

	start_leaf();
	run_block(0);
	run_block(1);
	contribute(FIRST, 2);
	for (uint32_t block = 2; block < 4; block++) {
		h = as_barrier(from_above(block, WEIR_STATUS_OK, 0));
		say(0, &h, NULL, 0);
		expect_payload(block, WEIR_STATUS_OK, "", 0);
	}
	stop();
}

/* The timeout ends the collection: what is there goes up, and the late host is not added. */
BOTH(partial)
{
	start_leaf(.policy = PPE_POLICY_PARTIAL);
	run_block(0);
	for (unsigned int round = 1; round < 4; round++) {
		uint32_t block = round * WINDOW;

		contribute(FIRST, block);
		contribute(FIRST + 2, block);
		expect_silence();
		rig_pass_us(1200 * TIMEOUT);
		expect_up(block, WEIR_STATUS_PARTIAL, 0x50);
		expect_silence();
		skip_us(1001);
		contribute(FIRST + 1, block);
		expect_up(block, WEIR_STATUS_PARTIAL, 0x50);
		expect_silence();
		contribute(FIRST + 1, block);
		expect_silence();
		cr_assert_eq(job_stats(1).late, round);
		cr_assert_eq(job_stats(1).duplicates, round);
		answer(block, WEIR_STATUS_PARTIAL, SOME);
		expect_all(block, WEIR_STATUS_PARTIAL, SOME);
	}
	expect_drop(PPE_DROP_LATE, 3);
	cr_assert_eq(job_stats(1).blocks_partial, 3);
	stop();
}

BOTH(error)
{
	start_leaf(.policy = PPE_POLICY_ERROR);
	run_block(0);
	contribute(FIRST + 1, WINDOW);
	rig_pass_us(1200 * TIMEOUT);
	for (unsigned int times = 0; times < 2; times++) {
		expect_up(WINDOW, WEIR_STATUS_ERROR, 0x20);
		expect_silence();
		skip_us(1001);
		if (times == 0)
			contribute(FIRST + 1, WINDOW);
	}
	answer(WINDOW, WEIR_STATUS_ERROR, SOME);
	expect_all(WINDOW, WEIR_STATUS_ERROR, SOME);
	cr_assert_eq(job_stats(1).blocks_error, 1);
	acknowledge_all(2 * WINDOW);
	expect_note_up(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE);
	stop();
}

/* With the policy wait the timeout changes nothing. */
BOTH(wait)
{
	start_leaf();
	contribute(FIRST, 0);
	contribute(FIRST + 1, 0);
	rig_pass_us(3000 * TIMEOUT);
	expect_silence();
	contribute(FIRST, 0);
	expect(FIRST, 0, WEIR_STATUS_WAITING, 0x30); /* the leaf's own answer */
	expect_silence();
	contribute(FIRST + 2, 0);
	expect_up(0, WEIR_STATUS_OK, 0);
	come_down(0);
	stop();
}

BOTH(mismatch)
{
	static const struct weir_mismatch ours = {.field = WEIR_FIELD_LENGTH,
						  .source = FIRST,
						  .block = {0, ELEMENTS},
						  .other = FIRST + 1},
					  others = {.field = WEIR_FIELD_OP,
						  .source = 1,
						  .other = 6,
						  .offered = {0, 2}};
	struct weir_header h;

	start_leaf();
	run_block(0);
	contribute(FIRST, WINDOW);
	h = contribution(FIRST + 1, WINDOW);
	h.grad_cnt = 0;
	offer(&h);
	for (unsigned int times = 0; times < 2; times++) {
		take_up(WINDOW, WEIR_COLLECTIVE_ALLREDUCE, WEIR_STATUS_MISMATCH);
		cr_assert_eq(got.grad_cnt, 0);
		cr_assert_eq(payload_bytes, sizeof(ours));
		cr_assert_arr_eq(payload, &ours, sizeof(ours));
		expect_silence();
		skip_us(1001);
		if (times == 0)
			contribute(FIRST + 2, WINDOW);
	}
	expect_drop(PPE_DROP_MISMATCH, 1);
	/* Another rack's may come first. */
	h = from_above(WINDOW, WEIR_STATUS_MISMATCH, 0);
	say(0, &h, &others, sizeof(others));
	expect_payload(WINDOW, WEIR_STATUS_MISMATCH, &others, sizeof(others));
	cr_assert_eq(job_stats(1).blocks_mismatch, 1);
	stop();
}

/* What the parent says about a block that it has not finished, each host hears when it repeats. */
BOTH(waiting_above)
{
	static const uint8_t half[8] = {SOME};
	struct weir_header h;

	start_leaf();
	answer(0, WEIR_STATUS_WAITING, SOME); /* about a block that is not sent yet */
	go_up(0);
	contribute(FIRST, 0);
	expect_silence();
	h = from_above(0, WEIR_STATUS_WAITING, SOME);
	say(0, &h, half, sizeof(half));
	answer(0, WEIR_STATUS_WAITING, SOME);
	expect(FIRST, 0, WEIR_STATUS_WAITING, SOME); /* it had asked, and once */
	answer(0, WEIR_STATUS_WAITING, SOME);
	expect_silence();
	contribute_all(0);
	expect_all(0, WEIR_STATUS_WAITING, SOME);
	answer(0, WEIR_STATUS_UNSUPPORTED, 0);
	contribute(FIRST + 1, 0);
	expect(FIRST + 1, 0, WEIR_STATUS_UNSUPPORTED, 0);
	cr_assert_eq(payload_bytes, 0);
	expect_drop(PPE_DROP_KNOWN, 1);
	expect_drop(PPE_DROP_LENGTH, 1);
	come_down(0);
	go_up(WINDOW); /* it was about that block */
	contribute(FIRST, WINDOW);
	stop();
}

/* ---- probes ---- */

/* A host that probes is told at once, with these ranks. */
static void
ask(unsigned int rank, uint32_t block, uint64_t ranks)
{
	probe(rank, block);
	expect(rank, block, WEIR_STATUS_WAITING, ranks);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_PROBE);
}

/* A host asks after so long: it is told that this rack is in, and the leaf asks. */
static void
ask_up_after_us(uint32_t block, uint64_t us)
{
	skip_us(us);
	ask(FIRST, block, 0x70);
	expect_note_up(block, WEIR_COLLECTIVE_PROBE);
}

/* The same, and no sooner. */
static void
ask_up_not_before_us(uint32_t block, uint64_t us)
{
	skip_us(us - 100);
	ask(FIRST, block, 0x70);
	expect_silence();
	ask_up_after_us(block, 110);
}

/* A block whose result comes after 16 ms. */
static void
run_slow_block(uint32_t block)
{
	go_up(block);
	skip_us(16000);
	come_down(block);
}

BOTH(probes)
{
	start_leaf();
	contribute(FIRST, 0);
	ask(FIRST, 0, 0x10);
	ask(FIRST + 1, 0, 0x10);
	contribute(FIRST + 1, 0);
	contribute(FIRST + 2, 0);
	expect_up(0, WEIR_STATUS_OK, 0);
	ask(FIRST, 0, 0x70);
	expect_silence(); /* within the same millisecond */
	skip_us(1001);
	ask(FIRST + 1, 0, 0x70);
	expect_note_up(0, WEIR_COLLECTIVE_PROBE);
	/* The parent lacks this rack: the contribution again, and once. */
	answer_probe(0, WEIR_STATUS_WAITING, 0x0e);
	expect_up(0, WEIR_STATUS_OK, 0);
	answer_probe(0, WEIR_STATUS_WAITING, 0x0e);
	expect_silence();
	skip_us(1001);
	ask(FIRST, 0, 0x7e);
	expect_silence(); /* twice as long each time */
	skip_us(1001);
	ask(FIRST, 0, 0x7e);
	expect_note_up(0, WEIR_COLLECTIVE_PROBE);
	/* It has it: nothing. */
	answer_probe(0, WEIR_STATUS_WAITING, 0x7c);
	expect_silence();
	ask(FIRST, 0, 0x7c);
	cr_assert_eq(job_stats(1).upward_repeats, 1);
	cr_assert_eq(job_stats(1).duplicates, 0);
	come_down(0);
	probe(FIRST, 0);
	expect(FIRST, 0, WEIR_STATUS_OK, 0);
	stop();
}

/* A parent that does not know probes, or that is silent, is sent the contribution. */
BOTH(probes_without_an_answer)
{
	start_leaf();
	go_up(0);
	ask_up_after_us(0, 1001);
	skip_us(50000);
	ask(FIRST, 0, 0x70);
	expect_up(0, WEIR_STATUS_OK, 0);
	answer_probe(0, WEIR_STATUS_UNSUPPORTED, 0);
	expect_silence(); /* no host is told */
	skip_us(4001);
	ask(FIRST, 0, 0x70);
	expect_up(0, WEIR_STATUS_OK, 0);
	come_down(0);
	stop();
}

/* Where answers take 16 ms, hosts that probe sooner do not make the parent send a result twice. */
BOTH(probes_of_a_slow_parent)
{
	start_leaf();
	run_slow_block(0);
	go_up(2); /* of the same worker */
	skip_us(2000);
	ask(FIRST, 2, 0x70);
	expect_silence();
	ask_up_after_us(2, 2001); /* in all, twice an eighth of 16 ms */
	come_down(2);
	stop();
}

/* The answer to a block that went up twice may be to either: it is not timed, and the next block is as patient (Karn). */
BOTH(repeated_blocks_are_not_timed)
{
	start_leaf();
	go_up(0);
	ask_up_not_before_us(0, 1000);
	skip_us(15000);
	come_down(0);
	go_up(2);
	ask_up_not_before_us(2, 2000);
	ask_up_not_before_us(2, 4000);
	come_down(2);
	run_block(4); /* this one is timed */
	go_up(6);
	ask_up_not_before_us(6, 1000);
	stop();
}

/* Nor is a block that waited for another switch; but what its probe says is. */
BOTH(held_up_blocks_are_not_timed)
{
	start_leaf();
	go_up(0);
	skip_us(100000);
	come_down(0);
	go_up(2);
	ask_up_not_before_us(2, 1000);
	skip_us(8000);
	answer_probe(2, WEIR_STATUS_WAITING, 0x70);
	skip_us(100000);
	come_down(2);
	go_up(4);
	ask_up_not_before_us(4, 4000); /* twice an eighth of 8 ms, twice as long after a question */
	stop();
}

/* However slow answers are, and however often it has asked in vain, it asks again after 40 ms. */
BOTH(questions_are_never_rare)
{
	start_leaf();
	for (uint32_t block = 0; block < 16; block += 2)
		run_slow_block(block);
	go_up(16);
	for (unsigned int i = 0; i < 8; i++) {
		ask_up_after_us(16, 40001);
		answer_probe(16, WEIR_STATUS_WAITING, 0x70);
	}
	stop();
}

/* A host that waits asks less and less often. A silent parent is asked as often as before: for a second at most. */
BOTH(a_silent_parent)
{
	static const unsigned int ms[] = {41, 81, 161, 1001, 5001}, questions[] = {1, 2, 4, 25, 1};

	start_leaf();
	go_up(0);
	ask_up_after_us(0, 1001);
	for (unsigned int i = 0; i < RTE_DIM(ms); i++) {
		skip_us(1000 * ms[i]);
		ask(FIRST, 0, 0x70);
		if (ms[i] < 3000)
			expect_up(0, WEIR_STATUS_OK, 0);
		for (unsigned int n = ms[i] < 3000; n < questions[i]; n++)
			expect_note_up(0, WEIR_COLLECTIVE_PROBE);
		expect_silence();
	}
	/* One answer that it lacks the contribution, however many come. */
	answer_probe(0, WEIR_STATUS_WAITING, 0x0e);
	expect_up(0, WEIR_STATUS_OK, 0);
	answer_probe(0, WEIR_STATUS_WAITING, 0x0e);
	stop();
}

/* A host that is late is not in the block, and need not repeat. What ends the block is told when it contributes. */
BOTH(probes_of_a_late_host)
{
	start_leaf(.policy = PPE_POLICY_PARTIAL);
	contribute(FIRST, 0);
	contribute(FIRST + 1, 0);
	rig_pass_us(1200 * TIMEOUT);
	expect_up(0, WEIR_STATUS_PARTIAL, 0x30);
	ask(FIRST + 2, 0, 0x30);
	expect_note_up(0, WEIR_COLLECTIVE_PROBE);
	contribute(FIRST + 2, 0);
	ask(FIRST + 2, 0, 0x70);
	expect_silence();
	answer(0, WEIR_STATUS_UNSUPPORTED, 0); /* of the contribution */
	expect(FIRST + 2, 0, WEIR_STATUS_UNSUPPORTED, 0);
	ask(FIRST, 0, 0);
	contribute(FIRST, 0);
	expect(FIRST, 0, WEIR_STATUS_UNSUPPORTED, 0);
	come_down(0);
	stop();
}

/* ---- who is the parent ---- */

BOTH(not_from_parent)
{
	/* A byte of the frame, and the bits of it that are wrong. */
	static const struct {
		unsigned int port, at;
		uint8_t bits;
		enum ppe_drop drop;
	} wrong[] = {
		{0, 6, 0, PPE_DROP_NOT_FROM_PARENT}, /* another port of the switch */
		{ABOVE, 11, 1, PPE_DROP_NOT_FROM_PARENT}, /* MAC address */
		{ABOVE, 29, 1, PPE_DROP_NOT_FROM_PARENT}, /* IPv4 address */
		{ABOVE, L3 + 1, 2, PPE_DROP_NOT_FROM_PARENT}, /* UDP port */
		{ABOVE, L4, 1, PPE_DROP_NOT_FROM_PARENT}, /* job id */
		{ABOVE, L4 + 6, 1, PPE_DROP_NOT_FROM_PARENT}, /* first rank */
		{ABOVE, L4 + 9, 1, PPE_DROP_STALE}, /* generation */
		{ABOVE, L4 + 11, 1, PPE_DROP_LENGTH},
		{ABOVE, L4 + 13, 0x70, PPE_DROP_LENGTH}, /* type */
		{ABOVE, L4 + 5, WEIR_DEGRADED, PPE_DROP_LENGTH},
	};
	static const uint8_t bytes[4 * ELEMENTS];
	struct weir_header h;
	unsigned int n;

	start_leaf();
	go_up(0);
	h = from_above(0, WEIR_STATUS_OK, 0);
	n = write_down(0, &h, bytes, sizeof(bytes));
	for (unsigned int i = 0; i < RTE_DIM(wrong); i++) {
		uint64_t before = drops(wrong[i].drop);

		said[wrong[i].at] ^= wrong[i].bits;
		rig_fix_checksums(said);
		rig_send(&rig, wrong[i].port, said, n);
		said[wrong[i].at] ^= wrong[i].bits;
		cr_assert_eq(drops(wrong[i].drop), before + 1, "byte %u", wrong[i].at);
	}
	rig_fix_checksums(said);
	said[n - 1] ^= 1;
	rig_send(&rig, ABOVE, said, n);
	expect_drop(PPE_DROP_UDP_CHECKSUM, 1);
	rig_send(&rig, ABOVE, said, L4 + 4);
	rig_send(&rig, ABOVE, said, L4 - 1);
	expect_silence();
	expect_drop(PPE_DROP_MALFORMED, 2);
	n = write_down(0, &h, bytes, 0);
	weir_put16(said + 16, 20 + 8 + WEIR_EXT_BYTES - 1);
	weir_put16(said + L3 + 4, 8 + WEIR_EXT_BYTES - 1);
	rig_fix_checksums(said);
	rig_send(&rig, ABOVE, said, n);
	expect_drop(PPE_DROP_TRUNCATED, 1);
	cr_assert_eq(job_stats(1).answers, 0);
	come_down(0);
	stop();
}

/* Each number of a result's header, at random, and lengths: nothing is written beyond a buffer, and the next block works. */
BOTH(rubbish_from_above)
{
	uint64_t seed = rig_seed();
	static uint8_t bytes[8192];

	start_leaf();
	for (uint32_t block = 0; block < 200; block++) {
		contribute_all(block);
		for (unsigned int times = 0; times < 5; times++) {
			struct weir_header h = from_above(block, WEIR_STATUS_OK, 0);
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
			say(0, &h, bytes, (unsigned int)(rig_random(&seed) % sizeof(bytes)));
		}
		answer(block, WEIR_STATUS_OK, 0);
		for (unsigned int port = 0; port < rig.ports; port++)
			while (rig_receive(&rig, port, frame, 0) > 0)
				;
		/* Whatever it was taken for, it is over. */
		contribute(FIRST, block);
		cr_assert(receive(FIRST));
		cr_assert_eq(got.block_id, block);
	}
	stop();
}

/* Hosts can't take the parent's addresses. */
BOTH(guarded)
{
	const struct ppe_parent *above = &rig.job[0].parent[0];
	uint8_t taken[RIG_FRAME_MAX];

	start_leaf();
	rig_frame(taken, 0, &(struct weir_header){.job_id = 77, .extended = true}, NULL, 0);
	memcpy(taken, (uint8_t[6]){2, 9, 9, 9, 9, 9}, 6); /* it is forwarded */
	memcpy(taken + 6, above->mac, 6);
	rig_send(&rig, FIRST, taken, L4 + WEIR_EXT_BYTES);
	rig_source_mac(0, taken + 6);
	weir_put32(taken + 26, above->address);
	rig_send(&rig, FIRST, taken, L4 + WEIR_EXT_BYTES);
	rig_pass_us(100 * 1000 * 1000); /* a silent host's addresses may be taken, a parent's not */
	rig_send(&rig, FIRST, taken, L4 + WEIR_EXT_BYTES);
	expect_silence();
	expect_drop(PPE_DROP_SPOOFED_MEMBER, 3);
	stop();
}

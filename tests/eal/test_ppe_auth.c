/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authenticated jobs: hosts that know the key get right sums under right tags; what others send, or
 * send again, changes nothing and is not answered.
 */
#include "tests/eal/auth_rig.h"

/* Small payloads are copied, large ones referred to, barriers have none; over all segmentations. */
static void
sums(unsigned int workers, bool segmented)
{
	static const unsigned int counts[] = {1, 0, 127, 128, 129, 300, 1000, 1, 0, 33, 1000, 7};

	start_with(workers, 1000, PPE_POLICY_WAIT, 1000);
	rig.seed = segmented ? random_state : 0;
	for (unsigned int i = 0; i < 3; i++) {
		enter();
		for (uint32_t b = 0; b < RTE_DIM(counts); b++)
			whole_block(b, counts[b]);
	}
	expect_drop(PPE_DROP_FORGED, 0);
	stop();
}

CASE(ppe_auth, sums_one_worker, sums(1, false))
CASE(ppe_auth, sums_two_workers_segments, sums(2, true))
CASE(ppe_auth, sums_four_workers, sums(4, false))

/* Each source gets this status under a right tag, and a payload of so many bytes, of which this is the first. */
static void
expect_bare(enum weir_status status, unsigned int bytes, uint8_t first)
{
	for (unsigned int s = 0; s < SOURCES; s++) {
		struct weir_header h = take(s);

		cr_expect(h.status == status && payload_bytes == bytes && payload[0] == first);
		cr_expect(result_holds(&h, payload_bytes));
	}
}

Test(ppe_auth, partial_result, .timeout = 90)
{
	start_with(2, 8, PPE_POLICY_PARTIAL, 300);
	enter();
	contribute_tagged(0, 0, 8);
	contribute_tagged(2, 0, 8);
	expect_result(0, 8, WEIR_STATUS_PARTIAL, 5);
	/* A barrier's has the bitmap and nothing else. */
	contribute_tagged(1, 1, 0);
	expect_bare(WEIR_STATUS_PARTIAL, 32, 2);
	stop();
}

Test(ppe_auth, error_and_mismatch, .timeout = 90)
{
	start_with(2, 8, PPE_POLICY_ERROR, 50);
	enter();
	contribute_tagged(0, 0, 8);
	expect_bare(WEIR_STATUS_ERROR, 32, 1);
	contribute_tagged(0, 1, 8);
	contribute_tagged(1, 1, 7);
	expect_bare(WEIR_STATUS_MISMATCH, 8, WEIR_FIELD_LENGTH);
	stop();
}

/* --- what must not pass --------------------------------------------------------------------------- */

/* Nothing happened: no block, no answer. */
static void
expect_nothing(uint64_t contributions)
{
	struct ppe_job_stats stats;
	struct ppe_stats all;

	rig_settle(&rig, &all);
	for (unsigned int s = 0; s < SOURCES; s++)
		silent(s);
	cr_assert_eq(ppe_job_stats_read(rig.ppe, 1, &stats), 0);
	cr_expect_eq(stats.contributions, contributions);
	cr_expect_eq(stats.generation, now.generation);
}

/* Send `frame` with one bit changed. */
static void
send_flipped(unsigned int source, unsigned int n, unsigned int bit)
{
	uint8_t kept[RIG_FRAME_MAX];

	memcpy(kept, frame, n);
	frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
	rig_fix_checksums(frame);
	rig_send(&rig, source, frame, n);
	memcpy(frame, kept, n);
}

/* warm: the flow cache knows the source. */
static void
every_changed_bit(bool warm)
{
	const uint32_t block = warm ? 2 : 0;
	struct ppe_stats stats;
	struct weir_header h;
	unsigned int n, size;

	start_with(2, 8, PPE_POLICY_WAIT, 20);
	enter();
	for (uint32_t b = 0; b < block; b++)
		whole_block(b, 8);
	h = header_of(&now, 0, block, 8);
	n = write_tagged(&h, now.source[0], block);
	for (unsigned int bit = 8 * (HEADER + WEIR_EXT_BYTES); bit < 8 * n; bit++)
		send_flipped(0, n, bit);
	expect_drop(PPE_DROP_FORGED, 8 * (n - HEADER - WEIR_EXT_BYTES));
	for (unsigned int bit = 8 * HEADER; bit < 8 * (HEADER + WEIR_EXT_BYTES); bit++)
		send_flipped(0, n, bit);
	/* Other jobs there are none, which is said without a tag; nothing else is answered. */
	for (unsigned int bit = 0; bit < 8; bit++) {
		cr_assert_gt(size = rig_receive(&rig, 0, answer, 2000), 0);
		cr_assert(rig_parse(answer, size, &h, &payload, &payload_bytes));
		cr_expect(h.status == WEIR_STATUS_REFUSED && payload_bytes == 0);
	}
	expect_nothing(block * SOURCES);
	rig_settle(&rig, &stats);
	/* Bits 5 of the flags' byte that are reserved, and those of job, source and generation, are
	 * missed elsewhere; the rest is forged. */
	cr_expect_geq(stats.drops[PPE_DROP_FORGED], 8 * (n - HEADER - WEIR_EXT_BYTES) + 60);
	/* The block is as if nothing had been. */
	whole_block(block, 8);
	stop();
}

CASE(ppe_auth, every_changed_bit, every_changed_bit(false))
CASE(ppe_auth, every_changed_bit_of_a_known_flow, every_changed_bit(true))

Test(ppe_auth, no_tag, .timeout = 90)
{
	static const struct {
		unsigned int elements, bytes;
		uint8_t flags;
		bool base_form;
	} lines[] = {{8, 32, WEIR_FLAG_AUTHENTICATED, false}, {8, 32, 0, false},
		{8, 32 + TAG, 0, false}, {8, 32, 0, true}, {8, 32 + TAG, 0, true},
		{0, 0, WEIR_FLAG_AUTHENTICATED, false},
		{0, TAG - 1, WEIR_FLAG_AUTHENTICATED, false}};
	const uint8_t elements[32 + TAG] = {1};

	start_with(2, 8, PPE_POLICY_WAIT, 20);
	enter();
	for (unsigned int i = 0; i < RTE_DIM(lines); i++) {
		struct weir_header h = header_of(&now, 0, 0, lines[i].elements);

		h.flags = lines[i].flags;
		h.extended = !lines[i].base_form;
		rig_offer(&rig, 0, &h, elements, lines[i].bytes);
		expect_drop(PPE_DROP_FORGED, i + 1);
	}
	expect_nothing(0);
	stop();
}

Test(ppe_auth, tag_of_something_else, .timeout = 90)
{
	struct weir_header h;
	uint8_t key[32];

	start_with(2, 8, PPE_POLICY_WAIT, 20);
	enter();
	enter();
	h = header_of(&now, 0, 0, 8);
	/* of another source, generation, block, round of block ids; of a result; under keys above */
	rig_send(&rig, 0, frame, write_tagged(&h, now.source[1], 0));
	rig_send(&rig, 0, frame, write_tagged(&h, before.source[0], 0));
	rig_send(&rig, 0, frame, write_tagged(&h, now.source[0], 1));
	rig_send(&rig, 0, frame, write_tagged(&h, now.source[0], UINT64_C(1) << 32));
	rig_send(&rig, 0, frame, write_tagged(&h, now.results, 0));
	rig_send(&rig, 0, frame, write_tagged(&h, source_key[0], 0));
	rig_send(&rig, 0, frame, write_tagged(&h, job_key, 0));
	tags_contributions_key(source_key[0], now.challenge, (uint16_t)(now.generation + 1), key);
	rig_send(&rig, 0, frame, write_tagged(&h, key, 0));
	expect_drop(PPE_DROP_FORGED, 8);
	expect_nothing(0);
	whole_block(0, 8);
	stop();
}

Test(ppe_auth, replay, .timeout = 90)
{
	uint8_t old[RIG_FRAME_MAX], tag[16];
	struct weir_header h;
	unsigned int n;

	start_with(2, 8, PPE_POLICY_WAIT, 5000);
	enter();
	/* In its own block: a duplicate; in a finished one the source gets its result again. */
	h = header_of(&now, 0, 0, 8);
	n = write_tagged(&h, now.source[0], 0);
	memcpy(old, frame, n);
	memcpy(tag, old + n - TAG, TAG);
	rig_send(&rig, 0, old, n);
	rig_send(&rig, 0, old, n);
	expect_drop(PPE_DROP_DUPLICATE, 1);
	expect_nothing(1);
	/* From another switch port than the source's. */
	rig_send(&rig, 1, old, n);
	expect_drop(PPE_DROP_SPOOFED_MEMBER, 1);
	contribute_tagged(1, 0, 8);
	contribute_tagged(2, 0, 8);
	expect_result(0, 8, WEIR_STATUS_OK, 7);
	rig_send(&rig, 0, old, n);
	h = take(0);
	cr_expect(h.status == WEIR_STATUS_OK && result_holds(&h, payload_bytes));
	for (uint32_t b = 1; b < 3 * WINDOW; b++)
		whole_block(b, 8);
	rig_send(&rig, 0, old, n);
	h = take(0);
	cr_expect(h.status == WEIR_STATUS_EXPIRED && payload_bytes == 0 && reply_holds(0, tag, 0));
	/* In the next generation it is stale, and told so; in the one after that nobody can tell. */
	enter();
	rig_send(&rig, 0, old, n);
	h = take(0);
	cr_expect(h.status == WEIR_STATUS_STALE && h.gen_id == now.generation);
	cr_expect(payload_bytes == 0 && reply_holds(0, tag, 0));
	/* An untagged one of that generation is not. */
	old[n - 1] ^= 1;
	rig_fix_checksums(old);
	rig_send(&rig, 0, old, n);
	old[n - 1] ^= 1;
	rig_fix_checksums(old);
	enter();
	rig_send(&rig, 0, old, n);
	expect_drop(PPE_DROP_STALE, 3);
	expect_nothing(3 * WINDOW * SOURCES);
	stop();
}

Test(ppe_auth, waiting_is_tied_to_its_question, .timeout = 90)
{
	struct weir_header h;
	unsigned int n;
	uint8_t tag[16];

	start_with(2, 8, PPE_POLICY_WAIT, 20);
	enter();
	contribute_tagged(0, 0, 8);
	rig_receive(&rig, 0, answer, 100);
	h = header_of(&now, 0, 0, 8);
	n = write_tagged(&h, now.source[0], 0);
	memcpy(tag, frame + n - TAG, TAG);
	rig_send(&rig, 0, frame, n);
	h = take(0);
	cr_expect(h.status == WEIR_STATUS_WAITING && payload_bytes == 32 && payload[0] == 1);
	cr_expect(reply_holds(0, tag, payload_bytes));
	stop();
}

Test(ppe_auth, joins, .timeout = 90)
{
	uint8_t challenge[16], nonce[16];
	unsigned int n;
	struct weir_header h = {
		.job_id = 1, .block_id = 5, .collective = WEIR_COLLECTIVE_JOIN, .extended = true};

	start_with(2, 8, PPE_POLICY_WAIT, 1000);
	/* Without a tag, and with one bit wrong. */
	rig_send(&rig, 0, frame, rig_frame(frame, 0, &h, NULL, 0));
	draw(nonce);
	draw(challenge);
	n = join_frame(0, challenge, nonce);
	for (unsigned int bit = 8 * (HEADER + WEIR_EXT_BYTES); bit < 8 * n; bit++)
		send_flipped(0, n, bit);
	expect_drop(PPE_DROP_FORGED, 1 + 8 * 52);
	expect_nothing(0);
	/* Under another source's key: src_id is under the tag. */
	join_frame(0, challenge, nonce);
	frame[HEADER + 6] = 1;
	frame[29] = 2;
	rig_fix_checksums(frame);
	rig_send(&rig, 1, frame, n);
	expect_drop(PPE_DROP_FORGED, 2 + 8 * 52);
	/* From another UDP port. */
	join_frame(0, challenge, nonce);
	frame[35]++;
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, n);
	expect_drop(PPE_DROP_FORGED, 3 + 8 * 52);
	enter();
	whole_block(0, 8);
	stop();
}

/* A source repeats the join of this generation, and is answered. */
static struct weir_header
repeat_join(unsigned int source, uint16_t of, const uint8_t nonce[16])
{
	static const uint8_t none[16];
	struct weir_header h;

	join_generation = of;
	rig_send(&rig, source, frame, join_frame(source, none, nonce));
	join_generation = 0;
	h = take(source);
	cr_assert(reply_holds(source, nonce, payload_bytes));
	cr_assert_eq(h.collective, WEIR_COLLECTIVE_JOIN);
	cr_assert(h.status == WEIR_STATUS_OK || payload_bytes == 0);
	return h;
}

/* After a restart no key verifies contributions. So the repeated join says that the generation is over, and begins none. */
Test(ppe_auth, a_join_of_a_generation_that_is_over, .timeout = 90)
{
	uint8_t nonce[SOURCES][16];
	struct weir_header h;
	unsigned int n;

	start_with(2, 8, PPE_POLICY_WAIT, 5000);
	draw(nonce[0]);
	h = repeat_join(0, 7, nonce[0]);
	cr_assert_eq(h.status, WEIR_STATUS_STALE);
	cr_assert(h.gen_id == WEIR_GEN_JOIN && h.src_cnt == WEIR_OVER_NONE);
	join_generation = 7;
	n = join_frame(0, nonce[0], nonce[0]);
	join_generation = 0;
	frame[n - 1] ^= 1;
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, n);
	expect_drop(PPE_DROP_FORGED, 1);
	expect_nothing(0);
	enter_with(nonce);
	cr_assert_eq(repeat_join(0, now.generation, nonce[0]).status, WEIR_STATUS_OK);
	whole_block(0, 8);
	enter();
	h = repeat_join(0, before.generation, nonce[0]);
	cr_assert(h.status == WEIR_STATUS_STALE && h.gen_id == now.generation);
	whole_block(0, 8);
	expect_drop(PPE_DROP_STALE, 2);
	stop();
}

Test(ppe_auth, another_job_needs_none, .timeout = 90)
{
	start_with(2, 8, PPE_POLICY_WAIT, 1000);
	use_job(1);
	generation = rig_join(&rig, 1, false);
	reduce(0);
	cr_expect_eq(got.flags, 0, "%#x", got.flags);
	stop();
}

/* A generation is revoked only by one that knows the key and is there now; its sources are told under tags. */
Test(ppe_auth, only_a_fresh_join_ends_a_generation, .timeout = 90)
{
	uint8_t challenge[16], nonce[16], nonces[SOURCES][16];
	struct weir_header h;

	job_revokes = true;
	start_with(2, 8, PPE_POLICY_WAIT, 1000);
	enter();
	whole_block(0, 8);
	/* One that quotes no challenge, or an old one, may be of any time. */
	ask_challenge(2, challenge);
	draw(nonce);
	rig_send(&rig, 2, frame, join_frame(2, now.challenge, nonce));
	cr_assert_eq(take(2).status, WEIR_STATUS_WAITING);
	cr_expect_eq(job_stats(1).revokes, 0);
	whole_block(1, 8);
	draw(nonces[2]);
	rig_send(&rig, 2, frame, join_frame(2, challenge, nonces[2]));
	cr_assert_eq(take(2).status, WEIR_STATUS_WAITING);
	cr_expect_eq(job_stats(1).revokes, 1);
	for (uint32_t block = 0; block < 3 * WINDOW; block++) {
		h = header_of(&now, 0, block, 4);
		rig_send(&rig, 0, frame, write_tagged(&h, now.source[0], block));
		memcpy(nonce, frame + HEADER + 16 + 16, 16); /* its tag */
		h = take(0);
		cr_expect_eq(h.status, WEIR_STATUS_STALE, "%s", weir_status_text(h.status));
		cr_expect_eq(h.gen_id, WEIR_GEN_JOIN);
		cr_expect(reply_holds(0, nonce, payload_bytes), "block %u", block);
	}
	/* Without the key nobody is told anything, as before. */
	h = header_of(&now, 0, 1, 4);
	rig_send(&rig, 0, frame, write_tagged(&h, now.source[1], 1));
	silent(0);
	/* The others come, and all begin the next one. */
	before = now;
	join_proved(0, nonces[0]);
	cr_assert_eq(take(0).status, WEIR_STATUS_WAITING);
	join_proved(1, nonces[1]);
	for (unsigned int s = 0; s < SOURCES; s++)
		take_accepted(s, nonces[s]);
	cr_expect_neq(now.generation, before.generation);
	cr_expect_eq(job_stats(1).revokes, 1);
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose place a source's is: old joins and copies of joins begin nothing and move nobody, a join that is newer displaces
 * the process before it, which is told so, and other hosts are told nothing.
 */
#include "tests/eal/auth_rig.h"

static uint8_t kept[RIG_FRAME_MAX], nonce[SOURCES][16], challenge[16];

static void
begin(bool plain, bool revokes)
{
	job_plain = plain;
	job_revokes = revokes;
	start_with(2, 8, PPE_POLICY_WAIT, 1000);
}

/* Send a source's join, its nonce drawn before, as if from this MAC address and UDP port; keep the frame. */
static unsigned int
send_join(unsigned int source, unsigned int port, uint8_t mac, uint8_t udp)
{
	unsigned int n = join_frame(source, challenge, nonce[source]);

	frame[MAC] = mac != 0 ? mac : frame[MAC];
	if (udp != 0) {
		frame[35] = udp;
		tags_join(source_key[source], weir_get32(frame + 26), weir_get16(frame + 34),
			frame + HEADER, frame + n - TAG);
		rig_fix_checksums(frame);
	}
	memcpy(kept, frame, n);
	rig_send(&rig, port, frame, n);
	return n;
}

/* The answer tells the challenge, and the sources that have joined (negative: any). */
static void
expect_waiting(unsigned int port, unsigned int source, int joined)
{
	struct weir_header h = take(port);

	cr_assert_eq(h.status, WEIR_STATUS_WAITING, "%s", weir_status_text(h.status));
	cr_assert(reply_holds(source, nonce[source], payload_bytes));
	cr_assert(joined < 0 || payload[0] == joined, "sources %x have joined", payload[0]);
	memcpy(challenge, payload + 32, 16);
}

/* A new process of the source joins from its port and this UDP port (0: the usual one). Returns the frame's bytes. */
static unsigned int
join_anew(unsigned int source, uint8_t udp)
{
	memset(challenge, 0, sizeof(challenge));
	draw(nonce[source]);
	send_join(source, source, 0, udp);
	expect_waiting(source, source, -1);
	return send_join(source, source, 0, udp);
}

/* And is collected, after which these have joined. */
static unsigned int
collected(unsigned int source, uint8_t udp, int joined)
{
	unsigned int n = join_anew(source, udp);

	expect_waiting(source, source, joined);
	return n;
}

static void
expect_displaced(unsigned int port, unsigned int source, const uint8_t of[16],
	const uint8_t from[6], uint8_t udp)
{
	struct weir_header h = take(port);

	cr_assert_eq(h.status, WEIR_STATUS_DISPLACED, "%s", weir_status_text(h.status));
	cr_assert(h.src_id == source && h.gen_id == WEIR_GEN_JOIN);
	cr_assert_eq(h.block_id, weir_get32(of));
	cr_assert_eq(payload_bytes, sizeof(struct weir_displaced));
	cr_assert(reply_holds(source, of, payload_bytes));
	cr_assert_eq(weir_get32(payload), rig_source_ip(source));
	cr_assert_eq(payload[5], udp);
	cr_assert_arr_eq(payload + 6, from, 6);
}

/* --- proofs --------------------------------------------------------------------------------------- */

static void
copies_move_nobody(bool plain)
{
	unsigned int n;

	begin(plain, false);
	n = collected(0, 0, 1);
	kept[MAC] ^= 0x40;
	rig_send(&rig, 1, kept, n);
	cr_expect_eq(drops(PPE_DROP_STALE), 1);
	silent(1);
	collected(1, 0, 3);
	join_anew(2, 0);
	for (unsigned int s = 0; s < SOURCES; s++)
		take_accepted(s, nonce[s]);
	whole_block(0, 8);
	/* Nor does a copy in the generation, but the source itself does. */
	n = send_join(0, 0, 0, 0);
	take_accepted(0, nonce[0]);
	kept[MAC] ^= 0x40;
	rig_send(&rig, 1, kept, n);
	cr_expect_eq(drops(PPE_DROP_STALE), 2);
	whole_block(1, 8);
	send_join(0, 1, 0x77, 0);
	cr_expect_eq(take(1).status, WEIR_STATUS_OK);
	cr_expect_eq(answer[5], 0x77);
	contribute_tagged(0, 2, 8);
	cr_expect_eq(drops(PPE_DROP_SPOOFED_MEMBER), 1);
	stop_unread();
}

CASE(ppe_joins, a_copy_moves_nobody, copies_move_nobody(true))
CASE(ppe_joins, a_copy_moves_nobody_in_an_authenticated_job, copies_move_nobody(false))

/* A join that was forgotten, or replaced, is over. */
static void
old_joins_begin_nothing(bool plain, bool forgotten)
{
	uint8_t old[RIG_FRAME_MAX], replayed[16];
	unsigned int n;

	begin(plain, false);
	n = collected(0, 0, 1);
	memcpy(old, kept, n);
	memcpy(replayed, nonce[0], 16);
	if (forgotten)
		pass_ms(3500);
	else
		collected(0, 0, 1);
	rig_send(&rig, 0, old, n);
	memcpy(nonce[0], replayed, 16);
	expect_waiting(0, 0, forgotten ? 0 : 1);
	cr_expect_neq(memcmp(challenge, old + HEADER + 16, 16), 0, "its challenge still serves");
	collected(1, 0, forgotten ? 2 : 3);
	stop_unread();
}

CASE(ppe_joins, a_forgotten_join_begins_nothing, old_joins_begin_nothing(true, true))
CASE(ppe_joins, a_replaced_join_begins_nothing, old_joins_begin_nothing(false, false))

/* --- who is displaced ------------------------------------------------------------------------------- */

static void
a_pending_one(bool plain)
{
	uint8_t former[16], own[6];

	begin(plain, false);
	collected(0, 0, 1);
	memcpy(former, nonce[0], 16);
	rig_source_mac(0, own);
	join_anew(0, 9);
	expect_displaced(0, 0, former, own, 9);
	expect_waiting(0, 0, 1);
	/* As often as it asks. */
	rig_send(&rig, 0, frame, join_frame(0, challenge, former));
	expect_displaced(0, 0, former, own, 9);
	cr_expect_eq(drops(PPE_DROP_ADDRESS), 1);
	stop_unread();
}

CASE(ppe_joins, a_pending_join_is_displaced, a_pending_one(true))
CASE(ppe_joins, a_pending_join_is_displaced_in_an_authenticated_job, a_pending_one(false))

static void
one_in_a_generation(bool plain, unsigned int times)
{
	uint8_t former[16], own[6];
	struct weir_header h;
	unsigned int n = 0;

	begin(plain, false);
	collected(0, 0, 1);
	collected(1, 0, 3);
	join_anew(2, 0);
	for (unsigned int s = 0; s < SOURCES; s++)
		take_accepted(s, nonce[s]);
	whole_block(0, 8);
	memcpy(former, nonce[0], 16);
	/* Its host has another process with that rank. */
	collected(0, 9, 1);
	whole_block(1, 8); /* until the others have joined */
	collected(1, 0, 3);
	before = now;
	join_anew(2, 0);
	take_accepted(0, nonce[0]);
	rig_source_mac(0, own);
	expect_displaced(0, 0, former, own, 9);
	for (unsigned int s = 1; s < SOURCES; s++)
		take_accepted(s, nonce[s]);
	for (unsigned int i = 0; i < times; i++) { /* to whichever worker */
		h = header_of(&before, 0, 2 + i, 8);
		n = write_tagged(&h, before.source[0], 2 + i);
		rig_send(&rig, 0, frame, n);
		expect_displaced(0, 0, former, own, 9);
	}
	cr_expect_eq(drops(PPE_DROP_ADDRESS), times);
	/* Not another host. */
	frame[MAC] ^= 1;
	rig_send(&rig, 0, frame, n);
	rig_send(&rig, 1, frame, n);
	cr_expect_eq(drops(PPE_DROP_ADDRESS), times + 1);
	cr_expect_eq(drops(PPE_DROP_SPOOFED_MEMBER), 1);
	silent(0);
	silent(1);
	stop_unread();
}

CASE(ppe_joins, a_source_is_displaced, one_in_a_generation(true, 4))
CASE(ppe_joins, a_source_is_displaced_in_an_authenticated_job, one_in_a_generation(false, 4))

/* --- epochs ----------------------------------------------------------------------------------------- */

static void
publish_epoch(uint64_t epoch, bool member)
{
	static struct ppe_job job;

	job = rig.job[0];
	job.epoch[0] = epoch;
	if (!member) {
		job.members[0] &= ~UINT64_C(1);
		job.address[0] = 0;
	}
	publish(&job);
	tags_source_key(job_key, 0, epoch, source_key[0]);
}

/* The rank has another process, by the control API: on the same host, or after it was removed. */
static void
another_member(bool plain, bool removed)
{
	uint8_t former[16], own[6], old_key[32], key[32];

	begin(plain, false);
	publish_epoch(5, true);
	collected(0, 0, 1);
	memcpy(former, nonce[0], 16);
	memcpy(old_key, source_key[0], 32);
	if (removed) {
		publish_epoch(5, false);
		send_join(0, 0, 0, 0);
		cr_expect_eq(drops(PPE_DROP_UNKNOWN_SOURCE), 1);
		if (plain) /* without a tag */
			cr_expect_gt(rig_receive(&rig, 0, answer, 2000), 0);
	}
	publish_epoch(6, true);
	/* Its key is over. */
	memcpy(key, source_key[0], 32);
	memcpy(source_key[0], old_key, 32);
	draw(nonce[0]);
	send_join(0, 0, 0, 0);
	cr_expect_eq(drops(removed ? PPE_DROP_FORGED : PPE_DROP_STALE), 1);
	silent(0);
	memcpy(source_key[0], key, 32);
	join_anew(0, 9);
	memcpy(source_key[0], old_key, 32);
	rig_source_mac(0, own);
	expect_displaced(0, 0, former, own, 9);
	memcpy(source_key[0], key, 32);
	expect_waiting(0, 0, 1);
	stop_unread();
}

CASE(ppe_joins, a_new_member_has_a_new_key, another_member(true, false))
CASE(ppe_joins, a_removed_member_has_no_key, another_member(true, true))
CASE(ppe_joins, a_removed_member_has_no_key_in_an_authenticated_job, another_member(false, true))

/* A rank that becomes a member anew at its address contributes until its next process begins a generation. */
static void
a_generation_goes_on(bool plain)
{
	begin(plain, false);
	publish_epoch(5, true);
	enter();
	whole_block(0, 8);
	publish_epoch(6, true);
	for (uint32_t block = 1; block < 2 * WINDOW; block++)
		whole_block(block, 8);
	enter();
	whole_block(0, 8);
	stop_unread();
}

CASE(ppe_joins, a_generation_outlives_its_epochs, a_generation_goes_on(true))
CASE(ppe_joins, a_generation_outlives_its_epochs_in_an_authenticated_job,
	a_generation_goes_on(false))

/* --- what other hosts learn ------------------------------------------------------------------------- */

Test(ppe_joins, strangers_do_not_learn_the_generation, .timeout = 90)
{
	struct weir_header h;
	unsigned int n;

	begin(true, false);
	/* But that the switch has no generation yet. */
	h = header_of(&now, 0, 0, 8);
	h.gen_id = 77;
	n = write_tagged(&h, now.source[0], 0);
	frame[MAC] ^= 1;
	rig_send(&rig, 1, frame, n);
	h = take(1);
	cr_expect(h.status == WEIR_STATUS_STALE && h.gen_id == WEIR_GEN_JOIN);
	enter();
	for (unsigned int how = 0; how < 4; how++) { /* MAC, port, UDP port; an old generation */
		h = header_of(&now, 0, how, 8);
		h.gen_id = (uint16_t)(now.generation - how / 2);
		n = write_tagged(&h, now.source[0], 0);
		if (how == 0 || how == 3)
			frame[MAC] ^= 1;
		if (how == 2) {
			frame[35]++;
			rig_fix_checksums(frame);
		}
		rig_send(&rig, how == 1 ? 1 : 0, frame, n);
	}
	cr_expect_eq(drops(PPE_DROP_ADDRESS), 3);
	cr_expect_eq(drops(PPE_DROP_SPOOFED_MEMBER), 1);
	silent(0);
	silent(1);
	/* An unknown sender is told that it is one, and no more. */
	h = header_of(&now, 9, 0, 8);
	rig_send(&rig, 0, frame, rig_frame(frame, 0, &h, NULL, 0));
	h = take(0);
	cr_expect(
		h.status == WEIR_STATUS_REFUSED && h.gen_id == WEIR_GEN_JOIN && payload_bytes == 0);
	stop_unread();
}

/* --- without a key ----------------------------------------------------------------------------------- */

static void
bare_join(unsigned int source, unsigned int port, uint8_t mac, uint8_t udp, uint32_t block)
{
	const struct weir_header h = {.job_id = 2,
		.src_id = (uint8_t)source,
		.block_id = block,
		.collective = WEIR_COLLECTIVE_JOIN,
		.extended = true};
	unsigned int n = rig_frame(frame, source, &h, NULL, 0);

	frame[MAC] = mac != 0 ? mac : frame[MAC];
	frame[35] = udp != 0 ? udp : frame[35];
	rig_fix_checksums(frame);
	rig_send(&rig, port, frame, n);
}

static struct weir_header
bare_take(unsigned int port)
{
	struct weir_header h = {.status = 255};
	unsigned int n = rig_receive(&rig, port, answer, 2000);

	cr_assert(rig_parse(answer, n, &h, &payload, &payload_bytes), "port %u", port);
	return h;
}

Test(ppe_joins, join_without_key_needs_the_same_endpoint, .timeout = 90)
{
	struct weir_header h;

	begin(true, false);
	bare_join(0, 0, 0, 0, 11);
	cr_expect_eq(bare_take(0).status, WEIR_STATUS_WAITING);
	/* Another host: at another port, or with another MAC address. */
	bare_join(0, 1, 0, 0, 12);
	bare_join(0, 0, 0x55, 0, 13);
	cr_expect_eq(drops(PPE_DROP_ADDRESS), 2);
	/* Its own, which has moved. */
	bare_join(0, 1, 0x55, 0, 11);
	cr_expect_eq(bare_take(1).status, WEIR_STATUS_WAITING);
	bare_join(0, 0, 0, 0, 11);
	cr_expect_eq(bare_take(0).status, WEIR_STATUS_WAITING);
	/* Another process on the same link; the first is told. */
	bare_join(0, 0, 0, 9, 14);
	h = bare_take(0);
	cr_expect(h.status == WEIR_STATUS_DISPLACED && h.block_id == 11 && h.flags == 0);
	cr_expect(payload_bytes == 12 && payload[5] == 9);
	cr_expect_eq(bare_take(0).status, WEIR_STATUS_WAITING);
	bare_join(0, 0, 0, 0, 11);
	h = bare_take(0);
	cr_expect(h.status == WEIR_STATUS_DISPLACED && h.block_id == 11);
	bare_join(1, 1, 0, 0, 21);
	cr_expect_eq(bare_take(1).status, WEIR_STATUS_WAITING);
	bare_join(2, 2, 0, 0, 22);
	for (unsigned int s = 0; s < SOURCES; s++) {
		h = bare_take(s);
		cr_expect_eq(h.status, WEIR_STATUS_OK);
		generation = h.gen_id;
	}
	/* In the generation, too, while it is alive. */
	bare_join(0, 1, 0, 9, 30);
	bare_join(0, 0, 0x55, 9, 30);
	cr_expect_eq(drops(PPE_DROP_ADDRESS), 4);
	cr_expect_eq(drops(PPE_DROP_SPOOFED_MEMBER), 1);
	cr_expect_eq(job_stats(2).generation, generation);
	cr_expect_eq(job_stats(2).joining[0], 0);
	bare_join(0, 0, 0, 7, 31);
	cr_expect_eq(bare_take(0).status, WEIR_STATUS_WAITING);
	stop_unread();
}

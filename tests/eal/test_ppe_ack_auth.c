/* SPDX-License-Identifier: BSD-3-Clause */
/* Acknowledgements of an authenticated job: who knows the key says what it has; nobody else does, and what
 * was said can be said again, but not of anything else. */
#include "tests/eal/auth_rig.h"

#define IV_CONTRIBUTION 0
#define IV_ACKNOWLEDGE  1

static struct weir_header
acknowledgement(unsigned int source, uint32_t block)
{
	struct weir_header h = header_of(&now, source, block, 0);

	h.collective = WEIR_COLLECTIVE_ACKNOWLEDGE;
	h.dtype = 0;
	return h;
}

/* Write it with a tag of this key, kind and number; returns its bytes. */
static unsigned int
write_acknowledgement(
	const struct weir_header *h, const uint8_t key[32], uint8_t kind, uint64_t number)
{
	uint8_t bare[16], tag[TAG];

	weir_header_write(h, bare);
	tags_gmac(key, kind, number, bare, NULL, 0, tag);
	return rig_frame(frame, h->src_id, h, tag, TAG);
}

/* Sources 0 and 1 go on with a block. */
static void
two(uint32_t block)
{
	contribute_tagged(0, block, 8);
	contribute_tagged(1, block, 8);
	expect_result(block, 8, WEIR_STATUS_PARTIAL, 3);
}

Test(ppe_ack_auth, authenticated_acknowledgements_release_blocks, .timeout = 90)
{
	struct weir_header h;

	start_with(2, 8, PPE_POLICY_PARTIAL, 200);
	enter();
	for (uint32_t block = 0; block < 10 * WINDOW; block += WINDOW) {
		two(block);
		h = acknowledgement(2, block + WINDOW);
		rig_send(&rig, 2, frame,
			write_acknowledgement(&h, now.source[2], IV_ACKNOWLEDGE, block + WINDOW));
		expect_drop(PPE_DROP_ACKNOWLEDGED, block / WINDOW + 1);
	}
	expect_drop(PPE_DROP_FORGED, 0);
	/* It says so again, or somebody else does: nothing. Of a result that was lost: the result. */
	rig_send(&rig, 2, frame,
		write_acknowledgement(&h, now.source[2], IV_ACKNOWLEDGE, h.block_id));
	expect_drop(PPE_DROP_KNOWN, 1);
	silent(2);
	two(h.block_id);
	rig_send(&rig, 2, frame,
		write_acknowledgement(&h, now.source[2], IV_ACKNOWLEDGE, h.block_id));
	{
		struct weir_header result = take(2);

		cr_expect_eq(result.status, WEIR_STATUS_PARTIAL);
		cr_expect(result_holds(&result, payload_bytes));
	}
	stop();
}

Test(ppe_ack_auth, forged_acknowledgements_are_dropped, .timeout = 90)
{
	unsigned int n, forged = 0;
	uint8_t kept[RIG_FRAME_MAX];
	struct weir_header h;

	start_with(2, 8, PPE_POLICY_PARTIAL, 300);
	enter();
	two(0);
	two(WINDOW);
	h = acknowledgement(2, 2 * WINDOW);
	/* Another source's key, another block's number, the tag of a contribution. */
	n = write_acknowledgement(&h, now.source[1], IV_ACKNOWLEDGE, h.block_id);
	rig_send(&rig, 2, frame, n);
	n = write_acknowledgement(&h, now.source[2], IV_ACKNOWLEDGE, h.block_id + WINDOW);
	rig_send(&rig, 2, frame, n);
	n = write_acknowledgement(&h, now.source[2], IV_CONTRIBUTION, h.block_id);
	rig_send(&rig, 2, frame, n);
	forged += 3;
	/* No tag. */
	rig_send(&rig, 2, frame, rig_frame(frame, 2, &h, NULL, 0));
	forged++;
	/* Any bit of header and tag. */
	n = write_acknowledgement(&h, now.source[2], IV_ACKNOWLEDGE, h.block_id);
	memcpy(kept, frame, n);
	for (unsigned int bit = 8 * (HEADER + 1); bit < 8 * n; bit++) {
		unsigned int byte = bit / 8 - HEADER;

		/* Status, degraded, src_cnt and the flag `up` are no host's; src_id and gen_id another's. */
		if ((byte >= 5 && byte <= 9) || byte == 12 || byte == 15 ||
			(byte == 13 && 1 << bit % 8 == WEIR_FLAG_UP))
			continue;
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rig_fix_checksums(frame);
		rig_send(&rig, 2, frame, n);
		memcpy(frame, kept, n);
		forged++;
	}
	expect_drop(PPE_DROP_FORGED, forged);
	cr_expect_eq(job_stats(1).acknowledged, 0);
	/* A contribution's tag is no acknowledgement's, the other way round, too. */
	h = header_of(&now, 2, 2 * WINDOW, 0);
	rig_send(&rig, 2, frame,
		write_acknowledgement(&h, now.source[2], IV_ACKNOWLEDGE, h.block_id));
	expect_drop(PPE_DROP_FORGED, forged + 1);
	/* The right one. */
	rig_send(&rig, 2, kept, n);
	expect_drop(PPE_DROP_ACKNOWLEDGED, 1);
	/* Of the generation before: nobody's any more, and answered as such. */
	enter();
	rig_send(&rig, 2, kept, n);
	{
		cr_expect_eq(take(2).status, WEIR_STATUS_STALE);
	}
	expect_drop(PPE_DROP_STALE, 1);
	stop();
}

/* A probe has a tag of its own kind, and so has the answer, which answers that tag. */
Test(ppe_ack_auth, probes, .timeout = 90)
{
	static const uint8_t kinds[] = {IV_CONTRIBUTION, IV_ACKNOWLEDGE, WEIR_IV_PROBE};
	struct weir_header h, reply;
	unsigned int n;
	uint8_t tag[TAG];

	start_with(2, 8, PPE_POLICY_WAIT, 1000);
	enter();
	contribute_tagged(0, 0, 8);
	h = acknowledgement(0, 0);
	h.collective = WEIR_COLLECTIVE_PROBE;
	for (unsigned int i = 0; i < RTE_DIM(kinds); i++) {
		n = write_acknowledgement(&h, now.source[0], kinds[i], 0);
		memcpy(tag, frame + n - TAG, TAG);
		rig_send(&rig, 0, frame, n);
		expect_drop(PPE_DROP_FORGED, RTE_MIN(i + 1, 2u));
	}
	reply = take(0);
	cr_expect_eq(reply.status, WEIR_STATUS_WAITING);
	cr_expect_eq(reply.collective, WEIR_COLLECTIVE_PROBE);
	cr_expect(reply_holds(0, tag, payload_bytes));
	cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
	cr_expect_eq(payload[0], 1);
	stop();
}

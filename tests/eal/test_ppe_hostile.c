/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that nobody should send, one kind after the other: each ends under its own reason and no
 * other, is answered as the protocol says or not at all, and leaves the block that it was meant for and
 * the job beside it as they were.
 */
#include <inttypes.h>

#include "tests/eal/bench.h"

#define ELEMENTS 8
#define WINDOW   4
#define TIMES    3
#define L3       14
#define L4       34
#define HEADER   42

enum { VICTIM, BESIDE, UNJOINED, FIXED, JOBS };

static struct ppe_stats before;
static uint32_t block, beside; /* the next one of each job */

static void
four_jobs(struct rig_config *config)
{
	config->jobs = JOBS;
	for (unsigned int j = BESIDE; j < JOBS; j++) {
		config->job[j] = rig_job((uint8_t)(j + 1), j == BESIDE ? 3 : 2, WINDOW, ELEMENTS);
		config->job[j].timeout_ms = 60000;
	}
	config->job[FIXED].fixed_generation = 7;
}

static void
one_block_beside(void)
{
	use_job(BESIDE);
	reduce(beside++);
	use_job(VICTIM);
}

static void
start_jobs(void)
{
	start(.ports = 3, .timeout_ms = 60000, .late = true, .change = four_jobs);
	generation = rig_join(&rig, VICTIM, false);
	use_job(BESIDE);
	generation = rig_join(&rig, BESIDE, false);
	use_job(VICTIM);
	/* So far that there are blocks that are gone. */
	while (block < 3 * WINDOW)
		reduce(block++);
}

/* A block lacks the contribution of source 1, which is returned: what is made of it must not be taken for it. */
static struct weir_header
lacking(bool base_form)
{
	struct weir_header h = contribution(1, block);

	h.extended = !base_form;
	contribute(0, block);
	rig_settle(&rig, &before);
	return h;
}

static void
expect_ends(const char *what, enum ppe_drop reason, uint64_t times)
{
	struct ppe_stats after;

	rig_settle(&rig, &after);
	for (unsigned int r = 0; r < PPE_DROP_COUNT; r++)
		cr_assert_eq(after.drops[r] - before.drops[r], r == reason ? times : 0,
			"%s: %s %" PRIu64 ", not %s", what, ppe_drop_key((enum ppe_drop)r),
			after.drops[r] - before.drops[r], ppe_drop_key(reason));
	/* Messages between workers are created and consumed; all else that the switch creates is sent. */
	cr_assert_eq(after.consumed - before.consumed,
		after.created - before.created - (after.sent - before.sent), "%s is taken", what);
}

/* Send `frame`, of which so many bytes are there: this is its end, and this its answer. The block can be completed. */
static void
attack(const char *what, unsigned int port, unsigned int bytes, enum ppe_drop reason, int answer)
{
	const struct ppe_job_stats now = job_stats(2);
	struct ppe_job_stats then;

	for (unsigned int i = 0; i < TIMES; i++)
		rig_send(&rig, port, frame, bytes);
	expect_ends(what, reason, TIMES);
	for (unsigned int i = 0; i < TIMES && answer != NO_ANSWER; i++) {
		cr_assert(received(port), "%s: %u answers", what, i);
		cr_assert(got.status == answer && payload_bytes == 0,
			"%s is answered `%s` with %u bytes", what, weir_status_text(got.status),
			payload_bytes);
	}
	for (unsigned int p = 0; p < rig.ports; p++)
		cr_assert_not(received(p), "%s: port %u hears of it", what, p);
	then = job_stats(2);
	cr_assert_arr_eq(&now, &then, sizeof(now), "%s: the job beside it", what);
	contribute(1, block);
	expect_all(block++, WEIR_STATUS_OK, 0);
	one_block_beside();
}

#define EXT  false
#define BASE true

/* The changes are to the header h, or to the n bytes of `frame`; in FRAME() the checksums are made right. */
#define ATTACK(what, form, port, reason, answer, header, bytes)                                    \
	do {                                                                                       \
		struct weir_header h = lacking(form);                                              \
		unsigned int n;                                                                    \
                                                                                                   \
		header;                                                                            \
		n = write_frame_as(1, &h, 4 * ELEMENTS);                                           \
		bytes;                                                                             \
		attack(what, port, n, reason, answer);                                             \
	} while (0)
#define ANSWERED(what, form, reason, answer, ...)                                                  \
	ATTACK(what, form, 1, PPE_DROP_##reason, WEIR_STATUS_##answer, (__VA_ARGS__), )
#define DROPPED(what, form, reason, ...)                                                           \
	ATTACK(what, form, 1, PPE_DROP_##reason, NO_ANSWER, (__VA_ARGS__), )
#define SPOILT(what, form, reason, ...)                                                            \
	ATTACK(what, form, 1, PPE_DROP_##reason, NO_ANSWER, , (__VA_ARGS__))
#define FRAME(what, form, reason, ...)                                                             \
	ATTACK(what, form, 1, PPE_DROP_##reason, NO_ANSWER, ,                                      \
		(__VA_ARGS__, rig_fix_checksums(frame)))

static unsigned int
with_options(unsigned int bytes)
{
	memmove(frame + L4 + 4, frame + L4, bytes - L4);
	memset(frame + L4, 1, 4);
	frame[L3] = 0x46;
	weir_put16(frame + L3 + 2, (uint16_t)(bytes + 4 - L3));
	return bytes + 4;
}

static unsigned int
with_tag(unsigned int bytes, uint16_t type)
{
	memmove(frame + L3 + 2, frame + 12, bytes - 12);
	weir_put16(frame + 12, type);
	weir_put16(frame + 14, 5);
	return bytes + 4;
}

static void
wrong_headers(void)
{
	ANSWERED("of no job", EXT, UNKNOWN_JOB, REFUSED, h.job_id = 77);
	ANSWERED("of no job, base form", BASE, UNKNOWN_JOB, REFUSED, h.job_id = 77);
	ANSWERED("of no source", EXT, UNKNOWN_SOURCE, REFUSED, h.src_id = 9);
	ANSWERED("of source 255", BASE, UNKNOWN_SOURCE, REFUSED, h.src_id = 255);
	ANSWERED("generation before", EXT, STALE, STALE, h.gen_id--);
	ANSWERED("generation after", BASE, STALE, STALE, h.gen_id++);
	ANSWERED("generation 0", EXT, STALE, STALE, h.gen_id = 0);
	ANSWERED("a job without generation", EXT, NOT_JOINED, STALE, h.job_id = UNJOINED + 1);
	ANSWERED("far ahead", EXT, WINDOW, WINDOW, h.block_id += 1000 * WINDOW);
	ANSWERED("two windows ahead", BASE, WINDOW, WINDOW, h.block_id += 2 * WINDOW);
	ANSWERED("half the numbers ahead", EXT, WINDOW, WINDOW,
		h.block_id += (UINT32_C(1) << 31) - WINDOW);
	ANSWERED("far behind", EXT, EXPIRED, EXPIRED, h.block_id -= 1000 * WINDOW);
	DROPPED("an element more", EXT, LENGTH, h.grad_cnt++);
	DROPPED("an element less", BASE, LENGTH, h.grad_cnt--);
	ATTACK("more than a block", EXT, 1, PPE_DROP_LENGTH, NO_ANSWER, h.grad_cnt = ELEMENTS + 1,
		n = write_frame_as(1, &h, 4 * ELEMENTS + 4));
	DROPPED("4095 elements", EXT, LENGTH, h.grad_cnt = WEIR_ELEMENTS_MAX);
	DROPPED("barrier, elements", EXT, LENGTH, h.collective = WEIR_COLLECTIVE_BARRIER);
	DROPPED("src_cnt", BASE, NOT_A_CONTRIBUTION, h.src_cnt = 2);
	DROPPED("degraded", EXT, NOT_A_CONTRIBUTION, h.degraded = true);
	DROPPED("a status", EXT, NOT_A_CONTRIBUTION, h.status = WEIR_STATUS_PARTIAL);
	DROPPED("status 15", BASE, NOT_A_CONTRIBUTION, h.status = 15);
	DROPPED("a result", EXT, NOT_A_CONTRIBUTION, h.src_cnt = 2, h.final = true);
	DROPPED("more than a slice", EXT, LENGTH, h.collective = WEIR_COLLECTIVE_GATHER);
	DROPPED("rows for more than a block", EXT, LENGTH, h.collective = WEIR_COLLECTIVE_ALLTOALL);
	DROPPED("not the root's", EXT, LENGTH, h.collective = WEIR_COLLECTIVE_BROADCAST);
	ANSWERED("root 200", EXT, UNSUPPORTED, UNSUPPORTED, h.collective = WEIR_COLLECTIVE_SCATTER,
		h.root = 200);
	ANSWERED("allreduce to a root", EXT, UNSUPPORTED, UNSUPPORTED, h.root = 1);
	ANSWERED("gather, product", EXT, UNSUPPORTED, UNSUPPORTED,
		h.collective = WEIR_COLLECTIVE_ALLGATHER, h.op = WEIR_OP_PROD);
	ANSWERED("gather, no type", EXT, UNSUPPORTED, UNSUPPORTED,
		h.collective = WEIR_COLLECTIVE_ALLGATHER, h.dtype = WEIR_DTYPES);
	ANSWERED("collective 12", EXT, UNSUPPORTED, UNSUPPORTED, h.collective = 12);
	ANSWERED("operation 15", EXT, UNSUPPORTED, UNSUPPORTED, h.op = 15);
	ANSWERED("type 15", EXT, UNSUPPORTED, UNSUPPORTED, h.dtype = 15);
	DROPPED("acknowledges with elements", EXT, LENGTH,
		h.collective = WEIR_COLLECTIVE_ACKNOWLEDGE);
	DROPPED("a join with elements", EXT, LENGTH, h.collective = WEIR_COLLECTIVE_JOIN,
		h.gen_id = 0);
}

static void
wrong_frames(void)
{
	ATTACK("another address", EXT, 1, PPE_DROP_ADDRESS, WEIR_STATUS_REFUSED, ,
		(frame[L3 + 15] ^= 0x40, rig_fix_checksums(frame)));
	ATTACK("as another source's", EXT, 0, PPE_DROP_ADDRESS, WEIR_STATUS_REFUSED, ,
		n = write_frame_as(0, &h, 4 * ELEMENTS));
	FRAME("another source's address", BASE, SPOOFED_MEMBER, frame[L3 + 15] = 1);
	FRAME("another UDP port", EXT, ADDRESS, frame[L4 + 1] ^= 1);
	FRAME("another MAC address", EXT, ADDRESS, frame[11] ^= 0x40);
	ATTACK("by another switch port", EXT, 2, PPE_DROP_SPOOFED_MEMBER, NO_ANSWER, , );
	ATTACK("by another one, base form", BASE, 0, PPE_DROP_SPOOFED_MEMBER, NO_ANSWER, , );
	SPOILT("from a group", EXT, BAD_SOURCE_MAC, frame[6] = 3);
	ATTACK("join from a group", EXT, 1, PPE_DROP_BAD_SOURCE_MAC, NO_ANSWER,
		(h.collective = WEIR_COLLECTIVE_JOIN, h.gen_id = 0), frame[6] = 3);
	ATTACK("from a group, fixed", BASE, 1, PPE_DROP_BAD_SOURCE_MAC, NO_ANSWER,
		(h.job_id = FIXED + 1, h.gen_id = 7, h.block_id = 0), frame[6] = 3);
	ATTACK("from a group, no job", BASE, 1, PPE_DROP_UNKNOWN_JOB, NO_ANSWER, h.job_id = 77,
		frame[6] = 3);
	SPOILT("options", EXT, IP_OPTIONS, n = with_options(n));
	FRAME("the first fragment", EXT, IP_FRAGMENT, frame[L3 + 6] = 0x20);
	FRAME("a later fragment", BASE, IP_FRAGMENT, frame[L3 + 6] = 0, frame[L3 + 7] = 5);
	SPOILT("a VLAN tag", EXT, VLAN_TAG, n = with_tag(n, 0x8100));
	SPOILT("a VLAN tag, base form", BASE, VLAN_TAG, n = with_tag(n, 0x8100));
	SPOILT("two VLAN tags", EXT, VLAN_TAG, n = with_tag(with_tag(n, 0x8100), 0x88a8));
	SPOILT("a VLAN tag, another UDP port", EXT, NO_EXCEPTION_PORT, n = with_tag(n, 0x8100),
		frame[HEADER + 4 - 6] ^= 1);
	SPOILT("IPv4 checksum", EXT, IP_CHECKSUM, frame[L3 + 10] ^= 1);
	SPOILT("UDP checksum", BASE, UDP_CHECKSUM, frame[L4 + 6] ^= 1);
	SPOILT("a bit of the payload", EXT, UDP_CHECKSUM, frame[HEADER + 16 + 5] ^= 1);
	SPOILT("IPv4 beyond the frame", EXT, MALFORMED, weir_put16(frame + L3 + 2, 2000));
	SPOILT("IPv4 without UDP", EXT, MALFORMED, weir_put16(frame + L3 + 2, 20));
	SPOILT("UDP beyond IPv4", BASE, MALFORMED, weir_put16(frame + L4 + 4, 1000));
	SPOILT("UDP of 7 bytes", EXT, MALFORMED, weir_put16(frame + L4 + 4, 7));
	SPOILT("IPv4 header of 16 bytes", EXT, MALFORMED, frame[L3] = 0x44);
}

Test(ppe_hostile, each_packet_has_its_drop_reason, .timeout = 90)
{
	start_jobs();
	wrong_headers();
	wrong_frames();
	stop();
}

/* The first bytes of the contribution end so: as it is, with lengths that say so, or with a VLAN tag. */
static void
send_cut(const struct weir_header *h, unsigned int bytes, bool says_so, bool tagged,
	enum ppe_drop reason)
{
	unsigned int whole = write_frame_as(1, h, 4 * ELEMENTS);
	char what[64];

	snprintf(what, sizeof(what), "cut%s%s to %u bytes", says_so ? ", as it says," : "",
		tagged ? ", with a VLAN tag," : "", bytes);
	rig_settle(&rig, &before);
	if (says_so) {
		weir_put16(frame + L3 + 2, (uint16_t)(bytes - L3));
		weir_put16(frame + L4 + 4, (uint16_t)(bytes - L4));
		rig_fix_checksums(frame);
	}
	if (tagged)
		with_tag(whole, 0x8100);
	rig_send(&rig, 1, frame, bytes);
	expect_ends(what, reason, 1);
}

static void
cut(bool base_form)
{
	unsigned int least = HEADER + weir_header_bytes(!base_form), whole = least + 4 * ELEMENTS;
	struct weir_header h;

	start_jobs();
	h = lacking(base_form);
	for (unsigned int bytes = 1; bytes < whole; bytes++)
		send_cut(&h, bytes, false, false, PPE_DROP_MALFORMED);
	for (unsigned int bytes = HEADER; bytes < whole; bytes++)
		send_cut(&h, bytes, true, false,
			bytes < least ? PPE_DROP_TRUNCATED : PPE_DROP_LENGTH);
	/* With a VLAN tag it is one of ours as far as the UDP ports can be read. */
	for (unsigned int bytes = L3; bytes < whole + 4; bytes++)
		send_cut(&h, bytes, false, true,
			bytes < HEADER + 4 ? PPE_DROP_NO_EXCEPTION_PORT : PPE_DROP_VLAN_TAG);
	contribute(1, block);
	expect_all(block, WEIR_STATUS_OK, 0);
	one_block_beside();
	stop();
}

CASE(ppe_hostile, cut_at_every_byte, cut(false))
CASE(ppe_hostile, cut_at_every_byte_base_form, cut(true))

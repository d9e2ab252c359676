/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that nobody should send, one kind after the other: each ends under its own reason and no
 * other, is answered as the protocol says or not at all, and leaves the block that it was meant for and
 * the job beside it as they were.
 */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <string.h>

#include "tests/eal/rig.h"

#define ELEMENTS 8
#define WINDOW   4
#define TIMES    3
#define SILENCE  255 /* no answer */
#define L3       14
#define L4       34
#define HEADER   42
#define HERE     0xffff /* the port where the source is */

enum { VICTIM, BESIDE, UNJOINED, FIXED, JOBS };

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX], answer[RIG_FRAME_MAX];
static uint16_t generation[JOBS];
static uint32_t next[JOBS]; /* block */

/* What is wrong with it: the header before the frame is made, or the frame itself. */
struct hostile {
	const char *what;
	enum ppe_drop reason;
	uint8_t answer; /* status, or SILENCE */
	void (*header)(struct weir_header *h);
	unsigned int (*frame)(unsigned int bytes);
	uint16_t port;
	bool base_form;
};

#define HEADER_CHANGE(name, statement)                                                             \
	static void name(struct weir_header *h)                                                    \
	{                                                                                          \
		statement;                                                                         \
	}
/* Bytes of the frame, with right checksums; and bytes, with what they make of the checksums. */
#define FRAME_CHANGE(name, statement)                                                              \
	static unsigned int name(unsigned int bytes)                                               \
	{                                                                                          \
		statement;                                                                         \
		rig_fix_checksums(frame);                                                          \
		return bytes;                                                                      \
	}
#define FRAME_SPOILT(name, statement)                                                              \
	static unsigned int name(unsigned int bytes)                                               \
	{                                                                                          \
		statement;                                                                         \
		return bytes;                                                                      \
	}

HEADER_CHANGE(no_job, h->job_id = 77)
HEADER_CHANGE(no_source, h->src_id = 9)
HEADER_CHANGE(last_source, h->src_id = 255)
HEADER_CHANGE(older, h->gen_id--)
HEADER_CHANGE(newer, h->gen_id++)
HEADER_CHANGE(no_generation, h->gen_id = 0)
HEADER_CHANGE(far_ahead, h->block_id += 1000 * WINDOW)
HEADER_CHANGE(window_ahead, h->block_id += 2 * WINDOW)
HEADER_CHANGE(far_behind, h->block_id -= 1000 * WINDOW)
HEADER_CHANGE(half_round, h->block_id += (UINT32_C(1) << 31) - WINDOW)
HEADER_CHANGE(one_more, h->grad_cnt++)
HEADER_CHANGE(one_less, h->grad_cnt--)
HEADER_CHANGE(most, h->grad_cnt = WEIR_ELEMENTS_MAX)
HEADER_CHANGE(barrier_with_elements, h->collective = WEIR_COLLECTIVE_BARRIER)
HEADER_CHANGE(counts_sources, h->src_cnt = 2)
HEADER_CHANGE(degraded, h->degraded = true)
HEADER_CHANGE(status, h->status = WEIR_STATUS_PARTIAL)
HEADER_CHANGE(status_unknown, h->status = 15)
HEADER_CHANGE(a_result, h->src_cnt = 2; h->final = true)
HEADER_CHANGE(whole_for_slice, h->collective = WEIR_COLLECTIVE_GATHER)
HEADER_CHANGE(too_many_rows, h->collective = WEIR_COLLECTIVE_ALLTOALL)
HEADER_CHANGE(not_the_root, h->collective = WEIR_COLLECTIVE_BROADCAST; h->root = h->src_id == 0)
HEADER_CHANGE(root_beyond, h->collective = WEIR_COLLECTIVE_SCATTER; h->root = 200)
HEADER_CHANGE(root_of_none, h->root = 1)
HEADER_CHANGE(op_of_none, h->collective = WEIR_COLLECTIVE_ALLGATHER; h->op = WEIR_OP_PROD)
HEADER_CHANGE(type_of_none, h->collective = WEIR_COLLECTIVE_ALLGATHER; h->dtype = 14)
HEADER_CHANGE(collective_unknown, h->collective = 12)
HEADER_CHANGE(acknowledges, h->collective = WEIR_COLLECTIVE_ACKNOWLEDGE)
HEADER_CHANGE(op_unknown, h->op = 15)
HEADER_CHANGE(type_unknown, h->dtype = 15)
HEADER_CHANGE(not_joined, h->job_id = 3)
HEADER_CHANGE(of_fixed, h->job_id = 4; h->gen_id = 7; h->block_id = 0)
HEADER_CHANGE(join, h->collective = WEIR_COLLECTIVE_JOIN; h->gen_id = 0)

FRAME_CHANGE(other_address, frame[L3 + 15] ^= 0x40)
FRAME_CHANGE(as_the_other, frame[L3 + 15] = 1)
FRAME_CHANGE(other_port, frame[L4 + 1] ^= 1)
FRAME_CHANGE(other_mac, frame[11] ^= 0x40)
FRAME_CHANGE(first_fragment, frame[L3 + 6] = 0x20)
FRAME_CHANGE(later_fragment, frame[L3 + 6] = 0; frame[L3 + 7] = 5)
FRAME_SPOILT(ip_sum, frame[L3 + 10] ^= 1)
FRAME_SPOILT(udp_sum, frame[L4 + 6] ^= 1)
FRAME_SPOILT(payload_bit, frame[HEADER + 16 + 5] ^= 1)
FRAME_SPOILT(ip_longer, weir_put16(frame + L3 + 2, 2000))
FRAME_SPOILT(ip_short, weir_put16(frame + L3 + 2, 20))
FRAME_SPOILT(udp_longer, weir_put16(frame + L4 + 4, 1000))
FRAME_SPOILT(group_source, frame[6] = 3)
FRAME_SPOILT(udp_short, weir_put16(frame + L4 + 4, 7))
FRAME_SPOILT(header_short, frame[L3] = 0x44)

static unsigned int
options(unsigned int bytes)
{
	memmove(frame + L4 + 4, frame + L4, bytes - L4);
	memset(frame + L4, 1, 4);
	frame[L3] = 0x46;
	weir_put16(frame + L3 + 2, (uint16_t)(bytes + 4 - L3));
	return bytes + 4;
}

static unsigned int
vlan(unsigned int bytes)
{
	memmove(frame + L3 + 2, frame + 12, bytes - 12);
	weir_put16(frame + 12, 0x8100);
	weir_put16(frame + 14, 5);
	return bytes + 4;
}

static unsigned int
two_vlans(unsigned int bytes)
{
	bytes = vlan(bytes);
	memmove(frame + L3 + 2, frame + 12, bytes - 12);
	weir_put16(frame + 12, 0x88a8);
	weir_put16(frame + 14, 6);
	return bytes + 4;
}

/* A tag, and something else behind it: not ours. */
static unsigned int
vlan_of_others(unsigned int bytes)
{
	bytes = vlan(bytes);
	frame[HEADER + 4 - 6] ^= 1; /* the UDP port */
	return bytes;
}

#define DROP(name) PPE_DROP_##name
#define TOLD(name) WEIR_STATUS_##name

static const struct hostile packets[] = {
	{"of no job", DROP(UNKNOWN_JOB), TOLD(REFUSED), no_job, NULL, HERE, false},
	{"of no job, base form", DROP(UNKNOWN_JOB), TOLD(REFUSED), no_job, NULL, HERE, true},
	{"of no source", DROP(UNKNOWN_SOURCE), TOLD(REFUSED), no_source, NULL, HERE, false},
	{"of source 255", DROP(UNKNOWN_SOURCE), TOLD(REFUSED), last_source, NULL, HERE, true},
	{"another address", DROP(ADDRESS), TOLD(REFUSED), NULL, other_address, HERE, false},
	{"another source's address", DROP(SPOOFED_MEMBER), SILENCE, NULL, as_the_other, HERE, true},
	{"another UDP port", DROP(ADDRESS), SILENCE, NULL, other_port, HERE, false},
	{"another MAC address", DROP(ADDRESS), SILENCE, NULL, other_mac, HERE, false},
	{"by another switch port", DROP(SPOOFED_MEMBER), SILENCE, NULL, NULL, 2, false},
	{"by another one, base form", DROP(SPOOFED_MEMBER), SILENCE, NULL, NULL, 0, true},
	{"generation before", DROP(STALE), TOLD(STALE), older, NULL, HERE, false},
	{"generation after", DROP(STALE), TOLD(STALE), newer, NULL, HERE, true},
	{"generation 0", DROP(STALE), TOLD(STALE), no_generation, NULL, HERE, false},
	{"a job without generation", DROP(NOT_JOINED), TOLD(STALE), not_joined, NULL, HERE, false},
	{"far ahead", DROP(WINDOW), TOLD(WINDOW), far_ahead, NULL, HERE, false},
	{"two windows ahead", DROP(WINDOW), TOLD(WINDOW), window_ahead, NULL, HERE, true},
	{"half the numbers ahead", DROP(WINDOW), TOLD(WINDOW), half_round, NULL, HERE, false},
	{"far behind", DROP(EXPIRED), TOLD(EXPIRED), far_behind, NULL, HERE, false},
	{"an element more", DROP(LENGTH), SILENCE, one_more, NULL, HERE, false},
	{"an element less", DROP(LENGTH), SILENCE, one_less, NULL, HERE, true},
	{"4095 elements", DROP(LENGTH), SILENCE, most, NULL, HERE, false},
	{"barrier, elements", DROP(LENGTH), SILENCE, barrier_with_elements, NULL, HERE, false},
	{"src_cnt", DROP(NOT_A_CONTRIBUTION), SILENCE, counts_sources, NULL, HERE, true},
	{"degraded", DROP(NOT_A_CONTRIBUTION), SILENCE, degraded, NULL, HERE, false},
	{"a status", DROP(NOT_A_CONTRIBUTION), SILENCE, status, NULL, HERE, false},
	{"status 15", DROP(NOT_A_CONTRIBUTION), SILENCE, status_unknown, NULL, HERE, true},
	{"a result", DROP(NOT_A_CONTRIBUTION), SILENCE, a_result, NULL, HERE, false},
	{"more than a slice", DROP(LENGTH), SILENCE, whole_for_slice, NULL, HERE, false},
	{"rows for more than a block", DROP(LENGTH), SILENCE, too_many_rows, NULL, HERE, false},
	{"not the root's", DROP(LENGTH), SILENCE, not_the_root, NULL, HERE, false},
	{"root 200", DROP(UNSUPPORTED), TOLD(UNSUPPORTED), root_beyond, NULL, HERE, false},
	{"allreduce to a root", DROP(UNSUPPORTED), TOLD(UNSUPPORTED), root_of_none, NULL, HERE,
		false},
	{"gather, product", DROP(UNSUPPORTED), TOLD(UNSUPPORTED), op_of_none, NULL, HERE, false},
	{"gather, type 14", DROP(UNSUPPORTED), TOLD(UNSUPPORTED), type_of_none, NULL, HERE, false},
	{"collective 13", DROP(UNSUPPORTED), TOLD(UNSUPPORTED), collective_unknown, NULL, HERE,
		false},
	{"operation 15", DROP(UNSUPPORTED), TOLD(UNSUPPORTED), op_unknown, NULL, HERE, false},
	{"type 15", DROP(UNSUPPORTED), TOLD(UNSUPPORTED), type_unknown, NULL, HERE, false},
	{"acknowledges with elements", DROP(LENGTH), SILENCE, acknowledges, NULL, HERE, false},
	{"a join with elements", DROP(LENGTH), SILENCE, join, NULL, HERE, false},
	{"from a group", DROP(BAD_SOURCE_MAC), SILENCE, NULL, group_source, HERE, false},
	{"join from a group", DROP(BAD_SOURCE_MAC), SILENCE, join, group_source, HERE, false},
	{"from a group, fixed", DROP(BAD_SOURCE_MAC), SILENCE, of_fixed, group_source, HERE, true},
	{"from a group, no job", DROP(UNKNOWN_JOB), SILENCE, no_job, group_source, HERE, true},
	{"options", DROP(IP_OPTIONS), SILENCE, NULL, options, HERE, false},
	{"the first fragment", DROP(IP_FRAGMENT), SILENCE, NULL, first_fragment, HERE, false},
	{"a later fragment", DROP(IP_FRAGMENT), SILENCE, NULL, later_fragment, HERE, true},
	{"a VLAN tag", DROP(VLAN_TAG), SILENCE, NULL, vlan, HERE, false},
	{"a VLAN tag, base form", DROP(VLAN_TAG), SILENCE, NULL, vlan, HERE, true},
	{"two VLAN tags", DROP(VLAN_TAG), SILENCE, NULL, two_vlans, HERE, false},
	{"a VLAN tag, another port", DROP(NO_EXCEPTION_PORT), SILENCE, NULL, vlan_of_others, HERE,
		false},
	{"IPv4 checksum", DROP(IP_CHECKSUM), SILENCE, NULL, ip_sum, HERE, false},
	{"UDP checksum", DROP(UDP_CHECKSUM), SILENCE, NULL, udp_sum, HERE, true},
	{"a bit of the payload", DROP(UDP_CHECKSUM), SILENCE, NULL, payload_bit, HERE, false},
	{"IPv4 beyond the frame", DROP(MALFORMED), SILENCE, NULL, ip_longer, HERE, false},
	{"IPv4 without UDP", DROP(MALFORMED), SILENCE, NULL, ip_short, HERE, false},
	{"UDP beyond IPv4", DROP(MALFORMED), SILENCE, NULL, udp_longer, HERE, true},
	{"UDP of 7 bytes", DROP(MALFORMED), SILENCE, NULL, udp_short, HERE, false},
	{"IPv4 header of 16 bytes", DROP(MALFORMED), SILENCE, NULL, header_short, HERE, false},
};

static struct weir_header
contribution(unsigned int j, unsigned int source, bool base_form)
{
	struct weir_header h =
		rig_contribution(rig.job[j].id, generation[j], source, next[j], ELEMENTS);

	h.extended = !base_form;
	return h;
}

static unsigned int
build(const struct weir_header *h, unsigned int source, int32_t value)
{
	int32_t elements[ELEMENTS];

	for (unsigned int i = 0; i < ELEMENTS; i++)
		elements[i] = value + (int32_t)i;
	return rig_frame(frame, source, h, elements, sizeof(elements));
}

static void
offer(unsigned int j, unsigned int source, int32_t value)
{
	struct weir_header h = contribution(j, source, false);

	rig_send(&rig, source, frame, build(&h, source, value));
}

/* Each source of the job gets this sum. */
static void
expect(unsigned int j, int32_t sum, const char *what)
{
	unsigned int n = rig.job[j].nb_sources;

	for (unsigned int s = 0; s < n; s++) {
		unsigned int bytes, size = rig_receive(&rig, s, answer, 2000);
		const uint8_t *payload;
		struct weir_header h;

		cr_assert(size > 0 && rig_parse(answer, size, &h, &payload, &bytes),
			"%s: source %u of job %u gets nothing", what, s, rig.job[j].id);
		cr_assert(h.job_id == rig.job[j].id && h.status == WEIR_STATUS_OK &&
				h.block_id == next[j] && h.src_cnt == n && bytes == 4 * ELEMENTS,
			"%s: source %u gets %s of block %u of job %u", what, s,
			weir_status_text(h.status), h.block_id, h.job_id);
		for (unsigned int i = 0; i < ELEMENTS; i++) {
			int32_t got;

			memcpy(&got, payload + 4 * i, 4);
			cr_assert_eq(got, sum + (int32_t)(n * i), "%s: a wrong sum in job %u", what,
				rig.job[j].id);
		}
	}
	next[j]++;
}

static void
one_block(unsigned int j, const char *what)
{
	int32_t sum = 0;

	for (unsigned int s = 0; s < rig.job[j].nb_sources; s++) {
		offer(j, s, 10 << s);
		sum += 10 << s;
	}
	expect(j, sum, what);
}

/* What came back for it: every answer this status, to the port that it came from. */
static void
expect_answers(const struct hostile *p, unsigned int port)
{
	unsigned int got = 0, bytes, size;

	while ((size = rig_receive(&rig, port, answer, 0)) > 0) {
		const uint8_t *payload;
		struct weir_header h;

		cr_assert(rig_parse(answer, size, &h, &payload, &bytes));
		cr_assert(h.status == p->answer, "%s is answered `%s`", p->what,
			weir_status_text(h.status));
		cr_assert(bytes == 0, "%s is answered with %u bytes", p->what, bytes);
		got++;
	}
	cr_assert_eq(got, p->answer == SILENCE ? 0 : TIMES, "%s: %u answers", p->what, got);
	for (unsigned int other = 0; other < rig.ports; other++)
		cr_assert_eq(rig_receive(&rig, other, answer, 0), 0,
			"%s: somebody else hears of it", p->what);
}

static void
expect_drops(const char *what, const struct ppe_stats *before, enum ppe_drop reason, uint64_t times)
{
	struct ppe_stats after;

	rig_settle(&rig, &after);
	for (unsigned int r = 0; r < PPE_DROP_COUNT; r++)
		cr_assert_eq(after.drops[r] - before->drops[r], r == reason ? times : 0,
			"%s: %s %" PRIu64 ", not %s", what, ppe_drop_key((enum ppe_drop)r),
			after.drops[r] - before->drops[r], ppe_drop_key(reason));
	/* Messages between workers are created and consumed; all else that the switch creates is sent. */
	cr_assert_eq(after.consumed - before->consumed,
		after.created - before->created - (after.sent - before->sent), "%s is taken", what);
}

/* Source 1's block lacks source 1's contribution: this one must not be taken for it. */
static void
attack(const struct hostile *p)
{
	struct weir_header h = contribution(VICTIM, 1, p->base_form);
	unsigned int bytes, port = p->port == HERE ? 1 : p->port;
	struct ppe_job_stats beside, beside_after;
	struct ppe_stats before;

	offer(VICTIM, 0, 100);
	rig_settle(&rig, &before);
	ppe_job_stats_read(rig.ppe, rig.job[BESIDE].id, &beside);
	if (p->header != NULL)
		p->header(&h);
	bytes = build(&h, 1, 5000);
	if (p->frame != NULL)
		bytes = p->frame(bytes);
	for (unsigned int i = 0; i < TIMES; i++)
		rig_send(&rig, port, frame, bytes);
	expect_drops(p->what, &before, p->reason, TIMES);
	expect_answers(p, port);
	ppe_job_stats_read(rig.ppe, rig.job[BESIDE].id, &beside_after);
	cr_assert_arr_eq(&beside, &beside_after, sizeof(beside), "%s: the job beside it", p->what);
	offer(VICTIM, 1, 200);
	expect(VICTIM, 300, p->what);
	one_block(BESIDE, p->what);
}

static void
start(void)
{
	struct rig_config config = {.workers = 2,
		.threads = 8,
		.ports = 3,
		.jobs = JOBS,
		.job = {rig_job(1, 2, WINDOW, ELEMENTS), rig_job(2, 3, WINDOW, ELEMENTS),
			rig_job(3, 2, WINDOW, ELEMENTS), rig_job(4, 2, WINDOW, ELEMENTS)}};

	for (unsigned int j = 0; j < JOBS; j++)
		config.job[j].timeout_ms = 60000;
	config.job[FIXED].fixed_generation = 7;
	rig_start(&rig, &config);
	generation[VICTIM] = rig_join(&rig, VICTIM, false);
	generation[BESIDE] = rig_join(&rig, BESIDE, false);
	/* So far that there are blocks that are gone. */
	for (unsigned int block = 0; block < 3 * WINDOW; block++)
		one_block(VICTIM, "before");
}

Test(ppe_hostile, each_packet_has_its_drop_reason, .timeout = 90)
{
	const char *error;

	start();
	for (unsigned int i = 0; i < sizeof(packets) / sizeof(packets[0]); i++)
		attack(&packets[i]);
	error = rig_stop(&rig);
	cr_assert_null(error, "%s", error);
}

static void
cut(bool base_form)
{
	unsigned int least = HEADER + weir_header_bytes(!base_form), whole;
	struct weir_header h;
	const char *error;

	start();
	offer(VICTIM, 0, 100);
	h = contribution(VICTIM, 1, base_form);
	whole = build(&h, 1, 5000);
	/* It ends before its IPv4 length says so. */
	for (unsigned int bytes = 1; bytes < whole; bytes++) {
		struct ppe_stats before;

		rig_settle(&rig, &before);
		build(&h, 1, 5000);
		rig_send(&rig, 1, frame, bytes);
		expect_drops("cut short", &before, PPE_DROP_MALFORMED, 1);
	}
	/* And with lengths that say so. */
	for (unsigned int bytes = HEADER; bytes < whole; bytes++) {
		struct ppe_stats before;

		rig_settle(&rig, &before);
		build(&h, 1, 5000);
		weir_put16(frame + L3 + 2, (uint16_t)(bytes - L3));
		weir_put16(frame + L4 + 4, (uint16_t)(bytes - L4));
		rig_fix_checksums(frame);
		rig_send(&rig, 1, frame, bytes);
		expect_drops("shorter", &before,
			bytes < least ? PPE_DROP_TRUNCATED : PPE_DROP_LENGTH, 1);
	}
	/* With a VLAN tag it is one of ours as far as the UDP ports can be read. */
	for (unsigned int bytes = L3; bytes < whole + 4; bytes++) {
		struct ppe_stats before;

		rig_settle(&rig, &before);
		build(&h, 1, 5000);
		vlan(whole);
		rig_send(&rig, 1, frame, bytes);
		expect_drops("cut short with a tag", &before,
			bytes < HEADER + 4 ? PPE_DROP_NO_EXCEPTION_PORT : PPE_DROP_VLAN_TAG, 1);
	}
	offer(VICTIM, 1, 200);
	expect(VICTIM, 300, "cut");
	one_block(BESIDE, "cut");
	error = rig_stop(&rig);
	cr_assert_null(error, "%s", error);
}

Test(ppe_hostile, cut_at_every_byte, .timeout = 90)
{
	cut(false);
}

Test(ppe_hostile, cut_at_every_byte_base_form, .timeout = 90)
{
	cut(true);
}

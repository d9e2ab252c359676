/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulation says what then happens when the frame comes, and changes nothing: each frame is simulated, all numbers and
 * blocks are compared, and then it is sent.
 */
#include <stdlib.h>

#include "ppe/simulate.h"
#include "tests/eal/bench.h"

static struct ppe_explanation said;

/* All that the switch shows. Time stands still. */
struct state {
	struct ppe_stats stats;
	struct ppe_job_stats job;
	struct ppe_source_stats source[4];
	struct ppe_block_info blocks[64];
	int nb_blocks;
};

static struct state *
state_now(void)
{
	struct state *state = calloc(1, sizeof(*state));

	ppe_stats_read(rig.ppe, &state->stats);
	ppe_job_stats_read(rig.ppe, rig.job[0].id, &state->job);
	state->nb_blocks = ppe_blocks_read(rig.ppe, rig.job[0].id, false, 0, state->blocks, 64);
	for (int b = 0; b < state->nb_blocks && b < 64; b++) /* each look at the clock takes time */
		state->blocks[b].opened_us = state->blocks[b].age_us = state->blocks[b].idle_us = 0;
	for (unsigned int s = 0; s < rig.job[0].nb_sources && s < 4; s++) {
		ppe_source_stats_read(rig.ppe, rig.job[0].id, (uint8_t)s, &state->source[s]);
		state->source[s].silent_us = state->source[s].joining_us = 0;
	}
	return state;
}

static void
simulate(unsigned int port, unsigned int bytes)
{
	struct state *before = state_now(), *after;

	cr_assert_eq(ppe_simulate(rig.ppe, frame, bytes, port, &said), 0);
	after = state_now();
	cr_assert_eq(memcmp(before, after, sizeof(*before)), 0, "something has changed");
	free(before);
	free(after);
}

/* Has the last packet ended so? */
static bool
ended(const struct ppe_stats *before, const struct ppe_stats *now, const char *end)
{
	bool dropped = false;

	for (unsigned int reason = 0; reason < PPE_DROP_COUNT; reason++) {
		if (now->drops[reason] == before->drops[reason])
			continue;
		if (strncmp(end, "drop:", 5) == 0 && strcmp(end + 5, ppe_drop_key(reason)) == 0)
			return true;
		dropped = true;
	}
	if (dropped)
		return false;
	if (strcmp(end, "send") == 0)
		return now->sent > before->sent;
	return strcmp(end, "consume") == 0 && now->consumed > before->consumed;
}

/* Simulate `frame`, send it to the port, and compare. */
static void
same(unsigned int port, unsigned int bytes)
{
	struct ppe_stats before, now;

	simulate(port, bytes);
	ppe_stats_read(rig.ppe, &before);
	rig_send(&rig, port, frame, bytes);
	rig_rest(&rig);
	ppe_stats_read(rig.ppe, &now);
	cr_assert(ended(&before, &now, said.end), "it does not end as \"%s\": %s", said.end,
		said.text);
	for (unsigned int p = 0; p < rig.ports; p++) /* not into `frame` */
		for (uint8_t *other = malloc(RIG_FRAME_MAX); other != NULL;
			free(other), other = NULL)
			while (rig_receive(&rig, p, other, 0) > 0)
				;
}

#define EXPECT(expected, text_part)                                                                \
	do {                                                                                       \
		cr_assert_str_eq(said.end, expected, "%s: %s", said.end, said.text);               \
		cr_assert_not_null(strstr(said.text, text_part), "%s", said.text);                 \
	} while (0)

/* A source's packet with its elements, or n bytes of them. */
static void
packet_of(const struct weir_header *h, unsigned int n, const char *end, const char *text)
{
	same(h->src_id, write_frame(h, n));
	cr_assert_str_eq(said.program, "collective");
	EXPECT(end, text);
}

static void
packet(const struct weir_header *h, const char *end, const char *text)
{
	packet_of(h, 4u * h->grad_cnt, end, text);
}

#define PACKET(header, change, end, text)                                                          \
	do {                                                                                       \
		struct weir_header h = (header);                                                   \
		change;                                                                            \
		packet(&h, end, text);                                                             \
	} while (0)

ONE_WORKER_AND_TWO(ppe_simulate, contributions)
{
	struct weir_header short_one;

	start(.workers = workers, .policy = PPE_POLICY_PARTIAL, .window = 2);
	short_one = contribution(1, 0);
	PACKET(contribution(0, 0), , "consume", "contribution 1 of 2 to block 0: it opens");
	PACKET(contribution(0, 0), , "drop:duplicate", "already");
	PACKET(contribution(1, 0), h.gen_id++, "drop:stale", "that of the job is");
	PACKET(contribution(1, 0), h.job_id = 99, "drop:unknown_job", "no job");
	PACKET(contribution(1, 0), h.op = 15, "drop:unsupported", "");
	PACKET(contribution(1, 0), h.status = WEIR_STATUS_OK + 1, "drop:not_a_contribution", "");
	packet_of(&short_one, 4, "drop:length", "8 elements in 4 bytes");
	PACKET(contribution(1, 0), , "consume", "the last contribution to block 0: the result");
	PACKET(contribution(1, 0), , "drop:late", "sent to source 1 again");
	PACKET(contribution(0, 50), , "drop:window", "the window has 2 blocks");
	PACKET(contribution(0, 1), , "consume", "opens");
	PACKET(contribution(1, 1), h.op = WEIR_OP_MAX, "drop:mismatch", "op is 0 in the block");
	PACKET(contribution(0, 2), , "consume", "opens");
	PACKET(contribution(1, 2), , "consume", "last");
	PACKET(contribution(0, 0), , "drop:expired", "");
	/* Source 1 goes: a block ends without it, and then the next one waits for it. */
	PACKET(contribution(0, 4), , "consume", "opens");
	pass_ms(300);
	discard();
	PACKET(contribution(0, 6), , "drop:held_back", "");
	PACKET(note(1, 4, WEIR_COLLECTIVE_ACKNOWLEDGE), , "drop:late", "lacks");
	PACKET(note(1, 6, WEIR_COLLECTIVE_ACKNOWLEDGE), , "drop:acknowledged", "");
	PACKET(note(1, 6, WEIR_COLLECTIVE_ACKNOWLEDGE), , "drop:known", "");
	PACKET(note(1, 6, WEIR_COLLECTIVE_PROBE), , "drop:probed", "");
	PACKET(note(1, 90, WEIR_COLLECTIVE_PROBE), , "drop:window", "");
	PACKET(contribution(0, 6), , "consume", "opens");
	stop_unread();
}

ONE_WORKER_AND_TWO(ppe_simulate, joins_and_strangers)
{
	struct weir_header h;
	unsigned int n;

	start(.workers = workers, .sources = 2, .late = true);
	h = contribution(0, 0);
	h.gen_id = 1;
	packet(&h, "drop:not_joined", "not all joined");
	h = (struct weir_header){.extended = true,
		.job_id = rig.job[0].id,
		.src_id = 0,
		.block_id = 0x1111,
		.collective = WEIR_COLLECTIVE_JOIN};
	packet(&h, "consume", "join 1 of 2: it waits");
	packet(&h, "consume", "join 1 of 2: it waits");
	h.grad_cnt = 3;
	packet_of(&h, 0, "drop:length", "");
	h.grad_cnt = 0;
	h.src_id = 1;
	h.block_id = 0x2222;
	packet(&h, "consume", "join 2 of 2: a generation begins");
	packet(&h, "consume", "which runs: it is answered again");
	h.src_id = 0;
	h.block_id = 0x1112;
	packet(&h, "consume", "join 1 of 2: it waits");
	/* From another host's addresses. */
	n = write_frame(&h, 0);
	frame[29] ^= 0x40;
	rig_fix_checksums(frame);
	same(0, n);
	EXPECT("drop:address", "");
	h.src_id = 77;
	n = write_frame_as(0, &h, 0);
	same(0, n);
	EXPECT("drop:unknown_source", "");
	stop_unread();
}

static void
with_kernel(struct rig_config *config)
{
	config->exception = true;
}

#define FRAME(to, from)                                                                            \
	do {                                                                                       \
		memset(frame, 0, 60);                                                              \
		memcpy(frame, to, 6);                                                              \
		memcpy(frame + 6, from, 6);                                                        \
	} while (0)

ONE_WORKER_AND_TWO(ppe_simulate, other_frames)
{
	static const uint8_t a[6] = {2, 0x53, 0, 0, 0, 1}, b[6] = {2, 0x53, 0, 0, 0, 2};
	static const uint8_t group[6] = {1, 0, 0x5e, 0, 0, 1}, bridge[6] = {1, 0x80, 0xc2, 0, 0, 0};

	start(.workers = workers, .ports = 3, .change = with_kernel);
	FRAME(b, a);
	same(0, 60);
	cr_assert_str_eq(said.program, "forward");
	cr_assert_eq(said.match->conditions, 0);
	EXPECT("send", "to all other ports: p1, p2");
	FRAME(a, b);
	same(1, 60);
	if (workers == 1)
		EXPECT("send", "to port p0");
	FRAME(a, b);
	same(1, 60);
	EXPECT("send", "to port p0");
	FRAME(a, b);
	same(0, 60); /* b moves */
	EXPECT("drop:same_port", "");
	FRAME(a, group);
	same(0, 60);
	EXPECT("drop:bad_source_mac", "");
	FRAME(bridge, a);
	same(0, 60);
	EXPECT("drop:reserved_mac", "");
	FRAME(rig_switch_mac, a);
	same(0, 60);
	cr_assert_str_eq(said.program, "exception");
	cr_assert_eq(said.match->conditions, PPE_MATCH_TO_SWITCH_MAC);
	EXPECT("send", "to the kernel, by port p2");
	same(0, 13);
	EXPECT("drop:malformed", "");
	simulate(0, 0);
	EXPECT("drop:malformed", "");
	cr_assert_eq(ppe_simulate(rig.ppe, frame, PPE_SIMULATE_BYTES_MAX + 1, 0, &said), -EINVAL);
	cr_assert_eq(ppe_simulate(rig.ppe, frame, 60, 3, &said), -EINVAL);
	stop_unread();
}

/* Contributions with random changes. What a simulation leaves open is not compared. */
ONE_WORKER_AND_TWO(ppe_simulate, random_frames)
{
	uint64_t random = rig_seed() + workers;
	unsigned int open = 0;

	start(.workers = workers, .sources = 3, .policy = PPE_POLICY_PARTIAL, .ports = 3);
	for (unsigned int i = 0; i < 3000; i++) {
		const unsigned int source = (unsigned int)(rig_random(&random) % 3);
		const struct weir_header h =
			contribution(source, (uint32_t)(i / 60 + rig_random(&random) % 3));
		unsigned int n = write_frame(&h, 4u * h.grad_cnt);

		for (uint64_t changes = rig_random(&random) % 3; changes > 0; changes--)
			frame[rig_random(&random) % 60] ^= (uint8_t)(1u << rig_random(&random) % 8);
		if (rig_random(&random) % 2 == 0 && frame[12] == 8 && frame[14] == 0x45)
			rig_fix_checksums(frame);
		if (rig_random(&random) % 16 == 0)
			n = (unsigned int)(rig_random(&random) % n);
		simulate(source, n);
		if (said.end[0] == '\0') {
			open++;
			continue;
		}
		same(source, n);
	}
	cr_assert_lt(open, 30, "%u", open);
	stop_unread();
}

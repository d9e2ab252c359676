/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program of docs/write-a-program.md in a real switch: frames of random flows are counted by
 * the pair of their addresses, and forwarded, each one and in order.
 */
#include "docs/examples/flowcount.h"
#include "ppe/programs/programs.h"
#include "tests/eal/bench.h"

#define FLOWS  50
#define FRAMES 4000

static const struct ppe_program *const programs[] = {
	&collective_program, &exception_program, &flowcount_program, &forward_program, NULL};

static void
with_flowcount(struct rig_config *config)
{
	config->jobs = 0;
	config->programs = programs;
}

static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 0xa}, {2, 0, 0, 0, 0, 0xb}};

struct flow {
	unsigned int port; /* that its frames arrive at */
	uint32_t from, to;
	uint64_t packets, bytes;
};

static uint64_t
key_of(const struct flow *flow)
{
	return (uint64_t)flow->from << 32 | flow->to;
}

/* An IPv4 frame of some protocol that nobody knows, with a number in it. */
static void
send_frame(const struct flow *flow, unsigned int bytes, uint32_t number)
{
	memset(frame, 0, bytes);
	memcpy(frame, mac[1 - flow->port], 6);
	memcpy(frame + 6, mac[flow->port], 6);
	weir_put16(frame + 12, 0x0800);
	frame[14] = 0x45;
	weir_put16(frame + 16, (uint16_t)(bytes - 14));
	frame[22] = 64;
	frame[23] = 253; /* for experiments: RFC 3692 */
	weir_put32(frame + 26, flow->from);
	weir_put32(frame + 30, flow->to);
	weir_put32(frame + 34, number);
	rig_send(&rig, flow->port, frame, bytes);
}

/* Take what has left by a port; the numbers of each direction must grow. */
static unsigned int
take(unsigned int port, uint32_t *last, unsigned int ms)
{
	unsigned int n = 0, bytes;

	for (; (bytes = rig_receive(&rig, port, frame, ms)) > 0; n++) {
		uint32_t number = weir_get32(frame + 34);

		cr_assert_gt(number, *last, "%u after %u", number, *last);
		*last = number;
	}
	return n;
}

static void
check_flow(const struct flow *flow)
{
	uint64_t packets, bytes;

	flowcount_read(rig.ppe, key_of(flow), &packets, &bytes);
	cr_assert_eq(packets, flow->packets, "%lu packets, not %lu", packets, flow->packets);
	cr_assert_eq(bytes, flow->bytes, "%lu bytes, not %lu", bytes, flow->bytes);
}

static void
counts(unsigned int workers, unsigned int threads)
{
	struct flow flow[FLOWS] = {0};
	uint64_t random = rig_seed();
	uint32_t last[2] = {0, 0};
	unsigned int arrived = 0;

	start(.workers = workers, .threads = threads, .change = with_flowcount);
	rig.seed = random; /* frames in several segments */
	for (unsigned int f = 0; f < FLOWS; f++)
		flow[f] = (struct flow){.port = f % 2,
			.from = 0x0a000000 + f,
			.to = (uint32_t)(0x0a010000 + rig_random(&random) % 8)};
	for (uint32_t i = 1; i <= FRAMES; i++) {
		struct flow *f = &flow[rig_random(&random) % FLOWS];
		unsigned int bytes = 60 + (unsigned int)(rig_random(&random) % 1400);

		send_frame(f, bytes, i);
		f->packets++;
		f->bytes += bytes;
		if (i % 64 == 0)
			for (unsigned int p = 0; p < 2; p++)
				arrived += take(p, &last[p], 1);
	}
	rig_rest(&rig);
	for (unsigned int p = 0; p < 2; p++)
		arrived += take(p, &last[p], 10);
	cr_assert_eq(arrived, FRAMES, "%u frames of %u arrived", arrived, FRAMES);
	for (unsigned int f = 0; f < FLOWS; f++)
		check_flow(&flow[f]);
	check_flow(&(struct flow){.from = 1, .to = 2}); /* nobody's */
	stop();
}

CASE(flowcount, one_worker, counts(1, 20))
CASE(flowcount, one_thread, counts(1, 1))
CASE(flowcount, two_workers, counts(2, 20))

/* A frame that is no IPv4 is not counted, and passes. */
Test(flowcount, other_frames_pass_uncounted, .timeout = 90)
{
	uint64_t packets, bytes;

	start(.workers = 1, .threads = 4, .change = with_flowcount);
	memset(frame, 0, 60);
	memcpy(frame, mac[1], 6);
	memcpy(frame + 6, mac[0], 6);
	weir_put16(frame + 12, 0x88b5);
	rig_send(&rig, 0, frame, 60);
	cr_assert_eq(rig_receive(&rig, 1, frame, 2000), 60);
	flowcount_read(rig.ppe, 0, &packets, &bytes);
	cr_assert_eq(packets, 0);
	stop();
}

/* A flow more than the table has room for passes, uncounted. */
Test(flowcount, a_full_table_stops_nobody, .timeout = 90)
{
	uint64_t packets, bytes, counted = 0;
	const unsigned int flows = 5000;
	uint32_t last[2] = {0, 0};
	unsigned int arrived = 0;

	start(.workers = 1, .threads = 20, .change = with_flowcount);
	for (uint32_t i = 1; i <= flows; i++) {
		struct flow one = {.port = 0, .from = i, .to = 7};

		send_frame(&one, 60, i);
		if (i % 64 == 0)
			arrived += take(1, &last[1], 1);
	}
	rig_rest(&rig);
	arrived += take(1, &last[1], 10);
	cr_assert_eq(arrived, flows);
	for (uint32_t i = 1; i <= flows; i++) {
		flowcount_read(rig.ppe, (uint64_t)i << 32 | 7, &packets, &bytes);
		counted += packets;
	}
	cr_assert_eq(counted, 4096);
	stop();
}

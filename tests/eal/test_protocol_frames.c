/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test vectors of docs/protocol.md against the switch: what hosts and children send is sent to one, and what comes out
 * is, byte for byte, the vector of the answer. Sources 0, 1 and 2 of job 1 are at the ports of their number.
 */
#include <criterion/criterion.h>

#include <string.h>

#include <rte_cycles.h>

#include "tests/eal/rig.h"
#include "tests/model/vectors.h"

#define GENERATION 7
#define NONCE      UINT32_C(0xc0ffee01)

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX], wanted[RIG_FRAME_MAX];

/* Source `source` sends the vector. */
static void
send_vector(unsigned int source, const char *name)
{
	unsigned int bytes = vector_frame(vector_named(name), frame);

	rig_send(&rig, source % rig.ports, frame, bytes);
}

/* The next packet at the port of a source is the vector. */
static void
expect(unsigned int source, const char *name)
{
	unsigned int bytes = vector_frame(vector_named(name), wanted);
	unsigned int got = rig_receive(&rig, source % rig.ports, frame, 3000);

	cr_assert_gt(got, 0, "%s: nothing came", name);
	for (unsigned int i = 0; i < got && i < bytes; i++)
		cr_assert_eq(frame[i], wanted[i], "%s: byte %04x is %02x, not %02x", name, i,
			frame[i], wanted[i]);
	cr_assert_eq(got, bytes, "%s: %u bytes, not %u", name, got, bytes);
}

/* Any one packet at the port of a source, not looked at. */
static void
skip(unsigned int source)
{
	cr_assert_gt(rig_receive(&rig, source % rig.ports, frame, 3000), 0);
}

static void
send_header(unsigned int source, struct weir_header header, const float *data)
{
	unsigned int bytes;

	header.job_id = 1;
	header.src_id = (uint8_t)source;
	bytes = rig_frame(frame, source, &header, data, header.grad_cnt * 4u);
	rig_send(&rig, source % rig.ports, frame, bytes);
}

/* Until the switch has taken what was sent: ports are polled in no order that we know. */
static void
settle(void)
{
	struct ppe_stats stats;

	rig_settle(&rig, &stats);
}

/* A contribution of up to 3 numbers; source 0 sends in the base form. */
static void
contribute(unsigned int source, uint32_t block, unsigned int n, float a, float b, float c)
{
	const float data[3] = {a, b, c};

	send_header(source,
		(struct weir_header){.extended = source != 0,
			.block_id = block,
			.gen_id = GENERATION,
			.grad_cnt = (uint16_t)n,
			.final = block == 41,
			.dtype = WEIR_DTYPE_FP32},
		data);
}

static void
send_join(unsigned int source)
{
	send_header(source,
		(struct weir_header){.extended = true,
			.collective = WEIR_COLLECTIVE_JOIN,
			.block_id = NONCE + source},
		NULL);
}

static void
start_workers(unsigned int workers, enum ppe_policy policy, uint32_t timeout_ms, uint32_t group)
{
	struct rig_config config = {.workers = workers,
		.threads = 20,
		.ports = 3,
		.queues = workers,
		.jobs = 1,
		.job = {rig_job(1, 3, 64, 256)},
		.first_generation = GENERATION};

	config.job[0].dtype = WEIR_DTYPE_FP32;
	config.job[0].policy = (uint8_t)policy;
	config.job[0].timeout_ms = timeout_ms;
	config.job[0].group = group;
	rig_start(&rig, &config);
}

static void
start(enum ppe_policy policy, uint32_t timeout_ms, uint32_t group)
{
	start_workers(1, policy, timeout_ms, group);
}

static void
join_all(void)
{
	send_vector(0, "Join");
	skip(0);
	send_join(2);
	skip(2);
	send_vector(0, "Join");
	expect(0, "Join, not complete yet");
	send_join(1);
	for (unsigned int s = 1; s < 3; s++)
		skip(s);
}

static void
stop(void)
{
	const char *error = rig_stop(&rig);

	cr_expect_null(error, "%s", error);
}

Test(protocol_frames, results, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 1000, 0);
	join_all();
	expect(0, "Join, accepted");
	send_vector(0, "Join, repeated in generation 7");
	expect(0, "Join, accepted");
	send_join(9);
	skip(0); /* another nonce than the page's */
	send_vector(0, "Contribution, base form");
	send_vector(1, "Contribution, extended form");
	contribute(2, 41, 3, 4, 4, 4);
	expect(0, "Result, base form");
	expect(1, "Result, extended form");
	skip(2);
	send_vector(1, "Barrier, extended form");
	settle();
	send_vector(0, "Barrier, base form");
	send_header(2,
		(struct weir_header){.extended = true,
			.collective = WEIR_COLLECTIVE_BARRIER,
			.block_id = 43,
			.gen_id = GENERATION},
		NULL);
	skip(0);
	expect(1, "Result of a barrier");
	stop();
}

Test(protocol_frames, more_ports, .timeout = 90)
{
	start_workers(4, PPE_POLICY_WAIT, 1000, 0);
	join_all();
	expect(0, "Join, accepted, with three more ports");
	contribute(0, 41, 3, 1, -2.5F, 0.125F);
	send_vector(1, "Contribution to another port");
	contribute(2, 41, 3, 4, 4, 4);
	expect(1, "Result, extended form");
	skip(0);
	skip(2);
	stop();
}

/* A contribution of 4-byte elements to a block of `elements`. */
static void
collective(unsigned int source, uint32_t block, enum weir_collective c, enum weir_dtype dtype,
	unsigned int root, unsigned int elements, const void *data)
{
	const struct weir_header h = {.extended = true,
		.job_id = 1,
		.src_id = (uint8_t)source,
		.block_id = block,
		.gen_id = GENERATION,
		.grad_cnt = (uint16_t)elements,
		.collective = (uint8_t)c,
		.dtype = (uint8_t)dtype,
		.root = (uint8_t)root};

	rig_send(&rig, source, frame,
		rig_frame(frame, source, &h, data, data == NULL ? 0 : elements * 4));
}

Test(protocol_frames, collectives, .timeout = 90)
{
	const float two[3][2] = {{1, 2}, {2, 2}, {4, 4}}, four[] = {1, 2, 3, 4};
	const int32_t rows[3][3] = {{0, 1, 2}, {10, 11, 12}, {20, 21, 22}};

	start(PPE_POLICY_WAIT, 1000, 0);
	join_all();
	skip(0);
	for (unsigned int s = 0; s < 3; s++)
		collective(s, 48, WEIR_COLLECTIVE_REDUCE, WEIR_DTYPE_FP32, 1, 2, two[s]);
	skip(0);
	expect(1, "Result of a reduce, to the root");
	expect(2, "Result of a reduce, to another");
	for (unsigned int s = 0; s < 3; s++)
		collective(s, 49, WEIR_COLLECTIVE_REDUCESCATTER, WEIR_DTYPE_FP32, 0, 4, four);
	skip(0);
	expect(1, "Result of a reducescatter");
	skip(2);
	collective(0, 50, WEIR_COLLECTIVE_BROADCAST, WEIR_DTYPE_FP32, 1, 3, NULL);
	send_vector(1, "Broadcast, contribution of the root");
	send_vector(2, "Broadcast, contribution of another");
	skip(0);
	skip(1);
	expect(2, "Result of a broadcast");
	collective(0, 51, WEIR_COLLECTIVE_ALLTOALL, WEIR_DTYPE_INT32, 0, 3, rows[0]);
	send_vector(1, "Contribution of an alltoall");
	collective(2, 51, WEIR_COLLECTIVE_ALLTOALL, WEIR_DTYPE_INT32, 0, 3, rows[2]);
	skip(0);
	skip(1);
	expect(2, "Result of an alltoall");
	stop();
}

/* Sources 0 and 4 are switches, which cover four ranks each. */
static void
start_parent(enum ppe_policy policy, uint16_t fixed_generation)
{
	struct rig_config config = {.workers = 1,
		.threads = 20,
		.ports = 3,
		.queues = 1,
		.jobs = 1,
		.job = {rig_job(1, 8, 64, 256)},
		.first_generation = GENERATION};
	struct ppe_job *job = &config.job[0];

	job->dtype = WEIR_DTYPE_FP32;
	job->policy = (uint8_t)policy;
	job->revoke = true;
	job->fixed_generation = fixed_generation;
	job->children = true;
	job->nb_sources = 2;
	job->members[0] = 1 << 0 | 1 << 4;
	job->ranks[0] = 4;
	job->ranks[4] = 4;
	rig_start(&rig, &config);
}

/* Source 0's contribution of the page to another block. */
static void
switch_contributes(uint8_t block, uint8_t final)
{
	unsigned int bytes = vector_frame(vector_named("Contribution of a switch"), frame);

	frame[VECTOR_HEADERS + 4] = block;
	frame[VECTOR_HEADERS + 5] = final;
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, bytes);
	settle();
}

static void
expect_status(unsigned int source, enum weir_status status)
{
	struct weir_header header;
	const uint8_t *payload;
	unsigned int bytes = rig_receive(&rig, source % rig.ports, frame, 3000), left;

	cr_assert(bytes > 0 && rig_parse(frame, bytes, &header, &payload, &left));
	cr_assert_eq(header.status, status, "%s, not %s", weir_status_text(header.status),
		weir_status_text(status));
}

Test(protocol_frames, switches, .timeout = 90)
{
	start_parent(PPE_POLICY_PARTIAL, GENERATION);
	send_vector(0, "Contribution of a switch");
	settle();
	send_vector(4, "Contribution of a switch, partial");
	expect(0, "Partial result, to a switch");
	expect_status(4, WEIR_STATUS_PARTIAL);
	switch_contributes(45, 0);
	send_vector(4, "Contribution of a switch, error");
	expect_status(0, WEIR_STATUS_ERROR);
	expect_status(4, WEIR_STATUS_ERROR);
	switch_contributes(46, 0);
	send_vector(4, "Contribution of a switch, mismatch");
	expect_status(0, WEIR_STATUS_MISMATCH);
	expect_status(4, WEIR_STATUS_MISMATCH);
	stop();
}

Test(protocol_frames, joins_of_switches, .timeout = 90)
{
	start_parent(PPE_POLICY_WAIT, 0);
	send_vector(0, "Join of a switch");
	expect(0, "Join of a switch, not complete yet");
	stop();
}

Test(protocol_frames, displaced, .timeout = 90)
{
	unsigned int bytes;

	start(PPE_POLICY_WAIT, 1000, 0);
	send_vector(0, "Join");
	skip(0);
	/* Another process, at UDP port 40100, with a nonce of its own. */
	bytes = vector_frame(vector_named("Join"), frame);
	frame[35] += 100;
	frame[46]++;
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, bytes);
	expect(0, "Displaced");
	skip(0);
	stop();
}

Test(protocol_frames, refusals, .timeout = 90)
{
	const float one = 1;

	start(PPE_POLICY_WAIT, 1000, 0);
	join_all();
	skip(0);
	send_header(9,
		(struct weir_header){.extended = true,
			.collective = WEIR_COLLECTIVE_JOIN,
			.block_id = 0xc0ffee09},
		NULL);
	expect(0, "Join, refused");
	contribute(0, 45, 2, 1, 1, 0);
	settle();
	contribute(1, 45, 3, 1, 1, 1);
	expect(2, "Mismatch");
	skip(0);
	skip(1);
	for (uint32_t block = 3; block <= 67; block += 64) {
		for (unsigned int s = 0; s < 3; s++)
			contribute(s, block, 1, 1, 0, 0);
		for (unsigned int s = 0; s < 3; s++)
			skip(s);
	}
	contribute(1, 3, 1, 1, 0, 0);
	expect(1, "Expired");
	contribute(1, 1000, 1, 1, 0, 0);
	expect(1, "Out of window");
	send_header(1,
		(struct weir_header){.extended = true,
			.block_id = 41,
			.gen_id = GENERATION - 1,
			.grad_cnt = 1,
			.dtype = WEIR_DTYPE_FP32},
		&one);
	expect(1, "Stale");
	send_header(1,
		(struct weir_header){.extended = true,
			.block_id = 46,
			.gen_id = GENERATION,
			.grad_cnt = 1,
			.op = WEIR_OP_BOR,
			.dtype = WEIR_DTYPE_FP32},
		&one);
	expect(1, "Unsupported");
	stop();
}

static void
straggle(void)
{
	join_all();
	skip(0);
	contribute(0, 44, 2, 1, 1, 0);
	settle();
	contribute(1, 44, 2, 2, -2, 0);
}

Test(protocol_frames, waiting, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 100, 0);
	straggle();
	rte_delay_us_sleep(200000);
	contribute(0, 44, 2, 1, 1, 0);
	expect(0, "Waiting, base form");
	contribute(1, 44, 2, 2, -2, 0);
	expect(1, "Waiting");
	stop();
}

Test(protocol_frames, probe, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 10000, 0);
	join_all();
	skip(0);
	contribute(0, 44, 2, 1, 1, 0);
	settle();
	send_vector(1, "Probe");
	expect(1, "Probe, answered");
	stop();
}

Test(protocol_frames, partial, .timeout = 90)
{
	struct ppe_job_stats stats;

	start(PPE_POLICY_PARTIAL, 100, 0);
	straggle();
	expect(0, "Partial result, base form");
	expect(2, "Partial result, extended form");
	send_vector(2, "Acknowledgement");
	settle();
	ppe_job_stats_read(rig.ppe, 1, &stats);
	cr_expect_eq(stats.acknowledged, 1);
	stop();
}

Test(protocol_frames, error, .timeout = 90)
{
	start(PPE_POLICY_ERROR, 100, 0);
	straggle();
	expect(2, "Error");
	stop();
}

Test(protocol_frames, multicast, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 1000, 0xef4d0001);
	join_all();
	skip(0);
	send_vector(0, "Contribution, base form");
	send_vector(1, "Contribution, extended form");
	contribute(2, 41, 3, 4, 4, 4);
	expect(1, "Result, multicast");
	stop();
}

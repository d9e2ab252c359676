/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test vectors of docs/protocol.md against the switch: what hosts and children send is sent to one, and what comes out
 * is, byte for byte, the vector of the answer. Sources 0, 1 and 2 of job 1 are at the ports of their number.
 */
#include "tests/eal/bench.h"
#include "tests/model/vectors.h"

#define GENERATION 7
#define NONCE      UINT32_C(0xc0ffee01)

static uint8_t wanted[RIG_FRAME_MAX];

/* Source `source` sends the vector. */
static void
send_vector(unsigned int source, const char *name)
{
	unsigned int bytes = vector_frame(vector_named(name), frame);

	rig_send(&rig, source % rig.ports, frame, bytes);
}

/* The next packet at the port of a source is the vector. */
static void
expect_vector(unsigned int source, const char *name)
{
	unsigned int bytes = vector_frame(vector_named(name), wanted);
	unsigned int n = rig_receive(&rig, source % rig.ports, frame, 3000);

	cr_assert_gt(n, 0, "%s: nothing came", name);
	for (unsigned int i = 0; i < n && i < bytes; i++)
		cr_assert_eq(frame[i], wanted[i], "%s: byte %04x is %02x, not %02x", name, i,
			frame[i], wanted[i]);
	cr_assert_eq(n, bytes, "%s: %u bytes, not %u", name, n, bytes);
}

/* Any packets at the ports of these sources, not looked at. */
static void
skip(unsigned int first, unsigned int last)
{
	for (unsigned int source = first; source <= last; source++)
		cr_assert(receive(source), "source %u gets nothing", source);
}

/* A contribution of elements of 4 bytes. */
static void
contribute_data(unsigned int source, struct weir_header h, const void *data)
{
	h.job_id = 1;
	h.src_id = (uint8_t)source;
	h.gen_id = GENERATION;
	rig_offer(&rig, source % rig.ports, &h, data, data != NULL ? h.grad_cnt * 4u : 0);
}

/* One of up to 3 numbers; source 0 sends in the base form. */
static void
contribute_floats(unsigned int source, uint32_t block, unsigned int n, float a, float b, float c)
{
	contribute_data(source,
		(struct weir_header){.extended = source != 0,
			.block_id = block,
			.grad_cnt = (uint16_t)n,
			.final = block == 41,
			.dtype = WEIR_DTYPE_FP32},
		(const float[]){a, b, c});
}

static uint32_t multicast; /* the group of the job; 0: none */

static void
as_on_the_page(struct rig_config *config)
{
	config->queues = config->workers;
	config->first_generation = GENERATION;
	config->job[0].dtype = WEIR_DTYPE_FP32;
	config->job[0].group = multicast;
}

#define start_page(...)                                                                            \
	start(.threads = 20, .sources = 3, .ports = 3, .window = 64, .elements = 256,              \
		.late = true, .change = as_on_the_page, __VA_ARGS__)
#define start_alone(...) start_page(.workers = 1, .timeout_ms = 1000, __VA_ARGS__)

/* And the answer to source 0 is still to be taken. */
static void
join_all(void)
{
	send_vector(0, "Join");
	skip(0, 0);
	join(2, NONCE + 2);
	skip(2, 2);
	send_vector(0, "Join");
	expect_vector(0, "Join, not complete yet");
	join(1, NONCE + 1);
	skip(1, 2);
}

Test(protocol_frames, results, .timeout = 90)
{
	start_alone();
	join_all();
	expect_vector(0, "Join, accepted");
	send_vector(0, "Join, repeated in generation 7");
	expect_vector(0, "Join, accepted");
	join(9, NONCE + 9);
	skip(0, 0); /* another nonce than the page's */
	send_vector(0, "Contribution, base form");
	send_vector(1, "Contribution, extended form");
	contribute_floats(2, 41, 3, 4, 4, 4);
	expect_vector(0, "Result, base form");
	expect_vector(1, "Result, extended form");
	skip(2, 2);
	send_vector(1, "Barrier, extended form");
	rig_rest(&rig);
	send_vector(0, "Barrier, base form");
	contribute_data(2,
		(struct weir_header){
			.extended = true, .collective = WEIR_COLLECTIVE_BARRIER, .block_id = 43},
		NULL);
	skip(0, 0);
	expect_vector(1, "Result of a barrier");
	stop_unread();
}

Test(protocol_frames, list_of_settings, .timeout = 90)
{
	start_alone();
	join(2, NONCE + 2);
	skip(2, 2);
	join(1, NONCE + 1);
	skip(1, 1);
	send_vector(0, "Join, asks for the list of settings");
	expect_vector(0, "Join, accepted, with the list of settings");
	send_vector(0, "Join, repeated in generation 7");
	expect_vector(0, "Join, accepted, with the list of settings");
	stop_unread();
}

Test(protocol_frames, more_ports, .timeout = 90)
{
	start_page(.workers = 4, .timeout_ms = 1000);
	join_all();
	expect_vector(0, "Join, accepted, with three more ports");
	contribute_floats(0, 41, 3, 1, -2.5F, 0.125F);
	send_vector(1, "Contribution to another port");
	contribute_floats(2, 41, 3, 4, 4, 4);
	expect_vector(1, "Result, extended form");
	skip(0, 0);
	skip(2, 2);
	stop_unread();
}

static void
collective(unsigned int source, uint32_t block, enum weir_collective c, enum weir_dtype dtype,
	unsigned int root, unsigned int elements, const void *data)
{
	contribute_data(source,
		(struct weir_header){.extended = true,
			.block_id = block,
			.grad_cnt = (uint16_t)elements,
			.collective = (uint8_t)c,
			.dtype = (uint8_t)dtype,
			.root = (uint8_t)root},
		data);
}

Test(protocol_frames, collectives, .timeout = 90)
{
	const float two[3][2] = {{1, 2}, {2, 2}, {4, 4}}, four[] = {1, 2, 3, 4};
	const int32_t rows[3][3] = {{0, 1, 2}, {10, 11, 12}, {20, 21, 22}};

	start_alone();
	join_all();
	skip(0, 0);
	for (unsigned int s = 0; s < 3; s++)
		collective(s, 48, WEIR_COLLECTIVE_REDUCE, WEIR_DTYPE_FP32, 1, 2, two[s]);
	skip(0, 0);
	expect_vector(1, "Result of a reduce, to the root");
	expect_vector(2, "Result of a reduce, to another");
	for (unsigned int s = 0; s < 3; s++)
		collective(s, 49, WEIR_COLLECTIVE_REDUCESCATTER, WEIR_DTYPE_FP32, 0, 4, four);
	skip(0, 0);
	expect_vector(1, "Result of a reducescatter");
	skip(2, 2);
	collective(0, 50, WEIR_COLLECTIVE_BROADCAST, WEIR_DTYPE_FP32, 1, 3, NULL);
	send_vector(1, "Broadcast, contribution of the root");
	send_vector(2, "Broadcast, contribution of another");
	skip(0, 1);
	expect_vector(2, "Result of a broadcast");
	collective(0, 51, WEIR_COLLECTIVE_ALLTOALL, WEIR_DTYPE_INT32, 0, 3, rows[0]);
	send_vector(1, "Contribution of an alltoall");
	collective(2, 51, WEIR_COLLECTIVE_ALLTOALL, WEIR_DTYPE_INT32, 0, 3, rows[2]);
	skip(0, 1);
	expect_vector(2, "Result of an alltoall");
	stop_unread();
}

/* Sources 0 and 4 are switches, which cover four ranks each. */
static void
with_switches(struct rig_config *config)
{
	struct ppe_job *job = &config->job[0];

	as_on_the_page(config);
	job->revoke = true;
	job->children = true;
	job->nb_sources = 2;
	job->members[0] = 1 << 0 | 1 << 4;
	job->address[4] = rig_source_ip(4);
	job->ranks[0] = 4;
	job->ranks[4] = 4;
}

#define start_parent(...)                                                                          \
	start(.workers = 1, .threads = 20, .ports = 3, .window = 64, .elements = 256,              \
		.timeout_ms = 1000, .late = true, .change = with_switches, __VA_ARGS__)

/* Source 0's contribution of the page to another block. */
static void
switch_contributes(uint8_t block, uint8_t final)
{
	unsigned int bytes = vector_frame(vector_named("Contribution of a switch"), frame);

	frame[VECTOR_HEADERS + 4] = block;
	frame[VECTOR_HEADERS + 5] = final;
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, bytes);
	rig_rest(&rig);
}

static void
expect_status(unsigned int source, enum weir_status status)
{
	cr_assert(rig_parse(frame, rig_receive(&rig, source % rig.ports, frame, 3000), &got,
		&payload, &payload_bytes));
	cr_assert_eq(got.status, status, "%s, not %s", weir_status_text(got.status),
		weir_status_text(status));
}

Test(protocol_frames, switches, .timeout = 90)
{
	start_parent(.policy = PPE_POLICY_PARTIAL, .generation = GENERATION);
	send_vector(0, "Contribution of a switch");
	rig_rest(&rig);
	send_vector(4, "Contribution of a switch, partial");
	expect_vector(0, "Partial result, to a switch");
	expect_status(4, WEIR_STATUS_PARTIAL);
	switch_contributes(45, 0);
	send_vector(4, "Contribution of a switch, error");
	expect_status(0, WEIR_STATUS_ERROR);
	expect_status(4, WEIR_STATUS_ERROR);
	switch_contributes(46, 0);
	send_vector(4, "Contribution of a switch, mismatch");
	expect_status(0, WEIR_STATUS_MISMATCH);
	expect_status(4, WEIR_STATUS_MISMATCH);
	stop_unread();
}

Test(protocol_frames, joins_of_switches, .timeout = 90)
{
	unsigned int bytes;

	start_parent(.policy = PPE_POLICY_PARTIAL);
	send_vector(0, "Join of a switch");
	expect_vector(0, "Join of a switch, not complete yet");
	bytes = vector_frame(vector_named("Join of a switch"), frame);
	frame[VECTOR_HEADERS + 12] |= WEIR_JOIN_ASKS_LIST;
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, bytes);
	skip(0, 0);
	rig_offer(&rig, 4 % rig.ports,
		&(struct weir_header){.extended = true,
			.job_id = 1,
			.src_id = 4,
			.src_cnt = 4,
			.root = 3,
			.block_id = NONCE + 4,
			.collective = WEIR_COLLECTIVE_JOIN,
			.flags = WEIR_FLAG_UP},
		NULL, 0);
	skip(4, 4);
	expect_vector(0, "Join of a switch, accepted, with the list of settings");
	stop_unread();
}

Test(protocol_frames, displaced, .timeout = 90)
{
	unsigned int bytes;

	start_alone();
	send_vector(0, "Join");
	skip(0, 0);
	/* Another process, at UDP port 40100, with a nonce of its own. */
	bytes = vector_frame(vector_named("Join"), frame);
	frame[35] += 100;
	frame[46]++;
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, bytes);
	expect_vector(0, "Displaced");
	skip(0, 0);
	stop_unread();
}

Test(protocol_frames, refusals, .timeout = 90)
{
	struct weir_header h = rig_contribution(1, 0, 1, 41, 1);

	h.dtype = WEIR_DTYPE_FP32;
	start_alone();
	join_all();
	skip(0, 0);
	join(9, 0xc0ffee09);
	expect_vector(0, "Join, refused");
	contribute_floats(0, 45, 2, 1, 1, 0);
	rig_rest(&rig);
	contribute_floats(1, 45, 3, 1, 1, 1);
	expect_vector(2, "Mismatch");
	skip(0, 1);
	for (uint32_t block = 3; block <= 67; block += 64) {
		for (unsigned int s = 0; s < 3; s++)
			contribute_floats(s, block, 1, 1, 0, 0);
		skip(0, 2);
	}
	contribute_floats(1, 3, 1, 1, 0, 0);
	expect_vector(1, "Expired");
	contribute_floats(1, 1000, 1, 1, 0, 0);
	expect_vector(1, "Out of window");
	h.gen_id = GENERATION - 1;
	offer(&h);
	expect_vector(1, "Stale");
	h.gen_id = GENERATION;
	h.block_id = 46;
	h.op = WEIR_OP_BOR;
	offer(&h);
	expect_vector(1, "Unsupported");
	stop_unread();
}

static void
straggle(void)
{
	join_all();
	skip(0, 0);
	contribute_floats(0, 44, 2, 1, 1, 0);
	rig_rest(&rig);
	contribute_floats(1, 44, 2, 2, -2, 0);
}

Test(protocol_frames, waiting, .timeout = 90)
{
	start_page(.workers = 1, .policy = PPE_POLICY_WAIT, .timeout_ms = 100);
	straggle();
	pass_ms(200);
	contribute_floats(0, 44, 2, 1, 1, 0);
	expect_vector(0, "Waiting, base form");
	contribute_floats(1, 44, 2, 2, -2, 0);
	expect_vector(1, "Waiting");
	stop_unread();
}

Test(protocol_frames, probe, .timeout = 90)
{
	start_page(.workers = 1, .policy = PPE_POLICY_WAIT, .timeout_ms = 10000);
	join_all();
	skip(0, 0);
	contribute_floats(0, 44, 2, 1, 1, 0);
	rig_rest(&rig);
	send_vector(1, "Probe");
	expect_vector(1, "Probe, answered");
	stop_unread();
}

Test(protocol_frames, partial, .timeout = 90)
{
	start_page(.workers = 1, .policy = PPE_POLICY_PARTIAL, .timeout_ms = 100);
	straggle();
	expect_vector(0, "Partial result, base form");
	expect_vector(2, "Partial result, extended form");
	send_vector(2, "Acknowledgement");
	rig_rest(&rig);
	cr_expect_eq(job_stats(1).acknowledged, 1);
	stop_unread();
}

Test(protocol_frames, error, .timeout = 90)
{
	start_page(.workers = 1, .policy = PPE_POLICY_ERROR, .timeout_ms = 100);
	straggle();
	expect_vector(2, "Error");
	stop_unread();
}

Test(protocol_frames, multicast, .timeout = 90)
{
	multicast = 0xef4d0001;
	start_alone();
	join_all();
	skip(0, 0);
	send_vector(0, "Contribution, base form");
	send_vector(1, "Contribution, extended form");
	contribute_floats(2, 41, 3, 4, 4, 4);
	expect_vector(1, "Result, multicast");
	stop_unread();
}

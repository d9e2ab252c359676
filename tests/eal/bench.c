/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/bench.h"

#include <inttypes.h>

#include <rte_cycles.h>

#include "tests/eal/bench_tree.h"

#define PATIENCE_MS 1000 /* of virtual time, for a packet */
#define SILENCE_MS  30

struct rig rig;
uint16_t generation;
uint8_t frame[RIG_FRAME_MAX];
struct weir_header got;
const uint8_t *payload;
unsigned int payload_bytes;

static const struct ppe_job *job = &rig.job[0];
static unsigned int job_index;
static bool base_form;
static uint16_t generations[RIG_JOBS_MAX];

void
bench_start(const struct bench_setup *setup)
{
	uint8_t ids[WEIR_SOURCES_MAX];
	unsigned int sources = bench_ids(setup, ids);
	struct rig_config config = {.workers = setup->workers != 0 ? setup->workers : 2,
		.threads = setup->threads != 0 ? setup->threads : 8,
		.ports = setup->ports != 0 ? setup->ports : sources,
		.jobs = 1};

	config.job[0] = rig_job_of(1, ids, (uint16_t)sources,
		setup->window != 0 ? setup->window : 4, setup->elements != 0 ? setup->elements : 8);
	config.job[0].policy = (uint8_t)setup->policy;
	config.job[0].timeout_ms = setup->timeout_ms != 0 ? setup->timeout_ms : 100;
	config.job[0].fixed_generation = setup->generation;
	bench_tree_setup(setup, &config);
	if (setup->change != NULL)
		setup->change(&config);
	rig_start(&rig, &config);
	base_form = setup->base_form;
	for (unsigned int j = config.jobs; j-- > 0;) {
		generations[j] = rig.job[j].fixed_generation;
		if (generations[j] == 0 && !setup->late && !bench_in_tree())
			generations[j] = rig_join(&rig, j, base_form);
	}
	generation = generations[0];
	if (bench_in_tree())
		agree();
}

void
stop_unread(void)
{
	const char *error = rig_stop(&rig);

	cr_assert_null(error, "%s", error);
}

void
stop(void)
{
	rig_rest(&rig);
	for (unsigned int port = 0; port < rig.ports; port++)
		cr_expect_eq(rig_receive(&rig, port, frame, 0), 0, "port %u has a packet", port);
	stop_unread();
}

/* ---- what hosts send ---- */

/* As an answer names it. */
static uint32_t
block_bits(uint32_t block)
{
	return block << job->block_shift >> job->block_shift;
}

uint32_t
bench_value(unsigned int source, uint32_t block, unsigned int element)
{
	block = block_bits(block);
	return (source + 1) * 100000 + block * 1000 + element;
}

uint32_t
bench_sum(uint64_t sources, uint32_t block, unsigned int element)
{
	uint32_t sum = 0;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (bench_in_tree() ? s < 64 : ppe_job_has(job, (uint8_t)s))
			sum += (sources >> s % 64 & 1) != 0 ? bench_value(s, block, element) : 0;
	return sum;
}

struct weir_header
contribution(unsigned int source, uint32_t block)
{
	struct weir_header h = rig_contribution(job->id, generation, source, block, job->elements);

	h.extended = !base_form;
	if (job->children) {
		h.flags = WEIR_FLAG_UP;
		h.src_cnt = (uint8_t)job->ranks[source];
	}
	return h;
}

void
offer(const struct weir_header *header)
{
	offer_bytes(header, 4u * header->grad_cnt);
}

void
offer_as(unsigned int source, const struct weir_header *header, unsigned int n)
{
	rig_send(&rig, source % rig.ports, frame, write_frame_as(source, header, n));
}

void
offer_bytes(const struct weir_header *header, unsigned int n)
{
	offer_as(header->src_id, header, n);
}

void
contribute(unsigned int source, uint32_t block)
{
	const struct weir_header h = contribution(source, block);

	offer(&h);
}

/* For each source of the job, by its id. */
#define EACH_SOURCE(s)                                                                             \
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)                                        \
		if (ppe_job_has(job, (uint8_t)s))

void
contribute_all(uint32_t block)
{
	EACH_SOURCE(s)
	contribute(s, block);
}

struct weir_header
note(unsigned int source, uint32_t block, enum weir_collective collective)
{
	return (struct weir_header){.job_id = job->id,
		.block_id = block,
		.src_id = (uint8_t)source,
		.gen_id = collective == WEIR_COLLECTIVE_JOIN ? 0 : generation,
		.collective = (uint8_t)collective,
		.flags = job->children ? WEIR_FLAG_UP : 0,
		.extended = true};
}

static void
offer_note(unsigned int source, uint32_t block, enum weir_collective collective)
{
	const struct weir_header h = note(source, block, collective);

	offer_bytes(&h, 0);
}

void
acknowledge(unsigned int source, uint32_t block)
{
	offer_note(source, block, WEIR_COLLECTIVE_ACKNOWLEDGE);
}

void
probe(unsigned int source, uint32_t block)
{
	offer_note(source, block, WEIR_COLLECTIVE_PROBE);
}

void
join(unsigned int source, uint32_t nonce)
{
	offer_note(source, nonce, WEIR_COLLECTIVE_JOIN);
}

/* ---- what hosts receive ---- */

static bool
receive_within(unsigned int source, unsigned int ms)
{
	unsigned int n;

	if (bench_in_tree()) { /* the clock stands still */
		rig_rest(&rig);
		ms = 0;
	}
	n = rig_receive(&rig, source % rig.ports, frame, ms);
	if (n == 0)
		return false;
	cr_assert(rig_parse(frame, n, &got, &payload, &payload_bytes),
		"source %u gets a frame that is no answer", source);
	cr_assert(rig_checksums_hold(frame), "source %u: checksums", source);
	return true;
}

bool
receive(unsigned int source)
{
	return receive_within(source, PATIENCE_MS);
}

static uint64_t
all_sources(void)
{
	uint64_t all = 0;

	if (job->tree_ranks != 0)
		return (UINT64_C(1) << job->tree_ranks) - 1;
	EACH_SOURCE(s)
	all |= bench_in_tree() ? ranks_of(s) : UINT64_C(1) << s % 64;
	return all;
}

void
expect_sum(uint32_t block, uint64_t sources)
{
	for (unsigned int e = 0; e < got.grad_cnt; e++) {
		uint32_t sum = bench_sum(sources, block, e), is;

		memcpy(&is, payload + 4 * e, 4);
		cr_assert_eq(is, sum, "element %u of block %u: %u, not %u", e, block, is, sum);
	}
}

void
expect(unsigned int source, uint32_t block, enum weir_status status, uint64_t sources)
{
	bool whole = status == WEIR_STATUS_OK || status == WEIR_STATUS_PARTIAL;
	bool degraded = status == WEIR_STATUS_PARTIAL || status == WEIR_STATUS_ERROR ||
		status == WEIR_STATUS_WAITING;
	unsigned int elements, bytes;

	cr_assert(receive(source), "source %u gets nothing of block %u", source, block);
	cr_assert_eq(got.block_id, block_bits(block), "block %u, not %u", got.block_id, block);
	cr_assert_eq(got.status, status, "block %u: %s, not %s", block,
		weir_status_text(got.status), weir_status_text(status));
	cr_assert_eq(got.degraded, degraded);
	if (bench_in_tree()) {
		expect_addressed(source);
		if (whole)
			cr_assert_eq(got.grad_cnt, job->elements);
	}
	if (whole || status == WEIR_STATUS_ERROR)
		cr_assert_eq(got.src_cnt,
			__builtin_popcountll(sources != 0 ? sources : all_sources()),
			"block %u: %u sources", block, got.src_cnt);
	if (whole || degraded)
		cr_assert_eq(got.gen_id, generation, "block %u: generation %u, not %u", block,
			got.gen_id, generation);
	elements = whole ? 4u * got.grad_cnt : 0;
	if (!degraded && !whole)
		return;
	bytes = elements + (degraded ? WEIR_BITMAP_BYTES : 0);
	cr_assert_eq(payload_bytes, bytes, "source %u, block %u: %u bytes, not %u", source, block,
		payload_bytes, bytes);
	if (whole)
		expect_sum(block, sources != 0 ? sources : all_sources());
	for (unsigned int s = 0; degraded && s < 64; s++)
		cr_assert_eq(payload[elements + s / 8] >> s % 8 & 1, sources >> s & 1,
			"source %u in the bitmap of block %u", s, block);
}

void
expect_all(uint32_t block, enum weir_status status, uint64_t sources)
{
	EACH_SOURCE(s)
	expect(s, block, status, sources);
	for (unsigned int port = 0; port < rig.ports; port++)
		cr_assert_not(receive_within(port, 0), "port %u gets a second packet", port);
}

void
expect_silence(void)
{
	for (unsigned int port = 0; port < rig.ports; port++)
		cr_assert_not(receive_within(port, SILENCE_MS),
			"port %u gets a packet: block %u, %s", port, got.block_id,
			weir_status_text(got.status));
}

/* ---- what the switch says ---- */

uint64_t
drops(enum ppe_drop reason)
{
	struct ppe_stats stats;

	rig_settle(&rig, &stats);
	return stats.drops[reason];
}

void
expect_drop(enum ppe_drop reason, uint64_t count)
{
	uint64_t is = drops(reason);

	cr_expect_eq(is, count, "%s: %" PRIu64 ", not %" PRIu64, ppe_drop_key(reason), is, count);
}

struct ppe_job_stats
job_stats(uint8_t id)
{
	struct ppe_job_stats stats;

	rig_rest(&rig);
	cr_assert_eq(ppe_job_stats_read(rig.ppe, id, &stats), 0);
	return stats;
}

void
pass_ms(uint64_t ms)
{
	rig_pass_us(1000 * ms);
}

/* ---- hosts: jobs, time, packets that are wrong ---- */

void
use_job(unsigned int index)
{
	generations[job_index] = generation;
	job_index = index;
	job = &rig.job[index];
	generation = generations[index];
}

void
publish(const struct ppe_job *first)
{
	struct ppe_jobs table = rig.jobs;

	table.by_id[rig.job[0].id] = first;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
	if (first != NULL && job_index == 0)
		job = first;
}

void
reduce(uint32_t block)
{
	contribute_all(block);
	expect_all(block, WEIR_STATUS_OK, 0);
}

bool
received(unsigned int source)
{
	rig_rest(&rig);
	return receive_within(source, 0);
}

void
discard(void)
{
	rig_rest(&rig);
	for (unsigned int port = 0; port < rig.ports; port++)
		while (rig_receive(&rig, port, frame, 0) > 0)
			;
}

void
expect_joining(unsigned int source, uint32_t nonce, uint8_t joined)
{
	cr_assert(receive(source), "source %u gets no answer to its join", source);
	cr_assert_eq(got.status, WEIR_STATUS_WAITING, "%s", weir_status_text(got.status));
	cr_assert_eq(got.block_id, nonce);
	cr_assert_eq(payload[0], joined, "%#x have joined", payload[0]);
}

void
asks(unsigned int source, uint32_t nonce, uint8_t joined)
{
	join(source, nonce);
	expect_joining(source, nonce, joined);
}

void
expect_joined(const uint32_t *nonce)
{
	uint16_t former = generation;

	EACH_SOURCE(s)
	{
		cr_assert(receive(s), "source %u gets no answer to its join", s);
		cr_assert_eq(got.status, WEIR_STATUS_OK, "%s", weir_status_text(got.status));
		cr_assert_eq(got.block_id, *nonce, "source %u", s);
		nonce++;
		cr_assert_neq(got.gen_id, former, "source %u joins no new generation", s);
		cr_assert(generation == former || got.gen_id == generation,
			"source %u: generation %u, not %u", s, got.gen_id, generation);
		generation = got.gen_id;
	}
}

unsigned int
write_frame_as(unsigned int source, const struct weir_header *header, unsigned int n)
{
	uint32_t values[RIG_FRAME_MAX / 4];

	for (unsigned int e = 0; e < (n + 3) / 4; e++)
		values[e] = job->children ? bench_sum(ranks_of(header->src_id), header->block_id, e)
					  : bench_value(header->src_id, header->block_id, e);
	return rig_frame(frame, source, header, values, n);
}

unsigned int
write_frame(const struct weir_header *header, unsigned int n)
{
	return write_frame_as(header->src_id, header, n);
}

void
expect_wrong(const char *what, unsigned int port, const struct weir_header *header,
	unsigned int bytes, enum ppe_drop reason, int answer)
{
	uint64_t before = drops(reason), is;

	port %= rig.ports;
	rig_send(&rig, port, frame, bytes);
	is = drops(reason) - before;
	cr_assert_eq(is, 1, "%s: %" PRIu64 " packets dropped, %s", what, is, ppe_drop_key(reason));
	if (answer != NO_ANSWER) {
		cr_assert(received(port), "%s: no answer", what);
		cr_assert_eq(got.status, answer, "%s: %s, not %s", what,
			weir_status_text(got.status), weir_status_text((uint8_t)answer));
		cr_assert_eq(got.block_id, header->block_id, "%s", what);
		cr_assert(answer != WEIR_STATUS_REFUSED || got.gen_id == WEIR_GEN_JOIN, "%s", what);
	}
	for (unsigned int p = 0; p < rig.ports; p++)
		cr_assert_not(
			received(p), "%s: port %u gets %s", what, p, weir_status_text(got.status));
}

uint64_t
now_us(void)
{
	return ppe_tsc() / (rte_get_tsc_hz() / 1000000);
}

struct ppe_source_stats
source_stats(unsigned int source)
{
	struct ppe_source_stats stats;

	cr_assert_eq(ppe_source_stats_read(rig.ppe, job->id, (uint8_t)source, &stats), 0);
	return stats;
}

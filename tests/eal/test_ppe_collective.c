/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole switch against the obvious: hosts played by the test send contributions over ring
 * ports, with loss, repeats and any segmentation; every result is compared with the sum.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/eal/rig.h"

#define SOURCES  4
#define WINDOW   16
#define ELEMENTS 101
#define BLOCKS   300

struct shape {
	unsigned int workers, threads;
	bool base_form, segmented, lossy, multicast;
};

static uint32_t
value(unsigned int source, uint32_t block, unsigned int element)
{
	uint64_t s = (uint64_t)source << 48 ^ (uint64_t)block << 16 ^ element;

	return (uint32_t)rig_random(&s);
}

/* Elements of a block: the last ones of an operation are short, every seventh is a barrier. */
static unsigned int
length_of(uint32_t block)
{
	return block % 7 == 6 ? 0 : 1 + block % ELEMENTS;
}

struct host {
	uint32_t next; /* first block not sent yet */
	bool done[BLOCKS]; /* result arrived */
	uint32_t left; /* results still missing */
};

struct play {
	struct rig rig;
	struct host host[SOURCES];
	uint16_t generation;
	uint64_t random;
	const struct shape *shape;
	uint8_t frame[RIG_FRAME_MAX];
	uint64_t wrong;
};

static bool
unlucky(struct play *play)
{
	return play->shape->lossy && rig_random(&play->random) % 16 == 0;
}

static void
contribute(struct play *play, unsigned int source, uint32_t block)
{
	struct weir_header h = {.job_id = 1,
		.block_id = block,
		.src_id = (uint8_t)source,
		.gen_id = play->generation,
		.grad_cnt = (uint16_t)length_of(block),
		.final = block == BLOCKS - 1,
		.extended = !play->shape->base_form,
		.dtype = WEIR_DTYPE_INT32};
	uint32_t values[ELEMENTS];

	if (h.grad_cnt == 0)
		h.collective = WEIR_COLLECTIVE_BARRIER;
	for (unsigned int i = 0; i < h.grad_cnt; i++)
		values[i] = value(source, block, i);
	if (unlucky(play))
		return;
	rig_send(&play->rig, source, play->frame,
		rig_frame(play->frame, source, &h, values, h.grad_cnt * 4u));
}

static void
check_result(struct play *play, unsigned int source, unsigned int bytes)
{
	struct host *host = &play->host[source];
	struct weir_header h;
	const uint8_t *payload;
	unsigned int n;

	if (!rig_parse(play->frame, bytes, &h, &payload, &n) || h.status == WEIR_STATUS_WAITING)
		return;
	/* A repeat that was overtaken by the block one window later. */
	if (h.status == WEIR_STATUS_EXPIRED && h.block_id < BLOCKS && host->done[h.block_id])
		return;
	if (!rig_checksums_hold(play->frame) || h.status != WEIR_STATUS_OK ||
		h.block_id >= BLOCKS || h.src_cnt != SOURCES || n != length_of(h.block_id) * 4 ||
		h.final != (h.block_id == BLOCKS - 1) ||
		(!play->shape->multicast && h.src_id != source) ||
		h.extended == play->shape->base_form) {
		play->wrong++;
		return;
	}
	for (unsigned int i = 0; i < n / 4; i++) {
		uint32_t sum = 0, got;

		for (unsigned int s = 0; s < SOURCES; s++)
			sum += value(s, h.block_id, i);
		memcpy(&got, payload + 4 * i, 4);
		play->wrong += got != sum;
	}
	if (unlucky(play) || host->done[h.block_id])
		return;
	host->done[h.block_id] = true;
	host->left--;
}

/* One turn of a host: take results, send what the window allows, now and then repeat. */
static void
turn(struct play *play, unsigned int source)
{
	struct host *host = &play->host[source];
	unsigned int bytes;

	while ((bytes = rig_receive(&play->rig, source, play->frame, 0)) > 0)
		check_result(play, source, bytes);
	while (host->next < BLOCKS && (host->next < WINDOW || host->done[host->next - WINDOW])) {
		contribute(play, source, host->next++);
		if (rig_random(&play->random) % 4 == 0)
			return;
	}
	for (uint32_t b = host->next < WINDOW ? 0 : host->next - WINDOW; b < host->next; b++)
		if (!host->done[b] && rig_random(&play->random) % 8 == 0)
			contribute(play, source, b);
}

static void
run(const struct shape *shape)
{
	struct rig_config config = {.workers = shape->workers,
		.threads = shape->threads,
		.ports = SOURCES,
		.jobs = 1,
		.job = {rig_job(1, SOURCES, WINDOW, ELEMENTS)}};
	struct play *play = calloc(1, sizeof(*play));
	uint32_t left = SOURCES * BLOCKS;
	const char *books;

	if (shape->multicast)
		config.job[0].group = 0xef4d0001;
	play->shape = shape;
	play->random = rig_seed();
	rig_start(&play->rig, &config);
	play->generation = rig_join(&play->rig, 0, shape->base_form);
	play->rig.seed = shape->segmented ? play->random : 0;
	for (unsigned int s = 0; s < SOURCES; s++)
		play->host[s].left = BLOCKS;
	for (unsigned int t = 0; left > 0 && t < 100000; t++) {
		left = 0;
		for (unsigned int s = 0; s < SOURCES; s++) {
			turn(play, (unsigned int)(rig_random(&play->random) % SOURCES));
			left += play->host[s].left;
		}
	}
	books = rig_stop(&play->rig);
	cr_expect_eq(play->wrong, 0, "%" PRIu64 " wrong", play->wrong);
	cr_expect_eq(left, 0, "%u results never came", left);
	cr_expect_null(books, "%s", books);
	free(play);
}

#define SHAPE(name, ...)                                                                           \
	Test(ppe_collective, name, .timeout = 60)                                                  \
	{                                                                                          \
		run(&(struct shape){__VA_ARGS__});                                                 \
	}

SHAPE(one_worker_one_thread, .workers = 1, .threads = 1, .lossy = true)
SHAPE(one_worker, .workers = 1, .threads = 20, .lossy = true)
SHAPE(one_worker_64_threads, .workers = 1, .threads = 64, .lossy = true, .segmented = true)
SHAPE(two_workers, .workers = 2, .threads = 20, .lossy = true, .segmented = true)
SHAPE(two_workers_one_thread, .workers = 2, .threads = 1, .lossy = true)
SHAPE(four_workers, .workers = 4, .threads = 20, .lossy = true)
SHAPE(four_workers_64_threads, .workers = 4, .threads = 64, .lossy = true)
SHAPE(sixteen_workers, .workers = 16, .threads = 4, .lossy = true)
SHAPE(three_workers_base_form, .workers = 3, .threads = 7, .lossy = true, .base_form = true)
SHAPE(multicast, .workers = 2, .threads = 20, .multicast = true, .lossy = true)
SHAPE(without_loss, .workers = 1, .threads = 20)

/* --- what goes wrong, on one switch of two workers ------------------------------------------ */

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX];

static void
start(enum ppe_policy policy, uint32_t timeout_ms)
{
	struct rig_config config = {.workers = 2,
		.threads = 8,
		.ports = 2,
		.jobs = 2,
		.job = {rig_job(1, 2, 4, 8), rig_job(9, 2, 2, 8)}};

	config.job[0].policy = policy;
	config.job[0].timeout_ms = timeout_ms;
	config.job[1].fixed_generation = 5;
	rig_start(&rig, &config);
}

static struct weir_header
header(uint8_t job, uint16_t generation, unsigned int source, uint32_t block, unsigned int count)
{
	return (struct weir_header){.job_id = job,
		.gen_id = generation,
		.src_id = (uint8_t)source,
		.block_id = block,
		.grad_cnt = (uint16_t)count,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};
}

static void
offer(const struct weir_header *h, unsigned int payload_bytes)
{
	static const int32_t ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};

	rig_send(&rig, h->src_id % 2, frame, rig_frame(frame, h->src_id, h, ones, payload_bytes));
}

/* The next reply to a source has this status; its payload is at *payload. */
static struct weir_header
expect(unsigned int source, enum weir_status status, const uint8_t **payload, unsigned int *bytes)
{
	struct weir_header h = {.status = 255};
	unsigned int n = rig_receive(&rig, source, frame, 2000);

	cr_assert_gt(n, 0, "source %u gets nothing", source);
	cr_assert(rig_parse(frame, n, &h, payload, bytes));
	cr_assert(rig_checksums_hold(frame));
	cr_assert_eq(h.status, status, "status %s, not %s", weir_status_text(h.status),
		weir_status_text(status));
	return h;
}

static void
expect_drop(enum ppe_drop reason, uint64_t count)
{
	struct ppe_stats stats;

	rig_settle(&rig, &stats);
	cr_expect_eq(stats.drops[reason], count, "%s: %" PRIu64 ", not %" PRIu64,
		ppe_drop_key(reason), stats.drops[reason], count);
}

static void
stop(void)
{
	const char *books = rig_stop(&rig);

	cr_expect_null(books, "%s", books);
}

Test(ppe_life, partial_result_tells_who_is_in, .timeout = 30)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;
	int32_t got;

	start(PPE_POLICY_PARTIAL, 50);
	generation = rig_join(&rig, 0, false);
	h = header(1, generation, 1, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++) {
		h = expect(s, WEIR_STATUS_PARTIAL, &payload, &bytes);
		cr_expect(h.degraded && h.src_cnt == 1 && bytes == 32 + 32);
		memcpy(&got, payload, 4);
		cr_expect_eq(got, 1);
		cr_expect_eq(payload[32], 2, "bitmap %02x", payload[32]);
	}
	/* The straggler comes, is told, and does not change the result. */
	h = header(1, generation, 0, 0, 8);
	offer(&h, 32);
	h = expect(0, WEIR_STATUS_PARTIAL, &payload, &bytes);
	memcpy(&got, payload, 4);
	cr_expect_eq(got, 1);
	expect_drop(PPE_DROP_LATE, 1);
	stop();
}

Test(ppe_life, error_policy_fails_the_block_for_all, .timeout = 30)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_ERROR, 50);
	generation = rig_join(&rig, 0, false);
	h = header(1, generation, 0, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++) {
		h = expect(s, WEIR_STATUS_ERROR, &payload, &bytes);
		cr_expect(h.degraded && h.grad_cnt == 0 && bytes == 32 && payload[0] == 1);
	}
	stop();
}

Test(ppe_life, waiting_names_who_is_in, .timeout = 30)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_WAIT, 20);
	generation = rig_join(&rig, 0, false);
	h = header(1, generation, 1, 0, 8);
	offer(&h, 32);
	rig_receive(&rig, 1, frame, 100); /* nothing comes by itself */
	offer(&h, 32);
	expect(1, WEIR_STATUS_WAITING, &payload, &bytes);
	cr_expect(bytes == 32 && payload[0] == 2);
	expect_drop(PPE_DROP_DUPLICATE, 1);
	stop();
}

Test(ppe_life, expired_window_stale_and_held_back, .timeout = 30)
{
	const uint8_t *payload;
	unsigned int bytes;
	uint16_t generation;
	struct weir_header h;

	start(PPE_POLICY_WAIT, 1000);
	generation = rig_join(&rig, 0, false);
	h = header(1, generation, 0, 4, 8); /* window 4: block 4 before block 0 */
	offer(&h, 32);
	expect(0, WEIR_STATUS_WINDOW, &payload, &bytes);
	for (uint32_t b = 0; b <= 8; b += 4) { /* one residue, twice round */
		for (unsigned int s = 0; s < 2; s++) {
			h = header(1, generation, s, b, 8);
			offer(&h, 32);
		}
		for (unsigned int s = 0; s < 2; s++)
			expect(s, WEIR_STATUS_OK, &payload, &bytes);
	}
	h = header(1, generation, 0, 4, 8); /* completed with block 8: released */
	offer(&h, 32);
	expect(0, WEIR_STATUS_EXPIRED, &payload, &bytes);
	h = header(1, generation, 0, 8, 8); /* kept */
	offer(&h, 32);
	expect(0, WEIR_STATUS_OK, &payload, &bytes);
	h = header(1, (uint16_t)(generation + 1), 0, 12, 8);
	offer(&h, 32);
	expect(0, WEIR_STATUS_STALE, &payload, &bytes);
	expect_drop(PPE_DROP_STALE, 1);
	expect_drop(PPE_DROP_EXPIRED, 1);
	expect_drop(PPE_DROP_WINDOW, 1);
	stop();
}

Test(ppe_life, a_disagreement_fails_the_block_for_all, .timeout = 30)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_WAIT, 1000);
	generation = rig_join(&rig, 0, false);
	h = header(1, generation, 0, 0, 8);
	offer(&h, 32);
	expect_drop(PPE_DROP_MISMATCH, 0); /* it is in before the other comes by another port */
	h = header(1, generation, 1, 0, 7);
	offer(&h, 28);
	for (unsigned int s = 0; s < 2; s++) {
		expect(s, WEIR_STATUS_MISMATCH, &payload, &bytes);
		cr_expect_eq(bytes, sizeof(struct weir_mismatch));
		cr_expect_eq(payload[0], WEIR_FIELD_LENGTH);
		cr_expect_eq(weir_get16(payload + 2), 8);
		cr_expect_eq(weir_get16(payload + 6), 7);
	}
	expect_drop(PPE_DROP_MISMATCH, 1);
	stop();
}

Test(ppe_life, a_new_generation_forgets_the_old_one, .timeout = 30)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t first, second;
	int32_t got;

	start(PPE_POLICY_WAIT, 1000);
	first = rig_join(&rig, 0, false);
	h = header(1, first, 0, 0, 8);
	offer(&h, 32);
	second = rig_join(&rig, 0, false);
	cr_expect_neq(first, second);
	cr_expect_neq(second, 0);
	cr_expect_neq(rig_join(&rig, 0, false), 0, "generation 0 is reserved");
	second = rig_join(&rig, 0, false);
	h = header(1, second, 0, 0, 8);
	offer(&h, 32);
	h = header(1, first, 1, 0, 8); /* to a block that is open in the new one */
	offer(&h, 32);
	expect(1, WEIR_STATUS_STALE, &payload, &bytes);
	h = header(1, second, 1, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++) {
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
		memcpy(&got, payload, 4);
		cr_expect_eq(got, 2);
	}
	stop();
}

Test(ppe_life, a_fixed_generation_needs_no_join, .timeout = 30)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;

	start(PPE_POLICY_WAIT, 1000);
	for (uint32_t b = 0; b < 10; b++) {
		for (unsigned int s = 0; s < 2; s++) {
			h = header(9, 5, s, b, 8);
			offer(&h, 32);
		}
		for (unsigned int s = 0; s < 2; s++)
			expect(s, WEIR_STATUS_OK, &payload, &bytes);
	}
	stop();
}

Test(ppe_life, hostile_packets_are_counted_and_touch_nothing, .timeout = 30)
{
	const uint8_t *payload;
	unsigned int bytes, n;
	struct weir_header h;
	uint16_t generation;
	int32_t got;

	start(PPE_POLICY_WAIT, 1000);
	h = header(1, 7, 0, 0, 8);
	offer(&h, 32);
	expect(0, WEIR_STATUS_STALE, &payload, &bytes);
	expect_drop(PPE_DROP_NOT_JOINED, 1);
	generation = rig_join(&rig, 0, false);
	h = header(1, generation, 0, 0, 8);
	offer(&h, 32); /* the good one that must survive */

	h = header(77, generation, 1, 0, 8);
	offer(&h, 32);
	cr_expect_eq(expect(1, WEIR_STATUS_REFUSED, &payload, &bytes).gen_id, WEIR_GEN_JOIN);
	expect_drop(PPE_DROP_UNKNOWN_JOB, 1);
	h = header(1, generation, 3, 0, 8);
	offer(&h, 32);
	cr_expect_eq(expect(1, WEIR_STATUS_REFUSED, &payload, &bytes).gen_id, generation);
	expect_drop(PPE_DROP_UNKNOWN_SOURCE, 1);
	h = header(1, generation, 1, 0, 8);
	offer(&h, 31);
	offer(&h, 33);
	h.grad_cnt = 9; /* more than the job's block */
	offer(&h, 36);
	expect_drop(PPE_DROP_LENGTH, 3);
	h = header(1, generation, 1, 0, 8);
	h.status = WEIR_STATUS_OK + 1;
	offer(&h, 32);
	h.status = 0;
	h.src_cnt = 2;
	offer(&h, 32);
	expect_drop(PPE_DROP_NOT_A_CONTRIBUTION, 2);
	h = header(1, generation, 1, 0, 8);
	h.dtype = 15;
	offer(&h, 32);
	expect(1, WEIR_STATUS_UNSUPPORTED, &payload, &bytes);
	h.dtype = WEIR_DTYPE_INT32;
	h.op = 15;
	offer(&h, 32);
	expect(1, WEIR_STATUS_UNSUPPORTED, &payload, &bytes);
	h.op = 0;
	h.collective = 13;
	offer(&h, 32);
	expect(1, WEIR_STATUS_UNSUPPORTED, &payload, &bytes);
	expect_drop(PPE_DROP_UNSUPPORTED, 3);

	h = header(1, generation, 1, 0, 8);
	n = rig_frame(frame, 1, &h, NULL, 0);
	frame[24] ^= 0xff; /* IPv4 checksum */
	rig_send(&rig, 1, frame, n);
	expect_drop(PPE_DROP_IP_CHECKSUM, 1);
	n = rig_frame(frame, 1, &h, NULL, 0);
	frame[42 + 11] ^= 1; /* a bit of grad_cnt, behind the checksum's back */
	rig_send(&rig, 1, frame, n);
	expect_drop(PPE_DROP_UDP_CHECKSUM, 1);
	n = rig_frame(frame, 0, &h, NULL, 0);
	weir_put32(frame + 26, rig_source_ip(0)); /* source 1 from source 0's address */
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, n);
	expect(0, WEIR_STATUS_REFUSED, &payload, &bytes);
	expect_drop(PPE_DROP_ADDRESS, 1);
	n = rig_frame(frame, 1, &h, NULL, 0); /* the right address at the wrong port */
	rig_send(&rig, 0, frame, n);
	expect_drop(PPE_DROP_ADDRESS, 2);
	for (unsigned int cut = 42; cut < 42 + WEIR_EXT_BYTES; cut++) {
		n = rig_frame(frame, 1, &h, NULL, 0);
		weir_put16(frame + 16, (uint16_t)(cut - 14));
		weir_put16(frame + 38, (uint16_t)(cut - 34));
		rig_fix_checksums(frame);
		rig_send(&rig, 1, frame, cut);
	}
	expect_drop(PPE_DROP_TRUNCATED, WEIR_EXT_BYTES);
	for (unsigned int cut = 14; cut < 42; cut++) {
		rig_frame(frame, 1, &h, NULL, 0);
		rig_send(&rig, 1, frame, cut);
	}
	expect_drop(PPE_DROP_MALFORMED, 42 - 14);
	n = rig_frame(frame, 1, &h, NULL, 0);
	weir_put16(frame + 20, 0x2000); /* more fragments */
	rig_fix_checksums(frame);
	rig_send(&rig, 1, frame, n);
	expect_drop(PPE_DROP_IP_FRAGMENT, 1);

	h = header(1, generation, 1, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++) {
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
		memcpy(&got, payload, 4);
		cr_expect_eq(got, 2);
	}
	stop();
}

Test(ppe_life, a_job_table_is_swapped_while_packets_run, .timeout = 30)
{
	struct ppe_jobs without = {0};
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_WAIT, 1000);
	generation = rig_join(&rig, 0, false);
	without.by_id[1] = &rig.job[0];
	h = header(9, 5, 0, 0, 8);
	offer(&h, 32); /* a block of job 9 is open */
	expect_drop(PPE_DROP_UNKNOWN_JOB, 0);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &without), 0);
	cr_expect_eq(ppe_generation_after(rig.ppe, 9), 6); /* it had 5 */
	cr_expect_eq(ppe_generation_after(rig.ppe, 1), 0);
	cr_expect(!ppe_job_is_leaving(rig.ppe, 9, rig.jobs.by_id[9]->instance));
	h = header(9, 5, 1, 0, 8);
	offer(&h, 32);
	expect(1, WEIR_STATUS_REFUSED, &payload, &bytes);
	expect_drop(PPE_DROP_UNKNOWN_JOB, 1);
	for (unsigned int s = 0; s < 2; s++) { /* job 1 does not notice */
		h = header(1, generation, s, 0, 8);
		offer(&h, 32);
	}
	for (unsigned int s = 0; s < 2; s++)
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &rig.jobs), 0);
	h = header(9, 5, 1, 0, 8);
	offer(&h, 32); /* the open block is forgotten: this is the first one's */
	cr_assert_eq(rig_receive(&rig, 0, frame, 10), 0);
	h = header(9, 5, 0, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++)
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
	stop();
}

Test(ppe_life, repeats_do_not_hide_a_straggler, .timeout = 30)
{
	struct weir_header h, got = {0};
	const uint8_t *payload;
	unsigned int bytes, n = 0;

	start(PPE_POLICY_PARTIAL, 60);
	h = header(1, rig_join(&rig, 0, false), 1, 0, 8);
	for (unsigned int ms = 0; ms < 2000 && n == 0; ms++) {
		offer(&h, 32); /* many within each visit of the aging scan */
		n = rig_receive(&rig, 0, frame, 1);
	}
	cr_assert_gt(n, 0, "no partial result");
	cr_assert(rig_parse(frame, n, &got, &payload, &bytes));
	cr_expect_eq(got.status, WEIR_STATUS_PARTIAL);
	stop();
}

Test(ppe_life, a_third_buffer_is_held_back, .timeout = 30)
{
	struct ppe_job_stats stats;
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_PARTIAL, 20);
	generation = rig_join(&rig, 0, false);
	for (uint32_t b = 0; b <= 4; b += 4) { /* source 0 contributes to neither */
		h = header(1, generation, 1, b, 8);
		offer(&h, 32);
		for (unsigned int s = 0; s < 2; s++)
			expect(s, WEIR_STATUS_PARTIAL, &payload, &bytes);
	}
	h = header(1, generation, 1, 8, 8);
	offer(&h, 32);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	/* Its late contribution to block 4 says that it has block 0: that one is released. */
	h = header(1, generation, 0, 4, 8);
	offer(&h, 32);
	expect(0, WEIR_STATUS_PARTIAL, &payload, &bytes);
	for (unsigned int s = 0; s < 2; s++) {
		h = header(1, generation, s, 8, 8);
		offer(&h, 32);
	}
	for (unsigned int s = 0; s < 2; s++)
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
	cr_assert_eq(ppe_job_stats_read(rig.ppe, 1, &stats), 0);
	cr_expect_eq(stats.buffers_used, 1, "%u buffers", stats.buffers_used);
	cr_expect_eq(stats.held_back, 1);
	cr_expect_eq(stats.late, 1);
	stop();
}

/* Source 0's contribution to block 4 is lost, and block 4 goes out without it: to source 0, too, which
 * therefore never sends it again. */
Test(ppe_life, a_contribution_acknowledges_a_block_that_it_is_not_in, .timeout = 30)
{
	struct ppe_job_stats stats;
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_PARTIAL, 20);
	generation = rig_join(&rig, 0, false);
	for (unsigned int s = 0; s < 2; s++) {
		h = header(1, generation, s, 0, 8);
		offer(&h, 32);
	}
	for (unsigned int s = 0; s < 2; s++)
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
	h = header(1, generation, 1, 4, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++)
		expect(s, WEIR_STATUS_PARTIAL, &payload, &bytes);
	h = header(1, generation, 1, 8, 8); /* nobody knows yet whether source 0 has block 0 */
	offer(&h, 32);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	for (unsigned int s = 0; s < 2; s++) {
		h = header(1, generation, s, 8, 8);
		offer(&h, 32);
		expect_drop(PPE_DROP_HELD_BACK, 1);
	}
	for (unsigned int s = 0; s < 2; s++)
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
	cr_assert_eq(ppe_job_stats_read(rig.ppe, 1, &stats), 0);
	cr_expect_eq(stats.buffers_used, 1, "%u buffers", stats.buffers_used);
	cr_expect_eq(stats.held_back, 1);
	cr_expect_eq(stats.late, 0);
	stop();
}

static void
offer_join(unsigned int source, uint32_t nonce)
{
	struct weir_header h = header(2, WEIR_GEN_JOIN, source, nonce, 0);

	h.extended = true;
	h.collective = WEIR_COLLECTIVE_JOIN;
	rig_send(&rig, 0, frame, rig_frame(frame, source, &h, NULL, 0));
}

/* Late copies of a former join, on the heels of the one that begins the next generation: they meet it
 * while it is being made known to all workers. */
Test(ppe_life, a_former_join_is_not_told_the_next_generation, .timeout = 60)
{
	struct weir_header h;
	const uint8_t *payload;
	unsigned int bytes, n;
	uint16_t generation = 0;
	/* Joins of job 2 are collected by the first worker, where a walk begins. */
	struct rig_config config = {
		.workers = 2, .threads = 8, .ports = 2, .jobs = 1, .job = {rig_job(2, 2, 4, 8)}};

	rig_start(&rig, &config);
	for (uint32_t nonce = 1; nonce < 30; nonce++) {
		offer_join(0, nonce);
		expect(0, WEIR_STATUS_WAITING, &payload, &bytes);
		offer_join(1, nonce);
		for (unsigned int i = 0; nonce > 1 && i < 40; i++)
			offer_join(0, nonce - 1);
		while ((n = rig_receive(&rig, 0, frame, 20)) > 0) {
			cr_assert(rig_parse(frame, n, &h, &payload, &bytes));
			if (h.status != WEIR_STATUS_OK)
				continue;
			if (h.block_id == nonce)
				generation = h.gen_id;
			else
				cr_assert_eq(
					h.gen_id, generation, "nonce %u of %u", h.block_id, nonce);
		}
		while (rig_receive(&rig, 1, frame, 0) > 0)
			;
	}
	cr_assert_neq(generation, 0);
	stop();
}

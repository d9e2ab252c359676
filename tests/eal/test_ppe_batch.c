/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches, turned by hand: which packets they take, what they make of them, and that nothing overtakes what its source sent
 * before; and the same random packets to switches with and without them, of which the same must leave. The other tests of
 * this folder run with batches, too, and with WEIR_BATCH=1 without.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ppe/collective/collective_fast.h"
#include "ppe/ppe_priv.h"
#include "tests/eal/bench.h"
#include "tests/fuzz/fuzz.h"

#define ELEMENTS 64
#define SOURCES  3
#define WINDOW   16
#define GEN      7
#define FIRST    2 /* block that batches take */

/* A turn, and how many packets its batches took. */
static uint64_t
turn(void)
{
	const struct ppe_worker_stats *count = &rig.ppe->worker[0]->count.worker;
	uint64_t before = count->batched;

	rig_turn(&rig);
	return count->batched - before;
}

/* The next results of each source are those of the blocks [from, to). */
static void
expect_results(uint32_t from, uint32_t to)
{
	rig_rest(&rig);
	for (unsigned int s = 0; s < SOURCES; s++)
		for (uint32_t block = from; block < to; block++)
			expect(s, block, WEIR_STATUS_OK, 0);
}

/* A job whose sources' headers are known. */
static void
start_with(unsigned int sources, unsigned int threads)
{
	setenv("WEIR_BATCH", "256", 1);
	start(.workers = 1, .threads = threads, .sources = sources, .ports = SOURCES,
		.window = WINDOW, .elements = ELEMENTS, .timeout_ms = 1000, .generation = GEN);
	/* The first packet tells the source's endpoint, the second one its headers. */
	for (uint32_t block = 0; block < FIRST; block++) {
		contribute_all(block);
		cr_assert_eq(turn(), 0);
	}
	discard();
}

/* Its frame. Returns its bytes. */
static unsigned int
write_contribution(unsigned int source, uint32_t block)
{
	const struct weir_header h = contribution(source, block);

	return write_frame(&h, 4 * ELEMENTS);
}

Test(ppe_batch, a_window_in_one_turn, .timeout = 90)
{
	start_with(SOURCES, 4);
	for (uint32_t block = FIRST; block < WINDOW; block++)
		contribute_all(block);
	cr_assert_eq(turn(), (WINDOW - FIRST) * SOURCES);
	expect_results(FIRST, WINDOW);
	/* The next block of a residue is opened when the one before has been answered. */
	contribute_all(WINDOW);
	cr_assert_eq(turn(), SOURCES);
	expect_results(WINDOW, WINDOW + 1);
	stop_unread();
}

/* A source's packets behind one that is for a thread are for threads; other sources' are not. */
Test(ppe_batch, nothing_overtakes, .timeout = 90)
{
	start_with(SOURCES, 4);
	contribute(0, FIRST);
	contribute(0, FIRST); /* a duplicate */
	contribute(0, FIRST + 1);
	for (uint32_t block = FIRST; block < FIRST + 2; block++)
		for (unsigned int s = 1; s < SOURCES; s++)
			contribute(s, block);
	cr_assert_eq(turn(), 1 + 4 + 1);
	expect_results(FIRST, FIRST + 1);
	expect(0, FIRST, WEIR_STATUS_OK, 0); /* the duplicate's answer */
	expect_results(FIRST + 1, FIRST + 2);
	cr_assert_eq(job_stats(1).asked_again, 1, "the duplicate comes after the result");
	cr_assert_eq(turn(), 0);
	contribute(0, FIRST + 2); /* in the next turn it is over */
	acknowledge(0, FIRST);
	contribute(0, FIRST + 3);
	cr_assert_eq(turn(), 1 + 1);
	stop_unread();
}

/* What cannot be told from the fixed places of a frame may be anybody's; a frame for another host is nobody's. */
Test(ppe_batch, unusual_frames, .timeout = 90)
{
	unsigned int bytes;

	start_with(SOURCES, 4);
	contribute(0, FIRST);
	bytes = write_contribution(1, FIRST);
	frame[0] ^= 4;
	rig_send(&rig, 0, frame, bytes);
	contribute(0, FIRST + 1);
	cr_assert_eq(turn(), 2);
	bytes = write_contribution(1, FIRST);
	memmove(frame + 16, frame + 12, bytes - 12); /* a VLAN tag */
	memcpy(frame + 12, (uint8_t[]){0x81, 0, 0, 1}, 4);
	rig_send(&rig, 0, frame, bytes + 4);
	contribute(0, FIRST + 2);
	contribute(2, FIRST + 2);
	cr_assert_eq(turn(), 2); /* after the thread of the first one */
	stop_unread();
}

/* A damaged payload is not added, and its source may send it again; if it would open the block, a thread drops it. */
Test(ppe_batch, damaged, .timeout = 90)
{
	start_with(SOURCES, 4);
	for (unsigned int place = 0; place < SOURCES; place++) {
		unsigned int bytes;

		for (unsigned int s = 0; s < SOURCES; s++) {
			bytes = write_contribution(s, FIRST + place);
			frame[bytes - 1] ^= s == place;
			rig_send(&rig, s, frame, bytes);
		}
		cr_assert_eq(turn(), place == 0 ? SOURCES - 1 : SOURCES);
		contribute(place, FIRST + place);
		cr_assert_eq(turn(), 1);
	}
	expect_results(FIRST, FIRST + SOURCES);
	stop_unread();
}

/* A block that has a contribution of an expelled source is full when all others are added, not those of one group. */
Test(ppe_batch, expelled_after_its_contribution, .timeout = 90)
{
	const unsigned int sources = 10, last = sources - 1;
	struct job_shard *js;

	start_with(sources, 16);
	js = ((struct collective *)rig.ppe->worker[0]->state[0])->job[1];
	contribute(last, FIRST);
	cr_assert_eq(turn(), 1);
	mask_set(js->expelled, last);
	js->target--;
	for (unsigned int s = 0; s < last; s++)
		contribute(s, FIRST);
	cr_assert_eq(turn(), last);
	cr_assert_eq(job_stats(1).blocks_complete, FIRST + 1);
	cr_assert_eq(job_stats(1).blocks_partial, 0);
	stop_unread();
}

/* A frame from one host to another, which the switch does not know: the protocol, and the byte where a job would be. */
static void
forwarded(uint8_t protocol, uint8_t byte)
{
	unsigned int bytes = write_contribution(1, 0);

	rig_source_mac(2, frame);
	frame[23] = protocol;
	frame[42] = byte;
	rig_send(&rig, 1, frame, bytes);
}

/* What is forwarded keeps its order when a batch leaves a packet to a thread. */
Test(ppe_batch, forwarded_frames_do_not_follow, .timeout = 90)
{
	start_with(SOURCES, 4);
	contribute(0, FIRST);
	contribute(0, FIRST); /* a duplicate, which has a lane */
	forwarded(6, 1); /* whose it would be, cannot be told */
	forwarded(17, 99);
	rig_rest(&rig);
	cr_assert_gt(rig_receive(&rig, 2, frame, 0), 0);
	cr_assert_eq(frame[42], 1);
	cr_assert_gt(rig_receive(&rig, 2, frame, 0), 0);
	cr_assert_eq(frame[42], 99);
	stop_unread();
}

/* ---- the same packets with 1 and with 256: in processes of their own, where Criterion is not ---- */

#define JOBS       3
#define PASSES     40 /* windows of blocks */
#define LINE_BYTES 1024
#define LINES      4096 /* that leave by a port in a round */

enum {
	PLAIN,
	JOINED,
	VARIED
}; /* one type; generations that are joined; types, lengths, partial results */

static struct same {
	uint64_t random;
	bool strict; /* what leaves for a source of a job has an order */
	uint32_t base[JOBS]; /* first block of the window */
	uint16_t generation[JOBS];
	bool sent[JOBS][SOURCES][WINDOW]; /* by residue */
	uint8_t odd
		[JOBS]
		[WINDOW]; /* the windows, from this one on, in which it tells what is first in it */
	bool raced[JOBS][WINDOW]; /* which of several sources was first in it, is not known */
	unsigned int round;
	FILE *said;
} same;

static unsigned int
below(unsigned int n)
{
	return (unsigned int)(rig_random(&same.random) % n);
}

/* What a source contributes to a block, and its frame. The values are small, so that any order has the same sum. */
static struct weir_header
right(unsigned int j, unsigned int source, uint32_t block)
{
	struct weir_header h =
		rig_contribution(rig.job[j].id, same.generation[j], source, block, ELEMENTS);

	if (j == VARIED) {
		h.dtype = block / 4 % 2 ? WEIR_DTYPE_FP32 : WEIR_DTYPE_INT32;
		h.op = block % 16 < 12 ? WEIR_OP_SUM : WEIR_OP_MAX;
		h.grad_cnt = (uint16_t)(block % 8 < 6 ? ELEMENTS : 1 + block % ELEMENTS);
	}
	return h;
}

static unsigned int
write_values(unsigned int source, const struct weir_header *h)
{
	uint32_t values[ELEMENTS];

	for (unsigned int i = 0; i < ELEMENTS; i++) {
		uint32_t value = (source + 1) * 100 + (h->block_id + i) % 100;
		float f = (float)value;

		memcpy(&values[i], h->dtype == WEIR_DTYPE_FP32 ? (const void *)&f : &value, 4);
	}
	return rig_frame(frame, source, h, values, h->grad_cnt * 4u);
}

static void
offer_values(unsigned int source, const struct weir_header *h)
{
	rig_send(&rig, source, frame, write_values(source, h));
}

static int
compare_lines(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* All that was sent has its end; say what left by each port. */
static void
end_round(bool strict)
{
	static char line[LINES][LINE_BYTES];

	rig_rest(&rig);
	same.round++;
	for (unsigned int port = 0; port < SOURCES; port++) {
		unsigned int n = 0, of[256][256] = {{0}}, bytes, size;

		while ((bytes = rig_receive(&rig, port, frame, 0)) > 0) {
			struct weir_header h = {.job_id = 0};
			const uint8_t *data;
			unsigned int at;

			memset(frame + 18, 0,
				2); /* IPv4's identification, and the checksum over it */
			memset(frame + 24, 0, 2);
			if (rig_parse(frame, bytes, &h, &data, &size) && h.extended &&
				h.collective == WEIR_COLLECTIVE_JOIN && h.status == WEIR_STATUS_OK)
				same.generation[JOINED] = h.gen_id;
			FUZZ_CHECK(n < LINES && bytes < LINE_BYTES / 2 - 32, "too much: %u", bytes);
			at = (unsigned int)snprintf(line[n], LINE_BYTES,
				"job %u source %u, %4u: ", h.job_id, h.src_id,
				strict && same.strict ? of[h.job_id][h.src_id]++ : 0);
			for (unsigned int i = 0; i < bytes; i++)
				at += (unsigned int)snprintf(
					line[n] + at, LINE_BYTES - at, "%02x", frame[i]);
			n++;
		}
		qsort(line, n, LINE_BYTES, compare_lines);
		for (unsigned int i = 0; i < n; i++)
			fprintf(same.said, "round %u port %u %s\n", same.round, port, line[i]);
	}
}

/* All sources together: what they say commutes. */
static void
together(void)
{
	unsigned int next[SOURCES] = {0};

	for (unsigned int n = 0; n < SOURCES * JOBS * WINDOW; n++) {
		unsigned int s = below(SOURCES), j = next[s] % JOBS, r = next[s] / JOBS, bytes;
		struct weir_header h;

		if (r >= WINDOW || (next[s]++, same.odd[j][r]) || same.sent[j][s][r] ||
			below(6) == 0)
			continue;
		h = right(j, s, same.base[j] + r);
		bytes = write_values(s, &h);
		if (below(12) == 0)
			frame[bytes - 1 - below(20)] ^= 1;
		else
			same.sent[j][s][r] = same.raced[j][r] = true;
		rig_send(&rig, s, frame, bytes);
		if (below(16) == 0) { /* somebody else's */
			frame[0] ^= 2;
			rig_send(&rig, s, frame, bytes);
		}
	}
	end_round(false);
}

/* Some packet of a source that speaks alone. */
static void
anything(unsigned int s)
{
	unsigned int j = below(JOBS), r = below(WINDOW), bytes, kind = below(36);
	struct weir_header h = right(j, s, same.base[j] + r);

	if (same.raced[j][r] && kind >= 5 && kind <= 10)
		kind = 35; /* a disagreement would name the first */
	switch (kind) {
	case 0: h = right(j, s, h.block_id - (1 + below(3)) * WINDOW); break;
	case 1: h = right(j, s, h.block_id + (1 + below(2)) * WINDOW); break;
	case 2: h.gen_id--; break;
	case 3: h.job_id = 99; break;
	case 4: h.src_id = (uint8_t)below(8); break;
	case 5: h.grad_cnt = (uint16_t)below(ELEMENTS); break;
	case 6: h.dtype = WEIR_DTYPE_INT16; break;
	case 7: h.collective = (uint8_t)below(12); break;
	case 8: h.final = true; break;
	case 9:
		h.collective = WEIR_COLLECTIVE_ACKNOWLEDGE;
		h.grad_cnt = 0;
		break;
	case 10: h.extended = j == VARIED; break;
	default: break;
	}
	if (kind <= 10)
		same.odd[j][r] = kind == 1 ? 3 : RTE_MAX(same.odd[j][r], 1); /* 1: a later block */
	else
		same.sent[j][s][r] = true;
	bytes = write_values(s, &h);
	if (kind == 11 && below(2)) {
		unsigned int at = below(bytes), bit = below(8);

		/* Another MAC address would move the source: what it gets depends on when the others speak. */
		if (at / RTE_ETHER_ADDR_LEN != 1)
			frame[at] ^= (uint8_t)(1u << bit);
	}
	if (kind == 12)
		bytes = 1 + below(bytes);
	if (kind == 13) { /* a VLAN tag */
		memmove(frame + 16, frame + 12, bytes - 12);
		weir_put32(frame + 12, 0x81000001);
		bytes += 4;
	}
	rig.seed = kind == 14 ? rig_random(&same.random) : 0;
	rig_send(&rig, s, frame, bytes);
	rig.seed = 0;
}

static void
join_all(void)
{
	struct weir_header h = {
		.job_id = rig.job[JOINED].id, .collective = WEIR_COLLECTIVE_JOIN, .extended = true};

	for (unsigned int s = 0; s < SOURCES; s++) {
		h.src_id = (uint8_t)s;
		h.block_id = 1 + below(1u << 30);
		offer_values(s, &h);
		end_round(true);
	}
	same.base[JOINED] = 0;
	memset(same.sent[JOINED], 0, sizeof(same.sent[JOINED]));
}

/* Each source in turn sends all of the window, whatever was sent before: every block comes to its end. */
static void
finish_window(void)
{
	for (unsigned int s = 0; s < SOURCES; s++) {
		for (unsigned int j = 0; j < JOBS; j++)
			for (uint32_t r = 0; r < WINDOW; r++) {
				struct weir_header h = right(j, s, same.base[j] + r);

				offer_values(s, &h);
			}
		end_round(true);
	}
	for (unsigned int j = 0; j < JOBS; j++) {
		same.base[j] += WINDOW;
		for (uint32_t r = 0; r < WINDOW; r++)
			same.odd[j][r] -= same.odd[j][r] > 0;
	}
	memset(same.sent, 0, sizeof(same.sent));
	memset(same.raced, 0, sizeof(same.raced));
}

static void
say_counters(void)
{
	struct ppe_stats stats;
	struct ppe_job_stats job;

	ppe_stats_read(rig.ppe, &stats);
	fprintf(same.said,
		"received %" PRIu64 " created %" PRIu64 " consumed %" PRIu64 " sent %" PRIu64 "\n",
		stats.received, stats.created, stats.consumed, stats.sent);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		fprintf(same.said, "%s %" PRIu64 "\n", ppe_drop_key((enum ppe_drop)i),
			stats.drops[i]);
	for (unsigned int j = 0; j < JOBS; j++) {
		FUZZ_CHECK(ppe_job_stats_read(rig.ppe, rig.job[j].id, &job) == 0, "no job %u", j);
#define X(name, help) fprintf(same.said, "job %u " #name " %" PRIu64 "\n", j, job.name);
		PPE_JOB_COUNTERS(X)
#undef X
		fprintf(same.said, "job %u: %u in flight, %u buffers\n", j, job.blocks_in_flight,
			job.buffers_used);
	}
}

static void
play(const char *batch, unsigned int workers, uint64_t seed, FILE *said)
{
	struct rig_config config = {
		.workers = workers, .threads = 1, .ports = SOURCES, .jobs = JOBS, .joins_s = 3600};
	uint64_t batched = 0;

	for (unsigned int j = 0; j < JOBS; j++) {
		config.job[j] = rig_job((uint8_t)(j + 1), SOURCES, WINDOW, ELEMENTS);
		config.job[j].timeout_ms = 100;
		config.job[j].fixed_generation = j == JOINED ? 0 : GEN;
		config.job[j].policy = j == VARIED ? PPE_POLICY_PARTIAL : PPE_POLICY_WAIT;
	}
	same = (struct same){.random = seed, .strict = workers == 1, .said = said};
	same.generation[PLAIN] = same.generation[VARIED] = GEN;
	setenv("WEIR_BATCH", batch, 1);
	rig_start(&rig, &config);
	join_all();
	for (unsigned int pass = 0; pass < PASSES; pass++) {
		for (unsigned int n = 0; n < 6; n++) {
			unsigned int s = below(SOURCES);

			if (n % 3 == 0)
				together();
			for (unsigned int k = below(40); k > 0; k--)
				anything(s);
			end_round(true);
			if (below(8) != 0)
				continue;
			rig_pass_us(150000);
			end_round(false);
		}
		finish_window();
		if (below(8) == 0)
			join_all();
	}
	say_counters();
	rig_check(&rig);
	for (unsigned int w = 0; w < workers; w++)
		batched += rig.ppe->worker[w]->count.worker.batched;
	printf("batches of %s took %" PRIu64 " packets\n", batch, batched);
	FUZZ_CHECK((batched > PASSES) == (batch[1] != 0), "%" PRIu64 " in batches of %s", batched,
		batch);
	FUZZ_CHECK(rig_stop(&rig) == NULL, "it does not stop");
}

/* EAL starts once in a process. */
static FILE *
played(const char *batch, unsigned int workers, uint64_t seed)
{
	FILE *said = tmpfile();
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		play(batch, workers, seed, said);
		fflush(NULL);
		_exit(0);
	}
	cr_assert(waitpid(child, &status, 0) == child && status == 0, "batch %s: status %d", batch,
		status);
	rewind(said);
	return said;
}

static void
same_with_both(unsigned int workers)
{
	uint64_t seed = rig_seed();
	FILE *one = played("1", workers, seed), *all = played("256", workers, seed);
	char *a, *b, x[LINE_BYTES + 64], y[LINE_BYTES + 64];
	unsigned int lines = 0;

	do {
		a = fgets(x, sizeof(x), one);
		b = fgets(y, sizeof(y), all);
		cr_assert(a != NULL || b == NULL, "only with 256: %s", y);
		cr_assert(b != NULL || a == NULL, "only with 1: %s", x);
		cr_assert(a == NULL || strcmp(x, y) == 0, "with 1: %swith 256: %s", x, y);
		lines++;
	} while (a != NULL);
	cr_assert_gt(lines, PASSES * WINDOW * SOURCES);
	fclose(one);
	fclose(all);
}

CASE(ppe_batch, the_same_with_both, same_with_both(1))
CASE(ppe_batch, the_same_with_both_on_two_workers, same_with_both(2))

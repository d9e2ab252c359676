/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rig with an authenticated job, or one whose joins alone are proved, and its hosts: they know the key, join,
 * contribute under right tags, and hold the answers' tags against the model's. For one test file each; main thread.
 */
#ifndef TESTS_EAL_AUTH_RIG_H
#define TESTS_EAL_AUTH_RIG_H

#include "tests/eal/bench.h"
#include "tests/model/tags.h"

#define SOURCES 3
#define WINDOW  4
#define TAG     WEIR_TAG_BYTES
#define HEADER  42 /* where the aggregation header begins */
#define MAC     11 /* the last byte of the sender's */

static uint8_t answer[RIG_FRAME_MAX]; /* for `frame` is often sent again */
static uint8_t job_key[32], source_key[SOURCES][32];
static uint64_t random_state;
static bool job_revokes,
	job_plain; /* before start_with(), as are these; plain: only joins have tags */
static unsigned int rig_threads = 8;
static uint32_t transmissions; /* of joins */
static uint16_t join_generation; /* that joins repeat; 0: they ask for the next one */

/* What a generation's packets are made with. */
static struct epoch {
	uint16_t generation;
	uint8_t challenge[16], source[SOURCES][32], results[32];
} now, before;

static inline void
with_keys(struct rig_config *config)
{
	config->jobs = 2;
	config->job[1] = rig_job(2, SOURCES, WINDOW, 8);
	config->job[0].proved = true;
	config->job[0].authenticated = !job_plain;
	config->job[0].revoke = job_revokes;
	memcpy(config->job[0].key, job_key, sizeof(job_key));
}

static inline void
start_with(unsigned int workers, uint16_t elements, enum ppe_policy policy, uint32_t timeout_ms)
{
	random_state = rig_seed();
	for (unsigned int i = 0; i < sizeof(job_key); i++)
		job_key[i] = (uint8_t)rig_random(&random_state);
	for (unsigned int s = 0; s < SOURCES; s++)
		tags_source_key(job_key, (uint8_t)s, 0, source_key[s]);
	start(.workers = workers, .threads = rig_threads, .sources = SOURCES, .window = WINDOW,
		.elements = elements, .policy = policy, .timeout_ms = timeout_ms, .late = true,
		.change = with_keys);
}

static inline void
silent(unsigned int source)
{
	cr_expect_eq(rig_receive(&rig, source, answer, 30), 0, "source %u is answered", source);
}

/* Take an answer to a source: `payload` is without the tag, which is at payload + payload_bytes. */
static inline struct weir_header
take(unsigned int source)
{
	unsigned int n = rig_receive(&rig, source, answer, 2000);

	cr_assert_gt(n, 0, "source %u gets nothing", source);
	cr_assert(rig_parse(answer, n, &got, &payload, &payload_bytes));
	cr_assert(rig_checksums_hold(answer));
	if (job_plain && got.collective != WEIR_COLLECTIVE_JOIN) {
		cr_assert_eq(got.flags, 0);
		return got;
	}
	cr_assert(got.extended && got.flags == WEIR_FLAG_AUTHENTICATED && payload_bytes >= TAG);
	payload_bytes -= TAG;
	return got;
}

/* Is the answer's tag that of a reply to what bore these bytes? */
static uint64_t skipping; /* bit: a source that asks that its own slices be left out */

static inline bool
reply_holds(unsigned int source, const uint8_t answered[16], unsigned int bytes)
{
	uint8_t tag[16];

	tags_hmac(source_key[source], "weir reply", answered, 16, answer + HEADER, 16 + bytes, tag);
	return memcmp(tag, answer + HEADER + 16 + bytes, 16) == 0;
}

/* Is it that of a result? */
static inline bool
result_holds(const struct weir_header *h, unsigned int bytes)
{
	uint8_t tag[16], header[16];

	memcpy(header, answer + HEADER, 16);
	header[6] = 0; /* src_id is not covered: all copies have one tag */
	tags_gmac(now.results, h->status, h->block_id, header, answer + HEADER + 16, bytes, tag);
	return memcmp(tag, answer + HEADER + 16 + bytes, 16) == 0;
}

/* --- joining ---------------------------------------------------------------------------------- */

static inline unsigned int
join_frame(unsigned int source, const uint8_t challenge[16], const uint8_t nonce[16])
{
	const struct weir_header h = {.job_id = 1,
		.src_id = (uint8_t)source,
		.block_id = weir_get32(nonce),
		.gen_id = join_generation,
		.collective = WEIR_COLLECTIVE_JOIN,
		.op = source % 2, /* some take the list of settings */
		.flags = WEIR_FLAG_AUTHENTICATED |
			((skipping >> source & 1) ? WEIR_FLAG_SKIPS_OWN : 0),
		.extended = true};
	uint8_t proof[sizeof(struct weir_join_proof) + TAG] = {0};
	unsigned int n;

	memcpy(proof, challenge, 16);
	memcpy(proof + 16, nonce, 16);
	weir_put32(proof + 32, ++transmissions);
	n = rig_frame(frame, source, &h, proof, sizeof(proof));
	tags_join(source_key[source], weir_get32(frame + 26), weir_get16(frame + 34),
		frame + HEADER, frame + n - TAG);
	rig_fix_checksums(frame);
	return n;
}

static inline void
draw(uint8_t nonce[16])
{
	for (unsigned int i = 0; i < 16; i++)
		nonce[i] = (uint8_t)rig_random(&random_state);
}

/* What the switch challenges joins of the source with. */
static inline void
ask_challenge(unsigned int source, uint8_t challenge[16])
{
	static const uint8_t none[16];
	struct weir_header h;
	uint8_t nonce[16];

	draw(nonce);
	rig_send(&rig, source, frame, join_frame(source, none, nonce));
	h = take(source);
	cr_assert_eq(h.status, WEIR_STATUS_WAITING);
	cr_assert_eq(payload_bytes, 48);
	cr_assert(reply_holds(source, nonce, payload_bytes));
	memcpy(challenge, payload + 32, 16);
}

/* The answer to an accepted join begins the generation `now`. */
static inline void
take_accepted(unsigned int s, const uint8_t nonce[16])
{
	struct weir_header h = take(s);
	uint8_t *end = (uint8_t *)(uintptr_t)payload + 16; /* of the settings */

	cr_assert_eq(h.status, WEIR_STATUS_OK);
	end += s % 2 == 1 ? 2 + weir_get16(end) : 0;
	cr_assert_eq(payload + payload_bytes, end + (job_plain ? 16 : 48));
	cr_assert_eq(payload[7],
		(job_plain ? 0 : WEIR_JOIN_AUTHENTICATED) |
			((skipping >> s & 1) ? WEIR_JOIN_SKIPS_OWN : 0));
	cr_assert(reply_holds(s, nonce, payload_bytes));
	now.generation = h.gen_id;
	memcpy(now.challenge, end, 16);
	tags_contributions_key(source_key[s], now.challenge, now.generation, now.source[s]);
	if (job_plain)
		return;
	tags_results_key(job_key, now.challenge, now.generation, now.results);
	tags_wrap(source_key[s], nonce, now.challenge, now.generation, end + 16);
	cr_assert_arr_eq(end + 16, now.results, 32, "the wrapped key of source %u", s);
}

/* The source joins the next generation. */
static inline void
join_proved(unsigned int source, uint8_t nonce[16])
{
	uint8_t challenge[16];

	ask_challenge(source, challenge);
	draw(nonce);
	rig_send(&rig, source, frame, join_frame(source, challenge, nonce));
}

/* All do, and it begins. */
static inline void
enter_with(uint8_t nonce[SOURCES][16])
{
	before = now;
	for (unsigned int s = 0; s < SOURCES; s++) {
		join_proved(s, nonce[s]);
		if (s + 1 == SOURCES)
			break;
		cr_assert_eq(take(s).status, WEIR_STATUS_WAITING);
		cr_assert(reply_holds(s, nonce[s], payload_bytes));
		cr_assert_eq(payload[0], (2u << s) - 1u);
	}
	for (unsigned int s = 0; s < SOURCES; s++)
		take_accepted(s, nonce[s]);
	cr_assert_neq(now.generation, before.generation);
	cr_assert_neq(memcmp(now.challenge, before.challenge, 16), 0);
}

static inline void
enter(void)
{
	uint8_t nonce[SOURCES][16];

	enter_with(nonce);
}

/* --- contributions ------------------------------------------------------------------------------ */

static inline struct weir_header
header_of(const struct epoch *epoch, unsigned int source, uint32_t block, unsigned int count)
{
	return (struct weir_header){.job_id = 1,
		.gen_id = epoch->generation,
		.src_id = (uint8_t)source,
		.block_id = block,
		.grad_cnt = (uint16_t)count,
		.collective = count == 0 ? WEIR_COLLECTIVE_BARRIER : WEIR_COLLECTIVE_ALLREDUCE,
		.dtype = WEIR_DTYPE_INT32,
		.flags = job_plain ? 0 : WEIR_FLAG_AUTHENTICATED,
		.extended = true};
}

static inline uint32_t
value(unsigned int source, uint32_t block, unsigned int element)
{
	uint64_t s = (uint64_t)source << 48 ^ (uint64_t)block << 16 ^ element;

	return (uint32_t)rig_random(&s);
}

/* Make a contribution in `frame`, with a tag under this key and number; returns its bytes. */
static inline unsigned int
write_tagged(const struct weir_header *h, const uint8_t key[32], uint64_t number)
{
	static uint8_t elements[4 * 1024 + TAG];
	uint32_t bytes = h->grad_cnt * 4u;
	uint8_t bare[16];

	for (unsigned int i = 0; i < h->grad_cnt; i++) {
		uint32_t v = value(h->src_id, h->block_id, i);

		memcpy(elements + 4 * i, &v, 4);
	}
	weir_header_write(h, bare);
	tags_gmac(key, 0, number, bare, elements, bytes, elements + bytes);
	return rig_frame(frame, h->src_id, h, elements, bytes + (job_plain ? 0 : TAG));
}

static inline void
contribute_tagged(unsigned int source, uint32_t block, unsigned int count)
{
	struct weir_header h = header_of(&now, source, block, count);

	rig_send(&rig, source, frame, write_tagged(&h, now.source[source], block));
}

/* Every source gets the block's result, sources of `in` in it. */
static inline void
expect_result(uint32_t block, unsigned int count, enum weir_status status, unsigned int in)
{
	for (unsigned int s = 0; s < SOURCES; s++) {
		struct weir_header h = take(s);

		cr_assert_eq(h.status, status, "%s", weir_status_text(h.status));
		cr_assert(h.block_id == block && h.src_id == s);
		cr_assert_eq(payload_bytes, count * 4 + (status == WEIR_STATUS_PARTIAL ? 32 : 0));
		cr_assert(job_plain || result_holds(&h, payload_bytes), "block %u of %u elements",
			block, count);
		for (unsigned int i = 0; i < count; i++) {
			uint32_t sum = 0, is;

			for (unsigned int from = 0; from < SOURCES; from++)
				sum += (in >> from & 1) != 0 ? value(from, block, i) : 0;
			memcpy(&is, payload + 4 * i, 4);
			cr_assert_eq(is, sum);
		}
	}
}

static inline void
whole_block(uint32_t block, unsigned int count)
{
	for (unsigned int s = 0; s < SOURCES; s++)
		contribute_tagged(s, block, count);
	expect_result(block, count, WEIR_STATUS_OK, 7);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hop to a parent with keys: proved joins, and tags both ways. The model's tags say what is right. docs/tree.md,
 * "On the wire"; docs/protocol.md, "Proved joins" and "Authenticated jobs".
 */
#include "tests/eal/up_rig.h"
#include "tests/model/tags.h"

#define SUITE ppe_up_joins_auth
#define TAG   WEIR_TAG_BYTES

static uint8_t job_key[32], host_key[HOSTS][32];
static uint64_t random_state;
static uint8_t challenge[PARENTS][16]; /* that a parent wants to be quoted */

/* Of the generation with parent p: what its packets are made with. */
static struct {
	uint8_t challenge[16], contributions[32], results[32];
} with[PARENTS];

static void
draw(uint8_t *bytes, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		bytes[i] = (uint8_t)rig_random(&random_state);
}

/* One parent: the other one has tests enough. plain: the job is not authenticated, and only joins upward are proved. */
static void
start_keyed(unsigned int workers, bool plain)
{
	struct ppe_job job = leaf_job();

	random_state = rig_seed();
	draw(job_key, sizeof(job_key));
	for (unsigned int i = 0; i < HOSTS; i++)
		tags_source_key(job_key, (uint8_t)(FIRST + i), 0, host_key[i]);
	job.nb_parents = 1;
	job.parent[0].keyed = true;
	draw(job.parent[0].key, 32);
	job.proved = job.authenticated = !plain;
	memcpy(job.key, job_key, sizeof(job_key));
	start_job(workers, &job);
	memset(challenge, 0, sizeof(challenge));
}

/* ---- hosts of an authenticated job ---- */

static void
send_proved(unsigned int rank, const uint8_t quoted[16], const uint8_t nonce[16], uint32_t count)
{
	const struct weir_header h = {.job_id = JOB,
		.src_id = (uint8_t)rank,
		.block_id = weir_get32(nonce),
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = WEIR_FLAG_AUTHENTICATED,
		.extended = true};
	uint8_t proof[sizeof(struct weir_join_proof) + TAG] = {0};
	unsigned int n;

	memcpy(proof, quoted, 16);
	memcpy(proof + 16, nonce, 16);
	weir_put32(proof + 32, count);
	n = rig_frame(sent, rank, &h, proof, sizeof(proof));
	tags_join(host_key[rank - FIRST], weir_get32(sent + 26), weir_get16(sent + 34), sent + L4,
		sent + n - TAG);
	rig_fix_checksums(sent);
	rig_send(&rig, rank - FIRST, sent, n);
	rig_rest(&rig);
}

static uint8_t host_nonce[HOSTS][16];

static void
join_proved(unsigned int rank)
{
	static const uint8_t none[16];
	uint8_t quoted[16];

	draw(host_nonce[rank - FIRST], 16);
	send_proved(rank, none, host_nonce[rank - FIRST], 1);
	expect_below(rank, WEIR_STATUS_WAITING);
	memcpy(quoted, payload + WEIR_BITMAP_BYTES, 16);
	send_proved(rank, quoted, host_nonce[rank - FIRST], 2);
	expect_below(rank, WEIR_STATUS_WAITING);
}

/* What the hosts have for the generation. */
static struct {
	uint16_t generation;
	uint8_t contributions[HOSTS][32], results[32];
} below;

static void
expect_begun_proved(void)
{
	uint8_t quoted[16];

	for (unsigned int i = 0; i < HOSTS; i++) {
		expect_below(FIRST + i, WEIR_STATUS_OK);
		cr_assert_eq(payload_bytes, 16 + 16 + 32 + TAG);
		below.generation = got.gen_id;
		memcpy(quoted, payload + 16, 16);
		tags_contributions_key(host_key[i], quoted, got.gen_id, below.contributions[i]);
		tags_results_key(job_key, quoted, got.gen_id, below.results);
	}
}

static void
contribute_tagged(unsigned int rank, uint32_t block)
{
	struct weir_header h = rig_contribution(JOB, below.generation, rank, block, ELEMENTS);
	uint32_t values[ELEMENTS + TAG / 4];
	uint8_t bare[16];

	for (unsigned int i = 0; i < ELEMENTS; i++)
		values[i] = rank + i;
	h.flags = WEIR_FLAG_AUTHENTICATED;
	weir_header_write(&h, bare);
	tags_gmac(below.contributions[rank - FIRST], 0, block, bare, values, 4 * ELEMENTS,
		(uint8_t *)(values + ELEMENTS));
	rig_offer(&rig, rank - FIRST, &h, values, sizeof(values));
	rig_rest(&rig);
}

/* ---- the parent ---- */

/* The next join upward quotes the challenge, and its tag is right. */
static void
expect_proved_join(uint32_t count)
{
	uint8_t tag[TAG];

	expect_join_above(0, 1);
	cr_assert_arr_eq(payload, challenge[0], 16);
	cr_assert_eq(weir_get32(payload + 32), count, "%u", weir_get32(payload + 32));
	tags_join(rig.job[0].parent[0].key, RIG_SWITCH_IP, WEIR_PORT_UP, frame + L4, tag);
	cr_assert_arr_eq(payload + sizeof(struct weir_join_proof), tag, TAG);
}

/* Say it with the tag of a reply to what ended with, or whose nonce was, `answered`. forged: which byte of the packet is
 * changed after that; 0: none. */
static void
say_tagged(struct weir_header h, const void *bytes, unsigned int n, const uint8_t answered[16],
	unsigned int forged)
{
	uint8_t packet[16 + 128];

	h.flags |= WEIR_FLAG_AUTHENTICATED;
	weir_header_write(&h, packet);
	if (n > 0)
		memcpy(packet + 16, bytes, n);
	tags_hmac(rig.job[0].parent[0].key, "weir reply", answered, 16, packet, 16 + n,
		packet + 16 + n);
	if (forged != 0) {
		packet[forged] ^= 1;
		weir_header_read(&h, packet);
	}
	say(0, &h, packet + 16, n + TAG);
}

static void
challenge_it(void)
{
	uint8_t bytes[WEIR_BITMAP_BYTES + 16] = {0x30};
	struct weir_header h = answer_to_join(0, WEIR_STATUS_WAITING);

	h.root = 1;
	draw(challenge[0], 16);
	memcpy(bytes + WEIR_BITMAP_BYTES, challenge[0], 16);
	say_tagged(h, bytes, sizeof(bytes), above[0].proof, 0);
}

/* Accept, with keys if the job is authenticated. */
static void
accept_proved(uint16_t generation, unsigned int forged)
{
	const struct ppe_job *job = &rig.job[0];
	struct weir_header h = answer_to_join(0, WEIR_STATUS_OK);
	uint8_t bytes[16 + 16 + 32], wrapped[32], parents_key[32];

	h.gen_id = generation;
	h.root = FIRST;
	draw(with[0].challenge, 16);
	draw(parents_key, 32); /* of its job, which the leaf does not know */
	tags_contributions_key(
		job->parent[0].key, with[0].challenge, generation, with[0].contributions);
	tags_results_key(parents_key, with[0].challenge, generation, with[0].results);
	memcpy(wrapped, with[0].results, 32);
	tags_wrap(job->parent[0].key, above[0].proof, with[0].challenge, generation, wrapped);
	memcpy(bytes, &settings, 16);
	memcpy(bytes + 16, with[0].challenge, 16);
	memcpy(bytes + 32, wrapped, 32);
	say_tagged(h, bytes, job->authenticated ? 64 : 32, above[0].proof, forged);
}

/* The next packet to the parent is the block, or an acknowledgement, with the right tag, which is left in `tag`. */
static void
expect_tagged_above(uint16_t generation, uint32_t block, bool acknowledgement, uint8_t tag[TAG])
{
	const uint32_t n = acknowledgement ? 0 : 4 * ELEMENTS;

	cr_assert(receive(HOSTS), "nothing goes up");
	cr_assert_eq(got.gen_id, generation);
	cr_assert_eq(got.block_id, block);
	cr_assert_eq(got.collective == WEIR_COLLECTIVE_ACKNOWLEDGE, acknowledgement);
	cr_assert_eq(got.flags, WEIR_FLAG_UP | WEIR_FLAG_AUTHENTICATED);
	cr_assert_eq(payload_bytes, n + TAG);
	tags_gmac(with[0].contributions, acknowledgement, block, frame + L4, payload, n, tag);
	cr_assert_arr_eq(payload + n, tag, TAG);
}

static void
say_result(uint16_t generation, uint32_t block, unsigned int forged)
{
	struct weir_header h = {.job_id = rig.job[0].parent[0].job,
		.block_id = block,
		.gen_id = generation,
		.src_cnt = RANKS,
		.grad_cnt = ELEMENTS,
		.flags = WEIR_FLAG_AUTHENTICATED,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};
	uint8_t packet[16 + 4 * ELEMENTS + TAG];
	uint32_t value;

	for (unsigned int i = 0; i < ELEMENTS; i++) {
		value = 700 + i;
		memcpy(packet + 16 + 4 * i, &value, 4);
	}
	weir_header_write(&h, packet); /* copies differ in src_id, and have one tag */
	tags_gmac(with[0].results, 0, block, packet, packet + 16, 4 * ELEMENTS,
		packet + 16 + 4 * ELEMENTS);
	packet[forged] ^= forged != 0;
	h.src_id = FIRST;
	say(0, &h, packet + 16, 4 * ELEMENTS + TAG);
}

static void
expect_result_below(uint32_t block)
{
	for (unsigned int rank = FIRST; rank < FIRST + HOSTS; rank++) {
		uint8_t tag[TAG], header[16];
		uint32_t value;

		expect_below(rank, WEIR_STATUS_OK);
		cr_assert_eq(got.block_id, block);
		cr_assert_eq(payload_bytes, 4 * ELEMENTS + TAG);
		memcpy(header, frame + L4, 16);
		header[6] = 0;
		tags_gmac(below.results, 0, block, header, payload, 4 * ELEMENTS, tag);
		cr_assert_arr_eq(payload + 4 * ELEMENTS, tag, TAG, "rank %u", rank);
		memcpy(&value, payload + 4, 4);
		cr_assert_eq(value, 701);
	}
}

static void
expect_forged(uint64_t n)
{
	cr_assert_eq(stats().forged, n, "%lu forged", (unsigned long)stats().forged);
	cr_assert_eq(drops(PPE_DROP_FORGED), n);
	expect_silence();
}

/* ---- joins ---- */

/* It asks for a challenge, quotes it at once, and takes nothing that is forged. */
BOTH(SUITE, joins_are_proved)
{
	struct weir_header h;
	uint8_t nonce[16];

	start_keyed(workers, true);
	hosts_join(50);
	expect_proved_join(1);
	challenge_it();
	expect_proved_join(2);
	expect_silence();
	/* Without a tag, as anybody can refuse. */
	say_status(0, WEIR_STATUS_REFUSED);
	expect_forged(1);
	cr_assert_eq(parent_stats(0).refused, 0);
	h = answer_to_join(0, WEIR_STATUS_OK);
	h.gen_id = 66;
	say(0, &h, &settings, sizeof(settings));
	expect_forged(2);
	/* The tag of something else: generation, set of parents, settings, tag, and of another join. */
	for (unsigned int i = 0; i < 4; i++) {
		static const unsigned int at[] = {9, 14, 16, 16 + 32 + 3};

		accept_proved(100, at[i]);
		expect_forged(3 + i);
	}
	memcpy(nonce, above[0].proof, 16);
	above[0].proof[15] ^= 1;
	accept_proved(100, 0);
	expect_forged(7);
	memcpy(above[0].proof, nonce, 16);
	cr_assert_eq(parent_stats(0).generation, 0);
	accept_proved(101, 0);
	expect_begun();
	cr_assert_eq(parent_stats(0).generation, 101);
	stop_unread();
}

/* A repetition counts, so that the parent can tell it from a copy; the next attempt has another nonce. */
BOTH(SUITE, joins_are_counted)
{
	uint8_t nonce[16];

	start_keyed(workers, true);
	hosts_join(50);
	expect_proved_join(1);
	challenge_it();
	expect_proved_join(2);
	memcpy(nonce, above[0].proof, 16);
	pass_us(1001);
	join(FIRST, 50);
	expect_below(FIRST, WEIR_STATUS_WAITING);
	expect_proved_join(3);
	cr_assert_arr_eq(nonce, above[0].proof, 16);
	accept_proved(101, 0);
	expect_begun();
	hosts_join(60);
	expect_proved_join(1);
	cr_assert_neq(memcmp(nonce, above[0].proof, 16), 0);
	stop_unread();
}

/* ---- blocks ---- */

static void
begin_tagged(unsigned int workers, uint16_t generation)
{
	start_keyed(workers, false);
	join_proved(FIRST);
	join_proved(FIRST + 1);
	expect_proved_join(1);
	challenge_it();
	expect_proved_join(2);
	accept_proved(generation, 0);
	expect_begun_proved();
}

BOTH(SUITE, blocks_have_tags)
{
	uint8_t tag[TAG];
	uint64_t forged = 0;

	begin_tagged(workers, 100);
	for (uint32_t block = 0; block < 3 * WINDOW; block++) {
		contribute_tagged(FIRST, block);
		contribute_tagged(FIRST + 1, block);
		expect_tagged_above(100, block, false, tag);
		say_result(100, block, 16 + 5); /* an element */
		expect_forged(++forged);
		say_result(100, block, 16 + 4 * ELEMENTS); /* the tag */
		expect_forged(++forged);
		say_result(100, block, 0);
		expect_result_below(block);
	}
	expect_silence();
	stop_unread();
}

/* The same bytes again, under one nonce. */
BOTH(SUITE, repetitions_are_the_same)
{
	uint8_t tag[TAG], again[TAG];

	begin_tagged(workers, 100);
	contribute_tagged(FIRST, 0);
	contribute_tagged(FIRST + 1, 0);
	expect_tagged_above(100, 0, false, tag);
	pass_us(1001);
	contribute_tagged(FIRST, 0);
	expect_tagged_above(100, 0, false, again);
	cr_assert_arr_eq(tag, again, TAG);
	stop_unread();
}

static struct weir_header
status_above(uint32_t block, uint16_t generation, enum weir_status status)
{
	return (struct weir_header){.job_id = rig.job[0].parent[0].job,
		.block_id = block,
		.gen_id = generation,
		.src_id = FIRST,
		.status = (uint8_t)status,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};
}

/* `stale` counts if it answers what was sent: a contribution or an acknowledgement. */
BOTH(SUITE, stale_has_a_tag)
{
	uint8_t tag[TAG], other[TAG] = {0};
	struct weir_header h;

	begin_tagged(workers, 100);
	h = status_above(0, 105, WEIR_STATUS_STALE);
	contribute_tagged(FIRST, 0);
	contribute_tagged(FIRST + 1, 0);
	expect_tagged_above(100, 0, false, tag);
	say(0, &h, NULL, 0);
	expect_forged(1);
	say_tagged(h, NULL, 0, other, 0);
	expect_forged(2);
	say_tagged(h, NULL, 0, tag, 9);
	expect_forged(3);
	cr_assert_eq(stats().revokes, 0);
	say_tagged(h, NULL, 0, tag, 0);
	cr_assert_eq(stats().revokes, 1);
	stop_unread();
}

BOTH(SUITE, an_acknowledgement_has_a_tag_and_is_answered)
{
	struct weir_header h = {.job_id = JOB,
		.src_id = FIRST,
		.block_id = 1,
		.collective = WEIR_COLLECTIVE_ACKNOWLEDGE,
		.flags = WEIR_FLAG_AUTHENTICATED,
		.extended = true};
	uint8_t bare[16], tag[TAG];

	begin_tagged(workers, 100);
	h.gen_id = below.generation;
	weir_header_write(&h, bare);
	tags_gmac(below.contributions[0], 1, 1, bare, NULL, 0, tag);
	pass_us(1001);
	rig_offer(&rig, 0, &h, tag, TAG);
	expect_tagged_above(100, 1, true, tag);
	say_tagged(status_above(1, 105, WEIR_STATUS_STALE), NULL, 0, tag, 0);
	cr_assert_eq(stats().revokes, 1);
	stop_unread();
}

/* ---- a parent that was restarted ---- */

/* It can verify nothing but a join: the leaf repeats that one to a silent parent, and takes no answer without a tag. */
BOTH(SUITE, a_parent_that_was_restarted)
{
	uint8_t tag[TAG];
	struct weir_header h;

	start_keyed(workers, false);
	for (unsigned int rank = FIRST; rank < FIRST + HOSTS; rank++)
		join_proved(rank);
	expect_proved_join(1);
	challenge_it();
	expect_proved_join(2);
	accept_proved(101, 0);
	expect_begun_proved();
	for (unsigned int rank = FIRST; rank < FIRST + HOSTS; rank++)
		contribute_tagged(rank, 0);
	expect_tagged_above(101, 0, false, tag);
	pass_us(1001);
	contribute_tagged(FIRST, 0);
	expect_tagged_above(101, 0, false, tag);
	for (uint32_t count = 3; count < 5; count++) {
		bool joined = false;

		pass_us(900000);
		contribute_tagged(FIRST, 0);
		while (receive(HOSTS))
			joined |= got.collective == WEIR_COLLECTIVE_JOIN;
		cr_assert_not(joined, "too early");
		pass_us(200000);
		contribute_tagged(FIRST, 0);
		while (receive(HOSTS))
			if (got.collective == WEIR_COLLECTIVE_JOIN) {
				joined = true;
				cr_assert_eq(got.gen_id, 101);
				cr_assert_eq(got.block_id, above[0].nonce);
				cr_assert_eq(weir_get32(payload + 32), count);
			}
		cr_assert(joined, "no join");
	}
	/* The generation runs: nothing happens, as if answers were lost. */
	accept_proved(101, 0);
	cr_assert_eq(stats().revokes, 0);
	h = answer_to_join(0, WEIR_STATUS_STALE);
	h.src_cnt = WEIR_OVER_NONE;
	say(0, &h, NULL, 0);
	cr_assert_eq(stats().revokes, 0);
	say_tagged(h, NULL, 0, above[0].proof, 14);
	cr_assert_eq(stats().revokes, 0);
	say_tagged(h, NULL, 0, above[0].proof, 0);
	cr_assert_eq(stats().revokes, 1);
	contribute_tagged(FIRST, 0);
	expect_below(FIRST, WEIR_STATUS_STALE);
	cr_assert_eq(got.src_cnt, WEIR_OVER_NONE);
	stop_unread();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hop to a parent with keys: proved joins, and tags both ways. The model's tags say what is right.
 * docs/protocol.md, "Between switches", "Proved joins" and "Authenticated jobs".
 */
#include "tests/eal/bench_tree.h"
#include "tests/model/tags.h"

#define FIRST      4
#define HOSTS      2
#define WINDOW     2
#define ELEMENTS   8
#define TAG        WEIR_TAG_BYTES

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_up_joins, name)

static const uint8_t *const job_key = rig.job[0].key;
static const uint8_t *const up_key = rig.job[0].parent[0].key;
static uint64_t random_state;
static uint8_t host_key[HOSTS][32];
static uint8_t quoted_up[16]; /* the challenge that the parent wants to be quoted */
static uint8_t up_contributions[32], up_results[32]; /* keys of the generation with the parent */
static uint8_t contributions[HOSTS][32], results[32]; /* those that the hosts have */

static void
draw(uint8_t *bytes, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		bytes[i] = (uint8_t)rig_random(&random_state);
}

/* The job is not authenticated: only joins upward are proved. */
static void
plain(struct rig_config *config)
{
	struct ppe_job *job = &config->job[0];

	random_state = rig_seed();
	draw(job->key, sizeof(job->key));
	for (unsigned int i = 0; i < HOSTS; i++)
		tags_source_key(job->key, (uint8_t)(FIRST + i), 0, host_key[i]);
	job->parent[0].keyed = true;
	draw(job->parent[0].key, 32);
}

static void
authenticated(struct rig_config *config)
{
	plain(config);
	config->job[0].proved = config->job[0].authenticated = true;
}

/* One parent: the other one has tests enough. */
#define start_keyed(how)                                                                           \
	start(.workers = workers, .parents = 1, .first_rank = FIRST, .tree_ranks = 8,              \
		.window = WINDOW, .change = (how))

/* ---- hosts of an authenticated job ---- */

static void
send_proved(unsigned int rank, const uint8_t quoted[16], const uint8_t nonce[16], uint32_t count)
{
	struct weir_header h = note(rank, weir_get32(nonce), WEIR_COLLECTIVE_JOIN);
	uint8_t proof[sizeof(struct weir_join_proof) + TAG] = {0}, packet[RIG_FRAME_MAX];
	unsigned int n;

	h.flags = WEIR_FLAG_AUTHENTICATED;
	memcpy(proof, quoted, 16);
	memcpy(proof + 16, nonce, 16);
	weir_put32(proof + 32, count);
	n = rig_frame(packet, rank, &h, proof, sizeof(proof));
	tags_join(host_key[rank - FIRST], weir_get32(packet + 26), weir_get16(packet + 34),
		packet + L4, packet + n - TAG);
	rig_fix_checksums(packet);
	rig_send(&rig, rank, packet, n);
	expect_status(rank, WEIR_STATUS_WAITING);
}

static void
join_proved(unsigned int rank)
{
	static const uint8_t none[16];
	uint8_t quoted[16], nonce[16];

	draw(nonce, 16);
	send_proved(rank, none, nonce, 1);
	memcpy(quoted, payload + WEIR_BITMAP_BYTES, 16);
	send_proved(rank, quoted, nonce, 2);
}

static void
expect_begun_proved(void)
{
	uint8_t quoted[16];

	for (unsigned int i = 0; i < HOSTS; i++) {
		expect_status(FIRST + i, WEIR_STATUS_OK);
		cr_assert_eq(payload_bytes, 16 + 16 + 32 + TAG);
		generation = got.gen_id;
		memcpy(quoted, payload + 16, 16);
		tags_contributions_key(host_key[i], quoted, generation, contributions[i]);
		tags_results_key(job_key, quoted, generation, results);
	}
}

/* Offer the host's packet with the right tag. */
static void
offer_tagged(struct weir_header h)
{
	uint32_t values[ELEMENTS + TAG / 4];
	uint8_t bare[16];

	for (unsigned int i = 0; i < h.grad_cnt; i++)
		values[i] = h.src_id + i;
	h.flags = WEIR_FLAG_AUTHENTICATED;
	weir_header_write(&h, bare);
	tags_gmac(contributions[h.src_id - FIRST], h.collective == WEIR_COLLECTIVE_ACKNOWLEDGE,
		h.block_id, bare, values, 4u * h.grad_cnt, (uint8_t *)(values + h.grad_cnt));
	offer_payload(&h, values, 4u * h.grad_cnt + TAG);
	rig_rest(&rig);
}

static void
contribute_tagged(unsigned int rank, uint32_t block)
{
	offer_tagged(contribution(rank, block));
}

/* ---- the parent ---- */

/* The next join upward quotes the challenge, and its tag is right. */
static void
expect_proved_join(uint32_t count)
{
	uint8_t tag[TAG];

	expect_join_up(0, 1);
	cr_assert_arr_eq(payload, quoted_up, 16);
	cr_assert_eq(weir_get32(payload + 32), count, "%u", weir_get32(payload + 32));
	tags_join(up_key, RIG_SWITCH_IP, WEIR_PORT_UP, frame + L4, tag);
	cr_assert_arr_eq(payload + sizeof(struct weir_join_proof), tag, TAG);
}

/* Say it with the tag of a reply to what ended with, or whose nonce was, `answered`. forged: which byte of the packet is
 * changed after that; 0: none. */
static void
say_tagged(struct weir_header h, const void *bytes, unsigned int n, const uint8_t answered[16],
	unsigned int forged)
{
	uint8_t packet[256];

	h.flags |= WEIR_FLAG_AUTHENTICATED;
	weir_header_write(&h, packet);
	if (n > 0)
		memcpy(packet + 16, bytes, n);
	tags_hmac(up_key, "weir reply", answered, 16, packet, 16 + n, packet + 16 + n);
	packet[forged] ^= forged != 0;
	weir_header_read(&h, packet);
	say(0, &h, packet + 16, n + TAG);
}

/* The joins ask for a challenge, and quote it. */
static void
expect_challenged(void)
{
	uint8_t bytes[WEIR_BITMAP_BYTES + 16] = {0x30};
	struct weir_header h;

	memset(quoted_up, 0, 16);
	expect_proved_join(1);
	h = answer_to_join(0, WEIR_STATUS_WAITING);
	h.root = 1;
	draw(quoted_up, 16);
	memcpy(bytes + WEIR_BITMAP_BYTES, quoted_up, 16);
	say_tagged(h, bytes, sizeof(bytes), parent[0].proof, 0);
	expect_proved_join(2);
}

/* Accept, with keys if the job is authenticated; odd generations with the list of settings. */
static void
accept_proved(uint16_t its_generation, unsigned int forged)
{
	struct weir_header h = answer_to_join(0, WEIR_STATUS_OK);
	uint8_t bytes[WEIR_ACCEPTED_MOST + 16 + 32], parents_key[32], *challenge;
	struct weir_accepted accepted;

	parent[0].generation = h.gen_id = its_generation;
	h.root = FIRST;
	weir_accepted_read((const uint8_t *)&settings, sizeof(settings), true, &accepted);
	challenge = bytes + weir_accepted_write(&accepted, true, its_generation % 2 == 1, bytes);
	draw(challenge, 16);
	draw(parents_key, 32); /* of its job, which the leaf does not know */
	tags_contributions_key(up_key, challenge, its_generation, up_contributions);
	tags_results_key(parents_key, challenge, its_generation, up_results);
	memcpy(challenge + 16, up_results, 32);
	tags_wrap(up_key, parent[0].proof, challenge, its_generation, challenge + 16);
	say_tagged(h, bytes,
		(unsigned int)(challenge - bytes) + (rig.job[0].authenticated ? 48 : 16),
		parent[0].proof, forged);
}

/* The next packet to the parent is of this block, with the right tag, which is left in `tag`. */
static void
expect_tagged_up(uint32_t block, enum weir_collective collective, uint8_t tag[TAG])
{
	bool acknowledgement = collective == WEIR_COLLECTIVE_ACKNOWLEDGE;
	const uint32_t n = acknowledgement ? 0 : 4 * ELEMENTS;

	take_up(block, collective, WEIR_STATUS_OK);
	cr_assert_eq(payload_bytes, n + TAG);
	tags_gmac(up_contributions, acknowledgement, block, frame + L4, payload, n, tag);
	cr_assert_arr_eq(payload + n, tag, TAG);
}

static void
say_result(uint32_t block, unsigned int forged)
{
	struct weir_header h = from_above(block, WEIR_STATUS_OK, 0);
	uint8_t packet[16 + 4 * ELEMENTS + TAG];

	h.flags = WEIR_FLAG_AUTHENTICATED;
	h.src_id = 0; /* copies differ in it, and have one tag */
	weir_header_write(&h, packet);
	for (uint32_t i = 0, value = 700; i < ELEMENTS; i++, value++)
		memcpy(packet + 16 + 4 * i, &value, 4);
	tags_gmac(up_results, 0, block, packet, packet + 16, 4 * ELEMENTS,
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

		expect_status(rank, WEIR_STATUS_OK);
		cr_assert_eq(got.block_id, block);
		cr_assert_eq(payload_bytes, 4 * ELEMENTS + TAG);
		memcpy(header, frame + L4, 16);
		header[6] = 0;
		tags_gmac(results, 0, block, header, payload, 4 * ELEMENTS, tag);
		cr_assert_arr_eq(payload + 4 * ELEMENTS, tag, TAG, "rank %u", rank);
		memcpy(&value, payload + 4, 4);
		cr_assert_eq(value, 701);
	}
}

static void
expect_forged(uint64_t n)
{
	cr_assert_eq(job_stats(1).forged, n, "%lu forged", (unsigned long)job_stats(1).forged);
	expect_drop(PPE_DROP_FORGED, n);
	expect_silence();
}

/* ---- joins ---- */

/* It asks for a challenge, quotes it at once, and takes nothing that is forged. */
BOTH(joins_are_proved)
{
	static const unsigned int at[] = {9, 14, 16, 16 + 32 + 3};
	struct weir_header h;

	start_keyed(plain);
	hosts_join(50);
	expect_challenged();
	expect_silence();
	/* Without a tag, as anybody can refuse. */
	refuse_join(0, WEIR_STATUS_REFUSED);
	expect_forged(1);
	cr_assert_eq(parent_stats(0).refused, 0);
	h = answer_to_join(0, WEIR_STATUS_OK);
	h.gen_id = 66;
	say(0, &h, &settings, sizeof(settings));
	expect_forged(2);
	/* The tag of something else: generation, set of parents, settings, tag, and of another join. */
	for (unsigned int i = 0; i < RTE_DIM(at); i++) {
		accept_proved(100, at[i]);
		expect_forged(3 + i);
	}
	parent[0].proof[15] ^= 1;
	accept_proved(100, 0);
	expect_forged(7);
	parent[0].proof[15] ^= 1;
	cr_assert_eq(parent_stats(0).generation, 0);
	accept_proved(101, 0);
	expect_begun();
	cr_assert_eq(parent_stats(0).generation, 101);
	stop_unread();
}

/* A repetition counts, so that the parent can tell it from a copy; the next attempt has another nonce. */
BOTH(joins_are_counted)
{
	uint8_t nonce[16];

	start_keyed(plain);
	hosts_join(50);
	expect_challenged();
	memcpy(nonce, parent[0].proof, 16);
	skip_us(1001);
	join(FIRST, 50);
	expect_status(FIRST, WEIR_STATUS_WAITING);
	expect_proved_join(3);
	cr_assert_arr_eq(nonce, parent[0].proof, 16);
	accept_proved(101, 0);
	expect_begun();
	hosts_join(60);
	expect_proved_join(1);
	cr_assert_neq(memcmp(nonce, parent[0].proof, 16), 0);
	stop_unread();
}

/* ---- blocks ---- */

#define begin_tagged()                                                                             \
	do {                                                                                       \
		start_keyed(authenticated);                                                        \
		join_proved(FIRST);                                                                \
		join_proved(FIRST + 1);                                                            \
		expect_challenged();                                                               \
		accept_proved(101, 0);                                                             \
		expect_begun_proved();                                                             \
	} while (0)

static void
go_up_tagged(uint32_t block, uint8_t tag[TAG])
{
	contribute_tagged(FIRST, block);
	contribute_tagged(FIRST + 1, block);
	expect_tagged_up(block, WEIR_COLLECTIVE_ALLREDUCE, tag);
}

BOTH(blocks_have_tags)
{
	uint8_t tag[TAG];
	uint64_t forged = 0;

	begin_tagged();
	for (uint32_t block = 0; block < 3 * WINDOW; block++) {
		go_up_tagged(block, tag);
		say_result(block, 16 + 5); /* an element */
		expect_forged(++forged);
		say_result(block, 16 + 4 * ELEMENTS); /* the tag */
		expect_forged(++forged);
		say_result(block, 0);
		expect_result_below(block);
	}
	stop();
}

/* The same bytes again, under one nonce. */
BOTH(repetitions_are_the_same)
{
	uint8_t tag[TAG], again[TAG];

	begin_tagged();
	go_up_tagged(0, tag);
	skip_us(1001);
	contribute_tagged(FIRST, 0);
	expect_tagged_up(0, WEIR_COLLECTIVE_ALLREDUCE, again);
	cr_assert_arr_eq(tag, again, TAG);
	stop_unread();
}

static struct weir_header
stale(uint32_t block)
{
	struct weir_header h = from_above(block, WEIR_STATUS_STALE, 0);

	h.gen_id = 105;
	return h;
}

/* `stale` counts if it answers what was sent: a contribution or an acknowledgement. */
BOTH(stale_has_a_tag)
{
	uint8_t tag[TAG], other[TAG] = {0};
	struct weir_header h;

	begin_tagged();
	go_up_tagged(0, tag);
	h = stale(0);
	say(0, &h, NULL, 0);
	expect_forged(1);
	say_tagged(h, NULL, 0, other, 0);
	expect_forged(2);
	say_tagged(h, NULL, 0, tag, 9);
	expect_forged(3);
	cr_assert_eq(job_stats(1).revokes, 0);
	say_tagged(h, NULL, 0, tag, 0);
	cr_assert_eq(job_stats(1).revokes, 1);
	stop_unread();
}

BOTH(an_acknowledgement_has_a_tag_and_is_answered)
{
	uint8_t tag[TAG];

	begin_tagged();
	skip_us(1001);
	offer_tagged(note(FIRST, 1, WEIR_COLLECTIVE_ACKNOWLEDGE));
	expect_tagged_up(1, WEIR_COLLECTIVE_ACKNOWLEDGE, tag);
	say_tagged(stale(1), NULL, 0, tag, 0);
	cr_assert_eq(job_stats(1).revokes, 1);
	stop_unread();
}

/* ---- a parent that was restarted ---- */

/* A host contributes after so long: does the leaf repeat its join, with this count? */
static bool
joins_after_us(uint64_t us, uint32_t count)
{
	bool joined = false;

	skip_us(us);
	contribute_tagged(FIRST, 0);
	while (receive_up(0))
		if (got.collective == WEIR_COLLECTIVE_JOIN) {
			joined = true;
			cr_assert_eq(got.gen_id, 101);
			cr_assert_eq(got.block_id, parent[0].nonce);
			cr_assert_eq(weir_get32(payload + 32), count);
		}
	return joined;
}

/* It can verify nothing but a join: the leaf repeats that one to a silent parent, and takes no answer without a tag. */
BOTH(a_parent_that_was_restarted)
{
	uint8_t tag[TAG];
	struct weir_header h;

	begin_tagged();
	go_up_tagged(0, tag);
	skip_us(1001);
	contribute_tagged(FIRST, 0);
	expect_tagged_up(0, WEIR_COLLECTIVE_ALLREDUCE, tag);
	for (uint32_t count = 3; count < 5; count++) {
		cr_assert_not(joins_after_us(900000, count), "too early");
		cr_assert(joins_after_us(200000, count), "no join");
	}
	/* The generation runs: nothing happens, as if answers were lost. */
	accept_proved(101, 0);
	cr_assert_eq(job_stats(1).revokes, 0);
	h = answer_to_join(0, WEIR_STATUS_STALE);
	h.src_cnt = WEIR_OVER_NONE;
	say(0, &h, NULL, 0);
	cr_assert_eq(job_stats(1).revokes, 0);
	say_tagged(h, NULL, 0, parent[0].proof, 14);
	cr_assert_eq(job_stats(1).revokes, 0);
	say_tagged(h, NULL, 0, parent[0].proof, 0);
	cr_assert_eq(job_stats(1).revokes, 1);
	contribute_tagged(FIRST, 0);
	expect_status(FIRST, WEIR_STATUS_STALE);
	cr_assert_eq(got.src_cnt, WEIR_OVER_NONE);
	stop_unread();
}

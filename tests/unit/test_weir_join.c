/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joins of libweir: what proves them, what their answers bring, and who has lost its place. Proofs
 * and tags are made by tests/model/tags.h.
 */
#include <stdio.h>

#include "tests/model/settings_vectors.h"
#include "tests/model/tags.h"
#include "tests/unit/switch_player.h"

#define SOURCE  3
#define WAIT_MS 20000

static const uint8_t job_key[WEIR_KEY_BYTES] = {7, 7, 7}, results_key[WEIR_KEY_BYTES] = {9, 9};
static const uint8_t challenge[WEIR_CHALLENGE_BYTES] = {1, 2, 3};
static uint8_t source_key[WEIR_KEY_BYTES];

static int more; /* the extended form's next port */
static int32_t data[ELEMENTS];
static uint32_t block_id; /* of the last join */
static uint8_t join_src_cnt = 2; /* of answers to it */
static const struct settings_vector *list; /* accepted joins have a list that ends so; NULL: none */

/* The last packet of the host. */
static struct {
	uint8_t bytes[512];
	size_t size;
	struct weir_header header;
	struct weir_join_proof proof; /* of the last join */
} heard;

static bool
hear(int ms)
{
	ssize_t bytes = receive(heard.bytes, ms);

	if (bytes < 0)
		return false;
	cr_assert_geq(bytes, WEIR_EXT_BYTES);
	heard.size = (size_t)bytes;
	heard.header.extended = true;
	weir_header_read(&heard.header, heard.bytes);
	return true;
}

/* What is left of the last join or generation. */
static void
drain(void)
{
	while (hear(0))
		;
}

/* The next join, of this generation, which its key proves. */
static void
hear_join(uint16_t generation)
{
	const size_t bytes = WEIR_EXT_BYTES + sizeof(heard.proof);
	uint8_t tag[WEIR_TAG_BYTES];

	do
		cr_assert(hear(WAIT_MS), "no join");
	while (heard.header.collective != WEIR_COLLECTIVE_JOIN);
	cr_assert_eq(heard.header.gen_id, generation);
	cr_assert_eq(heard.header.src_id, SOURCE);
	cr_assert_eq(heard.header.op, WEIR_JOIN_ASKS_LIST);
	block_id = heard.header.block_id;
	if (config.key == NULL) {
		cr_assert_eq(heard.header.flags, WEIR_FLAG_SKIPS_OWN);
		cr_assert_eq(heard.size, WEIR_EXT_BYTES);
		return;
	}
	cr_assert_eq(heard.header.flags, WEIR_FLAG_AUTHENTICATED | WEIR_FLAG_SKIPS_OWN);
	cr_assert_eq(heard.size, bytes + WEIR_TAG_BYTES);
	memcpy(&heard.proof, heard.bytes + WEIR_EXT_BYTES, sizeof(heard.proof));
	cr_assert_eq(weir_get32(heard.proof.nonce), block_id);
	tags_join(source_key, ntohl(from.sin_addr.s_addr), ntohs(from.sin_port), heard.bytes, tag);
	cr_assert_arr_eq(heard.bytes + bytes, tag, sizeof(tag));
}

/* Answer the last join that was heard; spoil: with a wrong tag. */
static void
answer_join(unsigned int status, const void *payload, size_t bytes, bool spoil)
{
	struct weir_header h = {.extended = true,
		.job_id = JOB,
		.src_id = SOURCE,
		.src_cnt = join_src_cnt,
		.block_id = block_id,
		.gen_id = status == WEIR_STATUS_OK ? GENERATION : 0,
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = config.key != NULL ? WEIR_FLAG_AUTHENTICATED : 0,
		.status = (uint8_t)status};
	uint8_t packet[256];
	size_t all = weir_header_write(&h, packet);

	if (bytes > 0)
		memcpy(packet + all, payload, bytes);
	all += bytes;
	if (config.key != NULL) {
		tags_hmac(source_key, "weir reply", heard.proof.nonce, sizeof(heard.proof.nonce),
			packet, all, packet + all);
		packet[all] ^= spoil;
		all += WEIR_TAG_BYTES;
	}
	say_bytes(sockets[1], packet, all);
}

/* flags: WEIR_JOIN_AUTHENTICATED or 0. must: WEIR_JOIN_MUST_ bits. */
static void
accept_join_of(uint8_t flags, unsigned int must)
{
	struct weir_join_reply r = join_reply(4, 2, 1000);
	uint8_t payload[WEIR_ACCEPTED_MOST + WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES];
	struct weir_accepted accepted;
	size_t bytes = sizeof(r);

	r.flags = flags;
	weir_put16(r.elements, (uint16_t)(ELEMENTS | must << WEIR_JOIN_MUST_SHIFT));
	memcpy(payload, &r, sizeof(r));
	if (list != NULL) {
		weir_accepted_read(payload, bytes, false, &accepted);
		bytes = weir_accepted_write(&accepted, false, true, payload);
		memcpy(payload + bytes, list->entries, list->bytes);
		bytes += list->bytes;
		weir_put16(payload + sizeof(r), (uint16_t)(bytes - sizeof(r) - 2 + list->longer));
	}
	if (config.key != NULL) {
		memcpy(payload + bytes, challenge, sizeof(challenge));
		bytes += sizeof(challenge);
	}
	if (config.key != NULL && (flags & WEIR_JOIN_AUTHENTICATED) != 0) {
		memcpy(payload + bytes, results_key, sizeof(results_key));
		tags_wrap(source_key, heard.proof.nonce, challenge, GENERATION, payload + bytes);
		bytes += sizeof(results_key);
	}
	answer_join(WEIR_STATUS_OK, payload, bytes, false);
}

static void
accept_join(uint8_t flags)
{
	accept_join_of(flags, 0);
}

static void
answer_waiting(const uint8_t quote[WEIR_CHALLENGE_BYTES], bool spoil)
{
	uint8_t payload[WEIR_BITMAP_BYTES + WEIR_CHALLENGE_BYTES] = {1 << SOURCE};

	memcpy(payload + WEIR_BITMAP_BYTES, quote, WEIR_CHALLENGE_BYTES);
	answer_join(WEIR_STATUS_WAITING, payload,
		config.key != NULL ? sizeof(payload) : WEIR_BITMAP_BYTES, spoil);
}

static void
answer_stale(unsigned int why, bool spoil)
{
	join_src_cnt = (uint8_t)why;
	answer_join(WEIR_STATUS_STALE, NULL, 0, spoil);
	join_src_cnt = 2;
}

static void
displace(bool spoil)
{
	static const struct weir_displaced by = {
		{10, 77, 0, 4}, {5000 >> 8, 5000 & 0xff}, {2, 0x48, 0, 0, 0, 5}};

	answer_join(WEIR_STATUS_DISPLACED, &by, sizeof(by), spoil);
}

/* The block's result, with the tag of an authenticated job or without. */
static void
answer_block(uint32_t block, int32_t sum, bool tagged)
{
	const struct weir_header h = {.extended = true,
		.job_id = JOB,
		.src_id = SOURCE,
		.block_id = block,
		.gen_id = GENERATION,
		.src_cnt = 2,
		.grad_cnt = ELEMENTS,
		.dtype = WEIR_DTYPE_INT32,
		.flags = tagged ? WEIR_FLAG_AUTHENTICATED : 0};
	uint8_t packet[256], header[WEIR_EXT_BYTES];
	size_t bytes = weir_header_write(&h, packet);

	memcpy(header, packet, sizeof(header));
	header[6] = 0;
	for (int i = 0; i < ELEMENTS; i++, bytes += sizeof(sum))
		memcpy(packet + bytes, &sum, sizeof(sum));
	if (tagged) {
		tags_gmac(results_key, 0, block, header, packet + WEIR_EXT_BYTES,
			bytes - WEIR_EXT_BYTES, packet + bytes);
		bytes += WEIR_TAG_BYTES;
	}
	say_bytes(sockets[1], packet, bytes);
}

static void *
run_open(void *to)
{
	*(int *)to = weir_open(&config, &weir);
	return NULL;
}

static void *
run_rejoin(void *to)
{
	*(int *)to = weir_rejoin(weir);
	return NULL;
}

static void *
run_reduce(void *to)
{
	*(int *)to = weir_allreduce(weir, data, data, ELEMENTS, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	return NULL;
}

static int code; /* of what runs */

static void
begin(void *(*call)(void *))
{
	cr_assert_eq(pthread_create(&thread, NULL, call, &code), 0);
}

/* It ends with this code, and its text has these words. */
static void
ends(int wanted, const char *words)
{
	pthread_join(thread, NULL);
	cr_assert_eq(code, wanted, "%d: %s", code, weir_last_error(weir));
	/* Texts are the thread's; another call says it again here. */
	if (wanted < 0) {
		cr_assert_eq(weir_barrier(weir), wanted);
		cr_assert_not_null(
			strstr(weir_last_error(weir), words), "%s", weir_last_error(weir));
	}
}

/* key: NULL, or of the job or the source. */
static void
start(const uint8_t *key)
{
	uint16_t next;

	open_switch(SOURCE);
	config.key = key;
	config.key_bytes = key != NULL ? WEIR_KEY_BYTES : 0;
	config.key_of_source = key == source_key;
	config.op_timeout_ms = WAIT_MS;
	tags_source_key(job_key, SOURCE, 0, source_key);
	while (next = (uint16_t)(config.port_ext + 2), (more = bound(&next)) < 0) {
		close(sockets[1]);
		config.port_ext = 0;
		sockets[1] = bound(&config.port_ext);
	}
	begin(run_open);
	hear_join(WEIR_GEN_JOIN);
}

/* And its join is accepted. */
static void
open_with(const uint8_t *key, uint8_t flags)
{
	start(key);
	accept_join(flags);
	ends(0, "");
}

static void
stop(void)
{
	close_switch();
	close(more);
}

static uint64_t
forged(void)
{
	struct weir_stats stats;

	weir_stats(weir, &stats);
	return stats.forged;
}

static void
hear_contribution(void)
{
	do
		cr_assert(hear(WAIT_MS));
	while (heard.header.collective == WEIR_COLLECTIVE_JOIN);
}

/* The host reduces a block; tagged: its job is authenticated. */
static void
reduces(bool tagged)
{
	uint8_t key[WEIR_KEY_BYTES], tag[WEIR_TAG_BYTES];
	size_t bytes = WEIR_EXT_BYTES + sizeof(data);
	uint64_t before = forged();

	begin(run_reduce);
	hear_contribution();
	cr_assert_eq(heard.header.flags, tagged ? WEIR_FLAG_AUTHENTICATED : 0);
	cr_assert_eq(heard.size, bytes + (tagged ? sizeof(tag) : 0));
	if (tagged) {
		tags_contributions_key(source_key, challenge, GENERATION, key);
		tags_gmac(key, 0, heard.header.block_id, heard.bytes, heard.bytes + WEIR_EXT_BYTES,
			sizeof(data), tag);
		cr_assert_arr_eq(heard.bytes + bytes, tag, sizeof(tag));
		answer_block(heard.header.block_id, -1, false);
	}
	answer_block(heard.header.block_id, 42, tagged);
	ends(0, "");
	cr_assert_eq(data[ELEMENTS - 1], 42);
	cr_assert_eq(forged(), before + tagged);
}

Test(weir_join, a_join_is_proved_each_time_it_is_sent, .timeout = 90)
{
	static const uint8_t zeros[WEIR_CHALLENGE_BYTES], wrong[WEIR_CHALLENGE_BYTES] = {6, 6};
	uint8_t nonce[WEIR_CHALLENGE_BYTES];
	uint32_t count;

	start(job_key);
	memcpy(nonce, heard.proof.nonce, sizeof(nonce));
	cr_expect_arr_eq(heard.proof.challenge, zeros, sizeof(zeros));
	cr_expect_eq(weir_get32(heard.proof.count), 1);
	hear_join(WEIR_GEN_JOIN);
	cr_expect_eq(weir_get32(heard.proof.count), 2);
	answer_waiting(wrong, true);
	answer_waiting(challenge, false);
	do {
		count = weir_get32(heard.proof.count);
		hear_join(WEIR_GEN_JOIN);
		cr_assert_eq(weir_get32(heard.proof.count), count + 1);
		cr_assert_arr_neq(heard.proof.challenge, wrong, sizeof(wrong));
	} while (memcmp(heard.proof.challenge, challenge, sizeof(challenge)) != 0);
	cr_expect_arr_eq(heard.proof.nonce, nonce, sizeof(nonce));
	accept_join(0);
	ends(0, "");
	cr_expect_eq(forged(), 1u);
	stop();
}

/* Is there a packet at the next port, within `ms`? */
static bool
hear_more(int ms)
{
	struct pollfd p = {.fd = more, .events = POLLIN};

	return poll(&p, 1, ms) > 0 &&
		recv(more, heard.bytes, sizeof(heard.bytes), 0) ==
		(ssize_t)(WEIR_EXT_BYTES + sizeof(data));
}

Test(weir_join, blocks_have_ports, .timeout = 90)
{
	open_with(NULL, 1 << WEIR_JOIN_PORTS_SHIFT);
	begin(run_reduce); /* block 0: (9 + 0) mod 2 */
	cr_assert(hear_more(WAIT_MS));
	hear_contribution(); /* repeated to the own port, as if a firewall had dropped it */
	cr_assert_eq(heard.header.block_id, 0);
	answer_block(0, 42, false);
	ends(0, "");
	begin(run_reduce); /* block 1: (9 + 1) mod 2 */
	do
		hear_contribution();
	while (heard.header.block_id != 1);
	answer_block(1, 43, false);
	ends(0, "");
	cr_expect_not(hear_more(0));
	stop();
}

/* What it does not know might change what its packets mean. */
Test(weir_join, unknown_settings_are_refused, .timeout = 90)
{
	start(NULL);
	accept_join_of(0, WEIR_JOIN_MUST_ALLTOALL);
	ends(0, "");
	cr_expect_eq(weir_elements(weir, WEIR_DTYPE_FP32), ELEMENTS);
	stop();
	start(NULL);
	accept_join_of(0, 0xf & ~(unsigned int)WEIR_JOIN_MUST_KNOWN);
	ends(-EPROTO, "newer libweir");
	stop();
}

static void
lists_of_settings(const uint8_t *key, uint8_t flags)
{
	static const struct settings_vector value = {"another value than this library knows",
		{0x86, 1, 2}, 3, .is = SETTINGS_UNKNOWN, .unknown = 6};
	char words[64];

	for (unsigned int i = 0; i <= NB_SETTINGS_VECTORS; i++) {
		list = i < NB_SETTINGS_VECTORS ? &settings_vectors[i] : &value;
		snprintf(words, sizeof(words), "number %u): take a newer libweir", list->unknown);
		start(key);
		accept_join_of(flags, WEIR_JOIN_MUST_ALLTOALL);
		ends(list->is == SETTINGS_TAKEN ? 0 : -EPROTO,
			list->is == SETTINGS_MALFORMED ? "makes no sense" : words);
		if (list->is == SETTINGS_TAKEN) {
			cr_expect_eq(weir_elements(weir, WEIR_DTYPE_FP32), ELEMENTS);
			reduces(flags != 0);
		}
		stop();
	}
}

Test(weir_join, lists_of_settings, .timeout = 90)
{
	lists_of_settings(NULL, 0);
}

Test(weir_join, lists_of_settings_and_keys, .timeout = 90)
{
	lists_of_settings(job_key, WEIR_JOIN_AUTHENTICATED);
}

Test(weir_join, a_proved_join_does_not_make_packets_longer, .timeout = 90)
{
	open_with(source_key, 0);
	reduces(false);
	stop();
}

Test(weir_join, an_authenticated_job_s_keys_come_with_its_reply, .timeout = 90)
{
	open_with(job_key, WEIR_JOIN_AUTHENTICATED);
	reduces(true);
	stop();
}

Test(weir_join, tags_need_a_key, .timeout = 90)
{
	start(NULL);
	accept_join(WEIR_JOIN_AUTHENTICATED);
	ends(-EPROTO, "the same version");
	stop();
}

static void
rejoins(void)
{
	drain();
	begin(run_rejoin);
	hear_join(WEIR_GEN_JOIN);
}

/* So that the switch finds a host whose address was damaged, also where it believes nothing
 * else. */
Test(weir_join, silence_repeats_the_join_of_an_authenticated_job, .timeout = 90)
{
	uint32_t count;

	open_with(job_key, WEIR_JOIN_AUTHENTICATED);
	drain();
	count = weir_get32(heard.proof.count);
	begin(run_reduce);
	hear_join(GENERATION);
	cr_expect_gt(weir_get32(heard.proof.count), count);
	count = weir_get32(heard.proof.count);
	hear_join(GENERATION);
	cr_expect_eq(weir_get32(heard.proof.count), count + 1);
	cr_expect_arr_eq(heard.proof.challenge, challenge, sizeof(challenge));
	answer_block(0, 42, true);
	ends(0, "");
	stop();
}

/* After a restart the switch can verify nothing else. What an answer without a tag says is
 * nothing. */
Test(weir_join, the_repeated_join_tells_that_the_generation_is_over, .timeout = 90)
{
	const unsigned int later =
		WEIR_OVER_GONE + 1; /* a reason that this library does not know */

	for (unsigned int i = 0; i <= later; i++) {
		char why[160];

		snprintf(why, sizeof(why), ": %s. Join again on every host",
			weir_over_text(i == later ? WEIR_OVER_UNSAID : i));
		if (i == 0)
			start(job_key);
		else
			rejoins();
		accept_join(WEIR_JOIN_AUTHENTICATED);
		ends(0, "");
		begin(run_reduce);
		hear_contribution();
		hear_join(GENERATION);
		answer_stale(i, true);
		hear_join(GENERATION);
		answer_stale(i, false);
		ends(-ESTALE, why);
	}
	stop();
}

#define TAKEN                                                                                      \
	"the place of source 3 was taken by a newer join from 10.77.0.4 port 5000 "                \
	"(02:48:00:00:00:05): is another process running as source 3?"

/* Join once more, until the call has returned. */
static void
joins_until(void *(*call)(void *))
{
	drain();
	begin(call);
	hear_join(WEIR_GEN_JOIN);
	accept_join(0);
	ends(0, "");
}

/* While it joins, and while an operation is under way. */
static void
loses_its_place(const uint8_t *key)
{
	start(key);
	if (key != NULL)
		displace(true);
	displace(false);
	ends(-EEXIST, TAKEN);
	cr_expect_eq(forged(), key != NULL ? 1u : 0u);
	weir_close(weir);
	joins_until(run_open);
	begin(run_reduce);
	hear_contribution();
	if (key != NULL)
		displace(true);
	displace(false);
	ends(-EEXIST, TAKEN);
	cr_expect_eq(forged(), key != NULL ? 1u : 0u);
	joins_until(run_rejoin);
	reduces(false);
	stop();
}

Test(weir_join, a_newer_join_takes_its_place, .timeout = 90)
{
	loses_its_place(NULL);
}

Test(weir_join, a_newer_join_takes_its_place_with_a_key, .timeout = 90)
{
	loses_its_place(job_key);
}

Test(weir_join, idle_handle_is_displaced, .timeout = 90)
{
	int32_t one = 1;

	open_with(job_key, WEIR_JOIN_AUTHENTICATED);
	displace(false);
	/* Whichever comes first, the packet or the call: it ends so. */
	cr_expect_eq(weir_allreduce(weir, &one, &one, 1, WEIR_DTYPE_INT32, WEIR_OP_SUM), -EEXIST);
	cr_expect_not_null(strstr(weir_last_error(weir), TAKEN));
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authenticated jobs: keys, and the tags that they make and verify. docs/protocol.md, "Authenticated jobs";
 * the reasons are in docs/architecture.md.
 *
 * GMAC nonces never repeat under a key: a generation's keys come from a challenge that the switch made for it;
 * each source has its own keys, and so have the results; in a generation a block has one contribution and one
 * acknowledgement of each source, which differ in the nonce, and one result, fixed once by block_finish().
 * Results that differ by receiver differ in the nonce, too.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <rte_malloc.h>

#include "pktbuf/cursor.h"
#include "ppe/collective/collective.h"
#include "ppe/collective/collective_fast.h"

size_t
job_keys_bytes(uint16_t source_end)
{
	return sizeof(struct job_keys) + source_end * sizeof(struct source_keys);
}

struct job_keys *
job_keys_create(const struct ppe_job *job, uint16_t source_end, int socket)
{
	struct job_keys *keys;

	if (pktbuf_tag_init() < 0)
		return NULL;
	keys = rte_zmalloc_socket(
		"weir_keys", job_keys_bytes(source_end), RTE_CACHE_LINE_SIZE, socket);
	if (keys == NULL)
		return NULL;
	memcpy(keys->job, job->key, sizeof(keys->job));
	keys->source_end = source_end;
	return keys;
}

int
job_challenges_create(struct job_home *home)
{
	uint8_t key[WEIR_KEY_BYTES];

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return -EIO;
	pktbuf_tag_expand(&home->challenger, key);
	explicit_bzero(key, sizeof(key));
	job_challenge_next(home);
	return 0;
}

/* AES of a counter is a permutation, so no challenge repeats, and none can be predicted. It needs neither memory
 * nor a system call, and cannot fail. */
void
job_challenge_next(struct job_home *home)
{
	static const uint8_t label[WEIR_EXT_BYTES] = "weir challenge";

	static_assert(WEIR_CHALLENGE_BYTES == WEIR_TAG_BYTES, "a challenge is a tag");
	pktbuf_tag_make(&home->challenger, (struct pktbuf_nonce){.number = home->challenges++},
		label, NULL, 0, home->challenge);
}

/* A source's own key; NULL: it can't be derived. */
static const uint8_t *
source_key(struct pktbuf_hmac *hmac, struct job_keys *keys, uint8_t source)
{
	uint8_t message[] = WEIR_LABEL_SOURCE; /* its final zero is the source's place */

	if (likely(mask_test(keys->known, source)))
		return keys->source[source].own;
	message[sizeof(message) - 1] = source;
	if (source >= keys->source_end ||
		!pktbuf_hmac(hmac, keys->job, message, sizeof(message), keys->source[source].own))
		return NULL;
	mask_set(keys->known, source);
	return keys->source[source].own;
}

/* The GMAC key of a generation, from a source's key or the results' key. */
static bool
generation_key(struct pktbuf_hmac *hmac, const uint8_t from[WEIR_KEY_BYTES], uint16_t generation,
	const uint8_t challenge[WEIR_CHALLENGE_BYTES], struct pktbuf_tag_key *key)
{
	const size_t label = sizeof(WEIR_LABEL_GENERATION) - 1;
	uint8_t message[sizeof(WEIR_LABEL_GENERATION) + WEIR_CHALLENGE_BYTES + 1] =
		WEIR_LABEL_GENERATION;
	uint8_t bytes[WEIR_KEY_BYTES];
	bool made;

	memcpy(message + label, challenge, WEIR_CHALLENGE_BYTES);
	weir_put16(message + label + WEIR_CHALLENGE_BYTES, generation);
	made = pktbuf_hmac(hmac, from, message, sizeof(message), bytes);
	pktbuf_tag_expand(key, bytes);
	return made;
}

void
job_keys_begin(struct collective *state, struct job_shard *js, uint16_t generation,
	const uint8_t challenge[WEIR_CHALLENGE_BYTES])
{
	struct job_keys *keys = js->keys;
	uint8_t results[WEIR_KEY_BYTES];

	keys->former = js->generation;
	memcpy(keys->former_challenge, keys->challenge, sizeof(keys->challenge));
	memcpy(keys->challenge, challenge, sizeof(keys->challenge));
	memset(keys->derived, 0, sizeof(keys->derived));
	keys->results_derived = pktbuf_hmac(state->hmac, keys->job, WEIR_LABEL_RESULTS,
					sizeof(WEIR_LABEL_RESULTS) - 1, results) &&
		generation_key(state->hmac, results, generation, challenge, &keys->results);
}

/* The residue's next block is less than 2^31 away. */
uint64_t
block_number(const struct job_shard *js, uint32_t block)
{
	uint64_t next = js->slot[block & (js->window - 1u)].next;

	return next + (uint64_t)(int64_t)weir_block_diff(block, (uint32_t)next);
}

static bool
forged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	js->count.forged++;
	ppe_drop(worker, thread, PPE_DROP_FORGED);
	return false;
}

/* Is the contribution's tag right under this key? next: as authentic(). */
static bool
holds(const struct ppe_thread *thread, const struct contribution *c,
	const struct pktbuf_tag_key *key, uint64_t number, const uint8_t *next)
{
	const struct pktbuf_nonce nonce = {
		.number = number,
		.status = c->header.collective == WEIR_COLLECTIVE_ACKNOWLEDGE
			? WEIR_IV_ACKNOWLEDGE
			: WEIR_IV_CONTRIBUTION,
	};

	return pktbuf_tag_holds(key, nonce, thread->packet, c->payload - WEIR_EXT_BYTES,
		WEIR_EXT_BYTES + c->bytes, next);
}

/* The source's GMAC key in the running generation; NULL: it can't be derived. */
static const struct pktbuf_tag_key *
key_of(struct collective *state, const struct job_shard *js, uint8_t source)
{
	struct job_keys *keys = js->keys;
	const uint8_t *own;

	if (likely(mask_test(keys->derived, source)))
		return &keys->source[source].generation;
	own = source_key(state->hmac, keys, source);
	if (own == NULL ||
		!generation_key(state->hmac, own, js->generation, keys->challenge,
			&keys->source[source].generation))
		return NULL;
	mask_set(keys->derived, source);
	return &keys->source[source].generation;
}

/* Is the packet an authentic contribution of the former generation, to be answered `stale`? Recognizes that
 * generation's first 2^32 blocks. */
static bool
of_former(struct collective *state, const struct ppe_thread *thread, const struct job_shard *js,
	const struct contribution *c)
{
	struct job_keys *keys = js->keys;
	struct pktbuf_tag_key key;
	const uint8_t *own;

	if (keys->former == 0 || c->header.gen_id != keys->former)
		return false;
	own = source_key(state->hmac, keys, c->header.src_id);
	return own != NULL &&
		generation_key(state->hmac, own, keys->former, keys->former_challenge, &key) &&
		holds(thread, c, &key, c->header.block_id, NULL);
}

bool
authentic(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const uint8_t *next)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	const struct pktbuf_tag_key *key;

	if (!h->extended || (h->flags & WEIR_FLAG_AUTHENTICATED) == 0 || c->bytes < WEIR_TAG_BYTES)
		return forged(worker, thread, js);
	c->bytes -= WEIR_TAG_BYTES;
	if (js->generation == 0) {
		ppe_drop(worker, thread, PPE_DROP_NOT_JOINED);
		return false;
	}
	if (h->gen_id != js->generation) {
		if (of_former(state, thread, js, c))
			return true;
		js->count.stale++;
		ppe_drop(worker, thread, PPE_DROP_STALE);
		return false;
	}
	key = key_of(state, js, h->src_id);
	if (likely(key != NULL) &&
		likely(holds(thread, c, key, block_number(js, h->block_id), next)))
		return true;
	return forged(worker, thread, js);
}

/* The HMAC tag of up to 96 bytes under a label and a source's key. */
static bool
short_tag(struct collective *state, struct job_keys *keys, uint8_t source, const char *label,
	const void *bytes, size_t length, uint8_t tag[WEIR_TAG_BYTES])
{
	const uint8_t *key = source_key(state->hmac, keys, source);
	uint8_t message[128], out[WEIR_KEY_BYTES];
	size_t before = strlen(label);

	memset(tag, 0, WEIR_TAG_BYTES);
	if (before + length > sizeof(message) || key == NULL)
		return false;
	memcpy(message, label, before);
	memcpy(message + before, bytes, length);
	if (!pktbuf_hmac(state->hmac, key, message, before + length, out))
		return false;
	memcpy(tag, out, WEIR_TAG_BYTES);
	return true;
}

bool
authentic_join(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	struct {
		uint8_t header[WEIR_EXT_BYTES];
		struct weir_join_proof proof;
		uint8_t tag[WEIR_TAG_BYTES];
	} room;
	struct contribution *c = &lmem(thread)->c;
	uint8_t tag[WEIR_TAG_BYTES];
	struct pktbuf_cursor cursor;

	if (js == NULL || js->keys == NULL) {
		ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
		return false;
	}
	if ((c->header.flags & WEIR_FLAG_AUTHENTICATED) == 0 ||
		c->bytes != sizeof(room.proof) + sizeof(room.tag))
		return forged(worker, thread, js);
	pktbuf_cursor_init(&cursor, thread->packet, c->payload - WEIR_EXT_BYTES, sizeof(room));
	if (pktbuf_cursor_copy(&cursor, &room, sizeof(room)) != sizeof(room) ||
		!short_tag(ppe_state(worker, thread), js->keys, c->header.src_id, WEIR_LABEL_JOIN,
			&room, sizeof(room) - sizeof(room.tag), tag) ||
		!pktbuf_tag_equal(tag, room.tag))
		return forged(worker, thread, js);
	c->bytes = 0;
	return true;
}

uint32_t
tag_result(const struct job_shard *js, const struct weir_header *result, uint64_t number,
	unsigned int slice, const void *payload, uint32_t bytes, void *end, uint32_t end_bytes)
{
	const struct pktbuf_nonce nonce = {
		.number = number, .status = result->status, .slice = slice};
	struct weir_header h = *result;
	uint8_t header[WEIR_EXT_BYTES], *tag = (uint8_t *)end + end_bytes;

	h.extended = true;
	weir_header_write(&h, header);
	if (likely(js->keys->results_derived))
		pktbuf_tag_make_pieces(
			&js->keys->results, nonce, header, payload, bytes, end, end_bytes, tag);
	else
		memset(tag, 0, WEIR_TAG_BYTES); /* no receiver accepts it */
	return WEIR_TAG_BYTES;
}

uint8_t
tag_reply(struct collective *state, const struct job_shard *js, const struct weir_header *header,
	const uint8_t answered[WEIR_TAG_BYTES], void *payload, uint8_t bytes)
{
	uint8_t message[WEIR_TAG_BYTES + WEIR_EXT_BYTES + 64];
	uint8_t *end = message + WEIR_TAG_BYTES + WEIR_EXT_BYTES;

	memcpy(message, answered, WEIR_TAG_BYTES);
	weir_header_write(header, message + WEIR_TAG_BYTES);
	memcpy(end, payload, bytes);
	short_tag(state, js->keys, header->src_id, WEIR_LABEL_REPLY, message,
		(size_t)(end + bytes - message), (uint8_t *)payload + bytes);
	return WEIR_TAG_BYTES;
}

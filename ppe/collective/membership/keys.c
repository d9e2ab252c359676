/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proved joins and authenticated jobs: keys, and the tags that they make and verify.
 * docs/protocol.md, "Proved joins" and "Authenticated jobs"; the reasons are in
 * docs/architecture.md.
 *
 * GMAC nonces never repeat under a key. A generation's keys come from a challenge that the switch
 * made for it. Each source has its own keys, and so have the results. In a generation a block has
 * one contribution, one acknowledgement and one probe of each source, with different nonces, and
 * one result, which block_finish() fixes once. Results that differ by receiver have different
 * nonces, too.
 */
#include "ppe/collective/membership/membership.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <rte_malloc.h>

#include "pktbuf/cursor.h"
#include "ppe/collective/collective_fast.h"

size_t
keys_bytes(const struct ppe_job *job)
{
	uint16_t end = ppe_job_source_end(job);

	return (job->proved || job->authenticated
			       ? sizeof(struct own_keys) + end * sizeof(struct own_key)
			       : 0) +
		(job->authenticated ? sizeof(struct job_keys) + end * sizeof(struct pktbuf_tag_key)
				    : 0);
}

struct own_keys *
keys_own_create(const struct ppe_job *job, uint16_t source_end, int socket)
{
	struct own_keys *own;

	if (pktbuf_tag_init() < 0)
		return NULL;
	own = rte_zmalloc_socket("weir_own_keys",
		sizeof(*own) + source_end * sizeof(own->source[0]), RTE_CACHE_LINE_SIZE, socket);
	if (own != NULL)
		memcpy(own->job, job->key, sizeof(own->job));
	return own;
}

struct job_keys *
keys_create(uint16_t source_end, int socket)
{
	const struct job_keys *keys;

	return rte_zmalloc_socket("weir_keys", sizeof(*keys) + source_end * sizeof(keys->source[0]),
		RTE_CACHE_LINE_SIZE, socket);
}

int
keys_challenges_create(struct job_home *home)
{
	uint8_t key[WEIR_KEY_BYTES];

	if (pktbuf_tag_init() < 0 || getrandom(key, sizeof(key), 0) != sizeof(key))
		return -EIO;
	pktbuf_tag_expand(&home->challenger, key);
	explicit_bzero(key, sizeof(key));
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		keys_challenge_next(home, home->challenge[s]);
	return 0;
}

/* AES of a counter is a permutation, so no challenge repeats or can be predicted. It needs neither
 * memory nor a system call, and cannot fail. */
void
keys_challenge_next(struct job_home *home, uint8_t challenge[WEIR_CHALLENGE_BYTES])
{
	static const uint8_t label[WEIR_EXT_BYTES] = "weir challenge";

	static_assert(WEIR_CHALLENGE_BYTES == WEIR_TAG_BYTES, "a challenge is a tag");
	pktbuf_tag_make(&home->challenger, (struct pktbuf_nonce){.number = home->challenges++},
		label, NULL, 0, challenge);
}

/* A source's own key in an epoch, valid until the next call; NULL: it can't be derived. source:
 * below the job's source_end. */
static const uint8_t *
source_key(
	const struct collective *state, const struct job_shard *js, uint8_t source, uint64_t epoch)
{
	struct own_key *own = &js->own->source[source];
	uint8_t message[PKTBUF_SOURCE_MESSAGE_BYTES];

	if (likely(own->derived && own->derived_epoch == epoch))
		return own->key;
	pktbuf_source_message(source, epoch, message);
	own->derived_epoch = epoch;
	own->derived = pktbuf_hmac(state->hmac, js->own->job, message, sizeof(message), own->key);
	return own->derived ? own->key : NULL;
}

bool
keys_derive(const struct collective *state, const uint8_t from[WEIR_KEY_BYTES], const char *label,
	const uint8_t nonce[WEIR_CHALLENGE_BYTES], const uint8_t challenge[WEIR_CHALLENGE_BYTES],
	uint16_t generation, uint8_t key[WEIR_KEY_BYTES])
{
	uint8_t message[sizeof(WEIR_LABEL_GENERATION) + 2 * WEIR_CHALLENGE_BYTES + 2];
	size_t at = strlen(label);

	memcpy(message, label, at);
	if (nonce != NULL) {
		memcpy(message + at, nonce, WEIR_CHALLENGE_BYTES);
		at += WEIR_CHALLENGE_BYTES;
	}
	memcpy(message + at, challenge, WEIR_CHALLENGE_BYTES);
	weir_put16(message + at + WEIR_CHALLENGE_BYTES, generation);
	return pktbuf_hmac(
		state->hmac, from, message, at + WEIR_CHALLENGE_BYTES + sizeof(generation), key);
}

/* The GMAC key of a source's contributions. */
static bool
contributions_key(const struct collective *state, const struct job_shard *js, uint8_t source,
	uint64_t epoch, uint16_t generation, const uint8_t challenge[WEIR_CHALLENGE_BYTES],
	struct pktbuf_tag_key *key)
{
	const uint8_t *own = source_key(state, js, source, epoch);
	uint8_t bytes[WEIR_KEY_BYTES];

	if (own == NULL ||
		!keys_derive(state, own, WEIR_LABEL_GENERATION, NULL, challenge, generation, bytes))
		return false;
	pktbuf_tag_expand(key, bytes);
	return true;
}

void
keys_begin(struct collective *state, struct job_shard *js, uint16_t generation,
	const uint8_t challenge[WEIR_CHALLENGE_BYTES], const struct claim *joined)
{
	struct job_keys *keys = js->keys;

	keys->former = js->hop.generation;
	memcpy(keys->former_challenge, keys->challenge, sizeof(keys->challenge));
	memcpy(keys->former_epoch, keys->epoch, sizeof(keys->epoch));
	memcpy(keys->challenge, challenge, sizeof(keys->challenge));
	for (unsigned int s = 0; joined != NULL && s < WEIR_SOURCES_MAX; s++)
		keys->epoch[s] = joined[s].epoch;
	memset(keys->derived, 0, sizeof(keys->derived));
	js->hop.key = NULL;
	if (!keys_derive(state, js->own->job, WEIR_LABEL_RESULTS, NULL, keys->challenge, generation,
		    keys->results_bytes))
		return;
	pktbuf_tag_expand(&keys->results, keys->results_bytes);
	js->hop.key = &keys->results;
}

uint8_t
keys_wrap_results(struct collective *state, const struct job_shard *js, uint8_t source,
	const struct claim *joined, uint8_t wrapped[WEIR_KEY_BYTES])
{
	const struct job_keys *keys = js->keys;
	const uint8_t *own = source_key(state, js, source, joined->epoch);

	memset(wrapped, 0, WEIR_KEY_BYTES);
	if (own != NULL && js->hop.key != NULL &&
		keys_derive(state, own, WEIR_LABEL_WRAP, joined->proof, keys->challenge,
			js->hop.generation, wrapped))
		for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
			wrapped[i] ^= keys->results_bytes[i];
	return WEIR_KEY_BYTES;
}

/* Is the contribution's tag right under this key? next: see keys_authentic(). */
static bool
holds(const struct ppe_thread *thread, const struct contribution *c,
	const struct pktbuf_tag_key *key, uint64_t number, const uint8_t *next)
{
	const struct pktbuf_nonce nonce = {
		.number = number,
		.status = weir_iv(c->header.collective),
	};

	return pktbuf_tag_holds(key, nonce, thread->packet, c->payload - WEIR_EXT_BYTES,
		WEIR_EXT_BYTES + c->bytes, next);
}

/* The source's GMAC key in the running generation; NULL: it can't be derived. */
static const struct pktbuf_tag_key *
key_of(struct collective *state, const struct job_shard *js, uint8_t source)
{
	struct job_keys *keys = js->keys;

	if (likely(mask_test(keys->derived, source)))
		return &keys->source[source];
	if (!contributions_key(state, js, source, keys->epoch[source], js->hop.generation,
		    keys->challenge, &keys->source[source]))
		return NULL;
	mask_set(keys->derived, source);
	return &keys->source[source];
}

/* Is the packet an authentic contribution of the former generation, to be answered `stale`?
 * Recognizes that generation's first 2^32 blocks. */
static bool
of_former(struct collective *state, const struct ppe_thread *thread, const struct job_shard *js,
	struct contribution *c)
{
	const struct job_keys *keys = js->keys;
	struct pktbuf_tag_key key;

	if (keys->former == 0 || c->header.gen_id != keys->former)
		return false;
	c->epoch = keys->former_epoch[c->header.src_id];
	return contributions_key(state, js, c->header.src_id, c->epoch, keys->former,
		       keys->former_challenge, &key) &&
		holds(thread, c, &key, c->header.block_id, NULL);
}

enum ppe_drop
keys_refusal(const struct job_shard *js, const struct contribution *c)
{
	const struct weir_header *h = &c->header;

	if (!h->extended || (h->flags & WEIR_FLAG_AUTHENTICATED) == 0 || c->bytes < WEIR_TAG_BYTES)
		return PPE_DROP_FORGED;
	if (js->hop.generation == 0)
		return PPE_DROP_NOT_JOINED;
	return h->gen_id != js->hop.generation ? PPE_DROP_STALE : PPE_DROP_COUNT;
}

bool
keys_authentic(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const uint8_t *next)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	const struct pktbuf_tag_key *key;

	enum ppe_drop reason = keys_refusal(js, c);

	if (unlikely(reason == PPE_DROP_FORGED))
		return hop_forged(worker, thread, js);
	c->bytes -= WEIR_TAG_BYTES;
	if (unlikely(reason == PPE_DROP_NOT_JOINED)) {
		ppe_drop(worker, thread, PPE_DROP_NOT_JOINED);
		return false;
	}
	if (unlikely(reason == PPE_DROP_STALE)) {
		if (of_former(state, thread, js, c))
			return true;
		js->count.stale++;
		ppe_drop(worker, thread, PPE_DROP_STALE);
		return false;
	}
	c->epoch = js->keys->epoch[h->src_id];
	key = key_of(state, js, h->src_id);
	if (likely(key != NULL) &&
		likely(holds(thread, c, key, slot_number(js, h->block_id), next)))
		return true;
	return hop_forged(worker, thread, js);
}

bool
keys_short_tag(const struct collective *state, const uint8_t *key, const char *label,
	const void *bytes, size_t length, uint8_t tag[WEIR_TAG_BYTES])
{
	uint8_t message[255], out[WEIR_KEY_BYTES];
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

static bool
is_of_epoch(const struct collective *state, const struct job_shard *js, struct contribution *c,
	const struct signed_join *join, uint64_t epoch)
{
	uint8_t tag[WEIR_TAG_BYTES];

	c->epoch = epoch;
	return keys_short_tag(state, source_key(state, js, c->header.src_id, epoch),
		       WEIR_LABEL_JOIN, join, offsetof(struct signed_join, tag), tag) &&
		pktbuf_tag_equal(tag, join->tag);
}

bool
keys_authentic_join(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	const struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct own_key *own;
	struct pktbuf_cursor cursor;
	struct signed_join join;
	const uint32_t bytes = sizeof(join) - offsetof(struct signed_join, header);

	if (js == NULL || js->own == NULL || c->header.src_id >= js->source_end) {
		ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
		return false;
	}
	if ((c->header.flags & WEIR_FLAG_AUTHENTICATED) == 0 ||
		c->bytes != sizeof(join.proof) + sizeof(join.tag))
		return hop_forged(worker, thread, js);
	weir_put32(join.address, thread->head.ip_src);
	weir_put16(join.port, thread->head.udp_src);
	pktbuf_cursor_init(&cursor, thread->packet, c->payload - WEIR_EXT_BYTES, bytes);
	if (pktbuf_cursor_copy(&cursor, (uint8_t *)&join + offsetof(struct signed_join, header),
		    bytes) != bytes)
		return hop_forged(worker, thread, js);
	own = &js->own->source[c->header.src_id];
	if (!is_of_epoch(state, js, c, &join, own->epoch) &&
		(own->former_epoch == 0 || !is_of_epoch(state, js, c, &join, own->former_epoch)))
		return hop_forged(worker, thread, js);
	c->bytes = 0;
	return true;
}

uint8_t
keys_tag_reply(struct collective *state, const struct job_shard *js,
	const struct weir_header *header, uint64_t epoch, const uint8_t answered[WEIR_TAG_BYTES],
	void *payload, uint8_t bytes)
{
	struct signed_reply reply;

	memcpy(reply.answered, answered, WEIR_TAG_BYTES);
	weir_header_write(header, reply.header);
	memcpy(reply.payload, payload, bytes);
	keys_short_tag(state, source_key(state, js, header->src_id, epoch), WEIR_LABEL_REPLY,
		&reply, offsetof(struct signed_reply, payload) + bytes, (uint8_t *)payload + bytes);
	return WEIR_TAG_BYTES;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proved joins and authenticated jobs: keys, and the tags that they make and verify. docs/protocol.md, "Proved joins"
 * and "Authenticated jobs"; the reasons are in docs/architecture.md.
 *
 * GMAC nonces never repeat under a key: a generation's keys come from a challenge that the switch made for it;
 * each source has its own keys, and so have the results; in a generation a block has one contribution and one
 * acknowledgement and one probe of each source, which differ in the nonce, and one result, fixed once by block_finish().
 * Results that differ by receiver differ in the nonce, too.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <rte_malloc.h>

#include "pktbuf/cursor.h"
#include "ppe/collective/collective.h"
#include "ppe/collective/collective_fast.h"

/* Payload of a reply at most. */
#define REPLY_BYTES 64

size_t
job_keys_bytes(const struct ppe_job *job)
{
	uint16_t end = ppe_job_source_end(job);

	return (job->proved || job->authenticated
			       ? sizeof(struct own_keys) + end * sizeof(struct own_key)
			       : 0) +
		(job->authenticated ? sizeof(struct job_keys) + end * sizeof(struct pktbuf_tag_key)
				    : 0);
}

struct own_keys *
own_keys_create(const struct ppe_job *job, uint16_t source_end, int socket)
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
job_keys_create(uint16_t source_end, int socket)
{
	const struct job_keys *keys;

	return rte_zmalloc_socket("weir_keys", sizeof(*keys) + source_end * sizeof(keys->source[0]),
		RTE_CACHE_LINE_SIZE, socket);
}

int
job_challenges_create(struct job_home *home)
{
	uint8_t key[WEIR_KEY_BYTES];

	if (pktbuf_tag_init() < 0 || getrandom(key, sizeof(key), 0) != sizeof(key))
		return -EIO;
	pktbuf_tag_expand(&home->challenger, key);
	explicit_bzero(key, sizeof(key));
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		job_challenge_next(home, home->challenge[s]);
	return 0;
}

/* AES of a counter is a permutation, so no challenge repeats, and none can be predicted. It needs neither memory
 * nor a system call, and cannot fail. */
void
job_challenge_next(struct job_home *home, uint8_t challenge[WEIR_CHALLENGE_BYTES])
{
	static const uint8_t label[WEIR_EXT_BYTES] = "weir challenge";

	static_assert(WEIR_CHALLENGE_BYTES == WEIR_TAG_BYTES, "a challenge is a tag");
	pktbuf_tag_make(&home->challenger, (struct pktbuf_nonce){.number = home->challenges++},
		label, NULL, 0, challenge);
}

/* A source's own key in an epoch, valid until the next call; NULL: it can't be derived. source: below the job's
 * source_end. */
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

/* A key of a generation: of a label, the nonce if there is one, the challenge and the generation. */
static bool
generation_key(const struct collective *state, const uint8_t from[WEIR_KEY_BYTES],
	const char *label, const uint8_t nonce[WEIR_CHALLENGE_BYTES],
	const uint8_t challenge[WEIR_CHALLENGE_BYTES], uint16_t generation,
	uint8_t key[WEIR_KEY_BYTES])
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
		!generation_key(
			state, own, WEIR_LABEL_GENERATION, NULL, challenge, generation, bytes))
		return false;
	pktbuf_tag_expand(key, bytes);
	return true;
}

void
job_keys_begin(struct collective *state, struct job_shard *js, uint16_t generation,
	const uint8_t challenge[WEIR_CHALLENGE_BYTES], const struct claim *joined)
{
	struct job_keys *keys = js->keys;

	keys->former = js->generation;
	memcpy(keys->former_challenge, keys->challenge, sizeof(keys->challenge));
	memcpy(keys->former_epoch, keys->epoch, sizeof(keys->epoch));
	memcpy(keys->challenge, challenge, sizeof(keys->challenge));
	for (unsigned int s = 0; joined != NULL && s < WEIR_SOURCES_MAX; s++)
		keys->epoch[s] = joined[s].epoch;
	memset(keys->derived, 0, sizeof(keys->derived));
	keys->results_derived = generation_key(state, js->own->job, WEIR_LABEL_RESULTS, NULL,
		keys->challenge, generation, keys->results_bytes);
	pktbuf_tag_expand(&keys->results, keys->results_bytes);
}

uint8_t
wrap_results_key(struct collective *state, const struct job_shard *js, uint8_t source,
	const struct claim *joined, uint8_t wrapped[WEIR_KEY_BYTES])
{
	const struct job_keys *keys = js->keys;
	const uint8_t *own = source_key(state, js, source, joined->epoch);

	memset(wrapped, 0, WEIR_KEY_BYTES);
	if (own != NULL && keys->results_derived &&
		generation_key(state, own, WEIR_LABEL_WRAP, joined->proof, keys->challenge,
			js->generation, wrapped))
		for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
			wrapped[i] ^= keys->results_bytes[i];
	return WEIR_KEY_BYTES;
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
	if (!contributions_key(state, js, source, keys->epoch[source], js->generation,
		    keys->challenge, &keys->source[source]))
		return NULL;
	mask_set(keys->derived, source);
	return &keys->source[source];
}

/* Is the packet an authentic contribution of the former generation, to be answered `stale`? Recognizes that
 * generation's first 2^32 blocks. */
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
	c->epoch = js->keys->epoch[h->src_id];
	key = key_of(state, js, h->src_id);
	if (likely(key != NULL) &&
		likely(holds(thread, c, key, block_number(js, h->block_id), next)))
		return true;
	return forged(worker, thread, js);
}

/* The HMAC tag of up to 112 bytes under a label and a source's key; NULL: it can't be derived. */
static bool
short_tag(const struct collective *state, const uint8_t *key, const char *label, const void *bytes,
	size_t length, uint8_t tag[WEIR_TAG_BYTES])
{
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

/* What a join's tag covers, and the tag that came with it. */
struct signed_join {
	uint8_t address[4], port[2]; /* of the sender */
	uint8_t header[WEIR_EXT_BYTES];
	struct weir_join_proof proof;
	uint8_t tag[WEIR_TAG_BYTES];
};

static bool
is_of_epoch(const struct collective *state, const struct job_shard *js, struct contribution *c,
	const struct signed_join *join, uint64_t epoch)
{
	uint8_t tag[WEIR_TAG_BYTES];

	c->epoch = epoch;
	return short_tag(state, source_key(state, js, c->header.src_id, epoch), WEIR_LABEL_JOIN,
		       join, offsetof(struct signed_join, tag), tag) &&
		pktbuf_tag_equal(tag, join->tag);
}

bool
authentic_join(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
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
		return forged(worker, thread, js);
	weir_put32(join.address, thread->head.ip_src);
	weir_put16(join.port, thread->head.udp_src);
	pktbuf_cursor_init(&cursor, thread->packet, c->payload - WEIR_EXT_BYTES, bytes);
	if (pktbuf_cursor_copy(&cursor, (uint8_t *)&join + offsetof(struct signed_join, header),
		    bytes) != bytes)
		return forged(worker, thread, js);
	own = &js->own->source[c->header.src_id];
	if (!is_of_epoch(state, js, c, &join, own->epoch) &&
		(own->former_epoch == 0 || !is_of_epoch(state, js, c, &join, own->former_epoch)))
		return forged(worker, thread, js);
	c->bytes = 0;
	return true;
}

uint32_t
tag_result(const struct job_shard *js, const struct weir_header *result, uint64_t number,
	unsigned int slice, const struct pktbuf_piece part[2], void *end, uint32_t end_bytes)
{
	const struct pktbuf_nonce nonce = {
		.number = number, .status = result->status, .slice = slice};
	const struct pktbuf_piece pieces[] = {part[0], part[1], {end, end_bytes}};
	struct weir_header h = *result;
	uint8_t header[WEIR_EXT_BYTES], *tag = (uint8_t *)end + end_bytes;

	h.extended = true;
	h.src_id = 0;
	weir_header_write(&h, header);
	if (likely(js->keys->results_derived))
		pktbuf_tag_make_pieces(
			&js->keys->results, nonce, header, pieces, RTE_DIM(pieces), tag);
	else
		memset(tag, 0, WEIR_TAG_BYTES); /* no receiver accepts it */
	return WEIR_TAG_BYTES;
}

/* What a reply's tag covers. */
struct signed_reply {
	uint8_t answered[WEIR_TAG_BYTES];
	uint8_t header[WEIR_EXT_BYTES];
	uint8_t payload[REPLY_BYTES];
	uint8_t tag
		[WEIR_TAG_BYTES]; /* room for the one that came behind a payload of REPLY_BYTES */
};

uint8_t
tag_reply(struct collective *state, const struct job_shard *js, const struct weir_header *header,
	uint64_t epoch, const uint8_t answered[WEIR_TAG_BYTES], void *payload, uint8_t bytes)
{
	struct signed_reply reply;

	memcpy(reply.answered, answered, WEIR_TAG_BYTES);
	weir_header_write(header, reply.header);
	memcpy(reply.payload, payload, bytes);
	short_tag(state, source_key(state, js, header->src_id, epoch), WEIR_LABEL_REPLY, &reply,
		offsetof(struct signed_reply, payload) + bytes, (uint8_t *)payload + bytes);
	return WEIR_TAG_BYTES;
}

/* ---- the hop to a parent, on which this switch is a source ---- */

uint8_t
prove_join(const struct collective *state, const uint8_t key[WEIR_KEY_BYTES],
	const struct pktbuf_identity *self, const struct weir_header *header,
	struct parent_join *join, uint8_t payload[sizeof(struct weir_join_proof) + WEIR_TAG_BYTES])
{
	struct signed_join proved;

	weir_put32(proved.address, self->ip);
	weir_put16(proved.port, self->port_ext);
	weir_header_write(header, proved.header);
	memcpy(proved.proof.challenge, join->challenge, WEIR_CHALLENGE_BYTES);
	memcpy(proved.proof.nonce, join->nonce, WEIR_CHALLENGE_BYTES);
	weir_put32(proved.proof.count, ++join->count);
	short_tag(state, key, WEIR_LABEL_JOIN, &proved, offsetof(struct signed_join, tag),
		proved.tag);
	memcpy(payload, &proved.proof, sizeof(proved.proof) + sizeof(proved.tag));
	return sizeof(proved.proof) + sizeof(proved.tag);
}

bool
parent_reply_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const uint8_t key[WEIR_KEY_BYTES], const uint8_t answered[WEIR_TAG_BYTES])
{
	struct contribution *c = &lmem(thread)->c;
	const uint32_t bytes = WEIR_EXT_BYTES + c->bytes;
	struct pktbuf_cursor cursor;
	struct signed_reply reply;
	uint8_t tag[WEIR_TAG_BYTES];
	const uint8_t *end = (const uint8_t *)&reply + bytes; /* after `answered`, before the tag */

	if ((c->header.flags & WEIR_FLAG_AUTHENTICATED) == 0 || c->bytes < WEIR_TAG_BYTES ||
		c->bytes > REPLY_BYTES + WEIR_TAG_BYTES)
		return forged(worker, thread, js);
	memcpy(reply.answered, answered, WEIR_TAG_BYTES);
	pktbuf_cursor_init(&cursor, thread->packet, c->payload - WEIR_EXT_BYTES, bytes);
	if (pktbuf_cursor_copy(&cursor, (uint8_t *)&reply + WEIR_TAG_BYTES, bytes) != bytes ||
		!short_tag(ppe_state(worker, thread), key, WEIR_LABEL_REPLY, &reply, bytes, tag) ||
		!pktbuf_tag_equal(tag, end))
		return forged(worker, thread, js);
	c->bytes -= WEIR_TAG_BYTES;
	return true;
}

bool
unwrap_keys(const struct collective *state, const uint8_t key[WEIR_KEY_BYTES],
	struct parent_join *join, uint16_t generation,
	const uint8_t end[WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES])
{
	if (!generation_key(state, key, WEIR_LABEL_GENERATION, NULL, end, generation,
		    join->contributions) ||
		!generation_key(
			state, key, WEIR_LABEL_WRAP, join->nonce, end, generation, join->results))
		return false;
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
		join->results[i] ^= end[WEIR_CHALLENGE_BYTES + i];
	return true;
}

void
parent_keys_begin(struct parent_keys *keys, const struct parent_join *join)
{
	pktbuf_tag_expand(&keys->contributions, join->contributions);
	pktbuf_tag_expand(&keys->results, join->results);
}

uint32_t
parent_tag(const struct job_shard *js, const struct parent *parent,
	const struct weir_header *header, const void *payload, uint32_t bytes, void *end,
	uint32_t end_bytes)
{
	const struct pktbuf_nonce nonce = {
		.number = block_number(js, header->block_id),
		.status = weir_iv(header->collective),
	};
	uint8_t covered[WEIR_EXT_BYTES];

	if (parent->keys == NULL)
		return js->crc_bytes == 0 ? 0 : parent_crc(header, payload, bytes, end, end_bytes);
	weir_header_write(header, covered);
	pktbuf_tag_make_pieces(&parent->keys->contributions, nonce, covered,
		(const struct pktbuf_piece[]){{payload, bytes}, {end, end_bytes}}, 2,
		(uint8_t *)end + end_bytes);
	return WEIR_TAG_BYTES;
}

static bool
is_result(const struct weir_header *h)
{
	return h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL ||
		h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH;
}

/* Is the result's tag right? It covers the header without the receiver. */
static bool
parent_result_holds(
	const struct ppe_thread *thread, const struct job_shard *js, const struct parent *parent)
{
	struct contribution *c = &lmem((struct ppe_thread *)(uintptr_t)thread)->c;
	const struct weir_header *h = &c->header;
	bool differs = collective_table[h->collective].to != TO_ALL &&
		(h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL);
	const struct pktbuf_nonce nonce = {.number = block_number(js, h->block_id),
		.status = h->status,
		.slice = differs ? js->first_rank + 1u : 0};
	uint8_t *receiver = rte_pktmbuf_mtod_offset(thread->packet, uint8_t *,
		c->payload - WEIR_EXT_BYTES + offsetof(struct weir_base, src_id));
	uint8_t was = *receiver;
	bool good;

	*receiver = 0;
	good = pktbuf_tag_holds(&parent->keys->results, nonce, thread->packet,
		c->payload - WEIR_EXT_BYTES, WEIR_EXT_BYTES + c->bytes - WEIR_TAG_BYTES, NULL);
	*receiver = was;
	return good;
}

bool
parent_packet_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	struct parent *parent)
{
	const struct ppe_job *j = worker->jobs->by_id[js->job];
	struct contribution *c = &lmem(thread)->c;
	uint8_t answered[WEIR_TAG_BYTES];

	if (likely(js->keys == NULL && parent->keys == NULL))
		return likely(js->crc_bytes == 0) || parent_crc_holds(worker, thread, js);
	if (parent->keys == NULL || parent->generation == 0 ||
		(c->header.flags & WEIR_FLAG_AUTHENTICATED) == 0 || c->bytes < WEIR_TAG_BYTES)
		return forged(worker, thread, js);
	if (!is_result(&c->header)) {
		tag_sent_to_parent(js, parent, &c->header, answered);
		return parent_reply_holds(worker, thread, js, j->parent[c->parent].key, answered);
	}
	if (!parent_result_holds(thread, js, parent))
		return forged(worker, thread, js);
	c->bytes -= WEIR_TAG_BYTES;
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tags and CRCs on the hop to a parent, of whose job this switch is a source. docs/protocol.md,
 * "Proved joins" and "Authenticated jobs". */
#include "pktbuf/cursor.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/tree/tree.h"

uint8_t
parent_prove_join(const struct collective *state, const uint8_t key[WEIR_KEY_BYTES],
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
	keys_short_tag(state, key, WEIR_LABEL_JOIN, &proved, offsetof(struct signed_join, tag),
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
		return hop_forged(worker, thread, js);
	memcpy(reply.answered, answered, WEIR_TAG_BYTES);
	pktbuf_cursor_init(&cursor, thread->packet, c->payload - WEIR_EXT_BYTES, bytes);
	if (pktbuf_cursor_copy(&cursor, (uint8_t *)&reply + WEIR_TAG_BYTES, bytes) != bytes ||
		!keys_short_tag(
			ppe_state(worker, thread), key, WEIR_LABEL_REPLY, &reply, bytes, tag) ||
		!pktbuf_tag_equal(tag, end))
		return hop_forged(worker, thread, js);
	c->bytes -= WEIR_TAG_BYTES;
	return true;
}

bool
parent_unwrap_keys(const struct collective *state, const uint8_t key[WEIR_KEY_BYTES],
	struct parent_join *join, uint16_t generation,
	const uint8_t end[WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES])
{
	if (!keys_derive(state, key, WEIR_LABEL_GENERATION, NULL, end, generation,
		    join->contributions) ||
		!keys_derive(
			state, key, WEIR_LABEL_WRAP, join->nonce, end, generation, join->results))
		return false;
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
		join->results[i] ^= end[WEIR_CHALLENGE_BYTES + i];
	return true;
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
	const struct pktbuf_nonce nonce = {.number = slot_number(js, h->block_id),
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
		return likely(js->crc_bytes == 0) || hop_result_crc_holds(worker, thread, js);
	if (parent->keys == NULL || parent->hop.generation == 0 ||
		(c->header.flags & WEIR_FLAG_AUTHENTICATED) == 0 || c->bytes < WEIR_TAG_BYTES)
		return hop_forged(worker, thread, js);
	if (!parent_is_result(&c->header)) {
		parent_sent_tag(js, parent, &c->header, answered);
		return parent_reply_holds(worker, thread, js, j->parent[c->parent].key, answered);
	}
	if (!parent_result_holds(thread, js, parent))
		return hop_forged(worker, thread, js);
	c->bytes -= WEIR_TAG_BYTES;
	return true;
}

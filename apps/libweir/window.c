/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pktbuf/wire/crc32c.h"

/* Fill the slot of the operation's block `nth`. */
static struct weir_slot *
fill(struct weir *weir, struct weir_request *o, uint32_t nth)
{
	uint32_t block = o->first + nth;
	struct weir_slot *slot = &weir->ring.slots[block & (weir->ring.recovery.window - 1)];
	struct weir_shape *shape = &slot->shape;
	struct weir_header h = {
		.extended = !weir->h.base_form,
		.job_id = weir->h.job,
		.src_id = weir->h.source,
		.block_id = block,
		.gen_id = weir->h.generation,
		.final = nth + 1 == o->blocks,
		.op = o->op,
		.dtype = o->dtype,
		.flags = weir_packet_flags(&weir->h),
	};

	weir_geometry_block(&o->geometry, nth, shape);
	h.grad_cnt = shape->elements;
	h.collective = shape->collective;
	h.root = shape->root;
	slot->request = o;
	slot->block = block;
	slot->flight.tries = slot->flight.probes = 0;
	slot->flight.is_probe = slot->flight.found_by_gap = slot->flight.is_at_switch = false;
	slot->header_bytes = (uint8_t)weir_header_write(&h, slot->header);
	slot->payload_bytes = (uint32_t)weir_span_bytes(&shape->send);
	slot->payload = weir_error_feedback_payload(o, nth);
	if (slot->payload == NULL)
		slot->payload = o->send;
	else
		shape->send.offset = 0;
	slot->number = o->number + nth;
	return slot;
}

/* Make the slot ready to send. */
static void
load(struct weir *weir, struct weir_slot *slot)
{
	struct iovec *vectors = weir->outbox->vectors;
	unsigned int n = 0;
	uint32_t crc = 0;

	slot->tag_bytes = 0;
	if (weir->h.is_tagged || weir->h.has_crc)
		n = weir_slot_pieces(slot, vectors);
	if (weir->h.is_tagged) {
		/* Without memory the tag is wrong, and the block times out. */
		weir_auth_tag(
			weir->h.auth, WEIR_IV_CONTRIBUTION, slot->number, vectors, n, slot->tag);
		slot->tag_bytes = WEIR_TAG_BYTES;
	} else if (weir->h.has_crc) {
		for (unsigned int i = 0; i < n; i++)
			crc = weir_crc32c(crc, vectors[i].iov_base, vectors[i].iov_len);
		weir_crc32c_put(slot->tag, crc);
		slot->tag_bytes = WEIR_CRC_BYTES;
	}
	weir_flight_ready(&weir->ring.recovery, &slot->flight);
}

/* ---- results ---- */

/*
 * Does the result, whole or partial, fit the block in flight: all header fields, and the exact
 * length?
 */
static bool
result_fits(const struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	size_t payload)
{
	const struct weir_shape *shape = &slot->shape;
	const struct weir_request *o = slot->request;
	bool partial = h->status == WEIR_STATUS_PARTIAL;

	if (h->degraded != partial || h->grad_cnt != shape->elements ||
		payload != weir_span_bytes(&shape->recv) + (partial ? WEIR_BITMAP_BYTES : 0u))
		return false;
	if (h->extended && (h->collective != shape->collective || h->root != shape->root))
		return false;
	/* Without elements, operation and type mean nothing. */
	if (h->extended && h->grad_cnt != 0 && (h->op != o->op || h->dtype != o->dtype))
		return false;
	return partial || h->src_cnt == (uint8_t)weir->h.sources;
}

/* Copy the result into the application's buffer, and the own slice, which the result does not
 * carry. missing: the result lacks this source, so all receivers have zeros in its slice. */
static void
spread(const struct weir_request *o, const struct weir_shape *shape, const uint8_t *payload,
	bool missing)
{
	const struct weir_span *span = &shape->recv;
	const struct weir_own *own = &shape->own;

	for (unsigned int i = 0; i < span->pieces; i++)
		if (weir_span_has(span, i)) {
			memcpy(o->recv + span->offset + i * span->stride, payload, span->bytes);
			payload += span->bytes;
		}
	if (own->bytes != 0 && missing)
		memset(o->recv + own->to, 0, own->bytes);
	else if (own->bytes != 0 && o->recv + own->to != o->send + own->from)
		memcpy(o->recv + own->to, o->send + own->from, own->bytes);
}

static bool
result_deliver(struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	const uint8_t *payload)
{
	struct weir_request *o = slot->request;
	size_t bytes = weir_span_bytes(&slot->shape.recv);
	bool missing = h->status == WEIR_STATUS_PARTIAL &&
		!weir_bitmap_has(payload + bytes, weir->h.source);

	if (missing && o->feeds_back &&
		!weir_error_feedback_keep(&weir->h, o, slot->block - o->first,
			slot->payload + slot->shape.send.offset, slot->payload_bytes)) {
		weir_fail(weir,
			weir_error_set(&weir->h, -ENOMEM,
				"no memory for error feedback of a contribution that missed its "
				"block"));
		return false;
	}
	spread(o, &slot->shape, payload, missing);
	WEIR_COUNT(&weir->h, payload_received, bytes);
	o->result.completed++;
	if (h->status == WEIR_STATUS_PARTIAL) {
		WEIR_COUNT(&weir->h, results_partial, 1);
		weir->unexpected.has_seen_partial = true;
		if (!weir_partial_note(&weir->h, o, &slot->shape, payload + bytes)) {
			weir_fail(weir, weir_error_set(&weir->h, -ENOMEM, "out of memory"));
			return false;
		}
	} else {
		WEIR_COUNT(&weir->h, results_ok, 1);
	}
	return true;
}

/* The operation of this block: o or a later one; NULL: no call has been made for it yet. */
static struct weir_request *
owner(struct weir_request *o, uint64_t number)
{
	while (o != NULL && number >= o->number + o->blocks)
		o = TAILQ_NEXT(o, link);
	return o;
}

static void
count_done(struct weir *weir, struct weir_request *o)
{
	if (++o->done == o->blocks)
		weir_complete(weir, o);
}

/*
 * Continue the slot with this block of operation o. Blocks whose results have already arrived are
 * delivered; the first block without a result becomes ready. False: all operations have failed.
 */
static bool
go_on(struct weir *weir, struct weir_request *o, uint64_t number)
{
	while (o != NULL) {
		struct weir_slot *slot = fill(weir, o, (uint32_t)(number - o->number));
		struct weir_request *next = owner(o, number += weir->ring.recovery.window);
		const struct weir_header *h;
		const uint8_t *payload;
		size_t bytes;

		h = weir_unexpected_first(weir, slot->block, &payload, &bytes);
		if (h == NULL) {
			load(weir, slot);
			return true;
		}
		if (!result_fits(weir, slot, h, bytes)) {
			weir_fail(weir,
				weir_error_unexpected(
					&weir->h, slot->request, slot->block, &slot->shape, h));
			return false;
		}
		if (!result_deliver(weir, slot, h, payload))
			return false;
		weir_unexpected_delivered(weir, slot->block);
		count_done(weir, o);
		o = next;
	}
	return true;
}

bool
weir_window_begin(struct weir *weir, struct weir_request *o)
{
	const uint32_t window = weir->ring.recovery.window;
	uint32_t blocks = o->blocks < window ? o->blocks : window;
	uint64_t number = o->number;

	weir_unexpected_begin(weir, o);
	/* A busy slot continues with this operation's block when its own is done. */
	for (uint64_t end = number + blocks; number < end; number++)
		if (weir->ring.slots[number & (window - 1)].flight.state == WEIR_FLIGHT_IDLE &&
			!go_on(weir, o, number))
			return false;
	return true;
}

/* A contribution is ready to be sent again. */
static void
count_repetition(struct weir *weir, const struct weir_flight *flight)
{
	if (flight->found_by_gap)
		WEIR_COUNT(&weir->h, gaps, 1);
	else
		WEIR_COUNT(&weir->h, timeouts, 1);
}

/* The block of the slot has its result. False: all operations have failed. */
static bool
block_answered(struct weir *weir, struct weir_slot *slot, uint64_t now)
{
	struct weir_recovery *r = &weir->ring.recovery;
	uint64_t number = slot->number + r->window;
	struct weir_request *o = slot->request, *next = owner(o, number);
	const bool flies = slot->flight.state == WEIR_FLIGHT_FLYING;

	weir_flight_idle(r, &slot->flight);
	/* The answer to an earlier transmission may arrive before a repetition is sent. */
	if (flies) {
		weir_recovery_answered(r, &slot->flight, now);
		WEIR_SET(&weir->h, srtt_ns, r->rtt.srtt);
		WEIR_SET(&weir->h, rto_ns, r->rtt.rto);
	}
	if (slot->block == weir->h.waiting_block)
		weir->h.has_waiting = false;
	weir->progressed = now;
	count_done(weir, o);
	return go_on(weir, next, number);
}

void
weir_window_repeat(struct weir *weir, uint64_t now)
{
	struct weir_recovery *r = &weir->ring.recovery;
	const struct weir_flight *lost;

	while ((lost = weir_recovery_lost(r, now, false)) != NULL) {
		WEIR_SET(&weir->h, rto_ns, r->rtt.rto);
		if (!lost->is_probe)
			count_repetition(weir, lost);
	}
}

/* ---- receiving ---- */

#define ROUNDS_MAX 16 /* batches before the timers are checked */

void
weir_take_errors(struct weir *weir)
{
	struct weir_transport *t = weir->h.transport;

	WEIR_COUNT(&weir->h, send_errors, t->ops->errors(t, &weir->h.network_error));
}

bool
weir_from_switch(const struct weir *weir, const struct sockaddr_in *from, bool *extended)
{
	*extended = from->sin_port == weir->h.switch_ext.sin_port;
	return from->sin_family == AF_INET &&
		from->sin_addr.s_addr == weir->h.switch_ext.sin_addr.s_addr &&
		(*extended || from->sin_port == weir->h.switch_base.sin_port);
}

/* Handle a reply, other than a result, to a block in flight. Returns its counter. */
static uint64_t *
take_status(struct weir *weir, struct weir_slot *slot, const struct weir_header *reply,
	const uint8_t *payload, size_t bytes, uint64_t now)
{
	struct weir_handle *h = &weir->h;
	const bool of_probe = reply->extended && reply->collective == WEIR_COLLECTIVE_PROBE;

	if (reply->status > WEIR_STATUS_REFUSED ||
		(reply->status == WEIR_STATUS_WAITING && bytes != WEIR_BITMAP_BYTES))
		return &h->stats.malformed;
	if (reply->status == WEIR_STATUS_WAITING) {
		memcpy(h->waiting, payload, WEIR_BITMAP_BYTES);
		weir_note_known(h, payload);
		h->waiting_block = reply->block_id;
		h->has_waiting = true;
		if (of_probe &&
			weir_recovery_probed(&weir->ring.recovery, &slot->flight,
				weir_bitmap_has(payload, h->source), now))
			count_repetition(weir, &slot->flight);
		return &h->stats.waiting;
	}
	if (of_probe && reply->status == WEIR_STATUS_UNSUPPORTED) {
		weir->ring.recovery.may_probe = false; /* an older switch */
		return NULL;
	}
	weir_fail(weir,
		weir_error_status(
			h, slot->request, slot->block, &slot->shape, reply, payload, bytes));
	return &h->stats.results_error;
}

uint32_t
weir_result_slice(const struct weir *weir, const struct weir_header *h)
{
	const struct collective_row *row = weir_collective_row(h->collective);
	bool data = h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL;

	return data && row->served && row_differs(row, weir->h.skips_own) ? weir->h.rank + 1u : 0;
}

/* Verify the tag. Results, including failed ones, are tagged with the results' key. The tag of any
 * other reply covers the tag of the packet that it answers. */
static bool
authentic(struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	const uint8_t *packet, size_t bytes)
{
	if (h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL ||
		h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH)
		return weir_auth_result(
			weir->h.auth, slot->number, weir_result_slice(weir, h), packet, bytes);
	if (h->collective == WEIR_COLLECTIVE_PROBE) {
		uint8_t probe[WEIR_EXT_BYTES + WEIR_TAG_BYTES];
		size_t end = weir_note_write(weir, WEIR_COLLECTIVE_PROBE, slot->block,
			WEIR_IV_PROBE, slot->number, probe);

		return weir_auth_reply(weir->h.auth, probe + end - WEIR_TAG_BYTES, packet, bytes);
	}
	return weir_auth_reply(weir->h.auth, slot->tag, packet, bytes);
}

uint8_t
weir_packet_flags(const struct weir_handle *h)
{
	if (h->is_tagged)
		return WEIR_FLAG_AUTHENTICATED;
	return h->has_crc ? WEIR_FLAG_CRC : 0;
}

bool
weir_crc_holds(const struct weir_header *h, const uint8_t *packet, size_t bytes)
{
	unsigned int before = weir_header_bytes(h->extended);
	uint8_t covered[WEIR_EXT_BYTES];

	weir_header_covered(h, covered);
	return bytes >= before + WEIR_CRC_BYTES &&
		weir_crc32c(weir_crc32c(0, covered, sizeof(covered)), packet + before,
			bytes - before) == WEIR_CRC32C_RESIDUE;
}

/* Is the CRC of a packet about a block right? In the base form the missing header fields come from
 * the slot, if its block is in flight, or from the job. */
static bool
is_undamaged(const struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	const uint8_t *packet, size_t bytes)
{
	bool flies = slot->flight.state != WEIR_FLIGHT_IDLE && slot->block == h->block_id;
	struct weir_header whole = *h;

	if (!h->extended) {
		whole.collective = flies   ? slot->shape.collective
			: h->grad_cnt != 0 ? WEIR_COLLECTIVE_ALLREDUCE
					   : WEIR_COLLECTIVE_BARRIER;
		whole.dtype = weir->h.job_dtype;
		whole.op = weir->h.job_op;
		whole.flags = WEIR_FLAG_CRC;
	}
	return weir_crc_holds(&whole, packet, bytes);
}

/* Handle an answer to the join that began the generation: the join was repeated, the generation is
 * over, or a newer join has displaced it. Returns its counter, or NULL. */
static uint64_t *
take_join_reply(struct weir *weir, const struct weir_header *reply, const uint8_t *packet,
	size_t bytes, uint64_t now)
{
	struct weir_handle *h = &weir->h;
	/* Believe it only if a key proves it. Without a key, the replies to contributions say so,
	 * too. */
	const bool stale = reply->status == WEIR_STATUS_STALE && h->auth != NULL &&
		reply->gen_id != h->generation;

	if (reply->block_id != weir->join_nonce)
		return &h->stats.foreign;
	if (h->auth != NULL) {
		if (!weir_auth_reply(h->auth, NULL, packet, bytes))
			return &h->stats.forged;
		bytes -= WEIR_TAG_BYTES;
	}
	if (reply->status == WEIR_STATUS_OK && reply->gen_id == h->generation) {
		h->join_heard_at = now; /* weir_join_repeat() */
		return NULL;
	}
	if (!stale &&
		(reply->status != WEIR_STATUS_DISPLACED ||
			bytes != WEIR_EXT_BYTES + sizeof(struct weir_displaced)))
		return &h->stats.foreign;
	/* Also while no operation is under way: the next one fails. */
	if (weir->failed == 0)
		weir_fail(weir,
			stale ? weir_error_stale(h, reply)
			      : weir_error_displaced(h, packet + WEIR_EXT_BYTES));
	return &h->stats.results_error;
}

/* Handle a packet. Returns the counter to increment; NULL: the packet has been counted. */
static uint64_t *
take(struct weir *weir, const struct sockaddr_in *from, const uint8_t *packet, size_t bytes,
	bool multicast, uint64_t now)
{
	struct weir_stats *stats = &weir->h.stats;
	struct weir_header h = {0};
	struct weir_slot *slot;
	unsigned int header;
	bool of_probe;

	if (!weir_from_switch(weir, from, &h.extended))
		return &stats->foreign;
	header = weir_header_bytes(h.extended);
	if (bytes < header || bytes > weir->longest)
		return &stats->malformed;
	weir_header_read(&h, packet);
	/* A stale reply names the job's new generation. A refusal names any generation or none.
	 * Every other packet but a reply to the join must name this handle's generation. */
	if (h.job_id != weir->h.job || (!multicast && h.src_id != weir->h.source))
		return &stats->foreign;
	if (h.extended && h.collective == WEIR_COLLECTIVE_JOIN)
		return take_join_reply(weir, &h, packet, bytes, now);
	of_probe = h.extended && h.collective == WEIR_COLLECTIVE_PROBE;
	slot = &weir->ring.slots[h.block_id & (weir->ring.recovery.window - 1)];
	/* A switch that does not know the job refuses with a header alone. */
	if (weir->h.has_crc && !(h.status == WEIR_STATUS_REFUSED && bytes == header)) {
		if (!is_undamaged(weir, slot, &h, packet, bytes))
			return &stats->crc;
		bytes -= WEIR_CRC_BYTES;
	}
	if ((h.status != WEIR_STATUS_REFUSED &&
		    (h.gen_id != weir->h.generation) != (h.status == WEIR_STATUS_STALE)) ||
		(h.extended == weir->h.base_form && !of_probe))
		return &stats->foreign;
	if (slot->flight.state == WEIR_FLIGHT_IDLE ||
		slot->block != h.block_id) /* a probe may cross the result */
		return of_probe ? NULL : weir_unexpected_take(weir, &h, packet, bytes, now);
	if (weir->h.is_tagged) {
		if (!authentic(weir, slot, &h, packet, bytes))
			return &stats->forged;
		bytes -= WEIR_TAG_BYTES;
	}
	weir->h.heard_at = now;
	weir->h.network_error = 0;
	if (h.status != WEIR_STATUS_OK && h.status != WEIR_STATUS_PARTIAL)
		return take_status(weir, slot, &h, packet + header, bytes - header, now);
	if (!result_fits(weir, slot, &h, bytes - header))
		return &stats->malformed;
	if (result_deliver(weir, slot, &h, packet + header))
		block_answered(weir, slot, now);
	return NULL;
}

bool
weir_receive(struct weir *weir, bool group, uint64_t now)
{
	struct weir_transport *t = weir->h.transport;

	for (int round = 0; round < ROUNDS_MAX; round++) {
		struct weir_rx rx[WEIR_BATCH];
		unsigned int n = t->ops->receive(t, group, rx, WEIR_BATCH);

		if (n == 0)
			return false;
		if (round > 0)
			now = weir_now();
		for (unsigned int i = 0; i < n; i++) {
			uint64_t *counter =
				take(weir, rx[i].from, rx[i].bytes, rx[i].length, rx[i].group, now);

			WEIR_COUNT(&weir->h, packets_received, 1);
			WEIR_COUNT(&weir->h, wire_received, weir_wire_bytes(rx[i].length));
			if (counter != NULL)
				__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
		}
		/* Send after each batch, so that the switch does not wait for the next one. */
		weir_window_repeat(weir, now);
		weir_window_flush(weir, now);
		weir_unexpected_flush(weir, now);
		if (!t->more)
			return false;
	}
	return true;
}

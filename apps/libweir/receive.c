/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/weir_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 16 /* batches before the timers get their turn */

bool
weir_from_switch(const struct weir *weir, const struct sockaddr_in *from, bool *extended)
{
	*extended = from->sin_port == weir->switch_ext.sin_port;
	return from->sin_family == AF_INET &&
		from->sin_addr.s_addr == weir->switch_ext.sin_addr.s_addr &&
		(*extended || from->sin_port == weir->switch_base.sin_port);
}

bool
weir_find_missing(struct weir *weir, struct weir_request *o)
{
	uint8_t *missing = o->result.missing;
	bool dense = true;
	unsigned int known = 0;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		known += weir_bitmap_has(weir->known, s);
		dense = dense && (s < weir->sources || !weir_bitmap_has(weir->known, s));
	}
	memset(missing, 0, WEIR_BITMAP_BYTES);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if ((dense ? s < weir->sources : weir_bitmap_has(weir->known, s)) &&
			!weir_bitmap_has(o->punctual, s))
			missing[s / 8] |= (uint8_t)(1u << s % 8);
	return dense || known == weir->sources;
}

/* Remember a degraded block. False: without memory for the record, where somebody needs it. */
static bool
note_degraded(struct weir *weir, const struct weir_slot *slot, const uint8_t *present)
{
	struct weir_request *o = slot->request;
	unsigned int in = 0;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		in += weir_bitmap_has(present, s);
	weir_note_known(weir, present);
	for (unsigned int i = 0; i < WEIR_BITMAP_BYTES; i++)
		o->punctual[i] = o->result.degraded == 0 ? present[i] : o->punctual[i] & present[i];
	weir_find_missing(weir, o);
	if (in < o->result.sources_least)
		o->result.sources_least = in;
	o->result.degraded++;
	o->result.without_own += !weir_bitmap_has(present, weir->source);
	if (o->degraded_count == o->degraded_room) {
		size_t room = o->degraded_room ? o->degraded_room * 2 : 64;
		struct weir_degraded *more = realloc(o->degraded, room * sizeof(*more));

		if (more == NULL)
			return weir->partial != WEIR_PARTIAL_RESCALE; /* the counts still tell */
		o->degraded = more;
		o->degraded_room = room;
	}
	o->degraded[o->degraded_count].first = slot->shape.first;
	o->degraded[o->degraded_count].count = slot->shape.count;
	memcpy(o->degraded[o->degraded_count++].present, present, WEIR_BITMAP_BYTES);
	return true;
}

/*
 * A result, whole or partial, of a block in flight: everything in it must be as it was sent, and
 * its length exact.
 */
bool
weir_result_fits(const struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	size_t payload)
{
	const struct weir_shape *shape = &slot->shape;
	const struct weir_request *o = slot->request;
	bool partial = h->status == WEIR_STATUS_PARTIAL;

	if (h->degraded != partial || h->grad_cnt != shape->elements ||
		payload != weir_span_bytes(&shape->recv) + (partial ? WEIR_BITMAP_BYTES : 0u))
		return false;
	if (h->extended &&
		(h->collective != shape->collective || h->root != shape->root || h->op != o->op ||
			h->dtype != o->dtype))
		return false;
	return partial || h->src_cnt == (uint8_t)weir->sources;
}

/* To its place in the application's buffer. */
static void
spread(uint8_t *to, const struct weir_span *span, const uint8_t *payload)
{
	for (unsigned int i = 0; i < span->pieces; i++, payload += span->bytes)
		memcpy(to + span->offset + i * span->stride, payload, span->bytes);
}

bool
weir_result_deliver(struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	const uint8_t *payload)
{
	struct weir_request *o = slot->request;
	size_t bytes = weir_span_bytes(&slot->shape.recv);

	if (h->status == WEIR_STATUS_PARTIAL && o->feeds_back &&
		!weir_bitmap_has(payload + bytes, weir->source) &&
		!weir_error_feedback_keep(weir, o, slot->block - o->first,
			slot->payload + slot->shape.send.offset, slot->payload_bytes)) {
		weir_fail(weir,
			weir_explain(weir, -ENOMEM,
				"no memory for error feedback of a contribution that missed its "
				"block"));
		return false;
	}
	spread(o->recv, &slot->shape.recv, payload);
	WEIR_COUNT(weir, payload_received, bytes);
	o->result.completed++;
	if (h->status == WEIR_STATUS_PARTIAL) {
		WEIR_COUNT(weir, results_partial, 1);
		weir->ahead.armed = true;
		if (!note_degraded(weir, slot, payload + bytes)) {
			weir_fail(weir, weir_explain(weir, -ENOMEM, "out of memory"));
			return false;
		}
	} else {
		WEIR_COUNT(weir, results_ok, 1);
	}
	return true;
}

/* A reply that is not a result, to a block in flight. */
static void
take_status(struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	const uint8_t *payload, size_t bytes)
{
	if (h->status == WEIR_STATUS_WAITING) {
		if (bytes != WEIR_BITMAP_BYTES) {
			WEIR_COUNT(weir, malformed, 1);
			return;
		}
		WEIR_COUNT(weir, waiting, 1);
		memcpy(weir->waiting, payload, WEIR_BITMAP_BYTES);
		weir_note_known(weir, payload);
		weir->waiting_block = h->block_id;
		weir->have_waiting = true;
	} else if (h->status > WEIR_STATUS_REFUSED) {
		WEIR_COUNT(weir, malformed, 1);
	} else {
		WEIR_COUNT(weir, results_error, 1);
		weir_fail(weir, weir_explain_status(weir, slot, h, payload, bytes));
	}
}

uint32_t
weir_result_slice(const struct weir *weir, const struct weir_header *h)
{
	bool data = h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL;

	return data && weir_collective_differs(h->collective) ? weir->rank + 1u : 0;
}

/* Is it what the switch says of this block? Statuses of results are under the results' key, others
 * answer the contribution that is in flight. */
static bool
authentic(struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	const uint8_t *packet, size_t bytes)
{
	if (h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL ||
		h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH)
		return weir_auth_result(
			weir->auth, slot->number, weir_result_slice(weir, h), packet, bytes);
	return weir_auth_reply(weir->auth, slot->tag, packet, bytes);
}

static bool
generation_fits(const struct weir *weir, const struct weir_header *h)
{
	return h->status == WEIR_STATUS_REFUSED ||
		(h->gen_id != weir->generation) == (h->status == WEIR_STATUS_STALE);
}

static void
take(struct weir *weir, const struct sockaddr_in *from, const uint8_t *packet, size_t bytes,
	bool multicast, uint64_t now)
{
	struct weir_header h = {0};
	struct weir_slot *slot;
	unsigned int header;

	WEIR_COUNT(weir, packets_received, 1);
	WEIR_COUNT(weir, wire_received, weir_wire_bytes(bytes));
	if (!weir_from_switch(weir, from, &h.extended)) {
		WEIR_COUNT(weir, foreign, 1);
		return;
	}
	header = weir_header_bytes(h.extended);
	if (bytes < header || bytes > weir->inbox.stride) {
		WEIR_COUNT(weir, malformed, 1);
		return;
	}
	weir_header_read(&h, packet);
	/* A stale reply names the job's new generation, a refusal the one of a job that this source is
	 * not in, or none; every other packet must name ours. */
	if (h.job_id != weir->job || (!multicast && h.src_id != weir->source) ||
		!generation_fits(weir, &h) || h.extended == weir->base_form ||
		(h.extended && h.collective == WEIR_COLLECTIVE_JOIN)) {
		WEIR_COUNT(weir, foreign, 1);
		return;
	}
	slot = &weir->ring.slots[h.block_id & (weir->ring.window - 1)];
	if (slot->state == WEIR_SLOT_IDLE || slot->block != h.block_id) {
		weir_ahead_take(weir, &h, packet, bytes, now);
		return;
	}
	if (weir->auth != NULL) {
		if (!authentic(weir, slot, &h, packet, bytes)) {
			WEIR_COUNT(weir, forged, 1);
			return;
		}
		bytes -= WEIR_TAG_BYTES;
	}
	weir->heard_at = now;
	weir->network_error = 0;
	if (h.status != WEIR_STATUS_OK && h.status != WEIR_STATUS_PARTIAL) {
		take_status(weir, slot, &h, packet + header, bytes - header);
	} else if (!weir_result_fits(weir, slot, &h, bytes - header)) {
		WEIR_COUNT(weir, malformed, 1);
	} else if (weir_result_deliver(weir, slot, &h, packet + header)) {
		weir_window_answered(weir, slot, now);
	}
}

void
weir_receive(struct weir *weir, int fd, bool multicast)
{
	struct weir_inbox *in = &weir->inbox;

	for (int round = 0; round < ROUNDS_MAX; round++) {
		uint64_t now;
		int n;

		for (int i = 0; i < WEIR_BATCH; i++) {
			in->messages[i].msg_hdr.msg_namelen = sizeof(in->from[i]);
			in->messages[i].msg_hdr.msg_flags = 0;
		}
		n = recvmmsg(fd, in->messages, WEIR_BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
		if (n <= 0) {
			if (n < 0 && errno != EAGAIN && errno != EINTR)
				weir_socket_drain_errors(weir);
			return;
		}
		now = weir_now();
		for (int i = 0; i < n; i++)
			take(weir, &in->from[i], in->bytes + (size_t)i * in->stride,
				in->messages[i].msg_len, multicast, now);
		/* The window moves with each batch: the switch must not wait for our next one. */
		weir_window_repeat(weir, now);
		weir_window_flush(weir, now);
		weir_ahead_repeat(weir, now);
		weir_ahead_flush(weir, now);
		if (n < WEIR_BATCH)
			return;
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- sending ---- */

#define RETRY_NS (1 * WEIR_NS_PER_MS)

int
weir_ring_create(struct weir_ring *ring, uint32_t window)
{
	ring->slots = calloc(window, sizeof(*ring->slots));
	if (ring->slots == NULL)
		return -ENOMEM;
	ring->window = window;
	ring->gap = WEIR_GAP_FIRST;
	TAILQ_INIT(&ring->ready);
	TAILQ_INIT(&ring->flying);
	weir_rtt_init(&ring->rtt);
	return 0;
}

void
weir_ring_destroy(struct weir_ring *ring)
{
	free(ring->slots);
	ring->slots = NULL;
}

/* Fill the slot of the operation's block `nth`. */
static struct weir_slot *
fill(struct weir *weir, struct weir_request *o, uint32_t nth)
{
	uint32_t block = o->first + nth;
	struct weir_slot *slot = &weir->ring.slots[block & (weir->ring.window - 1)];
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
		.flags = weir->h.tagged ? WEIR_FLAG_AUTHENTICATED : 0,
	};

	weir_geometry_block(&o->geometry, nth, shape);
	h.grad_cnt = shape->elements;
	h.collective = shape->collective;
	h.root = shape->root;
	slot->request = o;
	slot->block = block;
	slot->tries = 0;
	slot->by_gap = false;
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

/* The pieces of the slot's datagram: the payload's, and at most 2 more. */
static unsigned int
gather(struct weir_slot *slot, struct iovec *vectors)
{
	const struct weir_span *span = &slot->shape.send;
	unsigned int n = 1;

	vectors[0] = (struct iovec){slot->header, slot->header_bytes};
	/* iovec has no const; what is sent is only read */
	for (unsigned int i = 0; i < span->pieces; i++)
		if (weir_span_has(span, i))
			vectors[n++] = (struct iovec){(void *)(uintptr_t)(slot->payload +
							      span->offset + i * span->stride),
				span->bytes};
	if (slot->tag_bytes != 0)
		vectors[n++] = (struct iovec){slot->tag, slot->tag_bytes};
	return n;
}

/* Make the slot ready to send. */
static void
load(struct weir *weir, struct weir_slot *slot)
{
	slot->tag_bytes = 0;
	if (weir->h.tagged) {
		struct iovec *vectors = weir->outbox->vectors;

		/* Without memory the tag is wrong, and the block times out. */
		weir_auth_tag(weir->h.auth, WEIR_IV_CONTRIBUTION, slot->number, vectors,
			gather(slot, vectors), slot->tag);
		slot->tag_bytes = WEIR_TAG_BYTES;
	}
	slot->state = WEIR_SLOT_READY;
	TAILQ_INSERT_TAIL(&weir->ring.ready, slot, link);
}

/* ---- results ---- */

/*
 * Does the result, whole or partial, fit the block in flight: all header fields, and the exact length?
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
	if (h->extended &&
		(h->collective != shape->collective || h->root != shape->root || h->op != o->op ||
			h->dtype != o->dtype))
		return false;
	return partial || h->src_cnt == (uint8_t)weir->h.sources;
}

/* Copy the result into the application's buffer, and the own slice, which did not come. */
static void
spread(const struct weir_request *o, const struct weir_shape *shape, const uint8_t *payload)
{
	const struct weir_span *span = &shape->recv;
	const struct weir_own *own = &shape->own;

	for (unsigned int i = 0; i < span->pieces; i++)
		if (weir_span_has(span, i)) {
			memcpy(o->recv + span->offset + i * span->stride, payload, span->bytes);
			payload += span->bytes;
		}
	if (own->bytes != 0 && o->recv + own->to != o->send + own->from)
		memcpy(o->recv + own->to, o->send + own->from, own->bytes);
}

static bool
result_deliver(struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	const uint8_t *payload)
{
	struct weir_request *o = slot->request;
	size_t bytes = weir_span_bytes(&slot->shape.recv);

	if (h->status == WEIR_STATUS_PARTIAL && o->feeds_back &&
		!weir_bitmap_has(payload + bytes, weir->h.source) &&
		!weir_error_feedback_keep(&weir->h, o, slot->block - o->first,
			slot->payload + slot->shape.send.offset, slot->payload_bytes)) {
		weir_fail(weir,
			weir_error_set(&weir->h, -ENOMEM,
				"no memory for error feedback of a contribution that missed its "
				"block"));
		return false;
	}
	spread(o, &slot->shape, payload);
	WEIR_COUNT(&weir->h, payload_received, bytes);
	o->result.completed++;
	if (h->status == WEIR_STATUS_PARTIAL) {
		WEIR_COUNT(&weir->h, results_partial, 1);
		weir->unexpected.armed = true;
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
 * Continue the slot with this block of operation o. Blocks whose results have already arrived are delivered; the
 * first other one is made ready. False: all operations have failed.
 */
static bool
go_on(struct weir *weir, struct weir_request *o, uint64_t number)
{
	while (o != NULL) {
		struct weir_slot *slot = fill(weir, o, (uint32_t)(number - o->number));
		struct weir_request *next = owner(o, number += weir->ring.window);
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
	struct weir_ring *r = &weir->ring;
	uint32_t blocks = o->blocks < r->window ? o->blocks : r->window;
	uint64_t number = o->number;
	uint32_t first = o->first;

	weir_unexpected_begin(weir, o);
	/* A busy slot continues with this operation's block when its own is done. */
	for (uint32_t nth = 0; nth < blocks; nth++)
		if (r->slots[(first + nth) & (r->window - 1)].state == WEIR_SLOT_IDLE &&
			!go_on(weir, o, number + nth))
			return false;
	return true;
}

static void
repeat(struct weir_ring *r, struct weir_slot *slot, bool by_gap)
{
	TAILQ_REMOVE(&r->flying, slot, link);
	slot->state = WEIR_SLOT_READY;
	slot->by_gap = by_gap;
	TAILQ_INSERT_TAIL(&r->ready, slot, link);
}

/* Update the estimates of the network from a result. */
static void
sample(struct weir *weir, const struct weir_slot *slot, uint64_t now)
{
	struct weir_ring *r = &weir->ring;
	uint64_t ago = now > slot->sent_at ? now - slot->sent_at : 1;

	r->allowance = r->allowance + 2 < r->window ? r->allowance + 2 : r->window;
	if (slot->tries == 1) { /* Karn: otherwise it is unknown which transmission was answered */
		weir_rtt_sample(&r->rtt, ago);
		if (slot->transmission > r->answered)
			r->answered = slot->transmission;
		WEIR_SET(&weir->h, srtt_ns, r->rtt.srtt);
	} else if (slot->by_gap && ago < r->rtt.srtt / 4) {
		r->gap = r->gap * 2 < r->window ? r->gap * 2 : r->window;
	}
	weir_rtt_answered(&r->rtt);
	WEIR_SET(&weir->h, rto_ns, r->rtt.rto);
}

/* The block of the slot has its result. False: all operations have failed. */
static bool
block_answered(struct weir *weir, struct weir_slot *slot, uint64_t now)
{
	struct weir_ring *r = &weir->ring;
	struct weir_request *o = slot->request, *next = owner(o, slot->number + r->window);
	uint64_t number = slot->number + r->window;

	/* The answer to an earlier transmission may arrive before a repetition is sent. */
	if (slot->state == WEIR_SLOT_FLYING) {
		TAILQ_REMOVE(&r->flying, slot, link);
		sample(weir, slot, now);
	} else {
		TAILQ_REMOVE(&r->ready, slot, link);
	}
	slot->state = WEIR_SLOT_IDLE;
	if (slot->block == weir->h.waiting_block)
		weir->h.have_waiting = false;
	weir->progressed = now;
	count_done(weir, o);
	return go_on(weir, next, number);
}

void
weir_window_repeat(struct weir *weir, uint64_t now)
{
	struct weir_ring *r = &weir->ring;
	struct weir_slot *slot;
	uint64_t rto = r->rtt.rto;

	while ((slot = TAILQ_FIRST(&r->flying)) != NULL &&
		slot->transmission + r->gap <= r->answered) {
		WEIR_COUNT(&weir->h, gaps, 1);
		repeat(r, slot, true);
	}
	while ((slot = TAILQ_FIRST(&r->flying)) != NULL && slot->sent_at + rto <= now) {
		if (r->allowance == 0) {
			if (now < r->probe_at)
				break;
			weir_rtt_back_off(&r->rtt);
			WEIR_SET(&weir->h, rto_ns, r->rtt.rto);
			r->allowance = WEIR_PROBE;
			r->probe_at = now + r->rtt.rto;
		}
		r->allowance--;
		WEIR_COUNT(&weir->h, timeouts, 1);
		repeat(r, slot, false);
	}
}

uint64_t
weir_window_due(const struct weir *weir)
{
	const struct weir_ring *r = &weir->ring;
	const struct weir_slot *slot = TAILQ_FIRST(&r->flying);
	uint64_t due = UINT64_MAX;

	if (slot != NULL) {
		due = slot->sent_at + r->rtt.rto;
		if (r->allowance == 0 && due < r->probe_at)
			due = r->probe_at;
	}
	if (r->retry_at != 0 && r->retry_at < due)
		due = r->retry_at;
	return due;
}

static size_t
datagram_bytes(const struct weir_slot *slot)
{
	return slot->header_bytes + slot->payload_bytes + slot->tag_bytes;
}

/* The transport refused the first packet. */
static void
send_refused(struct weir *weir, int error, const struct weir_slot *slot, uint64_t now)
{
	struct weir_ring *r = &weir->ring;

	WEIR_COUNT(&weir->h, send_errors, 1);
	if (error == EAGAIN) {
		r->want_write = true;
	} else if (error == EINTR || error == ENOBUFS || error == ENOMEM) {
		r->retry_at = now + RETRY_NS;
	} else if (weir_soft_error(error)) {
		weir->h.network_error = error;
		weir_address_refused(weir, error);
		weir_take_errors(weir);
		r->retry_at = now + RETRY_NS;
	} else if (error == EMSGSIZE) {
		weir_fail(
			weir, weir_error_mtu(&weir->h, slot->shape.elements, datagram_bytes(slot)));
	} else {
		weir_fail(weir,
			weir_error_set(&weir->h, -error, "cannot send to the switch: %s",
				strerror(error)));
	}
}

static void
sent(struct weir *weir, struct weir_slot *slot, uint64_t now)
{
	struct weir_ring *r = &weir->ring;

	TAILQ_REMOVE(&r->ready, slot, link);
	slot->state = WEIR_SLOT_FLYING;
	slot->sent_at = now;
	slot->transmission = ++r->transmissions;
	if (slot->tries++ != 0)
		WEIR_COUNT(&weir->h, retransmissions, 1);
	TAILQ_INSERT_TAIL(&r->flying, slot, link);
	WEIR_COUNT(&weir->h, packets_sent, 1);
	WEIR_COUNT(&weir->h, payload_sent, slot->payload_bytes);
	WEIR_COUNT(&weir->h, wire_sent, weir_wire_bytes(datagram_bytes(slot)));
}

in_port_t
weir_port(const struct weir *weir, bool extended, uint32_t block, bool repetition)
{
	const struct weir_handle *h = &weir->h;
	in_port_t own = extended ? h->switch_ext.sin_port : h->switch_base.sin_port;

	if (repetition || h->more_ports == 0)
		return own;
	return htons(weir_block_port(ntohs(own), h->more_ports + 1u, h->job, h->window_job, block));
}

void
weir_address_refused(struct weir *weir, int error)
{
	if (error == EPERM || error == EINVAL)
		weir->h.more_ports = 0;
}

/* Pack the ready slots that go to this port; 0: any. *used: vectors. Returns how many there are then. */
static unsigned int
pack(struct weir *weir, in_port_t port, unsigned int n, unsigned int *used)
{
	struct weir_outbox *out = weir->outbox;
	struct weir_slot *slot;

	TAILQ_FOREACH (slot, &weir->ring.ready, link) {
		in_port_t to = weir_port(weir, !weir->h.base_form, slot->block, slot->tries != 0);
		struct weir_tx *tx = &out->tx[n];

		if (n == WEIR_SENDS || *used + slot->shape.send.pieces + 2 > WEIR_VECTORS)
			break;
		if (port != 0 && to != port)
			continue;
		*tx = (struct weir_tx){
			.pieces = &out->vectors[*used],
			.count = gather(slot, &out->vectors[*used]),
			.lasting = slot->shape.send.pieces,
			.bytes = (uint32_t)datagram_bytes(slot),
			.port = to,
		};
		out->slots[n++] = slot;
		*used += tx->count;
	}
	return n;
}

/* Pack a batch of ready slots. Those to one port follow each other, so that a transport may send them as one. */
static unsigned int
pack_all(struct weir *weir)
{
	const struct weir_handle *h = &weir->h;
	in_port_t own = h->base_form ? h->switch_base.sin_port : h->switch_ext.sin_port;
	unsigned int used = 0, n = 0;

	if (h->more_ports == 0)
		return pack(weir, 0, 0, &used);
	for (unsigned int i = 0; i <= h->more_ports; i++)
		n = pack(weir, htons((uint16_t)(ntohs(own) + 2 * i)), n, &used);
	return n;
}

void
weir_window_flush(struct weir *weir, uint64_t now)
{
	struct weir_transport *t = weir->h.transport;
	struct weir_ring *r = &weir->ring;

	if (r->want_write || (r->retry_at != 0 && now < r->retry_at))
		return;
	r->retry_at = 0;
	while (!TAILQ_EMPTY(&r->ready)) {
		int done = t->ops->send(t, weir->outbox->tx, pack_all(weir));

		if (done < 0) {
			send_refused(weir, -done, weir->outbox->slots[0], now);
			return;
		}
		weir->h.spoke_at = now;
		for (int i = 0; i < done; i++)
			sent(weir, weir->outbox->slots[i], now);
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
take_status(struct weir *weir, const struct weir_slot *slot, const struct weir_header *reply,
	const uint8_t *payload, size_t bytes)
{
	struct weir_handle *h = &weir->h;

	if (reply->status > WEIR_STATUS_REFUSED ||
		(reply->status == WEIR_STATUS_WAITING && bytes != WEIR_BITMAP_BYTES))
		return &h->stats.malformed;
	if (reply->status == WEIR_STATUS_WAITING) {
		memcpy(h->waiting, payload, WEIR_BITMAP_BYTES);
		weir_note_known(h, payload);
		h->waiting_block = reply->block_id;
		h->have_waiting = true;
		return &h->stats.waiting;
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

/* Verify the tag. Results, also failed ones, have tags of the results' key; other replies answer the contribution in
 * flight. */
static bool
authentic(struct weir *weir, const struct weir_slot *slot, const struct weir_header *h,
	const uint8_t *packet, size_t bytes)
{
	if (h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL ||
		h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH)
		return weir_auth_result(
			weir->h.auth, slot->number, weir_result_slice(weir, h), packet, bytes);
	return weir_auth_reply(weir->h.auth, slot->tag, packet, bytes);
}

static bool
generation_fits(const struct weir *weir, const struct weir_header *h)
{
	return h->status == WEIR_STATUS_REFUSED ||
		(h->gen_id != weir->h.generation) == (h->status == WEIR_STATUS_STALE);
}

/* Handle an answer to the join that began the generation: the join was repeated, or a newer join has displaced it.
 * Returns its counter, or NULL. */
static uint64_t *
take_join_reply(struct weir *weir, const struct weir_header *reply, const uint8_t *packet,
	size_t bytes, uint64_t now)
{
	struct weir_handle *h = &weir->h;

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
	if (reply->status != WEIR_STATUS_DISPLACED ||
		bytes != WEIR_EXT_BYTES + sizeof(struct weir_displaced))
		return &h->stats.foreign;
	/* Also while no operation is under way: the next one fails. */
	if (weir->failed == 0)
		weir_fail(weir, weir_error_displaced(h, packet + WEIR_EXT_BYTES));
	return &h->stats.results_error;
}

/* Handle a packet. Returns the counter of one that is no result of a block in flight; NULL: it is counted. */
static uint64_t *
take(struct weir *weir, const struct sockaddr_in *from, const uint8_t *packet, size_t bytes,
	bool multicast, uint64_t now)
{
	struct weir_stats *stats = &weir->h.stats;
	struct weir_header h = {0};
	struct weir_slot *slot;
	unsigned int header;

	if (!weir_from_switch(weir, from, &h.extended))
		return &stats->foreign;
	header = weir_header_bytes(h.extended);
	if (bytes < header || bytes > weir->longest)
		return &stats->malformed;
	weir_header_read(&h, packet);
	/* A stale reply names the job's new generation. A refusal names any generation or none. Every other
	 * packet but a reply to the join must name this handle's generation. */
	if (h.job_id != weir->h.job || (!multicast && h.src_id != weir->h.source))
		return &stats->foreign;
	if (h.extended && h.collective == WEIR_COLLECTIVE_JOIN)
		return take_join_reply(weir, &h, packet, bytes, now);
	if (!generation_fits(weir, &h) || h.extended == weir->h.base_form)
		return &stats->foreign;
	slot = &weir->ring.slots[h.block_id & (weir->ring.window - 1)];
	if (slot->state == WEIR_SLOT_IDLE || slot->block != h.block_id)
		return weir_unexpected_take(weir, &h, packet, bytes, now);
	if (weir->h.tagged) {
		if (!authentic(weir, slot, &h, packet, bytes))
			return &stats->forged;
		bytes -= WEIR_TAG_BYTES;
	}
	weir->h.heard_at = now;
	weir->h.network_error = 0;
	if (h.status != WEIR_STATUS_OK && h.status != WEIR_STATUS_PARTIAL)
		return take_status(weir, slot, &h, packet + header, bytes - header);
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
		weir_unexpected_repeat(weir, now);
		weir_unexpected_flush(weir, now);
		if (n < WEIR_BATCH)
			return false;
	}
	return true;
}

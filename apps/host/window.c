/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/host/weir_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Put block number `nth` of the current operation into its slot. */
static struct weir_slot *
fill(struct weir *weir, uint32_t nth)
{
	const struct weir_operation *o = weir->current;
	uint32_t block = o->first + nth;
	struct weir_slot *slot = &weir->ring.slots[block & (weir->ring.window - 1)];
	size_t begin = (size_t)nth * o->per_block;
	size_t count = o->count - begin < o->per_block ? o->count - begin : o->per_block;
	struct weir_header h = {
		.extended = !weir->base_form,
		.job_id = weir->job,
		.src_id = weir->source,
		.block_id = block,
		.gen_id = weir->generation,
		.grad_cnt = (uint16_t)count,
		.final = nth + 1 == o->blocks,
		.collective = o->collective,
		.op = o->op,
		.dtype = o->dtype,
		.flags = weir->auth != NULL ? WEIR_FLAG_AUTHENTICATED : 0,
	};

	slot->block = block;
	slot->tries = 0;
	slot->by_gap = false;
	slot->header_bytes = (uint8_t)weir_header_write(&h, slot->header);
	slot->payload_bytes = (uint32_t)(count * o->element_bytes);
	slot->payload = weir_carry_payload(o, nth);
	if (slot->payload == NULL)
		slot->payload = slot->payload_bytes ? o->send + begin * o->element_bytes : NULL;
	slot->number = o->number + nth;
	return slot;
}

/* Make it ready. */
static void
load(struct weir *weir, struct weir_slot *slot)
{
	slot->tag_bytes = 0;
	if (weir->auth != NULL) {
		/* Without memory for it the tag is wrong, and the block times out. */
		weir_auth_contribution(weir->auth, slot->number, slot->header, slot->payload,
			slot->payload_bytes, slot->tag);
		slot->tag_bytes = WEIR_TAG_BYTES;
	}
	slot->state = WEIR_SLOT_READY;
	TAILQ_INSERT_TAIL(&weir->ring.ready, slot, link);
}

/*
 * The slot goes on with block number `nth`: over those whose result is there already, to one that has to
 * be sent. False: the operation has ended.
 */
static bool
go_on(struct weir *weir, uint32_t nth)
{
	struct weir_operation *o = weir->current;

	for (; nth < o->blocks; nth += weir->ring.window) {
		struct weir_slot *slot = fill(weir, nth);
		const struct weir_header *h;
		const uint8_t *payload;
		size_t bytes;

		h = weir_ahead_first(weir, slot->block, &payload, &bytes);
		if (h == NULL) {
			load(weir, slot);
			return true;
		}
		if (!weir_result_fits(weir, slot, h, bytes)) {
			weir_finish(weir, weir_explain_ahead(weir, slot, h));
			return false;
		}
		if (!weir_result_deliver(weir, slot, h, payload))
			return false;
		weir_ahead_delivered(weir, slot->block);
		o->done++;
	}
	if (o->done < o->blocks)
		return true;
	weir_finish(weir, weir->result.degraded ? weir_explain_partial(weir) : 0);
	return false;
}

void
weir_window_begin(struct weir *weir)
{
	struct weir_ring *r = &weir->ring;
	uint32_t blocks = weir->current->blocks;

	r->allowance = 0;
	r->probe_at = 0;
	r->retry_at = 0;
	r->want_write = false;
	weir_ahead_begin(weir);
	for (uint32_t nth = 0; nth < blocks && nth < r->window; nth++)
		if (!go_on(weir, nth))
			return;
}

static void
repeat(struct weir_ring *r, struct weir_slot *slot, bool by_gap)
{
	TAILQ_REMOVE(&r->flying, slot, link);
	slot->state = WEIR_SLOT_READY;
	slot->by_gap = by_gap;
	TAILQ_INSERT_TAIL(&r->ready, slot, link);
}

/* Learn from a result what the network does. */
static void
learn(struct weir *weir, const struct weir_slot *slot, uint64_t now)
{
	struct weir_ring *r = &weir->ring;
	uint64_t ago = now > slot->sent_at ? now - slot->sent_at : 1;

	r->allowance = r->allowance + 2 < r->window ? r->allowance + 2 : r->window;
	if (slot->tries == 1) { /* Karn's rule: else who knows which transmission was answered */
		weir_rtt_sample(&r->rtt, ago);
		if (slot->transmission > r->answered)
			r->answered = slot->transmission;
		WEIR_SET(weir, srtt_ns, r->rtt.srtt);
	} else if (slot->by_gap && ago < r->rtt.srtt / 4) {
		r->gap = r->gap * 2 < r->window ? r->gap * 2 : r->window;
	}
	weir_rtt_answered(&r->rtt);
	WEIR_SET(weir, rto_ns, r->rtt.rto);
}

bool
weir_window_answered(struct weir *weir, struct weir_slot *slot, uint64_t now)
{
	struct weir_ring *r = &weir->ring;
	struct weir_operation *o = weir->current;
	uint32_t next = slot->block - o->first + r->window;

	/* The answer to an earlier transmission may overtake a repetition that is only ready. */
	if (slot->state == WEIR_SLOT_FLYING) {
		TAILQ_REMOVE(&r->flying, slot, link);
		learn(weir, slot, now);
	} else {
		TAILQ_REMOVE(&r->ready, slot, link);
	}
	slot->state = WEIR_SLOT_IDLE;
	if (slot->block == weir->waiting_block)
		weir->have_waiting = false;
	o->done++;
	o->progressed = now;
	return go_on(weir, next);
}

void
weir_window_repeat(struct weir *weir, uint64_t now)
{
	struct weir_ring *r = &weir->ring;
	struct weir_slot *slot;
	uint64_t rto = r->rtt.rto;

	while ((slot = TAILQ_FIRST(&r->flying)) != NULL &&
		slot->transmission + r->gap <= r->answered) {
		WEIR_COUNT(weir, gaps, 1);
		repeat(r, slot, true);
	}
	while ((slot = TAILQ_FIRST(&r->flying)) != NULL && slot->sent_at + rto <= now) {
		if (r->allowance == 0) {
			if (now < r->probe_at)
				break;
			weir_rtt_back_off(&r->rtt);
			WEIR_SET(weir, rto_ns, r->rtt.rto);
			r->allowance = WEIR_PROBE;
			r->probe_at = now + r->rtt.rto;
		}
		r->allowance--;
		WEIR_COUNT(weir, timeouts, 1);
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

/* The kernel refused the first of the ready packets. */
static void
send_refused(struct weir *weir, int error, size_t datagram, uint64_t now)
{
	struct weir_ring *r = &weir->ring;

	WEIR_COUNT(weir, send_errors, 1);
	if (error == EAGAIN) {
		r->want_write = true;
	} else if (error == EINTR || error == ENOBUFS || error == ENOMEM) {
		r->retry_at = now + RETRY_NS;
	} else if (weir_socket_soft_error(error)) {
		weir->network_error = error;
		weir_socket_drain_errors(weir);
		r->retry_at = now + RETRY_NS;
	} else if (error == EMSGSIZE) {
		weir_finish(weir, weir_explain_size(weir, datagram));
	} else {
		weir_finish(weir,
			weir_explain(
				weir, -error, "cannot send to the switch: %s", strerror(error)));
	}
}

static size_t
datagram_bytes(const struct weir_slot *slot)
{
	return slot->header_bytes + slot->payload_bytes + slot->tag_bytes;
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
		WEIR_COUNT(weir, retransmissions, 1);
	TAILQ_INSERT_TAIL(&r->flying, slot, link);
	WEIR_COUNT(weir, packets_sent, 1);
	WEIR_COUNT(weir, payload_sent, slot->payload_bytes);
	WEIR_COUNT(weir, wire_sent, weir_wire_bytes(datagram_bytes(slot)));
}

void
weir_window_flush(struct weir *weir, uint64_t now)
{
	struct weir_ring *r = &weir->ring;
	struct sockaddr_in *to = weir->base_form ? &weir->switch_base : &weir->switch_ext;
	struct mmsghdr messages[WEIR_BATCH];
	struct iovec vectors[WEIR_BATCH][3];

	if (r->want_write || (r->retry_at != 0 && now < r->retry_at))
		return;
	r->retry_at = 0;
	while (!TAILQ_EMPTY(&r->ready)) {
		struct weir_slot *slot;
		unsigned int n = 0;
		int done;

		TAILQ_FOREACH (slot, &r->ready, link) {
			if (n == WEIR_BATCH)
				break;
			vectors[n][0] = (struct iovec){slot->header, slot->header_bytes};
			/* iovec has no const; sendmmsg only reads */
			vectors[n][1] = (struct iovec){
				(void *)(uintptr_t)slot->payload, slot->payload_bytes};
			vectors[n][2] = (struct iovec){slot->tag, slot->tag_bytes};
			messages[n].msg_hdr = (struct msghdr){
				.msg_name = to,
				.msg_namelen = sizeof(*to),
				.msg_iov = vectors[n],
				.msg_iovlen = slot->tag_bytes ? 3
					: slot->payload_bytes ? 2
							      : 1,
			};
			n++;
		}
		done = sendmmsg(weir->fd, messages, n, MSG_DONTWAIT);
		if (done <= 0) {
			slot = TAILQ_FIRST(&r->ready);
			send_refused(weir, done < 0 ? errno : EAGAIN, datagram_bytes(slot), now);
			return;
		}
		while (done-- > 0)
			sent(weir, TAILQ_FIRST(&r->ready), now);
	}
}

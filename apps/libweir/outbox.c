/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes datagrams of ready slots, and sends them in batches. */
#include "apps/libweir/engine.h"

#include <errno.h>
#include <string.h>

#include "pktbuf/wire/crc32c.h"

#define RETRY_NS (1 * WEIR_NS_PER_MS)

unsigned int
weir_slot_pieces(struct weir_slot *slot, struct iovec *vectors)
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

static size_t
datagram_bytes(const struct weir_slot *slot)
{
	return slot->header_bytes + slot->payload_bytes + slot->tag_bytes;
}

/* The transport refused the first packet. */
static void
send_refused(struct weir *weir, int error, const struct weir_slot *slot, uint64_t now)
{
	struct weir_recovery *r = &weir->ring.recovery;
	size_t bytes = datagram_bytes(slot);

	WEIR_COUNT(&weir->h, send_errors, 1);
	if (error == EAGAIN) {
		weir->ring.wants_write = true;
	} else if (error == EINTR || error == ENOBUFS || error == ENOMEM) {
		r->retry_at = now + RETRY_NS;
	} else if (weir_soft_error(error)) {
		weir->h.network_error = error;
		weir_address_refused(weir, error);
		weir_take_errors(weir);
		r->retry_at = now + RETRY_NS;
	} else if (error == EMSGSIZE) {
		weir_fail(weir,
			weir_error_set(&weir->h, -error,
				"a block of %zu bytes (%u elements and the header), %zu with IP "
				"and UDP, does not fit the MTU of the interface: raise the MTU to "
				"at least that, on the switch's side too, or lower the job's "
				"`elements`",
				bytes, slot->shape.elements, bytes + 28));
	} else {
		weir_fail(weir,
			weir_error_set(&weir->h, -error, "cannot send to the switch: %s",
				strerror(error)));
	}
}

static void
sent(struct weir *weir, struct weir_slot *slot, uint64_t now)
{
	bool is_probe = slot->flight.is_probe;

	weir_flight_sent(&weir->ring.recovery, &slot->flight, now);
	if (is_probe) {
		WEIR_COUNT(&weir->h, probes, 1);
		return;
	}
	if (slot->flight.tries != 1)
		WEIR_COUNT(&weir->h, retransmissions, 1);
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

size_t
weir_note_write(const struct weir *weir, uint8_t collective, uint32_t block, uint8_t iv,
	uint64_t number, uint8_t *packet)
{
	const struct weir_header h = {
		.extended = true,
		.job_id = weir->h.job,
		.src_id = weir->h.source,
		.block_id = block,
		.gen_id = weir->h.generation,
		.collective = collective,
		.flags = weir_packet_flags(&weir->h),
	};
	size_t bytes = weir_header_write(&h, packet);

	if (weir->h.has_crc) {
		weir_crc32c_put(packet + bytes, weir_crc32c(0, packet, bytes));
		return bytes + WEIR_CRC_BYTES;
	}
	if (!weir->h.is_tagged)
		return bytes;
	weir_auth_tag(weir->h.auth, iv, number, &(struct iovec){packet, bytes}, 1, packet + bytes);
	return bytes + WEIR_TAG_BYTES;
}

/* Append the ready slots that go to this port (0: to any) to a batch of n. *used: vectors in use.
 * Returns the new size of the batch. */
static unsigned int
pack(struct weir *weir, in_port_t port, unsigned int n, unsigned int *used)
{
	struct weir_outbox *out = weir->outbox;
	struct weir_flight *f;

	TAILQ_FOREACH (f, &weir->ring.recovery.ready, link) {
		struct weir_slot *slot = weir_slot_of(f);
		/* A probe goes to the port of the last contribution. */
		in_port_t to = weir_port(weir, f->is_probe || !weir->h.base_form, slot->block,
			f->tries > f->is_probe);
		struct iovec *pieces = &out->vectors[*used];

		if (n == WEIR_SENDS || *used + slot->shape.send.pieces + 2 > WEIR_VECTORS)
			break;
		if (port != 0 && to != port)
			continue;
		out->tx[n] = (struct weir_tx){.pieces = pieces, .port = to};
		if (f->is_probe) {
			out->tx[n].count = 1;
			out->tx[n].bytes = (uint32_t)weir_note_write(weir, WEIR_COLLECTIVE_PROBE,
				slot->block, WEIR_IV_PROBE, slot->number, out->notes[n]);
			*pieces = (struct iovec){out->notes[n], out->tx[n].bytes};
		} else {
			out->tx[n].count = weir_slot_pieces(slot, pieces);
			out->tx[n].lasting = out->tx[n].count - 1 - (slot->tag_bytes != 0);
			out->tx[n].bytes = (uint32_t)datagram_bytes(slot);
		}
		*used += out->tx[n].count;
		out->slots[n++] = slot;
	}
	return n;
}

static in_port_t
nth_port(const struct sockaddr_in *first, unsigned int n)
{
	return htons((uint16_t)(ntohs(first->sin_port) + 2 * n));
}

/* Pack a batch of ready slots. Slots to one port follow each other, so that a transport may send
 * them as one message. */
static unsigned int
pack_all(struct weir *weir)
{
	const struct weir_handle *h = &weir->h;
	unsigned int used = 0, n = 0;

	if (h->more_ports == 0)
		return pack(weir, 0, 0, &used);
	for (unsigned int i = 0; i <= h->more_ports; i++) {
		n = pack(weir, nth_port(&h->switch_ext, i), n, &used);
		if (h->base_form)
			n = pack(weir, nth_port(&h->switch_base, i), n, &used);
	}
	return n;
}

void
weir_window_flush(struct weir *weir, uint64_t now)
{
	struct weir_transport *t = weir->h.transport;
	struct weir_recovery *r = &weir->ring.recovery;

	if (weir->ring.wants_write || now < r->retry_at)
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

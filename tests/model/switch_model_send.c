/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/switch_model_priv.h"

#include <string.h>

#define PACKET_MAX (WEIR_EXT_BYTES + WEIR_ELEMENTS_MAX * 8 + WEIR_BITMAP_BYTES)

static void
emit(struct model *m, const struct model_peer *to, bool multicast, const struct weir_header *h,
	const void *payload, size_t size, const struct set *bitmap)
{
	uint8_t bytes[PACKET_MAX];
	size_t used = weir_header_write(h, bytes);
	struct model_packet packet = {
		.to = *to, .multicast = multicast, .extended = h->extended, .bytes = bytes};

	if (size != 0)
		memcpy(bytes + used, payload, size);
	used += size;
	if (bitmap != NULL) {
		memcpy(bytes + used, bitmap->bits, WEIR_BITMAP_BYTES);
		used += WEIR_BITMAP_BYTES;
	}
	packet.size = used;
	m->count.results++;
	m->send(m->argument, &packet);
}

void
model_reply(struct model *m, const struct model_peer *to, const struct weir_header *to_what,
	uint8_t status, const struct set *bitmap)
{
	struct weir_header h = *to_what;

	h.status = status;
	h.gen_id = m->generation;
	h.grad_cnt = 0;
	h.flags = 0;
	h.degraded = bitmap != NULL;
	/* A join is told how many are waited for, and what is stale why. */
	h.src_cnt = h.collective == WEIR_COLLECTIVE_JOIN && bitmap != NULL ? (uint8_t)m->c.sources
		: status == WEIR_STATUS_STALE && m->generation == 0        ? WEIR_OVER_NONE
									   : WEIR_OVER_UNSAID;
	emit(m, to, false, &h, NULL, 0, bitmap);
}

void
model_displaced(struct model *m, uint8_t source, const struct joined *former,
	const struct model_peer *newer)
{
	struct weir_displaced displaced;
	const struct weir_header h = {
		.extended = true,
		.job_id = m->c.job,
		.src_id = source,
		.block_id = former->nonce,
		.collective = WEIR_COLLECTIVE_JOIN,
		.status = WEIR_STATUS_DISPLACED,
	};

	weir_put32(displaced.address, newer->address);
	weir_put16(displaced.port, newer->port);
	memcpy(displaced.mac, newer->mac, sizeof(displaced.mac));
	emit(m, &former->peer, false, &h, &displaced, sizeof(displaced), NULL);
}

/* To one source, or to the group (source < 0), in this form. */
static void
send_result(struct model *m, const struct block *b, int source, const struct model_peer *to,
	bool extended)
{
	struct weir_header h = b->first;
	bool data = b->status == WEIR_STATUS_OK || b->status == WEIR_STATUS_PARTIAL;
	bool late = b->status == WEIR_STATUS_PARTIAL || b->status == WEIR_STATUS_ERROR;
	uint8_t part[WEIR_ELEMENTS_MAX * 8];
	const void *payload = data ? (const void *)part : &b->mismatch;
	/* What goes to the group is the same for all. */
	size_t size = data ? model_payload(m, b, source < 0 ? 0 : (unsigned int)source, part) : 0;

	if (b->status == WEIR_STATUS_MISMATCH)
		size = sizeof(b->mismatch);
	h.extended = extended;
	h.status = b->status;
	h.gen_id = m->generation;
	h.src_id = source < 0 ? 0 : (uint8_t)source;
	h.src_cnt = (uint8_t)set_count(&b->in);
	h.final = b->final;
	h.degraded = late;
	h.flags = 0;
	if (!data)
		h.grad_cnt = 0;
	emit(m, to, source < 0, &h, payload, size, late ? &b->in : NULL);
}

void
model_send_result(struct model *m, const struct block *b, unsigned int source,
	const struct model_peer *to, bool extended)
{
	send_result(m, b, (int)source, to, extended);
}

void
model_send_to_all(struct model *m, const struct block *b)
{
	bool group[2][256] = {{false}}; /* by form and link */

	for (unsigned int s = 0; s < m->c.sources; s++) {
		const struct joined *j = &m->running[s];

		if (!j->valid)
			continue;
		if (m->c.group == 0 || !model_same_for_all(m, b))
			send_result(m, b, (int)s, &j->peer, !j->base_results);
		group[!j->base_results][j->peer.link] = true;
	}
	for (unsigned int i = 0; m->c.group != 0 && model_same_for_all(m, b) && i < 2 * 256; i++) {
		/* The port is the form's own: who runs the model knows it. */
		const struct model_peer to = {.address = m->c.group, .link = (uint8_t)i};

		if (group[i / 256][i % 256])
			send_result(m, b, -1, &to, i / 256 != 0);
	}
}

static size_t
put_setting(uint8_t *to, uint8_t type, uint8_t bytes, uint32_t value)
{
	if (value == 0)
		return 0;
	to[0] = type;
	to[1] = bytes;
	for (unsigned int i = 0; i < bytes; i++)
		to[2 + i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
	return 2u + bytes;
}

void
model_accept_join(struct model *m, uint8_t source)
{
	const struct joined *j = &m->running[source];
	uint8_t payload[128];
	size_t bytes = sizeof(struct weir_join_reply) + 2;
	struct weir_join_reply r = {0};
	struct weir_header h = {
		.extended = true,
		.job_id = m->c.job,
		.src_id = source,
		.root = source, /* ids are [0, sources) */
		.block_id = j->nonce,
		.gen_id = m->generation,
		.collective = WEIR_COLLECTIVE_JOIN,
		.src_cnt = (uint8_t)m->c.sources,
		.status = WEIR_STATUS_OK,
	};

	weir_put16(r.window, (uint16_t)m->c.window);
	weir_put16(r.elements,
		(uint16_t)(m->c.elements | (m->c.full_rows ? 0x1000u : 0) |
			(j->asks_list ? 0x2000u : 0)));
	weir_put16(r.sources, (uint16_t)m->c.sources);
	r.dtype_op = (uint8_t)((unsigned int)m->c.dtype << 4 | (unsigned int)m->c.op);
	r.flags = (uint8_t)((m->c.group != 0 ? WEIR_JOIN_MULTICAST : 0) |
		(j->skips_own ? WEIR_JOIN_SKIPS_OWN : 0));
	weir_put32(r.timeout_ms, m->c.timeout_ms);
	weir_put32(r.group, m->c.group);
	memcpy(payload, &r, sizeof(r));
	bytes += put_setting(payload + bytes, 0x81, 2, m->c.window);
	bytes += put_setting(payload + bytes, 0x82, 2, m->c.elements);
	bytes += put_setting(payload + bytes, 0x03, 4, m->c.timeout_ms);
	bytes += put_setting(payload + bytes, 0x84, 1, m->c.dtype);
	bytes += put_setting(payload + bytes, 0x85, 1, m->c.op);
	bytes += put_setting(payload + bytes, 0x88, 4, m->c.group);
	bytes += put_setting(payload + bytes, 0x89, 1, m->c.full_rows);
	weir_put16(payload + sizeof(r), (uint16_t)(bytes - sizeof(r) - 2));
	emit(m, &j->peer, false, &h, payload, j->asks_list ? bytes : sizeof(r), NULL);
}

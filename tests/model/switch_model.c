/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/switch_model.h"

#include <stdlib.h>
#include <string.h>

#define PACKET_MAX (WEIR_EXT_BYTES + WEIR_ELEMENTS_MAX * 8 + WEIR_BITMAP_BYTES)

/* A set of sources, as on the wire. */
struct set {
	uint8_t bits[WEIR_BITMAP_BYTES];
};

struct block {
	bool held; /* the record exists */
	bool open; /* still adding; else its result is fixed */
	uint32_t id;
	uint64_t opened_ms, progress_ms;
	struct weir_header first; /* of the contribution that opened it */
	struct set in; /* whose contributions are in the sum */
	struct set heard; /* who has sent anything for it: what acknowledges block - window */
	bool final; /* every contribution had the bit */
	uint8_t status; /* of the result */
	struct weir_mismatch mismatch;
	uint8_t sum[WEIR_ELEMENTS_MAX * 4];
};

/* The blocks of one residue modulo the window. */
struct residue {
	uint32_t next; /* the block that is opened next */
	struct block older, newer; /* older: done, not yet released */
};

struct joined {
	bool valid;
	uint32_t nonce;
	bool base_results;
	struct model_peer peer;
};

struct model {
	struct model_config c;
	uint16_t generation; /* 0: none yet */
	uint16_t last_generation;
	struct joined running[WEIR_SOURCES_MAX];
	struct joined collecting[WEIR_SOURCES_MAX]; /* for the next generation */
	struct residue *residues;
	uint64_t now_ms;
	model_send send;
	void *argument;
};

/* Block numbers that there are, less one. */
static uint32_t
last_number(const struct model *m)
{
	return m->c.block_bits == 0 ? UINT32_MAX : UINT32_MAX >> (32 - m->c.block_bits);
}

/* How far a is ahead of b: at least minus half as many as there are numbers, less than half. */
static int64_t
ahead_of(const struct model *m, uint32_t a, uint32_t b)
{
	int64_t there_are = (int64_t)last_number(m) + 1;
	int64_t ahead = (int64_t)((a - b) & last_number(m));

	return ahead < there_are / 2 ? ahead : ahead - there_are;
}

static bool
set_has(const struct set *set, unsigned int s)
{
	return (set->bits[s / 8] >> (s % 8) & 1) != 0;
}

static void
set_add(struct set *set, unsigned int s)
{
	set->bits[s / 8] |= (uint8_t)(1u << (s % 8));
}

static unsigned int
set_count(const struct set *set)
{
	unsigned int n = 0;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		n += set_has(set, s);
	return n;
}

static void
begin_generation(struct model *m, uint16_t generation)
{
	m->generation = m->last_generation = generation;
	memset(m->residues, 0, m->c.window * sizeof(*m->residues));
	for (uint32_t r = 0; r < m->c.window; r++)
		m->residues[r].next = r;
}

struct model *
model_create(const struct model_config *config)
{
	struct model *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->c = *config;
	m->residues = calloc(config->window, sizeof(*m->residues));
	if (m->residues == NULL) {
		free(m);
		return NULL;
	}
	if (config->fixed_generation != 0)
		begin_generation(m, config->fixed_generation);
	return m;
}

void
model_destroy(struct model *m)
{
	if (m == NULL)
		return;
	free(m->residues);
	free(m);
}

uint16_t
model_generation(const struct model *m)
{
	return m->generation;
}

unsigned int
model_blocks(const struct model *m)
{
	unsigned int n = 0;

	for (uint32_t r = 0; r < m->c.window; r++)
		n += m->residues[r].older.held + m->residues[r].newer.held;
	return n;
}

/* ---- sending ---- */

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
	m->send(m->argument, &packet);
}

/* A reply to one packet, to where it came from, in its form, with nothing but a status. */
static void
reply(struct model *m, const struct model_peer *to, const struct weir_header *to_what,
	uint8_t status, const struct set *bitmap)
{
	struct weir_header h = *to_what;

	h.status = status;
	h.gen_id = m->generation;
	h.grad_cnt = 0;
	h.final = false;
	h.degraded = bitmap != NULL;
	/* A join is told how many are waited for. */
	h.src_cnt =
		h.collective == WEIR_COLLECTIVE_JOIN && bitmap != NULL ? (uint8_t)m->c.sources : 0;
	emit(m, to, false, &h, NULL, 0, bitmap);
}

/* The fixed result of a block, to one source or to the group (source < 0, in this form). */
static void
send_result(struct model *m, const struct block *b, int source, const struct model_peer *to,
	bool extended)
{
	struct weir_header h = b->first;
	bool data = b->status == WEIR_STATUS_OK || b->status == WEIR_STATUS_PARTIAL;
	bool late = b->status == WEIR_STATUS_PARTIAL || b->status == WEIR_STATUS_ERROR;
	const void *payload = data ? (const void *)b->sum : &b->mismatch;
	size_t size = data ? (size_t)b->first.grad_cnt * 4 : 0;

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

static void
send_to_all(struct model *m, const struct block *b)
{
	bool forms[2] = {false, false};

	for (unsigned int s = 0; s < m->c.sources; s++) {
		const struct joined *j = &m->running[s];

		if (!j->valid)
			continue;
		if (m->c.group == 0)
			send_result(m, b, (int)s, &j->peer, !j->base_results);
		forms[!j->base_results] = true;
	}
	for (int extended = 0; m->c.group != 0 && extended < 2; extended++) {
		/* The port is the form's own: who runs the model knows it. */
		const struct model_peer group = {.address = m->c.group, .port = 0};

		if (forms[extended])
			send_result(m, b, -1, &group, extended != 0);
	}
}

/* ---- joining ---- */

static void
accept_join(struct model *m, uint8_t source)
{
	const struct joined *j = &m->running[source];
	struct weir_join_reply r = {0};
	struct weir_header h = {
		.extended = true,
		.job_id = m->c.job,
		.src_id = source,
		.block_id = j->nonce,
		.gen_id = m->generation,
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = j->base_results ? WEIR_FLAG_BASE_RESULTS : 0,
		.status = WEIR_STATUS_OK,
	};

	weir_put16(r.window, (uint16_t)m->c.window);
	weir_put16(r.elements, (uint16_t)m->c.elements);
	weir_put16(r.sources, (uint16_t)m->c.sources);
	r.dtype_op = (uint8_t)((unsigned int)m->c.dtype << 4 | (unsigned int)m->c.op);
	r.flags = m->c.group != 0 ? WEIR_JOIN_MULTICAST : 0;
	weir_put32(r.timeout_ms, m->c.timeout_ms);
	weir_put32(r.group, m->c.group);
	emit(m, &j->peer, false, &h, &r, sizeof(r), NULL);
}

static const char *
take_join(struct model *m, const struct model_peer *from, const struct weir_header *h)
{
	struct joined *running = &m->running[h->src_id];
	struct set bitmap = {{0}};
	uint16_t next;

	if (h->src_id >= m->c.sources ||
		(m->c.address[h->src_id] != 0 && m->c.address[h->src_id] != from->address)) {
		reply(m, from, h, WEIR_STATUS_REFUSED, NULL);
		return h->src_id >= m->c.sources ? "unknown_source" : "address";
	}
	if (m->c.fixed_generation != 0) {
		reply(m, from, h, WEIR_STATUS_UNSUPPORTED, NULL);
		return "unsupported";
	}
	if (running->valid && running->nonce == h->block_id) {
		accept_join(m, h->src_id);
		return "join";
	}
	m->collecting[h->src_id] = (struct joined){
		.valid = true,
		.nonce = h->block_id,
		.base_results = (h->flags & WEIR_FLAG_BASE_RESULTS) != 0,
		.peer = *from,
	};
	for (unsigned int s = 0; s < m->c.sources; s++)
		if (m->collecting[s].valid)
			set_add(&bitmap, s);
	if (set_count(&bitmap) < m->c.sources) {
		reply(m, from, h, WEIR_STATUS_WAITING, &bitmap);
		return "join";
	}
	next = (uint16_t)(m->last_generation + 1);
	begin_generation(m, next == WEIR_GEN_JOIN ? 1 : next);
	memcpy(m->running, m->collecting, sizeof(m->running));
	memset(m->collecting, 0, sizeof(m->collecting));
	for (unsigned int s = 0; s < m->c.sources; s++)
		accept_join(m, (uint8_t)s);
	return "join";
}

/* ---- blocks ---- */

static void
add(const struct block *b, uint8_t *sum, const uint8_t *payload)
{
	for (unsigned int i = 0; i < b->first.grad_cnt; i++, sum += 4, payload += 4) {
		if (b->first.dtype == WEIR_DTYPE_INT32) {
			uint32_t x, y;

			memcpy(&x, sum, 4);
			memcpy(&y, payload, 4);
			x += y;
			memcpy(sum, &x, 4);
		} else {
			float x, y;

			memcpy(&x, sum, 4);
			memcpy(&y, payload, 4);
			x += y;
			memcpy(sum, &x, 4);
		}
	}
}

/* The block's result is fixed: tell everybody. */
static void
complete(struct model *m, struct block *b, uint8_t status)
{
	b->open = false;
	b->status = status;
	send_to_all(m, b);
}

/* In what a contribution disagrees with the block; 0: in nothing. */
static unsigned int
disagree(const struct weir_header *b, const struct weir_header *h, uint16_t *has, uint16_t *offers)
{
	struct {
		unsigned int field;
		uint16_t has, offers;
	} fields[] = {
		{WEIR_FIELD_COLLECTIVE, b->collective, h->collective},
		{WEIR_FIELD_OP, b->op, h->op},
		{WEIR_FIELD_DTYPE, b->dtype, h->dtype},
		{WEIR_FIELD_ROOT, b->root, h->root},
		{WEIR_FIELD_LENGTH, b->grad_cnt, h->grad_cnt},
	};

	for (unsigned int i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].has == fields[i].offers)
			continue;
		*has = fields[i].has;
		*offers = fields[i].offers;
		return fields[i].field;
	}
	return 0;
}

/* What a source sends for block b acknowledges b - window; all of them release it. */
static void
acknowledge(const struct model *m, struct residue *r, uint8_t source)
{
	set_add(&r->newer.heard, source);
	if (set_count(&r->newer.heard) == m->c.sources)
		r->older.held = false;
}

static const char *
open_block(struct model *m, struct residue *r, const struct weir_header *h, const uint8_t *payload)
{
	struct block *b = &r->newer;

	if (b->held && b->open)
		return "window"; /* nobody can have its result */
	if (b->held && r->older.held)
		return "held_back";
	if (b->held)
		r->older = *b;
	memset(b, 0, sizeof(*b));
	b->held = b->open = true;
	b->id = h->block_id;
	b->opened_ms = b->progress_ms = m->now_ms;
	b->first = *h;
	b->final = h->final;
	r->next = (r->next + m->c.window) & last_number(m);
	set_add(&b->in, h->src_id);
	acknowledge(m, r, h->src_id);
	memcpy(b->sum, payload, (size_t)h->grad_cnt * 4);
	if (m->c.sources == 1)
		complete(m, b, WEIR_STATUS_OK);
	return "consumed";
}

static const char *
contribute(struct model *m, struct residue *r, const struct model_peer *from,
	const struct weir_header *h, const uint8_t *payload)
{
	struct block *b = &r->newer;
	uint16_t has = 0, offers = 0;
	unsigned int field;

	if (set_has(&b->in, h->src_id)) {
		if (m->now_ms - b->opened_ms > m->c.timeout_ms)
			reply(m, from, h, WEIR_STATUS_WAITING, &b->in);
		return "duplicate";
	}
	acknowledge(m, r, h->src_id);
	field = disagree(&b->first, h, &has, &offers);
	if (field != 0) {
		b->mismatch.field = (uint8_t)field;
		b->mismatch.source = b->first.src_id;
		b->mismatch.other = h->src_id;
		weir_put16(b->mismatch.block, has);
		weir_put16(b->mismatch.offered, offers);
		complete(m, b, WEIR_STATUS_MISMATCH);
		return "mismatch";
	}
	set_add(&b->in, h->src_id);
	b->final = b->final && h->final;
	b->progress_ms = m->now_ms;
	add(b, b->sum, payload);
	if (set_count(&b->in) == m->c.sources)
		complete(m, b, WEIR_STATUS_OK);
	return "consumed";
}

static const char *
take_contribution(struct model *m, const struct model_peer *from, const struct weir_header *h,
	const uint8_t *payload)
{
	struct residue *r = &m->residues[h->block_id % m->c.window];
	int64_t ahead = ahead_of(m, h->block_id, r->next);
	struct block *b;
	const char *what;

	if (ahead == 0) {
		what = open_block(m, r, h, payload);
		if (strcmp(what, "window") == 0)
			reply(m, from, h, WEIR_STATUS_WINDOW, NULL);
		return what;
	}
	if (ahead > 0) {
		reply(m, from, h, WEIR_STATUS_WINDOW, NULL);
		return "window";
	}
	if (r->newer.held && r->newer.id == h->block_id) {
		b = &r->newer;
	} else if (r->older.held && r->older.id == h->block_id) {
		b = &r->older;
	} else {
		reply(m, from, h, WEIR_STATUS_EXPIRED, NULL);
		return "expired";
	}
	if (b->open)
		return contribute(m, r, from, h, payload);
	if (b == &r->newer)
		acknowledge(m, r, h->src_id);
	send_result(m, b, h->src_id, from, !m->running[h->src_id].base_results);
	return set_has(&b->in, h->src_id) ? "duplicate" : "late";
}

static bool
same_peer(const struct model_peer *a, const struct model_peer *b)
{
	return a->address == b->address && a->port == b->port;
}

const char *
model_input(struct model *m, uint64_t now_ms, bool extended, const struct model_peer *from,
	const uint8_t *bytes, size_t size, model_send send, void *argument)
{
	struct weir_header h = {
		.extended = extended, .dtype = (uint8_t)m->c.dtype, .op = (uint8_t)m->c.op};
	size_t header = weir_header_bytes(extended);

	m->now_ms = now_ms;
	m->send = send;
	m->argument = argument;
	if (size < header)
		return "truncated";
	weir_header_read(&h, bytes);
	if (!extended)
		h.collective = h.grad_cnt ? WEIR_COLLECTIVE_ALLREDUCE : WEIR_COLLECTIVE_BARRIER;
	if (h.job_id != m->c.job)
		return "unknown_job";
	if (h.status != 0 || h.degraded || h.src_cnt != 0)
		return "not_a_contribution";
	if (h.collective == WEIR_COLLECTIVE_JOIN)
		return size == header && h.grad_cnt == 0 ? take_join(m, from, &h) : "length";
	if (h.src_id >= m->c.sources)
		return "unknown_source";
	if (m->generation == 0)
		return "not_joined";
	if (m->c.fixed_generation != 0)
		m->running[h.src_id] =
			(struct joined){.valid = true, .base_results = !extended, .peer = *from};
	if (h.gen_id != m->generation) {
		reply(m, from, &h, WEIR_STATUS_STALE, NULL);
		return "stale";
	}
	if (!same_peer(from, &m->running[h.src_id].peer))
		return "address";
	if (h.collective == WEIR_COLLECTIVE_BARRIER) {
		/* A barrier has no type and no operation to disagree in. */
		h.dtype = h.op = 0;
	} else if (h.collective != WEIR_COLLECTIVE_ALLREDUCE || h.op != WEIR_OP_SUM ||
		(h.dtype != WEIR_DTYPE_INT32 && h.dtype != WEIR_DTYPE_FP32)) {
		reply(m, from, &h, WEIR_STATUS_UNSUPPORTED, NULL);
		return "unsupported";
	}
	if (size != header + (size_t)h.grad_cnt * 4 || h.grad_cnt > m->c.elements ||
		(h.grad_cnt == 0) != (h.collective == WEIR_COLLECTIVE_BARRIER))
		return "length";
	h.block_id &= last_number(m);
	return take_contribution(m, from, &h, bytes + header);
}

void
model_tick(struct model *m, uint64_t now_ms, model_send send, void *argument)
{
	m->now_ms = now_ms;
	m->send = send;
	m->argument = argument;
	for (uint32_t r = 0; r < m->c.window && m->c.policy != MODEL_WAIT; r++) {
		struct block *b = &m->residues[r].newer;

		if (b->held && b->open && now_ms - b->progress_ms > m->c.timeout_ms)
			complete(m, b,
				m->c.policy == MODEL_PARTIAL ? WEIR_STATUS_PARTIAL
							     : WEIR_STATUS_ERROR);
	}
}

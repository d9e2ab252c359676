/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/switch_model.h"

#include <stdlib.h>
#include <string.h>

#include "tests/model/switch_model_priv.h"

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

static void
begin_generation(struct model *m, uint16_t generation)
{
	m->generation = m->last_generation = generation;
	for (uint32_t r = 0; r < m->c.window; r++) {
		model_forget(&m->residues[r].older);
		model_forget(&m->residues[r].newer);
	}
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
	if (config->first_generation != 0)
		m->last_generation = (uint16_t)(config->first_generation - 1);
	if (config->fixed_generation != 0)
		begin_generation(m, config->fixed_generation);
	return m;
}

void
model_destroy(struct model *m)
{
	if (m == NULL)
		return;
	for (uint32_t r = 0; r < m->c.window; r++) {
		model_forget(&m->residues[r].older);
		model_forget(&m->residues[r].newer);
	}
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

void
model_set_policy(struct model *m, enum model_policy policy, uint32_t timeout_ms)
{
	m->c.policy = policy;
	m->c.timeout_ms = timeout_ms;
}

static void
look(const struct block *b, struct model_block *out)
{
	*out = (struct model_block){
		.held = b->held, .open = b->open, .id = b->id, .elements = b->first.grad_cnt};
	memcpy(out->in, b->in.bits, sizeof(out->in));
}

uint32_t
model_look(
	const struct model *m, uint32_t block, struct model_block *older, struct model_block *newer)
{
	const struct residue *r = &m->residues[block % m->c.window];

	look(&r->older, older);
	look(&r->newer, newer);
	return r->next;
}

const struct model_counters *
model_count(const struct model *m)
{
	return &m->count;
}

/* Does the packet carry the address of a source that has joined at another link? */
static bool
spoofed(const struct model *m, const struct model_peer *from)
{
	for (unsigned int s = 0; s < m->c.sources && m->c.fixed_generation == 0; s++) {
		const struct model_peer *at = &m->running[s].peer;

		if (m->running[s].valid && at->link != from->link &&
			(at->address == from->address ||
				memcmp(at->mac, from->mac, sizeof(at->mac)) == 0))
			return true;
	}
	return false;
}

/* ---- joining ---- */

static bool
same_peer(const struct model_peer *a, const struct model_peer *b)
{
	return a->address == b->address && a->port == b->port && a->link == b->link &&
		memcmp(a->mac, b->mac, sizeof(a->mac)) == 0;
}

static bool
same_process(const struct model_peer *a, const struct model_peer *b)
{
	return a->address == b->address && a->port == b->port &&
		memcmp(a->mac, b->mac, sizeof(a->mac)) == 0;
}

static bool
same_link(const struct model_peer *a, const struct model_peer *b)
{
	return a->link == b->link && memcmp(a->mac, b->mac, sizeof(a->mac)) == 0;
}

/* Who displaced the source's former process; NULL: nobody. */
static const struct joined *
successor(const struct model *m, uint8_t s)
{
	const struct joined *newer = m->collecting[s].valid ? &m->collecting[s] : &m->running[s];

	return m->displaced[s].valid && newer->valid && newer->order > m->displaced[s].order &&
			!same_process(&newer->peer, &m->displaced[s].peer)
		? newer
		: NULL;
}

/* Is it from the displaced process? That is told. */
static bool
tell_displaced(struct model *m, const struct model_peer *from, uint8_t s)
{
	const struct joined *newer = successor(m, s);

	if (newer == NULL || !same_peer(from, &m->displaced[s].peer))
		return false;
	model_displaced(m, s, &m->displaced[s], &newer->peer);
	return true;
}

static const char *
take_join(struct model *m, const struct model_peer *from, const struct weir_header *h, size_t size)
{
	struct joined *running = &m->running[h->src_id];
	struct joined *asking = &m->collecting[h->src_id];
	const struct joined *holder;
	struct joined former;
	struct set bitmap = {{0}};
	bool repeat;
	uint16_t next;

	if (size != WEIR_EXT_BYTES || h->grad_cnt != 0)
		return "length";
	if (m->c.fixed_generation != 0) {
		model_reply(m, from, h, WEIR_STATUS_UNSUPPORTED, NULL);
		return "unsupported";
	}
	m->count.joins++;
	if (running->valid && running->nonce == h->block_id &&
		(h->gen_id == WEIR_GEN_JOIN || h->gen_id == m->generation)) {
		running->peer = *from;
		model_accept_join(m, h->src_id);
		return "join";
	}
	repeat = asking->valid && asking->nonce == h->block_id;
	if (!repeat && spoofed(m, from))
		return "spoofed_member";
	if (h->gen_id != WEIR_GEN_JOIN)
		return "stale";
	if (m->displaced[h->src_id].nonce == h->block_id && tell_displaced(m, from, h->src_id))
		return "address";
	holder = asking->valid ? asking : running;
	if (!repeat && holder->valid && !same_link(from, &holder->peer))
		return "address";
	former = *asking;
	*asking = (struct joined){
		.valid = true,
		.nonce = h->block_id,
		.base_results = (h->flags & WEIR_FLAG_BASE_RESULTS) != 0,
		.skips_own = (h->flags & WEIR_FLAG_SKIPS_OWN) != 0 && m->c.group == 0,
		.asks_list = h->op % 2 == 1,
		.peer = *from,
		.order = repeat ? former.order : ++m->joins,
	};
	if (!repeat && former.valid && !same_process(&former.peer, from)) {
		m->displaced[h->src_id] = former;
		model_displaced(m, h->src_id, &former, from);
	}
	for (unsigned int s = 0; s < m->c.sources; s++)
		if (m->collecting[s].valid)
			set_add(&bitmap, s);
	if (set_count(&bitmap) < m->c.sources) {
		model_reply(m, from, h, WEIR_STATUS_WAITING, &bitmap);
		return "join";
	}
	next = (uint16_t)(m->last_generation + 1);
	begin_generation(m, next == WEIR_GEN_JOIN ? 1 : next);
	m->count.generations++;
	for (unsigned int s = 0; s < m->c.sources; s++) {
		former = m->running[s];
		m->running[s] = m->collecting[s];
		model_accept_join(m, (uint8_t)s);
		if (!former.valid || same_process(&former.peer, &m->running[s].peer))
			continue;
		m->displaced[s] = former;
		model_displaced(m, (uint8_t)s, &former, &m->running[s].peer);
	}
	memset(m->collecting, 0, sizeof(m->collecting));
	return "join";
}

/* ---- blocks ---- */

/* In what a contribution disagrees with the block; 0: in nothing. */
static unsigned int
disagree(const struct weir_header *b, const struct weir_header *h, uint16_t *has, uint16_t *offers)
{
	struct {
		unsigned int field;
		uint16_t has, offers;
	} fields[] = {
		{WEIR_FIELD_COLLECTIVE, b->collective, h->collective},
		{WEIR_FIELD_LENGTH, b->grad_cnt, h->grad_cnt},
		{WEIR_FIELD_ROOT, b->root, h->root},
		{WEIR_FIELD_FINAL, b->final, h->final},
		{WEIR_FIELD_OP, b->op, h->op},
		{WEIR_FIELD_DTYPE, b->dtype, h->dtype},
	};

	for (unsigned int i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].has == fields[i].offers)
			continue;
		if (h->grad_cnt == 0 && i > 3)
			return 0; /* nothing is sent: nothing more to disagree in */
		*has = fields[i].has;
		*offers = fields[i].offers;
		return fields[i].field;
	}
	return 0;
}

/* What a source sends for block b acknowledges b - window. */
static bool
has_older(const struct residue *r, unsigned int source)
{
	return set_has(&r->newer.heard, source) || set_has(&r->newer.received, source) ||
		set_has(&r->older.received, source);
}

/* A finished block is kept until all have its result, and the next one is finished, too. */
static void
release_older(const struct model *m, struct residue *r)
{
	for (unsigned int s = 0; s < m->c.sources; s++)
		if (!has_older(r, s))
			return;
	if (!r->newer.open)
		model_forget(&r->older);
}

static void
hear(const struct model *m, struct residue *r, uint8_t source)
{
	set_add(&r->newer.heard, source);
	release_older(m, r);
}

/* The block's result is fixed: tell everybody. */
static void
complete(struct model *m, struct residue *r, uint8_t status)
{
	struct block *b = &r->newer;

	if (status == WEIR_STATUS_PARTIAL && model_lacks_root(b))
		status = WEIR_STATUS_ERROR;
	b->open = false;
	b->status = status;
	m->count.blocks_complete += status == WEIR_STATUS_OK;
	m->count.blocks_partial += status == WEIR_STATUS_PARTIAL;
	m->count.blocks_error += status == WEIR_STATUS_ERROR;
	m->count.blocks_mismatch += status == WEIR_STATUS_MISMATCH;
	model_send_to_all(m, b);
	release_older(m, r);
}

static const char *
open_block(struct model *m, struct residue *r, const struct weir_header *h, const uint8_t *payload)
{
	struct block *b = &r->newer;

	if (b->held && b->open)
		return "window"; /* nobody can have its result */
	if (b->held && r->older.held) {
		set_add(&b->received, h->src_id);
		release_older(m, r);
	}
	if (b->held && r->older.held) {
		m->count.held_back++;
		return "held_back";
	}
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
	hear(m, r, h->src_id);
	if (!model_keep(b, h->src_id, payload,
		    (size_t)model_contributed(m, h) * weir_dtype_bytes(h->dtype)))
		abort();
	m->count.blocks_opened++;
	m->count.contributions++;
	if (m->c.sources == 1)
		complete(m, r, WEIR_STATUS_OK);
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
		m->count.duplicates++;
		if (m->now_ms - b->opened_ms > m->c.timeout_ms)
			model_reply(m, from, h, WEIR_STATUS_WAITING, &b->in);
		return "duplicate";
	}
	hear(m, r, h->src_id);
	field = disagree(&b->first, h, &has, &offers);
	if (field != 0) {
		set_add(&b->in, h->src_id); /* the answer counts it */
		b->mismatch.field = (uint8_t)field;
		b->mismatch.source = b->first.src_id;
		b->mismatch.other = h->src_id;
		weir_put16(b->mismatch.block, has);
		weir_put16(b->mismatch.offered, offers);
		complete(m, r, WEIR_STATUS_MISMATCH);
		return "mismatch";
	}
	set_add(&b->in, h->src_id);
	b->progress_ms = m->now_ms;
	m->count.contributions++;
	if (!model_keep(b, h->src_id, payload,
		    (size_t)model_contributed(m, h) * weir_dtype_bytes(h->dtype)))
		abort();
	if (set_count(&b->in) == m->c.sources)
		complete(m, r, WEIR_STATUS_OK);
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
			model_reply(m, from, h, WEIR_STATUS_WINDOW, NULL);
		return what;
	}
	if (ahead > 0) {
		model_reply(m, from, h, WEIR_STATUS_WINDOW, NULL);
		return "window";
	}
	if (r->newer.held && r->newer.id == h->block_id) {
		b = &r->newer;
	} else if (r->older.held && r->older.id == h->block_id) {
		b = &r->older;
	} else {
		m->count.expired++;
		model_reply(m, from, h, WEIR_STATUS_EXPIRED, NULL);
		return "expired";
	}
	if (b->open)
		return contribute(m, r, from, h, payload);
	m->count.asked_again += set_has(&b->heard, h->src_id);
	m->count.late += !set_has(&b->heard, h->src_id);
	set_add(&b->heard, h->src_id);
	if (b == &r->newer)
		hear(m, r, h->src_id);
	model_send_result(m, b, h->src_id, from, !m->running[h->src_id].base_results);
	return "late";
}

/* The block before this one, if it is over. */
static struct block *
before(const struct model *m, const struct weir_header *h)
{
	struct residue *r = &m->residues[h->block_id % m->c.window];
	struct block *b = ahead_of(m, h->block_id, r->next) == 0 ? &r->newer : NULL;

	if (r->newer.held && h->block_id == r->newer.id)
		b = &r->older;
	return b != NULL && b->held && !b->open ? b : NULL;
}

/* The source has the result of this block. Is that news? */
static bool
note_received(const struct model *m, struct residue *r, struct block *b, uint8_t source)
{
	bool had = b == &r->older ? has_older(r, source) : set_has(&b->received, source);

	if (!had) {
		set_add(&b->received, source);
		release_older(m, r);
	}
	return !had;
}

/* The block, if it is over and the source is not known to have its result. */
static struct block *
lost_by(struct residue *r, const struct weir_header *h)
{
	if (r->newer.held && h->block_id == r->newer.id)
		return r->newer.open || set_has(&r->newer.received, h->src_id) ? NULL : &r->newer;
	return r->older.held && h->block_id == r->older.id && !has_older(r, h->src_id) ? &r->older
										       : NULL;
}

static bool
too_early(const struct model *m, const struct residue *r, const struct weir_header *h)
{
	int64_t ahead = ahead_of(m, h->block_id, r->next);

	return ahead > 0 || (ahead == 0 && r->newer.held && r->newer.open);
}

/* The source has all before this block, waits for its result, and contributes nothing. */
static const char *
take_acknowledgement(struct model *m, const struct model_peer *from, const struct weir_header *h)
{
	struct residue *r = &m->residues[h->block_id % m->c.window];
	struct block *b = before(m, h), *lost = lost_by(r, h);
	bool news;

	if (too_early(m, r, h))
		return "window";
	news = b != NULL && note_received(m, r, b, h->src_id);
	m->count.acknowledged += news;
	if (lost == NULL)
		return news ? "acknowledged" : "known";
	m->count.asked_again++;
	model_send_result(m, lost, h->src_id, from, !m->running[h->src_id].base_results);
	return "late";
}

/* The source has all before this block, and asks whether the block has its contribution. */
static const char *
take_probe(struct model *m, const struct model_peer *from, const struct weir_header *h)
{
	struct residue *r = &m->residues[h->block_id % m->c.window];
	struct block *b = before(m, h), *lost = lost_by(r, h);
	bool newest = r->newer.held && h->block_id == r->newer.id;
	const struct set none = {{0}};

	if (too_early(m, r, h))
		return "window";
	m->count.probes++;
	if (b != NULL)
		note_received(m, r, b, h->src_id);
	if (h->block_id == r->next || (newest && r->newer.open)) {
		model_reply(m, from, h, WEIR_STATUS_WAITING, newest ? &r->newer.in : &none);
		return "probed";
	}
	if (lost == NULL)
		return "known";
	m->count.asked_again++;
	model_send_result(m, lost, h->src_id, from, !m->running[h->src_id].base_results);
	return "late";
}

/* A refusal does not tell the generation. */
static void
refuse(struct model *m, const struct model_peer *from, const struct weir_header *h)
{
	uint16_t generation = m->generation;

	m->generation = 0;
	model_reply(m, from, h, WEIR_STATUS_REFUSED, NULL);
	m->generation = generation;
}

/* Whoever sends for a job that does not exist is told. */
static const char *
unknown_job(struct model *m, const struct model_peer *from, const struct weir_header *h)
{
	refuse(m, from, h);
	m->count.results--; /* it is no job's */
	return "unknown_job";
}

/* So is who is not in the job, or not where the job has it; a join, too. NULL: it is a source. */
static const char *
stranger(struct model *m, const struct model_peer *from, const struct weir_header *h)
{
	bool unknown = h->src_id >= m->c.sources;

	if (!unknown && (m->c.address[h->src_id] == 0 || m->c.address[h->src_id] == from->address))
		return NULL;
	if (spoofed(m, from))
		return "spoofed_member";
	refuse(m, from, h);
	return unknown ? "unknown_source" : "address";
}

/* Could it be from a switch to its parent? Then it is another job's, or a join. */
static bool
may_go_up(const struct model *m, const struct weir_header *h)
{
	bool contribution = h->collective < WEIR_COLLECTIVES;

	if (h->job_id == m->c.job && h->collective != WEIR_COLLECTIVE_JOIN)
		return false;

	if (h->status == WEIR_STATUS_OK)
		return !h->degraded && (!weir_is_control(h->collective) || h->src_cnt == 0);
	if (h->status == WEIR_STATUS_MISMATCH)
		return !h->degraded && contribution;
	return (h->status == WEIR_STATUS_PARTIAL || h->status == WEIR_STATUS_ERROR) &&
		h->degraded && contribution;
}

const char *
model_input(struct model *m, uint64_t now_ms, bool extended, const struct model_peer *from,
	const uint8_t *bytes, size_t size, model_send send, void *argument)
{
	struct weir_header h = {
		.extended = extended, .dtype = (uint8_t)m->c.dtype, .op = (uint8_t)m->c.op};
	size_t header = weir_header_bytes(extended);
	const char *end;

	m->now_ms = now_ms;
	m->send = send;
	m->argument = argument;
	if (size < header)
		return "truncated";
	weir_header_read(&h, bytes);
	if (!extended)
		h.collective = h.grad_cnt ? WEIR_COLLECTIVE_ALLREDUCE : WEIR_COLLECTIVE_BARRIER;
	if ((h.flags & WEIR_FLAG_UP) != 0 ? !may_go_up(m, &h)
					  : h.status != 0 || h.degraded || h.src_cnt != 0)
		return "not_a_contribution";
	if (h.job_id != m->c.job)
		return unknown_job(m, from, &h);
	end = stranger(m, from, &h);
	if (end != NULL)
		return end;
	if (h.collective == WEIR_COLLECTIVE_JOIN)
		return take_join(m, from, &h, size);
	h.block_id &= last_number(m);
	if (!same_peer(from, &m->running[h.src_id].peer) && spoofed(m, from))
		return "spoofed_member";
	if (m->c.fixed_generation == 0 && m->generation != 0 &&
		!same_peer(from, &m->running[h.src_id].peer)) {
		tell_displaced(m, from, h.src_id);
		return "address";
	}
	if (h.gen_id != m->generation || m->generation == 0) {
		model_reply(m, from, &h, WEIR_STATUS_STALE, NULL);
		m->count.stale += m->generation != 0;
		return m->generation != 0 ? "stale" : "not_joined";
	}
	if (m->c.fixed_generation != 0)
		m->running[h.src_id] =
			(struct joined){.valid = true, .base_results = !extended, .peer = *from};
	if ((!weir_is_control(h.collective) ||
		    (h.collective == WEIR_COLLECTIVE_PROBE && m->c.without_probes)) &&
		!model_served(m, &h)) {
		model_reply(m, from, &h, WEIR_STATUS_UNSUPPORTED, NULL);
		return "unsupported";
	}
	if (!model_fits(m, &h, size - header))
		return "length";
	if (h.collective == WEIR_COLLECTIVE_ACKNOWLEDGE)
		return take_acknowledgement(m, from, &h);
	if (h.collective == WEIR_COLLECTIVE_PROBE)
		return take_probe(m, from, &h);
	return take_contribution(m, from, &h, bytes + header);
}

void
model_tick(struct model *m, uint64_t now_ms, model_send send, void *argument)
{
	m->now_ms = now_ms;
	m->send = send;
	m->argument = argument;
	for (uint32_t r = 0; r < m->c.window; r++) {
		struct block *b = &m->residues[r].newer;

		if (!b->held || !b->open || now_ms - b->progress_ms <= m->c.timeout_ms)
			continue;
		if (m->c.policy != MODEL_WAIT) {
			complete(m, &m->residues[r],
				m->c.policy == MODEL_PARTIAL ? WEIR_STATUS_PARTIAL
							     : WEIR_STATUS_ERROR);
			continue;
		}
		m->count.blocks_waiting += !b->overdue;
		b->overdue = true;
	}
}

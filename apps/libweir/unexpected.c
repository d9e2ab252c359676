/* SPDX-License-Identifier: BSD-3-Clause */
/* Results that arrive before the application calls their operations: see struct weir_unexpected. */
#include "apps/libweir/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS (20 * WEIR_NS_PER_MS) /* after the kernel refused an acknowledgement */

/* A result that is kept. */
struct weir_kept {
	TAILQ_ENTRY(weir_kept) link;
	struct weir_header header;
	uint32_t bytes;
	uint8_t payload[]; /* elements, and the bitmap */
};

int
weir_unexpected_create(struct weir *weir)
{
	struct weir_unexpected *a = &weir->unexpected;
	struct weir_rtt *rtt = &a->recovery.rtt;
	uint64_t half = weir->h.timeout_ms * WEIR_NS_PER_MS / 2;

	a->residues = calloc(weir->h.window_job, sizeof(*a->residues));
	if (a->residues == NULL)
		return -ENOMEM;
	for (uint32_t r = 0; r < weir->h.window_job; r++)
		TAILQ_INIT(&a->residues[r].kept);
	weir_recovery_init(&a->recovery, weir->h.window_job);
	a->recovery.adapts = a->recovery.may_probe = false;
	a->recovery.scatter = half / 4;
	/* While the others continue, a result arrives each timeout, and the next acknowledgement
	 * repairs a lost one. */
	rtt->base = rtt->rto = 3 * half > WEIR_RTO_LEAST ? 3 * half : WEIR_RTO_LEAST;
	rtt->most = rtt->base > WEIR_RTO_MOST ? rtt->base : WEIR_RTO_MOST;
	return 0;
}

static void
drop(struct weir_unexpected *a, struct weir_residue *r)
{
	struct weir_kept *k = TAILQ_FIRST(&r->kept);

	TAILQ_REMOVE(&r->kept, k, link);
	a->kept--;
	a->bytes -= sizeof(*k) + k->bytes;
	free(k);
}

void
weir_unexpected_destroy(struct weir *weir)
{
	struct weir_unexpected *a = &weir->unexpected;

	for (uint32_t r = 0; a->residues != NULL && r < weir->h.window_job; r++)
		while (!TAILQ_EMPTY(&a->residues[r].kept))
			drop(a, &a->residues[r]);
	free(a->residues);
	*a = (struct weir_unexpected){.limit = a->limit};
	__atomic_store_n(&weir->unexpected_run, 0, __ATOMIC_RELAXED);
}

static struct weir_residue *
residue_of(const struct weir *weir, uint32_t block)
{
	return &weir->unexpected.residues[block & (weir->h.window_job - 1)];
}

/* The next block of this residue that has no result and has not been called. */
static uint32_t
expected(const struct weir *weir, const struct weir_residue *r, uint64_t *number)
{
	const struct weir_kept *last = TAILQ_LAST(&r->kept, weir_results);
	uint32_t index = (uint32_t)(r - weir->unexpected.residues), begin = (uint32_t)weir->next;
	uint32_t block = begin + ((index - begin) & (weir->h.window_job - 1));

	if (last != NULL)
		block = last->header.block_id + weir->h.window_job;
	*number = weir->next + (block - begin);
	return block;
}

/* ---- acknowledging ---- */

/*
 * No operation is under way, and the other sources go on without this one. In each residue, its
 * last contribution has acknowledged the block before. So all residues now wait for results, in the
 * order of blocks. acknowledge: they are acknowledged first.
 */
static void
watch_all(struct weir *weir, uint64_t now, bool acknowledge)
{
	struct weir_unexpected *a = &weir->unexpected;
	uint32_t begin = (uint32_t)weir->next;

	for (uint32_t i = 0; i < weir->h.window_job; i++) {
		struct weir_residue *r = residue_of(weir, begin + i);

		if (r->flight.state != WEIR_FLIGHT_IDLE)
			continue;
		r->flight.tries = 0;
		if (acknowledge)
			weir_flight_ready(&a->recovery, &r->flight);
		else
			weir_flight_sent(&a->recovery, &r->flight, now);
	}
}

/* When to acknowledge early, because the application has not called an operation for a while. */
static uint64_t
early_acknowledge_at(const struct weir *weir)
{
	const struct weir_unexpected *a = &weir->unexpected;

	if (!a->has_seen_partial || a->has_acknowledged_early || !TAILQ_EMPTY(&weir->requests))
		return UINT64_MAX;
	return a->idle_since + weir->h.timeout_ms * WEIR_NS_PER_MS / 2;
}

uint64_t
weir_unexpected_due(const struct weir *weir)
{
	return weir_earlier(
		weir_recovery_due(&weir->unexpected.recovery), early_acknowledge_at(weir));
}

void
weir_unexpected_flush(struct weir *weir, uint64_t now)
{
	struct weir_transport *t = weir->h.transport;
	struct weir_outbox *out = weir->outbox;
	struct weir_unexpected *a = &weir->unexpected;
	struct weir_recovery *r = &a->recovery;

	if (now >= early_acknowledge_at(weir)) {
		a->has_acknowledged_early = true;
		weir_rtt_answered(&r->rtt);
		r->allowance = 0;
		r->probe_at = now + r->rtt.rto;
		watch_all(weir, now, true);
	}
	/* While no result is kept, no other source is known to go on. */
	while (weir_recovery_lost(r, now, a->kept == 0) != NULL)
		;
	if (now < r->retry_at)
		return;
	r->retry_at = 0;
	while (!TAILQ_EMPTY(&r->ready)) {
		struct weir_flight *f;
		unsigned int n = 0;
		uint64_t number;
		int sent;

		TAILQ_FOREACH (f, &r->ready, link) {
			uint32_t block = expected(weir, weir_residue_of(f), &number);

			if (n == WEIR_BATCH)
				break;
			out->vectors[n] = (struct iovec){out->notes[n],
				weir_note_write(weir, WEIR_COLLECTIVE_ACKNOWLEDGE, block,
					WEIR_IV_ACKNOWLEDGE, number, out->notes[n])};
			out->tx[n] = (struct weir_tx){
				.pieces = &out->vectors[n],
				.count = 1,
				.bytes = (uint32_t)out->vectors[n].iov_len,
				.port = weir_port(weir, true, block, f->tries != 0),
			};
			n++;
		}
		sent = t->ops->send(t, out->tx, n);
		if (sent < 0) { /* ignore the error: acknowledgements only help the other sources */
			WEIR_COUNT(&weir->h, send_errors, 1);
			weir_address_refused(weir, -sent);
			r->retry_at = now + RETRY_NS;
			return;
		}
		weir->h.spoke_at = now;
		WEIR_COUNT(&weir->h, acknowledged, (uint64_t)sent);
		while (sent-- > 0)
			weir_flight_sent(r, TAILQ_FIRST(&r->ready), now);
	}
}

/* ---- keeping ---- */

/* Count the blocks that have results, up to the first gap, from the first block that has not been
 * called. from: how many are known to have results. */
static void
count_run(struct weir *weir, uint64_t from)
{
	uint64_t number, run = from;
	uint32_t begin = (uint32_t)weir->next;

	for (;; run++) {
		uint32_t block = begin + (uint32_t)run;

		if (weir_block_diff(expected(weir, residue_of(weir, block), &number), block) <= 0)
			break;
	}
	__atomic_store_n(&weir->unexpected_run, run, __ATOMIC_RELAXED);
}

/* Is it a valid partial result without this source? No other result can arrive before the call. */
static bool
makes_sense(
	const struct weir *weir, const struct weir_header *h, const uint8_t *payload, size_t bytes)
{
	unsigned int element = weir_dtype_bytes(h->dtype);
	int32_t elements =
		weir_geometry_result(h, weir->h.sources, weir->h.rank, weir->h.skips_own);

	return h->degraded && element != 0 && elements >= 0 &&
		bytes == (size_t)elements * element + WEIR_BITMAP_BYTES &&
		!weir_bitmap_has(payload + bytes - WEIR_BITMAP_BYTES, weir->h.source);
}

static bool
keep(struct weir *weir, struct weir_residue *r, const struct weir_header *h, const uint8_t *payload,
	size_t bytes)
{
	struct weir_unexpected *a = &weir->unexpected;
	size_t size = sizeof(struct weir_kept) + bytes;
	struct weir_kept *k = a->bytes + size > a->limit ? NULL : malloc(size);

	if (k == NULL)
		return false;
	k->header = *h;
	k->bytes = (uint32_t)bytes;
	memcpy(k->payload, payload, bytes);
	TAILQ_INSERT_TAIL(&r->kept, k, link);
	a->kept++;
	a->bytes += size;
	return true;
}

uint64_t *
weir_unexpected_take(struct weir *weir, const struct weir_header *header, const uint8_t *packet,
	size_t bytes, uint64_t now)
{
	struct weir_unexpected *a = &weir->unexpected;
	struct weir_recovery *ring = &weir->ring.recovery;
	struct weir_stats *stats = &weir->h.stats;
	struct weir_residue *r = residue_of(weir, header->block_id);
	unsigned int before = weir_header_bytes(header->extended);
	struct weir_header h = *header;
	uint64_t number;
	uint32_t block = expected(weir, r, &number);
	const struct weir_slot *slot = &weir->ring.slots[block & (ring->window - 1)];
	/* Have the current operations all results of this residue? */
	bool are_done = slot->flight.state == WEIR_FLIGHT_IDLE ||
		weir_block_diff(slot->block, block - weir->h.window_job) > 0;

	if (!weir->h.is_tagged) {
		weir->h.heard_at = now;
		weir->h.network_error = 0;
	}
	if (h.status != WEIR_STATUS_PARTIAL || a->is_closed || h.block_id != block || !are_done) {
		/* The switch does not know that this result has arrived: acknowledge it again. */
		if (!a->is_closed && !TAILQ_EMPTY(&r->kept) &&
			h.block_id == block - weir->h.window_job)
			weir_flight_ready(&a->recovery, &r->flight);
		if (h.status == WEIR_STATUS_OK || h.status == WEIR_STATUS_PARTIAL)
			weir_path_needless(&ring->path, ring->rtt.srtt);
		return &stats->duplicates;
	}
	if (weir->h.is_tagged &&
		!weir_auth_result(weir->h.auth, number, weir_result_slice(weir, &h), packet, bytes))
		return &stats->forged;
	bytes -= before + (weir->h.is_tagged ? WEIR_TAG_BYTES : 0u);
	if (!h.extended) {
		h.collective =
			h.grad_cnt != 0 ? WEIR_COLLECTIVE_ALLREDUCE : WEIR_COLLECTIVE_BARRIER;
		h.dtype = weir->h.job_dtype;
		h.op = weir->h.job_op;
	}
	weir->h.heard_at = now;
	if (bytes < WEIR_BITMAP_BYTES || !makes_sense(weir, &h, packet + before, bytes))
		return &stats->malformed;
	if (!keep(weir, r, &h, packet + before, bytes))
		return &stats->unexpected_full;
	a->has_seen_partial = true;
	if (TAILQ_EMPTY(&weir->requests))
		watch_all(weir, now, false);
	weir_recovery_answered(&a->recovery, &r->flight, now);
	r->flight.tries = 0;
	weir_flight_ready(&a->recovery, &r->flight);
	count_run(weir, weir->unexpected_run);
	return &stats->unexpected;
}

/* ---- handing over ---- */

void
weir_unexpected_begin(struct weir *weir, const struct weir_request *o)
{
	struct weir_unexpected *a = &weir->unexpected;
	uint32_t count = o->blocks < weir->h.window_job ? o->blocks : weir->h.window_job;

	/* The operation's contributions acknowledge these residues, too, unless later results are
	 * kept. */
	for (uint32_t i = 0; i < count && !weir_recovery_is_idle(&a->recovery); i++) {
		struct weir_residue *r = residue_of(weir, o->first + i);
		const struct weir_kept *last = TAILQ_LAST(&r->kept, weir_results);

		if (last == NULL ||
			weir_block_diff(last->header.block_id, o->first + o->blocks) < 0)
			weir_flight_idle(&a->recovery, &r->flight);
	}
	count_run(weir, weir->unexpected_run > o->blocks ? weir->unexpected_run - o->blocks : 0);
}

const struct weir_header *
weir_unexpected_first(
	const struct weir *weir, uint32_t block, const uint8_t **payload, size_t *bytes)
{
	const struct weir_kept *k = TAILQ_FIRST(&residue_of(weir, block)->kept);

	if (k == NULL || k->header.block_id != block)
		return NULL;
	*payload = k->payload;
	*bytes = k->bytes;
	return &k->header;
}

void
weir_unexpected_delivered(struct weir *weir, uint32_t block)
{
	drop(&weir->unexpected, residue_of(weir, block));
}

void
weir_unexpected_end(struct weir *weir, int code)
{
	struct weir_unexpected *a = &weir->unexpected;

	if (code >= 0) {
		a->has_acknowledged_early = false;
		a->idle_since = a->has_seen_partial ? weir_now() : 0;
		return;
	}
	/* The generation is over for this source: it acknowledges nothing more. */
	a->is_closed = true;
	a->has_seen_partial = false;
	__atomic_store_n(&weir->unexpected_run, 0, __ATOMIC_RELAXED);
	weir_recovery_clear(&a->recovery);
}

uint64_t
weir_unexpected(const struct weir *weir)
{
	return __atomic_load_n(&weir->unexpected_run, __ATOMIC_RELAXED);
}

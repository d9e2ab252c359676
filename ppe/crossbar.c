/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/crossbar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <rte_lcore.h>

#include "ppe/program_fast.h"
#include "ppe/ppe_priv.h"
#include "rmw/rmw.h"

#define RETURNS_BURST 64

RTE_DEFINE_PER_LCORE(struct ppe_worker *, ppe_worker_self);

uint64_t
crossbar_bytes(unsigned int workers, uint32_t depth, uint32_t returns)
{
	uint64_t pairs = (uint64_t)workers * (workers - 1);

	return pairs *
		(rte_ring_get_memsize(depth) + rte_ring_get_memsize(rte_align32pow2(returns + 1)));
}

static struct rte_ring *
ring(const struct ppe *ppe, const char *kind, unsigned int from, unsigned int to, uint32_t size,
	unsigned int flags)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "weir_%s_%u_%u", kind, from, to);
	return rte_ring_create(name, size, (int)rte_lcore_to_socket_id(ppe->lcore[to]), flags);
}

int
crossbar_create(struct ppe *ppe, uint32_t depth, uint32_t returns)
{
	/* RTS: a preempted producer does not stop the others. */
	const unsigned int many = RING_F_MP_RTS_ENQ | RING_F_SC_DEQ;
	const unsigned int single = RING_F_SP_ENQ | RING_F_SC_DEQ;

	returns = rte_align32pow2(returns + 1);
	for (unsigned int to = 0; to < ppe->config.workers; to++) {
		ppe->worker[to]->foreign = ring(ppe, "for", to, to, returns, many);
		if (ppe->worker[to]->foreign == NULL)
			return -ENOMEM;
		for (unsigned int from = 0; from < ppe->config.workers; from++) {
			struct ppe_peer *out = &ppe->worker[from]->peer[to];
			struct ppe_peer *in = &ppe->worker[to]->peer[from];

			if (from == to)
				continue;
			out->out = in->in = ring(ppe, "hop", from, to, depth, single);
			out->returns_out = in->returns_in =
				ring(ppe, "ret", from, to, returns, single);
			if (out->out == NULL || out->returns_out == NULL)
				return -ENOMEM;
		}
	}
	return 0;
}

/* Free the packets left in a ring after the workers have stopped. */
static unsigned int
peer_empty(struct ppe_peer *peer)
{
	unsigned int freed = peer->staged;
	void *entry;

	while (peer->staged > 0)
		rte_pktmbuf_free(crossbar_mbuf(peer->stage[--peer->staged]));
	while (peer->in != NULL && rte_ring_sc_dequeue(peer->in, &entry) == 0) {
		rte_pktmbuf_free(crossbar_mbuf(entry));
		freed++;
	}
	return freed;
}

/* Free the buffers in a return ring that is no longer in use. */
static void
free_returned(struct rte_ring *ring_returns)
{
	void *buffer;

	while (ring_returns != NULL && rte_ring_sc_dequeue(ring_returns, &buffer) == 0)
		rmw_unhold(buffer, 1);
	rte_ring_free(ring_returns);
}

unsigned int
crossbar_destroy(struct ppe *ppe)
{
	unsigned int freed = 0;

	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; ppe->worker[w] != NULL && p < ppe->config.workers; p++)
			freed += peer_empty(&ppe->worker[w]->peer[p]);
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		if (ppe->worker[w] == NULL)
			continue;
		free_returned(ppe->worker[w]->foreign);
		for (unsigned int p = 0; p < ppe->config.workers; p++) {
			free_returned(ppe->worker[w]->peer[p].returns_in);
			rte_ring_free(ppe->worker[w]->peer[p].in);
		}
	}
	return freed;
}

static void
resume(struct ppe_worker *worker, struct rte_mbuf *packet)
{
	struct ppe_thread *thread = worker->free[--worker->free_count];
	const struct crossbar_hop *hop = pktbuf_priv(packet);

	thread->packet = packet;
	thread->port = hop->port;
	thread->ordered = 0;
	thread->program = hop->program;
	thread->next = PPE_RUN(hop->segment);
	thread->head = hop->head;
	/* The head may have been a copy in the sender's context. */
	thread->head.bytes = rte_pktmbuf_read(
		packet, 0, RTE_MIN(packet->pkt_len, (uint32_t)PKTBUF_HEAD_BYTES), thread->scratch);
	memcpy(thread->lmem, hop->lmem, PPE_HOP_BYTES);
	worker->live[worker->live_count++] = thread;
	worker->count.worker.hops_in++;
	worker->count.threads_in[hop->program]++;
}

static unsigned int
receive_returns(struct rte_ring *ring_returns)
{
	void *entries[RETURNS_BURST];
	unsigned int n = rte_ring_sc_dequeue_burst(ring_returns, entries, RETURNS_BURST, NULL);

	for (unsigned int i = 0; i < n; i++)
		rmw_unhold(entries[i], 1);
	return n;
}

/* Another core wrote these lines last: fetch them all at once. */
static void
prefetch_arrival(void *entry)
{
	struct rte_mbuf *packet = crossbar_mbuf(entry);

	rte_prefetch0(packet);
	for (unsigned int at = 0; !crossbar_is_raw(entry) && at < sizeof(struct crossbar_hop);
		at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0((const uint8_t *)pktbuf_priv(packet) + at);
}

/* Take an entry. false: a thread that must wait, because no context is free or it would overtake
 * packets of the backlog. */
static inline bool
take(struct ppe_worker *worker, void *entry, bool *raw)
{
	const struct crossbar_hop *hop;

	if (likely(crossbar_is_raw(entry))) {
		struct rte_mbuf *packet = crossbar_mbuf(entry);

		worker->count.worker.hops_in++;
		*raw = true;
		/* 0: of a program without jobs */
		if (unlikely(!worker->hopped(
			    worker->state[worker->recognizer], packet, packet->hash.usr)) &&
			packet->hash.usr != 0) {
			worker->count.drops[PPE_DROP_UNKNOWN_JOB]++;
			rte_pktmbuf_free(packet);
			return true;
		}
		worker->backlog[worker->backlog_tail++] = packet;
		return true;
	}
	hop = pktbuf_priv(entry);
	if (hop->segment == NULL) {
		ppe_output(worker, entry, hop->port, hop->priority);
		return true;
	}
	if (unlikely(*raw || worker->free_count == 0))
		return false;
	resume(worker, entry);
	return true;
}

/* Take entries of a ring, while the backlog is less than half full. */
static unsigned int
take_entries(struct ppe_worker *worker, struct rte_ring *in)
{
	void *entries[256];
	unsigned int room = PPE_BACKLOG / 2 - RTE_MIN(PPE_BACKLOG / 2, worker->backlog_tail);
	unsigned int n = rte_ring_dequeue_burst_start(
		in, entries, RTE_MIN(room, (unsigned int)RTE_DIM(entries)), NULL);
	unsigned int taken = 0;
	bool raw = false;

	for (unsigned int i = 0; i < n; i++)
		prefetch_arrival(entries[i]);
	for (unsigned int i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(crossbar_mbuf(entries[i]), void *));
	while (taken < n && take(worker, entries[taken], &raw))
		taken++;
	rte_ring_dequeue_finish(in, taken);
	return taken;
}

unsigned int
crossbar_receive(struct ppe_worker *worker)
{
	unsigned int total = receive_returns(worker->foreign);

	for (unsigned int p = 0; p < worker->workers; p++)
		if (p != worker->id) {
			total += receive_returns(worker->peer[p].returns_in);
			total += take_entries(worker, worker->peer[p].in);
		}
	return total;
}

void
crossbar_tell_others(struct ppe_worker *worker, uint8_t program, ppe_segment segment,
	const void *message, size_t bytes)
{
	for (uint16_t w = 0; w < worker->workers; w++) {
		struct ppe_thread messenger;

		if (w == worker->id)
			continue;
		messenger.packet = ppe_packet_alloc(worker);
		if (messenger.packet == NULL)
			return;
		messenger.port = 0;
		messenger.program = program;
		memset(&messenger.head, 0, sizeof(messenger.head));
		memcpy(messenger.lmem, message, bytes);
		crossbar_send_thread(worker, w, &messenger, segment, false);
	}
}

void
crossbar_flush(struct ppe_worker *worker, uint16_t to)
{
	struct ppe_peer *peer = &worker->peer[to];
	unsigned int sent = rte_ring_sp_enqueue_burst(peer->out, peer->stage, peer->staged, NULL);
	unsigned int kept = 0;

	for (unsigned int i = sent; i < peer->staged; i++) {
		void *entry = peer->stage[i];
		const struct crossbar_hop *hop = crossbar_is_raw(entry) ? NULL : pktbuf_priv(entry);

		if (hop != NULL && hop->certain) {
			peer->stage[kept++] = entry;
			continue;
		}
		if (hop != NULL && hop->segment != NULL)
			worker->count.threads_lost[hop->program]++;
		worker->count.drops[PPE_DROP_CROSSBAR_FULL]++;
		rte_pktmbuf_free(crossbar_mbuf(entry));
	}
	peer->staged = (uint16_t)kept;
}

void
crossbar_flush_all(struct ppe_worker *worker)
{
	for (uint16_t p = 0; p < worker->workers; p++)
		if (worker->peer[p].staged > 0)
			crossbar_flush(worker, p);
}

/* Only outgoing packets, so that a sum over workers counts each packet once. */
unsigned int
crossbar_in_flight(const struct ppe_worker *worker)
{
	unsigned int n = 0;

	for (unsigned int p = 0; p < worker->workers; p++)
		if (p != worker->id)
			n += worker->peer[p].staged + rte_ring_count(worker->peer[p].out);
	return n;
}

void
crossbar_payload_released(void *address __rte_unused, void *opaque)
{
	struct ppe_worker *self = RTE_PER_LCORE(ppe_worker_self);
	struct rmw_buffer *buffer = opaque;
	struct ppe_worker *owner = buffer->user;

	/* The ring cannot be full: it has room for every attach mbuf. */
	if (likely(self == owner))
		rmw_unhold(buffer, 1);
	else if (self != NULL)
		(void)rte_ring_sp_enqueue(self->peer[owner->id].returns_out, buffer);
	else
		(void)rte_ring_enqueue(owner->foreign, buffer);
}

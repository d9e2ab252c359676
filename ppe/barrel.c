/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_cycles.h>
#include <rte_lcore.h>

#include "ppe/dispatch_fast.h"
#include "ppe/ppe_priv.h"

/* Rounds of the barrel in a turn when nothing waits behind its threads: most packets then end in
 * the turn in which they came, and wait for no polls. Others go on in the next one. */
#define ROUNDS 8

/* Poll each port queue of ours once, as far as the backlog has room. */
static unsigned int
receive(struct ppe_worker *worker)
{
	struct rte_mbuf *packets[256];
	unsigned int total = 0;

	for (unsigned int i = 0; i < worker->nb_rx; i++) {
		struct ppe_rx_queue *rx = &worker->rx[worker->rx_next];
		uint16_t used = (uint16_t)(worker->backlog_tail - worker->backlog_head);
		uint16_t room = (uint16_t)(PPE_BACKLOG - used);
		uint16_t n;
		uint64_t bytes = 0;

		if (unlikely(room < worker->burst))
			break;
		if (++worker->rx_next == worker->nb_rx)
			worker->rx_next = 0;
		n = pktbuf_port_rx(rx->port, rx->queue, packets, worker->burst);
		for (uint16_t k = 0; k < n; k++) {
			struct rte_mbuf *packet = packets[k];

			rte_prefetch0(rte_pktmbuf_mtod(packet, void *));
			packet->port = rx->port->index;
			bytes += packet->pkt_len;
			worker->backlog[worker->backlog_tail++ % PPE_BACKLOG] = packet;
		}
		worker->count.rx_packets[rx->port->index] += n;
		worker->count.rx_bytes[rx->port->index] += bytes;
		worker->count.received += n;
		total += n;
	}
	return total;
}

/* Start the oldest packet of the backlog that some program takes. False: the backlog is empty. */
static inline bool
start_next(struct ppe_worker *worker, struct ppe_thread *thread)
{
	while (worker->backlog_head != worker->backlog_tail)
		if (dispatch_start(
			    worker, thread, worker->backlog[worker->backlog_head++ % PPE_BACKLOG]))
			return true;
	return false;
}

/* Waiting threads of this flow may go on when this one has given its ticket back. A thread that
 * ended without its turn (it dropped early) stays until it is its turn, or tickets would be given
 * back out of order. */
static struct ppe_next
ended_early(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (!dispatch_my_turn(worker, thread))
		return PPE_RUN(ended_early);
	return PPE_END;
}

struct ppe_next
ppe_wait_turn(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (!dispatch_my_turn(worker, thread))
		return PPE_RUN(ppe_wait_turn);
	return PPE_RUN(thread->turn);
}

/*
 * Has this thread come to its end? An ordered one that ended before its turn (it dropped early)
 * stays until then, or tickets would be given back out of order.
 */
static inline bool
ended(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (likely(!thread->ordered))
		return true;
	if (unlikely(!dispatch_my_turn(worker, thread))) {
		thread->next = PPE_RUN(ended_early);
		return false;
	}
	worker->flow[thread->flow].head++;
	thread->ordered = 0;
	return true;
}

/* One segment of each live thread, the oldest first: packets stay in the order in which they came,
 * as far as their threads take equally many segments, and ordered ones seldom wait. */
static void
barrel_round(struct ppe_worker *worker)
{
	unsigned int live = 0;

	worker->count.worker.segments += worker->live_count;
	for (unsigned int i = 0; i < worker->live_count; i++) {
		struct ppe_thread *thread = worker->live[i];
		struct ppe_next next = thread->next.run(worker, thread);

		if (likely(next.run != NULL))
			thread->next = next;
		else if (likely(ended(worker, thread))) {
			worker->free[worker->free_count++] = thread;
			continue;
		}
		worker->live[live++] = thread;
	}
	worker->live_count = (uint16_t)live;
}

/* Threads for the backlog while contexts are free; the newest last. */
static void
fill(struct ppe_worker *worker)
{
	while (worker->free_count > 0) {
		struct ppe_thread *thread = worker->free[worker->free_count - 1];

		if (!start_next(worker, thread))
			return;
		worker->free_count--;
		worker->live[worker->live_count++] = thread;
	}
}

/* Is the packet nobody else's, and one mbuf with its data in itself? Told from its first line. */
static inline bool
plain(const struct rte_mbuf *packet)
{
	return packet->nb_segs == 1 && rte_mbuf_refcnt_read(packet) == 1 && RTE_MBUF_DIRECT(packet);
}

/*
 * Plain packets go back to their pool in bulk, as drivers do it that know what they sent; the rest
 * by DPDK's own way, which reads each mbuf's second line for nothing but a pointer that is NULL.
 */
void
ppe_free_consumed(struct ppe_worker *worker)
{
	struct rte_mbuf *group[PPE_CONSUMED];
	struct rte_mempool *pool = NULL;
	unsigned int n = 0;

	for (unsigned int i = 0; i < worker->nb_consumed; i++) {
		struct rte_mbuf *packet = worker->consumed[i];

		if (unlikely(!plain(packet))) {
			rte_pktmbuf_free(packet);
			continue;
		}
		if (unlikely(packet->pool != pool && n > 0)) {
			rte_mempool_put_bulk(pool, (void **)group, n);
			n = 0;
		}
		pool = packet->pool;
		group[n++] = packet;
	}
	if (n > 0)
		rte_mempool_put_bulk(pool, (void **)group, n);
	worker->nb_consumed = 0;
}

static unsigned int
transmit(struct ppe_worker *worker)
{
	unsigned int sent = 0;

	for (unsigned int i = 0; i < worker->nb_outq; i++)
		sent += pktbuf_outq_flush(worker->outq[i]);
	return sent;
}

uint64_t
ppe_worker_in_flight(const struct ppe_worker *worker)
{
	uint64_t n = crossbar_in_flight(worker);

	n += (uint16_t)(worker->backlog_tail - worker->backlog_head);
	for (unsigned int i = 0; i < worker->live_count; i++)
		n += worker->live[i]->packet != NULL;
	for (unsigned int i = 0; i < worker->nb_outq; i++)
		n += pktbuf_outq_depth(worker->outq[i]);
	return n;
}

int
ppe_barrel(void *arg)
{
	struct ppe_worker *worker = arg;
	struct ppe *ppe = worker->ppe;
	uint32_t state;

	RTE_PER_LCORE(ppe_worker_self) = worker;
	ppe_idle_prepare(&ppe->config);
	rte_rcu_qsbr_thread_register(ppe->qsbr, worker->id);
	rte_rcu_qsbr_thread_online(ppe->qsbr, worker->id);
	ppe_timer_arm(worker, rte_rdtsc());

	/* Acquire: what the control thread wrote before it changed the state is seen here. */
	while ((state = __atomic_load_n(&ppe->state, __ATOMIC_ACQUIRE)) != PPE_STATE_STOPPED) {
		unsigned int work, timers = 0;

		worker->now = rte_rdtsc();
		/* Acquire pairs with the release in ppe_publish_jobs: the table is whole. */
		worker->jobs = __atomic_load_n(&ppe->jobs, __ATOMIC_ACQUIRE);
		work = crossbar_receive(worker);
		if (likely(state == PPE_STATE_RUNNING)) {
			timers = ppe_timer_launch(worker);
			work += receive(worker);
		}
		fill(worker);
		/* A timer's slice is no reason to stay awake. */
		work += worker->live_count - timers;
		for (unsigned int rounds = 0; rounds < ROUNDS && worker->live_count > 0; rounds++) {
			barrel_round(worker);
			if (worker->backlog_head == worker->backlog_tail)
				continue;
			fill(worker);
			rounds = 0;
		}
		ppe_free_consumed(worker);
		crossbar_flush_all(worker);
		work += transmit(worker);
		/* No thread keeps a pointer into the job table over a segment's end. */
		rte_rcu_qsbr_quiescent(ppe->qsbr, worker->id);

		worker->count.worker.turns++;
		if (work > 0) {
			worker->count.worker.busy_turns++;
			worker->empty_turns = 0;
			__atomic_store_n(&worker->resting, 0, __ATOMIC_RELAXED);
			continue;
		}
		/* Release: the control thread that sees us rest sees our last hand-over, too. */
		__atomic_store_n(&worker->resting,
			state == PPE_STATE_DRAINING && ppe_worker_in_flight(worker) == 0,
			__ATOMIC_RELEASE);
		ppe_idle_turn(&ppe->config, ++worker->empty_turns);
	}
	rte_rcu_qsbr_thread_offline(ppe->qsbr, worker->id);
	rte_rcu_qsbr_thread_unregister(ppe->qsbr, worker->id);
	RTE_PER_LCORE(ppe_worker_self) = NULL;
	return 0;
}

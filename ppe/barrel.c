/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_cycles.h>
#include <rte_lcore.h>

#include "ppe/dispatch_fast.h"
#include "ppe/faults/faults_priv.h"
#include "ppe/filters/filters_priv.h"
#include "ppe/ppe_priv.h"
#include "ppe/trace/trace_fast.h"

/* Rounds of the barrel in a turn after the backlog is empty. Most packets end in them. */
#define ROUNDS 8

/* The functions of a turn are compiled without and with a trace (`traced` is constant), so that
 * they need not test for it. */
#define TWICE static __rte_always_inline

static inline unsigned int
backlog(const struct ppe_worker *worker)
{
	return (unsigned int)worker->backlog_tail - worker->backlog_head;
}

/* Poll each port queue of this worker once, as far as the backlog has room. */
TWICE unsigned int
poll_queues(struct ppe_worker *worker, const bool traced)
{
	unsigned int total = 0;

	for (unsigned int i = 0; i < worker->nb_rx; i++) {
		struct rte_mbuf **packets = worker->backlog + worker->backlog_tail;
		struct ppe_rx_queue *rx = &worker->rx[worker->rx_next];
		uint16_t n, port = rx->port->index;
		uint64_t bytes = 0;

		if (unlikely(PPE_BACKLOG - worker->backlog_tail < worker->burst)) {
			worker->more = true;
			break;
		}
		if (++worker->rx_next == worker->nb_rx)
			worker->rx_next = 0;
		n = pktbuf_port_rx(rx->port, rx->queue, packets, worker->burst);
		worker->more |= n == worker->burst;
		for (uint16_t k = 0; k < n; k++) {
			rte_prefetch0(rte_pktmbuf_mtod(packets[k], void *));
			packets[k]->port = port;
			bytes += packets[k]->pkt_len;
		}
		worker->backlog_tail = (uint16_t)(worker->backlog_tail + n);
		if (unlikely(worker->faults != NULL) && n > 0)
			ppe_faults_in(worker, (unsigned int)(rx - worker->rx), n);
		worker->count.rx_packets[port] += n;
		worker->count.rx_bytes[port] += bytes;
		worker->count.received += n;
		total += n;
		if (traced)
			ppe_trace_step(worker, PPE_EVENT_RECEIVE, port, n);
	}
	return total;
}

/* Poll the queues; more than once while they have packets for a batch. */
TWICE unsigned int
receive(struct ppe_worker *worker, const bool traced)
{
	unsigned int total = 0;

	do {
		worker->more = false;
		total += poll_queues(worker, traced);
	} while (worker->batched != NULL && worker->more && backlog(worker) < worker->batch);
	return total;
}

/* Does a thread have a packet? */
static inline bool
threads_have_packets(const struct ppe_worker *worker)
{
	for (unsigned int i = 0; i < worker->live_count; i++)
		if (worker->live[i]->packet != NULL)
			return true;
	return false;
}

/* Start the oldest packet of the backlog that a program takes. False: the backlog is empty. */
static inline bool
start_next(struct ppe_worker *worker, struct ppe_thread *thread)
{
	while (worker->backlog_head != worker->backlog_tail)
		if (dispatch_start(worker, thread, worker->backlog[worker->backlog_head++]))
			return true;
	return false;
}

/* The segment of a thread that ended before its turn (a drop). Tickets return in order. */
struct ppe_next
ppe_ended_early(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (!dispatch_my_turn(worker, thread))
		return PPE_RUN(ppe_ended_early);
	return PPE_END;
}

struct ppe_next
ppe_wait_turn(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (!dispatch_my_turn(worker, thread))
		return PPE_RUN(ppe_wait_turn);
	return PPE_RUN(thread->turn);
}

struct ppe_next
ppe_pass_on(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct ppe_match *match = worker->match, *end = match + worker->nb_matches;
	const bool to_switch = dispatch_to_switch(worker, &thread->head);

	while (match < end && match->program != thread->program)
		match++;
	/* A program that is being unloaded has no matches: all but the first program follow. */
	if (match == end)
		for (match = worker->match; match < end && match->program == worker->recognizer;)
			match++;
	for (; match < end; match++)
		if (match->program != thread->program &&
			dispatch_matches(worker, match, &thread->head, to_switch))
			return ppe_pass(worker, thread, match->program);
	return ppe_drop(worker, thread, PPE_DROP_NO_PROGRAM);
}

/* Has the thread ended, and given its ticket back? */
static inline bool
ended(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (likely(!thread->ordered))
		return true;
	if (unlikely(!dispatch_my_turn(worker, thread))) {
		thread->next = PPE_RUN(ppe_ended_early);
		return false;
	}
	worker->flow[thread->flow].head++;
	thread->ordered = 0;
	return true;
}

/* Run one segment of each live thread, oldest first, so that ordered packets seldom wait. */
TWICE void
barrel_round(struct ppe_worker *worker, const bool traced)
{
	unsigned int live = 0;

	worker->count.worker.segments += worker->live_count;
	for (unsigned int i = 0; i < worker->live_count; i++) {
		struct ppe_thread *thread = worker->live[i];
		struct ppe_next next =
			traced ? ppe_trace_run(worker, thread) : thread->next.run(worker, thread);

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

/* Start threads for the backlog while contexts are free. */
TWICE void
fill(struct ppe_worker *worker, const bool traced)
{
	unsigned int before = worker->live_count;

	while (worker->free_count > 0) {
		struct ppe_thread *thread = worker->free[worker->free_count - 1];

		if (!start_next(worker, thread))
			break;
		worker->free_count--;
		worker->live[worker->live_count++] = thread;
	}
	if (traced) {
		ppe_trace_starts(worker, before);
		ppe_trace_step(worker, PPE_EVENT_DISPATCH, 0, worker->live_count - before);
	}
}

bool
ppe_start_chosen(struct ppe_worker *worker, struct rte_mbuf *packet, uint8_t program)
{
	struct ppe_thread *thread;

	while (worker->free_count == 0)
		barrel_round(worker, false);
	thread = worker->free[worker->free_count - 1];
	if (!dispatch_chosen(worker, thread, packet, program))
		return false;
	worker->free_count--;
	worker->live[worker->live_count++] = thread;
	if (worker->tracer != NULL)
		ppe_trace_starts(worker, worker->live_count - 1u);
	return true;
}

/* Run threads until none has a packet. False: some have one after ROUNDS rounds. */
static bool
finish_threads(struct ppe_worker *worker)
{
	for (unsigned int rounds = 0; threads_have_packets(worker); rounds++) {
		if (rounds == ROUNDS)
			return false;
		barrel_round(worker, false);
	}
	return true;
}

/* Start threads for the first n packets of the backlog. False: contexts are missing. */
static bool
fill_first(struct ppe_worker *worker, unsigned int n)
{
	uint16_t tail = worker->backlog_tail;

	worker->backlog_tail = (uint16_t)(worker->backlog_head + n);
	fill(worker, false);
	n = backlog(worker);
	worker->backlog_tail = tail;
	return n == 0;
}

/* Let the programs behind the first one take their packets of the backlog in batches. */
static __rte_noinline void
run_early(struct ppe_worker *worker)
{
	for (unsigned int i = 0; i < worker->nb_early && backlog(worker) > 0; i++) {
		const unsigned int p = worker->early[i], n = backlog(worker);
		const uint64_t hops = worker->count.worker.hops_out;
		unsigned int followers = 0, left;

		left = worker->table->slot[p]->program->batch(worker, worker->state[p],
			worker->backlog + worker->backlog_head, n, &followers);
		worker->count.worker.batched += n - left - (worker->count.worker.hops_out - hops);
		worker->backlog_tail = (uint16_t)(worker->backlog_head + left);
	}
}

/*
 * Let the program take packets of the backlog in batches. Threads with packets end first, because
 * later packets of their sources must not overtake them. For the same reason, threads of the
 * packets that a batch leaves end before the next batch gets their followers.
 */
static __rte_noinline void
run_batch(struct ppe_worker *worker)
{
	if (unlikely(worker->nb_early > 0)) {
		/* Threads end first: later packets of their sources must not overtake them. */
		if (!finish_threads(worker))
			return;
		run_early(worker);
	}
	for (unsigned int pass = 0; pass < ROUNDS && backlog(worker) > 0; pass++) {
		struct rte_mbuf **packets = worker->backlog + worker->backlog_head;
		const uint64_t hops = worker->count.worker.hops_out;
		unsigned int n = backlog(worker), left, followers;

		if (!finish_threads(worker))
			return;
		left = worker->batched(
			worker, worker->state[worker->recognizer], packets, n, &followers);
		worker->count.worker.batched += n - left - (worker->count.worker.hops_out - hops);
		worker->backlog_tail = (uint16_t)(worker->backlog_head + left);
		if (followers == 0 || (pass > 0 && left == n) ||
			!fill_first(worker, left - followers))
			return;
	}
}

/* Is the packet one direct mbuf without other references? Reads only its first line. */
static inline bool
plain(const struct rte_mbuf *packet)
{
	return packet->nb_segs == 1 && rte_mbuf_refcnt_read(packet) == 1 && RTE_MBUF_DIRECT(packet);
}

/* Plain packets return to their pool in bulk. DPDK would read the second line of each mbuf. */
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

void
ppe_output_refused(struct ppe_worker *worker, const struct pktbuf_outq *outq,
	struct rte_mbuf *packet, unsigned int priority, enum pktbuf_refusal refusal)
{
	static const enum ppe_drop reason[] = {
		[PKTBUF_QUEUE_FULL] = PPE_DROP_QUEUE_FULL,
		[PKTBUF_PORT_STALLED] = PPE_DROP_PORT_STALLED,
		[PKTBUF_TOO_LONG] = PPE_DROP_TOO_LONG,
		[PKTBUF_NO_MBUF] = PPE_DROP_NO_MBUF,
	};
	const uint16_t port = outq->port->index;

	worker->count.queue_full[port][priority] += refusal == PKTBUF_QUEUE_FULL;
	worker->count.stalled[port] += refusal == PKTBUF_PORT_STALLED;
	worker->count.too_long[port] += refusal == PKTBUF_TOO_LONG;
	worker->count.drops[reason[refusal]]++;
	rte_pktmbuf_free(packet);
}

/* Share the room for waiting packets among the queues that could not send all. */
static __rte_noinline void
limit_queues(struct ppe_worker *worker, uint32_t waiting)
{
	worker->limited = waiting > 0;
	for (unsigned int i = 0; i < worker->nb_outq; i++)
		pktbuf_outq_limit(worker->outq[i], worker->share - RTE_MIN(worker->share, waiting));
}

TWICE unsigned int
transmit(struct ppe_worker *worker, const bool traced)
{
	unsigned int total = 0;
	uint32_t waiting = 0;

	if (unlikely(worker->faults != NULL))
		ppe_faults_out(worker);
	for (unsigned int i = 0; i < worker->nb_outq; i++) {
		unsigned int sent = pktbuf_outq_flush(worker->outq[i], &waiting);

		if (traced)
			ppe_trace_step(
				worker, PPE_EVENT_TRANSMIT, worker->outq[i]->port->index, sent);
		total += sent;
	}
	if (unlikely(waiting > 0 || worker->limited))
		limit_queues(worker, waiting);
	return total;
}

TWICE unsigned int
cross(struct ppe_worker *worker, const bool traced)
{
	unsigned int before = worker->live_count, n = crossbar_receive(worker);

	if (traced) {
		ppe_trace_step(worker, PPE_EVENT_CROSSBAR, 0, n);
		ppe_trace_arrivals(worker, before);
	}
	return n;
}

TWICE unsigned int
launch_timers(struct ppe_worker *worker, const bool traced)
{
	unsigned int before = worker->live_count, n = ppe_timer_launch(worker);

	if (traced) {
		ppe_trace_starts(worker, before);
		ppe_trace_step(worker, PPE_EVENT_TIMERS, 0, n);
	}
	return n;
}

/*
 * A worker that sleeps or loses its CPU for longer than a timeout must not take the sources of
 * waiting packets for stragglers. So timers use a time up to which all packets were received: the
 * beginning of the previous turn, or of this one if it found none. While more packets wait than one
 * turn receives, no timer runs (ppe_timer_must_wait), neither here nor on the workers that get
 * these packets. (Packets that a delayed worker has not received are unknown.)
 */

/* TSC cycles, some tenths of a ms: packets may wait after a pause of this length between two
 * turns. */
#define AWAY (UINT64_C(1) << 20)

/* Most turns that timers wait for a worker to catch up: an overloaded worker never does. */
#define BEHIND_TURNS 256

static inline void
begin_turn(struct ppe_worker *worker, uint64_t now)
{
	worker->seen = worker->begun;
	worker->away = now - worker->begun > AWAY;
	worker->begun = now;
	worker->now = now;
}

/* Update whether this worker has received all packets that arrived during its pause. */
static __rte_noinline void
catch_up(struct ppe_worker *worker)
{
	uint32_t behind = worker->behind;
	bool more = worker->more;

	for (unsigned int p = 0; p < worker->workers; p++)
		more |= p != worker->id && rte_ring_count(worker->peer[p].in) > 0;
	if (!more) {
		behind = 0;
		worker->gave_up = false;
	} else if (behind > 0) {
		worker->gave_up = --behind == 0;
	} else if (!worker->gave_up) {
		behind = BEHIND_TURNS;
	}
	__atomic_store_n(&worker->behind, behind, __ATOMIC_RELAXED);
}

static inline void
note_time(struct ppe_worker *worker, unsigned int work)
{
	if (work == 0)
		worker->seen = worker->now;
	else
		worker->now = ppe_clock_read(worker);
	if (unlikely(worker->away || worker->behind > 0 || worker->gave_up))
		catch_up(worker);
}

/* One turn: from rings and ports to rings and ports. Returns the amount of work. */
TWICE unsigned int
turn(struct ppe_worker *worker, uint32_t state, const bool traced)
{
	/* A timer that found no free context goes first in the next turn: a flood from other
	 * workers must not stop the search for stragglers. */
	const bool running = state == PPE_STATE_RUNNING, first = worker->timers_first;
	unsigned int work = 0, timers = 0, crossed;

	if (unlikely(first) && likely(running))
		timers = launch_timers(worker, traced);
	/* Each turn ends with an empty backlog. */
	worker->backlog_head = worker->backlog_tail = 0;
	work += cross(worker, traced);
	crossed = worker->backlog_tail;
	if (likely(running)) {
		if (likely(!first))
			timers = launch_timers(worker, traced);
		work += receive(worker, traced);
	}
	worker->timers_first = !first && timers == 0 && worker->free_count == 0;
	if (unlikely(worker->faults != NULL))
		work += ppe_faults_release(worker, state != PPE_STATE_RUNNING);
	if (unlikely(worker->filters != NULL))
		work += ppe_filters_run(worker, crossed);
	/* A timer's slice does not keep the worker awake, unless it took contexts from packets. */
	work += backlog(worker) + worker->live_count - (likely(!first) ? timers : 0);
	note_time(worker, work);
	if (!traced && likely(worker->batched != NULL) && backlog(worker) > 0)
		run_batch(worker);
	fill(worker, traced);
	for (unsigned int rounds = 0; rounds < ROUNDS && worker->live_count > 0; rounds++) {
		barrel_round(worker, traced);
		if (worker->backlog_head == worker->backlog_tail)
			continue;
		fill(worker, traced);
		rounds = 0;
	}
	ppe_free_consumed(worker);
	crossbar_flush_all(worker);
	return work + transmit(worker, traced);
}

static __rte_noinline unsigned int
traced_turn(struct ppe_worker *worker, uint32_t state, struct ppe_trace *trace)
{
	struct ppe_tracer *tracer = ppe_tracer_of(trace, worker);
	unsigned int work;

	if (tracer == NULL)
		return turn(worker, state, false);
	ppe_trace_turn_begin(worker, tracer);
	work = turn(worker, state, true);
	ppe_trace_turn_end(worker, work);
	return work;
}

uint64_t
ppe_worker_in_flight(const struct ppe_worker *worker)
{
	uint64_t n = crossbar_in_flight(worker);

	/* This is approximate for a running worker: entries come and go, and are never freed. */
	n += RTE_MAX((int)worker->backlog_tail - worker->backlog_head, 0);
	for (unsigned int i = 0; i < __atomic_load_n(&worker->live_count, __ATOMIC_RELAXED); i++) {
		const struct ppe_thread *thread =
			__atomic_load_n(&worker->live[i], __ATOMIC_RELAXED);

		n += thread != NULL && __atomic_load_n(&thread->packet, __ATOMIC_RELAXED) != NULL;
	}
	for (unsigned int i = 0; i < worker->nb_outq; i++)
		n += pktbuf_outq_depth(worker->outq[i]);
	n += ppe_faults_held(worker);
	return n;
}

/* Take a new table after all threads have ended, so that no thread sees both. */
static __rte_noinline void
take_table(struct ppe_worker *worker, const struct ppe_published *table)
{
	while (worker->live_count > 0)
		barrel_round(worker, false);
	ppe_take_table(worker, table);
}

/* How often output queues are tended. */
#define TENDS_PER_S 1000

static __rte_noinline void
tend(struct ppe_worker *worker, bool draining)
{
	worker->tend_at = worker->now + rte_get_tsc_hz() / TENDS_PER_S;
	for (unsigned int i = 0; i < worker->nb_outq; i++) {
		unsigned int dropped = pktbuf_outq_tend(worker->outq[i], worker->now, draining);

		worker->count.stalled[worker->outq[i]->port->index] += dropped;
		worker->count.drops[PPE_DROP_PORT_STALLED] += dropped;
	}
}

void
ppe_worker_begin(struct ppe_worker *worker)
{
	struct ppe *ppe = worker->ppe;

	RTE_PER_LCORE(ppe_worker_self) = worker;
	rte_rcu_qsbr_thread_register(ppe->qsbr, worker->id);
	rte_rcu_qsbr_thread_online(ppe->qsbr, worker->id);
	worker->begun = ppe_clock();
	ppe_timer_arm(worker, worker->begun);
}

void
ppe_worker_end(struct ppe_worker *worker)
{
	rte_rcu_qsbr_thread_offline(worker->ppe->qsbr, worker->id);
	rte_rcu_qsbr_thread_unregister(worker->ppe->qsbr, worker->id);
	RTE_PER_LCORE(ppe_worker_self) = NULL;
}

unsigned int
ppe_worker_turn(struct ppe_worker *worker, uint32_t state)
{
	struct ppe *ppe = worker->ppe;
	struct ppe_trace *trace = __atomic_load_n(&ppe->trace, __ATOMIC_ACQUIRE);
	const struct ppe_published *table;
	struct ppe_fault_set *faults;
	const struct ppe_filter_set *filters;
	unsigned int work;

	begin_turn(worker, ppe_clock_read(worker));
	/* Acquire pairs with the release in ppe_publish_jobs: the table is whole. */
	table = __atomic_load_n(&ppe->table, __ATOMIC_ACQUIRE);
	if (unlikely(table != worker->table))
		take_table(worker, table);
	faults = __atomic_load_n(&ppe->faults, __ATOMIC_ACQUIRE);
	if (unlikely(faults != worker->fault_set))
		ppe_take_faults(worker, faults);
	filters = __atomic_load_n(&ppe->filters, __ATOMIC_ACQUIRE);
	/* Release: the worker no longer uses the set before. */
	if (unlikely(filters != worker->filters))
		__atomic_store_n(&worker->filters, filters, __ATOMIC_RELEASE);
	if (likely(trace == NULL))
		work = turn(worker, state, false);
	else
		work = traced_turn(worker, state, trace);
	if (unlikely(worker->now >= worker->tend_at))
		tend(worker, state == PPE_STATE_DRAINING);
	rte_rcu_qsbr_quiescent(ppe->qsbr, worker->id);

	worker->count.worker.turns++;
	if (work > 0) {
		worker->count.worker.busy_turns++;
		worker->empty_turns = 0;
		__atomic_store_n(&worker->resting, 0, __ATOMIC_RELAXED);
		return work;
	}
	/* Release: a control thread that sees this worker rest also sees its hand-overs. */
	__atomic_store_n(&worker->resting,
		state == PPE_STATE_DRAINING && ppe_worker_in_flight(worker) == 0, __ATOMIC_RELEASE);
	worker->empty_turns++;
	return 0;
}

int
ppe_barrel(void *arg)
{
	struct ppe_worker *worker = arg;
	uint32_t state;

	ppe_idle_prepare(&worker->ppe->config);
	ppe_worker_begin(worker);
	/* Acquire: see what the control thread wrote before it changed the state. */
	while ((state = __atomic_load_n(&worker->ppe->state, __ATOMIC_ACQUIRE)) !=
		PPE_STATE_STOPPED)
		if (ppe_worker_turn(worker, state) == 0)
			ppe_idle_turn(worker);
	ppe_worker_end(worker);
	return 0;
}

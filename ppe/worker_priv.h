/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout of a worker: the whole state of one engine. Only its lcore writes it; the control
 * thread writes before start and after stop, and reads counters any time.
 */
#ifndef PPE_WORKER_PRIV_H
#define PPE_WORKER_PRIV_H

#include <stdint.h>

#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_ring.h>

#include "ppe/ppe.h"
#include "ppe/program.h"

/*
 * The clock of the engine, in cycles of the TSC. If the TSC goes back (after a suspension, or from
 * a snapshot), the step grows by as much, so that timers, deadlines and ages go on.
 */
extern uint64_t ppe_clock_step; /* worker 0: rw, others: ro */

/* The TSC. A weak symbol: tests define one that goes on only when they tell it to. ppe/timer.c */
uint64_t ppe_tsc(void);

static inline uint64_t
ppe_clock(void)
{
	return ppe_tsc() + __atomic_load_n(&ppe_clock_step, __ATOMIC_RELAXED);
}

#define PPE_FLOWS       1024 /* reorder slots; a power of two */
#define PPE_MATCHES_MAX 64
#define PPE_TIMERS_MAX  16
#define PPE_QUEUES_MAX  256 /* port queues that a worker can own */
#define PPE_BACKLOG     1024
#define PPE_CONSUMED    32 /* packets freed together */
#define PPE_STAGE       512 /* packets staged per destination; see ppe/crossbar.h */

/* The order of a flow: tickets are drawn at `tail`; the packet with ticket `head` may leave. */
struct ppe_flow {
	uint16_t head, tail;
};

struct ppe_rx_queue {
	struct pktbuf_port *port;
	uint16_t queue;
};

/* How this worker reaches a port: its own output queue, or the worker that has one. */
struct ppe_route {
	struct pktbuf_outq *queue; /* NULL: hop to `owner` */
	uint16_t owner;
};

/* Another worker: the rings to and from it, and the packets staged for it. */
struct ppe_peer {
	struct rte_ring *in, *out; /* threads, received packets and output packets */
	struct rte_ring *returns_in, *returns_out; /* returned payload buffers */
	uint16_t staged;
	void *stage[PPE_STAGE]; /* as in the rings: crossbar_fast.h */
};

struct ppe_timer_state {
	struct ppe_timer timer;
	uint64_t next; /* TSC of the next slice */
	uint64_t interval; /* TSC cycles between slices */
	uint64_t patience; /* TSC cycles that a slice waits, to share a thread with others */
	uint32_t slice;
	uint8_t program;
};

/* Counters; written by the worker, read by the control thread. */
struct ppe_counters {
	uint64_t received, created, consumed;
	uint64_t drops[PPE_DROP_COUNT];
	/* Threads that left for another worker, arrived, and were lost on the way, by program. */
	uint64_t threads_out[PPE_PROGRAMS_MAX], threads_in[PPE_PROGRAMS_MAX];
	uint64_t threads_lost[PPE_PROGRAMS_MAX];
	uint64_t rx_packets[PPE_PORTS_MAX], rx_bytes[PPE_PORTS_MAX];
	uint64_t queue_full[PPE_PORTS_MAX][2];
	uint64_t spoofed[PPE_PORTS_MAX], policed[PPE_PORTS_MAX];
	uint64_t stalled[PPE_PORTS_MAX], too_long[PPE_PORTS_MAX];
	struct ppe_worker_stats worker;
};

struct guard;
struct ppe_tracer;
struct ppe_fault_set;
struct ppe_fault_store;
struct ppe_filter_set;
struct ppe_published;

struct ppe_worker {
	/* read-mostly */
	struct ppe *ppe;
	const struct ppe_published *table; /* the table that this worker has taken */
	const struct ppe_jobs *jobs; /* the same, without the programs' shards */
	const struct pktbuf_identity *identity;
	struct pktbuf_pools *pools;
	struct guard *guard; /* ppe/guard.h */
	void *state[PPE_PROGRAMS_MAX]; /* by program */
	uint16_t id, workers, nb_ports, threads, burst;
	uint16_t nb_rx, nb_outq, nb_matches, nb_timers;
	uint32_t share; /* packets that may wait in this worker's output queues together */
	int16_t exception_port;
	uint8_t nb_early; /* programs that get the backlog before the first one */
	uint8_t early[PPE_PROGRAMS_MAX];
	uint8_t recognizer; /* the program with a shortcut, when recognize is not NULL */
	bool (*recognize)(struct ppe_worker *worker, void *state, struct ppe_thread *thread,
		struct rte_mbuf *packet);
	uint16_t batch; /* packets that go through a step of `batched` at once; 1: only threads */
	unsigned int (*batched)(struct ppe_worker *worker, void *state, struct rte_mbuf **packets,
		unsigned int n, unsigned int *followers); /* NULL: the recognizer has no batches */
	/* of the recognizer; never NULL */
	bool (*hopped)(const void *state, const struct rte_mbuf *packet, uint32_t job);
	struct ppe_match match[PPE_MATCHES_MAX];
	ppe_segment first[PPE_PROGRAMS_MAX];
	bool ordered[PPE_PROGRAMS_MAX];
	struct ppe_route route[PPE_PORTS_MAX];
	const struct pktbuf_port *port[PPE_PORTS_MAX];
	struct ppe_rx_queue rx[PPE_QUEUES_MAX];
	struct pktbuf_outq *outq[PPE_QUEUES_MAX];

	/* own writes */
	uint64_t now __rte_cache_aligned; /* TSC of this turn, read after it received packets */
	uint64_t seen; /* TSC: all packets that arrived before were dispatched in an earlier turn */
	uint64_t begun; /* TSC: begin of this turn */
	uint64_t tend_at; /* TSC of the next pktbuf_outq_tend */
	uint16_t live_count, free_count, rx_next, nb_consumed;
	uint16_t backlog_head, backlog_tail;
	bool timers_first; /* in this turn timers get contexts first */
	bool away; /* long before this turn */
	bool more; /* a queue returned a full burst when it was polled last */
	bool limited; /* some output queues have less than their depth */
	bool gave_up; /* was behind for too long and has not caught up since */
	struct ppe_fault_store *faults; /* NULL: no faults, and no held packets */
	struct ppe_fault_set *fault_set; /* the faults that this worker has taken */
	const struct ppe_filter_set *filters; /* that it has taken; NULL: none. ctrl reads it */
	struct ppe_tracer *tracer; /* in a traced turn; else NULL */
	struct ppe_thread *live[PPE_THREADS_MAX];
	struct ppe_thread *free[PPE_THREADS_MAX];
	struct rte_mbuf *consumed[PPE_CONSUMED]; /* counted as consumed, not yet freed */
	struct ppe_flow flow[PPE_FLOWS];
	struct rte_mbuf *backlog[PPE_BACKLOG]; /* received, not yet with a thread: [head, tail) */
	struct ppe_timer_state timer[PPE_TIMERS_MAX];
	struct ppe_counters count;
	struct ppe_thread *thread; /* `threads` contexts */
	struct ppe_peer *peer; /* `workers` entries, own one unused */
	struct rte_ring *foreign; /* payload buffers freed by other threads than workers */
	uint64_t yield_at; /* TSC: no yields before, ppe/idle.c */
	uint32_t long_yields; /* in a row */
	uint32_t empty_turns;

	/* written by this worker, read by the control thread */
	uint32_t resting __rte_cache_aligned; /* 1: draining, and nothing in progress */
	/* Turns until it is assumed to have caught up after a pause; 0: it has. Other workers'
	 * timers read this line. */
	uint32_t behind __rte_cache_aligned;
	const struct ppe_published *taken; /* the worker no longer uses the one before */
	const struct ppe_fault_set *fault_taken; /* the worker no longer uses the set before */
	/* made by the control thread before the first faults, then owned by the worker */
	struct ppe_fault_store *store;
} __rte_cache_aligned;

/* Free the consumed packets. barrel.c */
void ppe_free_consumed(struct ppe_worker *worker);

#endif

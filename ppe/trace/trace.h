/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces: what each worker and each thread did, for some milliseconds.
 *
 * While a trace runs, a worker writes fixed events of 32 bytes into a ring of its own that was
 * allocated before: a slice per segment and per step of the turn, hops, and what becomes of blocks.
 * A full ring ends the trace. Nobody else touches the ring until the worker has let go of it.
 *
 * Off, it costs a load and a branch per turn, and one branch per event of a block: the traced turn
 * is another compilation of the same loop (ppe/barrel.c), chosen once per turn. On, it costs a
 * reading of the time-stamp counter and a store of 32 bytes per segment, about 20 ns.
 *
 *   ppe_trace_start -> ppe_trace_done, from the event loop, until it is 1 -> ppe_trace_take
 *   -> read -> ppe_trace_free
 *
 * Thread safety: for the one control thread. At most one trace at a time.
 */
#ifndef PPE_TRACE_H
#define PPE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "ppe/ppe.h"
#include "ppe/program.h"

#define PPE_TRACE_MS_MAX     10000
#define PPE_TRACE_EVENTS     65536 /* a usual ring: 2 MiB per worker */
#define PPE_TRACE_EVENTS_MIN 16
#define PPE_TRACE_EVENTS_MAX (UINT32_C(1) << 22)

/* Slices have a length in `cycles`; the rest are instants. */
enum ppe_event_kind {
	/* slices of the worker itself */
	PPE_EVENT_TURN, /* a loop turn that did something; value: pieces of work */
	PPE_EVENT_CROSSBAR, /* taken from other workers; value: entries */
	PPE_EVENT_TIMERS, /* timer threads started; value: how many */
	PPE_EVENT_RECEIVE, /* a burst; port, value: packets */
	PPE_EVENT_DISPATCH, /* packets given to threads; value: how many */
	PPE_EVENT_TRANSMIT, /* an output queue's flush; port, value: packets taken */
	/* of a thread */
	PPE_EVENT_SEGMENT, /* slice; segment, program, end, id */
	PPE_EVENT_HOP_OUT, /* the thread left for another worker; value: its packet's address */
	PPE_EVENT_HOP_IN, /* it arrived here; value: the same address */
	/* of a block; id */
	PPE_EVENT_BLOCK_OPENED,
	PPE_EVENT_BLOCK_DONE,
	PPE_EVENT_BLOCK_RELEASED,
	PPE_EVENT_KINDS
};

/* What a segment did with the thread's packet: event.end. */
enum ppe_event_end {
	PPE_END_NONE, /* it still has the packet, or never had one */
	PPE_END_CONSUMED,
	PPE_END_SENT,
	PPE_END_HOPPED,
	PPE_END_DROPPED, /* PPE_END_DROPPED + enum ppe_drop: the reason */
};

struct ppe_event {
	uint64_t tsc; /* begin, or the moment; never falls within a ring */
	uint64_t id; /* ppe_trace_id of the packet or block; 0: it has none */
	union {
		ppe_segment segment;
		uint64_t value;
	};
	uint32_t cycles; /* length of a slice */
	uint8_t kind; /* enum ppe_event_kind */
	union {
		uint8_t thread; /* [0, threads) */
		uint8_t port; /* [0, nb_ports) */
	};
	uint8_t program; /* in the program list */
	uint8_t end; /* enum ppe_event_end */
};
static_assert(sizeof(struct ppe_event) == 32, "two events a line");

/* A worker's part of the trace. */
struct ppe_tracer {
	struct ppe_event *event; /* `used` of `size`; worker: wo, ctrl: ro after the end */
	uint32_t used, size;
	uint32_t full; /* 1: an event found no room. worker: wo, ctrl: ro, any time */
	uint32_t hops; /* events that tell of a hop, so that a reader can size its tables */
	uint32_t blocks; /* and those that tell of a block, contributions among them */
	uint32_t turn; /* worker's own: place of the turn's event */
	uint64_t clock; /* worker's own: TSC up to which its time is told */
	uint64_t id[PPE_THREADS_MAX]; /* worker's own: of the threads' packets */
	uint64_t drops[PPE_DROP_COUNT]; /* worker's own: counts before the segment */
	struct ppe_event spare; /* where events go that find no room */
} __rte_cache_aligned;

/* What became of a job while the trace ran. */
enum ppe_trace_change_kind { PPE_TRACE_ADDED, PPE_TRACE_CHANGED, PPE_TRACE_REMOVED };

#define PPE_TRACE_CHANGES                                                                          \
	256 /* of a trace; more are counted, and their jobs keep the names they had */

struct ppe_trace_change {
	uint64_t tsc; /* when the table was published: workers take it in their next turns */
	uint8_t kind; /* enum ppe_trace_change_kind */
	uint8_t id;
	char name[PPE_JOB_NAME_MAX];
};

/* A trace that has been taken is its reader's; all is plain data. */
struct ppe_trace {
	uint64_t begin, end; /* TSC */
	uint64_t hz; /* TSC cycles per second */
	unsigned int ms; /* as asked for; a full ring ends a trace earlier */
	bool full; /* some ring was */
	unsigned int nb_workers, threads, nb_ports, nb_programs;
	unsigned int lcore[PPE_WORKERS_MAX];
	const struct ppe_program *program[PPE_PROGRAMS_MAX];
	char port[PPE_PORTS_MAX][PKTBUF_NAME_MAX];
	char job[WEIR_JOBS_MAX][PPE_JOB_NAME_MAX]; /* when the trace began; "": there was none */
	unsigned int changes, changes_missed;
	struct ppe_trace_change change[PPE_TRACE_CHANGES]; /* in the order of their time */
	struct ppe_tracer worker[PPE_WORKERS_MAX];
};

/*
 * Ask for a trace of ms: [1, 10000] milliseconds into rings of `events` each: [16, 1 << 22].
 * Allocates 32 bytes per event and worker. 0, -EINVAL, -EBUSY: another one runs or was not taken,
 * -ENOMEM. A switch that does not run has an empty trace.
 */
int ppe_trace_start(struct ppe *ppe, unsigned int ms, unsigned int events);

/*
 * Go on, and say whether the trace is over and every worker has let go. The first calls, as many
 * as there are workers, touch a ring each (0.5 ms per MiB); with the last of them the trace begins.
 * Later ones switch it off when the time is up or a ring is full. Never waits, so ask again: a turn
 * of the slowest worker after its end the answer is yes. 1: ppe_trace_take is next. 0: not yet.
 * -ENOENT: there is none. -ETIMEDOUT: a worker has not turned for a second since the end; asking on
 * is fine, taking is not.
 */
int ppe_trace_done(struct ppe *ppe);

/* The trace, when ppe_trace_done has said 1; else NULL. The caller's, who gives it to
 * ppe_trace_free. */
struct ppe_trace *ppe_trace_take(struct ppe *ppe);

/* Nobody will take the trace that is being made, if one is: it is switched off now, and freed by the
 * next ppe_trace_start, or with the switch. */
void ppe_trace_abandon(struct ppe *ppe);

/* NULL is fine. */
void ppe_trace_free(struct ppe_trace *trace);

/* The three steps in one, sleeping in between: at most ms and two seconds. For tests and tools. On
 * success *out is the caller's. 0, or the errors of the steps: then the trace is abandoned, and its
 * memory freed when the last worker has let go of it. */
int ppe_trace(struct ppe *ppe, unsigned int ms, unsigned int events, struct ppe_trace **out);

/* The name of a segment's event, as the program gives it; NULL: it gives none. */
const char *ppe_trace_segment(const struct ppe_trace *trace, const struct ppe_event *event);

/* Did this segment add a contribution to the block of its id? */
static inline bool
ppe_event_contributes(const struct ppe_event *event)
{
	return event->kind == PPE_EVENT_SEGMENT && event->end == PPE_END_CONSUMED &&
		(uint16_t)(event->id >> 40) != WEIR_GEN_JOIN;
}

/* The parts of an id. A join's generation is 0, and its block the join's nonce. */
static inline uint8_t
ppe_trace_source(uint64_t id)
{
	return (uint8_t)(id >> 56);
}

static inline uint16_t
ppe_trace_generation(uint64_t id)
{
	return (uint16_t)(id >> 40);
}

static inline uint8_t
ppe_trace_job(uint64_t id)
{
	return (uint8_t)(id >> 32);
}

static inline uint32_t
ppe_trace_block(uint64_t id)
{
	return (uint32_t)id;
}

#endif

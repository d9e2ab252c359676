/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces: what each worker and each thread did, for some milliseconds.
 *
 * While a trace runs, a worker writes events of 32 bytes into its own ring, which was allocated
 * before: a slice per segment and per step of the turn, hops, and events of blocks. A full ring
 * ends the trace. No other thread touches the ring until the worker has given it up.
 *
 * Off, it costs a load and a branch per turn, and one branch per event of a block: the traced turn
 * is another compilation of the same loop (ppe/barrel.c), chosen once per turn. On, it costs
 * reading the time-stamp counter and storing 32 bytes per segment, about 20 ns.
 *
 *   ppe_trace_start -> ppe_trace_done, from the event loop, until it returns 1 -> ppe_trace_take
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
#define PPE_TRACE_EVENTS     65536 /* of the usual ring: 2 MiB per worker */
#define PPE_TRACE_EVENTS_MIN 16
#define PPE_TRACE_EVENTS_MAX (UINT32_C(1) << 22)

/* Slices have a length in `cycles`; other events are instants. */
enum ppe_event_kind {
	/* slices of the worker itself */
	PPE_EVENT_TURN, /* a loop turn that did work; value: how much */
	PPE_EVENT_CROSSBAR, /* received from other workers; value: entries */
	PPE_EVENT_TIMERS, /* timer threads started; value: how many */
	PPE_EVENT_RECEIVE, /* a burst; port, value: packets */
	PPE_EVENT_DISPATCH, /* packets given to threads; value: how many */
	PPE_EVENT_TRANSMIT, /* an output queue's flush; port, value: packets taken */
	/* of a thread */
	PPE_EVENT_SEGMENT, /* slice; segment, program, end, id */
	PPE_EVENT_HOP_OUT, /* the thread left for another worker; value: its packet's address */
	PPE_EVENT_HOP_IN, /* it arrived here; value: that address */
	/* of a block; id */
	PPE_EVENT_BLOCK_OPENED,
	PPE_EVENT_BLOCK_DONE,
	PPE_EVENT_BLOCK_RELEASED,
	PPE_EVENT_KINDS
};

/* What a segment did with the thread's packet: event.end. */
enum ppe_event_end {
	PPE_END_NONE, /* the thread still has the packet, or never had one */
	PPE_END_CONSUMED,
	PPE_END_SENT,
	PPE_END_HOPPED,
	PPE_END_DROPPED, /* PPE_END_DROPPED + enum ppe_drop: the reason */
};

struct ppe_event {
	uint64_t tsc; /* begin or instant; rises within a ring */
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
	uint32_t hops; /* hop events, so that a reader can size its tables */
	uint32_t blocks; /* block events, contributions included */
	uint32_t turn; /* worker's own: index of the turn's event */
	uint64_t clock; /* worker's own: TSC up to which its time is recorded */
	uint64_t id[PPE_THREADS_MAX]; /* worker's own: of the threads' packets */
	uint64_t drops[PPE_DROP_COUNT]; /* worker's own: counts before the segment */
	struct ppe_event spare; /* takes events when the ring is full */
} __rte_cache_aligned;

/* A change of a job while the trace ran. */
enum ppe_trace_change_kind { PPE_TRACE_ADDED, PPE_TRACE_CHANGED, PPE_TRACE_REMOVED };

#define PPE_TRACE_CHANGES 256 /* of a trace; more are only counted, and jobs keep their names */

struct ppe_trace_change {
	uint64_t tsc; /* publication of the table; workers take it in their next turns */
	uint8_t kind; /* enum ppe_trace_change_kind */
	uint8_t id;
	char name[PPE_JOB_NAME_MAX];
};

/* The name of a segment. */
#define PPE_TRACE_NAME_MAX 32
struct ppe_trace_segment {
	ppe_segment segment;
	char name[PPE_TRACE_NAME_MAX];
};

/* A finished trace, owned by its reader: plain data. */
struct ppe_trace {
	uint64_t begin, end; /* TSC */
	uint64_t hz; /* TSC cycles per second */
	unsigned int ms; /* as requested; a full ring ends a trace earlier */
	bool full; /* a ring was full */
	unsigned int nb_workers, threads, nb_ports;
	unsigned int lcore[PPE_WORKERS_MAX];
	/* Copies, because a program may be unloaded before the trace is read: */
	char program[PPE_PROGRAMS_MAX][PPE_TRACE_NAME_MAX]; /* "": none */
	unsigned int nb_segments;
	struct ppe_trace_segment *segment; /* of all programs */
	char port[PPE_PORTS_MAX][PKTBUF_NAME_MAX];
	char job[WEIR_JOBS_MAX][PPE_JOB_NAME_MAX]; /* at the begin of the trace; "": none */
	unsigned int changes, changes_missed;
	struct ppe_trace_change change[PPE_TRACE_CHANGES]; /* in order of time */
	struct ppe_tracer worker[PPE_WORKERS_MAX];
};

/*
 * Request a trace of ms: [1, 10000] milliseconds into rings of `events` each: [16, 1 << 22].
 * Allocates 32 bytes per event and worker. 0; -EINVAL; -EBUSY: another trace runs or was not taken;
 * -ENOMEM. If the switch does not run, the trace is empty.
 */
int ppe_trace_start(struct ppe *ppe, unsigned int ms, unsigned int events);

/*
 * Continue the trace, and return whether it is over and every worker has given up its ring. Each of
 * the first calls, one per worker, touches a ring (0.5 ms per MiB); after the last of them the
 * trace begins. Later calls end it when the time is over or a ring is full. Never waits; call it
 * again until it returns 1, at the latest a turn of the slowest worker after the end. 1: call
 * ppe_trace_take. 0: not yet. -ENOENT: there is no trace. -ETIMEDOUT: a worker has not turned for a
 * second since the end; the call may be repeated, but the trace not taken.
 */
int ppe_trace_done(struct ppe *ppe);

/* Take the trace after ppe_trace_done has returned 1; else NULL. Free it with ppe_trace_free. */
struct ppe_trace *ppe_trace_take(struct ppe *ppe);

/* Abandon the trace in progress, if any: it ends now, and is freed by the next ppe_trace_start or
 * with the switch. */
void ppe_trace_abandon(struct ppe *ppe);

/* NULL is fine. Any thread. */
void ppe_trace_free(struct ppe_trace *trace);

/* All steps in one call, which sleeps for at most ms and two seconds. For tests and tools. *out
 * belongs to the caller. 0, or the errors of the steps; then the trace is abandoned. */
int ppe_trace(struct ppe *ppe, unsigned int ms, unsigned int events, struct ppe_trace **out);

/* The name of the event's segment, from the program; NULL: none. */
const char *ppe_trace_segment(const struct ppe_trace *trace, const struct ppe_event *event);

/* Returns whether this segment added a contribution to the block of its id. */
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

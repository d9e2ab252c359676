/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The workers' side of a trace (ppe/trace/trace.h). Own worker only.
 *
 * A worker's slices have no gaps: each begins at the end of the one before, so the counter is read
 * once per slice.
 */
#ifndef PPE_TRACE_FAST_H
#define PPE_TRACE_FAST_H

#include "ppe/trace/trace.h"
#include "ppe/worker_priv.h"

/* Record an event of a block if a trace runs. key: generation << 40 | job << 32 | block. Cost
 * without a trace: a load and a branch. */
void ppe_trace_note_block(struct ppe_tracer *tracer, enum ppe_event_kind kind, uint64_t key);

static inline void
ppe_trace_block_event(const struct ppe_worker *worker, enum ppe_event_kind kind, uint64_t key)
{
	if (unlikely(worker->tracer != NULL))
		ppe_trace_note_block(worker->tracer, kind, key);
}

/* This worker's part of a trace; NULL: its ring is full. */
static inline struct ppe_tracer *
ppe_tracer_of(struct ppe_trace *trace, const struct ppe_worker *worker)
{
	struct ppe_tracer *tracer = &trace->worker[worker->id];

	return tracer->full ? NULL : tracer;
}

/* The steps of a traced turn; ppe/barrel.c calls them. */
void ppe_trace_turn_begin(struct ppe_worker *worker, struct ppe_tracer *tracer);
void ppe_trace_turn_end(struct ppe_worker *worker, unsigned int work);

/* Record the time since the last slice's end as a slice, unless value is 0. */
void ppe_trace_step(
	struct ppe_worker *worker, enum ppe_event_kind kind, unsigned int port, unsigned int value);

/* Record that the live threads from `first` on are new: over the crossbar, or started here. */
void ppe_trace_arrivals(struct ppe_worker *worker, unsigned int first);
void ppe_trace_starts(struct ppe_worker *worker, unsigned int first);

/* Run the thread's next segment and record it. */
struct ppe_next ppe_trace_run(struct ppe_worker *worker, struct ppe_thread *thread);

#endif

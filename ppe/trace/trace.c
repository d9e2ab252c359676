/* SPDX-License-Identifier: BSD-3-Clause */
/* The workers' side: events. The control thread's side is ppe/trace/control.c. */
#include "ppe/trace/trace.h"

#include <string.h>

#include <rte_cycles.h>

#include "ppe/ppe_priv.h"
#include "ppe/trace/trace_fast.h"

/* The next free event. A full ring is told to the control thread, and ends here in a spare one: so
 * nobody has to look. */
static struct ppe_event *
next_event(struct ppe_tracer *tracer)
{
	if (likely(tracer->used < tracer->size))
		return &tracer->event[tracer->used++];
	__atomic_store_n(&tracer->full, 1, __ATOMIC_RELAXED);
	return &tracer->spare;
}

static void
step(struct ppe_tracer *tracer, enum ppe_event_kind kind, unsigned int port, unsigned int value,
	uint64_t end)
{
	*next_event(tracer) = (struct ppe_event){
		.tsc = tracer->clock,
		.value = value,
		.cycles = (uint32_t)RTE_MIN(end - tracer->clock, (uint64_t)UINT32_MAX),
		.kind = (uint8_t)kind,
		.port = (uint8_t)port,
	};
}

void
ppe_trace_step(
	struct ppe_worker *worker, enum ppe_event_kind kind, unsigned int port, unsigned int value)
{
	struct ppe_tracer *tracer = worker->tracer;
	uint64_t end = rte_rdtsc();

	if (value > 0)
		step(tracer, kind, port, value, end);
	tracer->clock = end;
}

/* The turn's event comes first, as it begins first; its length is known at its end. */
void
ppe_trace_turn_begin(struct ppe_worker *worker, struct ppe_tracer *tracer)
{
	worker->tracer = tracer;
	tracer->clock = worker->now;
	tracer->turn = tracer->used;
	step(tracer, PPE_EVENT_TURN, 0, 0, worker->now);
}

void
ppe_trace_turn_end(struct ppe_worker *worker, unsigned int work)
{
	struct ppe_tracer *tracer = worker->tracer;
	struct ppe_event *turn = &tracer->event[tracer->turn];

	worker->tracer = NULL;
	if (tracer->turn == tracer->size)
		return;
	/* Nothing happened: the turn is forgotten, or idle turns alone would fill the ring. */
	if (work == 0 && tracer->used == tracer->turn + 1) {
		tracer->used--;
		return;
	}
	turn->value = work;
	turn->cycles = (uint32_t)RTE_MIN(rte_rdtsc() - turn->tsc, (uint64_t)UINT32_MAX);
}

static unsigned int
index_of(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	return (unsigned int)(thread - worker->thread);
}

static uint64_t
identify(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const struct ppe_program *program = worker->ppe->program[thread->program];

	if (thread->packet == NULL || program->identify == NULL)
		return 0;
	return program->identify(worker, thread);
}

void
ppe_trace_starts(struct ppe_worker *worker, unsigned int first)
{
	for (unsigned int i = first; i < worker->live_count; i++)
		worker->tracer->id[index_of(worker, worker->live[i])] =
			identify(worker, worker->live[i]);
}

void
ppe_trace_arrivals(struct ppe_worker *worker, unsigned int first)
{
	struct ppe_tracer *tracer = worker->tracer;

	ppe_trace_starts(worker, first);
	for (unsigned int i = first; i < worker->live_count; i++) {
		const struct ppe_thread *thread = worker->live[i];
		unsigned int index = index_of(worker, thread);

		tracer->hops++;
		*next_event(tracer) = (struct ppe_event){
			.tsc = tracer->clock,
			.id = tracer->id[index],
			.value = (uintptr_t)thread->packet,
			.kind = PPE_EVENT_HOP_IN,
			.thread = (uint8_t)index,
			.program = thread->program,
		};
	}
}

/* Where the packet went that the segment had and the thread no longer has. */
static uint8_t
end_of(const struct ppe_worker *worker, const struct ppe_counters *count, uint64_t consumed,
	uint64_t hops)
{
	if (count->consumed != consumed)
		return PPE_END_CONSUMED;
	if (count->worker.hops_out != hops)
		return PPE_END_HOPPED;
	for (unsigned int reason = 0; reason < PPE_DROP_COUNT; reason++)
		if (count->drops[reason] != worker->tracer->drops[reason])
			return (uint8_t)(PPE_END_DROPPED + reason);
	return PPE_END_SENT;
}

/*
 * The event's place is taken before the segment runs, so that what happens within the segment
 * comes behind it. A hop takes the time of the event before it: the receiver may have the packet
 * before the segment returns, and a reader that goes by time must meet the departure first.
 */
struct ppe_next
ppe_trace_run(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct ppe_tracer *tracer = worker->tracer;
	const struct ppe_counters *count = &worker->count;
	unsigned int index = index_of(worker, thread);
	struct ppe_event *event = next_event(tracer);
	const struct rte_mbuf *packet = thread->packet;
	uint64_t consumed = count->consumed, hops = count->worker.hops_out;
	struct ppe_next next;
	uint64_t end;

	*event = (struct ppe_event){
		.tsc = tracer->clock,
		.id = tracer->id[index],
		.segment = thread->next.run,
		.kind = PPE_EVENT_SEGMENT,
		.thread = (uint8_t)index,
		.program = thread->program,
	};
	if (packet != NULL)
		memcpy(tracer->drops, count->drops, sizeof(tracer->drops));
	next = thread->next.run(worker, thread);
	if (packet != NULL && thread->packet == NULL)
		event->end = end_of(worker, count, consumed, hops);
	tracer->blocks += ppe_event_contributes(event);
	if (event->end == PPE_END_HOPPED) {
		uint64_t before = tracer->event[tracer->used - 1].tsc;

		tracer->hops++;
		*next_event(tracer) = (struct ppe_event){
			.tsc = before,
			.id = event->id,
			.value = (uintptr_t)packet,
			.kind = PPE_EVENT_HOP_OUT,
			.thread = (uint8_t)index,
			.program = event->program,
		};
	}
	end = rte_rdtsc();
	event->cycles = (uint32_t)RTE_MIN(end - event->tsc, (uint64_t)UINT32_MAX);
	tracer->clock = end;
	return next;
}

void
ppe_trace_note_block(struct ppe_tracer *tracer, enum ppe_event_kind kind, uint64_t key)
{
	tracer->blocks++;
	*next_event(tracer) =
		(struct ppe_event){.tsc = rte_rdtsc(), .id = key, .kind = (uint8_t)kind};
}

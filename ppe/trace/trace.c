/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces: first the workers' side, which notes events; then the control thread's. */
#include "ppe/trace/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include <rte_cycles.h>

#include "ppe/guard.h"
#include "ppe/ppe_priv.h"
#include "ppe/program_fast.h"
#include "ppe/trace/trace_fast.h"

/* The next free event. If the ring is full, a spare event, and a flag for the control thread. */
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
	uint64_t end = ppe_clock();

	if (value > 0)
		step(tracer, kind, port, value, end);
	tracer->clock = end;
}

/* The turn's event comes first; its length is known at the end. */
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
	/* Drop an idle turn. */
	if (work == 0 && tracer->used == tracer->turn + 1) {
		tracer->used--;
		return;
	}
	turn->value = work;
	turn->cycles = (uint32_t)RTE_MIN(ppe_clock() - turn->tsc, (uint64_t)UINT32_MAX);
}

static unsigned int
index_of(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	return (unsigned int)(thread - worker->thread);
}

static uint64_t
identify(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const struct ppe_program *program = worker->table->slot[thread->program]->program;

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

/* The end of the segment's packet, if the thread no longer has it. */
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
 * Reserve the event before the segment runs, so that events within the segment follow it. A hop has
 * the time of the event before it, so that it precedes its arrival.
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
	end = ppe_clock();
	event->cycles = (uint32_t)RTE_MIN(end - event->tsc, (uint64_t)UINT32_MAX);
	tracer->clock = end;
	return next;
}

void
ppe_trace_note_block(struct ppe_tracer *tracer, enum ppe_event_kind kind, uint64_t key)
{
	tracer->blocks++;
	*next_event(tracer) =
		(struct ppe_event){.tsc = ppe_clock(), .id = key, .kind = (uint8_t)kind};
}

/* Ordinary memory, not EAL's, so that a switch without spare memory can be traced. */
static struct ppe_event *
new_ring(unsigned int events)
{
	void *ring = NULL;
	size_t bytes = events * sizeof(struct ppe_event);

	if (posix_memalign(&ring, RTE_CACHE_LINE_SIZE, bytes) != 0)
		return NULL;
	return ring;
}

void
ppe_trace_free(struct ppe_trace *trace)
{
	if (trace == NULL)
		return;
	for (unsigned int w = 0; w < trace->nb_workers; w++)
		free(trace->worker[w].event);
	free(trace->segment);
	free(trace);
}

static bool
copy_segments(struct ppe_trace *trace, const struct ppe_segment_name *list)
{
	struct ppe_trace_segment *all = trace->segment;
	unsigned int n = 0;

	while (list != NULL && list[n].name != NULL)
		n++;
	if (n == 0)
		return true;
	all = realloc(all, (trace->nb_segments + n) * sizeof(*all));
	if (all == NULL)
		return false;
	trace->segment = all;
	for (unsigned int i = 0; i < n; i++) {
		struct ppe_trace_segment *to = &all[trace->nb_segments++];

		to->segment = list[i].segment;
		strlcpy(to->name, list[i].name, sizeof(to->name));
	}
	return true;
}

/* Copy the programs' names and those of their segments. */
static bool
copy_names(struct ppe_trace *trace, const struct ppe *ppe)
{
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++) {
		const struct ppe_program *program =
			ppe->slot[p] == NULL ? NULL : ppe->slot[p]->program;

		if (program == NULL)
			continue;
		strlcpy(trace->program[p], program->name, sizeof(trace->program[p]));
		for (unsigned int i = 0; i < PPE_SEGMENT_LISTS; i++)
			if (!copy_segments(trace, program->segments[i]))
				return false;
	}
	return true;
}

static struct ppe_trace *
new_trace(const struct ppe *ppe, unsigned int events)
{
	struct ppe_trace *trace;
	void *memory = NULL;

	if (posix_memalign(&memory, RTE_CACHE_LINE_SIZE, sizeof(*trace)) != 0)
		return NULL;
	trace = memset(memory, 0, sizeof(*trace));
	trace->hz = rte_get_tsc_hz();
	trace->nb_workers = ppe->config.workers;
	trace->threads = ppe->config.threads;
	trace->nb_ports = ppe->nb_ports;
	memcpy(trace->lcore, ppe->lcore, sizeof(trace->lcore));
	for (unsigned int p = 0; p < ppe->nb_ports; p++)
		memcpy(trace->port[p], ppe->port[p].name, PKTBUF_NAME_MAX);
	if (!copy_names(trace, ppe)) {
		ppe_trace_free(trace);
		return NULL;
	}
	for (unsigned int w = 0; w < trace->nb_workers; w++) {
		trace->worker[w].size = events;
		trace->worker[w].event = new_ring(events);
		if (trace->worker[w].event == NULL) {
			ppe_trace_free(trace);
			return NULL;
		}
	}
	return trace;
}

static bool
some_ring_full(const struct ppe_trace *trace)
{
	for (unsigned int w = 0; w < trace->nb_workers; w++)
		if (__atomic_load_n(&trace->worker[w].full, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* Touch one ring per call, so that workers get no page faults. The last call begins the trace. */
static void
prepare(struct ppe *ppe)
{
	struct ppe_tracing *tracing = &ppe->tracing;
	struct ppe_trace *trace = tracing->trace;
	struct ppe_tracer *tracer = &trace->worker[tracing->ready++];

	memset(tracer->event, 0, tracer->size * sizeof(*tracer->event));
	if (tracing->ready < trace->nb_workers)
		return;
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (ppe->table->jobs.by_id[id] != NULL)
			memcpy(trace->job[id], ppe->table->jobs.by_id[id]->name, PPE_JOB_NAME_MAX);
	trace->begin = ppe_clock();
	tracing->until = trace->begin + trace->ms * (trace->hz / 1000);
	/* Release: the rings before their address. */
	__atomic_store_n(&ppe->trace, trace, __ATOMIC_RELEASE);
}

/* End the trace. Workers notice it in the next turn. */
static void
switch_off(struct ppe *ppe, uint64_t now)
{
	struct ppe_tracing *tracing = &ppe->tracing;

	__atomic_store_n(&ppe->trace, NULL, __ATOMIC_RELEASE);
	tracing->trace->end = now;
	tracing->token = rte_rcu_qsbr_start(ppe->qsbr);
	tracing->over = true;
}

static void
note_change(struct ppe_trace *trace, enum ppe_trace_change_kind kind, const struct ppe_job *job)
{
	struct ppe_trace_change *change = &trace->change[trace->changes];

	if (trace->changes == PPE_TRACE_CHANGES) {
		trace->changes_missed++;
		return;
	}
	*change =
		(struct ppe_trace_change){.tsc = ppe_clock(), .kind = (uint8_t)kind, .id = job->id};
	memcpy(change->name, job->name, sizeof(change->name));
	trace->changes++;
}

void
ppe_trace_note_jobs(
	struct ppe *ppe, const struct ppe_published *former, const struct ppe_published *table)
{
	struct ppe_tracing *tracing = &ppe->tracing;

	if (tracing->trace == NULL || tracing->over || tracing->ready < tracing->trace->nb_workers)
		return;
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job *before = former->jobs.by_id[id];
		const struct ppe_job *now = table->jobs.by_id[id];

		if (before != NULL && now != NULL && former->shards[id] == table->shards[id]) {
			if (memcmp(before, now, sizeof(*now)) != 0)
				note_change(tracing->trace, PPE_TRACE_CHANGED, now);
			continue;
		}
		if (before != NULL)
			note_change(tracing->trace, PPE_TRACE_REMOVED, before);
		if (now != NULL)
			note_change(tracing->trace, PPE_TRACE_ADDED, now);
	}
}

int
ppe_trace_done(struct ppe *ppe)
{
	struct ppe_tracing *tracing = &ppe->tracing;
	uint64_t now = ppe_clock();

	if (tracing->trace == NULL)
		return -ENOENT;
	if (tracing->ready < tracing->trace->nb_workers && !tracing->over) {
		prepare(ppe);
		return 0;
	}
	if (!tracing->over) {
		if ((int64_t)(now - tracing->until) < 0 && !some_ring_full(tracing->trace) &&
			ppe->state != PPE_STATE_STOPPED)
			return 0;
		switch_off(ppe, now);
	}
	if (rte_rcu_qsbr_check(ppe->qsbr, tracing->token, false)) {
		tracing->trace->full = some_ring_full(tracing->trace);
		tracing->given_up = true;
		return 1;
	}
	return now - tracing->trace->end < tracing->trace->hz ? 0 : -ETIMEDOUT;
}

struct ppe_trace *
ppe_trace_take(struct ppe *ppe)
{
	struct ppe_trace *trace = ppe->tracing.trace;

	if (!ppe->tracing.given_up)
		return NULL;
	ppe->tracing = (struct ppe_tracing){0};
	return trace;
}

void
ppe_trace_abandon(struct ppe *ppe)
{
	struct ppe_tracing *tracing = &ppe->tracing;

	if (tracing->trace == NULL)
		return;
	if (!tracing->over)
		switch_off(ppe, ppe_clock());
	tracing->abandoned = true;
}

int
ppe_trace_start(struct ppe *ppe, unsigned int ms, unsigned int events)
{
	struct ppe_trace *trace;

	if (ms == 0 || ms > PPE_TRACE_MS_MAX || events < PPE_TRACE_EVENTS_MIN ||
		events > PPE_TRACE_EVENTS_MAX)
		return -EINVAL;
	if (ppe->tracing.abandoned && ppe_trace_done(ppe) == 1)
		ppe_trace_free(ppe_trace_take(ppe));
	if (ppe->tracing.trace != NULL)
		return -EBUSY;
	trace = new_trace(ppe, events);
	if (trace == NULL)
		return -ENOMEM;
	trace->ms = ms;
	trace->begin = trace->end = ppe_clock();
	ppe->tracing = (struct ppe_tracing){.trace = trace};
	return 0;
}

int
ppe_trace(struct ppe *ppe, unsigned int ms, unsigned int events, struct ppe_trace **out)
{
	int rc = ppe_trace_start(ppe, ms, events);

	if (rc < 0)
		return rc;
	while ((rc = ppe_trace_done(ppe)) == 0)
		rte_delay_us_sleep(1000);
	if (rc < 0) {
		ppe_trace_abandon(ppe);
		return rc;
	}
	*out = ppe_trace_take(ppe);
	return 0;
}

const char *
ppe_trace_segment(const struct ppe_trace *trace, const struct ppe_event *event)
{
	if (event->segment == ppe_wait_turn || event->segment == ppe_ended_early)
		return "wait for its turn";
	if (event->segment == guard_receive_news)
		return "guard_news";
	for (unsigned int i = 0; i < trace->nb_segments; i++)
		if (trace->segment[i].segment == event->segment)
			return trace->segment[i].name;
	return NULL;
}

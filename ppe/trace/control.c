/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread's side of a trace. The workers' side is ppe/trace/trace.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "ppe/ppe_priv.h"
#include "ppe/program_fast.h"
#include "ppe/trace/trace.h"

/* Ordinary memory, not EAL's: a switch that was given no more than it needs can be traced, too. */
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
	free(trace);
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
	trace->nb_programs = ppe->nb_programs;
	memcpy(trace->lcore, ppe->lcore, sizeof(trace->lcore));
	memcpy(trace->program, ppe->program, sizeof(trace->program));
	for (unsigned int p = 0; p < ppe->nb_ports; p++)
		memcpy(trace->port[p], ppe->port[p].name, PKTBUF_NAME_MAX);
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

/* Write to a ring once, so that its worker meets no page fault: the most that a call may take. When
 * all are ready the trace begins. */
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
	trace->begin = rte_rdtsc();
	tracing->until = trace->begin + trace->ms * (trace->hz / 1000);
	/* Release: the rings before their address. */
	__atomic_store_n(&ppe->trace, trace, __ATOMIC_RELEASE);
}

/* Switch off. Workers that have turned once more have seen it. */
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
		(struct ppe_trace_change){.tsc = rte_rdtsc(), .kind = (uint8_t)kind, .id = job->id};
	memcpy(change->name, job->name, sizeof(change->name));
	trace->changes++;
}

void
ppe_trace_note_jobs(
	struct ppe *ppe, const struct ppe_job_table *former, const struct ppe_job_table *table)
{
	struct ppe_tracing *tracing = &ppe->tracing;

	if (tracing->trace == NULL || tracing->over || tracing->ready < tracing->trace->nb_workers)
		return;
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job *before = former->jobs.by_id[id];
		const struct ppe_job *now = table->jobs.by_id[id];

		/* Shards are kept where the job stays the same one; the tables hold copies. */
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
	uint64_t now = rte_rdtsc();

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
		tracing->let_go = true;
		return 1;
	}
	return now - tracing->trace->end < tracing->trace->hz ? 0 : -ETIMEDOUT;
}

struct ppe_trace *
ppe_trace_take(struct ppe *ppe)
{
	struct ppe_trace *trace = ppe->tracing.trace;

	if (!ppe->tracing.let_go)
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
		switch_off(ppe, rte_rdtsc());
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
	trace->begin = trace->end = rte_rdtsc();
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
	const struct ppe_program *program = trace->program[event->program];

	if (event->segment == ppe_wait_turn || event->segment == ppe_ended_early)
		return "wait for its turn";
	for (unsigned int list = 0; program != NULL && list < RTE_DIM(program->segments); list++)
		for (const struct ppe_segment_name *s = program->segments[list];
			s != NULL && s->name != NULL; s++)
			if (s->segment == event->segment)
				return s->name;
	return NULL;
}

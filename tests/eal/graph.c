/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ppe/guard.h"
#include "ppe/ppe_priv.h"
#include "ppe/program_fast.h"
#include "ppe/trace/trace.h"

#define SEEN_MAX  2048
#define WORD_MAX  48
#define RING      64 /* events of a traced turn that are kept: nobody reads them */
#define DEPTH_MAX 8

/* Segments that others call. What a hop leads to is called by one to the own worker. */
static const char called[] = " from_parent job_entry examine probed aggregate search emit ";

struct step {
	const struct ppe_program *program;
	char from[WORD_MAX], to[WORD_MAX];
};

static bool watches;
static struct ppe_trace *trace;
static struct step seen[SEEN_MAX];
static unsigned int nb_seen;

struct ppe_next __real_ppe_trace_run(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next __wrap_ppe_trace_run(struct ppe_worker *worker, struct ppe_thread *thread);
void __real_crossbar_tell_others(struct ppe_worker *worker, uint8_t program, ppe_segment segment,
	const void *message, size_t bytes);
void __wrap_crossbar_tell_others(struct ppe_worker *worker, uint8_t program, ppe_segment segment,
	const void *message, size_t bytes);

#define FOREACH_SEGMENT(s, program)                                                                \
	for (unsigned int list_ = 0; list_ < PPE_SEGMENT_LISTS; list_++)                           \
		for (const struct ppe_segment_name *s = (program)->segments[list_];                \
			s != NULL && s->name != NULL; s++)

const char *
graph_name(const struct ppe_program *program, ppe_segment segment)
{
	FOREACH_SEGMENT(s, program)
	if (s->segment == segment)
		return s->name;
	return NULL;
}

const struct ppe_segment_name *
graph_segment(const struct ppe_program *program, const char *name)
{
	FOREACH_SEGMENT(s, program)
	if (strcmp(s->name, name) == 0)
		return s;
	return NULL;
}

/* The next word; false: there is none. */
static bool
next_word(const char **at, char word[WORD_MAX])
{
	size_t n = strcspn(*at, " ");

	if (n == 0)
		return false;
	snprintf(word, WORD_MAX, "%.*s", (int)n, *at);
	*at += n + strspn(*at + n, " ");
	return true;
}

static bool
leads(const struct ppe_program *program, const char *from, const char *to, const char *of,
	const char *without, unsigned int depth)
{
	const struct ppe_segment_name *s = graph_segment(program, from);
	const char *at = s == NULL || s->leads_to == NULL ? "" : s->leads_to;
	char word[WORD_MAX], spaced[WORD_MAX + 2];

	while (next_word(&at, word)) {
		bool hop = strncmp(word, "hop:", 4) == 0;
		const char *name = hop ? word + 4 : word;

		if (of != NULL && strcmp(from, of) == 0 && strcmp(word, without) == 0)
			continue;
		if (strcmp(word, to) == 0 || strcmp(name, to) == 0 ||
			(strcmp(word, "pass") == 0 && strncmp(to, "pass:", 5) == 0))
			return true;
		snprintf(spaced, sizeof(spaced), " %s ", name);
		if ((hop || strstr(called, spaced) != NULL) && depth < DEPTH_MAX &&
			leads(program, name, to, of, without, depth + 1))
			return true;
	}
	return false;
}

bool
graph_declares(const struct ppe_program *program, const char *from, const char *to, const char *of,
	const char *without)
{
	return leads(program, from, to, of, without, 0);
}

static void
note(const struct ppe_program *program, const char *from, const char *before, const char *to)
{
	char word[WORD_MAX];

	snprintf(word, sizeof(word), "%s%s", before, to);
	for (unsigned int i = 0; i < nb_seen; i++)
		if (seen[i].program == program && strcmp(seen[i].from, from) == 0 &&
			strcmp(seen[i].to, word) == 0)
			return;
	if (!graph_declares(program, from, word, NULL, NULL)) {
		fprintf(stderr, "%s: %s does not say that it leads to %s\n", program->name, from,
			word);
		abort();
	}
	if (nb_seen == SEEN_MAX)
		abort();
	seen[nb_seen].program = program;
	snprintf(seen[nb_seen].from, WORD_MAX, "%s", from);
	snprintf(seen[nb_seen++].to, WORD_MAX, "%s", word);
}

static void
note_segment(const struct ppe_program *program, const char *from, const char *before,
	ppe_segment segment)
{
	const char *name = graph_name(program, segment);

	if (name == NULL) {
		fprintf(stderr, "%s: %s leads to a segment without a name\n", program->name, from);
		abort();
	}
	note(program, from, before, name);
}

/* Of a packet that the segment has made, and not of the thread's. */
static bool
of_output(enum ppe_drop reason)
{
	return reason == PPE_DROP_NO_MBUF || reason == PPE_DROP_QUEUE_FULL ||
		reason == PPE_DROP_PORT_STALLED || reason == PPE_DROP_TOO_LONG ||
		reason == PPE_DROP_CROSSBAR_FULL;
}

static void
note_end(const struct ppe_program *program, const char *from, const struct ppe_counters *before,
	const struct ppe_counters *after, struct rte_mbuf *packet)
{
	bool dropped = false;

	if (after->worker.hops_out != before->worker.hops_out) {
		note_segment(program, from,
			"hop:", ((const struct crossbar_hop *)pktbuf_priv(packet))->segment);
		return;
	}
	for (unsigned int reason = 0; reason < PPE_DROP_COUNT; reason++)
		if (after->drops[reason] != before->drops[reason] && !of_output(reason)) {
			note(program, from, "drop:", ppe_drop_key(reason));
			dropped = true;
		}
	if (after->consumed != before->consumed)
		note(program, from, "", "consume");
	else if (!dropped)
		note(program, from, "", "send");
}

/* Messages: packets of their own, which hop. They are counted like the thread's. */
static struct {
	uint64_t created, hops;
	ppe_segment segment; /* of the last one */
} messages;

void
__wrap_crossbar_tell_others(struct ppe_worker *worker, uint8_t program, ppe_segment segment,
	const void *message, size_t bytes)
{
	const uint64_t created = worker->count.created, hops = worker->count.worker.hops_out;

	__real_crossbar_tell_others(worker, program, segment, message, bytes);
	messages.created += worker->count.created - created;
	messages.hops += worker->count.worker.hops_out - hops;
	messages.segment = segment;
}

struct ppe_next
__wrap_ppe_trace_run(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct ppe_program *program = worker->table->slot[thread->program]->program;
	const uint8_t index = thread->program;
	ppe_segment run = thread->next.run;
	struct ppe_counters before = worker->count;
	struct rte_mbuf *packet = thread->packet;
	const char *from = graph_name(program, run);
	struct ppe_next next;

	memset(&messages, 0, sizeof(messages));
	next = __real_ppe_trace_run(worker, thread);
	if (!watches || run == ppe_wait_turn || run == ppe_ended_early ||
		run == guard_receive_news || program->segments[0] == NULL)
		return next;
	before.created += messages.created;
	before.worker.hops_out += messages.hops;
	if (messages.segment != NULL && messages.segment != guard_receive_news)
		note_segment(program, from, "hop:", messages.segment);
	if (from == NULL) {
		fprintf(stderr, "%s: a segment without a name\n", program->name);
		abort();
	}
	if (packet != NULL && thread->packet == NULL)
		note_end(program, from, &before, &worker->count, packet);
	if (worker->count.created != before.created)
		note(program, from, "", "output");
	if (thread->program != index)
		note(program, from, "pass:", worker->table->slot[thread->program]->program->name);
	else if (next.run != NULL)
		note_segment(
			program, from, "", next.run == ppe_wait_turn ? thread->turn : next.run);
	return next;
}

void
graph_seen(
	void (*f)(const struct ppe_program *program, const char *from, const char *to, void *arg),
	void *arg)
{
	for (unsigned int i = 0; i < nb_seen; i++)
		f(seen[i].program, seen[i].from, seen[i].to, arg);
}

void
graph_watch(void)
{
	if (trace == NULL) {
		trace = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*trace));
		memset(trace, 0, sizeof(*trace));
		for (unsigned int w = 0; w < PPE_WORKERS_MAX; w++) {
			trace->worker[w].event = aligned_alloc(64, RING * sizeof(struct ppe_event));
			trace->worker[w].size = RING;
		}
	}
	watches = true;
}

void
graph_turn(struct ppe_worker *worker)
{
	struct ppe *ppe = worker->ppe;

	if (!watches)
		return;
	if (ppe->trace == NULL)
		ppe->trace = trace;
	trace->worker[worker->id].used = 0;
	trace->worker[worker->id].full = 0;
}

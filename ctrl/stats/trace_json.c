/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/trace_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#define PIECE_BYTES 8192 /* maximum of one step: the metadata of 16 workers */

/*
 * What an event leaves for a later one: a packet that departed, or a block. They share a hash table
 * with open addressing, from which nothing is deleted. The trace says how many events are about
 * hops and blocks, so the table is made twice as large and can't fill up.
 */
enum block_state { BLOCK_NEW, BLOCK_COLLECTING, BLOCK_KEPT, BLOCK_GONE };

struct entry {
	/* A packet's address | HOP, or a block's id without source | BLOCK; 0: a free entry. */
	uint64_t key;
	uint64_t tsc; /* time of a packet's departure */
	unsigned int track; /* that the packet left; 0: it arrived */
	enum block_state state;
};

#define ID_MASK (UINT64_MAX >> 8) /* an id without its source */
#define BLOCK   (UINT64_C(1) << 56)
#define HOP     (UINT64_C(2) << 56)

enum step { STEP_HEAD, STEP_TRACKS, STEP_EVENTS, STEP_REST, STEP_TAIL, STEP_END };

struct ctrl_trace_json {
	struct ppe_trace *trace;
	enum step step;
	uint32_t next[PPE_WORKERS_MAX]; /* next event of each worker */
	unsigned int track; /* the track to name next */
	unsigned int change; /* the change of jobs to write next */
	struct {
		uint64_t id; /* a contribution whose instant is still to be written; 0: none */
		uint64_t end; /* of its slice, TSC */
	} heard[PPE_WORKERS_MAX];
	struct entry *entry;
	uint32_t mask; /* entries less 1 */
	uint32_t next_entry; /* at the end: entries before it are not open blocks */
	uint32_t hops; /* arrived so far: the number of the last one */
	char job[WEIR_JOBS_MAX][PPE_JOB_NAME_MAX]; /* the jobs' names at this time of the trace */
	uint64_t last; /* the latest TSC seen */
	char name[64];
	unsigned int length, read; /* bytes in `piece`, and those that the reader has */
	char piece[PIECE_BYTES];
};

/* The entry of a key; the other fields of a new entry are 0. If the table were full: a spare. */
static struct entry *
find(struct ctrl_trace_json *json, uint64_t key)
{
	/* Fibonacci hashing: the high bits are mixed, whatever the low ones are. */
	uint32_t hash = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);

	for (uint32_t i = 0; i <= json->mask; i++) {
		struct entry *entry = &json->entry[(hash + i) & json->mask];

		if (entry->key == 0)
			entry->key = key;
		if (entry->key == key)
			return entry;
	}
	return &json->entry[json->mask + 1];
}

/* Copy a name, safe within a JSON string. Configured names are safe already. */
static void
copy_name(char *to, size_t size, const char *from)
{
	size_t i = 0;

	for (; from[i] != '\0' && i + 1 < size; i++) {
		unsigned char c = (unsigned char)from[i];

		to[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : from[i];
	}
	to[i] = '\0';
}

/* From now on the job of this id has this name; "": its id. */
static void
name_job(struct ctrl_trace_json *json, uint8_t id, const char *name)
{
	if (name[0] == '\0')
		snprintf(json->job[id], sizeof(json->job[id]), "job %u", id);
	else
		copy_name(json->job[id], sizeof(json->job[id]), name);
}

/* Text that does not fit is cut; PIECE_BYTES is more than any step writes. */
static void __attribute__((format(printf, 2, 3)))
put(struct ctrl_trace_json *json, const char *format, ...)
{
	size_t room = sizeof(json->piece) - json->length;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(json->piece + json->length, room, format, arguments);
	va_end(arguments);
	if (n > 0)
		json->length += (unsigned int)RTE_MIN((size_t)n, room - 1);
}

struct ctrl_trace_json *
ctrl_trace_json_create(struct ppe_trace *trace, const char *name)
{
	struct ctrl_trace_json *json = calloc(1, sizeof(*json));
	uint32_t entries = 8;

	for (unsigned int w = 0; w < trace->nb_workers; w++) {
		entries += 2 * RTE_MIN(trace->worker[w].hops, trace->worker[w].used);
		entries += 2 * RTE_MIN(trace->worker[w].blocks, trace->worker[w].used);
	}
	entries = rte_align32pow2(entries);
	if (json != NULL)
		json->entry = calloc(entries + 1, sizeof(*json->entry));
	if (json == NULL || json->entry == NULL) {
		free(json);
		ppe_trace_free(trace);
		return NULL;
	}
	json->mask = entries - 1;
	json->trace = trace;
	json->last = trace->end;
	copy_name(json->name, sizeof(json->name), name);
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		name_job(json, (uint8_t)id, trace->job[id]);
	return json;
}

void
ctrl_trace_json_destroy(void *opaque)
{
	struct ctrl_trace_json *json = opaque;

	if (json == NULL)
		return;
	free(json->entry);
	ppe_trace_free(json->trace);
	free(json);
}

static unsigned int
tid_of(unsigned int worker)
{
	return 100 * (worker + 1);
}

static uint64_t
nanoseconds(const struct ctrl_trace_json *json, uint64_t cycles)
{
	return (uint64_t)((double)cycles * 1e9 / (double)json->trace->hz);
}

/* A time in microseconds, as the format requires. */
static void
put_time(struct ctrl_trace_json *json, const char *key, uint64_t ns)
{
	put(json, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned int)(ns % 1000));
}

/* The beginning of an event; it ends with put_args or "}". */
static void
begin(struct ctrl_trace_json *json, const char *phase, unsigned int tid, uint64_t tsc)
{
	uint64_t since = tsc > json->trace->begin ? tsc - json->trace->begin : 0;

	json->last = RTE_MAX(json->last, tsc);
	put(json, ",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%u", phase, tid);
	put_time(json, "ts", nanoseconds(json, since));
}

static void
put_head(struct ctrl_trace_json *json)
{
	const struct ppe_trace *trace = json->trace;
	uint64_t ns = nanoseconds(json, trace->end - trace->begin);

	put(json, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"switch\":\"%s\",\"version\":\"%s\"",
		json->name, WEIR_VERSION);
	put(json, ",\"asked_ms\":%u,\"ms\":%" PRIu64 ".%03u,\"ended_early\":%s", trace->ms,
		ns / 1000000, (unsigned int)(ns / 1000 % 1000), trace->full ? "true" : "false");
	if (trace->full)
		put(json, ",\"why\":\"a worker's ring was full: ask for fewer milliseconds\"");
	put(json, ",\"changes_missed\":%u,\"workers\":[", trace->changes_missed);
	for (unsigned int w = 0; w < trace->nb_workers; w++)
		put(json, "%s{\"worker\":%u,\"lcore\":%u,\"events\":%u,\"room\":%u,\"full\":%s}",
			w > 0 ? "," : "", w, trace->lcore[w], trace->worker[w].used,
			trace->worker[w].size, trace->worker[w].full ? "true" : "false");
	put(json, "]},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",");
	put(json, "\"args\":{\"name\":\"weir-switch %s\"}}", json->name);
}

/* Name the next track. False: all have names. */
static bool
put_track(struct ctrl_trace_json *json)
{
	const struct ppe_trace *trace = json->trace;
	unsigned int worker = json->track / (trace->threads + 1);
	unsigned int nth = json->track++ % (trace->threads + 1);
	unsigned int tid = tid_of(worker) + nth;

	if (worker == trace->nb_workers)
		return false;
	put(json, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_name\",\"args\":", tid);
	if (nth == 0)
		put(json, "{\"name\":\"lcore %u\"}}", trace->lcore[worker]);
	else
		put(json, "{\"name\":\"lcore %u thread %u\"}}", trace->lcore[worker], nth - 1);
	put(json, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_sort_index\",", tid);
	put(json, "\"args\":{\"sort_index\":%u}}", tid);
	return true;
}

/* The job, source and block of a packet, for args. */
static void
put_packet(struct ctrl_trace_json *json, uint64_t id)
{
	const char *job = json->job[ppe_trace_job(id)];

	if (id == 0)
		return;
	put(json, ",\"job\":\"%s\",\"source\":%u", job, ppe_trace_source(id));
	if (ppe_trace_generation(id) == WEIR_GEN_JOIN)
		put(json, ",\"join\":%u", ppe_trace_block(id));
	else
		put(json, ",\"block\":%u,\"generation\":%u", ppe_trace_block(id),
			ppe_trace_generation(id));
}

/* The beginning of a slice, up to its args. name: in two parts. */
static void
put_slice(struct ctrl_trace_json *json, unsigned int tid, const struct ppe_event *event,
	const char *category, const char *name, const char *more)
{
	begin(json, "X", tid, event->tsc);
	put_time(json, "dur", nanoseconds(json, event->cycles));
	put(json, ",\"cat\":\"%s\",\"name\":\"%s%s\",\"args\":{", category, name, more);
}

static void
put_segment(struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *event)
{
	static const char *const ends[] = {"", "consumed", "sent", "hopped"}; /* ppe_event_end */
	const char *name = ppe_trace_segment(json->trace, event);

	put_slice(json, tid_of(worker) + 1 + event->thread, event, "segment",
		name != NULL ? name : "segment", "");
	put(json, "\"program\":\"%s\"", json->trace->program[event->program]);
	put_packet(json, event->id);
	if (event->end >= PPE_END_DROPPED)
		put(json, ",\"dropped\":\"%s\"",
			ppe_drop_key((enum ppe_drop)(event->end - PPE_END_DROPPED)));
	else if (event->end != PPE_END_NONE)
		put(json, ",\"packet\":\"%s\"", ends[event->end]);
	put(json, "}}");
	if (ppe_event_contributes(event)) {
		json->heard[worker].id = event->id;
		json->heard[worker].end = event->tsc + event->cycles;
	}
}

/* A slice of the worker itself. counts: what its event counts. */
static void
put_step(struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *event,
	const char *step, const char *counts)
{
	char port[PKTBUF_NAME_MAX] = "";

	if (event->kind == PPE_EVENT_RECEIVE || event->kind == PPE_EVENT_TRANSMIT)
		copy_name(port, sizeof(port), json->trace->port[event->port]);
	put_slice(json, tid_of(worker), event, "worker", step, port);
	put(json, "\"%s\":%" PRIu64 "}}", counts, event->value);
}

/* A packet leaves a track. The packet's next departure replaces one that never arrived (a full ring
 * drops it). */
static void
note_departure(struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *out)
{
	struct entry *entry = find(json, out->value | HOP);

	entry->tsc = out->tsc;
	entry->track = tid_of(worker) + 1 + out->thread;
}

/* The arrow of a hop, unless the packet departed before the trace began. */
static void
put_hop(struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *in)
{
	static const char *const phase[] = {"s", "f"};
	struct entry *out = find(json, in->value | HOP);

	if (out->track == 0)
		return;
	json->hops++;
	for (unsigned int i = 0; i < RTE_DIM(phase); i++) {
		begin(json, phase[i], i == 0 ? out->track : tid_of(worker) + 1 + in->thread,
			i == 0 ? out->tsc : in->tsc);
		put(json, ",\"cat\":\"hop\",\"name\":\"hop\",\"id\":%u,\"args\":{\"hop\":%u",
			json->hops, json->hops);
		put_packet(json, in->id);
		put(json, "}}");
	}
	out->track = 0;
}

/* An event of a block. name: of a span within the block's own; NULL: the block's own span. */
static void
put_span(struct ctrl_trace_json *json, const char *phase, unsigned int worker, uint64_t key,
	uint64_t tsc, const char *name)
{
	unsigned int block = ppe_trace_block(key);

	begin(json, phase, tid_of(worker), tsc);
	put(json, ",\"cat\":\"job\",\"id\":\"%u/%u/%u\"", ppe_trace_job(key),
		ppe_trace_generation(key), block);
	if (name != NULL)
		put(json, ",\"name\":\"%s\"}", name);
	else
		put(json, ",\"name\":\"%s block %u\"}", json->job[ppe_trace_job(key)], block);
}

/* The spans within a block's own. */
static const char *const state_text[] = {
	[BLOCK_COLLECTING] = "collecting",
	[BLOCK_KEPT] = "result kept",
};

static bool
is_open(const struct entry *block)
{
	return block->state == BLOCK_COLLECTING || block->state == BLOCK_KEPT;
}

/* The state of a block changes. If it is open, it is in the span of its state within its own. */
static void
change_block(struct ctrl_trace_json *json, unsigned int worker, struct entry *block, uint64_t tsc,
	enum block_state state)
{
	uint64_t id = block->key & ID_MASK;

	if (is_open(block))
		put_span(json, "e", worker, id, tsc, state_text[block->state]);
	else
		put_span(json, "b", worker, id, tsc, NULL);
	block->state = state;
	if (is_open(block))
		put_span(json, "b", worker, id, tsc, state_text[state]);
	else
		put_span(json, "e", worker, id, tsc, NULL);
}

/* The block of an event. If the trace has not seen it open, it is taken to be in `state` since the
 * trace began. */
static struct entry *
block_of(struct ctrl_trace_json *json, unsigned int worker, uint64_t id, uint64_t tsc,
	enum block_state state)
{
	struct entry *block = find(json, (id & ID_MASK) | BLOCK);

	if (!is_open(block))
		change_block(json, worker, block,
			block->state == BLOCK_NEW ? json->trace->begin : tsc, state);
	return block;
}

/* The contribution of the slice that this worker wrote last. */
static void
put_contribution(struct ctrl_trace_json *json, unsigned int worker, uint64_t tsc)
{
	uint64_t id = json->heard[worker].id;
	char name[32];

	json->heard[worker].id = 0;
	block_of(json, worker, id, tsc, BLOCK_COLLECTING);
	snprintf(name, sizeof(name), "source %u", ppe_trace_source(id));
	put_span(json, "n", worker, id, tsc, name);
}

static void
put_opened(struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *event)
{
	struct entry *block = find(json, (event->id & ID_MASK) | BLOCK);

	/* The trace missed the release of the former block with this id. */
	if (is_open(block))
		change_block(json, worker, block, event->tsc, BLOCK_GONE);
	change_block(json, worker, block, event->tsc, BLOCK_COLLECTING);
}

static void
put_done(struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *event)
{
	struct entry *block = block_of(json, worker, event->id, event->tsc, BLOCK_COLLECTING);

	if (block->state == BLOCK_COLLECTING)
		change_block(json, worker, block, event->tsc, BLOCK_KEPT);
}

static void
put_released(struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *event)
{
	struct entry *block = block_of(json, worker, event->id, event->tsc, BLOCK_KEPT);

	change_block(json, worker, block, event->tsc, BLOCK_GONE);
}

/*
 * When a contribution is written: its slice's event comes first, then the events of blocks within
 * the slice. The block is opened before it and done after it; so when the block is done, or else at
 * the slice's end.
 */
static void
put_due_contribution(
	struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *event)
{
	bool within =
		event->kind >= PPE_EVENT_BLOCK_OPENED && event->tsc <= json->heard[worker].end;

	if (json->heard[worker].id == 0)
		return;
	if (!within)
		put_contribution(json, worker, json->heard[worker].end);
	else if (event->kind == PPE_EVENT_BLOCK_DONE &&
		event->id == (json->heard[worker].id & ID_MASK))
		put_contribution(json, worker, event->tsc);
}

static void
put_event(struct ctrl_trace_json *json, unsigned int worker, const struct ppe_event *event)
{
	static const struct {
		const char *step, *counts; /* of a slice of the worker itself */
		void (*put)(struct ctrl_trace_json *, unsigned int, const struct ppe_event *);
	} kinds[PPE_EVENT_KINDS] = {
		[PPE_EVENT_TURN] = {"turn", "work"},
		[PPE_EVENT_CROSSBAR] = {"crossbar", "entries"},
		[PPE_EVENT_TIMERS] = {"timers", "threads"},
		[PPE_EVENT_RECEIVE] = {"receive ", "packets"},
		[PPE_EVENT_DISPATCH] = {"dispatch", "packets"},
		[PPE_EVENT_TRANSMIT] = {"transmit ", "packets"},
		[PPE_EVENT_SEGMENT] = {.put = put_segment},
		[PPE_EVENT_HOP_OUT] = {.put = note_departure},
		[PPE_EVENT_HOP_IN] = {.put = put_hop},
		[PPE_EVENT_BLOCK_OPENED] = {.put = put_opened},
		[PPE_EVENT_BLOCK_DONE] = {.put = put_done},
		[PPE_EVENT_BLOCK_RELEASED] = {.put = put_released},
	};

	put_due_contribution(json, worker, event);
	if (kinds[event->kind].put != NULL)
		kinds[event->kind].put(json, worker, event);
	else
		put_step(json, worker, event, kinds[event->kind].step, kinds[event->kind].counts);
}

/* Packets of a job that is gone keep its name: they may still be in flight. */
static void
put_change(struct ctrl_trace_json *json, const struct ppe_trace_change *change)
{
	static const char *const what[] = {"added", "changed", "removed"};
	char name[PPE_JOB_NAME_MAX];

	copy_name(name, sizeof(name), change->name);
	if (change->kind != PPE_TRACE_REMOVED)
		name_job(json, change->id, change->name);
	begin(json, "i", tid_of(0), change->tsc);
	put(json, ",\"s\":\"g\",\"cat\":\"jobs\",\"name\":\"%s %s\"", name, what[change->kind]);
	put(json, ",\"args\":{\"job\":\"%s\",\"id\":%u}}", name, change->id);
}

/* Write the earliest event of all workers, or change of the jobs. False: there is none. */
static bool
put_next(struct ctrl_trace_json *json)
{
	const struct ppe_event *first = NULL;
	unsigned int whose = 0;

	for (unsigned int w = 0; w < json->trace->nb_workers; w++) {
		const struct ppe_tracer *tracer = &json->trace->worker[w];
		const struct ppe_event *event = &tracer->event[json->next[w]];

		if (json->next[w] < tracer->used && (first == NULL || event->tsc < first->tsc)) {
			first = event;
			whose = w;
		}
	}
	if (json->change < json->trace->changes &&
		(first == NULL || json->trace->change[json->change].tsc <= first->tsc)) {
		put_change(json, &json->trace->change[json->change++]);
		return true;
	}
	if (first == NULL)
		return false;
	json->next[whose]++;
	put_event(json, whose, first);
	return true;
}

/* Write the remaining contributions, then the next open block. False: there is none. */
static bool
put_rest(struct ctrl_trace_json *json)
{
	for (unsigned int w = 0; w < json->trace->nb_workers; w++)
		if (json->heard[w].id != 0)
			put_contribution(json, w, json->heard[w].end);
	while (json->next_entry <= json->mask && !is_open(&json->entry[json->next_entry]))
		json->next_entry++;
	if (json->next_entry > json->mask)
		return false;
	change_block(json, 0, &json->entry[json->next_entry], json->last, BLOCK_GONE);
	return true;
}

/* Write the next piece; a step that is finished moves on to the next one. */
static void
advance(struct ctrl_trace_json *json)
{
	bool more = false;

	json->length = json->read = 0;
	switch (json->step) {
	case STEP_HEAD: put_head(json); break;
	case STEP_TRACKS: more = put_track(json); break;
	case STEP_EVENTS: more = put_next(json); break;
	case STEP_REST: more = put_rest(json); break;
	case STEP_TAIL: put(json, "\n]}\n"); break;
	case STEP_END: return;
	}
	if (!more)
		json->step++;
}

ssize_t
ctrl_trace_json_read(void *opaque, char *out, size_t room)
{
	struct ctrl_trace_json *json = opaque;
	size_t written = 0;

	while (written < room) {
		size_t n = RTE_MIN(room - written, (size_t)(json->length - json->read));

		memcpy(out + written, json->piece + json->read, n);
		json->read += (unsigned int)n;
		written += n;
		if (json->read < json->length)
			continue;
		if (json->step == STEP_END)
			break;
		advance(json);
	}
	return (ssize_t)written;
}

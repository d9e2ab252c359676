/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace tells what happened: of a switch of two workers, whose traffic lies within the trace, every
 * slice, hop, contribution and block is there, once, and in order.
 */
#include <errno.h>

#include <jansson.h>
#include <rte_cycles.h>

#include "ctrl/stats/trace_json.h"
#include "ppe/trace/trace.h"
#include "tests/eal/bench.h"

#define SOURCES  4
#define WINDOW   16
#define ELEMENTS 32
#define BLOCKS   48

#define start_stage()                                                                              \
	start(.threads = 4, .sources = SOURCES, .window = WINDOW, .elements = ELEMENTS,            \
		.timeout_ms = 1000)

/* Blocks [from, to), whole, with everything at rest at the end. */
static void
blocks(uint32_t from, uint32_t to)
{
	for (uint32_t b = from; b < to; b++)
		reduce(b);
	rig_rest(&rig);
}

/* Start a trace; when this returns, both workers write. */
static void
begin(unsigned int ms, unsigned int events)
{
	cr_assert_eq(ppe_trace_start(rig.ppe, ms, events), 0);
	for (unsigned int w = 0; w < 2; w++)
		cr_assert_eq(ppe_trace_done(rig.ppe), 0);
	cr_assert(rig_turns(&rig, 2), "a worker is stuck");
}

static struct ppe_trace *
finish(void)
{
	int rc;

	while ((rc = ppe_trace_done(rig.ppe)) == 0)
		rte_delay_us_sleep(1000);
	cr_assert_eq(rc, 1, "%d", rc);
	return ppe_trace_take(rig.ppe);
}

/* A trace of BLOCKS blocks, with others before and after it. */
static struct ppe_trace *
traced_blocks(void)
{
	struct ppe_trace *trace;

	blocks(0, WINDOW);
	begin(1500, PPE_TRACE_EVENTS);
	blocks(WINDOW, WINDOW + BLOCKS);
	trace = finish();
	cr_assert_not_null(trace);
	cr_assert(!trace->full);
	blocks(WINDOW + BLOCKS, 2 * WINDOW + BLOCKS);
	return trace;
}

#define FOREACH_EVENT(e, trace, w)                                                                 \
	for (const struct ppe_event *e = (trace)->worker[w].event;                                 \
		e < (trace)->worker[w].event + (trace)->worker[w].used; e++)

/* Nothing before the trace and nothing after it. Events go by time; thread slices of a worker follow each other, within its
 * turns. */
static void
check_order(const struct ppe_trace *trace, unsigned int w)
{
	/* The counter may be read a moment before the trace is seen. */
	uint64_t last = trace->begin - trace->hz / 1000000, busy = 0, turn_end = 0;

	FOREACH_EVENT(e, trace, w)
	{
		cr_assert_geq(e->tsc, last, "worker %u event %td", w, e - trace->worker[w].event);
		cr_assert_lt(e->tsc, trace->end + trace->hz);
		last = e->tsc;
		switch ((enum ppe_event_kind)e->kind) {
		case PPE_EVENT_TURN:
			cr_assert_geq(e->tsc, turn_end);
			cr_assert_gt(e->cycles, 0, "a turn without an end");
			turn_end = e->tsc + e->cycles;
			break;
		case PPE_EVENT_SEGMENT:
			cr_assert_not_null(ppe_trace_segment(trace, e));
			cr_assert_lt(e->thread, trace->threads);
			/* fall through */
		case PPE_EVENT_CROSSBAR:
		case PPE_EVENT_TIMERS:
		case PPE_EVENT_RECEIVE:
		case PPE_EVENT_DISPATCH:
		case PPE_EVENT_TRANSMIT:
			cr_assert_gt(e->cycles, 0, "a slice without an end");
			cr_assert_geq(e->tsc, busy, "slices overlap");
			busy = e->tsc + e->cycles;
			cr_assert_leq(busy, turn_end);
			break;
		case PPE_EVENT_BLOCK_OPENED:
		case PPE_EVENT_BLOCK_DONE:
			cr_assert_eq((ppe_trace_block(e->id) - WINDOW) / BLOCKS, 0);
			/* fall through */
		case PPE_EVENT_HOP_OUT:
		case PPE_EVENT_HOP_IN:
		case PPE_EVENT_BLOCK_RELEASED: cr_assert_leq(e->tsc, turn_end); break;
		case PPE_EVENT_KINDS: cr_assert_fail();
		}
	}
}

/* Each departure has its arrival, on the other worker, later. */
static unsigned int
check_hops(const struct ppe_trace *trace, unsigned int from)
{
	unsigned int hops = 0;

	FOREACH_EVENT(out, trace, from)
	{
		const struct ppe_event *arrival = NULL;

		if (out->kind != PPE_EVENT_HOP_OUT)
			continue;
		FOREACH_EVENT(in, trace, 1 - from)
		if (in->kind == PPE_EVENT_HOP_IN && in->value == out->value &&
			in->tsc >= out->tsc) {
			arrival = in;
			break;
		}
		cr_assert_not_null(arrival, "a hop that does not arrive");
		cr_assert_eq(arrival->id, out->id, "another packet arrived");
		hops++;
	}
	return hops;
}

static unsigned int
count(const struct ppe_trace *trace, unsigned int w, enum ppe_event_kind kind)
{
	unsigned int n = 0;

	FOREACH_EVENT(e, trace, w)
	n += e->kind == kind;
	return n;
}

/* The block is opened, gets its contributions, is done and releases the one before it: in this
 * order. */
static void
check_block(const struct ppe_trace *trace, uint32_t block)
{
	uint64_t key = ppe_trace_id(0, generation, 1, block), opened = 0, done = 0, released = 0;
	unsigned int heard[SOURCES] = {0};

	for (unsigned int w = 0; w < trace->nb_workers; w++)
		FOREACH_EVENT(e, trace, w)
		{
			if ((e->id & ~(UINT64_C(0xff) << 56)) != key)
				continue;
			if (e->kind == PPE_EVENT_SEGMENT && e->end == PPE_END_CONSUMED) {
				heard[ppe_trace_source(e->id)]++;
				cr_assert_eq(released, 0, "after its release");
			}
			if (e->kind == PPE_EVENT_BLOCK_OPENED) {
				cr_assert_eq(opened, 0, "opened twice");
				opened = e->tsc;
			}
			if (e->kind == PPE_EVENT_BLOCK_DONE) {
				cr_assert(opened != 0 && done == 0, "done unopened, or twice");
				done = e->tsc;
			}
			if (e->kind == PPE_EVENT_BLOCK_RELEASED) {
				cr_assert(done != 0 && released == 0, "released undone, or twice");
				released = e->tsc;
			}
		}
	for (unsigned int s = 0; s < SOURCES; s++)
		cr_assert_eq(heard[s], 1, "block %u source %u: %u", block, s, heard[s]);
	cr_assert(opened != 0 && done >= opened, "block %u", block);
	cr_assert_eq(released != 0, block < BLOCKS, "block %u", block);
}

Test(ppe_trace, tells_everything_in_order, .timeout = 90)
{
	struct ppe_trace *trace;
	unsigned int hops, in;

	start_stage();
	trace = traced_blocks();
	for (unsigned int w = 0; w < 2; w++)
		check_order(trace, w);
	hops = check_hops(trace, 0) + check_hops(trace, 1);
	in = count(trace, 0, PPE_EVENT_HOP_IN) + count(trace, 1, PPE_EVENT_HOP_IN);
	cr_assert_eq(hops, in);
	/* Sources go round the workers, and so do blocks: half of the contributions hop. */
	cr_assert_eq(hops, SOURCES * BLOCKS / 2);
	for (uint32_t b = WINDOW; b < WINDOW + BLOCKS; b++)
		check_block(trace, b);
	ppe_trace_free(trace);
	stop_unread();
}

static const char *
json_of(struct ppe_trace *trace)
{
	static char text[16 << 20];
	struct ctrl_trace_json *json = ctrl_trace_json_create(trace, "bench");

	cr_assert_not_null(json);
	cr_assert_lt(ctrl_trace_json_read(json, text, sizeof(text)), (ssize_t)sizeof(text));
	ctrl_trace_json_destroy(json);
	return text;
}

/* How many events of this phase, and name if one is given. */
static unsigned int
told(const json_t *root, const char *phase, const char *name)
{
	const json_t *event;
	unsigned int n = 0;
	size_t i;

	json_array_foreach (json_object_get(root, "traceEvents"), i, event)
		n += strcmp(json_string_value(json_object_get(event, "ph")), phase) == 0 &&
			(name == NULL ||
				strcmp(json_string_value(json_object_get(event, "name")), name) ==
					0);
	return n;
}

/* All of it is in the JSON: arrows, blocks, contributions. */
Test(ppe_trace, as_json, .timeout = 90)
{
	json_error_t error;
	json_t *root;

	start_stage();
	root = json_loads(json_of(traced_blocks()), 0, &error);
	cr_assert_not_null(root, "line %d: %s", error.line, error.text);
	cr_assert_eq(told(root, "s", NULL), SOURCES * BLOCKS / 2);
	cr_assert_eq(told(root, "f", NULL), SOURCES * BLOCKS / 2);
	for (unsigned int s = 0; s < SOURCES; s++) {
		char name[16];

		snprintf(name, sizeof(name), "source %u", s);
		cr_assert_eq(told(root, "n", name), BLOCKS);
	}
	cr_assert_eq(told(root, "b", "collecting"), BLOCKS);
	cr_assert_eq(told(root, "e", "collecting"), BLOCKS);
	/* Each block of the trace releases one, of which the first WINDOW are from before it. */
	cr_assert_eq(told(root, "b", NULL), 3 * BLOCKS + 2 * WINDOW);
	cr_assert_eq(told(root, "b", NULL), told(root, "e", NULL));
	json_decref(root);
	stop_unread();
}

/* A job comes, is changed, gives way to another of its id, and goes, all while a trace runs: each is an
 * instant, in this order, and blocks bear the name of the job that they are of. */
Test(ppe_trace, jobs_that_change, .timeout = 90)
{
	static const char *const told_of[] = {
		"late added", "late changed", "late removed", "later added", "later removed"};
	struct ppe_job job = rig_job(7, 1, 1, 4);
	struct ppe_jobs table;
	const char *at;

	start_stage();
	table = rig.jobs;
	begin(2000, PPE_TRACE_EVENTS);
	strcpy(job.name, "late");
	table.by_id[7] = &job;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
	job.timeout_ms++;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0); /* nothing new */
	job.instance++;
	strcpy(job.name, "later");
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &rig.jobs), 0);
	blocks(0, 1);
	at = json_of(finish());
	for (unsigned int i = 0; i < RTE_DIM(told_of); i++) {
		char name[40];

		snprintf(name, sizeof(name), "\"name\":\"%s\"", told_of[i]);
		at = strstr(at, name);
		cr_assert_not_null(at, "%s is not told, or not in its place", told_of[i]);
		cr_assert_null(strstr(at + 1, name), "%s is told twice", told_of[i]);
	}
	cr_assert_not_null(strstr(at, "\"name\":\"job1 block 0\""));
	stop_unread();
}

Test(ppe_trace, a_full_ring_ends_it_early, .timeout = 90)
{
	struct ppe_trace *trace;
	uint64_t began;

	start_stage();
	began = ppe_tsc();
	begin(PPE_TRACE_MS_MAX, PPE_TRACE_EVENTS_MIN);
	blocks(0, BLOCKS);
	trace = finish();
	cr_assert_lt(ppe_tsc() - began, PPE_TRACE_MS_MAX / 1000 * trace->hz);
	cr_assert(trace->full);
	for (unsigned int w = 0; w < 2; w++)
		cr_assert_leq(trace->worker[w].used, PPE_TRACE_EVENTS_MIN);
	cr_assert(trace->worker[0].full || trace->worker[1].full);
	ppe_trace_free(trace);
	blocks(BLOCKS, BLOCKS + WINDOW);
	stop_unread();
}

Test(ppe_trace, one_at_a_time, .timeout = 90)
{
	struct ppe_trace *trace = NULL;

	start_stage();
	cr_assert_eq(ppe_trace_done(rig.ppe), -ENOENT);
	cr_assert_null(ppe_trace_take(rig.ppe));
	cr_assert_eq(ppe_trace_start(rig.ppe, 0, 1000), -EINVAL);
	cr_assert_eq(ppe_trace_start(rig.ppe, PPE_TRACE_MS_MAX + 1, 1000), -EINVAL);
	cr_assert_eq(ppe_trace_start(rig.ppe, 1, 1), -EINVAL);
	begin(PPE_TRACE_MS_MAX, 1000);
	cr_assert_eq(ppe_trace_start(rig.ppe, 1, 1000), -EBUSY);
	cr_assert_eq(ppe_trace_done(rig.ppe), 0);
	cr_assert_null(ppe_trace_take(rig.ppe), "taken from under the workers");
	/* One that nobody wants any more makes room for the next. */
	ppe_trace_abandon(rig.ppe);
	cr_assert(rig_turns(&rig, 2));
	begin(PPE_TRACE_MS_MAX, 1000);
	/* A switch that stops ends its trace. */
	cr_assert_eq(ppe_stop(rig.ppe, 2000), 0);
	trace = finish();
	ppe_trace_free(trace);
	cr_assert_eq(ppe_trace(rig.ppe, 1, 1000, &trace), 0);
	cr_assert_eq(trace->worker[0].used, 0);
	ppe_trace_free(trace);
	/* One that nobody takes goes with the switch. */
	cr_assert_eq(ppe_trace_start(rig.ppe, 1, 1000), 0);
	stop_unread();
}

#ifndef __SANITIZE_THREAD__ /* a worker stands still in virtual time only */
/* The trace is given up, not freed under the worker, and the next one finds room. */
Test(ppe_trace, of_a_worker_that_stands_still, .timeout = 90)
{
	struct ppe_trace *trace = NULL;

	start_stage();
	rig.standing = 1;
	cr_expect_eq(ppe_trace(rig.ppe, 1, 1000, &trace), -ETIMEDOUT);
	cr_expect_null(trace);
	cr_expect_eq(ppe_trace_start(rig.ppe, 1, 1000), -EBUSY, "freed under the worker");
	rig.standing = 0;
	rig_pass_us(1000);
	cr_expect_eq(ppe_trace(rig.ppe, 1, 1000, &trace), 0);
	ppe_trace_free(trace);
	stop_unread();
}
#endif

/* A frame for nobody known: forwarded to the other ports, and no block's. */
Test(ppe_trace, tells_of_other_packets, .timeout = 90)
{
	struct ppe_trace *trace;
	unsigned int floods = 0, dropped = 0;
	uint8_t other[64] = {2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5};

	start_stage();
	begin(300 * RIG_SLOW, PPE_TRACE_EVENTS);
	rig_send(&rig, 0, other, sizeof(other));
	memset(other + 6, 0xff, 6);
	rig_send(&rig, 0, other, sizeof(other));
	trace = finish();
	for (unsigned int w = 0; w < 2; w++)
		FOREACH_EVENT(e, trace, w)
		{
			if (e->kind != PPE_EVENT_SEGMENT || e->end == PPE_END_NONE)
				continue;
			cr_assert_eq(e->id, 0);
			floods += e->end == PPE_END_SENT &&
				strcmp(ppe_trace_segment(trace, e), "flood") == 0;
			dropped += e->end == PPE_END_DROPPED + PPE_DROP_BAD_SOURCE_MAC;
		}
	cr_assert_eq(floods, 1);
	cr_assert_eq(dropped, 1);
	ppe_trace_free(trace);
	stop_unread();
}

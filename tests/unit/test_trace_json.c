/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace as JSON, from made-up events: what a viewer needs is there, whole and balanced. */
#include <string.h>

#include <criterion/criterion.h>
#include <jansson.h>

#include "ctrl/stats/trace_json.h"
#include "tests/random.h"

#define ROOM 256
#define HZ   UINT64_C(2000000000) /* two cycles are a nanosecond */
#define T0   UINT64_C(1000000)

static struct ppe_next
one(struct ppe_worker *worker, struct ppe_thread *thread)
{
	(void)worker;
	(void)thread;
	return PPE_END;
}

static struct ppe_next
two(struct ppe_worker *worker, struct ppe_thread *thread)
{
	return one(worker, thread);
}

static struct ppe_trace *
new_trace(void)
{
	void *memory = NULL;
	struct ppe_trace *trace;

	cr_assert_eq(posix_memalign(&memory, 64, sizeof(*trace)), 0);
	trace = memset(memory, 0, sizeof(*trace));
	trace->begin = T0;
	trace->end = T0 + HZ / 100;
	trace->hz = HZ;
	trace->ms = 10;
	trace->nb_workers = 2;
	trace->threads = 3;
	trace->nb_ports = 2;
	trace->lcore[0] = 4;
	trace->lcore[1] = 5;
	strcpy(trace->program[0], "made_up");
	trace->segment = calloc(1, sizeof(*trace->segment));
	*trace->segment = (struct ppe_trace_segment){.segment = one, .name = "one"};
	trace->nb_segments = 1;
	strcpy(trace->job[1], "ring");
	strcpy(trace->port[0], "p0");
	strcpy(trace->port[1], "p1");
	for (unsigned int w = 0; w < 2; w++) {
		trace->worker[w].size = ROOM;
		trace->worker[w].event = calloc(ROOM, sizeof(struct ppe_event));
	}
	return trace;
}

static void
add(struct ppe_trace *trace, unsigned int worker, struct ppe_event event)
{
	struct ppe_tracer *tracer = &trace->worker[worker];

	cr_assert_lt(tracer->used, tracer->size);
	tracer->hops += event.kind == PPE_EVENT_HOP_OUT || event.kind == PPE_EVENT_HOP_IN;
	tracer->blocks += event.kind >= PPE_EVENT_BLOCK_OPENED || ppe_event_contributes(&event);
	tracer->event[tracer->used++] = event;
}

static char *
text_of(struct ppe_trace *trace, size_t room)
{
	struct ctrl_trace_json *json = ctrl_trace_json_create(trace, "weir0");
	char *text = NULL;
	size_t length = 0;
	ssize_t n;

	cr_assert_not_null(json);
	do {
		text = realloc(text, length + room + 1);
		n = ctrl_trace_json_read(json, text + length, room);
		cr_assert(n >= 0 && (size_t)n <= room);
		length += (size_t)n;
	} while (n > 0);
	text[length] = '\0';
	ctrl_trace_json_destroy(json);
	return text;
}

static json_t *
parsed(struct ppe_trace *trace)
{
	char *text = text_of(trace, 4096);
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	cr_assert_not_null(root, "line %d: %s\n%s", error.line, error.text, text);
	free(text);
	return root;
}

static const char *
word(const json_t *event, const char *key)
{
	const char *text = json_string_value(json_object_get(event, key));

	return text == NULL ? "" : text;
}

static double
number(const json_t *event, const char *key)
{
	return json_number_value(json_object_get(event, key));
}

/* The nth event of this phase and name; NULL: there are fewer. */
static const json_t *
find(const json_t *root, const char *phase, const char *name, unsigned int nth)
{
	const json_t *event;
	size_t i;

	json_array_foreach (json_object_get(root, "traceEvents"), i, event)
		if (strcmp(word(event, "ph"), phase) == 0 &&
			strcmp(word(event, "name"), name) == 0 && nth-- == 0)
			return event;
	return NULL;
}

static const json_t *
must(const json_t *root, const char *phase, const char *name, unsigned int nth)
{
	const json_t *event = find(root, phase, name, nth);

	cr_assert_not_null(event, "no event %s %s %u", phase, name, nth);
	return event;
}

#define KEY(block) ppe_trace_id(0, 7, 1, block)
#define SLICE(at, code, packet, how, on)                                                           \
	{                                                                                          \
		.tsc = T0 + (at), .id = (packet), .kind = PPE_EVENT_SEGMENT, .segment = (code),    \
		.cycles = 200, .end = (how), .thread = (on)                                        \
	}

/* A contribution hops from worker 0 to worker 1, where it opens block 17; a second one completes
 * it, and so releases block 1, which was there before. A third is late. */
static struct ppe_trace *
story(void)
{
	const uint64_t third = ppe_trace_id(3, 7, 1, 17);
	const struct ppe_event on_0[] = {
		{.tsc = T0 + 1000, .cycles = 900, .value = 3},
		{.tsc = T0 + 1000, .cycles = 100, .kind = PPE_EVENT_RECEIVE, .port = 1, .value = 2},
		SLICE(1200, one, third, PPE_END_HOPPED, 2),
		{.tsc = T0 + 1200,
			.id = third,
			.kind = PPE_EVENT_HOP_OUT,
			.thread = 2,
			.value = 0xabc0},
		SLICE(1400, two, ppe_trace_id(5, 7, 1, 9), PPE_END_DROPPED + PPE_DROP_LATE, 2),
	};
	const struct ppe_event on_1[] = {
		{.tsc = T0 + 1300,
			.id = third,
			.kind = PPE_EVENT_HOP_IN,
			.thread = 1,
			.value = 0xabc0},
		SLICE(1600, one, third, PPE_END_CONSUMED, 1),
		{.tsc = T0 + 1700, .id = KEY(17), .kind = PPE_EVENT_BLOCK_OPENED},
		SLICE(2000, one, ppe_trace_id(4, 7, 1, 17), PPE_END_CONSUMED, 1),
		{.tsc = T0 + 2100, .id = KEY(17), .kind = PPE_EVENT_BLOCK_DONE},
		{.tsc = T0 + 2120, .id = KEY(1), .kind = PPE_EVENT_BLOCK_RELEASED},
	};
	struct ppe_trace *trace = new_trace();

	for (size_t i = 0; i < sizeof(on_0) / sizeof(on_0[0]); i++)
		add(trace, 0, on_0[i]);
	for (size_t i = 0; i < sizeof(on_1) / sizeof(on_1[0]); i++)
		add(trace, 1, on_1[i]);
	return trace;
}

static void
check_time(const json_t *event, const char *key, double us)
{
	double found = number(event, key);

	cr_assert(found > us - 0.0006 && found < us + 0.0006, "%s: %f, not %f", key, found, us);
}

Test(trace_json, slices_lie_on_their_tracks)
{
	json_t *root = parsed(story());
	const json_t *event, *args;

	event = must(root, "M", "thread_name", 0);
	cr_assert_str_eq(word(json_object_get(event, "args"), "name"), "lcore 4");
	cr_assert_eq(number(event, "tid"), 100);
	event = must(root, "M", "thread_name", 7);
	cr_assert_str_eq(word(json_object_get(event, "args"), "name"), "lcore 5 thread 2");
	cr_assert_eq(number(event, "tid"), 203);
	event = must(root, "X", "turn", 0);
	cr_assert_eq(number(event, "tid"), 100);
	check_time(event, "ts", 0.5);
	check_time(event, "dur", 0.45);
	event = must(root, "X", "receive p1", 0);
	cr_assert_eq(number(json_object_get(event, "args"), "packets"), 2);
	event = must(root, "X", "one", 0);
	cr_assert_eq(number(event, "tid"), 103);
	args = json_object_get(event, "args");
	cr_assert_str_eq(word(args, "program"), "made_up");
	cr_assert_str_eq(word(args, "job"), "ring");
	cr_assert_eq(number(args, "source"), 3);
	cr_assert_eq(number(args, "block"), 17);
	cr_assert_eq(number(args, "generation"), 7);
	cr_assert_str_eq(word(args, "packet"), "hopped");
	/* A segment that its program does not name. */
	event = must(root, "X", "segment", 0);
	cr_assert_str_eq(word(json_object_get(event, "args"), "dropped"), "late");
	json_decref(root);
}

Test(trace_json, a_hop_is_an_arrow)
{
	json_t *root = parsed(story());
	const json_t *out = must(root, "s", "hop", 0), *in = must(root, "f", "hop", 0);

	cr_assert_eq(number(out, "id"), number(in, "id"));
	cr_assert_eq(number(out, "tid"), 103);
	cr_assert_eq(number(in, "tid"), 202);
	check_time(out, "ts", 0.6);
	check_time(in, "ts", 0.65);
	cr_assert_null(find(root, "s", "hop", 1));
	json_decref(root);
}

Test(trace_json, a_block_is_a_span)
{
	json_t *root = parsed(story());
	const json_t *event = must(root, "b", "ring block 17", 0);

	cr_assert_str_eq(word(event, "cat"), "job");
	cr_assert_str_eq(word(event, "id"), "1/7/17");
	check_time(event, "ts", 0.85);
	/* In it first the one source, told at its slice's end, then the one that completes it. */
	check_time(must(root, "n", "source 3", 0), "ts", 0.9);
	check_time(must(root, "n", "source 4", 0), "ts", 1.05);
	check_time(must(root, "e", "collecting", 0), "ts", 1.05);
	check_time(must(root, "b", "result kept", 0), "ts", 1.05);
	/* Not released: it ends with the trace. */
	check_time(must(root, "e", "ring block 17", 0), "ts", 10000);
	/* And this one began before it. */
	check_time(must(root, "b", "ring block 1", 0), "ts", 0);
	check_time(must(root, "e", "ring block 1", 0), "ts", 1.06);
	json_decref(root);
}

Test(trace_json, the_readers_pieces_do_not_matter)
{
	static const size_t room[] = {1, 7, 100, 65536};
	char *text = text_of(story(), 4096);

	for (unsigned int i = 0; i < 4; i++) {
		char *other = text_of(story(), room[i]);

		cr_assert_str_eq(other, text);
		free(other);
	}
	free(text);
}

Test(trace_json, a_full_ring_is_told)
{
	struct ppe_trace *trace = story();
	json_t *root, *about;

	trace->full = true;
	trace->worker[1].full = 1;
	root = parsed(trace);
	about = json_object_get(root, "otherData");
	cr_assert(json_is_true(json_object_get(about, "ended_early")));
	about = json_object_get(about, "workers");
	cr_assert(json_is_false(json_object_get(json_array_get(about, 0), "full")));
	cr_assert(json_is_true(json_object_get(json_array_get(about, 1), "full")));
	json_decref(root);
	root = parsed(new_trace());
	about = json_object_get(root, "otherData");
	cr_assert(json_is_false(json_object_get(about, "ended_early")));
	cr_assert_eq(number(about, "ms"), 10);
	json_decref(root);
}

Test(trace_json, names_are_harmless)
{
	struct ppe_trace *trace = story();
	json_t *root;

	strcpy(trace->port[1], "\"\\\n\xff");
	root = parsed(trace);
	must(root, "X", "receive ????", 0);
	json_decref(root);
}

struct span {
	const char *id;
	int depth;
};

/* Spans open before they close, and all close; so many arrows begin as end. */
static void
check_balance(const json_t *root)
{
	static struct span span[4 * ROOM];
	unsigned int spans = 0;
	int arrows = 0;
	const json_t *event;
	size_t i;

	json_array_foreach (json_object_get(root, "traceEvents"), i, event) {
		const char *phase = word(event, "ph"), *id = word(event, "id");
		unsigned int s = 0;

		arrows += phase[0] == 's';
		arrows -= phase[0] == 'f';
		cr_assert(number(event, "ts") >= 0 && number(event, "dur") >= 0);
		if (strchr("ben", phase[0]) == NULL)
			continue;
		while (s < spans && strcmp(span[s].id, id) != 0)
			s++;
		if (s == spans)
			span[spans++] = (struct span){.id = id};
		if (phase[0] == 'b')
			span[s].depth++;
		else if (phase[0] == 'e')
			span[s].depth--;
		cr_assert(span[s].depth >= 0 && span[s].depth <= 2, "%s", id);
		cr_assert(phase[0] != 'n' || span[s].depth > 0, "%s", id);
	}
	cr_assert_eq(arrows, 0);
	for (unsigned int s = 0; s < spans; s++)
		cr_assert_eq(span[s].depth, 0, "%s", span[s].id);
}

/* Events that make no sense together: a trace with holes. Still JSON, and balanced. */
Test(trace_json, whatever_the_events)
{
	uint64_t seed = random_seed();

	for (unsigned int round = 0; round < 200; round++) {
		struct ppe_trace *trace = new_trace();
		json_t *root;

		for (unsigned int w = 0; w < 2; w++) {
			uint64_t tsc = T0;

			for (unsigned int i = 0; i < ROOM; i++) {
				uint64_t r = random_bits(&seed);
				struct ppe_event event = {
					.tsc = tsc,
					.id = ppe_trace_id(r & 3, r >> 2 & 1, 1, r >> 3 & 7),
					.cycles = (uint32_t)(r >> 8 & 1023),
					.kind = (uint8_t)(r >> 20 & 15) % PPE_EVENT_KINDS,
					.thread = (r >> 24 & 1),
					.end = (uint8_t)(r >> 30 & 31) %
						(PPE_END_DROPPED + PPE_DROP_COUNT),
				};

				event.value = 1 + (r >> 40 & 7);
				if (event.kind >= PPE_EVENT_BLOCK_OPENED)
					event.id = KEY(r >> 3 & 7);
				if (event.kind == PPE_EVENT_SEGMENT)
					event.segment = one;
				add(trace, w, event);
				tsc += r >> 50;
			}
		}
		root = parsed(trace);
		check_balance(root);
		json_decref(root);
	}
}

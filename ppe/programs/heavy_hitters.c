/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heavy hitters: the largest flows of ordinary IPv4 traffic, by bytes. The program only looks at
 * packets and passes them on.
 *
 * A flow is source, destination, protocol and, of TCP, UDP and SCTP, ports. Each worker has a
 * count-min sketch (Cormode and Muthukrishnan, "An improved data stream summary: the count-min
 * sketch and its applications", J. Algorithms 55, 2005): `rows` rows of `columns` counters. A
 * packet is added to one counter of each row. The least of these is never less than the flow's
 * count, and too large by at most e / columns of all counts with probability 1 - exp(-rows). The
 * columns are h1 + i h2 (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006).
 *
 * A sketch does not know keys. So a table beside it has one place for each flow, which belongs to
 * the largest flow that wants it; it has CANDIDATES x k places, so that two of the largest flows
 * seldom want the same.
 *
 * There are two of both. Packets use one half; meanwhile a timer chooses the k largest flows of the
 * other half, that of the window before, and clears it, slice by slice.
 *
 * Owner: the worker that receives a packet, because counts can be added later. No packet hops, and
 * the reader of the table adds the workers' numbers.
 */
#include <errno.h>

#include <rte_malloc.h>

#include "hashengine/hash_fast.h"
#include "pktbuf/wire/wire.h"
#include "ppe/program_fast.h"
#include "rmw/ops.h"

#define K_MAX      PPE_TABLE_ROWS
#define CANDIDATES 32 /* per flow that is shown */
#define SLICES     64

struct flow { /* compared as bytes */
	uint32_t source, destination;
	uint16_t from, to; /* ports; 0: none */
	uint32_t protocol;
};

struct candidate {
	struct flow flow;
	struct rmw_counter count; /* the sketch's answer */
};

struct half { /* of one window */
	struct rmw_counter *sketch; /* rows x columns */
	struct candidate *candidate;
};

struct list {
	uint32_t n;
	struct candidate flow[K_MAX]; /* largest first */
};

struct hitters { /* one per worker */
	struct half half[2];
	uint64_t packets, bytes, windows, seed;
	uint32_t rows, columns, k, candidates;
	uint32_t now; /* the half of this window */
	uint32_t shown; /* the list that is complete. control: ro */
	struct list list[2];
	struct rmw_counter memory[]; /* of both halves */
};

struct lookup {
	struct flow flow;
	uint64_t hash;
};

static struct rmw_counter *
counter_of(const struct hitters *state, uint64_t hash, uint32_t row)
{
	uint32_t mixed = (uint32_t)hash + row * ((uint32_t)(hash >> 32) | 1);
	uint32_t column = (uint32_t)((uint64_t)mixed * state->columns >> 32);

	return &state->half[state->now].sketch[row * state->columns + column];
}

static struct candidate *
candidate_of(const struct hitters *state, uint64_t hash)
{
	return &state->half[state->now].candidate[hash_mix(hash) % state->candidates];
}

static struct flow
flow_of(const struct pktbuf_head *head)
{
	struct flow flow = {
		.source = head->ip_src, .destination = head->ip_dst, .protocol = head->ip_proto};
	bool has_ports = flow.protocol == 6 || flow.protocol == 17 || flow.protocol == 132;

	if (has_ports && (head->flags & PKTBUF_HEAD_FRAGMENT) == 0 &&
		head->length >= head->l4 + 4u) {
		flow.from = weir_get16(head->bytes + head->l4);
		flow.to = weir_get16(head->bytes + head->l4 + 2);
	}
	return flow;
}

/* Counters and candidate are in the cache. */
static struct ppe_next
count(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct hitters *state = ppe_state(worker, thread);
	const struct lookup *m = ppe_lmem(struct lookup, thread);
	struct candidate *candidate = candidate_of(state, m->hash);
	struct rmw_counter least = {UINT64_MAX, UINT64_MAX};

	for (uint32_t row = 0; row < state->rows; row++) {
		struct rmw_counter *counter = counter_of(state, m->hash, row);

		rmw_count(counter, thread->head.length);
		least.packets = RTE_MIN(least.packets, counter->packets);
		least.bytes = RTE_MIN(least.bytes, counter->bytes);
	}
	/* Of the flow's own place, too: its bytes have grown. */
	if (least.bytes > candidate->count.bytes)
		*candidate = (struct candidate){m->flow, least};
	state->packets++;
	state->bytes += thread->head.length;
	return ppe_pass_on(worker, thread);
}

static struct ppe_next
look(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct hitters *state = ppe_state(worker, thread);
	struct lookup *m = ppe_lmem(struct lookup, thread);
	uint64_t word[2];

	if ((thread->head.flags & PKTBUF_HEAD_IPV4) == 0)
		return ppe_pass_on(worker, thread);
	m->flow = flow_of(&thread->head);
	static_assert(sizeof(word) == sizeof(m->flow), "no padding");
	memcpy(word, &m->flow, sizeof(word));
	m->hash = hash_mix(hash_mix(word[0] ^ state->seed) ^ word[1]);
	for (uint32_t row = 0; row < state->rows; row++)
		rte_prefetch0(counter_of(state, m->hash, row));
	rte_prefetch0(candidate_of(state, m->hash));
	return PPE_RUN(count);
}

/* Insert a flow into a list, if it is one of the k largest. */
static void
insert(struct list *list, uint32_t k, const struct candidate *candidate)
{
	uint32_t at = list->n;

	if (candidate->count.bytes == 0 ||
		(at == k && list->flow[k - 1].count.bytes >= candidate->count.bytes))
		return;
	if (at == k)
		at--;
	else
		list->n++;
	for (; at > 0 && list->flow[at - 1].count.bytes < candidate->count.bytes; at--)
		list->flow[at] = list->flow[at - 1];
	list->flow[at] = *candidate;
}

/* A timer. Slice 0 begins a window; all slices together choose the largest flows of the window
 * before, and clear its half. */
static struct ppe_next
choose(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct hitters *state = ppe_state(worker, thread);
	struct list *list = &state->list[!state->shown];
	const uint64_t slice = thread->slice, cells = (uint64_t)state->rows * state->columns;
	const uint64_t first = cells * slice / SLICES, end = cells * (slice + 1) / SLICES;
	const struct half *half;

	if (slice == 0) {
		state->now = !state->now;
		state->windows++;
		list->n = 0;
	}
	half = &state->half[!state->now];
	for (uint64_t c = state->candidates * slice / SLICES;
		c < state->candidates * (slice + 1) / SLICES; c++) {
		insert(list, state->k, &half->candidate[c]);
		half->candidate[c] = (struct candidate){0};
	}
	memset(&half->sketch[first], 0, (end - first) * sizeof(half->sketch[0]));
	if (slice == SLICES - 1)
		__atomic_store_n(&state->shown, !state->shown, __ATOMIC_RELEASE);
	return PPE_END;
}

static const struct candidate *
find(const struct list *list, const struct flow *flow)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (memcmp(&list->flow[i].flow, flow, sizeof(*flow)) == 0)
			return &list->flow[i];
	return NULL;
}

/* Add up the workers' lists. */
static unsigned int
read_table(const void *const *states, unsigned int workers, uint64_t (*rows)[PPE_TABLE_COLUMNS],
	unsigned int max)
{
	const uint32_t k = RTE_MIN(((const struct hitters *)states[0])->k, max);
	const struct list *list[PPE_WORKERS_MAX];
	struct list all = {0};

	for (unsigned int w = 0; w < workers; w++) {
		const struct hitters *state = states[w];

		list[w] = &state->list[__atomic_load_n(&state->shown, __ATOMIC_ACQUIRE)];
	}
	for (unsigned int w = 0; w < workers; w++)
		for (uint32_t i = 0; i < list[w]->n; i++) {
			struct candidate sum = list[w]->flow[i];

			if (find(&all, &sum.flow) != NULL)
				continue;
			for (unsigned int v = w + 1; v < workers; v++) {
				const struct candidate *more = find(list[v], &sum.flow);

				sum.count.packets += more != NULL ? more->count.packets : 0;
				sum.count.bytes += more != NULL ? more->count.bytes : 0;
			}
			insert(&all, K_MAX, &sum);
		}
	for (uint32_t i = 0; i < RTE_MIN(all.n, k); i++) {
		const struct candidate *c = &all.flow[i];
		const uint64_t row[] = {c->flow.source, c->flow.destination, c->flow.protocol,
			c->flow.from, c->flow.to, c->count.packets, c->count.bytes};

		memcpy(rows[i], row, sizeof(row));
	}
	return RTE_MIN(all.n, k);
}

static int
create(const struct ppe_setup *setup, void **out)
{
	const struct ppe_match ipv4 = {.conditions = PPE_MATCH_ETHER_TYPE, .ether_type = 0x0800};
	const struct ppe_timer timer = {.segment = choose,
		.period_us = (uint64_t)ppe_setting(setup, "window_ms") * 1000,
		.slices = SLICES};
	const uint32_t rows = (uint32_t)ppe_setting(setup, "rows");
	const uint32_t columns = (uint32_t)ppe_setting(setup, "columns");
	const uint32_t k = (uint32_t)ppe_setting(setup, "k");
	const size_t cells = (size_t)rows * columns;
	struct hitters *state = rte_zmalloc_socket("hitters",
		sizeof(*state) + 2 * cells * sizeof(struct rmw_counter) +
			2 * (size_t)CANDIDATES * k * sizeof(struct candidate),
		64, setup->socket);
	struct candidate *candidates;
	int rc;

	*out = state;
	if (state == NULL)
		return -ENOMEM;
	state->rows = rows;
	state->columns = columns;
	state->k = k;
	state->candidates = CANDIDATES * k;
	state->seed = setup->config->hash_seed;
	candidates = (struct candidate *)(void *)(state->memory + 2 * cells);
	state->half[0] = (struct half){state->memory, candidates};
	state->half[1] = (struct half){state->memory + cells, candidates + state->candidates};
	rc = ppe_match_add(setup, &ipv4);
	return rc == 0 ? ppe_timer_add(setup, &timer) : rc;
}

static void
destroy(void *state, struct ppe_program_leaks *leaks __rte_unused)
{
	rte_free(state);
}

static void
explain(const struct ppe_worker *worker __rte_unused, const void *const *states __rte_unused,
	const struct ppe_thread *thread, struct ppe_explanation *explanation)
{
	const struct flow flow = flow_of(&thread->head);

	ppe_explain(explanation, "count", "in all rows of the sketch");
	ppe_explain_end(explanation, "pass", "counted in protocol %u, ports %u and %u",
		flow.protocol, flow.from, flow.to);
}

static const struct ppe_setting settings[] = {
	{"rows", PPE_SETTING_INTEGER, "4", 1, 8, NULL, NULL,
		"Rows of the sketch: more of them make large errors less likely."},
	{"columns", PPE_SETTING_INTEGER, "4096", 16, 1 << 20, NULL, NULL,
		"Counters of a row: more of them make errors smaller."},
	{"k", PPE_SETTING_INTEGER, "20", 1, K_MAX, NULL, NULL, "How many flows are shown."},
	{"window_ms", PPE_SETTING_INTEGER, "1000", 100, 3600000, NULL, "ms",
		"The time whose largest flows are shown."},
	{0},
};

static const struct ppe_table tables[] = {
	{"flows", "the largest flows of the last window",
		{{"source", "IPv4 address", PPE_COLUMN_IPV4},
			{"destination", "IPv4 address", PPE_COLUMN_IPV4},
			{"protocol", "IPv4 protocol number", PPE_COLUMN_NUMBER},
			{"from", "source port; 0: none", PPE_COLUMN_NUMBER},
			{"to", "destination port; 0: none", PPE_COLUMN_NUMBER},
			{"packets", "packets, never too few", PPE_COLUMN_NUMBER},
			{"bytes", "bytes of frames, never too few", PPE_COLUMN_NUMBER}},
		read_table},
	{0},
};

static const struct ppe_segment_name segments[] = {
	{look, "look", "count pass"},
	{count, "count", "pass"},
	{choose, "choose", ""},
	{0},
};

#define COUNTERS(X)                                                                                \
	X(packets, "packets looked at")                                                            \
	X(bytes, "bytes looked at")                                                                \
	X(windows, "windows that have ended, of all workers")

#define X(field, help)                                                                             \
	static uint64_t read_##field(const void *state)                                            \
	{                                                                                          \
		return ((const struct hitters *)state)->field;                                     \
	}
COUNTERS(X)
#undef X

#define X(key, help)                                                                               \
	{"hitters_" #key, "weir_hitters_" #key "_total", help, PPE_STATISTIC_COUNTER, false,       \
		read_##key},
static const struct ppe_program heavy_hitters_program = {
	.name = "heavy_hitters",
	.help = "shows the largest flows of ordinary traffic",
	.first = look,
	.ordered = true,
	.create = create,
	.destroy = destroy,
	.settings = settings,
	.statistics = {COUNTERS(X)},
	.tables = tables,
	.explain = explain,
	.segments = {segments},
};
#undef X

PPE_PROGRAM_FILE(heavy_hitters_program);

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Experts: dispatch and combine for mixtures of experts. A token's owner sends one packet, the
 * switch sends a copy to each of the token's k experts, adds up their weighted outputs, and sends
 * one packet back. With AlltoAll the owner sends and receives k.
 *
 * UDP to the switch's address. Each packet begins with struct header:
 *
 *   register  `expert` is at the packet's source. Answered with `registered`. An expert repeats it
 *             every few seconds, because the switch may have restarted.
 *   token     count: k. elements: floats of each output. Then k times struct choice, then the input
 *             for the experts, any bytes. Repeated until the result comes.
 *   input     to an expert: place: index of its choice. Then the input.
 *   output    the header of the input with this type, then `elements` floats, little-endian
 *   result    to the owner: status 0, then the sum of weight x output in fp32, in the order of the
 *             choices; each product is rounded before it is added. Or status 1: the token timed
 *             out; bit i of missing: output i did not come.
 *
 * Each process of an owner draws its session at random, and counts its tokens up. Token t is in
 * slot t % window of its owner. Its result stays there for repeated tokens, until the slot gets a
 * newer token or one of another session. A repeated token without a result goes again to the
 * experts that have not answered.
 *
 * Owner: slot s belongs to worker s % workers, and tokens and outputs hop there, because a sum
 * needs one place. Each worker has the addresses of all experts. Packets carry copies, so none
 * refers to the program's memory.
 */
#include <errno.h>

#include <rte_malloc.h>

#include "ppe/datagram_fast.h"

#define MAGIC   RTE_BE16(0x5758) /* "WX" */
#define VERSION 1
#define K_MAX   8
#define SCANS   16

enum { REGISTER = 1, TOKEN, INPUT, OUTPUT, RESULT, REGISTERED };

struct header {
	rte_be16_t magic;
	uint8_t version, type;
	rte_be16_t owner, session; /* owner: [0, owners) */
	rte_be32_t token;
	rte_be16_t expert; /* [0, experts) */
	uint8_t count, place, status, missing;
	rte_be16_t elements;
} __rte_packed;
static_assert(sizeof(struct header) == 20, "as docs/supplied-programs.md says");

struct choice {
	rte_be16_t expert, reserved;
	rte_be32_t weight; /* fp32 */
} __rte_packed;

struct slot {
	uint64_t opened; /* TSC */
	enum { SLOT_EMPTY, SLOT_OPEN, SLOT_DONE } phase;
	uint8_t heard; /* bit i: output i has come */
	uint8_t turn; /* the next output to add; count: the sum is complete */
	struct header token;
	struct choice choice[K_MAX];
	struct pktbuf_endpoint owner;
};

struct experts { /* one per worker */
	uint64_t timeout; /* TSC cycles */
	uint32_t owners, window, experts, k, elements, nb_slots;
	uint16_t udp;
	uint64_t tokens, results, repeated, duplicates, stale, bad, timeouts;
	struct slot *slot; /* slots worker, worker + workers, ... */
	float *values; /* per slot: the sum, then k outputs */
	struct pktbuf_endpoint expert[]; /* by number */
};

/* Hops to all workers. */
struct registration {
	struct pktbuf_endpoint endpoint;
	uint16_t expert;
};

static const struct header *
header_of(const struct ppe_thread *thread)
{
	return (const void *)datagram_payload(thread);
}

/* i 0: the sum; otherwise output i - 1. */
static float *
values(const struct experts *state, const struct slot *slot, unsigned int i)
{
	return &state->values[((size_t)(slot - state->slot) * (state->k + 1) + i) *
		state->elements];
}

static uint32_t
slot_number(const struct experts *state, const struct header *h)
{
	return rte_be_to_cpu_16(h->owner) * state->window +
		rte_be_to_cpu_32(h->token) % state->window;
}

/* On its owner. */
static struct slot *
slot_of(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const struct experts *state = ppe_state(worker, thread);

	return &state->slot[slot_number(state, header_of(thread)) / worker->workers];
}

/* What is wrong with the packet; NULL: nothing. */
static const char *
wrong(const struct experts *state, const struct ppe_thread *thread)
{
	const struct header *h = header_of(thread);
	const struct choice *choice = (const void *)(h + 1);
	const uint32_t bytes = thread->head.payload_length;
	uint32_t elements;

	if (bytes < sizeof(*h) || h->magic != MAGIC || h->version != VERSION)
		return "it is of another protocol or version";
	if (h->type == REGISTER)
		return rte_be_to_cpu_16(h->expert) < state->experts ? NULL
								    : "its expert is out of range";
	if (h->type != TOKEN && h->type != OUTPUT)
		return "its type is unknown";
	if (rte_be_to_cpu_16(h->owner) >= state->owners)
		return "its owner is out of range";
	elements = rte_be_to_cpu_16(h->elements);
	if (elements == 0 || elements > state->elements)
		return "its elements are out of range";
	if (h->type == OUTPUT)
		return bytes == sizeof(*h) + elements * sizeof(float) ? NULL
								      : "its length is wrong";
	if (h->count == 0 || h->count > state->k || bytes < sizeof(*h) + h->count * sizeof(*choice))
		return "its count is out of range";
	for (unsigned int i = 0; i < h->count; i++)
		if (rte_be_to_cpu_16(choice[i].expert) >= state->experts)
			return "an expert is out of range";
	return NULL;
}

static struct ppe_next
drop(struct ppe_worker *worker, struct ppe_thread *thread, uint64_t *counter, enum ppe_drop reason)
{
	(*counter)++;
	return ppe_drop(worker, thread, reason);
}

/* Send the input to the experts whose outputs are missing. */
static void
dispatch(struct ppe_worker *worker, struct ppe_thread *thread, const struct slot *slot)
{
	const struct experts *state = ppe_state(worker, thread);
	const uint32_t skip = sizeof(struct header) + slot->token.count * sizeof(struct choice);
	const uint32_t bytes = thread->head.payload_length - skip;

	for (uint8_t i = 0; i < slot->token.count; i++) {
		const rte_be16_t expert = slot->choice[i].expert;
		const struct pktbuf_endpoint *to = &state->expert[rte_be_to_cpu_16(expert)];
		struct rte_mbuf *packet = NULL;
		struct pktbuf_cursor input;
		struct header *h;

		if ((slot->heard >> i & 1) == 0 && to->valid)
			packet = datagram_begin(
				worker, to, state->udp, (uint16_t)(sizeof(*h) + bytes));
		if (packet == NULL)
			continue;
		h = datagram_data(packet);
		*h = slot->token;
		h->type = INPUT;
		h->expert = expert;
		h->place = i;
		pktbuf_cursor_init(&input, thread->packet, thread->head.payload + skip, bytes);
		pktbuf_cursor_copy(&input, h + 1, bytes);
		datagram_send(worker, packet, to->port);
	}
}

/* Send the result of a slot that is done. */
static void
answer(struct ppe_worker *worker, struct experts *state, const struct slot *slot)
{
	const bool complete = slot->turn == slot->token.count;
	const size_t bytes = complete ? rte_be_to_cpu_16(slot->token.elements) * sizeof(float) : 0;
	struct rte_mbuf *packet = datagram_begin(
		worker, &slot->owner, state->udp, (uint16_t)(sizeof(struct header) + bytes));
	struct header *h;

	if (packet == NULL)
		return;
	h = datagram_data(packet);
	*h = slot->token;
	h->type = RESULT;
	h->status = !complete;
	h->missing = (uint8_t)(~slot->heard & ((1u << h->count) - 1));
	memcpy(h + 1, values(state, slot, 0), bytes);
	datagram_send(worker, packet, slot->owner.port);
	state->results++;
}

/* Take an output, and add those whose turn it is. */
static void
add(struct experts *state, struct ppe_thread *thread, struct slot *slot, unsigned int place)
{
	const unsigned int elements = rte_be_to_cpu_16(slot->token.elements);
	const uint32_t bits = rte_be_to_cpu_32(slot->choice[place].weight);
	float *sum = values(state, slot, 0), *output = values(state, slot, place + 1), weight;
	struct pktbuf_cursor cursor;

	memcpy(&weight, &bits, sizeof(weight));
	pktbuf_cursor_init(&cursor, thread->packet, thread->head.payload + sizeof(struct header),
		elements * sizeof(float));
	pktbuf_cursor_copy(&cursor, output, elements * sizeof(float));
	/* A loop of its own, so that products are rounded, also where a CPU can multiply and add
	 * in one step. */
	for (unsigned int e = 0; e < elements; e++)
		output[e] *= weight;
	slot->heard |= (uint8_t)(1u << place);
	for (; slot->turn < slot->token.count && (slot->heard >> slot->turn & 1); slot->turn++) {
		output = values(state, slot, slot->turn + 1u);
		for (unsigned int e = 0; e < elements; e++)
			sum[e] = slot->turn == 0 ? output[e] : sum[e] + output[e];
	}
}

static struct ppe_next
take_output(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct experts *state = ppe_state(worker, thread);
	const struct header *h = header_of(thread);
	struct slot *slot = slot_of(worker, thread);

	if (slot->phase == SLOT_EMPTY || h->token != slot->token.token ||
		h->session != slot->token.session)
		return drop(worker, thread, &state->stale, PPE_DROP_PROGRAM);
	if (h->place >= slot->token.count || h->expert != slot->choice[h->place].expert ||
		h->elements != slot->token.elements ||
		thread->head.ip_src != state->expert[rte_be_to_cpu_16(h->expert)].ip)
		return drop(worker, thread, &state->bad, PPE_DROP_PROGRAM);
	if (slot->phase == SLOT_DONE || (slot->heard >> h->place & 1) != 0)
		return drop(worker, thread, &state->duplicates, PPE_DROP_DUPLICATE);
	add(state, thread, slot, h->place);
	if (slot->turn == slot->token.count) {
		slot->phase = SLOT_DONE;
		answer(worker, state, slot);
	}
	return ppe_consume(worker, thread);
}

static struct ppe_next
take_token(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct experts *state = ppe_state(worker, thread);
	const struct header *h = header_of(thread);
	struct slot *slot = slot_of(worker, thread);
	const bool is_same = slot->phase != SLOT_EMPTY && h->session == slot->token.session;
	const int32_t newer =
		(int32_t)(rte_be_to_cpu_32(h->token) - rte_be_to_cpu_32(slot->token.token));
	const bool is_new = !is_same || newer != 0;

	if (is_same && newer < 0)
		return drop(worker, thread, &state->stale, PPE_DROP_PROGRAM);
	if (((!is_new || slot->phase == SLOT_OPEN) && thread->head.ip_src != slot->owner.ip) ||
		(!is_new && (h->count != slot->token.count || h->elements != slot->token.elements)))
		return drop(worker, thread, &state->bad, PPE_DROP_PROGRAM);
	if (is_new) {
		*slot = (struct slot){.opened = worker->now, .phase = SLOT_OPEN, .token = *h};
		memcpy(slot->choice, h + 1, h->count * sizeof(struct choice));
		state->tokens++;
	} else {
		state->repeated++;
	}
	slot->owner = datagram_sender(thread);
	if (slot->phase == SLOT_DONE)
		answer(worker, state, slot);
	else
		dispatch(worker, thread, slot);
	return ppe_consume(worker, thread);
}

/* On the slot's owner. */
static struct ppe_next
find(struct ppe_worker *worker, struct ppe_thread *thread)
{
	rte_prefetch0(slot_of(worker, thread));
	return PPE_RUN(header_of(thread)->type == TOKEN ? take_token : take_output);
}

/* On every worker: where an expert is, in LMEM. */
static struct ppe_next
learn(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct experts *state = ppe_state(worker, thread);
	const struct registration *r = ppe_lmem(struct registration, thread);

	state->expert[r->expert] = r->endpoint;
	return ppe_consume(worker, thread);
}

static struct ppe_next
receive(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct experts *state = ppe_state(worker, thread);
	struct registration *r = ppe_lmem(struct registration, thread);
	const struct header *h = header_of(thread);
	struct rte_mbuf *packet;

	if (!datagram_passes(worker, thread))
		return PPE_END;
	if (wrong(state, thread) != NULL)
		return drop(worker, thread, &state->bad, PPE_DROP_PROGRAM);
	if (h->type != REGISTER)
		return ppe_hop(worker, thread, slot_number(state, h) % worker->workers, find);
	*r = (struct registration){datagram_sender(thread), rte_be_to_cpu_16(h->expert)};
	crossbar_tell_others(worker, thread->program, learn, r, sizeof(*r));
	packet = datagram_begin(worker, &r->endpoint, state->udp, sizeof(*h));
	if (packet != NULL) {
		*(struct header *)datagram_data(packet) = *h;
		((struct header *)datagram_data(packet))->type = REGISTERED;
		datagram_send(worker, packet, r->endpoint.port);
	}
	return learn(worker, thread);
}

/* A timer: end the tokens of a slice that have waited too long. */
static struct ppe_next
expire(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct experts *state = ppe_state(worker, thread);
	const uint64_t n = state->nb_slots, slice = thread->slice;

	for (uint64_t i = n * slice / SCANS; i < n * (slice + 1) / SCANS; i++) {
		struct slot *slot = &state->slot[i];

		if (slot->phase != SLOT_OPEN || worker->now - slot->opened < state->timeout)
			continue;
		slot->phase = SLOT_DONE;
		state->timeouts++;
		answer(worker, state, slot);
	}
	return PPE_END;
}

static void
explain(const struct ppe_worker *worker, const void *const *states, const struct ppe_thread *thread,
	struct ppe_explanation *explanation)
{
	const struct experts *state = states[worker->id];
	const struct header *h = header_of(thread);
	uint32_t number;

	ppe_explain(explanation, "receive", "a packet of %u bytes", thread->head.payload_length);
	if (!datagram_explain(worker, thread, wrong(state, thread), explanation))
		return;
	number = slot_number(state, h);
	if (h->type == REGISTER)
		ppe_explain_end(explanation, "consume", "its sender becomes an expert");
	else
		ppe_explain_end(explanation, "consume",
			"slot %u at worker %u takes it, unless it is old or repeated", number,
			number % worker->workers);
}

static int
create(const struct ppe_setup *setup, void **out)
{
	const uint32_t experts = (uint32_t)ppe_setting(setup, "experts");
	const uint64_t timeout_us = (uint64_t)ppe_setting(setup, "timeout_ms") * 1000;
	const struct ppe_timer timer = {
		.segment = expire, .period_us = timeout_us / 4, .slices = SCANS};
	struct experts *state = rte_zmalloc_socket(
		"experts", sizeof(*state) + experts * sizeof(state->expert[0]), 64, setup->socket);
	int rc;

	*out = state;
	if (state == NULL)
		return -ENOMEM;
	if (setup->config->packet_bytes < DATAGRAM_HEADERS + sizeof(struct header) +
			(uint32_t)ppe_setting(setup, "elements") * sizeof(float))
		return -EMSGSIZE;
	state->experts = experts;
	state->timeout = timeout_us * rte_get_tsc_hz() / 1000000;
	state->owners = (uint32_t)ppe_setting(setup, "owners");
	state->window = (uint32_t)ppe_setting(setup, "window");
	state->k = (uint32_t)ppe_setting(setup, "k");
	state->elements = (uint32_t)ppe_setting(setup, "elements");
	state->udp = (uint16_t)ppe_setting(setup, "port");
	state->nb_slots = (state->owners * state->window + setup->workers - 1) / setup->workers;
	state->slot = rte_zmalloc_socket(
		"experts", state->nb_slots * sizeof(*state->slot), 64, setup->socket);
	state->values = rte_malloc_socket("experts",
		(size_t)state->nb_slots * (state->k + 1) * state->elements * sizeof(float), 64,
		setup->socket);
	if (state->slot == NULL || state->values == NULL)
		return -ENOMEM;
	rc = datagram_match(setup, state->udp);
	return rc == 0 ? ppe_timer_add(setup, &timer) : rc;
}

static void
destroy(void *arg, struct ppe_program_leaks *leaks __rte_unused)
{
	struct experts *state = arg;

	if (state != NULL) {
		rte_free(state->slot);
		rte_free(state->values);
	}
	rte_free(state);
}

static const struct ppe_setting settings[] = {
	{"port", PPE_SETTING_INTEGER, "9021", 1, 65535, NULL, NULL, "The UDP port."},
	{"owners", PPE_SETTING_INTEGER, "16", 1, 1024, NULL, NULL,
		"How many owners of tokens there are, counted from 0."},
	{"window", PPE_SETTING_INTEGER, "64", 1, 1024, NULL, NULL,
		"How many tokens an owner may have under way."},
	{"experts", PPE_SETTING_INTEGER, "64", 1, 1024, NULL, NULL,
		"How many experts there are, counted from 0."},
	{"k", PPE_SETTING_INTEGER, "2", 1, K_MAX, NULL, NULL, "The most experts of a token."},
	{"elements", PPE_SETTING_INTEGER, "256", 1, 2048, NULL, NULL,
		"The most floats of an output, which must fit a frame."},
	{"timeout_ms", PPE_SETTING_INTEGER, "1000", 10, 3600000, NULL, "ms",
		"How long a token waits for outputs."},
	{0},
};

static const struct ppe_segment_name segments[] = {
	{receive, "receive", "hop:find hop:learn output consume drop:program" DATAGRAM_LEADS_TO},
	{find, "find", "take_token take_output"},
	{take_token, "take_token", "output consume drop:program"},
	{take_output, "take_output", "output consume drop:program drop:duplicate"},
	{learn, "learn", "consume"},
	{expire, "expire", "output"},
	{0},
};

#define COUNTERS(X)                                                                                \
	X(tokens, "tokens taken")                                                                  \
	X(results, "results and timeouts sent, repeated ones too")                                 \
	X(repeated, "tokens that came again")                                                      \
	X(duplicates, "outputs that came again, or after the timeout, dropped")                    \
	X(stale, "tokens and outputs older than their slot's, dropped")                            \
	X(bad, "packets to the port that are not of the protocol, dropped")                        \
	X(timeouts, "tokens whose outputs did not all come")

#define X(field, help)                                                                             \
	static uint64_t field(const void *state)                                                   \
	{                                                                                          \
		return ((const struct experts *)state)->field;                                     \
	}
COUNTERS(X)
#undef X

#define X(key, help)                                                                               \
	{"experts_" #key, "weir_experts_" #key "_total", help, PPE_STATISTIC_COUNTER, false, key},
static const struct ppe_program experts_program = {
	.name = "experts",
	.help = "dispatches tokens to experts and combines their outputs",
	.first = receive,
	.create = create,
	.destroy = destroy,
	.settings = settings,
	.statistics = {COUNTERS(X)},
	.explain = explain,
	.segments = {segments},
};
#undef X

PPE_PROGRAM_FILE(experts_program);

/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults, the workers' side. The control thread's side is ppe/faults/control.c. */
#include "ppe/faults/faults.h"

#include <math.h>

#include "pktbuf/alter.h"
#include "pktbuf/head.h"
#include "pktbuf/outq_fast.h"
#include "ppe/program_fast.h"
#include "ppe/faults/faults_priv.h"
#include "ppe/ppe_priv.h"

/* A choice depends only on the packet's number, so a packet more at one port changes no other
 * port. */

/* The finalizer of splitmix64: every bit of the outcome depends on every bit of x. */
static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t
ppe_fault_key(uint64_t seed, unsigned int rule, unsigned int port, unsigned int queue,
	enum ppe_fault_direction direction)
{
	uint64_t place = (uint64_t)rule << 48 | (uint64_t)port << 32 | (uint64_t)queue << 16 |
		(uint64_t)direction;

	return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ place);
}

uint64_t
ppe_fault_draw(const struct ppe_fault_stream *stream, uint64_t n, unsigned int use)
{
	return mix(stream->key + (n << 8 | use) * UINT64_C(0x9e3779b97f4a7c15));
}

static double
unit(const struct ppe_fault_stream *stream, uint64_t n, unsigned int use)
{
	return (double)((ppe_fault_draw(stream, n, use) >> 11) + 1) * 0x1p-53;
}

/* Numbers of the draws for one packet; bits to corrupt come from 16 on. */
enum { DRAW_CHANCE, DRAW_STATE, DRAW_DELAY };

bool
ppe_fault_choose(const struct ppe_fault_rule *rule, struct ppe_fault_stream *stream, uint64_t n)
{
	switch (rule->choice) {
	case PPE_FAULT_EVERY: return n % rule->nth == 0;
	case PPE_FAULT_LIST:
		for (unsigned int i = 0; i < rule->ordinals; i++)
			if (rule->ordinal[i] == n)
				return true;
		return false;
	case PPE_FAULT_BURST:
		if (unit(stream, n, DRAW_STATE) <= (stream->bad ? rule->leave : rule->enter))
			stream->bad ^= 1;
		return unit(stream, n, DRAW_CHANCE) <= (stream->bad ? rule->bad : rule->good);
	case PPE_FAULT_CHANCE:
	default: return unit(stream, n, DRAW_CHANCE) <= rule->probability;
	}
}

bool
ppe_fault_in_window(const struct ppe_fault_rule *rule, uint64_t elapsed_ms)
{
	if (rule->repeat_ms != 0)
		elapsed_ms %= rule->repeat_ms;
	return elapsed_ms >= rule->from_ms && (rule->to_ms == 0 || elapsed_ms < rule->to_ms);
}

uint64_t
ppe_fault_delay_us(
	const struct ppe_fault_rule *rule, const struct ppe_fault_stream *stream, uint64_t n)
{
	double u = unit(stream, n, DRAW_DELAY), least = rule->us, most = rule->most_us, us;

	switch (rule->delay) {
	case PPE_FAULT_UNIFORM: us = least + (most - least) * u; break;
	case PPE_FAULT_EXPONENTIAL: us = -least * log(u); break;
	case PPE_FAULT_PARETO: us = least * pow(u, -1 / rule->shape); break;
	case PPE_FAULT_CONSTANT:
	default: return rule->us;
	}
	return (uint64_t)(us < most ? us : most);
}

/* A binary heap of the packets that a worker holds, by the time at which they are due. */

static bool
before(const struct ppe_held *a, const struct ppe_held *b)
{
	return a->due != b->due ? a->due < b->due : a->serial < b->serial;
}

static void
sift_down(struct ppe_fault_store *store, uint32_t at, struct ppe_held held)
{
	for (uint32_t child = 2 * at + 1; child < store->used; child = 2 * at + 1) {
		if (child + 1 < store->used && before(&store->heap[child + 1], &store->heap[child]))
			child++;
		if (!before(&store->heap[child], &held))
			break;
		store->heap[at] = store->heap[child];
		at = child;
	}
	store->heap[at] = held;
}

void
ppe_held_push(struct ppe_fault_store *store, struct ppe_held held)
{
	uint32_t at = store->used++;

	while (at > 0 && before(&held, &store->heap[(at - 1) / 2])) {
		store->heap[at] = store->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	store->heap[at] = held;
}

struct ppe_held
ppe_held_pop(struct ppe_fault_store *store)
{
	struct ppe_held top = store->heap[0];

	store->used--;
	if (store->used > 0)
		sift_down(store, 0, store->heap[store->used]);
	return top;
}

void
ppe_held_all_due(struct ppe_fault_store *store)
{
	while (store->waiting > 0)
		store->heap[store->used++] = store->behind[--store->waiting].held;
	for (uint32_t i = 0; i < store->used; i++)
		store->heap[i].due = 0;
	/* Equal times: in the order in which they were held. */
	for (uint32_t i = store->used / 2; i-- > 0;)
		sift_down(store, i, store->heap[i]);
}

/* A queue of the worker, as the rules see it. */
struct site {
	struct ppe_worker *worker;
	struct ppe_fault_store *store;
	struct pktbuf_outq *outq; /* NULL: received packets, which go to the backlog */
	unsigned int port, index;
	uint8_t priority;
};

/* The properties of a packet that rules match. */
struct subject {
	enum ppe_fault_what what; /* never ANY */
	uint8_t job, source;
	uint32_t block;
};

static struct site
site_at(struct ppe_worker *worker, unsigned int index, uint8_t priority)
{
	bool in = index < worker->nb_rx;
	struct pktbuf_outq *outq = in ? NULL : worker->outq[index - worker->nb_rx];

	return (struct site){.worker = worker,
		.store = worker->faults,
		.outq = outq,
		.port = in ? worker->rx[index].port->index : outq->port->index,
		.index = index,
		.priority = priority};
}

static unsigned int
room(const struct site *site)
{
	const struct ppe_worker *worker = site->worker;
	const struct pktbuf_fifo *fifo;

	if (site->outq == NULL)
		return PPE_BACKLOG - worker->backlog_tail;
	fifo = &site->outq->fifo[site->priority];
	return site->outq->limit - RTE_MIN(site->outq->limit, fifo->tail - fifo->head);
}

/* The caller has checked that there is room. */
static void
put(const struct site *site, struct rte_mbuf *packet)
{
	struct ppe_worker *worker = site->worker;

	if (site->outq == NULL)
		worker->backlog[worker->backlog_tail++] = packet;
	else
		ppe_output_own(worker, site->outq, packet, site->priority);
}

/* Mark how far the rules have been applied to the output queue. */
static void
mark(const struct site *site)
{
	if (site->outq != NULL)
		site->store->checked[site->index - site->worker->nb_rx][site->priority] =
			site->outq->fifo[site->priority].tail;
}

/* Is the packet from or to an aggregation port, with a whole header? Otherwise it is ordinary.
 * Reads only the head. */
static struct subject
classify(const struct ppe_worker *worker, const struct rte_mbuf *packet)
{
	const struct pktbuf_identity *self = worker->identity;
	uint8_t scratch[PKTBUF_HEAD_BYTES];
	struct subject subject = {.what = PPE_FAULT_ORDINARY};
	struct pktbuf_head head;
	struct weir_header header = {0};
	uint16_t udp;

	pktbuf_head_parse(&head, packet, scratch);
	if (!(head.flags & PKTBUF_HEAD_UDP) || (head.flags & PKTBUF_HEAD_BAD))
		return subject;
	if (head.ip_dst == self->ip)
		udp = head.udp_dst;
	else if (head.ip_src == self->ip)
		udp = head.udp_src;
	else
		return subject;
	header.extended = pktbuf_port_is(self, udp, self->port_ext);
	if (!header.extended && !pktbuf_port_is(self, udp, self->port_base))
		return subject;
	if (head.payload_length < weir_header_bytes(header.extended) ||
		RTE_MIN(head.length, (uint32_t)PKTBUF_HEAD_BYTES) <
			head.payload + weir_header_bytes(header.extended))
		return subject;
	weir_header_read(&header, head.bytes + head.payload);
	subject.what = head.ip_dst == self->ip ? PPE_FAULT_CONTRIBUTION : PPE_FAULT_RESULT;
	subject.job = header.job_id;
	subject.source = header.src_id;
	subject.block = header.block_id;
	return subject;
}

static bool
matches(const struct ppe_fault_rule *rule, const struct site *site, const struct subject *subject)
{
	bool particular =
		rule->job >= 0 || rule->source >= 0 || rule->first != 0 || rule->last != UINT32_MAX;

	if ((rule->direction == PPE_FAULT_IN) != (site->outq == NULL) ||
		(rule->port >= 0 && (unsigned int)rule->port != site->port) ||
		(rule->what != PPE_FAULT_ANY && rule->what != subject->what))
		return false;
	if (!particular)
		return true;
	return subject->what != PPE_FAULT_ORDINARY &&
		(rule->job < 0 || rule->job == subject->job) &&
		(rule->source < 0 || rule->source == subject->source) &&
		rule->first <= subject->block && subject->block <= rule->last;
}

static uint64_t
cycles(const struct ppe_fault_set *set, uint64_t us)
{
	return us * set->hz / 1000000;
}

static unsigned int
held_now(const struct ppe_fault_store *store)
{
	return store->used + store->waiting;
}

/* Packets passed: release those overtaken often enough. `rest`: packets that have their places. */
static void
overtake(const struct site *site, unsigned int rest)
{
	struct ppe_fault_store *store = site->store;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < store->waiting; i++) {
		struct ppe_behind *behind = &store->behind[i];

		if (behind->held.site != site->index || behind->held.priority != site->priority ||
			--behind->left > 0) {
			store->behind[kept++] = *behind;
			continue;
		}
		if (room(site) > rest) {
			put(site, behind->held.packet);
			continue;
		}
		behind->held.due = 0;
		ppe_held_push(store, behind->held);
	}
	store->waiting = kept;
}

/* The actions for a packet. */
struct actions {
	enum ppe_drop drop; /* PPE_DROP_COUNT: none */
	uint32_t behind; /* packets; 0: none */
	uint64_t delay; /* us */
	uint64_t copiers, holders; /* bits of the rules that copy it, or hold it */
};

static_assert(PPE_FAULT_RULES_MAX <= 64, "each rule is one bit of copiers and holders");

static struct ppe_fault_stream *
stream_at(const struct site *site, unsigned int rule)
{
	const struct ppe_worker *worker = site->worker;

	return &worker->fault_set
			->stream[worker->id][(size_t)rule * ppe_fault_sites(worker) + site->index];
}

/* Count a rule that could not act. */
static void
spare(const struct site *site, unsigned int rule)
{
	stream_at(site, rule)->spared++;
	site->store->spared++;
}

static bool
corrupt(const struct site *site, const struct ppe_fault_rule *rule,
	const struct ppe_fault_stream *stream, uint64_t n, struct rte_mbuf **packet)
{
	struct rte_mbuf *copy = pktbuf_bare_copy(*packet, site->worker->pools->packets);

	if (copy == NULL)
		return false;
	for (unsigned int i = 0; i < rule->bits; i++)
		pktbuf_flip_bit(copy,
			(uint32_t)(ppe_fault_draw(stream, n, 16 + i) % (copy->data_len * 8u)));
	rte_pktmbuf_free(*packet);
	*packet = copy;
	return true;
}

static void
apply(const struct site *site, unsigned int index, uint64_t n, struct rte_mbuf **packet,
	struct actions *actions)
{
	const struct ppe_fault_rule *rule = &site->worker->fault_set->faults.rule[index];
	const struct ppe_fault_stream *stream = stream_at(site, index);
	const uint64_t bit = UINT64_C(1) << index;

	switch (rule->action) {
	case PPE_FAULT_DROP: actions->drop = PPE_DROP_FAULT_DROP; break;
	case PPE_FAULT_BLACKOUT: actions->drop = PPE_DROP_FAULT_BLACKOUT; break;
	case PPE_FAULT_DUPLICATE: actions->copiers |= bit; break;
	case PPE_FAULT_REORDER:
		actions->behind = 1 + (uint32_t)(ppe_fault_draw(stream, n, 3) % rule->distance);
		actions->holders |= bit;
		break;
	case PPE_FAULT_DELAY:
		actions->delay += ppe_fault_delay_us(rule, stream, n);
		actions->holders |= bit;
		break;
	case PPE_FAULT_CORRUPT:
	default:
		if ((*packet)->pkt_len > 0 && !corrupt(site, rule, stream, n, packet))
			spare(site, index);
	}
}

static struct actions
choose_actions(const struct site *site, struct rte_mbuf **packet)
{
	struct ppe_worker *worker = site->worker;
	struct ppe_fault_set *set = worker->fault_set;
	struct actions actions = {.drop = PPE_DROP_COUNT};
	struct subject subject = {.what = PPE_FAULT_ORDINARY};
	uint64_t ms;

	if (set == NULL)
		return actions;
	ms = (worker->now - RTE_MIN(worker->now, set->epoch)) / (set->hz / 1000);
	if (set->classify)
		subject = classify(worker, *packet);
	for (unsigned int i = 0; i < set->faults.nb_rules; i++) {
		const struct ppe_fault_rule *rule = &set->faults.rule[i];
		struct ppe_fault_stream *stream = stream_at(site, i);
		uint64_t n;

		if (!matches(rule, site, &subject))
			continue;
		n = ++stream->matched;
		if (!ppe_fault_choose(rule, stream, n) || !ppe_fault_in_window(rule, ms))
			continue;
		stream->hit++;
		apply(site, i, n, packet, &actions);
		if (actions.drop != PPE_DROP_COUNT)
			break;
	}
	return actions;
}

static void
repeat(const struct site *site, unsigned int rule, const struct rte_mbuf *packet, unsigned int rest)
{
	struct ppe_worker *worker = site->worker;
	struct rte_mbuf *copy = room(site) > rest
		? rte_pktmbuf_copy(packet, worker->pools->packets, 0, UINT32_MAX)
		: NULL;

	if (copy == NULL) {
		spare(site, rule);
		return;
	}
	worker->count.created++;
	put(site, copy);
}

/* False: there is no room to hold it. */
static bool
hold(const struct site *site, struct rte_mbuf *packet, const struct actions *actions)
{
	struct ppe_worker *worker = site->worker;
	struct ppe_fault_store *store = site->store;
	const struct ppe_fault_set *set = worker->fault_set;
	struct ppe_held held = {.due = worker->now +
			cycles(set, RTE_MIN(actions->delay, (uint64_t)PPE_FAULT_DELAY_MAX_US)),
		.serial = store->serial++,
		.packet = packet,
		.site = (uint16_t)site->index,
		.priority = site->priority};

	if (held_now(store) >= set->faults.held)
		return false;
	if (actions->delay > 0) {
		ppe_held_push(store, held);
		return true;
	}
	if (store->waiting == PPE_FAULT_BEHIND_MAX)
		return false;
	held.due = worker->now + cycles(set, PPE_FAULT_BEHIND_US);
	store->behind[store->waiting++] = (struct ppe_behind){held, actions->behind};
	return true;
}

/* Apply the rules to a packet taken out of the queue. rest: later packets that need a place. */
static void
apply_rules(const struct site *site, struct rte_mbuf *packet, unsigned int rest)
{
	struct actions actions = choose_actions(site, &packet);

	if (actions.drop != PPE_DROP_COUNT) {
		site->worker->count.drops[actions.drop]++;
		rte_pktmbuf_free(packet);
		return;
	}
	/* Send copies at once, even when the original is held. */
	for (uint64_t left = actions.copiers; left != 0; left &= left - 1)
		repeat(site, (unsigned int)__builtin_ctzll(left), packet, rest + 1);
	if (actions.delay > 0 || actions.behind > 0) {
		if (hold(site, packet, &actions))
			return;
		for (uint64_t left = actions.holders; left != 0; left &= left - 1)
			spare(site, (unsigned int)__builtin_ctzll(left));
	}
	put(site, packet);
	overtake(site, rest);
}

void
ppe_faults_in(struct ppe_worker *worker, unsigned int rx, unsigned int n)
{
	struct site site = site_at(worker, rx, 0);

	worker->backlog_tail = (uint16_t)(worker->backlog_tail - n);
	memcpy(site.store->burst, worker->backlog + worker->backlog_tail,
		n * sizeof(site.store->burst[0]));
	for (unsigned int i = 0; i < n; i++)
		apply_rules(&site, site.store->burst[i], n - 1 - i);
}

void
ppe_faults_out(struct ppe_worker *worker)
{
	for (unsigned int i = 0; i < worker->nb_outq; i++) {
		for (uint8_t priority = 0; priority < PKTBUF_PRIOS; priority++) {
			struct site site = site_at(worker, worker->nb_rx + i, priority);
			struct pktbuf_fifo *fifo = &site.outq->fifo[priority];
			uint32_t from = site.store->checked[i][priority], n = fifo->tail - from;

			for (uint32_t k = 0; k < n; k++)
				site.store->burst[k] =
					fifo->ring[(from + k) & (site.outq->depth - 1)];
			fifo->tail = from;
			for (uint32_t k = 0; k < n; k++)
				apply_rules(&site, site.store->burst[k], n - 1 - k);
			mark(&site);
		}
	}
}

static void
give_up_waiting(struct ppe_fault_store *store, uint64_t now)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < store->waiting; i++) {
		if (store->behind[i].held.due <= now)
			ppe_held_push(store, store->behind[i].held);
		else
			store->behind[kept++] = store->behind[i];
	}
	store->waiting = kept;
}

unsigned int
ppe_faults_release(struct ppe_worker *worker, bool draining)
{
	struct ppe_fault_store *store = worker->faults;
	unsigned int n = 0;

	if (unlikely(draining && held_now(store) > 0))
		ppe_held_all_due(store);
	give_up_waiting(store, worker->now);
	/* Tell packets already in the output queues from those added here. */
	ppe_faults_out(worker);
	while (store->used > 0 && store->heap[0].due <= worker->now) {
		struct site site = site_at(worker, store->heap[0].site, store->heap[0].priority);

		/* The backlog has room. An output queue may be full and then drops the packet. */
		if (room(&site) == 0 && site.outq == NULL)
			break;
		put(&site, ppe_held_pop(store).packet);
		mark(&site);
		n++;
	}
	if (worker->fault_set == NULL && held_now(store) == 0)
		worker->faults = NULL;
	return n;
}

void
ppe_take_faults(struct ppe_worker *worker, struct ppe_fault_set *set)
{
	/* Acquire pairs with the release in ppe_publish_faults. */
	struct ppe_fault_store *store = __atomic_load_n(&worker->store, __ATOMIC_ACQUIRE);

	if (worker->faults == NULL)
		for (unsigned int i = 0; i < worker->nb_outq; i++)
			for (unsigned int p = 0; p < PKTBUF_PRIOS; p++)
				store->checked[i][p] = worker->outq[i]->fifo[p].tail;
	ppe_held_all_due(store);
	worker->faults = store;
	worker->fault_set = set;
	/* Release: the worker no longer uses the former set. */
	__atomic_store_n(&worker->fault_taken, set, __ATOMIC_RELEASE);
}

unsigned int
ppe_faults_held(const struct ppe_worker *worker)
{
	const struct ppe_fault_store *store = __atomic_load_n(&worker->store, __ATOMIC_ACQUIRE);

	if (store == NULL)
		return 0;
	return __atomic_load_n(&store->used, __ATOMIC_RELAXED) +
		__atomic_load_n(&store->waiting, __ATOMIC_RELAXED);
}

void
ppe_faults_abandon(struct ppe_worker *worker)
{
	struct ppe_fault_store *store = worker->store;

	if (store == NULL)
		return;
	ppe_held_all_due(store);
	while (store->used > 0)
		rte_pktmbuf_free(ppe_held_pop(store).packet);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SwitchML's UDP protocol (Sapio et al., "Scaling Distributed Machine Learning with In-Network
 * Aggregation", NSDI 2021), as a program that a switch loads.
 *
 * Hosts, which SwitchML calls workers, send vectors of int32 to numbered slots. A slot has two sets
 * of values. A set that has a contribution of each host is complete: its sum goes to all of them,
 * and stays, to be sent again to a host that repeats its contribution. A host uses the two sets of
 * a slot in turn. Its contribution to a set says that it has the sum of the other set; when all
 * hosts have said so, the other set is used again. So no packet of a host may overtake an earlier
 * one, and there are no timers: hosts repeat. Sums wrap.
 *
 *     type and size 1 | job 1 | packet index 4 | pool index 2 | two exponents | elements
 *
 * are the bytes of UDP's payload, big-endian. Bit 15 of the pool index is the set, the lower 14 are
 * the slot. `exponents` selects one of two dialects. "before" is that of p4lang/p4app-switchML:
 * exponents are signed, and before the elements. "after" is that of microsoft/SwitchML: they are
 * unsigned, and behind the elements. An answer has the largest exponents, and the other fields of
 * the last contribution.
 *
 * Slot s belongs to worker s % workers of the switch, and contributions hop there. Each worker
 * learns the hosts from their packets, up to `workers` of them. It forgets them and its slots after
 * a silence, or when a session begins: the session service (weir-switchml-sessions) counts sessions
 * in a word of shared memory.
 *
 * A batch takes the contributions of known hosts whose first mbuf has all of it. After it has left
 * one to a thread, it leaves all, because hosts' packets keep their order.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_malloc.h>

#include "ppe/guard_fast.h"
#include "ppe/program_fast.h"

#define HOSTS      32
#define UDP_PORTS  16 /* that the hosts may choose from */
#define HEADERS    42 /* bytes of Ethernet, IPv4 and UDP */
#define HEADER     8 /* bytes of SwitchML's header */
#define POOL_AT    6 /* of it: the pool index */
#define EXPONENTS  2
#define COMPARED   48 /* bytes of a frame, the last ones masked */
#define LANES      64
#define PLACES     64 /* of the hash table of hosts; a power of two, at least 2 * HOSTS */
#define FRAME_MAX  (HEADERS + HEADER + EXPONENTS + 4 * 256)
#define SLOT_OF(p) (0x3fff & (p))
#define SET_OF(p)  ((p) >> 15)

#define COUNTERS(X)                                                                                \
	X(added, "contributions that were added")                                                  \
	X(sums, "sums that were completed")                                                        \
	X(answers, "answers sent, repeated ones included")                                         \
	X(repeated, "sums sent again to a host that repeated its contribution")                    \
	X(early, "repeated contributions to a sum that is not complete, dropped")                  \
	X(malformed, "packets of another length, or with IPv4 options, dropped")                   \
	X(no_slot, "packets to a slot that does not exist, dropped")                               \
	X(strangers, "packets of other hosts than the known ones, dropped")                        \
	X(sessions, "times that hosts and slots were forgotten")

typedef uint32_t element __attribute__((aligned(1), may_alias)); /* in a packet, or a sum */

/* sum: n elements in host order. */
typedef void (*add_fn)(
	element *restrict sum, const element *restrict elements, size_t n, bool first);

struct set {
	uint32_t heard; /* bit: a host has contributed, and not yet to the slot's other set */
	uint16_t missing; /* contributions until it is complete; 0: it is, or has none */
	uint8_t exponent[EXPONENTS];
};

struct slot {
	struct set set[2];
	uint32_t session; /* of another session: as if it had no contribution */
	uint16_t udp[HOSTS]; /* port that a host has sent from, as in the packet */
	element values[] __rte_cache_aligned; /* of set 0, then of set 1 */
};

struct host {
	uint8_t frame[COMPARED]; /* how its frames begin, under the mask */
	uint8_t answer[COMPARED]; /* how answers begin */
	uint32_t ip;
	uint16_t port; /* switch port */
	uint64_t contributions, repeated;
};

/* What a packet asks for. */
struct request {
	struct slot *slot;
	const uint8_t *payload; /* of UDP, contiguous */
	uint16_t udp_from, udp_to; /* ports, as in the packet */
	uint8_t set, host;
};

struct switchml { /* one per worker */
	/* read-mostly */
	uint8_t *slots; /* of `slot_bytes` each */
	size_t slot_bytes, nb_owned;
	add_fn add;
	const uint32_t *service; /* counts sessions; the session service writes it */
	int64_t forget; /* TSC cycles */
	uint32_t nb_slots, nb_hosts, elements; /* settings */
	uint32_t payload; /* bytes of UDP's payload */
	uint16_t data_at, exponents_at; /* in it */
	uint16_t udp_port;
	bool is_signed; /* exponents */
	uint8_t mask[COMPARED];
	/* own writes */
	uint64_t heard; /* TSC of the last contribution */
	uint32_t session, served; /* and `*service` when it began */
	uint32_t known; /* hosts */
	uint8_t place[PLACES]; /* index of a host + 1, by address */
	struct host host[HOSTS];
#define X(name, help) uint64_t name;
	COUNTERS(X)
#undef X
	uint8_t whole[FRAME_MAX]; /* the payload of a packet in several mbufs */
};

/* ---- sums ---- */

static __rte_always_inline void
add_all(element *restrict sum, const element *restrict elements, size_t n, bool first)
{
	for (size_t i = 0; i < n; i++)
		sum[i] = __builtin_bswap32(elements[i]) + (first ? 0 : sum[i]);
}

static void
add_plain(element *restrict sum, const element *restrict elements, size_t n, bool first)
{
	add_all(sum, elements, n, first);
}

#ifdef RTE_ARCH_X86_64
__attribute__((target("avx2,tune=haswell"))) static void
add_avx2(element *restrict sum, const element *restrict elements, size_t n, bool first)
{
	add_all(sum, elements, n, first);
}
#define ADD (__builtin_cpu_supports("avx2") ? add_avx2 : add_plain)
#else
#define ADD add_plain
#endif

/* ---- hosts ---- */

static inline struct slot *
slot_of(const struct ppe_worker *worker, const struct switchml *state, uint32_t slot)
{
	return (void *)(state->slots + slot / worker->workers * state->slot_bytes);
}

/* Is the session over: has one begun since, or were all silent? */
static inline bool
is_over(const struct ppe_worker *worker, const struct switchml *state)
{
	return unlikely(__atomic_load_n(state->service, __ATOMIC_RELAXED) != state->served) ||
		unlikely((int64_t)(worker->now - state->heard) > state->forget);
}

static void
begin_session(struct switchml *state)
{
	state->served = __atomic_load_n(state->service, __ATOMIC_RELAXED);
	state->session++;
	state->sessions++;
	state->known = 0;
	memset(state->place, 0, sizeof(state->place));
}

/* The place of a host's address, or an empty one. */
static inline unsigned int
place_of(const struct switchml *state, uint32_t ip)
{
	unsigned int at = (ip * UINT32_C(0x9e3779b1)) >> 26;

	while (state->place[at % PLACES] != 0 &&
		state->host[state->place[at % PLACES] - 1].ip != ip)
		at++;
	return at % PLACES;
}

/* The host that sent such a frame from this port; -1: no known one. */
static inline int
host_of(const struct switchml *state, const uint8_t *frame, uint16_t port)
{
	const int found = state->place[place_of(state, weir_get32(frame + 26))] - 1;
	const struct host *host = state->host + RTE_MAX(found, 0);
	uint64_t difference = 0;

	if (found < 0 || host->port != port)
		return -1;
	for (unsigned int i = 0; i < COMPARED; i += 8) {
		uint64_t a, b, mask;

		memcpy(&a, frame + i, sizeof(a));
		memcpy(&b, host->frame + i, sizeof(b));
		memcpy(&mask, state->mask + i, sizeof(mask));
		difference |= (a ^ b) & mask;
	}
	return difference == 0 ? found : -1;
}

static void
write_headers(uint8_t *frame, const uint8_t *to, const uint8_t *from, uint32_t ip_to,
	uint32_t ip_from, uint32_t payload)
{
	uint16_t sum;

	memset(frame, 0, COMPARED);
	memcpy(frame, to, RTE_ETHER_ADDR_LEN);
	memcpy(frame + 6, from, RTE_ETHER_ADDR_LEN);
	weir_put16(frame + 12, 0x0800);
	frame[14] = 0x45;
	weir_put16(frame + 16, (uint16_t)(HEADERS - 14 + payload));
	frame[22] = 64; /* TTL */
	frame[23] = 17; /* UDP */
	weir_put32(frame + 26, ip_from);
	weir_put32(frame + 30, ip_to);
	weir_put16(frame + 38, (uint16_t)(8 + payload));
	sum = (uint16_t)~pktbuf_sum_bytes(frame + 14, 20);
	memcpy(frame + 24, &sum, sizeof(sum));
}

/* Learn the host that the thread's packet is from. -1: there are enough, or it is a group. */
static int
learn(struct ppe_worker *worker, struct switchml *state, const struct ppe_thread *thread)
{
	const struct pktbuf_identity *self = worker->identity;
	const uint8_t *mac = thread->head.bytes + RTE_ETHER_ADDR_LEN;
	uint8_t *place = &state->place[place_of(state, thread->head.ip_src)];
	struct host *host = &state->host[state->known];

	if (*place != 0 || state->known == state->nb_hosts || (mac[0] & 1) != 0)
		return -1;
	memset(host, 0, sizeof(*host));
	host->ip = thread->head.ip_src;
	host->port = thread->port;
	write_headers(host->frame, self->mac, mac, self->ip, host->ip, state->payload);
	weir_put16(host->frame + 36, state->udp_port);
	write_headers(host->answer, mac, self->mac, host->ip, self->ip, state->payload);
	*place = (uint8_t)++state->known;
	return *place - 1;
}

/* ---- answers ---- */

/* Write SwitchML's part of the answer. */
static inline void
write_sum(const struct switchml *state, const struct request *r, uint8_t *payload)
{
	memcpy(payload, r->payload, HEADER);
	if (state->is_signed)
		payload[0] = 0x10 | (payload[0] & 7); /* the type and size of the P4 program's */
	payload[POOL_AT] &= 0xbf; /* both P4 programs ignore bit 14 */
	memcpy(payload + state->exponents_at, r->slot->set[r->set].exponent, EXPONENTS);
	state->add((void *)(payload + state->data_at), r->slot->values + r->set * state->elements,
		state->elements, true);
}

/* Send the sum to the hosts in the mask. */
static inline void
answer(struct ppe_worker *worker, struct switchml *state, const struct request *r, uint32_t hosts)
{
	struct rte_mbuf *packets[HOSTS];
	uint16_t port[HOSTS];
	unsigned int n = 0;

	for (; hosts != 0; hosts &= hosts - 1) {
		const unsigned int host = (unsigned int)__builtin_ctz(hosts);
		struct rte_mbuf *packet = ppe_packet_alloc(worker);
		uint8_t *frame;

		if (unlikely(packet == NULL))
			break;
		frame = rte_pktmbuf_mtod(packet, uint8_t *);
		packet->data_len = (uint16_t)(HEADERS + state->payload);
		packet->pkt_len = HEADERS + state->payload;
		if (n == 0)
			write_sum(state, r, frame + HEADERS);
		else
			memcpy(frame + HEADERS,
				rte_pktmbuf_mtod_offset(packets[0], uint8_t *, HEADERS),
				state->payload);
		memcpy(frame, state->host[host].answer, HEADERS);
		memcpy(frame + 34, &r->udp_to, sizeof(r->udp_to));
		memcpy(frame + 36, &r->slot->udp[host], sizeof(r->slot->udp[0]));
		port[n] = state->host[host].port;
		packets[n++] = packet;
	}
	state->answers += n;
	/* Not before all are copied. */
	for (unsigned int i = 0; i < n; i++)
		ppe_output(worker, packets[i], port[i], PKTBUF_PRIO_RESULT);
}

/* ---- contributions ---- */

/* A host has contributed to the set before. */
static __rte_noinline void
repeat(struct ppe_worker *worker, struct switchml *state, const struct request *r,
	struct rte_mbuf *packet)
{
	state->host[r->host].repeated++;
	if (r->slot->set[r->set].missing > 0) {
		state->early++;
		rte_pktmbuf_free(packet);
		worker->count.drops[PPE_DROP_DUPLICATE]++;
		return;
	}
	state->repeated++;
	answer(worker, state, r, UINT32_C(1) << r->host);
	ppe_consume_packet(worker, packet);
}

static inline void
raise_exponents(const struct switchml *state, struct set *set, const uint8_t *exponent, bool first)
{
	const uint8_t sign = state->is_signed ? 0x80 : 0;

	for (unsigned int i = 0; i < EXPONENTS; i++)
		if (first || (exponent[i] ^ sign) > (set->exponent[i] ^ sign))
			set->exponent[i] = exponent[i];
}

/* End of the packet: its contribution is added, or it is a repeated one. */
static inline void
contribute(struct ppe_worker *worker, struct switchml *state, const struct request *r,
	struct rte_mbuf *packet)
{
	const uint32_t bit = UINT32_C(1) << r->host;
	struct slot *slot = r->slot;
	struct set *set = &slot->set[r->set];
	bool first;

	if (unlikely(slot->session != state->session)) {
		memset(slot->set, 0, sizeof(slot->set));
		slot->session = state->session;
	}
	slot->udp[r->host] = r->udp_from;
	if (unlikely((set->heard & bit) != 0)) {
		repeat(worker, state, r, packet);
		return;
	}
	first = set->missing == 0 || set->heard == 0;
	set->heard = first ? bit : set->heard | bit;
	set->missing = (uint16_t)((first ? state->nb_hosts : set->missing) - 1);
	slot->set[!r->set].heard &= ~bit;
	raise_exponents(state, set, r->payload + state->exponents_at, first);
	state->add(slot->values + r->set * state->elements,
		(const void *)(r->payload + state->data_at), state->elements, first);
	state->added++;
	state->host[r->host].contributions++;
	if (set->missing == 0) {
		state->sums++;
		answer(worker, state, r, UINT32_MAX >> (32 - state->nb_hosts));
	}
	ppe_consume_packet(worker, packet);
}

/* ---- threads ---- */

/* Local memory has the pool index. */
#define POOL(thread) (*ppe_lmem(uint16_t, thread))

static struct ppe_next
refuse(struct ppe_worker *worker, struct ppe_thread *thread, uint64_t *counter)
{
	(*counter)++;
	return ppe_drop(worker, thread, PPE_DROP_PROGRAM);
}

/* The slot is in the cache. */
static struct ppe_next
take(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct switchml *state = ppe_state(worker, thread);
	const struct pktbuf_head *head = &thread->head;
	const uint16_t pool = POOL(thread);
	struct rte_mbuf *packet = thread->packet;
	struct pktbuf_cursor cursor;
	uint32_t contiguous;
	int host = host_of(state, head->bytes, thread->port);
	struct request r = {.set = SET_OF(pool),
		.udp_from = rte_cpu_to_be_16(head->udp_src),
		.udp_to = rte_cpu_to_be_16(head->udp_dst)};

	if (is_over(worker, state)) {
		begin_session(state);
		host = -1;
	}
	if (host < 0) {
		if (!guard_passes(worker, thread, GUARD_NO_JOB))
			return PPE_END;
		host = learn(worker, state, thread);
		if (host < 0)
			return refuse(worker, thread, &state->strangers);
	}
	state->heard = worker->now;
	r.host = (uint8_t)host;
	r.slot = slot_of(worker, state, SLOT_OF(pool));
	pktbuf_cursor_init(&cursor, packet, head->payload, state->payload);
	r.payload = pktbuf_cursor_span(&cursor, &contiguous);
	if (contiguous < state->payload) {
		pktbuf_cursor_copy(&cursor, state->whole, state->payload);
		r.payload = state->whole;
	}
	contribute(worker, state, &r, packet);
	thread->packet = NULL;
	return PPE_END;
}

/* This worker has the slot. */
static struct ppe_next
find(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct switchml *state = ppe_state(worker, thread);

	rte_prefetch0(slot_of(worker, state, SLOT_OF(POOL(thread))));
	return PPE_RUN(take);
}

/* Is the payload's length right, and the header's? */
static inline bool
is_right(const struct switchml *state, const struct pktbuf_head *head)
{
	return head->payload_length == state->payload && (head->flags & PKTBUF_HEAD_OPTIONS) == 0;
}

static struct ppe_next
check(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct switchml *state = ppe_state(worker, thread);
	const struct pktbuf_head *head = &thread->head;
	uint16_t pool;

	if (!is_right(state, head))
		return refuse(worker, thread, &state->malformed);
	pool = weir_get16(head->bytes + head->payload + POOL_AT);
	if (SLOT_OF(pool) >= state->nb_slots)
		return refuse(worker, thread, &state->no_slot);
	POOL(thread) = pool;
	return ppe_hop(worker, thread, SLOT_OF(pool) % worker->workers, find);
}

/* ---- batches ---- */

enum fate {
	TAKEN, /* its request is filled in */
	HOPPED, /* to the slot's worker */
	OTHER, /* not a contribution of a known host */
	LEFT, /* perhaps one: later ones must not overtake it */
};

/* Would dispatch find this program, if the port is right? */
static inline bool
is_to_switch(const struct ppe_worker *worker, const uint8_t *frame)
{
	return memcmp(frame, worker->identity->mac, RTE_ETHER_ADDR_LEN) == 0 &&
		weir_get16(frame + 12) == 0x0800 && frame[14] == 0x45 && frame[23] == 17 &&
		weir_get32(frame + 30) == worker->identity->ip;
}

static inline enum fate
recognize(struct ppe_worker *worker, struct switchml *state, struct rte_mbuf *packet,
	struct request *r)
{
	const uint8_t *frame = rte_pktmbuf_mtod(packet, const uint8_t *);
	uint32_t pool, slot;
	int host;

	if (unlikely(packet->data_len < HEADERS + HEADER))
		return packet->nb_segs == 1 ? OTHER : LEFT;
	if (((weir_get16(frame + 36) ^ state->udp_port) & ~(UDP_PORTS - 1)) != 0)
		return OTHER;
	pool = weir_get16(frame + HEADERS + POOL_AT);
	slot = SLOT_OF(pool);
	if (worker->workers > 1 && slot % worker->workers != worker->id) {
		if (!is_to_switch(worker, frame))
			return OTHER;
		ppe_hop_received(worker, (uint16_t)(slot % worker->workers), packet);
		return HOPPED;
	}
	host = host_of(state, frame, packet->port);
	if (unlikely(host < 0) || unlikely(slot >= state->nb_slots))
		return OTHER;
	if (unlikely(packet->data_len < HEADERS + state->payload))
		return packet->nb_segs == 1 ? OTHER : LEFT;
	r->slot = slot_of(worker, state, slot);
	rte_prefetch0(r->slot);
	r->payload = frame + HEADERS;
	memcpy(&r->udp_from, frame + 34, sizeof(r->udp_from));
	memcpy(&r->udp_to, frame + 36, sizeof(r->udp_to));
	r->set = (uint8_t)SET_OF(pool);
	r->host = (uint8_t)host;
	return TAKEN;
}

/* The hardware prefetcher continues. */
static inline void
fetch(const struct switchml *state, const struct request *r)
{
	const uint8_t *values = (const uint8_t *)(r->slot->values + r->set * state->elements);

	for (unsigned int at = 0; at < (state->elements <= 64 ? 256 : 512); at += 64) {
		rte_prefetch0(r->payload + 64 + at);
		rte_prefetch0(values + at);
	}
}

static void
contribute_all(struct ppe_worker *worker, struct switchml *state, const struct request *request,
	struct rte_mbuf **packet, unsigned int n)
{
	if (n > 0)
		state->heard = worker->now;
	for (unsigned int i = 0; i < n; i++) {
		if (i + 2 < n)
			fetch(state, &request[i + 2]);
		contribute(worker, state, &request[i], packet[i]);
	}
}

static unsigned int
batch(struct ppe_worker *worker, void *arg, struct rte_mbuf **packets, unsigned int n,
	unsigned int *followers __rte_unused)
{
	struct switchml *state = arg;
	struct request request[LANES];
	struct rte_mbuf *taken[LANES];
	unsigned int lanes = 0, left = 0, i;
	enum fate fate = OTHER;

	if (is_over(worker, state))
		return n;
	for (i = 0; i < n && fate != LEFT; i++) {
		struct rte_mbuf *packet = packets[i];

		fate = recognize(worker, state, packet, &request[lanes]);
		if (likely(fate == TAKEN))
			taken[lanes++] = packet;
		else if (fate != HOPPED)
			packets[left++] = packet;
		if (lanes == LANES) {
			contribute_all(worker, state, request, taken, lanes);
			lanes = 0;
		}
	}
	contribute_all(worker, state, request, taken, lanes);
	memmove(packets + left, packets + i, (n - i) * sizeof(packets[0]));
	return left + n - i;
}

/* ---- what operators see ---- */

static void
explain(const struct ppe_worker *worker, const void *const *states, const struct ppe_thread *thread,
	struct ppe_explanation *to)
{
	const struct pktbuf_head *head = &thread->head;
	const struct switchml *state = states[0];
	const uint16_t pool = weir_get16(head->bytes + head->payload + POOL_AT);
	const unsigned int owner = SLOT_OF(pool) % worker->workers;
	const struct slot *slot;
	const struct set *set;
	int host;

	ppe_explain(to, "check", "set %u of slot %u", SET_OF(pool), SLOT_OF(pool));
	if (!is_right(state, head) || SLOT_OF(pool) >= state->nb_slots) {
		ppe_explain_end(to, "drop:program",
			"not %u bytes of payload, with IPv4 options, or not one of %u slots",
			state->payload, state->nb_slots);
		return;
	}
	state = states[owner];
	slot = slot_of(worker, state, SLOT_OF(pool));
	set = &slot->set[SET_OF(pool)];
	ppe_explain(to, "find", "the slot is of worker %u", owner);
	host = host_of(state, head->bytes, thread->port);
	ppe_explain(to, "take", "%s of %u known hosts of %u; the sum misses %u",
		host < 0 ? "none" : "one", state->known, state->nb_hosts, set->missing);
	if (host < 0 && state->known == state->nb_hosts && !is_over(worker, state))
		ppe_explain_end(to, "drop:program", "a stranger");
	else if (host >= 0 && slot->session == state->session && (set->heard >> host & 1) != 0)
		ppe_explain_end(to, set->missing > 0 ? "drop:duplicate" : "send", "again");
	else
		ppe_explain_end(to, set->missing == 1 || state->nb_hosts == 1 ? "send" : "consume",
			"a contribution");
}

/* Slots that wait for the host and have contributions of others. */
static uint64_t
waited_for(const struct switchml *state, unsigned int host)
{
	uint64_t slots = 0;

	for (size_t i = 0; i < state->nb_owned; i++) {
		const struct slot *slot = (const void *)(state->slots + i * state->slot_bytes);

		for (unsigned int s = 0; s < 2 && slot->session == state->session; s++)
			slots += slot->set[s].missing > 0 && (slot->set[s].heard >> host & 1) == 0;
	}
	return slots;
}

static unsigned int
read_hosts(const void *const *states, unsigned int workers, uint64_t (*rows)[PPE_TABLE_COLUMNS],
	unsigned int max)
{
	unsigned int n = 0;

	for (unsigned int w = 0; w < workers; w++) {
		const struct switchml *state = states[w];

		for (unsigned int h = 0; h < state->known; h++) {
			const struct host *host = &state->host[h];
			unsigned int at = 0;

			while (at < n && rows[at][0] != host->ip)
				at++;
			if (at == max)
				return n;
			if (at == n) {
				memset(rows[n], 0, sizeof(rows[n]));
				rows[n][0] = host->ip;
				for (unsigned int i = 0; i < RTE_ETHER_ADDR_LEN; i++)
					rows[n][1] = rows[n][1] << 8 | host->answer[i];
				rows[n++][2] = host->port;
			}
			rows[at][3] += host->contributions;
			rows[at][4] += host->repeated;
			rows[at][5] += waited_for(state, h);
		}
	}
	return n;
}

#define X(name, help)                                                                              \
	static uint64_t read_##name(const void *state)                                             \
	{                                                                                          \
		return ((const struct switchml *)state)->name;                                     \
	}
COUNTERS(X)
#undef X

/* ---- life ---- */

static const uint32_t no_service;

/* The word in which the session service of this process counts sessions. */
static struct service_name {
	char text[32];
} service_name(void)
{
	struct service_name name;

	snprintf(name.text, sizeof(name.text), "/weir-switchml-%d", (int)getpid());
	return name;
}

static const uint32_t *
open_service(void)
{
	int fd = shm_open(service_name().text, O_RDWR | O_CREAT, 0600);
	void *word = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(uint32_t)) == 0)
		word = mmap(NULL, sizeof(uint32_t), PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return word != MAP_FAILED ? word : &no_service;
}

static int
create(const struct ppe_setup *setup, void **out)
{
	struct switchml *state = rte_zmalloc_socket("switchml", sizeof(*state), 64, setup->socket);
	const struct pktbuf_identity *self = &setup->config->identity;
	const int64_t forget = ppe_setting(setup, "forget");
	struct ppe_match match = {
		.conditions = PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP | PPE_MATCH_UDP_PORT,
		.udp_any = UDP_PORTS - 1};

	*out = state;
	if (state == NULL)
		return -ENOMEM;
	state->add = ADD;
	state->forget = forget != 0 ? forget * (int64_t)rte_get_tsc_hz() : INT64_MAX;
	state->nb_slots = (uint32_t)ppe_setting(setup, "slots");
	state->nb_hosts = (uint32_t)ppe_setting(setup, "workers");
	state->elements = (uint32_t)ppe_setting(setup, "elements");
	state->is_signed = ppe_setting(setup, "exponents") == 0;
	state->udp_port = match.udp_port = (uint16_t)ppe_setting(setup, "udp_port");
	state->payload = HEADER + EXPONENTS + 4 * state->elements;
	state->data_at = state->is_signed ? HEADER + EXPONENTS : HEADER;
	state->exponents_at = state->is_signed ? HEADER : (uint16_t)(state->payload - EXPONENTS);
	if (((match.udp_port ^ self->port_base) & ~match.udp_any) == 0 ||
		((match.udp_port ^ self->port_ext) & ~match.udp_any) == 0)
		return -EADDRINUSE; /* collective's */
	if (setup->config->packet_bytes < HEADERS + state->payload)
		return -EMSGSIZE;
	memset(state->mask, 0xff, HEADERS - 2);
	state->mask[15] = 0; /* type of service */
	memset(state->mask + 18, 0, 2); /* identification */
	state->mask[20] = 0xbf; /* "don't fragment" */
	state->mask[22] = 0; /* TTL */
	memset(state->mask + 24, 0, 2); /* checksum */
	memset(state->mask + 34, 0, 2); /* UDP port */
	state->mask[37] = (uint8_t) ~(UDP_PORTS - 1);
	state->nb_owned = (state->nb_slots + setup->workers - 1) / setup->workers;
	state->slot_bytes = RTE_ALIGN(sizeof(struct slot) + 8 * (size_t)state->elements, 64u);
	state->slots = rte_zmalloc_socket(
		"switchml_slots", state->nb_owned * state->slot_bytes, 64, setup->socket);
	if (state->slots == NULL)
		return -ENOMEM;
	if (setup->worker_id == 0)
		shm_unlink(service_name().text); /* another process's */
	state->service = open_service();
	begin_session(state);
	state->sessions = 0;
	state->heard = ppe_clock();
	return ppe_match_add(setup, &match);
}

static void
destroy(void *arg, struct ppe_program_leaks *leaks __rte_unused)
{
	struct switchml *state = arg;

	if (state == NULL)
		return;
	if (state->service != NULL && state->service != &no_service)
		munmap((void *)(uintptr_t)state->service, sizeof(*state->service));
	shm_unlink(service_name().text);
	rte_free(state->slots);
	rte_free(state);
}

static const struct ppe_setting settings[] = {
	{"workers", PPE_SETTING_INTEGER, NULL, 1, HOSTS, NULL, NULL,
		"Hosts whose contributions make a sum."},
	{"slots", PPE_SETTING_INTEGER, "512", 1, 16384, NULL, NULL,
		"Slots of two sets each: at least twice the outstanding packets of a host."},
	{"elements", PPE_SETTING_INTEGER, "256", 1, 256, NULL, NULL,
		"Of a packet: 64 or 256 for the public client."},
	{"exponents", PPE_SETTING_CHOICE, "before", 0, 0, "before|after", NULL,
		"Signed exponents before the elements (p4lang/p4app-switchML), or unsigned ones "
		"after them (microsoft/SwitchML)."},
	{"udp_port", PPE_SETTING_INTEGER, "48864", 1024, 65535, NULL, NULL,
		"One of 16 UDP ports, which differ in their last four bits."},
	{"forget", PPE_SETTING_INTEGER, "60", 0, 86400, NULL, "s",
		"Silence after which hosts and slots are forgotten; 0: only a session does that."},
	{"sessions", PPE_SETTING_TEXT, "[::]:50099", 3, PPE_SETTING_BYTES - 1, NULL, NULL,
		"Address and TCP port of the session service."},
	{0}};

static const struct ppe_table tables[] = {
	{.name = "workers",
		.help = "hosts of the session",
		.column = {{"ip", "IPv4 address", PPE_COLUMN_IPV4},
			{"mac", "MAC address", PPE_COLUMN_MAC},
			{"port", "switch port", PPE_COLUMN_PORT},
			{"contributions", "contributions that were added", PPE_COLUMN_NUMBER},
			{"repeated", "repeated contributions", PPE_COLUMN_NUMBER},
			{"waited_for", "sums that wait for it", PPE_COLUMN_NUMBER}},
		.read = read_hosts},
	{0}};

static const struct ppe_segment_name segments[] = {{check, "check", "hop:find drop:program"},
	{find, "find", "take"},
	{take, "take", "consume send output drop:program drop:duplicate" GUARD_LEADS_TO}, {0}};

static const struct ppe_program switchml_program = {.name = "switchml",
	.first = check,
	.batch = batch,
	.create = create,
	.destroy = destroy,
	.settings = settings,
	.statistics =
		{
#define X(name, help)                                                                              \
	{"switchml_" #name, "weir_switchml_" #name "_total", help, PPE_STATISTIC_COUNTER, false,   \
		read_##name},
			COUNTERS(X)
#undef X
		},
	.tables = tables,
	.sidecar = "weir-switchml-sessions",
	.help = "SwitchML: sums of int32 vectors over UDP",
	.explain = explain,
	.segments = {segments}};

PPE_PROGRAM_FILE(switchml_program);

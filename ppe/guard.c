/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/guard.h"

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "hashengine/hash_fast.h"
#include "pktbuf/wire/wire.h"
#include "ppe/guard_fast.h"
#include "ppe/ppe_priv.h"
#include "ppe/program_fast.h"

/* A bound address. */
struct binding {
	struct hash_record hash;
	uint64_t ports; /* bit p: it may come from port p */
	uint64_t heard; /* TSC: when a frame with it was last seen, other than a contribution */
	uint64_t asked; /* TSC: when its host was last asked; 0: never */
	uint32_t users; /* sources */
	uint32_t ip; /* of the users; host order */
	int16_t job; /* of all users, or SEVERAL_JOBS */
	uint8_t asks; /* without an answer; more than GUARD_ASKS: the binding does not hold */
	uint8_t spare[13];
};
static_assert(sizeof(struct binding) == 64, "one line");

/* What a worker tells the others of a binding; sent by a hop. */
struct news {
	uint64_t key, heard, asked;
	uint8_t asks;
};
static_assert(sizeof(struct news) <= PPE_HOP_BYTES, "a hop");

#define IP_KEY       (UINT64_C(1) << 63)

#define ANY_PORT     UINT64_MAX

#define SEVERAL_JOBS (-2)

/* A burst is a quarter of a second's frames, but not fewer than these. */
#define BURST_LEAST 64

/* Source addresses of a frame: Ethernet, IPv4 or ARP, and ARP's MAC address. */
#define CLAIMS_MAX 3
#define TAGS_MAX   8

static struct binding *
find(const struct guard *guard, uint64_t key)
{
	struct hash_probe probe;

	hash_begin(guard->bound, key, &probe);
	return hash_find(guard->bound, &probe)
		? (struct binding *)(void *)hash_peek(guard->bound, &probe)
		: NULL;
}

/* The ports that list the address; 0: none does. */
static uint64_t
listed(const struct guard *guard, uint32_t ip)
{
	uint64_t ports = 0;

	for (unsigned int i = 0; i < guard->config->nb_hosts; i++)
		if ((ip & guard->config->host[i].mask) == guard->config->host[i].address)
			ports |= guard->config->host[i].ports;
	return ports;
}

size_t
guard_bytes(unsigned int nb_ports)
{
	return sizeof(struct guard) + nb_ports * sizeof(((struct guard *)NULL)->policer[0]) +
		hash_records_bytes(GUARD_ADDRESSES, sizeof(struct binding)) +
		hash_table_bytes(GUARD_ADDRESSES);
}

static void
set_policers(struct guard *guard, unsigned int nb_ports)
{
	const uint32_t per_second[GUARD_POLICERS] = {
#define X(name, key, ...) guard->config->policers.key,
		PPE_POLICERS(X)
#undef X
	};
	uint64_t hz = rte_get_tsc_hz(), now = ppe_clock();

	for (unsigned int p = 0; p < nb_ports; p++)
		for (unsigned int i = 0; i < GUARD_POLICERS; i++)
			if (per_second[i] != 0) /* the configuration's range fits any policer */
				rmw_policer_init(&guard->policer[p][i], UINT64_C(8) * per_second[i],
					RTE_MAX(per_second[i] / 4, (uint32_t)BURST_LEAST), hz, now);
}

struct guard *
guard_create(const struct ppe_config *config, unsigned int nb_ports, int socket)
{
	struct guard *guard = rte_zmalloc_socket("weir_guard",
		sizeof(*guard) + nb_ports * sizeof(guard->policer[0]), RTE_CACHE_LINE_SIZE, socket);
	struct hash_config table = {
		.name = "bound addresses",
		.capacity = GUARD_ADDRESSES,
		.record_size = sizeof(struct binding),
		.socket = socket,
		.seed = config->hash_seed,
	};

	if (guard == NULL)
		return NULL;
	guard->config = config;
	guard->active = config->nb_hosts;
	for (unsigned int i = 0; i < config->nb_hosts; i++)
		guard->with_list |= config->host[i].ports;
	set_policers(guard, nb_ports);
	guard->records = rte_zmalloc_socket(
		"weir_bindings", hash_records_bytes(table.capacity, table.record_size), 64, socket);
	table.records = guard->records;
	guard->bound = guard->records == NULL ? NULL : hash_create(&table);
	if (guard->bound != NULL)
		return guard;
	guard_destroy(guard);
	return NULL;
}

void
guard_destroy(struct guard *guard)
{
	if (guard == NULL)
		return;
	hash_destroy(guard->bound);
	rte_free(guard->records);
	rte_free(guard);
}

/* One more user of an address. */
static bool
add_user(struct ppe_worker *worker, uint64_t key, uint32_t ip, uint64_t ports, uint8_t job)
{
	struct guard *guard = worker->guard;
	struct binding *binding = find(guard, key);
	struct hash_record *record;
	struct hash_probe probe;

	if (binding == NULL) {
		hash_begin(guard->bound, key, &probe);
		if (hash_insert(guard->bound, &probe, &record) < 0)
			return false;
		binding = (struct binding *)(void *)record;
		binding->users = 0;
		binding->job = job;
		binding->asked = 0;
		binding->asks = 0;
		guard->active++;
	}
	/* A MAC address stays with its host: a source can prove its own IPv4 address alone. */
	if (binding->users++ == 0 || binding->ip == ip || binding->asks > GUARD_ASKS) {
		binding->ports = ports;
		binding->ip = ip;
	}
	binding->heard = worker->now;
	binding->asks = 0;
	if (binding->job != job)
		binding->job = SEVERAL_JOBS;
	return true;
}

static void
remove_user(struct guard *guard, uint64_t key)
{
	struct binding *binding = find(guard, key);

	if (binding == NULL || --binding->users > 0)
		return;
	hash_delete(guard->bound, &binding->hash);
	guard->active--;
}

void
guard_unbind(struct ppe_worker *worker, const struct pktbuf_endpoint *endpoint)
{
	remove_user(worker->guard, guard_mac_key(endpoint->mac));
	remove_user(worker->guard, IP_KEY | endpoint->ip);
}

static bool
seen_elsewhere(const struct ppe_worker *worker, const uint8_t *mac, uint64_t ports)
{
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++) {
		const struct ppe_slot *slot = worker->table->slot[p];

		if (slot != NULL && slot->program->seen_elsewhere != NULL &&
			slot->program->seen_elsewhere(worker->state[p], mac, ports, worker->now))
			return true;
	}
	return false;
}

bool
guard_bind(struct ppe_worker *worker, const struct pktbuf_endpoint *former,
	const struct pktbuf_endpoint *endpoint, uint8_t job)
{
	struct guard *guard = worker->guard;
	const uint64_t mac = guard_mac_key(endpoint->mac);
	const struct binding *binding = find(guard, mac);
	uint64_t ports = listed(guard, endpoint->ip), mac_ports;
	bool is_own = former != NULL && guard_mac_key(former->mac) == mac;

	if (ports == 0)
		ports = UINT64_C(1) << endpoint->port;
	/* A binding stays: a host that moves keeps its address, and hosts that share one go on. */
	mac_ports = binding != NULL && (is_own || binding->ports == ANY_PORT)
		? (binding->ports == ANY_PORT ? ANY_PORT : ports)
		: seen_elsewhere(worker, endpoint->mac, ports) ? ANY_PORT
							       : ports;
	if (former != NULL)
		guard_unbind(worker, former);
	if (add_user(worker, mac, endpoint->ip, mac_ports, job)) {
		if (add_user(worker, IP_KEY | endpoint->ip, endpoint->ip, ports, job))
			return true;
		remove_user(guard, mac);
	}
	guard->full++;
	return false;
}

/* The frame's source addresses, as keys; returns how many. -1: more tags than any host accepts. */
static int
read_claims(const struct pktbuf_head *head, uint64_t claims[CLAIMS_MAX])
{
	uint32_t have = RTE_MIN(head->length, (uint32_t)PKTBUF_HEAD_BYTES), at = RTE_ETHER_HDR_LEN;
	uint16_t type = head->ether_type;
	const uint8_t *p;
	int n = 0;

	claims[n++] = guard_mac_key(head->bytes + RTE_ETHER_ADDR_LEN);
	for (unsigned int tags = 0; type == RTE_ETHER_TYPE_VLAN || type == RTE_ETHER_TYPE_QINQ;
		tags++) {
		at += RTE_VLAN_HLEN;
		if (tags == TAGS_MAX)
			return -1;
		if (have < at)
			return n;
		type = weir_get16(head->bytes + at - 2);
	}
	p = head->bytes + at;
	if (type == RTE_ETHER_TYPE_IPV4 && have >= at + 16) {
		claims[n++] = IP_KEY | weir_get32(p + 12);
	} else if (type == RTE_ETHER_TYPE_ARP && have >= at + 18) {
		claims[n++] = IP_KEY | weir_get32(p + 14);
		claims[n++] = guard_mac_key(p + 8);
	}
	return n;
}

/* Tell the other workers: one may receive the answer, or the next frame from elsewhere. A lost
 * message costs one more question. */
static void
tell(struct ppe_worker *worker, uint8_t program, const struct binding *binding)
{
	const struct news news = {
		.key = binding->hash.key,
		.heard = binding->heard,
		.asked = binding->asked,
		.asks = binding->asks,
	};

	crossbar_tell_others(worker, program, guard_receive_news, &news, sizeof(news));
}

struct ppe_next
guard_receive_news(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct news *news = (const struct news *)(const void *)thread->lmem;
	struct binding *binding = find(worker->guard, news->key);

	if (binding != NULL) {
		binding->heard = RTE_MAX(binding->heard, news->heard);
		if (news->asked > binding->asked) {
			binding->asked = news->asked;
			binding->asks = news->asks;
		}
		if (binding->heard >= binding->asked)
			binding->asks = 0;
		/* The answer has overtaken the question. */
		if (news->asks > 0 && binding->heard >= news->asked)
			tell(worker, thread->program, binding);
	}
	return ppe_consume(worker, thread);
}

#define ASK_BYTES (RTE_ETHER_MIN_LEN - RTE_ETHER_CRC_LEN)

/* Ask for the host's MAC address at the ports. Any frame with the bound address is an answer. */
static void
ask(struct ppe_worker *worker, const struct binding *binding)
{
	const struct pktbuf_identity *self = worker->identity;

	for (uint64_t left = binding->ports; left != 0; left &= left - 1) {
		struct rte_mbuf *packet = ppe_packet_alloc(worker);
		uint8_t *frame;

		if (packet == NULL)
			return;
		packet->data_len = ASK_BYTES;
		packet->pkt_len = ASK_BYTES;
		frame = rte_pktmbuf_mtod(packet, uint8_t *);
		memset(frame, 0, ASK_BYTES);
		memset(frame, 0xff, RTE_ETHER_ADDR_LEN);
		memcpy(frame + 6, self->mac, RTE_ETHER_ADDR_LEN);
		memcpy(frame + 12, "\x08\x06\0\1\x08\0\6\4\0\1", 10);
		memcpy(frame + 22, self->mac, RTE_ETHER_ADDR_LEN);
		weir_put32(frame + 28, self->ip);
		weir_put32(frame + 38, binding->ip);
		ppe_output(worker, packet, (uint16_t)__builtin_ctzll(left), PKTBUF_PRIO_RESULT);
	}
}

/* A frame with the address comes from elsewhere. Does the binding go on holding? */
static bool
holds(struct ppe_worker *worker, uint8_t program, struct binding *binding)
{
	if (binding->asked != 0 && worker->now - binding->asked < rte_get_tsc_hz())
		return true;
	if (binding->asks == GUARD_ASKS && ppe_source_heard(worker, binding->ip, GUARD_ASKS))
		binding->asks = 0;
	binding->asks++;
	binding->asked = worker->now;
	if (binding->asks <= GUARD_ASKS)
		ask(worker, binding);
	tell(worker, program, binding);
	return binding->asks <= GUARD_ASKS;
}

/* A frame with the address comes from a port of the binding. */
static void
hear(struct ppe_worker *worker, uint8_t program, struct binding *binding)
{
	const bool was_asked = binding->asks > 0;

	binding->heard = worker->now;
	binding->asks = 0;
	if (unlikely(was_asked))
		tell(worker, program, binding);
}

/* The reason to drop a frame with this address; PPE_DROP_COUNT: none. Changes nothing. *of: the
 * address's binding if it decides, otherwise unchanged. */
static enum ppe_drop
judge(const struct ppe_worker *worker, const struct ppe_thread *thread, uint64_t key, int job,
	struct binding **of)
{
	const struct guard *guard = worker->guard;
	uint64_t here = UINT64_C(1) << thread->port, ports = 0;
	bool is_ip = (key & IP_KEY) != 0;
	struct binding *binding;

	if (key == (IP_KEY | worker->identity->ip))
		return PPE_DROP_SPOOFED_SWITCH;
	if (key == guard_mac_key(worker->identity->mac))
		return PPE_DROP_BAD_SOURCE_MAC;
	if (is_ip && guard->config->nb_hosts > 0 && key != IP_KEY) {
		ports = listed(guard, (uint32_t)key);
		if ((ports != 0 || (guard->with_list & here) != 0) && (ports & here) == 0)
			return PPE_DROP_SPOOFED_MEMBER;
	}
	binding = find(guard, key);
	if (binding == NULL)
		return PPE_DROP_COUNT;
	*of = binding;
	if (likely((binding->ports & here) != 0) || binding->asks > GUARD_ASKS ||
		(binding->job == job && binding->ip == thread->head.ip_src))
		return PPE_DROP_COUNT;
	return PPE_DROP_SPOOFED_MEMBER;
}

/* The same, and note that a binding's address was seen. */
static enum ppe_drop
judge_and_note(struct ppe_worker *worker, const struct ppe_thread *thread, uint64_t key, int job)
{
	struct binding *binding = NULL;
	enum ppe_drop reason = judge(worker, thread, key, job, &binding);

	if (binding == NULL)
		return reason;
	if (likely((binding->ports >> thread->port & 1) != 0))
		hear(worker, thread->program, binding);
	else if (reason != PPE_DROP_COUNT && !holds(worker, thread->program, binding))
		reason = PPE_DROP_COUNT;
	return reason;
}

enum ppe_drop
guard_verdict(const struct ppe_worker *worker, const struct ppe_thread *thread, int job)
{
	enum ppe_drop reason = PPE_DROP_COUNT;
	struct binding *binding;
	uint64_t claims[CLAIMS_MAX];
	int n = thread->port == worker->exception_port ? 0 : read_claims(&thread->head, claims);

	if (n < 0)
		return PPE_DROP_VLAN_TAG;
	for (int i = 0; i < n && reason == PPE_DROP_COUNT; i++)
		reason = judge(worker, thread, claims[i], job, &binding);
	return reason;
}

bool
guard_examine(struct ppe_worker *worker, struct ppe_thread *thread, int job)
{
	enum ppe_drop reason = PPE_DROP_COUNT;
	uint64_t claims[CLAIMS_MAX];
	int n;

	if (thread->port == worker->exception_port)
		return true;
	n = read_claims(&thread->head, claims);
	if (unlikely(n < 0)) {
		ppe_drop(worker, thread, PPE_DROP_VLAN_TAG);
		return false;
	}
	/* Judge all, even after a bad one, so that the switch asks for all hosts at once. */
	for (int i = 0; i < n; i++) {
		enum ppe_drop found = judge_and_note(worker, thread, claims[i], job);

		if (likely(found == PPE_DROP_COUNT) || reason != PPE_DROP_COUNT)
			continue;
		reason = found;
		worker->guard->claimed[thread->port] = claims[i];
	}
	if (likely(reason == PPE_DROP_COUNT))
		return true;
	worker->count.spoofed[thread->port]++;
	ppe_drop(worker, thread, reason);
	return false;
}

/* Control thread. */

bool
ppe_guard_is_full(const struct ppe *ppe)
{
	return ppe->worker[0]->guard->full > 0;
}

bool
ppe_spoofed_read(const struct ppe *ppe, unsigned int port, struct ppe_spoofed *spoofed)
{
	uint64_t most = 0, key = 0;

	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		const struct ppe_worker *worker = ppe->worker[w];

		if (worker->count.spoofed[port] <= most)
			continue;
		most = worker->count.spoofed[port];
		key = worker->guard->claimed[port];
	}
	spoofed->is_mac = (key & IP_KEY) == 0;
	spoofed->ip = (uint32_t)key;
	memcpy(spoofed->mac, &key, sizeof(spoofed->mac));
	return most > 0;
}

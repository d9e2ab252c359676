/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/guard.h"

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "hashengine/hash_fast.h"
#include "pktbuf/wire/wire.h"
#include "ppe/guard_fast.h"
#include "ppe/ppe_priv.h"
#include "ppe/program_fast.h"
#include "ppe/programs/programs.h"

/* A bound address. */
struct binding {
	struct hash_record hash;
	uint64_t ports; /* bit p: it may come from port p */
	uint64_t heard; /* TSC: when a frame with it was last seen, other than a contribution */
	uint64_t searched; /* TSC: when contributions were last looked for */
	uint32_t users; /* sources */
	uint32_t ip; /* theirs, of a MAC address; host order */
	int16_t job; /* of all users, or SEVERAL_JOBS */
	bool contributes; /* what was found then */
	uint8_t spare[13];
};
static_assert(sizeof(struct binding) == 64, "one line");

#define IP_KEY       (UINT64_C(1) << 63)

#define SEVERAL_JOBS (-2)

/* A burst is a quarter of a second's frames, but not fewer than these. */
#define BURST_LEAST 64

/* Source addresses of a frame: Ethernet, IPv4 or ARP, and ARP's MAC address. */
#define CLAIMS_MAX 3
#define TAGS_MAX   8

static uint64_t
mac_key(const uint8_t *mac)
{
	uint64_t key = 0;

	memcpy(&key, mac, RTE_ETHER_ADDR_LEN);
	return key;
}

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
		binding->searched = 0;
		guard->active++;
	}
	/* A MAC address stays with its host: a source can prove its own IPv4 address alone. */
	if (binding->users++ == 0 || binding->ip == ip) {
		binding->ports = ports;
		binding->ip = ip;
	}
	binding->heard = worker->now;
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

bool
guard_bind(struct ppe_worker *worker, const struct pktbuf_endpoint *endpoint, uint8_t job)
{
	struct guard *guard = worker->guard;
	uint64_t ports = listed(guard, endpoint->ip);

	if (ports == 0)
		ports = UINT64_C(1) << endpoint->port;
	if (add_user(worker, mac_key(endpoint->mac), endpoint->ip, ports, job)) {
		if (add_user(worker, IP_KEY | endpoint->ip, endpoint->ip, ports, job))
			return true;
		remove_user(guard, mac_key(endpoint->mac));
	}
	guard->full++;
	return false;
}

void
guard_unbind(struct ppe_worker *worker, const struct pktbuf_endpoint *endpoint)
{
	remove_user(worker->guard, mac_key(endpoint->mac));
	remove_user(worker->guard, IP_KEY | endpoint->ip);
}

/* The frame's source addresses, as keys; returns how many. -1: more tags than any host accepts. */
static int
read_claims(const struct pktbuf_head *head, uint64_t claims[CLAIMS_MAX])
{
	uint32_t have = RTE_MIN(head->length, (uint32_t)PKTBUF_HEAD_BYTES), at = RTE_ETHER_HDR_LEN;
	uint16_t type = head->ether_type;
	const uint8_t *p;
	int n = 0;

	claims[n++] = mac_key(head->bytes + RTE_ETHER_ADDR_LEN);
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
		claims[n++] = mac_key(p + 8);
	}
	return n;
}

/* Has a source of a binding sent anything of late? The search is expensive, so its result serves for a second. */
static bool
is_alive(const struct ppe_worker *worker, struct binding *binding)
{
	uint64_t hz = rte_get_tsc_hz();

	if (worker->now - binding->heard < GUARD_SILENT_S * hz)
		return true;
	if (binding->searched == 0 || worker->now - binding->searched >= hz) {
		binding->searched = worker->now;
		binding->contributes = collective_heard(worker, binding->ip, GUARD_SILENT_S);
	}
	return binding->contributes;
}

/* The reason to drop a frame with this address; PPE_DROP_COUNT: none. */
static enum ppe_drop
judge(const struct ppe_worker *worker, const struct ppe_thread *thread, uint64_t key, int job)
{
	const struct guard *guard = worker->guard;
	uint64_t here = UINT64_C(1) << thread->port, ports = 0;
	bool is_ip = (key & IP_KEY) != 0;
	struct binding *binding;

	if (key == (IP_KEY | worker->identity->ip))
		return PPE_DROP_SPOOFED_SWITCH;
	if (key == mac_key(worker->identity->mac))
		return PPE_DROP_BAD_SOURCE_MAC;
	if (is_ip && guard->config->nb_hosts > 0 && key != IP_KEY) {
		ports = listed(guard, (uint32_t)key);
		if ((ports != 0 || (guard->with_list & here) != 0) && (ports & here) == 0)
			return PPE_DROP_SPOOFED_MEMBER;
	}
	binding = find(guard, key);
	if (binding == NULL)
		return PPE_DROP_COUNT;
	if (likely((binding->ports & here) != 0))
		binding->heard = worker->now;
	else if ((binding->job != job || binding->ip != thread->head.ip_src) &&
		is_alive(worker, binding))
		return PPE_DROP_SPOOFED_MEMBER;
	return PPE_DROP_COUNT;
}

bool
guard_examine(struct ppe_worker *worker, struct ppe_thread *thread, int job)
{
	enum ppe_drop reason = PPE_DROP_COUNT;
	uint64_t claims[CLAIMS_MAX];
	int n, i;

	if (thread->port == worker->exception_port)
		return true;
	n = read_claims(&thread->head, claims);
	if (unlikely(n < 0)) {
		ppe_drop(worker, thread, PPE_DROP_VLAN_TAG);
		return false;
	}
	for (i = 0; i < n && reason == PPE_DROP_COUNT; i++)
		reason = judge(worker, thread, claims[i], job);
	if (likely(reason == PPE_DROP_COUNT))
		return true;
	worker->guard->claimed[thread->port] = claims[i - 1];
	worker->count.spoofed[thread->port]++;
	ppe_drop(worker, thread, reason);
	return false;
}

/* -- what the control thread reads */

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

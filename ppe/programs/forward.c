/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The forward program: a learning layer 2 switch (IEEE 802.1D, without spanning tree: if links
 * between switches make a loop, ppe_config.unforwarded keeps stations' frames off some ports).
 *
 *   addresses  checks the addresses (ppe/guard.h), prefetches the buckets of both MAC addresses
 *   learn      the source's record: its port
 *   lookup     the destination's record
 *   send_known / flood, in the flow's order
 *   to_kernel  from a port that takes no part: frames to a group, for the switch's own kernel alone
 *
 * Each worker has its own forwarding database (FDB), so that no frame hops for a lookup. The worker
 * that receives a station's frames owns its entry, ages it by its REF flag, and sends updates to
 * the other workers, whose copies (`owned` is false) never age. A lost update causes floods, not
 * lost frames.
 */
#include <errno.h>

#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_malloc.h>

#include "hashengine/aging.h"
#include "hashengine/hash_fast.h"
#include "ppe/guard_fast.h"
#include "ppe/program_fast.h"
#include "ppe/programs/programs.h"
#include "ppe/simulate.h"

struct station {
	struct hash_record hash; /* key: the MAC address */
	uint16_t port;
	uint8_t owned; /* this worker receives its frames */
	uint8_t spare[37];
	uint64_t moved; /* TSC: when it came from another port than before; 0: never */
};
static_assert(sizeof(struct station) == 64, "one cache line");

struct forward {
	struct hash_table *fdb;
	void *records;
	uint32_t slices;
	uint64_t unforwarded; /* bit p: port p takes no part */
	uint64_t memory; /* TSC cycles for which a silent station is known at least */
};

/* An update of a station for the other workers; sent by a hop. */
struct fdb_update {
	uint64_t mac;
	uint16_t port;
	bool gone;
};

#define GONE_MAX 32

struct forward_lmem {
	union {
		struct fdb_update update;
		uint8_t hop[PPE_HOP_BYTES];
	};
	struct hash_probe source, destination;
	uint16_t to;
	unsigned int gone_count;
	uint64_t gone[GONE_MAX]; /* timer: stations to announce */
	struct forward *state;
};

static struct forward_lmem *
lmem(struct ppe_thread *thread)
{
	return ppe_lmem(struct forward_lmem, thread);
}

static struct station *
station_of(struct hash_record *record)
{
	return (struct station *)(void *)record;
}

/* Set a station's port. */
static void
place(const struct ppe_worker *worker, struct station *station, uint16_t port, bool is_new,
	bool owned)
{
	if (is_new)
		station->moved = 0;
	else if (station->port != port)
		station->moved = worker->now;
	station->port = port;
	station->owned = owned;
}

/* Receive an update: add, move or remove the copy of an entry. */
static struct ppe_next
receive_update(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct forward *state = ppe_state(worker, thread);
	const struct fdb_update *update = &lmem(thread)->update;
	struct hash_probe probe;
	struct hash_record *record = NULL;

	hash_begin(state->fdb, update->mac, &probe);
	if (hash_find(state->fdb, &probe))
		record = hash_confirm(state->fdb, &probe);
	if (update->gone) {
		if (record != NULL && !station_of(record)->owned)
			hash_delete(state->fdb, record);
	} else if (record != NULL) {
		place(worker, station_of(record), update->port, false, false);
	} else if (hash_insert(state->fdb, &probe, &record) == 0) {
		place(worker, station_of(record), update->port, true, false);
	}
	return ppe_consume(worker, thread);
}

static void
send_update(struct ppe_worker *worker, uint8_t program, const struct fdb_update *update)
{
	crossbar_tell_others(worker, program, receive_update, update, sizeof(*update));
}

static struct ppe_next
send_known(struct ppe_worker *worker, struct ppe_thread *thread)
{
	return ppe_send(worker, thread, lmem(thread)->to, PKTBUF_PRIO_BULK);
}

/* Does a flood go to this port? What the kernel sends goes to ports that take no part, too: their
 * stations are not learned. */
static inline bool
floods_to(const struct ppe_worker *worker, const struct forward *state,
	const struct ppe_thread *thread, uint16_t port)
{
	return port != thread->port &&
		(thread->port == worker->exception_port || (state->unforwarded >> port & 1) == 0);
}

/* Send copies to all other ports, and the frame itself to the last. Floods are rare, and copies
 * need no reference count. */
static struct ppe_next
flood(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct forward *state = ppe_state(worker, thread);
	int last = -1;

	if (!guard_conforms(worker, thread->port, GUARD_BROADCAST))
		return ppe_drop(worker, thread, PPE_DROP_POLICED_PORT);
	for (uint16_t p = 0; p < worker->nb_ports; p++) {
		struct rte_mbuf *copy;

		if (!floods_to(worker, state, thread, p))
			continue;
		if (last >= 0) {
			copy = rte_pktmbuf_copy(
				thread->packet, worker->pools->packets, 0, UINT32_MAX);
			worker->count.created++;
			if (likely(copy != NULL))
				ppe_output(worker, copy, (uint16_t)last, PKTBUF_PRIO_BULK);
			else
				worker->count.drops[PPE_DROP_NO_MBUF]++;
		}
		last = p;
	}
	if (last < 0)
		return ppe_drop(worker, thread, PPE_DROP_NO_OTHER_PORT);
	return ppe_send(worker, thread, (uint16_t)last, PKTBUF_PRIO_BULK);
}

static struct ppe_next
lookup(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct forward *state = ppe_state(worker, thread);
	struct hash_record *record = hash_peek(state->fdb, &lmem(thread)->destination);

	if (record == NULL)
		return ppe_in_order(worker, thread, flood);
	if (station_of(record)->port == thread->port)
		return ppe_drop(worker, thread, PPE_DROP_SAME_PORT);
	lmem(thread)->to = station_of(record)->port;
	return ppe_in_order(worker, thread, send_known);
}

/* Learn the source. A full table learns no station: frames to it are flooded. */
static void
note_source(struct ppe_worker *worker, struct ppe_thread *thread, struct hash_record *record)
{
	struct forward *state = ppe_state(worker, thread);
	struct hash_probe *probe = &lmem(thread)->source;
	struct fdb_update update = {.mac = probe->key, .port = thread->port};
	bool is_new = record == NULL;

	if (likely(!is_new && station_of(record)->port == thread->port))
		return;
	if (is_new && hash_insert(state->fdb, probe, &record) < 0)
		return;
	place(worker, station_of(record), thread->port, is_new, true);
	send_update(worker, thread->program, &update);
}

/* Both buckets are in the cache. */
static struct ppe_next
learn(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct forward *state = ppe_state(worker, thread);
	struct forward_lmem *m = lmem(thread);

	/* The kernel's own frames carry the switch's address, which is never learned. */
	if (likely(thread->port != worker->exception_port))
		note_source(worker, thread,
			hash_find(state->fdb, &m->source) ? hash_confirm(state->fdb, &m->source)
							  : NULL);
	/* Read bytes: a frame may begin at an odd address. */
	if ((thread->head.bytes[0] & RTE_ETHER_GROUP_ADDR) != 0 ||
		!hash_find(state->fdb, &m->destination))
		return ppe_in_order(worker, thread, flood);
	return PPE_RUN(lookup);
}

/* To the kernel of a port that takes no part: only frames to a group. */
static inline bool
kernel_wants(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	return (thread->head.bytes[0] & RTE_ETHER_GROUP_ADDR) != 0 && worker->exception_port >= 0;
}

static struct ppe_next
to_kernel(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (!kernel_wants(worker, thread))
		return ppe_drop(worker, thread, PPE_DROP_NOT_FORWARDED);
	if (!guard_conforms(worker, thread->port, GUARD_BROADCAST))
		return ppe_drop(worker, thread, PPE_DROP_POLICED_PORT);
	return ppe_send(worker, thread, (uint16_t)worker->exception_port, PKTBUF_PRIO_BULK);
}

/* Is it a link-local group address (IEEE 802.1D)? */
static inline bool
is_reserved(const uint8_t *mac)
{
	static const uint8_t reserved[5] = {0x01, 0x80, 0xc2, 0x00, 0x00};

	return memcmp(mac, reserved, sizeof(reserved)) == 0 && mac[5] < 0x10;
}

static struct ppe_next
addresses(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct forward *state = ppe_state(worker, thread);
	const uint8_t *to = thread->head.bytes, *from = to + RTE_ETHER_ADDR_LEN;

	if (unlikely((from[0] & 1) != 0))
		return ppe_drop(worker, thread, PPE_DROP_BAD_SOURCE_MAC);
	if (unlikely(!guard_passes(worker, thread, GUARD_NO_JOB)))
		return PPE_END;
	if (unlikely(is_reserved(to)))
		return ppe_drop(worker, thread, PPE_DROP_RESERVED_MAC);
	if (unlikely((state->unforwarded >> thread->port & 1) != 0))
		return ppe_in_order(worker, thread, to_kernel);
	hash_begin(state->fdb, guard_mac_key(from), &lmem(thread)->source);
	hash_begin(state->fdb, guard_mac_key(to), &lmem(thread)->destination);
	return PPE_RUN(learn);
}

static const struct station *
station_at(const struct forward *state, const uint8_t *mac)
{
	struct hash_probe probe;

	hash_begin(state->fdb, guard_mac_key(mac), &probe);
	return (const struct station *)(const void *)(hash_find(state->fdb, &probe)
			? hash_peek(state->fdb, &probe)
			: NULL);
}

static bool
seen_elsewhere(const void *arg, const uint8_t *mac, uint64_t ports, uint64_t now)
{
	const struct forward *state = arg;
	const struct station *station = station_at(state, mac);

	if (station == NULL)
		return false;
	return (ports >> station->port & 1) == 0 ||
		(station->moved != 0 && now - station->moved < state->memory);
}

/* Forget an owned station that has sent nothing since the last visit. */
static void
forget(void *arg, struct hash_record *record)
{
	struct forward_lmem *m = arg;

	if (!station_of(record)->owned || m->gone_count == GONE_MAX)
		return;
	m->gone[m->gone_count++] = record->key;
	hash_delete(m->state->fdb, record);
}

static struct ppe_next
age(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct forward_lmem *m = lmem(thread);

	m->state = ppe_state(worker, thread);
	m->gone_count = 0;
	hash_age_scan(m->state->fdb, thread->slice, m->state->slices, forget, m);
	for (unsigned int i = 0; i < m->gone_count; i++) {
		struct fdb_update update = {.mac = m->gone[i], .gone = true};

		send_update(worker, thread->program, &update);
	}
	return PPE_END;
}

static void
explain_flood(const struct ppe_worker *worker, const struct forward *state,
	const struct ppe_thread *thread, struct ppe_explanation *explanation)
{
	char ports[160] = "";
	size_t n = 0;

	for (uint16_t p = 0; p < worker->nb_ports; p++)
		if (floods_to(worker, state, thread, p) && n < sizeof(ports))
			n += (size_t)snprintf(ports + n, sizeof(ports) - n, "%s%s",
				n == 0 ? "" : ", ", worker->port[p]->name);
	ppe_explain(explanation, "flood", "%s",
		(thread->head.bytes[0] & RTE_ETHER_GROUP_ADDR) != 0
			? "the destination is a group"
			: "the destination is not known");
	if (n == 0)
		ppe_explain_drop(explanation, PPE_DROP_NO_OTHER_PORT);
	else
		ppe_explain_end(explanation, "send", "to all other ports: %s", ports);
}

static enum ppe_drop
refusal(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const uint8_t *to = thread->head.bytes;
	enum ppe_drop reason = guard_verdict(worker, thread, GUARD_NO_JOB);

	if ((to[RTE_ETHER_ADDR_LEN] & RTE_ETHER_GROUP_ADDR) != 0)
		return PPE_DROP_BAD_SOURCE_MAC;
	return reason == PPE_DROP_COUNT && is_reserved(to) ? PPE_DROP_RESERVED_MAC : reason;
}

static void
explain(const struct ppe_worker *worker, const void *const *states, const struct ppe_thread *thread,
	struct ppe_explanation *explanation)
{
	const struct forward *state = states[worker->id];
	const uint8_t *to = thread->head.bytes;
	const struct station *station = station_at(state, to + RTE_ETHER_ADDR_LEN);
	enum ppe_drop reason = refusal(worker, thread);

	ppe_explain(explanation, "addresses", "may the frame carry its addresses on this port?");
	if (reason != PPE_DROP_COUNT) {
		ppe_explain_drop(explanation, reason);
		return;
	}
	if ((state->unforwarded >> thread->port & 1) != 0) {
		ppe_explain(explanation, "to_kernel", "the port takes no part in forwarding");
		if (kernel_wants(worker, thread))
			ppe_explain_end(explanation, "send", "to the switch's kernel");
		else
			ppe_explain_drop(explanation, PPE_DROP_NOT_FORWARDED);
		return;
	}
	if (thread->port != worker->exception_port)
		ppe_explain(explanation, "learn", "the source %s",
			station == NULL                         ? "is new"
				: station->port == thread->port ? "is known at this port"
								: "moves to this port");
	station = station_at(state, to);
	if ((to[0] & RTE_ETHER_GROUP_ADDR) != 0 || station == NULL) {
		explain_flood(worker, state, thread, explanation);
		return;
	}
	ppe_explain(explanation, "lookup", "the destination is at port %s",
		worker->port[station->port]->name);
	if (station->port == thread->port)
		ppe_explain_drop(explanation, PPE_DROP_SAME_PORT);
	else
		ppe_explain_end(
			explanation, "send", "to port %s", worker->port[station->port]->name);
}

static void
forward_memory(const struct ppe_config *config, const struct ppe_jobs *jobs __rte_unused,
	struct ppe_memory *memory)
{
	memory->fdb += config->workers *
		(hash_records_bytes(config->fdb_entries, sizeof(struct station)) +
			hash_table_bytes(config->fdb_entries));
}

static int
create(const struct ppe_setup *setup, void **out)
{
	const struct ppe_match everything = {.conditions = 0};
	/* REF costs up to two visits: a station is forgotten after 1 to 2 periods. */
	const struct ppe_timer timer = {
		.segment = age,
		.period_us = setup->config->fdb_timeout_s * UINT64_C(1000000),
		.slices = setup->config->timer_threads,
	};
	struct forward *state = rte_zmalloc_socket(
		"weir_forward", sizeof(*state), RTE_CACHE_LINE_SIZE, setup->socket);
	struct hash_config table = {
		.name = "fdb",
		.capacity = setup->config->fdb_entries,
		.record_size = sizeof(struct station),
		.socket = setup->socket,
		.seed = setup->config->hash_seed,
	};
	int rc;

	if (state == NULL)
		return -ENOMEM;
	*out = state;
	state->slices = setup->config->timer_threads;
	state->unforwarded = setup->config->unforwarded;
	state->memory = setup->config->fdb_timeout_s * rte_get_tsc_hz();
	state->records = rte_zmalloc_socket("weir_stations",
		hash_records_bytes(table.capacity, table.record_size), 64, setup->socket);
	table.records = state->records;
	state->fdb = state->records == NULL ? NULL : hash_create(&table);
	if (state->fdb == NULL)
		return -ENOMEM;
	rc = ppe_match_add(setup, &everything);
	return rc == 0 ? ppe_timer_add(setup, &timer) : rc;
}

static void
destroy(void *arg, struct ppe_program_leaks *leaks __rte_unused)
{
	struct forward *state = arg;

	if (state == NULL)
		return;
	hash_destroy(state->fdb);
	rte_free(state->records);
	rte_free(state);
}

static uint64_t
fdb_used(const void *state)
{
	return hash_count(((const struct forward *)state)->fdb);
}

static const struct ppe_segment_name segments[] = {
	{addresses, "addresses",
		"learn to_kernel output drop:vlan_tag drop:reserved_mac" GUARD_LEADS_TO},
	{learn, "learn", "lookup flood hop:receive_update"},
	{lookup, "lookup", "send_known flood drop:same_port"},
	{send_known, "send_known", "send"},
	{flood, "flood", "send output drop:policed_port drop:no_other_port"},
	{to_kernel, "to_kernel", "send drop:not_forwarded drop:policed_port"},
	{receive_update, "receive_update", "consume"},
	{age, "age", "hop:receive_update"},
	{0},
};

const struct ppe_program forward_program = {
	.name = "forward",
	.help = "forwards frames between stations, and learns where they are",
	.first = addresses,
	.ordered = true,
	.create = create,
	.destroy = destroy,
	.memory = forward_memory,
	.explain = explain,
	.statistics = {{"fdb_used", "weir_fdb_stations",
		"MAC addresses learned, by the worker with the most", PPE_STATISTIC_GAUGE, true,
		fdb_used}},
	.seen_elsewhere = seen_elsewhere,
	.segments = {segments},
};

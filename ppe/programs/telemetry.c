/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Edge telemetry: sensors send readings, the switch summarizes them by group and window, and a
 * collector gets one packet for each instead of one per reading. UDP to the switch's address:
 *
 *   reading    struct packet: the signed value of a sensor in a group.
 *   subscribe  struct packet, of which only the type counts: summaries go to the packet's source
 *              (MAC address, UDP port, switch port) for SUBSCRIBED_S seconds, so the collector
 *              repeats it. Only packets from the IPv4 address `collector` count.
 *   summary    struct summary, to the collector, when a window of a group ends that had readings. A
 *              lost one is not repeated; the number of the window shows it.
 *
 * Owner: a record is read and cleared in one step when its window ends, so it needs one place.
 * Readings of group g hop to worker g % workers, which also sends g's summaries. Partial records at
 * each worker would save the hop, but must then be collected, in packets.
 */
#include <errno.h>

#include <rte_malloc.h>

#include "ppe/datagram_fast.h"
#include "rmw/ops.h"

#define MAGIC        RTE_BE16(0x5754) /* "WT" */
#define VERSION      1
#define BUCKETS      16
#define SUBSCRIBED_S 30

enum { READING = 1, SUBSCRIBE, SUMMARY };

struct packet {
	rte_be16_t magic;
	uint8_t version, type;
	rte_be16_t group, reserved; /* reserved: 0 */
	rte_be32_t sensor, value;
} __rte_packed;
static_assert(sizeof(struct packet) == 16, "as docs/supplied-programs.md says");

struct summary {
	rte_be16_t magic;
	uint8_t version, type;
	rte_be16_t group, reserved;
	rte_be32_t window, count; /* window: counts up */
	rte_be64_t sum;
	rte_be32_t min, max, min_sensor, max_sensor;
	/* Values in [low + i width, low + (i + 1) width); the first and the last bucket also have
	 * those below and above. */
	rte_be32_t bucket[BUCKETS];
} __rte_packed;
static_assert(sizeof(struct summary) == 104, "as docs/supplied-programs.md says");

struct record {
	uint64_t sum;
	uint32_t count, window, min_sensor, max_sensor;
	int32_t min, max;
	uint32_t bucket[BUCKETS];
} __rte_cache_aligned;

struct telemetry { /* one per worker */
	int64_t low;
	uint32_t width, groups, collector_ip;
	uint16_t udp;
	struct pktbuf_endpoint collector;
	uint64_t subscribed; /* TSC until which the subscription holds */
	uint64_t readings, bad, summaries, unsent;
	struct record record[]; /* of groups worker, worker + workers, ... */
};

static const struct packet *
packet_of(const struct ppe_thread *thread)
{
	return (const void *)datagram_payload(thread);
}

static uint16_t
group_of(const struct ppe_thread *thread)
{
	return rte_be_to_cpu_16(packet_of(thread)->group);
}

/* What is wrong with the packet; NULL: nothing. */
static const char *
wrong(const struct telemetry *state, const struct ppe_thread *thread)
{
	const struct packet *packet = packet_of(thread);

	if (thread->head.payload_length != sizeof(*packet))
		return "it is not 16 bytes long";
	if (packet->magic != MAGIC || packet->version != VERSION)
		return "it is of another protocol or version";
	if (packet->type == SUBSCRIBE)
		return thread->head.ip_src == state->collector_ip ? NULL : "not the collector's";
	if (packet->type != READING)
		return "its type is unknown";
	return group_of(thread) < state->groups ? NULL : "its group is out of range";
}

/* The record is in the cache. */
static struct ppe_next
update(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct telemetry *state = ppe_state(worker, thread);
	struct record *record = &state->record[group_of(thread) / worker->workers];
	uint32_t sensor = rte_be_to_cpu_32(packet_of(thread)->sensor);
	int32_t value = (int32_t)rte_be_to_cpu_32(packet_of(thread)->value);
	int64_t bucket = (value - state->low) / state->width;

	if (record->count == 0 || value < record->min) {
		record->min = value;
		record->min_sensor = sensor;
	}
	if (record->count == 0 || value > record->max) {
		record->max = value;
		record->max_sensor = sensor;
	}
	rmw_fetch_add32(&record->count, 1);
	rmw_fetch_add64(&record->sum, (uint64_t)(int64_t)value);
	rmw_fetch_add32(&record->bucket[RTE_MAX(0, RTE_MIN(bucket, BUCKETS - 1))], 1);
	state->readings++;
	return ppe_consume(worker, thread);
}

/* On the group's owner. */
static struct ppe_next
find(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct telemetry *state = ppe_state(worker, thread);
	const struct record *record = &state->record[group_of(thread) / worker->workers];

	rte_prefetch0(record);
	rte_prefetch0(&record->bucket[BUCKETS - 1]);
	return PPE_RUN(update);
}

/* On every worker: the collector's address, in LMEM. */
static struct ppe_next
subscribe(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct telemetry *state = ppe_state(worker, thread);

	state->collector = *ppe_lmem(struct pktbuf_endpoint, thread);
	state->subscribed = worker->now + SUBSCRIBED_S * rte_get_tsc_hz();
	return ppe_consume(worker, thread);
}

static struct ppe_next
receive(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct telemetry *state = ppe_state(worker, thread);
	struct pktbuf_endpoint *sender = ppe_lmem(struct pktbuf_endpoint, thread);

	if (!datagram_passes(worker, thread))
		return PPE_END;
	if (wrong(state, thread) != NULL) {
		state->bad++;
		return ppe_drop(worker, thread, PPE_DROP_PROGRAM);
	}
	if (packet_of(thread)->type == READING)
		return ppe_hop(worker, thread, group_of(thread) % worker->workers, find);
	*sender = datagram_sender(thread);
	crossbar_tell_others(worker, thread->program, subscribe, sender, sizeof(*sender));
	return subscribe(worker, thread);
}

static void
write_summary(struct summary *s, uint32_t group, const struct record *record)
{
	*s = (struct summary){.magic = MAGIC,
		.version = VERSION,
		.type = SUMMARY,
		.group = rte_cpu_to_be_16((uint16_t)group),
		.window = rte_cpu_to_be_32(record->window),
		.count = rte_cpu_to_be_32(record->count),
		.sum = rte_cpu_to_be_64(record->sum),
		.min = rte_cpu_to_be_32((uint32_t)record->min),
		.max = rte_cpu_to_be_32((uint32_t)record->max),
		.min_sensor = rte_cpu_to_be_32(record->min_sensor),
		.max_sensor = rte_cpu_to_be_32(record->max_sensor)};
	for (unsigned int i = 0; i < BUCKETS; i++)
		s->bucket[i] = rte_cpu_to_be_32(record->bucket[i]);
}

/* A timer: the window of a group of this worker ends; a slice is a group. */
static struct ppe_next
emit(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct telemetry *state = ppe_state(worker, thread);
	struct record *record = &state->record[thread->slice];
	struct rte_mbuf *packet = NULL;

	if (record->count > 0 && state->subscribed > worker->now)
		packet = datagram_begin(
			worker, &state->collector, state->udp, sizeof(struct summary));
	if (packet != NULL) {
		write_summary(datagram_data(packet), thread->slice * worker->workers + worker->id,
			record);
		datagram_send(worker, packet, state->collector.port);
		state->summaries++;
	} else if (record->count > 0) {
		state->unsent++;
	}
	*record = (struct record){.window = record->window + 1};
	return PPE_END;
}

static void
explain(const struct ppe_worker *worker, const void *const *states, const struct ppe_thread *thread,
	struct ppe_explanation *explanation)
{
	const char *why = wrong(states[worker->id], thread);

	ppe_explain(explanation, "receive", "a packet of %u bytes", thread->head.payload_length);
	if (!datagram_explain(worker, thread, why, explanation))
		return;
	if (packet_of(thread)->type == SUBSCRIBE)
		ppe_explain_end(explanation, "consume", "summaries go to its sender");
	else
		ppe_explain_end(explanation, "consume", "it is added to group %u at worker %u",
			group_of(thread), group_of(thread) % worker->workers);
}

static int
create(const struct ppe_setup *setup, void **out)
{
	const uint32_t groups = (uint32_t)ppe_setting(setup, "groups");
	const struct ppe_timer timer = {.segment = emit,
		.period_us = (uint64_t)ppe_setting(setup, "window_ms") * 1000,
		.slices = (groups + setup->workers - 1) / setup->workers};
	struct telemetry *state = rte_zmalloc_socket("telemetry",
		sizeof(*state) + timer.slices * sizeof(state->record[0]), 64, setup->socket);
	int rc;

	*out = state;
	if (state == NULL)
		return -ENOMEM;
	state->groups = groups;
	state->low = ppe_setting(setup, "low");
	state->width = (uint32_t)ppe_setting(setup, "width");
	state->collector_ip = (uint32_t)ppe_setting(setup, "collector");
	state->udp = (uint16_t)ppe_setting(setup, "port");
	rc = datagram_match(setup, state->udp);
	return rc == 0 ? ppe_timer_add(setup, &timer) : rc;
}

static void
destroy(void *state, struct ppe_program_leaks *leaks __rte_unused)
{
	rte_free(state);
}

static const struct ppe_setting settings[] = {
	{"collector", PPE_SETTING_IPV4, NULL, 0, 0, NULL, NULL,
		"The IPv4 address that may subscribe to summaries."},
	{"port", PPE_SETTING_INTEGER, "9020", 1, 65535, NULL, NULL,
		"The UDP port of readings and subscriptions."},
	{"window_ms", PPE_SETTING_INTEGER, "1000", 10, 3600000, NULL, "ms",
		"How long readings are summarized."},
	{"groups", PPE_SETTING_INTEGER, "64", 1, 1000, NULL, NULL,
		"How many groups there are, counted from 0."},
	{"low", PPE_SETTING_INTEGER, "0", INT32_MIN, INT32_MAX, NULL, NULL,
		"The lower end of the histogram."},
	{"width", PPE_SETTING_INTEGER, "16", 1, INT32_MAX, NULL, NULL,
		"The width of each of the histogram's 16 buckets."},
	{0},
};

static const struct ppe_segment_name segments[] = {
	{receive, "receive", "hop:find hop:subscribe drop:program" DATAGRAM_LEADS_TO},
	{find, "find", "update"},
	{update, "update", "consume"},
	{subscribe, "subscribe", "consume"},
	{emit, "emit", "output"},
	{0},
};

#define COUNTERS(X)                                                                                \
	X(readings, "readings taken")                                                              \
	X(bad, "packets to the port that are not of the protocol, dropped")                        \
	X(summaries, "summaries sent")                                                             \
	X(unsent, "summaries without a collector or an mbuf")

#define X(field, help)                                                                             \
	static uint64_t field(const void *state)                                                   \
	{                                                                                          \
		return ((const struct telemetry *)state)->field;                                   \
	}
COUNTERS(X)
#undef X

#define X(key, help)                                                                               \
	{"telemetry_" #key, "weir_telemetry_" #key "_total", help, PPE_STATISTIC_COUNTER, false,   \
		key},
static const struct ppe_program telemetry_program = {
	.name = "telemetry",
	.help = "summarizes sensors' readings for a collector",
	.first = receive,
	.create = create,
	.destroy = destroy,
	.settings = settings,
	.statistics = {COUNTERS(X)},
	.explain = explain,
	.segments = {segments},
};
#undef X

PPE_PROGRAM_FILE(telemetry_program);

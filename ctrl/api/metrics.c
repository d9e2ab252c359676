/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /metrics: the switch, its ports, workers, pools and tables. */
#include "ctrl/api/metrics.h"

#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_version.h>

#include "ctrl/api/call.h"
#include "ctrl/api/resources.h"
#include "ctrl/config/values.h"
#include "ppe/gauges.h"

#define OWN_BYTES 16384 /* of what does not come in numbers, and of a few ports and workers */

static const char *const priority[] = {"priority=\"results\"", "priority=\"bulk\""};

void
metrics_family(struct metrics *metrics, const char *name, const char *type, const char *help)
{
	struct api_text *text = &metrics->text;

	metrics->family = name;
	api_text_put(text, "# HELP ");
	api_text_put(text, name);
	api_text_put(text, " ");
	api_text_put(text, help);
	api_text_put(text, "\n# TYPE ");
	api_text_put(text, name);
	api_text_put(text, " ");
	api_text_put(text, type);
	api_text_put(text, "\n");
}

static void
begin_sample(struct metrics *metrics, const char *suffix, const char *a, const char *b)
{
	struct api_text *text = &metrics->text;

	api_text_put(text, metrics->family);
	api_text_put(text, suffix);
	if (a != NULL || b != NULL) {
		api_text_put_bytes(text, "{", 1);
		api_text_put(text, a == NULL ? "" : a);
		api_text_put(text, a == NULL || b == NULL ? "" : ",");
		api_text_put(text, b == NULL ? "" : b);
		api_text_put_bytes(text, "}", 1);
	}
	api_text_put_bytes(text, " ", 1);
}

void
metrics_u64(
	struct metrics *metrics, const char *suffix, const char *a, const char *b, uint64_t value)
{
	begin_sample(metrics, suffix, a, b);
	api_text_put_u64(&metrics->text, value);
	api_text_put_bytes(&metrics->text, "\n", 1);
}

void
metrics_us(struct metrics *metrics, const char *suffix, const char *a, const char *b, uint64_t us)
{
	begin_sample(metrics, suffix, a, b);
	api_text_put_us(&metrics->text, us);
	api_text_put_bytes(&metrics->text, "\n", 1);
}

void
metrics_real(struct metrics *metrics, const char *a, const char *b, double value)
{
	begin_sample(metrics, "", a, b);
	api_text_put_real(&metrics->text, value);
	api_text_put_bytes(&metrics->text, "\n", 1);
}

char *
metrics_label(char *out, size_t size, const char *name, const char *value)
{
	size_t used = strlen(name);

	memcpy(out, name, used);
	out[used++] = '=';
	out[used++] = '"';
	/* Room for an escaped character, the quote and the end. */
	for (; *value != '\0' && used + 4 <= size; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n')
			out[used++] = '\\';
		out[used++] = (char)(*value == '\n' ? 'n' : *value);
	}
	out[used++] = '"';
	out[used] = '\0';
	return out;
}

char *
metrics_number(char *out, const char *name, unsigned int number)
{
	snprintf(out, METRICS_LABEL_BYTES, "%s=\"%u\"", name, number);
	return out;
}

/* A family of one sample without labels. */
static void
put_one(struct metrics *metrics, const char *name, const char *type, const char *help,
	uint64_t value)
{
	metrics_family(metrics, name, type, help);
	metrics_u64(metrics, "", NULL, NULL, value);
}

static void
put_switch(struct metrics *metrics, const struct ctrl_running *running)
{
	char a[METRICS_LABEL_BYTES], b[METRICS_LABEL_BYTES];

	metrics_family(metrics, "weir_build_info", "gauge", "What runs; always 1");
	metrics_u64(metrics, "", metrics_label(a, sizeof(a), "version", WEIR_VERSION),
		metrics_label(b, sizeof(b), "dpdk", rte_version()), 1);
	metrics_family(metrics, "weir_switch_info", "gauge", "Which switch it is; always 1");
	metrics_u64(metrics, "", metrics_label(a, sizeof(a), "name", running->config->name),
		metrics_label(b, sizeof(b), "address",
			ctrl_address_text(running->config->ppe.identity.ip).text),
		1);
	metrics_family(metrics, "weir_uptime_seconds", "gauge", "Time since the switch started");
	metrics_us(metrics, "", NULL, NULL, (uint64_t)(ctrl_running_uptime(running) * 1e6));
	put_one(metrics, "weir_ready", "gauge", "1 while packets flow", running->ready);
}

static void
put_books(struct metrics *metrics, const struct ppe_stats *stats)
{
	char label[METRICS_LABEL_BYTES];

	put_one(metrics, "weir_packets_received_total", "counter", "Packets taken from the ports",
		stats->received);
	put_one(metrics, "weir_packets_created_total", "counter",
		"Results, replies and the copies of floods", stats->created);
	put_one(metrics, "weir_packets_sent_total", "counter", "Packets given to the ports",
		stats->sent);
	put_one(metrics, "weir_packets_consumed_total", "counter",
		"Packets that were used up: contributions, joins", stats->consumed);
	put_one(metrics, "weir_packets_in_flight", "gauge", "Packets that the switch holds",
		stats->in_flight);
	metrics_family(metrics, "weir_packets_dropped_total", "counter",
		"Packets dropped, by reason; the drops table of docs/counters.md says more");
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		metrics_u64(metrics, "",
			metrics_label(
				label, sizeof(label), "reason", ppe_drop_key((enum ppe_drop)i)),
			NULL, stats->drops[i]);
}

/* A family of a counter of every port that has one value. */
#define PUT_PORTS(name, help, field)                                                               \
	do {                                                                                       \
		metrics_family(metrics, name, "counter", help);                                    \
		for (unsigned int p = 0; p < stats->nb_ports; p++)                                 \
			metrics_u64(metrics, "", label[p], NULL, stats->port[p].field);            \
	} while (0)

/* And of one that is counted by priority. */
#define PUT_PORTS_BY_PRIORITY(name, help, field)                                                   \
	do {                                                                                       \
		metrics_family(metrics, name, "counter", help);                                    \
		for (unsigned int i = 0; i < 2 * stats->nb_ports; i++)                             \
			metrics_u64(metrics, "", label[i / 2], priority[i % 2],                    \
				stats->port[i / 2].field[i % 2]);                                  \
	} while (0)

static bool
is_up(const char *device)
{
	struct rte_eth_link link = {0};
	uint16_t id;

	if (rte_eth_dev_get_port_by_name(device, &id) == 0)
		rte_eth_link_get_nowait(id, &link);
	return link.link_status == RTE_ETH_LINK_UP;
}

static void
put_ports(struct metrics *metrics, const struct ctrl_running *running)
{
	const struct ctrl_config *config = running->config;
	const struct ppe_stats *stats = &running->stats;
	char label[PPE_PORTS_MAX][METRICS_LABEL_BYTES];

	for (unsigned int p = 0; p < stats->nb_ports; p++)
		metrics_label(label[p], sizeof(label[p]), "port", config->port[p].name);
	metrics_family(metrics, "weir_port_up", "gauge", "1 while the port has a link");
	for (unsigned int p = 0; p < stats->nb_ports; p++)
		metrics_u64(metrics, "", label[p], NULL, is_up(config->port[p].device));
	PUT_PORTS("weir_port_receive_bytes_total", "Bytes received, frames without FCS", rx_bytes);
	PUT_PORTS("weir_port_receive_packets_total", "Packets received", rx_packets);
	PUT_PORTS("weir_port_receive_missed_packets_total",
		"Packets that the device dropped before Weir saw them", missed);
	PUT_PORTS_BY_PRIORITY("weir_port_transmit_bytes_total",
		"Bytes sent, frames without FCS, by priority", tx_bytes);
	PUT_PORTS_BY_PRIORITY(
		"weir_port_transmit_packets_total", "Packets sent, by priority", tx_packets);
	PUT_PORTS_BY_PRIORITY("weir_port_queue_full_packets_total",
		"Packets that found the port's output queue full, by priority", queue_full);
}

#define PUT_WORKERS(name, help, field)                                                             \
	do {                                                                                       \
		metrics_family(metrics, name, "counter", help);                                    \
		for (unsigned int w = 0; w < stats->nb_workers; w++)                               \
			metrics_u64(metrics, "", label[w], NULL, stats->worker[w].field);          \
	} while (0)

static void
put_workers(struct metrics *metrics, const struct ctrl_running *running,
	const struct ppe_gauges *gauges)
{
	const struct ppe_stats *stats = &running->stats;
	char label[PPE_WORKERS_MAX][METRICS_LABEL_BYTES];

	for (unsigned int w = 0; w < stats->nb_workers; w++)
		metrics_number(label[w], "worker", w);
	PUT_WORKERS("weir_worker_turns_total", "Turns of the worker's loop", turns);
	PUT_WORKERS("weir_worker_busy_turns_total", "Turns that found work", busy_turns);
	metrics_family(metrics, "weir_worker_busy_ratio", "gauge",
		"Share of the last second's turns that found work");
	for (unsigned int w = 0; w < stats->nb_workers; w++)
		metrics_real(metrics, label[w], NULL, running->pulse[w].busy);
	PUT_WORKERS("weir_worker_threads_started_total",
		"Packets and timers given to a thread context", threads_started);
	metrics_family(metrics, "weir_worker_threads_live", "gauge",
		"Thread contexts with a packet or a timer");
	for (unsigned int w = 0; w < stats->nb_workers; w++)
		metrics_u64(metrics, "", label[w], NULL, gauges->threads_live[w]);
	PUT_WORKERS("weir_worker_segments_total", "Segments of microcode run", segments);
	PUT_WORKERS("weir_worker_hops_in_total", "Threads taken from the crossbar", hops_in);
	PUT_WORKERS("weir_worker_hops_out_total", "Threads given to the crossbar", hops_out);
	PUT_WORKERS("weir_worker_timer_runs_total", "Slices of aging scans run", timer_runs);
}

static void
put_pools(struct metrics *metrics, const struct ppe_gauges *gauges)
{
	const struct ppe_pool_gauge *pool[] = {
		&gauges->packets, &gauges->headers, &gauges->attaches};
	static const char *const label[] = {
		"pool=\"packets\"", "pool=\"headers\"", "pool=\"attaches\""};

	metrics_family(metrics, "weir_pool_buffers", "gauge", "Packet buffers of the pool");
	for (unsigned int i = 0; i < 3; i++)
		metrics_u64(metrics, "", label[i], NULL, pool[i]->size);
	metrics_family(metrics, "weir_pool_free_buffers", "gauge", "Those that nobody holds");
	for (unsigned int i = 0; i < 3; i++)
		metrics_u64(metrics, "", label[i], NULL, pool[i]->free);
}

static void
put_tables(struct metrics *metrics, const struct ctrl_running *running)
{
	const struct ctrl_config *config = running->config;
	struct rte_malloc_socket_stats heap;
	uint64_t free_bytes = 0, reserved = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &heap) == 0)
			free_bytes += heap.heap_freesz_bytes;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (running->by_id[i] != NULL)
			reserved += 2ul * running->by_id[i]->job->window;
	put_one(metrics, "weir_memory_bytes", "gauge", "DPDK memory of the switch",
		(uint64_t)config->memory_mb << 20);
	put_one(metrics, "weir_memory_free_bytes", "gauge", "What is left of it", free_bytes);
	put_one(metrics, "weir_fdb_stations", "gauge",
		"MAC addresses learned, by the worker with the most", running->stats.fdb_used);
	put_one(metrics, "weir_fdb_stations_limit", "gauge",
		"MAC addresses that a worker can learn", config->ppe.fdb_entries);
	put_one(metrics, "weir_block_records", "gauge", "Block records in use",
		running->stats.blocks_used);
	put_one(metrics, "weir_block_records_reserved", "gauge",
		"Block records reserved for the jobs' windows", reserved);
}

void
api_get_metrics(struct api_call *call)
{
	struct ctrl_running *running = call->running;
	struct metrics_jobs *jobs;
	struct metrics metrics;
	struct ppe_gauges gauges;

	ctrl_running_read(running);
	ppe_gauges_read(running->ppe, &gauges);
	jobs = metrics_jobs_read(running, call->caller);
	if (jobs == NULL) {
		api_error_memory(call);
		return;
	}
	api_text_begin(&metrics.text,
		OWN_BYTES + 1024ul * running->stats.nb_ports + metrics_jobs_bytes(jobs));
	put_switch(&metrics, running);
	put_books(&metrics, &running->stats);
	put_ports(&metrics, running);
	put_workers(&metrics, running, &gauges);
	put_pools(&metrics, &gauges);
	put_tables(&metrics, running);
	metrics_faults_put(&metrics, running);
	metrics_jobs_put(&metrics, jobs);
	free(jobs);
	api_text_answer(call, "text/plain; version=0.0.4; charset=utf-8", &metrics.text);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /metrics: the switch, its ports, workers, pools, tables and faults. */
#include "ctrl/api/metrics.h"

#include <stdlib.h>
#include <string.h>

#include <rte_malloc.h>
#include <rte_version.h>

#include "ctrl/api/call.h"
#include "ctrl/config/faults.h"
#include "ctrl/config/schema.h"
#include "ppe/faults/faults.h"
#include "ctrl/stats/links.h"

#define OWN_BYTES 16384 /* of the fixed part, and of a few ports and workers */

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
metrics_ns(struct metrics *metrics, const char *suffix, const char *a, const char *b, uint64_t ns)
{
	begin_sample(metrics, suffix, a, b);
	api_text_put_ns(&metrics->text, ns);
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
	/* An escaped character, the quote and the end must fit. */
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

	metrics_family(metrics, "weir_build_info", "gauge", "versions of Weir and DPDK; always 1");
	metrics_u64(metrics, "", metrics_label(a, sizeof(a), "version", WEIR_VERSION),
		metrics_label(b, sizeof(b), "dpdk", rte_version()), 1);
	metrics_family(
		metrics, "weir_switch_info", "gauge", "name and address of the switch; always 1");
	metrics_u64(metrics, "", metrics_label(a, sizeof(a), "name", running->config->name),
		metrics_label(b, sizeof(b), "address",
			ctrl_address_text(running->config->ppe.identity.ip).text),
		1);
	metrics_family(metrics, "weir_uptime_seconds", "gauge", "time since the switch started");
	metrics_us(metrics, "", NULL, NULL, (uint64_t)(ctrl_running_uptime(running) * 1e6));
	put_one(metrics, "weir_ready", "gauge", "1 while packets flow", running->ready);
}

static void
put_packets(struct metrics *metrics, const struct ppe_stats *stats)
{
	char label[METRICS_LABEL_BYTES];

#define X(name, help)                                                                              \
	put_one(metrics, "weir_packets_" #name "_total", "counter", help, stats->name);
	PPE_PACKET_COUNTERS(X)
#undef X
	put_one(metrics, "weir_packets_in_flight", "gauge", "packets that the switch holds",
		stats->in_flight);
	metrics_family(
		metrics, "weir_packets_dropped_total", "counter", "packets dropped, by reason");
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		metrics_u64(metrics, "",
			metrics_label(
				label, sizeof(label), "reason", ppe_drop_key((enum ppe_drop)i)),
			NULL, stats->drops[i]);
}

static void
put_ports(struct metrics *metrics, const struct ctrl_running *running)
{
	static const char *const priority[] = {"priority=\"results\"", "priority=\"bulk\""};
	const struct ppe_stats *stats = &running->stats;
	char label[PPE_PORTS_MAX][METRICS_LABEL_BYTES];

	for (unsigned int p = 0; p < stats->nb_ports; p++)
		metrics_label(label[p], sizeof(label[p]), "port", running->config->port[p].name);
	metrics_family(metrics, "weir_port_up", "gauge", "1 while the port has a link");
	for (unsigned int p = 0; p < stats->nb_ports; p++)
		metrics_u64(metrics, "", label[p], NULL, ctrl_port_is_up(running, p));
#define ONE(name, help)                                                                            \
	metrics_family(metrics, "weir_port_" #name "_total", "counter", help);                     \
	for (unsigned int p = 0; p < stats->nb_ports; p++)                                         \
		metrics_u64(metrics, "", label[p], NULL, stats->port[p].name);
#define EACH(name, help)                                                                           \
	metrics_family(metrics, "weir_port_" #name "_total", "counter", help);                     \
	for (unsigned int i = 0; i < 2 * stats->nb_ports; i++)                                     \
		metrics_u64(metrics, "", label[i / 2], priority[i % 2],                            \
			stats->port[i / 2].name[i % 2]);
	PPE_PORT_COUNTERS(ONE, EACH)
#undef ONE
#undef EACH
}

static void
put_workers(struct metrics *metrics, const struct ctrl_running *running,
	const struct ppe_gauges *gauges)
{
	const struct ppe_stats *stats = &running->stats;
	char label[PPE_WORKERS_MAX][METRICS_LABEL_BYTES];

	for (unsigned int w = 0; w < stats->nb_workers; w++)
		metrics_number(label[w], "worker", w);
#define X(name, help)                                                                              \
	metrics_family(metrics, "weir_worker_" #name "_total", "counter", help);                   \
	for (unsigned int w = 0; w < stats->nb_workers; w++)                                       \
		metrics_u64(metrics, "", label[w], NULL, stats->worker[w].name);
	PPE_WORKER_COUNTERS(X)
#undef X
	metrics_family(metrics, "weir_worker_busy_ratio", "gauge",
		"share of the last second's turns that found work");
	for (unsigned int w = 0; w < stats->nb_workers; w++)
		metrics_real(metrics, label[w], NULL, running->pulse[w].busy);
	metrics_family(metrics, "weir_worker_threads_live", "gauge",
		"thread contexts with a packet or a timer");
	for (unsigned int w = 0; w < stats->nb_workers; w++)
		metrics_u64(metrics, "", label[w], NULL, gauges->threads_live[w]);
}

static void
put_pools(struct metrics *metrics, const struct ppe_gauges *gauges)
{
	const struct ppe_pool_gauge *pool[] = {
		&gauges->packets, &gauges->headers, &gauges->attaches};
	static const char *const label[] = {
		"pool=\"packets\"", "pool=\"headers\"", "pool=\"attaches\""};

	metrics_family(metrics, "weir_pool_buffers", "gauge", "packet buffers of the pool");
	for (unsigned int i = 0; i < 3; i++)
		metrics_u64(metrics, "", label[i], NULL, pool[i]->size);
	metrics_family(
		metrics, "weir_pool_free_buffers", "gauge", "free packet buffers of the pool");
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
	put_one(metrics, "weir_memory_free_bytes", "gauge", "free DPDK memory", free_bytes);
	put_one(metrics, "weir_fdb_stations", "gauge",
		"MAC addresses learned, by the worker with the most", running->stats.fdb_used);
	put_one(metrics, "weir_fdb_stations_limit", "gauge",
		"MAC addresses that a worker can learn", config->ppe.fdb_entries);
	put_one(metrics, "weir_block_records", "gauge", "block records in use",
		running->stats.blocks_used);
	put_one(metrics, "weir_block_records_reserved", "gauge",
		"block records reserved for the jobs' windows", reserved);
}

struct rule_labels {
	char rule[METRICS_LABEL_BYTES], about[3 * METRICS_LABEL_BYTES];
};

static void
make_labels(struct rule_labels *labels, const struct ctrl_config *config,
	const struct ppe_fault_rule *rule, unsigned int index)
{
	char port[METRICS_LABEL_BYTES];

	metrics_number(labels->rule, "rule", index);
	metrics_label(
		port, sizeof(port), "port", rule->port >= 0 ? config->port[rule->port].name : "");
	snprintf(labels->about, sizeof(labels->about), "action=\"%s\",direction=\"%s\",%s",
		ctrl_fault_action(rule->action), rule->direction == PPE_FAULT_IN ? "in" : "out",
		port);
}

static void
put_rules(struct metrics *metrics, const struct rule_labels *labels, unsigned int count,
	const char *name, const char *help, const uint64_t *values)
{
	metrics_family(metrics, name, "counter", help);
	for (unsigned int i = 0; i < count; i++)
		metrics_u64(metrics, "", labels[i].rule, labels[i].about, values[i]);
}

static void
put_faults(struct metrics *metrics, const struct ctrl_running *running)
{
	const struct ppe_faults *faults = ppe_faults_of(running->ppe);
	unsigned int count = faults == NULL ? 0 : faults->nb_rules;
	struct rule_labels labels[PPE_FAULT_RULES_MAX];
	struct ppe_fault_stats stats;

	ppe_faults_read(running->ppe, &stats);
	for (unsigned int i = 0; i < count; i++)
		make_labels(&labels[i], running->config, &faults->rule[i], i);
	metrics_family(metrics, "weir_fault_rules", "gauge",
		"rules of the faults that are set on purpose; 0: none");
	metrics_u64(metrics, "", NULL, NULL, count);
	metrics_family(metrics, "weir_fault_held_packets", "gauge",
		"packets that faults delay, or hold until others overtake them");
	metrics_u64(metrics, "", NULL, NULL, stats.held);
	put_rules(metrics, labels, count, "weir_fault_matched_packets_total",
		"packets that the rule matched since the faults were set", stats.matched);
	put_rules(metrics, labels, count, "weir_fault_hit_packets_total",
		"matched packets that the rule chose", stats.hit);
	put_rules(metrics, labels, count, "weir_fault_spared_packets_total",
		"chosen packets that passed unharmed, for lack of room to hold or copy them",
		stats.spared);
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
	put_packets(&metrics, &running->stats);
	put_ports(&metrics, running);
	put_workers(&metrics, running, &gauges);
	put_pools(&metrics, &gauges);
	put_tables(&metrics, running);
	put_faults(&metrics, running);
	metrics_jobs_put(&metrics, jobs);
	free(jobs);
	api_text_answer(call, "text/plain; version=0.0.4; charset=utf-8", &metrics.text);
}

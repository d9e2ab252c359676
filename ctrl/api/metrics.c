/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /metrics: the switch, its ports, workers, pools, tables, faults and jobs, and the sources
 * that the jobs' blocks wait for. docs/counters.md lists all families; a test compares the two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_version.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/config/config.h"
#include "ctrl/config/schema.h"
#include "ctrl/config/tree.h"
#include "ctrl/stats/stats.h"
#include "ppe/faults/faults.h"

/* Escaped, a job's name may be twice as long. */
#define LABEL_BYTES (PPE_JOB_NAME_MAX * 2 + 16)

#define FIRST_BYTES 65536 /* of the text, at first */

/* A family with `count` samples: i in [0, count) may stand in the labels a and b, and in value. */
#define PUT_EACH(text, name, type, help, count, a, b, value)                                       \
	do {                                                                                       \
		api_text_family(text, name, type, help);                                           \
		for (unsigned int i = 0; i < (count); i++)                                         \
			api_text_sample(text, "", a, b, value, 0);                                 \
	} while (0)

/* A family of one sample without labels. */
static void
put_one(struct api_text *text, const char *name, const char *type, const char *help, uint64_t value)
{
	PUT_EACH(text, name, type, help, 1, NULL, NULL, value);
}

static void
put_switch(struct api_text *text, const struct ctrl_snapshot *seen)
{
	char a[LABEL_BYTES], b[LABEL_BYTES];

	api_text_label(a, sizeof(a), "version", WEIR_VERSION);
	api_text_label(b, sizeof(b), "dpdk", rte_version());
	PUT_EACH(text, "weir_build_info", "gauge", "versions of Weir and DPDK; always 1", 1, a, b,
		1);
	api_text_label(a, sizeof(a), "name", seen->config->name);
	api_text_label(
		b, sizeof(b), "address", ctrl_address_text(seen->config->ppe.identity.ip).text);
	PUT_EACH(text, "weir_switch_info", "gauge", "name and address of the switch; always 1", 1,
		a, b, 1);
	api_text_family(
		text, "weir_start_time_seconds", "gauge", "Unix time when the switch started");
	api_text_sample(text, "", NULL, NULL, (uint64_t)(seen->started_at * 1e3), 3);
	put_one(text, "weir_ready", "gauge", "1 while packets flow", seen->is_ready);
}

static void
put_packets(struct api_text *text, const struct ppe_stats *stats)
{
	char label[PPE_DROP_COUNT][LABEL_BYTES];

#define X(name, help) put_one(text, "weir_packets_" #name "_total", "counter", help, stats->name);
	PPE_PACKET_COUNTERS(X)
#undef X
	put_one(text, "weir_packets_in_flight", "gauge", "packets that the switch holds",
		stats->in_flight);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		api_text_label(
			label[i], sizeof(label[i]), "reason", ppe_drop_key((enum ppe_drop)i));
	PUT_EACH(text, "weir_packets_dropped_total", "counter", "packets dropped, by reason",
		PPE_DROP_COUNT, label[i], NULL, stats->drops[i]);
}

static void
put_ports(struct api_text *text, const struct ctrl_snapshot *seen)
{
	static const char *const priority[] = {"priority=\"results\"", "priority=\"bulk\""};
	const struct ppe_stats *stats = &seen->stats;
	char label[PPE_PORTS_MAX][LABEL_BYTES];

	for (unsigned int p = 0; p < stats->nb_ports; p++)
		api_text_label(label[p], sizeof(label[p]), "port", seen->config->port[p].name);
	PUT_EACH(text, "weir_port_up", "gauge", "1 while the port has a link", stats->nb_ports,
		label[i], NULL, seen->port[i].is_up);
	PUT_EACH(text, "weir_port_queue_packets", "gauge", "packets that wait for the port",
		stats->nb_ports, label[i], NULL, seen->port[i].queue.packets);
	PUT_EACH(text, "weir_port_stalled", "gauge",
		"1 if packets for the port were dropped, and since then it has taken none",
		stats->nb_ports, label[i], NULL, seen->port[i].queue.is_stalled);
#define ONE(name, help)                                                                            \
	PUT_EACH(text, "weir_port_" #name "_total", "counter", help, stats->nb_ports, label[i],    \
		NULL, stats->port[i].name);
#define EACH(name, help)                                                                           \
	PUT_EACH(text, "weir_port_" #name "_total", "counter", help, 2 * stats->nb_ports,          \
		label[i / 2], priority[i % 2], stats->port[i / 2].name[i % 2]);
	PPE_PORT_COUNTERS(ONE, EACH)
#undef ONE
#undef EACH
}

static void
put_workers(struct api_text *text, const struct ctrl_snapshot *seen)
{
	const struct ppe_stats *stats = &seen->stats;
	char label[PPE_WORKERS_MAX][LABEL_BYTES];

	for (unsigned int w = 0; w < stats->nb_workers; w++)
		snprintf(label[w], sizeof(label[w]), "worker=\"%u\"", w);
#define X(name, help)                                                                              \
	PUT_EACH(text, "weir_worker_" #name "_total", "counter", help, stats->nb_workers,          \
		label[i], NULL, stats->worker[i].name);
	PPE_WORKER_COUNTERS(X)
#undef X
	api_text_family(text, "weir_worker_busy_ratio", "gauge",
		"share of the last second's turns that found work");
	for (unsigned int w = 0; w < stats->nb_workers; w++)
		api_text_sample(text, "", label[w], NULL, (uint64_t)(seen->pulse[w].busy * 1e6), 6);
	PUT_EACH(text, "weir_worker_threads_live", "gauge",
		"thread contexts with a packet or a timer", stats->nb_workers, label[i], NULL,
		seen->gauges.threads_live[i]);
}

static void
put_pools(struct api_text *text, const struct ppe_gauges *gauges)
{
	const struct ppe_pool_gauge *pool[] = {
		&gauges->packets, &gauges->headers, &gauges->attaches};
	static const char *const label[] = {
		"pool=\"packets\"", "pool=\"headers\"", "pool=\"attaches\""};

	PUT_EACH(text, "weir_pool_buffers", "gauge", "packet buffers of the pool", 3, label[i],
		NULL, pool[i]->size);
	PUT_EACH(text, "weir_pool_free_buffers", "gauge", "free packet buffers of the pool", 3,
		label[i], NULL, pool[i]->free);
}

static void
put_tables(struct api_text *text, const struct ctrl_snapshot *seen)
{
	const struct ctrl_config *config = seen->config;

	put_one(text, "weir_memory_bytes", "gauge", "DPDK memory of the switch",
		(uint64_t)config->memory_mb << 20);
	put_one(text, "weir_memory_free_bytes", "gauge", "free DPDK memory", seen->memory_free);
	put_one(text, "weir_fdb_stations_limit", "gauge", "MAC addresses that a worker can learn",
		config->ppe.fdb_entries);
	for (unsigned int i = 0; seen->stats.statistic[i].what != NULL; i++) {
		const struct ppe_statistic *what = seen->stats.statistic[i].what;

		if (what->metric != NULL)
			put_one(text, what->metric,
				what->kind == PPE_STATISTIC_COUNTER ? "counter" : "gauge",
				what->help, seen->stats.statistic[i].value);
	}
}

static void
put_faults(struct api_text *text, const struct ctrl_snapshot *seen)
{
	const struct ppe_fault_stats *stats = &seen->fault_stats;
	const struct ppe_faults *faults = &seen->faults;
	unsigned int count = faults->nb_rules;
	char number[PPE_FAULT_RULES_MAX][LABEL_BYTES];
	char about[PPE_FAULT_RULES_MAX][3 * LABEL_BYTES];

	for (unsigned int i = 0; i < count; i++) {
		const struct ppe_fault_rule *rule = &faults->rule[i];
		char port[LABEL_BYTES];

		api_text_label(port, sizeof(port), "port",
			rule->port >= 0 ? seen->config->port[rule->port].name : "");
		snprintf(number[i], sizeof(number[i]), "rule=\"%u\"", i);
		snprintf(about[i], sizeof(about[i]), "action=\"%s\",direction=\"%s\",%s",
			ctrl_fault_action(rule->action),
			rule->direction == PPE_FAULT_IN ? "in" : "out", port);
	}
	put_one(text, "weir_fault_rules", "gauge",
		"rules of the faults that are set on purpose; 0: none", count);
	put_one(text, "weir_fault_held_packets", "gauge",
		"packets that faults delay, or hold until others overtake them", stats->held);
	PUT_EACH(text, "weir_fault_matched_packets_total", "counter",
		"packets that the rule matched since the faults were set", count, number[i],
		about[i], stats->matched[i]);
	PUT_EACH(text, "weir_fault_hit_packets_total", "counter",
		"matched packets that the rule chose", count, number[i], about[i], stats->hit[i]);
	PUT_EACH(text, "weir_fault_spared_packets_total", "counter",
		"chosen packets that passed unharmed, for lack of room to hold or copy them", count,
		number[i], about[i], stats->spared[i]);
}

/* -- jobs */

struct one_job {
	char label[LABEL_BYTES]; /* weir_job="..." */
	char about[2 * LABEL_BYTES]; /* id="...",policy="...",tenant="...",origin="..." */
	const struct ppe_job_stats *stats;
	unsigned int size, window, joined;
};

/* A source with series of its own, or the sum of a job's other sources. */
struct one_source {
	const char *job; /* its job's label */
	char rank[16]; /* rank="255", or rank="others" */
	uint64_t last, waited_us;
	bool heard;
	double silent; /* s, until the snapshot; valid if heard */
};

/* A parent of a job. */
struct one_parent {
	const char *job; /* its job's label */
	char name[LABEL_BYTES]; /* parent="..." */
	const struct ppe_parent_stats *stats;
};

/* What a scrape shows of jobs. A family's samples must be adjacent. */
struct jobs {
	unsigned int nb_jobs, nb_sources, nb_parents, left_out;
	struct one_job job[WEIR_JOBS_MAX];
	struct one_source source[CTRL_SERIES_MAX + WEIR_JOBS_MAX];
	struct one_parent parent[WEIR_JOBS_MAX * PPE_PARENTS_MAX];
};

/* Sources that are gone are shown, too, because their silence is of interest. */
static bool
is_shown(const struct ctrl_job_snapshot *job, unsigned int rank)
{
	return ppe_job_has(&job->shape, (uint8_t)rank) ||
		(api_has_rank(&job->job, rank) && api_is_gone(&job->job, rank));
}

static void
read_sources(struct jobs *jobs, const struct one_job *one, const struct ctrl_job_snapshot *job)
{
	struct one_source *others = NULL;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		bool own = s < job->shape.first_rank + job->job.series;
		struct one_source *source;

		if (!is_shown(job, s))
			continue;
		source = own || others == NULL ? &jobs->source[jobs->nb_sources++] : others;
		source->job = one->label;
		source->last += job->source[s].last;
		source->waited_us += job->source[s].waited_us;
		if (own) {
			snprintf(source->rank, sizeof(source->rank), "rank=\"%u\"", s);
			source->heard = api_silence(job, s, &source->silent);
		} else {
			snprintf(source->rank, sizeof(source->rank), "rank=\"others\"");
			others = source;
			jobs->left_out++;
		}
	}
}

static void
describe(const struct ctrl_job_snapshot *job, char *about, size_t size)
{
	const struct ctrl_tenant *owner = job->job.tenant;
	char tenant[LABEL_BYTES];

	api_text_label(tenant, sizeof(tenant), "tenant", owner == NULL ? "" : owner->name);
	snprintf(about, size, "id=\"%u\",policy=\"%s\",%s,origin=\"%s\",hop=\"%s\"", job->shape.id,
		ctrl_policy_text(job->shape.policy), tenant, job->job.from_file ? "file" : "api",
		ctrl_tree_hop(&job->shape));
}

static void
read_parents(struct jobs *jobs, const struct one_job *one, const struct ctrl_job_snapshot *job)
{
	for (unsigned int p = 0; p < job->shape.nb_parents; p++) {
		struct one_parent *parent = &jobs->parent[jobs->nb_parents++];

		*parent = (struct one_parent){.job = one->label, .stats = &job->parent[p]};
		api_text_label(
			parent->name, sizeof(parent->name), "parent", job->shape.parent[p].name);
	}
}

static void
read_job(struct jobs *jobs, const struct ctrl_job_snapshot *job)
{
	struct one_job *one = &jobs->job[jobs->nb_jobs++];

	api_text_label(one->label, sizeof(one->label), "weir_job", job->shape.name);
	describe(job, one->about, sizeof(one->about));
	one->stats = &job->stats;
	one->size = job->shape.nb_sources;
	one->window = job->shape.window;
	one->joined = job->membership.joined;
	read_sources(jobs, one, job);
	read_parents(jobs, one, job);
}

static void
put_info(struct api_text *text, const struct jobs *jobs)
{
	put_one(text, "weir_jobs", "gauge", "jobs that exist", jobs->nb_jobs);
	PUT_EACH(text, "weir_job_info", "gauge",
		"the job's id, policy, tenant, origin and hop of a tree (leaf, middle, root, or "
		"empty); always 1",
		jobs->nb_jobs, jobs->job[i].label, jobs->job[i].about, 1);
}

#define PUT_JOBS(name, type, help, value)                                                          \
	PUT_EACH(text, name, type, help, jobs->nb_jobs, jobs->job[i].label, NULL,                  \
		jobs->job[i].value)

static void
put_levels(struct api_text *text, const struct jobs *jobs)
{
	PUT_JOBS("weir_job_members", "gauge", "sources of the job", size);
	PUT_JOBS("weir_job_members_joined", "gauge",
		"sources that have joined; while the job waits for others, those that ask", joined);
	PUT_JOBS("weir_job_generation", "gauge", "the job's generation; 0: none has begun",
		stats->generation);
	PUT_JOBS("weir_job_window_blocks", "gauge", "blocks that a source may have in flight",
		window);
	PUT_JOBS("weir_job_blocks_in_flight", "gauge", "open blocks: contributions are missing",
		stats->blocks_in_flight);
	PUT_JOBS("weir_job_buffers", "gauge", "aggregation buffers in use", stats->buffers_used);
	PUT_JOBS("weir_job_buffers_reserved", "gauge", "aggregation buffers of the job",
		stats->buffers_reserved);
}

static void
put_counters(struct api_text *text, const struct jobs *jobs)
{
#define X(name, help) PUT_JOBS("weir_job_" #name "_total", "counter", help, stats->name);
	PPE_JOB_COUNTERS(X)
#undef X
}

/* Bucket i counts the times under 2^i us. All samples come from one copy, so that +Inf and _count
 * agree while workers count. */
static void
put_histogram(struct api_text *text, const char *label, const struct ppe_histogram *histogram)
{
	char le[32];
	uint64_t sum = 0;

	for (unsigned int b = 0; b + 1 < PPE_BUCKETS; b++) {
		sum += histogram->bucket[b];
		snprintf(le, sizeof(le), "le=\"%.9g\"", (double)(UINT64_C(1) << b) / 1e6);
		api_text_sample(text, "_bucket", label, le, sum, 0);
	}
	sum += histogram->bucket[PPE_BUCKETS - 1];
	api_text_sample(text, "_bucket", label, "le=\"+Inf\"", sum, 0);
	api_text_sample(text, "_sum", label, NULL, histogram->sum_ns, 9);
	api_text_sample(text, "_count", label, NULL, sum, 0);
}

static void
put_latencies(struct api_text *text, const struct jobs *jobs)
{
	api_text_family(text, "weir_job_block_latency_seconds", "histogram",
		"from a block's first contribution to its result");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++)
		put_histogram(text, jobs->job[i].label, &jobs->job[i].stats->latency);
}

static void
put_spreads(struct api_text *text, const struct jobs *jobs)
{
	api_text_family(text, "weir_job_contribution_spread_seconds", "histogram",
		"from a block's first contribution to its last one");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++)
		put_histogram(text, jobs->job[i].label, &jobs->job[i].stats->spread);
}

static void
put_waits(struct api_text *text, const struct jobs *jobs)
{
	const struct one_source *source = jobs->source;

	api_text_family(text, "weir_source_waited_seconds_total", "counter",
		"how long blocks waited for the source, from their last contribution but one");
	for (unsigned int s = 0; s < jobs->nb_sources; s++)
		api_text_sample(text, "", source[s].job, source[s].rank, source[s].waited_us, 6);
}

static void
put_last(struct api_text *text, const struct jobs *jobs)
{
	const struct one_source *source = jobs->source;

	PUT_EACH(text, "weir_source_last_blocks_total", "counter",
		"blocks that the source completed as the last one", jobs->nb_sources, source[i].job,
		source[i].rank, source[i].last);
}

/* Put when the last packet came, in Unix time to milliseconds. */
static void
put_contact(struct api_text *text, const char *a, const char *b, double at)
{
	api_text_sample(text, "", a, b, (uint64_t)RTE_MAX(at * 1e3, 0), 3);
}

static void
put_contacts(struct api_text *text, const struct jobs *jobs, double now)
{
	const struct one_source *source = jobs->source;

	api_text_family(text, "weir_source_last_contact_timestamp_seconds", "gauge",
		"Unix time of the source's last packet in the generation; absent before the first");
	for (unsigned int s = 0; s < jobs->nb_sources; s++)
		if (source[s].heard)
			put_contact(text, source[s].job, source[s].rank, now - source[s].silent);
	put_one(text, "weir_metrics_left_out", "gauge",
		"sources without series of their own: rank others of their job is their sum",
		jobs->left_out);
}

static void
put_parents(struct api_text *text, const struct jobs *jobs, double now)
{
	const struct one_parent *parent = jobs->parent;

	PUT_EACH(text, "weir_parent_generation", "gauge",
		"the generation of the parent's job in which this switch takes part; 0: none",
		jobs->nb_parents, parent[i].job, parent[i].name, parent[i].stats->generation);
	PUT_EACH(text, "weir_parent_serves", "gauge", "1 while blocks go to the parent",
		jobs->nb_parents, parent[i].job, parent[i].name, parent[i].stats->serves);
	api_text_family(text, "weir_parent_last_contact_timestamp_seconds", "gauge",
		"Unix time of the parent's last packet; absent before the first");
	for (unsigned int i = 0; i < jobs->nb_parents; i++)
		if (parent[i].stats->heard)
			put_contact(text, parent[i].job, parent[i].name,
				now - (double)parent[i].stats->silent_us / 1e6);
}

void
api_get_metrics(struct api_call *call)
{
	static void (*const part[])(struct api_text * text, const struct jobs *jobs) = {put_info,
		put_levels, put_counters, put_latencies, put_spreads, put_waits, put_last};
	const struct ctrl_snapshot *seen = call->seen;
	struct jobs *jobs = calloc(1, sizeof(*jobs));
	struct api_text *text = &call->text;

	if (jobs == NULL) {
		api_error_memory(call);
		return;
	}
	api_text_begin(text, FIRST_BYTES);
	put_switch(text, seen);
	put_packets(text, &seen->stats);
	put_ports(text, seen);
	put_workers(text, seen);
	put_pools(text, &seen->gauges);
	put_tables(text, seen);
	put_faults(text, seen);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (seen->by_id[i] != NULL && api_may_see(call, &seen->by_id[i]->job))
			read_job(jobs, seen->by_id[i]);
	for (size_t i = 0; i < RTE_DIM(part); i++)
		part[i](text, jobs);
	put_contacts(text, jobs, seen->unix_time);
	put_parents(text, jobs, seen->unix_time);
	free(jobs);
	api_answer_text(call, "text/plain; version=0.0.4; charset=utf-8");
}

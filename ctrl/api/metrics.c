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

/* Sources with series of their own: per job, and of all jobs together. The other sources of a job
 * share one series. */
#define JOB_SOURCES 64u
#define ALL_SOURCES 4096u

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
put_switch(struct api_text *text, const struct ctrl_running *running)
{
	char a[LABEL_BYTES], b[LABEL_BYTES];

	api_text_label(a, sizeof(a), "version", WEIR_VERSION);
	api_text_label(b, sizeof(b), "dpdk", rte_version());
	PUT_EACH(text, "weir_build_info", "gauge", "versions of Weir and DPDK; always 1", 1, a, b,
		1);
	api_text_label(a, sizeof(a), "name", running->config->name);
	api_text_label(
		b, sizeof(b), "address", ctrl_address_text(running->config->ppe.identity.ip).text);
	PUT_EACH(text, "weir_switch_info", "gauge", "name and address of the switch; always 1", 1,
		a, b, 1);
	api_text_family(text, "weir_uptime_seconds", "gauge", "time since the switch started");
	api_text_sample(text, "", NULL, NULL, (uint64_t)(ctrl_running_uptime(running) * 1e6), 6);
	put_one(text, "weir_ready", "gauge", "1 while packets flow", running->is_ready);
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
put_ports(struct api_text *text, const struct ctrl_running *running)
{
	static const char *const priority[] = {"priority=\"results\"", "priority=\"bulk\""};
	const struct ppe_stats *stats = &running->stats;
	char label[PPE_PORTS_MAX][LABEL_BYTES];
	struct ppe_port_queue queue[PPE_PORTS_MAX];

	for (unsigned int p = 0; p < stats->nb_ports; p++) {
		api_text_label(label[p], sizeof(label[p]), "port", running->config->port[p].name);
		ppe_port_queue_read(running->ppe, p, &queue[p]);
	}
	PUT_EACH(text, "weir_port_up", "gauge", "1 while the port has a link", stats->nb_ports,
		label[i], NULL, ctrl_port_is_up(running, i));
	PUT_EACH(text, "weir_port_queue_packets", "gauge", "packets that wait for the port",
		stats->nb_ports, label[i], NULL, queue[i].packets);
	PUT_EACH(text, "weir_port_stalled", "gauge",
		"1 if packets for the port were dropped, and since then it has taken none",
		stats->nb_ports, label[i], NULL, queue[i].is_stalled);
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
put_workers(
	struct api_text *text, const struct ctrl_running *running, const struct ppe_gauges *gauges)
{
	const struct ppe_stats *stats = &running->stats;
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
		api_text_sample(
			text, "", label[w], NULL, (uint64_t)(running->pulse[w].busy * 1e6), 6);
	PUT_EACH(text, "weir_worker_threads_live", "gauge",
		"thread contexts with a packet or a timer", stats->nb_workers, label[i], NULL,
		gauges->threads_live[i]);
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
put_tables(struct api_text *text, const struct ctrl_running *running)
{
	const struct ctrl_config *config = running->config;

	put_one(text, "weir_memory_bytes", "gauge", "DPDK memory of the switch",
		(uint64_t)config->memory_mb << 20);
	put_one(text, "weir_memory_free_bytes", "gauge", "free DPDK memory", ctrl_memory_free());
	put_one(text, "weir_fdb_stations_limit", "gauge", "MAC addresses that a worker can learn",
		config->ppe.fdb_entries);
	for (unsigned int i = 0; running->stats.statistic[i].what != NULL; i++) {
		const struct ppe_statistic *what = running->stats.statistic[i].what;

		if (what->metric != NULL)
			put_one(text, what->metric,
				what->kind == PPE_STATISTIC_COUNTER ? "counter" : "gauge",
				what->help, running->stats.statistic[i].value);
	}
}

static void
put_faults(struct api_text *text, const struct ctrl_running *running)
{
	const struct ppe_faults *faults = ppe_faults_of(running->ppe);
	unsigned int count = faults == NULL ? 0 : faults->nb_rules;
	char number[PPE_FAULT_RULES_MAX][LABEL_BYTES];
	char about[PPE_FAULT_RULES_MAX][3 * LABEL_BYTES];
	struct ppe_fault_stats stats;

	ppe_faults_read(running->ppe, &stats);
	for (unsigned int i = 0; i < count; i++) {
		const struct ppe_fault_rule *rule = &faults->rule[i];
		char port[LABEL_BYTES];

		api_text_label(port, sizeof(port), "port",
			rule->port >= 0 ? running->config->port[rule->port].name : "");
		snprintf(number[i], sizeof(number[i]), "rule=\"%u\"", i);
		snprintf(about[i], sizeof(about[i]), "action=\"%s\",direction=\"%s\",%s",
			ctrl_fault_action(rule->action),
			rule->direction == PPE_FAULT_IN ? "in" : "out", port);
	}
	put_one(text, "weir_fault_rules", "gauge",
		"rules of the faults that are set on purpose; 0: none", count);
	put_one(text, "weir_fault_held_packets", "gauge",
		"packets that faults delay, or hold until others overtake them", stats.held);
	PUT_EACH(text, "weir_fault_matched_packets_total", "counter",
		"packets that the rule matched since the faults were set", count, number[i],
		about[i], stats.matched[i]);
	PUT_EACH(text, "weir_fault_hit_packets_total", "counter",
		"matched packets that the rule chose", count, number[i], about[i], stats.hit[i]);
	PUT_EACH(text, "weir_fault_spared_packets_total", "counter",
		"chosen packets that passed unharmed, for lack of room to hold or copy them", count,
		number[i], about[i], stats.spared[i]);
}

/* -- jobs */

/* A job as it was read; it may be gone later. */
struct one_job {
	char label[LABEL_BYTES]; /* job="..." */
	char about[2 * LABEL_BYTES]; /* id="...",policy="...",tenant="...",origin="..." */
	struct ppe_job_stats stats;
	unsigned int size, window, joined;
};

/* A source with series of its own, or the sum of a job's other sources. */
struct one_source {
	const char *job; /* its job's label */
	char rank[16]; /* rank="255", or rank="others" */
	uint64_t last, waited_us;
	bool heard;
	double silent; /* s; valid if heard */
};

/* A parent of a job. */
struct one_parent {
	const char *job; /* its job's label */
	char name[LABEL_BYTES]; /* parent="..." */
	uint16_t generation;
	bool serves, heard;
	uint64_t silent_us; /* valid if heard */
};

/* A scrape in progress. All jobs are read first, because a family's samples must be adjacent. */
struct jobs {
	unsigned int next_id; /* of the job to read next */
	unsigned int next_part; /* of the text */
	unsigned int nb_jobs, nb_sources, nb_parents, left_out;
	struct one_job job[WEIR_JOBS_MAX];
	struct one_source source[ALL_SOURCES + WEIR_JOBS_MAX];
	struct one_parent parent[WEIR_JOBS_MAX * PPE_PARENTS_MAX];
};

/* Sources that are gone are shown, too, because their silence is of interest. */
static bool
is_shown(const struct ctrl_job *job, unsigned int rank)
{
	return ppe_job_has(job->job, (uint8_t)rank) ||
		(api_has_rank(job, rank) && api_is_gone(job, rank));
}

/* How many ranks there are, from the first to the highest one. */
static unsigned int
rank_count(const struct ppe_job *job)
{
	return ppe_job_source_end(job) - job->first_rank;
}

/*
 * Set how many of a job's first ranks have series of their own: JOB_SOURCES, as long as some of
 * ALL_SOURCES are free. A job keeps them for its life. Otherwise a join or leave would move a
 * source into or out of the others' sum, which is a counter.
 */
static void
give_ranks(const struct ctrl_running *running)
{
	unsigned int assigned = 0;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (running->by_id[i] != NULL && running->by_id[i]->has_series)
			assigned += running->by_id[i]->series;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		struct ctrl_job *job = running->by_id[i];

		if (job == NULL || job->has_series)
			continue;
		job->has_series = true;
		job->series = (uint16_t)RTE_MIN(
			ALL_SOURCES - assigned, RTE_MIN(JOB_SOURCES, rank_count(job->job)));
		assigned += job->series;
	}
}

static void
read_sources(struct jobs *jobs, const struct one_job *one, const struct ctrl_running *running,
	const struct ctrl_job *job)
{
	struct one_source *others = NULL;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		bool own = s < job->job->first_rank + job->series;
		struct ppe_source_stats stats;
		struct one_source *source;

		if (!is_shown(job, s))
			continue;
		/* Jobs that are created during the scrape may exceed the table. */
		if (jobs->nb_sources == RTE_DIM(jobs->source) && (own || others == NULL)) {
			jobs->left_out++;
			continue;
		}
		source = own || others == NULL ? &jobs->source[jobs->nb_sources++] : others;
		ppe_source_stats_read(running->ppe, job->job->id, (uint8_t)s, &stats);
		source->job = one->label;
		source->last += stats.last;
		source->waited_us += stats.waited_us;
		if (own) {
			snprintf(source->rank, sizeof(source->rank), "rank=\"%u\"", s);
			source->heard = api_silence(job, s, &stats, &source->silent);
		} else {
			snprintf(source->rank, sizeof(source->rank), "rank=\"others\"");
			others = source;
			jobs->left_out++;
		}
	}
}

static void
describe(const struct ctrl_job *job, char *about, size_t size)
{
	char tenant[LABEL_BYTES];

	api_text_label(
		tenant, sizeof(tenant), "tenant", job->tenant == NULL ? "" : job->tenant->name);
	snprintf(about, size, "id=\"%u\",policy=\"%s\",%s,origin=\"%s\",hop=\"%s\"", job->job->id,
		ctrl_policy_text(job->job->policy), tenant, job->from_file ? "file" : "api",
		ctrl_tree_hop(job->job));
}

static void
read_parents(struct jobs *jobs, const struct one_job *one, const struct ctrl_running *running,
	const struct ctrl_job *job)
{
	for (unsigned int p = 0; p < job->job->nb_parents; p++) {
		struct one_parent *parent = &jobs->parent[jobs->nb_parents++];
		struct ppe_parent_stats stats;

		ppe_parent_stats_read(running->ppe, job->job->id, p, &stats);
		*parent = (struct one_parent){.job = one->label,
			.generation = stats.generation,
			.serves = stats.serves,
			.heard = stats.heard,
			.silent_us = stats.silent_us};
		api_text_label(
			parent->name, sizeof(parent->name), "parent", job->job->parent[p].name);
	}
}

static void
read_job(struct jobs *jobs, const struct ctrl_running *running, const struct ctrl_job *job)
{
	struct one_job *one = &jobs->job[jobs->nb_jobs++];
	struct ctrl_membership membership;

	if (!job->has_series)
		give_ranks(running);
	api_text_label(one->label, sizeof(one->label), "job", job->job->name);
	describe(job, one->about, sizeof(one->about));
	ctrl_running_job_stats(running, job, &one->stats);
	ctrl_membership_of(running, job, &one->stats, &membership);
	one->size = job->job->nb_sources;
	one->window = job->job->window;
	one->joined = membership.joined;
	read_sources(jobs, one, running, job);
	read_parents(jobs, one, running, job);
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
		stats.generation);
	PUT_JOBS("weir_job_window_blocks", "gauge", "blocks that a source may have in flight",
		window);
	PUT_JOBS("weir_job_blocks_in_flight", "gauge", "open blocks: contributions are missing",
		stats.blocks_in_flight);
	PUT_JOBS("weir_job_buffers", "gauge", "aggregation buffers in use", stats.buffers_used);
	PUT_JOBS("weir_job_buffers_reserved", "gauge", "aggregation buffers of the job",
		stats.buffers_reserved);
}

static void
put_counters(struct api_text *text, const struct jobs *jobs)
{
#define X(name, help) PUT_JOBS("weir_job_" #name "_total", "counter", help, stats.name);
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
		put_histogram(text, jobs->job[i].label, &jobs->job[i].stats.latency);
}

static void
put_spreads(struct api_text *text, const struct jobs *jobs)
{
	api_text_family(text, "weir_job_contribution_spread_seconds", "histogram",
		"from a block's first contribution to its last one");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++)
		put_histogram(text, jobs->job[i].label, &jobs->job[i].stats.spread);
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

static void
put_silences(struct api_text *text, const struct jobs *jobs)
{
	const struct one_source *source = jobs->source;

	api_text_family(text, "weir_source_silent_seconds", "gauge",
		"time since the source's last packet in the generation; absent before the first");
	for (unsigned int s = 0; s < jobs->nb_sources; s++)
		if (source[s].heard)
			api_text_sample(text, "", source[s].job, source[s].rank,
				(uint64_t)(source[s].silent * 1e6), 6);
	put_one(text, "weir_metrics_left_out", "gauge",
		"sources without series of their own: rank others of their job is their sum",
		jobs->left_out);
}

static void
put_parents(struct api_text *text, const struct jobs *jobs)
{
	const struct one_parent *parent = jobs->parent;

	PUT_EACH(text, "weir_parent_generation", "gauge",
		"the generation of the parent's job in which this switch takes part; 0: none",
		jobs->nb_parents, parent[i].job, parent[i].name, parent[i].generation);
	PUT_EACH(text, "weir_parent_serves", "gauge", "1 while blocks go to the parent",
		jobs->nb_parents, parent[i].job, parent[i].name, parent[i].serves);
	api_text_family(text, "weir_parent_silent_seconds", "gauge",
		"time since the parent's last packet; absent before the first");
	for (unsigned int i = 0; i < jobs->nb_parents; i++)
		if (parent[i].heard)
			api_text_sample(
				text, "", parent[i].job, parent[i].name, parent[i].silent_us, 6);
}

/* All but the jobs. */
static bool
begin(struct api_call *call, void *context)
{
	struct ctrl_running *running = call->running;
	struct ppe_gauges gauges;

	(void)context;
	ctrl_running_read(running);
	ppe_gauges_read(running->ppe, &gauges);
	put_switch(&call->text, running);
	put_packets(&call->text, &running->stats);
	put_ports(&call->text, running);
	put_workers(&call->text, running, &gauges);
	put_pools(&call->text, &gauges);
	put_tables(&call->text, running);
	put_faults(&call->text, running);
	return true;
}

static bool
step(struct api_call *call, void *context)
{
	static void (*const part[])(struct api_text * text, const struct jobs *jobs) = {put_info,
		put_levels, put_counters, put_latencies, put_spreads, put_waits, put_last,
		put_silences, put_parents};
	struct jobs *jobs = context;

	if (jobs->next_id < WEIR_JOBS_MAX) {
		struct ctrl_job *job = call->running->by_id[jobs->next_id++];

		if (api_may_see(call, job))
			read_job(jobs, call->running, job);
	} else if (jobs->next_part < RTE_DIM(part)) {
		part[jobs->next_part++](&call->text, jobs);
	} else {
		api_answer_text(call, "text/plain; version=0.0.4; charset=utf-8");
		return false;
	}
	return true;
}

void
api_get_metrics(struct api_call *call)
{
	api_in_steps(call, sizeof(struct jobs), begin, step);
}

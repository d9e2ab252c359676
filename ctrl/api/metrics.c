/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GET /metrics: the switch, its process, ports, workers, pools, tables, faults and jobs, and the
 * sources that the jobs' blocks wait for. To add a family, add its line here or in an X-list of
 * counters (ppe/ppe.h), and its name in docs/counters.md: a test compares the two.
 */
#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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

/*
 * Put a family with a sample for each i in [0, nb) that has one. i may stand in has, in the labels
 * a and b, and in value, which is in units of 10^-digits. The macros take `text`; EACH and REAL
 * take the labels label[i] of `count` samples. A real number below 0 is no sample.
 */
#define PUT(name, help, nb, has, a, b, value, digits)                                              \
	do {                                                                                       \
		api_text_family(text, name, NULL, help);                                           \
		for (unsigned int i = 0; i < (nb); i++)                                            \
			if (has)                                                                   \
				api_text_sample(text, "", a, b, value, digits);                    \
	} while (0)
#define ONE(name, help, value, digits) PUT(name, help, 1, true, NULL, NULL, value, digits)
#define EACH(name, help, value)        PUT(name, help, count, true, label[i], NULL, value, 0)
#define REAL(name, help, value)                                                                    \
	PUT(name, help, count, (value) >= 0, label[i], NULL, (uint64_t)((value)*1e6 + 0.5), 6)

static void
put_switch(struct api_text *text, const struct ctrl_snapshot *seen)
{
	const struct ctrl_config *config = seen->config;
	char a[LABEL_BYTES], b[LABEL_BYTES];

	api_text_label(a, sizeof(a), "version", WEIR_VERSION);
	api_text_label(b, sizeof(b), "dpdk", rte_version());
	PUT("weir_build_info", "versions of Weir and DPDK; always 1", 1, true, a, b, 1, 0);
	api_text_label(a, sizeof(a), "name", config->name);
	api_text_label(b, sizeof(b), "address", ctrl_address_text(config->ppe.identity.ip).text);
	PUT("weir_switch_info", "name and address of the switch; always 1", 1, true, a, b, 1, 0);
	ONE("weir_start_time_seconds", "Unix time when the switch started",
		(uint64_t)(seen->started_at * 1e3), 3);
	ONE("weir_ready", "1 while packets flow", seen->is_ready, 0);
	ONE("weir_memory_bytes", "DPDK memory of the switch", (uint64_t)config->memory_mb << 20, 0);
	ONE("weir_memory_free_bytes", "free DPDK memory", seen->memory_free, 0);
	ONE("weir_fdb_stations_limit", "MAC addresses that a worker can learn",
		config->ppe.fdb_entries, 0);
	for (unsigned int s = 0; seen->stats.statistic[s].what != NULL; s++) {
		const struct ppe_statistic *what = seen->stats.statistic[s].what;

		if (what->metric != NULL)
			ONE(what->metric, what->help, seen->stats.statistic[s].value, 0);
	}
}

static unsigned int
count_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int entries = 0;

	if (folder == NULL)
		return 0;
	while (readdir(folder) != NULL)
		entries++;
	closedir(folder);
	return entries - 3; /* ".", ".." and the folder's own */
}

/* The process as Linux sees it (proc_pid_stat(5); times are in hundredths of a second), under the
 * names of Prometheus' libraries. Without /proc, there are no such families. */
static void
put_process(struct api_text *text)
{
	unsigned long user, system, threads, bytes, pages;
	unsigned long long start; /* since the machine started */
	struct timespec up;
	struct rlimit fds = {0};
	char line[1024] = "";
	FILE *stat = fopen("/proc/self/stat", "re");
	const char *end; /* of the program's name */

	if (stat == NULL)
		return;
	end = fgets(line, sizeof(line), stat) == NULL ? NULL : strrchr(line, ')');
	fclose(stat);
	if (end == NULL ||
		sscanf(end,
			") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d "
			"%lu %*d %llu %lu %lu",
			&user, &system, &threads, &start, &bytes, &pages) != 6)
		return;
	clock_gettime(CLOCK_BOOTTIME, &up);
	start +=
		(uint64_t)((ctrl_unix_time() - (double)up.tv_sec - (double)up.tv_nsec / 1e9) * 100);
	getrlimit(RLIMIT_NOFILE, &fds);
	ONE("process_cpu_seconds_total", "CPU time of the switch, user and system", user + system,
		2);
	ONE("process_start_time_seconds", "Unix time when the process started", start, 2);
	ONE("process_threads", "threads of the process", threads, 0);
	ONE("process_resident_memory_bytes", "resident memory, without huge pages",
		pages * (unsigned long)sysconf(_SC_PAGESIZE), 0);
	ONE("process_virtual_memory_bytes", "virtual memory", bytes, 0);
	ONE("process_open_fds", "open file descriptors", count_fds(), 0);
	ONE("process_max_fds", "file descriptors that may be open", fds.rlim_cur, 0);
}

static void
put_packets(struct api_text *text, const struct ppe_stats *stats)
{
	const unsigned int count = PPE_DROP_COUNT;
	char label[PPE_DROP_COUNT][LABEL_BYTES];

#define X(name, help) ONE("weir_packets_" #name "_total", help, stats->name, 0);
	PPE_PACKET_COUNTERS(X)
#undef X
	ONE("weir_packets_in_flight", "packets that the switch holds", stats->in_flight, 0);
	for (unsigned int d = 0; d < count; d++)
		api_text_label(label[d], LABEL_BYTES, "reason", ppe_drop_key((enum ppe_drop)d));
	EACH("weir_packets_dropped_total", "packets dropped, by reason", stats->drops[i]);
}

static void
put_pools(struct api_text *text, const struct ppe_gauges *gauges)
{
	const struct ppe_pool_gauge pool[] = {gauges->packets, gauges->headers, gauges->attaches};
	static const char *const label[] = {
		"pool=\"packets\"", "pool=\"headers\"", "pool=\"attaches\""};
	const unsigned int count = RTE_DIM(label);

	EACH("weir_pool_buffers", "packet buffers of the pool", pool[i].size);
	EACH("weir_pool_free_buffers", "free packet buffers of the pool", pool[i].free);
}

static void
put_ports(struct api_text *text, const struct ctrl_snapshot *seen)
{
	static const char *const priority[] = {"priority=\"results\"", "priority=\"bulk\""};
	const struct ctrl_port_snapshot *port = seen->port;
	const struct ppe_port_stats *stats = seen->stats.port;
	const unsigned int count = seen->stats.nb_ports;
	char label[PPE_PORTS_MAX][LABEL_BYTES];

	for (unsigned int p = 0; p < count; p++)
		api_text_label(label[p], LABEL_BYTES, "port", seen->config->port[p].name);
	EACH("weir_port_up", "1 while the port has a link", port[i].is_up);
	EACH("weir_port_queue_packets", "packets that wait for the port", port[i].queue.packets);
	EACH("weir_port_stalled",
		"1 if packets for the port were dropped, and since then it has taken none",
		port[i].queue.is_stalled);
#define X(name, help) EACH("weir_port_" #name "_total", help, stats[i].name);
#define BOTH(name, help)                                                                           \
	PUT("weir_port_" #name "_total", help, 2 * count, true, label[i / 2], priority[i % 2],     \
		stats[i / 2].name[i % 2], 0);
	PPE_PORT_COUNTERS(X, BOTH)
#undef X
#undef BOTH
}

static void
put_workers(struct api_text *text, const struct ctrl_snapshot *seen)
{
	const struct ppe_worker_stats *stats = seen->stats.worker;
	const unsigned int count = seen->stats.nb_workers;
	char label[PPE_WORKERS_MAX][LABEL_BYTES];

	for (unsigned int w = 0; w < count; w++)
		snprintf(label[w], LABEL_BYTES, "worker=\"%u\"", w);
#define X(name, help) EACH("weir_worker_" #name "_total", help, stats[i].name);
	PPE_WORKER_COUNTERS(X)
#undef X
	REAL("weir_worker_busy_ratio", "share of the last second's turns that found work",
		seen->pulse[i].busy);
	EACH("weir_worker_threads_live", "thread contexts with a packet or a timer",
		seen->gauges.threads_live[i]);
}

static void
put_faults(struct api_text *text, const struct ctrl_snapshot *seen)
{
	const struct ppe_fault_stats *stats = &seen->fault_stats;
	const unsigned int count = seen->faults.nb_rules;
	char label[PPE_FAULT_RULES_MAX][3 * LABEL_BYTES], port[LABEL_BYTES];

	for (unsigned int r = 0; r < count; r++) {
		const struct ppe_fault_rule *rule = &seen->faults.rule[r];

		api_text_label(port, sizeof(port), "port",
			rule->port >= 0 ? seen->config->port[rule->port].name : "");
		snprintf(label[r], sizeof(label[r]),
			"rule=\"%u\",action=\"%s\",direction=\"%s\",%s", r,
			ctrl_fault_action(rule->action),
			rule->direction == PPE_FAULT_IN ? "in" : "out", port);
	}
	ONE("weir_fault_rules", "rules of the faults that are set on purpose; 0: none", count, 0);
	ONE("weir_fault_held_packets",
		"packets that faults delay, or hold until others overtake them", stats->held, 0);
	EACH("weir_fault_matched_packets_total",
		"packets that the rule matched since the faults were set", stats->matched[i]);
	EACH("weir_fault_hit_packets_total", "matched packets that the rule chose", stats->hit[i]);
	EACH("weir_fault_spared_packets_total",
		"chosen packets that passed unharmed, for lack of room to hold or copy them",
		stats->spared[i]);
}

static void
put_filters(struct api_text *text, const struct ctrl_snapshot *seen)
{
	const unsigned int results = 4, count = seen->nb_filters * results;
	char label[PPE_FILTERS_MAX * 4][3 * LABEL_BYTES], name[LABEL_BYTES];
	uint64_t packets[PPE_FILTERS_MAX * 4];

	for (unsigned int f = 0; f < seen->nb_filters; f++) {
		const struct ppe_filter_info *info = &seen->filter[f];
		const struct {
			const char *result;
			uint64_t packets;
		} each[] = {{"passed", info->passed}, {"dropped", info->dropped},
			{"program", info->to_program}, {"worker", info->to_worker}};

		api_text_label(name, sizeof(name), "filter", info->filter.name);
		for (unsigned int r = 0; r < results; r++) {
			snprintf(label[f * results + r], sizeof(label[0]), "%s,result=\"%s\"", name,
				each[r].result);
			packets[f * results + r] = each[r].packets;
		}
	}
	EACH("weir_filter_packets_total",
		"received packets that the filter saw, by what it did with them", packets[i]);
}

/* -- jobs */

#define PEER_BYTES (2 * LABEL_BYTES) /* of two labels */
#define PEERS_MAX  (CTRL_SERIES_MAX + WEIR_JOBS_MAX)
static_assert(PEERS_MAX >= WEIR_JOBS_MAX * PPE_PARENTS_MAX, "there is room for parents, too");

/* Sources with series of their own, and the sums of the jobs' other sources; or parents. */
struct peers {
	unsigned int count;
	char label[PEERS_MAX][PEER_BYTES]; /* weir_job="...",rank="255"; or "others"; or parent */
	double contact[PEERS_MAX]; /* Unix time of the last packet, s; -1: none */
	double waited[PEERS_MAX]; /* s; this and the following: of sources */
	uint64_t last[PEERS_MAX];
	const struct ppe_parent_stats *parent[PEERS_MAX];
};

/* What a scrape shows of jobs. A family's samples must be adjacent. */
struct jobs {
	double now; /* Unix time of the snapshot, s */
	unsigned int count, left_out;
	const struct ctrl_job_snapshot *job[WEIR_JOBS_MAX];
	char label[WEIR_JOBS_MAX][LABEL_BYTES]; /* weir_job="..." */
	char about[WEIR_JOBS_MAX][2 * LABEL_BYTES]; /* the other labels of weir_job_info */
	struct peers sources, parents;
};

static void
read_sources(struct jobs *jobs, const char *label, const struct ctrl_job_snapshot *job)
{
	struct peers *to = &jobs->sources;
	unsigned int others = PEERS_MAX; /* none yet */

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		bool own = s < job->shape.first_rank + job->job.series;
		unsigned int at;
		double silent;

		/* Those that are gone are shown, too: their last contact is of interest. */
		if (!ppe_job_has(&job->shape, (uint8_t)s) &&
			!(api_has_rank(&job->job, s) && api_is_gone(&job->job, s)))
			continue;
		at = own || others == PEERS_MAX ? to->count++ : others;
		to->last[at] += job->source[s].last;
		to->waited[at] += (double)job->source[s].waited_us / 1e6;
		to->contact[at] = own && api_silence(job, s, &silent) ? jobs->now - silent : -1;
		if (own) {
			snprintf(to->label[at], PEER_BYTES, "%s,rank=\"%u\"", label, s);
		} else {
			snprintf(to->label[at], PEER_BYTES, "%s,rank=\"others\"", label);
			others = at;
			jobs->left_out++;
		}
	}
}

static void
read_parents(struct peers *to, const char *label, const struct ctrl_job_snapshot *job, double now)
{
	char name[LABEL_BYTES];

	for (unsigned int p = 0; p < job->shape.nb_parents; p++, to->count++) {
		const struct ppe_parent_stats *stats = &job->parent[p];

		api_text_label(name, sizeof(name), "parent", job->shape.parent[p].name);
		snprintf(to->label[to->count], PEER_BYTES, "%s,%s", label, name);
		to->contact[to->count] = stats->heard ? now - (double)stats->silent_us / 1e6 : -1;
		to->parent[to->count] = stats;
	}
}

static void
read_job(struct jobs *jobs, const struct ctrl_job_snapshot *job)
{
	const struct ctrl_tenant *owner = job->job.tenant;
	char label[LABEL_BYTES], tenant[LABEL_BYTES];
	unsigned int at = jobs->count++;

	jobs->job[at] = job;
	api_text_label(label, sizeof(label), "weir_job", job->shape.name);
	memcpy(jobs->label[at], label, sizeof(label));
	api_text_label(tenant, sizeof(tenant), "tenant", owner == NULL ? "" : owner->name);
	snprintf(jobs->about[at], sizeof(jobs->about[at]),
		"id=\"%u\",policy=\"%s\",%s,origin=\"%s\",hop=\"%s\"", job->shape.id,
		ctrl_policy_text(job->shape.policy), tenant, job->job.from_file ? "file" : "api",
		ctrl_tree_hop(&job->shape));
	read_sources(jobs, label, job);
	read_parents(&jobs->parents, label, job, jobs->now);
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
put_jobs(struct api_text *text, const struct jobs *jobs)
{
	const struct ctrl_job_snapshot *const *job = jobs->job;
	const char(*label)[LABEL_BYTES] = jobs->label;
	const unsigned int count = jobs->count;

	ONE("weir_jobs", "jobs that exist", count, 0);
	PUT("weir_job_info",
		"the job's id, policy, tenant, origin and hop of a tree (leaf, middle, root, or "
		"empty); always 1",
		count, true, label[i], jobs->about[i], 1, 0);
	EACH("weir_job_members", "sources of the job", job[i]->shape.nb_sources);
	EACH("weir_job_members_joined",
		"sources that have joined; while the job waits for others, those that ask",
		job[i]->membership.joined);
	EACH("weir_job_generation", "the job's generation; 0: none has begun",
		job[i]->stats.generation);
	EACH("weir_job_window_blocks", "blocks that a source may have in flight",
		job[i]->shape.window);
	EACH("weir_job_blocks_in_flight", "open blocks: contributions are missing",
		job[i]->stats.blocks_in_flight);
	EACH("weir_job_buffers", "aggregation buffers in use", job[i]->stats.buffers_used);
	EACH("weir_job_buffers_reserved", "aggregation buffers of the job",
		job[i]->stats.buffers_reserved);
#define X(name, help) EACH("weir_job_" #name "_total", help, job[i]->stats.name);
	PPE_JOB_COUNTERS(X)
#undef X
	api_text_family(text, "weir_job_block_latency_seconds", "histogram",
		"from a block's first contribution to its result");
	for (unsigned int i = 0; i < count; i++)
		put_histogram(text, label[i], &job[i]->stats.latency);
	api_text_family(text, "weir_job_contribution_spread_seconds", "histogram",
		"from a block's first contribution to its last one");
	for (unsigned int i = 0; i < count; i++)
		put_histogram(text, label[i], &job[i]->stats.spread);
}

static void
put_sources(struct api_text *text, const struct peers *sources, unsigned int left_out)
{
	const char(*label)[PEER_BYTES] = sources->label;
	const unsigned int count = sources->count;

	REAL("weir_source_waited_seconds_total",
		"how long blocks waited for the source, from their last contribution but one",
		sources->waited[i]);
	EACH("weir_source_last_blocks_total", "blocks that the source completed as the last one",
		sources->last[i]);
	REAL("weir_source_last_contact_timestamp_seconds",
		"Unix time of the source's last packet in the generation; absent before the first",
		sources->contact[i]);
	ONE("weir_metrics_left_out",
		"sources without series of their own: rank others of their job is their sum",
		left_out, 0);
}

static void
put_parents(struct api_text *text, const struct peers *parents)
{
	const char(*label)[PEER_BYTES] = parents->label;
	const unsigned int count = parents->count;

	EACH("weir_parent_generation",
		"the generation of the parent's job in which this switch takes part; 0: none",
		parents->parent[i]->generation);
	EACH("weir_parent_serves", "1 while blocks go to the parent", parents->parent[i]->serves);
	REAL("weir_parent_last_contact_timestamp_seconds",
		"Unix time of the parent's last packet; absent before the first",
		parents->contact[i]);
}

void
api_get_metrics(struct api_call *call)
{
	const struct ctrl_snapshot *seen = call->seen;
	struct jobs *jobs = calloc(1, sizeof(*jobs));
	struct api_text *text = &call->text;

	if (jobs == NULL) {
		api_error_memory(call);
		return;
	}
	api_text_begin(text, FIRST_BYTES);
	put_switch(text, seen);
	put_process(text);
	put_packets(text, &seen->stats);
	put_ports(text, seen);
	put_workers(text, seen);
	put_pools(text, &seen->gauges);
	put_faults(text, seen);
	put_filters(text, seen);
	jobs->now = seen->unix_time;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (seen->by_id[i] != NULL && api_may_see(call, &seen->by_id[i]->job))
			read_job(jobs, seen->by_id[i]);
	put_jobs(text, jobs);
	put_sources(text, &jobs->sources, jobs->left_out);
	put_parents(text, &jobs->parents);
	free(jobs);
	api_answer_text(call, "text/plain; version=0.0.4; charset=utf-8");
}

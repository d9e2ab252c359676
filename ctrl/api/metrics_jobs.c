/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /metrics: jobs, and the sources that their blocks wait for. */
#include <stdio.h>
#include <stdlib.h>

#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/member.h"
#include "ctrl/api/metrics.h"
#include "ctrl/jobs/jobs.h"

#define JOB_BYTES    9216 /* approximate size of a job's lines, mostly histograms */
#define SOURCE_BYTES 256

/* A source with series of its own. */
struct one_source {
	char label[16]; /* rank="255" */
	struct ppe_source_stats stats;
	bool heard;
	double silent; /* s; when heard */
};

struct one_job {
	const struct ctrl_job *job;
	char label[METRICS_LABEL_BYTES]; /* job="..." */
	struct ppe_job_stats stats;
	unsigned int first, count; /* its sources in `source` */
	unsigned int joined;
	unsigned int left_out; /* sources without series of their own; the sums of these: */
	uint64_t last, waited_us;
};

/* The data of a scrape. All jobs are read first, because a family's samples must be adjacent. */
struct metrics_jobs {
	unsigned int nb_jobs, nb_sources, left_out;
	struct one_job *job;
	struct one_source source[]; /* METRICS_SOURCES at most */
};

/* A source that is gone is shown, too: its silence is of interest. */
static bool
is_shown(const struct ctrl_job *job, unsigned int rank)
{
	return ppe_job_has(job->job, (uint8_t)rank) ||
		(rank < job->job->nb_sources && api_is_gone(job, rank));
}

/* One more than the highest rank. */
static unsigned int
rank_end(const struct ppe_job *job)
{
	unsigned int end = job->nb_sources;

	for (unsigned int s = end; s < WEIR_SOURCES_MAX; s++)
		if (ppe_job_has(job, (uint8_t)s))
			end = s + 1;
	return end;
}

/*
 * Set how many of a job's first ranks have series of their own: METRICS_JOB_SOURCES, while some of
 * METRICS_SOURCES are left. A job keeps them for its life. Otherwise a join or leave would move a source
 * into or out of the others' sum, which is a counter.
 */
static void
give_ranks(const struct ctrl_running *running)
{
	unsigned int given = 0;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (running->by_id[i] != NULL && running->by_id[i]->has_series)
			given += running->by_id[i]->series;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		struct ctrl_job *job = running->by_id[i];

		if (job == NULL || job->has_series)
			continue;
		job->has_series = true;
		job->series = (uint16_t)RTE_MIN(
			METRICS_SOURCES - given, RTE_MIN(METRICS_JOB_SOURCES, rank_end(job->job)));
		given += job->series;
	}
}

static void
read_source(struct metrics_jobs *jobs, struct one_job *one, const struct ppe *ppe, uint8_t rank)
{
	struct ppe_source_stats stats;

	ppe_source_stats_read(ppe, one->job->job->id, rank, &stats);
	if (rank < one->job->series) {
		struct one_source *source = &jobs->source[jobs->nb_sources++];

		snprintf(source->label, sizeof(source->label), "rank=\"%u\"", rank);
		source->stats = stats;
		source->heard = api_silence(one->job, rank, &stats, &source->silent);
		one->count++;
		return;
	}
	one->left_out++;
	one->last += stats.last;
	one->waited_us += stats.waited_us;
}

static void
read_job(struct metrics_jobs *jobs, const struct ctrl_running *running, const struct ctrl_job *job)
{
	struct one_job *one = &jobs->job[jobs->nb_jobs++];
	struct ctrl_membership membership;

	one->job = job;
	one->first = jobs->nb_sources;
	metrics_label(one->label, sizeof(one->label), "job", job->job->name);
	ctrl_running_job_stats(running, job, &one->stats);
	ctrl_membership_of(running, job, &one->stats, &membership);
	one->joined = membership.joined;
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (is_shown(job, s))
			read_source(jobs, one, running->ppe, (uint8_t)s);
	jobs->left_out += one->left_out;
}

struct metrics_jobs *
metrics_jobs_read(const struct ctrl_running *running, const struct api_caller *caller)
{
	const struct ctrl_job *visible[WEIR_JOBS_MAX];
	unsigned int nb_jobs = 0, nb_sources = 0;
	struct metrics_jobs *jobs;

	give_ranks(running);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];

		if (job == NULL || !api_owns(&running->config->api, caller, job->tenant))
			continue;
		visible[nb_jobs++] = job;
		nb_sources += job->series;
	}
	jobs = calloc(1,
		sizeof(*jobs) + nb_sources * sizeof(jobs->source[0]) +
			nb_jobs * sizeof(*jobs->job));
	if (jobs == NULL)
		return NULL;
	jobs->job = (struct one_job *)&jobs->source[nb_sources];
	for (unsigned int i = 0; i < nb_jobs; i++)
		read_job(jobs, running, visible[i]);
	return jobs;
}

size_t
metrics_jobs_bytes(const struct metrics_jobs *jobs)
{
	return JOB_BYTES + (size_t)jobs->nb_jobs * JOB_BYTES +
		(size_t)jobs->nb_sources * SOURCE_BYTES;
}

static void
put_info(struct metrics *metrics, const struct metrics_jobs *jobs)
{
	metrics_family(metrics, "weir_job_info", "gauge",
		"the job's id, policy, tenant and origin; always 1");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++) {
		const struct ctrl_job *job = jobs->job[i].job;
		char tenant[METRICS_LABEL_BYTES], more[2 * METRICS_LABEL_BYTES];

		metrics_label(tenant, sizeof(tenant), "tenant",
			job->tenant == NULL ? "" : job->tenant->name);
		snprintf(more, sizeof(more), "id=\"%u\",policy=\"%s\",%s,origin=\"%s\"",
			job->job->id, ctrl_policy_text(job->job->policy), tenant,
			job->from_file ? "file" : "api");
		metrics_u64(metrics, "", jobs->job[i].label, more, 1);
	}
}

/* A family with one sample of every job; `value` is of `one`. */
#define PUT_JOBS(name, type, help, value)                                                          \
	do {                                                                                       \
		metrics_family(metrics, name, type, help);                                         \
		for (unsigned int i = 0; i < jobs->nb_jobs; i++) {                                 \
			const struct one_job *one = &jobs->job[i];                                 \
                                                                                                   \
			metrics_u64(metrics, "", one->label, NULL, value);                         \
		}                                                                                  \
	} while (0)

static void
put_levels(struct metrics *metrics, const struct metrics_jobs *jobs)
{
	PUT_JOBS("weir_job_members", "gauge", "sources of the job", one->job->job->nb_sources);
	PUT_JOBS("weir_job_members_joined", "gauge",
		"sources that have joined; while the job waits for others, those that ask",
		one->joined);
	PUT_JOBS("weir_job_generation", "gauge", "the job's generation; 0: none has begun",
		one->stats.generation);
	PUT_JOBS("weir_job_window_blocks", "gauge", "blocks that a source may have in flight",
		one->job->job->window);
	PUT_JOBS("weir_job_blocks_in_flight", "gauge", "open blocks: contributions are missing",
		one->stats.blocks_in_flight);
	PUT_JOBS(
		"weir_job_buffers", "gauge", "aggregation buffers in use", one->stats.buffers_used);
	PUT_JOBS("weir_job_buffers_reserved", "gauge", "aggregation buffers of the job",
		one->stats.buffers_reserved);
}

static void
put_counters(struct metrics *metrics, const struct metrics_jobs *jobs)
{
#define X(name, help) PUT_JOBS("weir_job_" #name "_total", "counter", help, one->stats.name);
	PPE_JOB_COUNTERS(X)
#undef X
}

/*
 * Bucket i counts the times under 2^i us. All samples come from one copy, so that +Inf and _count agree while
 * workers count.
 */
static void
put_histogram(struct metrics *metrics, const char *label, const struct ppe_histogram *histogram)
{
	char le[32];
	uint64_t sum = 0;

	for (unsigned int b = 0; b + 1 < PPE_BUCKETS; b++) {
		sum += histogram->bucket[b];
		snprintf(le, sizeof(le), "le=\"%.9g\"", (double)(UINT64_C(1) << b) / 1e6);
		metrics_u64(metrics, "_bucket", label, le, sum);
	}
	sum += histogram->bucket[PPE_BUCKETS - 1];
	metrics_u64(metrics, "_bucket", label, "le=\"+Inf\"", sum);
	metrics_ns(metrics, "_sum", label, NULL, histogram->sum_ns);
	metrics_u64(metrics, "_count", label, NULL, sum);
}

static void
put_histograms(struct metrics *metrics, const struct metrics_jobs *jobs)
{
	metrics_family(metrics, "weir_job_block_latency_seconds", "histogram",
		"from a block's first contribution to its result");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++)
		put_histogram(metrics, jobs->job[i].label, &jobs->job[i].stats.latency);
	metrics_family(metrics, "weir_job_contribution_spread_seconds", "histogram",
		"from a block's first contribution to its last one");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++)
		put_histogram(metrics, jobs->job[i].label, &jobs->job[i].stats.spread);
}

static void
put_sources(struct metrics *metrics, const struct metrics_jobs *jobs)
{
	metrics_family(metrics, "weir_source_waited_seconds_total", "counter",
		"how long blocks waited for the source, from their last contribution but one");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++) {
		const struct one_job *one = &jobs->job[i];

		for (unsigned int s = one->first; s < one->first + one->count; s++)
			metrics_us(metrics, "", one->label, jobs->source[s].label,
				jobs->source[s].stats.waited_us);
		if (one->left_out > 0)
			metrics_us(metrics, "", one->label, "rank=\"others\"", one->waited_us);
	}
	metrics_family(metrics, "weir_source_last_blocks_total", "counter",
		"blocks that the source completed as the last one");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++) {
		const struct one_job *one = &jobs->job[i];

		for (unsigned int s = one->first; s < one->first + one->count; s++)
			metrics_u64(metrics, "", one->label, jobs->source[s].label,
				jobs->source[s].stats.last);
		if (one->left_out > 0)
			metrics_u64(metrics, "", one->label, "rank=\"others\"", one->last);
	}
	metrics_family(metrics, "weir_source_silent_seconds", "gauge",
		"time since the source's last packet in the generation; absent before the first");
	for (unsigned int i = 0; i < jobs->nb_jobs; i++) {
		const struct one_job *one = &jobs->job[i];

		for (unsigned int s = one->first; s < one->first + one->count; s++)
			if (jobs->source[s].heard)
				metrics_us(metrics, "", one->label, jobs->source[s].label,
					(uint64_t)(jobs->source[s].silent * 1e6));
	}
	metrics_family(metrics, "weir_metrics_left_out", "gauge",
		"sources without series of their own: rank others of their job is their sum");
	metrics_u64(metrics, "", NULL, NULL, jobs->left_out);
}

void
metrics_jobs_put(struct metrics *metrics, const struct metrics_jobs *jobs)
{
	metrics_family(metrics, "weir_jobs", "gauge", "jobs that exist");
	metrics_u64(metrics, "", NULL, NULL, jobs->nb_jobs);
	put_info(metrics, jobs);
	put_levels(metrics, jobs);
	put_counters(metrics, jobs);
	put_histograms(metrics, jobs);
	put_sources(metrics, jobs);
}

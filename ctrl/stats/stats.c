/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/stats.h"

#include <inttypes.h>
#include <string.h>

#include <bsd/string.h>

void
ctrl_stats_read(struct ctrl_stats *stats, const struct ctrl_running *running)
{
	memset(stats, 0, sizeof(*stats));
	stats->config = running->config;
	ppe_stats_read(running->ppe, &stats->total);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];
		struct ctrl_stats_job *told = &stats->job[stats->nb_jobs];

		if (job == NULL)
			continue;
		strlcpy(told->name, job->job->name, sizeof(told->name));
		told->id = job->job->id;
		ctrl_running_job_stats(running, job, &told->count);
		stats->nb_jobs++;
	}
}

uint64_t
ctrl_stats_dropped(const struct ppe_stats *total)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		sum += total->drops[i];
	return sum;
}

int64_t
ctrl_stats_off_by(const struct ppe_stats *total)
{
	return (int64_t)(total->received + total->created - total->sent - total->consumed -
		ctrl_stats_dropped(total) - total->in_flight);
}

bool
ctrl_leaks_none(const struct ppe_leaks *leaks)
{
#define X(name, help) leaks->name |
	return (PPE_LEAKS(X) 0) == 0;
#undef X
}

static void
print_ports(const struct ctrl_stats *stats, FILE *out)
{
	fprintf(out, "%-16s %12s %15s %12s %15s %10s %10s\n", "port", "received", "bytes", "sent",
		"bytes", "queue full", "missed");
	for (unsigned int p = 0; p < stats->total.nb_ports; p++) {
		const struct ppe_port_stats *port = &stats->total.port[p];

		fprintf(out,
			"%-16s %12" PRIu64 " %15" PRIu64 " %12" PRIu64 " %15" PRIu64 " %10" PRIu64
			" %10" PRIu64 "\n",
			stats->config->port[p].name, port->rx_packets, port->rx_bytes,
			port->tx_packets[0] + port->tx_packets[1],
			port->tx_bytes[0] + port->tx_bytes[1],
			port->queue_full[0] + port->queue_full[1], port->missed);
	}
}

static void
print_workers(const struct ctrl_stats *stats, FILE *out)
{
	fprintf(out, "%-16s %12s %15s %12s %15s %10s %10s\n", "worker", "turns", "busy turns",
		"threads", "segments", "hops out", "hops in");
	for (unsigned int w = 0; w < stats->total.nb_workers; w++) {
		const struct ppe_worker_stats *worker = &stats->total.worker[w];

		fprintf(out,
			"%-16u %12" PRIu64 " %15" PRIu64 " %12" PRIu64 " %15" PRIu64 " %10" PRIu64
			" %10" PRIu64 "\n",
			w, worker->turns, worker->busy_turns, worker->threads_started,
			worker->segments, worker->hops_out, worker->hops_in);
	}
}

static void
print_job(const struct ctrl_stats_job *job, FILE *out)
{
	const struct ppe_job_stats *stats = &job->count;

	fprintf(out, "job %u %s: generation %u, %u blocks in flight, %u of %u buffers used",
		job->id, job->name, stats->generation, stats->blocks_in_flight, stats->buffers_used,
		stats->buffers_reserved);
#define X(name, help)                                                                              \
	if (stats->name != 0)                                                                      \
		fprintf(out, ", " #name " %" PRIu64, stats->name);
	PPE_JOB_COUNTERS(X)
#undef X
	fputc('\n', out);
}

void
ctrl_stats_print(const struct ctrl_stats *stats, FILE *out)
{
	const struct ppe_stats *total = &stats->total;
	int64_t off = ctrl_stats_off_by(total);

	print_ports(stats, out);
	print_workers(stats, out);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		if (total->drops[i] != 0)
			fprintf(out, "dropped %12" PRIu64 " %s: %s\n", total->drops[i],
				ppe_drop_key((enum ppe_drop)i), ppe_drop_help((enum ppe_drop)i));
	for (unsigned int i = 0; i < stats->nb_jobs; i++)
		print_job(&stats->job[i], out);
	fprintf(out, "stations learned %u, block records used %u\n", total->fdb_used,
		total->blocks_used);
	fprintf(out,
		"received %" PRIu64 " + created %" PRIu64 " = sent %" PRIu64 " + consumed %" PRIu64
		" + dropped %" PRIu64 " + in flight %" PRIu64 ": ",
		total->received, total->created, total->sent, total->consumed,
		ctrl_stats_dropped(total), total->in_flight);
	if (off == 0)
		fputs("balanced\n", out);
	else
		fprintf(out, "OFF BY %" PRId64 "\n", off);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "ctrl/stats/stats.h"

/* Out of memory, jansson sets nothing, and the key is missing. */
static void
put(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *
ports(const struct ctrl_stats *stats)
{
	json_t *list = json_array();

	for (unsigned int p = 0; p < stats->total.nb_ports; p++) {
		const struct ppe_port_stats *port = &stats->total.port[p];
		json_t *object = json_object();

		json_object_set_new(object, "name", json_string(stats->config->port[p].name));
		put(object, "rx_packets", port->rx_packets);
		put(object, "rx_bytes", port->rx_bytes);
		put(object, "tx_result_packets", port->tx_packets[0]);
		put(object, "tx_result_bytes", port->tx_bytes[0]);
		put(object, "tx_bulk_packets", port->tx_packets[1]);
		put(object, "tx_bulk_bytes", port->tx_bytes[1]);
		put(object, "queue_full_results", port->queue_full[0]);
		put(object, "queue_full_bulk", port->queue_full[1]);
		put(object, "missed", port->missed);
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *
workers(const struct ctrl_stats *stats)
{
	json_t *list = json_array();

	for (unsigned int w = 0; w < stats->total.nb_workers; w++) {
		const struct ppe_worker_stats *worker = &stats->total.worker[w];
		json_t *object = json_object();

		put(object, "turns", worker->turns);
		put(object, "busy_turns", worker->busy_turns);
		put(object, "threads_started", worker->threads_started);
		put(object, "hops_out", worker->hops_out);
		put(object, "hops_in", worker->hops_in);
		put(object, "segments", worker->segments);
		put(object, "timer_runs", worker->timer_runs);
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *
jobs(const struct ctrl_stats *stats)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < stats->nb_jobs; i++) {
		const struct ppe_job_stats *job = &stats->job[i].count;
		json_t *object = json_object();

		put(object, "id", stats->job[i].id);
		json_object_set_new(object, "name", json_string(stats->job[i].name));
		put(object, "generation", job->generation);
		put(object, "blocks_in_flight", job->blocks_in_flight);
		put(object, "buffers_used", job->buffers_used);
		put(object, "buffers_reserved", job->buffers_reserved);
#define X(name, help) put(object, #name, job->name);
		PPE_JOB_COUNTERS(X)
#undef X
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *
drops(const struct ppe_stats *total)
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		put(object, ppe_drop_key((enum ppe_drop)i), total->drops[i]);
	return object;
}

static json_t *
leaks(const struct ppe_leaks *lost)
{
	json_t *object = json_object();

#define X(name, help) put(object, #name, lost->name);
	PPE_LEAKS(X)
#undef X
	return object;
}

static json_t *
whole(const struct ctrl_stats *stats)
{
	const struct ppe_stats *total = &stats->total;
	json_t *root = json_object();

	json_object_set_new(root, "name", json_string(stats->config->name));
	json_object_set_new(root, "version", json_string(WEIR_VERSION));
	put(root, "received", total->received);
	put(root, "created", total->created);
	put(root, "sent", total->sent);
	put(root, "consumed", total->consumed);
	put(root, "dropped", ctrl_stats_dropped(total));
	put(root, "in_flight", total->in_flight);
	json_object_set_new(root, "balanced", json_boolean(ctrl_stats_off_by(total) == 0));
	put(root, "fdb_used", total->fdb_used);
	put(root, "blocks_used", total->blocks_used);
	json_object_set_new(root, "drops", drops(total));
	json_object_set_new(root, "ports", ports(stats));
	json_object_set_new(root, "workers", workers(stats));
	json_object_set_new(root, "jobs", jobs(stats));
	if (stats->stopped)
		json_object_set_new(root, "leaks", leaks(&stats->leaks));
	return root;
}

int
ctrl_stats_write(const struct ctrl_stats *stats, const char *path)
{
	json_t *root = whole(stats);
	char *beside;
	int rc = 0;

	if (asprintf(&beside, "%s.%d.part", path, (int)getpid()) < 0)
		beside = NULL;
	if (root == NULL || beside == NULL)
		rc = -ENOMEM;
	if (rc == 0) {
		errno = ENOMEM; /* jansson tells no other reason of its own */
		rc = json_dump_file(root, beside, JSON_INDENT(1)) == 0 ? 0 : -errno;
	}
	if (rc == 0 && rename(beside, path) < 0)
		rc = -errno;
	if (rc < 0 && beside != NULL)
		unlink(beside);
	free(beside);
	json_decref(root);
	return rc;
}

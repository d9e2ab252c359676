/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

void
ctrl_stats_read(struct ctrl_stats *stats, const struct ctrl_running *running)
{
	memset(stats, 0, sizeof(*stats));
	stats->config = running->config;
	ppe_stats_read(running->ppe, &stats->total);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];
		struct ctrl_stats_job *to = &stats->job[stats->nb_jobs];

		if (job == NULL)
			continue;
		strlcpy(to->name, job->job->name, sizeof(to->name));
		to->id = job->job->id;
		ctrl_running_job_stats(running, job, &to->count);
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
put(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void
put_pair(json_t *object, const char *key, const uint64_t values[2])
{
	json_t *pair = json_object();

	put(pair, "results", values[0]);
	put(pair, "bulk", values[1]);
	json_object_set_new(object, key, pair);
}

void
ctrl_put_packet_counters(json_t *object, const struct ppe_stats *total)
{
#define X(name, help) put(object, #name, total->name);
	PPE_PACKET_COUNTERS(X)
#undef X
	put(object, "dropped", ctrl_stats_dropped(total));
	put(object, "in_flight", total->in_flight);
}

void
ctrl_put_port_counters(json_t *object, const struct ppe_port_stats *port)
{
#define ONE(name, help)  put(object, #name, port->name);
#define EACH(name, help) put_pair(object, #name, port->name);
	PPE_PORT_COUNTERS(ONE, EACH)
#undef ONE
#undef EACH
}

void
ctrl_put_worker_counters(json_t *object, const struct ppe_worker_stats *worker)
{
#define X(name, help) put(object, #name, worker->name);
	PPE_WORKER_COUNTERS(X)
#undef X
}

void
ctrl_put_job_counters(json_t *object, const struct ppe_job_stats *job)
{
#define X(name, help) put(object, #name, job->name);
	PPE_JOB_COUNTERS(X)
#undef X
}

json_t *
ctrl_drops_json(const struct ppe_stats *total)
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		put(object, ppe_drop_key((enum ppe_drop)i), total->drops[i]);
	return object;
}

/* A new object in a list. */
static json_t *
append(json_t *list)
{
	json_t *object = json_object();

	json_array_append_new(list, object);
	return object;
}

static json_t *
whole(const struct ctrl_stats *stats)
{
	const struct ppe_stats *total = &stats->total;
	json_t *root = json_object(), *ports = json_array(), *workers = json_array();
	json_t *jobs = json_array(), *object;

	json_object_set_new(root, "name", json_string(stats->config->name));
	json_object_set_new(root, "version", json_string(WEIR_VERSION));
	ctrl_put_packet_counters(root, total);
	json_object_set_new(root, "balanced", json_boolean(ctrl_stats_off_by(total) == 0));
	put(root, "fdb_used", total->fdb_used);
	put(root, "blocks_used", total->blocks_used);
	json_object_set_new(root, "drops", ctrl_drops_json(total));
	for (unsigned int p = 0; p < total->nb_ports; p++) {
		object = append(ports);
		json_object_set_new(object, "name", json_string(stats->config->port[p].name));
		ctrl_put_port_counters(object, &total->port[p]);
	}
	json_object_set_new(root, "ports", ports);
	for (unsigned int w = 0; w < total->nb_workers; w++)
		ctrl_put_worker_counters(append(workers), &total->worker[w]);
	json_object_set_new(root, "workers", workers);
	for (unsigned int i = 0; i < stats->nb_jobs; i++) {
		const struct ppe_job_stats *job = &stats->job[i].count;

		object = append(jobs);
		put(object, "id", stats->job[i].id);
		json_object_set_new(object, "name", json_string(stats->job[i].name));
		put(object, "generation", job->generation);
		put(object, "blocks_in_flight", job->blocks_in_flight);
		put(object, "buffers_used", job->buffers_used);
		put(object, "buffers_reserved", job->buffers_reserved);
		ctrl_put_job_counters(object, job);
	}
	json_object_set_new(root, "jobs", jobs);
	if (stats->stopped) {
		object = json_object();
#define X(name, help) put(object, #name, stats->leaks.name);
		PPE_LEAKS(X)
#undef X
		json_object_set_new(root, "leaks", object);
	}
	return root;
}

/* " key value" of all numbers that are not 0. */
static void
print_numbers(json_t *object, const char *before, FILE *out)
{
	const char *key;
	json_t *value;

	json_object_foreach (object, key, value) {
		if (json_is_object(value))
			print_numbers(value, key, out);
		else if (json_integer_value(value) != 0)
			fprintf(out, " %s%s%s %" JSON_INTEGER_FORMAT, before,
				before[0] != '\0' ? "." : "", key, json_integer_value(value));
	}
}

static void
print_list(json_t *root, const char *key, const char *kind, FILE *out)
{
	json_t *list = json_object_get(root, key), *object;
	size_t i;

	json_array_foreach (list, i, object) {
		const char *name = json_string_value(json_object_get(object, "name"));

		if (name != NULL)
			fprintf(out, "%s %s:", kind, name);
		else
			fprintf(out, "%s %zu:", kind, i);
		print_numbers(object, "", out);
		fputc('\n', out);
	}
}

void
ctrl_stats_print(const struct ctrl_stats *stats, FILE *out)
{
	const struct ppe_stats *total = &stats->total;
	int64_t off = ctrl_stats_off_by(total);
	json_t *root = whole(stats);

	print_list(root, "ports", "port", out);
	print_list(root, "workers", "worker", out);
	print_list(root, "jobs", "job", out);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		if (total->drops[i] != 0)
			fprintf(out, "dropped %" PRIu64 " %s: %s\n", total->drops[i],
				ppe_drop_key((enum ppe_drop)i), ppe_drop_help((enum ppe_drop)i));
	fprintf(out,
		"received %" PRIu64 " + created %" PRIu64 " = sent %" PRIu64 " + consumed %" PRIu64
		" + dropped %" PRIu64 " + in flight %" PRIu64 ": ",
		total->received, total->created, total->sent, total->consumed,
		ctrl_stats_dropped(total), total->in_flight);
	if (off == 0)
		fputs("balanced\n", out);
	else
		fprintf(out, "OFF BY %" PRId64 "\n", off);
	json_decref(root);
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
		errno = ENOMEM; /* jansson sets errno for no other error of its own */
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

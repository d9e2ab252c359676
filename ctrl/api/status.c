/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/health, /v1/ready, /v1/status, /v1/ports, /v1/ports/{name}, /v1/counters, /v1/log */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/config/schema.h"
#include "ctrl/stats/stats.h"

void
api_get_health(struct api_call *call)
{
	const struct ctrl_snapshot *seen = call->seen;
	json_t *object;

	if (ctrl_snapshot_age(seen) > CTRL_SNAPSHOT_S)
		api_error(call, 503, "busy", NULL,
			"the control thread has been stuck for %.0f s: is its CPU taken by "
			"something else?",
			ctrl_snapshot_age(seen));
	else if (seen->stuck_worker >= 0)
		api_error(call, 503, "busy", NULL,
			"worker %d has been stuck for more than a second: is its CPU taken by "
			"something else?",
			seen->stuck_worker);
	if (call->answer.status != 0)
		return;
	object = json_object();
	API_HEALTH(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

void
api_get_ready(struct api_call *call)
{
	json_t *object;

	if (!call->seen->is_ready) {
		api_error(call, 503, "busy", NULL, "packets do not flow yet, or no more");
		return;
	}
	object = json_object();
	API_READY(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

static json_t *
workers_json(const struct ctrl_snapshot *seen)
{
	const struct ctrl_config *config = seen->config;
	json_t *list = ctrl_workers_json(&seen->stats);

	for (unsigned int w = 0; w < config->ppe.workers; w++) {
		json_t *object = json_array_get(list, w);

		API_WORKER(API_PUT, API_SKIP)
	}
	return list;
}

static json_t *
memory_json(const struct ctrl_snapshot *seen)
{
	json_t *object = json_object();
	uint64_t data = 0;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (seen->by_id[i] != NULL)
			data += seen->by_id[i]->data_memory;
	API_MEMORY(API_PUT, API_SKIP)
	for (unsigned int i = 0; seen->stats.statistic[i].what != NULL; i++) {
		const struct ppe_statistic *what = seen->stats.statistic[i].what;

		/* The largest number of a worker is not a total of the switch. */
		if (what->kind == PPE_STATISTIC_GAUGE && !what->is_largest)
			api_put(object, what->key, seen->stats.statistic[i].value);
	}
	return object;
}

static json_t *
pool_json(const struct ppe_pool_gauge *gauge)
{
	json_t *object = json_object();

	API_POOL(API_PUT, API_SKIP)
	return object;
}

static json_t *
pools_json(const struct ctrl_snapshot *seen)
{
	json_t *object = json_object();

	API_POOLS(API_PUT, API_SKIP)
	return object;
}

static json_t *
packets_json(const struct ctrl_snapshot *seen)
{
	json_t *object = json_object();

	ctrl_put_packet_counters(object, &seen->stats);
	API_PACKETS(API_PUT, API_SKIP)
	return object;
}

/* A summary; /v1/faults has the details. */
static json_t *
faults_json(const struct ctrl_snapshot *seen)
{
	const struct ppe_fault_stats *stats = &seen->fault_stats;
	json_t *object = json_object();
	uint64_t hit = 0;

	for (unsigned int i = 0; i < PPE_FAULT_RULES_MAX; i++)
		hit += stats->hit[i];
	API_FAULTS_BRIEF(API_PUT, API_SKIP)
	return object;
}

struct mac_text {
	char text[18];
};

static struct mac_text
mac_text(const uint8_t *m)
{
	struct mac_text mac;

	snprintf(mac.text, sizeof(mac.text), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2],
		m[3], m[4], m[5]);
	return mac;
}

void
api_get_status(struct api_call *call)
{
	const struct ctrl_snapshot *seen = call->seen;
	const struct pktbuf_identity *identity = &seen->config->ppe.identity;
	json_t *object = json_object();
	unsigned int jobs = 0;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		jobs += seen->by_id[i] != NULL;
	API_STATUS(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

static json_t *
queues_json(const struct pktbuf_port_config *config, const struct ctrl_port_snapshot *port)
{
	json_t *object = json_object();

	API_QUEUES(API_PUT, API_SKIP)
	return object;
}

static json_t *
port_json(const struct ctrl_snapshot *seen, unsigned int index)
{
	const struct pktbuf_port_config *config = &seen->config->port[index];
	const char *neighbor = seen->config->port_more[index].neighbor;
	const struct ctrl_port_snapshot *port = &seen->port[index];
	json_t *object = json_object();

	API_PORT(API_PUT, API_SKIP)
	ctrl_put_port_counters(object, &seen->stats.port[index]);
	return object;
}

void
api_get_ports(struct api_call *call)
{
	json_t *object = json_object(), *list = json_array();

	for (unsigned int p = 0; p < call->config->nb_ports; p++)
		json_array_append_new(list, port_json(call->seen, p));
	API_PORTS(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

void
api_get_port(struct api_call *call)
{
	for (unsigned int p = 0; p < call->config->nb_ports; p++)
		if (strcmp(call->config->port[p].name, call->parameter[0]) == 0) {
			api_answer(call, 200, port_json(call->seen, p));
			return;
		}
	api_error(
		call, 404, "unknown_path", NULL, "no port is called \"%.64s\"", call->parameter[0]);
}

static json_t *
job_counters_json(const struct ctrl_config *config, const struct ctrl_job_snapshot *job)
{
	json_t *object = json_object();

	(void)config;
	API_JOB_COUNTERS(API_PUT, API_SKIP)
	ctrl_put_job_counters(object, &job->stats);
	return object;
}

void
api_get_counters(struct api_call *call)
{
	const struct ctrl_snapshot *seen = call->seen;
	json_t *object = json_object(), *packets = json_object();
	json_t *workers = ctrl_workers_json(&seen->stats), *worker;
	size_t id;

	json_array_foreach (workers, id, worker)
		api_put(worker, "id", id);
	ctrl_put_packet_counters(packets, &seen->stats);
	json_object_del(packets, "in_flight"); /* a gauge */
	API_COUNTERS(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

void
api_get_log(struct api_call *call)
{
	bool is_after = json_object_get(call->query, "after") != NULL;
	uint64_t asked = is_after ? api_query_number(call, "after") + 1 : 0, number = asked;
	json_t *object = json_object(), *lines = json_array();
	uint64_t missed = 0;
	char line[CTRL_LOG_LINE_BYTES];

	while (ctrl_log_read(&number, line)) {
		if (json_array_size(lines) == 0 && is_after && number > asked)
			missed = number - asked;
		json_array_append_new(lines, json_string(line));
		number++;
	}
	API_LOG(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

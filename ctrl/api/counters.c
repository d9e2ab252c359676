/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/counters: all counters, with their names. */
#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"
#include "ctrl/stats/stats.h"

static json_t *
ports(const struct ctrl_running *running)
{
	json_t *list = json_array();

	for (unsigned int p = 0; p < running->config->nb_ports; p++) {
		json_t *object = json_object();

		api_put_text(object, "name", running->config->port[p].name);
		ctrl_put_port_counters(object, &running->stats.port[p]);
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *
workers(const struct ctrl_running *running)
{
	json_t *list = json_array();

	for (unsigned int w = 0; w < running->config->ppe.workers; w++) {
		json_t *object = json_object();

		api_put(object, "id", w);
		ctrl_put_worker_counters(object, &running->stats.worker[w]);
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *
jobs(const struct api_call *call)
{
	const struct ctrl_running *running = call->running;
	json_t *list = json_array();

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];
		struct ppe_job_stats stats;
		json_t *object;

		if (job == NULL || !api_owns(&running->config->api, call->caller, job->tenant))
			continue;
		ctrl_running_job_stats(running, job, &stats);
		object = json_object();
		api_put(object, "id", i);
		api_put_text(object, "name", job->job->name);
		ctrl_put_job_counters(object, &stats);
		json_array_append_new(list, object);
	}
	return list;
}

void
api_get_counters(struct api_call *call)
{
	struct ctrl_running *running = call->running;
	json_t *packets = json_object();

	ctrl_running_read(running);
	ctrl_put_packet_counters(packets, &running->stats);
	json_object_del(packets, "in_flight"); /* a gauge */
	api_answer(call, 200,
		json_pack("{s:f,s:o,s:o,s:o,s:o,s:o}", "time", ctrl_unix_time(), "packets", packets,
			"drops", ctrl_drops_json(&running->stats), "workers", workers(running),
			"ports", ports(running), "jobs", jobs(call)));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/counters */
#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"

static json_t *
drops(const struct ppe_stats *stats)
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		api_put(object, ppe_drop_key((enum ppe_drop)i), stats->drops[i]);
	return object;
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
		api_put(object, "job", i);
		api_put_text(object, "name", job->job->name);
		api_put_job_counters(object, &stats);
		json_array_append_new(list, object);
	}
	return list;
}

void
api_get_counters(struct api_call *call)
{
	struct ctrl_running *running = call->running;
	struct ppe_gauges gauges;

	ctrl_running_read(running);
	ppe_gauges_read(running->ppe, &gauges);
	api_answer(call, 200,
		json_pack("{s:f,s:o,s:o,s:o,s:o}", "time", ctrl_unix_time(), "drops",
			drops(&running->stats), "workers", api_workers_json(running, &gauges),
			"ports", api_ports_json(running), "jobs", jobs(call)));
}

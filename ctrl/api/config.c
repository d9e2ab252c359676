/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/config, /v1/tenants */
#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"
#include "ctrl/config_json.h"

void
api_get_config(struct api_call *call)
{
	api_answer(call, 200, ctrl_config_json(call->running->config));
}

static json_t *
quota_json(const struct ctrl_quota *quota)
{
	json_t *object = json_object();

	api_put(object, "jobs", quota->jobs);
	api_put(object, "memory_mb", quota->memory_mb);
	api_put(object, "blocks", quota->blocks);
	api_put(object, "rate_mbit", quota->rate_mbit);
	return object;
}

/* Buffers that the tenant's jobs have reserved, header lines included. */
static uint64_t
memory_of(const struct ppe_job *job)
{
	uint64_t bytes = (ppe_job_buffer_bytes(job) + 63u) & ~63u;

	return 2ul * job->window * (bytes + 64);
}

static json_t *
tenant_json(const struct ctrl_running *running, const struct ctrl_tenant *tenant)
{
	json_t *object = json_object();
	uint64_t jobs = 0, memory = 0, blocks = 0;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];
		struct ppe_job_stats stats;

		if (job == NULL || job->tenant != tenant)
			continue;
		ctrl_running_job_stats(running, job, &stats);
		jobs++;
		memory += memory_of(job->job);
		blocks += stats.blocks_in_flight;
	}
	api_put_text(object, "name", tenant->name);
	json_object_set_new(object, "admin", json_boolean(tenant->admin));
	api_put(object, "jobs", jobs);
	api_put(object, "memory", memory);
	api_put(object, "blocks", blocks);
	api_put(object, "rate_mbit", tenant->quota.rate_mbit);
	json_object_set_new(object, "quota", quota_json(&tenant->quota));
	return object;
}

void
api_get_tenants(struct api_call *call)
{
	const struct ctrl_api *api = &call->running->config->api;
	json_t *list = json_array();

	for (unsigned int i = 0; i < api->nb_tenants; i++)
		json_array_append_new(list, tenant_json(call->running, &api->tenant[i]));
	api_answer(call, 200, json_pack("{s:o}", "tenants", list));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/config, /v1/tenants */
#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"
#include "ctrl/config/config.h"
#include "ctrl/jobs/tenants.h"

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
	api_put(object, "changes_per_s", quota->changes_per_s);
	api_put(object, "changes_burst", quota->changes_burst);
	return object;
}

static json_t *
tenant_json(const struct ctrl_running *running, const struct ctrl_tenant *tenant)
{
	json_t *object = json_object();
	struct ctrl_use use;

	ctrl_tenant_use(running, tenant, &use);
	api_put_text(object, "name", tenant->name);
	json_object_set_new(object, "admin", json_boolean(tenant->admin));
	api_put(object, "jobs", use.jobs);
	api_put(object, "memory", use.memory);
	api_put(object, "blocks", use.blocks);
	api_put(object, "rate_mbit", use.rate_mbit);
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

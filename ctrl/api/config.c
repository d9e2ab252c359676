/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/config, /v1/tenants; POST /v1/reload, which reloads as SIGHUP does and answers with the
 * outcome. */
#include <stdlib.h>

#include <bsd/string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/config/config.h"
#include "ctrl/config/keys.h"

void
api_get_config(struct api_call *call)
{
	api_answer(call, 200, ctrl_config_json(call->config));
}

static json_t *
tenant_json(const struct ctrl_tenant *tenant, const struct ctrl_use *use)
{
	json_t *object = json_object(), *quota = json_object();

	ctrl_keys_put("api.tenants[].quota", tenant, quota);
	API_TENANT(API_PUT, API_SKIP)
	return object;
}

void
api_get_tenants(struct api_call *call)
{
	const struct ctrl_api *api = &call->config->api;
	json_t *object = json_object(), *list = json_array();

	for (unsigned int i = 0; i < api->nb_tenants; i++)
		json_array_append_new(list, tenant_json(&api->tenant[i], &call->seen->use[i]));
	API_TENANTS(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

#define LOOK_MS 2

/* Only note the request: a reload frees data that requests use, so the loop does it between
 * requests. */
static void
ask_reload(struct api_call *call, struct ctrl_reloading *reloading)
{
	uint32_t *number = malloc(sizeof(*number));

	if (number == NULL) {
		api_error_memory(call);
		return;
	}
	/* A pending reload will read the same file. */
	if (reloading->asked == reloading->done) {
		reloading->asked++;
		strlcpy(reloading->who, call->caller->name, sizeof(reloading->who));
	}
	*number = reloading->asked;
	call->context = number;
	call->context_free = free;
	api_wait(call, LOOK_MS);
}

static void
answer_reload(struct api_call *call, const struct ctrl_reloading *reloading)
{
	const struct ctrl_reloaded *did = &reloading->did;
	json_t *object;

	if (reloading->refused[0] != '\0') {
		api_error(call, 409, "conflict", NULL, "%s", reloading->refused);
		return;
	}
	object = json_object();
	API_RELOADED(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

void
api_reload(struct api_call *call)
{
	struct ctrl_reloading *reloading =
		&call->running->reloading[call->is_dry_run ? CTRL_DRY : CTRL_REAL];
	const uint32_t *number = call->context;

	if (number == NULL)
		ask_reload(call, reloading);
	else if ((int32_t)(reloading->done - *number) < 0)
		api_wait(call, LOOK_MS);
	else
		answer_reload(call, reloading);
}

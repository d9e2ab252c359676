/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v1/reload: as SIGHUP; the answer is the result. */
#include <stdlib.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"

#define LOOK_MS 2

/* Only note the request: a reload frees data that requests use, so the loop does it between requests. */
static void
ask(struct api_call *call)
{
	struct ctrl_reloading *reloading = &call->running->reloading;
	uint32_t *number = malloc(sizeof(*number));

	if (number == NULL) {
		api_error_memory(call);
		return;
	}
	/* A pending reload will read the same file. */
	if (reloading->asked == reloading->done) {
		reloading->asked++;
		reloading->who = api_who(call);
	}
	*number = reloading->asked;
	call->context = number;
	call->context_free = free;
	api_wait(call, LOOK_MS);
}

static void
answer(struct api_call *call)
{
	const struct ctrl_reloading *reloading = &call->running->reloading;
	json_t *object;

	if (reloading->refused[0] != '\0') {
		api_error(call, 409, "conflict", NULL, "%s", reloading->refused);
		return;
	}
	object = json_object();
	api_put(object, "jobs_created", reloading->did.created);
	api_put(object, "jobs_changed", reloading->did.changed);
	api_put(object, "jobs_replaced", reloading->did.replaced);
	api_put(object, "jobs_deleted", reloading->did.deleted);
	api_put(object, "tenants", call->running->config->api.nb_tenants);
	api_put_text(object, "certificate", reloading->did.certificate ? "new" : "same");
	api_answer(call, 200, object);
}

void
api_post_reload(struct api_call *call)
{
	const uint32_t *number = call->context;

	if (call->body != NULL)
		api_error(call, 400, "unknown_key", NULL, "this request takes no body");
	else if (number == NULL)
		ask(call);
	else if ((int32_t)(call->running->reloading.done - *number) < 0)
		api_wait(call, LOOK_MS);
	else
		answer(call);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that list jobs, in steps of one job. */
#include <inttypes.h>

#include "ctrl/api/jobs.h"

bool
api_list_begin(struct api_call *call, struct api_list *list, api_list_maker make, bool leaving)
{
	uint64_t after;

	if (!api_query_number(call, "after", 0, WEIR_JOBS_MAX - 1, UINT64_MAX, &after) ||
		!api_query_number(call, "limit", 1, WEIR_JOBS_MAX, WEIR_JOBS_MAX, &list->room))
		return false;
	list->make = make;
	list->leaving = leaving;
	list->id = after == UINT64_MAX ? 0 : (unsigned int)after + 1;
	list->comma = "";
	return true;
}

static void
put(struct api_call *call, struct api_list *list, const struct ctrl_job *job)
{
	api_text_put(&call->text, list->comma);
	api_text_put_object(&call->text, list->make(call->running, job), 0);
	list->comma = ",";
}

/* Leaving jobs are few, so the last page has all of them. */
static void
end(struct api_call *call, struct api_list *list, bool more)
{
	const struct ctrl_job *job = list->leaving && !more ? call->running->leaving : NULL;

	for (; job != NULL; job = job->leaving_next)
		if (api_may_see(call, job))
			put(call, list, job);
	if (more) {
		api_text_put(&call->text, "],\"next\":");
		api_text_put_number(&call->text, list->last, 0);
		api_text_put(&call->text, "}\n");
	} else {
		api_text_put(&call->text, "]}\n");
	}
	api_answer_text(call, "application/json");
}

bool
api_list_step(struct api_call *call, void *context)
{
	struct api_list *list = context;
	unsigned int id = list->id++;
	bool all = id >= WEIR_JOBS_MAX;
	const struct ctrl_job *job = all ? NULL : call->running->by_id[id];

	if (!all && !api_may_see(call, job))
		return true;
	if (all || list->room-- == 0) {
		end(call, list, !all);
		return false;
	}
	put(call, list, job);
	list->last = id;
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/jobs, /v1/jobs/{name} */
#include "ctrl/api/jobs.h"

#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/member.h"
#include "ctrl/api/resources.h"
#include "ctrl/config/values.h"
#include "ctrl/stats/stats.h"
#include "rmw/kernels.h"

static void
put_shape(json_t *object, const struct ppe_job *job)
{
	api_put(object, "window", job->window);
	api_put(object, "elements", job->elements);
	api_put_text(object, "type", rmw_type_name(job->dtype));
	api_put_text(object, "op", rmw_op_name(job->op));
	json_object_set_new(object, "deterministic", json_boolean(job->deterministic));
	api_put_text(object, "policy", api_policy_text(job->policy));
	api_put(object, "timeout_ms", job->timeout_ms);
	api_put(object, "dead_after_ms", job->dead_after_ms);
	api_put_text(object, "rejoin", job->revoke ? "revoke" : "wait");
	api_put_text(object, "results",
		job->group == 0 ? "unicast" : ctrl_address_text(job->group).text);
}

static void
put_state(json_t *object, const struct ppe_job_stats *stats)
{
	json_t *buffers = json_object(), *latency = json_object();
	uint64_t blocks = 0;

	api_put(object, "blocks_in_flight", stats->blocks_in_flight);
	api_put(buffers, "used", stats->buffers_used);
	api_put(buffers, "reserved", stats->buffers_reserved);
	json_object_set_new(object, "buffers", buffers);
	for (unsigned int i = 0; i < PPE_BUCKETS; i++)
		blocks += stats->latency.bucket[i];
	api_put(latency, "blocks", blocks);
	json_object_set_new(latency, "seconds", json_real((double)stats->latency.sum_us / 1e6));
	json_object_set_new(object, "latency", latency);
}

bool
api_has_rank(const struct ctrl_job *job, unsigned int rank)
{
	return job->member == NULL ? ppe_job_has(job->job, (uint8_t)rank)
				   : rank < job->job->nb_sources;
}

/* Who is expected, and who is in. */
static json_t *
members(const struct ctrl_running *running, const struct ctrl_job *job,
	const struct ctrl_membership *membership)
{
	uint64_t waits_us[WEIR_SOURCES_MAX] = {0};
	json_t *list = json_array();

	if (!membership->abandoned)
		api_read_waits(running, job, waits_us);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (api_has_rank(job, s))
			json_array_append_new(
				list, api_member_json(running, job, membership, s, waits_us[s]));
	return list;
}

json_t *
api_job_json(const struct ctrl_running *running, const struct ctrl_job *job, bool whole)
{
	const struct ppe_job *shape = job->job;
	json_t *object = json_object(), *counters = json_object();
	struct ctrl_membership membership;
	struct ppe_job_stats stats;

	ctrl_running_job_stats(running, job, &stats);
	ctrl_membership_of(running, job, &stats, &membership);
	api_put(object, "id", shape->id);
	api_put_text(object, "name", shape->name);
	api_put_text(object, "tenant", job->tenant == NULL ? NULL : job->tenant->name);
	api_put_text(object, "origin", job->from_file ? "file" : "api");
	api_put(object, "size", shape->nb_sources);
	api_put(object, "joined", membership.joined);
	api_put(object, "generation", stats.generation);
	put_shape(object, shape);
	api_put(object, "expire_s", job->expire_s);
	api_put(object, "rate_mbit", shape->rate_mbit);
	json_object_set_new(object, "authenticated", json_boolean(shape->authenticated));
	api_put_text(object, "state", ctrl_job_state_text(membership.state));
	put_state(object, &stats);
	json_object_set_new(object, "created", json_real(job->created));
	ctrl_put_job_counters(counters, &stats);
	json_object_set_new(object, "counters", counters);
	if (whole && membership.state != CTRL_JOB_DRAINING)
		json_object_set_new(object, "members", members(running, job, &membership));
	return object;
}

static bool
may_see(const struct api_call *call, const struct ctrl_job *job)
{
	return api_owns(&call->running->config->api, call->caller, job->tenant);
}

void
api_get_jobs(struct api_call *call)
{
	const struct ctrl_running *running = call->running;
	json_t *list = json_array();

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];

		if (job != NULL && may_see(call, job))
			json_array_append_new(list, api_job_json(running, job, false));
	}
	for (const struct ctrl_job *job = running->leaving; job != NULL; job = job->leaving_next)
		if (may_see(call, job))
			json_array_append_new(list, api_job_json(running, job, false));
	api_answer(call, 200, json_pack("{s:o}", "jobs", list));
}

const struct ctrl_job *
api_find_leaving(const struct api_call *call)
{
	const struct ctrl_job *job = call->running->leaving;

	while (job != NULL &&
		(strcmp(job->job->name, call->parameter[0]) != 0 || !may_see(call, job)))
		job = job->leaving_next;
	return job;
}

/* Others' jobs are not there for a tenant: a name in use elsewhere is nobody's business. */
struct ctrl_job *
api_find_job(struct api_call *call)
{
	struct ctrl_job *job = ctrl_running_find_job(call->running, call->parameter[0]);

	if (job != NULL && may_see(call, job))
		return job;
	api_error(call, 404, "unknown_job", NULL, "no job is called \"%.64s\"", call->parameter[0]);
	return NULL;
}

void
api_get_job(struct api_call *call)
{
	const struct ctrl_job *job = api_find_job(call);

	if (job == NULL)
		job = api_find_leaving(call);
	if (job != NULL)
		api_answer(call, 200, api_job_json(call->running, job, true));
}

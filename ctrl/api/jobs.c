/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/jobs, /v1/jobs/{name} */
#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"
#include "ctrl/values.h"

static void
put_shape(json_t *object, const struct ppe_job *job)
{
	api_put(object, "window", job->window);
	api_put(object, "elements", job->elements);
	api_put_text(object, "type", job->dtype == WEIR_DTYPE_INT32 ? "int32" : "fp32");
	api_put_text(object, "op", "sum");
	api_put_text(object, "policy", api_policy_text(job->policy));
	api_put(object, "timeout_ms", job->timeout_ms);
	api_put_text(object, "results",
		job->group == 0 ? "unicast" : ctrl_address_text(job->group).text);
}

static void
put_state(json_t *object, const struct ppe_job_stats *stats)
{
	json_t *buffers = json_object();

	api_put(object, "blocks_in_flight", stats->blocks_in_flight);
	api_put(buffers, "used", stats->buffers_used);
	api_put(buffers, "reserved", stats->buffers_reserved);
	json_object_set_new(object, "buffers", buffers);
}

/* A source: who it is, where it is, when it was last heard, and how long blocks waited for it. */
static json_t *
member(const struct ctrl_running *running, const struct ppe_job *job, uint8_t rank)
{
	json_t *object = json_object();
	struct ppe_source_stats source;
	bool joined;

	ppe_source_stats_read(running->ppe, job->id, rank, &source);
	joined = source.placed || job->fixed_generation != 0;
	api_put(object, "rank", rank);
	api_put_text(object, "address", ctrl_address_text(job->address[rank]).text);
	api_put_text(
		object, "port", source.placed ? running->config->port[source.port].name : NULL);
	json_object_set_new(object, "udp", source.placed ? json_integer(source.udp) : json_null());
	json_object_set_new(object, "joined", json_null());
	json_object_set_new(object, "last_heard",
		source.heard ? json_real((double)source.silent_us / 1e6) : json_null());
	json_object_set_new(object, "waited", json_real((double)source.waited_us / 1e6));
	api_put(object, "last", source.last);
	api_put_text(object, "state", joined ? "joined" : "expected");
	return object;
}

static json_t *
members(const struct ctrl_running *running, const struct ppe_job *job)
{
	json_t *list = json_array();

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (ppe_job_has(job, (uint8_t)s))
			json_array_append_new(list, member(running, job, (uint8_t)s));
	return list;
}

static json_t *
job_json(const struct ctrl_running *running, const struct ctrl_job *job, bool whole)
{
	const struct ppe_job *shape = job->job;
	json_t *object = json_object(), *counters = json_object();
	struct ppe_job_stats stats;
	bool joined;

	ctrl_running_job_stats(running, job, &stats);
	/* A generation begins when all have joined. */
	joined = shape->fixed_generation != 0 || stats.generations > 0;
	api_put(object, "id", shape->id);
	api_put_text(object, "name", shape->name);
	api_put_text(object, "tenant", job->tenant == NULL ? NULL : job->tenant->name);
	api_put_text(object, "origin", job->from_file ? "file" : "api");
	api_put(object, "size", shape->nb_sources);
	api_put(object, "joined", joined ? shape->nb_sources : 0);
	api_put(object, "generation", stats.generation);
	put_shape(object, shape);
	api_put_text(object, "state", joined ? "running" : "joining");
	put_state(object, &stats);
	json_object_set_new(object, "created", json_real(job->created));
	api_put_job_counters(counters, &stats);
	json_object_set_new(object, "counters", counters);
	if (whole)
		json_object_set_new(object, "members", members(running, shape));
	return object;
}

void
api_get_jobs(struct api_call *call)
{
	const struct ctrl_running *running = call->running;
	json_t *list = json_array();

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];

		if (job != NULL && api_owns(&running->config->api, call->caller, job->tenant))
			json_array_append_new(list, job_json(running, job, false));
	}
	api_answer(call, 200, json_pack("{s:o}", "jobs", list));
}

/* Others' jobs are not there for a tenant: a name in use elsewhere is nobody's business. */
void
api_get_job(struct api_call *call)
{
	struct ctrl_running *running = call->running;
	const struct ctrl_job *job = ctrl_running_find_job(running, call->parameter[0]);

	if (job == NULL || !api_owns(&running->config->api, call->caller, job->tenant)) {
		api_error(call, 404, "unknown_job", NULL, "no job is called \"%.64s\"",
			call->parameter[0]);
		return;
	}
	api_answer(call, 200, job_json(running, job, true));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* GET and POST /v1/jobs; GET, PATCH and DELETE /v1/jobs/{name} */
#include "ctrl/api/jobs.h"

#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <rte_common.h>

#include "ctrl/api/call.h"
#include "ctrl/stats/stats.h"

/* clang-format off */
#define X(key, where, change, kind, field, ...) CTRL_API_##where({.path = #key, CTRL_##kind, __VA_ARGS__},)
static const struct ctrl_key new_keys[] = {
	CTRL_JOB_IDENTITY("", NULL, "")
	CTRL_JOB_SETTINGS(X)
};
#undef X

#define X(key, where, change, kind, field, ...) CTRL_CHANGE_##change({.path = #key, CTRL_##kind, __VA_ARGS__},)
static const struct ctrl_key change_keys[] = {CTRL_JOB_SETTINGS(X)};
#undef X
/* clang-format on */

static const struct ctrl_schema new_schema = {new_keys, RTE_DIM(new_keys)};
static const struct ctrl_schema change_schema = {change_keys, RTE_DIM(change_keys)};

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
	json_object_set_new(latency, "seconds", json_real((double)stats->latency.sum_ns / 1e9));
	json_object_set_new(object, "latency", latency);
}

/* -- members */

static const char *
state_text(const struct ctrl_job *job, const struct ctrl_membership *membership, unsigned int rank)
{
	if (ctrl_membership_has(membership, rank))
		return "joined";
	if (job->member == NULL)
		return "expected";
	switch (job->member[rank].state) {
	case CTRL_MEMBER_EXPIRED: return "expired";
	case CTRL_MEMBER_LEFT: return "left";
	case CTRL_MEMBER_EXPECTED:
	case CTRL_MEMBER_JOINED: break;
	}
	return "expected";
}

static void
put_or_null(json_t *object, const char *key, bool there, double value)
{
	json_object_set_new(object, key, there ? json_real(value) : json_null());
}

bool
api_silence(const struct ctrl_job *job, unsigned int rank, const struct ppe_source_stats *source,
	double *silent)
{
	const struct ctrl_member *member = job->member == NULL ? NULL : &job->member[rank];

	if (source->heard) {
		*silent = (double)source->silent_us / 1e6;
		return true;
	}
	if (member == NULL || member->heard <= 0)
		return false;
	*silent = ctrl_monotonic() - member->heard;
	return true;
}

bool
api_is_gone(const struct ctrl_job *job, unsigned int rank)
{
	return job->member != NULL &&
		(job->member[rank].state == CTRL_MEMBER_EXPIRED ||
			job->member[rank].state == CTRL_MEMBER_LEFT);
}

void
api_put_presence(json_t *object, const struct ctrl_job *job,
	const struct ctrl_membership *membership, unsigned int rank,
	const struct ppe_source_stats *source)
{
	const struct ctrl_member *member = job->member == NULL ? NULL : &job->member[rank];
	uint32_t address = member == NULL ? job->job->address[rank] : member->address;
	double silent = 0;
	bool heard = api_silence(job, rank, source, &silent);

	api_put(object, "rank", rank);
	api_put_text(object, "address", address == 0 ? NULL : ctrl_address_text(address).text);
	put_or_null(object, "last_heard", heard, silent);
	api_put_text(object, "state", state_text(job, membership, rank));
	put_or_null(object, "gone", api_is_gone(job, rank) && member->gone > 0,
		member == NULL ? 0 : ctrl_monotonic() - member->gone);
	put_or_null(object, "asks", source->joining, (double)source->joining_us / 1e6);
	json_object_set_new(object, "contested", json_boolean(source->contested));
}

json_t *
api_member_json(const struct ctrl_running *running, const struct ctrl_job *job,
	const struct ctrl_membership *membership, unsigned int rank, uint64_t waits_us)
{
	const struct ctrl_member *member = job->member == NULL ? NULL : &job->member[rank];
	json_t *object = json_object();
	struct ppe_source_stats s = {0};

	ppe_source_stats_read(running->ppe, job->job->id, (uint8_t)rank, &s);
	api_put_presence(object, job, membership, rank, &s);
	api_put_text(object, "port", s.located ? running->config->port[s.port].name : NULL);
	json_object_set_new(object, "udp", s.located ? json_integer(s.udp) : json_null());
	put_or_null(object, "joined", member != NULL && member->joined > 0,
		member == NULL ? 0 : member->joined);
	json_object_set_new(object, "waited", json_real((double)s.waited_us / 1e6));
	json_object_set_new(object, "waiting", json_real((double)waits_us / 1e6));
	api_put(object, "last", s.last);
	return object;
}

void
api_read_waits(const struct ctrl_running *running, const struct ctrl_job *job,
	uint64_t waits_us[WEIR_SOURCES_MAX])
{
	unsigned int most = 2u * job->job->window;
	struct ppe_block_info *block = calloc(most, sizeof(*block));
	int n = block == NULL ? 0
			      : ppe_blocks_read(running->ppe, job->job->id, true, 0, block, most);

	/* Blocks overlap: a source's wait is its longest one. */
	for (int i = 0; i < n && i < (int)most; i++)
		for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
			if ((block[i].heard[s / 64] >> (s % 64) & 1) == 0 &&
				block[i].idle_us > waits_us[s])
				waits_us[s] = block[i].idle_us;
	free(block);
}

bool
api_has_rank(const struct ctrl_job *job, unsigned int rank)
{
	return job->member == NULL ? ppe_job_has(job->job, (uint8_t)rank)
				   : rank < job->job->nb_sources;
}

/* The members: expected, present and gone. */
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
	struct ctrl_job_spec spec = ctrl_job_spec_of(shape, job->expire_s);
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
	ctrl_settings_put(object, &spec);
	api_put(object, "element_bytes", weir_dtype_bytes(shape->dtype));
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

/* For a tenant, other tenants' jobs do not exist. */
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

/* -- changes */

struct ctrl_log_who
api_who(const struct api_call *call)
{
	struct ctrl_log_who who;

	strlcpy(who.text, call->caller->name, sizeof(who.text));
	return who;
}

static json_t *
room_json(uint64_t memory, uint32_t blocks)
{
	json_t *object = json_object();

	api_put(object, "memory", memory);
	api_put(object, "blocks", blocks);
	return object;
}

void
api_answer_refusal(struct api_call *call, const struct ctrl_refusal *why, const char *prefix)
{
	static const struct {
		unsigned int status;
		const char *code;
	} answers[] = {
#define X(name, code, status) {status, code},
		CTRL_REFUSALS(X)
#undef X
	};
	struct ctrl_path key = ctrl_path(
		"%s%s%s", prefix == NULL ? "" : prefix, prefix == NULL ? "" : ".", why->key);

	api_error(call, answers[why->code].status, answers[why->code].code,
		why->key[0] == '\0' ? prefix : key.text, "%s", why->message);
	if (why->code != CTRL_REFUSED_MEMORY)
		return;
	api_error_more(call, "free", room_json(why->room.memory_free, why->room.records_free));
	api_error_more(
		call, "needed", room_json(why->room.memory_needed, why->room.records_needed));
}

struct ctrl_job_spec
api_read_spec(const json_t *object, const char *name, unsigned int size)
{
	struct ctrl_job_spec spec = ctrl_job_spec_default();
	const json_t *value;

	ctrl_settings_read(object, &spec);
	value = json_object_get(object, "name");
	strlcpy(spec.shape.name, value == NULL ? name : json_string_value(value),
		sizeof(spec.shape.name));
	value = json_object_get(object, "size");
	spec.shape.nb_sources =
		(uint16_t)(value == NULL ? (json_int_t)size : json_integer_value(value));
	value = json_object_get(object, "id");
	spec.id = value == NULL ? -1 : (int)json_integer_value(value);
	return spec;
}

bool
api_may_id(struct api_call *call, const json_t *object, const char *prefix)
{
	if (call->caller->admin || json_object_get(object, "id") == NULL)
		return true;
	api_error(call, 403, "forbidden",
		ctrl_path("%s%sid", prefix == NULL ? "" : prefix, prefix == NULL ? "" : ".").text,
		"only an administrator gives a job its id: leave \"id\" out for the lowest free "
		"one");
	return false;
}

/* A new job belongs to the caller's tenant. A job of an administrator without a token has no owner. */
void
api_post_jobs(struct api_call *call)
{
	struct ctrl_log_who who = api_who(call);
	struct ctrl_job_spec spec;
	struct ctrl_refusal why;
	struct ctrl_job *job;

	if (!api_body_check(call, &new_schema) || !api_may_id(call, call->body, NULL))
		return;
	spec = api_read_spec(call->body, "", 0);
	if (ctrl_job_create(call->running, &spec, call->caller->tenant, &who, &job, &why) < 0) {
		api_answer_refusal(call, &why, NULL);
		return;
	}
	api_answer(call, 201, api_job_json(call->running, job, true));
	api_header(call, "Location", "/v1/jobs/%s", job->job->name);
}

void
api_patch_job(struct api_call *call)
{
	struct ctrl_job *job = api_find_job(call);
	struct ctrl_log_who who = api_who(call);
	struct ctrl_job_spec next;
	struct ctrl_refusal why;

	if (job == NULL || !api_body_check(call, &change_schema))
		return;
	next = ctrl_job_spec_of(job->job, job->expire_s);
	ctrl_settings_read(call->body, &next);
	if (ctrl_job_change(call->running, job, &next, &who, &why) < 0)
		api_answer_refusal(call, &why, NULL);
	else
		api_answer(call, 200, api_job_json(call->running, job, true));
}

static void
answer_state(struct api_call *call, bool leaving)
{
	api_answer(call, leaving ? 202 : 200,
		json_pack("{s:s}", "state", leaving ? "draining" : "gone"));
}

void
api_delete_job(struct api_call *call)
{
	struct ctrl_job *job = api_find_job(call);
	struct ctrl_log_who who = api_who(call);
	struct ctrl_refusal why;
	bool leaving;

	if (job == NULL) {
		if (api_find_leaving(call) != NULL)
			answer_state(call, true);
		return;
	}
	if (ctrl_job_delete(call->running, job, &who, &leaving, &why) < 0)
		api_answer_refusal(call, &why, NULL);
	else
		answer_state(call, leaving);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v1/jobs, PATCH and DELETE /v1/jobs/{name} */
#include <stdio.h>

#include <bsd/string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"
#include "ctrl/config/refuse.h"
#include "ctrl/config/values.h"

#define POLICIES "wait|partial|error"
#define REJOINS  "wait|revoke"

#define WINDOW   64
#define ELEMENTS 256
#define TIMEOUT  1000
#define DEAD     10000

#define CHANGEABLE                                                                                 \
	{.key = "policy", .kind = API_WORD, .words = POLICIES},                                    \
		{.key = "timeout_ms", .kind = API_INTEGER, .min = 1, .max = 60000},                \
		{.key = "rate_mbit", .kind = API_INTEGER, .min = 0, .max = 1000000},               \
		{.key = "dead_after_ms", .kind = API_INTEGER, .min = 0, .max = 3600000},           \
		{.key = "rejoin", .kind = API_WORD, .words = REJOINS},                             \
	{                                                                                          \
		.key = "expire_s", .kind = API_INTEGER, .min = 0, .max = 1000000                   \
	}

#define NEW_JOB(must)                                                                              \
	{.key = "name",                                                                            \
		.kind = API_NAME,                                                                  \
		.required = must,                                                                  \
		.min = 1,                                                                          \
		.max = PPE_JOB_NAME_MAX - 1},                                                      \
		{.key = "size",                                                                    \
			.kind = API_INTEGER,                                                       \
			.required = must,                                                          \
			.min = 1,                                                                  \
			.max = WEIR_SOURCES_MAX},                                                  \
		{.key = "window", .kind = API_POWER, .min = 1, .max = PPE_WINDOW_MAX},             \
		{.key = "elements", .kind = API_INTEGER, .min = 1, .max = WEIR_ELEMENTS_MAX},      \
		{.key = "type", .kind = API_WORD, .words = CTRL_TYPES},                            \
		{.key = "op", .kind = API_WORD, .words = CTRL_OPS},                                \
		{.key = "deterministic", .kind = API_BOOLEAN},                                     \
		{.key = "results", .kind = API_RESULTS},                                           \
		{.key = "id", .kind = API_INTEGER, .min = 0, .max = WEIR_JOBS_MAX - 1},            \
	{                                                                                          \
		.key = "authenticate", .kind = API_BOOLEAN                                         \
	}

const struct api_field api_new_job[] = {NEW_JOB(true), CHANGEABLE, {.key = NULL}};
const struct api_field api_create_job[] = {NEW_JOB(false), CHANGEABLE, {.key = NULL}};

static const struct api_field changeable[] = {CHANGEABLE, {.key = NULL}};

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

void
api_read_spec(const json_t *object, const char *name, unsigned int size, struct ctrl_job_spec *spec)
{
	struct ppe_job *shape = &spec->shape;

	*spec = (struct ctrl_job_spec){.id = (int)api_integer(object, "id", -1),
		.expire_s = (uint32_t)api_integer(object, "expire_s", 0)};
	strlcpy(shape->name, api_text(object, "name", name), sizeof(shape->name));
	shape->nb_sources = (uint16_t)api_integer(object, "size", size);
	shape->window = (uint16_t)api_integer(object, "window", WINDOW);
	shape->elements = (uint16_t)api_integer(object, "elements", ELEMENTS);
	shape->rate_mbit = (uint32_t)api_integer(object, "rate_mbit", 0);
	shape->dead_after_ms = (uint32_t)api_integer(object, "dead_after_ms", DEAD);
	shape->timeout_ms = (uint32_t)api_integer(object, "timeout_ms", TIMEOUT);
	shape->policy = (uint8_t)ctrl_parse_word(POLICIES, api_text(object, "policy", "wait"));
	shape->revoke = ctrl_parse_word(REJOINS, api_text(object, "rejoin", "wait")) != 0;
	shape->dtype = (uint8_t)ctrl_parse_word(CTRL_TYPES, api_text(object, "type", "fp32"));
	shape->op = (uint8_t)ctrl_parse_word(CTRL_OPS, api_text(object, "op", "sum"));
	shape->deterministic = api_boolean(object, "deterministic", false);
	shape->authenticated = api_boolean(object, "authenticate", false);
	if (!ctrl_parse_address(api_text(object, "results", "unicast"), &shape->group))
		shape->group = 0;
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

/* Whose a new job is: the caller's. An administrator on the Unix socket is nobody. */
void
api_post_jobs(struct api_call *call)
{
	struct ctrl_log_who who = api_who(call);
	struct ctrl_job_spec spec;
	struct ctrl_refusal why;
	struct ctrl_job *job;

	if (!api_body_check(call, api_new_job) || !api_may_id(call, call->body, NULL))
		return;
	api_read_spec(call->body, "", 0, &spec);
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
	const json_t *body = call->body;
	struct ctrl_job_change change;
	struct ctrl_refusal why;

	if (job == NULL || !api_body_check(call, changeable))
		return;
	change = (struct ctrl_job_change){
		.set_timeout = json_object_get(body, "timeout_ms") != NULL,
		.set_policy = json_object_get(body, "policy") != NULL,
		.set_expire = json_object_get(body, "expire_s") != NULL,
		.set_rate = json_object_get(body, "rate_mbit") != NULL,
		.set_dead = json_object_get(body, "dead_after_ms") != NULL,
		.set_revoke = json_object_get(body, "rejoin") != NULL,
		.timeout_ms = (uint32_t)api_integer(body, "timeout_ms", 0),
		.expire_s = (uint32_t)api_integer(body, "expire_s", 0),
		.rate_mbit = (uint32_t)api_integer(body, "rate_mbit", 0),
		.dead_after_ms = (uint32_t)api_integer(body, "dead_after_ms", 0),
		.policy = (uint8_t)ctrl_parse_word(POLICIES, api_text(body, "policy", "wait")),
		.revoke = ctrl_parse_word(REJOINS, api_text(body, "rejoin", "wait")) != 0,
	};
	if (ctrl_job_change(call->running, job, &change, &who, &why) < 0)
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

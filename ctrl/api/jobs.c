/* SPDX-License-Identifier: BSD-3-Clause */
/* GET, POST and DELETE /v1/jobs; GET, PATCH and DELETE /v1/jobs/{name} */
#include "ctrl/api/jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <openssl/crypto.h>
#include <rte_common.h>

#include "ctrl/api/call.h"
#include "ctrl/api/diagnosis.h"
#include "ctrl/config/tree.h"
#include "ctrl/stats/stats.h"
#include "pktbuf/tag.h"
#include "rmw/kernels.h"

static json_t *
buffers_json(const struct ppe_job_stats *stats)
{
	json_t *object = json_object();

	API_BUFFERS(API_PUT, API_SKIP)
	return object;
}

static json_t *
latency_json(const struct ppe_job_stats *stats)
{
	json_t *object = json_object();
	uint64_t blocks = 0;

	for (unsigned int i = 0; i < PPE_BUCKETS; i++)
		blocks += stats->latency.bucket[i];
	API_LATENCY(API_PUT, API_SKIP)
	return object;
}

/* -- members */

static const char *
state_text(const struct ctrl_job *job, const struct ctrl_membership *membership, unsigned int rank)
{
	static const char *const texts[] = {
		[CTRL_MEMBER_EXPECTED] = "expected",
		[CTRL_MEMBER_JOINED] = "expected",
		[CTRL_MEMBER_EXPIRED] = "expired",
		[CTRL_MEMBER_LEFT] = "left",
	};

	if (ctrl_membership_has(membership, rank))
		return "joined";
	return job->member == NULL ? "expected" : texts[job->member[rank].state];
}

/* A text that is only shown; NULL: none. shown: the entry of a source or a parent. */
static const char *
text_in(const json_t *shown, const char *key)
{
	return json_string_value(json_object_get(shown, key));
}

bool
api_silence(const struct ctrl_job_snapshot *job, unsigned int rank, double *silent)
{
	const struct ctrl_member *member = job->job.member == NULL ? NULL : &job->job.member[rank];

	if (job->source[rank].heard) {
		*silent = (double)job->source[rank].silent_us / 1e6;
		return true;
	}
	if (member == NULL || member->last_heard <= 0)
		return false;
	*silent = job->taken - member->last_heard;
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
api_put_presence(json_t *object, const struct ctrl_job_snapshot *job, unsigned int rank)
{
	const struct ctrl_member *member = job->job.member == NULL ? NULL : &job->job.member[rank];
	const struct ppe_source_stats *source = &job->source[rank];
	uint32_t address = member == NULL ? job->shape.address[rank] : member->address;
	bool is_gone = api_is_gone(&job->job, rank) && member->gone_at > 0;
	double gone = is_gone ? job->taken - member->gone_at : (double)NAN, silent = 0;
	bool heard = api_silence(job, rank, &silent);

	API_SOURCE(API_PUT, API_SKIP)
	if (job->shape.children) {
		const json_t *child = ctrl_tree_child(job->job.shown, rank);

		API_SOURCE_SWITCH(API_PUT, API_SKIP)
	}
}

static json_t *
member_json(
	const struct ctrl_config *config, const struct ctrl_job_snapshot *job, unsigned int rank)
{
	const struct ctrl_member *member = job->job.member == NULL ? NULL : &job->job.member[rank];
	const struct ppe_source_stats *s = &job->source[rank];
	json_t *object = json_object();

	api_put_presence(object, job, rank);
	API_MEMBER(API_PUT, API_SKIP)
	return object;
}

bool
api_has_rank(const struct ctrl_job *job, unsigned int rank)
{
	return job->member == NULL ? ppe_job_has(job->job, (uint8_t)rank)
				   : ctrl_job_has_member(job, rank);
}

/* The members: expected, present and gone. */
static json_t *
members_json(const struct ctrl_config *config, const struct ctrl_job_snapshot *job)
{
	json_t *list = json_array();

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (api_has_rank(&job->job, s))
			json_array_append_new(list, member_json(config, job, s));
	return list;
}

/* -- trees */

/* Why a parent refused a join; null: it did not. */
static json_t *
refused_json(const struct ppe_parent_stats *stats)
{
	json_t *object;

	if (stats->refused == 0)
		return json_null();
	object = json_object();
	API_REFUSED_PARENT(API_PUT, API_SKIP)
	return object;
}

/* Add a parent's live state to its entry. */
static void
put_parent(json_t *object, const struct ppe_parent_stats *stats)
{
	api_put_text(object, "api", text_in(object, "api"));
	API_PARENT(API_PUT, API_SKIP)
}

/* Put a job's parents, and its sources if they are switches. */
static void
put_tree(json_t *object, const struct ctrl_job_snapshot *job)
{
	json_t *shown = json_deep_copy(job->job.shown), *entry;
	size_t i;

	json_array_foreach (json_object_get(json_object_get(shown, "tree"), "parents"), i, entry)
		put_parent(entry, &job->parent[i]);
	json_array_foreach (json_object_get(shown, "sources"), i, entry) {
		api_put_text(entry, "name", text_in(entry, "name"));
		api_put_text(entry, "api", text_in(entry, "api"));
	}
	json_object_update(object, shown);
	json_decref(shown);
}

/* Put the key of each source that is a switch. Only the answer to the request that makes the job
 * has these keys. False: no memory. */
static bool
put_keys(json_t *object, const struct ppe_job *job)
{
	uint8_t key[WEIR_KEY_BYTES];
	struct ctrl_key_text text;
	json_t *source;
	bool made = true;
	size_t i;

	json_array_foreach (json_object_get(object, "sources"), i, source) {
		uint8_t id = (uint8_t)json_integer_value(json_object_get(source, "id"));

		made = made && pktbuf_member_key(job->key, id, job->epoch[id], key);
		if (!made)
			break;
		text = ctrl_key_text(key);
		api_put_text(source, "key", text.text);
	}
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(&text, sizeof(text));
	return made;
}

/* A job, with or without its members. */
static json_t *
job_json(const struct ctrl_config *config, const struct ctrl_job_snapshot *job, bool with_members)
{
	json_t *object = json_object(), *counters = json_object();
	struct ctrl_job_spec spec = ctrl_job_settings(&job->job);
	const struct ppe_job *shape = &job->shape;
	bool has_members = with_members && job->membership.state != CTRL_JOB_DRAINING;

	ctrl_put_job_counters(counters, &job->stats);
	API_JOB(API_PUT, API_SKIP)
	ctrl_settings_put(object, &spec, false);
	put_tree(object, job);
	return object;
}

bool
api_may_see(const struct api_call *call, const struct ctrl_job *job)
{
	if (job == NULL)
		return false;
	if (call->caller->instance != 0)
		return call->caller->instance == job->job->instance;
	return api_owns(&call->config->api, call->caller, job->tenant);
}

static json_t *
brief_json(const struct ctrl_config *config, const struct ctrl_job_snapshot *job)
{
	return job_json(config, job, false);
}

json_t *
api_jobs(const struct api_call *call, api_job_maker make)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job_snapshot *job = call->seen->by_id[i];

		if (job != NULL && api_may_see(call, &job->job))
			json_array_append_new(list, make(call->config, job));
	}
	return list;
}

/* Leaving jobs are few, so the last page has all of them. */
static void
put_leaving(const struct api_call *call, json_t *list)
{
	for (unsigned int i = 0; i < call->seen->nb_leaving; i++)
		if (api_may_see(call, &call->seen->leaving[i]->job))
			json_array_append_new(
				list, brief_json(call->config, call->seen->leaving[i]));
}

void
api_get_jobs(struct api_call *call)
{
	uint64_t after = api_query_number(call, "after"), limit = api_query_number(call, "limit");
	bool is_first = json_object_get(call->query, "after") == NULL;
	json_t *object = json_object(), *page = json_array(), *next = NULL;

	for (uint64_t id = is_first ? 0 : after + 1; id < WEIR_JOBS_MAX; id++) {
		const struct ctrl_job_snapshot *job = call->seen->by_id[id];

		if (job == NULL || !api_may_see(call, &job->job))
			continue;
		if (json_array_size(page) == limit) {
			next = json_integer((json_int_t)after);
			break;
		}
		json_array_append_new(page, brief_json(call->config, job));
		after = id;
	}
	if (next == NULL)
		put_leaving(call, page);
	API_JOBS(API_PUT, API_SKIP)
	api_put_json(object, "next", next);
	api_answer(call, 200, object);
}

/* The job of parameter[0] that is leaving and that the caller may see, or NULL. */
static const struct ctrl_job *
find_leaving(const struct api_call *call)
{
	const struct ctrl_job *job = call->running->leaving;

	while (job != NULL &&
		(strcmp(job->job->name, call->parameter[0]) != 0 || !api_may_see(call, job)))
		job = job->leaving_next;
	return job;
}

static void
refuse_unknown(struct api_call *call)
{
	api_error(call, 404, "unknown_job", NULL, "no job is called \"%.64s\"", call->parameter[0]);
}

struct ctrl_job *
api_find_job(struct api_call *call)
{
	struct ctrl_job *job = ctrl_running_find_job(call->running, call->parameter[0]);

	if (api_may_see(call, job))
		return job;
	refuse_unknown(call);
	return NULL;
}

void
api_get_job(struct api_call *call)
{
	const struct ctrl_snapshot *seen = call->seen;
	const struct ctrl_job_snapshot *job = ctrl_snapshot_find_job(seen, call->parameter[0]);

	if (job != NULL && !api_may_see(call, &job->job))
		job = NULL;
	for (unsigned int i = 0; i < seen->nb_leaving && job == NULL; i++)
		if (strcmp(seen->leaving[i]->shape.name, call->parameter[0]) == 0 &&
			api_may_see(call, &seen->leaving[i]->job))
			job = seen->leaving[i];
	if (job == NULL)
		refuse_unknown(call);
	else
		api_answer(call, 200, job_json(call->config, job, true));
}

/* -- changes */

/* A key of the body. prefix: its place, such as "create", or NULL. */
static struct ctrl_path
key_in(const char *prefix, const char *key)
{
	return ctrl_path("%s%s%s", prefix == NULL ? "" : prefix, prefix == NULL ? "" : ".", key);
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
	struct ctrl_path key = key_in(prefix, why->key);

	api_error(call, answers[why->code].status, answers[why->code].code,
		why->key[0] == '\0' ? prefix : key.text, "%s", why->message);
	if (why->code != CTRL_REFUSED_MEMORY)
		return;
	api_error_more(call, "free",
		json_pack("{s:I,s:I}", "memory", (json_int_t)why->room.memory_free, "blocks",
			(json_int_t)why->room.records_free));
	api_error_more(call, "needed",
		json_pack("{s:I,s:I}", "memory", (json_int_t)why->room.memory_needed, "blocks",
			(json_int_t)why->room.records_needed));
}

struct ctrl_job_spec
api_read_spec(const json_t *object, const char *name, unsigned int size)
{
	struct ctrl_job_spec spec =
		ctrl_job_spec_default(json_is_true(json_object_get(object, "temporary")));
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
	api_error(call, 403, "forbidden", key_in(prefix, "id").text,
		"only an administrator gives a job its id: leave \"id\" out for the lowest free "
		"one");
	return false;
}

bool
api_may_make(struct api_call *call, struct ctrl_job_spec *spec, const char *prefix)
{
	spec->open = api_is_stranger(call->caller);
	if (!spec->open || spec->temporary)
		return true;
	api_error(call, 403, "forbidden", key_in(prefix, "temporary").text,
		"without a token, only temporary jobs can be made: \"temporary\": true");
	return false;
}

/* Read the tree of a new job. False: the error is answered. */
static bool
read_tree(struct api_call *call, struct ctrl_job_spec *spec)
{
	const struct ctrl_config *config = call->config;
	struct ctrl_error error = {0};
	const struct ctrl_tree_reading tree = {config, "", &error};
	bool in_tree = json_object_get(call->body, "tree") != NULL;
	const json_t *sources = json_object_get(call->body, "sources");

	if (json_object_get(call->body, "size") == NULL && sources == NULL) {
		api_error(call, 400, "missing_key", "size", "this key is required");
		return false;
	}
	if (!in_tree && sources == NULL)
		return true;
	/* The switch sends packets to the addresses in the request. */
	if (!call->caller->admin) {
		api_error(call, 403, "forbidden", in_tree ? "tree" : "sources",
			"only an administrator makes jobs of a tree of switches");
		return false;
	}
	if (ctrl_tree_read_all(&tree, call->body, &spec->shape) < 0) {
		api_error(call, 400, "out_of_range", error.path.text, "%s", error.text);
		return false;
	}
	if (json_object_get(call->body, "size") != NULL &&
		json_integer_value(json_object_get(call->body, "size")) != spec->shape.nb_sources) {
		api_error(call, 400, "out_of_range", "size",
			"it is the number of \"sources\", %u: leave it out",
			spec->shape.nb_sources);
		return false;
	}
	if (!api_check_private(call, &spec->shape))
		return false;
	spec->shown = ctrl_tree_shown(&spec->shape, call->body);
	return true;
}

/* A job as it is now, on the control thread. NULL: no memory. */
static json_t *
present_json(const struct api_call *call, const struct ctrl_job *job)
{
	struct ctrl_job_snapshot *now = calloc(1, sizeof(*now));
	json_t *object;

	if (now == NULL)
		return NULL;
	ctrl_job_snapshot_take(now, call->running, job, true);
	object = job_json(call->config, now, true);
	ctrl_job_snapshot_clear(now);
	free(now);
	return object;
}

static void
answer_made(struct api_call *call, const struct ctrl_job *job)
{
	json_t *object = present_json(call, job);

	if (job->job->children && job->job->authenticated && !call->is_dry_run &&
		!put_keys(object, job->job)) {
		json_decref(object);
		api_error_memory(call);
		return;
	}
	api_answer(call, 201, object);
	if (!call->is_dry_run)
		api_header(call, "Location", "/v1/jobs/%s", job->job->name);
}

/* A new job belongs to the caller's tenant; without a token, it has no owner. */
void
api_create_job(struct api_call *call)
{
	struct ctrl_job_spec spec;
	struct ctrl_refusal why;
	struct ctrl_job *job = NULL;

	if (!api_may_id(call, call->body, NULL))
		return;
	spec = api_read_spec(call->body, "", 0);
	if (!api_may_make(call, &spec, NULL) || !read_tree(call, &spec))
		return;
	if (ctrl_job_create(
		    call->running, &spec, call->caller->tenant, call->caller->name, &job, &why) < 0)
		api_answer_refusal(call, &why, NULL);
	else
		answer_made(call, job);
	if (call->is_dry_run)
		ctrl_jobs_undo(call->running);
	json_decref(spec.shown);
	OPENSSL_cleanse(spec.shape.parent, sizeof(spec.shape.parent));
}

void
api_change_job(struct api_call *call)
{
	struct ctrl_job *job = api_find_job(call);
	struct ctrl_job_spec next;
	struct ctrl_refusal why;
	json_t *object;

	if (job == NULL)
		return;
	next = ctrl_job_settings(job);
	ctrl_settings_read(call->body, &next);
	if (ctrl_job_change(call->running, job, &next, call->caller->name, &why) < 0) {
		api_answer_refusal(call, &why, NULL);
		return;
	}
	object = present_json(call, job);
	ctrl_settings_put(object, &next, false); /* a dry run leaves the job as it is */
	api_answer(call, 200, object);
}

static void
answer_state(struct api_call *call, bool leaving)
{
	json_t *object = json_object();

	API_JOB_STATE(API_PUT, API_SKIP)
	api_answer(call, leaving ? 202 : 200, object);
}

/* May the caller, admitted by API_OPEN, delete a job that it sees? */
static bool
may_delete(const struct api_call *call, const struct ctrl_job *job)
{
	return job->open || !api_is_stranger(call->caller);
}

void
api_delete_job(struct api_call *call)
{
	struct ctrl_job *job = api_find_job(call);
	struct ctrl_refusal why;
	bool leaving;

	if (job == NULL) {
		if (find_leaving(call) != NULL)
			answer_state(call, true);
		return;
	}
	if (!may_delete(call, job))
		api_error(call, 403, "forbidden", NULL,
			"job %s was made by an administrator or is in the configuration: without a "
			"token, only jobs that were made without one can be deleted",
			job->job->name);
	else if (ctrl_job_delete(call->running, job, call->caller->name, &leaving, &why) < 0)
		api_answer_refusal(call, &why, NULL);
	else
		answer_state(call, leaving);
}

void
api_delete_jobs(struct api_call *call)
{
	const char *prefix = api_query_text(call, "prefix");
	bool ids[WEIR_JOBS_MAX] = {false};
	unsigned int deleted = 0, leaving = 0;
	struct ctrl_refusal why;
	json_t *object;

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = call->running->by_id[i];

		if (!api_may_see(call, job) || !may_delete(call, job) || !job->temporary ||
			strncmp(job->job->name, prefix, strlen(prefix)) != 0)
			continue;
		ids[i] = true;
		deleted++;
	}
	if (ctrl_jobs_delete(call->running, ids, call->caller->name, &leaving, &why) < 0) {
		api_answer_refusal(call, &why, NULL);
		return;
	}
	object = json_object();
	API_DELETED(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

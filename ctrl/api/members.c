/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v1/jobs/{name}/tokens and /v1/jobs/{name}/members; DELETE /v1/jobs/{name}/members/{rank} */
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <rte_common.h>

#include "ctrl/api/jobs.h"
#include "ctrl/jobs/tokens.h"
#include "pktbuf/tag.h"

/* Put the key with which a new member proves its joins. It is not the job's own key, with which the
 * member could join as another. False: no memory. */
static bool
put_key(json_t *object, const struct ppe_job *job, unsigned int rank)
{
	unsigned char text[(WEIR_KEY_BYTES + 2) / 3 * 4 + 1];
	uint8_t key[WEIR_KEY_BYTES];

	if (!job->proved)
		return true;
	if (!pktbuf_member_key(job->key, (uint8_t)rank, job->epoch[rank], key))
		return false;
	EVP_EncodeBlock(text, key, sizeof(key));
	api_put_text(object, "key", (const char *)text);
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(text, sizeof(text));
	return true;
}

static json_t *
switch_json(const struct ctrl_running *running)
{
	const struct pktbuf_identity *identity = &running->config->ppe.identity;
	json_t *object = json_object();

	API_SWITCH(API_PUT, API_SKIP)
	return object;
}

/* The answer to a join. NULL: no memory. */
static json_t *
joined_json(const struct ctrl_running *running, const struct ctrl_job *job, unsigned int rank)
{
	const struct ppe_job *shape = job->job;
	struct ctrl_job_spec spec = ctrl_job_settings(job);
	json_t *object = json_object();
	struct ppe_job_stats stats;

	ctrl_running_job_stats(running, job, &stats);
	API_JOINED(API_PUT, API_SKIP)
	ctrl_settings_put(object, &spec, true);
	if (job->member != NULL && !running->is_dry_run)
		api_put(object, "membership", job->member[rank].membership);
	if (running->is_dry_run || put_key(object, shape, rank))
		return object;
	json_decref(object);
	return NULL;
}

/* The member's address: the body's, or the client's own. False: there is none, and the error is
 * answered. */
static bool
read_address(struct api_call *call, uint32_t *address)
{
	const json_t *text = json_object_get(call->body, "address");

	if (text != NULL && ctrl_parse_address(json_string_value(text), address))
		return true;
	*address = call->caller->ip;
	if (*address != 0)
		return true;
	api_error(call, 400, "missing_key", "address",
		"a host that asks over the Unix socket or IPv6 has to give its address");
	return false;
}

/* May the caller join or leave as this rank? Not with the token of another rank. False: the error
 * is answered. */
static bool
check_rank(struct api_call *call, unsigned int rank)
{
	const struct api_caller *caller = call->caller;

	if (caller->instance == 0 || caller->rank == rank)
		return true;
	api_error(call, 403, "forbidden", "rank",
		"the token is that of rank %u of job %.64s, and the request is for rank %u",
		caller->rank, call->parameter[0], rank);
	return false;
}

/*
 * May the caller join or remove a member at this address? The owner, the rank's token and
 * administrators may; any other client only at its own address. False: no, and the error is
 * answered.
 */
static bool
check_peer(struct api_call *call, const struct ctrl_tenant *owner, uint32_t address)
{
	const struct api_caller *caller = call->caller;

	if (caller->admin || caller->instance != 0 ||
		(caller->tenant != NULL && caller->tenant == owner) ||
		(caller->ip != 0 && caller->ip == address))
		return true;
	api_error(call, 403, "forbidden", "address",
		"the member is at %s, and this request comes from elsewhere: ask from there, leave "
		"\"address\" out, or be an administrator",
		ctrl_address_text(address).text);
	return false;
}

/* Do the settings that `create` gives equal the job's? False: no, and the error is answered. */
static bool
check_same(struct api_call *call, const struct ctrl_job *job)
{
	const json_t *create = json_object_get(call->body, "create");
	struct ctrl_job_spec is = ctrl_job_settings(job);
	unsigned int size = ppe_job_tree_ranks(job->job);
	struct ctrl_job_spec asked = api_read_spec(create, is.shape.name, size);
	const char *other = NULL;

	if (strcmp(asked.shape.name, is.shape.name) != 0)
		other = "name";
	else if (asked.shape.nb_sources != size)
		other = "size";
	else if (json_object_get(create, "id") != NULL && asked.id != is.id)
		other = "id";
	if (asked.shape.elements == 0)
		asked.shape.elements = is.shape.elements;
	if (asked.shape.alltoall == CTRL_ALLTOALL_FIT)
		asked.shape.alltoall = is.shape.alltoall;
	for (size_t i = 0; other == NULL && i < ctrl_settings_count; i++)
		if (json_object_get(create, ctrl_settings[i].key.path) != NULL &&
			!ctrl_setting_same(&ctrl_settings[i], &is, &asked))
			other = ctrl_settings[i].key.path;
	if (other == NULL)
		return true;
	api_error(call, 409, "conflict", ctrl_path("create.%s", other).text,
		"job %s exists, with another \"%s\": do all ranks ask for the same, or is it "
		"another run's?",
		is.shape.name, other);
	return false;
}

/* Read the settings of the job to create. False: the error is answered. */
static bool
read_create(struct api_call *call, unsigned int size, struct ctrl_job_spec *spec)
{
	const json_t *create = json_object_get(call->body, "create");
	const char *name = call->parameter[0];

	if (api_may(&call->config->api, call->caller, API_OPEN) != API_ALLOWED) {
		api_error(call, 403, "forbidden", "create",
			"there is no job \"%.64s\", and this caller may not create one: an "
			"administrator has to, a tenant by its token, or api.open_jobs has to "
			"allow it",
			name);
		return false;
	}
	if (!ctrl_is_name(name) || strlen(name) >= PPE_JOB_NAME_MAX) {
		api_error(call, 400, "out_of_range", "create.name",
			"\"%.64s\" is not a valid name: use at most %d letters, digits and . _ -",
			name, PPE_JOB_NAME_MAX - 1);
		return false;
	}
	*spec = api_read_spec(create, name, size);
	if (strcmp(spec->shape.name, name) == 0 && spec->shape.nb_sources == size)
		return true;
	api_error(call, 409, "conflict",
		spec->shape.nb_sources == size ? "create.name" : "create.size",
		"the job to create is not the one to join: leave name and size out of \"create\"");
	return false;
}

bool
api_check_private(struct api_call *call, const struct ppe_job *shape)
{
	bool secret = shape->authenticated;

	for (unsigned int p = 0; p < shape->nb_parents; p++)
		secret |= shape->parent[p].keyed;
	if (!secret || call->caller->is_private)
		return true;
	api_error(call, 403, "forbidden", NULL,
		"job %s is authenticated, and its keys and tokens are handed out over TLS or the "
		"Unix socket alone: use https://, with api.tls in the switch's configuration",
		shape->name);
	return false;
}

/* The tokens of a job's ranks, in order, from the first rank on. NULL: no memory. */
static json_t *
rank_tokens(const struct ctrl_job *job)
{
	struct ctrl_rank_token token;
	json_t *list = json_array();

	for (unsigned int rank = job->job->first_rank; rank < ctrl_job_rank_end(job); rank++) {
		if (!ctrl_rank_token(job, rank, &token)) {
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, json_string(token.text));
	}
	OPENSSL_cleanse(&token, sizeof(token));
	return list;
}

void
api_get_rank_tokens(struct api_call *call)
{
	const struct ctrl_job *job = api_find_job(call);
	json_t *object, *list;

	if (job == NULL || !api_check_private(call, job->job))
		return;
	if (job->member == NULL) {
		api_error(call, 409, "conflict", NULL,
			"job %s is the configuration's, or has switches as sources, which join "
			"without tokens: rank tokens are for jobs made over the API, and hosts",
			job->job->name);
		return;
	}
	list = call->is_dry_run ? json_array() : rank_tokens(job);
	if (list == NULL) {
		api_error_memory(call);
		return;
	}
	if (!call->is_dry_run)
		ctrl_log_change(call->caller->name, "rank tokens given", "job=%s size=%u",
			ctrl_log_quote(job->job->name).text, job->job->nb_sources);
	object = json_object();
	API_TOKENS(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

/*
 * Create a job with its first member in one publication, so that a failure leaves no empty job.
 */
static void
join_new(struct api_call *call, unsigned int rank, unsigned int size, uint32_t address)
{
	const struct ctrl_tenant *tenant = call->caller->tenant;
	struct ctrl_job_spec spec;
	struct ctrl_refusal why;
	struct ctrl_job *job = NULL;

	if (!read_create(call, size, &spec) || !api_may_make(call, &spec, "create") ||
		!api_check_private(call, &spec.shape) || !check_peer(call, tenant, address))
		return;
	spec.member_rank = rank;
	spec.member_address = address;
	if (ctrl_member_check(call->running, rank, size, address, &why) < 0)
		api_answer_refusal(call, &why, NULL);
	else if (ctrl_job_create(call->running, &spec, tenant, call->caller->name, &job, &why) < 0)
		api_answer_refusal(call, &why, "create");
	else
		api_answer(call, 200, joined_json(call->running, job, rank));
	if (call->is_dry_run)
		ctrl_jobs_undo(call->running);
}

static void
join(struct api_call *call, struct ctrl_job *job, unsigned int rank, unsigned int size,
	uint32_t address)
{
	struct ctrl_refusal why;

	if (!api_check_private(call, job->job) || !check_peer(call, job->tenant, address))
		return;
	if (ctrl_member_join(call->running, job, rank, size, address, call->caller->name, &why) < 0)
		api_answer_refusal(call, &why, NULL);
	else
		api_answer(call, 200, joined_json(call->running, job, rank));
}

void
api_join_job(struct api_call *call)
{
	unsigned int rank, size;
	struct ctrl_job *job;
	const json_t *create;
	uint32_t address;

	if (!read_address(call, &address))
		return;
	rank = (unsigned int)json_integer_value(json_object_get(call->body, "rank"));
	size = (unsigned int)json_integer_value(json_object_get(call->body, "size"));
	create = json_object_get(call->body, "create");
	job = api_find_job(call);
	if (create != NULL && !api_may_id(call, create, "create"))
		return;
	if (job == NULL && create != NULL)
		join_new(call, rank, size, address);
	else if (job != NULL && check_rank(call, rank) && (create == NULL || check_same(call, job)))
		join(call, job, rank, size, address);
}

/* The member's address; 0: the rank has not joined. */
static uint32_t
member_address(const struct ctrl_job *job, unsigned int rank)
{
	if (job->member == NULL)
		return job->job->address[rank];
	return ctrl_job_has_member(job, rank) && job->member[rank].state != CTRL_MEMBER_LEFT
		? job->member[rank].address
		: 0;
}

void
api_leave_job(struct api_call *call)
{
	struct ctrl_job *job = api_find_job(call);
	const char *text = call->parameter[1];
	struct ctrl_refusal why;
	char *end;
	unsigned long rank;
	uint32_t address;
	uint64_t membership = api_query_number(call, "membership");

	if (job == NULL)
		return;
	rank = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || rank >= WEIR_SOURCES_MAX) {
		api_error(call, 404, "unknown_member", NULL, "\"%.32s\" is not a rank in 0..%d",
			text, WEIR_SOURCES_MAX - 1);
		return;
	}
	address = member_address(job, (unsigned int)rank);
	if (!check_rank(call, (unsigned int)rank) ||
		(address != 0 && !check_peer(call, job->tenant, address)))
		return;
	/* A late process must not remove its successor of the same rank. */
	if (membership != 0 && !ctrl_member_is(job, (unsigned int)rank, membership))
		api_answer(call, 200, json_object());
	else if (ctrl_member_leave(
			 call->running, job, (unsigned int)rank, call->caller->name, &why) < 0)
		api_answer_refusal(call, &why, NULL);
	else
		api_answer(call, 200, json_object());
}

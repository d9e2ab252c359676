/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GET and POST /v1/jobs; GET, PATCH and DELETE /v1/jobs/{name}; POST /v1/jobs/{name}/tokens and
 * /v1/jobs/{name}/members; DELETE /v1/jobs/{name}/members/{rank}
 */
#include "ctrl/api/jobs.h"

#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <rte_common.h>

#include "ctrl/api/call.h"
#include "ctrl/jobs/tokens.h"
#include "ctrl/stats/stats.h"
#include "pktbuf/tag.h"
#include "rmw/kernels.h"

#define MEMBERSHIP_MAX (UINT64_C(1) << 53) /* exact in a double, as JSON parsers need */

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

#define X(key, where, change, kind, field, ...) CTRL_API_##where({.path = "create." #key, CTRL_##kind, __VA_ARGS__},)
static const struct ctrl_key join_keys[] = {
	{"rank", CTRL_INTEGER, "", NULL, .max = WEIR_SOURCES_MAX - 1},
	{"size", CTRL_INTEGER, "", NULL, .min = 1, .max = WEIR_SOURCES_MAX},
	{"address", CTRL_ADDRESS, "", .fallback = ""},
	{"create", CTRL_OBJECT, "", .fallback = ""},
	CTRL_JOB_IDENTITY("create.", "", "")
	CTRL_JOB_SETTINGS(X)
};
#undef X
/* clang-format on */

static const struct ctrl_schema new_schema = {new_keys, RTE_DIM(new_keys)};
static const struct ctrl_schema change_schema = {change_keys, RTE_DIM(change_keys)};
static const struct ctrl_schema join_schema = {join_keys, RTE_DIM(join_keys)};

static void
put_state(json_t *object, const struct ppe_job_stats *stats)
{
	json_t *buffers = json_object();
	uint64_t blocks = 0;

	api_put(object, "blocks_in_flight", stats->blocks_in_flight);
	api_put(buffers, "used", stats->buffers_used);
	api_put(buffers, "reserved", stats->buffers_reserved);
	json_object_set_new(object, "buffers", buffers);
	for (unsigned int i = 0; i < PPE_BUCKETS; i++)
		blocks += stats->latency.bucket[i];
	json_object_set_new(object, "latency",
		json_pack("{s:I,s:f}", "blocks", (json_int_t)blocks, "seconds",
			(double)stats->latency.sum_ns / 1e9));
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

static json_t *
member_json(const struct ctrl_running *running, const struct ctrl_job *job,
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
	json_object_set_new(object, "membership",
		member != NULL ? json_integer((json_int_t)member->membership) : json_null());
	json_object_set_new(object, "waited", json_real((double)s.waited_us / 1e6));
	json_object_set_new(object, "waiting", json_real((double)waits_us / 1e6));
	api_put(object, "last", s.last);
	return object;
}

/* How long open blocks wait for each source now; 0 where none does. waits_us: zeros. Cost: the job's window, and
 * 256 bits each. */
static void
read_waits(const struct ctrl_running *running, const struct ctrl_job *job,
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
		read_waits(running, job, waits_us);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (api_has_rank(job, s))
			json_array_append_new(
				list, member_json(running, job, membership, s, waits_us[s]));
	return list;
}

/* A job, with its members (whole) or without. */
static json_t *
job_json(const struct ctrl_running *running, const struct ctrl_job *job, bool whole)
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

bool
api_may_see(const struct api_call *call, const struct ctrl_job *job)
{
	if (job == NULL)
		return false;
	if (call->caller->instance != 0)
		return call->caller->instance == job->job->instance;
	return api_owns(&call->running->config->api, call->caller, job->tenant);
}

static json_t *
brief_json(const struct ctrl_running *running, const struct ctrl_job *job)
{
	return job_json(running, job, false);
}

static bool
begin_list(struct api_call *call, void *list)
{
	api_text_put(&call->text, "{\"jobs\":[");
	return api_list_begin(call, list, brief_json, true);
}

void
api_get_jobs(struct api_call *call)
{
	api_in_steps(call, sizeof(struct api_list), begin_list, api_list_step);
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

/* The job of parameter[0]; NULL: the caller sees none, and 404 is answered. For a tenant, other tenants' jobs do
 * not exist. */
static struct ctrl_job *
find_job(struct api_call *call)
{
	struct ctrl_job *job = ctrl_running_find_job(call->running, call->parameter[0]);

	if (api_may_see(call, job))
		return job;
	api_error(call, 404, "unknown_job", NULL, "no job is called \"%.64s\"", call->parameter[0]);
	return NULL;
}

void
api_get_job(struct api_call *call)
{
	const struct ctrl_job *job = find_job(call);

	if (job == NULL)
		job = find_leaving(call);
	if (job != NULL)
		api_answer(call, 200, job_json(call->running, job, true));
}

/* -- changes */

/* prefix: the key's place in the body, such as "create", or NULL. */
static void
answer_refusal(struct api_call *call, const struct ctrl_refusal *why, const char *prefix)
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
	api_error_more(call, "free",
		json_pack("{s:I,s:I}", "memory", (json_int_t)why->room.memory_free, "blocks",
			(json_int_t)why->room.records_free));
	api_error_more(call, "needed",
		json_pack("{s:I,s:I}", "memory", (json_int_t)why->room.memory_needed, "blocks",
			(json_int_t)why->room.records_needed));
}

/* Read a new job that passed its check. name, size: if the object has none. */
static struct ctrl_job_spec
read_spec(const json_t *object, const char *name, unsigned int size)
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

/*
 * May the caller choose the id that the object has, if it has one? Only administrators: packets on the wire name
 * the id, and late packets of another tenant's former job would find the new one. prefix: as in answer_refusal.
 * False: the error is answered.
 */
static bool
may_id(struct api_call *call, const json_t *object, const char *prefix)
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

	if (!api_body_check(call, &new_schema) || !may_id(call, call->body, NULL))
		return;
	spec = read_spec(call->body, "", 0);
	if (ctrl_job_create(call->running, &spec, call->caller->tenant, &who, &job, &why) < 0) {
		answer_refusal(call, &why, NULL);
		return;
	}
	api_answer(call, 201, job_json(call->running, job, true));
	api_header(call, "Location", "/v1/jobs/%s", job->job->name);
}

void
api_patch_job(struct api_call *call)
{
	struct ctrl_job *job = find_job(call);
	struct ctrl_log_who who = api_who(call);
	struct ctrl_job_spec next;
	struct ctrl_refusal why;

	if (job == NULL || !api_body_check(call, &change_schema))
		return;
	next = ctrl_job_spec_of(job->job, job->expire_s);
	ctrl_settings_read(call->body, &next);
	if (ctrl_job_change(call->running, job, &next, &who, &why) < 0)
		answer_refusal(call, &why, NULL);
	else
		api_answer(call, 200, job_json(call->running, job, true));
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
	struct ctrl_job *job = find_job(call);
	struct ctrl_log_who who = api_who(call);
	struct ctrl_refusal why;
	bool leaving;

	if (job == NULL) {
		if (find_leaving(call) != NULL)
			answer_state(call, true);
		return;
	}
	if (ctrl_job_delete(call->running, job, &who, &leaving, &why) < 0)
		answer_refusal(call, &why, NULL);
	else
		answer_state(call, leaving);
}

/* -- joins and leaves */

/* The key with which a new member proves its joins. Not the job's own key, with which it could join as another
 * member. False: no memory. */
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

/* The answer to a join. NULL: no memory. */
static json_t *
joined_json(const struct ctrl_running *running, const struct ctrl_job *job, unsigned int rank)
{
	const struct pktbuf_identity *identity = &running->config->ppe.identity;
	const struct ppe_job *shape = job->job;
	json_t *object = json_object(), *at = json_object();
	struct ppe_job_stats stats;

	ctrl_running_job_stats(running, job, &stats);
	api_put(object, "job", shape->id);
	api_put_text(object, "name", shape->name);
	api_put(object, "source", rank);
	api_put(object, "size", shape->nb_sources);
	api_put(object, "generation", stats.generation);
	api_put(object, "window", shape->window);
	api_put(object, "elements", shape->elements);
	api_put_text(object, "type", weir_dtype_text(shape->dtype));
	api_put_text(object, "op", weir_op_text(shape->op));
	api_put(object, "timeout_ms", shape->timeout_ms);
	api_put(object, "datagram_bytes", ctrl_job_frame_bytes(shape) - 14);
	api_put_text(at, "address", ctrl_address_text(identity->ip).text);
	api_put(at, "mtu", ctrl_links_mtu(running->config));
	api_put(at, "udp_port", identity->port_base);
	api_put(at, "udp_port_ext", identity->port_ext);
	json_object_set_new(object, "switch", at);
	if (job->member != NULL)
		api_put(object, "membership", job->member[rank].membership);
	if (put_key(object, shape, rank))
		return object;
	json_decref(object);
	return NULL;
}

/* The member's address: the body's, or the client's own. False: there is none, and the error is answered. */
static bool
read_address(struct api_call *call, uint32_t *address)
{
	const json_t *given = json_object_get(call->body, "address");

	if (given != NULL && ctrl_parse_address(json_string_value(given), address))
		return true;
	*address = call->caller->ip;
	if (*address != 0)
		return true;
	api_error(call, 400, "missing_key", "address",
		"a host that asks over the Unix socket or IPv6 has to give its address");
	return false;
}

/* May the caller join or leave as this rank? Not with another rank's token. False: the error is answered. */
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
 * May the caller join or remove a member at this address? The owner, the rank's token and administrators may; any
 * other client only at its own address. False: no, and the error is answered.
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
	struct ctrl_job_spec is = ctrl_job_spec_of(job->job, job->expire_s);
	struct ctrl_job_spec asked = read_spec(create, is.shape.name, is.shape.nb_sources);
	const char *other = NULL;

	if (strcmp(asked.shape.name, is.shape.name) != 0)
		other = "name";
	else if (asked.shape.nb_sources != is.shape.nb_sources)
		other = "size";
	else if (json_object_get(create, "id") != NULL && asked.id != is.id)
		other = "id";
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

	if (api_may(&call->running->config->api, call->caller, API_CHANGE) != API_ALLOWED) {
		api_error(call, 403, "forbidden", "create",
			"there is no job \"%.64s\", and this caller may not create one: an "
			"administrator has to, or a tenant by its token",
			name);
		return false;
	}
	if (!ctrl_is_name(name) || strlen(name) >= PPE_JOB_NAME_MAX) {
		api_error(call, 400, "out_of_range", "create.name",
			"\"%.64s\" is not a valid name: use at most %d letters, digits and . _ -",
			name, PPE_JOB_NAME_MAX - 1);
		return false;
	}
	*spec = read_spec(create, name, size);
	if (strcmp(spec->shape.name, name) == 0 && spec->shape.nb_sources == size)
		return true;
	api_error(call, 409, "conflict",
		spec->shape.nb_sources == size ? "create.name" : "create.size",
		"the job to create is not the one to join: leave name and size out of \"create\"");
	return false;
}

/* The keys and tokens of an authenticated job need a private connection. False: the error is answered. */
static bool
check_private(struct api_call *call, const struct ppe_job *shape)
{
	if (!shape->authenticated || call->caller->private)
		return true;
	api_error(call, 403, "forbidden", NULL,
		"job %s is authenticated, and its keys and tokens are handed out over TLS or the "
		"Unix socket alone: use https://, with api.tls in the switch's configuration",
		shape->name);
	return false;
}

/* The tokens of a job's ranks, in their order. NULL: no memory. */
static json_t *
rank_tokens(const struct ctrl_job *job)
{
	struct ctrl_rank_token token;
	json_t *list = json_array();

	for (unsigned int rank = 0; rank < job->job->nb_sources; rank++) {
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
api_post_tokens(struct api_call *call)
{
	struct ctrl_log_who who = api_who(call);
	const struct ctrl_job *job = find_job(call);
	json_t *list;

	if (job == NULL || !check_private(call, job->job))
		return;
	if (call->body != NULL) {
		api_error(call, 400, "unknown_key", NULL, "this request takes no body");
		return;
	}
	if (job->member == NULL) {
		api_error(call, 409, "conflict", NULL,
			"job %s is the configuration's, and its hosts join without tokens: rank "
			"tokens are for jobs made over the API",
			job->job->name);
		return;
	}
	list = rank_tokens(job);
	if (list == NULL) {
		api_error_memory(call);
		return;
	}
	ctrl_log_change(&who, "rank tokens given", "job=%s size=%u",
		ctrl_log_quote(job->job->name).text, job->job->nb_sources);
	api_answer(call, 200, json_pack("{s:o}", "tokens", list));
}

/*
 * Create a job with its first member in one publication, so that a failure leaves no empty job.
 */
static void
join_new(struct api_call *call, unsigned int rank, unsigned int size, uint32_t address)
{
	const struct ctrl_tenant *tenant = call->caller->tenant;
	struct ctrl_log_who who = api_who(call);
	struct ctrl_job_spec spec;
	struct ctrl_refusal why;
	struct ctrl_job *job;

	if (!read_create(call, size, &spec) || !check_private(call, &spec.shape) ||
		!check_peer(call, tenant, address))
		return;
	spec.first_rank = rank;
	spec.first_address = address;
	if (ctrl_member_check(call->running, rank, size, address, &why) < 0)
		answer_refusal(call, &why, NULL);
	else if (ctrl_job_create(call->running, &spec, tenant, &who, &job, &why) < 0)
		answer_refusal(call, &why, "create");
	else
		api_answer(call, 200, joined_json(call->running, job, rank));
}

static void
join(struct api_call *call, struct ctrl_job *job, unsigned int rank, unsigned int size,
	uint32_t address)
{
	struct ctrl_log_who who = api_who(call);
	struct ctrl_refusal why;

	if (!check_private(call, job->job) || !check_peer(call, job->tenant, address))
		return;
	if (ctrl_member_join(call->running, job, rank, size, address, &who, &why) < 0)
		answer_refusal(call, &why, NULL);
	else
		api_answer(call, 200, joined_json(call->running, job, rank));
}

void
api_post_member(struct api_call *call)
{
	unsigned int rank, size;
	struct ctrl_job *job;
	const json_t *create;
	uint32_t address;

	if (!api_body_check(call, &join_schema) || !read_address(call, &address))
		return;
	rank = (unsigned int)json_integer_value(json_object_get(call->body, "rank"));
	size = (unsigned int)json_integer_value(json_object_get(call->body, "size"));
	create = json_object_get(call->body, "create");
	job = find_job(call);
	if (create != NULL && !may_id(call, create, "create"))
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
	return rank < job->job->nb_sources && job->member[rank].state != CTRL_MEMBER_LEFT
		? job->member[rank].address
		: 0;
}

void
api_delete_member(struct api_call *call)
{
	struct ctrl_job *job = find_job(call);
	struct ctrl_log_who who = api_who(call);
	const char *text = call->parameter[1];
	struct ctrl_refusal why;
	char *end;
	unsigned long rank;
	uint32_t address;
	uint64_t membership;

	if (job == NULL || !api_query_number(call, "membership", 1, MEMBERSHIP_MAX, 0, &membership))
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
	else if (ctrl_member_leave(call->running, job, (unsigned int)rank, &who, &why) < 0)
		answer_refusal(call, &why, NULL);
	else
		api_answer(call, 200, json_object());
}

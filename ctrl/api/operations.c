/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of operations and of their answers' fields, also for weirctl, which has no DPDK. */
#include "ctrl/api/operations.h"

#include <string.h>

#include "ctrl/config/job_keys.h"
#include "ctrl/config/filter_keys.h"

#define NUMBER_MAX   (INT64_C(1) << 53) /* exact in a double, as JSON parsers need */
#define TRACE_MS_MAX 10000
#define BLOCKS_MAX   1024
#define KEYS(list)                                                                                 \
	{                                                                                          \
		list, sizeof(list) / sizeof((list)[0])                                             \
	}

/* clang-format off */

/* -- queries */

#define DRY_RUN \
	{"dry_run", CTRL_INTEGER, "", "0", 0, 1, NULL, \
		.help = "1: check the change and answer what it would answer, and change " \
		"nothing."}

static const struct ctrl_key dry_run_keys[] = {DRY_RUN};
static const struct ctrl_key jobs_keys[] = {
	{"limit", CTRL_INTEGER, "", "256", 1, WEIR_JOBS_MAX, NULL,
		.help = "Number of jobs in a page, at most."},
	{"after", CTRL_INTEGER, "", "", 0, WEIR_JOBS_MAX - 1, NULL,
		.help = "`next` of the page before."},
};
static const struct ctrl_key delete_jobs_keys[] = {
	DRY_RUN,
	{"prefix", CTRL_TEXT, "", NULL, 1, 1024, NULL, .help = "How the names begin."},
};
static const struct ctrl_key leave_job_keys[] = {
	DRY_RUN,
	{"membership", CTRL_INTEGER, "", "", 1, NUMBER_MAX, NULL,
		.help = "The number of the join's answer: leave only if no other process "
		"has joined as this rank since. Without it, the present member of the rank "
		"leaves."},
};
static const struct ctrl_key blocks_keys[] = {
	{"job", CTRL_TEXT, "", "", 0, 1024, NULL, .help = "Only blocks of this job."},
	{"stuck", CTRL_INTEGER, "", "0", 0, 1, NULL,
		.help = "1: only open blocks that are idle for longer than the job's "
		"timeout or 1 s, whichever is less, and why jobs do not progress."},
	{"limit", CTRL_INTEGER, "", "256", 1, BLOCKS_MAX, NULL,
		.help = "Number of blocks in a page, at most."},
	{"after", CTRL_TEXT, "", "", 0, 64, NULL, .help = "`next` of the page before."},
};
static const struct ctrl_key trace_keys[] = {
	{"ms", CTRL_INTEGER, "ms", "50", 1, TRACE_MS_MAX, NULL, .help = "How long to record."},
};

static const struct ctrl_key log_keys[] = {
	{"after", CTRL_INTEGER, "", "", 0, NUMBER_MAX, NULL,
		.help = "Only lines that follow the one with this number."},
};

#define QUERY_none        {NULL, 0}
#define QUERY_dry_run     KEYS(dry_run_keys)
#define QUERY_jobs        KEYS(jobs_keys)
#define QUERY_delete_jobs KEYS(delete_jobs_keys)
#define QUERY_leave_job   KEYS(leave_job_keys)
#define QUERY_blocks      KEYS(blocks_keys)
#define QUERY_trace       KEYS(trace_keys)
#define QUERY_log         KEYS(log_keys)

/* -- bodies */

#define X(key, where, change, needs, tree, kind, field, ...) \
	CTRL_API_##where({.path = #key, CTRL_##kind, __VA_ARGS__},)
static const struct ctrl_key create_job_keys[] = {
	CTRL_JOB_IDENTITY("", NULL, "", "")
	CTRL_TREE_API_KEYS("")
	CTRL_JOB_SETTINGS(X)
};
#undef X

#define X(key, where, change, needs, tree, kind, field, ...) \
	CTRL_CHANGE_##change({.path = #key, CTRL_##kind, __VA_ARGS__},)
static const struct ctrl_key change_job_keys[] = {CTRL_JOB_SETTINGS(X)};
#undef X

#define X(key, where, change, needs, tree, kind, field, ...) \
	CTRL_API_##where({.path = "create." #key, CTRL_##kind, __VA_ARGS__},)
static const struct ctrl_key join_job_keys[] = {
	{"rank", CTRL_INTEGER, "", NULL, 0, WEIR_SOURCES_MAX - 1, NULL,
		.help = "The rank that the host is."},
	{"size", CTRL_INTEGER, "", NULL, 1, WEIR_SOURCES_MAX, NULL,
		.help = "Of a tree of switches: its ranks."},
	{"address", CTRL_ADDRESS, "", "", 0, 0, NULL,
		.help = "The host's address, in the switch's subnet; by default the "
		"client's. A member joins and leaves from its own address; administrators, "
		"the tenant that owns the job and the rank's token may give another one."},
	{"create", CTRL_OBJECT, "", "", 0, 0, NULL,
		.help = "Create the job with these settings if it does not exist. `name` "
		"and `size` are those of the join and may be omitted."},
	CTRL_JOB_IDENTITY("create.", "", "", "")
	CTRL_JOB_SETTINGS(X)
};
#undef X

static const struct ctrl_key load_program_keys[] = {
	{"file", CTRL_NAME, "", NULL, 4, 63, NULL, .help = "Its file, such as `switchml.so`."},
	{"settings", CTRL_SETTINGS, "", "{}", 0, 0, NULL,
		.help = "The program's own settings. Those that are absent get their defaults."},
};

static const struct ctrl_key simulate_keys[] = {
	{"frame", CTRL_TEXT, "", NULL, 0, 19456, NULL,
		.help = "Its bytes without FCS, as pairs of hexadecimal digits."},
	{"port", CTRL_NAME, "", "", 1, 63, NULL,
		.help = "The port that would receive it; by default the first."},
};

static const struct ctrl_key load_filter_keys[] = {CTRL_FILTER_KEYS("")};

#define BODY_none       {NULL, 0}, NULL, NULL
#define BODY_simulate   KEYS(simulate_keys), NULL, \
	"{\"frame\": \"ffffffffffff0200000000010806\", \"port\": \"p0\"}"
#define BODY_load_program KEYS(load_program_keys), NULL, "{\"file\": \"telemetry.so\"}"
#define BODY_load_filter KEYS(load_filter_keys), NULL, \
	"{\"file\": \"sampler.o\", \"values\": [100]}"
#define BODY_create_job KEYS(create_job_keys), NULL, "{\"name\": \"ring\", \"size\": 4}"
#define BODY_change_job KEYS(change_job_keys), NULL, "{\"timeout_ms\": 500}"
#define BODY_join_job   KEYS(join_job_keys), NULL, \
	"{\"rank\": 0, \"size\": 4, \"address\": \"10.77.0.1\"}"
#define BODY_set_faults {NULL, 0}, "faults", \
	"{\"rules\": [{\"direction\": \"in\", \"action\": \"drop\", \"chance_ppm\": 1000}]}"

const struct api_operation api_operations[] = {
#define X(name, method, path, access, needs, query, body, ...) \
	{#name, #method, path, API_##access, API_##needs, QUERY_##query, BODY_##body, __VA_ARGS__},
	API_OPERATIONS(X)
#undef X
};
const size_t api_operations_count = sizeof(api_operations) / sizeof(api_operations[0]);

/* -- answers */

const char api_error_codes[] = "bad_json|unknown_key|missing_key|wrong_type|out_of_range|duplicate|"
			       "unknown_job|unknown_member|unknown_program|unknown_filter|"
			       "unknown_path|method_not_allowed|unauthorized|forbidden|exists|"
			       "quota|no_free_job|no_memory|conflict|too_large|misdirected|"
			       "too_often|busy";

enum { OPTIONAL = API_OPTIONAL, NULLABLE = API_NULLABLE };

#define X(key, kind, flags, value, of, help) {#key, API_KIND_##kind, flags, of, help},
#define E(key, kind, flags, of, help)        {#key, API_KIND_##kind, flags, of, help},
#define O(name, list, others, settings, help) \
	static const struct api_field name##_fields[] = {list(X, E) {NULL, 0, 0, NULL, NULL}};
API_OBJECTS(O)
#undef O
#undef X
#undef E

const struct api_object api_objects[] = {
#define X(name, list, others, settings, help) \
	{#name, name##_fields, sizeof(name##_fields) / sizeof(name##_fields[0]) - 1, \
		API_KIND_##others, #settings, help},
	API_OBJECTS(X)
#undef X
};
const size_t api_objects_count = sizeof(api_objects) / sizeof(api_objects[0]);
/* clang-format on */

const struct api_object *
api_object_find(const char *name)
{
	for (size_t i = 0; name != NULL && i < api_objects_count; i++)
		if (strcmp(api_objects[i].name, name) == 0)
			return &api_objects[i];
	return NULL;
}

const struct api_field *
api_field_find(const struct api_object *object, const char *path)
{
	size_t length = strcspn(path, ".");

	for (size_t i = 0; object != NULL && i < object->count; i++) {
		const struct api_field *field = &object->fields[i];

		if (strlen(field->key) == length && memcmp(field->key, path, length) == 0)
			return path[length] == '\0'
				? field
				: api_field_find(api_object_find(field->of), path + length + 1);
	}
	return NULL;
}

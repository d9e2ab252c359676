/* SPDX-License-Identifier: BSD-3-Clause */
/* GET and POST /v1/programs, GET and DELETE /v1/programs/{name}, GET /v1/graph */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "ctrl/api/call.h"
#include "ctrl/programs/programs.h"
#include "ctrl/programs/settings.h"

#define LOOK_MS   5 /* between two looks at the child that checks a file */
#define RUNNING_S 0.5 /* that an answer waits until the program runs */

static const char *const phases[] = {"loading", "running", "unloading", "unloading"};
static const char *const column_kinds[] = {"number", "ipv4", "mac", "port"};

/* -- a program as JSON */

static json_t *
matches_json(const struct ppe_program_info *info)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < info->nb_matches; i++)
		json_array_append_new(list, json_string(ctrl_match_text(&info->match[i]).text));
	return list;
}

static json_t *
counters_json(const struct ctrl_running *running, const struct ctrl_program_info *info)
{
	const struct ppe_statistic *what = info->engine.program->statistics;
	unsigned int workers = running->config->ppe.workers;
	json_t *object = json_object();

	for (; what < info->engine.program->statistics + PPE_PROGRAM_STATISTICS &&
		what->key != NULL;
		what++) {
		uint64_t all = 0;

		for (unsigned int w = 0; w < workers; w++) {
			const void *state = info->engine.state[w];
			uint64_t one = state == NULL ? 0 : what->read(state);

			all = !what->is_largest ? all + one : RTE_MAX(all, one);
		}
		api_put(object, what->key, all);
	}
	return object;
}

static json_t *
cell_json(const struct ctrl_config *config, enum ppe_column_kind kind, uint64_t value)
{
	char text[18];

	if (kind == PPE_COLUMN_IPV4)
		return json_string(ctrl_address_text((uint32_t)value).text);
	if (kind == PPE_COLUMN_PORT && value < config->nb_ports)
		return json_string(config->port[value].name);
	if (kind != PPE_COLUMN_MAC)
		return json_integer((json_int_t)RTE_MIN(value, (uint64_t)INT64_MAX));
	for (unsigned int i = 0; i < 6; i++)
		snprintf(text + 3 * i, 4, "%02x%s", (unsigned int)(value >> (40 - 8 * i)) & 0xff,
			i < 5 ? ":" : "");
	return json_string(text);
}

static json_t *
columns_json(const struct ppe_table *table)
{
	json_t *list = json_array();

	for (const struct ppe_column *column = table->column; column->key != NULL; column++) {
		json_t *object = json_object();

		API_COLUMN(API_PUT, API_SKIP)
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *
rows_json(const struct ctrl_running *running, const struct ctrl_program_info *info,
	const struct ppe_table *table)
{
	static uint64_t cells[PPE_TABLE_ROWS][PPE_TABLE_COLUMNS];
	const void *const *states = (const void *const *)info->engine.state;
	json_t *list = json_array();
	unsigned int count = 0;

	if (info->engine.state[0] != NULL)
		count = table->read(states, running->config->ppe.workers, cells, PPE_TABLE_ROWS);
	for (unsigned int r = 0; r < count && r < PPE_TABLE_ROWS; r++) {
		json_t *row = json_object();

		for (unsigned int c = 0; table->column[c].key != NULL; c++)
			json_object_set_new(row, table->column[c].key,
				cell_json(running->config, table->column[c].kind, cells[r][c]));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *
tables_json(const struct ctrl_running *running, const struct ctrl_program_info *info)
{
	const struct ppe_table *table = info->engine.program->tables;
	json_t *list = json_array();

	for (; table != NULL && table->name != NULL; table++) {
		json_t *object = json_object(), *columns = columns_json(table),
		       *rows = rows_json(running, info, table);

		API_PROGRAM_TABLE(API_PUT, API_SKIP)
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *
sidecar_json(const struct ctrl_program_info *info)
{
	const struct ppe_program *program = info->engine.program;
	const struct ctrl_sidecar *sidecar;
	json_t *object;

	if (info->loaded == NULL || program->sidecar == NULL)
		return NULL;
	sidecar = &info->loaded->sidecar;
	object = json_object();
	API_SIDECAR(API_PUT, API_SKIP)
	return object;
}

/* NULL: nothing. */
static const char *
waits_for(const struct ctrl_program_info *info)
{
	if (info->loaded != NULL && info->loaded->is_gone)
		return "its sidecar, which has not ended";
	if (info->engine.phase == PPE_PROGRAM_UNLOADING)
		return info->engine.in_flight > 0 ? "packets on their way to another worker"
						  : "a worker that has not ended its turn";
	if (info->engine.phase == PPE_PROGRAM_LEAVING)
		return "packets in its memory that are still to be sent, or the end of a trace";
	return NULL;
}

static json_t *
brief_json(const struct api_call *call, const struct ctrl_program_info *info)
{
	const struct ppe_program *program = info->engine.program;
	json_t *object = json_object();

	API_PROGRAM_BRIEF(API_PUT, API_SKIP)
	return object;
}

static json_t *
program_json(const struct api_call *call, const struct ctrl_program_info *info)
{
	const struct ppe_program *program = info->engine.program;
	json_t *object = brief_json(call, info);

	API_PROGRAM_MORE(API_PUT, API_SKIP)
	return object;
}

/* -- operations */

static bool
find(const struct api_call *call, const char *name, struct ctrl_program_info *found)
{
	struct ctrl_program_info infos[PPE_PROGRAMS_MAX];

	ctrl_programs_tick(call->running);
	for (unsigned int i = ctrl_programs_read(call->running, infos, PPE_PROGRAMS_MAX); i-- > 0;)
		if (strcmp(infos[i].engine.program->name, name) == 0) {
			*found = infos[i];
			return true;
		}
	return false;
}

void
api_get_programs(struct api_call *call)
{
	struct ctrl_program_info infos[PPE_PROGRAMS_MAX];
	json_t *object = json_object(), *list = json_array();
	unsigned int count;

	ctrl_programs_tick(call->running);
	count = ctrl_programs_read(call->running, infos, PPE_PROGRAMS_MAX);
	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(list, brief_json(call, &infos[i]));
	API_PROGRAMS(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

void
api_get_program(struct api_call *call)
{
	struct ctrl_program_info info;

	if (find(call, call->parameter[0], &info))
		api_answer(call, 200, program_json(call, &info));
	else
		api_error(call, 404, "unknown_program", NULL, "no program is called \"%.64s\"",
			call->parameter[0]);
}

static void
answer_refusal(struct api_call *call, int rc, const char *reason)
{
	static const struct {
		int rc;
		unsigned int status;
		const char *code;
	} answers[] = {{-ENOENT, 404, "unknown_program"}, {-EEXIST, 409, "exists"},
		{-EBUSY, 503, "busy"}, {-ENOMEM, 507, "no_memory"}, {-ENOSPC, 507, "no_memory"},
		{-ENOTUNIQ, 409, "exists"}, {-EPERM, 409, "conflict"},
		{-EADDRINUSE, 409, "conflict"}, {0, 400, "out_of_range"}};
	unsigned int i = 0;

	while (answers[i].rc != rc && answers[i].rc != 0)
		i++;
	api_error(call, answers[i].status, answers[i].code, answers[i].rc == 0 ? "file" : NULL,
		"%s", reason);
}

/* A request to load a program, between two calls of its handler. */
struct loading {
	struct ctrl_program *program; /* NULL: the switch has it */
	char name[API_TARGET_BYTES]; /* of the program that the switch has */
	double answer_at; /* CLOCK_MONOTONIC, s: at the latest */
};

static void
free_loading(void *context)
{
	struct loading *loading = context;

	if (loading->program != NULL)
		ctrl_programs_close(loading->program);
	free(loading);
}

static void
begin(struct api_call *call)
{
	const char *file = json_string_value(json_object_get(call->body, "file"));
	struct loading *loading = calloc(1, sizeof(*loading));

	if (loading != NULL)
		loading->program = calloc(1, sizeof(*loading->program));
	if (loading == NULL || loading->program == NULL) {
		free(loading);
		api_error_memory(call);
		return;
	}
	call->context = loading;
	call->context_free = free_loading;
	if (ctrl_program_open_begin(
		    &loading->program->file, call->config->program_directory, file) < 0)
		answer_refusal(call, -EINVAL, loading->program->file.reason);
	else
		api_wait(call, LOOK_MS);
}

/* The child has loaded the file, and so has the switch. */
static void
load(struct api_call *call, struct loading *loading)
{
	struct ctrl_program *program = loading->program;
	const struct ppe_program *what = program->file.program;
	char reason[CTRL_PROGRAM_REASON] = "there is too little memory for it";
	struct ctrl_error error = {0};
	int rc = ctrl_program_settings_read(what, json_object_get(call->body, "settings"),
		"settings", &program->values, &error);

	if (rc == -EINVAL) {
		api_answer_error(call, &error);
		return;
	}
	if (rc == 0)
		rc = ctrl_program_load(call->running, program, call->caller->name, reason);
	if (rc < 0) {
		answer_refusal(call, rc, reason);
		return;
	}
	strlcpy(loading->name, what->name, sizeof(loading->name));
	if (call->is_dry_run) {
		struct ctrl_program_info info = {
			{.program = what, .phase = PPE_PROGRAM_LOADING, .values = program->values},
			program};

		api_answer(call, 201, program_json(call, &info));
		return;
	}
	loading->program = NULL;
	loading->answer_at = ctrl_monotonic() + RUNNING_S;
	api_wait(call, 1);
}

static void
answer_loaded(struct api_call *call, const struct loading *loading)
{
	struct ctrl_program_info info;

	if (!find(call, loading->name, &info)) {
		api_error(call, 409, "conflict", NULL, "it was unloaded at once");
	} else if (info.engine.phase == PPE_PROGRAM_LOADING &&
		ctrl_monotonic() < loading->answer_at) {
		api_wait(call, LOOK_MS);
	} else {
		api_answer(call, 201, program_json(call, &info));
		api_header(call, "Location", "/v1/programs/%s", loading->name);
	}
}

void
api_load_program(struct api_call *call)
{
	struct loading *loading = call->context;
	int rc;

	if (loading == NULL && !call->caller->is_local && !call->config->api.load_over_tcp) {
		api_error(call, 403, "forbidden", NULL,
			"programs run with all rights of the switch, and are loaded over the Unix "
			"socket only: the configuration allows it over TCP with "
			"api.load_programs_over_tcp");
	} else if (loading == NULL) {
		begin(call);
	} else if (loading->program == NULL) {
		answer_loaded(call, loading);
	} else {
		rc = ctrl_program_open_step(&loading->program->file);
		if (rc == -EAGAIN)
			api_wait(call, LOOK_MS);
		else if (rc < 0)
			answer_refusal(call, rc, loading->program->file.reason);
		else
			load(call, loading);
	}
}

void
api_unload_program(struct api_call *call)
{
	const char *name = call->parameter[0];
	char reason[CTRL_PROGRAM_REASON];
	struct ctrl_program_info info;
	int rc = ctrl_program_unload(call->running, name, call->caller->name, reason);
	json_t *object;
	bool is_there;

	if (rc < 0) {
		answer_refusal(call, rc, reason);
		return;
	}
	is_there = !call->is_dry_run && find(call, name, &info);
	object = json_object();
	API_PROGRAM_STATE(API_PUT, API_SKIP)
	api_answer(call, is_there ? 202 : 200, object);
}

/* -- the graph */

/* The words of a text, which blanks separate; NULL: none. */
static json_t *
words_json(const char *text)
{
	json_t *list = json_array();

	for (size_t n; text != NULL && *text != '\0'; text += n + strspn(text + n, " ")) {
		n = strcspn(text, " ");
		if (n > 0)
			json_array_append_new(list, json_stringn(text, n));
	}
	return list;
}

static json_t *
segments_json(const struct ppe_program *program)
{
	const struct ppe_segment_name *segment;
	json_t *list = json_array();

	for (unsigned int i = 0; i < PPE_SEGMENT_LISTS; i++)
		for (segment = program->segments[i]; segment != NULL && segment->name != NULL;
			segment++) {
			json_t *object = json_object();

			API_GRAPH_SEGMENT(API_PUT, API_SKIP)
			json_array_append_new(list, object);
		}
	return list;
}

static json_t *
graph_program_json(const struct ppe_program_info *info)
{
	json_t *object = json_object();

	API_GRAPH_PROGRAM(API_PUT, API_SKIP)
	return object;
}

void
api_get_graph(struct api_call *call)
{
	static struct ppe_program_info infos[PPE_PROGRAMS_MAX];
	json_t *object = json_object(), *list = json_array();
	unsigned int count;

	ctrl_programs_tick(call->running);
	count = ppe_programs_read(call->running->ppe, infos, PPE_PROGRAMS_MAX);
	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(list, graph_program_json(&infos[i]));
	API_GRAPH(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

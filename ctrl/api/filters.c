/* SPDX-License-Identifier: BSD-3-Clause */
/* GET and POST /v1/filters, DELETE /v1/filters/{name} */
#include <errno.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/filters/filters.h"

static json_t *
ports_json(const struct ctrl_config *config, const struct ppe_filter *filter)
{
	json_t *list = json_array();

	for (unsigned int p = 0; p < config->nb_ports; p++)
		if ((filter->ports >> p & 1) != 0)
			json_array_append_new(list, json_string(config->port[p].name));
	return list;
}

static json_t *
programs_json(const struct ppe_filter *filter)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < filter->nb_programs; i++)
		json_array_append_new(list, json_string(filter->program[i]));
	return list;
}

static json_t *
numbers_json(const uint64_t *numbers, unsigned int count)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(list, json_integer((json_int_t)numbers[i]));
	return list;
}

static json_t *
filter_json(const struct ctrl_config *config, const struct ppe_filter_info *info)
{
	const struct ppe_filter *filter = &info->filter;
	json_t *object = json_object();

	API_FILTER(API_PUT, API_SKIP)
	return object;
}

void
api_get_filters(struct api_call *call)
{
	json_t *object = json_object(), *list = json_array();

	for (unsigned int i = 0; i < call->seen->nb_filters; i++)
		json_array_append_new(list, filter_json(call->config, &call->seen->filter[i]));
	API_FILTERS(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

void
api_load_filter(struct api_call *call)
{
	struct ppe_filter_info infos[PPE_FILTERS_MAX], info = {.is_compiled = true};
	struct ctrl_error error = {0};
	int rc = ctrl_filter_load(
		call->running, call->body, call->caller->name, &info.filter, &error);
	unsigned int count;

	if (rc == -EINVAL)
		api_answer_error(call, &error);
	else if (rc == -EEXIST)
		api_error(call, 409, "exists", "file", "%s", error.text);
	else if (rc == -EBUSY)
		api_error(call, 503, "busy", NULL, "%s", error.text);
	else if (rc < 0)
		api_error(call, 507, "no_memory", NULL, "%s", error.text);
	if (rc < 0)
		return;
	count = ppe_filters_read(call->running->ppe, infos);
	if (!call->is_dry_run && count > 0)
		info = infos[count - 1];
	api_answer(call, 201, filter_json(call->config, &info));
}

void
api_unload_filter(struct api_call *call)
{
	const char *name = call->parameter[0];
	int rc = ctrl_filter_unload(call->running, name, call->caller->name);
	json_t *object;

	if (rc == -ENOENT)
		api_error(call, 404, "unknown_filter", NULL, "no filter is called \"%.64s\"", name);
	else if (rc == -EBUSY)
		api_error(call, 503, "busy", NULL,
			"a worker has not taken the last change yet: again in a second");
	else if (rc < 0)
		api_error(call, 507, "no_memory", NULL, "there is too little memory");
	if (rc < 0)
		return;
	object = json_object();
	API_FILTER_GONE(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

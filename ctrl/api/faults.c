/* SPDX-License-Identifier: BSD-3-Clause */
/* GET, PUT and DELETE /v1/faults */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/config/config.h"

static json_t *
rule_json(const struct ctrl_config *config, const struct ppe_fault_rule *rule,
	const struct ppe_fault_stats *stats, unsigned int i)
{
	json_t *object = ctrl_fault_rule_json(config, rule);

	API_FAULT_RULE(API_PUT, API_SKIP)
	return object;
}

static void
answer(struct api_call *call, const struct ppe_faults *faults, const struct ppe_fault_stats *stats)
{
	json_t *object = json_object(), *rules = json_array();

	for (unsigned int i = 0; i < faults->nb_rules; i++)
		json_array_append_new(rules, rule_json(call->config, &faults->rule[i], stats, i));
	API_FAULTS(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}

void
api_get_faults(struct api_call *call)
{
	answer(call, &call->seen->faults, &call->seen->fault_stats);
}

static const struct ppe_faults no_faults;

static void
set(struct api_call *call, const struct ppe_faults *faults)
{
	struct ppe_fault_stats stats = {0};
	struct ctrl_refusal why;
	int rc = ctrl_faults_set(call->running, faults, call->caller->name, &why);

	if (rc == -EBUSY)
		api_error(call, 503, "busy", NULL, "%s", why.message);
	else if (rc < 0)
		api_error(call, 507, "no_memory", NULL, "%s", why.message);
	if (rc < 0)
		return;
	if (!call->is_dry_run) {
		faults = ppe_faults_of(call->running->ppe);
		ppe_faults_read(call->running->ppe, &stats);
	}
	answer(call, faults == NULL || faults->nb_rules == 0 ? &no_faults : faults, &stats);
}

void
api_set_faults(struct api_call *call)
{
	struct ctrl_error error;
	struct ppe_faults *faults;

	faults = calloc(1, sizeof(*faults));
	if (faults == NULL) {
		api_error_memory(call);
		return;
	}
	if (ctrl_faults_parse(call->config, call->body, faults, &error) < 0)
		api_answer_error(call, &error);
	else
		set(call, faults);
	free(faults);
}

void
api_clear_faults(struct api_call *call)
{
	set(call, &no_faults);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* GET, PUT and DELETE /v1/faults */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/config/config.h"
#include "ctrl/jobs/reload.h"

static void
put_rule(json_t *list, const struct ctrl_running *running, const struct ppe_fault_stats *stats,
	unsigned int index)
{
	json_t *rule =
		ctrl_fault_rule_json(running->config, &ppe_faults_of(running->ppe)->rule[index]);

	api_put(rule, "matched", stats->matched[index]);
	api_put(rule, "hit", stats->hit[index]);
	api_put(rule, "spared", stats->spared[index]);
	json_array_append_new(list, rule);
}

static void
answer(struct api_call *call)
{
	const struct ctrl_running *running = call->running;
	const struct ppe_faults *faults = ppe_faults_of(running->ppe);
	struct ppe_fault_stats stats;
	json_t *object = json_object(), *rules = json_array();

	ppe_faults_read(running->ppe, &stats);
	api_put(object, "seed", faults != NULL ? faults->seed : 0);
	api_put(object, "held", faults != NULL ? faults->held : 0);
	for (unsigned int i = 0; faults != NULL && i < faults->nb_rules; i++)
		put_rule(rules, running, &stats, i);
	json_object_set_new(object, "rules", rules);
	api_put(object, "elapsed_ms", stats.elapsed_us / 1000);
	api_put(object, "held_now", stats.held);
	api_put(object, "spared", stats.spared_ever);
	api_answer(call, 200, object);
}

void
api_get_faults(struct api_call *call)
{
	answer(call);
}

static void
set(struct api_call *call, const struct ppe_faults *faults)
{
	struct ctrl_refusal why;
	int rc = ctrl_faults_set(call->running, faults, call->caller->name, &why);

	if (rc == -EBUSY)
		api_error(call, 503, "busy", NULL, "%s", why.message);
	else if (rc < 0)
		api_error(call, 507, "no_memory", NULL, "%s", why.message);
	else
		answer(call);
}

void
api_put_faults(struct api_call *call)
{
	struct ctrl_error error;
	struct ppe_faults *faults;

	if (call->body == NULL) {
		api_error(call, 400, "bad_json", NULL, "this request needs a body");
		return;
	}
	faults = calloc(1, sizeof(*faults));
	if (faults == NULL) {
		api_error_memory(call);
		return;
	}
	if (ctrl_faults_parse(call->running->config, call->body, faults, &error) < 0)
		api_answer_error(call, &error);
	else
		set(call, faults);
	free(faults);
}

void
api_delete_faults(struct api_call *call)
{
	static const struct ppe_faults none;

	set(call, &none);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The section "faults". */
#include <errno.h>

#include "ctrl/config/config_priv.h"

/* Keys that go together, or not. By default a rule selects all packets: a list, an nth or a burst
 * without its `choice` would hit everything. */
static int
check_rule(const struct ctrl_reading *rule, const struct ppe_fault_rule *r)
{
	if (r->first > r->last)
		return CTRL_REFUSE(
			rule, "last_block", "%u is less than first_block, %u", r->last, r->first);
	if (r->choice == PPE_FAULT_LIST && r->ordinals == 0)
		return CTRL_REFUSE(rule, "choice", "list has no entries");
	if (r->choice != PPE_FAULT_LIST && r->ordinals > 0)
		return CTRL_REFUSE(rule, "list", "goes with choice list only");
	if (r->choice != PPE_FAULT_EVERY && r->nth > 1)
		return CTRL_REFUSE(rule, "nth", "goes with choice every only");
	if (r->choice != PPE_FAULT_BURST && r->enter > 0)
		return CTRL_REFUSE(rule, "enter_ppm", "goes with choice burst only");
	if (r->to_ms != 0 && r->from_ms >= r->to_ms)
		return CTRL_REFUSE(
			rule, "to_ms", "%u is not after from_ms, %u", r->to_ms, r->from_ms);
	if (r->repeat_ms != 0 && r->to_ms == 0)
		return CTRL_REFUSE(rule, "repeat_ms", "goes with to_ms only");
	if (r->repeat_ms < r->to_ms && r->repeat_ms != 0)
		return CTRL_REFUSE(
			rule, "repeat_ms", "%u is less than to_ms, %u", r->repeat_ms, r->to_ms);
	if (r->delay != PPE_FAULT_CONSTANT && r->most_us < r->us)
		return CTRL_REFUSE(rule, "most_us", "%u is less than us, %u", r->most_us, r->us);
	return 0;
}

/* What the list does not say of rules that are read. */
static int
finish(const struct ctrl_config *config, const json_t *section, struct ppe_faults *faults,
	struct ctrl_error *error)
{
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < faults->nb_rules; i++) {
		struct ctrl_path at = ctrl_path("faults.rules[%u].", i);
		const struct ctrl_reading rule = {.error = error, .at = at.text};
		const char *port = ctrl_string(json_array_get(json_object_get(section, "rules"), i),
			"faults.rules[].port");

		faults->rule[i].port = ctrl_port_find(config, port);
		if (port[0] != '\0' && faults->rule[i].port < 0)
			return CTRL_REFUSE(&rule, "port", "no port has the name \"%s\"", port);
		rc = check_rule(&rule, &faults->rule[i]);
	}
	return rc;
}

int
ctrl_read_faults(struct ctrl_reading *reading)
{
	return finish(reading->config, json_object_get(reading->object, "faults"),
		&reading->config->faults, reading->error);
}

int
ctrl_faults_parse(const struct ctrl_config *config, json_t *section, struct ppe_faults *faults,
	struct ctrl_error *error)
{
	int rc = ctrl_schema_check(&ctrl_config_schema, "faults", section, error);

	if (rc < 0)
		return rc;
	ctrl_keys_read("faults", section, faults);
	return finish(config, section, faults, error);
}

const char *
ctrl_fault_action(enum ppe_fault_action action)
{
	static const char *const texts[] = {
		"drop", "blackout", "duplicate", "reorder", "delay", "corrupt"};

	return texts[action];
}

json_t *
ctrl_fault_rule_json(const struct ctrl_config *config, const struct ppe_fault_rule *rule)
{
	json_t *object = json_object();

	if (rule->port >= 0)
		json_object_set_new(object, "port", json_string(config->port[rule->port].name));
	ctrl_keys_put("faults.rules[]", rule, object);
	return object;
}

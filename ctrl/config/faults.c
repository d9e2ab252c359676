/* SPDX-License-Identifier: BSD-3-Clause */
/* The section "faults". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/config/config_priv.h"

#define REFUSE(reading, index, key, ...)                                                           \
	ctrl_refuse((reading)->error, ctrl_path("faults.rules[%u]." key, index), __VA_ARGS__)

struct fault_reading {
	struct ctrl_error *error;
	const struct ctrl_config *config; /* names the ports */
	struct ppe_faults *faults;
};

static int
read_match(struct fault_reading *reading, unsigned int index, const json_t *object,
	struct ppe_fault_rule *rule)
{
	const struct ctrl_config *config = reading->config;
	const char *port = ctrl_string(object, "faults.rules[].port");

	rule->port = -1;
	for (unsigned int p = 0; p < config->nb_ports; p++)
		if (strcmp(config->port[p].name, port) == 0)
			rule->port = (int)p;
	if (port[0] != '\0' && rule->port < 0)
		return REFUSE(reading, index, "port", "no port has the name \"%s\"", port);
	if (rule->first > rule->last)
		return REFUSE(reading, index, "last_block", "%u is less than first_block, %u",
			rule->last, rule->first);
	return 0;
}

static int
read_choice(struct fault_reading *reading, unsigned int index, const json_t *object,
	struct ppe_fault_rule *rule)
{
	const json_t *list = json_object_get(object, "list");

	rule->ordinals = (unsigned int)json_array_size(list);
	for (unsigned int i = 0; i < rule->ordinals; i++)
		rule->ordinal[i] = (uint64_t)json_integer_value(json_array_get(list, i));
	if (rule->choice == PPE_FAULT_LIST && rule->ordinals == 0)
		return REFUSE(reading, index, "choice", "list has no entries");
	/* By default a rule selects all packets: without `choice` it would hit everything. */
	if (rule->choice != PPE_FAULT_LIST && rule->ordinals > 0)
		return REFUSE(reading, index, "list", "goes with choice list only");
	if (rule->choice != PPE_FAULT_EVERY && rule->nth > 1)
		return REFUSE(reading, index, "nth", "goes with choice every only");
	if (rule->choice != PPE_FAULT_BURST && rule->enter > 0)
		return REFUSE(reading, index, "enter_ppm", "goes with choice burst only");
	return 0;
}

static int
check_times(
	const struct fault_reading *reading, unsigned int index, const struct ppe_fault_rule *rule)
{
	if (rule->to_ms != 0 && rule->from_ms >= rule->to_ms)
		return REFUSE(reading, index, "to_ms", "%u is not after from_ms, %u", rule->to_ms,
			rule->from_ms);
	if (rule->repeat_ms != 0 && rule->to_ms == 0)
		return REFUSE(reading, index, "repeat_ms", "goes with to_ms only");
	if (rule->repeat_ms != 0 && rule->repeat_ms < rule->to_ms)
		return REFUSE(reading, index, "repeat_ms", "%u is less than to_ms, %u",
			rule->repeat_ms, rule->to_ms);
	if (rule->delay != PPE_FAULT_CONSTANT && rule->most_us < rule->us)
		return REFUSE(reading, index, "most_us", "%u is less than us, %u", rule->most_us,
			rule->us);
	return 0;
}

static int
read_rule(struct fault_reading *reading, unsigned int index, const json_t *object)
{
	struct ppe_fault_rule *rule = &reading->faults->rule[index];
	int rc;

	ctrl_keys_read("faults.rules[]", object, rule);
	rc = read_match(reading, index, object, rule);
	if (rc == 0)
		rc = read_choice(reading, index, object, rule);
	return rc < 0 ? rc : check_times(reading, index, rule);
}

static int
read_section(struct fault_reading *reading, const json_t *object)
{
	struct ppe_faults *faults = reading->faults;
	const json_t *rules = json_object_get(object, "rules");

	faults->seed = (uint64_t)ctrl_integer(object, "faults.seed");
	faults->held = (uint32_t)ctrl_integer(object, "faults.held");
	faults->nb_rules = (unsigned int)json_array_size(rules);
	for (unsigned int i = 0; i < faults->nb_rules; i++) {
		int rc = read_rule(reading, i, json_array_get(rules, i));

		if (rc < 0)
			return rc;
	}
	return 0;
}

int
ctrl_read_faults(struct ctrl_reading *reading)
{
	struct fault_reading section = {reading->error, reading->config, &reading->config->faults};

	return read_section(&section, json_object_get(reading->root, "faults"));
}

int
ctrl_faults_parse(const struct ctrl_config *config, json_t *section, struct ppe_faults *faults,
	struct ctrl_error *error)
{
	struct fault_reading reading = {error, config, faults};
	int rc = ctrl_schema_check(&ctrl_config_schema, "faults", section, error);

	return rc < 0 ? rc : read_section(&reading, section);
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
	json_t *object = json_object(), *list = json_array();

	if (rule->port >= 0)
		json_object_set_new(object, "port", json_string(config->port[rule->port].name));
	ctrl_keys_put("faults.rules[]", rule, object);
	for (unsigned int i = 0; i < rule->ordinals; i++)
		json_array_append_new(list, json_integer((json_int_t)rule->ordinal[i]));
	json_object_set_new(object, "list", list);
	return object;
}

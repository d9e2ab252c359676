/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/faults.h"

#include <errno.h>
#include <math.h>
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

/* Parts per million, as a chance. */
static double
chance(const json_t *object, const char *path)
{
	return (double)ctrl_integer(object, path) / 1e6;
}

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
	rule->direction = (enum ppe_fault_direction)ctrl_word(object, "faults.rules[].direction");
	rule->what = (enum ppe_fault_what)ctrl_word(object, "faults.rules[].what");
	rule->job = (int)ctrl_integer(object, "faults.rules[].job");
	rule->source = (int)ctrl_integer(object, "faults.rules[].source");
	rule->first = (uint32_t)ctrl_integer(object, "faults.rules[].first_block");
	rule->last = (uint32_t)ctrl_integer(object, "faults.rules[].last_block");
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

	rule->choice = (enum ppe_fault_choice)ctrl_word(object, "faults.rules[].choice");
	rule->probability = chance(object, "faults.rules[].chance_ppm");
	rule->nth = (uint32_t)ctrl_integer(object, "faults.rules[].nth");
	rule->ordinals = (unsigned int)json_array_size(list);
	for (unsigned int i = 0; i < rule->ordinals; i++)
		rule->ordinal[i] = (uint64_t)json_integer_value(json_array_get(list, i));
	rule->enter = chance(object, "faults.rules[].enter_ppm");
	rule->leave = chance(object, "faults.rules[].leave_ppm");
	rule->good = chance(object, "faults.rules[].good_ppm");
	rule->bad = chance(object, "faults.rules[].bad_ppm");
	if (rule->choice == PPE_FAULT_LIST && rule->ordinals == 0)
		return REFUSE(reading, index, "choice", "list has no entries");
	/* The default chance is to take all: who forgets `choice` would hit everything. */
	if (rule->choice != PPE_FAULT_LIST && rule->ordinals > 0)
		return REFUSE(reading, index, "list", "goes with choice list only");
	if (rule->choice != PPE_FAULT_EVERY && rule->nth > 1)
		return REFUSE(reading, index, "nth", "goes with choice every only");
	if (rule->choice != PPE_FAULT_BURST && rule->enter > 0)
		return REFUSE(reading, index, "enter_ppm", "goes with choice burst only");
	return 0;
}

static int
read_window(struct fault_reading *reading, unsigned int index, const json_t *object,
	struct ppe_fault_rule *rule)
{
	rule->from_ms = (uint32_t)ctrl_integer(object, "faults.rules[].from_ms");
	rule->to_ms = (uint32_t)ctrl_integer(object, "faults.rules[].to_ms");
	rule->repeat_ms = (uint32_t)ctrl_integer(object, "faults.rules[].repeat_ms");
	if (rule->to_ms != 0 && rule->from_ms >= rule->to_ms)
		return REFUSE(reading, index, "to_ms", "%u is not after from_ms, %u", rule->to_ms,
			rule->from_ms);
	if (rule->repeat_ms != 0 && rule->to_ms == 0)
		return REFUSE(reading, index, "repeat_ms", "goes with to_ms only");
	if (rule->repeat_ms != 0 && rule->repeat_ms < rule->to_ms)
		return REFUSE(reading, index, "repeat_ms", "%u is less than to_ms, %u",
			rule->repeat_ms, rule->to_ms);
	return 0;
}

static int
read_action(struct fault_reading *reading, unsigned int index, const json_t *object,
	struct ppe_fault_rule *rule)
{
	rule->action = (enum ppe_fault_action)ctrl_word(object, "faults.rules[].action");
	rule->distance = (uint32_t)ctrl_integer(object, "faults.rules[].distance");
	rule->delay = (enum ppe_fault_delay)ctrl_word(object, "faults.rules[].delay");
	rule->us = (uint32_t)ctrl_integer(object, "faults.rules[].us");
	rule->most_us = (uint32_t)ctrl_integer(object, "faults.rules[].most_us");
	rule->shape = (double)ctrl_integer(object, "faults.rules[].shape_percent") / 100;
	rule->bits = (unsigned int)ctrl_integer(object, "faults.rules[].bits");
	if (rule->delay != PPE_FAULT_CONSTANT && rule->most_us < rule->us)
		return REFUSE(reading, index, "most_us", "%u is less than us, %u", rule->most_us,
			rule->us);
	return 0;
}

static int
read_rule(struct fault_reading *reading, unsigned int index, const json_t *object)
{
	struct ppe_fault_rule *rule = &reading->faults->rule[index];
	int rc = read_match(reading, index, object, rule);

	if (rc == 0)
		rc = read_choice(reading, index, object, rule);
	if (rc == 0)
		rc = read_window(reading, index, object, rule);
	if (rc == 0)
		rc = read_action(reading, index, object, rule);
	return rc;
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

static void
put(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void
put_ppm(json_t *object, const char *key, double chance)
{
	put(object, key, (uint64_t)llround(chance * 1e6));
}

static void
put_word(json_t *object, const char *path, unsigned int index)
{
	const struct ctrl_key *key = ctrl_schema_find(&ctrl_config_schema, path);

	json_object_set_new(object, ctrl_key_name(key), ctrl_word_json(key->words, index));
}

const char *
ctrl_fault_action(enum ppe_fault_action action)
{
	switch (action) {
	case PPE_FAULT_DROP: return "drop";
	case PPE_FAULT_BLACKOUT: return "blackout";
	case PPE_FAULT_DUPLICATE: return "duplicate";
	case PPE_FAULT_REORDER: return "reorder";
	case PPE_FAULT_DELAY: return "delay";
	case PPE_FAULT_CORRUPT: return "corrupt";
	default: return "";
	}
}

json_t *
ctrl_fault_rule_json(const struct ctrl_config *config, const struct ppe_fault_rule *rule)
{
	json_t *object = json_object(), *list = json_array();

	if (rule->port >= 0)
		json_object_set_new(object, "port", json_string(config->port[rule->port].name));
	put_word(object, "faults.rules[].direction", rule->direction);
	put_word(object, "faults.rules[].what", rule->what);
	json_object_set_new(object, "job", json_integer(rule->job));
	json_object_set_new(object, "source", json_integer(rule->source));
	put(object, "first_block", rule->first);
	put(object, "last_block", rule->last);
	put_word(object, "faults.rules[].choice", rule->choice);
	put_ppm(object, "chance_ppm", rule->probability);
	put(object, "nth", rule->nth);
	for (unsigned int i = 0; i < rule->ordinals; i++)
		json_array_append_new(list, json_integer((json_int_t)rule->ordinal[i]));
	json_object_set_new(object, "list", list);
	put_ppm(object, "enter_ppm", rule->enter);
	put_ppm(object, "leave_ppm", rule->leave);
	put_ppm(object, "good_ppm", rule->good);
	put_ppm(object, "bad_ppm", rule->bad);
	put(object, "from_ms", rule->from_ms);
	put(object, "to_ms", rule->to_ms);
	put(object, "repeat_ms", rule->repeat_ms);
	json_object_set_new(object, "action", json_string(ctrl_fault_action(rule->action)));
	put(object, "distance", rule->distance);
	put_word(object, "faults.rules[].delay", rule->delay);
	put(object, "us", rule->us);
	put(object, "most_us", rule->most_us);
	put(object, "shape_percent", (uint64_t)llround(rule->shape * 100));
	put(object, "bits", rule->bits);
	return object;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The section `faults`: what is taken, and what is told of it. The rest is in config_refused.txt. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/config/config.h"

static struct ctrl_config config = {.nb_ports = 2, .port = {{.name = "p0"}, {.name = "p1"}}};
static struct ppe_faults faults;
static char error[CTRL_ERROR_BYTES];

static int
parse(const char *text)
{
	json_t *section = json_loads(text, 0, NULL);
	struct ctrl_error wrong = {0};
	int rc;

	cr_assert_not_null(section, "%s", text);
	memset(&faults, 0, sizeof(faults));
	error[0] = '\0';
	rc = ctrl_faults_parse(&config, section, &faults, &wrong);
	if (rc < 0)
		snprintf(error, sizeof(error), "%s: %s", ctrl_error_path(&wrong).text, wrong.text);
	json_decref(section);
	return rc;
}

Test(ctrl_faults, defaults, .timeout = 90)
{
	cr_assert_eq(parse("{\"rules\": [{\"direction\": \"out\", \"action\": \"drop\"}]}"), 0,
		"%s", error);
	cr_expect_eq(faults.seed, 1);
	cr_expect_eq(faults.held, 1024);
	cr_expect_eq(faults.nb_rules, 1);
	cr_expect_eq(faults.rule[0].port, -1);
	cr_expect_eq(faults.rule[0].direction, PPE_FAULT_OUT);
	cr_expect_eq(faults.rule[0].job, -1);
	cr_expect_eq(faults.rule[0].last, UINT32_MAX);
	cr_expect_eq(faults.rule[0].probability, 1);
	cr_expect_eq(ppe_faults_check(&faults, 2), -1);
}

static const char all[] =
	"{\"seed\": 7, \"held\": 9, \"rules\": [{\"port\": \"p1\", \"direction\": \"in\", "
	"\"what\": \"contribution\", \"job\": 3, \"source\": 0, \"first_block\": 5, "
	"\"last_block\": 6, \"choice\": \"burst\", \"chance_ppm\": 1, \"nth\": 1, \"list\": [], "
	"\"enter_ppm\": 123456, \"leave_ppm\": 7, \"good_ppm\": 8, \"bad_ppm\": 9, \"from_ms\": 1, "
	"\"to_ms\": 2, \"repeat_ms\": 3, \"action\": \"delay\", \"distance\": 4, "
	"\"delay\": \"pareto\", \"us\": 5, \"most_us\": 6, \"shape_percent\": 129, \"bits\": 2}]}";

/* Of what is not in `all`: each has a choice of its own. */
static void
expect_told(const char *text, const char *key)
{
	json_t *section = json_loads(text, 0, NULL), *rule, *set;

	cr_assert_eq(parse(text), 0, "%s", error);
	rule = ctrl_fault_rule_json(&config, &faults.rule[0]);
	set = json_array_get(json_object_get(section, "rules"), 0);
	cr_expect(json_equal(json_object_get(rule, key), json_object_get(set, key)), "%s", key);
	json_decref(rule);
	json_decref(section);
}

Test(ctrl_faults, lists_and_numbers_there_and_back, .timeout = 90)
{
	expect_told("{\"rules\": [{\"direction\": \"in\", \"action\": \"drop\", "
		    "\"choice\": \"list\", \"list\": [3, 4]}]}",
		"list");
	expect_told("{\"rules\": [{\"direction\": \"in\", \"action\": \"drop\", "
		    "\"choice\": \"every\", \"nth\": 2}]}",
		"nth");
}

/* What is read is what is told, key by key. */
Test(ctrl_faults, all_keys_there_and_back, .timeout = 90)
{
	json_t *section = json_loads(all, 0, NULL), *rule;

	cr_assert_eq(parse(all), 0, "%s", error);
	cr_expect_eq(faults.rule[0].port, 1);
	cr_expect_eq(faults.rule[0].enter, 0.123456);
	rule = ctrl_fault_rule_json(&config, &faults.rule[0]);
	cr_expect(json_equal(rule, json_array_get(json_object_get(section, "rules"), 0)), "%s",
		json_dumps(rule, 0));
	json_decref(rule);
	json_decref(section);
}

/* Faults of the file are in the sum that is compared with memory_mb. */
Test(ctrl_faults, their_memory_is_counted, .timeout = 90)
{
	static const char text[] = "{\"switch\": {\"name\": \"s\", \"address\": "
				   "\"10.77.0.254/24\"}, \"memory_mb\": 128, "
				   "\"ports\": [{\"name\": \"p0\", \"device\": \"net_null0\"}]%s}";
	static const char section[] =
		", \"faults\": {\"rules\": [{\"direction\": \"in\", \"action\": \"drop\"}]}";
	struct ppe_memory memory[2];
	char whole[1024];

	for (unsigned int i = 0; i < 2; i++) {
		struct ctrl_config *made;

		snprintf(whole, sizeof(whole), text, i == 0 ? "" : section);
		cr_assert_eq(ctrl_config_parse(
				     whole, strlen(whole), "x.json", &made, error, sizeof(error)),
			0, "%s", error);
		memory[i] = made->memory;
		ctrl_config_destroy(made);
	}
	cr_expect_eq(memory[0].faults, 0);
	cr_expect_gt(memory[1].faults, 500000);
	cr_expect_eq(memory[1].total, memory[0].total + memory[1].faults);
}

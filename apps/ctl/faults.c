/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl faults set, add and clear. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "apps/ctl/views.h"

/* Ask for a change, and show what is set then. */
static int
change(struct ctl *ctl, const char *method, json_t *body)
{
	json_t *answer;

	if (!ctl_ask(ctl, method, "/v1/faults", body, &answer))
		return ctl->status;
	if (ctl_lacks(ctl, answer, "rules"))
		ctl->status = CTL_REFUSED;
	else
		view_faults(answer, stdout, ctl->width);
	json_decref(answer);
	return ctl->status;
}

int
command_faults_clear(struct ctl *ctl)
{
	return change(ctl, "DELETE", NULL);
}

/* What the switch answers is no section: take away what can't be set. */
static void
keep_settings(json_t *section)
{
	static const char *const told[] = {"matched", "hit", "spared", "elapsed_ms", "held_now"};
	json_t *rules = json_object_get(section, "rules"), *held = json_object_get(section, "held");

	for (size_t k = 0; k < sizeof(told) / sizeof(told[0]); k++) {
		json_object_del(section, told[k]);
		for (size_t i = 0; i < json_array_size(rules); i++)
			json_object_del(json_array_get(rules, i), told[k]);
	}
	/* Where there are none, these are 0: what is set then begins with the defaults. */
	if (json_array_size(rules) == 0 && json_is_integer(held) && json_integer_value(held) == 0) {
		json_object_del(section, "held");
		json_object_del(section, "seed");
	}
}

/* The section that a file is, or has; NULL and a message. A new reference. */
static json_t *
read_section(const char *file)
{
	json_error_t error;
	bool input = strcmp(file, "-") == 0;
	FILE *in = input ? stdin : fopen(file, "r");
	json_t *root, *section;

	if (in == NULL) {
		ctl_say("%s: %s", file, strerror(errno));
		return NULL;
	}
	root = json_loadf(in, JSON_REJECT_DUPLICATES, &error);
	if (!input)
		fclose(in);
	if (root == NULL) {
		ctl_say("%s:%d:%d: %s", input ? "standard input" : file,
			error.line < 1 ? 1 : error.line, error.column < 1 ? 1 : error.column,
			error.text);
		return NULL;
	}
	section = json_object_get(root, "faults");
	section = json_incref(section != NULL ? section : root);
	json_decref(root);
	return section;
}

int
command_faults_set(struct ctl *ctl)
{
	json_t *section = read_section(ctl->options.words[0]);

	if (section == NULL)
		return CTL_USAGE;
	if (json_object_get(section, "rules") == NULL) {
		ctl_say("%s: no faults: \"rules\" is missing", ctl->options.words[0]);
		json_decref(section);
		return CTL_USAGE;
	}
	keep_settings(section);
	return change(ctl, "PUT", section);
}

/* The id of a job that the command line names by its id or its name; -1: there is no such job, or no
 * answer, and ctl->status says which. */
static int
job_id(struct ctl *ctl, const char *job)
{
	json_t *answer;
	char *path;
	int id = -1;

	if (job[0] != '\0' && strlen(job) <= 9 && job[strspn(job, "0123456789")] == '\0')
		return atoi(job);
	path = ctl_path("/v1/jobs/", job, "");
	if (ctl_get(ctl, path, false, &answer)) {
		if (answer != NULL && json_is_integer(get(answer, "id")))
			id = (int)json_integer_value(get(answer, "id"));
		else
			ctl_say("there is no job %s: weirctl jobs lists them", job);
		ctl->status = id < 0 ? CTL_REFUSED : CTL_OK;
		json_decref(answer);
	}
	free(path);
	return id;
}

/* What --percent, --nth and --list say of the choice; false: too much. */
static bool
read_choice(json_t *rule)
{
	json_t *chance = json_object_get(rule, "percent");
	bool every = json_object_get(rule, "nth") != NULL,
	     list = json_object_get(rule, "list") != NULL;

	if ((chance != NULL) + every + list > 1) {
		ctl_say("faults add: --percent, --nth and --list each say which packets: give one "
			"of "
			"them");
		return false;
	}
	if (chance != NULL) {
		json_object_set(rule, "chance_ppm", chance);
		json_object_del(rule, "percent");
	} else if (every || list) {
		json_object_set_new(rule, "choice", json_string(every ? "every" : "list"));
	}
	return true;
}

/* Behind the rules that are set; in both directions, where none is given. */
static void
append(json_t *rules, json_t *rule)
{
	static const char *const directions[] = {"in", "out"};

	if (json_object_get(rule, "direction") != NULL) {
		json_array_append(rules, rule);
		return;
	}
	for (unsigned int i = 0; i < 2; i++) {
		json_t *copy = json_copy(rule);

		json_object_set_new(copy, "direction", json_string(directions[i]));
		json_array_append_new(rules, copy);
	}
}

/* The rule of the command line, but for its direction; false: it is none, and ctl->status says so. */
static bool
read_rule(struct ctl *ctl, json_t *rule)
{
	json_t *action = json_string(ctl->options.words[0]);
	int job = -1;

	if (action == NULL)
		ctl_say("the action is not UTF-8");
	if (action == NULL || !read_choice(rule)) {
		json_decref(action);
		ctl->status = CTL_USAGE;
		return false;
	}
	json_object_set_new(rule, "action", action);
	if (ctl->options.job == NULL)
		return true;
	job = job_id(ctl, ctl->options.job);
	json_object_set_new(rule, "job", json_integer(job));
	return job >= 0;
}

int
command_faults_add(struct ctl *ctl)
{
	json_t *rule = ctl->options.fields, *section;
	json_t *seed = json_incref(json_object_get(rule, "seed"));

	json_object_del(rule, "seed");
	if (read_rule(ctl, rule) && ctl_get(ctl, "/v1/faults", false, &section)) {
		if (section == NULL || ctl_lacks(ctl, section, "rules")) {
			if (section == NULL)
				ctl_say("this switch knows no faults: it is older than "
					"weirctl " WEIR_VERSION);
			ctl->status = CTL_REFUSED;
		} else {
			keep_settings(section);
			append(json_object_get(section, "rules"), rule);
			if (seed != NULL)
				json_object_set(section, "seed", seed);
			ctl->status = change(ctl, "PUT", json_incref(section));
		}
		json_decref(section);
	}
	json_decref(seed);
	return ctl->status;
}

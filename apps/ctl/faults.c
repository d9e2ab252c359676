/* SPDX-License-Identifier: BSD-3-Clause */
/* Injected faults: what is set, what it did, and weirctl faults set, add and clear. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "ctrl/api/units.h"

#define INDENT     9
#define LIST_BYTES 128
#define LIST_PARTS 4 /* ranges of a list that are shown */

static bool
is(json_t *rule, const char *key, const char *word)
{
	return strcmp(get_text(rule, key), word) == 0;
}

/* A chance in parts per million. */
static struct units_text
percent(json_t *rule, const char *key)
{
	struct units_text text;

	snprintf(text.text, sizeof(text.text), "%.7g %%", get_number(rule, key) / 1e4);
	return text;
}

static struct units_text
time_of(json_t *rule, const char *key, double unit)
{
	double value = get_number(rule, key) * unit;
	struct units_text text;

	/* units_age() rounds: here 1250 ms is 1.25 s. */
	if (!isfinite(value) || value >= 100)
		return units_age(value);
	if (value >= 1)
		snprintf(text.text, sizeof(text.text), "%.10g s", value);
	else if (value >= 1e-3 || value <= 0)
		snprintf(text.text, sizeof(text.text), "%.10g ms", value * 1e3);
	else
		snprintf(text.text, sizeof(text.text), "%.10g us", value * 1e6);
	return text;
}

/* The packets that the rule matches. */
static void
packets(json_t *rule, FILE *out)
{
	double job = get_number(rule, "job"), source = get_number(rule, "source"),
	       first = get_number(rule, "first_block"), last = get_number(rule, "last_block");
	bool result = is(rule, "what", "result");

	if (is(rule, "what", "any"))
		fprintf(out, "%s",
			job < 0 && source < 0 && first <= 0 && last >= UINT32_MAX ? "any"
										  : "aggregation");
	else
		fprintf(out, "%s%s", get_text(rule, "what"),
			result || is(rule, "what", "contribution") ? "s" : "");
	if (job >= 0)
		fprintf(out, ", job %s", units_exact(job).text);
	if (source >= 0)
		fprintf(out, ", source %s", units_exact(source).text);
	if (first > 0 || last < UINT32_MAX)
		fprintf(out, ", blocks %s..%s", units_exact(first).text,
			last < UINT32_MAX ? units_exact(last).text : "");
}

static int
ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
put_list(json_t *list, FILE *out)
{
	size_t count = json_array_size(list);
	uint64_t *numbers = calloc(count + 1, sizeof(*numbers));
	char text[LIST_BYTES] = "";

	if (numbers == NULL)
		return;
	for (size_t i = 0; i < count; i++)
		numbers[i] = (uint64_t)json_integer_value(json_array_get(list, i));
	qsort(numbers, count, sizeof(*numbers), ascending);
	units_ranges(numbers, count, LIST_PARTS, text, sizeof(text));
	fprintf(out, "numbers %s", text);
	free(numbers);
}

/* Which of them it chooses. */
static void
chosen(json_t *rule, FILE *out)
{
	if (is(rule, "choice", "every"))
		fprintf(out, "1 in %s", units_exact(get_number(rule, "nth")).text);
	else if (is(rule, "choice", "list"))
		put_list(get(rule, "list"), out);
	else if (is(rule, "choice", "burst"))
		fprintf(out, "bursts: begin %s, end %s, hit %s, else %s",
			percent(rule, "enter_ppm").text, percent(rule, "leave_ppm").text,
			percent(rule, "bad_ppm").text, percent(rule, "good_ppm").text);
	else
		fprintf(out, "%s", percent(rule, "chance_ppm").text);
	if (get_number(rule, "to_ms") > 0)
		fprintf(out, "; %s to %s", time_of(rule, "from_ms", 1e-3).text,
			time_of(rule, "to_ms", 1e-3).text);
	else if (get_number(rule, "from_ms") > 0)
		fprintf(out, "; from %s", time_of(rule, "from_ms", 1e-3).text);
	if (get_number(rule, "repeat_ms") > 0)
		fprintf(out, ", each %s", time_of(rule, "repeat_ms", 1e-3).text);
}

static void
put_delay(json_t *rule, FILE *out)
{
	if (is(rule, "delay", "constant"))
		fprintf(out, " %s", time_of(rule, "us", 1e-6).text);
	else if (is(rule, "delay", "uniform"))
		fprintf(out, " %s to %s", time_of(rule, "us", 1e-6).text,
			time_of(rule, "most_us", 1e-6).text);
	else
		fprintf(out, " %s, %s of %s, at most %s", get_text(rule, "delay"),
			is(rule, "delay", "pareto") ? "least" : "mean",
			time_of(rule, "us", 1e-6).text, time_of(rule, "most_us", 1e-6).text);
}

static void
action(json_t *rule, FILE *out)
{
	fprintf(out, "%s", get_text(rule, "action"));
	if (is(rule, "action", "delay"))
		put_delay(rule, out);
	else if (is(rule, "action", "reorder"))
		fprintf(out, " by up to %s", units_exact(get_number(rule, "distance")).text);
	else if (is(rule, "action", "corrupt"))
		fprintf(out, " %s bit%s", units_exact(get_number(rule, "bits")).text,
			get_number(rule, "bits") > 1 ? "s" : "");
}

static void
at_port(json_t *rule, FILE *out)
{
	fputs(get(rule, "port") != NULL ? get_text(rule, "port") : "any", out);
}

void
view_faults(json_t *answer, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"RULE", "number", CELL_EXACT, 0, 5, NULL},
		{"PORT", NULL, CELL_PRINT, 1, 0, at_port},
		{"DIRECTION", "direction", CELL_TEXT, 0, 0, NULL},
		{"PACKETS", NULL, CELL_PRINT, 1, 0, packets},
		{"CHOSEN", NULL, CELL_PRINT, 1, 0, chosen},
		{"ACTION", NULL, CELL_PRINT, 1, 0, action},
		{"MATCHED", "matched", CELL_EXACT, 0, 3, NULL},
		{"HIT", "hit", CELL_EXACT, 0, 0, NULL},
		{"SPARED", "spared", CELL_EXACT, 0, 4, NULL},
	};
	json_t *list = get(answer, "rules");

	if (json_array_size(list) == 0) {
		fputs("no faults\n", out);
		return;
	}
	text_printf(out, INDENT, width,
		"faults   set %s ago, seed %" JSON_INTEGER_FORMAT
		"; %s packets held, %s at most by each worker",
		units_age(get_number(answer, "elapsed_ms") / 1e3).text,
		json_integer_value(get(answer, "seed")),
		units_exact(get_number(answer, "held_now")).text,
		units_exact(get_number(answer, "held")).text);
	fputc('\n', out);
	for (size_t i = 0; i < json_array_size(list); i++)
		json_object_set_new(json_array_get(list, i), "number", json_integer((json_int_t)i));
	VIEW_TABLE(columns, NULL, list, NULL, out, width);
}

void
view_faults_brief(json_t *status, FILE *out, unsigned int width)
{
	json_t *faults = get(status, "faults");
	double rules = get_number(faults, "rules");

	if (rules > 0)
		text_printf(out, INDENT, width,
			"faults   %s rule%s injected %s ago, %s packets hit: weirctl faults",
			units_exact(rules).text, rules > 1 ? "s" : "",
			units_age(get_number(faults, "elapsed_ms") / 1e3).text,
			units_count(get_number(faults, "hit")).text);
}

/* Ask for a change, and show what is set then. */
static int
change(struct ctl *ctl, json_t *body)
{
	json_t *answer;

	if (!ctl_ask(ctl, "PUT", "/v1/faults", body, &answer))
		return ctl->status;
	if (ctl_lacks(ctl, answer, "rules"))
		ctl->status = CTL_REFUSED;
	else
		view_faults(answer, stdout, ctl->width);
	json_decref(answer);
	return ctl->status;
}

/* Remove from an answer what can't be set. */
static void
keep_settings(json_t *section)
{
	static const char *const counted[] = {"matched", "hit", "spared", "elapsed_ms", "held_now"};
	json_t *rules = json_object_get(section, "rules"), *held = json_object_get(section, "held");

	for (size_t k = 0; k < sizeof(counted) / sizeof(counted[0]); k++) {
		json_object_del(section, counted[k]);
		for (size_t i = 0; i < json_array_size(rules); i++)
			json_object_del(json_array_get(rules, i), counted[k]);
	}
	/* Without rules these are 0: new faults begin with the defaults. */
	if (json_array_size(rules) == 0 && json_is_integer(held) && json_integer_value(held) == 0) {
		json_object_del(section, "held");
		json_object_del(section, "seed");
	}
}

int
command_faults_set(struct ctl *ctl)
{
	json_t *root = ctl_load(ctl->options.words[0]), *section = json_object_get(root, "faults");

	if (root == NULL)
		return CTL_USAGE;
	section = json_incref(section != NULL ? section : root);
	json_decref(root);
	if (json_object_get(section, "rules") == NULL) {
		ctl_say("%s: no faults: \"rules\" is missing", ctl->options.words[0]);
		json_decref(section);
		return CTL_USAGE;
	}
	keep_settings(section);
	return change(ctl, section);
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
	if (ctl_get(ctl, path, &answer)) {
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
		ctl_say("faults add: --percent, --nth and --list exclude each other");
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
	if (read_rule(ctl, rule) && ctl_get(ctl, "/v1/faults", &section)) {
		if (section == NULL || ctl_lacks(ctl, section, "rules")) {
			if (section == NULL)
				ctl_say("this switch cannot inject faults: it is older than "
					"weirctl " WEIR_VERSION);
			ctl->status = CTL_REFUSED;
		} else {
			keep_settings(section);
			append(json_object_get(section, "rules"), rule);
			if (seed != NULL)
				json_object_set(section, "seed", seed);
			ctl->status = change(ctl, json_incref(section));
		}
		json_decref(section);
	}
	json_decref(seed);
	return ctl->status;
}

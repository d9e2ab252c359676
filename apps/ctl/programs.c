/* SPDX-License-Identifier: BSD-3-Clause */
/* The filters and programs of a switch: what they are and count, and weirctl program load and unload. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"

#define INDENT      9
#define POLL_NS     50000000
#define SAY_AFTER_S 3
#define COLUMNS_MAX 16
#define TITLE_BYTES 32

/* The texts of a list, with semicolons between them. */
static void
put_texts(json_t *list, FILE *out)
{
	json_t *text;
	size_t i;

	json_array_foreach (list, i, text)
		fprintf(out, "%s%s", i > 0 ? "; " : "",
			json_is_string(text) ? json_string_value(text) : "-");
}

static void
matches(json_t *program, FILE *out)
{
	put_texts(get(program, "matches"), out);
}

static void
origin(json_t *program, FILE *out)
{
	fputs(json_is_null(get(program, "file")) ? "built in" : get_text(program, "file"), out);
}

void
view_programs(json_t *answer, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"PROGRAM", "name", CELL_TEXT, 1, 0, NULL},
		{"PHASE", "phase", CELL_TEXT, 0, 0, NULL},
		{"FILE", NULL, CELL_PRINT, 1, 2, origin},
		{"PACKETS", NULL, CELL_PRINT, 1, 3, matches},
		{"WHAT IT DOES", "help", CELL_TEXT, 1, 4, NULL},
	};

	VIEW_TABLE(columns, "ProgramBrief", get(answer, "programs"), "no programs", out, width);
}

static void
filter_ports(json_t *filter, FILE *out)
{
	put_texts(get(filter, "ports"), out);
}

static void
filter_programs(json_t *filter, FILE *out)
{
	put_texts(get(filter, "programs"), out);
}

/* The filter's own counters, up to the last that is not 0. */
static void
filter_counters(json_t *filter, FILE *out)
{
	json_t *list = get(filter, "counters");
	size_t used = json_array_size(list);

	while (used > 0 && json_integer_value(json_array_get(list, used - 1)) == 0)
		used--;
	for (size_t i = 0; i < used; i++)
		fprintf(out, "%s%" JSON_INTEGER_FORMAT, i > 0 ? " " : "",
			json_integer_value(json_array_get(list, i)));
}

void
view_filters(json_t *answer, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"FILTER", "name", CELL_TEXT, 1, 0, NULL},
		{"PORTS", NULL, CELL_PRINT, 1, 3, filter_ports},
		{"PROGRAMS", NULL, CELL_PRINT, 1, 4, filter_programs},
		{"PASSED", "passed", CELL_COUNT, 0, 0, NULL},
		{"DROPPED", "dropped", CELL_COUNT, 0, 0, NULL},
		{"TO PROGRAM", "to_program", CELL_COUNT, 0, 1, NULL},
		{"TO WORKER", "to_worker", CELL_COUNT, 0, 1, NULL},
		{"COUNTERS", NULL, CELL_PRINT, 1, 2, filter_counters},
	};

	VIEW_TABLE(columns, "Filter", get(answer, "filters"), "no filters", out, width);
}

/* A line of "key value" pairs. */
static void
put_settings(json_t *settings, FILE *out, unsigned int width)
{
	json_t *value;
	const char *key;
	char *line;
	size_t length;
	FILE *to = open_memstream(&line, &length);

	if (to == NULL || json_object_size(settings) == 0) {
		if (to != NULL && fclose(to) == 0)
			free(line);
		return;
	}
	fputs("settings", to);
	json_object_foreach (settings, key, value) {
		char *text = json_dumps(value, JSON_ENCODE_ANY);

		fprintf(to, " %s=%s", key, text);
		free(text);
	}
	if (fclose(to) == 0)
		text_print(line, out, INDENT, width);
	free(line);
}

/* A table whose columns the switch names. */
static void
put_table(json_t *table, FILE *out, unsigned int width)
{
	struct view_column columns[COLUMNS_MAX];
	char title[COLUMNS_MAX][TITLE_BYTES], key[COLUMNS_MAX][TITLE_BYTES];
	json_t *list = get(table, "columns"), *column;
	size_t i;

	text_printf(
		out, INDENT, width, "\n%s: %s", get_text(table, "name"), get_text(table, "help"));
	json_array_foreach (list, i, column) {
		if (i == COLUMNS_MAX)
			break;
		snprintf(key[i], TITLE_BYTES, "%s", get_text(column, "key"));
		snprintf(title[i], TITLE_BYTES, "%s", key[i]);
		for (char *c = title[i]; *c != '\0'; c++)
			*c = *c == '_' ? ' ' : (char)toupper((unsigned char)*c);
		columns[i] = (struct view_column){.title = title[i],
			.path = key[i],
			.cell = strcmp(get_text(column, "kind"), "number") == 0 ? CELL_EXACT
										: CELL_TEXT,
			.leave = (unsigned int)i};
	}
	if (i > 0)
		view_table(columns, i,
			&(struct view_rows){.now = get(table, "rows"), .none = "empty"}, out,
			width);
}

void
view_program(json_t *p, FILE *out, unsigned int width)
{
	json_t *tables = get(p, "tables"), *sidecar = get(p, "sidecar");

	text_printf(out, INDENT, width, "program  %s, %s, %s%s%s", get_text(p, "name"),
		json_is_null(get(p, "file")) ? "built in" : get_text(p, "file"),
		get_text(p, "phase"), json_is_string(get(p, "help")) ? ": " : "",
		json_is_string(get(p, "help")) ? get_text(p, "help") : "");
	if (json_is_string(get(p, "waits_for")))
		text_printf(out, INDENT, width, "waits    for %s", get_text(p, "waits_for"));
	for (size_t i = 0; i < json_array_size(get(p, "matches")); i++)
		text_printf(out, INDENT, width, "%s%s", i == 0 ? "packets  " : "         ",
			json_string_value(json_array_get(get(p, "matches"), i)));
	put_settings(get(p, "settings"), out, width);
	if (sidecar != NULL)
		text_printf(out, INDENT, width, "sidecar  %s, %s, started %.0f times",
			get_text(sidecar, "file"),
			json_is_null(get(sidecar, "pid")) ? "does not run" : "runs",
			get_number(sidecar, "starts"));
	view_counters(get(p, "counters"), out, width);
	for (size_t i = 0; i < json_array_size(tables); i++)
		put_table(json_array_get(tables, i), out, width);
}

bool
ctl_program_setting(json_t *fields, const char *word)
{
	const char *equals = strchr(word, '=');
	json_t *settings = json_object_get(fields, "settings"), *value;
	char key[64];

	if (equals == NULL || equals == word || (size_t)(equals - word) >= sizeof(key))
		return false;
	snprintf(key, sizeof(key), "%.*s", (int)(equals - word), word);
	value = json_loads(equals + 1, JSON_DECODE_ANY, NULL);
	if (value == NULL)
		value = json_string(equals + 1);
	if (settings == NULL) {
		settings = json_object();
		json_object_set_new(fields, "settings", settings);
	}
	return json_object_set_new(settings, key, value) == 0;
}

int
command_program_load(struct ctl *ctl)
{
	const char *file = ctl->options.words[0], *dot = strrchr(file, '.');
	char name[256];
	json_t *answer;

	snprintf(name, sizeof(name), "%s%s", file, dot == NULL ? ".so" : "");
	json_object_set_new(ctl->options.fields, "file", json_string(name));
	if (!ctl_ask(ctl, "POST", ctl->options.path, json_incref(ctl->options.fields), &answer))
		return ctl->status;
	if (ctl_lacks(ctl, answer, "name"))
		ctl->status = CTL_REFUSED;
	else
		view_program(answer, stdout, ctl->width);
	json_decref(answer);
	return ctl->status;
}

/* Until the program is gone; for --timeout at most. */
static int
wait_until_gone(struct ctl *ctl, const char *path)
{
	const struct timespec pause = {0, POLL_NS};
	double begin = ctl_clock(), end = begin + ctl->options.timeout;
	bool said = false;
	json_t *answer;

	for (;;) {
		if (!ctl_get(ctl, path, &answer))
			return ctl->status;
		if (answer == NULL) {
			puts("gone");
			return CTL_OK;
		}
		if ((!said && ctl_clock() > begin + SAY_AFTER_S) || ctl_clock() > end)
			ctl_say("it waits for %s", get_text(answer, "waits_for"));
		said = ctl_clock() > begin + SAY_AFTER_S;
		json_decref(answer);
		if (ctl_clock() > end)
			break;
		nanosleep(&pause, NULL);
	}
	ctl_say("the program is not gone after %g s: --timeout TIME waits longer",
		ctl->options.timeout);
	return CTL_REFUSED;
}

int
command_program_unload(struct ctl *ctl)
{
	char *path = ctl_path("/v1/programs/", ctl->options.words[0], "");
	json_t *answer;

	if (ctl_ask(ctl, "DELETE", ctl->options.path, NULL, &answer)) {
		if (strcmp(get_text(answer, "state"), "unloading") != 0)
			puts("gone");
		else
			ctl->status = wait_until_gone(ctl, path);
		json_decref(answer);
	}
	free(path);
	return ctl->status;
}

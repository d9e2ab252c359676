/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/ctl/field.h"

#include <ctype.h>
#include <err.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "ctrl/api/units.h"

void
ctl_wrong(const char *format, ...)
{
	va_list arguments;

	fputs("weirctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs("\nweirctl --help lists the commands, weirctl COMMAND --help their options\n",
		stderr);
	exit(CTL_USAGE);
}

/* Is 1 or true all that the key can be set to? */
static bool
is_flag(const struct ctrl_key *key)
{
	return key->kind == CTRL_BOOLEAN ||
		(key->kind == CTRL_INTEGER && key->min == 0 && key->max == 1);
}

struct option_row
ctl_field_row(struct ctl_field *field, bool *dry_run)
{
	static const char *const arguments[] = {[CTRL_INTEGER] = "N",
		[CTRL_POWER] = "N",
		[CTRL_ARRAY] = "N,N,...",
		[CTRL_RESULTS] = "unicast|GROUP",
		[CTRL_MAC] = NULL};
	const struct ctrl_key *key = field->key;
	const char *about = key->help == NULL ? "" : key->help, *end = strstr(about, ". ");
	size_t length = end == NULL ? strlen(about) : (size_t)(end - about);
	const char *argument = key->words != NULL ? key->words : arguments[key->kind];
	const char *help;
	bool flag = is_flag(key);

	field->name = strdup(key->path);
	field->argument = strdup(key->path);
	field->help = strndup(about, length - (length > 0 && about[length - 1] == '.'));
	if (field->name == NULL || field->argument == NULL || field->help == NULL)
		err(CTL_USAGE, "options");
	for (char *c = field->argument; *c != '\0'; c++)
		*c = (char)toupper((unsigned char)*c);
	if (argument == NULL)
		argument = field->argument;
	for (char *c = field->name; (c = strchr(c, '_')) != NULL;)
		*c = '-';
	help = flag && strncmp(field->help, "1: ", 3) == 0 ? field->help + 3 : field->help;
	if (strcmp(key->path, "dry_run") == 0)
		return (struct option_row){field->name, 0, OPTION_FLAG, dry_run, 0, 0, NULL,
			"say what would happen, and change nothing"};
	if (strcmp(key->unit, CTL_PERCENT) == 0)
		argument = "P";
	if (strcmp(key->unit, CTL_NAMES) == 0)
		argument = "NAME,NAME,...";
	/* All types do not fit into the help. */
	if (strlen(argument) > 40)
		argument = "WORD";
	return (struct option_row){field->name, 0, flag ? OPTION_FLAG : OPTION_TEXT,
		flag ? (void *)&field->set : (void *)&field->value, 0, 0, flag ? NULL : argument,
		help};
}

/* Whole numbers with commas between them; NULL: they are not. */
static json_t *
numbers(const char *from)
{
	json_t *list;
	char *array;

	if (asprintf(&array, "[%s]", from) < 0)
		err(CTL_USAGE, "number");
	list = json_loads(array, 0, NULL);
	free(array);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *value = json_array_get(list, i);

		if (json_is_integer(value) && json_integer_value(value) >= 0)
			continue;
		json_decref(list);
		return NULL;
	}
	return list;
}

/* Texts with commas between them; NULL: they are not UTF-8. */
static json_t *
names(const char *from)
{
	json_t *list = json_array();
	size_t length;

	for (;; from += length + 1) {
		length = strcspn(from, ",");
		if (json_array_append_new(list, json_stringn(from, length)) < 0) {
			json_decref(list);
			return NULL;
		}
		if (from[length] == '\0')
			return list;
	}
}

/* A share, as parts per million. */
static json_t *
percent(const char *from)
{
	double value = strtod(from, NULL);

	if (from[strspn(from, "0123456789.")] != '\0' || from[0] == '\0' || value > 100 ||
		(value > 0 && value < 1e-4))
		return NULL;
	return json_integer(lround(value * 1e4));
}

/* A time, for a key that ends in its unit: 2s is 2000 for timeout_ms. NULL: it is none. */
static json_t *
in_unit(const struct ctl_field *field)
{
	static const struct {
		const char *end;
		double per_s;
	} units[] = {{"_ms", 1e3}, {"_us", 1e6}, {"_s", 1}};
	size_t length = strlen(field->key->path);
	double seconds;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t end = strlen(units[i].end);

		if (length > end && strcmp(field->key->path + length - end, units[i].end) == 0 &&
			units_read_span(field->value, &seconds) && seconds <= CTL_SECONDS_MAX)
			return json_integer(llround(seconds * units[i].per_s));
	}
	return NULL;
}

json_t *
ctl_field_value(const struct ctl_field *field)
{
	const struct ctrl_key *key = field->key;
	const char *form = "a whole number";
	json_t *value = NULL, *list;

	if (field->set)
		return key->kind == CTRL_BOOLEAN ? json_true() : json_integer(1);
	if (field->value == NULL)
		return NULL;
	if (strcmp(key->unit, CTL_PERCENT) == 0) {
		form = "0, or in 0.0001..100";
		value = percent(field->value);
	} else if (strcmp(key->unit, CTL_NAMES) == 0) {
		form = "UTF-8";
		value = names(field->value);
	} else if (key->kind == CTRL_INTEGER || key->kind == CTRL_POWER ||
		key->kind == CTRL_ARRAY) {
		list = numbers(field->value);
		if (key->kind == CTRL_ARRAY)
			form = "whole numbers with commas between them";
		if (key->kind == CTRL_ARRAY && json_array_size(list) > 0)
			value = json_incref(list);
		else if (key->kind != CTRL_ARRAY && json_array_size(list) == 1)
			value = json_incref(json_array_get(list, 0));
		else if (key->kind != CTRL_ARRAY && list == NULL)
			value = in_unit(field);
		json_decref(list);
	} else {
		form = "UTF-8";
		value = json_string(field->value);
	}
	if (value == NULL)
		ctl_wrong("%s %s: must be %s", key->path, field->value, form);
	return value;
}

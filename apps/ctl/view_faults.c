/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults that are set, and what they did. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define INDENT     9
#define CELL_BYTES 256
#define LIST_PARTS 4 /* ranges of a list that are told */

struct cell {
	char text[CELL_BYTES];
};

static void __attribute__((format(printf, 2, 3))) add(struct cell *cell, const char *format, ...)
{
	size_t used = strlen(cell->text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(cell->text + used, sizeof(cell->text) - used, format, arguments);
	va_end(arguments);
}

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

/* Whom the rule is about. */
static struct cell
packets(json_t *rule)
{
	struct cell cell = {""};
	double job = get_number(rule, "job"), source = get_number(rule, "source"),
	       first = get_number(rule, "first_block"), last = get_number(rule, "last_block");
	bool result = is(rule, "what", "result");

	if (is(rule, "what", "any"))
		add(&cell, "%s",
			job < 0 && source < 0 && first <= 0 && last >= UINT32_MAX ? "any"
										  : "aggregation");
	else
		add(&cell, "%s%s", get_text(rule, "what"),
			result || is(rule, "what", "contribution") ? "s" : "");
	if (job >= 0)
		add(&cell, ", job %s", units_exact(job).text);
	if (source >= 0)
		add(&cell, ", source %s", units_exact(source).text);
	if (first > 0 || last < UINT32_MAX)
		add(&cell, ", blocks %s..%s", units_exact(first).text,
			last < UINT32_MAX ? units_exact(last).text : "");
	return cell;
}

static int
ascending(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void
add_list(struct cell *cell, json_t *list)
{
	size_t count = json_array_size(list);
	uint64_t *numbers = calloc(count + 1, sizeof(*numbers));
	char text[CELL_BYTES / 2] = "";

	if (numbers == NULL)
		return;
	for (size_t i = 0; i < count; i++)
		numbers[i] = (uint64_t)json_integer_value(json_array_get(list, i));
	qsort(numbers, count, sizeof(*numbers), ascending);
	units_ranges(numbers, count, LIST_PARTS, text, sizeof(text));
	add(cell, "numbers %s", text);
	free(numbers);
}

/* Which of them. */
static struct cell
chosen(json_t *rule)
{
	struct cell cell = {""};

	if (is(rule, "choice", "every"))
		add(&cell, "1 in %s", units_exact(get_number(rule, "nth")).text);
	else if (is(rule, "choice", "list"))
		add_list(&cell, get(rule, "list"));
	else if (is(rule, "choice", "burst"))
		add(&cell, "bursts: begin %s, end %s, hit %s, else %s",
			percent(rule, "enter_ppm").text, percent(rule, "leave_ppm").text,
			percent(rule, "bad_ppm").text, percent(rule, "good_ppm").text);
	else
		add(&cell, "%s", percent(rule, "chance_ppm").text);
	if (get_number(rule, "to_ms") > 0)
		add(&cell, "; %s to %s", time_of(rule, "from_ms", 1e-3).text,
			time_of(rule, "to_ms", 1e-3).text);
	else if (get_number(rule, "from_ms") > 0)
		add(&cell, "; from %s", time_of(rule, "from_ms", 1e-3).text);
	if (get_number(rule, "repeat_ms") > 0)
		add(&cell, ", each %s", time_of(rule, "repeat_ms", 1e-3).text);
	return cell;
}

static void
add_delay(struct cell *cell, json_t *rule)
{
	if (is(rule, "delay", "constant"))
		add(cell, " %s", time_of(rule, "us", 1e-6).text);
	else if (is(rule, "delay", "uniform"))
		add(cell, " %s to %s", time_of(rule, "us", 1e-6).text,
			time_of(rule, "most_us", 1e-6).text);
	else
		add(cell, " %s, %s of %s, at most %s", get_text(rule, "delay"),
			is(rule, "delay", "pareto") ? "least" : "mean",
			time_of(rule, "us", 1e-6).text, time_of(rule, "most_us", 1e-6).text);
}

static struct cell
action(json_t *rule)
{
	struct cell cell = {""};

	add(&cell, "%s", get_text(rule, "action"));
	if (is(rule, "action", "delay"))
		add_delay(&cell, rule);
	else if (is(rule, "action", "reorder"))
		add(&cell, " by up to %s", units_exact(get_number(rule, "distance")).text);
	else if (is(rule, "action", "corrupt"))
		add(&cell, " %s bit%s", units_exact(get_number(rule, "bits")).text,
			get_number(rule, "bits") > 1 ? "s" : "");
	return cell;
}

void
view_faults(json_t *answer, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"RULE", 1, 0, 5},
		{"PORT", 0, 1, 0},
		{"WAY", 0, 0, 0},
		{"PACKETS", 0, 1, 0},
		{"CHOSEN", 0, 1, 0},
		{"ACTION", 0, 1, 0},
		{"MATCHED", 1, 0, 3},
		{"HIT", 1, 0, 0},
		{"SPARED", 1, 0, 4},
	};
	json_t *list = get(answer, "rules");
	struct table *table;

	if (json_array_size(list) == 0) {
		fputs("no faults\n", out);
		return;
	}
	text_printf(out, INDENT, width,
		"faults   set %s ago, seed %" JSON_INTEGER_FORMAT
		"; %s packets held, %s at most by "
		"each worker",
		units_age(get_number(answer, "elapsed_ms") / 1e3).text,
		json_integer_value(get(answer, "seed")),
		units_exact(get_number(answer, "held_now")).text,
		units_exact(get_number(answer, "held")).text);
	fputc('\n', out);
	table = table_create(columns, 9);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *rule = json_array_get(list, i);

		table_cell(table, "%zu", i);
		table_cell(table, "%s", get(rule, "port") != NULL ? get_text(rule, "port") : "any");
		table_cell(table, "%s", get_text(rule, "direction"));
		table_cell(table, "%s", packets(rule).text);
		table_cell(table, "%s", chosen(rule).text);
		table_cell(table, "%s", action(rule).text);
		table_cell(table, "%s", units_exact(get_number(rule, "matched")).text);
		table_cell(table, "%s", units_exact(get_number(rule, "hit")).text);
		table_cell(table, "%s", units_exact(get_number(rule, "spared")).text);
	}
	table_print(table, out, width);
	table_destroy(table);
}

void
view_faults_brief(json_t *status, FILE *out, unsigned int width)
{
	json_t *faults = get(status, "faults");
	double rules = get_number(faults, "rules");

	if (rules > 0)
		text_printf(out, INDENT, width,
			"faults   %s rule%s set on purpose %s ago, %s packets hit: weirctl faults",
			units_exact(rules).text, rules > 1 ? "s" : "",
			units_age(get_number(faults, "elapsed_ms") / 1e3).text,
			units_count(get_number(faults, "hit")).text);
}

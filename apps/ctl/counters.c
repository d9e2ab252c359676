/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl counters: every number that the switch counts, under the switch's name for it. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "ctrl/api/units.h"

#define NAME_BYTES 128

/* Append a row for each number in an object: where ("port p0"), its name ("tx_packets.results"), and
 * the value. */
static void
append(json_t *rows, json_t *object, const char *where, const char *before)
{
	const char *key;
	json_t *value;

	json_object_foreach (object, key, value) {
		char name[NAME_BYTES], id[2 * NAME_BYTES];

		if (strcmp(key, "id") == 0)
			continue;
		snprintf(name, sizeof(name), "%s%s%s", before, before[0] != '\0' ? "." : "", key);
		snprintf(id, sizeof(id), "%s\n%s", where, name);
		if (json_is_number(value))
			json_array_append_new(rows,
				json_pack("{s:s,s:s,s:s,s:O}", "id", id, "where", where, "name",
					name, "total", value));
		else if (json_is_object(value) && strlen(name) + 1 < sizeof(name))
			append(rows, value, where, name);
	}
}

/* All counters of an answer. A list's entry is its kind without the plural, and its name or number. */
static json_t *
rows_of(json_t *answer)
{
	json_t *rows = json_array(), *part;
	const char *kind;

	json_object_foreach (answer, kind, part) {
		append(rows, part, kind, "");
		for (size_t i = 0; i < json_array_size(part); i++) {
			json_t *entry = json_array_get(part, i);
			const char *name = get_text(entry, "name");
			char where[NAME_BYTES];

			snprintf(where, sizeof(where), "%.*s %s", (int)strlen(kind) - 1, kind,
				strcmp(name, "-") != 0 ? name : units_exact((double)i).text);
			append(rows, entry, where, "");
		}
	}
	return rows;
}

/* Remove the rows that say nothing: those of 0, or of what is as before. */
static void
keep_changed(json_t *rows, json_t *before)
{
	json_t *old = get_by_text(before, "id");

	for (size_t i = json_array_size(rows); i-- > 0;) {
		json_t *row = json_array_get(rows, i);
		double value = get_number(row, "total");
		double last = before == NULL
			? 0
			: get_number(json_object_get(old, get_text(row, "id")), "total");

		if (!(value < last) && !(value > last) && !isnan(last))
			json_array_remove(rows, i);
		else if (value < last)
			json_object_set_new(row, "reset", json_true());
	}
	json_decref(old);
}

static void
total_of(json_t *row, FILE *out)
{
	fprintf(out, "%s%s", units_exact(get_number(row, "total")).text,
		get_true(row, "reset") ? " (reset)" : "");
}

static const struct view_column columns[] = {
	{"WHERE", "where", CELL_TEXT, 1, 0, NULL},
	{"COUNTER", "name", CELL_TEXT, 1, 0, NULL},
	{"RATE", "total", CELL_RATE, 0, 0, NULL},
	{"TOTAL", NULL, CELL_PRINT_RIGHT, 0, 1, total_of},
};
static const struct view_column columns_total[] = {
	{"WHERE", "where", CELL_TEXT, 1, 0, NULL},
	{"COUNTER", "name", CELL_TEXT, 1, 0, NULL},
	{"TOTAL", "total", CELL_EXACT, 0, 0, NULL},
};

/* By the switch's clock, where it has one. */
static double
time_of(json_t *answer)
{
	double time = get_number(answer, "time");

	return isfinite(time) ? time : ctl_clock();
}

static void
show_rates(const struct ctl *ctl, json_t *now, json_t *before, double seconds)
{
	struct view_rows rows = {NULL, json_copy(now), before, seconds, "nothing counted"};
	time_t clock = time(NULL);
	struct tm parts;
	char text[32] = "";

	if (!ctl->options.zeros)
		keep_changed(rows.now, before);
	if (localtime_r(&clock, &parts) != NULL)
		strftime(text, sizeof(text), "%H:%M:%S", &parts);
	printf("%s over %s\n", text, units_age(seconds).text);
	view_table(columns, sizeof(columns) / sizeof(columns[0]), &rows, stdout, ctl->width);
	putchar('\n');
	fflush(stdout);
	json_decref(rows.now);
}

static int
watch(struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	const struct timespec pause = {
		(time_t)o->interval, (long)((o->interval - floor(o->interval)) * 1e9)};
	json_t *before = NULL, *answer;
	double last = 0;
	/* The first answer gives no rates; as JSON it counts like the others. */
	unsigned int answers = o->count + (o->json ? 0 : 1);

	for (unsigned int i = 0; o->count == 0 || i < answers; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		if (ctl_ask(ctl, "GET", "/v1/counters", NULL, &answer)) {
			json_t *now = rows_of(answer);
			double time = time_of(answer);

			if (before != NULL)
				show_rates(
					ctl, now, before, time > last ? time - last : (double)NAN);
			json_decref(before);
			json_decref(answer);
			before = now;
			last = time;
		} else if (!o->json || ctl->status != CTL_OK) {
			break;
		} else {
			fflush(stdout);
		}
	}
	json_decref(before);
	return ctl->status;
}

int
command_counters(struct ctl *ctl)
{
	json_t *answer, *rows;

	if (ctl->options.watch)
		return watch(ctl);
	if (!ctl_ask(ctl, "GET", "/v1/counters", NULL, &answer))
		return ctl->status;
	if (ctl_lacks(ctl, answer, "drops")) {
		json_decref(answer);
		return CTL_REFUSED;
	}
	rows = rows_of(answer);
	if (!ctl->options.zeros)
		keep_changed(rows, NULL);
	VIEW_TABLE(columns_total, NULL, rows, "every counter is 0", stdout, ctl->width);
	json_decref(rows);
	json_decref(answer);
	return CTL_OK;
}

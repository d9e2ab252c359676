/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl counters: whatever numbers the switch counts, by the names that it gives them. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define NAME_MAX_LENGTH 128

/* What the walk over an answer does with each number: where it is ("port p0"), its name
 * ("tx_packets.results"), and the value. */
typedef void visit(void *argument, const char *where, const char *name, double value);

static void
walk_object(json_t *object, const char *where, const char *before, visit *each, void *argument)
{
	const char *key;
	json_t *value;

	json_object_foreach (object, key, value) {
		char name[NAME_MAX_LENGTH];

		if (strcmp(key, "id") == 0)
			continue;
		snprintf(name, sizeof(name), "%s%s%s", before, before[0] != '\0' ? "." : "", key);
		if (json_is_number(value))
			each(argument, where, name, json_number_value(value));
		else if (json_is_object(value) && strlen(name) + 1 < sizeof(name))
			walk_object(value, where, name, each, argument);
	}
}

/* "port p0": the kind without its plural, and the name, or else the id. */
static void
entry_name(const char *kind, json_t *entry, size_t index, char *to, size_t size)
{
	size_t length = strlen(kind);
	const char *name = get_text(entry, "name");
	double id = get_number(entry, "id");

	if (length > 1 && kind[length - 1] == 's')
		length--;
	if (strcmp(name, "-") == 0)
		name = units_exact(isfinite(id) ? id : (double)index).text;
	snprintf(to, size, "%.*s %s", (int)length, kind, name);
}

static void
walk(json_t *answer, visit *each, void *argument)
{
	const char *kind;
	json_t *part;

	json_object_foreach (answer, kind, part) {
		if (json_is_object(part))
			walk_object(part, kind, "", each, argument);
		for (size_t i = 0; i < json_array_size(part); i++) {
			char where[NAME_MAX_LENGTH];

			entry_name(kind, json_array_get(part, i), i, where, sizeof(where));
			walk_object(json_array_get(part, i), where, "", each, argument);
		}
	}
}

struct listing {
	struct table *table;
	json_t *before; /* name: value; NULL: totals alone */
	json_t *now;
	double seconds; /* from before to now */
	bool zeros;
	unsigned int rows;
};

static void
list_one(void *argument, const char *where, const char *name, double value)
{
	struct listing *l = argument;
	char key[2 * NAME_MAX_LENGTH + 2];
	double before = (double)NAN;

	snprintf(key, sizeof(key), "%s\n%s", where, name);
	if (l->now != NULL)
		json_object_set_new(l->now, key, json_real(value));
	if (l->before != NULL) {
		before = json_number_value(json_object_get(l->before, key));
		if (before == value && !l->zeros)
			return;
	} else if (value == 0 && !l->zeros) {
		return;
	}
	l->rows++;
	table_cell(l->table, "%s", where);
	table_cell(l->table, "%s", name);
	if (l->before != NULL && value < before)
		table_cell(l->table, "reset");
	else if (l->before != NULL)
		table_cell(l->table, "%s", units_rate((value - before) / l->seconds).text);
	table_cell(l->table, "%s", units_exact(value).text);
}

static const struct table_column columns[] = {
	{"WHERE", 0, 1, 0}, {"COUNTER", 0, 1, 0}, {"TOTAL", 1, 0, 0}};
static const struct table_column columns_rate[] = {
	{"WHERE", 0, 1, 0}, {"COUNTER", 0, 1, 0}, {"RATE", 1, 0, 0}, {"TOTAL", 1, 0, 1}};

static void
list(json_t *answer, struct listing *l, FILE *out, unsigned int width)
{
	l->table = l->before != NULL ? table_create(columns_rate, 4) : table_create(columns, 3);
	walk(answer, list_one, l);
	if (l->rows > 0)
		table_print(l->table, out, width);
	table_destroy(l->table);
}

/* By the switch's clock, where it tells one. */
static double
seconds_between(json_t *answer, double *last)
{
	struct timespec now;
	double time = get_number(answer, "time"), before = *last;

	if (!isfinite(time)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
	}
	*last = time;
	return time > before ? time - before : (double)NAN;
}

static void
print_time(void)
{
	time_t now = time(NULL);
	struct tm parts;
	char text[32] = "";

	if (localtime_r(&now, &parts) != NULL)
		strftime(text, sizeof(text), "%H:%M:%S", &parts);
	printf("%s ", text);
}

/* The rates since the last answer; the first has none. */
static void
show_rates(struct ctl *ctl, json_t *answer, struct listing *l)
{
	l->now = json_object();
	l->rows = 0;
	if (l->before == NULL) {
		struct listing first = {.now = l->now};

		first.table = table_create(columns, 3);
		walk(answer, list_one, &first);
		table_destroy(first.table);
	} else {
		print_time();
		printf("over %s\n", units_age(l->seconds).text);
		list(answer, l, stdout, ctl->width);
		puts(l->rows == 0 ? "nothing counted\n" : "");
	}
	json_decref(l->before);
	l->before = l->now;
	fflush(stdout);
}

static int
watch(struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	const struct timespec pause = {
		(time_t)o->interval, (long)((o->interval - floor(o->interval)) * 1e9)};
	struct listing l = {.zeros = o->zeros};
	double last = (double)NAN;
	/* The first answer gives no rates; as it came, it counts like the others. */
	unsigned int answers = o->count + (o->json ? 0 : 1);

	for (unsigned int i = 0; o->count == 0 || i < answers; i++) {
		json_t *answer;

		if (i > 0)
			nanosleep(&pause, NULL);
		if (!ctl_ask(ctl, "GET", "/v1/counters", NULL, &answer)) {
			if (!o->json || ctl->status != CTL_OK)
				break;
			fflush(stdout);
			continue;
		}
		l.seconds = seconds_between(answer, &last);
		show_rates(ctl, answer, &l);
		json_decref(answer);
	}
	json_decref(l.before);
	return ctl->status;
}

int
command_counters(struct ctl *ctl)
{
	struct listing l = {.zeros = ctl->options.zeros};
	json_t *answer;

	if (ctl->options.watch)
		return watch(ctl);
	if (!ctl_ask(ctl, "GET", "/v1/counters", NULL, &answer))
		return ctl->status;
	if (ctl_lacks(ctl, answer, "drops")) {
		json_decref(answer);
		return CTL_REFUSED;
	}
	list(answer, &l, stdout, ctl->width);
	if (l.rows == 0)
		puts("every counter is 0");
	json_decref(answer);
	return CTL_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A frame of weirctl top: two samples in, lines out. */
#include <err.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/top.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define BAR 16 /* characters between its brackets */

/* The clocks of a frame, and how many lines each list has. */
struct frame {
	const struct top_sample *before, *now;
	double seconds;
	FILE *out;
	unsigned int width;
	size_t most; /* lines of a list */
};

struct bar {
	char text[BAR + 3];
};

static struct bar
bar(double share)
{
	struct bar b = {"["};
	int full = isfinite(share) ? (int)lround(share * BAR) : 0;

	for (int i = 0; i < BAR; i++)
		b.text[i + 1] = i < full ? '|' : ' ';
	b.text[BAR + 1] = ']';
	return b;
}

/* Per second since the sample before; NaN where a value is missing or went back. */
static double
rate(const struct frame *f, double before, double now)
{
	return f->seconds > 0 && now >= before ? (now - before) / f->seconds : (double)NAN;
}

static double
rate_of(const struct frame *f, json_t *before, json_t *now, const char *path)
{
	return rate(f, get_number(before, path), get_number(now, path));
}

static double
both(json_t *port, const char *what)
{
	json_t *value = get(port, what);

	if (json_is_number(value))
		return json_number_value(value);
	return get_number(value, "results") + get_number(value, "bulk");
}

/* A part of a line, two blanks behind the others, unless it would not fit. */
static void __attribute__((format(printf, 3, 4)))
part(const struct frame *f, size_t *at, const char *format, ...)
{
	size_t gap = *at > 0 ? 2 : 0, columns, bytes;
	va_list arguments;
	char text[256];

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	get_clean(text);
	columns = text_width(text);
	if (f->width > 0 && *at > 0 && *at + gap + columns > f->width)
		return;
	bytes = f->width > 0 ? text_fit(text, f->width) : strlen(text);
	while (bytes > 0 && text[bytes - 1] == ' ')
		bytes--;
	fprintf(f->out, "%*s%.*s", (int)gap, "", (int)bytes, text);
	*at += gap + columns;
}

static void
head(const struct frame *f, const char *error, double silent)
{
	json_t *s = f->now->status;
	time_t now = time(NULL);
	struct tm parts;
	char clock[16] = "";
	size_t at = 0;

	if (localtime_r(&now, &parts) != NULL)
		strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
	part(f, &at, "%s", clock);
	part(f, &at, "%s", get_text(s, "name"));
	part(f, &at, "up %s", units_age(get_number(s, "uptime")).text);
	part(f, &at, "%s blocks of %s", units_exact(get_number(s, "memory.blocks_used")).text,
		units_exact(get_number(s, "memory.blocks_capacity")).text);
	part(f, &at, "%s free of %s", units_bytes(get_number(s, "memory.free")).text,
		units_bytes(get_number(s, "memory.total")).text);
	fputc('\n', f->out);
	if (error == NULL)
		return;
	at = 0;
	fputc(TOP_ALARM, f->out);
	part(f, &at, "no answer for %s: %s", units_age(silent).text, error);
	fputc('\n', f->out);
}

/* Faults on purpose are told as what is wrong: who has forgotten them looks for the reason here. */
static void
faults(const struct frame *f)
{
	json_t *s = get(f->now->status, "faults"), *b = get(f->before->status, "faults");
	double rules = get_number(s, "rules");
	size_t at = 0;

	if (!(rules > 0))
		return;
	fputc(TOP_ALARM, f->out);
	part(f, &at, "FAULTS ON PURPOSE");
	part(f, &at, "%s rule%s", units_exact(rules).text, rules > 1 ? "s" : "");
	part(f, &at, "%s hit", units_rate(rate_of(f, b, s, "hit")).text);
	part(f, &at, "for %s", units_age(get_number(s, "elapsed_ms") / 1e3).text);
	part(f, &at, "weirctl faults tells them");
	fputc('\n', f->out);
}

/* As many lcores in a line as fit. */
static void
lcores(const struct frame *f)
{
	json_t *list = get(f->now->status, "workers");
	size_t at = 0, count = json_array_size(list);

	for (size_t i = 0; i < count; i++) {
		json_t *w = json_array_get(list, i);
		double busy = get_number(w, "busy");
		char one[96];
		size_t length;

		snprintf(one, sizeof(one), "lcore %2s %s %5s",
			units_exact(get_number(w, "lcore")).text, bar(busy).text,
			units_share(busy).text);
		length = strlen(one);
		if (at > 0 && at + 3 + length > (f->width == 0 ? 80 : f->width)) {
			fputc('\n', f->out);
			at = 0;
		}
		fprintf(f->out, "%s%.*s", at > 0 ? "   " : "",
			f->width == 0 ? (int)length : (int)text_fit(one, f->width), one);
		at += length + (at > 0 ? 3 : 0);
	}
	if (count > 0)
		fputc('\n', f->out);
}

static void
stuck_lines(const struct frame *f, const char *text)
{
	size_t lines = 0;

	while (*text != '\0' && (f->most == 0 || lines++ < f->most + 1)) {
		size_t length = strcspn(text, "\n");

		fprintf(f->out, "%c%.*s\n", TOP_ALARM, (int)length, text);
		text += length + (text[length] == '\n');
	}
	if (*text != '\0')
		fputs("... weirctl blocks --stuck tells all\n", f->out);
}

static void
stuck(const struct frame *f)
{
	char *text = NULL;
	size_t length;
	FILE *to;

	to = open_memstream(&text, &length);
	if (to == NULL)
		err(1, "top");
	view_stuck_brief(f->now->stuck, to, f->width);
	for (size_t i = 0; i < json_array_size(f->now->waiting); i++)
		view_waiting(json_array_get(f->now->waiting, i), to, f->width);
	fclose(to);
	if (length > 0) {
		fprintf(f->out, "\n%cSTUCK\n", TOP_TITLE);
		stuck_lines(f, text);
	}
	free(text);
}

static void
more(const struct frame *f, size_t count)
{
	if (f->most > 0 && count > f->most)
		fprintf(f->out, "and %zu more\n", count - f->most);
}

static void
ports(const struct frame *f)
{
	static const struct table_column columns[] = {
		{"PORT", 0, 1, 0},
		{"LINK", 0, 0, 1},
		{"RX", 1, 0, 0},
		{"TX", 1, 0, 0},
		{"RX PACKETS", 1, 0, 3},
		{"TX PACKETS", 1, 0, 3},
		{"QUEUE FULL", 1, 0, 2},
		{"MISSED", 1, 0, 2},
	};
	json_t *list = get(f->now->ports, "ports"), *old;
	size_t count = json_array_size(list);
	struct table *table;

	if (count == 0)
		return;
	table = table_create(columns, 8);
	old = get_by_text(get(f->before->ports, "ports"), "name");
	for (size_t i = 0; i < count && (f->most == 0 || i < f->most); i++) {
		json_t *p = json_array_get(list, i);
		json_t *b = json_object_get(old, get_text(p, "name"));

		table_cell(table, "%s", get_text(p, "name"));
		table_cell(table, "%s",
			!json_is_boolean(get(p, "up")) ? "-"
				: get_true(p, "up")    ? "up"
						       : "down");
		table_cell(table, "%s", units_bits(8 * rate_of(f, b, p, "rx_bytes")).text);
		table_cell(table, "%s",
			units_bits(8 * rate(f, both(b, "tx_bytes"), both(p, "tx_bytes"))).text);
		table_cell(table, "%s", units_rate(rate_of(f, b, p, "rx_packets")).text);
		table_cell(table, "%s",
			units_rate(rate(f, both(b, "tx_packets"), both(p, "tx_packets"))).text);
		table_cell(table, "%s",
			units_rate(rate(f, both(b, "queue_full"), both(p, "queue_full"))).text);
		table_cell(table, "%s", units_rate(rate_of(f, b, p, "missed")).text);
	}
	json_decref(old);
	fprintf(f->out, "\n%c", TOP_TITLE);
	table_print(table, f->out, f->width);
	table_destroy(table);
	more(f, count);
}

/* `b` is the job as it was before; NULL: it was not there. */
static void
job(const struct frame *f, struct table *table, json_t *b, json_t *j)
{
	double flight = get_number(j, "blocks_in_flight"), window = get_number(j, "window");
	double degraded = get_number(j, "counters.blocks_partial");

	table_cell(table, "%s", get_text(j, "name"));
	table_cell(table, "%s", get_text(j, "state"));
	table_cell(table, "%s of %s", units_exact(get_number(j, "joined")).text,
		units_exact(get_number(j, "size")).text);
	table_cell(table, "%s", units_rate(rate_of(f, b, j, "counters.contributions")).text);
	table_cell(table, "%s", units_rate(rate_of(f, b, j, "counters.blocks_complete")).text);
	table_cell(table, "%s of %s", units_exact(flight).text, units_exact(window).text);
	table_cell(table, "%s", bar(window > 0 ? fmin(flight / window, 1) : (double)NAN).text);
	table_cell(table, "%s", units_rate(rate_of(f, b, j, "counters.blocks_partial")).text);
	table_cell(table, "%s", units_exact(degraded).text);
	table_cell(table, "%s", units_rate(rate_of(f, b, j, "counters.late")).text);
}

static void
jobs(const struct frame *f)
{
	static const struct table_column columns[] = {
		{"JOB", 0, 1, 0},
		{"STATE", 0, 0, 1},
		{"JOINED", 1, 0, 2},
		{"ADDED", 1, 0, 0},
		{"BLOCKS", 1, 0, 0},
		{"IN FLIGHT", 1, 0, 0},
		{"WINDOW", 0, 0, 4},
		{"DEGRADED", 1, 0, 0},
		{"TOTAL", 1, 0, 3},
		{"LATE", 1, 0, 5},
	};
	json_t *list = get(f->now->jobs, "jobs"), *old;
	size_t count = json_array_size(list);
	struct table *table;

	if (count == 0)
		return;
	table = table_create(columns, 10);
	old = get_by_text(get(f->before->jobs, "jobs"), "name");
	for (size_t i = 0; i < count && (f->most == 0 || i < f->most); i++) {
		json_t *j = json_array_get(list, i);

		job(f, table, json_object_get(old, get_text(j, "name")), j);
	}
	json_decref(old);
	fprintf(f->out, "\n%c", TOP_TITLE);
	table_print(table, f->out, f->width);
	table_destroy(table);
	more(f, count);
}

struct drop {
	const char *reason;
	double rate, total;
};

/* The fastest first; then the most. */
static int
worse(const void *a, const void *b)
{
	const struct drop *x = a, *y = b;
	double rx = isfinite(x->rate) ? x->rate : 0, ry = isfinite(y->rate) ? y->rate : 0;

	if (rx != ry)
		return rx < ry ? 1 : -1;
	return x->total < y->total ? 1 : x->total > y->total ? -1 : 0;
}

static void
drops(const struct frame *f)
{
	static const struct table_column columns[] = {
		{"DROPS", 0, 1, 0}, {"RATE", 1, 0, 0}, {"TOTAL", 1, 0, 0}};
	json_t *list = get(f->now->counters, "drops"), *old = get(f->before->counters, "drops");
	struct drop *all = calloc(json_object_size(list) + 1, sizeof(*all));
	struct table *table = table_create(columns, 3);
	size_t count = 0;
	const char *reason;
	json_t *value;

	if (all == NULL)
		err(1, "top");
	json_object_foreach (list, reason, value) {
		double total = json_number_value(value);

		if (total > 0)
			all[count++] = (struct drop){reason,
				rate(f, json_number_value(json_object_get(old, reason)), total),
				total};
	}
	qsort(all, count, sizeof(*all), worse);
	for (size_t i = 0; i < count && (f->most == 0 || i < f->most); i++) {
		table_cell(table, "%s", all[i].reason);
		table_cell(table, "%s", units_rate(all[i].rate).text);
		table_cell(table, "%s", units_exact(all[i].total).text);
	}
	if (count > 0) {
		fprintf(f->out, "\n%c", TOP_TITLE);
		table_print(table, f->out, f->width);
		more(f, count);
	}
	table_destroy(table);
	free(all);
}

void
top_frame(const struct top_sample *before, const struct top_sample *now, const char *error,
	double silent, FILE *out, unsigned int width, unsigned int rows)
{
	static const struct top_sample none;
	struct frame f = {.before = before == NULL ? &none : before,
		.now = now,
		.seconds = before == NULL ? 0 : now->time - before->time,
		.out = out,
		.width = width,
		/* Three lists with their titles, beside a head of about five lines. */
		.most = rows == 0   ? 0
			: rows < 23 ? 3
				    : (rows - 14) / 3};

	head(&f, error, silent);
	faults(&f);
	lcores(&f);
	stuck(&f);
	jobs(&f);
	ports(&f);
	drops(&f);
}

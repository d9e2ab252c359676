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

/* Faults on purpose are an alarm: somebody may have forgotten them. */
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
	part(f, &at, "%s hit",
		units_rate((get_number(s, "hit") - get_number(b, "hit")) / f->seconds).text);
	part(f, &at, "for %s", units_age(get_number(s, "elapsed_ms") / 1e3).text);
	part(f, &at, "weirctl faults lists them");
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
		fputs("... weirctl blocks --stuck lists all\n", f->out);
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
	view_stuck(f->now->stuck, true, to, f->width);
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
list(const struct frame *f, const struct table_column *columns, size_t count, json_t *now,
	json_t *before, const char *key)
{
	const struct table_rows rows = {now, before, f->seconds, key, f->most};

	if (json_array_size(now) == 0)
		return;
	fprintf(f->out, "\n%c", TOP_TITLE);
	table_print(columns, count, &rows, f->out, f->width);
}

static void
ports(const struct frame *f)
{
	static const struct table_column columns[] = {
		{"PORT", "name", CELL_TEXT, 1, 0, NULL},
		{"LINK", NULL, CELL_PRINT, 0, 1, view_link},
		{"RX", "rx_bytes", CELL_BITS, 0, 0, NULL},
		{"TX", "tx_bytes", CELL_BITS, 0, 0, NULL},
		{"RX PACKETS", "rx_packets", CELL_RATE, 0, 3, NULL},
		{"TX PACKETS", "tx_packets", CELL_RATE, 0, 3, NULL},
		{"QUEUE FULL", "queue_full", CELL_RATE, 0, 2, NULL},
		{"MISSED", "missed", CELL_RATE, 0, 2, NULL},
	};

	list(f, columns, 8, get(f->now->ports, "ports"), get(f->before->ports, "ports"), "name");
}

static void
in_flight(json_t *job, FILE *out)
{
	fprintf(out, "%s of %s", units_exact(get_number(job, "blocks_in_flight")).text,
		units_exact(get_number(job, "window")).text);
}

static void
window(json_t *job, FILE *out)
{
	double size = get_number(job, "window");

	fputs(bar(size > 0 ? fmin(get_number(job, "blocks_in_flight") / size, 1) : (double)NAN)
			.text,
		out);
}

static void
jobs(const struct frame *f)
{
	static const struct table_column columns[] = {
		{"JOB", "name", CELL_TEXT, 1, 0, NULL},
		{"STATE", "state", CELL_TEXT, 0, 1, NULL},
		{"JOINED", NULL, CELL_PRINT_RIGHT, 0, 2, view_joined},
		{"ADDED", "counters.contributions", CELL_RATE, 0, 0, NULL},
		{"BLOCKS", "counters.blocks_complete", CELL_RATE, 0, 0, NULL},
		{"IN FLIGHT", NULL, CELL_PRINT_RIGHT, 0, 0, in_flight},
		{"WINDOW", NULL, CELL_PRINT, 0, 4, window},
		{"PARTIAL", "counters.blocks_partial", CELL_RATE, 0, 0, NULL},
		{"TOTAL", "counters.blocks_partial", CELL_EXACT, 0, 3, NULL},
		{"LATE", "counters.late", CELL_RATE, 0, 5, NULL},
	};

	list(f, columns, 10, get(f->now->jobs, "jobs"), get(f->before->jobs, "jobs"), "name");
}

/* {reason: count} as rows, of what was dropped. New. */
static json_t *
drop_rows(json_t *drops)
{
	json_t *rows = json_array(), *value;
	const char *reason;

	json_object_foreach (drops, reason, value)
		if (json_number_value(value) > 0)
			json_array_append_new(
				rows, json_pack("{s:s,s:O}", "name", reason, "total", value));
	return rows;
}

/* Rows with the fastest first; then the most. */
struct drop {
	json_t *row;
	double rate, total;
};

static int
worse(const void *a, const void *b)
{
	const struct drop *x = a, *y = b;

	if (x->rate < y->rate || x->rate > y->rate)
		return x->rate < y->rate ? 1 : -1;
	return x->total < y->total ? 1 : x->total > y->total ? -1 : 0;
}

static json_t *
sorted(json_t *rows, json_t *before)
{
	size_t count = json_array_size(rows);
	struct drop *all = calloc(count + 1, sizeof(*all));
	json_t *old = get_by_text(before, "name"), *list = json_array();

	if (all == NULL)
		err(1, "top");
	for (size_t i = 0; i < count; i++) {
		json_t *row = json_array_get(rows, i);
		double total = get_number(row, "total"),
		       more = total -
			get_number(json_object_get(old, get_text(row, "name")), "total");

		all[i] = (struct drop){row, more > 0 ? more : 0, total};
	}
	qsort(all, count, sizeof(*all), worse);
	for (size_t i = 0; i < count; i++)
		json_array_append(list, all[i].row);
	json_decref(old);
	free(all);
	return list;
}

static void
drops(const struct frame *f)
{
	static const struct table_column columns[] = {
		{"DROPS", "name", CELL_TEXT, 1, 0, NULL},
		{"RATE", "total", CELL_RATE, 0, 0, NULL},
		{"TOTAL", "total", CELL_EXACT, 0, 0, NULL},
	};
	json_t *now = drop_rows(get(f->now->counters, "drops"));
	json_t *before = drop_rows(get(f->before->counters, "drops"));
	json_t *rows = sorted(now, before);

	list(f, columns, 3, rows, before, "name");
	json_decref(rows);
	json_decref(before);
	json_decref(now);
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

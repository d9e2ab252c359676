/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables and paragraphs of answers. */
#include "apps/report/table.h"

#include <ctype.h>
#include <err.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "ctrl/api/units.h"

#define COLUMNS_MAX 24

/* Per second; NaN where a value is missing or went back. */
static double
rate(const struct view_rows *rows, json_t *before, json_t *row, const char *path)
{
	double old = get_sum(before, path), now = get_sum(row, path);

	return rows->seconds > 0 && now >= old ? (now - old) / rows->seconds : (double)NAN;
}

double
age_of(double unix_seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return isfinite(unix_seconds)
		? (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - unix_seconds
		: (double)NAN;
}

static void
print_of(json_t *row, const char *path, FILE *out)
{
	const char *behind = strchr(path, '/');
	double whole = get_number(row, behind + 1);
	char part[64];

	snprintf(part, sizeof(part), "%.*s", (int)(behind - path), path);
	fputs(units_exact(get_number(row, part)).text, out);
	if (whole > 0)
		fprintf(out, " of %s", units_exact(whole).text);
}

/* How a column of these objects is shown. */
static enum view_cell
cell_of(const struct api_object *object, const struct view_column *column)
{
	static const enum view_cell cells[] = {[API_KIND_BOOLEAN] = CELL_YES,
		[API_KIND_ID] = CELL_EXACT,
		[API_KIND_ID_OR_NULL] = CELL_EXACT,
		[API_KIND_COUNT] = CELL_EXACT,
		[API_KIND_BYTES] = CELL_BYTES,
		[API_KIND_MS] = CELL_MS,
		[API_KIND_MS_OR_NULL] = CELL_MS,
		[API_KIND_MBIT] = CELL_EXACT,
		[API_KIND_SECONDS] = CELL_AGE,
		[API_KIND_TIME] = CELL_TIME,
		[API_KIND_SHARE] = CELL_SHARE,
		[API_KIND_TEXT] = CELL_TEXT,
		[API_KIND_WORD] = CELL_TEXT};
	const struct api_field *field;

	if (column->cell != CELL_BY_FIELD)
		return column->cell;
	if (strchr(column->path, '/') != NULL)
		return CELL_OF;
	field = api_field_find(object, column->path);
	return field == NULL ? CELL_EXACT : cells[field->kind];
}

static void
print_cell(const struct view_column *column, const struct view_rows *rows, json_t *before,
	json_t *row, FILE *out)
{
	const struct api_object *object = api_object_find(rows->of);
	double value = get_sum(row, column->path);
	struct units_text text = {""};

	switch (cell_of(object, column)) {
	case CELL_BY_FIELD:
	case CELL_TEXT: fputs(get_text(row, column->path), out); return;
	case CELL_PRINT:
	case CELL_PRINT_RIGHT: column->print(row, out); return;
	case CELL_EXACT: text = units_exact(value); break;
	case CELL_COUNT: text = units_count(value); break;
	case CELL_BYTES: text = units_bytes(value); break;
	case CELL_SHARE: text = units_share(value); break;
	case CELL_AGE: text = units_age(value); break;
	case CELL_MS: text = units_age(value / 1e3); break;
	case CELL_YES: fputs(isnan(value) ? "-" : value > 0 ? "yes" : "no", out); return;
	case CELL_TIME: text = units_age(age_of(value)); break;
	case CELL_RATE: text = units_rate(rate(rows, before, row, column->path)); break;
	case CELL_OF: print_of(row, column->path, out); return;
	}
	fputs(text.text, out);
}

static void
add_row(struct table *table, const struct view_column *columns, size_t count,
	const struct view_rows *rows, json_t *before, json_t *row)
{
	struct table_cell cells[COLUMNS_MAX];
	char *text[COLUMNS_MAX];

	for (size_t c = 0; c < count; c++) {
		size_t length;
		FILE *out = open_memstream(&text[c], &length);

		if (out == NULL)
			err(1, "table");
		print_cell(&columns[c], rows, before, row, out);
		if (fclose(out) != 0)
			err(1, "table");
		cells[c] = TABLE_TEXT(text[c]);
	}
	if (table_row(table, cells) < 0)
		errx(1, "table: no memory");
	for (size_t c = 0; c < count; c++)
		free(text[c]);
}

void
view_table(const struct view_column *columns, size_t count, const struct view_rows *rows, FILE *out,
	unsigned int width)
{
	struct table_column shown[COLUMNS_MAX];
	struct table *table;
	json_t *before;

	if (count > COLUMNS_MAX)
		errx(1, "table: %zu columns are more than %d", count, COLUMNS_MAX);
	if (json_array_size(rows->now) == 0 && rows->none != NULL) {
		text_print(rows->none, out, 0, width);
		return;
	}
	before = get_by_text(rows->before, "id");
	for (size_t c = 0; c < count; c++)
		shown[c] = (struct table_column){.title = columns[c].title,
			.left = cell_of(api_object_find(rows->of), &columns[c]) < CELL_EXACT,
			.flexible = columns[c].flexible,
			.leave = columns[c].leave};
	table = table_create(shown, count, NULL);
	for (size_t r = 0; table != NULL && r < json_array_size(rows->now); r++) {
		json_t *row = json_array_get(rows->now, r);

		add_row(table, columns, count, rows, json_object_get(before, get_text(row, "id")),
			row);
	}
	if (table == NULL || table_print(table, out, width) < 0)
		errx(1, "table: no memory");
	table_destroy(table);
	json_decref(before);
}

/* Columns, and their texts. */
struct columns {
	size_t count;
	struct view_column column[COLUMNS_MAX];
	char path[COLUMNS_MAX][64], title[COLUMNS_MAX][64];
};

/* Add the fields of an object, and those of objects in it. before: "queues.", or "". */
static void
add_columns(struct columns *to, const struct api_object *object, const char *before)
{
	for (size_t i = 0; object != NULL && i < object->count && to->count < COLUMNS_MAX; i++) {
		const struct api_field *field = &object->fields[i];
		char *path = to->path[to->count], *title = to->title[to->count], inner[64];

		snprintf(path, sizeof(to->path[0]), "%s%s", before, field->key);
		strcpy(title, path);
		for (char *c = title; (c = strpbrk(c, "_.")) != NULL;)
			*c = ' ';
		if (field->kind == API_KIND_OBJECT) {
			snprintf(inner, sizeof(inner), "%.62s.", path);
			add_columns(to, api_object_find(field->of), inner);
		} else if (field->kind < API_KIND_LIST) {
			to->column[to->count++] = (struct view_column){
				.title = title, .path = path, .leave = (unsigned int)i};
		}
	}
}

void
view_answer(const struct api_object *object, json_t *answer, FILE *out, unsigned int width)
{
	const struct view_rows none = {.of = object == NULL ? NULL : object->name};
	struct columns line = {0};
	size_t widest = 0;

	add_columns(&line, object, "");
	for (size_t c = 0; c < line.count; c++)
		if (get(answer, line.path[c]) != NULL && strlen(line.title[c]) > widest)
			widest = strlen(line.title[c]);
	for (size_t c = 0; c < line.count; c++) {
		if (get(answer, line.path[c]) == NULL)
			continue;
		fprintf(out, "%-*s", (int)widest + 2, line.title[c]);
		print_cell(&line.column[c], &none, NULL, answer, out);
		fputc('\n', out);
	}
	for (size_t i = 0; object != NULL && i < object->count; i++) {
		const struct api_field *field = &object->fields[i];
		struct view_rows rows = {
			.of = field->of, .now = get(answer, field->key), .none = "none"};
		struct columns table = {0};
		json_t *text;
		size_t l;

		if (field->kind == API_KIND_TEXTS)
			json_array_foreach (rows.now, l, text)
				fprintf(out, "%s\n",
					json_is_string(text) ? json_string_value(text) : "-");
		if (field->kind != API_KIND_LIST || rows.now == NULL)
			continue;
		if (object->count > 1)
			fprintf(out, "\n%s\n", field->key);
		add_columns(&table, api_object_find(field->of), "");
		for (char *c = table.title[0]; c < table.title[0] + sizeof(table.title); c++)
			*c = (char)toupper((unsigned char)*c);
		view_table(table.column, table.count, &rows, out, width);
	}
}

void
text_print(const char *text, FILE *out, unsigned int indent, unsigned int width)
{
	unsigned int at = 0;

	if (width > 0 && indent + 2 * TABLE_SHORT > width)
		indent = 0;
	for (;; at = indent) {
		size_t bytes = width > at ? text_fit(text, width - at) : 0, word = bytes;

		if (bytes == 0)
			bytes = strlen(text);
		if (text[bytes] != '\0') {
			while (word > 0 && text[word] != ' ')
				word--;
			/* A word that is wider than the screen is cut. */
			if (word > strspn(text, " "))
				bytes = word;
		}
		fprintf(out, "%*s%.*s\n", (int)at, "", (int)bytes, text);
		text += bytes;
		if (*text == '\0')
			return;
		text += strspn(text, " ");
	}
}

void
text_printf(FILE *out, unsigned int indent, unsigned int width, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		err(1, "text");
	va_end(arguments);
	text_print(text, out, indent, width);
	free(text);
}

unsigned int
terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;

	if (columns != NULL && atoi(columns) > 0)
		return (unsigned int)atoi(columns);
	return ioctl(1, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void
ctl_more(json_t *answer)
{
	json_t *next = get(answer, "next");

	if (json_is_integer(next))
		printf("more follow: --after %" JSON_INTEGER_FORMAT "\n", json_integer_value(next));
	else if (next != NULL)
		printf("more follow: --after %s\n", get_text(answer, "next"));
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/report/table.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <libsmartcols/libsmartcols.h>

#define COLUMNS_MAX 64
#define BETWEEN     "  " /* columns of table_print() */

struct table {
	const struct table_column *column;
	size_t count;
	FILE *out;
	struct libscols_table *lines;
	json_t *rows;
};

static int
add_column(struct table *table, const struct table_column *column)
{
	struct libscols_column *made =
		scols_table_new_column(table->lines, column->title, 1, SCOLS_FL_NOEXTREMES);

	if (made == NULL)
		return -ENOMEM;
	scols_column_set_flags(made, column->left ? 0 : SCOLS_FL_RIGHT);
	/* From 1 on a hint is the least width. */
	scols_column_set_whint(made, column->width > 1 ? column->width : 1);
	return 0;
}

/* One line of the table: the mark of heads, then a text for each column that is shown. NULL: no memory. */
static struct libscols_line *
add_line(struct table *table, const char *mark, const char *(*text)(const struct table_column *))
{
	struct libscols_line *line = scols_table_new_line(table->lines, NULL);
	size_t at = 1;

	if (line == NULL || scols_line_set_data(line, 0, mark) != 0)
		return NULL;
	for (size_t i = 0; text != NULL && i < table->count; i++)
		if (table->column[i].title != NULL &&
			scols_line_set_data(line, at++, text(&table->column[i])) != 0)
			return NULL;
	return line;
}

static const char *
title_of(const struct table_column *column)
{
	return column->title;
}

static const char *
unit_of(const struct table_column *column)
{
	return column->unit == NULL ? "" : column->unit;
}

struct table *
table_create(const struct table_column *columns, size_t count, FILE *out)
{
	static const struct table_column mark = {.title = "", .left = true};
	struct table *table = calloc(1, sizeof(*table));
	bool made = table != NULL;

	if (!made)
		return NULL;
	*table = (struct table){.column = columns, .count = count, .out = out};
	table->rows = json_array();
	table->lines = scols_new_table();
	made = table->rows != NULL && table->lines != NULL && add_column(table, &mark) == 0;
	for (size_t i = 0; made && i < count; i++)
		made = columns[i].title == NULL || add_column(table, &columns[i]) == 0;
	if (!made || add_line(table, "#", title_of) == NULL ||
		add_line(table, "#", unit_of) == NULL) {
		table_destroy(table);
		return NULL;
	}
	scols_table_enable_noheadings(table->lines, 1);
	/* The terminal may be narrower: no column is shortened. */
	scols_table_set_termforce(table->lines, SCOLS_TERMFORCE_NEVER);
	scols_table_set_stream(table->lines, out);
	return table;
}

void
table_destroy(struct table *table)
{
	if (table == NULL)
		return;
	json_decref(table->rows);
	scols_unref_table(table->lines);
	free(table);
}

json_t *
table_cell_json(const struct table_cell *cell)
{
	if (cell->text != NULL)
		return json_string(cell->text);
	if (cell->is_bool)
		return json_boolean(cell->number != 0);
	if (!isfinite(cell->number))
		return json_null();
	if (fabs(cell->number) < 1e15 && cell->number == trunc(cell->number))
		return json_integer((json_int_t)cell->number);
	return json_real(cell->number);
}

static int
set_cell(struct libscols_line *line, size_t at, const struct table_column *column,
	const struct table_cell *cell)
{
	char number[64];

	if (cell->text != NULL)
		return scols_line_set_data(line, at, cell->text);
	if (cell->is_bool)
		return scols_line_set_data(line, at, cell->number != 0 ? "yes" : "no");
	if (!isfinite(cell->number))
		return scols_line_set_data(line, at, "-");
	snprintf(number, sizeof(number), "%.*f", (int)column->digits, cell->number);
	return scols_line_set_data(line, at, number);
}

int
table_row(struct table *table, const struct table_cell *cells)
{
	json_t *row = json_object();
	struct libscols_line *line = add_line(table, " ", NULL), *first = line;
	size_t at = 1;

	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].key != NULL)
			json_object_set_new(row, table->column[i].key, table_cell_json(&cells[i]));
	if (json_array_append_new(table->rows, row) != 0 || line == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].title != NULL &&
			set_cell(line, at++, &table->column[i], &cells[i]) != 0)
			return -ENOMEM;
	if (table->out == NULL)
		return 0;
	if (scols_table_get_nlines(table->lines) == 3)
		first = scols_table_get_line(table->lines, 0); /* the head */
	if (scols_table_print_range(table->lines, first, line) != 0)
		return -ENOMEM;
	fputc('\n', table->out);
	fflush(table->out);
	return 0;
}

/* The next character: its bytes, and its columns on the screen. */
static size_t
character(const char *text, size_t *columns)
{
	mbstate_t state = {0};
	wchar_t wide;
	size_t bytes = mbrtowc(&wide, text, MB_CUR_MAX, &state);
	int width;

	*columns = 1;
	if (bytes == 0 || bytes > MB_CUR_MAX)
		return 1;
	width = wcwidth(wide);
	*columns = width < 0 ? 1 : (size_t)width;
	return bytes;
}

size_t
text_width(const char *text)
{
	size_t width = 0, columns;

	while (*text != '\0') {
		text += character(text, &columns);
		width += columns;
	}
	return width;
}

size_t
text_fit(const char *text, size_t width)
{
	size_t bytes = 0, columns;

	while (text[bytes] != '\0') {
		size_t more = character(text + bytes, &columns);

		if (columns > width)
			break;
		width -= columns;
		bytes += more;
	}
	return bytes;
}

/* How a table fits the screen. */
struct fit {
	size_t widest[COLUMNS_MAX]; /* text of the column; 0: it is left out */
	size_t most; /* columns of the screen for a flexible one */
};

static size_t
total(const struct table *table, const struct fit *fit)
{
	size_t sum = 0;

	for (size_t i = 0; i < table->count; i++) {
		size_t width = fit->widest[i];

		if (table->column[i].flexible && width > fit->most)
			width = fit->most;
		sum += width + (sum > 0 && width > 0 ? strlen(BETWEEN) : 0);
	}
	return sum;
}

/* Shorten the flexible columns, then leave out the column that is needed least, and again. */
static void
find_fit(const struct table *table, struct fit *fit, size_t width)
{
	fit->most = SIZE_MAX;
	while (width > 0 && total(table, fit) > width) {
		size_t least = 0;

		for (fit->most = width; fit->most > TABLE_SHORT; fit->most--)
			if (total(table, fit) <= width)
				return;
		if (total(table, fit) <= width)
			return;
		for (size_t i = 1; i < table->count; i++)
			if (fit->widest[i] > 0 &&
				(fit->widest[least] == 0 ||
					table->column[i].leave > table->column[least].leave))
				least = i;
		if (table->column[least].leave == 0)
			return;
		fit->widest[least] = 0;
	}
}

/* A text that is too wide ends with a mark in place of its last character. */
static int
shorten(struct libscols_line *line, size_t at, size_t most)
{
	const char *text = scols_cell_get_data(scols_line_get_cell(line, at));
	char *copy;

	if (text_width(text) <= most)
		return 0;
	if (asprintf(&copy, "%.*s%s", (int)text_fit(text, most - 1), text,
		    MB_CUR_MAX > 1 ? "…" : "~") < 0)
		return -ENOMEM;
	return scols_line_refer_data(line, at, copy);
}

/* Neither wider than the screen, nor with blanks at a line's end. */
static void
print_lines(char *text, FILE *out, size_t width)
{
	for (char *line; (line = strsep(&text, "\n")) != NULL && (text != NULL || *line != '\0');) {
		size_t length = width > 0 ? text_fit(line, width) : strlen(line);

		while (length > 0 && line[length - 1] == ' ')
			length--;
		fprintf(out, "%.*s\n", (int)length, line);
	}
}

int
table_print(struct table *table, FILE *out, unsigned int width)
{
	struct libscols_iter *iter = scols_new_iter(SCOLS_ITER_FORWARD);
	struct libscols_line *line;
	struct fit fit = {.most = 0};
	char *text = NULL;
	int rc = 0;

	if (iter == NULL)
		return -ENOMEM;
	/* Neither the marks nor the units. */
	scols_column_set_flags(scols_table_get_column(table->lines, 0), SCOLS_FL_HIDDEN);
	scols_table_remove_line(table->lines, scols_table_get_line(table->lines, 1));
	scols_table_set_column_separator(table->lines, BETWEEN);
	while (scols_table_next_line(table->lines, iter, &line) == 0)
		for (size_t i = 0; i < table->count; i++) {
			struct libscols_cell *cell = scols_line_get_cell(line, i + 1);
			size_t wide = text_width(scols_cell_get_data(cell));

			if (wide > fit.widest[i])
				fit.widest[i] = wide;
		}
	find_fit(table, &fit, width);
	for (size_t i = 0; i < table->count; i++) {
		struct libscols_column *column = scols_table_get_column(table->lines, i + 1);

		if (fit.widest[i] == 0)
			scols_column_set_flags(column, SCOLS_FL_HIDDEN);
		scols_reset_iter(iter, SCOLS_ITER_FORWARD);
		while (table->column[i].flexible && rc == 0 &&
			scols_table_next_line(table->lines, iter, &line) == 0)
			rc = shorten(line, i + 1, fit.most);
	}
	scols_free_iter(iter);
	if (rc != 0 || scols_print_table_to_string(table->lines, &text) != 0)
		return -ENOMEM;
	print_lines(text, out, width);
	free(text);
	return 0;
}

json_t *
table_json(const struct table *table)
{
	return table->rows;
}

static FILE *standard_output; /* of the JSON; stdout prints to standard error */

void
report_json_begin(const char *to)
{
	int fd = to != NULL && strcmp(to, "-") == 0 ? dup(STDOUT_FILENO) : -1;

	standard_output = fd < 0 ? NULL : fdopen(fd, "w");
	if (standard_output != NULL)
		dup2(STDERR_FILENO, STDOUT_FILENO);
}

int
report_json_write(json_t *json, const char *to, size_t flags)
{
	FILE *out;
	int rc;

	if (to == NULL)
		return 0;
	errno = EBADF;
	out = strcmp(to, "-") == 0 ? standard_output : fopen(to, "we");
	if (out == NULL)
		return -errno;
	rc = json_dumpf(json, out, flags) < 0 || fputc('\n', out) == EOF ? -EIO : 0;
	return fclose(out) != 0 ? -errno : rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/report/table.h"

#include <errno.h>
#include <stdlib.h>

#include <libsmartcols/libsmartcols.h>

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

/* One line of the table: the mark of heads, then a text for each column that is shown. */
static int
add_line(struct table *table, const char *mark, const char *(*text)(const struct table_column *))
{
	struct libscols_line *line = scols_table_new_line(table->lines, NULL);
	size_t at = 1;

	if (line == NULL || scols_line_set_data(line, 0, mark) != 0)
		return -ENOMEM;
	for (size_t i = 0; text != NULL && i < table->count; i++)
		if (table->column[i].title != NULL &&
			scols_line_set_data(line, at++, text(&table->column[i])) != 0)
			return -ENOMEM;
	return 0;
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
	if (!made || add_line(table, "#", title_of) < 0 || add_line(table, "#", unit_of) < 0) {
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
	struct libscols_line *first, *line;
	size_t at = 1, n = scols_table_get_nlines(table->lines);

	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].key != NULL)
			json_object_set_new(row, table->column[i].key, table_cell_json(&cells[i]));
	if (json_array_append_new(table->rows, row) != 0 || add_line(table, " ", NULL) < 0)
		return -ENOMEM;
	line = scols_table_get_line(table->lines, n);
	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].title != NULL &&
			set_cell(line, at++, &table->column[i], &cells[i]) != 0)
			return -ENOMEM;
	if (table->out == NULL)
		return 0;
	first = n == 2 ? scols_table_get_line(table->lines, 0) : line; /* with the head */
	if (scols_table_print_range(table->lines, first, line) != 0)
		return -ENOMEM;
	fputc('\n', table->out);
	fflush(table->out);
	return 0;
}

json_t *
table_json(const struct table *table)
{
	return table->rows;
}

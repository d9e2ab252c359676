/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/ctl/table.h"

#include <err.h>
#include <libsmartcols/libsmartcols.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include "apps/ctl/get.h"
#include "ctrl/api/units.h"

#define GAP         2 /* blanks between columns */
#define COLUMNS_MAX 16

/* The texts of a table, and how wide its columns are. */
struct layout {
	const struct table_column *columns;
	size_t count, rows;
	char **cells; /* rows x count */
	size_t width[COLUMNS_MAX]; /* of the widest text */
	bool left_out[COLUMNS_MAX];
	size_t most; /* columns on the screen that a flexible column takes */
};

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

/* Per second; NaN where a value is missing or went back. */
static double
rate(const struct table_rows *rows, json_t *before, json_t *row, const char *path)
{
	double old = get_sum(before, path), now = get_sum(row, path);

	return rows->seconds > 0 && now >= old ? (now - old) / rows->seconds : (double)NAN;
}

static void
print_cell(const struct table_column *column, const struct table_rows *rows, json_t *before,
	json_t *row, FILE *out)
{
	double value = get_sum(row, column->path);
	struct units_text text = {""};

	switch (column->cell) {
	case CELL_TEXT: fputs(get_text(row, column->path), out); return;
	case CELL_PRINT:
	case CELL_PRINT_RIGHT: column->print(row, out); return;
	case CELL_EXACT: text = units_exact(value); break;
	case CELL_COUNT: text = units_count(value); break;
	case CELL_BYTES: text = units_bytes(value); break;
	case CELL_SHARE: text = units_share(value); break;
	case CELL_AGE: text = units_age(value); break;
	case CELL_MS: text = units_age(value / 1e3); break;
	case CELL_RATE: text = units_rate(rate(rows, before, row, column->path)); break;
	}
	fputs(text.text, out);
}

static char *
cell_text(const struct table_column *column, const struct table_rows *rows, json_t *before,
	json_t *row)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (out == NULL)
		err(1, "table");
	print_cell(column, rows, before, row, out);
	if (fclose(out) != 0)
		err(1, "table");
	return text;
}

static void
fill(struct layout *layout, const struct table_rows *rows)
{
	const char *key = rows->key != NULL ? rows->key : "name";
	json_t *before = get_by_text(rows->before, key);

	layout->cells = calloc(layout->rows * layout->count + 1, sizeof(*layout->cells));
	if (layout->cells == NULL)
		err(1, "table");
	for (size_t c = 0; c < layout->count; c++)
		layout->width[c] = text_width(layout->columns[c].title);
	for (size_t r = 0; r < layout->rows; r++) {
		json_t *row = json_array_get(rows->now, r);
		json_t *old = json_object_get(before, get_text(row, key));

		for (size_t c = 0; c < layout->count; c++) {
			char *text = cell_text(&layout->columns[c], rows, old, row);
			size_t width = text_width(text);

			layout->cells[r * layout->count + c] = text;
			if (width > layout->width[c])
				layout->width[c] = width;
		}
	}
	json_decref(before);
}

static size_t
total(const struct layout *layout)
{
	size_t sum = 0;

	for (size_t c = 0; c < layout->count; c++)
		if (!layout->left_out[c])
			sum += (sum > 0 ? GAP : 0) +
				(layout->columns[c].flexible && layout->width[c] > layout->most
						? layout->most
						: layout->width[c]);
	return sum;
}

/* The column to leave out next; count: none may be. */
static size_t
least_needed(const struct layout *layout)
{
	size_t found = layout->count;
	unsigned int leave = 0;

	for (size_t c = 0; c < layout->count; c++)
		if (!layout->left_out[c] && layout->columns[c].leave > leave) {
			found = c;
			leave = layout->columns[c].leave;
		}
	return found;
}

static void
fit(struct layout *layout, unsigned int width)
{
	size_t least;

	layout->most = SIZE_MAX;
	if (width == 0 || total(layout) <= width)
		return;
	for (;;) {
		for (layout->most = width; layout->most > TABLE_SHORT; layout->most--)
			if (total(layout) <= width)
				return;
		least = least_needed(layout);
		if (total(layout) <= width || least == layout->count)
			return;
		layout->left_out[least] = true;
	}
}

/* Shorten a text in place; the mark of it takes the place of its last character. */
static void
shorten(char *text, size_t most)
{
	const char *mark = MB_CUR_MAX > 1 ? "…" : "~";
	size_t bytes;

	if (text_width(text) <= most)
		return;
	bytes = text_fit(text, most - 1);
	/* What is left out has at least as many bytes as columns; a wide one has three. */
	if (strlen(text + bytes) < strlen(mark))
		mark = "~";
	strcpy(text + bytes, mark);
}

static char *
lay_out(const struct layout *layout)
{
	struct libscols_table *table = scols_new_table();
	char *text = NULL;

	if (table == NULL || scols_table_set_column_separator(table, "  ") != 0)
		err(1, "table");
	scols_table_set_termforce(table, SCOLS_TERMFORCE_NEVER);
	for (size_t c = 0; c < layout->count; c++)
		if (!layout->left_out[c])
			scols_table_new_column(table, layout->columns[c].title, 0,
				SCOLS_FL_NOEXTREMES |
					(layout->columns[c].cell >= CELL_EXACT ? SCOLS_FL_RIGHT
									       : 0));
	for (size_t r = 0; r < layout->rows; r++) {
		struct libscols_line *line = scols_table_new_line(table, NULL);
		size_t at = 0;

		for (size_t c = 0; line != NULL && c < layout->count; c++) {
			char *cell = layout->cells[r * layout->count + c];

			if (layout->left_out[c])
				continue;
			if (layout->columns[c].flexible)
				shorten(cell, layout->most);
			scols_line_set_data(line, at++, cell);
		}
	}
	if (scols_print_table_to_string(table, &text) != 0)
		err(1, "table");
	scols_unref_table(table);
	return text;
}

void
table_print(const struct table_column *columns, size_t count, const struct table_rows *rows,
	FILE *out, unsigned int width)
{
	struct layout layout = {
		.columns = columns, .count = count, .rows = json_array_size(rows->now)};
	char *text, *next;

	fill(&layout, rows);
	fit(&layout, width);
	text = lay_out(&layout);
	/* Neither wider than the terminal, nor with blanks at a line's end. */
	for (char *line = text; *line != '\0'; line = next) {
		size_t length = strcspn(line, "\n");

		next = line + length + (line[length] == '\n');
		line[length] = '\0';
		if (width > 0)
			length = text_fit(line, width);
		while (length > 0 && line[length - 1] == ' ')
			length--;
		fprintf(out, "%.*s\n", (int)length, line);
	}
	free(text);
	for (size_t i = 0; i < layout.rows * count; i++)
		free(layout.cells[i]);
	free(layout.cells);
}

/* A word that begins in column `at`, cut into lines where it is wider than the terminal. */
static size_t
word_print(const char *word, FILE *out, size_t at, unsigned int width)
{
	while (width > 0) {
		/* Never the width of all that is left: that takes the square of a long word. */
		size_t bytes = text_fit(word, width > at ? width - at : 0);

		if (word[bytes] == '\0' || (bytes == 0 && at == 0))
			break;
		fprintf(out, "%.*s\n", (int)bytes, word);
		word += bytes;
		at = 0;
	}
	fputs(word, out);
	return at + text_width(word);
}

void
text_print(const char *text, FILE *out, unsigned int indent, unsigned int width)
{
	size_t at = 0;
	bool fresh = true; /* no word on this line yet */

	if (width > 0 && indent + 2 * TABLE_SHORT > width)
		indent = 0;
	while (*text != '\0') {
		size_t gap = strspn(text, " "), length = strcspn(text + gap, " ");
		char *word = strndup(text + gap, length);

		if (word == NULL)
			err(1, "text");
		if (!fresh && width > 0 && at + gap + text_width(word) > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else {
			fprintf(out, "%*s", (int)gap, "");
			at += gap;
		}
		at = word_print(word, out, at, width);
		fresh = false;
		free(word);
		text += gap + length;
	}
	fputc('\n', out);
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
	if (ioctl(1, TIOCGWINSZ, &size) == 0)
		return size.ws_col;
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/ctl/table.h"

#include <err.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

#define GAP 2 /* blanks between columns */

struct table {
	const struct table_column *columns;
	size_t count;
	char **cells;
	size_t used, room;
};

/* What a table becomes on a screen. */
struct layout {
	size_t *whole; /* what the cells want */
	size_t *width;
	bool *left_out;
};

struct table *
table_create(const struct table_column *columns, size_t count)
{
	struct table *table = calloc(1, sizeof(*table));

	if (table == NULL)
		err(1, "table");
	table->columns = columns;
	table->count = count;
	return table;
}

void
table_destroy(struct table *table)
{
	if (table == NULL)
		return;
	for (size_t i = 0; i < table->used; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

void
table_cell(struct table *table, const char *format, ...)
{
	va_list arguments;

	if (table->used == table->room) {
		table->room = table->room == 0 ? 64 : 2 * table->room;
		table->cells = reallocarray(table->cells, table->room, sizeof(*table->cells));
		if (table->cells == NULL)
			err(1, "table");
	}
	va_start(arguments, format);
	if (vasprintf(&table->cells[table->used++], format, arguments) < 0)
		err(1, "table");
	va_end(arguments);
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

static size_t
total(const struct table *table, const struct layout *layout)
{
	size_t sum = 0;

	for (size_t c = 0; c < table->count; c++)
		if (!layout->left_out[c])
			sum += layout->width[c] + (sum > 0 ? GAP : 0);
	return sum;
}

/* What a column takes when none of the flexible ones may be wider than `most`. */
static size_t
narrowed(const struct table *table, const struct layout *layout, size_t c, size_t most)
{
	size_t whole = layout->whole[c];

	return table->columns[c].flexible && whole > most ? most : whole;
}

static size_t
narrow(const struct table *table, struct layout *layout, size_t most)
{
	for (size_t c = 0; c < table->count; c++)
		layout->width[c] = narrowed(table, layout, c, most);
	return total(table, layout);
}

/* The widest of the flexible columns become narrower until all fit, in few steps however wide they
 * are. Returns whether they do. */
static bool
shorten(const struct table *table, struct layout *layout, size_t width)
{
	size_t fits = TABLE_SHORT, wide = TABLE_SHORT, left;

	for (size_t c = 0; c < table->count; c++)
		if (!layout->left_out[c] && layout->whole[c] > wide)
			wide = layout->whole[c];
	if (narrow(table, layout, wide) <= width)
		return true;
	if (narrow(table, layout, fits) > width)
		return false;
	while (wide - fits > 1) {
		size_t middle = fits + (wide - fits) / 2;

		if (narrow(table, layout, middle) <= width)
			fits = middle;
		else
			wide = middle;
	}
	left = width - narrow(table, layout, fits);
	for (size_t c = table->count; c-- > 0 && left > 0;)
		if (!layout->left_out[c] && narrowed(table, layout, c, fits + 1) > fits) {
			layout->width[c] = narrowed(table, layout, c, fits + 1);
			left--;
		}
	return true;
}

static bool
leave_out(const struct table *table, struct layout *layout)
{
	size_t least = table->count;

	for (size_t c = 0; c < table->count; c++)
		if (table->columns[c].leave > 0 && !layout->left_out[c] &&
			(least == table->count ||
				table->columns[c].leave > table->columns[least].leave))
			least = c;
	if (least == table->count)
		return false;
	layout->left_out[least] = true;
	return true;
}

static void
measure(const struct table *table, struct layout *layout)
{
	size_t rows = table->used / table->count;

	for (size_t c = 0; c < table->count; c++) {
		layout->whole[c] = text_width(table->columns[c].title);
		for (size_t r = 0; r < rows; r++) {
			size_t width = text_width(table->cells[r * table->count + c]);

			if (width > layout->whole[c])
				layout->whole[c] = width;
		}
		layout->width[c] = layout->whole[c];
	}
}

static void
fit(const struct table *table, struct layout *layout, unsigned int width)
{
	measure(table, layout);
	while (width > 0 && !shorten(table, layout, width))
		if (!leave_out(table, layout))
			return;
}

static void
pad(FILE *out, size_t blanks)
{
	if (blanks > 0)
		fprintf(out, "%*s", (int)blanks, "");
}

/* A line, not wider than `width`; blanks at its end are not written. */
static void
row(const struct table *table, const struct layout *layout, char *const *cells, FILE *out,
	unsigned int width)
{
	size_t owed = 0, at = 0;

	for (size_t c = 0; c < table->count; c++) {
		const char *cell = cells == NULL ? table->columns[c].title : cells[c];
		size_t columns = text_width(cell), room = layout->width[c];
		bool cut;

		if (layout->left_out[c])
			continue;
		if (at > 0)
			owed += GAP, at += GAP;
		if (width > 0 && at + room > width)
			room = at < width ? width - at : 0;
		cut = columns > room;
		if (table->columns[c].right && !cut)
			owed += room - columns;
		if (room > 0 && columns > 0) {
			pad(out, owed);
			owed = 0;
			if (cut) {
				size_t bytes = text_fit(cell, room - 1);

				fprintf(out, "%.*s%s", (int)bytes, cell,
					MB_CUR_MAX > 1 ? "…" : "~");
				cell += bytes;
				columns = room;
			} else {
				fputs(cell, out);
			}
		}
		if (!table->columns[c].right)
			owed += room - columns;
		at += room;
		if (room < layout->width[c])
			break;
	}
	fputc('\n', out);
}

void
table_print(const struct table *table, FILE *out, unsigned int width)
{
	struct layout layout = {
		.whole = calloc(table->count, sizeof(*layout.whole)),
		.width = calloc(table->count, sizeof(*layout.width)),
		.left_out = calloc(table->count, sizeof(*layout.left_out)),
	};

	if (layout.whole == NULL || layout.width == NULL || layout.left_out == NULL)
		err(1, "table");
	fit(table, &layout, width);
	row(table, &layout, NULL, out, width);
	for (size_t r = 0; r < table->used / table->count; r++)
		row(table, &layout, table->cells + r * table->count, out, width);
	free(layout.whole);
	free(layout.width);
	free(layout.left_out);
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
			pad(out, gap);
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

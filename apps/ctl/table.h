/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables and paragraphs that fit the terminal.
 *
 * A column says which value of each row it shows, and how. A table that is too wide first shortens its
 * flexible columns, then leaves out whole columns (the highest `leave` first). A width of 0 is no
 * terminal: nothing is shortened.
 */
#ifndef APPS_CTL_TABLE_H
#define APPS_CTL_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* How a value is shown. From CELL_EXACT on it is at the right. An object is the sum of its numbers. */
enum cell {
	CELL_TEXT,
	CELL_PRINT, /* as `print` writes it; at the left */
	CELL_EXACT, /* "12345678" */
	CELL_COUNT, /* "12.3M" */
	CELL_BYTES,
	CELL_SHARE, /* of [0, 1]: "43 %" */
	CELL_AGE, /* seconds */
	CELL_MS, /* milliseconds, shown as CELL_AGE does */
	CELL_RATE, /* per second, since the row was seen before */
	CELL_PRINT_RIGHT, /* as CELL_PRINT */
};

struct table_column {
	const char *title;
	const char *path; /* of the value in the row, such as "memory.free" */
	enum cell cell;
	unsigned int flexible : 1; /* may be shortened, to TABLE_SHORT */
	unsigned int leave; /* 0: stays; else the highest is left out first */
	void (*print)(json_t *row, FILE *out);
};

#define TABLE_SHORT 10 /* columns on the screen that a flexible column keeps */

/* What a table shows. */
struct table_rows {
	json_t *now; /* array of rows */
	json_t *before; /* the array some seconds ago, for rates; NULL: they are dashes */
	double seconds; /* between the two */
	const char *key; /* of a row's name, to find it in `before`; NULL: "name" */
};

/* Titles and rows. Ends the program when there is no memory. */
void table_print(const struct table_column *columns, size_t count, const struct table_rows *rows,
	FILE *out, unsigned int width);

#define TABLE_PRINT(columns, list, out, width)                                                     \
	table_print(columns, sizeof(columns) / sizeof((columns)[0]),                               \
		&(struct table_rows){.now = (list)}, out, width)

/**
 * A paragraph, broken at blanks.
 *
 * @param text    one line
 * @param indent  blanks before the second and further lines; the first keeps its own
 * @param width   of the terminal; 0: no break
 */
void text_print(const char *text, FILE *out, unsigned int indent, unsigned int width);

/* The same, of a format without a line end. */
void text_printf(FILE *out, unsigned int indent, unsigned int width, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Columns on the screen that a text takes. */
size_t text_width(const char *text);

/* Bytes of `text` that fill at most `width` columns on the screen. */
size_t text_fit(const char *text, size_t width);

/* The terminal's width: COLUMNS if it is set, else what stdout says, else 0 (no terminal). */
unsigned int terminal_width(void);

#endif

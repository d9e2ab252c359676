/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables and paragraphs that fit the terminal.
 *
 * A table that is too wide first shortens its flexible columns, then leaves out whole columns (the
 * highest `leave` first). A width of 0 is no terminal: nothing is shortened.
 */
#ifndef APPS_CTL_TABLE_H
#define APPS_CTL_TABLE_H

#include <stddef.h>
#include <stdio.h>

struct table_column {
	const char *title;
	unsigned int right : 1; /* numbers stand at the right */
	unsigned int flexible : 1; /* may be shortened, to TABLE_SHORT */
	unsigned int leave; /* 0: stays; else the highest is left out first */
};

#define TABLE_SHORT 10 /* columns on the screen that a flexible column keeps */

struct table;

/* Columns are kept by reference. Ends the program when there is no memory. */
struct table *table_create(const struct table_column *columns, size_t count);

/* Takes NULL. */
void table_destroy(struct table *table);

/* The next cell, from left to right, row by row. */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Title and rows; an unfinished row is left out. */
void table_print(const struct table *table, FILE *out, unsigned int width);

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

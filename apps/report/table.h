/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table that is printed row by row, as nccl-tests prints its own: a head of two lines, titles and
 * units, then a row as soon as it is known. The same rows are kept as JSON. A column may be in the
 * table, in the JSON, or in both. libsmartcols aligns the columns; they grow when a value is wider
 * than all before it. table_print() prints all rows at once instead, as wide as the terminal.
 *
 *     static const struct table_column columns[] = {
 *             {.key = "bytes", .title = "size", .unit = "B", .width = 10},
 *             {.key = "seconds", .title = "time", .unit = "s", .digits = 3},
 *             {.title = "note", .left = true},
 *     };
 *     struct table *t = table_create(columns, 3, stdout);
 *     table_row(t, (struct table_cell[]){TABLE_NUMBER(1024), TABLE_NUMBER(0.25), TABLE_TEXT("ok")});
 *     json_dumpf(table_json(t), stdout, 0);
 *     table_destroy(t);
 *
 *     #       size  time  note
 *     #          B     s
 *             1024 0.250  ok
 *
 * For one thread. Nothing here needs DPDK, prints errors or ends the program.
 */
#ifndef APPS_REPORT_TABLE_H
#define APPS_REPORT_TABLE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <jansson.h>

struct table_column {
	const char *key; /* of a row's JSON object; NULL: not in the JSON */
	const char *title; /* NULL: not in the table */
	const char *unit; /* below the title; NULL: none */
	unsigned int width; /* least, in columns of the screen */
	unsigned int digits; /* of numbers, behind the point */
	bool left; /* aligned; numbers are usually at the right */
	bool flexible; /* table_print() may shorten its texts, to TABLE_SHORT */
	unsigned int leave; /* table_print() leaves out the highest first; 0: never */
};

#define TABLE_SHORT 10 /* columns of the screen that a flexible column keeps */

/* A cell is a text, a truth value, or a number; NaN is a number that is not known: "-" and null. */
struct table_cell {
	const char *text; /* NULL: a number */
	double number;
	bool is_bool;
};
#define TABLE_TEXT(t)   ((struct table_cell){.text = (t)})
#define TABLE_NUMBER(n) ((struct table_cell){.number = (double)(n)})
#define TABLE_BOOL(b)   ((struct table_cell){.number = (b) ? 1 : 0, .is_bool = true})
#define TABLE_NONE      TABLE_NUMBER(NAN)

struct table;

/* A table of `count` columns, [1, 64], which must outlive it. out: where rows go as they come, may
 * be NULL: then they are only kept. NULL: no memory. */
struct table *table_create(const struct table_column *columns, size_t count, FILE *out);

/* NULL is fine. */
void table_destroy(struct table *table);

/* Add a row with a cell for each column, print and flush it. Texts are copied. 0, or -ENOMEM. */
int table_row(struct table *table, const struct table_cell *cells);

/* Print titles and rows of a table whose columns all have a title, once and last, no wider than `width` columns of the screen (0: any
 * width): flexible columns are shortened, then whole columns left out. 0, or -ENOMEM. */
int table_print(struct table *table, FILE *out, unsigned int width);

/* The rows as an array of objects; the table's own. */
json_t *table_json(const struct table *table);

/* Columns of the screen that a text takes, and bytes of it that fill at most `width` columns. Both in
 * the locale of the program. */
size_t text_width(const char *text);
size_t text_fit(const char *text, size_t width);

/* A cell as JSON: a new reference. A whole number is an integer. */
json_t *table_cell_json(const struct table_cell *cell);

/*
 * Where --json goes (OPTION_JSON): "-" is standard output, else a file; NULL: nowhere. A program that
 * prints tables as well calls report_json_begin() before it prints anything: with "-" what it prints to
 * stdout, itself or by a child, goes to standard error from then on. report_json_write(), once, writes
 * to standard output in that case. 0 or -errno.
 */
void report_json_begin(const char *to);
int report_json_write(json_t *json, const char *to, size_t flags);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pages of docs/, for the tests that compare them with the code. Everything is read from the
 * text: tables by the heading above them, fenced blocks by the word behind the fence.
 *
 * Pages are found under WEIR_SOURCE (environment; meson sets it), else in the working directory.
 */
#ifndef TESTS_MODEL_DOC_PAGE_H
#define TESTS_MODEL_DOC_PAGE_H

#include <stddef.h>

#define DOC_CELLS 8
#define DOC_ROWS  128

/* A table without its head: cells trimmed of blanks and of one pair of `backquotes`. */
struct doc_table {
	unsigned int rows, cells; /* cells of the first row */
	char *cell[DOC_ROWS][DOC_CELLS]; /* NULL beyond a row's last */
};

/* A whole file as a string, "name" as docs/x.md; NULL with a line to stderr. free() it. */
char *doc_read(const char *name);

/*
 * The first table under a heading, [its line, the next heading of its level or above). heading: the
 * whole line, as "### Status". 0, or -1 with a line to stderr when there is none. Free with
 * doc_table_free.
 */
int doc_table(const char *page, const char *heading, struct doc_table *table);
void doc_table_free(struct doc_table *table);

/*
 * The next fenced block whose fence is ```KIND, from *at on: its text without the fences, each line
 * with its newline. Moves *at behind it. NULL when there is none. free() it.
 */
char *doc_block(const char **at, const char *kind);

/* Number of the line that `at` is in, from 1: for messages. */
unsigned int doc_line(const char *page, const char *at);

#endif

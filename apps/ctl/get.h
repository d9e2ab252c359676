/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a switch answers, read without trust: a missing or odd value is "-" or NaN, never an error,
 * and no text reaches a terminal as a command to it.
 */
#ifndef APPS_CTL_GET_H
#define APPS_CTL_GET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define GET_TEXT_MAX 2048 /* bytes of a text in an answer */

/* The value below a path such as "memory.free"; NULL when there is none, and for a NULL argument. */
json_t *get(json_t *from, const char *path);

/* NaN when it is no number; true and false are 1 and 0. */
double get_number(json_t *from, const char *path);

/* The same; of an object, the sum of its numbers. */
double get_sum(json_t *from, const char *path);

/* "-" when it is no string, or an empty one. */
const char *get_text(json_t *from, const char *path);

/* Whether it is true. */
bool get_true(json_t *from, const char *path);

/* A new object of the objects in an array by their text `key`, the first of each. Takes NULL. Ends
 * the program when there is no memory. */
json_t *get_by_text(json_t *array, const char *key);

/**
 * Parse an answer, and replace in all its strings and keys, by "?", what must not reach a terminal:
 * control characters (C0, C1, DEL), marks of writing direction, and what the locale can't print.
 * Of a text that is longer than GET_TEXT_MAX the beginning and "..." are left: a table or a
 * paragraph of more helps nobody.
 *
 * @return NULL when it is not JSON
 */
json_t *get_parsed(const char *body, size_t length);

/**
 * Write JSON as it came; to a terminal, with all but printable ASCII, blanks and line ends as \u
 * escapes, which is the same JSON. What is no JSON is no order to the terminal either.
 */
void get_print(const char *body, size_t length, FILE *out);

/* The replacement of get_parsed() for other text, in place, and of any length. */
void get_clean(char *text);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers on the command lines of weir-loop and weir-train. */
#ifndef APPS_STRAGGLERS_ARGUMENTS_H
#define APPS_STRAGGLERS_ARGUMENTS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Is the text a whole number of [least, most]? *value: the number, or anything. */
static inline bool
argument_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return errno == 0 && end != text && *end == '\0' && text[0] != '-' && *value >= least &&
		*value <= most;
}

/* The same of one that an unsigned int holds. */
static inline bool
argument_small(const char *text, unsigned int least, unsigned int most, unsigned int *value)
{
	uint64_t whole;
	bool good = argument_whole(text, least, most, &whole);

	*value = (unsigned int)whole;
	return good;
}

/* Is it a number of [least, most]? No NaN is. */
static inline bool
argument_real(const char *text, double least, double most, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && *end == '\0' && *value >= least && *value <= most;
}

#endif

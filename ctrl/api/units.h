/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for people. Each function returns a short text by value, so that a call can stand in an
 * argument list: printf("%s", units_age(12.4).text). A value that is not finite gives "-". */
#ifndef CTRL_API_UNITS_H
#define CTRL_API_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct units_text {
	char text[32];
};

/* All digits, rounded to a whole number: "12345678". */
struct units_text units_exact(double value);

/* Three significant digits, powers of 1000 as a letter: "0", "999", "1.23k", "45.6M". */
struct units_text units_count(double value);

/* units_count() with "/s". Between 0 and 10 with a decimal place: "0.3/s". */
struct units_text units_rate(double per_second);

/* Bytes, by powers of 1024: "37.2 MiB". */
struct units_text units_bytes(double bytes);

/* A span of time, in seconds: "0.41 ms", "12.4 s", "3 min 12 s", "2 h 13 min", "4 d 3 h". Negative:
 * "0 s". */
struct units_text units_age(double seconds);

/* A share in [0, 1]: "43 %". Values outside are shown unchanged. */
struct units_text units_share(double share);

/**
 * Read a span of time: a number with ns, us, ms, s, min or h right after it; without a unit,
 * seconds.
 *
 * @param text       such as "50ms" or "1.5s"
 * @param[out] value in seconds, >= 0; written if the text is valid
 * @return whether the text is valid
 */
bool units_read_span(const char *text, double *value);

/**
 * Numbers as ranges: "17..80", "1, 3, 5..9", "1, 3 and 12 more".
 *
 * @param numbers  in ascending order; a repeated number counts once
 * @param count    how many, 0 gives ""
 * @param parts    ranges at most, > 0; the numbers of the others are counted
 * @param[out] out always terminated; what does not fit is cut
 */
void units_ranges(const uint64_t *numbers, size_t count, size_t parts, char *out, size_t size);

#endif

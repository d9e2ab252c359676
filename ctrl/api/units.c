/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct units_text __attribute__((format(printf, 1, 2))) text(const char *format, ...)
{
	struct units_text t;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(t.text, sizeof(t.text), format, arguments);
	va_end(arguments);
	return t;
}

/* Three significant digits. The limits account for rounding: 9.996 is "10.0", not "10.00". */
static struct units_text
three(double value, const char *behind)
{
	double size = fabs(value);

	return text("%.*f%s", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value, behind);
}

/* Divide the value by a power of `base`, and add the word of that power. */
static struct units_text
scaled(double value, double base, const char *const *words, size_t count)
{
	size_t power = 0;

	while (power + 1 < count && fabs(value) >= (power == 0 ? base : base - 0.5)) {
		value /= base;
		power++;
	}
	if (power == 0 && value == floor(value))
		return text("%.0f%s", value, words[0]);
	return three(value, words[power]);
}

struct units_text
units_exact(double value)
{
	return isfinite(value) ? text("%.0f", value) : text("-");
}

struct units_text
units_count(double value)
{
	static const char *const words[] = {"", "k", "M", "G", "T", "P", "E"};

	return isfinite(value) ? scaled(value, 1000, words, 7) : text("-");
}

struct units_text
units_rate(double per_second)
{
	struct units_text number;

	if (!isfinite(per_second))
		return text("-");
	if (per_second > 0 && per_second < 9.95)
		return text("%.1f/s", per_second < 0.1 ? 0.1 : per_second);
	number = units_count(per_second < 1000 ? round(per_second) : per_second);
	return text("%.24s/s", number.text);
}

struct units_text
units_bytes(double bytes)
{
	static const char *const words[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};

	return isfinite(bytes) ? scaled(round(bytes), 1024, words, 7) : text("-");
}

struct units_text
units_age(double seconds)
{
	double whole;

	if (!isfinite(seconds))
		return text("-");
	if (seconds <= 0)
		return text("0 s");
	if (seconds < 999.5e-6)
		return three(seconds * 1e6, " us");
	if (seconds < 0.9995)
		return three(seconds * 1e3, " ms");
	if (seconds < 99.95)
		return text("%.1f s", seconds);
	whole = round(seconds);
	if (whole < 3600)
		return text("%.0f min %.0f s", floor(whole / 60), fmod(whole, 60));
	if (whole < 86400)
		return text("%.0f h %.0f min", floor(whole / 3600), floor(fmod(whole, 3600) / 60));
	return text("%.0f d %.0f h", floor(whole / 86400), floor(fmod(whole, 86400) / 3600));
}

struct units_text
units_share(double share)
{
	return isfinite(share) ? text("%.0f %%", share * 100) : text("-");
}

bool
units_read_span(const char *from, double *value)
{
	static const struct {
		const char *word;
		double seconds;
	} units[] = {{"", 1}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60},
		{"h", 3600}};
	char *end;
	double number;

	/* strtod() takes "inf", "0x1p3" and signs; a span of time takes none of them. */
	if ((!isdigit((unsigned char)from[0]) && from[0] != '.') || strpbrk(from, "xX") != NULL)
		return false;
	number = strtod(from, &end);
	if (end == from || !isfinite(number))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].word) == 0) {
			*value = number * units[i].seconds;
			return true;
		}
	return false;
}

void
units_ranges(const uint64_t *numbers, size_t count, size_t parts, char *out, size_t size)
{
	size_t used = 0, part = 0;

	if (size == 0)
		return;
	out[0] = '\0';
	for (size_t i = 0, next; i < count && used < size; i = next, part++) {
		const char *before = part == 0 ? "" : ", ";

		for (next = i + 1; next < count && numbers[next] - numbers[next - 1] <= 1; next++)
			;
		if (part == parts) {
			snprintf(out + used, size - used, " and %zu more", count - i);
			return;
		}
		if (numbers[next - 1] == numbers[i])
			used += (size_t)snprintf(
				out + used, size - used, "%s%" PRIu64, before, numbers[i]);
		else
			used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64 "..%" PRIu64,
				before, numbers[i], numbers[next - 1]);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Records and what is done with them. */
#include "apps/bench/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench_report {
	const char *bench;
	json_t *records;
	json_t *observed; /* beside the next records' params; may be NULL */
	bool to_stdout;
};

struct bench_report *
report_create(const char *bench, const char *json)
{
	struct bench_report *report = calloc(1, sizeof(*report));

	if (report == NULL)
		return NULL;
	report->bench = bench;
	report->records = json_array();
	report->to_stdout = json != NULL && strcmp(json, "-") == 0;
	return report;
}

int
report_write(struct bench_report *report, const char *json)
{
	int rc = 0;

	if (json == NULL)
		return 0;
	if (report->to_stdout) {
		rc = json_dumpf(report->records, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
		putchar('\n');
		rc |= fflush(stdout);
	} else {
		rc = json_dump_file(report->records, json, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	}
	if (rc != 0)
		fprintf(stderr, "weir-bench: %s can't be written\n", json);
	return rc;
}

void
report_destroy(struct bench_report *report)
{
	if (report == NULL)
		return;
	json_decref(report->records);
	json_decref(report->observed);
	free(report);
}

FILE *
bench_table(const struct bench_report *report)
{
	return report->to_stdout ? stderr : stdout;
}

static json_t *
number(double value)
{
	return value == BENCH_NONE ? json_null() : json_real(value);
}

void
bench_add(struct bench_report *report, const char *metric, json_t *params, double value,
	const char *unit, double limit, const char *limit_is)
{
	json_t *record = json_object();
	bool limited = value != BENCH_NONE && limit != BENCH_NONE && limit != 0;

	json_object_set_new(record, "bench", json_string(report->bench));
	json_object_set_new(record, "metric", json_string(metric));
	json_object_set_new(record, "params", params);
	json_object_set_new(record, "value", number(value));
	json_object_set_new(record, "unit", json_string(unit));
	json_object_set_new(record, "limit", number(limit));
	json_object_set_new(
		record, "limit_is", limit_is == NULL ? json_null() : json_string(limit_is));
	json_object_set_new(record, "ratio", limited ? json_real(value / limit) : json_null());
	if (report->observed != NULL)
		json_object_set(record, "observed", report->observed);
	json_array_append_new(report->records, record);
}

void
bench_observe(struct bench_report *report, json_t *observed)
{
	json_decref(report->observed);
	report->observed = observed;
}

void
bench_progress(const struct bench_report *report, const char *format, ...)
{
	va_list arguments;

	if (!isatty(STDERR_FILENO))
		return;
	fputs("\r\033[K", stderr);
	if (format == NULL)
		return;
	fprintf(stderr, "%s: ", report->bench);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fflush(stderr);
}

static int
compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double
bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double
bench_quantile(const double *sorted, size_t n, double quantile)
{
	/* What a product of decimals lacks or has too much must not move the rank. */
	double rank = ceil(quantile * (double)n - 1e-9 * (double)n);

	return sorted[rank < 1 ? 0 : rank > (double)n ? n - 1 : (size_t)rank - 1];
}

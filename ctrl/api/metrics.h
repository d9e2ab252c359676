/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of GET /metrics, Prometheus' exposition format 0.0.4: families, each with its HELP and
 * TYPE, and its samples together. docs/counters.md lists them all; a test compares the two.
 */
#ifndef CTRL_API_METRICS_H
#define CTRL_API_METRICS_H

#include <stdint.h>

#include "ctrl/api/auth.h"
#include "ctrl/api/answer.h"
#include "ctrl/jobs/running.h"

/* A job's name may take twice its bytes, escaped. */
#define METRICS_LABEL_BYTES (PPE_JOB_NAME_MAX * 2 + 16)

/* Series of sources: of a job, and of all jobs; the rest of a job is one series. */
#define METRICS_JOB_SOURCES 64u
#define METRICS_SOURCES     4096u

/* The text, and the family that is being written. */
struct metrics {
	struct api_text text;
	const char *family;
};

/* Begin a family. name, help: constants; help without line ends and backslashes. */
void metrics_family(struct metrics *metrics, const char *name, const char *type, const char *help);

/*
 * A sample of the family. suffix: "" or "_bucket", ...; a, b: labels as metrics_label makes them,
 * or NULL.
 */
void metrics_u64(
	struct metrics *metrics, const char *suffix, const char *a, const char *b, uint64_t value);
void metrics_us(
	struct metrics *metrics, const char *suffix, const char *a, const char *b, uint64_t us);
void metrics_ns(
	struct metrics *metrics, const char *suffix, const char *a, const char *b, uint64_t ns);
void metrics_real(struct metrics *metrics, const char *a, const char *b, double value);

/* Write name="value", escaped, cut to `size` bytes at a whole character. Returns `out`. */
char *metrics_label(char *out, size_t size, const char *name, const char *value);

/* name="number". out: METRICS_LABEL_BYTES. Returns it. */
char *metrics_number(char *out, const char *name, unsigned int number);

/* The families of jobs and their sources. ctrl/api/metrics_jobs.c */
struct metrics_jobs;

/*
 * Read all jobs that `caller` may see; NULL: no memory. Free with free(). Cost: every counter of
 * every job and source, a line or two each, and the job's window.
 */
struct metrics_jobs *metrics_jobs_read(
	const struct ctrl_running *running, const struct api_caller *caller);

/* Bytes that their text will have, about. */
size_t metrics_jobs_bytes(const struct metrics_jobs *jobs);

void metrics_jobs_put(struct metrics *metrics, const struct metrics_jobs *jobs);

#endif

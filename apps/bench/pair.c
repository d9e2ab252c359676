/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/pair.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>

#define RETRIES 2 /* times as many pairs */

/* Nanoseconds that the threads of a process were ready and had no CPU (Documentation/scheduler/
 * sched-stats.rst). */
static uint64_t
waited_ns(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	uint64_t total = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
		uint64_t ran, waited;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", (int)pid,
			entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (file == NULL)
			continue;
		if (fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2)
			total += waited;
		fclose(file);
	}
	if (tasks != NULL)
		closedir(tasks);
	return total;
}

/* Measure once; *disturbed: share. */
static int
once(struct device *device, pair_measure *measure, void *context, unsigned int t,
	double value[PAIR_VALUES], double *disturbed)
{
	uint64_t hz = rte_get_tsc_hz(), began, waited;
	int rc;

	value[PAIR_IDLE] = 1;
	value[PAIR_GOOD] = 1;
	value[PAIR_LOST] = 0;
	value[PAIR_DISTURBED] = 0;
	device_select(device);
	waited = waited_ns(device->pid) + waited_ns(getpid());
	began = rte_rdtsc();
	rc = measure(context, t, value);
	began = rte_rdtsc() - began;
	waited = waited_ns(device->pid) + waited_ns(getpid()) - waited;
	device_deselect(device);
	/* The worse of both judgments. */
	*disturbed = RTE_MAX(
		(double)waited * 1e-9 / ((double)began / (double)hz), value[PAIR_DISTURBED]);
	return rc;
}

int
pair_once(struct device *device, pair_measure *measure, void *context, unsigned int t,
	unsigned int tries, double value[PAIR_VALUES], bool *disturbed)
{
	double share = 1;
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && share > PAIR_LIMIT && i < tries; i++)
		rc = once(device, measure, context, t, value, &share);
	if (disturbed != NULL)
		*disturbed = share > PAIR_LIMIT;
	return rc;
}

static int
by_disturbance(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return (x->disturbed > y->disturbed) - (x->disturbed < y->disturbed);
}

static int
by_ratio(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	double rx = x->value[0][0] * y->value[1][0], ry = y->value[0][0] * x->value[1][0];

	return (rx > ry) - (rx < ry);
}

int
pair_run(struct device device[2], pair_measure *measure, void *context, struct pair *middle)
{
	static struct pair pairs[BENCH_REPEAT_MAX * RETRIES];
	uint64_t repeat = bench_common.repeat, n = 0, good = 0;
	int rc = 0;

	for (; rc == 0 && good < repeat && n < RETRIES * repeat; n++) {
		struct pair *pair = &pairs[n];

		*pair = (struct pair){.disturbed = 0};
		for (unsigned int i = 0; rc == 0 && i < 2; i++) {
			unsigned int t =
				(unsigned int)(n + i) % 2; /* they take turns in being first */
			double disturbed;

			rc = once(&device[t], measure, context, t, pair->value[t], &disturbed);
			pair->disturbed = RTE_MAX(pair->disturbed, disturbed);
		}
		good += pair->disturbed <= PAIR_LIMIT;
	}
	if (rc != 0)
		return 1;
	qsort(pairs, n, sizeof(*pairs), by_disturbance);
	n = RTE_MIN(n, repeat);
	qsort(pairs, n, sizeof(*pairs), by_ratio);
	*middle = pairs[n / 2];
	/* A loss is rarely in the pair in the middle. */
	for (unsigned int t = 0; t < 2; t++) {
		middle->value[t][PAIR_LOST] = 0;
		for (uint64_t i = 0; i < n; i++)
			middle->value[t][PAIR_LOST] += pairs[i].value[t][PAIR_LOST];
	}
	return 0;
}

bool
pair_busy(const struct pair *pair)
{
	return RTE_MIN(pair->value[0][PAIR_IDLE], pair->value[1][PAIR_IDLE]) < PAIR_BUSY;
}

const char *
pair_mark(const struct pair *pair)
{
	static char mark[8];
	bool lost = pair->value[0][PAIR_LOST] > 0 || pair->value[1][PAIR_LOST] > 0;

	snprintf(mark, sizeof(mark), "%s%s%s", pair->disturbed > PAIR_LIMIT ? "* " : "",
		lost ? "! " : "", pair_busy(pair) ? "g" : "");
	return mark;
}

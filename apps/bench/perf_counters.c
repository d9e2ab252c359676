/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/perf_counters.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int
open_event(uint64_t event)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = event,
		.exclude_kernel = 1,
		.exclude_hv = 1};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

bool
perf_counters_open(struct perf_counters *counters)
{
	counters->instructions = open_event(PERF_COUNT_HW_INSTRUCTIONS);
	counters->cycles = open_event(PERF_COUNT_HW_CPU_CYCLES);
	return counters->instructions > 0 && counters->cycles > 0;
}

static uint64_t
read_event(int fd)
{
	uint64_t value = 0;

	if (fd <= 0 || read(fd, &value, sizeof(value)) != sizeof(value))
		return 0;
	return value;
}

void
perf_counters_read(const struct perf_counters *counters, struct perf_counts *counts)
{
	counts->instructions = read_event(counters->instructions);
	counts->cycles = read_event(counters->cycles);
}

void
perf_counters_close(struct perf_counters *counters)
{
	if (counters->instructions > 0)
		close(counters->instructions);
	if (counters->cycles > 0)
		close(counters->cycles);
	memset(counters, 0, sizeof(*counters));
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/count.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_common.h>

#include "apps/bench/bench.h"

int
count_open(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
		.exclude_hv = 1};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

uint64_t
count_read(int counter)
{
	uint64_t count;

	return read(counter, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

/* The number behind a word at the beginning of a line; 0: there is none. */
static double
number_after(FILE *file, const char *word)
{
	char line[512];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, word, strlen(word)) == 0)
			return strtod(line + strlen(word), NULL);
	return 0;
}

double
count_with_callgrind(const char *const *options)
{
	char self[512], file[] = "/tmp/weir-bench-count-XXXXXX", to[64];
	const char *argv[80] = {"valgrind", "--tool=callgrind", "--instr-atstart=no",
		"--collect-atstart=no", "--fair-sched=yes", to, self, "engine", "--huge", "no"};
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	FILE *out = tmpfile(), *said = tmpfile(), *counts = NULL;
	int fd = mkstemp(file), status = -1;
	double packets = 0, instructions = 0;

	snprintf(to, sizeof(to), "--callgrind-out-file=%s", file);
	self[RTE_MAX(length, 0)] = '\0';
	for (unsigned int n = 10; *options != NULL && n < RTE_DIM(argv) - 1; n++)
		argv[n] = *options++;
	if (out != NULL && said != NULL && fd >= 0)
		status = bench_spawn(argv, out, said);
	if (status == 0) {
		counts = fopen(file, "re");
		packets = number_after(out, "counted ");
		instructions = number_after(counts, "totals: ");
	}
	if (packets <= 0 || instructions <= 0) {
		warnx("instructions are not counted: valgrind fails, or is not installed:");
		bench_quote(said);
	}
	if (counts != NULL)
		fclose(counts);
	if (out != NULL)
		fclose(out);
	if (said != NULL)
		fclose(said);
	if (fd >= 0) {
		close(fd);
		unlink(file);
	}
	return packets > 0 && instructions > 0 ? instructions / packets : BENCH_NONE;
}

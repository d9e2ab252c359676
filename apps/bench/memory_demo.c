/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/memory_demo.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_common.h>

#include "apps/bench/child.h"
#include "apps/bench/memory_switch.h"

#define LOOK_US     500000u
#define LIMIT_LOOKS 480u /* four minutes */

/* The demo's programs, by the names that the kernel has for them. */
static const char *const program[] = {"weir-switch", "weir-perf"};

struct kind {
	unsigned int processes; /* at most, at once */
	uint64_t sum, most; /* bytes: of one look, of all looks */
};

/* A process's parent and name; 0: it has gone. */
static int
parent_of(int pid, char name[32])
{
	char path[64], state;
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%*d (%31[^)]) %c %d", name, &state, &parent) != 3)
		parent = 0;
	fclose(file);
	return parent;
}

static bool
descends_from(int pid, int ancestor)
{
	char name[32];

	for (unsigned int depth = 0; depth < 8 && pid > 1; depth++) {
		if (pid == ancestor)
			return true;
		pid = parent_of(pid, name);
	}
	return false;
}

/* Read all processes of the demo once. */
static void
look(int demo, struct kind kind[RTE_DIM(program)])
{
	unsigned int count[RTE_DIM(program)] = {0};
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	char name[32];

	for (unsigned int k = 0; k < RTE_DIM(program); k++)
		kind[k].sum = 0;
	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		int pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (pid == 0 || parent_of(pid, name) == 0)
			continue;
		for (unsigned int k = 0; k < RTE_DIM(program); k++)
			if (strcmp(name, program[k]) == 0 && descends_from(pid, demo)) {
				kind[k].sum += memory_resident(pid);
				count[k]++;
			}
	}
	if (directory != NULL)
		closedir(directory);
	for (unsigned int k = 0; k < RTE_DIM(program); k++) {
		kind[k].most = RTE_MAX(kind[k].most, kind[k].sum);
		kind[k].processes = RTE_MAX(kind[k].processes, count[k]);
	}
}

/* The build's folder, two above this program's own. */
static int
find_build(char build[CHILD_PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", build, CHILD_PATH_MAX - 1);

	if (length < 0)
		return -1;
	build[length] = '\0';
	for (unsigned int level = 0; level < 3; level++)
		dirname(build); /* shortens it in place */
	return 0;
}

static int
report_kinds(struct bench_report *report, const struct kind kind[RTE_DIM(program)])
{
	FILE *out = bench_table(report);

	fprintf(out, "#\n# The demo's processes, together and at most\n#\n# %-14s %9s %12s\n",
		"program", "processes", "resident MiB");
	for (unsigned int k = 0; k < RTE_DIM(program); k++) {
		fprintf(out, "  %-14s %9u %12.1f\n", program[k], kind[k].processes,
			(double)kind[k].most / (1 << 20));
		bench_add(report, "demo",
			json_pack("{s:s, s:i}", "program", program[k], "processes",
				(int)kind[k].processes),
			(double)kind[k].most, "B", BENCH_NONE, NULL);
		if (kind[k].most == 0) {
			fprintf(stderr, "weir-bench: the demo ran no %s\n", program[k]);
			return 1;
		}
	}
	return 0;
}

int
memory_demo(struct bench_report *report, const char *path)
{
	struct kind kind[RTE_DIM(program)] = {{0}};
	char folder[CHILD_PATH_MAX], build[CHILD_PATH_MAX];
	const char *argv[] = {"python3", path, build, NULL};
	struct child demo;
	int rc = 2;

	if (find_build(build) < 0 || child_folder_make(folder) < 0)
		return 2;
	if (child_start(&demo, "demo", argv, folder) == 0) {
		bool ended = false;

		for (unsigned int i = 0; !ended && i < LIMIT_LOOKS && !child_interrupted(); i++) {
			bench_progress(report, "the demo runs, %u s", i / 2);
			look(demo.pid, kind);
			usleep(LOOK_US);
			ended = !child_alive(&demo);
		}
		bench_progress(report, NULL);
		rc = child_end(&demo) == 0 && ended ? 0 : 1;
		if (rc != 0)
			child_last_words(&demo);
		if (rc != 0)
			fprintf(stderr, "weir-bench: the demo did not end well\n");
	}
	child_folder_remove(folder);
	return rc != 0 ? rc : report_kinds(report, kind);
}

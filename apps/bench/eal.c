/* SPDX-License-Identifier: BSD-3-Clause */
/* EAL for a bench: an lcore per CPU, huge pages where the machine has them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "apps/bench/bench.h"

#define HUGE_FREE "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

static bool on_huge_pages;
static unsigned int cpu[CPU_SETSIZE], cpus; /* 0: not asked yet */

unsigned int
bench_cpus(void)
{
	cpu_set_t set;

	if (cpus > 0)
		return cpus;
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		CPU_SET(0, &set);
	for (unsigned int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			cpu[cpus++] = i;
	return cpus;
}

unsigned int
bench_cpu(unsigned int i)
{
	return cpu[i % bench_cpus()];
}

int
bench_lcores_fit(unsigned int workers)
{
	if (workers <= bench_cpus())
		return 0;
	fprintf(stderr,
		"weir-bench: --lcores %u: this process may use %u CPUs, and each lcore wants one\n",
		workers, bench_cpus());
	return -1;
}

/* Are there free huge pages of 2 MiB for `megabytes`? */
static bool
huge_pages_for(unsigned int megabytes)
{
	FILE *file = fopen(HUGE_FREE, "re");
	unsigned long pages = 0;

	if (file == NULL)
		return false;
	if (fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages >= megabytes / 2;
}

static int
choose_pages(unsigned int megabytes)
{
	bool there = huge_pages_for(megabytes);

	on_huge_pages = there && strcmp(bench_common.huge, "no") != 0;
	if (there || strcmp(bench_common.huge, "yes") != 0)
		return 0;
	fprintf(stderr,
		"weir-bench: %u MiB of huge pages are wanted; as root: echo %u >"
		"/proc/sys/vm/nr_hugepages\n",
		megabytes, megabytes / 2 + 64);
	return -1;
}

int
bench_start_eal(unsigned int workers, unsigned int memory_mb, const char *const *extra)
{
	char lcores[1024], prefix[64], memory[16];
	unsigned int n = bench_cpus();
	size_t at = (size_t)snprintf(lcores, sizeof(lcores), "0@%u", bench_cpu(0));
	const char *argv[64] = {"weir-bench", "--no-shconf", "--no-pci", "--no-telemetry", "-m",
		memory, "--log-level=*:error", "--lcores", lcores, "--file-prefix", prefix};
	int argc = 11;

	if (choose_pages(memory_mb) < 0)
		return -1;
	for (unsigned int w = 0; w < workers; w++)
		at += (size_t)snprintf(lcores + at, sizeof(lcores) - at, ",%u@%u", w + 1,
			bench_cpu(n - 1 - w % n));
	snprintf(memory, sizeof(memory), "%u", memory_mb);
	snprintf(prefix, sizeof(prefix), "weir_bench_%d", (int)getpid());
	argv[argc++] = on_huge_pages ? "--in-memory" : "--no-huge";
	if (on_huge_pages)
		argv[1] = "--huge-unlink";
	for (; extra != NULL && *extra != NULL && argc < 63; extra++)
		argv[argc++] = *extra;
	if (rte_eal_init(argc, (char **)(uintptr_t)argv) >= 0)
		return 0;
	fprintf(stderr, "weir-bench: EAL does not start: %s\n", rte_strerror(rte_errno));
	return -1;
}

bool
bench_on_huge_pages(void)
{
	return on_huge_pages;
}

void
bench_stop_eal(void)
{
	char directory[256];

	snprintf(directory, sizeof(directory), "%s", rte_eal_get_runtime_dir());
	rte_eal_cleanup();
	rmdir(directory);
}

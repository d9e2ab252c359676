/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-bench: chooses the bench, reads its options, prints its rows, writes its records. */
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "apps/bench/bench.h"
#include "ctrl/programs/child.h"
#include "pktbuf/port.h"

#define HUGE_FREE "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

struct bench_common bench_common = {.huge = "auto", .repeat = 5, .phase_ms = 20};

static const struct option_row common_options[] = {
	{.help = "Options of every bench:"},
	{"json", 0, OPTION_JSON, &bench_common.json, 0, 0, NULL,
		"print the records as JSON, and the tables on standard error; or also write the "
		"records into FILE"},
	{"huge", 0, OPTION_CHOICE, &bench_common.huge, 0, 0, "auto|yes|no", "use huge pages"},
	{"repeat", 0, OPTION_UINT, &bench_common.repeat, 1, BENCH_REPEAT_MAX, NULL,
		"measure each point N times, in turn with its limit; the median counts"},
	{"phase", 0, OPTION_TIME, &bench_common.phase_ms, 1, 10000, "ms",
		"length of a measurement"},
	{0},
};

#define SCRIPT(title, file, text)                                                                  \
	(&(const struct bench){.name = (title), .script = (file), .help = (text)})
static const struct bench *const benches[] = {&bench_engine,
	SCRIPT("ports", "ports.py", "the whole switch over memif ports, beside testpmd"),
	SCRIPT("latency", "ports.py",
		"from the last contribution to the first result, beside testpmd"),
	SCRIPT("rfc2544", "ports.py", "highest rate without loss, by bisection, beside testpmd"),
	&bench_hash, &bench_kernels, SCRIPT("pair", "pair.py", "two builds of the engine, in turn"),
	SCRIPT("plan", "plan.py",
		"how many lcores, how much memory and how loaded links a switch or a tree takes; "
		"measures nothing"),
	SCRIPT("tree", "tree.py",
		"what a level of a tree adds: lcore time of a leaf and of a spine, latency, beside "
		"one switch"),
	SCRIPT("hosts", "hosts.py",
		"AllReduce end to end, over hosts, links and switch, beside iperf3"),
	&bench_traffic, NULL};

static struct {
	const char *bench;
	struct table *table;
	json_t *records; /* of the tables before this one */
} report;

bool
bench_spoils(void)
{
	return getenv("WEIR_BENCH_SPOIL") != NULL;
}

/* Its rows become records. */
static void
end_table(void)
{
	json_t *row;
	size_t i;

	if (report.table == NULL)
		return;
	json_array_foreach (table_json(report.table), i, row) {
		json_object_set_new(row, "bench", json_string(report.bench));
		json_array_append(report.records, row);
	}
	table_destroy(report.table);
	report.table = NULL;
}

void
bench_table(const struct table_column *columns, size_t count)
{
	end_table();
	report.table = table_create(columns, count, stdout);
}

void
bench_note(const char *format, ...)
{
	va_list arguments;

	fputs("# ", stdout);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

void
bench_row(const struct table_cell *cells)
{
	if (report.table == NULL || table_row(report.table, cells) < 0)
		warnx("no memory for the table");
}

/* 0, or an exit status after a line. */
static int
write_records(void)
{
	int rc = report_json_write(
		report.records, bench_common.json, JSON_INDENT(2) | JSON_REAL_PRECISION(6));

	if (rc < 0)
		warnx("--json=%s: %s", bench_common.json, strerror(-rc));
	return rc < 0;
}

static cpu_set_t *
allowed_cpus(void)
{
	static cpu_set_t set;

	if (CPU_COUNT(&set) == 0 && sched_getaffinity(0, sizeof(set), &set) < 0)
		CPU_SET(0, &set);
	return &set;
}

unsigned int
bench_cpus(void)
{
	return (unsigned int)CPU_COUNT(allowed_cpus());
}

unsigned int
bench_cpu(unsigned int i)
{
	unsigned int cpu = 0;

	for (i %= bench_cpus(); !CPU_ISSET(cpu, allowed_cpus()) || i-- > 0;)
		cpu++;
	return cpu;
}

bool bench_on_huge_pages;

/* Are there free huge pages of 2 MiB for so many MiB? */
static bool
huge_pages_for(unsigned int megabytes)
{
	FILE *file = fopen(HUGE_FREE, "re");
	unsigned long pages = 0;

	if (file == NULL || fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	if (file != NULL)
		fclose(file);
	return pages >= megabytes / 2;
}

int
bench_start_eal(unsigned int workers, unsigned int memory_mb)
{
	char lcores[1024], prefix[64], memory[16];
	bool huge = huge_pages_for(memory_mb);
	size_t at = (size_t)snprintf(lcores, sizeof(lcores), "0@%u", bench_cpu(0));
	const char *argv[] = {"weir-bench", "--no-shconf", "--no-pci", "--no-telemetry", "-m",
		memory, "--log-level=*:error", "--lcores", lcores, "--file-prefix", prefix,
		"--no-huge", NULL};

	if (!huge && strcmp(bench_common.huge, "yes") == 0) {
		warnx("%u MiB of huge pages are needed; as root: "
		      "echo %u >/proc/sys/vm/nr_hugepages",
			memory_mb, memory_mb / 2 + 64);
		return -1;
	}
	bench_on_huge_pages = huge && strcmp(bench_common.huge, "no") != 0;
	if (bench_on_huge_pages) {
		argv[1] = "--huge-unlink";
		argv[11] = "--in-memory";
	}
	for (unsigned int w = 0; w < workers; w++)
		at += (size_t)snprintf(lcores + at, sizeof(lcores) - at, ",%u@%u", w + 1,
			bench_cpu(bench_cpus() - 1 - w % bench_cpus()));
	snprintf(memory, sizeof(memory), "%u", memory_mb);
	snprintf(prefix, sizeof(prefix), "weir_bench_%d", (int)getpid());
	if (rte_eal_init(12, (char **)(uintptr_t)argv) >= 0)
		return 0;
	warnx("EAL does not start: %s", rte_strerror(rte_errno));
	return -1;
}

void
bench_stop_eal(void)
{
	char directory[256];

	snprintf(directory, sizeof(directory), "%s", rte_eal_get_runtime_dir());
	pktbuf_cleanup_eal();
	rmdir(directory);
}

uint64_t
bench_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int
bench_ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double
bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), bench_ascending);
	return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* What --help says of the program: a line for each bench. */
static const char *
about(void)
{
	static char text[4096];
	FILE *out = fmemopen(text, sizeof(text), "w");

	if (out == NULL)
		return "";
	fputs("Measure a part of a Weir switch, or all of it, beside what the machine can do in "
	      "the same run.\n\n",
		out);
	for (unsigned int i = 0; benches[i] != NULL; i++)
		if (benches[i]->help != NULL)
			fprintf(out, "  %-9s %s\n", benches[i]->name, benches[i]->help);
	fputs("\n`weir-bench BENCH --help' lists the options of a bench. A LIST is 64,256,1024, or "
	      "8..4096 for the powers of two in between. docs/benchmarks.md explains the "
	      "tables.\v",
		out);
	fclose(out);
	return text;
}

const char *
bench_self(void)
{
	static char path[PATH_MAX];

	return readlink("/proc/self/exe", path, sizeof(path) - 1) > 0 ? path : "";
}

/* Become the bench's script, which gets argv from [1] on, the bench's name and its options, and finds the programs of this
 * build or installation in WEIR_BUILD, and the help in WEIR_BENCH_ABOUT. An exit status after a line. */
static int
become(const struct bench *bench, char **argv)
{
	char own[PATH_MAX], path[2 * PATH_MAX], build[PATH_MAX + 8];

	snprintf(own, sizeof(own), "%s", bench_self());
	dirname(own);
	snprintf(path, sizeof(path), "%s/../share/weir/bench/%s", own, bench->script);
	snprintf(build, sizeof(build), "%s/..", own);
	if (access(path, X_OK) != 0) { /* not installed */
		snprintf(path, sizeof(path), BENCH_SOURCES "/%s", bench->script);
		snprintf(build, sizeof(build), "%s/../..", own);
	}
	if (setenv("WEIR_BUILD", build, 1) == 0 && setenv("WEIR_BENCH_ABOUT", bench->help, 1) == 0)
		execv(path, argv);
	warn("%s", path);
	return STATUS_USAGE;
}

int
main(int argc, char **argv)
{
	static const struct option_row *const none[] = {NULL};
	char *program = NULL;
	int first, rc = ctrl_child_main(argc, argv);

	if (rc >= 0)
		return rc;
	first = options_parse("weir-bench", about(), "BENCH [OPTION...]", none, argc, argv);
	for (unsigned int i = 0; first < argc && benches[i] != NULL; i++) {
		const struct bench *bench = benches[i];
		const struct option_row *tables[] = {bench->options, common_options, NULL};

		if (strcmp(argv[first], bench->name) != 0)
			continue;
		if (bench->script != NULL)
			return become(bench, argv + first - 1);
		report.bench = bench->name;
		report.records = json_array();
		if (asprintf(&program, "weir-bench %s", report.bench) < 0)
			return 1;
		bench_cpus();
		bench_common.arguments = argv + first +
			options_parse(program, bench->help, bench->arguments, tables, argc - first,
				argv + first);
		report_json_begin(bench_common.json);
		rc = bench->run();
		end_table();
		/* What was measured before something went wrong is still worth reading. */
		if (write_records() != 0 && rc == 0)
			rc = 1;
		json_decref(report.records);
		free(program);
		return rc;
	}
	if (first < argc)
		warnx("no bench %s; weir-bench --help lists them", argv[first]);
	else
		warnx("which bench? weir-bench --help lists them");
	return STATUS_USAGE;
}

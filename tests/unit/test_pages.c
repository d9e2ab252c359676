/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages against the source. docs/counters.md against ppe/drops.h and ppe/ppe.h: the same names with the same
 * meanings; tests/functional/test_metrics.py compares its metrics. docs/write-a-program.md against the example.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ppe/ppe.h"
#include "tests/model/doc_page.h"

#define PAGE "docs/counters.md"

struct counter {
	const char *key, *help;
};

static void
compare(const char *heading, const struct counter *counters, unsigned int n)
{
	char *page = doc_read(PAGE);
	struct doc_table table;

	cr_assert_not_null(page);
	cr_assert_eq(doc_table(page, heading, &table), 0);
	for (unsigned int i = 0; i < n; i++) {
		cr_assert_lt(i, table.rows, "\"%s\" is not in the page", counters[i].key);
		cr_assert_str_eq(table.cell[i][0], counters[i].key);
		cr_assert_str_eq(table.cell[i][1], counters[i].help, "%s", counters[i].key);
		cr_assert(table.cells < 3 || (table.cell[i][2] != NULL && table.cell[i][2][0] != 0),
			"%s: what to do?", counters[i].key);
	}
	cr_assert_eq(table.rows, n, "\"%s\" is not in the code", table.cell[n][0]);
	doc_table_free(&table);
	free(page);
}

Test(counters_doc, drops)
{
	static const struct counter drops[] = {
#define X(name, key, help) {key, help},
		PPE_DROP_LIST(X)
#undef X
	};

	compare("## Drops", drops, PPE_DROP_COUNT);
}

Test(counters_doc, jobs)
{
	static const struct counter jobs[] = {
#define X(name, help) {#name, help},
		PPE_JOB_COUNTERS(X)
#undef X
	};

	compare("## Jobs", jobs, sizeof(jobs) / sizeof(jobs[0]));
}

Test(counters_doc, packets)
{
	static const struct counter packets[] = {
#define X(name, help) {#name, help},
		PPE_PACKET_COUNTERS(X)
#undef X
	};

	compare("## Packets", packets, sizeof(packets) / sizeof(packets[0]));
}

Test(counters_doc, ports)
{
	static const struct counter ports[] = {
#define X(name, help) {#name, help},
		PPE_PORT_COUNTERS(X, X)
#undef X
	};

	compare("## Ports", ports, sizeof(ports) / sizeof(ports[0]));
}

Test(counters_doc, workers)
{
	static const struct counter workers[] = {
#define X(name, help) {#name, help},
		PPE_WORKER_COUNTERS(X)
#undef X
	};

	compare("## Workers", workers, sizeof(workers) / sizeof(workers[0]));
}

/* docs/write-a-program.md teaches a program: its code blocks are parts of the file, in the file's order. */
Test(program_doc, the_page_shows_the_program)
{
	char *page = doc_read("docs/write-a-program.md"),
	     *file = doc_read("docs/examples/flowcount.c"), *block;
	const char *at = page, *rest = file;
	unsigned int blocks = 0;

	cr_assert_not_null(page);
	cr_assert_not_null(file);
	while ((block = doc_block(&at, "c")) != NULL) {
		rest = strstr(rest, block);
		cr_assert_not_null(rest,
			"the block that ends at line %u of the page is not in the program",
			doc_line(page, at) - 1);
		rest += strlen(block);
		free(block);
		blocks++;
	}
	cr_assert_geq(blocks, 6);
	free(page);
	free(file);
}

/* "Under 100 lines" is a promise. */
Test(program_doc, example_is_under_100_lines)
{
	char *file = doc_read("docs/examples/flowcount.c");

	cr_assert_not_null(file);
	cr_assert_leq(doc_line(file, file + strlen(file)), 100);
	free(file);
}

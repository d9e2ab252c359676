/* SPDX-License-Identifier: BSD-3-Clause */
/* docs/counters.md against ppe/drops.h and ppe/ppe.h: the same names, with the same meaning. */
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
		cr_assert(table.cell[i][2] != NULL && table.cell[i][2][0] != 0, "%s: what to do?",
			counters[i].key);
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

/* The same counters for Prometheus; tests/functional/test_metrics.py compares the whole page. */
Test(counters_doc, metrics_of_jobs)
{
	static const struct counter jobs[] = {
#define X(name, help) {#name, help},
		PPE_JOB_COUNTERS(X)
#undef X
	};
	char *page = doc_read("docs/metrics.md");

	cr_assert_not_null(page);
	for (unsigned int i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		char row[256];

		snprintf(row, sizeof(row), "| `weir_job_%s_total` | counter | `job` | %s |\n",
			jobs[i].key, jobs[i].help);
		cr_expect_not_null(strstr(page, row), "docs/metrics.md lacks: %s", row);
	}
	free(page);
}

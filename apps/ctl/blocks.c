/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl blocks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define BLOCK_BYTES (32u << 10) /* of a block in an answer, with all its sources */
#define JOBS_ASKED  256 /* as many as a switch has */
#define LIMIT       256
#define LIMIT_STUCK 1024 /* they are summed up */
#define RANKS_MAX   256

/* "2, 5..7" */
static void
ranks(json_t *missing, char *text, size_t size)
{
	uint64_t numbers[RANKS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < json_array_size(missing) && count < RANKS_MAX; i++) {
		double rank = get_number(json_array_get(missing, i), "rank");

		if (rank >= 0 && rank < 0x1p32)
			numbers[count++] = (uint64_t)rank;
	}
	units_ranges(numbers, count, 3, text, size);
}

void
view_blocks(json_t *answer, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"JOB", 0, 1, 0},
		{"BLOCK", 1, 0, 0},
		{"GENERATION", 1, 0, 3},
		{"STATE", 0, 0, 1},
		{"AGE", 1, 0, 0},
		{"IDLE", 1, 0, 0},
		{"HEARD", 1, 0, 0},
		{"MISSING", 0, 1, 0},
		{"POLICY", 0, 0, 2},
		{"ACTS IN", 1, 0, 2},
	};
	json_t *list = get(answer, "blocks");
	struct table *table;

	if (json_array_size(list) == 0) {
		fputs("no blocks\n", out);
		return;
	}
	table = table_create(columns, 10);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *b = json_array_get(list, i);
		double acts = get_number(b, "policy_in");
		char missing[128];

		ranks(get(b, "missing"), missing, sizeof(missing));
		table_cell(table, "%s", get_text(b, "job"));
		table_cell(table, "%s", units_exact(get_number(b, "block")).text);
		table_cell(table, "%s", units_exact(get_number(b, "generation")).text);
		table_cell(table, "%s", get_text(b, "state"));
		table_cell(table, "%s", units_age(get_number(b, "age")).text);
		table_cell(table, "%s", units_age(get_number(b, "idle")).text);
		table_cell(table, "%s of %s", units_exact(get_number(b, "heard")).text,
			units_exact(get_number(b, "size")).text);
		table_cell(table, "%s", missing);
		table_cell(table, "%s", get_text(b, "policy"));
		table_cell(table, "%s", isfinite(acts) ? units_age(acts).text : "never");
	}
	table_print(table, out, width);
	table_destroy(table);
}

/* One such job, by its members; it may be gone meanwhile. False: they could not be asked. */
static bool
waiting_one(struct ctl *ctl, const char *name, unsigned int *told)
{
	char *path = ctl_path("/v1/jobs/", name, "");
	json_t *job;
	bool asked = ctl_get(ctl, path, false, &job);

	if (asked)
		*told += view_waiting(job, stdout, ctl->width);
	free(path);
	json_decref(job);
	return asked;
}

/* Jobs whose hosts wait though no block is stuck. False: the switch could not be asked for them, and
 * ctl->status is that of it. */
static bool
waiting(struct ctl *ctl, unsigned int *told)
{
	const char *wanted = ctl->options.job;
	json_t *all, *list;
	bool asked = ctl_get(ctl, "/v1/jobs", false, &all) && !ctl_lacks(ctl, all, "jobs");

	list = get(all, "jobs");
	for (size_t i = 0; asked && i < json_array_size(list) && i < JOBS_ASKED; i++) {
		const char *name = get_text(json_array_get(list, i), "name");

		if (view_may_wait(json_array_get(list, i)) &&
			(wanted == NULL || strcmp(name, wanted) == 0))
			asked = waiting_one(ctl, name, told);
	}
	json_decref(all);
	return asked;
}

static int
show_stuck(struct ctl *ctl, json_t *answer, unsigned int limit)
{
	size_t count = json_array_size(get(answer, "blocks"));
	unsigned int told = view_stuck(answer, stdout, ctl->width);

	if (count >= limit)
		text_printf(stdout, 2, ctl->width,
			"only the %u oldest blocks are told; --limit N tells more", limit);
	if (!waiting(ctl, &told)) {
		ctl_say("%sso it is not known whether hosts wait for something else",
			count == 0 ? "no block is stuck, but the jobs could not be asked: "
				   : "the jobs could not be asked: ");
		return ctl->status == CTL_OK ? CTL_REFUSED : ctl->status;
	}
	if (told == 0)
		puts("nothing is stuck");
	return CTL_OK;
}

int
command_blocks(struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	unsigned int limit = o->limit > 0 ? o->limit : o->stuck ? LIMIT_STUCK : LIMIT;
	char query[64];
	json_t *answer, *list;
	size_t bytes;
	char *path;
	bool asked;

	snprintf(query, sizeof(query), "%slimit=%u%s", o->job != NULL ? "&" : "?", limit,
		o->stuck ? "&stuck=1" : "");
	path = o->job != NULL ? ctl_path("/v1/blocks?job=", o->job, query)
			      : ctl_path("/v1/blocks", NULL, query);
	bytes = CLIENT_BODY_MAX + (size_t)limit * BLOCK_BYTES;
	client_expect(ctl->client, bytes < CLIENT_TRACE_MAX ? bytes : CLIENT_TRACE_MAX);
	asked = ctl_ask(ctl, "GET", path, NULL, &answer);
	client_expect(ctl->client, CLIENT_BODY_MAX);
	free(path);
	if (!asked)
		return ctl->status;
	/* More than was asked for is none of a switch's. */
	list = get(answer, "blocks");
	while (json_array_size(list) > limit)
		json_array_remove(list, json_array_size(list) - 1);
	if (ctl_lacks(ctl, answer, "blocks")) {
		ctl->status = CTL_REFUSED;
	} else if (o->stuck) {
		ctl->status = show_stuck(ctl, answer, limit);
	} else {
		view_blocks(answer, stdout, ctl->width);
		if (json_array_size(list) >= limit)
			printf("only the %u oldest blocks are shown; --limit N shows more\n",
				limit);
	}
	json_decref(answer);
	return ctl->status;
}

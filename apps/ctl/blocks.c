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
missing(json_t *block, FILE *out)
{
	json_t *list = get(block, "missing");
	uint64_t numbers[RANKS_MAX];
	char text[128];
	size_t count = 0;

	for (size_t i = 0; i < json_array_size(list) && count < RANKS_MAX; i++) {
		double rank = get_number(json_array_get(list, i), "rank");

		if (rank >= 0 && rank < 0x1p32)
			numbers[count++] = (uint64_t)rank;
	}
	units_ranges(numbers, count, 3, text, sizeof(text));
	fputs(text, out);
}

static void
heard(json_t *block, FILE *out)
{
	fprintf(out, "%s of %s", units_exact(get_number(block, "heard")).text,
		units_exact(get_number(block, "size")).text);
}

static void
acts(json_t *block, FILE *out)
{
	double in = get_number(block, "policy_in");

	fputs(isfinite(in) ? units_age(in).text : "never", out);
}

void
view_blocks(json_t *answer, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"JOB", "job", CELL_TEXT, 1, 0, NULL},
		{"BLOCK", "block", CELL_EXACT, 0, 0, NULL},
		{"GENERATION", "generation", CELL_EXACT, 0, 3, NULL},
		{"STATE", "state", CELL_TEXT, 0, 1, NULL},
		{"AGE", "age", CELL_AGE, 0, 0, NULL},
		{"IDLE", "idle", CELL_AGE, 0, 0, NULL},
		{"HEARD", NULL, CELL_PRINT_RIGHT, 0, 0, heard},
		{"MISSING", NULL, CELL_PRINT, 1, 0, missing},
		{"POLICY", "policy", CELL_TEXT, 0, 2, NULL},
		{"ACTS IN", NULL, CELL_PRINT_RIGHT, 0, 2, acts},
	};

	if (json_array_size(get(answer, "blocks")) == 0)
		fputs("no blocks\n", out);
	else
		TABLE_PRINT(columns, get(answer, "blocks"), out, width);
}

/* One such job, by its members; it may be gone meanwhile. False: they could not be asked. */
static bool
waiting_one(struct ctl *ctl, const char *name, unsigned int *found)
{
	char *path = ctl_path("/v1/jobs/", name, "");
	json_t *job;
	bool asked = ctl_get(ctl, path, &job);

	if (asked)
		*found += view_waiting(job, stdout, ctl->width);
	free(path);
	json_decref(job);
	return asked;
}

/* Jobs whose hosts wait though no block is stuck. False: the switch could not be asked for them, and
 * ctl->status is that of it. */
static bool
waiting(struct ctl *ctl, unsigned int *found)
{
	const char *wanted = ctl->options.job;
	json_t *all, *list;
	bool asked = ctl_get(ctl, "/v1/jobs", &all) && !ctl_lacks(ctl, all, "jobs");

	list = get(all, "jobs");
	for (size_t i = 0; asked && i < json_array_size(list) && i < JOBS_ASKED; i++) {
		const char *name = get_text(json_array_get(list, i), "name");

		if (view_may_wait(json_array_get(list, i)) &&
			(wanted == NULL || strcmp(name, wanted) == 0))
			asked = waiting_one(ctl, name, found);
	}
	json_decref(all);
	return asked;
}

static int
show_stuck(struct ctl *ctl, json_t *answer, unsigned int limit)
{
	size_t count = json_array_size(get(answer, "blocks"));
	unsigned int found = view_stuck(answer, stdout, ctl->width);

	if (count >= limit)
		text_printf(stdout, 2, ctl->width,
			"only the %u oldest blocks are listed; --limit N lists more", limit);
	if (!waiting(ctl, &found)) {
		ctl_say("%sso it is not known whether hosts wait for something else",
			count == 0 ? "no block is stuck, but the jobs could not be asked: "
				   : "the jobs could not be asked: ");
		return ctl->status == CTL_OK ? CTL_REFUSED : ctl->status;
	}
	if (found == 0)
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
	ctl->client.most = bytes < CLIENT_TRACE_MAX ? bytes : CLIENT_TRACE_MAX;
	asked = ctl_ask(ctl, "GET", path, NULL, &answer);
	ctl->client.most = CLIENT_BODY_MAX;
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

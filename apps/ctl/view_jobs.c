/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs and their members. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define INDENT 9

void
view_jobs(json_t *answer, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"JOB", 0, 1, 0},
		{"ID", 1, 0, 0},
		{"STATE", 0, 0, 0},
		{"JOINED", 1, 0, 0},
		{"IN FLIGHT", 1, 0, 0},
		{"COMPLETE", 1, 0, 0},
		{"PARTIAL", 1, 0, 0},
		{"ERROR", 1, 0, 1},
		{"POLICY", 0, 0, 2},
		{"TIMEOUT", 1, 0, 2},
		{"TYPE", 0, 0, 4},
		{"ELEMENTS", 1, 0, 4},
		{"TENANT", 0, 1, 3},
		{"FROM", 0, 0, 5},
	};
	json_t *list = get(answer, "jobs");
	struct table *table;

	if (json_array_size(list) == 0) {
		fputs("no jobs\n", out);
		return;
	}
	table = table_create(columns, 14);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *j = json_array_get(list, i);

		table_cell(table, "%s", get_text(j, "name"));
		table_cell(table, "%s", units_exact(get_number(j, "id")).text);
		table_cell(table, "%s", get_text(j, "state"));
		table_cell(table, "%s of %s", units_exact(get_number(j, "joined")).text,
			units_exact(get_number(j, "size")).text);
		table_cell(table, "%s", units_exact(get_number(j, "blocks_in_flight")).text);
		table_cell(
			table, "%s", units_exact(get_number(j, "counters.blocks_complete")).text);
		table_cell(table, "%s", units_exact(get_number(j, "counters.blocks_partial")).text);
		table_cell(table, "%s", units_exact(get_number(j, "counters.blocks_error")).text);
		table_cell(table, "%s", get_text(j, "policy"));
		table_cell(table, "%s", units_age(get_number(j, "timeout_ms") / 1e3).text);
		table_cell(table, "%s %s", get_text(j, "op"), get_text(j, "type"));
		table_cell(table, "%s", units_exact(get_number(j, "elements")).text);
		table_cell(table, "%s", get_text(j, "tenant"));
		table_cell(table, "%s", get_text(j, "origin"));
	}
	table_print(table, out, width);
	table_destroy(table);
}

/* A point in time, as "12.4 s ago". */
static double
age_of(double unix_seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return isfinite(unix_seconds)
		? (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - unix_seconds
		: (double)NAN;
}

static struct units_text
since(double unix_seconds)
{
	return units_age(age_of(unix_seconds));
}

/* How long blocks have waited for a member, those that are open now included. */
static double
waited_for(json_t *member)
{
	double waiting = get_number(member, "waiting");

	return get_number(member, "waited") + (isfinite(waiting) ? waiting : 0);
}

/* Whoever keeps the others waiting: the largest share of the time, if it says anything. Below a
 * hundredth of the job's life, nobody does. */
static json_t *
straggler(json_t *job, double *share)
{
	json_t *members = get(job, "members"), *worst = NULL;
	double sum = 0, most = 0, least = 0.01 * age_of(get_number(job, "created"));

	for (size_t i = 0; i < json_array_size(members); i++) {
		json_t *m = json_array_get(members, i);
		double waited = waited_for(m);

		if (!isfinite(waited))
			continue;
		sum += waited;
		if (waited > most) {
			most = waited;
			worst = m;
		}
	}
	*share = sum > 0 ? most / sum : 0;
	return *share > 1.5 / (double)(json_array_size(members) + 1) && !(most < least) ? worst
											: NULL;
}

/* Ranks that two processes have: neither of them gets on. */
static void
name_rivals(json_t *members, FILE *out, unsigned int width)
{
	for (size_t i = 0; i < json_array_size(members); i++) {
		json_t *m = json_array_get(members, i);

		if (get_true(m, "contested"))
			text_printf(out, 2, width,
				"two processes join as rank %s (%s): end one of them, or give it a "
				"rank "
				"of its own",
				units_exact(get_number(m, "rank")).text, get_text(m, "address"));
	}
}

void
view_members(json_t *job, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"RANK", 1, 0, 0},
		{"STATE", 0, 0, 0},
		{"ADDRESS", 0, 0, 0},
		{"UDP", 1, 0, 4},
		{"PORT", 0, 1, 2},
		{"LAST HEARD", 1, 0, 0},
		{"WAITED FOR", 1, 0, 0},
		{"LAST", 1, 0, 1},
		{"JOINED", 1, 0, 3},
	};
	json_t *list = get(job, "members");
	struct table *table;
	json_t *worst;
	double share;

	if (json_array_size(list) == 0) {
		fputs("no members\n", out);
		return;
	}
	table = table_create(columns, 9);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *m = json_array_get(list, i);
		double heard = get_number(m, "last_heard"), joined = get_number(m, "joined");

		table_cell(table, "%s", units_exact(get_number(m, "rank")).text);
		table_cell(table, "%s", get_text(m, "state"));
		table_cell(table, "%s", get_text(m, "address"));
		table_cell(table, "%s", units_exact(get_number(m, "udp")).text);
		table_cell(table, "%s", get_text(m, "port"));
		table_cell(table, "%s%s", isfinite(heard) ? units_age(heard).text : "never",
			isfinite(heard) ? " ago" : "");
		table_cell(table, "%s", units_age(waited_for(m)).text);
		table_cell(table, "%s", units_exact(get_number(m, "last")).text);
		table_cell(table, "%s%s", since(joined).text, isfinite(joined) ? " ago" : "");
	}
	table_print(table, out, width);
	table_destroy(table);
	name_rivals(list, out, width);
	worst = straggler(job, &share);
	if (worst != NULL)
		text_printf(out, 2, width,
			"rank %s (%s) has %s of the time that blocks waited for their last source",
			units_exact(get_number(worst, "rank")).text, get_text(worst, "address"),
			units_share(share).text);
}

static void
counters(json_t *from, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {{"COUNTER", 0, 1, 0}, {"TOTAL", 1, 0, 0}};
	struct table *table = table_create(columns, 2);
	const char *key;
	json_t *value;

	json_object_foreach (from, key, value)
		if (json_is_number(value)) {
			table_cell(table, "%s", key);
			table_cell(table, "%s", units_exact(json_number_value(value)).text);
		}
	table_print(table, out, width);
	table_destroy(table);
}

/* Where a job comes from, and whose it is. */
static void
origin(json_t *j, FILE *out, unsigned int width)
{
	const char *from = get_text(j, "origin"), *tenant = get_text(j, "tenant");
	bool owned = strcmp(tenant, "-") != 0;

	if (strcmp(from, "file") == 0)
		from = "the configuration";
	else if (strcmp(from, "api") == 0)
		from = "the API";
	text_printf(out, INDENT, width, "job      %s, id %s, %s, from %s%s%s", get_text(j, "name"),
		units_exact(get_number(j, "id")).text, get_text(j, "state"), from,
		owned ? ", tenant " : "", owned ? tenant : "");
}

void
view_job(json_t *j, FILE *out, unsigned int width)
{
	double created = get_number(j, "created");
	bool dated = isfinite(created);

	origin(j, out, width);
	text_printf(out, INDENT, width, "members  %s of %s joined, generation %s%s%s%s",
		units_exact(get_number(j, "joined")).text, units_exact(get_number(j, "size")).text,
		units_exact(get_number(j, "generation")).text, dated ? ", created " : "",
		dated ? since(created).text : "", dated ? " ago" : "");
	text_printf(out, INDENT, width,
		"blocks   %s of %s, %s elements each, window %s, results %s%s%s", get_text(j, "op"),
		get_text(j, "type"), units_exact(get_number(j, "elements")).text,
		units_exact(get_number(j, "window")).text, get_text(j, "results"),
		get_true(j, "deterministic") ? ", deterministic" : "",
		get_true(j, "authenticated") ? ", authenticated" : "");
	text_printf(out, INDENT, width, "         %s in flight, %s of %s buffers used",
		units_exact(get_number(j, "blocks_in_flight")).text,
		units_exact(get_number(j, "buffers.used")).text,
		units_exact(get_number(j, "buffers.reserved")).text);
	text_printf(out, INDENT, width, "policy   %s, timeout %s%s", get_text(j, "policy"),
		units_age(get_number(j, "timeout_ms") / 1e3).text,
		strcmp(get_text(j, "rejoin"), "revoke") == 0 ? ", who joins anew revokes all" : "");
	if (json_array_size(get(j, "members")) > 0) {
		fputc('\n', out);
		view_members(j, out, width);
	}
	if (json_object_size(get(j, "counters")) > 0) {
		fputc('\n', out);
		counters(get(j, "counters"), out, width);
	}
}

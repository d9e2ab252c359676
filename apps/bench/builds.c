/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench pair: two builds of the engine, in turn on one machine.
 *
 * A shared machine is faster or slower from one minute to the next, by more than what a change gains. So the builds run
 * alternately, a second or two at a time, and the ratio of two runs side by side counts: the median of all turns, with
 * quartiles as its spread. Each turn begins with the other build. Both get the same options, those that an older build
 * does not know left out.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <rte_common.h>

#include "apps/bench/bench.h"

#define TURNS_MAX    999
#define ROWS_MAX     64
#define OPTIONS_MAX  64
#define OPTION_BYTES 64

static uint64_t turns = 15;

static const struct option_row options[] = {
	{"turns", 0, OPTION_UINT, &turns, 1, TURNS_MAX, NULL, "how often each build runs"},
	{0},
};

static const struct table_column columns[] = {
	{.key = "elements", .title = "elements"},
	{.key = "type", .title = "type"},
	{.key = "results", .title = "results", .width = 9},
	{.key = "order"},
	{.key = "old", .title = "old", .unit = "Mpps", .width = 7, .digits = 3},
	{.key = "new", .title = "new", .unit = "Mpps", .width = 7, .digits = 3},
	{.key = "ratio", .title = "ratio", .digits = 3},
	{.key = "lower", .title = "lower", .unit = "quartile", .digits = 3},
	{.key = "upper", .title = "upper", .unit = "quartile", .digits = 3},
	{.key = "turns"},
	{.key = "disturbed"},
	{.title = "", .left = true},
};

enum { OLD, NEW, BUILDS };
static const char *const results[] = {"unicast", "multicast"};
#define KINDS RTE_DIM(results)

static struct {
	char *path[BUILDS];
	const char *order; /* NULL: among the options that the user gave */
	char **more; /* those */
	struct row {
		double rate[BUILDS][TURNS_MAX];
		json_t *record; /* of the first turn: what was measured */
		unsigned int disturbed; /* runs */
	} row[KINDS][ROWS_MAX];
	size_t rows;
} pair;

/* Does the text of `engine --help` have the word? -1: it cannot be run, after a line. */
static int
knows(const char *path, const char *word)
{
	const char *argv[] = {path, "engine", "--help", NULL};
	FILE *out = tmpfile(), *said = tmpfile();
	char line[256];
	int found = -1;

	if (out != NULL && said != NULL && bench_spawn(argv, out, said) == 0)
		for (found = 0; found == 0 && fgets(line, sizeof(line), out) != NULL;)
			found = strstr(line, word) != NULL;
	if (found < 0)
		warnx("%s: no weir-bench that runs here; give a build directory or a program",
			path);
	if (out != NULL)
		fclose(out);
	if (said != NULL)
		fclose(said);
	return found;
}

/* The records of a run, or NULL after what it said. */
static json_t *
measure(const char *path, const char *kind)
{
	char repeat[OPTION_BYTES], phase[OPTION_BYTES];
	const char *argv[OPTIONS_MAX + 1] = {path, "engine", "--json", "-", "--results", kind,
		"--type", "int32", "--elements", "64,256,1024", "--huge", bench_common.huge,
		"--repeat", repeat, "--phase-ms", phase};
	FILE *out = tmpfile(), *said = tmpfile();
	json_t *records = NULL;
	unsigned int n = 16;

	snprintf(repeat, sizeof(repeat), "%" PRIu64, bench_common.repeat);
	snprintf(phase, sizeof(phase), "%" PRIu64, bench_common.phase_ms);
	if (pair.order != NULL) {
		argv[n++] = "--order";
		argv[n++] = pair.order;
	}
	for (char **more = pair.more; *more != NULL && n < OPTIONS_MAX; more++)
		argv[n++] = *more;
	if (out != NULL && said != NULL && bench_spawn(argv, out, said) == 0)
		records = json_loadf(out, 0, NULL);
	if (records == NULL) {
		warnx("%s engine fails:", path);
		bench_quote(said);
	}
	if (out != NULL)
		fclose(out);
	if (said != NULL)
		fclose(said);
	return records;
}

/* Put the rates of a run into the rows. 0, or -1 after a line. */
static int
keep(json_t *records, unsigned int build, unsigned int kind, uint64_t turn)
{
	size_t i, n = json_array_size(records);
	json_t *record;

	if (turn == 0 && pair.rows == 0)
		pair.rows = n;
	if (n == 0 || n > ROWS_MAX || n != pair.rows) {
		warnx("%s: %zu records, and the run before had %zu", pair.path[build], n,
			pair.rows);
		return -1;
	}
	json_array_foreach (records, i, record) {
		struct row *row = &pair.row[kind][i];

		row->rate[build][turn] = json_number_value(json_object_get(record, "rate"));
		row->disturbed += json_is_true(json_object_get(record, "disturbed"));
		if (row->record == NULL)
			row->record = json_incref(record);
	}
	return 0;
}

static int
take_turn(uint64_t turn)
{
	for (unsigned int i = 0; i < KINDS * BUILDS; i++) {
		unsigned int build = (unsigned int)(turn + i) % BUILDS, kind = i / BUILDS;
		json_t *records;
		int rc;

		bench_progress("turn %" PRIu64 " of %" PRIu64 ", %s, %s", turn + 1, turns,
			build == OLD ? "old" : "new", results[kind]);
		records = measure(pair.path[build], results[kind]);
		rc = records == NULL ? -1 : keep(records, build, kind, turn);
		json_decref(records);
		if (rc < 0)
			return -1;
	}
	return 0;
}

static void
add_row(struct row *row, unsigned int kind)
{
	/* A quarter of the ratios is not greater than the lower quartile, nor less than the upper one. */
	size_t quarter = (turns - 1) / 4;
	bool disturbed = row->disturbed > turns;
	double ratio[TURNS_MAX], middle;

	for (uint64_t t = 0; t < turns; t++)
		ratio[t] = row->rate[NEW][t] / row->rate[OLD][t];
	middle = bench_median(ratio, turns); /* sorts */
	bench_row((struct table_cell[]){
		TABLE_NUMBER(json_number_value(json_object_get(row->record, "elements"))),
		TABLE_TEXT(json_string_value(json_object_get(row->record, "type"))),
		TABLE_TEXT(results[kind]),
		TABLE_TEXT(json_string_value(json_object_get(row->record, "order"))),
		TABLE_NUMBER(bench_median(row->rate[OLD], turns)),
		TABLE_NUMBER(bench_median(row->rate[NEW], turns)), TABLE_NUMBER(middle),
		TABLE_NUMBER(ratio[quarter]), TABLE_NUMBER(ratio[turns - 1 - quarter]),
		TABLE_NUMBER(turns), TABLE_BOOL(disturbed), TABLE_TEXT(disturbed ? "*" : "")});
}

/* A build directory, or a program. 0, or -1. */
static int
find(unsigned int build, const char *name)
{
	bool in_folder;

	if (name == NULL) {
		warnx("pair OLD NEW: which builds?");
		return -1;
	}
	if (asprintf(&pair.path[build], "%s/apps/bench/weir-bench", name) < 0)
		return -1;
	in_folder = access(pair.path[build], X_OK) == 0;
	if (!in_folder) {
		free(pair.path[build]);
		pair.path[build] = strdup(name);
	}
	return pair.path[build] == NULL ? -1 : 0;
}

/* The same order for both: the default one, or the most similar that both know. 0, or -1. */
static int
choose_order(void)
{
	int known = 1;

	for (unsigned int b = 0; b < BUILDS; b++) {
		int rc = knows(pair.path[b], "|block|source");

		if (rc < 0)
			return -1;
		known &= rc;
	}
	for (char **more = pair.more; *more != NULL; more++)
		if (strncmp(*more, "--order", 7) == 0)
			return 0;
	pair.order = known ? "runs" : "source";
	bench_note("order %s%s", pair.order,
		known ? "" : ": one of the builds does not know the default, runs");
	return 0;
}

static int
run(void)
{
	char **names = bench_common.arguments;
	int rc = 0;

	if (find(OLD, names[0]) < 0 || find(NEW, names[1]) < 0)
		return 2;
	pair.more = names + 2;
	if (choose_order() < 0)
		return 2;
	bench_note("old: %s", pair.path[OLD]);
	bench_note("new: %s", pair.path[NEW]);
	bench_note("ratio: median of %" PRIu64 " turns, new / old side by side, and its quartiles; "
		   "*: others had the CPU in most runs",
		turns);
	bench_table(columns, RTE_DIM(columns));
	for (uint64_t t = 0; rc == 0 && t < turns; t++)
		rc = take_turn(t);
	for (unsigned int kind = 0; kind < KINDS; kind++)
		for (size_t i = 0; i < pair.rows; i++) {
			if (rc == 0)
				add_row(&pair.row[kind][i], kind);
			json_decref(pair.row[kind][i].record);
		}
	for (unsigned int b = 0; b < BUILDS; b++)
		free(pair.path[b]);
	return rc < 0 ? 1 : 0;
}

const struct bench bench_pair = {
	.name = "pair",
	.help = "two builds of the engine, OLD and NEW (build directories or programs), in turn; "
		"options after "
		"them are the engine's",
	.arguments = "OLD NEW [ENGINE-OPTION...]",
	.options = options,
	.run = run,
};

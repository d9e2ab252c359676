/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs, their members and their blocks: what they are, and how to make, change and end jobs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "ctrl/api/units.h"

#define INDENT  9
#define POLL_NS 100000000

static void
operation(json_t *job, FILE *out)
{
	fprintf(out, "%s %s", get_text(job, "op"), get_text(job, "type"));
}

static void
origin(json_t *job, FILE *out)
{
	fputs(get_true(job, "temporary") ? "temporary" : get_text(job, "origin"), out);
}

void
view_jobs(json_t *answer, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"JOB", "name", .flexible = 1},
		{"ID", "id", .leave = 0},
		{"STATE", "state", .leave = 0},
		{"JOINED", "joined/size", .leave = 0},
		{"IN FLIGHT", "blocks_in_flight", .leave = 0},
		{"COMPLETE", "counters.blocks_complete", .leave = 0},
		{"PARTIAL", "counters.blocks_partial", .leave = 0},
		{"ERROR", "counters.blocks_error", .leave = 1},
		{"POLICY", "policy", .cell = CELL_TEXT, .leave = 2},
		{"TIMEOUT", "timeout_ms", .cell = CELL_MS, .leave = 2},
		{"TYPE", NULL, .cell = CELL_PRINT, .leave = 4, .print = operation},
		{"ELEMENTS", "elements", .leave = 4},
		{"TENANT", "tenant", .flexible = 1, .leave = 3},
		{"FROM", NULL, .cell = CELL_PRINT, .leave = 5, .print = origin},
	};

	VIEW_TABLE(columns, "Job", get(answer, "jobs"), "no jobs", out, width);
}

/* How long blocks have waited for a member, those that are open now included. */
static void
waited(json_t *member, FILE *out)
{
	double waiting = get_number(member, "waiting");

	fputs(units_age(get_number(member, "waited") + (isfinite(waiting) ? waiting : 0)).text,
		out);
}

static void
heard(json_t *member, FILE *out)
{
	double age = get_number(member, "last_heard");

	fprintf(out, "%s%s", isfinite(age) ? units_age(age).text : "never",
		isfinite(age) ? " ago" : "");
}

static void
joined(json_t *member, FILE *out)
{
	double age = age_of(get_number(member, "joined"));

	fprintf(out, "%s%s", units_age(age).text, isfinite(age) ? " ago" : "");
}

void
view_members(json_t *job, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"RANK", "rank", .leave = 0},
		{"STATE", "state", .leave = 0},
		{"ADDRESS", "address", .leave = 0},
		{"UDP", "udp", .leave = 4},
		{"PORT", "port", .flexible = 1, .leave = 2},
		{"LAST HEARD", NULL, .cell = CELL_PRINT_RIGHT, .print = heard},
		{"WAITED FOR", NULL, .cell = CELL_PRINT_RIGHT, .print = waited},
		{"LAST", "last", .leave = 1},
		{"JOINED", NULL, .cell = CELL_PRINT_RIGHT, .leave = 3, .print = joined},
	};
	json_t *list = get(job, "members"), *remarks = get(job, "remarks");

	if (json_array_size(list) == 0) {
		fputs("no members\n", out);
		return;
	}
	VIEW_TABLE(columns, "Member", list, NULL, out, width);
	for (size_t i = 0; i < json_array_size(remarks); i++)
		text_print(get_text(json_array_get(remarks, i), "text"), out, 2, width);
}

/* Those that are not 0. */
void
view_counters(json_t *from, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {{"COUNTER", "name", CELL_TEXT, 1, 0, NULL},
		{"TOTAL", "total", CELL_EXACT, 0, 0, NULL}};
	json_t *rows = json_array(), *value;
	const char *key;

	json_object_foreach (from, key, value)
		if (json_is_number(value) && json_number_value(value) != 0)
			json_array_append_new(
				rows, json_pack("{s:s,s:O}", "name", key, "total", value));
	if (json_array_size(rows) > 0) {
		fputc('\n', out);
		VIEW_TABLE(columns, NULL, rows, NULL, out, width);
	}
	json_decref(rows);
}

/* The settings of a job. A new one has no members and no counts. */
void
view_settings(json_t *j, FILE *out, unsigned int width)
{
	const char *from = get_text(j, "origin"), *tenant = get_text(j, "tenant");
	bool owned = strcmp(tenant, "-") != 0;

	if (strcmp(from, "file") == 0)
		from = "the configuration";
	else if (strcmp(from, "api") == 0)
		from = "the API";
	text_printf(out, INDENT, width, "job      %s, id %s, %s, %sfrom %s%s%s",
		get_text(j, "name"), units_exact(get_number(j, "id")).text, get_text(j, "state"),
		get_true(j, "temporary") ? "temporary, " : "", from, owned ? ", tenant " : "",
		owned ? tenant : "");
	text_printf(out, INDENT, width,
		"blocks   %s of %s, %s elements each, window %s, results %s%s%s", get_text(j, "op"),
		get_text(j, "type"), units_exact(get_number(j, "elements")).text,
		units_exact(get_number(j, "window")).text, get_text(j, "results"),
		get_true(j, "deterministic") ? ", deterministic" : "",
		get_true(j, "authenticate") ? ", authenticated" : "");
	text_printf(out, INDENT, width, "policy   %s, timeout %s%s", get_text(j, "policy"),
		units_age(get_number(j, "timeout_ms") / 1e3).text,
		strcmp(get_text(j, "rejoin"), "revoke") == 0
			? ", a member that joins again revokes the generation"
			: "");
}

void
view_job(json_t *j, FILE *out, unsigned int width)
{
	double created = age_of(get_number(j, "created"));
	bool dated = isfinite(created);

	view_settings(j, out, width);
	text_printf(out, INDENT, width, "members  %s of %s joined, generation %s%s%s%s",
		units_exact(get_number(j, "joined")).text, units_exact(get_number(j, "size")).text,
		units_exact(get_number(j, "generation")).text, dated ? ", created " : "",
		dated ? units_age(created).text : "", dated ? " ago" : "");
	text_printf(out, INDENT, width, "buffers  %s of %s used, %s blocks in flight",
		units_exact(get_number(j, "buffers.used")).text,
		units_exact(get_number(j, "buffers.reserved")).text,
		units_exact(get_number(j, "blocks_in_flight")).text);
	if (json_array_size(get(j, "members")) > 0) {
		fputc('\n', out);
		view_members(j, out, width);
	}
	view_counters(get(j, "counters"), out, width);
}

/* "2, 5..7" */
static void
missing(json_t *block, FILE *out)
{
	json_t *list = get(block, "missing");
	uint64_t numbers[CTL_RANKS_MAX];
	char text[128];
	size_t count = 0;

	for (size_t i = 0; i < json_array_size(list) && count < CTL_RANKS_MAX; i++) {
		double rank = get_number(json_array_get(list, i), "rank");

		if (rank >= 0 && rank < 0x1p32)
			numbers[count++] = (uint64_t)rank;
	}
	units_ranges(numbers, count, 3, text, sizeof(text));
	fputs(text, out);
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
	static const struct view_column columns[] = {
		{"JOB", "job", .flexible = 1},
		{"BLOCK", "block", .leave = 0},
		{"GENERATION", "generation", .leave = 3},
		{"STATE", "state", .leave = 1},
		{"AGE", "age", .leave = 0},
		{"IDLE", "idle", .leave = 0},
		{"HEARD", "heard/size", .leave = 0},
		{"MISSING", NULL, .cell = CELL_PRINT, .flexible = 1, .print = missing},
		{"POLICY", "policy", .cell = CELL_TEXT, .leave = 2},
		{"ACTS IN", NULL, .cell = CELL_PRINT_RIGHT, .leave = 2, .print = acts},
	};

	VIEW_TABLE(columns, "Block", get(answer, "blocks"), "no blocks", out, width);
}

int
command_blocks(struct ctl *ctl)
{
	json_t *query = ctl->options.query, *answer;
	bool stuck = json_object_get(query, "stuck") != NULL;
	double limit = get_number(query, "limit");

	if (!ctl_ask(ctl, "GET", ctl->options.path, NULL, &answer))
		return ctl->status;
	if (ctl_lacks(ctl, answer, stuck ? "stuck" : "blocks"))
		ctl->status = CTL_REFUSED;
	else if (stuck)
		view_stuck(ctl, answer);
	else
		view_blocks(answer, stdout, ctl->width);
	/* Causes have no pages. */
	if (stuck &&
		(double)json_array_size(get(answer, "stuck")) >= (limit > 0 ? limit : CTL_CAUSES))
		puts("there may be more: --limit N lists more");
	if (!stuck)
		ctl_more(answer);
	json_decref(answer);
	return ctl->status;
}

/* Until the job does not exist any more; for --timeout at most. */
static int
wait_until_gone(struct ctl *ctl, const char *path)
{
	const struct timespec pause = {0, POLL_NS};
	double end = ctl_clock() + ctl->options.timeout;
	json_t *answer;

	do {
		if (!ctl_get(ctl, path, &answer))
			return ctl->status;
		if (answer == NULL) {
			puts("gone");
			return CTL_OK;
		}
		json_decref(answer);
		nanosleep(&pause, NULL);
	} while (ctl_clock() < end);
	ctl_say("the job is still draining after %g s: weirctl blocks --stuck says what it "
		"waits for, and --timeout TIME waits longer",
		ctl->options.timeout);
	return CTL_REFUSED;
}

static int
delete_by_prefix(struct ctl *ctl)
{
	char *path = ctl_path("/v1/jobs?prefix=", ctl->options.prefix, "");
	json_t *answer;

	if (ctl_ask(ctl, "DELETE", path, NULL, &answer)) {
		printf("%s deleted\n", units_exact(get_number(answer, "deleted")).text);
		json_decref(answer);
	}
	free(path);
	return ctl->status;
}

int
command_job_delete(struct ctl *ctl)
{
	const char *path = ctl->options.path;
	json_t *answer;

	if (ctl->options.prefix != NULL)
		return delete_by_prefix(ctl);
	if (ctl_ask(ctl, "DELETE", path, NULL, &answer)) {
		if (strcmp(get_text(answer, "state"), "draining") != 0)
			puts("gone");
		else if (ctl->options.wait)
			ctl->status = wait_until_gone(ctl, path);
		else
			puts("draining: the job ends when its blocks are complete (--wait waits "
			     "for it)");
		json_decref(answer);
	}
	return ctl->status;
}

static const char *
token_of(json_t *list, size_t rank)
{
	const char *text = json_string_value(json_array_get(list, rank));

	return text == NULL ? "-" : text;
}

int
command_job_tokens(struct ctl *ctl)
{
	const char *job = ctl->options.words[0];
	unsigned int rank = ctl->options.rank;
	json_t *answer, *list;
	size_t size;

	if (ctl_ask(ctl, "POST", ctl->options.path, NULL, &answer)) {
		list = get(answer, "tokens");
		size = json_array_size(list);
		if (ctl_lacks(ctl, answer, "tokens")) {
			ctl->status = CTL_REFUSED;
		} else if (ctl->options.dry_run) {
			puts("they can be had"); /* a dry run has none */
		} else if (rank == CTL_RANKS_MAX) {
			for (size_t i = 0; i < size; i++)
				printf("%zu %s\n", i, token_of(list, i));
		} else if (rank < size) {
			puts(token_of(list, rank));
		} else {
			ctl_say("--rank %u: job %s has %zu ranks, from 0", rank, job, size);
			ctl->status = CTL_REFUSED;
		}
		json_decref(answer);
	}
	return ctl->status;
}

/* Is there still a member of this rank? Sources of the configuration stay, and a live host joins
 * again. */
static bool
is_member(struct ctl *ctl, const char *job, const char *rank)
{
	char *path = ctl_path("/v1/jobs/", job, "");
	json_t *answer, *list;
	bool found = false;

	if (ctl_get(ctl, path, &answer)) {
		list = get(answer, "members");
		for (size_t i = 0; i < json_array_size(list); i++) {
			json_t *member = json_array_get(list, i);

			found |= get_number(member, "rank") == atof(rank) &&
				strcmp(get_text(member, "state"), "joined") == 0;
		}
		ctl->status = found ? CTL_REFUSED : CTL_OK;
		json_decref(answer);
	}
	free(path);
	return found;
}

int
command_member_delete(struct ctl *ctl)
{
	const char *job = ctl->options.words[0], *rank = ctl->options.words[1];
	json_t *answer;

	if (ctl_ask(ctl, "DELETE", ctl->options.path, NULL, &answer)) {
		json_decref(answer);
		if (ctl->options.dry_run)
			puts("gone");
		else if (is_member(ctl, job, rank))
			ctl_say("rank %s is still in job %s: the configuration has it, or its host "
				"has joined again",
				rank, job);
		else if (ctl->status == CTL_OK)
			puts("gone");
	}
	return ctl->status;
}

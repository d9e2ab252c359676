/* SPDX-License-Identifier: BSD-3-Clause */
/* "Why is it stuck?": which blocks wait for whom, how long, and what will happen. */
#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define SOURCES_NAMED 4 /* sources told with name and address; of others, the ranks */
#define RANGES_NAMED  8

/* Blocks of a job that wait for the same sources under the same policy. */
struct group {
	json_t *first; /* in the answer */
	size_t at; /* its place there */
	uint64_t *blocks; /* their numbers */
	size_t count;
	double oldest, idle_most, idle_least; /* seconds */
	double acts_first, acts_last; /* seconds until the policy acts; NaN: never */
};

/* A block, and in a text all that it shares with the others of its group. */
struct cause {
	json_t *block;
	char *text;
	size_t at; /* its place in the answer */
};

/* Texts of an answer have no line ends. */
static char *
cause_text(json_t *block)
{
	json_t *missing = get(block, "missing");
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);

	if (to == NULL)
		err(1, "blocks");
	fprintf(to, "%s\n%s\n%s\n", get_text(block, "job"), get_text(block, "policy"),
		units_exact(get_number(block, "generation")).text);
	for (size_t i = 0; i < json_array_size(missing); i++) {
		json_t *source = json_array_get(missing, i);

		fprintf(to, "%.17g %s\n", get_number(source, "rank"), get_text(source, "address"));
	}
	if (fclose(to) != 0)
		err(1, "blocks");
	return text;
}

static int
by_cause(const void *a, const void *b)
{
	const struct cause *x = a, *y = b;
	int order = strcmp(x->text, y->text);

	return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

static void
add(struct group *group, json_t *block)
{
	double number = get_number(block, "block"), idle = get_number(block, "idle"),
	       acts = get_number(block, "policy_in");

	if (group->count == 0) {
		group->first = block;
		group->oldest = get_number(block, "age");
		group->idle_most = group->idle_least = idle;
		group->acts_first = group->acts_last = acts;
	}
	group->blocks[group->count++] = number >= 0 && number < 0x1p63 ? (uint64_t)number : 0;
	group->oldest = fmax(group->oldest, get_number(block, "age"));
	group->idle_most = fmax(group->idle_most, idle);
	group->idle_least = fmin(group->idle_least, idle);
	group->acts_first = fmin(group->acts_first, acts);
	group->acts_last = fmax(group->acts_last, acts);
}

static int
by_place(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* In the order in which the switch tells them: the oldest first. `numbers` has room for all. */
static struct group *
grouped(json_t *blocks, uint64_t *numbers, size_t *count)
{
	size_t size = json_array_size(blocks);
	struct group *groups = calloc(size + 1, sizeof(*groups));
	struct cause *causes = calloc(size + 1, sizeof(*causes));

	if (groups == NULL || causes == NULL)
		err(1, "blocks");
	for (size_t i = 0; i < size; i++) {
		causes[i].block = json_array_get(blocks, i);
		causes[i].text = cause_text(causes[i].block);
		causes[i].at = i;
	}
	qsort(causes, size, sizeof(*causes), by_cause);
	*count = 0;
	for (size_t i = 0; i < size; i++) {
		if (i == 0 || strcmp(causes[i - 1].text, causes[i].text) != 0) {
			groups[*count].blocks = numbers + i;
			groups[(*count)++].at = causes[i].at;
		}
		add(&groups[*count - 1], causes[i].block);
	}
	qsort(groups, *count, sizeof(*groups), by_place);
	for (size_t i = 0; i < size; i++)
		free(causes[i].text);
	free(causes);
	return groups;
}

static int
by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* "rank 2 (host-c, 10.77.0.3)" */
static void
name_source(json_t *source, FILE *out)
{
	const char *name = get_text(source, "name"), *address = get_text(source, "address");
	bool named = strcmp(name, "-") != 0 && strcmp(name, address) != 0;

	fprintf(out, "rank %s", units_exact(get_number(source, "rank")).text);
	if (named || strcmp(address, "-") != 0)
		fprintf(out, " (%s%s%s)", named ? name : "", named ? ", " : "",
			strcmp(address, "-") != 0 ? address : "address unknown");
}

/* Where it is now, if not at work; and when it was heard. */
static void
name_heard(json_t *source, FILE *out)
{
	double heard = get_number(source, "last_heard"), gone = get_number(source, "gone"),
	       asks = get_number(source, "asks");
	const char *state = get_text(source, "state");

	if (isfinite(asks)) {
		fprintf(out, ", %s %s ago and asks to join",
			get_true(source, "contested") ? "as which another process began"
						      : "which began anew",
			units_age(asks).text);
		return;
	}
	if (strcmp(state, "left") == 0 || strcmp(state, "expired") == 0) {
		fprintf(out, ", %s", state);
		if (isfinite(gone))
			fprintf(out, " %s ago", units_age(gone).text);
	}
	if (isfinite(heard))
		fprintf(out, ", last heard %s ago", units_age(heard).text);
	else
		fputs(", never heard", out);
}

/* The sources beyond the first SOURCES_NAMED, by rank. */
static void
name_others(json_t *missing, FILE *out)
{
	size_t count = json_array_size(missing), used = 0;
	uint64_t *ranks = calloc(count, sizeof(*ranks));
	char text[256];

	if (ranks == NULL)
		err(1, "ranks");
	for (size_t i = SOURCES_NAMED; i < count; i++) {
		double rank = get_number(json_array_get(missing, i), "rank");

		if (rank >= 0 && rank < 0x1p63)
			ranks[used++] = (uint64_t)rank;
	}
	qsort(ranks, used, sizeof(*ranks), by_number);
	units_ranges(ranks, used, RANGES_NAMED, text, sizeof(text));
	fprintf(out, "; and for %zu more: ranks %s", count - SOURCES_NAMED, text);
	free(ranks);
}

void
view_sources(json_t *missing, FILE *out)
{
	size_t count = json_array_size(missing);

	if (count == 0)
		fputs("a source that the switch does not name", out);
	for (size_t i = 0; i < count && i < SOURCES_NAMED; i++) {
		json_t *source = json_array_get(missing, i);

		if (i > 0)
			fputs(i + 1 == count ? "; and for " : "; ", out);
		name_source(source, out);
		name_heard(source, out);
	}
	if (count > SOURCES_NAMED)
		name_others(missing, out);
}

/* Will these sources never contribute in this generation? Then all the others have to begin anew. */
static const char *
name_end(json_t *missing)
{
	const char *what = NULL;

	for (size_t i = 0; i < json_array_size(missing); i++) {
		json_t *source = json_array_get(missing, i);
		const char *state = get_text(source, "state");

		if (isfinite(get_number(source, "asks")))
			return "the others must open again";
		if (strcmp(state, "left") == 0 || strcmp(state, "expired") == 0)
			what = "the job goes on when all ranks join again";
	}
	return what;
}

/* What the policy will do, and when. */
static void
name_policy(const struct group *group, FILE *out)
{
	const char *policy = get_text(group->first, "policy");
	bool many = json_array_size(get(group->first, "missing")) > 1;
	const char *they = many ? "they send" : "it sends";
	const char *end = name_end(get(group->first, "missing")), *what;

	if (strcmp(policy, "wait") == 0) {
		if (end != NULL)
			fprintf(out, "; %s", end);
		else
			fprintf(out, "; policy wait: nothing will happen until %s", they);
		return;
	}
	fprintf(out, "; policy %s: ", policy);
	what = strcmp(policy, "partial") == 0
		? many ? "results without them go out" : "results without it go out"
		: strcmp(policy, "error") == 0 ? "every source is told that it failed"
					       : "it acts";
	if (!isfinite(group->acts_first))
		fprintf(out, "%s after the job's timeout", what);
	else if (group->acts_last <= 0)
		fprintf(out, "%s now", what);
	else if (group->acts_last - group->acts_first < 0.05 * group->acts_last)
		fprintf(out, "%s in %s", what, units_age(group->acts_last).text);
	else
		fprintf(out, "%s in %s to %s", what, units_age(group->acts_first).text,
			units_age(group->acts_last).text);
}

/* How long its blocks wait, and what is in them. */
static void
tell_ages(const struct group *group, FILE *out, unsigned int width)
{
	json_t *first = group->first;
	double heard = get_number(first, "heard"), size = get_number(first, "size");
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);

	if (to == NULL)
		err(1, "blocks");
	fprintf(to, "  %s%s, nothing new for %s",
		group->count == 1 ? "open for " : "the oldest open for ",
		units_age(group->oldest).text, units_age(group->idle_least).text);
	if (group->idle_most > 1.1 * group->idle_least + 0.05)
		fprintf(to, " to %s", units_age(group->idle_most).text);
	if (isfinite(heard) && isfinite(size))
		fprintf(to, "; %s of %s sources are in%s", units_exact(heard).text,
			units_exact(size).text, group->count == 1 ? " it" : " them");
	if (isfinite(get_number(first, "generation")))
		fprintf(to, "; generation %s", units_exact(get_number(first, "generation")).text);
	fclose(to);
	text_print(text, out, 2, width);
	free(text);
}

/* `brief`: in one paragraph, that begins with the age, so that it may be cut. */
static void
tell(struct group *group, bool brief, FILE *out, unsigned int width)
{
	json_t *first = group->first;
	char ranges[256];
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);

	if (to == NULL)
		err(1, "blocks");
	qsort(group->blocks, group->count, sizeof(*group->blocks), by_number);
	units_ranges(group->blocks, group->count, RANGES_NAMED, ranges, sizeof(ranges));
	fprintf(to, "job %s%s%s: ", get_text(first, "job"), brief ? ", for " : "",
		brief ? units_age(group->oldest).text : "");
	if (group->count == 1)
		fprintf(to, "block %s waits for ", ranges);
	else
		fprintf(to, "%zu blocks %s wait for ", group->count, ranges);
	view_sources(get(first, "missing"), to);
	name_policy(group, to);
	fclose(to);
	text_print(text, out, 2, width);
	free(text);
	if (!brief)
		tell_ages(group, out, width);
}

static unsigned int
tell_all(json_t *answer, bool brief, FILE *out, unsigned int width)
{
	json_t *blocks = get(answer, "blocks");
	uint64_t *numbers = calloc(json_array_size(blocks) + 1, sizeof(*numbers));
	struct group *groups;
	size_t count;

	if (numbers == NULL)
		err(1, "blocks");
	groups = grouped(blocks, numbers, &count);
	for (size_t g = 0; g < count; g++)
		tell(&groups[g], brief, out, width);
	free(groups);
	free(numbers);
	return (unsigned int)count;
}

unsigned int
view_stuck(json_t *answer, FILE *out, unsigned int width)
{
	return tell_all(answer, false, out, width);
}

unsigned int
view_stuck_brief(json_t *answer, FILE *out, unsigned int width)
{
	return tell_all(answer, true, out, width);
}

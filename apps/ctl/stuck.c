/* SPDX-License-Identifier: BSD-3-Clause */
/* "Why is it stuck?": which blocks and jobs wait for whom, how long, and what will happen. */
#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define SOURCES_NAMED 4 /* sources with name and address; of others, the ranks */
#define RANGES_NAMED  8
#define STILL_HEARD   2 /* seconds; a host that waits repeats itself more often */

/* A paragraph in the making. */
struct paragraph {
	FILE *to;
	char *text;
	size_t length;
};

static FILE *
begin(struct paragraph *p)
{
	p->text = NULL;
	p->to = open_memstream(&p->text, &p->length);
	if (p->to == NULL)
		err(1, "text");
	return p->to;
}

static void
end(struct paragraph *p, FILE *out, unsigned int width)
{
	if (fclose(p->to) != 0)
		err(1, "text");
	text_print(p->text, out, 2, width);
	free(p->text);
}

/* Blocks of a job that wait for the same sources under the same policy. */
struct group {
	json_t *first; /* in the answer */
	uint64_t *blocks; /* their numbers */
	size_t count;
	double oldest, idle_most, idle_least; /* seconds */
	double acts_first, acts_last; /* seconds until the policy acts; NaN: never */
};

/* All that a block shares with the others of its group. Texts of an answer have no line ends. */
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

static void
measure(struct group *group, json_t *block)
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

/* {cause: [block]}; objects of jansson keep their order: the oldest group first. New. */
static json_t *
by_cause(json_t *blocks)
{
	json_t *groups = json_object();

	for (size_t i = 0; i < json_array_size(blocks); i++) {
		char *cause = cause_text(json_array_get(blocks, i));
		json_t *group = json_object_get(groups, cause);

		if (group == NULL) {
			group = json_array();
			json_object_set_new_nocheck(groups, cause, group);
		}
		json_array_append(group, json_array_get(blocks, i));
		free(cause);
	}
	return groups;
}

int
view_ascending(const void *a, const void *b)
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
	qsort(ranks, used, sizeof(*ranks), view_ascending);
	units_ranges(ranks, used, RANGES_NAMED, text, sizeof(text));
	fprintf(out, "; and for %zu more: ranks %s", count - SOURCES_NAMED, text);
	free(ranks);
}

static void
name_sources(json_t *missing, FILE *out)
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
	struct paragraph p;
	FILE *to = begin(&p);

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
	end(&p, out, width);
}

static void
tell_blocks(json_t *blocks, FILE *out, unsigned int width)
{
	struct group group = {.blocks = calloc(json_array_size(blocks), sizeof(uint64_t))};
	struct paragraph p;
	char ranges[256];
	FILE *to;

	if (group.blocks == NULL)
		err(1, "blocks");
	for (size_t i = 0; i < json_array_size(blocks); i++)
		measure(&group, json_array_get(blocks, i));
	qsort(group.blocks, group.count, sizeof(*group.blocks), view_ascending);
	units_ranges(group.blocks, group.count, RANGES_NAMED, ranges, sizeof(ranges));
	to = begin(&p);
	fprintf(to, "job %s: ", get_text(group.first, "job"));
	if (group.count == 1)
		fprintf(to, "block %s waits for ", ranges);
	else
		fprintf(to, "%zu blocks %s wait for ", group.count, ranges);
	name_sources(get(group.first, "missing"), to);
	name_policy(&group, to);
	end(&p, out, width);
	tell_ages(&group, out, width);
	free(group.blocks);
}

unsigned int
view_stuck(json_t *answer, FILE *out, unsigned int width)
{
	json_t *groups = by_cause(get(answer, "blocks")), *blocks;
	unsigned int count = (unsigned int)json_object_size(groups);
	const char *cause;

	json_object_foreach (groups, cause, blocks)
		tell_blocks(blocks, out, width);
	json_decref(groups);
	return count;
}

/* The members that are not in. New. */
static json_t *
absent_members(json_t *job)
{
	json_t *all = get(job, "members"), *list = json_array();

	for (size_t i = 0; i < json_array_size(all); i++)
		if (strcmp(get_text(json_array_get(all, i), "state"), "joined") != 0)
			json_array_append(list, json_array_get(all, i));
	return list;
}

/* Does a host wait for the job to begin? Before the first generation each member does; nobody waits
 * for a job that is not used yet. */
static bool
somebody_asks(json_t *job)
{
	json_t *all = get(job, "members");

	for (size_t i = 0; i < json_array_size(all); i++)
		if (isfinite(get_number(json_array_get(all, i), "asks")))
			return true;
	return !(get_number(job, "generation") > 0);
}

/* Has the job begun to gather, and lacks some? */
static bool
may_join(json_t *job)
{
	double joined = get_number(job, "joined");

	return strcmp(get_text(job, "state"), "joining") == 0 && joined > 0 &&
		joined < get_number(job, "size");
}

/* Are there results that somebody has not acknowledged, and no block that is open? When all live and
 * contribute, half of the buffers are enough. */
static bool
may_lack_acknowledgements(json_t *job)
{
	return strcmp(get_text(job, "state"), "running") == 0 &&
		strcmp(get_text(job, "policy"), "partial") == 0 &&
		get_number(job, "blocks_in_flight") <= 0 &&
		2 * get_number(job, "buffers.used") > get_number(job, "buffers.reserved");
}

bool
view_may_wait(json_t *job)
{
	return may_join(job) || may_lack_acknowledgements(job);
}

/* The members that are in, and silent while others repeat what they have sent. New. */
static json_t *
silent_members(json_t *job)
{
	json_t *all = get(job, "members"), *list = json_array();
	double least = INFINITY, patience = fmax(1, get_number(job, "timeout_ms") / 1e3);

	for (size_t i = 0; i < json_array_size(all); i++)
		least = fmin(least, get_number(json_array_get(all, i), "last_heard"));
	for (size_t i = 0; least < STILL_HEARD && i < json_array_size(all); i++) {
		json_t *m = json_array_get(all, i);

		if (strcmp(get_text(m, "state"), "joined") == 0 &&
			get_number(m, "last_heard") > least + patience)
			json_array_append(list, m);
	}
	return list;
}

/* They hold up hosts that are two windows ahead, until the switch gives them up. */
static unsigned int
tell_silent(json_t *job, FILE *out, unsigned int width)
{
	json_t *silent = silent_members(job);
	size_t count = json_array_size(silent);
	double dead_after = get_number(job, "dead_after_ms") / 1e3;
	struct paragraph p;
	FILE *to;

	if (count > 0) {
		to = begin(&p);
		fprintf(to, "job %s: its results wait for the acknowledgement of ",
			get_text(job, "name"));
		name_sources(silent, to);
		if (dead_after > 0)
			fprintf(to,
				"; policy partial: after %s of that the others go on without %s",
				units_age(dead_after).text, count == 1 ? "it" : "them");
		else
			fprintf(to, "; dead_after_ms is 0: nothing will happen until %s",
				count == 1 ? "it sends" : "they send");
		end(&p, out, width);
	}
	json_decref(silent);
	return count > 0;
}

static unsigned int
tell_joining(json_t *job, FILE *out, unsigned int width)
{
	bool again = get_number(job, "generation") > 0;
	struct paragraph p;
	json_t *missing;
	FILE *to;

	if (!somebody_asks(job))
		return 0;
	missing = absent_members(job);
	to = begin(&p);
	fprintf(to, "job %s: %s%s of %s sources have joined%s", get_text(job, "name"),
		again ? "" : "has not begun: ", units_exact(get_number(job, "joined")).text,
		units_exact(get_number(job, "size")).text, again ? " to begin anew" : "");
	if (json_array_size(missing) > 0) {
		fputs("; it waits for ", to);
		name_sources(missing, to);
	}
	end(&p, out, width);
	json_decref(missing);
	return 1;
}

unsigned int
view_waiting(json_t *job, FILE *out, unsigned int width)
{
	if (may_join(job))
		return tell_joining(job, out, width);
	return may_lack_acknowledgements(job) ? tell_silent(job, out, width) : 0;
}

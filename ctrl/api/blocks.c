/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/blocks: which block waits for which sources, since when, and what the policy will do; and
 * the same in sentences, which weirctl and the page print. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/api/units.h"

#define LIMIT_DEFAULT 256
#define LIMIT_MAX     1024
#define FOUND_MAX     16384 /* blocks that are sorted by age */
#define MISSING_MAX   16384 /* entries of all lists of missing ranks in an answer */
#define STUCK_US      UINT64_C(1000000)

/* Of a sentence. */
#define SOURCES_NAMED 4 /* sources with address and state; of others, the ranks */
#define RANGES_NAMED  8
#define SOON          2.0 /* s; a host that waits repeats itself more often */

/* The blocks found, and their jobs. */
struct found {
	const struct ctrl_running *running;
	uint64_t limit; /* of each list in the answer */
	json_t *stuck; /* sentences; NULL: not wanted */
	size_t listed; /* entries of all lists of missing ranks */
	struct ppe_block_info *block;
	unsigned int count, room;
	uint64_t total; /* including those that did not fit */
	bool whole; /* false: no memory for all */
	struct ctrl_membership membership[WEIR_JOBS_MAX]; /* of the jobs, by id */
};

static double
seconds(uint64_t us)
{
	return (double)us / 1e6;
}

/* The sources of a job that are not in `in`. New. */
static json_t *
missing(struct found *found, const struct ctrl_job *of, const uint64_t in[WEIR_SOURCES_MAX / 64])
{
	const struct ppe_job *job = of->job;
	json_t *list = json_array();

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		struct ppe_source_stats source;
		json_t *object;

		if (!api_has_rank(of, s) || (in[s / 64] >> (s % 64) & 1) != 0)
			continue;
		object = json_object();
		ppe_source_stats_read(found->running->ppe, job->id, (uint8_t)s, &source);
		api_put_presence(object, of, &found->membership[job->id], s, &source);
		json_array_append_new(list, object);
	}
	found->listed += json_array_size(list);
	return list;
}

/* -- in sentences */

struct sentence {
	char text[2048]; /* SOURCES_NAMED and the ranges fit */
	size_t length;
};

static void __attribute__((format(printf, 2, 3))) put(struct sentence *to, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(to->text + to->length, sizeof(to->text) - to->length, format, arguments);
	va_end(arguments);
	to->length = RTE_MIN(to->length + (size_t)RTE_MAX(length, 0), sizeof(to->text) - 1);
}

static double
number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

/* "rank 2 (10.77.0.3), left 3.0 s ago, last heard 4.1 s ago" */
static void
name_source(struct sentence *to, const struct ctrl_job *of, const json_t *source)
{
	const char *address = json_string_value(json_object_get(source, "address"));
	unsigned int rank = (unsigned int)number(source, "rank");

	put(to, "rank %u", rank);
	if (address != NULL)
		put(to, " (%s)", address);
	if (json_is_number(json_object_get(source, "asks"))) {
		put(to, ", %s has been asking to join for %s",
			json_is_true(json_object_get(source, "contested"))
				? "as which a second process"
				: "which",
			units_age(number(source, "asks")).text);
		return;
	}
	if (api_is_gone(of, rank))
		put(to, ", %s", json_string_value(json_object_get(source, "state")));
	if (json_is_number(json_object_get(source, "gone")))
		put(to, " %s ago", units_age(number(source, "gone")).text);
	if (json_is_number(json_object_get(source, "last_heard")))
		put(to, ", last heard %s ago", units_age(number(source, "last_heard")).text);
	else
		put(to, ", never heard");
}

static void
name_sources(struct sentence *to, const struct ctrl_job *of, const json_t *missing)
{
	size_t count = json_array_size(missing);
	uint64_t rank[WEIR_SOURCES_MAX];
	char text[256];

	for (size_t i = 0; i < count; i++) {
		rank[i] = (uint64_t)number(json_array_get(missing, i), "rank");
		if (i >= SOURCES_NAMED)
			continue;
		if (i > 0)
			put(to, "%s", i + 1 == count ? "; and for " : "; ");
		name_source(to, of, json_array_get(missing, i));
	}
	if (count <= SOURCES_NAMED)
		return;
	units_ranges(&rank[SOURCES_NAMED], count - SOURCES_NAMED, RANGES_NAMED, text, sizeof(text));
	put(to, "; and for %zu more: ranks %s", count - SOURCES_NAMED, text);
}

/* Will some of these never contribute in this generation? */
static bool
are_lost(const struct ctrl_job *of, const json_t *missing)
{
	for (size_t i = 0; i < json_array_size(missing); i++) {
		const json_t *source = json_array_get(missing, i);

		if (json_is_number(json_object_get(source, "asks")) ||
			api_is_gone(of, (unsigned int)number(source, "rank")))
			return true;
	}
	return false;
}

/* What the policy will do, between `first` and `last` seconds from now. */
static void
name_policy(struct sentence *to, const struct ctrl_job *of, const json_t *missing, bool one_block,
	double first, double last)
{
	bool one = json_array_size(missing) == 1;
	const struct ppe_job *job = of->job;

	if (job->policy == PPE_POLICY_WAIT && are_lost(of, missing)) {
		put(to, "; the job continues when all its ranks have joined again");
		return;
	}
	put(to, "; policy %s: ", ctrl_policy_text(job->policy));
	if (job->policy == PPE_POLICY_WAIT) {
		put(to, "nothing will happen until %s", one ? "it sends" : "they send");
		return;
	}
	if (ppe_policy_sends_partial(job->policy))
		put(to, "results without %s go out", one ? "it" : "them");
	else
		put(to, "%s", one_block ? "the block fails" : "the blocks fail");
	if (last <= 0)
		put(to, " now");
	else if (last - first < 0.05 * last)
		put(to, " in %s", units_age(last).text);
	else
		put(to, " in %s to %s", units_age(first).text, units_age(last).text);
}

/* Are there as many sentences as the answer may have? */
static bool
is_full(const struct found *found)
{
	return json_array_size(found->stuck) >= found->limit || found->listed >= MISSING_MAX;
}

/* missing: taken; detail: NULL where there is none. */
static void
say(struct found *found, const struct ctrl_job *of, const char *reason, json_t *missing,
	const struct sentence *what, const struct sentence *detail)
{
	json_array_append_new(found->stuck,
		json_pack("{ss ss so ss ss?}", "job", of->job->name, "reason", reason, "missing",
			missing, "text", what->text, "detail",
			detail == NULL ? NULL : detail->text));
}

/* Blocks that wait for the same sources, by number. whole: they are all that do. */
static void
say_blocks(struct found *found, const struct ctrl_job *of, const struct ppe_block_info *block,
	unsigned int count, bool whole)
{
	uint64_t *numbers = calloc(count, sizeof(*numbers));
	uint64_t oldest = 0, longest = 0, shortest = UINT64_MAX;
	json_t *sources = missing(found, of, block->heard);
	struct sentence what = {.length = 0}, detail = {.length = 0};
	double timeout = of->job->timeout_ms / 1e3;
	char ranges[256];

	for (unsigned int i = 0; i < count; i++) {
		oldest = RTE_MAX(oldest, block[i].age_us);
		longest = RTE_MAX(longest, block[i].idle_us);
		shortest = RTE_MIN(shortest, block[i].idle_us);
		if (numbers != NULL)
			numbers[i] = block[i].block;
	}
	units_ranges(numbers, numbers == NULL ? 0 : count, RANGES_NAMED, ranges, sizeof(ranges));
	free(numbers);
	if (count == 1)
		put(&what, "block %s waits for ", ranges);
	else
		put(&what, "%s%u blocks %s wait for ", whole ? "" : "at least ", count, ranges);
	name_sources(&what, of, sources);
	name_policy(&what, of, sources, count == 1, RTE_MAX(0, timeout - seconds(longest)),
		timeout - seconds(shortest));
	put(&detail, "%s %s, no new contribution for %s",
		count == 1 ? "open for" : "the oldest open for", units_age(seconds(oldest)).text,
		units_age(seconds(shortest)).text);
	if (seconds(longest) > 1.1 * seconds(shortest) + 0.05)
		put(&detail, " to %s", units_age(seconds(longest)).text);
	put(&detail, "; %u of %u sources have contributed; generation %u", block->heard_count,
		of->job->nb_sources, block->generation);
	say(found, of, "blocks", sources, &what, &detail);
}

/* Do two blocks wait for the same sources? 0: yes. */
static int
compare_causes(const struct ppe_block_info *a, const struct ppe_block_info *b)
{
	if (a->generation != b->generation)
		return a->generation < b->generation ? -1 : 1;
	return memcmp(a->heard, b->heard, sizeof(a->heard));
}

static int
by_cause_and_number(const void *a, const void *b)
{
	const struct ppe_block_info *x = a, *y = b;
	int order = compare_causes(x, y);

	return order != 0 ? order : (x->block > y->block) - (x->block < y->block);
}

/* The job gathers its sources, and some of them wait for others. */
static void
say_joining(struct found *found, const struct ctrl_job *of, const struct ppe_job_stats *stats)
{
	const struct ctrl_membership *membership = &found->membership[of->job->id];
	json_t *sources = missing(found, of, membership->in);
	struct sentence what = {.length = 0};

	put(&what, "%s%u of %u sources have %s; waiting for ",
		stats->generation == 0 ? "has not begun: " : "", membership->joined,
		of->job->nb_sources, stats->generation == 0 ? "joined" : "joined again");
	name_sources(&what, of, sources);
	say(found, of, "join", sources, &what, NULL);
}

/* Sources that are silent while others repeat what they have sent are not in `in`. */
static void
find_silent(
	const struct found *found, const struct ctrl_job *of, uint64_t in[WEIR_SOURCES_MAX / 64])
{
	double silent[WEIR_SOURCES_MAX], least = INFINITY;
	double patience = RTE_MAX(1.0, of->job->timeout_ms / 1e3);

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		struct ppe_source_stats source;

		ppe_source_stats_read(found->running->ppe, of->job->id, (uint8_t)s, &source);
		if (!api_has_rank(of, s) || !api_silence(of, s, &source, &silent[s]))
			silent[s] = NAN;
		least = fmin(least, silent[s]);
	}
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (!(least < SOON && silent[s] > least + patience &&
			    ctrl_membership_has(&found->membership[of->job->id], s)))
			in[s / 64] |= UINT64_C(1) << (s % 64);
}

/* Sources that do not acknowledge results hold up the others, which are two windows ahead, until the
 * switch expels them. */
static void
say_unacknowledged(struct found *found, const struct ctrl_job *of)
{
	uint64_t in[WEIR_SOURCES_MAX / 64] = {0};
	struct sentence what = {.length = 0};
	json_t *sources;
	bool one;

	find_silent(found, of, in);
	sources = missing(found, of, in);
	if (json_array_size(sources) == 0) {
		json_decref(sources);
		return;
	}
	one = json_array_size(sources) == 1;
	put(&what, "its results wait for the acknowledgement of ");
	name_sources(&what, of, sources);
	if (of->job->dead_after_ms > 0)
		put(&what, "; policy %s: after %s of silence the others continue without %s",
			ctrl_policy_text(of->job->policy),
			units_age(of->job->dead_after_ms / 1e3).text, one ? "it" : "them");
	else
		put(&what, "; the switch expels no source: nothing will happen until %s",
			one ? "it sends" : "they send");
	say(found, of, "acknowledgement", sources, &what, NULL);
}

/* Why a job does not progress: its stuck blocks, or what its hosts wait for while no block is open. */
static void
say_job(struct found *found, const struct ctrl_job *of, const struct ppe_job_stats *stats,
	struct ppe_block_info *block, unsigned int count, bool whole)
{
	const struct ctrl_membership *membership = &found->membership[of->job->id];

	if (count > 0)
		qsort(block, count, sizeof(*block), by_cause_and_number);
	for (unsigned int at = 0, next; at < count && !is_full(found); at = next) {
		for (next = at + 1; next < count && compare_causes(&block[at], &block[next]) == 0;)
			next++;
		say_blocks(found, of, &block[at], next - at, whole);
	}
	if (is_full(found))
		return;
	/* Nobody waits for a job that no host has joined yet, or none joins again. */
	if (membership->state == CTRL_JOB_JOINING && membership->joined > 0 &&
		membership->joined < of->job->nb_sources &&
		(membership->asked || stats->generation == 0))
		say_joining(found, of, stats);
	/* While all sources live and contribute, half of the buffers are enough. */
	if (membership->state == CTRL_JOB_RUNNING && ppe_policy_sends_partial(of->job->policy) &&
		stats->blocks_in_flight == 0 && 2 * stats->buffers_used > stats->buffers_reserved)
		say_unacknowledged(found, of);
}

static void
find(struct found *found, const struct ctrl_job *job)
{
	const struct ctrl_running *running = found->running;
	bool stuck = found->stuck != NULL;
	uint64_t timeout_us = job->job->timeout_ms * UINT64_C(1000);
	uint64_t idle_us = stuck ? RTE_MIN(timeout_us, STUCK_US) : 0;
	struct ctrl_membership *membership = &found->membership[job->job->id];
	unsigned int most, taken;
	struct ppe_job_stats stats;
	int n = 0;

	ctrl_running_job_stats(running, job, &stats);
	ctrl_membership_of(running, job, &stats, membership);
	most = RTE_MIN(2u * job->job->window, FOUND_MAX - found->count);
	if (found->room - found->count < most) {
		unsigned int room = found->count + most;
		struct ppe_block_info *more = realloc(found->block, room * sizeof(*more));

		if (more == NULL) {
			found->whole = false;
			return;
		}
		found->block = more;
		found->room = room;
	}
	/* Nobody waits for the blocks of an abandoned job. */
	if (!stuck || !membership->abandoned)
		n = ppe_blocks_read(running->ppe, job->job->id, stuck, idle_us,
			most == 0 ? NULL : &found->block[found->count], most);
	n = RTE_MAX(n, 0);
	taken = RTE_MIN((unsigned int)n, most);
	if (stuck)
		say_job(found, job, &stats, most == 0 ? NULL : &found->block[found->count], taken,
			(unsigned int)n == taken);
	found->total += (unsigned int)n;
	found->count += taken;
}

static int
oldest_first(const void *a, const void *b)
{
	uint64_t x = ((const struct ppe_block_info *)a)->age_us;
	uint64_t y = ((const struct ppe_block_info *)b)->age_us;

	return x > y ? -1 : x < y;
}

/* What the policy does, and when; null if it waits forever or has already acted. */
static json_t *
policy_in(const struct ppe_job *job, const struct ppe_block_info *block)
{
	double left = (double)job->timeout_ms / 1e3 - seconds(block->idle_us);

	if (!block->open || job->policy == PPE_POLICY_WAIT)
		return json_null();
	return json_real(left < 0 ? 0 : left);
}

static json_t *
block_json(struct found *found, const struct ppe_block_info *block)
{
	const struct ctrl_job *of = found->running->by_id[block->job];
	const struct ppe_job *job = of->job;
	json_t *object = json_object();

	api_put_text(object, "job", job->name);
	api_put(object, "block", block->block);
	api_put(object, "generation", block->generation);
	api_put_text(object, "state",
		!block->open                                      ? "done"
			: found->membership[block->job].abandoned ? "abandoned"
								  : "open");
	json_object_set_new(object, "age", json_real(seconds(block->age_us)));
	json_object_set_new(object, "idle", json_real(seconds(block->idle_us)));
	api_put(object, "heard", block->heard_count);
	api_put(object, "size", job->nb_sources);
	json_object_set_new(object, "missing", missing(found, of, block->heard));
	api_put_text(object, "policy", ctrl_policy_text(job->policy));
	json_object_set_new(object, "policy_in", policy_in(job, block));
	return object;
}

static void
answer_blocks(struct api_call *call, struct found *found)
{
	json_t *list = json_array(), *answer;

	if (found->count > 0)
		qsort(found->block, found->count, sizeof(*found->block), oldest_first);
	/* MISSING_MAX bounds an answer to some milliseconds: this thread serves other clients, too. */
	found->listed = 0;
	for (unsigned int i = 0;
		i < found->count && i < found->limit && found->listed < MISSING_MAX; i++)
		json_array_append_new(list, block_json(found, &found->block[i]));
	answer = json_pack("{s:o,s:I}", "blocks", list, "total", (json_int_t)found->total);
	if (found->stuck != NULL)
		json_object_set(answer, "stuck", found->stuck);
	api_answer(call, 200, answer);
}

void
api_get_blocks(struct api_call *call)
{
	const struct ctrl_running *running = call->running;
	const char *name = api_query(call->target, "job");
	struct found found = {.running = running, .whole = true};
	bool any = name == NULL;
	uint64_t stuck;

	if (!api_query_number(call, "stuck", 0, 1, 0, &stuck) ||
		!api_query_number(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &found.limit))
		return;
	found.stuck = stuck == 1 ? json_array() : NULL;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];

		if (!api_may_see(call, job) || (name != NULL && strcmp(job->job->name, name) != 0))
			continue;
		any = true;
		find(&found, job);
	}
	if (!any)
		api_error(call, 404, "unknown_job", "job", "no job is called \"%.64s\"", name);
	else if (!found.whole)
		api_error(call, 503, "busy", NULL,
			"no memory for the list of blocks; ask for one job");
	else
		answer_blocks(call, &found);
	json_decref(found.stuck);
	free(found.block);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/blocks: which block waits for which sources, since when, and what the policy will do; and
 * the same in sentences, which weirctl and the page print. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"
#include "ctrl/api/units.h"
#include "ctrl/config/tree.h"
#include "ctrl/jobs/parents.h"

#define LIMIT_DEFAULT 256
#define LIMIT_MAX     1024
#define FOUND_MAX     16384 /* blocks that an answer sorts by age */
#define MISSING_MAX   16384 /* entries of all lists of missing ranks in an answer */
#define STUCK_US      UINT64_C(1000000)

/* Limits of a sentence. */
#define SOURCES_NAMED 4 /* sources with address and state; of the others, the ranks */
#define RANGES_NAMED  8
#define BLOCKS_NAMED  64 /* in a list, for programs that compare lists of several switches */
#define FIRST_BYTES   16384 /* of the text, at first */
#define SOON          2.0 /* s; a waiting host sends more often */

/* An answer in progress: first sentences about each job, then the blocks. */
struct found {
	struct api_call *call;
	uint64_t limit; /* of each list in the answer */
	struct ppe_block_info after; /* list the blocks after this one; opened_us 0: all */
	bool is_diagnosing; /* only stuck blocks, and sentences about them */
	size_t listed; /* entries of all lists of missing ranks */
	json_t *sentences;
	struct ppe_block_info *block;
	unsigned int count;
	uint64_t total; /* blocks, including those that did not fit */
	bool is_complete; /* false: no memory for all */
	/* The last list of missing sources, as text: many blocks wait for the same sources. */
	const struct ctrl_job_snapshot *of;
	uint64_t heard[WEIR_SOURCES_MAX / 64];
	char *missing; /* NULL: none yet */
	size_t nb_missing;
};

/* Does the block wait for a parent's result? After a generation's end, no parent serves yet. */
static bool
waits_for_parent(const struct ctrl_job_snapshot *of, const struct ppe_block_info *block)
{
	return block->open && block->up && block->parent < of->shape.nb_parents;
}

static double
seconds(uint64_t us)
{
	return (double)us / 1e6;
}

/* The sources of a job that are not in `in`. A new list. */
static json_t *
missing(const struct ctrl_job_snapshot *of, const uint64_t in[WEIR_SOURCES_MAX / 64])
{
	json_t *list = json_array();

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		json_t *object;

		if (!api_has_rank(&of->job, s) || (in[s / 64] >> (s % 64) & 1) != 0)
			continue;
		object = json_object();
		api_put_presence(object, of, s);
		json_array_append_new(list, object);
	}
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

/* "4", or "4..7". */
static void
put_ranks(struct sentence *to, const char *before, unsigned int first, unsigned int count)
{
	put(to, "%srank%s %u", before, count == 1 ? "" : "s", first);
	if (count > 1)
		put(to, "..%u", first + count - 1);
}

/* "rank 2 (10.77.0.3)", "ranks 4..7 (10.77.1.254)", or "leaf1 (10.77.1.254, ranks 4..7)". */
static void
put_name(struct sentence *to, const json_t *source)
{
	const char *address = json_string_value(json_object_get(source, "address"));
	const char *name = json_string_value(json_object_get(source, "name"));
	unsigned int rank = (unsigned int)number(source, "rank");
	unsigned int ranks = RTE_MAX(1u, (unsigned int)number(source, "ranks"));

	if (name != NULL)
		put(to, "%s", name);
	else
		put_ranks(to, "", rank, ranks);
	if (address != NULL)
		put(to, " (%s", address);
	if (address != NULL && name != NULL)
		put_ranks(to, ", ", rank, ranks);
	if (address != NULL)
		put(to, ")");
}

/* "rank 2 (10.77.0.3), left 3.0 s ago, last heard 4.1 s ago" */
static void
name_source(struct sentence *to, const struct ctrl_job_snapshot *of, const json_t *source)
{
	unsigned int rank = (unsigned int)number(source, "rank");

	put_name(to, source);
	if (json_is_number(json_object_get(source, "asks"))) {
		put(to, ", %s has been asking to join for %s",
			json_is_true(json_object_get(source, "contested"))
				? "as which a second process"
				: "which",
			units_age(number(source, "asks")).text);
		return;
	}
	if (api_is_gone(&of->job, rank))
		put(to, ", %s", json_string_value(json_object_get(source, "state")));
	if (json_is_number(json_object_get(source, "gone")))
		put(to, " %s ago", units_age(number(source, "gone")).text);
	if (json_is_number(json_object_get(source, "last_heard")))
		put(to, ", last heard %s ago", units_age(number(source, "last_heard")).text);
	else
		put(to, ", never heard");
}

static void
name_sources(struct sentence *to, const struct ctrl_job_snapshot *of, const json_t *missing)
{
	size_t count = json_array_size(missing), nb_ranks = 0;
	uint64_t rank[WEIR_SOURCES_MAX];
	char text[256];

	for (size_t i = 0; i < count; i++) {
		const json_t *source = json_array_get(missing, i);
		uint64_t first = (uint64_t)number(source, "rank");
		uint64_t end = first + RTE_MAX(UINT64_C(1), (uint64_t)number(source, "ranks"));

		for (; i >= SOURCES_NAMED && first < end && nb_ranks < RTE_DIM(rank); first++)
			rank[nb_ranks++] = first;
		if (i >= SOURCES_NAMED)
			continue;
		if (i > 0)
			put(to, "%s", i + 1 == count ? "; and for " : "; ");
		name_source(to, of, source);
	}
	if (count <= SOURCES_NAMED)
		return;
	units_ranges(rank, nb_ranks, RANGES_NAMED, text, sizeof(text));
	put(to, "; and for %zu more: ranks %s", count - SOURCES_NAMED, text);
}

/* Will some of these never contribute in this generation? */
static bool
are_lost(const struct ctrl_job_snapshot *of, const json_t *missing)
{
	for (size_t i = 0; i < json_array_size(missing); i++) {
		const json_t *source = json_array_get(missing, i);

		if (json_is_number(json_object_get(source, "asks")) ||
			api_is_gone(&of->job, (unsigned int)number(source, "rank")))
			return true;
	}
	return false;
}

/* What the policy will do, between `first` and `last` seconds from now. */
static void
name_policy(struct sentence *to, const struct ctrl_job_snapshot *of, const json_t *missing,
	bool one_block, double first, double last)
{
	bool one = json_array_size(missing) == 1;
	const struct ppe_job *job = &of->shape;

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
	return json_array_size(found->sentences) >= found->limit || found->listed >= MISSING_MAX;
}

/* Why a job does not progress: the parts of a sentence, and a remark, which may be empty. */
struct cause {
	struct sentence what; /* "block 17 waits for" */
	struct sentence who; /* the sources or the parent */
	struct sentence then; /* what will happen, with the separator before it */
	struct sentence detail;
};

/* Add a sentence. missing: taken. Returns the entry; NULL: no memory. */
static json_t *
put_cause(struct found *found, const struct ctrl_job_snapshot *of, const char *reason,
	json_t *missing, const struct cause *cause)
{
	const char *detail = cause->detail.length == 0 ? NULL : cause->detail.text;
	struct sentence text = {.length = 0};
	json_t *entry;

	put(&text, "%s %s%s", cause->what.text, cause->who.text, cause->then.text);
	found->listed += json_array_size(missing);
	entry = json_pack("{ss ss so ss ss ss ss?}", "job", of->shape.name, "reason", reason,
		"missing", missing, "text", text.text, "what", cause->what.text, "who",
		cause->who.text, "detail", detail);
	json_array_append_new(found->sentences, entry);
	return entry;
}

/* Add the parent that an entry is about, and the address of its API. */
static void
put_parent(json_t *entry, const struct ctrl_job_snapshot *of, unsigned int parent)
{
	const json_t *shown = ctrl_tree_parent(of->job.shown, parent);

	api_put_text(entry, "parent", of->shape.parent[parent].name);
	api_put_text(entry, "api", json_string_value(json_object_get(shown, "api")));
}

/* "spine0 (10.78.0.254), last heard 4.1 s ago" */
static void
name_parent(struct sentence *to, const struct ctrl_job_snapshot *of, unsigned int parent)
{
	const struct ppe_parent_stats *stats = &of->parent[parent];

	put(to, "%s (%s)", of->shape.parent[parent].name,
		ctrl_address_text(of->shape.parent[parent].address).text);
	if (stats->heard)
		put(to, ", last heard %s ago", units_age(seconds(stats->silent_us)).text);
	else
		put(to, ", never heard");
}

/* Write the blocks' numbers as ranges. Returns the first BLOCKS_NAMED as a new list. */
static json_t *
name_blocks(const struct ppe_block_info *block, unsigned int count, char *ranges, size_t size)
{
	uint64_t *numbers = calloc(count, sizeof(*numbers));
	json_t *list = json_array();

	for (unsigned int i = 0; i < count && numbers != NULL; i++)
		numbers[i] = block[i].block;
	for (unsigned int i = 0; i < count && i < BLOCKS_NAMED; i++)
		json_array_append_new(list, json_integer(block[i].block));
	units_ranges(numbers, numbers == NULL ? 0 : count, RANGES_NAMED, ranges, size);
	free(numbers);
	return list;
}

/* Diagnose blocks that wait for the same sources or parent. all: no others do. */
static void
diagnose_blocks(struct found *found, const struct ctrl_job_snapshot *of,
	const struct ppe_block_info *block, unsigned int count, bool all)
{
	uint64_t oldest = 0, longest = 0, shortest = UINT64_MAX;
	bool up = waits_for_parent(of, block);
	json_t *sources = up ? json_array() : missing(of, block->heard), *entry, *numbers;
	struct cause cause = {.what = {.length = 0}};
	double timeout = of->shape.timeout_ms / 1e3;
	char ranges[256];

	for (unsigned int i = 0; i < count; i++) {
		oldest = RTE_MAX(oldest, block[i].age_us);
		longest = RTE_MAX(longest, block[i].idle_us);
		shortest = RTE_MIN(shortest, block[i].idle_us);
	}
	numbers = name_blocks(block, count, ranges, sizeof(ranges));
	if (count == 1)
		put(&cause.what, "block %s waits for", ranges);
	else
		put(&cause.what, "%s%u blocks %s wait for", all ? "" : "at least ", count, ranges);
	if (up) {
		name_parent(&cause.who, of, block->parent);
	} else {
		name_sources(&cause.who, of, sources);
		name_policy(&cause.then, of, sources, count == 1,
			RTE_MAX(0, timeout - seconds(longest)), timeout - seconds(shortest));
	}
	put(&cause.detail, "%s %s, no new contribution for %s",
		count == 1 ? "open for" : "the oldest open for", units_age(seconds(oldest)).text,
		units_age(seconds(shortest)).text);
	if (seconds(longest) > 1.1 * seconds(shortest) + 0.05)
		put(&cause.detail, " to %s", units_age(seconds(longest)).text);
	put(&cause.detail, "; %u of %u sources have contributed; generation %u", block->heard_count,
		of->shape.nb_sources, block->generation);
	entry = put_cause(found, of, up ? "parent" : "blocks", sources, &cause);
	json_object_set_new(entry, "blocks", numbers);
	if (up)
		put_parent(entry, of, block->parent);
}

/* Do two blocks wait for the same sources, or for the same parent? 0: yes. */
static int
compare_causes(const struct ppe_block_info *a, const struct ppe_block_info *b)
{
	if (a->generation != b->generation)
		return a->generation < b->generation ? -1 : 1;
	if (a->up != b->up)
		return a->up ? 1 : -1;
	if (a->up)
		return (int)a->parent - (int)b->parent;
	return memcmp(a->heard, b->heard, sizeof(a->heard));
}

static int
by_cause_and_number(const void *a, const void *b)
{
	const struct ppe_block_info *x = a, *y = b;
	int order = compare_causes(x, y);

	return order != 0 ? order : (x->block > y->block) - (x->block < y->block);
}

/* Some sources have joined and wait for the others. */
static void
diagnose_joining(struct found *found, const struct ctrl_job_snapshot *of)
{
	const struct ctrl_membership *membership = &of->membership;
	const struct ppe_job_stats *stats = &of->stats;
	json_t *sources = missing(of, membership->in);
	struct cause cause = {.what = {.length = 0}};

	put(&cause.what, "%s%u of %u sources have %s; waiting for",
		stats->generation == 0 ? "has not begun: " : "", membership->joined,
		of->shape.nb_sources, stats->generation == 0 ? "joined" : "joined again");
	name_sources(&cause.who, of, sources);
	put_cause(found, of, "join", sources, &cause);
}

/* Ranks of the tree that are not in a mask. */
static void
put_absent(struct sentence *to, const struct ppe_job *job, const uint64_t in[WEIR_SOURCES_MAX / 64])
{
	uint64_t rank[WEIR_SOURCES_MAX];
	size_t count = 0;
	char text[256];

	for (unsigned int r = 0; r < job->tree_ranks; r++)
		if ((in[r / 64] >> (r % 64) & 1) == 0)
			rank[count++] = r;
	if (count == 0)
		return;
	units_ranges(rank, count, RANGES_NAMED, text, sizeof(text));
	put(to, "; there, rank%s %s ha%s not joined", count == 1 ? "" : "s", text,
		count == 1 ? "s" : "ve");
}

/* All sources have joined, and the switch waits for its parents to accept its own joins. */
static void
diagnose_parents(struct found *found, const struct ctrl_job_snapshot *of)
{
	const struct ppe_job_stats *stats = &of->stats;

	for (unsigned int p = 0; p < of->shape.nb_parents && !is_full(found); p++) {
		const struct ppe_parent_stats *parent = &of->parent[p];
		struct cause cause = {.what = {.length = 0}};

		if (!parent->joining)
			continue;
		put(&cause.what, "%s%u of %u sources have %s; waiting for",
			stats->generation == 0 ? "has not begun: " : "", of->shape.nb_sources,
			of->shape.nb_sources, stats->generation == 0 ? "joined" : "joined again");
		name_parent(&cause.who, of, p);
		if (parent->refused != PPE_PARENT_AGREES)
			put(&cause.then, "; %s", ctrl_parent_refusal(parent).text);
		else if (parent->heard)
			put_absent(&cause.then, &of->shape, parent->joined);
		put_parent(put_cause(found, of, "join", json_array(), &cause), of, p);
	}
}

/* Set `in` to all sources but those that are silent while others repeat their packets. */
static void
find_silent(const struct ctrl_job_snapshot *of, uint64_t in[WEIR_SOURCES_MAX / 64])
{
	double silent[WEIR_SOURCES_MAX], least = INFINITY;
	double patience = RTE_MAX(1.0, of->shape.timeout_ms / 1e3);

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		if (!api_has_rank(&of->job, s) || !api_silence(of, s, &silent[s]))
			silent[s] = NAN;
		least = fmin(least, silent[s]);
	}
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (!(least < SOON && silent[s] > least + patience &&
			    ctrl_membership_has(&of->membership, s)))
			in[s / 64] |= UINT64_C(1) << (s % 64);
}

/* Sources that do not acknowledge results hold up the others, which are two windows ahead, until
 * the switch expels them. */
static void
diagnose_unacknowledged(struct found *found, const struct ctrl_job_snapshot *of)
{
	uint64_t in[WEIR_SOURCES_MAX / 64] = {0};
	struct cause cause = {.what = {.length = 0}};
	json_t *sources;
	bool one;

	find_silent(of, in);
	sources = missing(of, in);
	if (json_array_size(sources) == 0) {
		json_decref(sources);
		return;
	}
	one = json_array_size(sources) == 1;
	put(&cause.what, "its results wait for the acknowledgement of");
	name_sources(&cause.who, of, sources);
	if (of->shape.dead_after_ms > 0)
		put(&cause.then, "; policy %s: after %s of silence the others continue without %s",
			ctrl_policy_text(of->shape.policy),
			units_age(of->shape.dead_after_ms / 1e3).text, one ? "it" : "them");
	else
		put(&cause.then, "; the switch expels no source: nothing will happen until %s",
			one ? "it sends" : "they send");
	put_cause(found, of, "acknowledgement", sources, &cause);
}

/* What the job's hosts wait for while no block is open. */
static void
diagnose_rest(struct found *found, const struct ctrl_job_snapshot *of)
{
	const struct ctrl_membership *membership = &of->membership;
	const struct ppe_job_stats *stats = &of->stats;

	/* If no host has joined or joins again, no host waits. */
	if (membership->state == CTRL_JOB_JOINING && membership->joined > 0 &&
		(membership->is_join_requested || stats->generation == 0)) {
		if (membership->joined < of->shape.nb_sources)
			diagnose_joining(found, of);
		else
			diagnose_parents(found, of);
	}
	/* While all sources live and contribute, half of the buffers are enough. */
	if (membership->state == CTRL_JOB_RUNNING && ppe_policy_sends_partial(of->shape.policy) &&
		stats->blocks_in_flight == 0 && stats->buffers_used > of->shape.window)
		diagnose_unacknowledged(found, of);
}

/* Add the sentences: why the job does not progress. Its stuck blocks are sorted by cause. all: the
 * job has no others. */
static void
diagnose(struct found *found, const struct ctrl_job_snapshot *of,
	const struct ppe_block_info *block, unsigned int count, bool all)
{
	for (unsigned int at = 0, next; at < count && !is_full(found); at = next) {
		for (next = at + 1; next < count && compare_causes(&block[at], &block[next]) == 0;
			next++)
			;
		diagnose_blocks(found, of, &block[at], next - at, all);
	}
	if (!is_full(found))
		diagnose_rest(found, of);
}

/* Is the block of interest? */
static bool
is_wanted(const struct found *found, const struct ctrl_job_snapshot *of,
	const struct ppe_block_info *block)
{
	uint64_t timeout_us = of->shape.timeout_ms * UINT64_C(1000);

	if (!found->is_diagnosing)
		return true;
	/* No host waits for the blocks of an abandoned job. */
	return !of->membership.is_abandoned && block->open &&
		block->idle_us >= RTE_MIN(timeout_us, STUCK_US);
}

/* Take the job's blocks, and say what is stuck. */
static void
find_blocks(struct found *found, const struct ctrl_job_snapshot *of)
{
	unsigned int first = found->count, most = RTE_MIN(of->nb_blocks, FOUND_MAX - first);
	uint64_t before = found->total;
	struct ppe_block_info *more =
		realloc(found->block, (first + most + 1) * sizeof(*found->block));

	found->is_complete &= of->has_all_blocks && more != NULL;
	if (more == NULL)
		return;
	found->block = more;
	for (unsigned int i = 0; i < of->nb_blocks; i++) {
		if (!is_wanted(found, of, &of->block[i]))
			continue;
		found->total++;
		if (found->count < FOUND_MAX)
			found->block[found->count++] = of->block[i];
	}
	if (!found->is_diagnosing)
		return;
	qsort(&found->block[first], found->count - first, sizeof(*found->block),
		by_cause_and_number);
	diagnose(found, of, &found->block[first], found->count - first,
		of->has_all_blocks && found->total - before == found->count - first);
}

static int
oldest_first(const void *a, const void *b)
{
	const struct ppe_block_info *x = a, *y = b;

	if (x->opened_us != y->opened_us)
		return x->opened_us < y->opened_us ? -1 : 1;
	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	return (x->block > y->block) - (x->block < y->block);
}

/* Seconds until the policy acts; null if it waits forever or has acted. */
static json_t *
policy_in(const struct ppe_job *job, const struct ppe_block_info *block)
{
	double left = (double)job->timeout_ms / 1e3 - seconds(block->idle_us);

	if (!block->open || block->up || job->policy == PPE_POLICY_WAIT)
		return json_null();
	return json_real(left < 0 ? 0 : left);
}

static const char *
missing_text(
	struct found *found, const struct ctrl_job_snapshot *of, const struct ppe_block_info *block)
{
	if (waits_for_parent(of, block))
		return "[]";
	if (found->missing == NULL || found->of != of ||
		memcmp(found->heard, block->heard, sizeof(found->heard)) != 0) {
		json_t *list = missing(of, block->heard);

		free(found->missing);
		found->missing = json_dumps(list, JSON_COMPACT);
		found->nb_missing = json_array_size(list);
		found->of = of;
		memcpy(found->heard, block->heard, sizeof(found->heard));
		json_decref(list);
	}
	found->listed += found->nb_missing;
	return found->missing == NULL ? "[]" : found->missing;
}

static void
put_block(struct found *found, const struct ctrl_job_snapshot *of,
	const struct ppe_block_info *block, bool is_first)
{
	const struct ppe_job *job = &of->shape;
	json_t *object = json_object();

	api_put_text(object, "job", job->name);
	api_put(object, "block", block->block);
	api_put(object, "generation", block->generation);
	api_put_text(object, "state",
		!block->open                          ? "done"
			: of->membership.is_abandoned ? "abandoned"
			: waits_for_parent(of, block) ? "up"
						      : "open");
	if (waits_for_parent(of, block))
		json_object_set_new(object, "waits_for",
			json_pack("{ss}", "parent", job->parent[block->parent].name));
	json_object_set_new(object, "age", json_real(seconds(block->age_us)));
	json_object_set_new(object, "idle", json_real(seconds(block->idle_us)));
	api_put(object, "heard", block->heard_count);
	api_put(object, "size", job->nb_sources);
	api_put_text(object, "policy", ctrl_policy_text(job->policy));
	json_object_set_new(object, "policy_in", policy_in(job, block));
	api_text_put(&found->call->text, is_first ? "{" : ",{");
	api_text_put_object(&found->call->text, object, JSON_EMBED);
	api_text_put(&found->call->text, ",\"missing\":");
	api_text_put(&found->call->text, missing_text(found, of, block));
	api_text_put(&found->call->text, "}");
}

/* Read "OPENED-JOB-BLOCK", the `next` of a page. False: wrong syntax; the call is answered. */
static bool
read_after(struct api_call *call, struct ppe_block_info *after)
{
	const char *text = api_query(call->target, "after");
	int end = 0;

	if (text == NULL ||
		(sscanf(text, "%" SCNu64 "-%" SCNu8 "-%" SCNu32 "%n", &after->opened_us,
			 &after->job, &after->block, &end) == 3 &&
			text[end] == '\0'))
		return true;
	api_error(call, 400, "wrong_type", "after", "not the \"next\" of another page");
	return false;
}

/* Put the blocks, the oldest first, as many as fit. Sets *last to the last one of a page that has
 * more behind it; NULL: there are no more. */
static void
list_blocks(struct found *found, const struct ppe_block_info **last)
{
	unsigned int count = 0;

	if (found->count > 0)
		qsort(found->block, found->count, sizeof(*found->block), oldest_first);
	found->listed = 0;
	*last = NULL;
	for (unsigned int i = 0; i < found->count; i++) {
		const struct ppe_block_info *block = &found->block[i];

		if (oldest_first(block, &found->after) <= 0)
			continue;
		/* The answer is in memory as a whole: MISSING_MAX limits it to some megabytes. */
		if (count == found->limit || found->listed >= MISSING_MAX)
			return;
		put_block(found, found->call->seen->by_id[block->job], block, count++ == 0);
		*last = block;
	}
	*last = NULL;
}

static void
answer_blocks(struct found *found)
{
	struct api_text *text = &found->call->text;
	const struct ppe_block_info *last;
	char next[64] = "";

	api_text_begin(text, FIRST_BYTES);
	api_text_put(text, "{\"blocks\":[");
	list_blocks(found, &last);
	if (last != NULL)
		snprintf(next, sizeof(next), "%" PRIu64 "-%u-%u", last->opened_us, last->job,
			last->block);
	api_text_put(text, "],");
	api_text_put_object(text,
		json_pack("{s:I,s:s*,s:O*}", "total", (json_int_t)found->total, "next",
			last != NULL ? next : NULL, "stuck",
			found->is_diagnosing ? found->sentences : NULL),
		JSON_EMBED);
	api_text_put(text, "}\n");
	api_answer_text(found->call, "application/json");
}

void
api_get_blocks(struct api_call *call)
{
	struct found found = {.call = call, .is_complete = true};
	const char *name = api_query(call->target, "job");
	bool has_job = name == NULL;
	uint64_t stuck;

	if (!api_query_number(call, "stuck", 0, 1, 0, &stuck) ||
		!api_query_number(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &found.limit) ||
		!read_after(call, &found.after))
		return;
	found.is_diagnosing = stuck == 1;
	found.sentences = json_array();
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job_snapshot *job = call->seen->by_id[i];

		if (job == NULL || !api_may_see(call, &job->job) ||
			(name != NULL && strcmp(job->shape.name, name) != 0))
			continue;
		has_job = true;
		find_blocks(&found, job);
	}
	if (!has_job)
		api_error(call, 404, "unknown_job", "job", "no job is called \"%.64s\"", name);
	else if (!found.is_complete)
		api_error(call, 503, "busy", NULL,
			"no memory for the list of blocks; ask for one job");
	else
		answer_blocks(&found);
	free(found.missing);
	json_decref(found.sentences);
	free(found.block);
}

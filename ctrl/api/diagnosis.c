/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/diagnosis.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/jobs.h"
#include "ctrl/api/units.h"
#include "ctrl/config/tree.h"

/* Limits of a sentence. */
#define SOURCES_NAMED 4 /* sources with address and state; of the others, the ranks */
#define RANGES_NAMED  8
#define BLOCKS_NAMED  64 /* in a list, for programs that compare lists of several switches */
#define SOON          2.0 /* s; a waiting host sends more often */

bool
api_waits_for_parent(const struct ctrl_job_snapshot *of, const struct ppe_block_info *block)
{
	return block->open && block->up && block->parent < of->shape.nb_parents;
}

static double
seconds(uint64_t us)
{
	return (double)us / 1e6;
}

json_t *
api_missing(const struct ctrl_job_snapshot *of, const uint64_t in[WEIR_SOURCES_MAX / 64])
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

/* "rank 2", "ranks 1, 4..7", "leaf0, leaf1": for titles, so without what changes each second. */
static void
name_briefly(struct sentence *to, const json_t *missing)
{
	size_t count = json_array_size(missing), nb_ranks = 0;
	uint64_t rank[WEIR_SOURCES_MAX];
	char text[128];

	for (size_t i = 0; i < count; i++) {
		const json_t *source = json_array_get(missing, i);
		const char *name = json_string_value(json_object_get(source, "name"));

		if (name == NULL)
			rank[nb_ranks++] = (uint64_t)number(source, "rank");
		else if (i < SOURCES_NAMED)
			put(to, "%s%s", to->length == 0 ? "" : ", ", name);
	}
	units_ranges(rank, nb_ranks, SOURCES_NAMED, text, sizeof(text));
	if (nb_ranks > 0)
		put(to, "%srank%s %s", to->length == 0 ? "" : ", ", nb_ranks == 1 ? "" : "s", text);
	else if (count > SOURCES_NAMED)
		put(to, " and %zu more", count - SOURCES_NAMED);
}

/* Is one of these likely dead? */
static bool
are_silent(const json_t *missing)
{
	for (size_t i = 0; i < json_array_size(missing); i++)
		if (json_is_true(json_object_get(json_array_get(missing, i), "silent")))
			return true;
	return false;
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

/* Are there as many entries as the answer may have? */
static bool
is_full(const struct api_diagnosis *diagnosis)
{
	return json_array_size(diagnosis->entries) >= diagnosis->limit ||
		diagnosis->listed >= API_MISSING_MAX;
}

/* Why a job does not progress, or what else is wrong with it. */
struct cause {
	struct sentence text;
	struct sentence detail; /* a remark, which may be empty */
	const char *reason;
	enum { CAUSE_FAILURE, CAUSE_WARNING, CAUSE_NOTE } severity;
};

/* Add a cause to a list. missing: taken. Returns the entry; NULL: no memory. */
static json_t *
put_cause(json_t *list, const struct ctrl_job_snapshot *of, json_t *missing,
	const struct cause *cause)
{
	static const char *const severities[] = {"failure", "warning", "note"};
	struct sentence who = {.length = 0};
	json_t *object = json_object();

	name_briefly(&who, missing);
	API_CAUSE(API_PUT, API_SKIP)
	json_array_append_new(list, object);
	return object;
}

/* Add why a job waits for sources. missing: taken. Returns the entry; NULL: no memory. */
static json_t *
put_stuck(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of, json_t *missing,
	struct cause *cause)
{
	diagnosis->listed += json_array_size(missing);
	if (cause->severity != CAUSE_NOTE)
		cause->severity = are_silent(missing) ? CAUSE_FAILURE : CAUSE_WARNING;
	return put_cause(diagnosis->entries, of, missing, cause);
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

/* Add why a job waits for a parent, its name and the address of its API. Returns the entry. */
static json_t *
put_parent(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of, unsigned int parent,
	struct cause *cause)
{
	const struct ppe_parent_stats *stats = &of->parent[parent];
	const json_t *shown = ctrl_tree_parent(of->job.shown, parent);
	json_t *entry;

	if (cause->severity != CAUSE_NOTE)
		cause->severity = stats->heard && stats->silent_us <= API_SILENT_US ? CAUSE_WARNING
										    : CAUSE_FAILURE;
	entry = put_cause(diagnosis->entries, of, json_array(), cause);
	api_put_text(entry, "who", of->shape.parent[parent].name);
	api_put_text(entry, "parent", of->shape.parent[parent].name);
	api_put_text(entry, "api", json_string_value(json_object_get(shown, "api")));
	return entry;
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
diagnose_blocks(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of,
	const struct ppe_block_info *block, unsigned int count, bool all)
{
	uint64_t oldest = 0, longest = 0, shortest = UINT64_MAX;
	bool up = api_waits_for_parent(of, block);
	json_t *sources = up ? NULL : api_missing(of, block->heard), *entry, *numbers;
	struct cause cause = {.reason = up ? "parent" : "blocks", .severity = CAUSE_WARNING};
	double timeout = of->shape.timeout_ms / 1e3;
	char ranges[256];

	for (unsigned int i = 0; i < count; i++) {
		oldest = RTE_MAX(oldest, block[i].age_us);
		longest = RTE_MAX(longest, block[i].idle_us);
		shortest = RTE_MIN(shortest, block[i].idle_us);
	}
	numbers = name_blocks(block, count, ranges, sizeof(ranges));
	if (count == 1)
		put(&cause.text, "block %s waits for ", ranges);
	else
		put(&cause.text, "%s%u blocks %s wait for ", all ? "" : "at least ", count, ranges);
	if (up) {
		name_parent(&cause.text, of, block->parent);
	} else {
		name_sources(&cause.text, of, sources);
		name_policy(&cause.text, of, sources, count == 1,
			RTE_MAX(0, timeout - seconds(longest)), timeout - seconds(shortest));
	}
	put(&cause.detail, "%s %s, no new contribution for %s",
		count == 1 ? "open for" : "the oldest open for", units_age(seconds(oldest)).text,
		units_age(seconds(shortest)).text);
	if (seconds(longest) > 1.1 * seconds(shortest) + 0.05)
		put(&cause.detail, " to %s", units_age(seconds(longest)).text);
	put(&cause.detail, "; %u of %u sources have contributed; generation %u", block->heard_count,
		of->shape.nb_sources, block->generation);
	entry = up ? put_parent(diagnosis, of, block->parent, &cause)
		   : put_stuck(diagnosis, of, sources, &cause);
	json_object_set_new(entry, "blocks", numbers);
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
diagnose_joining(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of)
{
	const struct ctrl_membership *membership = &of->membership;
	const struct ppe_job_stats *stats = &of->stats;
	json_t *sources = api_missing(of, membership->in);
	struct cause cause = {.reason = "join", .severity = CAUSE_NOTE};

	put(&cause.text, "%s%u of %u sources have %s; waiting for ",
		stats->generation == 0 ? "has not begun: " : "", membership->joined,
		of->shape.nb_sources, stats->generation == 0 ? "joined" : "joined again");
	name_sources(&cause.text, of, sources);
	put_stuck(diagnosis, of, sources, &cause);
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
diagnose_parents(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of)
{
	const struct ppe_job_stats *stats = &of->stats;

	for (unsigned int p = 0; p < of->shape.nb_parents && !is_full(diagnosis); p++) {
		const struct ppe_parent_stats *parent = &of->parent[p];
		struct cause cause = {.reason = "join", .severity = CAUSE_NOTE};

		if (!parent->joining)
			continue;
		put(&cause.text, "%s%u of %u sources have %s; waiting for ",
			stats->generation == 0 ? "has not begun: " : "", of->shape.nb_sources,
			of->shape.nb_sources, stats->generation == 0 ? "joined" : "joined again");
		name_parent(&cause.text, of, p);
		if (parent->refused != PPE_PARENT_AGREES)
			put(&cause.text, "; %s", ctrl_parent_refusal(parent).text);
		else if (parent->heard)
			put_absent(&cause.text, &of->shape, parent->joined);
		put_parent(diagnosis, of, p, &cause);
	}
}

/* The members that are silent for longer than the timeout, at least for `patience` seconds, while
 * others send. A new list. */
static json_t *
find_silent(const struct ctrl_job_snapshot *of, double patience)
{
	double silent[WEIR_SOURCES_MAX], least = INFINITY;
	uint64_t in[WEIR_SOURCES_MAX / 64] = {0};

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		if (!api_has_rank(&of->job, s) || !api_silence(of, s, &silent[s]))
			silent[s] = NAN;
		least = fmin(least, silent[s]);
	}
	patience = RTE_MAX(patience, of->shape.timeout_ms / 1e3);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (!(least < SOON && silent[s] > least + patience &&
			    ctrl_membership_has(&of->membership, s)))
			in[s / 64] |= UINT64_C(1) << (s % 64);
	return api_missing(of, in);
}

/* Sources that do not acknowledge results hold up the others, which are two windows ahead, until
 * the switch expels them. */
static void
diagnose_unacknowledged(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of)
{
	struct cause cause = {.reason = "acknowledgement", .severity = CAUSE_WARNING};
	json_t *sources = find_silent(of, 1.0);
	bool one;

	if (json_array_size(sources) == 0) {
		json_decref(sources);
		return;
	}
	one = json_array_size(sources) == 1;
	put(&cause.text, "its results wait for the acknowledgement of ");
	name_sources(&cause.text, of, sources);
	if (of->shape.dead_after_ms > 0)
		put(&cause.text, "; policy %s: after %s of silence the others continue without %s",
			ctrl_policy_text(of->shape.policy),
			units_age(of->shape.dead_after_ms / 1e3).text, one ? "it" : "them");
	else
		put(&cause.text, "; the switch expels no source: nothing will happen until %s",
			one ? "it sends" : "they send");
	put_stuck(diagnosis, of, sources, &cause);
}

/* What the job's hosts wait for while no block is open. */
static void
diagnose_rest(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of)
{
	const struct ctrl_membership *membership = &of->membership;
	const struct ppe_job_stats *stats = &of->stats;

	/* If no host has joined or joins again, no host waits. */
	if (membership->state == CTRL_JOB_JOINING && membership->joined > 0 &&
		(membership->is_join_requested || stats->generation == 0)) {
		if (membership->joined < of->shape.nb_sources)
			diagnose_joining(diagnosis, of);
		else
			diagnose_parents(diagnosis, of);
	}
	/* While all sources live and contribute, half of the buffers are enough. */
	if (membership->state == CTRL_JOB_RUNNING && ppe_policy_sends_partial(of->shape.policy) &&
		stats->blocks_in_flight == 0 && stats->buffers_used > of->shape.window)
		diagnose_unacknowledged(diagnosis, of);
}

void
api_diagnose(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of,
	struct ppe_block_info *block, unsigned int count, bool all)
{
	qsort(block, count, sizeof(*block), by_cause_and_number);
	for (unsigned int at = 0, next; at < count && !is_full(diagnosis); at = next) {
		for (next = at + 1; next < count && compare_causes(&block[at], &block[next]) == 0;
			next++)
			;
		diagnose_blocks(diagnosis, of, &block[at], next - at, all);
	}
	if (!is_full(diagnosis))
		diagnose_rest(diagnosis, of);
}

/* -- remarks about a job, stuck or not */

/* The sources with a property. A new list. */
static json_t *
those(const struct ctrl_job_snapshot *of,
	bool (*is)(const struct ctrl_job_snapshot *of, unsigned int rank))
{
	uint64_t in[WEIR_SOURCES_MAX / 64] = {0};

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (!api_has_rank(&of->job, s) || !is(of, s))
			in[s / 64] |= UINT64_C(1) << (s % 64);
	return api_missing(of, in);
}

static bool
is_contested(const struct ctrl_job_snapshot *of, unsigned int rank)
{
	return of->source[rank].contested;
}

static bool
is_expired(const struct ctrl_job_snapshot *of, unsigned int rank)
{
	return of->job.member != NULL && of->job.member[rank].state == CTRL_MEMBER_EXPIRED;
}

/* The source for which blocks waited for most of the time, and for a hundredth of the job's life;
 * WEIR_SOURCES_MAX: none. Sets its share of the waiting. */
static unsigned int
find_late(const struct ctrl_job_snapshot *of, double *share)
{
	unsigned int worst = WEIR_SOURCES_MAX, size = of->shape.nb_sources;
	uint64_t sum = 0, most = 0;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		uint64_t waited =
			api_has_rank(&of->job, s) ? of->source[s].waited_us + of->waiting_us[s] : 0;

		sum += waited;
		if (waited > most) {
			most = waited;
			worst = s;
		}
	}
	*share = sum > 0 ? (double)most / (double)sum : 0;
	return size > 1 && *share >= RTE_MAX(0.5, RTE_MIN(0.8, 2.0 / size)) &&
			seconds(most) > 0.01 * (ctrl_monotonic() - of->job.created_monotonic)
		? worst
		: WEIR_SOURCES_MAX;
}

/* Add a remark about sources, unless there are none. missing: taken. */
static void
put_remark(json_t *list, const struct ctrl_job_snapshot *of, const char *before, json_t *missing,
	struct cause *cause)
{
	if (json_array_size(missing) == 0) {
		json_decref(missing);
		return;
	}
	put(&cause->text, "%s", before);
	name_sources(&cause->text, of, missing);
	put_cause(list, of, missing, cause);
}

json_t *
api_job_remarks(const struct ctrl_job_snapshot *of)
{
	json_t *list = json_array(), *contested = those(of, is_contested), *source;
	double share;
	unsigned int late = find_late(of, &share);
	size_t i;

	json_array_foreach (contested, i, source) {
		struct cause cause = {.reason = "contested", .severity = CAUSE_WARNING};

		put(&cause.text, "two processes join as ");
		put_name(&cause.text, source);
		put(&cause.text, ": end one of them, or give it another rank");
		put_cause(list, of, json_pack("[O]", source), &cause);
	}
	json_decref(contested);
	/* A job that all members left has ended. */
	if (of->membership.state != CTRL_JOB_IDLE)
		put_remark(list, of, "lacks ", those(of, is_expired),
			&(struct cause){.reason = "expired", .severity = CAUSE_FAILURE});
	if (of->membership.state == CTRL_JOB_RUNNING && of->stats.blocks_in_flight > 0)
		put_remark(list, of, "others send, and nothing comes from ",
			find_silent(of, API_SILENT_US / 1e6),
			&(struct cause){.reason = "silent", .severity = CAUSE_FAILURE});
	if (late < WEIR_SOURCES_MAX) {
		struct cause cause = {.reason = "late", .severity = CAUSE_NOTE};
		json_t *one = json_object();

		api_put_presence(one, of, late);
		put_name(&cause.text, one);
		put(&cause.text, " caused %s of the time that blocks waited for their last source",
			units_share(share).text);
		put_cause(list, of, json_pack("[o]", one), &cause);
	}
	return list;
}

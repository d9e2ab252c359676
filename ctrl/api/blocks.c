/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/blocks: which block waits for which sources, since when, and what the policy will do. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/api/diagnosis.h"
#include "ctrl/api/jobs.h"

#define FOUND_MAX   16384 /* blocks that an answer sorts by age */
#define STUCK_US    UINT64_C(1000000)
#define FIRST_BYTES 16384 /* of the text, at first */

/* An answer in progress: first sentences about each job, then the blocks. */
struct found {
	struct api_call *call;
	uint64_t limit; /* of each list in the answer */
	struct ppe_block_info after; /* list the blocks after this one; opened_us 0: all */
	bool is_diagnosing; /* only stuck blocks, and sentences about them */
	size_t listed; /* entries of all lists of missing ranks */
	struct api_diagnosis diagnosis;
	struct ppe_block_info *block;
	unsigned int count;
	uint64_t total; /* blocks, including those that did not fit */
	bool is_complete; /* false: no memory for all */
	/* The last list of missing sources: many blocks wait for the same ones. */
	const struct ctrl_job_snapshot *of;
	uint64_t heard[WEIR_SOURCES_MAX / 64];
	json_t *missing; /* NULL: none yet */
};

static double
seconds(uint64_t us)
{
	return (double)us / 1e6;
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
	if (found->is_diagnosing)
		api_diagnose(&found->diagnosis, of, &found->block[first], found->count - first,
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

/* Seconds until the policy acts; NaN if it waits forever or has acted. */
static double
policy_in(const struct ppe_job *job, const struct ppe_block_info *block)
{
	double left = (double)job->timeout_ms / 1e3 - seconds(block->idle_us);

	if (!block->open || block->up || job->policy == PPE_POLICY_WAIT)
		return (double)NAN;
	return left < 0 ? 0 : left;
}

/* The sources that the block lacks: the list of the block before, where it is equal. */
static json_t *
missing_json(
	struct found *found, const struct ctrl_job_snapshot *of, const struct ppe_block_info *block)
{
	if (api_waits_for_parent(of, block))
		return json_array();
	if (found->missing == NULL || found->of != of ||
		memcmp(found->heard, block->heard, sizeof(found->heard)) != 0) {
		json_decref(found->missing);
		found->missing = api_missing(of, block->heard);
		found->of = of;
		memcpy(found->heard, block->heard, sizeof(found->heard));
	}
	found->listed += json_array_size(found->missing);
	return json_incref(found->missing);
}

static const char *
block_state(const struct ctrl_job_snapshot *of, const struct ppe_block_info *block)
{
	if (!block->open)
		return "done";
	if (of->membership.is_abandoned)
		return "abandoned";
	return api_waits_for_parent(of, block) ? "up" : "open";
}

/* NULL: it waits for no parent. */
static json_t *
waits_for_json(const struct ctrl_job_snapshot *of, const struct ppe_block_info *block)
{
	const struct ppe_job *job = &of->shape;
	json_t *object;

	if (!api_waits_for_parent(of, block))
		return NULL;
	object = json_object();
	API_WAITS_FOR(API_PUT, API_SKIP)
	return object;
}

static json_t *
block_json(
	struct found *found, const struct ctrl_job_snapshot *of, const struct ppe_block_info *block)
{
	const struct ppe_job *job = &of->shape;
	json_t *object = json_object();

	API_BLOCK(API_PUT, API_SKIP)
	return object;
}

/* Read "OPENED-JOB-BLOCK", the `next` of a page. False: wrong syntax; the call is answered. */
static bool
read_after(struct api_call *call, struct ppe_block_info *after)
{
	const char *text = api_query_text(call, "after");
	int end = 0;

	if (text == NULL ||
		(sscanf(text, "%" SCNu64 "-%" SCNu8 "-%" SCNu32 "%n", &after->opened_us,
			 &after->job, &after->block, &end) == 3 &&
			text[end] == '\0'))
		return true;
	api_error(call, 400, "wrong_type", "after", "not the \"next\" of another page");
	return false;
}

/* The blocks, the oldest first, as many as fit. Sets *last to the last one of a page that has more
 * behind it; NULL: there are no more. */
static json_t *
blocks_json(struct found *found, const struct ppe_block_info **last)
{
	json_t *list = json_array();

	if (found->count > 0)
		qsort(found->block, found->count, sizeof(*found->block), oldest_first);
	found->listed = 0;
	*last = NULL;
	for (unsigned int i = 0; i < found->count; i++) {
		const struct ppe_block_info *block = &found->block[i];

		if (oldest_first(block, &found->after) <= 0)
			continue;
		/* The answer is in memory as a whole: API_MISSING_MAX keeps it to some MiB. */
		if (json_array_size(list) == found->limit || found->listed >= API_MISSING_MAX)
			return list;
		json_array_append_new(
			list, block_json(found, found->call->seen->by_id[block->job], block));
		*last = block;
	}
	*last = NULL;
	return list;
}

static void
answer_blocks(struct found *found)
{
	const struct ppe_block_info *last;
	json_t *object = json_object(), *blocks = blocks_json(found, &last);
	char next[64];

	API_BLOCKS(API_PUT, API_SKIP)
	if (last != NULL) {
		snprintf(next, sizeof(next), "%" PRIu64 "-%u-%u", last->opened_us, last->job,
			last->block);
		api_put_text(object, "next", next);
	}
	api_answer(found->call, 200, object);
}

void
api_get_blocks(struct api_call *call)
{
	struct found found = {.call = call, .is_complete = true};
	const char *name = api_query_text(call, "job");
	bool has_job = name == NULL;

	if (!read_after(call, &found.after))
		return;
	found.limit = api_query_number(call, "limit");
	found.is_diagnosing = api_query_number(call, "stuck") == 1;
	found.diagnosis = (struct api_diagnosis){.entries = json_array(), .limit = found.limit};
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
	json_decref(found.missing);
	json_decref(found.diagnosis.entries);
	free(found.block);
}

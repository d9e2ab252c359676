/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/blocks: which block waits for which sources, since when, and what the policy will do. */
#include <errno.h>
#include <stdlib.h>

#include "ctrl/api/call.h"
#include "ctrl/api/jobs.h"

#define LIMIT_DEFAULT 256
#define LIMIT_MAX     1024
#define FOUND_MAX     16384 /* blocks that are sorted by age */
#define MISSING_MAX   16384 /* entries of all lists of missing ranks in an answer */
#define STUCK_US      UINT64_C(1000000)

/* The blocks found, and their jobs. */
struct found {
	struct ppe_block_info *block;
	unsigned int count, room;
	uint64_t total; /* including those that did not fit */
	bool whole; /* false: no memory for all */
	struct ctrl_membership membership[WEIR_JOBS_MAX]; /* of the jobs, by id */
};

static void
find(struct found *found, const struct ctrl_running *running, const struct ctrl_job *job,
	bool stuck)
{
	uint64_t timeout_us = job->job->timeout_ms * UINT64_C(1000);
	uint64_t idle_us = stuck ? RTE_MIN(timeout_us, STUCK_US) : 0;
	unsigned int most = RTE_MIN(2u * job->job->window, FOUND_MAX - found->count);
	struct ctrl_membership *membership = &found->membership[job->job->id];
	struct ppe_job_stats stats;
	int n;

	ctrl_running_job_stats(running, job, &stats);
	ctrl_membership_of(running, job, &stats, membership);
	/* An abandoned job is not stuck. */
	if (stuck && membership->abandoned)
		return;
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
	n = ppe_blocks_read(running->ppe, job->job->id, stuck, idle_us,
		most == 0 ? NULL : &found->block[found->count], most);
	if (n <= 0)
		return;
	found->total += (unsigned int)n;
	found->count += RTE_MIN((unsigned int)n, most);
}

static int
oldest_first(const void *a, const void *b)
{
	uint64_t x = ((const struct ppe_block_info *)a)->age_us;
	uint64_t y = ((const struct ppe_block_info *)b)->age_us;

	return x > y ? -1 : x < y;
}

static double
seconds(uint64_t us)
{
	return (double)us / 1e6;
}

static json_t *
missing(const struct ctrl_running *running, const struct ctrl_job *of,
	const struct ctrl_membership *membership, const struct ppe_block_info *block)
{
	const struct ppe_job *job = of->job;
	json_t *list = json_array();

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		struct ppe_source_stats source;
		json_t *object;

		if (!api_has_rank(of, s) || (block->heard[s / 64] >> (s % 64) & 1) != 0)
			continue;
		object = json_object();
		ppe_source_stats_read(running->ppe, job->id, (uint8_t)s, &source);
		api_put_presence(object, of, membership, s, &source);
		json_array_append_new(list, object);
	}
	return list;
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
block_json(const struct ctrl_running *running, const struct ctrl_membership *membership,
	const struct ppe_block_info *block)
{
	const struct ctrl_job *of = running->by_id[block->job];
	const struct ppe_job *job = of->job;
	json_t *object = json_object();

	api_put_text(object, "job", job->name);
	api_put(object, "block", block->block);
	api_put(object, "generation", block->generation);
	api_put_text(object, "state",
		!block->open                    ? "done"
			: membership->abandoned ? "abandoned"
						: "open");
	json_object_set_new(object, "age", json_real(seconds(block->age_us)));
	json_object_set_new(object, "idle", json_real(seconds(block->idle_us)));
	api_put(object, "heard", block->heard_count);
	api_put(object, "size", job->nb_sources);
	json_object_set_new(object, "missing", missing(running, of, membership, block));
	api_put_text(object, "policy", ctrl_policy_text(job->policy));
	json_object_set_new(object, "policy_in", policy_in(job, block));
	return object;
}

static void
answer_blocks(struct api_call *call, struct found *found, uint64_t limit)
{
	json_t *list = json_array();
	size_t listed = 0;

	if (!found->whole) {
		api_error(call, 503, "busy", NULL,
			"no memory for the list of blocks; ask for one job");
		json_decref(list);
		return;
	}
	if (found->count > 0)
		qsort(found->block, found->count, sizeof(*found->block), oldest_first);
	/* MISSING_MAX bounds an answer to some milliseconds: this thread serves other clients, too. */
	for (unsigned int i = 0; i < found->count && i < limit && listed < MISSING_MAX; i++) {
		json_t *block = block_json(
			call->running, &found->membership[found->block[i].job], &found->block[i]);

		listed += json_array_size(json_object_get(block, "missing"));
		json_array_append_new(list, block);
	}
	api_answer(call, 200,
		json_pack("{s:o,s:I}", "blocks", list, "total", (json_int_t)found->total));
}

void
api_get_blocks(struct api_call *call)
{
	const struct ctrl_running *running = call->running;
	const char *name = api_query(call->target, "job");
	struct found found = {.whole = true};
	bool stuck, any = name == NULL;
	uint64_t limit;

	if (!api_query_flag(call, "stuck", &stuck) ||
		!api_query_number(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &limit))
		return;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];

		if (job == NULL || !api_owns(&running->config->api, call->caller, job->tenant) ||
			(name != NULL && strcmp(job->job->name, name) != 0))
			continue;
		any = true;
		find(&found, running, job, stuck);
	}
	if (any)
		answer_blocks(call, &found, limit);
	else
		api_error(call, 404, "unknown_job", "job", "no job is called \"%.64s\"", name);
	free(found.block);
}

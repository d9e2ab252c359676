/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is wrong with jobs, in sentences: whom a job waits for, since when, and what its policy will
 * do. weirctl and the live page show these sentences, and word none themselves.
 *
 * An entry is a Cause of ctrl/api/fields.h. A sentence names a few
 * sources with their address and state, and only the ranks of the others.
 */
#ifndef CTRL_API_DIAGNOSIS_H
#define CTRL_API_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "ctrl/stats/snapshot.h"

#define API_MISSING_MAX 16384 /* entries of all lists of missing ranks in an answer */

/* Why jobs do not progress. */
struct api_diagnosis {
	json_t *entries; /* an array */
	uint64_t limit; /* of entries */
	size_t listed; /* missing ranks in all of them; at API_MISSING_MAX, no entry is added */
};

/* Add why a job does not progress. block: its stuck blocks, which are sorted; all: there are no
 * others. All snapshots here have their detail. */
void api_diagnose(struct api_diagnosis *diagnosis, const struct ctrl_job_snapshot *of,
	struct ppe_block_info *block, unsigned int count, bool all);

/* What people must know about the job's members: contested ranks, and members that are expired,
 * silent or late. A new list. */
json_t *api_job_remarks(const struct ctrl_job_snapshot *of);

/* Does the block wait for a parent's result? After a generation's end, no parent serves yet. */
bool api_waits_for_parent(const struct ctrl_job_snapshot *of, const struct ppe_block_info *block);

/* The sources of a job that are not in `in`, as the schema `missing`. A new list. */
json_t *api_missing(const struct ctrl_job_snapshot *of, const uint64_t in[WEIR_SOURCES_MAX / 64]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers of the switch as people read them. Each takes the parsed answer and the width of the
 * terminal (0: none). A value that is missing in an answer is a dash.
 */
#ifndef APPS_CTL_VIEWS_H
#define APPS_CTL_VIEWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef void view_print(json_t *answer, FILE *out, unsigned int width);

view_print view_status, view_ports, view_jobs, view_job, view_members, view_blocks, view_tenants,
	view_json, view_health, view_faults;

/* For qsort(), of uint64_t. */
int view_ascending(const void *a, const void *b);

/* A line when the status says that faults are set on purpose: nobody should forget them. */
void view_faults_brief(json_t *status, FILE *out, unsigned int width);

/* Write what is stuck, in words: blocks that wait for the same sources are one paragraph. Returns the
 * number of paragraphs. */
unsigned int view_stuck(json_t *answer, FILE *out, unsigned int width);

/* May hosts of the job wait though no block is stuck? The job may lack its members here. */
bool view_may_wait(json_t *job);

/*
 * The same as view_stuck for a job whose hosts wait because not all sources have joined, or because
 * one does not acknowledge partial results; else 0.
 */
unsigned int view_waiting(json_t *job, FILE *out, unsigned int width);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers of the switch as people read them. Each takes the parsed answer and the width of the
 * terminal (0: none). What is missing in an answer is a dash.
 */
#ifndef APPS_CTL_VIEWS_H
#define APPS_CTL_VIEWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef void view_print(json_t *answer, FILE *out, unsigned int width);

view_print view_status, view_ports, view_jobs, view_job, view_members, view_blocks, view_tenants,
	view_json, view_health, view_faults;

/* A line when faults are set on purpose, of what the status says: nobody should forget them. */
void view_faults_brief(json_t *status, FILE *out, unsigned int width);

/**
 * What is stuck, in words: blocks that wait for the same sources are one paragraph.
 *
 * @return paragraphs written
 */
unsigned int view_stuck(json_t *answer, FILE *out, unsigned int width);

/* The same in a paragraph each, which begin with the job and how long it waits: they may be cut. */
unsigned int view_stuck_brief(json_t *answer, FILE *out, unsigned int width);

/* "rank 2 (host-c, 10.77.0.3), last heard 3.0 s ago; and for rank 3 ...", of members or missing ones. */
void view_sources(json_t *sources, FILE *out);

/* Might hosts wait though no block is stuck? Of a job without its members, too; then view_waiting
 * tells. */
bool view_may_wait(json_t *job);

/*
 * The same as view_stuck for a job whose hosts wait because not all sources have joined, or because
 * one does not acknowledge partial results; else 0.
 */
unsigned int view_waiting(json_t *job, FILE *out, unsigned int width);

#endif

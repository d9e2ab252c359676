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

/* A line when the status says that faults are set on purpose: nobody should forget them. */
void view_faults_brief(json_t *status, FILE *out, unsigned int width);

#endif

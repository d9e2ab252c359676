/* SPDX-License-Identifier: BSD-3-Clause */
/* Log when a job's parent is heard, is lost, and serves. Control thread. */
#ifndef CTRL_JOBS_PARENTS_H
#define CTRL_JOBS_PARENTS_H

#include "ctrl/jobs/running.h"

/* What a job and its parent's job differ in, and what must hold, for people. setting: as in struct
 * ppe_parent_stats, not PPE_PARENT_AGREES. Any thread. */
struct ctrl_parent_words {
	const char *setting, *rule;
};
struct ctrl_parent_words ctrl_parent_words(unsigned int setting);

/* Why a parent does not accept this switch's joins, for people: "window 32 here, 64 there: must be
 * equal". */
struct ctrl_refusal_text {
	char text[192];
};
struct ctrl_refusal_text ctrl_parent_refusal(const struct ppe_parent_stats *stats);

/* Each second: log what has changed. */
void ctrl_parents_tick(struct ctrl_running *running);

#endif

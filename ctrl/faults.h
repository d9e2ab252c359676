/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of the running switch: set, and said in the log. For the one control thread. */
#ifndef CTRL_FAULTS_H
#define CTRL_FAULTS_H

#include "ctrl/jobs/jobs.h"

/* From now on these; without rules: none. 0; or -errno of ppe_publish_faults and *why, and nothing
 * has changed. Waits for a loop turn of the slowest worker. */
int ctrl_faults_set(struct ctrl_running *running, const struct ppe_faults *faults,
	const struct ctrl_log_who *who, struct ctrl_refusal *why);

/* The two halves of it, for who may have to take the first one back; `any`: there were some before. */
int ctrl_faults_publish(
	struct ctrl_running *running, const struct ppe_faults *faults, struct ctrl_refusal *why);
void ctrl_faults_tell(const struct ppe_faults *faults, bool any, const struct ctrl_log_who *who);

/* Are they the same? */
bool ctrl_faults_equal(const struct ppe_faults *a, const struct ppe_faults *b);

#endif

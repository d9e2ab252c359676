/* SPDX-License-Identifier: BSD-3-Clause */
/* Set and log the faults of the running switch. Control thread. */
#ifndef CTRL_FAULTS_H
#define CTRL_FAULTS_H

#include "ctrl/jobs/jobs.h"

/* Replace the faults; without rules there are none. Returns 0, or -errno of ppe_publish_faults with *why, and
 * nothing has changed. Waits for a loop turn of the slowest worker. */
int ctrl_faults_set(struct ctrl_running *running, const struct ppe_faults *faults,
	const struct ctrl_log_who *who, struct ctrl_refusal *why);

/* The two halves of ctrl_faults_set, for a caller that may have to undo the first one; `any`: there were faults
 * before. */
int ctrl_faults_publish(
	struct ctrl_running *running, const struct ppe_faults *faults, struct ctrl_refusal *why);
void ctrl_faults_tell(const struct ppe_faults *faults, bool any, const struct ctrl_log_who *who);

bool ctrl_faults_equal(const struct ppe_faults *a, const struct ppe_faults *b);

#endif

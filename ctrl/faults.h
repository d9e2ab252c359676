/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of the running switch: set, and said in the log. For the one control thread. */
#ifndef CTRL_FAULTS_H
#define CTRL_FAULTS_H

#include "ctrl/jobs.h"

/* From now on these; without rules: none. 0; or -errno of ppe_publish_faults and *why, and nothing
 * has changed. Waits for a loop turn of the slowest worker. */
int ctrl_faults_set(struct ctrl_running *running, const struct ppe_faults *faults,
	const struct ctrl_log_who *who, struct ctrl_refusal *why);

/* Are they the same? */
bool ctrl_faults_equal(const struct ppe_faults *a, const struct ppe_faults *b);

#endif

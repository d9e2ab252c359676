/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reload: a new configuration for a running switch, applied as a whole or refused as a whole.
 *
 * Only the differences between the former file and the next one are applied. A job that is the same
 * in both stays as it is, with all that the API has changed in it.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_RELOAD_H
#define CTRL_RELOAD_H

#include <stddef.h>

#include "ctrl/jobs/jobs.h"

/* Keys that a reload may change, with all keys below them; NULL-terminated. */
extern const char *const ctrl_reload_keys[];

/* 0; or -EINVAL, and `error` names all changed keys that can't change at run time. Pure. */
int ctrl_reload_check(const struct ctrl_config *now, const struct ctrl_config *next, char *error,
	size_t error_size);

/*
 * Replace running->config by a configuration that passed the check, with its jobs and tenants. A
 * job with another shape is replaced: the former job leaves, and the next one begins after its
 * generations. 0: running->config is `next`, with the sizes that the switch was built with, and
 * nothing points into the former one. -EINVAL and *why: nothing has changed. Waits for a loop turn
 * of the slowest worker.
 */
int ctrl_reload_apply(struct ctrl_running *running, struct ctrl_config *next, const char *who,
	struct ctrl_reloaded *done, struct ctrl_refusal *why);

/*
 * Replace the faults of the running switch, and log it; no rules: no faults. 0; or -errno of
 * ppe_publish_faults with *why, and nothing has changed. Waits for a loop turn of the slowest
 * worker.
 */
int ctrl_faults_set(struct ctrl_running *running, const struct ppe_faults *faults, const char *who,
	struct ctrl_refusal *why);

/* The part of ctrl_reload_apply for jobs. */
int ctrl_reload_jobs(struct ctrl_running *running, const struct ctrl_config *next, const char *who,
	struct ctrl_reloaded *done, struct ctrl_refusal *why);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is asked of a job, wherever it comes from: the configuration, or the control API. Ranges of
 * single values are the business of who reads them (ctrl/config/schema.h, ctrl/api/body.h).
 *
 * Each returns true, or false with the reason for people. Pure.
 */
#ifndef CTRL_JOB_CHECK_H
#define CTRL_JOB_CHECK_H

#include <stdbool.h>

#include "ctrl/config/config.h"

struct ctrl_reason {
	char text[224];
};

/* May a source have this address: a host's of the switch's subnet, and not the switch's own? */
bool ctrl_check_address(
	const struct ctrl_config *config, uint32_t address, struct ctrl_reason *reason);

/* Is there such an operation on elements of such a type? */
bool ctrl_check_reduction(const struct ppe_job *job, struct ctrl_reason *reason);

/* Does every frame of the job pass every port? */
bool ctrl_check_frames(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason);

/* Packet buffer that the job's frames need, bytes. */
uint32_t ctrl_job_packet_bytes(const struct ppe_job *job);

/* Do they fit the packet buffers that there are? For jobs that come after these were made. */
bool ctrl_check_buffers(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason);

#endif

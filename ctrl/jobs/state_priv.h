/* SPDX-License-Identifier: BSD-3-Clause */
/* What reading and writing a state share: its keys and their words. */
#ifndef CTRL_STATE_PRIV_H
#define CTRL_STATE_PRIV_H

#include <jansson.h>

#include "ctrl/jobs/state.h"

struct ctrl_state {
	char path[CTRL_FILE_BYTES];
	uint32_t instances; /* of jobs, ever */
	uint16_t reserved[WEIR_JOBS_MAX]; /* generations, by job id; 0: none */
	json_t *root; /* NULL: there was no file */
};

/* The state of what runs, as text to be freed, and its length. NULL: no memory. */
char *ctrl_state_text(const struct ctrl_running *running, size_t *length);

#endif

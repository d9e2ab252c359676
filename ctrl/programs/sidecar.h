/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sidecar of a program: a process that runs while the program is loaded.
 *
 * Its environment is the switch's, with WEIR_PROGRAM (the program's name), WEIR_SWITCH_IP,
 * WEIR_SWITCH_MAC, and WEIR_SETTING_<KEY> for each setting, the key in capitals. What it writes to
 * standard output and standard error goes to the switch's log. It gets SIGTERM when the program is
 * unloaded or the switch ends, and SIGKILL CTRL_SIDECAR_END_S later. One that ends by itself is
 * started again after CTRL_SIDECAR_PAUSE_S, CTRL_SIDECAR_STARTS times in all.
 *
 * Thread safety: for the control thread. Nothing here waits.
 */
#ifndef CTRL_PROGRAMS_SIDECAR_H
#define CTRL_PROGRAMS_SIDECAR_H

#include <stdbool.h>
#include <sys/types.h>

#include "ctrl/programs/file.h"

#define CTRL_SIDECAR_END_S   2
#define CTRL_SIDECAR_PAUSE_S 1
#define CTRL_SIDECAR_STARTS  5

struct ctrl_sidecar {
	pid_t pid; /* 0: it does not run */
	int log; /* descriptor of what it writes; of pid */
	unsigned int starts;
	bool ends; /* it has got SIGTERM */
	double due; /* CLOCK_MONOTONIC, s: of SIGKILL or of the next start */
	char line[256]; /* the beginning of a line of the log */
	size_t length;
};

/* Start it. 0; or -EINVAL and the reason. values: of the program's settings. */
int ctrl_sidecar_start(struct ctrl_sidecar *sidecar, const struct ctrl_config *config,
	const struct ppe_program *program, const struct ppe_value *values,
	char reason[CTRL_PROGRAM_REASON]);

/* Log what it wrote, and start it again or end it when that is due. Returns whether it runs. */
bool ctrl_sidecar_tick(struct ctrl_sidecar *sidecar, const struct ctrl_config *config,
	const struct ppe_program *program, const struct ppe_value *values);

/* Let it end: SIGTERM, once. Further ticks do the rest. */
void ctrl_sidecar_end(struct ctrl_sidecar *sidecar);

#endif

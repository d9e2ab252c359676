/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs that a running switch loads and unloads: those of the configuration before its first
 * packet, others when the control API asks. The engine's side is ppe/load.h, files are
 * ctrl/programs/file.h.
 *
 * Programs that the API has loaded last until the switch stops. A loaded program is in
 * ctrl_running.programs until nothing refers to it and its sidecar has ended.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_PROGRAMS_H
#define CTRL_PROGRAMS_H

#include "ctrl/jobs/running.h"
#include "ctrl/programs/file.h"
#include "ctrl/programs/sidecar.h"
#include "ppe/load.h"

struct ctrl_program {
	struct ctrl_program *next;
	struct ctrl_program_file file;
	struct ppe_value *values; /* of its settings; NULL: it has none */
	struct ctrl_sidecar sidecar;
	bool is_gone; /* the engine no longer has it */
};

/*
 * Open the files of a configuration, and check their settings. path: the configuration's file.
 * *list: for ctrl_programs_close. 0; or -EINVAL with a line as of ctrl_config_load in `error`, and
 * an empty list. Needs no EAL. Waits for the children that check the files.
 */
int ctrl_programs_open(const struct ctrl_config *config, const char *path,
	struct ctrl_program **list, char *error, size_t size);

/* After ppe_destroy: end the sidecars, for which it waits CTRL_SIDECAR_END_S at most, and unload
 * all. NULL is fine. */
void ctrl_programs_close(struct ctrl_program *list);

/* Before ppe_start: load those of the list, which becomes the running switch's. 0; or -EINVAL and
 * the reason. */
int ctrl_programs_start(
	struct ctrl_running *running, struct ctrl_program **list, char *error, size_t size);

/*
 * Load a program whose file is open, with values for its settings. On success it is the running
 * switch's. who: for the log. 0; or, with the reason: -EEXIST (its name), -ENOTUNIQ (that of a
 * number), -EBUSY, -ENOSPC, -ENOMEM, and -EINVAL for all others.
 */
int ctrl_program_load(struct ctrl_running *running, struct ctrl_program *program, const char *who,
	char reason[CTRL_PROGRAM_REASON]);

/* Begin to unload a program. 0: begun, now or earlier; or, with the reason: -ENOENT, -EPERM (it is
 * built in), -EBUSY, -EADDRINUSE. A dry run (ctrl_running.is_dry_run) begins nothing. */
int ctrl_program_unload(struct ctrl_running *running, const char *name, const char *who,
	char reason[CTRL_PROGRAM_REASON]);

/* Go on with what has begun. Call it often: returns the milliseconds until it wants to be called
 * again; -1: a call each second will do. */
int ctrl_programs_tick(struct ctrl_running *running);

/* A program of the switch, and its file; NULL: it is built in. */
struct ctrl_program_info {
	struct ppe_program_info engine;
	const struct ctrl_program *loaded;
};

/* All programs, in order of precedence, and those whose sidecars have not ended. Returns how many,
 * at most `max`. */
unsigned int ctrl_programs_read(
	const struct ctrl_running *running, struct ctrl_program_info *infos, unsigned int max);

/* A match in words: "UDP ports 48864..48879, to the switch's MAC address". */
struct ctrl_match_text {
	char text[256];
};
struct ctrl_match_text ctrl_match_text(const struct ppe_match *match);

#endif

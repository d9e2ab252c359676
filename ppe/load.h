/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that come and go while the switch runs. All functions are for the control thread.
 *
 * The engine's list of programs is part of the table that it publishes (ppe/jobs.c): a packet sees
 * one list or the other. Loading publishes twice: first the program's states, so that every worker
 * can take its hops, then its matches and timers. Unloading publishes twice, too: first without
 * matches and timers, then, when no thread and no hop of the program is left, without its states.
 * What comes after waits for packets that still need its memory. The switch never waits for a
 * worker longer than half a second in one call; ppe_programs_tick() goes on.
 */
#ifndef PPE_LOAD_H
#define PPE_LOAD_H

#include <stdbool.h>

#include "ppe/ppe.h"

enum ppe_program_phase {
	PPE_PROGRAM_LOADING, /* some worker has not taken it yet */
	PPE_PROGRAM_RUNNING,
	PPE_PROGRAM_UNLOADING, /* it gets no packets; some of its own may be under way */
	PPE_PROGRAM_LEAVING, /* no worker knows it; packets may still need its memory */
};

/* Check what every switch can check of a program: names, settings, columns, segments. Returns NULL,
 * or what is wrong with it, in words. Any thread, no EAL. */
const char *ppe_program_check(const struct ppe_program *program);

/*
 * Load a program after ppe_create(). The program stays the caller's, and must stay valid until
 * ppe_program_gone() returns it. values: one for each of its settings, copied; NULL if it has none.
 * 0; or, without any change, -EEXIST (the name), -ENOTUNIQ (the name of a statistic or a metric),
 * -ENOSPC (PPE_PROGRAMS_MAX programs, or too many matches or timers), -EBUSY (a worker has not
 * taken the previous change), -EINVAL (ppe_program_check), or what its create() returned.
 */
int ppe_program_load(
	struct ppe *ppe, const struct ppe_program *program, const struct ppe_value *values);

/*
 * Begin to unload a program. 0: ppe_program_gone() returns it when nothing refers to it any more.
 * -ENOENT; -EPERM: it is built in; -EALREADY: it is being unloaded; -EBUSY (a worker has not taken
 * the previous change); -EADDRINUSE: another program passes packets to it (ppe_program_find), or a
 * filter may (ppe_filter_of_program).
 */
int ppe_program_unload(struct ppe *ppe, const char *name);

/* Take the next steps of loading and unloading. Call it periodically. */
void ppe_programs_tick(struct ppe *ppe);

/* A program that was unloaded and to which nothing refers: its code may be unmapped. NULL: there is
 * none. Returns each once. Calls ppe_programs_tick(). */
const struct ppe_program *ppe_program_gone(struct ppe *ppe);

/* A program of the list, in order of precedence. */
struct ppe_program_info {
	const struct ppe_program *program;
	enum ppe_program_phase phase;
	bool built_in;
	unsigned int index; /* of worker->state[] */
	unsigned int nb_matches, nb_timers;
	const struct ppe_match *match; /* valid until the program is gone */
	const struct ppe_timer *timer;
	const struct ppe_value *values; /* of its settings; NULL: none */
	const void *state[PPE_WORKERS_MAX];
	uint64_t in_flight; /* threads of the program on their way to another worker */
};

/* Fill at most `max` entries. Returns how many programs there are, at most PPE_PROGRAMS_MAX. */
unsigned int ppe_programs_read(
	const struct ppe *ppe, struct ppe_program_info *infos, unsigned int max);

#endif

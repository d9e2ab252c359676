/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that survives a restart, in the file `state.file`: the jobs created over the API with
 * their members and owners, and the last generation of each job id. Jobs of the configuration and
 * temporary jobs are not in it.
 *
 * The file is JSON, replaced as a whole after each change (ctrl/config/files.h): before the answer
 * when a job is created, changed or deleted; at the end of the loop's turn for members; at the next
 * tick for counts. A failed write is logged and tried again each second. The file is read strictly:
 * an unknown key or a wrong value refuses the start and leaves the file unchanged.
 *
 * Control thread.
 */
#ifndef CTRL_STATE_H
#define CTRL_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "ctrl/jobs/running.h"

#define CTRL_STATE_VERSION 1

/*
 * Read the state of the switch of this name. Returns 0, with *state for the start and for
 * json_decref; an empty state if there is no file. -errno with *state NULL and a line in `error`
 * (CTRL_ERROR_BYTES) that says what is wrong and what to do. path: "" for none.
 */
int ctrl_state_load(const char *path, const char *name, json_t **state, char *error, size_t size);

/* As ctrl_state_load, from text. path: for the reason. */
int ctrl_state_parse(const char *text, size_t length, const char *path, const char *name,
	json_t **state, char *error, size_t size);

/* The state of the running switch as text, to be freed. NULL: no memory. */
char *ctrl_state_text(const struct ctrl_running *running);

/* Before the engines are built: jobs of the configuration continue after the generations of the
 * state. */
void ctrl_state_begin(const json_t *state, struct ctrl_config *config);

/*
 * Before the workers start: bring back jobs and generations, and write the file for the first time.
 * A job that does not fit this configuration is logged and set aside: it stays in the file, for the
 * next start, until another job of its name is made over the API. Without state.file, it does
 * nothing and returns 0. -errno with a line in `error`: no memory, or the file can't be written.
 */
int ctrl_state_restore(struct ctrl_running *running, const json_t *state, char *error, size_t size);

/* Rename the file to path.forgotten. 0, or -errno (-ENOENT: there is none). */
int ctrl_state_forget(const char *path);

/* The end of the loop's turn: write what members have changed. */
void ctrl_state_settle(struct ctrl_running *running);

/*
 * A job has been made, changed or deleted: write the state now, and wait for the disk. Otherwise
 * its members have changed: write it at the end of the loop's turn. For a temporary job, the file
 * has only the generations that are reserved for its id: they are written then, too.
 */
void ctrl_state_changed(struct ctrl_running *running, bool temporary, bool now);

/* Each second: write what has changed, or could not be written. */
void ctrl_state_tick(struct ctrl_running *running);

/*
 * -- generations
 *
 * No generation of a job id is used twice, not even in later runs of the switch. So a host of a
 * former run is never taken for a host of this run.
 *
 * Hosts know a generation as soon as it begins; the state file is written later, or after a crash
 * not at all. So generations are reserved ahead: no generation of an id goes beyond its `reserved`,
 * which is in the file before it is reached. A new run begins after it. When half of
 * CTRL_GENERATIONS_AHEAD is used up, the tick reserves as many again: 500 generations a second are
 * more than joins over a network make. Generations are a ring of [1, 65535]. A restart takes at
 * most a 64th of it, and no packet of a run 64 restarts ago is left.
 */

#define CTRL_GENERATIONS_AHEAD 1024u

/* The generation n after g in the ring; g: [1, 65535]. */
uint16_t ctrl_generation_add(uint16_t g, unsigned int n);

/* How many generations `to` is after `from` in the ring, [0, 65535). */
unsigned int ctrl_generation_ahead(uint16_t from, uint16_t to);

/*
 * The first generation of a new job with this id (ppe_job.first_generation; 0: the one that the
 * switch drew). Call it while by_id still has the job that it follows. Nothing is reserved yet,
 * because the job may be refused.
 */
uint16_t ctrl_generations_next(const struct ctrl_running *running, uint8_t id);

/* The job runs now: reserve generations from its first one on. */
void ctrl_generations_begin(struct ctrl_running *running, const struct ppe_job *job);

/* Reserve for a job that begins with `first`, [1, 65535]. */
void ctrl_generations_reserve(struct ctrl_running *running, uint8_t id, uint16_t first);

#endif

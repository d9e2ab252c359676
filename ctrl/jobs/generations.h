/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which generations a job id has had, also in former runs of the switch: so that a host of then can
 * never be taken for one of now.
 *
 * Hosts know a generation as soon as it begins; a state file is written later, or after a crash not
 * at all. So numbers are reserved ahead: `reserved` of an id is a generation that none has gone
 * beyond, and is in the state file before it is reached. A new run begins after it. It is moved on
 * by CTRL_GENERATIONS_AHEAD when half of that is used up, at the tick: 500 generations a second are
 * more than joins over a network make. Generations are a ring of [1, 65535]; a restart takes at most
 * a 64th of it, and what is left of a run 64 restarts ago is no packet any more.
 */
#ifndef CTRL_GENERATIONS_H
#define CTRL_GENERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "ctrl/jobs/running.h"

#define CTRL_GENERATIONS_AHEAD 1024u

/* The generation n after g in the ring; g: [1, 65535]. */
uint16_t ctrl_generation_add(uint16_t g, unsigned int n);

/* How many generations `to` is after `from` in the ring, [0, 65535). */
unsigned int ctrl_generation_ahead(uint16_t from, uint16_t to);

/*
 * What a job that is to be made with this id, while by_id has what it follows, is to begin with
 * (ppe_job.first_generation; 0: what the switch drew). Nothing is reserved yet: it may be refused.
 */
uint16_t ctrl_generations_next(const struct ctrl_running *running, uint8_t id);

/* It runs now: reserve from its first one on. */
void ctrl_generations_begin(struct ctrl_running *running, const struct ppe_job *job);

/* Reserve for a job that begins with `first`, [1, 65535]. */
void ctrl_generations_reserve(struct ctrl_running *running, uint8_t id, uint16_t first);

/* Each second: move on what is nearly reached. */
void ctrl_generations_tick(struct ctrl_running *running);

#endif

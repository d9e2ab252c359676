/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last five minutes of a switch, a sample a second: what ports carried, what jobs did, what was
 * dropped, and for which sources blocks waited.
 *
 * Rings of CTRL_HISTORY_SAMPLES rates, one of each series, all allocated at once: about 10 MiB of
 * addresses, of which a job that was never there touches nothing. A rate is of the time that passed
 * indeed; when the control thread came late, the seconds that it missed have the same one.
 *
 * A job is the same while id, instance and name are. One that is gone keeps its place until its last
 * sample has left the history, or until another job needs the place; there are as many places as
 * jobs, so none is ever turned away.
 *
 * The sources that blocks waited for are not kept per second (256 ranks of 256 jobs) but every
 * CTRL_HISTORY_STEP seconds, each job in a second of its own: the shares are of the last 270 to
 * 300 s.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_HISTORY_H
#define CTRL_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "pktbuf/wire/wire.h"
#include "ppe/ppe.h"

#define CTRL_HISTORY_SAMPLES 300
#define CTRL_HISTORY_STEP    30
#define CTRL_HISTORY_STEPS   (CTRL_HISTORY_SAMPLES / CTRL_HISTORY_STEP)

struct ctrl_running;

/* Rates of a counter, by second; NAN: there was no sample. */
struct ctrl_series {
	uint64_t last; /* the counter, at the last sample */
	uint32_t begun; /* ctrl_history.second of the first sample; 0: none yet */
	float rate[CTRL_HISTORY_SAMPLES]; /* per second; of second s at s % CTRL_HISTORY_SAMPLES */
};

struct ctrl_job_history {
	char name[PPE_JOB_NAME_MAX]; /* "": the place is free */
	char tenant[32]; /* whose it was, or "" */
	uint8_t id;
	uint32_t instance;
	uint32_t seen; /* ctrl_history.second when it was last there */
	struct ctrl_series contributions, blocks;
	unsigned int steps; /* taken */
	uint64_t waited_us[CTRL_HISTORY_STEPS][WEIR_SOURCES_MAX]; /* of step s at s % STEPS */
};

struct ctrl_history {
	uint32_t second; /* of the last sample, from 1; 0: none yet */
	unsigned int passed; /* seconds that the last sample stands for, [1, SAMPLES] */
	double elapsed; /* s between the last two samples */
	double at; /* of the last sample, as ctrl_history_begin had it */
	double time; /* the same, Unix time */
	struct ctrl_series rx[PPE_PORTS_MAX], tx[PPE_PORTS_MAX]; /* bit/s */
	struct ctrl_series drop[PPE_DROP_COUNT]; /* packets/s */
	struct ctrl_job_history job[WEIR_JOBS_MAX];
};

/* now: any clock that does not go back, s, as for ctrl_history_begin. NULL: no memory. */
struct ctrl_history *ctrl_history_create(double now);
void ctrl_history_destroy(struct ctrl_history *history);

/* Take a sample of everything; once a second, after ctrl_running_tick has read the counters. */
void ctrl_history_tick(struct ctrl_history *history, const struct ctrl_running *running);

/*
 * What a sample is made of. begin: false when no second has passed yet, and then nothing follows.
 * keep: of every job that is there, before the first `job`: their places are none to be taken. job:
 * the place of a job; when it is new a free one, or that of the job gone longest.
 */
bool ctrl_history_begin(struct ctrl_history *history, double now, double unix_time);
void ctrl_history_put(struct ctrl_history *history, struct ctrl_series *series, uint64_t counter);
void ctrl_history_keep(struct ctrl_history *history, const struct ppe_job *job);
struct ctrl_job_history *ctrl_history_job(
	struct ctrl_history *history, const struct ppe_job *job, const char *tenant);

/* Is it the second to note how long blocks have waited for a job's sources? */
bool ctrl_history_step_due(const struct ctrl_history *history, const struct ctrl_job_history *job);
void ctrl_history_step(struct ctrl_job_history *job, const uint64_t waited_us[WEIR_SOURCES_MAX]);

/* The oldest noted, which shares are counted from; all 0 when there is none. */
const uint64_t *ctrl_history_waited_before(const struct ctrl_job_history *job);

/* How many samples there are, [0, CTRL_HISTORY_SAMPLES]. */
unsigned int ctrl_history_length(const struct ctrl_history *history);

/* The rate `age` seconds ago, [0, length); NAN: none. */
float ctrl_history_rate(
	const struct ctrl_history *history, const struct ctrl_series *series, unsigned int age);

/* Is it there, or was it within the history? */
bool ctrl_history_has(const struct ctrl_history *history, const struct ctrl_job_history *job);

#endif

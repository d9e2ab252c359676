/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last five minutes of a switch, a sample a second: what ports carried, what jobs did, what was
 * dropped, and for which sources blocks waited.
 *
 * Each series is a ring of CTRL_HISTORY_SAMPLES rates. All are allocated at once: about 10 MiB of
 * addresses, but pages of jobs that never existed are not touched. A rate is over the time that has
 * really passed. If the control thread was late, the seconds that it missed have the same rate.
 *
 * Id, instance and name identify a job. A deleted job keeps its place until its last sample has
 * left the history, or until another job needs the place. There are as many places as jobs, so
 * every job gets one.
 *
 * How long blocks waited for each source (256 ranks of 256 jobs) is kept only every
 * CTRL_HISTORY_STEP seconds, each job in a different second: the shares are of the last 270 to 300
 * s.
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
	char tenant[32]; /* its owner, or "" */
	uint8_t id;
	uint32_t instance;
	uint32_t seen; /* ctrl_history.second when the job last existed */
	struct ctrl_series contributions, blocks;
	unsigned int steps; /* taken */
	uint64_t waited_us[CTRL_HISTORY_STEPS][WEIR_SOURCES_MAX]; /* of step s at s % STEPS */
};

struct ctrl_history {
	uint32_t second; /* of the last sample, from 1; 0: none yet */
	unsigned int passed; /* seconds that the last sample covers, [1, SAMPLES] */
	double elapsed; /* s between the last two samples */
	double at; /* of the last sample: `now` of ctrl_history_begin */
	double time; /* the same, Unix time */
	struct ctrl_series rx[PPE_PORTS_MAX], tx[PPE_PORTS_MAX]; /* bit/s */
	struct ctrl_series spoofed[PPE_PORTS_MAX]; /* frames/s */
	struct ctrl_series drop[PPE_DROP_COUNT]; /* packets/s */
	struct ctrl_job_history job[WEIR_JOBS_MAX];
};

/* now: of the clock for ctrl_history_begin, which never goes back, in s. NULL: no memory. */
struct ctrl_history *ctrl_history_create(double now);
void ctrl_history_destroy(struct ctrl_history *history);

/* Copy what the history has; not the places of jobs that are free. */
void ctrl_history_copy(struct ctrl_history *to, const struct ctrl_history *from);

/* Take a sample of everything; once a second, after ctrl_running_tick has read the counters. */
void ctrl_history_tick(struct ctrl_history *history, const struct ctrl_running *running);

/*
 * The steps of ctrl_history_tick. begin: begin a sample; false: no second has passed yet, and there
 * is none. put: the counter of a series. keep: protect the place of an existing job, before the
 * first call of `job`; NULL: it has none yet. job: the place of a job; for a new one a free place,
 * or that of the job that was deleted first.
 */
bool ctrl_history_begin(struct ctrl_history *history, double now, double unix_time);
void ctrl_history_put(struct ctrl_history *history, struct ctrl_series *series, uint64_t counter);
struct ctrl_job_history *ctrl_history_keep(struct ctrl_history *history, const struct ppe_job *job);
struct ctrl_job_history *ctrl_history_job(
	struct ctrl_history *history, const struct ppe_job *job, const char *tenant);

/* Must the waits of blocks for the job's sources be noted in this second? */
bool ctrl_history_step_due(const struct ctrl_history *history, const struct ctrl_job_history *job);
void ctrl_history_step(struct ctrl_job_history *job, const uint64_t waited_us[WEIR_SOURCES_MAX]);

/* The oldest of these notes, from which shares are counted; all 0: there is none. */
const uint64_t *ctrl_history_waited_before(const struct ctrl_job_history *job);

/* The number of samples, [0, CTRL_HISTORY_SAMPLES]. */
unsigned int ctrl_history_length(const struct ctrl_history *history);

/* The rate `age` seconds ago, [0, length); NAN: none. */
float ctrl_history_rate(
	const struct ctrl_history *history, const struct ctrl_series *series, unsigned int age);

/* Does the job exist, or did it exist within the history? */
bool ctrl_history_has(const struct ctrl_history *history, const struct ctrl_job_history *job);

#endif

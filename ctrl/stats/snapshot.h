/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the control API's readers see of the switch: an immutable snapshot, made by the control
 * thread. Readers never enter that thread, and hold nothing that it waits for.
 *
 * The control thread makes a snapshot when readers ask for one, for all that wait, with at most a
 * tenth of its CPU time, and one each second in any case. So a reader sees what was there when it
 * asked, or later. Some parts cost more, and are made only when a reader asks for them. There are
 * more places for snapshots than readers, so that one is free: a reader pins a place by its
 * counter, and checks then that the place is still the current one; the control thread fills places
 * without readers alone.
 *
 * All pointers in a snapshot are to its own copies, or to what the control thread frees only when
 * no snapshot has it (the configuration: ctrl_snapshots_have).
 */
#ifndef CTRL_STATS_SNAPSHOT_H
#define CTRL_STATS_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "ctrl/jobs/jobs.h"
#include "ctrl/stats/history.h"
#include "ppe/faults/faults.h"
#include "ppe/filters/filters.h"

#define CTRL_SNAPSHOT_S  5.0 /* that a reader waits for one */
#define CTRL_READERS_MAX (4 * CTRL_LISTENERS_MAX) /* threads that read at a time */

/* Sources with series of their own in /metrics: per job, and of all jobs together. */
#define CTRL_SERIES_OF_JOB 64u
#define CTRL_SERIES_MAX    4096u

/* Parts that are made on demand. */
enum ctrl_snapshot_part {
	CTRL_SNAPSHOT_DETAIL = 1, /* sources and blocks of each job */
	CTRL_SNAPSHOT_HISTORY = 2,
};

struct ctrl_job_snapshot {
	double taken; /* CLOCK_MONOTONIC, s */
	struct ctrl_job job; /* its pointers are to the copies here; but `tenant` and `shown` */
	struct ppe_job shape;
	struct ctrl_member member[WEIR_SOURCES_MAX];
	struct ppe_job_stats stats; /* as of ctrl_running_job_stats */
	struct ctrl_membership membership;
	uint64_t data_memory; /* bytes of its aggregation buffers */
	struct ppe_parent_stats parent[PPE_PARENTS_MAX];
	/* CTRL_SNAPSHOT_DETAIL */
	struct ppe_source_stats source[WEIR_SOURCES_MAX];
	uint64_t sources[WEIR_SOURCES_MAX / 64]; /* bit s: source s is one of the job's */
	uint64_t waiting_us[WEIR_SOURCES_MAX]; /* the longest wait of an open block for it */
	struct ppe_block_info *block; /* those that are in the switch, in no order */
	unsigned int nb_blocks, room;
	bool has_all_blocks; /* false: no memory for all of them */
};

struct ctrl_port_snapshot {
	bool is_up, is_steered;
	uint8_t mac[6];
	uint16_t mtu;
	struct ppe_port_queue queue;
};

struct ctrl_snapshot {
	unsigned int readers; /* that have pinned it */
	unsigned int parts;
	double taken; /* CLOCK_MONOTONIC, s */
	double unix_time; /* Unix time when it was taken, s */
	double started_at; /* Unix time when the switch started, s */
	const struct ctrl_config *config;
	uint32_t reloads; /* that made it the present one */
	double uptime; /* s */
	bool is_ready; /* packets flow */
	int stuck_worker; /* -1: none */
	struct ppe_stats stats;
	struct ppe_gauges gauges;
	struct ctrl_pulse pulse[PPE_WORKERS_MAX];
	struct ctrl_port_snapshot port[PPE_PORTS_MAX];
	uint64_t memory_free; /* bytes of DPDK */
	struct ctrl_use use[CTRL_TENANTS_MAX]; /* by tenant, as in the configuration */
	struct ppe_faults faults; /* nb_rules 0: none */
	struct ppe_fault_stats fault_stats;
	unsigned int nb_filters;
	struct ppe_filter_info filter[PPE_FILTERS_MAX];
	struct ctrl_job_snapshot *by_id[WEIR_JOBS_MAX]; /* NULL where there is none */
	struct ctrl_job_snapshot **leaving; /* deleted jobs with results still to be sent */
	unsigned int nb_leaving, leaving_room;
	struct ctrl_history *history; /* CTRL_SNAPSHOT_HISTORY */
	struct ctrl_job_snapshot *place[WEIR_JOBS_MAX]; /* memory of by_id */
};

struct ctrl_snapshots;

/* -- control thread */

/* NULL: no memory. */
struct ctrl_snapshots *ctrl_snapshots_create(void);

/* After the end of all readers. NULL is fine. */
void ctrl_snapshots_destroy(struct ctrl_snapshots *all);

/* A descriptor that is readable when a reader has asked. It never changes. */
int ctrl_snapshots_fd(const struct ctrl_snapshots *all);

/* Milliseconds until ctrl_snapshots_serve may have something to do; -1: not before the descriptor
 * is readable. */
int ctrl_snapshots_timeout(const struct ctrl_snapshots *all);

/* Make a snapshot if a reader waits for one, and the last one is old enough. Cost: reads every
 * counter, and copies each job; with parts as they say. */
void ctrl_snapshots_serve(struct ctrl_snapshots *all, struct ctrl_running *running);

/* Make one without parts now: the configuration has changed. */
void ctrl_snapshots_renew(struct ctrl_snapshots *all, struct ctrl_running *running);

/* Each second: make one without parts, unless one was made just now. So the last one tells whether
 * the control thread turns. */
void ctrl_snapshots_tick(struct ctrl_snapshots *all, struct ctrl_running *running);

/* No more are made: readers get the last one at once. */
void ctrl_snapshots_end(struct ctrl_snapshots *all);

/* Does a snapshot that has readers, or that they may take, have this configuration? */
bool ctrl_snapshots_have(const struct ctrl_snapshots *all, const struct ctrl_config *config);

/* Fill a job's snapshot, which is zero or was filled before. detail: CTRL_SNAPSHOT_DETAIL. */
void ctrl_job_snapshot_take(struct ctrl_job_snapshot *to, const struct ctrl_running *running,
	const struct ctrl_job *job, bool detail);
void ctrl_job_snapshot_clear(struct ctrl_job_snapshot *job);

/* -- readers: any other thread */

/*
 * Pin a snapshot with these parts, taken after the call. Waits CTRL_SNAPSHOT_S for the control
 * thread; then an older one will do; NULL: there is none with these parts. Release it soon, and
 * before waiting for anything.
 */
const struct ctrl_snapshot *ctrl_snapshot_get(struct ctrl_snapshots *all, unsigned int parts);
void ctrl_snapshot_put(const struct ctrl_snapshot *snapshot);

/* Pin the last one, whatever it has and however old it is; NULL: there is none. Never waits. */
const struct ctrl_snapshot *ctrl_snapshot_last(struct ctrl_snapshots *all);

/* Seconds since it was taken. */
double ctrl_snapshot_age(const struct ctrl_snapshot *snapshot);

/* The job of a name, or NULL; those that are leaving have none. */
const struct ctrl_job_snapshot *ctrl_snapshot_find_job(
	const struct ctrl_snapshot *snapshot, const char *name);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of a whole switch, and the steps of its life that are split over files. */
#ifndef PPE_PPE_PRIV_H
#define PPE_PPE_PRIV_H

#include <rte_rcu_qsbr.h>

#include "ppe/load.h"
#include "ppe/ppe.h"
#include "ppe/program.h"
#include "ppe/worker_priv.h"

enum ppe_state {
	PPE_STATE_IDLE,
	PPE_STATE_RUNNING,
	PPE_STATE_DRAINING, /* no packets are received */
	PPE_STATE_STOPPED,
};

/* The trace in progress; ctrl only. ppe/trace/trace.c */
struct ppe_tracing {
	struct ppe_trace *trace; /* NULL: none */
	unsigned int ready; /* rings that were touched; the trace begins when all were */
	uint64_t until; /* TSC */
	uint64_t token; /* of the quiescent states that end it */
	bool over; /* the workers end it in their next turns */
	bool given_up; /* no worker writes */
	bool abandoned; /* ppe_trace_abandon was called */
};

/*
 * A program of this switch, with what its create() made and registered. Only `phase` and what
 * follows it change later. ppe/load.c
 */
struct ppe_slot {
	const struct ppe_program *program;
	unsigned int index; /* in ppe.slot, worker->state, ... */
	bool built_in;
	uint32_t uses; /* bit p: it passes packets to the program in slot p */
	unsigned int nb_matches, nb_timers;
	struct ppe_match match[PPE_PROGRAM_MATCHES];
	struct ppe_timer timer[PPE_PROGRAM_TIMERS];
	void *state[PPE_WORKERS_MAX];
	const struct ppe_statistic *statistics; /* texts that outlive the program */
	/* control thread only */
	enum ppe_program_phase phase;
	uint32_t order; /* precedence among the loaded programs */
	bool is_quiet; /* no hops were on their way, when this many had been sent */
	uint64_t quiet_hops;
	bool is_returned; /* no packet needs its memory */
	struct ppe_value values[]; /* of its settings */
};

/* The programs' state of a job, by worker and program. ppe/jobs.c */
struct ppe_job_shards {
	struct ppe_job job; /* as it was when they were made */
	uint32_t serial;
	struct ppe_job_shards *next; /* in ppe.leaving */
	bool all_returned; /* all buffers have returned */
	uint64_t token; /* the quiescent state at that time */
	void *of[PPE_WORKERS_MAX][PPE_PROGRAMS_MAX];
};

struct ppe_fault_set;
struct ppe_filter_set;

/* The jobs and the programs. Immutable once published. */
struct ppe_published {
	struct ppe_slot *slot[PPE_PROGRAMS_MAX]; /* NULL: no program */
	unsigned int nb_active;
	uint8_t active[PPE_PROGRAMS_MAX]; /* slots that get packets and timers, by precedence */
	struct ppe_jobs jobs; /* by_id points into `job` */
	struct ppe_job_shards *shards[WEIR_JOBS_MAX];
	struct ppe_published *former; /* some worker may still have it; control thread only */
	size_t bytes; /* of all this */
	struct ppe_job job[];
};

struct ppe {
	/* ctrl: rw, workers: ro */
	struct ppe_trace *trace; /* the running one, or NULL; by release store */
	struct ppe_published *table; /* published by release store */
	struct ppe_fault_set *faults; /* published by release store; NULL: none */
	struct ppe_filter_set *filters; /* published by release store; NULL: none */
	uint32_t state; /* enum ppe_state, by release store */
	struct rte_rcu_qsbr *qsbr; /* each worker reports its quiescent states */

	/* control thread only, fixed after create */
	struct ppe_config config;
	unsigned int nb_ports;
	unsigned int ports_open;
	bool returned; /* all workers have returned after a stop */
	struct pktbuf_port port[PPE_PORTS_MAX];
	struct pktbuf_pools pools;
	struct ppe_worker *worker[PPE_WORKERS_MAX];
	unsigned int lcore[PPE_WORKERS_MAX];
	struct ppe_tracing tracing;
	struct ppe_slot *slot[PPE_PROGRAMS_MAX]; /* the programs; NULL: none */
	uint32_t loads; /* programs loaded so far */
	const struct ppe_program *gone[PPE_PROGRAMS_MAX]; /* for ppe_program_gone */
	unsigned int nb_gone;
	struct ppe_texts *texts; /* ppe/load.c */
	struct ppe_fault_set *former_faults; /* some worker may still have them */
	struct ppe_filter_set *former_filters; /* some worker may still have them, ... */
	struct ppe_loaded_filter *former_filter; /* and this one, which was unloaded */
	uint32_t serials; /* of jobs' shards */
	struct ppe_program_leaks lost; /* by jobs that have left */
	struct ppe_job_shards *leaving; /* of jobs that are gone, held by packets on their way */
	uint16_t last_generation[WEIR_JOBS_MAX]; /* of the id's last job that is gone; 0: none */
};

/* The log type weir.ppe. ppe/topology.c */
extern int ppe_log;

/* This lcore's worker; NULL on the control thread. */
RTE_DECLARE_PER_LCORE(struct ppe_worker *, ppe_worker_self);

/* The loop of a worker, until the state is STOPPED. ppe/barrel.c */
int ppe_barrel(void *worker);

/*
 * The parts of ppe_barrel(): begin, turn until the state is STOPPED, end. Tests call them from one
 * thread for all workers, and set ppe_worker_self before a turn. ppe_worker_turn() returns the
 * amount of work; 0: the worker may idle. ppe/barrel.c
 */
void ppe_worker_begin(struct ppe_worker *worker);
unsigned int ppe_worker_turn(struct ppe_worker *worker, uint32_t state);
void ppe_worker_end(struct ppe_worker *worker);

/* The segment of a thread that ended before its turn. ppe/barrel.c */
struct ppe_next ppe_ended_early(struct ppe_worker *worker, struct ppe_thread *thread);

/* Idle after worker->empty_turns turns without work; prepare the thread for it. ppe/idle.c */
void ppe_idle_turn(struct ppe_worker *worker);
void ppe_idle_prepare(const struct ppe_config *config);

/* From now on the calling thread's sleeps are as short as asked for, within a few us. ppe/idle.c */
void ppe_sleep_exactly(void);

/* The time, which is never before worker->now. ppe/timer.c */
uint64_t ppe_clock_read(const struct ppe_worker *worker);

/* Start threads for due timer slices, while a context is free. Returns how many. ppe/timer.c */
unsigned int ppe_timer_launch(struct ppe_worker *worker);
/* TSC at which a worker that has nothing to do must be awake for its timers; UINT64_MAX: never. */
uint64_t ppe_timer_wake(const struct ppe_worker *worker);
/* Let this worker use the timers of the table's programs; those that it has go on. */
void ppe_timers_take(struct ppe_worker *worker, const struct ppe_published *table);
/* Set the first due times. */
void ppe_timer_arm(struct ppe_worker *worker, uint64_t now);

/* The arguments of create() for a worker, without jobs and serial. ppe/topology.c */
struct ppe_setup ppe_setup_of(struct ppe *ppe, unsigned int worker);

/* Make the programs of the configuration. 0 or -errno. ppe/load.c */
int ppe_create_programs(struct ppe *ppe, const struct ppe_jobs *jobs);
/* Free all programs and their states, after the workers have stopped and the jobs are gone. */
void ppe_destroy_programs(struct ppe *ppe, struct ppe_program_leaks *leaks);
/* Set the programs of a table that is not published yet. */
void ppe_list_programs(const struct ppe *ppe, struct ppe_published *table);
/* Let this worker use the table's programs. It must have no threads. */
void ppe_take_programs(struct ppe_worker *worker, const struct ppe_published *table);

/* The jobs of a switch that has not started. 0 or -errno. ppe/jobs.c */
int ppe_first_jobs(struct ppe *ppe, const struct ppe_jobs *jobs);
/* Publish the present jobs with the programs as they are now, and wait for the workers, at most
 * half a second. 0, -EBUSY or -ENOMEM. ppe/jobs.c */
int ppe_publish_programs(struct ppe *ppe);
/* Returns whether all workers have taken the present table, and the former one is freed. */
bool ppe_all_taken(struct ppe *ppe);
/* Make a program's shards of the present jobs; -errno: none is left. ppe/jobs.c */
int ppe_create_shards(struct ppe *ppe, const struct ppe_slot *slot);
/* Does no packet and no deleted job need them? After the workers gave them up. */
bool ppe_shards_idle(const struct ppe *ppe, unsigned int slot);
/* Free them. */
void ppe_destroy_shards(struct ppe *ppe, unsigned int slot, struct ppe_program_leaks *leaks);
/* Returns whether the workers run. ppe/jobs.c */
bool ppe_running(const struct ppe *ppe);
/* Let this worker use another table. It must have no threads. */
void ppe_take_table(struct ppe_worker *worker, const struct ppe_published *table);
/* Add what the programs' shards of the job take to `memory`. */
void ppe_add_job_memory(
	const struct ppe_config *config, const struct ppe_job *job, struct ppe_memory *memory);
/* Has any worker heard a source at this address, of any job, in the last `seconds` s? Linear in the
 * sources of all jobs. On a worker. */
bool ppe_source_heard(const struct ppe_worker *worker, uint32_t address, uint32_t seconds);
/* Free all job state after the workers have stopped. */
void ppe_destroy_jobs(struct ppe *ppe, struct ppe_program_leaks *leaks);

/* Record a new job table in a running trace. ppe/trace/trace.c */
void ppe_trace_note_jobs(
	struct ppe *ppe, const struct ppe_published *former, const struct ppe_published *table);

/* Packets of this worker: threads, backlog, crossbar, output queues. */
uint64_t ppe_worker_in_flight(const struct ppe_worker *worker);

#endif

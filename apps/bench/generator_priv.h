/* SPDX-License-Identifier: BSD-3-Clause */
/* The generator's state on one worker, which owns it; fields that others access say so. */
#ifndef APPS_BENCH_GENERATOR_PRIV_H
#define APPS_BENCH_GENERATOR_PRIV_H

#include "apps/bench/generator.h"

#define GENERATOR_WORKERS 16
#define GENERATOR_PORTS   (GENERATOR_WORKERS + 1) /* the last: where frames are forwarded to */

/* How many results of a slot's block have left, modulo 2^32. Written by the worker that sends them, read and
 * reset by the generator that owns the slot, in turn. */
struct slot_done {
	uint32_t results;
} __rte_cache_aligned;

/* One measured stretch: its two ends. */
struct stretch {
	struct stamp {
		uint64_t cpu_ns; /* of the thread; 0: not yet */
		uint64_t tsc, packets;
	} from, to;
};

/* The bare kernel's blocks: buffers taken and given back as the switch does it. */
struct bare {
	uint8_t *memory;
	uint8_t **free; /* last freed, first used */
	unsigned int nb_free;
	uint8_t **kept; /* a ring of nb_kept, the windows of all jobs: finished blocks' */
	unsigned int next_kept, nb_kept;
	unsigned int at; /* in the lap */
	unsigned int row; /* its first frame: where bare k-way is */
	const struct rmw_reduction *reduction;
	rmw_copy_fn copy;
	uint64_t packets;
};

#define LONE_SAMPLES 4096

/* Blocks one at a time, in TSC cycles. */
struct lone {
	uint64_t began; /* when the last contribution was given; 0: not yet */
	uint64_t left; /* when the contribution upward was found */
	unsigned int rested; /* turns since the others were given */
	unsigned int samples;
	double whole[LONE_SAMPLES], up[LONE_SAMPLES];
};

/* One of a worker's jobs. */
struct generator_job {
	struct generator *owner;
	uint32_t last[GENERATOR_WORKERS]; /* [shard]: the residue of its last block */
	struct residue { /* [window] */
		uint32_t next; /* of the same shard, around */
		uint32_t slot; /* of its block; others read it, for the results they send */
		uint32_t lap; /* how often it was used */
	} * residue;
};

/* A block under way. */
struct slot {
	struct generator_job *job;
	uint32_t block; /* its id */
	uint32_t row; /* the first frame of its row */
	unsigned int given; /* contributions given out */
	unsigned int left; /* contributions that the bare kernel's block is missing */
	uint8_t *buffer; /* of the bare kernel */
};

struct generator {
	/* read-mostly */
	const struct generator_work *work;
	const struct schedule *schedule;
	struct generator *all; /* `workers` entries */
	struct generator_job *jobs; /* `work->jobs` entries; all workers' by job id: */
	struct generator_job **job_by_id;
	unsigned int id;
	struct frames *frames;
	struct frames *answers; /* a row for each of `frames`; NULL: no leaf */
	unsigned int nb_ports;
	struct rte_ring *out[GENERATOR_PORTS]; /* its own transmit rings, of all ports */
	struct step *step; /* a lap: order.h */
	unsigned int steps;
	unsigned int under_way; /* contributions to all slots */
	unsigned int results_per_block;

	/* own writes */
	unsigned int at; /* in the lap */
	uint64_t packets;
	uint64_t aside; /* TSC cycles that the hosts' tags took */
	uint64_t forwarded; /* ordinary frames that have left */
	uint64_t random;
	struct slot *slot;
	struct slot_done *done; /* [slot] */
	uint64_t results; /* after the warm-up */
	uint64_t verified, wrong;
	int phase;
	bool finished; /* main thread: ro */
	bool pausing;
	uint32_t *up; /* [slot] a ring: the slots whose contributions upward wait for an answer */
	unsigned int first_up, nb_up;
	uint64_t ups; /* contributions upward */
	struct lone *lone; /* NULL: many blocks under way */
	uint64_t turns; /* begun, while packets are counted; other workers: ro */
	struct stretch stretch[PHASES * BENCH_REPEAT_MAX];
	struct bare bare;
} __rte_cache_aligned;

/* When phases begin: phase i is [start + i * length, start + (i + 1) * length), of the kind i modulo
 * PHASES. Before `start`: the warm-up. main: wo, workers: ro */
struct schedule {
	uint64_t start; /* TSC; 0: nothing is offered yet */
	uint64_t length;
	unsigned int phases;
	bool stop; /* offer nothing more */
};

/* The configuration of the switch. */
struct ppe_config generator_config(const struct generator_work *work);

/* Make port p of n workers, and its rings: n to send, and one to receive. Returns the ethdev, or -1. */
int generator_port(unsigned int p, unsigned int n, enum pktbuf_checksum checksum,
	struct pktbuf_port_config *port, struct rte_ring **ring);

/* A line for each reason for which the switch dropped packets. Returns how many. */
uint64_t generator_drops(const struct ppe_stats *stats);

/* The receive callback: results out, contributions in. arg: the worker's struct generator. */
uint16_t generator_offer(uint16_t port, uint16_t queue, struct rte_mbuf *packets[], uint16_t n,
	uint16_t max, void *arg);

/* The receive callback of a leaf's port to its parent: answers in. arg: as above. */
uint16_t generator_answer(uint16_t port, uint16_t queue, struct rte_mbuf *packets[], uint16_t n,
	uint16_t max, void *arg);

/* Take the results that have left, and free them: the worker, or anybody after it has stopped. */
void generator_drain(struct generator *generator);

/* 0, or -1: no memory. */
int bare_create(struct bare *bare, const struct generator_work *work);
void bare_destroy(struct bare *bare);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults: layouts, and the steps of a turn that ppe/barrel.c takes while there are faults. */
#ifndef PPE_FAULTS_PRIV_H
#define PPE_FAULTS_PRIV_H

#include "ppe/faults/faults.h"
#include "ppe/worker_priv.h"

/* A rule at one queue. One writer: the worker that owns the queue; ctrl reads the counters. */
struct ppe_fault_stream {
	uint64_t key; /* hash of seed, rule, port, queue, direction */
	uint64_t matched, hit, spared;
	uint64_t bad; /* 1: the bad state of a burst rule */
};

/* A worker's sites are its queues: first those that it receives from, then its output queues. */
static inline unsigned int
ppe_fault_sites(const struct ppe_worker *worker)
{
	return (unsigned int)worker->nb_rx + worker->nb_outq;
}

/* Published faults: immutable but for the streams. */
struct ppe_fault_set {
	struct ppe_faults faults;
	uint64_t epoch; /* TSC of the publication */
	uint64_t hz; /* of the TSC */
	bool classify; /* some rule asks what a packet is */
	struct ppe_fault_stream *stream[PPE_WORKERS_MAX]; /* [rule * sites + site] */
};

/* A delayed packet. The heap's top is due first; equal times go by serial. */
struct ppe_held {
	uint64_t due; /* TSC */
	uint64_t serial;
	struct rte_mbuf *packet;
	uint16_t site;
	uint8_t priority;
};

/* A packet that waits to be overtaken. */
struct ppe_behind {
	struct ppe_held held; /* due: if no packet overtakes it */
	uint32_t left; /* packets that must still overtake it */
};

/*
 * The packets that a worker holds. The store outlives the faults that filled it, so that no packet
 * is lost when they change. A binary heap: few packets, any order of due times, no allocation.
 */
struct ppe_fault_store {
	uint32_t used; /* of heap. worker: rw, ctrl: ro */
	uint32_t waiting; /* of behind. worker: rw, ctrl: ro */
	uint64_t spared; /* worker: rw, ctrl: ro */
	uint64_t serial;
	uint32_t checked[PPE_QUEUES_MAX][PKTBUF_PRIOS]; /* output FIFOs' tails at the last call */
	struct ppe_behind behind[PPE_FAULT_BEHIND_MAX];
	struct ppe_held heap[PPE_FAULT_HELD_MAX];
	struct rte_mbuf *burst[]; /* of one FIFO or poll, while rules are applied to it */
};

/* This worker takes another set, or NULL. The packets that it holds are due at once. */
void ppe_take_faults(struct ppe_worker *worker, struct ppe_fault_set *set);

/* Apply the rules to the last n packets of the backlog, from the worker's rx queue `rx`. */
void ppe_faults_in(struct ppe_worker *worker, unsigned int rx, unsigned int n);

/* Apply the rules to the packets that entered the output queues since the last call. */
void ppe_faults_out(struct ppe_worker *worker);

/* Release the packets that are due, as far as there is room; draining: all. Returns how many. */
unsigned int ppe_faults_release(struct ppe_worker *worker, bool draining);

/* Packets that the worker holds; any thread. */
unsigned int ppe_faults_held(const struct ppe_worker *worker);

/* Free what a worker that has stopped still holds. */
void ppe_faults_abandon(struct ppe_worker *worker);

/* Free all that is kept of faults; the workers have stopped. ppe/faults/control.c */
void ppe_destroy_faults(struct ppe *ppe);

/* The heap of delayed packets. */
void ppe_held_push(struct ppe_fault_store *store, struct ppe_held held);
struct ppe_held ppe_held_pop(struct ppe_fault_store *store); /* used > 0 */
void ppe_held_all_due(struct ppe_fault_store *store); /* those behind, too */

/* Random choices. */
uint64_t ppe_fault_key(uint64_t seed, unsigned int rule, unsigned int port, unsigned int queue,
	enum ppe_fault_direction direction);
uint64_t ppe_fault_draw(const struct ppe_fault_stream *stream, uint64_t n, unsigned int use);
/* Is the n-th packet of the stream chosen? Called once for each, in order. */
bool ppe_fault_choose(
	const struct ppe_fault_rule *rule, struct ppe_fault_stream *stream, uint64_t n);
bool ppe_fault_in_window(const struct ppe_fault_rule *rule, uint64_t elapsed_ms);
uint64_t ppe_fault_delay_us(
	const struct ppe_fault_rule *rule, const struct ppe_fault_stream *stream, uint64_t n);

#endif

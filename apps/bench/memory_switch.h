/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch made only to see what memory it takes: one worker, one port that leads nowhere. */
#ifndef APPS_BENCH_MEMORY_SWITCH_H
#define APPS_BENCH_MEMORY_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "ppe/ppe.h"

/* What is varied, one at a time. */
struct memory_shape {
	uint32_t jobs; /* [0, 8], all alike */
	uint32_t sources; /* of a job */
	uint32_t window; /* blocks */
	uint32_t elements; /* of a block, 4 bytes each */
	uint32_t stations; /* of the forwarding table */
	uint32_t packets; /* of the packet pool */
	bool deterministic; /* the jobs are */
};

/* Bytes. */
struct memory_use {
	struct ppe_memory needed; /* as the switch computes it before it starts */
	uint64_t taken; /* from DPDK's heap, its own books included */
	uint64_t data; /* of that: memzones with aggregation buffers */
	uint64_t resident; /* what this process grew by */
	uint64_t kept; /* what did not come back when the switch was gone */
};

/*
 * Make such a switch, look, destroy it. hidden: bytes to take from the heap meanwhile that nobody
 * has computed. 0, or a line on standard error and -1.
 */
int memory_switch_measure(
	const struct memory_shape *shape, uint64_t hidden, struct memory_use *use);

/* Bytes of a frame that its packet buffers have room for. */
uint32_t memory_switch_frame(const struct memory_shape *shape);

/* Bytes of a process's memory that are in RAM, shared pages by their share; pid 0: this one. */
uint64_t memory_resident(int pid);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-capture: the contributions that a job's sources would send to a switch, as a pcap file.
 *
 *	main.c    options, the file, and the summary
 *	plan.c    what the file will hold, checked before a byte is written
 *	order.c   the order in which contributions arrive
 *	frame.c   the bytes of a frame
 *
 * For one thread. Functions that can fail return 0 or -errno.
 */
#ifndef APPS_CAPTURE_CAPTURE_H
#define APPS_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pktbuf/result.h"
#include "ppe/jobs.h"

/* -- the plan (plan.c) */

#define CAPTURE_ERROR_BYTES 1200
#define CAPTURE_UNSET       UINT64_MAX /* an option that was not given */

/* In which order contributions arrive. */
enum capture_order {
	CAPTURE_BLOCKS, /* block by block, in each the sources in turn */
	CAPTURE_SOURCES, /* a window of one source's blocks, then the next source's */
	CAPTURE_RANDOM, /* shuffled, half a window after the other */
};

struct plan {
	/* From the command line. */
	const char *config; /* the configuration's file */
	const char *job_name; /* name or id; NULL: the only job of the configuration */
	const char *only; /* sources to write, as "0,3-5"; NULL: all */
	uint64_t elements; /* of each contribution; default: the job's */
	uint64_t blocks; /* default: each block id once, or 4 windows; 0: endless */
	uint64_t first; /* block */
	uint64_t seed;
	uint64_t duplicates; /* percent of the contributions that are sent twice */
	enum capture_order order;
	bool extended, endless;
	/* From the configuration; plan_complete() fills them. */
	struct pktbuf_identity to; /* the switch */
	struct ppe_job job;
	unsigned int nb_sources; /* to write, [1, job.nb_sources] */
	uint8_t source[WEIR_SOURCES_MAX]; /* their ids, ascending */
};

/* Read the configuration, check the options, and fill in their defaults. 0, or -errno (-EINVAL: a
 * wrong option) and the reason in `error` (CAPTURE_ERROR_BYTES). */
int plan_complete(struct plan *plan, char *error);

/* -- the bytes of a frame, without the frame check sequence (frame.c) */

/* Bytes of a contribution's frame, padding included. */
size_t frame_bytes(const struct plan *plan);

/* A contribution's payload: plan->elements elements, little-endian. Depends on the plan's seed, the
 * block's number in the job and the source alone; fp32 sums of them are exact in any order. */
void frame_payload(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *payload);

/* Sum of that over all of the job's sources, whether they are written or not: the result of the
 * block, by the plainest code there is. */
void frame_result(const struct plan *plan, uint32_t block, uint8_t *payload);

/* A contribution's frame. frame: frame_bytes(plan) bytes, all written; aligned as by malloc(). */
void frame_contribution(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *frame);

/* -- the order (order.c) */

struct order_step {
	uint64_t block; /* from 0, never wrapping */
	unsigned int source; /* index in plan->source */
	bool duplicate; /* this step was there before */
	bool completes; /* all sources are in the block now */
};

struct order;

/*
 * The steps of a plan, which must outlive it: order, seed, duplicates, blocks, nb_sources and
 * job.window. No source sends block b before block b - window is complete: the rule that libweir
 * keeps and that the switch enforces. NULL: no memory; it takes 16 bytes per source and block of
 * the window.
 */
struct order *capture_order_create(const struct plan *plan);
void capture_order_destroy(struct order *order); /* NULL is fine */

/* The next step; false: there is none. */
bool order_next(struct order *order, struct order_step *step);

/* splitmix64: the next number of *state. */
uint64_t order_random(uint64_t *state);

#endif

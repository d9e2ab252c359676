/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-capture: the packets that hosts would send to a switch, as a capture.
 *
 *	main.c    options, and the loop that writes
 *	plan.c    what the capture will hold, checked whole before a byte is written
 *	order.c   in which order contributions arrive
 *	frame.c   the bytes of a frame
 *	output.c  the file, and what was written
 *
 * For one thread. Codes are 0 or -errno.
 */
#ifndef APPS_CAPTURE_CAPTURE_H
#define APPS_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pktbuf/result.h"
#include "ppe/jobs.h"

/* -- the plan (plan.c) */

#define CAPTURE_SIZES_MAX   16 /* sizes of ordinary frames in one capture */
#define CAPTURE_FRAME_MAX   65535 /* bytes of a frame that libpcap's readers take */
#define CAPTURE_ERROR_BYTES 1200

/* In which order contributions arrive; each keeps the window's rule. */
enum capture_order {
	CAPTURE_BLOCKS, /* block by block, in each the sources in turn */
	CAPTURE_SOURCES, /* a window of one source's blocks, then the next source's */
	CAPTURE_RANDOM, /* shuffled, half a window after the other */
};

#define CAPTURE_UNSET UINT64_MAX

/* The command line; 0, NULL or false where nothing was given. */
struct capture_spec {
	const char *config, *job; /* a configuration's file, and the job's name or id in it */
	const char *only; /* sources of the capture, as "0,3-5" */
	const char *sizes; /* ordinary frames, as "64,1518" */
	const char *address, *switch_address, *switch_mac, *type;
	/* CAPTURE_UNSET: not given. */
	uint64_t job_id, sources, window, elements, generation, block_bits, blocks, frames,
		stations;
	uint64_t first, seed, duplicates; /* duplicates: percent */
	enum capture_order order;
	bool extended, endless, reverse;
};

struct plan {
	struct pktbuf_identity to; /* the switch */
	struct ppe_job job;
	uint16_t elements; /* of each contribution, [0, job.elements] */
	unsigned int nb_sources; /* that are in the capture, [1, job.nb_sources] */
	uint8_t source[WEIR_SOURCES_MAX]; /* their ids, ascending */
	uint32_t first; /* block */
	uint32_t blocks; /* 0: endless */
	uint64_t seed;
	unsigned int duplicates; /* percent of the contributions that are sent twice */
	enum capture_order order;
	bool extended, endless;
	unsigned int nb_sizes; /* not 0: ordinary frames instead */
	uint16_t size[CAPTURE_SIZES_MAX]; /* bytes with the frame check sequence */
	uint64_t frames; /* ordinary ones */
	uint32_t stations; /* that send ordinary frames in turn */
	bool reverse; /* ordinary frames go the other way */
};

/* Fill `plan`. 0, or -errno (-EINVAL: a wrong spec) and the reason in `error`
 * (CAPTURE_ERROR_BYTES). */
int plan_make(struct plan *plan, const struct capture_spec *spec, char *error);

/* Bytes of a contribution's frame, padding included. */
size_t plan_frame_bytes(const struct plan *plan);

/* -- the bytes of a frame, without the frame check sequence (frame.c) */

/* A contribution's payload: plan->elements elements, little-endian. Depends on the plan's seed, the
 * block's number in the job and the source alone; fp32 sums of them are exact in any order. */
void frame_payload(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *payload);

/* Sum of that over all of the job's sources, whether they are in the capture or not: the result of
 * the block, by the plainest code there is. */
void frame_result(const struct plan *plan, uint32_t block, uint8_t *payload);

/* All elements of a payload in one number. */
double frame_total(const struct plan *plan, const uint8_t *payload);

/* A contribution's frame. frame: plan_frame_bytes(plan) bytes, all written. */
void frame_contribution(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *frame);

/* The index-th ordinary frame: UDP between stations of 198.18.0.0/15, the network of RFC 2544.
 * frame: CAPTURE_FRAME_MAX bytes; returns the frame's. */
size_t frame_ordinary(const struct plan *plan, uint64_t index, uint8_t *frame);

/* -- the order (order.c) */

/*
 * No source sends block b before block b - window is complete: the rule that libweir keeps and that the switch
 * enforces.
 */
struct order_config {
	enum capture_order order;
	unsigned int sources; /* [1, 256] */
	uint32_t window; /* a power of two */
	uint64_t blocks; /* 0: endless */
	uint64_t seed;
	unsigned int duplicates; /* percent of the steps that are repeated soon after */
};

struct order_step {
	uint64_t block; /* from 0, never wrapping */
	unsigned int source; /* [0, sources) */
	bool duplicate; /* this step was there before */
	bool completes; /* all sources are in the block now */
};

struct order;

/* NULL without memory: 16 bytes per source and block of the window. */
struct order *capture_order_create(const struct order_config *config);
void capture_order_destroy(struct order *order); /* NULL is fine */

/* The next step; false: there is none. */
bool order_next(struct order *order, struct order_step *step);

/* splitmix64: the next number of *state. */
uint64_t order_random(uint64_t *state);

/* -- the capture, by libpcap, and its numbers (output.c) */

struct output_config {
	const char *path; /* "-": standard output */
	bool nanoseconds; /* time stamps; else microseconds */
	uint64_t gap_ns; /* between the time stamps of two frames */
};

struct output;

/* 0 and *output, or -errno. A FIFO is opened when its reader comes. */
int output_open(struct output **output, const struct output_config *config);

/* Write a frame. 0 or -errno; -EPIPE: the reader has gone. SIGPIPE has to be ignored. */
int output_frame(struct output *output, const uint8_t *frame, size_t bytes);

/* Write what is buffered, and close. NULL is fine. 0 or -errno. */
int output_close(struct output *output);

struct summary;

/* 0 and *summary, or -errno. expect: a file for the blocks' results, or NULL. Without it the sums
 * of an endless capture are not made: they would cost as much as the capture. */
int summary_open(struct summary **summary, const struct plan *plan, const char *expect);

/* A contribution was written. 0 or -errno of the file of results. */
int summary_contribution(
	struct summary *summary, const struct order_step *step, uint32_t block, size_t bytes);

/* An ordinary frame was written. */
void summary_frame(struct summary *summary, size_t bytes);

/* Print, as text or as one line of JSON; to standard error when the capture goes to standard
 * output. */
void summary_print(const struct summary *summary, const struct output_config *output, bool json);

/* Close the file of results. NULL is fine. 0 or -errno. */
int summary_close(struct summary *summary);

#endif

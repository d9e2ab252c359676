/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contributions to a job, and the check of what comes back. Sources with even numbers are at port 0
 * of a link, the others at port 1. From a switch come results, each compared with the sum; from a
 * device that forwards (testpmd), the contributions themselves, whose headers are read.
 *
 * All frames are made beforehand: one per source and variant. Block b carries variant b mod 5, so
 * that the sum of block b - window is wrong for block b. A frame is sent again and again with
 * another block number, which the driver allows that copies it out as it sends. Sums of small
 * integers are exact in any order. For one thread.
 */
#ifndef APPS_BENCH_CONTRIBUTIONS_H
#define APPS_BENCH_CONTRIBUTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/bench/closed_loop.h"
#include "apps/bench/open_loop.h"
#include "apps/bench/target.h"

#define CONTRIBUTION_VARIANTS 5
#define CONTRIBUTION_HEADERS  54 /* Ethernet, IPv4, UDP, base form */

struct contributions_config {
	struct target *target;
	unsigned int sources, window, elements;
	bool multicast; /* results: one per port */
	bool spoil; /* damage a result before it is checked: the bench must notice */
	unsigned int lose; /* throw away one in so many of the frames that come back; 0: none */
};

struct contributions_count {
	uint64_t blocks; /* complete */
	uint64_t frames; /* received that count for one */
	uint64_t repeated; /* contributions sent again */
	uint64_t lost; /* frames that did not come within 50 ms */
	uint64_t again; /* frames of a block that had them already */
	uint64_t foreign; /* frames that are neither */
	uint64_t wrong; /* results that are not the sum */
};

struct contributions;

/* NULL after a line. */
struct contributions *contributions_create(const struct contributions_config *config);
void contributions_destroy(struct contributions *c);

/* Bytes of a contribution's frame, without frame check sequence. */
unsigned int contributions_frame_bytes(unsigned int elements);

/*
 * Closed loop for `ms`: block b + window is sent when all of block b is back, and sent again after
 * 50 ms without. Then wait for what is under way. result: in contributions; `lost` in frames that
 * were to come back. 0, or -1 after a line that names block and sources that got no answer within
 * 5 s, or the first wrong result.
 */
int contributions_run(struct contributions *c, uint64_t ms, struct closed_loop *result);

/*
 * Open loop for `ms`: contributions one by one, source after source, block after block, on a
 * schedule of `rate` per second. One whose block - window is not complete waits, and is late.
 * samples: from when a block's last contribution was due to its first result; may be NULL. What is
 * lost is repeated afterwards: the sample of such a block is as long as the repair took. 0, or -1
 * as above.
 */
int contributions_offer(struct contributions *c, double rate, uint64_t ms, struct samples *samples,
	struct open_loop *result);

#endif

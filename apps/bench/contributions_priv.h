/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two halves of contributions share: frames and checks, loops. */
#ifndef APPS_BENCH_CONTRIBUTIONS_PRIV_H
#define APPS_BENCH_CONTRIBUTIONS_PRIV_H

#include "apps/bench/contributions.h"

/* A block in flight; residue of its number modulo the window. */
struct place {
	uint32_t block;
	bool open;
	bool missed; /* what it lacked after 50 ms has been counted as lost */
	uint64_t got; /* bits of sources, or of ports */
	uint64_t sent; /* TSC */
	uint64_t due; /* TSC; open loop: when its last contribution should leave */
};

struct contributions {
	struct contributions_config config;
	struct contributions_count count;
	uint8_t job;
	uint64_t came; /* frames, for config.lose */
	unsigned int next; /* open loop: the next contribution, in units of sources */
	struct samples *samples; /* open loop: where latencies go; may be NULL */
	uint64_t now; /* TSC after the last receive */
	uint64_t all; /* what `got` is when the block is complete */
	uint32_t done[TARGET_WINDOW_MAX]; /* residues whose blocks this poll has completed */
	unsigned int done_count, open_count;
	struct place place[TARGET_WINDOW_MAX];
	/* By variant and source; the ones-complement sum of each UDP packet but for the block. */
	struct rte_mbuf *frame[CONTRIBUTION_VARIANTS][TARGET_SOURCES_MAX];
	uint32_t sum[CONTRIBUTION_VARIANTS][TARGET_SOURCES_MAX];
	float *expected[CONTRIBUTION_VARIANTS];
};

/* The frame of this source for this block, with a reference for the driver to free. */
struct rte_mbuf *contributions_prepare(
	struct contributions *c, unsigned int source, uint32_t block);

/* Is that frame prepared, and not sent yet? */
bool contributions_in_use(const struct contributions *c, unsigned int source, uint32_t block);

/* Receive once from each port and check what came; completed places are listed in `done`. Returns
 * the frames. */
unsigned int contributions_poll(struct contributions *c);

#endif

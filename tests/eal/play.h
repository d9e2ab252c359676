/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sources of a long random play for a switch and its model: who they are, and what each of them
 * contributes to a block. Main thread only.
 */
#ifndef TESTS_EAL_PLAY_H
#define TESTS_EAL_PLAY_H

#include "tests/eal/twin.h"

#define SOURCES_MAX 32
#define WINDOW_MAX  32

enum { JOB_INT, JOB_FLOAT, JOB_FIXED, JOB_GROUP, JOBS };

struct source {
	struct model_peer at, next_at; /* in this generation, and in the one that is collected */
	uint32_t nonce, next_nonce;
	bool joining;
};

struct play {
	struct twin twin;
	uint64_t random, seed;
	unsigned int steps, ports;
	struct source source[JOBS][SOURCES_MAX];
	bool used[JOBS][WINDOW_MAX]; /* residues that this batch has touched */
	bool odd[JOBS][WINDOW_MAX]; /* opened by a contribution that ordinary ones disagree with */
	bool raced[JOBS][WINDOW_MAX]; /* opened by one of several: who was first is not known */
};

/* A random number in [0, n). */
unsigned int below(struct play *p, unsigned int n);

/* A job by its index. */
const struct ppe_job *job(const struct play *p, unsigned int j);

/* Send the batch and compare; fails the test with the seed and the step. */
void settle(struct play *p);

/* The header of a source's right contribution to a block, in a random form. */
struct weir_header contribution(
	struct play *p, unsigned int j, unsigned int source, uint32_t block);

/* Write the elements that go with it, whose sums are exact in any order; returns their bytes. */
unsigned int payload(struct play *p, const struct weir_header *h, uint8_t *bytes);

/* Add it to the batch: from its source, from somebody else, or as these bytes. */
void offer(struct play *p, unsigned int j, const struct weir_header *h);
void offer_from(struct play *p, const struct model_peer *from, struct weir_header h);
void offer_bytes(struct play *p, const struct model_peer *from, bool extended, const uint8_t *bytes,
	unsigned int size);

/* Add a packet that touches no block, whatever else is in the batch: play_stateless.c. */
void stateless(struct play *p, unsigned int j);

#endif

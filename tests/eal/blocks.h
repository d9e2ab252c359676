/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One block of any collective on the bench: what its sources send, and, by plain loops over ranks and
 * elements, what each must receive. Beside docs/protocol.md, "Collectives", and nothing of the switch.
 */
#ifndef TESTS_EAL_BLOCKS_H
#define TESTS_EAL_BLOCKS_H

#include "tests/eal/rig.h"

struct block_plan {
	uint8_t job;
	uint16_t generation;
	unsigned int n; /* sources */
	const uint8_t *ids; /* [n], ascending: of the ranks */
	enum weir_collective collective;
	enum weir_dtype dtype;
	enum weir_op op;
	unsigned int root, elements;
	uint32_t block;
	bool final;
	uint64_t seed; /* of the data */
	uint64_t skips_own; /* bit: a rank whose own slices are left out */
	uint64_t absent; /* bit: a rank that is not in it, at most 64 of them */
	uint8_t filler; /* each byte in place of what an absent rank contributes */
};

/* The largest payload of a plan. */
#define BLOCK_BYTES_MAX (2 * RIG_FRAME_MAX)

/* Elements of a rank's slice. */
unsigned int block_slice(const struct block_plan *plan, unsigned int rank);

/* What the rank contributes; returns its bytes. */
unsigned int block_contribution(
	const struct block_plan *plan, unsigned int rank, uint8_t payload[BLOCK_BYTES_MAX]);

/* What the rank must receive, without bitmap and tag; returns its bytes. int32 sums alone are known. */
unsigned int block_result(
	const struct block_plan *plan, unsigned int rank, uint8_t payload[BLOCK_BYTES_MAX]);

/* Does the rank receive what all do that leave out nothing? */
bool block_to_all(const struct block_plan *plan, unsigned int rank);

/*
 * What a switch with the ranks [first, first + ranks) sends up: reduced, one after the other, or side by side by receiver;
 * and what it gets: what all do, or what its ranks do, one after the other.
 */
unsigned int block_up(const struct block_plan *plan, unsigned int first, unsigned int ranks,
	uint8_t payload[BLOCK_BYTES_MAX]);
unsigned int block_down(const struct block_plan *plan, unsigned int first, unsigned int ranks,
	uint8_t payload[BLOCK_BYTES_MAX]);

/* The header of the rank's contribution. */
struct weir_header block_header(const struct block_plan *plan, unsigned int rank);

/* Send the rank's contribution. */
void block_offer(struct rig *rig, const struct block_plan *plan, unsigned int rank);

#endif

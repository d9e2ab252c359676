/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bench (tests/eal/bench.h) for a switch in a tree: its parents, and its children if it has no hosts, are played by
 * the test.
 *
 *	start(.children = {3, 1, 4});					// a parent, with children 0, 3 and 4
 *	start(.parents = 2, .first_rank = 4, .tree_ranks = 8);		// a leaf, with hosts 4 and 5
 *
 * A child is named by its first rank, as on the wire: contribute(), expect() and the rest serve hosts and children. It sends
 * the sum of its ranks' values. A set of ranks is a bitmap, in which 0 stands for all of them.
 *
 * The clock stands still but in skip_us(), pass_ms() and rig_pass_us(). So receive() and expect_silence() tell what there is
 * now.
 */
#ifndef TESTS_EAL_BENCH_TREE_H
#define TESTS_EAL_BENCH_TREE_H

#include "tests/eal/bench.h"

/* In frames: where the headers of UDP and of aggregation begin. */
#define L3 34
#define L4 42

/* A parent, whose addresses are in rig.job[0].parent[p]. */
struct parent {
	uint16_t generation; /* its own */
	/* The last join that it got. */
	uint32_t nonce;
	uint8_t set;
	uint8_t proof[WEIR_CHALLENGE_BYTES]; /* the long nonce, if it was proved */
};

extern struct parent parent[PPE_PARENTS_MAX];
extern uint8_t said[RIG_FRAME_MAX]; /* the last packet of a parent */
extern struct weir_join_reply settings; /* what a parent says of its job */

/* ---- for bench_start() and expect() ---- */

bool bench_in_tree(void);
unsigned int bench_ids(const struct bench_setup *setup, uint8_t ids[WEIR_SOURCES_MAX]);
void bench_tree_setup(const struct bench_setup *setup, struct rig_config *config);
/* The packet in `got` is for this host or child, of this job and its generation. */
void expect_addressed(unsigned int source);

/* ---- ranks ---- */

/* Of a host or child; of all of them. */
uint64_t ranks_of(unsigned int source);
uint64_t own_ranks(void);

/* What parents, children and hosts have in common. */
uint32_t bench_sum(uint64_t ranks, uint32_t block, unsigned int element);
/* Write the bitmap behind a payload of n bytes; returns the bytes then. */
unsigned int put_bitmap(uint8_t *to, unsigned int n, uint64_t ranks);
/* The elements of `got` are the sum of these ranks. */
void expect_sum(uint32_t block, uint64_t ranks);

/* The payload of the last packet is this. */
void expect_same(const void *bytes, unsigned int n);

/* So much time passes, and each worker makes one turn. */
void skip_us(uint64_t us);

/* ---- hosts and children ---- */

/* Send the packet with this payload. */
void offer_payload(const struct weir_header *header, const void *bytes, unsigned int n);
/* The contribution of a child that lacks ranks. */
struct weir_header partial_contribution(unsigned int child, uint32_t block, uint64_t absent);
void contribute_without(unsigned int child, uint32_t block, uint64_t absent);
/* A contribution without elements: the child's block failed. mismatch: NULL with an error */
void contribute_failure(unsigned int child, uint32_t block, enum weir_status status, uint64_t ranks,
	const struct weir_mismatch *mismatch);
/* A child joins, with this set of parents. */
void join_with(unsigned int child, uint32_t nonce, uint8_t set);

/* The next packet to a host or child has this status. */
void expect_status(unsigned int source, enum weir_status status);
/* The same to a join, which waits: these have joined. */
void expect_waiting(unsigned int source, uint64_t ranks);
/* The same to a block, with this payload. Each host or child gets that. */
void expect_bytes(unsigned int source, uint32_t block, enum weir_status status, const void *bytes,
	unsigned int n);
void expect_payload(uint32_t block, enum weir_status status, const void *bytes, unsigned int n);
/* All have joined: the generation begins, which is returned, and is `generation` from now on. */
uint16_t expect_begun(void);

/* ---- parents: blocks go to those of the generation by turns ---- */

unsigned int parent_of(uint32_t block);
/* Take the next packet to the parent, whose addresses must be right. false: there is none. */
bool receive_up(unsigned int p);
/* The next packet to the block's parent is this. */
void take_up(uint32_t block, enum weir_collective collective, enum weir_status status);
/* The same, and it is an acknowledgement or a probe; the sum of these ranks; or an error with their bitmap. */
void expect_note_up(uint32_t block, enum weir_collective collective);
void expect_up(uint32_t block, enum weir_status status, uint64_t ranks);

/* A parent sends a packet, after all that others have sent. Returns its bytes: `said` has them. */
unsigned int say(
	unsigned int p, const struct weir_header *header, const void *bytes, unsigned int n);
/* The same, but it is written only. */
unsigned int write_down(
	unsigned int p, const struct weir_header *header, const void *bytes, unsigned int n);
/* What a block's parent says about it. */
struct weir_header from_above(uint32_t block, enum weir_status status, uint64_t ranks);
/* It says so, with the sum of these ranks, their bitmap, or nothing. */
void answer(uint32_t block, enum weir_status status, uint64_t ranks);
void answer_probe(uint32_t block, enum weir_status status, uint64_t ranks);

/* Hosts contribute, and their sum goes up. The parent's result comes down to all. Both. */
void go_up(uint32_t block);
void come_down(uint32_t block);
void run_block(uint32_t block);

/* ---- joins at parents: set: bit p: with parent p ---- */

/* As a parent that agrees with the job: so it is at the start. */
void agree(void);
struct ppe_parent_stats parent_stats(unsigned int p);
void expect_join_up(unsigned int p, uint8_t set);
void expect_joins_up(uint8_t set);
/* The answer to the last join that came to the parent. */
struct weir_header answer_to_join(unsigned int p, enum weir_status status);
void refuse_join(unsigned int p, enum weir_status status);
void accept_join(unsigned int p, uint16_t its_generation);
void keep_waiting(unsigned int p, uint8_t common, uint64_t ranks);

/* All hosts join with these nonces: nonce, nonce + 1, ... The same, and the joins go up. */
void hosts_join(uint32_t nonce);
void hosts_join_up(uint32_t nonce, uint8_t set);
/* The same, and a generation begins, with parents whose own are 100 + p. */
uint16_t begin(uint32_t nonce, uint8_t set);
/* A host's packet finds the generation over. */
void expect_over(unsigned int source);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A contribution's way from file to file (collective.c tells it from top to bottom), and other threads' ways:
 * segments, and the functions that they end with. By the worker that runs the thread.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_WAY_H
#define PPE_PROGRAMS_COLLECTIVE_WAY_H

#include "ppe/collective/collective_priv.h"

/* The program's shortcut, and how it learns: collective_memo.c. */
bool memo_recognise(
	struct ppe_worker *worker, void *state, struct ppe_thread *thread, struct rte_mbuf *packet);
void memo_learn(struct ppe_worker *worker, struct ppe_thread *thread, struct contribution *c);

/* A packet like the memo has been admitted, in the call that learned it. */
void memo_pass(const struct ppe_worker *worker, struct job_shard *job,
	const struct contribution *contribution);

/* After parsing: collective.c. */
struct ppe_next job_entry(struct ppe_worker *worker, struct ppe_thread *thread);

/* May the contribution count? On its shard's owner: collective_admit.c. examine is the longer way, for
 * what is not as usual. */
struct ppe_next admit(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next examine(struct ppe_worker *worker, struct ppe_thread *thread);

/* After admission: collective.c. */
struct ppe_next find_block(struct ppe_worker *worker, struct ppe_thread *thread);

/* Drop the packet, which ends the thread; refuse: and tell the source why. collective_refuse.c */
struct ppe_next end_dropped(
	struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason);
struct ppe_next refuse(struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason,
	enum weir_status status);

/* Drop what comes from no source of its job (NULL: there is no such job), and tell the sender so, as
 * far as its kind is answered: collective_refuse.c. Ends the thread. */
struct ppe_next refuse_stranger(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *job);

/*
 * Contributions that are not added: collective_odd.c. For aggregate, once the checksums hold; each
 * ends the packet.
 *
 * To a finished block: its sender has lost the result, or never was in it.
 */
struct ppe_next answer_late(
	struct ppe_worker *worker, struct ppe_thread *thread, struct block *block);

/* The source is in the block already: a repeat, which is no progress. Once the
 * block is overdue, tell who is in. */
struct ppe_next repeated(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct block *block);

/*
 * An acknowledgement, for examine, once it is admitted: the source has the results of all blocks of the
 * residue before the one that it names, and waits for that one's: collective_ack.c. Ends the packet.
 */
struct ppe_next acknowledged(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* In what does the contribution disagree with the block, what is there and what is offered? 0: in
 * nothing that counts. */
enum weir_field disagreement(const struct block *block, const struct weir_header *header,
	uint16_t *has, uint16_t *offers);

/* The first two disagree: nobody can get a sum, so everybody is told. */
struct ppe_next disagrees(struct ppe_worker *worker, struct ppe_thread *thread, struct block *block,
	enum weir_field field, uint16_t has, uint16_t offers);

/* The segment that takes a join at the job's home shard: collective_join.c. */
struct ppe_next join(struct ppe_worker *worker, struct ppe_thread *thread);

/* The timer segment that looks for stragglers in its slices: collective_age.c. */
struct ppe_next age(struct ppe_worker *worker, struct ppe_thread *thread);

/* The names of the segments there. */
extern const struct ppe_segment_name age_segments[], join_segments[];

#endif

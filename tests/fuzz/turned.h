/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch that is turned by hand: real engines and programs, but no lcore runs them. Their turns are
 * called one after the other, with a clock that goes on only when it is told to, so that the same
 * packets always do the same. Main thread only, one per process.
 */
#ifndef TESTS_FUZZ_TURNED_H
#define TESTS_FUZZ_TURNED_H

#include "tests/eal/rig.h"

/* Start EAL and build the switch. config->programs: the built-in ones. */
void turned_start(struct rig *rig, const struct rig_config *config);

/* A turn of each worker. */
void turned_turn(struct rig *rig);

/* Time goes on by so much, and then comes a turn of each worker. */
void turned_turn_after_us(struct rig *rig, uint64_t us);

/* Time goes on by so much, in so many turns that every timer visits all of its slices. */
void turned_wait_us(struct rig *rig, uint64_t us);

/* Turn until nothing is under way; aborts when that takes too long. */
void turned_rest(struct rig *rig);

/*
 * Jobs as they were at the start, with these attributes: all that packets have done to them is gone.
 * jobs: as in rig->job. Nothing is under way.
 */
void turned_renew_jobs(struct rig *rig);

/* The same jobs with other attributes: what is in rig->job. Nothing is under way. */
void turned_change_jobs(struct rig *rig);

/*
 * At rest, with all that left taken from the ports: every packet has one end, every mbuf is back in its
 * pool, no release made no sense. Aborts with what is wrong.
 */
void turned_check_packets(struct rig *rig);

#endif

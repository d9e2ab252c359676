/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that makes a worker stand still in the middle of a turn, as one whose CPU is taken away. */
#ifndef TESTS_EAL_STAND_H
#define TESTS_EAL_STAND_H

#include <stdbool.h>

#include "ppe/program.h"

/* For rig_config.programs, behind collective. */
extern const struct ppe_program stand_program;

/* Before rig_start: which worker it is, [0, workers). */
void stand_choose(unsigned int worker);

/* From now on it stands, or turns again; returns when that is so. Bounded: it stands 5 s at most. */
void stand(bool still);

#endif

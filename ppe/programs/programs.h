/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The built-in programs.
 *
 *   collective  packets to the switch's address on the aggregation ports: AllReduce and its family
 *   exception   other packets to the switch itself: to the kernel, through a TAP port
 *   forward     everything else: a learning layer 2 switch
 */
#ifndef PPE_PROGRAMS_PROGRAMS_H
#define PPE_PROGRAMS_PROGRAMS_H

#include "ppe/program.h"

extern const struct ppe_program collective_program;
extern const struct ppe_program exception_program;
extern const struct ppe_program forward_program;

/* All three, in this order; for ppe_config.programs. */
static inline const struct ppe_program *const *
ppe_programs(void)
{
	static const struct ppe_program *const programs[] = {
		&collective_program, &exception_program, &forward_program, NULL};

	return programs;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simulation: what a running switch would do with a frame, without doing it. And the words for it.
 *
 * ppe_simulate() finds the worker, the program and its match as dispatch does; then the program
 * says how the packet would go on (struct ppe_program.explain). Nothing changes: no counter, table,
 * block or timer. The workers run meanwhile, so the answer is about a state that lasted for an
 * instant. Filters, injected faults, and limits of rates and of memory are not looked at.
 *
 * All functions are for the control thread.
 */
#ifndef PPE_SIMULATE_H
#define PPE_SIMULATE_H

#include <stddef.h>

#include "ppe/ppe.h"
#include "ppe/program.h"

#define PPE_SIMULATE_BYTES_MAX 9728 /* of a frame: the longest that a port takes */
#define PPE_EXPLAIN_STEPS      12
#define PPE_EXPLAIN_BYTES      256

struct ppe_explanation {
	char receive[PPE_EXPLAIN_BYTES]; /* which worker gets the packet, in words */
	char program[32]; /* "": none takes it */
	const struct ppe_match *match; /* valid until the program is gone; NULL: none takes it */
	unsigned int worker; /* that is taken for the receiver */
	unsigned int nb_steps; /* further steps are lost */
	struct {
		char segment[32];
		char text[PPE_EXPLAIN_BYTES];
	} step[PPE_EXPLAIN_STEPS];
	char end[48]; /* as in struct ppe_segment_name.leads_to; "": not known */
	char text[PPE_EXPLAIN_BYTES]; /* why */
};

/* Explain a frame of `length` bytes [0, PPE_SIMULATE_BYTES_MAX] that `port` would receive: [0,
 * nb_ports). 0, or -EINVAL. Copies the frame. */
int ppe_simulate(const struct ppe *ppe, const void *frame, size_t length, unsigned int port,
	struct ppe_explanation *explanation);

/* Set the packet's end: it is dropped; the text is the reason's. */
void ppe_explain_drop(struct ppe_explanation *explanation, enum ppe_drop reason);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do segments lead where they say (struct ppe_segment_name.leads_to)? While it watches, each turn of a rig in virtual time is
 * a traced one, and what each segment does is compared with what its program declares: the segment that the thread runs
 * next or hops to, its packet's end, and whether it made packets. A step that is not declared aborts the test.
 *
 * A step may run several segments: a hop to the own worker runs the other segment at once, and some segments call others.
 */
#ifndef TESTS_EAL_GRAPH_H
#define TESTS_EAL_GRAPH_H

#include <stdbool.h>

#include "ppe/program.h"

struct ppe_worker;

/* Watch from now on. Rigs do, if the environment has WEIR_GRAPH. */
void graph_watch(void);

/* Before a turn of this worker in virtual time. */
void graph_turn(struct ppe_worker *worker);

/*
 * Is the step declared: does `from` lead to `to` ("hop:" only if it left the worker), if the declaration of `without` in
 * `of` were missing (NULL: none)?
 */
bool graph_declares(const struct ppe_program *program, const char *from, const char *to,
	const char *of, const char *without);

/* Call `f` for each step that was seen, once. */
void graph_seen(
	void (*f)(const struct ppe_program *program, const char *from, const char *to, void *arg),
	void *arg);

/* The segment's name in the program; NULL: it has none. */
const char *graph_name(const struct ppe_program *program, ppe_segment segment);
const struct ppe_segment_name *graph_segment(const struct ppe_program *program, const char *name);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the control thread prints while the switch runs. The text is made in memory, then written with a
 * bounded wait, so that a slow reader never blocks the switch.
 */
#ifndef APPS_SWITCH_OUTPUT_H
#define APPS_SWITCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct output {
	FILE *to; /* print here; NULL: no memory */
	char *text;
	size_t length;
};

/* Begin a text. False: no memory. Call output_end in either case. */
bool output_begin(struct output *output);

/*
 * Write the text to fd, and free it. Waits at most wait_ms for room; the rest is lost. Does not change
 * the descriptor's flags, because other processes share it. Control thread.
 *
 * @return whether all of it was written
 */
bool output_end(struct output *output, int fd, int wait_ms);

#endif

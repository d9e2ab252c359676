/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the control thread prints while the switch runs: made in memory, then written to a descriptor
 * whose reader may be slow, or gone to sleep. That holds nobody up.
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

/* Begin a text. Followed by output_end also when it returns false: no memory. */
bool output_begin(struct output *output);

/*
 * Write the text to fd, and free it. Waits for room for wait_ms at most; what has none then is lost. The
 * descriptor stays as blocking as it is: it is others' too. Control thread.
 *
 * @return whether all of it was written
 */
bool output_end(struct output *output, int fd, int wait_ms);

#endif

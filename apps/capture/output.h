/* SPDX-License-Identifier: BSD-3-Clause */
/* The capture as a file or a stream, by libpcap. */
#ifndef APPS_CAPTURE_OUTPUT_H
#define APPS_CAPTURE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output_config {
	const char *path; /* "-": standard output */
	bool nanoseconds; /* time stamps; else microseconds */
	uint64_t gap_ns; /* between the time stamps of two frames */
};

struct output;

/* 0 and *output, or -errno. A FIFO is opened when its reader comes. */
int output_open(struct output **output, const struct output_config *config);

/* Write a frame. 0 or -errno; -EPIPE: the reader has gone. SIGPIPE has to be ignored. */
int output_frame(struct output *output, const uint8_t *frame, size_t bytes);

/* Write what is buffered, and close. NULL is fine. 0 or -errno. */
int output_close(struct output *output);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of ordinary frames from a station at port 0 of a link to one at port 1: Ethernet, IPv4,
 * UDP to nobody the switch knows, a number and the time when the frame was due. Frames are made
 * beforehand and numbered as they are sent. For one thread.
 */
#ifndef APPS_BENCH_STREAM_H
#define APPS_BENCH_STREAM_H

#include <stdint.h>

#include "apps/bench/closed_loop.h"
#include "apps/bench/open_loop.h"
#include "apps/bench/target.h"

#define STREAM_LEAST 60 /* bytes of the shortest frame, without frame check sequence */

struct stream;

/* bytes: of a frame without frame check sequence, [60, what the link was made for]. The device
 * learns both stations here, and must be selected. lose: throw away one in so many of the frames
 * that come; 0: none. NULL after a line. */
struct stream *stream_create(struct target *target, unsigned int bytes, unsigned int lose);
void stream_destroy(struct stream *stream);

/*
 * Closed loop for `ms`: at most `window` frames are under way; when none has come for 20 ms, the
 * window opens anew, and what is missing in the end is lost. 0, or -1 after a line: nothing came,
 * or a frame came back damaged.
 */
int stream_run(struct stream *stream, unsigned int window, uint64_t ms, struct closed_loop *result);

/* Open loop, as open_loop_run; samples: from when a frame was due until it came, of one frame in
 * `each`, [1, ...]; a lost one took as long as the whole run. May be NULL. 0, or -1 after a
 * line. */
int stream_offer(struct stream *stream, double rate, uint64_t ms, struct samples *samples,
	unsigned int each, struct open_loop *result);

#endif

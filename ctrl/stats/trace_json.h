/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace as JSON, in the Trace Event Format of Chrome, which ui.perfetto.dev opens.
 *
 * One process; a track (tid) per worker and per thread context: the worker's own number is 100 x
 * (its number + 1), its threads follow. Slices (ph X) on the tracks are segments, by name, and the
 * worker's own work. A hop is an arrow (ph s and f). A block is an asynchronous span (ph b and e,
 * cat "job", id job/generation/block) from its opening to its release. Within it are a span
 * "collecting", then a span "result kept", and an instant (ph n) per contribution. A span that
 * began before the trace or goes on after it is cut at the trace's ends, so all spans are closed. A
 * job that is added, changed or removed meanwhile is an instant over all tracks (ph i, cat "jobs",
 * name "NAME added"), and later events have its name.
 *
 * The text is written piece by piece into the reader's buffer, in the order of the events' time; it
 * never exists as a whole. Memory: 50 to 100 bytes per event of a hop or a block.
 *
 * Thread safety: none; one reader, any thread.
 */
#ifndef CTRL_TRACE_JSON_H
#define CTRL_TRACE_JSON_H

#include <sys/types.h>

#include "ppe/trace/trace.h"

struct ctrl_trace_json;

/* Begin. trace: taken, also on failure. name: of the switch, read here only. NULL: no memory. */
struct ctrl_trace_json *ctrl_trace_json_create(struct ppe_trace *trace, const char *name);

/*
 * The next `room` bytes at most: [1, ...). Returns how many, 0 at the end. About 0.5 us per event.
 * json: a struct ctrl_trace_json; void for callers through a pointer.
 */
ssize_t ctrl_trace_json_read(void *json, char *out, size_t room);

/* Free it and the trace. NULL is fine. */
void ctrl_trace_json_destroy(void *json);

#endif

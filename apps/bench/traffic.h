/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traffic through a device with two ports, and the check of what comes back.
 *
 * Contributions to a job: sources with even numbers are at port 0 of a link, the others at port 1.
 * From a switch come results, each compared with the sum; from a device that only forwards
 * (testpmd), the contributions themselves, whose headers are read. Block b carries one of five
 * payloads, so that the sum of block b - window is wrong for block b. Sums of small integers are
 * exact in any order.
 *
 * Ordinary frames: from a station at port 0 to one at port 1, which every device forwards.
 *
 * All frames are made beforehand, and sent again and again with another block number, which the
 * driver allows that copies them out as it sends. For one thread.
 */
#ifndef APPS_BENCH_TRAFFIC_H
#define APPS_BENCH_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/bench/device.h"

struct traffic_config {
	struct device *device;
	unsigned int sources, window, elements; /* of the job; sources 0: ordinary frames */
	unsigned int bytes; /* of an ordinary frame, without check sequence, [60, ...] */
	bool multicast; /* results: one per port */
	bool spoil; /* damage a result before it is checked: the bench must notice */
	unsigned int lose; /* throw away one in so many of the frames that come back; 0: none */
};

struct traffic;

/* Bytes of a contribution's frame, without frame check sequence. */
unsigned int traffic_frame_bytes(unsigned int elements);

/* The device learns the stations of ordinary frames here, and must be selected. NULL after a line. */
struct traffic *traffic_create(const struct traffic_config *config);
void traffic_destroy(struct traffic *t);

#define TRAFFIC_GOOD 0.25

struct closed_loop {
	double rate; /* frames per second in which the generator had a CPU; if that was less than TRAFFIC_GOOD
		      * of the time: of the whole time */
	double idle; /* share of the time, [0, 1], in which the generator had nothing to do */
	double good; /* share of the time in which it had a CPU */
	uint64_t lost; /* frames that did not come back in time, warm-up and end included */
};

/*
 * Closed loop for `ms`: block b + window is sent when all of block b is back; of ordinary frames 256
 * are under way. What is late after 50 ms is lost and sent again; ordinary frames are not. 0, or -1
 * after a line: nothing comes, or not within 5 s; a wrong result.
 */
int traffic_run(struct traffic *t, uint64_t ms, struct closed_loop *result);

/* Latencies in TSC cycles; those after the last place are not kept. */
struct samples {
	double *value;
	size_t count, most;
};

struct open_loop {
	uint64_t sent, done; /* frames */
	double rate; /* at which they were sent, per second */
};

/*
 * Open loop for `ms`: frames leave on a fixed schedule of `rate` per second, whether or not the
 * device keeps up, and 20 ms are waited for the last ones. One that could not leave in time (its
 * block's window is not open) leaves late, and its latency counts from when it was due: waiting in the generator counts
 * ("coordinated omission"). samples, may be NULL: from when a
 * block's last contribution was due to its first result, or of one ordinary frame in `each`; a lost
 * one took as long as the repair, or as the whole run. 0, or -1 as above.
 */
int traffic_offer(struct traffic *t, double rate, uint64_t ms, struct samples *samples,
	unsigned int each, struct open_loop *result);

#endif

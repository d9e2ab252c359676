/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the rigs of leaves and parents share: a switch that is turned by hand, and what leaves it. For one test file each;
 * main thread.
 */
#ifndef TESTS_EAL_TREE_RIG_H
#define TESTS_EAL_TREE_RIG_H

#include <criterion/criterion.h>

#include <string.h>

#include "tests/eal/rig.h"

#define L3 34
#define L4 42

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX];

/* The last packet that was taken from a port. */
static struct weir_header got;
static const uint8_t *payload;
static unsigned int payload_bytes;

/* The switch has sent nothing that was not taken, and everything was returned. */
static inline void
stop(void)
{
	rig_rest(&rig);
	for (unsigned int port = 0; port < rig.ports; port++)
		cr_assert_eq(rig_receive(&rig, port, frame, 0), 0, "port %u has a packet", port);
	rig_check(&rig);
	cr_assert_null(rig_stop(&rig));
}

/* stop(), whatever there is to take. */
static inline void
stop_unread(void)
{
	rig_rest(&rig);
	for (unsigned int port = 0; port < rig.ports; port++)
		while (rig_receive(&rig, port, frame, 0) > 0)
			;
	stop();
}

/* A test with one worker and with two. */
#define ONE_WORKER_AND_TWO(suite, name)                                                            \
	static void name(unsigned int workers);                                                    \
	Test(suite, name, .timeout = 90)                                                           \
	{                                                                                          \
		name(1);                                                                           \
	}                                                                                          \
	Test(suite, name##_two_workers, .timeout = 90)                                             \
	{                                                                                          \
		name(2);                                                                           \
	}                                                                                          \
	static void name(unsigned int workers)

/* Of the first job. */
static inline struct ppe_job_stats
stats(void)
{
	struct ppe_job_stats job;

	cr_assert_eq(ppe_job_stats_read(rig.ppe, rig.job[0].id, &job), 0);
	return job;
}

static inline uint64_t
drops(enum ppe_drop reason)
{
	struct ppe_stats all;

	ppe_stats_read(rig.ppe, &all);
	return all.drops[reason];
}

/* Take the next packet of a port; false: there is none. */
static inline bool
receive(unsigned int port)
{
	unsigned int n, udp;

	rig_rest(&rig);
	n = rig_receive(&rig, port, frame, 0);
	if (n == 0)
		return false;
	udp = weir_get16(frame + L3 + 4);
	cr_assert_eq(n, L3 + udp, "port %u", port);
	cr_assert(rig_checksums_hold(frame), "port %u: checksums", port);
	got = (struct weir_header){.extended = true};
	weir_header_read(&got, frame + L4);
	payload = frame + L4 + WEIR_EXT_BYTES;
	payload_bytes = udp - 8 - WEIR_EXT_BYTES;
	return true;
}

/* Nobody gets anything more. */
static inline void
expect_silence(void)
{
	for (unsigned int port = 0; port < rig.ports; port++)
		cr_assert_not(receive(port), "port %u gets a packet: collective %u, block %u, %s",
			port, got.collective, got.block_id, weir_status_text(got.status));
}

#endif

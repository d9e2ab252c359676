/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch of two workers and two hosts, for tests that go through a block's life step by step. */
#ifndef TESTS_EAL_LIFE_H
#define TESTS_EAL_LIFE_H

#include <criterion/criterion.h>

#include "tests/eal/one_rig.h"

static uint8_t frame[RIG_FRAME_MAX];

/* Two workers; job 1 of two sources and a window of 4, job 9 with the fixed generation 5. */
static inline void
start(enum ppe_policy policy, uint32_t timeout_ms)
{
	struct rig_config config = {.workers = 2,
		.threads = 8,
		.ports = 2,
		.jobs = 2,
		.job = {rig_job(1, 2, 4, 8), rig_job(9, 2, 2, 8)}};

	config.job[0].policy = policy;
	config.job[0].timeout_ms = timeout_ms;
	config.job[1].fixed_generation = 5;
	rig_start(&rig, &config);
}

/* Ones from the source, at its port. */
static inline void
offer(const struct weir_header *h, unsigned int payload_bytes)
{
	static const int32_t ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};

	rig_offer(&rig, h->src_id % 2, h, ones, payload_bytes);
}

/* Both sources contribute to a block of 8. */
static inline void
offer_both(uint8_t job, uint16_t generation, uint32_t block)
{
	for (unsigned int s = 0; s < 2; s++) {
		struct weir_header h = rig_contribution(job, generation, s, block, 8);

		offer(&h, 32);
	}
}

/* The next reply to a source has this status; its payload is at *payload. */
static inline struct weir_header
expect(unsigned int source, enum weir_status status, const uint8_t **payload, unsigned int *bytes)
{
	struct weir_header h = {.status = 255};
	unsigned int n = rig_receive(&rig, source, frame, 2000);

	cr_assert_gt(n, 0, "source %u gets nothing", source);
	cr_assert(rig_parse(frame, n, &h, payload, bytes));
	cr_assert(rig_checksums_hold(frame));
	cr_assert_eq(h.status, status, "status %s, not %s", weir_status_text(h.status),
		weir_status_text(status));
	return h;
}

/* Both have a reply with this status. */
static inline void
expect_both(enum weir_status status)
{
	const uint8_t *payload;
	unsigned int bytes;

	for (unsigned int s = 0; s < 2; s++)
		expect(s, status, &payload, &bytes);
}

#endif

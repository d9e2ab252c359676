/* SPDX-License-Identifier: BSD-3-Clause */
/* The one switch of a test file, and what most of them ask of it. Main thread. */
#ifndef TESTS_EAL_ONE_RIG_H
#define TESTS_EAL_ONE_RIG_H

#include <criterion/criterion.h>

#include <inttypes.h>

#include "tests/eal/rig.h"

static struct rig rig;

/* Expects that every packet is accounted for, and that everything was returned. */
static inline void
stop(void)
{
	const char *error = rig_stop(&rig);

	cr_expect_null(error, "%s", error);
}

/* So many packets have ended so by now. */
static inline void
expect_drop(enum ppe_drop reason, uint64_t count)
{
	struct ppe_stats stats;

	rig_settle(&rig, &stats);
	cr_expect_eq(stats.drops[reason], count, "%s: %" PRIu64 ", not %" PRIu64,
		ppe_drop_key(reason), stats.drops[reason], count);
}

/* Of the job with this id. */
static inline struct ppe_job_stats
job_stats(uint8_t id)
{
	struct ppe_job_stats stats;

	cr_assert_eq(ppe_job_stats_read(rig.ppe, id, &stats), 0);
	return stats;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that come and go under a job that runs: who is in the next generation, and gets results. */
#include "tests/eal/bench.h"

#define WINDOW 4
#define PORTS  4

static struct ppe_job changed; /* the job, as it is published */

static void
place(unsigned int s, bool in)
{
	if (in)
		changed.members[s / 64] |= UINT64_C(1) << s % 64;
	else
		changed.members[s / 64] &= ~(UINT64_C(1) << s % 64);
	changed.address[s] = in ? rig_source_ip(s) : 0;
}

/* One more and one less than in the job. */
static void
replace(unsigned int leaves, unsigned int comes)
{
	changed = rig.job[0];
	place(leaves, false);
	place(comes, true);
	publish(&changed);
}

static void
reduce_window(uint32_t first)
{
	for (uint32_t block = first; block < first + WINDOW; block++)
		reduce(block);
}

static void
swap(uint8_t leaves, uint8_t comes)
{
	static const uint32_t nonce[] = {200, 201, 202};
	const uint8_t ids[] = {0, 1, leaves};

	start(.sources = 3, .ids = ids, .ports = PORTS);
	reduce_window(0);
	replace(leaves, comes);
	asks(0, 200, 1);
	asks(1, 201, 3); /* and does not begin without the one that came */
	join(comes, 202);
	generation = 0;
	expect_joined(nonce);
	reduce_window(0);
	cr_expect_not(source_stats(leaves).located);
	stop();
}

CASE(ppe_members, a_higher_id_comes, swap(2, 7))
CASE(ppe_members, a_lower_id_comes, swap(6, 3))

Test(ppe_members, a_higher_id_comes_to_a_fixed_generation, .timeout = 90)
{
	start(.sources = 3, .ports = PORTS, .generation = 7);
	reduce_window(0);
	replace(2, 7);
	/* Its blocks begin again, as does every job's. */
	reduce_window(0);
	reduce_window(WINDOW);
	stop();
}

static void
is_job_2(struct rig_config *config)
{
	config->job[0].id = 2; /* worker 0 has its joins, and ports 0 and 2 */
}

/* The generation of three, while worker 1 stands, and with it the walk. */
static void
walk(void)
{
	start(.sources = 3, .ports = PORTS, .late = true, .change = is_job_2);
	asks(0, 100, 1);
	asks(1, 101, 3);
	rig.standing = 1u << 1;
	join(2, 102);
	rig_turns(&rig, 10);
	cr_assert(source_stats(1).located, "no walk began");
	changed = rig.job[0];
}

/* The change comes before the standing worker takes notice of the generation, which does not begin: source 1's
 * process is none of it any more. */
static void
expect_no_generation(void)
{
	publish(&changed);
	rig.standing = 0;
	for (unsigned int s = 0; s < 3; s++)
		while (received(s))
			cr_assert_neq(got.status, WEIR_STATUS_OK, "a generation began");
	cr_expect_not(source_stats(1).located, "source 1 left, or is elsewhere");
}

/* Source 1 is there again, and joins. The others' joins are still there. */
static void
expect_generation(void)
{
	static const uint32_t nonce[] = {100, 201, 102};

	publish(&changed);
	join(1, 201);
	expect_joined(nonce);
	reduce_window(0);
	stop();
}

Test(ppe_members, one_leaves_while_a_generation_begins, .timeout = 90)
{
	walk();
	place(1, false);
	expect_no_generation();
	place(1, true);
	expect_generation();
}

/* Comes and goes before the standing worker takes notice of either. */
Test(ppe_members, one_moves_while_a_generation_begins, .timeout = 90)
{
	walk();
	changed.address[1] = rig_source_ip(9);
	expect_no_generation();
	changed.address[1] = rig_source_ip(1);
	expect_generation();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that come and go under a job that runs: who is in the next generation, and gets results. */
#include <string.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "ppe/programs/programs.h"
#include "tests/eal/one_rig.h"

#define WINDOW  4
#define PORTS   4
#define SOURCES 16 /* ids that occur, and more */

static uint8_t frame[RIG_FRAME_MAX];

/* What each host got: by its address on the bench, whatever the packet says. */
static struct got {
	unsigned int accepted, results;
	uint16_t generation;
} got[SOURCES];

static void
join(unsigned int s, uint32_t nonce)
{
	const struct weir_header h = {.job_id = rig.job[0].id,
		.src_id = (uint8_t)s,
		.block_id = nonce,
		.gen_id = WEIR_GEN_JOIN,
		.collective = WEIR_COLLECTIVE_JOIN,
		.extended = true};

	rig_offer(&rig, s % PORTS, &h, NULL, 0);
}

static void
contribute(uint16_t generation, unsigned int s, uint32_t block)
{
	const uint32_t values[4] = {1, 2, 3, 4};
	const struct weir_header h = rig_contribution(rig.job[0].id, generation, s, block, 4);

	rig_offer(&rig, s % PORTS, &h, values, sizeof(values));
}

/* Take all that comes. Returns the generation of the last accepted join, or 0. */
static uint16_t
drain(void)
{
	uint16_t generation = 0;
	struct ppe_stats stats;
	unsigned int n;

	memset(got, 0, sizeof(got));
	rig_settle(&rig, &stats);
	for (unsigned int p = 0; p < PORTS; p++)
		while ((n = rig_receive(&rig, p, frame, 20)) > 0) {
			struct weir_header h;
			const uint8_t *payload;
			unsigned int bytes, s = frame[33] - 1u; /* 10.77.0.1 and up */

			if (!rig_parse(frame, n, &h, &payload, &bytes) || s >= SOURCES ||
				h.status != WEIR_STATUS_OK)
				continue;
			if (h.collective != WEIR_COLLECTIVE_JOIN) {
				got[s].results++;
				continue;
			}
			got[s].accepted++;
			got[s].generation = generation = h.gen_id;
		}
	return generation;
}

static void
place(struct ppe_job *job, unsigned int s, bool in)
{
	if (in)
		job->members[s / 64] |= UINT64_C(1) << s % 64;
	else
		job->members[s / 64] &= ~(UINT64_C(1) << s % 64);
	job->address[s] = in ? rig_source_ip(s) : 0;
}

static void
publish(const struct ppe_job *job)
{
	struct ppe_jobs table = {0};

	table.by_id[job->id] = job;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
}

/* A job of sources 0, 1 and a third. */
static struct ppe_job
start(unsigned int third, bool fixed)
{
	struct rig_config config = {.workers = 2, .threads = 4, .ports = PORTS, .jobs = 1};

	config.job[0] = rig_job(1, 3, WINDOW, 16);
	if (fixed)
		config.job[0].fixed_generation = 7;
	place(&config.job[0], 2, false);
	place(&config.job[0], third, true);
	rig_start(&rig, &config);
	return rig.job[0];
}

static void
contribute_all(uint16_t generation, uint32_t from, unsigned int third)
{
	for (uint32_t block = from; block < from + WINDOW; block++) {
		contribute(generation, 0, block);
		contribute(generation, 1, block);
		contribute(generation, third, block);
	}
	drain();
	cr_expect_eq(got[0].results, WINDOW);
	cr_expect_eq(got[1].results, WINDOW);
	cr_expect_eq(got[third].results, WINDOW, "source %u got %u", third, got[third].results);
}

static void
swap(unsigned int leaves, unsigned int comes)
{
	struct ppe_job changed = start(leaves, false);
	struct ppe_source_stats source;
	uint16_t generation;

	join(0, 100);
	join(1, 101);
	join(leaves, 102);
	contribute_all(drain(), 0, leaves);
	place(&changed, leaves, false);
	place(&changed, comes, true);
	publish(&changed);
	join(0, 200);
	join(1, 201);
	cr_expect_eq(drain(), 0, "begun without source %u", comes);
	join(comes, 202);
	generation = drain();
	cr_expect_eq(got[comes].accepted, 1);
	cr_expect_eq(got[leaves].accepted, 0);
	contribute_all(generation, 0, comes);
	cr_expect_eq(got[leaves].results, 0, "source %u, no member, gets results", leaves);
	ppe_source_stats_read(rig.ppe, 1, (uint8_t)leaves, &source);
	cr_expect_not(source.located);
	stop();
}

CASE(ppe_members, a_higher_id_comes, swap(2, 7))
CASE(ppe_members, a_lower_id_comes, swap(6, 3))

Test(ppe_members, a_higher_id_comes_to_a_fixed_generation, .timeout = 90)
{
	struct ppe_job changed = start(2, true);

	contribute_all(7, 0, 2);
	place(&changed, 2, false);
	place(&changed, 7, true);
	publish(&changed);
	/* Its blocks begin again, as does every job's. */
	contribute_all(7, 0, 7);
	contribute_all(7, WINDOW, 7);
	cr_expect_eq(got[2].results, 0);
	stop();
}

/* The generation of three, while worker 1 stands, and with it the walk. */
static void
walk(void)
{
	struct rig_config config = {.workers = 2, .threads = 4, .ports = PORTS, .jobs = 1};
	struct ppe_source_stats source;

	config.job[0] = rig_job(2, 3, WINDOW, 16); /* worker 0 has its joins, and ports 0 and 2 */
	rig_start(&rig, &config);
	join(0, 100);
	join(1, 101);
	cr_assert_eq(drain(), 0);
	rig.standing = 1u << 1;
	join(2, 102);
	rig_turns(&rig, 10);
	ppe_source_stats_read(rig.ppe, 2, 1, &source);
	cr_assert(source.located, "no walk began");
}

Test(ppe_members, one_leaves_while_a_generation_begins, .timeout = 90)
{
	struct ppe_source_stats source;
	struct ppe_job changed;
	uint16_t generation;

	walk();
	changed = rig.job[0];
	place(&changed, 1, false);
	publish(&changed);
	rig.standing = 0;
	cr_expect_eq(drain(), 0, "a generation began without source 1");
	ppe_source_stats_read(rig.ppe, 2, 1, &source);
	cr_expect_not(source.located, "source 1 left");
	/* It comes back; the others' joins are still there. */
	place(&changed, 1, true);
	publish(&changed);
	join(1, 201);
	generation = drain();
	cr_assert_neq(generation, 0);
	cr_expect_eq(got[0].generation, generation);
	cr_expect_eq(got[2].generation, generation);
	contribute_all(generation, 0, 2);
	stop();
}

/* Comes and goes before the standing worker takes notice of either. */
Test(ppe_members, one_moves_while_a_generation_begins, .timeout = 90)
{
	struct ppe_source_stats source;
	struct ppe_job changed;
	uint16_t generation;

	walk();
	changed = rig.job[0];
	changed.address[1] = rig_source_ip(9);
	publish(&changed);
	rig.standing = 0;
	cr_expect_eq(drain(), 0, "a generation began with the former source 1");
	ppe_source_stats_read(rig.ppe, 2, 1, &source);
	cr_expect_not(source.located, "source 1 is elsewhere");
	changed.address[1] = rig_source_ip(1);
	publish(&changed);
	join(1, 201);
	generation = drain();
	cr_assert_neq(generation, 0);
	contribute_all(generation, 0, 2);
	stop();
}

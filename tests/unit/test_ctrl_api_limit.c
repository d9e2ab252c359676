/* SPDX-License-Identifier: BSD-3-Clause */
/* How often a tenant may change something: bursts, the long run, reloads. */
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/api/auth.h"

#define EPSILON 1e-6

static struct ctrl_tenant tenants[3];
static struct ctrl_api api = {.nb_tenants = 2, .tenant = tenants};
static struct api_limits limits;

static void
setup(void)
{
	strcpy(tenants[0].name, "vision");
	strcpy(tenants[1].name, "speech");
	tenants[0].quota = (struct ctrl_quota){.changes_per_s = 10, .changes_burst = 5};
	tenants[1].quota = tenants[0].quota;
	api_limits_set(&limits, &api);
}

TestSuite(ctrl_api_limit, .init = setup, .timeout = 90);

/* Requests at one time until one is refused: of a tenant, or without one of a network. */
static unsigned int
take_all_of(const struct ctrl_tenant *tenant, uint64_t network, double now)
{
	unsigned int taken = 0;

	while (taken < 10000 &&
		(tenant != NULL ? api_limits_take(&limits, tenant, now)
				: api_limits_take_address(&limits, network, now)) <= 0)
		taken++;
	return taken;
}

static unsigned int
take_all(const struct ctrl_tenant *tenant, double now)
{
	return take_all_of(tenant, 0, now);
}

Test(ctrl_api_limit, a_burst_and_then_the_rate)
{
	const double long_up = 40 * 86400.0;

	cr_assert_eq(take_all(&tenants[0], long_up), 5);
	cr_assert_float_eq(api_limits_take(&limits, &tenants[0], long_up), 0.1, EPSILON);
	/* Refused ones don't count. */
	cr_assert_float_eq(api_limits_take(&limits, &tenants[0], long_up + 0.04), 0.06, EPSILON);
	cr_assert_eq(take_all(&tenants[0], long_up + 0.1), 1);
	cr_assert_eq(take_all(&tenants[0], long_up + 0.4), 3);
	cr_assert_eq(take_all(&tenants[0], long_up + 1000), 5);
	/* Nobody pays for another. */
	cr_assert_eq(take_all(&tenants[1], long_up + 1000), 5);
}

Test(ctrl_api_limit, in_the_long_run)
{
	unsigned int taken = 0;

	for (unsigned int ms = 0; ms < 100000; ms++)
		taken += api_limits_take(&limits, &tenants[0], ms / 1e3) <= 0;
	cr_assert_geq(taken, 1000);
	cr_assert_leq(taken, 1005);
}

Test(ctrl_api_limit, bursts_of_one_and_no_limit)
{
	tenants[0].quota.changes_burst = 1;
	cr_assert_eq(take_all(&tenants[0], 7), 1);
	tenants[1].quota.changes_per_s = 0;
	cr_assert_eq(take_all(&tenants[1], 7), 10000);
	strcpy(tenants[2].name, "maps");
	tenants[2].quota = tenants[0].quota;
	cr_assert_eq(take_all(&tenants[2], 7), 10000, "it is none of those that were set");
}

Test(ctrl_api_limit, an_address_has_a_bucket)
{
	const double now = 1000;

	cr_assert_eq(take_all_of(NULL, 1, now), API_ADDRESS_CHANGES_BURST);
	cr_assert_float_eq(api_limits_take_address(&limits, 1, now), 0.02, EPSILON);
	cr_assert_eq(
		take_all_of(NULL, 2, now), API_ADDRESS_CHANGES_BURST, "nobody pays for another");
	api_limits_set(&limits, &api);
	cr_assert_eq(take_all_of(NULL, 1, now), 0, "a reload gives nothing back");
	cr_assert_eq(take_all_of(NULL, 1, now + 1), API_ADDRESS_CHANGES_PER_S);
	cr_assert_eq(take_all(&tenants[0], now), 5, "nor does a tenant");
}

/* Programs make and leave jobs in a row. */
Test(ctrl_api_limit, where_jobs_are_open)
{
	struct ctrl_api open = api;

	open.open_jobs = 1;
	api_limits_set(&limits, &open);
	cr_assert_eq(take_all_of(NULL, 1, 1000), API_OPEN_CHANGES_BURST);
	cr_assert_eq(take_all_of(NULL, 1, 1001), API_OPEN_CHANGES_PER_S);
}

/* Each of very many addresses takes all that it can: they share the buckets. */
Test(ctrl_api_limit, many_addresses)
{
	unsigned int taken = 0;

	for (uint64_t network = 1; network <= 100 * API_ADDRESSES; network++)
		taken += take_all_of(NULL, network, 1000);
	cr_assert_eq(taken, API_ADDRESSES * API_ADDRESS_CHANGES_BURST);
	/* One that was always there keeps its own. */
	cr_assert_eq(take_all_of(NULL, 100 * API_ADDRESSES, 1001), API_ADDRESS_CHANGES_PER_S);
}

Test(ctrl_api_limit, a_reload_gives_nothing_back)
{
	struct ctrl_tenant next[2] = {tenants[1], tenants[0]};
	struct ctrl_api then = {.nb_tenants = 2, .tenant = next};

	strcpy(next[0].name, "maps");
	cr_assert_eq(take_all(&tenants[0], 9), 5);
	api_limits_set(&limits, &then);
	cr_assert_eq(take_all(&next[1], 9), 0);
	cr_assert_eq(take_all(&next[0], 9), 5);
	next[1].quota.changes_per_s = 100;
	cr_assert_eq(take_all(&next[1], 9.5), 5, "at the new rate it is full again");
}

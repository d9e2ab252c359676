/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmw/policer.h"

#include <errno.h>
#include <string.h>

#define RATE_MAX UINT64_C(1000000000000)
#define HZ_MAX   UINT64_C(10000000000)
#define FULL_MAX (UINT64_C(1) << 62)

static uint64_t
gcd(uint64_t a, uint64_t b)
{
	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

int
rmw_policer_init(
	struct rmw_policer *policer, uint64_t rate, uint32_t burst, uint64_t hz, uint64_t now)
{
	uint64_t divisor;

	if (rate == 0 || rate > RATE_MAX || burst == 0 || hz == 0 || hz > HZ_MAX)
		return -EINVAL;
	divisor = gcd(rate, 8 * hz);
	if (burst > FULL_MAX / (8 * hz / divisor))
		return -ERANGE;
	memset(policer, 0, sizeof(*policer));
	policer->per_tick = rate / divisor;
	policer->per_byte = 8 * hz / divisor;
	policer->full = burst * policer->per_byte;
	policer->fill = (policer->full + policer->per_tick - 1) / policer->per_tick;
	policer->burst = burst;
	policer->units = (int64_t)policer->full;
	policer->last = now;
	return 0;
}

int
rmw_policer_change(
	struct rmw_policer *policer, uint64_t rate, uint32_t burst, uint64_t hz, uint64_t now)
{
	struct rmw_policer next;
	int rc = rmw_policer_init(&next, rate, burst, hz, now);
	int64_t bytes, most = burst;

	if (rc < 0)
		return rc;
	rmw_police(policer, now, 0); /* credit the time until now at the former rate */
	bytes = policer->units / (int64_t)policer->per_byte;
	bytes = bytes < most ? bytes : most;
	bytes = bytes > -most ? bytes : -most;
	next.units = bytes * (int64_t)next.per_byte;
	*policer = next;
	return 0;
}

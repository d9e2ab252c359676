/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After a failure: join again, and agree where to go on. A rank may be a step ahead of another, which has
 * failed in what the first has the result of; one that was started anew is at none. So each tells the
 * others its step, in a sum in which each has a place of its own, and all take the least.
 */
#include "apps/perf/perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PARTIAL_MAX 20 /* times that a rank may be late to say where it is */
#define PAUSE_MS    100 /* after a join that was refused, doubled each time */
#define PAUSE_MOST  2000
#define AT_NONE     UINT64_MAX

static void
sleep_ms(unsigned int ms)
{
	nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* Is it a sum that some ranks are not in? That is the same on all of them. */
static bool
lacks_some(const struct perf_run *run, int code)
{
	struct weir_result result;

	if (code == WEIR_PARTIAL)
		return true;
	weir_last_result(run->weir, &result);
	/* The handle is usable still: it was --partial fail that made it an error. */
	return code == -EIO && result.degraded != 0 && result.completed == result.blocks;
}

int
perf_agree(struct perf_run *run)
{
	uint64_t own = run->started ? run->step : AT_NONE, least = AT_NONE, all[WEIR_SOURCES_MAX];
	int code = WEIR_PARTIAL;

	for (unsigned int i = 0; i < PARTIAL_MAX && code == WEIR_PARTIAL; i++) {
		code = perf_exchange(run, &own, 1, all);
		if (code != 0 && lacks_some(run, code)) {
			code = WEIR_PARTIAL;
			sleep_ms(10 << (i < 6 ? i : 6));
		}
	}
	if (code == WEIR_PARTIAL)
		code = -ETIMEDOUT;
	if (code != 0)
		return code;
	for (unsigned int r = 0; r < run->ranks; r++)
		if (all[r] < least)
			least = all[r];
	run->step = least == AT_NONE ? 0 : least;
	if (!run->started) {
		run->began_at = perf_iteration(run, run->step);
		run->done = run->step;
		run->started = true;
	}
	run->resumed = true;
	return 0;
}

/* Is it over with this? Else a new generation may mend it. */
static bool
is_final(int code)
{
	return code == -EINVAL || code == -EOPNOTSUPP || code == -EMSGSIZE || code == -ENOMEM ||
		code == -ECANCELED || code == -EBUSY || code == -EADDRINUSE;
}

static struct perf_rejoin *
new_rejoin(struct perf_run *run, int code)
{
	struct perf_rejoin *r =
		reallocarray(run->rejoins, run->rejoin_count + 1, sizeof(*run->rejoins));

	if (r == NULL)
		return NULL;
	run->rejoins = r;
	r += run->rejoin_count++;
	*r = (struct perf_rejoin){.failed_at = run->iteration, .code = code};
	snprintf(r->error, sizeof(r->error), "%s", weir_last_error(run->weir));
	return r;
}

static int
join_again(struct perf_run *run)
{
	int code = weir_rejoin(run->weir);

	if (code == 0 && weir_sources(run->weir) != run->ranks) {
		perf_say(run, "the job has %u sources now, and had %u", weir_sources(run->weir),
			run->ranks);
		return -EINVAL;
	}
	if (code == 0)
		code = perf_agree(run);
	if (code < 0)
		perf_say(run, "%s", weir_last_error(run->weir));
	return code;
}

int
perf_recover(struct perf_run *run, int code)
{
	unsigned int most = run->options->rejoins, pause = PAUSE_MS;
	struct perf_rejoin *r;
	uint64_t began = perf_now_ns();

	if (run->tries >= most || is_final(code))
		return code;
	r = new_rejoin(run, code);
	if (r == NULL)
		return -ENOMEM;
	while (run->tries < most && !is_final(code)) {
		run->tries++;
		perf_say(run, "joins again, try %u of %u", run->tries, most);
		if (r->tries++ != 0) {
			sleep_ms(pause);
			pause = pause * 2 < PAUSE_MOST ? pause * 2 : PAUSE_MOST;
		}
		code = join_again(run);
		if (code == 0)
			break;
	}
	r->recovered = code == 0;
	r->ms = (double)(perf_now_ns() - began) / 1e6;
	r->generation = weir_generation(run->weir);
	r->resumed_at = perf_iteration(run, run->step);
	perf_report_rejoin(run, r);
	return code;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* How long it takes to open and to close a job: temporary jobs, one after the other, which the ranks create. */
#include "apps/perf/perf.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

#define NAME_BYTES 32 /* of a job, terminator included */

static const char *
job_name(const struct perf_options *o)
{
	return o->weir.job_name != NULL ? o->weir.job_name : getenv("WEIR_JOB");
}

/* Open as plug-ins do, in the background. */
static int
open_job(const struct weir_config *config, struct weir **weir)
{
	bool done = false;
	int code = weir_iopen(config, weir);

	while (code == 0 && !done) {
		struct pollfd p = {.fd = weir_fd(*weir), .events = POLLIN};

		if (p.fd < 0)
			return p.fd;
		(void)poll(&p, 1, -1);
		code = weir_open_test(*weir, &done);
	}
	return code;
}

/* The ranks begin at the same time. */
static int
measure(struct perf_run *run, const char *name, uint64_t *open_ns, uint64_t *close_ns)
{
	struct weir_config config = run->options->weir;
	struct weir *weir;
	uint64_t began;
	int code = perf_wait_for_all(run);

	if (code < 0)
		return code;
	config.job_name = name;
	began = perf_now_ns();
	code = open_job(&config, &weir);
	*open_ns = perf_now_ns() - began;
	if (code < 0)
		perf_message(run, "%s: %s", name, weir_last_error(weir));
	else
		code = perf_wait_for_all(run);
	began = perf_now_ns();
	weir_close(weir);
	*close_ns = perf_now_ns() - began;
	return code;
}

int
perf_opens(struct perf_run *run)
{
	uint64_t n = run->options->opens, first = 0;
	uint64_t *opened = calloc(2 * n, sizeof(*opened)), *closed = opened + n;
	char name[NAME_BYTES];
	int code = opened == NULL ? -ENOMEM : 0;

	for (uint64_t i = 0; i < n && code == 0; i++) {
		snprintf(name, sizeof(name), "%.20s.%u", job_name(run->options), (unsigned int)i);
		code = measure(run, name, &opened[i], &closed[i]);
		first = opened[0];
	}
	if (code == 0 && run->rank == 0) {
		perf_sort(opened, n);
		perf_sort(closed, n);
		printf("# %" PRIu64
		       " jobs opened: median %.2f ms, 99 %% %.2f, first %.2f; closed: median %.2f "
		       "ms\n",
			n, (double)perf_quantile(opened, n, 500) / 1e6,
			(double)perf_quantile(opened, n, 990) / 1e6, (double)first / 1e6,
			(double)perf_quantile(closed, n, 500) / 1e6);
	}
	free(opened);
	return code;
}

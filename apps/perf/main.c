/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/perf/perf.h"

#include <stdlib.h>
#include <string.h>

#include "apps/report/table.h"

/* The exit status of a run whose measurements ended with this code. */
static enum perf_exit
exit_status(const struct perf_run *run, int code)
{
	uint64_t wrong = 0;

	for (unsigned int i = 0; i < run->row_count; i++)
		wrong += run->rows[i].out.wrong + run->rows[i].in.wrong;
	if (wrong != 0)
		perf_message(
			run, "%llu elements are wrong on some rank", (unsigned long long)wrong);
	if (code < 0 || wrong != 0)
		return PERF_FAILED;
	if (run->degraded == 0)
		return PERF_RIGHT;
	perf_message(run,
		"%llu blocks were partial sums: sources came later than the job's timeout",
		(unsigned long long)run->degraded);
	return PERF_PARTIAL;
}

static enum perf_exit
run_with(struct perf_run *run)
{
	enum perf_exit status;
	int code;

	run->ranks = weir_sources(run->weir);
	if (run->rank >= run->ranks) {
		perf_message(run,
			"the job has %u sources, and weir-perf needs them numbered from 0",
			run->ranks);
		return PERF_FAILED;
	}
	if (run->options->opens != 0)
		return perf_opens(run) == 0 ? PERF_RIGHT : PERF_FAILED;
	perf_report_header(run);
	code = perf_run_all(run);
	if (code == 0)
		perf_report_end(run);
	status = exit_status(run, code);
	if (perf_report_json(run, code < 0 ? weir_last_error(run->weir) : NULL) < 0)
		status = PERF_FAILED;
	return status;
}

int
main(int argc, char **argv)
{
	const struct perf_options *o = perf_options_parse(argc, argv);
	struct perf_shapes shapes = {0};
	struct perf_run run = {.options = o};
	enum perf_exit status = PERF_FAILED;
	char error[512];
	int code;

	report_json_begin(o->json);
	run.rank = o->weir.source < 0 ? 0 : (unsigned int)o->weir.source;
	if (o->shapes != NULL && perf_shapes_read(o->shapes, &shapes, error, sizeof(error)) < 0) {
		perf_message(&run, "%s", error);
		return PERF_USAGE;
	}
	code = weir_open(&o->weir, &run.weir);
	if (run.weir != NULL && o->weir.source < 0)
		run.rank = weir_source(run.weir); /* as the launcher says */
	if (code < 0) {
		perf_message(&run, "%s", weir_last_error(run.weir));
		if (run.weir != NULL)
			(void)perf_report_json(&run, weir_last_error(run.weir));
	} else {
		run.shapes = o->shapes != NULL ? &shapes : NULL;
		status = run_with(&run);
	}
	weir_close(run.weir);
	perf_shapes_destroy(&shapes);
	free(run.rows);
	free(run.rejoins);
	return (int)status;
}

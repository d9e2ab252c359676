/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/loop.h"

#include <errno.h>
#include <stdlib.h>

/* Plan the tensors of the file, or the one tensor that stands for a model. 0 or -errno, said. */
static int
plan(struct loop_run *run)
{
	const struct loop_options *o = run->options;
	size_t one = o->elements;
	struct perf_shapes shapes = {0};
	char error[512];
	int code;

	if (o->shapes == NULL) {
		code = loop_plan_make(&run->plan, &one, 1, o->scale, o->bucket);
	} else {
		code = perf_shapes_read(o->shapes, &shapes, error, sizeof(error));
		if (code < 0) {
			loop_say(run, "%s", error);
			return code;
		}
		code = loop_plan_make(
			&run->plan, shapes.counts, shapes.tensors, o->scale, o->bucket);
		perf_shapes_destroy(&shapes);
	}
	if (code == 0) {
		run->send = calloc(run->plan.elements, sizeof(*run->send));
		run->recv = calloc(run->plan.elements, sizeof(*run->recv));
		run->iterations = calloc(o->iterations, sizeof(*run->iterations));
		if (run->send == NULL || run->recv == NULL || run->iterations == NULL)
			code = -ENOMEM;
	}
	if (code < 0)
		loop_say(run, "no memory for %zu elements", run->plan.elements);
	return code;
}

/* Join and run. The handle stays open. */
static enum loop_exit
join_and_run(struct loop_run *run)
{
	int code = weir_open(&run->options->weir, &run->weir);

	if (code < 0) {
		loop_say(run, "%s", weir_last_error(run->weir));
		return LOOP_FAILED;
	}
	run->ranks = weir_sources(run->weir);
	if (run->rank >= run->ranks) {
		loop_say(run, "the job has %u sources, and weir-loop needs them numbered from 0",
			run->ranks);
		return LOOP_FAILED;
	}
	run->blocks = loop_plan_blocks(&run->plan, weir_elements(run->weir, WEIR_DTYPE_FP32));
	code = loop_run(run);
	loop_report(run);
	if (loop_report_json(run, code < 0 ? weir_last_error(run->weir) : NULL) < 0)
		return LOOP_FAILED;
	return code < 0 || run->wrong != 0 ? LOOP_FAILED : LOOP_RIGHT;
}

int
main(int argc, char **argv)
{
	struct loop_options options;
	struct loop_run run = {.options = &options};
	enum loop_exit status = LOOP_FAILED;
	int code = loop_options_parse(&options, argc, argv);

	if (code != 0)
		return code - 1;
	run.rank = (unsigned int)options.weir.source;
	if (plan(&run) == 0)
		status = join_and_run(&run);
	weir_close(run.weir);
	free(run.send);
	free(run.recv);
	free(run.iterations);
	loop_plan_destroy(&run.plan);
	return (int)status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-capture: what hosts would send to a switch, as a capture. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/capture/frame.h"
#include "apps/capture/options.h"
#include "apps/capture/order.h"
#include "apps/capture/summary.h"

static volatile sig_atomic_t stopped;

static void
stop(int number)
{
	(void)number;
	stopped = 1;
}

/* A reader that goes is no error, and a signal ends the capture after a whole frame. */
static void
take_signals(void)
{
	struct sigaction action = {.sa_handler = stop};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

static int
write_contributions(const struct plan *plan, struct output *output, struct summary *summary)
{
	const struct order_config config = {.order = plan->order,
		.sources = plan->nb_sources,
		.window = plan->job.window,
		.blocks = plan->blocks,
		.seed = plan->seed,
		.duplicates = plan->duplicates};
	struct order *order = capture_order_create(&config);
	size_t bytes = plan_frame_bytes(plan);
	uint8_t *frame = malloc(bytes);
	struct order_step step;
	int rc = order == NULL || frame == NULL ? -ENOMEM : 0;

	while (rc == 0 && !stopped && order_next(order, &step)) {
		uint32_t block = plan->first + (uint32_t)step.block;

		frame_contribution(plan, plan->source[step.source], block, frame);
		rc = output_frame(output, frame, bytes);
		if (rc == 0)
			rc = summary_contribution(summary, &step, block, bytes);
	}
	free(frame);
	capture_order_destroy(order);
	return rc;
}

static int
write_ordinary(const struct plan *plan, struct output *output, struct summary *summary)
{
	uint8_t *frame = malloc(CAPTURE_FRAME_MAX);
	int rc = frame == NULL ? -ENOMEM : 0;

	for (uint64_t i = 0; rc == 0 && !stopped && (plan->endless || i < plan->frames); i++) {
		size_t bytes = frame_ordinary(plan, i, frame);

		rc = output_frame(output, frame, bytes);
		if (rc == 0)
			summary_frame(summary, bytes);
	}
	free(frame);
	return rc;
}

static int
fail(const char *what, int rc)
{
	fprintf(stderr, "weir-capture: %s: %s\n", what, strerror(-rc));
	return 1;
}

int
main(int argc, char **argv)
{
	char error[CAPTURE_ERROR_BYTES];
	struct options options;
	struct output *output;
	struct summary *summary;
	struct plan plan;
	int rc, closed;

	options_read(&options, argc, argv);
	if (plan_make(&plan, &options.spec, error) < 0) {
		fprintf(stderr, "weir-capture: %s\n", error);
		return 1;
	}
	take_signals();
	rc = summary_open(&summary, &plan, options.expect);
	if (rc < 0)
		return fail(options.expect != NULL ? options.expect : "no memory", rc);
	rc = output_open(&output, &options.output);
	if (rc < 0) {
		summary_close(summary);
		return fail(options.output.path, rc);
	}
	rc = plan.nb_sizes > 0 ? write_ordinary(&plan, output, summary)
			       : write_contributions(&plan, output, summary);
	closed = output_close(output);
	if (rc == 0)
		rc = closed;
	/* Whoever reads an endless capture ends it by going. */
	if (rc == -EPIPE && plan.endless)
		rc = 0;
	if (rc == 0 && (options.json || !plan.endless))
		summary_print(summary, &options.output, options.json);
	closed = summary_close(summary);
	if (rc < 0)
		return fail(options.output.path, rc);
	return closed < 0 ? fail(options.expect, closed) : 0;
}

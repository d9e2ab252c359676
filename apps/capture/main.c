/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/capture.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/report/options.h"

static struct capture_spec spec = {
	.job_id = CAPTURE_UNSET,
	.sources = CAPTURE_UNSET,
	.window = CAPTURE_UNSET,
	.elements = CAPTURE_UNSET,
	.generation = CAPTURE_UNSET,
	.block_bits = CAPTURE_UNSET,
	.blocks = CAPTURE_UNSET,
	.frames = CAPTURE_UNSET,
	.stations = CAPTURE_UNSET,
	.seed = 1,
};
static struct output_config to = {.gap_ns = 1000};
static const char *expect, *order_name = "blocks";
static bool as_json, version;

#define TITLE(text)                                                                                \
	{                                                                                          \
		NULL, 0, OPTION_FLAG, NULL, 0, 0, NULL, text                                       \
	}

static const struct option_row rows[] = {
	{"output", 'o', OPTION_TEXT, &to.path, 0, 0, "FILE",
		"where to; - is standard output, a FIFO is possible"},
	{"endless", 'e', OPTION_FLAG, &spec.endless, 0, 0, NULL,
		"block ids go on until the reader goes, or a signal comes"},
	{"expect", 'x', OPTION_TEXT, &expect, 0, 0, "FILE",
		"write the result of each block there, a line of JSON each"},
	{"json", 'J', OPTION_FLAG, &as_json, 0, 0, NULL, "print a summary as JSON"},
	{"nanoseconds", 'N', OPTION_FLAG, &to.nanoseconds, 0, 0, NULL,
		"time stamps in nanoseconds; not all readers take them"},
	{"gap", 0, OPTION_UINT, &to.gap_ns, 0, 1e9, "NS", "between two frames"},
	{"seed", 0, OPTION_UINT, &spec.seed, 0, 0x1p64, NULL, "of values and of random choices"},
	{"version", 'V', OPTION_FLAG, &version, 0, 0, NULL, "print the version"},
	TITLE("The job, from a switch's configuration or from options:"),
	{"config", 'c', OPTION_TEXT, &spec.config, 0, 0, "FILE", "a configuration of weir-switch"},
	{"job", 'j', OPTION_TEXT, &spec.job, 0, 0, "NAME",
		"the job in it, by name or id; not needed if there is only one"},
	{"job-id", 0, OPTION_UINT, &spec.job_id, 0, WEIR_JOBS_MAX - 1, NULL,
		"number of the job (1)"},
	{"sources", 0, OPTION_UINT, &spec.sources, 1, WEIR_SOURCES_MAX, NULL, "ids 0 to N-1 (2)"},
	{"window", 0, OPTION_UINT, &spec.window, 1, PPE_WINDOW_MAX, NULL, "blocks in flight (64)"},
	{"elements", 0, OPTION_UINT, &spec.elements, 0, WEIR_ELEMENTS_MAX, NULL,
		"of each block; 0: barriers (256)"},
	{"type", 0, OPTION_CHOICE, &spec.type, 0, 0, "int32|fp32", "of the elements (fp32)"},
	{"generation", 0, OPTION_UINT, &spec.generation, 1, UINT16_MAX, NULL, "of the job (1)"},
	{"block-bits", 0, OPTION_UINT, &spec.block_bits, 8, 32, NULL,
		"block ids count modulo 2^N (32)"},
	{"address", 0, OPTION_TEXT, &spec.address, 0, 0, "IPV4",
		"of source 0; the others follow (10.77.0.1)"},
	{"switch", 0, OPTION_TEXT, &spec.switch_address, 0, 0, "IPV4",
		"address of the switch (10.77.0.254)"},
	{"switch-mac", 0, OPTION_TEXT, &spec.switch_mac, 0, 0, "MAC",
		"its MAC address (02:57:45:49:52:01)"},
	TITLE("The contributions:"),
	{"blocks", 'b', OPTION_UINT, &spec.blocks, 1, UINT32_MAX, NULL,
		"how many (4 windows; with fewer than 32 block bits all block ids once, so that "
		"the capture "
		"can be replayed in a loop)"},
	{"first", 0, OPTION_UINT, &spec.first, 0, UINT32_MAX, NULL, "number of the first one"},
	{"only", 0, OPTION_TEXT, &spec.only, 0, 0, "LIST", "only these sources, such as 0,3-5"},
	{"extended", 0, OPTION_FLAG, &spec.extended, 0, 0, NULL,
		"the extended form of the header, not the base form"},
	{"order", 0, OPTION_CHOICE, &order_name, 0, 0, "blocks|sources|random", "of arrival"},
	{"duplicates", 0, OPTION_UINT, &spec.duplicates, 0, 90, NULL, "repeat N percent of them"},
	TITLE("Ordinary frames, UDP between stations in 198.18.0.0/15:"),
	{"ordinary", 0, OPTION_TEXT, &spec.sizes, 0, 0, "SIZES",
		"such as 64,1518: bytes with the frame check sequence, in turn"},
	{"frames", 0, OPTION_UINT, &spec.frames, 1, INT64_MAX, NULL,
		"how many (each size once for each station)"},
	{"stations", 0, OPTION_UINT, &spec.stations, 1, UINT16_MAX, NULL, "that send in turn (1)"},
	{"reverse", 0, OPTION_FLAG, &spec.reverse, 0, 0, NULL, "from the receivers to the senders"},
	{0},
};

static void
read_options(int argc, char **argv)
{
	options_parse("weir-capture",
		"Write a capture (pcap) of what hosts would send to a switch: valid contributions "
		"of the "
		"sources of a job, in an order that keeps the rule of the window; or ordinary "
		"frames. "
		"Packet generators, testpmd and net_pcap replay it.",
		NULL, (const struct option_row *[]){rows, NULL}, argc, argv);
	if (version) {
		puts("weir-capture " WEIR_VERSION);
		exit(0);
	}
	if (to.path == NULL) {
		fputs("weir-capture: -o FILE is missing; see weir-capture --help\n", stderr);
		exit(2);
	}
	spec.order = order_name[0] == 'b' ? CAPTURE_BLOCKS
		: order_name[0] == 's'    ? CAPTURE_SOURCES
					  : CAPTURE_RANDOM;
}

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
	struct output *output;
	struct summary *summary;
	struct plan plan;
	int rc, closed;

	read_options(argc, argv);
	if (plan_make(&plan, &spec, error) < 0) {
		fprintf(stderr, "weir-capture: %s\n", error);
		return 1;
	}
	take_signals();
	rc = summary_open(&summary, &plan, expect);
	if (rc < 0)
		return fail(expect != NULL ? expect : "no memory", rc);
	rc = output_open(&output, &to);
	if (rc < 0) {
		summary_close(summary);
		return fail(to.path, rc);
	}
	rc = plan.nb_sizes > 0 ? write_ordinary(&plan, output, summary)
			       : write_contributions(&plan, output, summary);
	closed = output_close(output);
	if (rc == 0)
		rc = closed;
	/* Whoever reads an endless capture ends it by going. */
	if (rc == -EPIPE && plan.endless)
		rc = 0;
	if (rc == 0 && (as_json || !plan.endless))
		summary_print(summary, &to, as_json);
	closed = summary_close(summary);
	if (rc < 0)
		return fail(to.path, rc);
	return closed < 0 ? fail(expect, closed) : 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-capture: options, the file by libpcap, and the summary. */
#include "apps/capture/capture.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <pcap/pcap.h>

#include "apps/report/options.h"

static struct plan plan = {
	.elements = CAPTURE_UNSET,
	.blocks = CAPTURE_UNSET,
	.seed = 1,
};
static uint64_t gap_ns = 1000;
static const char *path, *expect, *json_to, *order_name = "blocks";

static const struct option_row rows[] = {
	{"config", 'c', OPTION_TEXT, &plan.config, 0, 0, "FILE", "the switch's configuration"},
	{"job", 0, OPTION_TEXT, &plan.job_name, 0, 0, "NAME",
		"the job in it, by name or id; not needed if there is only one"},
	{"output", 'o', OPTION_TEXT, &path, 0, 0, "FILE",
		"file or FIFO to write; - is standard output"},
	{"endless", 'e', OPTION_FLAG, &plan.endless, 0, 0, NULL,
		"continue until the reader closes the file or a signal comes; block ids keep "
		"rising"},
	{"expect", 'x', OPTION_TEXT, &expect, 0, 0, "FILE",
		"write the expected result of each block, one line of JSON each"},
	{"json", 'j', OPTION_JSON, &json_to, 0, 0, NULL,
		"print the summary as JSON, or write it into FILE"},
	{"gap", 0, OPTION_TIME, &gap_ns, 0, 1e9, "ns", "between the time stamps of two frames"},
	{"blocks", 'b', OPTION_UINT, &plan.blocks, 1, UINT32_MAX, NULL,
		"number of blocks (4 windows; with fewer than 32 block bits each block id once, "
		"so that the capture can be replayed in a loop)"},
	{"first", 0, OPTION_UINT, &plan.first, 0, UINT32_MAX, NULL, "number of the first block"},
	{"elements", 0, OPTION_UINT, &plan.elements, 0, WEIR_ELEMENTS_MAX, NULL,
		"of each block; 0: barriers (the job's)"},
	{"only", 0, OPTION_TEXT, &plan.only, 0, 0, "LIST", "only these sources, such as 0,3-5"},
	{"extended", 0, OPTION_FLAG, &plan.extended, 0, 0, NULL,
		"write the extended form of the header, not the base form"},
	{"order", 0, OPTION_CHOICE, &order_name, 0, 0, "blocks|sources|random", "of arrival"},
	{"duplicates", 0, OPTION_UINT, &plan.duplicates, 0, 90, NULL,
		"percent of the contributions to repeat"},
	{"seed", 0, OPTION_UINT, &plan.seed, 0, 0x1p64, NULL, "of values and random choices"},
	{0},
};

static void
read_options(int argc, char **argv)
{
	options_parse("weir-capture",
		"Write the contributions that the sources of a job would send to a switch, as a "
		"pcap file. Packet generators, testpmd and net_pcap replay it.",
		NULL, (const struct option_row *[]){rows, NULL}, argc, argv);
	if (path == NULL || plan.config == NULL) {
		fprintf(stderr, "weir-capture: %s FILE is missing; see weir-capture --help\n",
			path == NULL ? "-o" : "-c");
		exit(STATUS_USAGE);
	}
	if (json_to != NULL && strcmp(json_to, "-") == 0 && strcmp(path, "-") == 0) {
		fputs("weir-capture: -o - and --json both need standard output: use --json=FILE\n",
			stderr);
		exit(STATUS_USAGE);
	}
	plan.order = order_name[0] == 'b' ? CAPTURE_BLOCKS
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

/* A signal ends the capture after a whole frame. A closed pipe is an error of writing. */
static void
take_signals(void)
{
	struct sigaction action = {.sa_handler = stop};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

/* The files, and what was written. */
struct output {
	pcap_dumper_t *dumper;
	FILE *results; /* NULL: not wanted */
	uint8_t *frame, *result;
	uint64_t now_ns;
	uint64_t frames, bytes, duplicates, blocks;
};

/* {"block": 7, "payload": "0000803f..."}: the bytes as they are on the wire. */
static void
write_result(struct output *o, uint32_t block)
{
	frame_result(&plan, block, o->result);
	fprintf(o->results, "{\"block\": %" PRIu32 ", \"payload\": \"",
		ppe_job_block(&plan.job, block));
	for (size_t i = 0; i < plan.elements * 4; i++)
		fprintf(o->results, "%02x", o->result[i]);
	fputs("\"}\n", o->results);
}

static bool
fail(const char *what)
{
	fprintf(stderr, "weir-capture: %s: %s\n", what, strerror(errno));
	return false;
}

/* An error of writing to `path`. The reader of an endless capture ends it by closing the pipe. */
static bool
fail_to_write(void)
{
	stopped = 1;
	return (errno == EPIPE && plan.endless) || fail(path);
}

static bool
write_step(struct output *o, const struct order_step *step)
{
	uint32_t block = (uint32_t)(plan.first + step->block), bytes = (uint32_t)frame_bytes(&plan);
	struct pcap_pkthdr header = {.caplen = bytes,
		.len = bytes,
		.ts = {(time_t)(o->now_ns / 1000000000),
			(suseconds_t)(o->now_ns % 1000000000 / 1000)}};

	frame_contribution(&plan, plan.source[step->source], block, o->frame);
	/* libpcap keeps the stream's errors to itself; stdio does not. */
	pcap_dump((u_char *)o->dumper, &header, o->frame);
	if (ferror(pcap_dump_file(o->dumper)))
		return fail_to_write();
	o->now_ns += gap_ns;
	o->frames++;
	o->bytes += bytes;
	o->duplicates += step->duplicate;
	o->blocks += step->completes;
	if (o->results == NULL || !step->completes)
		return true;
	write_result(o, block);
	return !ferror(o->results) || fail(expect);
}

static bool
write_all(struct output *o)
{
	struct order *order = capture_order_create(&plan);
	bool good = order != NULL || fail("order");
	struct order_step step;

	while (good && !stopped && order_next(order, &step))
		good = write_step(o, &step);
	capture_order_destroy(order);
	if (good && fflush(pcap_dump_file(o->dumper)) != 0)
		good = fail_to_write();
	if (good && o->results != NULL && fflush(o->results) != 0)
		good = fail(expect);
	return good;
}

static bool
open_all(struct output *o)
{
	pcap_t *format = pcap_open_dead(DLT_EN10MB, UINT16_MAX);

	o->frame = malloc(frame_bytes(&plan));
	o->result = malloc(plan.elements * 4 + 1);
	if (format == NULL || o->frame == NULL || o->result == NULL)
		return fail("frame");
	if (expect != NULL && (o->results = fopen(expect, "w")) == NULL)
		return fail(expect);
	o->dumper = pcap_dump_open(format, path);
	if (o->dumper == NULL)
		fprintf(stderr, "weir-capture: %s\n", pcap_geterr(format));
	pcap_close(format);
	return o->dumper != NULL;
}

static void
close_all(struct output *o)
{
	if (o->dumper != NULL)
		pcap_dump_close(o->dumper);
	if (o->results != NULL)
		fclose(o->results);
	free(o->frame);
	free(o->result);
}

static bool
print_summary(const struct output *o)
{
	bool good = true;
	FILE *out = strcmp(path, "-") == 0 ? stderr : stdout;
	json_t *json = json_pack("{ss sI sI sI sI si si si si sI ss}", "file", path, "frames",
		(json_int_t)o->frames, "bytes", (json_int_t)o->bytes, "blocks",
		(json_int_t)o->blocks, "duplicates", (json_int_t)o->duplicates, "job", plan.job.id,
		"generation", plan.job.fixed_generation, "sources", plan.nb_sources, "window",
		plan.job.window, "elements", (json_int_t)plan.elements, "type",
		weir_dtype_text(plan.job.dtype));

	if (json_to != NULL && strcmp(json_to, "-") != 0) {
		good = json_dump_file(json, json_to, 0) == 0 || fail(json_to);
	} else if (json_to != NULL) {
		json_dumpf(json, out, 0);
		fputc('\n', out);
	} else {
		fprintf(out,
			"%s: %" PRIu64 " frames, %" PRIu64 " bytes; %" PRIu64
			" blocks of job %u, generation %u, from %u sources, %u %s each",
			path, o->frames, o->bytes, o->blocks, plan.job.id,
			plan.job.fixed_generation, plan.nb_sources, (unsigned int)plan.elements,
			weir_dtype_text(plan.job.dtype));
		if (o->duplicates > 0)
			fprintf(out, ", %" PRIu64 " repeated contributions", o->duplicates);
		fputc('\n', out);
	}
	json_decref(json);
	return good;
}

int
main(int argc, char **argv)
{
	char error[CAPTURE_ERROR_BYTES];
	struct output output = {0};
	bool good;

	read_options(argc, argv);
	if (plan_complete(&plan, error) < 0) {
		fprintf(stderr, "weir-capture: %s\n", error);
		return STATUS_USAGE;
	}
	take_signals();
	good = open_all(&output) && write_all(&output);
	if (good && (json_to != NULL || !plan.endless))
		good = print_summary(&output);
	close_all(&output);
	return good ? STATUS_DONE : STATUS_FAILED;
}

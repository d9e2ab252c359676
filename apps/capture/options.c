/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
	"weir-capture -o FILE [--config FILE [--job NAME]] [OPTION...]\n"
	"weir-capture -o FILE --ordinary SIZES [OPTION...]\n"
	"\n"
	"Write a capture (pcap) of what hosts would send to a switch: the contributions of a "
	"job's\n"
	"sources, with everything right in them, in an order that keeps the window's rule; or\n"
	"ordinary frames. Packet generators, testpmd and net_pcap replay it.\n"
	"\n"
	"  -o, --output FILE     where to; - is standard output, and a FIFO will do\n"
	"  -e, --endless         never end: block ids go on; until the reader goes, or a signal\n"
	"  -x, --expect FILE     write each block's result there, a line of JSON each\n"
	"  -J, --json            say in JSON what was written\n"
	"  -N, --nanoseconds     time stamps in nanoseconds; not all readers take them\n"
	"      --gap NS          between two frames (1000)\n"
	"      --seed N          of the values and of what is random (1)\n"
	"\n"
	"The job, from a switch's configuration or from flags:\n"
	"  -c, --config FILE     a configuration of weir-switch\n"
	"  -j, --job NAME        the job in it, by name or id; may be left out if it has one only\n"
	"      --job-id N        (1)        --sources N       ids 0 to N-1 (2)\n"
	"      --window N        (64)       --elements N      of each block (256); 0: barriers\n"
	"      --type WORD       int32 or fp32 (fp32)\n"
	"      --generation N    (1)        --block-bits N    ids count modulo 2^N (32)\n"
	"      --address IP      of source 0; the others count up (10.77.0.1)\n"
	"      --switch IP       (10.77.0.254)  --switch-mac MAC  (02:57:45:49:52:01)\n"
	"\n"
	"The contributions:\n"
	"  -b, --blocks N        (4 windows; with fewer than 32 block bits, all block ids once:\n"
	"                        the capture can be replayed in a loop)\n"
	"      --first N         the first block (0)\n"
	"      --only LIST       of these sources alone, such as 0,3-5\n"
	"      --extended        in the extended form; else in the base form\n"
	"      --order WORD      blocks, sources or random (blocks)\n"
	"      --duplicates N    repeat N percent of them (0)\n"
	"\n"
	"Ordinary frames, UDP between stations in 198.18.0.0/15:\n"
	"      --ordinary SIZES  such as 64,1518: bytes with the frame check sequence, in turn\n"
	"      --frames N        (each size once for each station)\n"
	"      --stations N      that send in turn (1)\n"
	"      --reverse         the other way: from those that the others are sent to\n"
	"\n"
	"  -V, --version         print the version\n"
	"  -h, --help            print this\n";

static void __attribute__((noreturn)) wrong(const char *what)
{
	if (what != NULL)
		fprintf(stderr, "weir-capture: %s\n", what);
	fputs("weir-capture --help tells what there is\n", stderr);
	exit(2);
}

static uint64_t
number(const char *name, const char *text, uint64_t min, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < min ||
		value > max) {
		fprintf(stderr, "weir-capture: --%s: %s is not in %" PRIu64 "..%" PRIu64 "\n", name,
			text, min, max);
		exit(2);
	}
	return value;
}

enum {
	GAP = 256,
	SEED,
	JOB_ID,
	SOURCES,
	WINDOW,
	ELEMENTS,
	TYPE,
	GENERATION,
	BLOCK_BITS,
	ADDRESS,
	SWITCH,
	SWITCH_MAC,
	FIRST,
	ONLY,
	EXTENDED,
	ORDER,
	DUPLICATES,
	ORDINARY,
	FRAMES,
	STATIONS,
	REVERSE,
};

static const struct option list[] = {
	{"output", required_argument, NULL, 'o'},
	{"endless", no_argument, NULL, 'e'},
	{"expect", required_argument, NULL, 'x'},
	{"json", no_argument, NULL, 'J'},
	{"nanoseconds", no_argument, NULL, 'N'},
	{"gap", required_argument, NULL, GAP},
	{"seed", required_argument, NULL, SEED},
	{"config", required_argument, NULL, 'c'},
	{"job", required_argument, NULL, 'j'},
	{"job-id", required_argument, NULL, JOB_ID},
	{"sources", required_argument, NULL, SOURCES},
	{"window", required_argument, NULL, WINDOW},
	{"elements", required_argument, NULL, ELEMENTS},
	{"type", required_argument, NULL, TYPE},
	{"generation", required_argument, NULL, GENERATION},
	{"block-bits", required_argument, NULL, BLOCK_BITS},
	{"address", required_argument, NULL, ADDRESS},
	{"switch", required_argument, NULL, SWITCH},
	{"switch-mac", required_argument, NULL, SWITCH_MAC},
	{"blocks", required_argument, NULL, 'b'},
	{"first", required_argument, NULL, FIRST},
	{"only", required_argument, NULL, ONLY},
	{"extended", no_argument, NULL, EXTENDED},
	{"order", required_argument, NULL, ORDER},
	{"duplicates", required_argument, NULL, DUPLICATES},
	{"ordinary", required_argument, NULL, ORDINARY},
	{"frames", required_argument, NULL, FRAMES},
	{"stations", required_argument, NULL, STATIONS},
	{"reverse", no_argument, NULL, REVERSE},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* Options of a number, and where it goes. */
static bool
read_number(struct capture_spec *spec, int option, const char *name, const char *text)
{
	const struct {
		int option;
		int64_t *to;
		uint64_t min, max;
	} numbers[] = {
		{JOB_ID, &spec->job_id, 0, WEIR_JOBS_MAX - 1},
		{SOURCES, &spec->sources, 1, WEIR_SOURCES_MAX},
		{WINDOW, &spec->window, 1, PPE_WINDOW_MAX},
		{ELEMENTS, &spec->elements, 0, WEIR_ELEMENTS_MAX},
		{GENERATION, &spec->generation, 1, UINT16_MAX},
		{BLOCK_BITS, &spec->block_bits, 8, 32},
		{'b', &spec->blocks, 1, UINT32_MAX},
		{FRAMES, &spec->frames, 1, INT64_MAX},
		{STATIONS, &spec->stations, 1, UINT16_MAX},
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].option == option) {
			*numbers[i].to =
				(int64_t)number(name, text, numbers[i].min, numbers[i].max);
			return true;
		}
	return false;
}

static enum capture_order
order_of(const char *text)
{
	static const char *const words[] = {"blocks", "sources", "random"};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i], text) == 0)
			return (enum capture_order)i;
	wrong("--order is one of blocks, sources, random");
}

static void
read_other(struct options *options, int option, const char *name)
{
	struct capture_spec *spec = &options->spec;

	switch (option) {
	case 'o': options->output.path = optarg; break;
	case 'e': spec->endless = true; break;
	case 'x': options->expect = optarg; break;
	case 'J': options->json = true; break;
	case 'N': options->output.nanoseconds = true; break;
	case 'c': spec->config = optarg; break;
	case 'j': spec->job = optarg; break;
	case GAP: options->output.gap_ns = number(name, optarg, 0, 1000000000); break;
	case SEED: spec->seed = number(name, optarg, 0, UINT64_MAX); break;
	case TYPE: spec->type = optarg; break;
	case ADDRESS: spec->address = optarg; break;
	case SWITCH: spec->switch_address = optarg; break;
	case SWITCH_MAC: spec->switch_mac = optarg; break;
	case FIRST: spec->first = (uint32_t)number(name, optarg, 0, UINT32_MAX); break;
	case ONLY: spec->only = optarg; break;
	case EXTENDED: spec->extended = true; break;
	case ORDER: spec->order = order_of(optarg); break;
	case DUPLICATES: spec->duplicates = (unsigned int)number(name, optarg, 0, 90); break;
	case ORDINARY: spec->sizes = optarg; break;
	case REVERSE: spec->reverse = true; break;
	case 'V': puts("weir-capture " WEIR_VERSION); exit(0);
	case 'h': fputs(help, stdout); exit(0);
	default: wrong(NULL);
	}
}

void
options_read(struct options *options, int argc, char **argv)
{
	int c, index = 0;

	*options = (struct options){
		.spec = {.job_id = -1,
			.sources = -1,
			.window = -1,
			.elements = -1,
			.generation = -1,
			.block_bits = -1,
			.blocks = -1,
			.frames = -1,
			.stations = -1,
			.seed = 1},
		.output = {.gap_ns = 1000},
	};
	while ((c = getopt_long(argc, argv, "o:ex:JNc:j:b:Vh", list, &index)) != -1) {
		const char *name = c == 'b' ? "blocks" : list[index].name;

		if (!read_number(&options->spec, c, name, optarg))
			read_other(options, c, name);
	}
	if (optind < argc)
		wrong("there is an argument too many");
	if (options->output.path == NULL)
		wrong("-o FILE is missing");
}

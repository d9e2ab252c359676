/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/loop.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "apps/stragglers/arguments.h"

static const char usage[] =
	"usage: weir-loop --switch ADDRESS --address OWN_ADDRESS --source I [--job N] [options]\n"
	"\n"
	"Runs a loop of the shape of training, one process per host: sleep as long as computing "
	"takes, "
	"then\n"
	"AllReduce a model's gradients. Every sum is checked.\n"
	"  --switch ADDRESS       the IPv4 of the switch\n"
	"  --address ADDRESS      own IPv4, towards the switch\n"
	"  --source I             who this host is: 0 .. sources - 1\n"
	"  --sources N            that the job must have (as many as the switch says)\n"
	"  --job N                job of the switch (1)\n"
	"  --timeout MS           for the join, and for an operation without progress (30000)\n"
	"  --shapes FILE          the model's tensors, lines `name dimension...`\n"
	"  --elements N           or one tensor of so many elements (1024)\n"
	"  --scale N              every tensor has so many times fewer elements (1)\n"
	"  --bucket N             elements of a bucket, about; 0: one bucket for all tensors (0)\n"
	"  --iterations N         that count (20)\n"
	"  --warmup N             before them, in which nobody is slowed (2)\n"
	"  --compute-us N         of computing in an iteration (0)\n"
	"  --slow-ppm P           in how many of a million iterations a host is slowed (0)\n"
	"  --slow-unit-us N       by how much: units, the time of an iteration\n"
	"  --slow-min X, --slow-max X  times that, uniformly (0.5, 2)\n"
	"  --no-catch-up          compute also for sums that are there already\n"
	"  --seed N               of who is slow when, and of the data; the same on all hosts (1)\n"
	"  --json FILE            write a report\n"
	"\n"
	"Exit status: 0 all iterations done and all sums right, also partial ones; 1 not so; 2 "
	"usage.\n";

enum {
	OPT_SWITCH = 256,
	OPT_ADDRESS,
	OPT_SOURCE,
	OPT_SOURCES,
	OPT_JOB,
	OPT_TIMEOUT,
	OPT_SHAPES,
	OPT_ELEMENTS,
	OPT_SCALE,
	OPT_BUCKET,
	OPT_ITERATIONS,
	OPT_WARMUP,
	OPT_COMPUTE,
	OPT_SLOW_PPM,
	OPT_SLOW_UNIT,
	OPT_SLOW_MIN,
	OPT_SLOW_MAX,
	OPT_NO_CATCH_UP,
	OPT_SEED,
	OPT_JSON,
	OPT_VERSION,
};

static const struct option longs[] = {
	{"switch", required_argument, NULL, OPT_SWITCH},
	{"address", required_argument, NULL, OPT_ADDRESS},
	{"source", required_argument, NULL, OPT_SOURCE},
	{"sources", required_argument, NULL, OPT_SOURCES},
	{"job", required_argument, NULL, OPT_JOB},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"shapes", required_argument, NULL, OPT_SHAPES},
	{"elements", required_argument, NULL, OPT_ELEMENTS},
	{"scale", required_argument, NULL, OPT_SCALE},
	{"bucket", required_argument, NULL, OPT_BUCKET},
	{"iterations", required_argument, NULL, OPT_ITERATIONS},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"compute-us", required_argument, NULL, OPT_COMPUTE},
	{"slow-ppm", required_argument, NULL, OPT_SLOW_PPM},
	{"slow-unit-us", required_argument, NULL, OPT_SLOW_UNIT},
	{"slow-min", required_argument, NULL, OPT_SLOW_MIN},
	{"slow-max", required_argument, NULL, OPT_SLOW_MAX},
	{"no-catch-up", no_argument, NULL, OPT_NO_CATCH_UP},
	{"seed", required_argument, NULL, OPT_SEED},
	{"json", required_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

/* One option; false: its argument is wrong. */
static bool
take(struct loop_options *o, int option, const char *text)
{
	unsigned int v = 0;
	uint64_t w = 0;
	bool good = true;

	switch (option) {
	case OPT_SWITCH: o->weir.switch_address = text; break;
	case OPT_ADDRESS: o->weir.address = text; break;
	case OPT_SOURCE:
		good = argument_small(text, 0, WEIR_SOURCES_MAX - 1, &v);
		o->weir.source = (int)v;
		break;
	case OPT_SOURCES: return argument_small(text, 1, WEIR_SOURCES_MAX, &o->weir.sources);
	case OPT_JOB:
		good = argument_small(text, 0, WEIR_JOBS_MAX - 1, &v);
		o->weir.job = (uint8_t)v;
		break;
	case OPT_TIMEOUT:
		good = argument_small(text, 1, 86400000, &v);
		o->weir.op_timeout_ms = o->weir.join_timeout_ms = v;
		break;
	case OPT_SHAPES: o->shapes = text; break;
	case OPT_ELEMENTS:
		good = argument_whole(text, 1, UINT64_C(1) << 30, &w);
		o->elements = w;
		break;
	case OPT_SCALE: return argument_small(text, 1, 1000000000, &o->scale);
	case OPT_BUCKET:
		good = argument_whole(text, 0, UINT64_C(1) << 40, &w);
		o->bucket = w;
		break;
	case OPT_ITERATIONS: return argument_small(text, 1, 10000000, &o->iterations);
	case OPT_WARMUP: return argument_small(text, 0, 10000000, &o->warmup);
	case OPT_COMPUTE: return argument_small(text, 0, 1000000000, &o->compute_us);
	case OPT_SLOW_PPM: return argument_small(text, 0, 1000000, &o->slow_ppm);
	case OPT_SLOW_UNIT: return argument_small(text, 0, 1000000000, &o->slow_unit_us);
	case OPT_SLOW_MIN: return argument_real(text, 0, 1000, &o->slow_min);
	case OPT_SLOW_MAX: return argument_real(text, 0, 1000, &o->slow_max);
	case OPT_NO_CATCH_UP: o->catch_up = false; break;
	case OPT_SEED: return argument_whole(text, 0, UINT64_MAX, &o->seed);
	case OPT_JSON: o->json = text; break;
	default: return false;
	}
	return good;
}

static int
wrong_usage(const char *text)
{
	fprintf(stderr, "weir-loop: %s; see weir-loop --help\n", text);
	return LOOP_USAGE + 1;
}

int
loop_options_parse(struct loop_options *o, int argc, char **argv)
{
	int option, index = 0;

	*o = (struct loop_options){
		.weir = {.job = 1, .source = -1},
		.elements = 1024,
		.scale = 1,
		.iterations = 20,
		.warmup = 2,
		.slow_min = 0.5,
		.slow_max = 2,
		.catch_up = true,
		.seed = 1,
	};
	while ((option = getopt_long(argc, argv, "h", longs, &index)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		if (option == OPT_VERSION) {
			puts("weir-loop " WEIR_VERSION);
			return 1;
		}
		if (option == '?')
			return wrong_usage("unknown option, or one without its argument");
		if (!take(o, option, optarg)) {
			fprintf(stderr,
				"weir-loop: --%s: \"%s\" is not possible; see weir-loop --help\n",
				longs[index].name, optarg);
			return LOOP_USAGE + 1;
		}
	}
	if (optind < argc)
		return wrong_usage("an argument that is no option");
	if (o->weir.switch_address == NULL || o->weir.address == NULL || o->weir.source < 0)
		return wrong_usage("--switch, --address and --source are needed");
	if (o->slow_max < o->slow_min)
		return wrong_usage("--slow-max is less than --slow-min");
	if (o->slow_ppm != 0 && o->slow_unit_us == 0)
		return wrong_usage("--slow-ppm needs --slow-unit-us");
	return 0;
}

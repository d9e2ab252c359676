/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "apps/stragglers/arguments.h"

static const char usage[] =
	"usage: weir-train --switch ADDRESS --address OWN_ADDRESS --source I [--job N] [options]\n"
	"       weir-train --switch URL --job-name NAME [options]\n"
	"       weir-train --alone --sources N [options]\n"
	"\n"
	"Trains a small model, data-parallel, through a Weir switch; one process per host.\n"
	"  --switch, --address, --job, --job-name, --source, --sources, --timeout, "
	"--join-timeout,\n"
	"  --partial as-is|rescale|fail, --error-feedback\n"
	"                      as weir-perf has them\n"
	"  --alone             all hosts in this process, without a switch; who is slow misses "
	"its\n"
	"                      iteration\n"
	"  --seed N            of data, weights, order and slow hosts; the same on all hosts (1)\n"
	"  --target ACC        train to this share of the held-out points (0.95)\n"
	"  --iterations MAX    but no longer than this (1000)\n"
	"  --every N           evaluate every so many iterations (10)\n"
	"  --batch N           points per host and iteration (64)\n"
	"  --rate R            of learning (0.07)\n"
	"  --momentum M        (0.9)\n"
	"  --compute-ms T      sleep so long in each iteration, as if an accelerator worked (0)\n"
	"  --slow-ppm P        probability that a host is slow in an iteration, in millionths (0)\n"
	"  --slow-min A, --slow-max B\n"
	"                      it then takes longer by A to B times --compute-ms, uniform (0.5, "
	"2)\n"
	"  --json FILE         write a report\n"
	"\n"
	"Exit status: 0 the target is reached, and all hosts have the same weights; 1 an error, or "
	"they\n"
	"have not; 2 usage; 3 the target was not reached.\n";

enum {
	OPT_SWITCH = 256,
	OPT_ADDRESS,
	OPT_JOB,
	OPT_JOB_NAME,
	OPT_SOURCE,
	OPT_SOURCES,
	OPT_TIMEOUT,
	OPT_JOIN_TIMEOUT,
	OPT_PARTIAL,
	OPT_ERROR_FEEDBACK,
	OPT_ALONE,
	OPT_SEED,
	OPT_TARGET,
	OPT_ITERATIONS,
	OPT_EVERY,
	OPT_BATCH,
	OPT_RATE,
	OPT_MOMENTUM,
	OPT_COMPUTE,
	OPT_SLOW_PPM,
	OPT_SLOW_MIN,
	OPT_SLOW_MAX,
	OPT_JSON,
	OPT_VERSION,
};

static const struct option longs[] = {
	{"switch", required_argument, NULL, OPT_SWITCH},
	{"address", required_argument, NULL, OPT_ADDRESS},
	{"job", required_argument, NULL, OPT_JOB},
	{"job-name", required_argument, NULL, OPT_JOB_NAME},
	{"source", required_argument, NULL, OPT_SOURCE},
	{"sources", required_argument, NULL, OPT_SOURCES},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"join-timeout", required_argument, NULL, OPT_JOIN_TIMEOUT},
	{"partial", required_argument, NULL, OPT_PARTIAL},
	{"error-feedback", no_argument, NULL, OPT_ERROR_FEEDBACK},
	{"alone", no_argument, NULL, OPT_ALONE},
	{"seed", required_argument, NULL, OPT_SEED},
	{"target", required_argument, NULL, OPT_TARGET},
	{"iterations", required_argument, NULL, OPT_ITERATIONS},
	{"every", required_argument, NULL, OPT_EVERY},
	{"batch", required_argument, NULL, OPT_BATCH},
	{"rate", required_argument, NULL, OPT_RATE},
	{"momentum", required_argument, NULL, OPT_MOMENTUM},
	{"compute-ms", required_argument, NULL, OPT_COMPUTE},
	{"slow-ppm", required_argument, NULL, OPT_SLOW_PPM},
	{"slow-min", required_argument, NULL, OPT_SLOW_MIN},
	{"slow-max", required_argument, NULL, OPT_SLOW_MAX},
	{"json", required_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static bool
partial(const char *text, enum weir_partial *how)
{
	static const char *const words[] = {
		[WEIR_PARTIAL_AS_IS] = "as-is",
		[WEIR_PARTIAL_RESCALE] = "rescale",
		[WEIR_PARTIAL_FAIL] = "fail",
	};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(text, words[i]) == 0) {
			*how = (enum weir_partial)i;
			return true;
		}
	return false;
}

static bool
is_url(const char *text)
{
	return strstr(text, "://") != NULL || strncmp(text, "unix:", 5) == 0 || text[0] == '/';
}

/* An option of the connection; false: its argument is wrong. */
static bool
take_weir(struct weir_config *w, int option, const char *text)
{
	unsigned int v = 0;
	bool good;

	switch (option) {
	case OPT_SWITCH:
		w->control = is_url(text) ? text : NULL;
		w->switch_address = is_url(text) ? NULL : text;
		return true;
	case OPT_ADDRESS: w->address = text; return true;
	case OPT_JOB_NAME: w->job_name = text; return true;
	case OPT_JOB:
		good = argument_small(text, 0, WEIR_JOBS_MAX - 1, &v);
		w->job = (uint8_t)v;
		return good;
	case OPT_SOURCE:
		good = argument_small(text, 0, WEIR_SOURCES_MAX - 1, &v);
		w->source = (int)v;
		return good;
	case OPT_SOURCES: return argument_small(text, 1, WEIR_SOURCES_MAX, &w->sources);
	case OPT_TIMEOUT: return argument_small(text, 1, 86400000, &w->op_timeout_ms);
	case OPT_JOIN_TIMEOUT: return argument_small(text, 1, 86400000, &w->join_timeout_ms);
	case OPT_PARTIAL: return partial(text, &w->partial);
	default: w->error_feedback = true; return option == OPT_ERROR_FEEDBACK;
	}
}

/* One option; false: its argument is wrong. */
static bool
take(struct train_options *o, int option, const char *text)
{
	switch (option) {
	case OPT_ALONE: o->alone = true; return true;
	case OPT_SEED: return argument_whole(text, 0, UINT64_MAX, &o->seed);
	case OPT_TARGET: return argument_real(text, 0.01, 1, &o->target);
	case OPT_ITERATIONS: return argument_small(text, 1, 1000000000, &o->iterations);
	case OPT_EVERY: return argument_small(text, 1, 1000000000, &o->every);
	case OPT_BATCH: return argument_small(text, 1, TRAIN_POINTS, &o->batch);
	case OPT_RATE: return argument_real(text, 0, 1000, &o->rate);
	case OPT_MOMENTUM: return argument_real(text, 0, 1, &o->momentum);
	case OPT_COMPUTE: return argument_real(text, 0, 3600000, &o->compute_ms);
	case OPT_SLOW_PPM: return argument_small(text, 0, 1000000, &o->slow_ppm);
	case OPT_SLOW_MIN: return argument_real(text, 0, 1000, &o->slow_min);
	case OPT_SLOW_MAX: return argument_real(text, 0, 1000, &o->slow_max);
	case OPT_JSON: o->json = text; return true;
	default: return take_weir(&o->weir, option, text);
	}
}

static int
wrong_usage(const char *text)
{
	fprintf(stderr, "weir-train: %s; see weir-train --help\n", text);
	return TRAIN_USAGE + 1;
}

/* What single options can't tell. */
static int
check(struct train_options *o)
{
	if (o->slow_max < o->slow_min)
		return wrong_usage("--slow-max is less than --slow-min");
	if (o->alone && (o->weir.switch_address != NULL || o->weir.control != NULL))
		return wrong_usage("--alone and --switch exclude each other");
	if (o->alone && o->weir.sources == 0)
		return wrong_usage("--alone needs --sources");
	if (o->alone && o->weir.partial == WEIR_PARTIAL_FAIL)
		return wrong_usage("--alone knows nothing of --partial fail");
	if (o->alone)
		return 0;
	if (o->weir.switch_address == NULL && o->weir.control == NULL &&
		getenv("WEIR_SWITCH") == NULL)
		return wrong_usage("--switch is needed, or --alone");
	if (o->weir.switch_address != NULL && (o->weir.address == NULL || o->weir.source < 0))
		return wrong_usage("--address and --source are needed, or an URL for --switch");
	if (o->weir.switch_address != NULL && o->weir.job_name != NULL)
		return wrong_usage("--job-name needs an URL for --switch");
	if (o->weir.switch_address == NULL && o->weir.source >= 0 && o->weir.sources == 0)
		return wrong_usage("--source with an URL for --switch needs --sources, too");
	if (o->weir.join_timeout_ms == 0)
		o->weir.join_timeout_ms = o->weir.op_timeout_ms;
	return 0;
}

int
train_options_parse(struct train_options *o, int argc, char **argv)
{
	int option, index = 0;

	*o = (struct train_options){
		.weir = {.job = 1, .source = -1},
		.seed = 1,
		.target = 0.95,
		.iterations = 1000,
		.every = 10,
		.batch = 64,
		.rate = 0.07,
		.momentum = 0.9,
		.slow_min = 0.5,
		.slow_max = 2,
	};
	while ((option = getopt_long(argc, argv, "h", longs, &index)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		if (option == OPT_VERSION) {
			puts("weir-train " WEIR_VERSION);
			return 1;
		}
		if (option == '?')
			return wrong_usage("unknown option, or one without its argument");
		if (!take(o, option, optarg)) {
			fprintf(stderr,
				"weir-train: --%s: \"%s\" is not possible; see weir-train "
				"--help\n",
				longs[index].name, optarg);
			return TRAIN_USAGE + 1;
		}
	}
	if (optind < argc)
		return wrong_usage("an argument that is no option");
	return check(o);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/perf/perf.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "apps/report/options.h"

const char *argp_program_version = "weir-perf " WEIR_VERSION;

/* The names of a list, for the help. */
#define WORD(name, code, text, ...)                            text " "
#define WORD_TO_ALL                                            WORD
#define WORD_TO_ROOT                                           WORD
#define WORD_TO_EACH                                           WORD
#define WORD_TO_NONE(...)                                      /* not a collective */
#define COLLECTIVE(name, code, text, contribution, result, to) WORD_TO_##to(name, code, text)
#define COLLECTIVES                                            WEIR_COLLECTIVE_LIST(COLLECTIVE)

static const char about[] =
	"Measure collectives through a Weir switch; run one process on each host. COLLECTIVES are "
	"one or more of " COLLECTIVES
	"or all, with commas in between (allreduce). In all lists `all' leaves out "
	"impossible combinations.\vWith the switch's control API a host needs --switch URL and "
	"--job-name; without it --switch ADDRESS, --address and --source.";

/* The options as options_parse() stores them, with their defaults; below, those that are converted. */
static struct perf_options options = {.min_bytes = 32 << 20,
	.max_bytes = 32 << 20,
	.iterations = 20,
	.warmup = 1,
	.check = 1,
	.inflight = 1,
	.seed = 1};
static const char *types = "fp32", *ops = "sum", *root = "0", *collectives = "allreduce", *where,
		  *partial = "as-is";
static bool authenticate, deterministic, source_key;
static struct option_key key;
static uint64_t step = 1 << 20, source = UINT64_MAX, job_id = 1, sources, timeout_ms = 30000,
		join_timeout_ms, window, spin_us = 100, port_base = WEIR_PORT_BASE,
		port_ext = WEIR_PORT_EXT;

#define MOST  1000000000
#define DAY   86400000
#define BYTES 0x1p40

static const struct option_row measure[] = {
	{NULL, 0, OPTION_FLAG, NULL, 0, 0, NULL, "As in nccl-tests:"},
	{"minbytes", 'b', OPTION_SIZE, &options.min_bytes, 0, BYTES, NULL,
		"smallest message; K, M and G are powers of 1024"},
	{"maxbytes", 'e', OPTION_SIZE, &options.max_bytes, 0, BYTES, NULL, "largest message"},
	{"stepbytes", 'i', OPTION_SIZE, &step, 1, BYTES, NULL, "add this to the size each step"},
	{"stepfactor", 'f', OPTION_REAL, &options.step_factor, 1.0001, 1e9, "F",
		"or multiply the size by F, if not 0"},
	{"iters", 'n', OPTION_UINT, &options.iterations, 1, MOST, "N", "measured iterations"},
	{"warmup_iters", 'w', OPTION_UINT, &options.warmup, 0, MOST, "N", "iterations before them"},
	{"check", 'c', OPTION_UINT, &options.check, 0, 1, "0|1",
		"check every element of every result"},
	{"datatype", 'd', OPTION_TEXT, &types, 0, 0, "LIST",
		WEIR_DTYPE_LIST(
			WORD) "or all; or nccl-tests' half bfloat16 float double f8e4m3 f8e5m2"},
	{"op", 'o', OPTION_TEXT, &ops, 0, 0, "LIST",
		WEIR_OP_LIST(WORD) "or all; from band on for integers"},
	{"root", 'r', OPTION_TEXT, &root, 0, 0, "RANK", "root of the collective, or all"},
	{"collective", 'C', OPTION_TEXT, &collectives, 0, 0, "LIST",
		"the same as the argument COLLECTIVES"},
	{0},
};

static const struct option_row job[] = {
	{NULL, 0, OPTION_FLAG, NULL, 0, 0, NULL, "The job, and this host in it:"},
	{"switch", 0, OPTION_TEXT, &where, 0, 0, "URL|ADDRESS",
		"the switch's control API: http://HOST:PORT, https://HOST:PORT or unix:PATH "
		"(WEIR_SWITCH); or the IPv4 address of the switch"},
	{"job-name", 0, OPTION_TEXT, &options.weir.job_name, 0, 0, "NAME",
		"with a URL: the job (WEIR_JOB)"},
	{"create", 0, OPTION_FLAG, &options.weir.create, 0, 0, NULL,
		"with a URL: create the job if there is none of this name; over TCP with a token"},
	{"authenticate", 0, OPTION_FLAG, &authenticate, 0, 0, NULL,
		"with --create: authenticate every packet; needs https or unix"},
	{"deterministic", 0, OPTION_FLAG, &deterministic, 0, 0, NULL,
		"with --create: floating-point results are the same bits in every run"},
	{"token-file", 0, OPTION_TEXT, &options.weir.token_file, 0, 0, "FILE",
		"with a URL: the token of the tenant or of this rank (WEIR_TOKEN_FILE, "
		"WEIR_TOKEN)"},
	{"ca", 0, OPTION_TEXT, &options.weir.ca_file, 0, 0, "FILE",
		"with https: certificates to trust (WEIR_CA)"},
	{"key-file", 0, OPTION_KEY, &key, 0, 0, NULL,
		"64 hexadecimal digits: the job's key, as in its key_file"},
	{"source-key", 0, OPTION_FLAG, &source_key, 0, 0, NULL,
		"the key in --key-file is this source's, not the job's"},
	{"address", 0, OPTION_TEXT, &options.weir.address, 0, 0, "ADDRESS",
		"IPv4 address of this host towards the switch"},
	{"source", 0, OPTION_UINT, &source, 0, WEIR_SOURCES_MAX - 1, "N",
		"rank of this host, from 0, which prints the table; default with a URL: as mpirun, "
		"srun, torchrun or WEIR_RANK say"},
	{"sources", 0, OPTION_UINT, &sources, 0, WEIR_SOURCES_MAX, "N",
		"ranks that the job must have; 0: as many as the switch, or with a URL the "
		"launcher or WEIR_SIZE says"},
	{"job", 0, OPTION_UINT, &job_id, 0, WEIR_JOBS_MAX - 1, "N", "number of the job"},
	{"levels", 0, OPTION_UINT, &options.levels, 0, 8, "N",
		"of a tree's narrow job: how many levels of switches round a result"},
	{"switches", 0, OPTION_UINT, &options.switches, 0, WEIR_SOURCES_MAX, "N",
		"with --levels: how many switches of all levels have a part in one block; 0: "
		"unknown"},
	{"port-base", 0, OPTION_UINT, &port_base, 1, 65535, "PORT",
		"UDP port of the switch, base form"},
	{"port-ext", 0, OPTION_UINT, &port_ext, 1, 65535, "PORT", "the same, extended form"},
	{0},
};

static const struct option_row how[] = {
	{NULL, 0, OPTION_FLAG, NULL, 0, 0, NULL, "How:"},
	{"timeout", 0, OPTION_TIME, &timeout_ms, 1, DAY, "ms",
		"for the join, and for an operation without progress"},
	{"join-timeout", 0, OPTION_TIME, &join_timeout_ms, 0, DAY, "ms",
		"for the join alone; 0: as --timeout"},
	{"partial", 0, OPTION_CHOICE, &partial, 0, 0, "as-is|rescale|fail",
		"what to do with partial results; rescale needs -c 0"},
	{"error-feedback", 0, OPTION_FLAG, &options.weir.error_feedback, 0, 0, NULL,
		"add contributions that missed their block to the next call; needs -c 0"},
	{"rejoin", 0, OPTION_UINT, &options.rejoins, 0, 1000, "N",
		"after a failure join again and continue, N times in all; on every rank, also on "
		"one that is started again: it continues where the others are"},
	{"opens", 0, OPTION_UINT, &options.opens, 0, 1000000, "N",
		"with a URL: measure no collectives, but how long it takes to open a job, with N "
		"temporary ones that the ranks create"},
	{"base-form", 0, OPTION_FLAG, &options.weir.base_form, 0, 0, NULL,
		"send 12-byte headers (the job's own type and operation)"},
	{"window", 0, OPTION_UINT, &window, 0, 4096, "N",
		"blocks in flight at most; 0: the job's window"},
	{"spin", 0, OPTION_TIME, &spin_us, 0, 1000000, "us",
		"how long a waiting call polls before it sleeps"},
	{"inflight", 0, OPTION_UINT, &options.inflight, 1, PERF_INFLIGHT_MAX, "N",
		"operations at a time, begun without waiting, each in its own buffers; 1: blocking "
		"calls"},
	{"shapes", 0, OPTION_TEXT, &options.shapes, 0, 0, "FILE",
		"reduce every tensor of a model, in place, one call each"},
	{"seed", 0, OPTION_UINT, &options.seed, 0, 0x1p64, "N",
		"of the data; the same on all ranks"},
	{"spoil", 0, OPTION_FLAG, &options.spoil, 0, 0, NULL,
		"change an element of each own result before the check, which must report it"},
	{"latency", 0, OPTION_FLAG, &options.latency, 0, 0, NULL,
		"print min, median and 99 % of the times instead of bandwidths"},
	{"link-rate", 0, OPTION_REAL, &options.link_rate, 1, 1e15, "RATE",
		"bit/s of a host's link (K, M, G: powers of 1000): print how much of it is used, "
		"by all bytes on the wire and by the data alone"},
	{"json", 0, OPTION_JSON, &options.json, 0, 0, NULL,
		"print a report as JSON, and the table on standard error; or write it into FILE"},
	{0},
};

/* End the program: this value of an option is impossible. */
static _Noreturn void
refuse(const char *option, const char *text)
{
	fprintf(stderr, "weir-perf: %s \"%s\" is not possible; see weir-perf --help\n", option,
		text);
	exit(PERF_USAGE);
}

/* Convert what options_parse() has stored. */
static void
convert(struct perf_options *o)
{
	struct weir_config *w = &o->weir;
	unsigned long rank;
	char *end;
	bool url = where != NULL &&
		(strstr(where, "://") != NULL || strncmp(where, "unix:", 5) == 0 ||
			where[0] == '/');

	o->step_bytes = o->step_factor != 0 ? 0 : step;
	rank = strtoul(root, &end, 10);
	o->root = strcmp(root, "all") == 0 ? PERF_ROOT_ALL : (unsigned int)rank;
	if (o->root != PERF_ROOT_ALL &&
		(root[0] < '0' || root[0] > '9' || *end != '\0' || rank >= WEIR_SOURCES_MAX))
		refuse("-r", root);
	if (!perf_list_types(types, &o->types))
		refuse("-d", types);
	if (!perf_list_ops(ops, &o->ops))
		refuse("-o", ops);
	if (!perf_list_collectives(collectives, &o->collectives))
		refuse("COLLECTIVES", collectives);
	if (key.bytes != 0)
		w->key = key.byte;
	w->key_bytes = key.bytes;
	w->key_of_source = source_key;
	w->settings = authenticate && deterministic ? "authenticate=true deterministic=true"
		: authenticate                      ? "authenticate=true"
		: deterministic                     ? "deterministic=true"
						    : NULL;
	if (o->opens != 0)
		w->create = w->temporary = true;
	w->control = url ? where : NULL;
	w->switch_address = url ? NULL : where;
	w->source = source == UINT64_MAX ? -1 : (int)source;
	w->sources = (unsigned int)sources;
	w->job = (uint8_t)job_id;
	w->port_base = (uint16_t)port_base;
	w->port_ext = (uint16_t)port_ext;
	w->op_timeout_ms = (unsigned int)timeout_ms;
	w->join_timeout_ms = (unsigned int)(join_timeout_ms != 0 ? join_timeout_ms : timeout_ms);
	w->partial = partial[0] == 'r' ? WEIR_PARTIAL_RESCALE
		: partial[0] == 'f'    ? WEIR_PARTIAL_FAIL
				       : WEIR_PARTIAL_AS_IS;
	w->window_limit = (unsigned int)window;
	w->spin_us = spin_us == 0 ? -1 : (int)spin_us;
}

/* Why the options do not go together; NULL: they do. */
static const char *
contradiction(const struct perf_options *o)
{
	static char text[128];
	const struct weir_config *w = &o->weir;
	bool addressed = w->switch_address != NULL;

	if (!addressed && w->control == NULL && getenv("WEIR_SWITCH") == NULL)
		return "--switch URL is needed, or WEIR_SWITCH";
	if (addressed && (w->address == NULL || w->source < 0))
		return "--address and --source are needed, or a URL for --switch";
	if (addressed && (w->job_name != NULL || w->create))
		return "--job-name and --create need a URL for --switch";
	if (addressed && o->opens != 0)
		return "--opens needs a URL for --switch";
	if (w->settings != NULL && !w->create)
		return "--authenticate and --deterministic need --create: they say what job is "
		       "created";
	if (o->switches != 0 && o->switches < o->levels)
		return "--switches is less than --levels";
	if (o->switches != 0 && o->levels == 0)
		return "--switches needs --levels";
	if (source_key && w->key == NULL)
		return "--source-key needs --key-file";
	if (!addressed && w->source >= 0 && w->sources == 0)
		return "--source with a URL for --switch needs --sources, too";
	if (o->check && (w->error_feedback || w->partial == WEIR_PARTIAL_RESCALE))
		return "--error-feedback and --partial rescale need -c 0: results are then not the "
		       "sums of what the sources have now";
	if (o->max_bytes < o->min_bytes)
		return "-e is less than -b";
	return perf_plan_refuses(o, text, sizeof(text));
}

const struct perf_options *
perf_options_parse(int argc, char **argv)
{
	const struct option_row *const tables[] = {measure, job, how, NULL};
	const char *why;

	/* The argument may stand anywhere. */
	for (int next; argc > 1; argc -= next, argv += next) {
		next = options_parse("weir-perf", about, "[COLLECTIVES]", tables, argc, argv);
		if (next < argc)
			collectives = argv[next];
	}
	convert(&options);
	why = contradiction(&options);
	if (why == NULL)
		return &options;
	fprintf(stderr, "weir-perf: %s; see weir-perf --help\n", why);
	exit(PERF_USAGE);
}

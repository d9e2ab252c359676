/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/perf/perf.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_SWITCH = 256,
	OPT_JOB_NAME,
	OPT_CREATE,
	OPT_AUTHENTICATE,
	OPT_DETERMINISTIC,
	OPT_TOKEN_FILE,
	OPT_CA,
	OPT_KEY_FILE,
	OPT_ADDRESS,
	OPT_SOURCE,
	OPT_JOB,
	OPT_SOURCES,
	OPT_TIMEOUT,
	OPT_JOIN_TIMEOUT,
	OPT_PARTIAL,
	OPT_ERROR_FEEDBACK,
	OPT_REJOIN,
	OPT_BASE_FORM,
	OPT_WINDOW,
	OPT_SPIN,
	OPT_PORT_BASE,
	OPT_PORT_EXT,
	OPT_SHAPES,
	OPT_JSON,
	OPT_SEED,
	OPT_INFLIGHT,
	OPT_LINK_RATE,
	OPT_LATENCY,
	OPT_SPOIL,
	OPT_VERSION,
};

static const struct option longs[] = {
	{"minbytes", required_argument, NULL, 'b'},
	{"maxbytes", required_argument, NULL, 'e'},
	{"stepfactor", required_argument, NULL, 'f'},
	{"stepbytes", required_argument, NULL, 'i'},
	{"iters", required_argument, NULL, 'n'},
	{"warmup_iters", required_argument, NULL, 'w'},
	{"check", required_argument, NULL, 'c'},
	{"datatype", required_argument, NULL, 'd'},
	{"op", required_argument, NULL, 'o'},
	{"collective", required_argument, NULL, 'C'},
	{"op-name", required_argument, NULL, 'C'},
	{"root", required_argument, NULL, 'r'},
	{"help", no_argument, NULL, 'h'},
	{"inflight", required_argument, NULL, OPT_INFLIGHT},
	{"link-rate", required_argument, NULL, OPT_LINK_RATE},
	{"latency", no_argument, NULL, OPT_LATENCY},
	{"spoil", no_argument, NULL, OPT_SPOIL},
	{"switch", required_argument, NULL, OPT_SWITCH},
	{"job-name", required_argument, NULL, OPT_JOB_NAME},
	{"create", no_argument, NULL, OPT_CREATE},
	{"authenticate", no_argument, NULL, OPT_AUTHENTICATE},
	{"deterministic", no_argument, NULL, OPT_DETERMINISTIC},
	{"token-file", required_argument, NULL, OPT_TOKEN_FILE},
	{"key-file", required_argument, NULL, OPT_KEY_FILE},
	{"ca", required_argument, NULL, OPT_CA},
	{"address", required_argument, NULL, OPT_ADDRESS},
	{"source", required_argument, NULL, OPT_SOURCE},
	{"job", required_argument, NULL, OPT_JOB},
	{"sources", required_argument, NULL, OPT_SOURCES},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"join-timeout", required_argument, NULL, OPT_JOIN_TIMEOUT},
	{"partial", required_argument, NULL, OPT_PARTIAL},
	{"error-feedback", no_argument, NULL, OPT_ERROR_FEEDBACK},
	{"rejoin", required_argument, NULL, OPT_REJOIN},
	{"base-form", no_argument, NULL, OPT_BASE_FORM},
	{"window", required_argument, NULL, OPT_WINDOW},
	{"spin", required_argument, NULL, OPT_SPIN},
	{"port-base", required_argument, NULL, OPT_PORT_BASE},
	{"port-ext", required_argument, NULL, OPT_PORT_EXT},
	{"shapes", required_argument, NULL, OPT_SHAPES},
	{"json", required_argument, NULL, OPT_JSON},
	{"seed", required_argument, NULL, OPT_SEED},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

/* A number of [least, most], with a suffix K, M or G where `sizes`. */
static bool
number(const char *text, bool sizes, uint64_t least, uint64_t most, uint64_t *value)
{
	const char *suffixes = "KMG", *found;
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno != 0 || end == text || text[0] == '-')
		return false;
	if (sizes && *end != '\0') {
		found = strchr(suffixes, *end >= 'a' ? *end - 'a' + 'A' : *end);
		for (long n = found ? found - suffixes + 1 : 0; n > 0; n--) {
			if (v > UINT64_MAX / 1024)
				return false;
			v *= 1024;
		}
		if (found == NULL || strcmp(end + 1, "") != 0)
			return false;
	}
	*value = v;
	return *end == '\0' || sizes ? v >= least && v <= most : false;
}

/* Bits per second, with a suffix K, M, G (powers of 1000). */
static bool
link_rate(const char *text, double *rate)
{
	const char *suffixes = "kmg", *found;
	char *end;

	*rate = strtod(text, &end);
	if (end == text)
		return false;
	if (*end != '\0') {
		found = strchr(suffixes, *end | 0x20);
		if (found == NULL || end[1] != '\0')
			return false;
		for (long n = found - suffixes + 1; n > 0; n--)
			*rate *= 1000;
	}
	return isfinite(*rate) && *rate >= 1;
}

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

/* A key from a file of hexadecimal digits. False: it is none, said. */
static bool
read_key(struct weir_config *weir, const char *path)
{
	static uint8_t key[2 * WEIR_KEY_BYTES];
	char text[4 * WEIR_KEY_BYTES + 2];
	FILE *file = fopen(path, "re");
	size_t read = 0, digits;

	if (file != NULL)
		read = fread(text, 1, sizeof(text) - 1, file);
	if (file == NULL || ferror(file)) {
		fprintf(stderr, "weir-perf: --key-file %s: %s\n", path, strerror(errno));
		if (file != NULL)
			fclose(file);
		return false;
	}
	fclose(file);
	text[read] = '\0';
	digits = strspn(text, "0123456789abcdefABCDEF");
	if (digits + strspn(text + digits, "\n") != read ||
		(digits != sizeof(key) && digits != 2 * sizeof(key))) {
		fprintf(stderr,
			"weir-perf: --key-file %s: it should hold %zu or %zu hexadecimal digits "
			"and a "
			"line end, and no more; it begins with %zu\n",
			path, sizeof(key), 2 * sizeof(key), digits);
		explicit_bzero(text, sizeof(text));
		return false;
	}
	for (size_t i = 0; i < digits / 2; i++) {
		const char byte[3] = {text[2 * i], text[2 * i + 1], '\0'};

		key[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	explicit_bzero(text, sizeof(text));
	weir->key = key;
	weir->key_bytes = digits / 2;
	return true;
}

/* One option; false: its argument is wrong. */
static bool
take(struct perf_options *o, int option, const char *text)
{
	uint64_t v = 0;
	bool good = true;
	char *end;

	switch (option) {
	case 'b':
		good = number(text, true, 0, UINT64_C(1) << 40, &v);
		o->min_bytes = v;
		break;
	case 'e':
		good = number(text, true, 0, UINT64_C(1) << 40, &v);
		o->max_bytes = v;
		break;
	case 'f':
		o->step_factor = strtod(text, &end);
		o->step_bytes = 0;
		return end != text && *end == '\0' && isfinite(o->step_factor) &&
			o->step_factor > 1;
	case 'i':
		good = number(text, true, 1, UINT64_C(1) << 40, &v);
		o->step_bytes = v;
		break;
	case 'n':
		good = number(text, false, 1, 1000000000, &v);
		o->iterations = (unsigned int)v;
		break;
	case 'w':
		good = number(text, false, 0, 1000000000, &v);
		o->warmup = (unsigned int)v;
		break;
	case 'c':
		good = number(text, false, 0, 1, &v);
		o->check = v != 0;
		break;
	case 'd': return perf_list_types(text, &o->types);
	case 'o': return perf_list_ops(text, &o->ops);
	case 'C': return perf_list_collectives(text, &o->collectives);
	case 'r':
		good = strcmp(text, "all") == 0 || number(text, false, 0, WEIR_SOURCES_MAX - 1, &v);
		o->root = strcmp(text, "all") == 0 ? PERF_ROOT_ALL : (unsigned int)v;
		break;
	case OPT_INFLIGHT:
		good = number(text, false, 1, PERF_INFLIGHT_MAX, &v);
		o->inflight = (unsigned int)v;
		break;
	case OPT_LINK_RATE: return link_rate(text, &o->link_rate);
	case OPT_LATENCY: o->latency = true; break;
	case OPT_SPOIL: o->spoil = true; break;
	case OPT_SWITCH:
		o->weir.control = is_url(text) ? text : NULL;
		o->weir.switch_address = is_url(text) ? NULL : text;
		break;
	case OPT_JOB_NAME: o->weir.job_name = text; break;
	case OPT_CREATE: o->weir.create = true; break;
	case OPT_AUTHENTICATE: o->weir.settings.authenticate = true; break;
	case OPT_DETERMINISTIC: o->weir.settings.deterministic = true; break;
	case OPT_TOKEN_FILE: o->weir.token_file = text; break;
	case OPT_CA: o->weir.ca_file = text; break;
	case OPT_ADDRESS: o->weir.address = text; break;
	case OPT_SOURCE:
		good = number(text, false, 0, WEIR_SOURCES_MAX - 1, &v);
		o->weir.source = (int)v;
		break;
	case OPT_JOB:
		good = number(text, false, 0, WEIR_JOBS_MAX - 1, &v);
		o->weir.job = (uint8_t)v;
		break;
	case OPT_SOURCES:
		good = number(text, false, 1, WEIR_SOURCES_MAX, &v);
		o->weir.sources = (unsigned int)v;
		break;
	case OPT_TIMEOUT:
		good = number(text, false, 1, 86400000, &v);
		o->weir.op_timeout_ms = (unsigned int)v;
		break;
	case OPT_JOIN_TIMEOUT:
		good = number(text, false, 1, 86400000, &v);
		o->weir.join_timeout_ms = (unsigned int)v;
		break;
	case OPT_PARTIAL: return partial(text, &o->weir.partial);
	case OPT_ERROR_FEEDBACK: o->weir.error_feedback = true; break;
	case OPT_REJOIN:
		good = number(text, false, 1, 1000, &v);
		o->rejoins = (unsigned int)v;
		break;
	case OPT_BASE_FORM: o->weir.base_form = true; break;
	case OPT_WINDOW:
		good = number(text, false, 1, 4096, &v);
		o->weir.window_limit = (unsigned int)v;
		break;
	case OPT_SPIN:
		good = number(text, false, 0, 1000000, &v);
		o->weir.spin_us = v == 0 ? -1 : (int)v;
		break;
	case OPT_PORT_BASE:
		good = number(text, false, 1, 65535, &v);
		o->weir.port_base = (uint16_t)v;
		break;
	case OPT_PORT_EXT:
		good = number(text, false, 1, 65535, &v);
		o->weir.port_ext = (uint16_t)v;
		break;
	case OPT_SHAPES: o->shapes = text; break;
	case OPT_JSON: o->json = text; break;
	case OPT_SEED:
		good = number(text, false, 0, UINT64_MAX, &v);
		o->seed = v;
		break;
	default: return false;
	}
	return good;
}

static int
wrong_usage(const char *text)
{
	fprintf(stderr, "weir-perf: %s; see weir-perf --help\n", text);
	return PERF_USAGE + 1;
}

int
perf_options_parse(struct perf_options *o, int argc, char **argv)
{
	int option, index = 0;
	const char *why;
	char text[128];

	*o = (struct perf_options){
		.weir = {.job = 1, .source = -1},
		.min_bytes = 32 << 20,
		.max_bytes = 32 << 20,
		.step_bytes = 1 << 20,
		.step_factor = 2,
		.iterations = 20,
		.warmup = 1,
		.check = true,
		.collectives = {.codes = 1u << WEIR_COLLECTIVE_ALLREDUCE},
		.types = {.codes = 1u << WEIR_DTYPE_FP32},
		.ops = {.codes = 1u << WEIR_OP_SUM},
		.inflight = 1,
		.seed = 1,
	};
	while ((option = getopt_long(argc, argv, "b:e:f:i:n:w:c:d:o:C:r:h", longs, &index)) != -1) {
		if (option == 'h') {
			perf_usage(stdout);
			return 1;
		}
		if (option == OPT_VERSION) {
			puts("weir-perf " WEIR_VERSION);
			return 1;
		}
		if (option == '?')
			return wrong_usage("unknown option, or one without its argument");
		if (option == OPT_KEY_FILE) {
			if (!read_key(&o->weir, optarg))
				return PERF_USAGE + 1;
			continue;
		}
		if (!take(o, option, optarg)) {
			if (option < 256)
				fprintf(stderr, "weir-perf: -%c: ", option);
			else
				fprintf(stderr, "weir-perf: --%s: ", longs[index].name);
			fprintf(stderr, "\"%s\" is not possible; see weir-perf --help\n", optarg);
			return PERF_USAGE + 1;
		}
	}
	if (optind + 1 == argc && perf_list_collectives(argv[optind], &o->collectives))
		optind++;
	if (optind < argc)
		return wrong_usage("an argument that is no option, and no list of collectives");
	if (o->weir.switch_address == NULL && o->weir.control == NULL &&
		getenv("WEIR_SWITCH") == NULL)
		return wrong_usage("--switch URL is needed, or WEIR_SWITCH");
	if (o->weir.switch_address != NULL && (o->weir.address == NULL || o->weir.source < 0))
		return wrong_usage("--address and --source are needed, or an URL for --switch");
	if (o->weir.switch_address != NULL && (o->weir.job_name != NULL || o->weir.create))
		return wrong_usage("--job-name and --create need an URL for --switch");
	if (o->weir.settings.authenticate && !o->weir.create)
		return wrong_usage("--authenticate needs --create: it says what job is made");
	if (o->weir.settings.deterministic && !o->weir.create)
		return wrong_usage("--deterministic needs --create: it says what job is made");
	if (o->weir.switch_address == NULL && o->weir.source >= 0 && o->weir.sources == 0)
		return wrong_usage("--source with an URL for --switch needs --sources, too");
	if (o->check && (o->weir.error_feedback || o->weir.partial == WEIR_PARTIAL_RESCALE))
		return wrong_usage(
			"--error-feedback and --partial rescale need -c 0: results are then no "
			"sums of what the sources have now");
	why = perf_plan_refuses(o, text, sizeof(text));
	if (why != NULL)
		return wrong_usage(why);
	if (o->max_bytes < o->min_bytes)
		return wrong_usage("-e is less than -b");
	if (o->weir.join_timeout_ms == 0)
		o->weir.join_timeout_ms = o->weir.op_timeout_ms;
	return 0;
}

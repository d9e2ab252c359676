/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/capture.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/config/config.h"
#include "ctrl/config/schema.h"

#define HEADERS   (14 + 20 + 8) /* Ethernet, IPv4, UDP */
#define FRAME_MIN 60 /* without the frame check sequence */
#define FCS       4

static int __attribute__((format(printf, 2, 3))) refuse(char *error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, CAPTURE_ERROR_BYTES, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

size_t
plan_frame_bytes(const struct plan *plan)
{
	size_t bytes = HEADERS + weir_header_bytes(plan->extended) +
		(size_t)plan->elements * weir_dtype_bytes(plan->job.dtype);

	return bytes < FRAME_MIN ? FRAME_MIN : bytes;
}

/* A number at *text, which moves behind it; false: there is none, or it is too large. */
static bool
number(const char **text, unsigned long max, unsigned long *value)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*value = strtoul(*text, &end, 10);
	*text = end;
	return errno == 0 && *value <= max;
}

static const struct ppe_job *
find_job(const struct ctrl_config *config, const char *wanted)
{
	const char *end = wanted;
	unsigned long id;

	if (wanted == NULL)
		return config->nb_jobs == 1 ? &config->job[0] : NULL;
	for (unsigned int i = 0; i < config->nb_jobs; i++)
		if (strcmp(config->job[i].name, wanted) == 0)
			return &config->job[i];
	if (!number(&end, WEIR_JOBS_MAX - 1, &id) || *end != '\0')
		return NULL;
	return config->jobs.by_id[id];
}

static bool
is_given(uint64_t value)
{
	return value != CAPTURE_UNSET;
}

static uint64_t
given(uint64_t value, uint64_t otherwise)
{
	return is_given(value) ? value : otherwise;
}

/* The job as the switch will know it. Options that contradict the file are refused. */
static int
from_config(struct plan *plan, const struct capture_spec *spec, char *error)
{
	struct ctrl_config *config;
	const struct ppe_job *job;
	int rc;

	if (is_given(spec->job_id) || is_given(spec->sources) || is_given(spec->window) ||
		is_given(spec->generation) || is_given(spec->block_bits) || spec->address != NULL ||
		spec->switch_address != NULL || spec->switch_mac != NULL || spec->type != NULL)
		return refuse(error,
			"--config excludes --job-id, --sources, --address, --window, --type, "
			"--generation, --block-bits, --switch and --switch-mac");
	rc = ctrl_config_load(spec->config, &config, error, CAPTURE_ERROR_BYTES);
	if (rc < 0)
		return rc;
	job = find_job(config, spec->job);
	if (job == NULL)
		rc = spec->job != NULL
			? refuse(error, "%s: there is no job \"%s\"", spec->config, spec->job)
			: refuse(error, "%s has %u jobs: name one with --job", spec->config,
				  config->nb_jobs);
	else if (job->fixed_generation == 0)
		rc = refuse(error,
			"%s: job \"%s\" begins with joins, which a capture can't answer: set its "
			"\"generation\"",
			spec->config, job->name);
	if (rc == 0) {
		plan->job = *job;
		plan->to = config->ppe.identity;
	}
	ctrl_config_destroy(config);
	return rc;
}

/* Sources 0 and up, with addresses that count up. */
static int
number_sources(struct plan *plan, const struct capture_spec *spec, char *error)
{
	struct ppe_job *job = &plan->job;
	uint32_t first;

	if (!ctrl_parse_address(spec->address != NULL ? spec->address : "10.77.0.1", &first))
		return refuse(error, "--address: \"%s\" is not an IPv4 address", spec->address);
	for (unsigned int s = 0; s < job->nb_sources; s++) {
		job->members[s / 64] |= UINT64_C(1) << (s % 64);
		job->address[s] = first + s;
		if (job->address[s] == plan->to.ip)
			return refuse(error,
				"source %u would have the switch's address: give another --address "
				"to begin at, or --switch",
				s);
	}
	return 0;
}

static int
from_flags(struct plan *plan, const struct capture_spec *spec, char *error)
{
	static const uint8_t mac[6] = {0x02, 0x57, 0x45, 0x49, 0x52, 0x01};
	unsigned int bits = (unsigned int)given(spec->block_bits, 32);
	struct ppe_job *job = &plan->job;

	if (spec->job != NULL)
		return refuse(error, "--job names a job of a --config: without one, use --job-id");
	memcpy(plan->to.mac, mac, sizeof(mac));
	plan->to.port_base = WEIR_PORT_BASE;
	plan->to.port_ext = WEIR_PORT_EXT;
	if (!ctrl_parse_address(spec->switch_address != NULL ? spec->switch_address : "10.77.0.254",
		    &plan->to.ip))
		return refuse(
			error, "--switch: \"%s\" is not an IPv4 address", spec->switch_address);
	if (spec->switch_mac != NULL && !ctrl_parse_mac(spec->switch_mac, plan->to.mac))
		return refuse(error, "--switch-mac: \"%s\" is not a MAC address", spec->switch_mac);
	job->id = (uint8_t)given(spec->job_id, 1);
	job->nb_sources = (uint16_t)given(spec->sources, 2);
	job->window = (uint16_t)given(spec->window, 64);
	job->elements = (uint16_t)given(spec->elements, 256);
	job->fixed_generation = (uint16_t)given(spec->generation, 1);
	job->block_shift = (uint8_t)(32 - bits);
	job->dtype = WEIR_DTYPE_FP32;
	job->op = WEIR_OP_SUM;
	if (spec->type != NULL && strcmp(spec->type, "int32") == 0)
		job->dtype = WEIR_DTYPE_INT32;
	if ((job->window & (job->window - 1)) != 0)
		return refuse(error, "--window: %u is not a power of two", job->window);
	if (job->window > UINT32_C(1) << (bits - 2))
		return refuse(error, "--block-bits: %u bits hold less than 4 windows of %u blocks",
			bits, job->window);
	return number_sources(plan, spec, error);
}

/* Which of the job's sources are in the capture: all, or those of a list. */
static int
choose_sources(struct plan *plan, const char *only, char *error)
{
	bool chosen[WEIR_SOURCES_MAX] = {false};
	const char *at = only;

	for (unsigned int s = 0; only == NULL && s < WEIR_SOURCES_MAX; s++)
		chosen[s] = ppe_job_has(&plan->job, (uint8_t)s);
	while (at != NULL) {
		unsigned long from, to;

		if (!number(&at, WEIR_SOURCES_MAX - 1, &from))
			return refuse(error, "--only: \"%s\" is not a list such as 0,3-5", only);
		to = from;
		if (*at == '-' && (at++, !number(&at, WEIR_SOURCES_MAX - 1, &to)))
			return refuse(error, "--only: \"%s\" is not a list such as 0,3-5", only);
		for (; from <= to; from++) {
			if (!ppe_job_has(&plan->job, (uint8_t)from))
				return refuse(error, "--only: the job has no source %lu", from);
			chosen[from] = true;
		}
		if (*at != '\0' && *at != ',')
			return refuse(error, "--only: \"%s\" is not a list such as 0,3-5", only);
		at = *at == ',' ? at + 1 : NULL;
	}
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (chosen[s])
			plan->source[plan->nb_sources++] = (uint8_t)s;
	return plan->nb_sources > 0 ? 0 : refuse(error, "--only: \"%s\" names no source", only);
}

static int
plan_contributions(struct plan *plan, const struct capture_spec *spec, char *error)
{
	uint64_t numbers = UINT64_C(1) << (32 - plan->job.block_shift);
	uint64_t some = plan->job.block_shift > 0 ? numbers : 4u * plan->job.window;

	if ((plan->job.dtype != WEIR_DTYPE_INT32 && plan->job.dtype != WEIR_DTYPE_FP32) ||
		plan->job.op != WEIR_OP_SUM)
		return refuse(error, "job \"%s\" adds up neither int32 nor fp32", plan->job.name);
	plan->elements = (uint16_t)given(spec->elements, plan->job.elements);
	if (plan->elements > plan->job.elements)
		return refuse(error, "--elements: job \"%s\" has %u at most", plan->job.name,
			plan->job.elements);
	if (spec->endless && is_given(spec->blocks))
		return refuse(error, "--endless and --blocks exclude each other");
	if (!spec->endless)
		plan->blocks = (uint32_t)given(spec->blocks, some);
	plan->first = (uint32_t)spec->first;
	plan->order = spec->order;
	plan->duplicates = (unsigned int)spec->duplicates;
	plan->extended = spec->extended;
	if (plan_frame_bytes(plan) > CAPTURE_FRAME_MAX)
		return refuse(error, "frames of %zu bytes are too long", plan_frame_bytes(plan));
	return choose_sources(plan, spec->only, error);
}

/* The first option that is given and says something of a job's contributions; NULL: none. */
static const char *
of_a_job(const struct capture_spec *spec)
{
	const struct {
		const char *option;
		bool given;
	} options[] = {
		{"--config", spec->config != NULL},
		{"--job", spec->job != NULL},
		{"--job-id", is_given(spec->job_id)},
		{"--only", spec->only != NULL},
		{"--blocks", is_given(spec->blocks)},
		{"--sources", is_given(spec->sources)},
		{"--window", is_given(spec->window)},
		{"--elements", is_given(spec->elements)},
		{"--generation", is_given(spec->generation)},
		{"--block-bits", is_given(spec->block_bits)},
		{"--type", spec->type != NULL},
		{"--first", spec->first != 0},
		{"--order", spec->order != 0},
		{"--duplicates", spec->duplicates != 0},
		{"--extended", spec->extended},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].given)
			return options[i].option;
	return NULL;
}

static int
plan_ordinary(struct plan *plan, const struct capture_spec *spec, char *error)
{
	const char *at = spec->sizes, *useless = of_a_job(spec);

	if (useless != NULL)
		return refuse(error, "--ordinary frames belong to no job: leave %s out", useless);
	for (;;) {
		unsigned long size;

		if (!number(&at, CAPTURE_FRAME_MAX, &size) || (*at != '\0' && *at != ','))
			return refuse(error, "--ordinary: \"%s\" is not a list such as 64,1518",
				spec->sizes);
		if (size < FRAME_MIN + FCS || plan->nb_sizes == CAPTURE_SIZES_MAX)
			return refuse(error, "--ordinary: up to %u sizes of at least %u bytes",
				CAPTURE_SIZES_MAX, FRAME_MIN + FCS);
		plan->size[plan->nb_sizes++] = (uint16_t)size;
		if (*at++ == '\0')
			break;
	}
	plan->stations = (uint32_t)given(spec->stations, 1);
	plan->frames = given(spec->frames, (uint64_t)plan->nb_sizes * plan->stations);
	plan->reverse = spec->reverse;
	return 0;
}

int
plan_make(struct plan *plan, const struct capture_spec *spec, char *error)
{
	int rc;

	*plan = (struct plan){.seed = spec->seed, .endless = spec->endless};
	if (spec->sizes != NULL)
		return plan_ordinary(plan, spec, error);
	if (is_given(spec->frames) || is_given(spec->stations) || spec->reverse)
		return refuse(error, "--frames, --stations and --reverse go with --ordinary");
	rc = spec->config != NULL ? from_config(plan, spec, error) : from_flags(plan, spec, error);
	return rc < 0 ? rc : plan_contributions(plan, spec, error);
}

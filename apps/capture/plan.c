/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/capture.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/config/config.h"

static int __attribute__((format(printf, 2, 3))) refuse(char *error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, CAPTURE_ERROR_BYTES, format, arguments);
	va_end(arguments);
	return -EINVAL;
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

static int
read_config(struct plan *plan, char *error)
{
	struct ctrl_config *config;
	const struct ppe_job *job;
	int rc = ctrl_config_load(plan->config, &config, error, CAPTURE_ERROR_BYTES);

	if (rc < 0)
		return rc;
	job = find_job(config, plan->job_name);
	if (job == NULL)
		rc = plan->job_name != NULL
			? refuse(error, "%s: there is no job \"%s\"", plan->config, plan->job_name)
			: refuse(error, "%s has %u jobs: name one with --job", plan->config,
				  config->nb_jobs);
	else if (job->fixed_generation == 0)
		rc = refuse(error,
			"%s: job \"%s\" begins with joins, which a capture can't answer: set its "
			"\"generation\"",
			plan->config, job->name);
	if (rc == 0) {
		plan->job = *job;
		plan->to = config->ppe.identity;
	}
	ctrl_config_destroy(config);
	return rc;
}

/* The sources to write: all of the job's, or those of a list. */
static int
choose_sources(struct plan *plan, char *error)
{
	bool chosen[WEIR_SOURCES_MAX] = {false};
	const char *only = plan->only, *at = only;

	for (unsigned int s = 0; only == NULL && s < WEIR_SOURCES_MAX; s++)
		chosen[s] = ppe_job_has(&plan->job, (uint8_t)s);
	while (at != NULL) {
		unsigned long from, to;
		bool right = number(&at, WEIR_SOURCES_MAX - 1, &from);

		to = from;
		if (right && *at == '-') {
			at++;
			right = number(&at, WEIR_SOURCES_MAX - 1, &to);
		}
		if (!right || (*at != '\0' && *at != ','))
			return refuse(error, "--only: \"%s\" is not a list such as 0,3-5", only);
		for (; from <= to; from++) {
			if (!ppe_job_has(&plan->job, (uint8_t)from))
				return refuse(error, "--only: the job has no source %lu", from);
			chosen[from] = true;
		}
		at = *at == ',' ? at + 1 : NULL;
	}
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (chosen[s])
			plan->source[plan->nb_sources++] = (uint8_t)s;
	return plan->nb_sources > 0 ? 0 : refuse(error, "--only: \"%s\" names no source", only);
}

int
plan_complete(struct plan *plan, char *error)
{
	const struct ppe_job *job = &plan->job;
	int rc = read_config(plan, error);

	if (rc < 0)
		return rc;
	if ((job->dtype != WEIR_DTYPE_INT32 && job->dtype != WEIR_DTYPE_FP32) ||
		job->op != WEIR_OP_SUM)
		return refuse(error, "job \"%s\" adds up neither int32 nor fp32", job->name);
	if (plan->elements == CAPTURE_UNSET)
		plan->elements = job->elements;
	if (plan->elements > job->elements)
		return refuse(
			error, "--elements: job \"%s\" has %u at most", job->name, job->elements);
	if (plan->endless && plan->blocks != CAPTURE_UNSET)
		return refuse(error, "--endless and --blocks exclude each other");
	if (plan->endless)
		plan->blocks = 0;
	else if (plan->blocks == CAPTURE_UNSET)
		plan->blocks = job->block_shift > 0 ? UINT64_C(1) << (32 - job->block_shift)
						    : 4u * job->window;
	return choose_sources(plan, error);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/jobs/check.h"
#include "ctrl/config/values.h"

/* The check's reason, at a place of the file. */
static int
refuse(struct ctrl_reading *reading, struct ctrl_path path, const struct ctrl_reason *reason)
{
	return ctrl_refuse(&reading->source, path, "%s", reason->text);
}

static int
read_sources(struct ctrl_reading *reading, unsigned int index, const json_t *sources)
{
	struct ppe_job *job = &reading->config->job[index];
	unsigned int first[WEIR_SOURCES_MAX]; /* the entry that an id was first seen in */
	size_t count = json_array_size(sources);

	job->nb_sources = (uint16_t)count;
	for (unsigned int i = 0; i < count; i++) {
		const json_t *object = json_array_get(sources, i);
		uint8_t id = (uint8_t)ctrl_integer(object, "jobs[].sources[].id");
		struct ctrl_reason reason;

		if (ppe_job_has(job, id))
			return ctrl_refuse(&reading->source,
				ctrl_path("jobs[%u].sources[%u].id", index, i),
				"%u is the id of jobs[%u].sources[%u] already", id, index,
				first[id]);
		ctrl_parse_address(
			ctrl_string(object, "jobs[].sources[].address"), &job->address[id]);
		if (!ctrl_check_address(reading->config, job->address[id], &reason))
			return refuse(reading, ctrl_path("jobs[%u].sources[%u].address", index, i),
				&reason);
		job->members[id / 64] |= UINT64_C(1) << (id % 64);
		first[id] = i;
	}
	return 0;
}

static int
check_unique(struct ctrl_reading *reading, unsigned int index)
{
	const struct ppe_job *job = reading->config->job;

	for (unsigned int i = 0; i < index; i++) {
		if (job[i].id == job[index].id)
			return ctrl_refuse(&reading->source, ctrl_path("jobs[%u].id", index),
				"%u is the id of jobs[%u] already", job[i].id, i);
		if (strcmp(job[i].name, job[index].name) == 0)
			return ctrl_refuse(&reading->source, ctrl_path("jobs[%u].name", index),
				"\"%s\" is the name of jobs[%u] already", job[i].name, i);
	}
	return 0;
}

/* Ids of few bits repeat: fine for a capture in a loop, but a join does not tell hosts of them. */
static int
check_block_bits(struct ctrl_reading *reading, unsigned int index, unsigned int bits)
{
	const struct ppe_job *job = &reading->config->job[index];
	struct ctrl_path path = ctrl_path("jobs[%u].block_bits", index);

	if (bits < 32 && job->fixed_generation == 0)
		return ctrl_refuse(&reading->source, path,
			"%u bits go with a fixed generation only: sources that join count with 32",
			bits);
	if (job->window > UINT32_C(1) << (bits - 2))
		return ctrl_refuse(&reading->source, path,
			"%u bits tell %u blocks apart, and 4 windows of %u are more", bits,
			1u << bits, job->window);
	return 0;
}

static int
read_job(struct ctrl_reading *reading, unsigned int index, const json_t *object)
{
	struct ppe_job *job = &reading->config->job[index];
	unsigned int block_bits = (unsigned int)ctrl_integer(object, "jobs[].block_bits");
	struct ctrl_reason reason;
	int rc;

	job->id = (uint8_t)ctrl_integer(object, "jobs[].id");
	strlcpy(job->name, ctrl_string(object, "jobs[].name"), sizeof(job->name));
	rc = check_unique(reading, index);
	if (rc == 0)
		rc = read_sources(reading, index, json_object_get(object, "sources"));
	if (rc < 0)
		return rc;
	job->window = (uint16_t)ctrl_integer(object, "jobs[].window");
	job->elements = (uint16_t)ctrl_integer(object, "jobs[].elements");
	job->timeout_ms = (uint32_t)ctrl_integer(object, "jobs[].timeout_ms");
	job->rate_mbit = (uint32_t)ctrl_integer(object, "jobs[].rate_mbit");
	job->dead_after_ms = (uint32_t)ctrl_integer(object, "jobs[].dead_after_ms");
	job->policy = (uint8_t)ctrl_word(object, "jobs[].policy");
	job->revoke = ctrl_word(object, "jobs[].rejoin") != 0;
	job->dtype = (uint8_t)ctrl_word(object, "jobs[].type");
	job->op = (uint8_t)ctrl_word(object, "jobs[].op");
	job->deterministic = ctrl_boolean(object, "jobs[].deterministic");
	job->fixed_generation = (uint16_t)ctrl_integer(object, "jobs[].generation");
	if (!ctrl_parse_address(ctrl_string(object, "jobs[].results"), &job->group))
		job->group = 0;
	job->block_shift = (uint8_t)(32 - block_bits);
	rc = check_block_bits(reading, index, block_bits);
	if (rc == 0 && !ctrl_check_reduction(job, &reason))
		rc = refuse(reading, ctrl_path("jobs[%u].op", index), &reason);
	if (rc == 0)
		rc = ctrl_read_job_key(reading, index, ctrl_string(object, "jobs[].key_file"));
	if (rc == 0 && !ctrl_check_frames(reading->config, job, &reason))
		rc = refuse(reading, ctrl_path("jobs[%u].elements", index), &reason);
	return rc;
}

int
ctrl_read_jobs(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	const json_t *jobs = json_object_get(reading->root, "jobs");
	unsigned int count = (unsigned int)json_array_size(jobs);

	config->job = calloc(count > 0 ? count : 1, sizeof(*config->job));
	if (config->job == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++) {
		int rc = read_job(reading, i, json_array_get(jobs, i));

		if (rc < 0)
			return rc;
		config->jobs.by_id[config->job[i].id] = &config->job[i];
		config->nb_jobs++;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <bsd/string.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/regular.h"
#include "ctrl/config/schema.h"
#include "ctrl/config/values.h"
#include "rmw/kernels.h"

/* Answers a second and worker to who is no source of a job: with those that ask in vain, some hundred
 * hosts of a job that is deleted are told at their first repetition, and a flood has no echo. */
#define REFUSALS 1000
#define FILE_MAX (4u << 20) /* bytes; 256 jobs of 256 sources fit */

static_assert(RMW_ISA_AUTO == 0 && RMW_ISA_SCALAR == 1 && RMW_ISA_AVX2 == 2 && RMW_ISA_AVX512 == 3,
	"the words of workers.vectors are in this order");
static_assert(PPE_IDLE_SPIN == 0 && PPE_IDLE_YIELD == 1 && PPE_IDLE_SLEEP == 2 &&
		PPE_POLICY_WAIT == 0 && PPE_POLICY_PARTIAL == 1 && PPE_POLICY_ERROR == 2,
	"the words of workers.idle and jobs[].policy are in this order");

static int
draw_at_random(struct ppe_config *ppe)
{
	if (getrandom(&ppe->hash_seed, sizeof(ppe->hash_seed), 0) != sizeof(ppe->hash_seed))
		return -EIO;
	do {
		if (getrandom(&ppe->first_generation, sizeof(ppe->first_generation), 0) !=
			sizeof(ppe->first_generation))
			return -EIO;
	} while (ppe->first_generation == 0);
	return 0;
}

static int
read_switch(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	const json_t *object = json_object_get(reading->root, "switch");
	struct pktbuf_identity *identity = &config->ppe.identity;

	strlcpy(config->name, ctrl_string(object, "switch.name"), sizeof(config->name));
	ctrl_parse_subnet(ctrl_string(object, "switch.address"), &identity->ip, &config->prefix);
	ctrl_parse_mac(ctrl_string(object, "switch.mac"), identity->mac);
	identity->port_base = (uint16_t)ctrl_integer(object, "switch.port_base");
	identity->port_ext = (uint16_t)ctrl_integer(object, "switch.port_extended");
	if (identity->port_base == identity->port_ext)
		return ctrl_refuse(&reading->source, ctrl_path("switch.port_extended"),
			"%u is the base form's port too", identity->port_ext);
	return 0;
}

static int
read_workers(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	const json_t *object = json_object_get(reading->root, "workers");
	const json_t *cpus = json_object_get(object, "cpus");
	struct ppe_config *ppe = &config->ppe;

	ppe->workers = (uint16_t)ctrl_integer(object, "workers.count");
	ppe->threads = (uint16_t)ctrl_integer(object, "workers.threads");
	ppe->burst = (uint16_t)ctrl_integer(object, "workers.burst");
	ppe->idle = (enum ppe_idle)ctrl_word(object, "workers.idle");
	ppe->idle_sleep_us = (uint32_t)ctrl_integer(object, "workers.idle_sleep_us");
	ppe->isa = ctrl_word(object, "workers.vectors");
	config->main_cpu = (unsigned int)ctrl_integer(object, "workers.main_cpu");
	config->nb_cpus = cpus == NULL ? 1 : (unsigned int)json_array_size(cpus);
	for (unsigned int i = 0; cpus != NULL && i < config->nb_cpus; i++)
		config->cpu[i] = (uint16_t)json_integer_value(json_array_get(cpus, i));
	return 0;
}

static int
read_state(struct ctrl_reading *reading)
{
	const json_t *object = json_object_get(reading->root, "state");
	char *file = reading->config->state_file;

	if (object == NULL)
		return 0;
	strlcpy(file, ctrl_string(object, "state.file"), CTRL_FILE_BYTES);
	if (file[0] != '/' || file[strlen(file) - 1] == '/')
		return ctrl_refuse(&reading->source, ctrl_path("state.file"),
			"\"%.64s\" is not an absolute path of a file, such as "
			"/var/lib/weir/weir.json",
			file);
	return 0;
}

static void
read_depths(struct ctrl_reading *reading)
{
	const json_t *queues = json_object_get(reading->root, "queues");
	const json_t *tables = json_object_get(reading->root, "tables");
	struct ppe_config *ppe = &reading->config->ppe;

	ppe->queue_depth = (uint32_t)ctrl_integer(queues, "queues.output_depth");
	ppe->crossbar_depth = (uint32_t)ctrl_integer(queues, "queues.crossbar_depth");
	ppe->fdb_entries = (uint32_t)ctrl_integer(tables, "tables.fdb_entries");
	ppe->fdb_timeout_s = (uint32_t)ctrl_integer(tables, "tables.fdb_timeout_s");
	ppe->blocks = (uint32_t)ctrl_integer(tables, "tables.blocks");
	ppe->refusals = REFUSALS;
	ppe->timer_threads = (uint32_t)ctrl_integer(tables, "tables.timer_threads");
}

static int
read_all(struct ctrl_reading *reading)
{
	int rc = read_switch(reading);

	if (rc == 0)
		rc = read_workers(reading);
	if (rc == 0)
		read_depths(reading);
	ctrl_read_log(reading);
	if (rc == 0)
		rc = read_state(reading);
	if (rc == 0)
		rc = ctrl_read_ports(reading);
	if (rc == 0)
		rc = ctrl_read_jobs(reading);
	if (rc == 0)
		rc = ctrl_read_api(reading);
	if (rc == 0)
		rc = ctrl_read_faults(reading);
	if (rc == 0)
		rc = ctrl_read_pools(reading);
	if (rc == 0)
		rc = ctrl_read_eal(reading);
	if (rc == 0)
		rc = draw_at_random(&reading->config->ppe);
	return rc;
}

int
ctrl_config_parse(const char *text, size_t length, const char *name, struct ctrl_config **config,
	char *error, size_t error_size)
{
	struct ctrl_reading reading = {.source = {.file = name,
					       .text = text,
					       .length = length,
					       .error = error,
					       .error_size = error_size}};
	json_error_t json_error;
	json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &json_error);
	int rc;

	*config = NULL;
	error[0] = '\0';
	if (root == NULL)
		return ctrl_refuse_text(&reading.source, &json_error);
	reading.root = root;
	reading.config = calloc(1, sizeof(*reading.config));
	rc = reading.config == NULL ? -ENOMEM : ctrl_schema_check(&reading.source, root);
	if (rc == 0)
		rc = read_all(&reading);
	if (rc == 0) {
		reading.config->document = root;
		*config = reading.config;
		return 0;
	}
	json_decref(root);
	if (error[0] == '\0')
		snprintf(error, error_size, "%s: %s", name, strerror(-rc));
	ctrl_config_destroy(reading.config);
	return rc;
}

char *
ctrl_read_file(const char *path, size_t *length, const char **why)
{
	int fd = ctrl_open_regular(path, why);
	char *text = fd < 0 ? NULL : malloc(FILE_MAX + 1);
	ssize_t got = 1;
	int saved;

	if (fd >= 0)
		*why = strerror(ENOMEM);
	for (*length = 0; text != NULL && got > 0 && *length <= FILE_MAX; *length += (size_t)got) {
		got = read(fd, text + *length, FILE_MAX + 1 - *length);
		if (got < 0)
			break;
	}
	if (got >= 0 && *length > FILE_MAX) {
		got = -1;
		errno = EFBIG;
	}
	saved = errno;
	if (fd >= 0)
		close(fd);
	if (text == NULL || got >= 0)
		return text;
	free(text);
	*why = strerror(saved);
	errno = saved;
	return NULL;
}

int
ctrl_config_load(const char *path, struct ctrl_config **config, char *error, size_t error_size)
{
	const char *why;
	size_t length;
	char *text = ctrl_read_file(path, &length, &why);
	int rc;

	*config = NULL;
	if (text == NULL) {
		rc = -errno;
		snprintf(error, error_size, "%s: %s", path, why);
		return rc;
	}
	rc = ctrl_config_parse(text, length, path, config, error, error_size);
	free(text);
	return rc;
}

void
ctrl_config_destroy(struct ctrl_config *config)
{
	if (config == NULL)
		return;
	for (int i = 0; i < config->argc; i++)
		free(config->argv[i]);
	free(config->argv);
	free(config->job);
	free(config->api.tenant);
	json_decref(config->document);
	free(config);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <bsd/string.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/files.h"
#include "ppe/programs/programs.h"
#include "rmw/kernels.h"

static_assert(RMW_ISA_AUTO == 0 && RMW_ISA_SCALAR == 1 && RMW_ISA_AVX2 == 2 && RMW_ISA_AVX512 == 3,
	"the words of workers.vectors are in this order");
static_assert(PPE_IDLE_SPIN == 0 && PPE_IDLE_YIELD == 1 && PPE_IDLE_SLEEP == 2,
	"the words of workers.idle are in this order");

static_assert(RTE_LOG_ERR + 4 == RTE_LOG_DEBUG, "the words of log.level are in this order");

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
	const json_t *object = json_object_get(reading->object, "switch");
	struct pktbuf_identity *identity = &config->ppe.identity;
	const char *file = config->state_file;

	config->ppe.programs = ppe_programs();
	ctrl_parse_subnet(ctrl_string(object, "switch.address"), &identity->ip, &config->prefix);
	if (identity->port_base == identity->port_ext)
		return CTRL_REFUSE(reading, "switch.port_extended",
			"%u is the base form's port too", identity->port_ext);
	/* No other port of a form (ppe/topology.c) is WEIR_PORT_UP, whose bits 1 to 7 are 0. */
	if (identity->port_base == WEIR_PORT_UP || identity->port_ext == WEIR_PORT_UP)
		return CTRL_REFUSE(reading,
			identity->port_base == WEIR_PORT_UP ? "switch.port_base"
							    : "switch.port_extended",
			"%d is where the switch takes packets from its parents "
			"(docs/tree.md): use another port",
			WEIR_PORT_UP);
	if (file[0] != '\0' && (file[0] != '/' || file[strlen(file) - 1] == '/'))
		return CTRL_REFUSE(reading, "state.file",
			"\"%.64s\" is not an absolute path of a file, such as "
			"/var/lib/weir/weir.json",
			file);
	if (config->program_directory[0] == '\0')
		strlcpy(config->program_directory, WEIR_PROGRAM_DIRECTORY,
			sizeof(config->program_directory));
	if (config->filter_directory[0] == '\0')
		strlcpy(config->filter_directory, WEIR_FILTER_DIRECTORY,
			sizeof(config->filter_directory));
	if (config->filter_directory[0] != '/')
		return CTRL_REFUSE(reading, "filter_directory", "\"%.64s\" is not an absolute path",
			config->filter_directory);
	if (config->program_directory[0] != '/')
		return CTRL_REFUSE(reading, "program_directory",
			"\"%.64s\" is not an absolute path", config->program_directory);
	return 0;
}

static void
read_log(struct ctrl_reading *reading)
{
	const json_t *object = json_object_get(reading->object, "log");
	const json_t *modules = json_object_get(object, "modules");
	struct ctrl_log_config *log = &reading->config->log;

	for (unsigned int module = 0; module < CTRL_LOG_MODULE_COUNT; module++) {
		const json_t *own = json_object_get(modules, ctrl_log_words[module]);
		const char *level =
			own != NULL ? json_string_value(own) : ctrl_string(object, "log.level");

		log->level[module] =
			RTE_LOG_ERR + (uint32_t)ctrl_parse_word(CTRL_LOG_LEVELS, level);
	}
}

static int
read_all(struct ctrl_reading *reading)
{
	static int (*const steps[])(struct ctrl_reading *) = {read_switch, ctrl_read_ports,
		ctrl_read_jobs, ctrl_read_api, ctrl_read_faults, ctrl_read_pools, ctrl_read_eal};
	int rc = 0;

	ctrl_keys_read("", reading->object, reading->config);
	read_log(reading);
	for (unsigned int i = 0; rc == 0 && i < RTE_DIM(steps); i++)
		rc = steps[i](reading);
	return rc < 0 ? rc : draw_at_random(&reading->config->ppe);
}

int
ctrl_config_parse(const char *text, size_t length, const char *name, struct ctrl_config **config,
	char *error, size_t error_size)
{
	json_t *root = ctrl_json_parse(name, text, length, error, error_size);
	struct ctrl_error why = {0};
	struct ctrl_reading reading = {.error = &why, .object = root, .at = ""};
	int rc;

	*config = NULL;
	if (root == NULL)
		return -EINVAL;
	reading.config = calloc(1, sizeof(*reading.config));
	rc = reading.config == NULL ? -ENOMEM
				    : ctrl_schema_check(&ctrl_config_schema, "", root, &why);
	if (rc == 0)
		rc = read_all(&reading);
	if (rc == 0) {
		reading.config->document = root;
		*config = reading.config;
		return 0;
	}
	json_decref(root);
	if (why.text[0] != '\0')
		ctrl_error_print(&why, name, text, length, error, error_size);
	else
		snprintf(error, error_size, "%s: %s", name, strerror(-rc));
	ctrl_config_destroy(reading.config);
	return rc;
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

/* -- as JSON, with the defaults filled in */

/* Set the listeners, whose default depends on the name, and remove the hashes of tokens. */
static void
settle_api(json_t *api, const struct ctrl_api *config)
{
	json_t *tenants = json_object_get(api, "tenants"), *tenant;
	json_t *listen = json_array();
	size_t i;

	if (api == NULL) {
		json_decref(listen);
		return;
	}
	for (i = 0; i < config->nb_listeners; i++)
		json_array_append_new(listen, json_string(config->listener[i].text));
	json_object_set_new(api, "listen", listen);
	json_array_foreach (tenants, i, tenant) {
		json_object_del(tenant, "token_sha256");
	}
}

json_t *
ctrl_config_json(const struct ctrl_config *config)
{
	json_t *root = json_deep_copy(config->document);

	if (root != NULL && ctrl_keys_fill("", root) < 0) {
		json_decref(root);
		return NULL;
	}
	settle_api(json_object_get(root, "api"), &config->api);
	json_object_set_new(root, "program_directory", json_string(config->program_directory));
	json_object_set_new(root, "filter_directory", json_string(config->filter_directory));
	return root;
}

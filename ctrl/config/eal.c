/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/schema.h"

/* Arguments beside the file's and two per port: program, lcores, memory, prefix, logs, NULL. */
#define ARGUMENTS_OWN 16

/* EAL options that a file must not have, and the keys to use instead. */
static const struct {
	const char *option; /* a long option is also refused when abbreviated */
	const char *instead;
} refused[] = {
	{"-l", "lcores follow from \"workers\""},
	{"-c", "lcores follow from \"workers\""},
	{"-s", "Weir has no service cores"},
	{"-S", "Weir has no service cores"},
	{"-m", "memory is \"memory_mb\""},
	{"-a", "devices are in \"ports\""},
	{"-h", "it would end the switch"},
	{"--lcores", "lcores follow from \"workers\""},
	{"--main-lcore", "lcores follow from \"workers\""},
	{"--vdev", "devices are in \"ports\""},
	{"--allow", "devices are in \"ports\""},
	{"--socket-mem", "memory is \"memory_mb\""},
	{"--proc-type", "a switch is a primary process"},
	{"--telemetry", "it is \"telemetry\""},
	{"--help", "it would end the switch"},
	{"--", "it would hide Weir's own arguments"},
};

/* Long options that begin like a refused one. */
static const char *const allowed[] = {"--huge-dir", "--huge-unlink", "--base-virtaddr"};

/* Options with which other processes cannot attach. */
static const char *const unshared[] = {"--no-huge", "--no-shconf", "--in-memory"};

static bool
is_refused(const char *argument, const char *option)
{
	size_t length = strcspn(argument, "=");

	if (strcmp(option, "--") == 0)
		return strcmp(argument, option) == 0;
	if (option[1] != '-')
		return strncmp(argument, option, 2) == 0;
	return length > 2 && strncmp(argument, option, length) == 0;
}

static bool
has_option(const json_t *list, const char *option)
{
	size_t length = strlen(option);

	for (size_t i = 0; i < json_array_size(list); i++)
		if (strncmp(json_string_value(json_array_get(list, i)), option, length) == 0)
			return true;
	return false;
}

static int
check_argument(struct ctrl_reading *reading, unsigned int index, const char *argument)
{
	const json_t *list = json_object_get(reading->root, "eal");

	if (reading->config->capture)
		for (unsigned int i = 0; i < RTE_DIM(unshared); i++)
			if (is_refused(argument, unshared[i]))
				return ctrl_refuse(reading->error, ctrl_path("eal[%u]", index),
					"with %s no program can attach to the switch: leave it "
					"out, "
					"or \"capture\"",
					argument);
	if (reading->config->telemetry && is_refused(argument, "--no-telemetry"))
		return ctrl_refuse(reading->error, ctrl_path("eal[%u]", index),
			"with %s no program can ask: leave it out, or \"telemetry\"", argument);
	if (strcmp(argument, "--in-memory") == 0 && has_option(list, "--no-huge"))
		return ctrl_refuse(reading->error, ctrl_path("eal[%u]", index),
			"EAL does not take --in-memory with --no-huge: use --no-shconf");
	for (unsigned int i = 0; i < RTE_DIM(allowed); i++)
		if (strncmp(argument, allowed[i], strlen(allowed[i])) == 0)
			return 0;
	for (unsigned int i = 0; i < RTE_DIM(refused); i++)
		if (is_refused(argument, refused[i].option))
			return ctrl_refuse(reading->error, ctrl_path("eal[%u]", index),
				"%s is not for this list: %s", argument, refused[i].instead);
	return 0;
}

static int add(struct ctrl_config *config, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int
add(struct ctrl_config *config, const char *format, ...)
{
	va_list args;
	int rc;

	va_start(args, format);
	rc = vasprintf(&config->argv[config->argc], format, args);
	va_end(args);
	if (rc < 0) {
		config->argv[config->argc] = NULL;
		return -ENOMEM;
	}
	config->argc++;
	return 0;
}

/* With one of these, the file sets EAL's memory. */
static bool
has_memory(const struct ctrl_config *config, const json_t *list)
{
	static const char *const options[] = {
		"--no-huge", "--in-memory", "--huge-", "--legacy-mem", "--single-file-segments"};

	if (config->capture)
		return true;
	for (unsigned int i = 0; i < RTE_DIM(options); i++)
		if (has_option(list, options[i]))
			return true;
	return false;
}

/* "0@2,1@3,2@3": lcore 0 is the control thread's, lcore i + 1 is worker i's. */
static int
add_lcores(struct ctrl_config *config)
{
	char list[16 + 16 * PPE_WORKERS_MAX];
	int used = snprintf(list, sizeof(list), "0@%u", config->main_cpu);

	for (unsigned int i = 0; i < config->ppe.workers; i++)
		used += snprintf(list + used, sizeof(list) - (size_t)used, ",%u@%u", i + 1,
			config->cpu[i % config->nb_cpus]);
	return add(config, "--lcores=%s", list) < 0 ? -ENOMEM : add(config, "--main-lcore=0");
}

int
ctrl_read_eal(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	const json_t *list = json_object_get(reading->root, "eal");
	size_t count = json_array_size(list);
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < count; i++)
		rc = check_argument(reading, i, json_string_value(json_array_get(list, i)));
	if (rc < 0)
		return rc;
	config->argv = calloc(ARGUMENTS_OWN + count + config->nb_ports, sizeof(*config->argv));
	if (config->argv == NULL)
		return -ENOMEM;
	rc |= add(config, "weir-switch");
	rc |= add_lcores(config);
	rc |= add(config, "-m%u", config->memory_mb);
	/* EAL and drivers log much; warnings and errors are enough. The TAP driver logs errors for
	 * a kernel without flow offload, and for a process without secondaries. */
	if (!has_option(list, "--log-level")) {
		rc |= add(config, "--log-level=warning");
		if (config->exception[0] != '\0')
			rc |= add(config, "--log-level=pmd.net.tap:critical");
	}
	if (!config->telemetry)
		rc |= add(config, "--no-telemetry");
	if (!has_option(list, "--file-prefix"))
		rc |= add(config, "--file-prefix=weir-%s", config->name);
	for (unsigned int i = 0; i < count; i++)
		rc |= add(config, "%s", json_string_value(json_array_get(list, i)));
	/* Huge pages without files, which would outlive the switch and need a mount. */
	if (!has_memory(config, list))
		rc |= add(config, "--in-memory");
	for (unsigned int p = 0; p < config->nb_ports; p++)
		rc |= add(config, "%s=%s", config->port_more[p].pci ? "--allow" : "--vdev",
			config->port_more[p].arguments);
	return rc == 0 ? 0 : -ENOMEM;
}

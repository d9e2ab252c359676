/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/config/config_priv.h"

/* Arguments beside the file's and two per port: program, lcores, memory, prefix, logs, NULL. */
#define ARGUMENTS_OWN 16

/* EAL options that a file must not have, always or with a key or another option, and why. */
enum when { ALWAYS, CAPTURE, TELEMETRY, NO_HUGE };

static const struct {
	const char *option; /* a long option is also refused when abbreviated */
	enum when when;
	const char *why;
} refused[] = {
	{"--no-huge", CAPTURE, "no program could attach: leave it out, or \"capture\""},
	{"--no-shconf", CAPTURE, "no program could attach: leave it out, or \"capture\""},
	{"--in-memory", CAPTURE, "no program could attach: leave it out, or \"capture\""},
	{"--no-telemetry", TELEMETRY, "no program could ask: leave it out, or \"telemetry\""},
	{"--in-memory", NO_HUGE, "EAL does not take it with --no-huge: use --no-shconf"},
	{"-l", ALWAYS, "lcores follow from \"workers\""},
	{"-c", ALWAYS, "lcores follow from \"workers\""},
	{"-s", ALWAYS, "Weir has no service cores"},
	{"-S", ALWAYS, "Weir has no service cores"},
	{"-m", ALWAYS, "memory is \"memory_mb\""},
	{"-a", ALWAYS, "devices are in \"ports\""},
	{"-h", ALWAYS, "it would end the switch"},
	{"--lcores", ALWAYS, "lcores follow from \"workers\""},
	{"--main-lcore", ALWAYS, "lcores follow from \"workers\""},
	{"--vdev", ALWAYS, "devices are in \"ports\""},
	{"--allow", ALWAYS, "devices are in \"ports\""},
	{"--socket-mem", ALWAYS, "memory is \"memory_mb\""},
	{"--proc-type", ALWAYS, "a switch is a primary process"},
	{"--telemetry", ALWAYS, "it is \"telemetry\""},
	{"--help", ALWAYS, "it would end the switch"},
	{"--", ALWAYS, "it would hide Weir's own arguments"},
};

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
check_arguments(const struct ctrl_reading *reading, const json_t *list)
{
	const bool now[] = {[ALWAYS] = true,
		[CAPTURE] = reading->config->capture,
		[TELEMETRY] = reading->config->telemetry,
		[NO_HUGE] = has_option(list, "--no-huge")};

	for (unsigned int i = 0; i < json_array_size(list); i++) {
		const char *argument = json_string_value(json_array_get(list, i));

		for (unsigned int k = 0; k < RTE_DIM(refused); k++)
			if (now[refused[k].when] && is_refused(argument, refused[k].option))
				return CTRL_REFUSE(reading, ctrl_path("eal[%u]", i).text,
					"%s is not for this list: %s", argument, refused[k].why);
	}
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
	return config->capture || has_option(list, "--no-huge") ||
		has_option(list, "--in-memory") || has_option(list, "--huge-") ||
		has_option(list, "--legacy-mem") || has_option(list, "--single-file-segments");
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
	const json_t *list = json_object_get(reading->object, "eal");
	size_t count = json_array_size(list);
	int rc = check_arguments(reading, list);

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

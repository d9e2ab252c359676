/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/filters/filters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/files.h"
#include "ctrl/log.h"

static_assert(PPE_FILTER_NAME_BYTES == 64 && PPE_FILTER_PROGRAM_BYTES == 32 &&
		PPE_PORTS_MAX == 64 && PPE_FILTER_PROGRAMS == 8 && WEIR_FILTER_VALUES == 8,
	"ctrl/config/filter_keys.h");

#define FILE_MAX (256u << 10)
#define START    "by=weir why=start"

/* A filter that is read and not loaded. */
struct reading {
	struct ppe_filter filter;
	void *elf; /* malloc'ed */
	const struct ebpf_insn *code; /* in elf */
	unsigned int nb_code;
};

static const char *
text_of(const json_t *entry, const char *key)
{
	const char *text = json_string_value(json_object_get(entry, key));

	return text != NULL ? text : "weir"; /* the only default */
}

/* Read the file as a whole. 0, or -EINVAL and the reason. */
static int
read_file(const struct ctrl_config *config, const json_t *entry, struct reading *reading,
	char *reason)
{
	const char *name = text_of(entry, "file"), *section = text_of(entry, "section"), *why;
	ssize_t length = -1;
	unsigned int at;
	int fd;

	if (strlen(name) < 3 || strcmp(name + strlen(name) - 2, ".o") != 0) {
		snprintf(reason, CTRL_PROGRAM_REASON,
			"%.64s: the name of a filter's file ends in .o", name);
		return -EINVAL;
	}
	fd = ctrl_program_file_check(config->filter_directory, name, false, reason);
	if (fd < 0)
		return -EINVAL;
	reading->elf = malloc(FILE_MAX);
	if (reading->elf != NULL)
		length = read(fd, reading->elf, FILE_MAX);
	close(fd);
	if (length < 0 || length == FILE_MAX) {
		snprintf(reason, CTRL_PROGRAM_REASON, "%.64s: it cannot be read: %s", name,
			length < 0 ? strerror(errno) : "too large");
		return -EINVAL;
	}
	why = ppe_filter_code(
		reading->elf, (size_t)length, section, &reading->code, &reading->nb_code);
	if (why != NULL) {
		snprintf(reason, CTRL_PROGRAM_REASON, "%.64s, section %.64s: %s", name, section,
			why);
		return -EINVAL;
	}
	why = ppe_filter_check(reading->code, reading->nb_code, &at);
	if (why != NULL) {
		snprintf(reason, CTRL_PROGRAM_REASON, "%.64s: instruction %u: %s", name, at, why);
		return -EINVAL;
	}
	return 0;
}

static int
read_ports(const struct ctrl_config *config, const json_t *entry, const char *at,
	struct ppe_filter *filter, struct ctrl_error *error)
{
	const json_t *ports = json_object_get(entry, "ports");

	filter->ports = json_array_size(ports) == 0 ? UINT64_MAX : 0;
	for (size_t i = 0; i < json_array_size(ports); i++) {
		const char *name = json_string_value(json_array_get(ports, i));
		int port = ctrl_port_find(config, name);

		if (port < 0)
			return ctrl_refuse(error, ctrl_path("%sports[%zu]", at, i),
				"no port has the name \"%s\"", name);
		filter->ports |= UINT64_C(1) << port;
	}
	return 0;
}

/* Read an entry and its file. Free reading->elf in any case. */
static int
read_filter(const struct ctrl_config *config, const json_t *entry, const char *at,
	struct reading *reading, struct ctrl_error *error)
{
	const json_t *programs = json_object_get(entry, "programs"),
		     *values = json_object_get(entry, "values");
	const char *file = text_of(entry, "file"), *section = text_of(entry, "section");
	struct ppe_filter *filter = &reading->filter;
	char reason[CTRL_PROGRAM_REASON];

	*reading = (struct reading){0};
	strlcpy(filter->name, section, sizeof(filter->name));
	if (strcmp(section, "weir") == 0)
		snprintf(filter->name, sizeof(filter->name), "%.*s", (int)strlen(file) - 2, file);
	if (!ctrl_is_name(filter->name))
		return ctrl_refuse(error, ctrl_path("%ssection", at),
			"\"%s\" is not a name: letters, digits and . _ - only", section);
	for (size_t i = 0; i < json_array_size(values); i++)
		filter->value[i] = (uint64_t)json_integer_value(json_array_get(values, i));
	filter->nb_programs = (unsigned int)json_array_size(programs);
	for (size_t i = 0; i < filter->nb_programs; i++)
		strlcpy(filter->program[i], json_string_value(json_array_get(programs, i)),
			sizeof(filter->program[i]));
	if (read_file(config, entry, reading, reason) < 0)
		return ctrl_refuse(error, ctrl_path("%sfile", at), "%s", reason);
	return read_ports(config, entry, at, filter, error);
}

int
ctrl_filters_check(const struct ctrl_config *config, const char *path, char *error, size_t size)
{
	const json_t *list = json_object_get(config->document, "filters");
	struct ctrl_error wrong = {0};
	const char *why;
	size_t length;
	char *text;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		struct reading reading;

		rc = read_filter(config, json_array_get(list, i),
			ctrl_path("filters[%zu].", i).text, &reading, &wrong);
		free(reading.elf);
	}
	if (rc == 0)
		return 0;
	/* The text once more, for the place of the error. */
	text = ctrl_read_file(path, &length, &why);
	if (text != NULL)
		ctrl_error_print(&wrong, path, text, length, error, size);
	else
		snprintf(error, size, "%s: %s", path, why);
	free(text);
	return rc;
}

/* What DPDK's verifier has logged since line `from`: its only report. "": nothing. */
static void
verifier_reason(uint64_t from, char *reason, size_t size)
{
	char line[CTRL_LOG_LINE_BYTES], *text;

	for (reason[0] = '\0'; ctrl_log_read(&from, line); from++) {
		text = strstr(line, "msg=\"evaluate: ");
		if (text == NULL)
			text = strstr(line, "msg=\"validate");
		if (text == NULL)
			continue;
		text = strchr(text, ' ') + 1;
		text[strcspn(text, "\";")] = '\0';
		strlcpy(reason, text, size);
		return;
	}
}

static void
explain(const struct reading *reading, int rc, uint64_t logged, struct ctrl_error *error)
{
	const char *name = reading->filter.name;
	struct ctrl_path at = ctrl_path("file");
	char reason[256];

	switch (rc) {
	case -EEXIST: ctrl_refuse(error, at, "a filter %s is loaded already", name); return;
	case -ENOSPC:
		ctrl_refuse(error, at, "a switch has at most %d filters", PPE_FILTERS_MAX);
		return;
	case -EBUSY:
		ctrl_refuse(
			error, at, "a worker has not taken the last change yet: again in a second");
		return;
	case -ENOMEM:
		ctrl_refuse(error, at, "there is too little memory for it: see memory_mb");
		return;
	case -ENOENT:
		ctrl_refuse(error, ctrl_path("programs"),
			"a program of the list is not running: weirctl program list");
		return;
	default:
		verifier_reason(logged, reason, sizeof(reason));
		ctrl_refuse(error, at, "filter %s: DPDK's verifier refuses it%s%s", name,
			reason[0] != '\0' ? ": " : "", reason);
	}
}

static int
load(struct ctrl_running *running, const json_t *entry, const char *at, const char *who,
	struct reading *reading, struct ctrl_error *error)
{
	char line[CTRL_LOG_LINE_BYTES];
	uint64_t logged = 0;
	int rc = read_filter(running->config, entry, at, reading, error);

	if (rc < 0)
		return rc;
	while (ctrl_log_read(&logged, line))
		logged++;
	rc = ppe_filter_load(running->ppe, &reading->filter, reading->code, reading->nb_code,
		running->is_dry_run);
	if (rc < 0)
		explain(reading, rc, logged, error);
	else if (!running->is_dry_run)
		ctrl_log_change(who, "filter loaded", "filter=%s instructions=%u",
			reading->filter.name, reading->nb_code);
	return rc == -ENOENT ? -EINVAL : rc;
}

int
ctrl_filters_start(struct ctrl_running *running, char *error, size_t size)
{
	const json_t *list = json_object_get(running->config->document, "filters");
	struct ctrl_error wrong = {0};
	struct reading reading;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		rc = load(running, json_array_get(list, i), "", START, &reading, &wrong);
		free(reading.elf);
	}
	if (rc == 0)
		return 0;
	snprintf(error, size, "%s", wrong.text);
	return -EINVAL;
}

int
ctrl_filter_load(struct ctrl_running *running, const json_t *entry, const char *who,
	struct ppe_filter *filter, struct ctrl_error *error)
{
	struct reading reading;
	int rc = load(running, entry, "", who, &reading, error);

	*filter = reading.filter;
	free(reading.elf);
	return rc;
}

int
ctrl_filter_unload(struct ctrl_running *running, const char *name, const char *who)
{
	int rc = ppe_filter_unload(running->ppe, name, running->is_dry_run);

	if (rc == 0 && !running->is_dry_run)
		ctrl_log_change(who, "filter unloaded", "filter=%s", name);
	return rc;
}

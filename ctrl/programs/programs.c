/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/programs/programs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctrl/config/files.h"
#include "ctrl/config/schema.h"
#include "ctrl/log.h"
#include "ctrl/programs/settings.h"

#define TO_SWITCH      (PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP)

#define LOAD_REASONS   5
#define UNLOAD_REASONS 8

#define SOON_MS        10 /* while a program comes or goes */
#define POLL_US        10000
#define START          "by=weir why=start"

/* -- the programs of a configuration */

/* Open entry `i` of "programs", and append it to the list. */
static int
open_entry(const struct ctrl_config *config, size_t i, struct ctrl_program ***end,
	struct ctrl_error *error)
{
	json_t *entry = json_array_get(json_object_get(config->document, "programs"), i);
	struct ctrl_path settings = ctrl_path("programs[%zu].settings", i);
	struct ctrl_program *program = calloc(1, sizeof(*program));

	if (program == NULL)
		return -ENOMEM;
	**end = program;
	*end = &program->next;
	if (ctrl_program_open(&program->file, config->program_directory,
		    json_string_value(json_object_get(entry, "file"))) < 0)
		return ctrl_refuse(
			error, ctrl_path("programs[%zu].file", i), "%s", program->file.reason);
	return ctrl_program_settings_read(program->file.program, json_object_get(entry, "settings"),
		settings.text, &program->values, error);
}

int
ctrl_programs_open(const struct ctrl_config *config, const char *path, struct ctrl_program **list,
	char *error, size_t size)
{
	size_t count = json_array_size(json_object_get(config->document, "programs")), length = 0;
	struct ctrl_program **end = list;
	struct ctrl_error wrong = {0};
	const char *why;
	char *text;
	int rc = 0;

	*list = NULL;
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = open_entry(config, i, &end, &wrong);
	if (rc == 0)
		return 0;
	/* The text once more, for the place of the error. */
	text = rc == -EINVAL ? ctrl_read_file(path, &length, &why) : NULL;
	if (text != NULL)
		ctrl_error_print(&wrong, path, text, length, error, size);
	else
		snprintf(error, size, "%s: %s", path, strerror(-rc));
	free(text);
	ctrl_programs_close(*list);
	*list = NULL;
	return -EINVAL;
}

static void
free_program(struct ctrl_program *program)
{
	ctrl_program_close(&program->file);
	free(program->values);
	free(program);
}

/* Does a sidecar of the list still run? */
static bool
end_sidecars(struct ctrl_program *list)
{
	bool runs = false;

	for (struct ctrl_program *p = list; p != NULL; p = p->next) {
		ctrl_sidecar_end(&p->sidecar);
		runs |= p->sidecar.pid > 0 &&
			ctrl_sidecar_tick(&p->sidecar, NULL, p->file.program, p->values);
	}
	return runs;
}

void
ctrl_programs_close(struct ctrl_program *list)
{
	while (end_sidecars(list))
		usleep(POLL_US);
	while (list != NULL) {
		struct ctrl_program *program = list;

		list = program->next;
		free_program(program);
	}
}

int
ctrl_programs_start(
	struct ctrl_running *running, struct ctrl_program **list, char *error, size_t size)
{
	char reason[CTRL_PROGRAM_REASON];

	while (*list != NULL) {
		struct ctrl_program *program = *list, *rest = program->next;

		if (ctrl_program_load(running, program, START, reason) < 0) {
			snprintf(error, size, "program %s", reason);
			return -EINVAL;
		}
		*list = rest;
	}
	return 0;
}

/* -- coming and going */

static struct ctrl_program *
find_loaded(const struct ctrl_running *running, const char *name)
{
	for (struct ctrl_program *p = running->programs; p != NULL; p = p->next)
		if (strcmp(p->file.program->name, name) == 0)
			return p;
	return NULL;
}

/* Write why a change is refused. known: how many of the reasons it may be; any other one is of a
 * program's create(). Returns what callers of this file know. */
static int
explain(int rc, const char *name, unsigned int known, char *reason)
{
	static const struct {
		int rc;
		const char *text;
	} reasons[] = {
		{-EEXIST, "it is there already, or not quite unloaded"},
		{-ENOTUNIQ, "another program has a statistic or metric of the same name"},
		{-EBUSY, "a worker has not taken the last change yet: again in a second"},
		{-ENOSPC, "there is no room: programs, their matches and timers are bounded"},
		{-ENOMEM, "there is too little memory for it: see memory_mb"},
		{-ENOENT, "there is no such program"},
		{-EPERM, "it is built in"},
		{-EADDRINUSE,
			"another program passes packets to it, or a filter may choose it: unload "
			"that first"},
	};

	for (unsigned int i = 0; i < known; i++)
		if (reasons[i].rc == rc) {
			snprintf(reason, CTRL_PROGRAM_REASON, "%.64s: %s", name, reasons[i].text);
			return rc;
		}
	snprintf(reason, CTRL_PROGRAM_REASON, "%.64s: its create() fails: %s", name, strerror(-rc));
	return -EINVAL;
}

/* The last of the list: programs of equal matches go by the order of loading. */
static void
append(struct ctrl_running *running, struct ctrl_program *program)
{
	struct ctrl_program **end = &running->programs;

	while (*end != NULL)
		end = &(*end)->next;
	program->next = NULL;
	*end = program;
}

int
ctrl_program_load(struct ctrl_running *running, struct ctrl_program *program, const char *who,
	char reason[CTRL_PROGRAM_REASON])
{
	const struct ppe_program *what = program->file.program;
	int rc = find_loaded(running, what->name) != NULL ? -EEXIST : 0;

	if (rc == 0 && running->is_dry_run)
		return 0;
	if (rc == 0)
		rc = ppe_program_load(running->ppe, what, program->values);
	if (rc < 0)
		return explain(rc, what->name, LOAD_REASONS, reason);
	append(running, program);
	if (what->sidecar != NULL &&
		ctrl_sidecar_start(
			&program->sidecar, running->config, what, program->values, reason) < 0)
		ctrl_log(CTRL_LOG_CTRL, RTE_LOG_ERR, "a sidecar does not start",
			"program=%s why=%s", ctrl_log_quote(what->name).text,
			ctrl_log_quote(reason).text);
	ctrl_log_change(who, "program loaded", "program=%s file=%s",
		ctrl_log_quote(what->name).text, ctrl_log_quote(program->file.name).text);
	return 0;
}

int
ctrl_program_unload(struct ctrl_running *running, const char *name, const char *who,
	char reason[CTRL_PROGRAM_REASON])
{
	struct ctrl_program *program = find_loaded(running, name);
	int rc = 0;

	if (program != NULL && program->is_gone)
		return 0;
	if (program == NULL || !running->is_dry_run)
		rc = ppe_program_unload(running->ppe, name);
	if (rc == -EALREADY || (rc == 0 && running->is_dry_run))
		return 0;
	if (rc == 0) {
		ctrl_sidecar_end(&program->sidecar);
		ctrl_log_change(
			who, "program is unloaded", "program=%s", ctrl_log_quote(name).text);
	} else {
		explain(rc, name, UNLOAD_REASONS, reason);
	}
	return rc;
}

/* The programs that nothing refers to, and whose sidecars have ended. */
static void
remove_gone(struct ctrl_running *running)
{
	for (struct ctrl_program **at = &running->programs; *at != NULL;) {
		struct ctrl_program *program = *at;

		if (!program->is_gone || program->sidecar.pid > 0) {
			at = &program->next;
			continue;
		}
		ctrl_log_change("by=weir why=unloaded", "program is gone", "program=%s",
			ctrl_log_quote(program->file.program->name).text);
		*at = program->next;
		free_program(program);
	}
}

int
ctrl_programs_tick(struct ctrl_running *running)
{
	struct ctrl_program_info infos[PPE_PROGRAMS_MAX];
	const struct ppe_program *gone;
	int wait_ms = -1;

	if (running->programs == NULL)
		return -1;
	while ((gone = ppe_program_gone(running->ppe)) != NULL)
		find_loaded(running, gone->name)->is_gone = true;
	for (struct ctrl_program *p = running->programs; p != NULL; p = p->next)
		ctrl_sidecar_tick(&p->sidecar, running->config, p->file.program, p->values);
	remove_gone(running);
	for (unsigned int i = ctrl_programs_read(running, infos, PPE_PROGRAMS_MAX); i-- > 0;)
		if (infos[i].engine.phase != PPE_PROGRAM_RUNNING)
			wait_ms = SOON_MS;
	return wait_ms;
}

unsigned int
ctrl_programs_read(
	const struct ctrl_running *running, struct ctrl_program_info *infos, unsigned int max)
{
	struct ppe_program_info engine[PPE_PROGRAMS_MAX];
	unsigned int count = ppe_programs_read(running->ppe, engine, PPE_PROGRAMS_MAX);

	count = RTE_MIN(count, max);
	for (unsigned int i = 0; i < count; i++)
		infos[i] = (struct ctrl_program_info){
			engine[i], find_loaded(running, engine[i].program->name)};
	for (const struct ctrl_program *p = running->programs; p != NULL && count < max;
		p = p->next)
		if (p->is_gone)
			infos[count++] =
				(struct ctrl_program_info){{.program = p->file.program,
								   .phase = PPE_PROGRAM_UNLOADING,
								   .values = p->values},
					p};
	return count;
}

/* -- matches in words */

static void __attribute__((format(printf, 2, 3)))
put(struct ctrl_match_text *to, const char *format, ...)
{
	size_t used = strlen(to->text);
	va_list arguments;

	if (used > 0)
		used += (size_t)snprintf(to->text + used, sizeof(to->text) - used, ", ");
	va_start(arguments, format);
	if (used < sizeof(to->text))
		vsnprintf(to->text + used, sizeof(to->text) - used, format, arguments);
	va_end(arguments);
}

/* A number with bits in which it may differ; those at its end are a range. */
static void
put_number(struct ctrl_match_text *to, const char *what, unsigned int number, unsigned int any)
{
	if (any == 0)
		put(to, "%s %u", what, number);
	else if ((any & (any + 1)) == 0)
		put(to, "%ss %u..%u", what, number & ~any, number | any);
	else
		put(to, "%s %u but for the bits 0x%x", what, number & ~any, any);
}

struct ctrl_match_text
ctrl_match_text(const struct ppe_match *match)
{
	struct ctrl_match_text to = {""};

	if (match->conditions == 0)
		put(&to, "every packet");
	if (match->conditions & PPE_MATCH_ETHER_TYPE)
		put(&to, match->ether_any == 0 ? "EtherType 0x%04x" : "EtherType 0x%04x/0x%04x",
			match->ether_type, (uint16_t)~match->ether_any);
	if (match->conditions & PPE_MATCH_IP_PROTO)
		put_number(&to, "IP protocol", match->ip_proto, match->ip_proto_any);
	if (match->conditions & PPE_MATCH_UDP_PORT)
		put_number(&to, "UDP port", match->udp_port, match->udp_any);
	if (match->conditions & PPE_MATCH_IP_DST)
		put(&to, match->ip_any == 0 ? "IPv4 destination %s" : "IPv4 destination %s/%s",
			ctrl_address_text(match->ip_dst & ~match->ip_any).text,
			ctrl_address_text(~match->ip_any).text);
	if (match->conditions & PPE_MATCH_FRAGMENT)
		put(&to, "IPv4 fragments");
	if ((match->conditions & TO_SWITCH) == TO_SWITCH)
		put(&to, "to the switch");
	else if (match->conditions & TO_SWITCH)
		put(&to, "to the switch's %s address",
			match->conditions & PPE_MATCH_TO_SWITCH_IP ? "IPv4" : "MAC");
	return to;
}

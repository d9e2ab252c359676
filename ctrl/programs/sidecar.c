/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/programs/sidecar.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctrl/config/schema.h"
#include "ctrl/jobs/running.h"
#include "ctrl/log.h"
#include "ctrl/programs/child.h"
#include "ctrl/programs/settings.h"

#define VARIABLES_MAX 128 /* beyond the switch's own */

/* -- its environment */

struct environment {
	char **all;
	size_t count, own; /* of which `own` are the switch's */
};

static void
add(struct environment *to, const char *before, const char *key, const char *value)
{
	char *text;

	if (to->count == to->own + VARIABLES_MAX ||
		asprintf(&text, "%s%s=%s", before, key, value) < 0)
		return;
	for (char *c = text; *c != '='; c++)
		*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	to->all[to->count++] = text;
}

/* Free with free_environment. `all` is NULL without memory. */
static struct environment
make_environment(const struct ctrl_config *config, const struct ppe_program *program,
	const struct ppe_value *values)
{
	const uint8_t *mac = config->ppe.identity.mac;
	json_t *settings = ctrl_program_settings_json(program, values), *value;
	struct environment made = {0};
	char text[32];
	const char *key;

	while (environ[made.own] != NULL)
		made.own++;
	made.all = calloc(made.own + VARIABLES_MAX + 1, sizeof(*made.all));
	if (made.all != NULL) {
		memcpy(made.all, environ, made.own * sizeof(*made.all));
		made.count = made.own;
		add(&made, "", "WEIR_PROGRAM", program->name);
		add(&made, "", "WEIR_SWITCH_IP", ctrl_address_text(config->ppe.identity.ip).text);
		snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1],
			mac[2], mac[3], mac[4], mac[5]);
		add(&made, "", "WEIR_SWITCH_MAC", text);
		json_object_foreach (settings, key, value) {
			snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
				json_integer_value(value));
			add(&made, "WEIR_SETTING_", key,
				json_is_string(value) ? json_string_value(value)
					: json_is_boolean(value)
					? json_is_true(value) ? "true" : "false"
					: text);
		}
	}
	json_decref(settings);
	return made;
}

static void
free_environment(struct environment *environment)
{
	for (size_t i = environment->own; i < environment->count; i++)
		free(environment->all[i]);
	free(environment->all);
}

/* -- its life */

int
ctrl_sidecar_start(struct ctrl_sidecar *sidecar, const struct ctrl_config *config,
	const struct ppe_program *program, const struct ppe_value *values,
	char reason[CTRL_PROGRAM_REASON])
{
	struct environment environment;
	char path[CTRL_FILE_BYTES + CTRL_PROGRAM_BYTES];
	struct ctrl_child child = {.option = CTRL_CHILD_SIDECAR, .file = path, .copy = -1};
	int fd = ctrl_program_file_check(config->program_directory, program->sidecar, true, reason),
	    ends[2], rc;

	if (fd < 0)
		return -EINVAL;
	close(fd);
	if (pipe2(ends, O_CLOEXEC) < 0) {
		snprintf(reason, CTRL_PROGRAM_REASON, "its sidecar: %s", strerror(errno));
		return -EINVAL;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	snprintf(path, sizeof(path), "%s/%s", config->program_directory, program->sidecar);
	environment = make_environment(config, program, values);
	child.environment = environment.all;
	child.out = child.err = ends[1];
	rc = environment.all == NULL ? -ENOMEM : ctrl_child_start(&child, &sidecar->pid);
	free_environment(&environment);
	close(ends[1]);
	if (rc < 0) {
		snprintf(reason, CTRL_PROGRAM_REASON, "its sidecar %s does not start: %s", path,
			strerror(-rc));
		close(ends[0]);
		sidecar->pid = 0;
		return -EINVAL;
	}
	sidecar->log = ends[0];
	sidecar->length = 0;
	sidecar->starts++;
	return 0;
}

static void
put_line(struct ctrl_sidecar *sidecar, const struct ppe_program *program)
{
	sidecar->line[sidecar->length] = '\0';
	if (sidecar->length > 0)
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_CTRL, RTE_LOG_NOTICE, "a sidecar says",
			"program=%s text=%s", ctrl_log_quote(program->name).text,
			ctrl_log_quote(sidecar->line).text);
	sidecar->length = 0;
}

static void
read_log(struct ctrl_sidecar *sidecar, const struct ppe_program *program)
{
	char some[4096];
	ssize_t got;

	while ((got = read(sidecar->log, some, sizeof(some))) > 0)
		for (ssize_t i = 0; i < got; i++) {
			if (some[i] == '\n' || sidecar->length == sizeof(sidecar->line) - 1)
				put_line(sidecar, program);
			if (some[i] != '\n')
				sidecar->line[sidecar->length++] = some[i];
		}
}

/* It has ended. */
static void
bury(struct ctrl_sidecar *sidecar, const struct ppe_program *program, int status)
{
	bool signaled = WIFSIGNALED(status), again = sidecar->starts < CTRL_SIDECAR_STARTS;

	put_line(sidecar, program);
	close(sidecar->log);
	sidecar->pid = 0;
	if (sidecar->ends)
		return;
	sidecar->due = ctrl_monotonic() + CTRL_SIDECAR_PAUSE_S;
	ctrl_log(CTRL_LOG_CTRL, RTE_LOG_WARNING, "a sidecar has ended",
		"program=%s %s=%d then=\"%s\"", ctrl_log_quote(program->name).text,
		signaled ? "signal" : "status", signaled ? WTERMSIG(status) : WEXITSTATUS(status),
		again ? "it is started again" : "it is not started again");
}

bool
ctrl_sidecar_tick(struct ctrl_sidecar *sidecar, const struct ctrl_config *config,
	const struct ppe_program *program, const struct ppe_value *values)
{
	double now = ctrl_monotonic();
	char reason[CTRL_PROGRAM_REASON];
	int status;

	if (sidecar->pid > 0) {
		read_log(sidecar, program);
		if (waitpid(sidecar->pid, &status, WNOHANG) == sidecar->pid)
			bury(sidecar, program, status);
		else if (sidecar->ends && now >= sidecar->due)
			kill(-sidecar->pid, SIGKILL);
	} else if (sidecar->starts > 0 && sidecar->starts < CTRL_SIDECAR_STARTS && !sidecar->ends &&
		now >= sidecar->due &&
		ctrl_sidecar_start(sidecar, config, program, values, reason) < 0) {
		sidecar->starts = CTRL_SIDECAR_STARTS;
		ctrl_log(CTRL_LOG_CTRL, RTE_LOG_WARNING, "a sidecar cannot be started again",
			"program=%s why=%s", ctrl_log_quote(program->name).text,
			ctrl_log_quote(reason).text);
	}
	return sidecar->pid > 0;
}

void
ctrl_sidecar_end(struct ctrl_sidecar *sidecar)
{
	if (!sidecar->ends && sidecar->pid > 0)
		kill(-sidecar->pid, SIGTERM);
	if (!sidecar->ends)
		sidecar->due = ctrl_monotonic() + CTRL_SIDECAR_END_S;
	sidecar->ends = true;
}

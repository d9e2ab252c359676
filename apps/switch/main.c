/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-switch: one configured switch, in the foreground. */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/report/options.h"
#include "apps/switch/run.h"
#include "ctrl/config/config.h"
#include "ctrl/config/files.h"
#include "ctrl/config/keys.h"
#include "ctrl/filters/filters.h"
#include "ctrl/jobs/state.h"
#include "ctrl/programs/child.h"
#include "ctrl/programs/programs.h"
#include "ctrl/programs/settings.h"

static void
print_keys(const struct ctrl_key *keys, size_t count)
{
	puts("| key | type | unit | default | range | meaning |");
	puts("| --- | --- | --- | --- | --- | --- |");
	for (size_t i = 0; i < count; i++) {
		ctrl_key_row(&keys[i], stdout);
		putchar('\n');
	}
}

/* Print the settings of a program's file. Returns the exit status. */
static int
print_settings(const char *path)
{
	char *folder = strdup(path), *name = strdup(path);
	struct ctrl_program_file file;
	struct ctrl_key *keys = NULL;
	size_t count = 0;

	if (folder != NULL && name != NULL &&
		ctrl_program_open(&file, dirname(folder), basename(name)) < 0)
		fprintf(stderr, "weir-switch: %s: %s\n", path, file.reason);
	else if (folder != NULL && name != NULL)
		keys = ctrl_program_settings_keys(file.program, &count);
	if (keys != NULL)
		print_keys(keys, count);
	free(keys);
	free(folder);
	free(name);
	return keys != NULL ? STATUS_DONE : STATUS_USAGE;
}

/* Exits after --keys and --program, and on a wrong command line. */
static void
read_options(struct options *options, int argc, char **argv)
{
	static struct options given;
	static bool keys;
	static const char *program;
	static const struct option_row rows[] = {
		{"config", 'c', OPTION_TEXT, &given.config, 0, 0, "FILE",
			"the configuration, JSON (docs/configuration.md)"},
		{"check", 'n', OPTION_FLAG, &given.check, 0, 0, NULL,
			"check the configuration, print the memory it needs, and exit"},
		{"stats-file", 0, OPTION_TEXT, &given.stats_file, 0, 0, "FILE",
			"write statistics to FILE as JSON, on SIGUSR1 and at the end"},
		{"forget-state", 0, OPTION_FLAG, &given.forget_state, 0, 0, NULL,
			"rename state.file to FILE.forgotten and start without it"},
		{"keys", 'k', OPTION_FLAG, &keys, 0, 0, NULL,
			"print all keys of a configuration as a table"},
		{"program", 0, OPTION_TEXT, &program, 0, 0, "FILE",
			"print the settings of a program that can be loaded as a table"},
		{0},
	};

	options_parse("weir-switch",
		"Run the switch that FILE configures, in the foreground, until SIGINT or SIGTERM."
		"\vSIGUSR1 prints statistics, SIGHUP reads the configuration again. \"weir-switch: "
		"ready\" means that packets flow. The last line is \"weir-switch: stopped, "
		"everything returned\", or lists what was not returned, with status 1.",
		NULL, (const struct option_row *[]){rows, NULL}, argc, argv);
	if (keys) {
		print_keys(ctrl_config_schema.keys, ctrl_config_schema.count);
		exit(STATUS_DONE);
	}
	if (program != NULL)
		exit(print_settings(program));
	if (given.config == NULL) {
		fputs("weir-switch: -c FILE is missing; see weir-switch --help\n", stderr);
		exit(STATUS_USAGE);
	}
	*options = given;
}

/* The state of the last run. NULL, after a message, if it cannot be used. */
static json_t *
load_state(const struct options *options, const struct ctrl_config *config)
{
	json_t *state = NULL;
	char error[CTRL_ERROR_BYTES];
	int rc = 0;

	if (options->forget_state && !options->check && config->state_file[0] != '\0')
		rc = ctrl_state_forget(config->state_file);
	if (rc < 0 && rc != -ENOENT) {
		fprintf(stderr, "weir-switch: state.file: %s cannot be renamed: %s\n",
			config->state_file, strerror(-rc));
		return NULL;
	}
	if (ctrl_state_load(config->state_file, config->name, &state, error, sizeof(error)) < 0)
		fprintf(stderr, "%s\n", error);
	return state;
}

/*
 * Keep a second switch from the same state file, where each would overwrite the other's changes.
 * *lock is for ctrl_unlock. False, after a message, if another switch has it or it cannot be taken.
 */
static bool
lock_state(const struct ctrl_config *config, int *lock)
{
	const char *file = config->state_file;

	*lock = -1;
	if (file[0] == '\0')
		return true;
	*lock = ctrl_lock(file);
	if (*lock == -EWOULDBLOCK)
		fprintf(stderr,
			"weir-switch: state.file: another switch runs on %s: stop it, or give this "
			"switch its own file\n",
			file);
	else if (*lock < 0)
		fprintf(stderr,
			"weir-switch: state.file: %s cannot be written: %s.lock: %s: check that "
			"its folder exists and is writable\n",
			file, file, strerror(-*lock));
	return *lock >= 0;
}

/* Warn of jobs without a key. Those of the API all have one. */
static void
warn_of_addresses(const struct ctrl_config *config)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < config->nb_jobs; i++)
		if (!config->job[i].proved)
			fprintf(stderr, "%s%s",
				count++ > 0 ? ", "
					    : "weir-switch: warning: hosts are known by their "
					      "addresses alone in jobs without a key_file "
					      "(docs/security.md): ",
				config->job[i].name);
	if (count > 0)
		fputc('\n', stderr);
}

/* Warn of settings that are allowed but probably not intended. */
static void
warn(const struct ctrl_config *config)
{
	const struct ctrl_listener *clear = ctrl_api_clear_text(&config->api);

	if (clear != NULL)
		fprintf(stderr,
			"weir-switch: warning: tenants send their tokens to %s in clear text, and "
			"anyone on the path can use them: set api.tls\n",
			clear->text);
	warn_of_addresses(config);
}

/* Check or run the configuration. Returns the exit status. */
static int
take_state(const struct options *options, struct ctrl_config **config)
{
	json_t *state = load_state(options, *config);
	struct ctrl_program *programs = NULL;
	char error[CTRL_ERROR_BYTES];
	int status = 0;

	if (state == NULL) {
		status = STATUS_USAGE;
	} else if (ctrl_programs_open(*config, options->config, &programs, error, sizeof(error)) <
			0 ||
		ctrl_filters_check(*config, options->config, error, sizeof(error)) < 0) {
		fprintf(stderr, "%s\n", error);
		status = STATUS_USAGE;
	} else if (!options->check) {
		status = preflight(*config) < 0 ? 1 : run_switch(options, config, state, &programs);
	}
	ctrl_programs_close(programs);
	json_decref(state);
	return status;
}

int
main(int argc, char **argv)
{
	struct options options;
	struct ctrl_config *config;
	char error[CTRL_ERROR_BYTES];
	int status = ctrl_child_main(argc, argv), lock = -1;

	if (status >= 0)
		return status;
	read_options(&options, argc, argv);
	if (ctrl_config_load(options.config, &config, error, sizeof(error)) < 0) {
		fprintf(stderr, "%s\n", error);
		return STATUS_USAGE;
	}
	printf("weir-switch " WEIR_VERSION ": %s, %s\n", config->name, options.config);
	ctrl_memory_print(config, stdout);
	warn(config);
	if (options.check || lock_state(config, &lock))
		status = take_state(&options, &config);
	else
		status = 1;
	ctrl_unlock(config->state_file, lock);
	ctrl_config_destroy(config);
	return status;
}

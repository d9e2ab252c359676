/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-switch: one configured switch, in the foreground. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "apps/switch/options.h"
#include "apps/switch/preflight.h"
#include "apps/switch/run.h"
#include "ctrl/config.h"
#include "ctrl/memory.h"
#include "ctrl/state.h"

/* The exit status when a file is wrong, as when the command line is: starting again is no use. */
#define WRONG_FILE 2

/* What the last run has left. NULL: it can't be used, and why is said. */
static struct ctrl_state *
load_state(const struct options *options, const struct ctrl_config *config)
{
	struct ctrl_state *state = NULL;
	char error[CTRL_ERROR_BYTES];
	int rc = 0;

	if (options->forget_state && !options->check && config->state_file[0] != '\0')
		rc = ctrl_state_forget(config->state_file);
	if (rc < 0 && rc != -ENOENT) {
		fprintf(stderr, "weir-switch: %s can't be laid aside: %s\n", config->state_file,
			strerror(-rc));
		return NULL;
	}
	if (ctrl_state_load(config->state_file, config->name, &state, error, sizeof(error)) < 0)
		fprintf(stderr, "%s\n", error);
	return state;
}

/* What is allowed, and hardly meant. */
static void
warn(const struct ctrl_config *config)
{
	const struct ctrl_listener *clear = ctrl_api_clear_text(&config->api);

	if (clear != NULL)
		fprintf(stderr,
			"weir-switch: warning: tenants' tokens travel in the clear to %s: whoever "
			"is on the way can use them; set api.tls\n",
			clear->text);
}

int
main(int argc, char **argv)
{
	struct options options;
	struct ctrl_config *config;
	char error[CTRL_ERROR_BYTES];
	struct ctrl_state *state;
	int status = 0;

	options_read(&options, argc, argv);
	if (ctrl_config_load(options.config, &config, error, sizeof(error)) < 0) {
		fprintf(stderr, "%s\n", error);
		return WRONG_FILE;
	}
	printf("weir-switch " WEIR_VERSION ": %s, %s\n", config->name, options.config);
	ctrl_memory_print(config, stdout);
	warn(config);
	state = load_state(&options, config);
	if (state == NULL)
		status = WRONG_FILE;
	else if (!options.check)
		status = preflight(config) < 0 ? 1 : run_switch(&options, &config, state);
	ctrl_state_destroy(state);
	ctrl_config_destroy(config);
	return status;
}

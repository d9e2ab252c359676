/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-switch: one configured switch, in the foreground. */
#include <stdio.h>

#include "apps/switch/options.h"
#include "apps/switch/preflight.h"
#include "apps/switch/run.h"
#include "ctrl/config.h"
#include "ctrl/memory.h"

int
main(int argc, char **argv)
{
	struct options options;
	struct ctrl_config *config;
	char error[CTRL_ERROR_BYTES];
	int status = 0;

	options_read(&options, argc, argv);
	if (ctrl_config_load(options.config, &config, error, sizeof(error)) < 0) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	printf("weir-switch " WEIR_VERSION ": %s, %s\n", config->name, options.config);
	ctrl_memory_print(config, stdout);
	if (!options.check)
		status = preflight(config) < 0 ? 1 : run_switch(config, options.stats_file);
	ctrl_config_destroy(config);
	return status;
}

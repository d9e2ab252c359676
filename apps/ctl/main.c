/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl: look at a running switch, and change its jobs. */
#include <errno.h>
#include <locale.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/table.h"

/* A table that did not reach its file is an error, too. */
static int
finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	ctl_say("standard output: %s", strerror(errno));
	return status == CTL_OK ? CTL_REFUSED : status;
}

/* Makes the client; says why not. */
static int
connect_to(struct ctl *ctl, char *found, size_t size)
{
	struct client_config config = {
		.address = ctl->options.address,
		.token_file = ctl->options.token_file,
		.token = ctl->options.token,
		.ca_file = ctl->options.ca_file,
		.timeout = ctl->options.timeout,
	};
	char error[1024];

	if (ctl->options.config != NULL || config.address == NULL || config.address[0] == '\0') {
		if (!(ctl->options.config != NULL ? client_find_of(ctl->options.config, found, size)
						  : client_find(CTL_FOLDER, found, size))) {
			ctl_say("%s", found);
			return CTL_NO_CONNECTION;
		}
		config.address = found;
	}
	ctl->client = client_create(&config, error, sizeof(error));
	if (ctl->client != NULL)
		return CTL_OK;
	ctl_say("%s", error);
	return CTL_USAGE;
}

int
main(int argc, char **argv)
{
	struct ctl ctl = {0};
	const struct ctl_command *command;
	char found[1024];
	int status;

	setlocale(LC_CTYPE, "");
	command = options_read(&ctl.options, argc, argv);
	ctl.width = terminal_width();
	status = connect_to(&ctl, found, sizeof(found));
	if (status == CTL_OK)
		status = command_run(command, &ctl);
	client_destroy(ctl.client);
	json_decref(ctl.options.fields);
	return finish(status);
}

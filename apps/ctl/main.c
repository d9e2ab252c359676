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

int
main(int argc, char **argv)
{
	struct ctl ctl = {0};
	const struct ctl_command *command;
	int status;

	setlocale(LC_CTYPE, "");
	command = options_read(&ctl.options, argc, argv);
	ctl.width = terminal_width();
	status = ctl_connect(&ctl);
	if (status == CTL_OK)
		status = command_run(command, &ctl);
	client_close(&ctl.client);
	json_decref(ctl.options.fields);
	return finish(status);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/programs/child.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ctrl/programs/file.h"

#define NOT_STARTED 126 /* exit status, as of env(1) */

const char *ctrl_child_executable = "/proc/self/exe";

int
ctrl_child_main(int argc, char **argv)
{
	if (argc != 3)
		return -1;
	if (strcmp(argv[1], CTRL_CHILD_PROBE) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return ctrl_program_probe(argv[2]);
	}
	if (strcmp(argv[1], CTRL_CHILD_SIDECAR) != 0)
		return -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the switch crashes; it stays over an exec */
	execv(argv[2], argv + 2);
	fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
	return NOT_STARTED;
}

int
ctrl_child_start(const struct ctrl_child *child, pid_t *pid)
{
	char *argv[] = {strdup("weir-switch"), strdup(child->option), strdup(child->file), NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setflags(&attributes,
		POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, child->out, STDOUT_FILENO);
	if (child->err >= 0)
		posix_spawn_file_actions_adddup2(&actions, child->err, STDERR_FILENO);
	if (child->copy >= 0)
		posix_spawn_file_actions_adddup2(&actions, child->copy, CTRL_CHILD_COPY);
	/* Drivers' descriptors would outlive the switch. */
	posix_spawn_file_actions_addclosefrom_np(&actions, CTRL_CHILD_COPY + (child->copy >= 0));
	rc = posix_spawn(
		pid, ctrl_child_executable, &actions, &attributes, argv, child->environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	for (unsigned int i = 0; i < 3; i++)
		free(argv[i]);
	return -rc;
}

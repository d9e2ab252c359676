/* SPDX-License-Identifier: BSD-3-Clause */
/* Child processes of a switch that loads programs: they begin as the same executable, and end with
 * the switch. */
#ifndef CTRL_PROGRAMS_CHILD_H
#define CTRL_PROGRAMS_CHILD_H

#include <sys/types.h>

#define CTRL_CHILD_PROBE   "--probe-program"
#define CTRL_CHILD_SIDECAR "--run-sidecar"
#define CTRL_CHILD_COPY    3 /* descriptor of the file to be checked */

/* The executable whose main() begins with ctrl_child_main: this process's. Tests set another. */
extern const char *ctrl_child_executable;

/* Call it first in main(). Returns the exit status of a child; -1: this process is none. */
int ctrl_child_main(int argc, char **argv);

/* What a child is started with. A descriptor is -1: the child has this process's, and from
 * `copy` on none. */
struct ctrl_child {
	const char *option, *file;
	char *const *environment;
	int out, err; /* its standard output and standard error */
	int copy; /* its CTRL_CHILD_COPY */
};

/* Start a child in a process group of its own. 0 and its pid, or -errno. */
int ctrl_child_start(const struct ctrl_child *child, pid_t *pid);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of programs: shared objects of one directory, whose code runs with all rights of the
 * switch.
 *
 * Directory and file must belong to root or to the switch's user, and only their owners may write
 * to them. The switch copies the file first, so that all that follows sees the same bytes, and a
 * file that is overwritten later does no harm. A child process then loads the copy: a damaged file
 * may crash the dynamic linker, and a constructor may crash or hang. The switch itself loads only
 * what a child has loaded within CTRL_PROBE_S.
 *
 * Needs no EAL. Thread safety: for one thread.
 */
#ifndef CTRL_PROGRAMS_FILE_H
#define CTRL_PROGRAMS_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "ctrl/config/config.h"
#include "ppe/program.h"

#define CTRL_PROBE_S        3
#define CTRL_PROGRAM_REASON 512 /* bytes of a reason */

struct ctrl_program_file {
	char name[CTRL_PROGRAM_BYTES];
	const struct ppe_program *program; /* NULL: it is not loaded */
	void *handle; /* of dlopen() */
	int copy; /* descriptor; -1: none */
	int report; /* the child's; -1: none */
	pid_t probe; /* the child; 0: none */
	double probe_ends; /* CLOCK_MONOTONIC, s */
	char reason[CTRL_PROGRAM_REASON]; /* why the last function returned -EINVAL */
};

/* The child: load a file, and write to standard output what is wrong with it. Returns the exit
 * status. */
int ctrl_program_probe(const char *path);

/*
 * May the switch run this file of the directory? Opens it. runs: it must be executable. Returns a
 * descriptor; or -EINVAL and a text with the path.
 */
int ctrl_program_file_check(
	const char *directory, const char *name, bool runs, char reason[CTRL_PROGRAM_REASON]);

/* Check a file, copy it, and start the child. 0; or -EINVAL with file->reason. Call
 * ctrl_program_close in both cases. */
int ctrl_program_open_begin(
	struct ctrl_program_file *file, const char *directory, const char *name);

/* 0: file->program is loaded; -EAGAIN: the child has not ended; -EINVAL with file->reason. */
int ctrl_program_open_step(struct ctrl_program_file *file);

/* Both, and wait for the child. 0; or -EINVAL with file->reason. */
int ctrl_program_open(struct ctrl_program_file *file, const char *directory, const char *name);

/* End the child, and unload the program, which nothing may use any more. */
void ctrl_program_close(struct ctrl_program_file *file);

#endif

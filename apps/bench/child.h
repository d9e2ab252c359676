/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes beside the bench, and the folder with their files. Every wait has a limit, and what a
 * wait missed is said on standard error with the child's last words. A child dies with the bench,
 * whatever ends that. For the main thread.
 */
#ifndef APPS_BENCH_CHILD_H
#define APPS_BENCH_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#define CHILD_PATH_MAX 256

struct child {
	const char *name; /* for people */
	pid_t pid; /* 0: none */
	int input; /* write end of its standard input, open as long as it shall live */
	bool paused;
	char log[CHILD_PATH_MAX]; /* its standard output and error */
};

/* SIGINT and SIGTERM from now on only set what child_interrupted tells. Before EAL: the CPUs that
 * the bench may use now are those of its children. */
void child_prepare(void);
bool child_interrupted(void);

/* Make a folder of our own under /tmp; remove it with the files in it. 0, or -1 after a line. */
int child_folder_make(char folder[CHILD_PATH_MAX]);
void child_folder_remove(const char *folder);

/* Run argv, NULL-terminated, output to FOLDER/NAME.log. 0, or -1 after a line. */
int child_start(struct child *child, const char *name, const char *const *argv, const char *folder);

/* Is the process still there? */
bool child_alive(struct child *child);

/* Its last lines of output, on standard error. */
void child_last_words(const struct child *child);

/* Take it off its CPU, and let it go on; it is off when child_pause returns. */
void child_pause(struct child *child);
void child_resume(struct child *child);

/* SIGTERM, and SIGKILL when that does not help within 5 s. Its exit status, -1 when a signal ended
 * it. Without a process: 0. */
int child_end(struct child *child);

#endif

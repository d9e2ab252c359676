/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bsd/string.h>

#define END_LIMIT_MS 5000
#define STEP_US      5000
#define WORDS_BYTES  2048

static volatile sig_atomic_t interrupted;
static cpu_set_t cpus;

static void
take_note(int number)
{
	interrupted = number;
}

void
child_prepare(void)
{
	struct sigaction action = {.sa_handler = take_note};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		CPU_ZERO(&cpus);
}

bool
child_interrupted(void)
{
	return interrupted != 0;
}

int
child_folder_make(char folder[CHILD_PATH_MAX])
{
	snprintf(folder, CHILD_PATH_MAX, "/tmp/weir-bench-%d-XXXXXX", (int)getpid());
	if (mkdtemp(folder) != NULL)
		return 0;
	fprintf(stderr, "weir-bench: %s: %s\n", folder, strerror(errno));
	folder[0] = '\0';
	return -1;
}

void
child_folder_remove(const char *folder)
{
	DIR *directory = folder[0] != '\0' ? opendir(folder) : NULL;
	struct dirent *entry;

	if (directory == NULL)
		return;
	while ((entry = readdir(directory)) != NULL)
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
	rmdir(folder);
}

static void __attribute__((noreturn))
become(const struct child *child, int input, const char *const *argv)
{
	int log = open(child->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* An interrupt at the terminal is the bench's to pass on. */
	setpgid(0, 0);
	/* EAL has bound the bench to one CPU. */
	if (CPU_COUNT(&cpus) > 0)
		sched_setaffinity(0, sizeof(cpus), &cpus);
	dup2(input, STDIN_FILENO);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	/* What the bench has open (shared memory, sockets) is not the child's. */
	closefrom(STDERR_FILENO + 1);
	execvp(argv[0], (char **)(uintptr_t)argv);
	dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

int
child_start(struct child *child, const char *name, const char *const *argv, const char *folder)
{
	int ends[2];

	memset(child, 0, sizeof(*child));
	child->name = name;
	snprintf(child->log, sizeof(child->log), "%.200s/%.40s.log", folder, name);
	if (pipe2(ends, O_CLOEXEC) == 0) {
		child->input = ends[1];
		fflush(NULL);
		child->pid = fork();
		if (child->pid == 0)
			become(child, ends[0], argv);
		close(ends[0]);
		if (child->pid > 0)
			return 0;
		close(ends[1]);
	}
	fprintf(stderr, "weir-bench: %s does not start: %s\n", name, strerror(errno));
	child->pid = 0;
	return -1;
}

bool
child_alive(struct child *child)
{
	siginfo_t info = {0};

	return child->pid > 0 &&
		waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		info.si_pid == 0;
}

/* The end of its output: at most `size` - 1 bytes, a string. */
static void
read_end(const struct child *child, char *text, size_t size)
{
	FILE *file = fopen(child->log, "re");
	size_t length = 0;

	if (file != NULL) {
		if (fseek(file, -(long)(size - 1), SEEK_END) < 0)
			rewind(file);
		length = fread(text, 1, size - 1, file);
		fclose(file);
	}
	text[length] = '\0';
}

void
child_last_words(const struct child *child)
{
	char text[WORDS_BYTES];

	read_end(child, text, sizeof(text));
	for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
		if (line[0] != '\0')
			fprintf(stderr, "  %s: %s\n", child->name, line);
}

void
child_pause(struct child *child)
{
	siginfo_t info;

	if (child->pid == 0 || child->paused)
		return;
	kill(child->pid, SIGSTOP);
	/* It ends or stops: neither can be delayed by it. */
	waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WEXITED | WNOWAIT);
	child->paused = true;
}

void
child_resume(struct child *child)
{
	if (child->pid == 0 || !child->paused)
		return;
	kill(child->pid, SIGCONT);
	child->paused = false;
}

int
child_end(struct child *child)
{
	int status = 0;

	if (child->pid == 0)
		return 0;
	child_resume(child);
	close(child->input);
	kill(child->pid, SIGTERM);
	for (unsigned int us = 0; us < END_LIMIT_MS * 1000 && child_alive(child); us += STEP_US)
		usleep(STEP_US);
	if (child_alive(child)) {
		fprintf(stderr, "weir-bench: %s does not end and is killed\n", child->name);
		kill(child->pid, SIGKILL);
	}
	waitpid(child->pid, &status, 0);
	child->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

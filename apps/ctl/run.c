/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl run: a command whose MPI programs use the switch, in a name space of jobs that ends with the command. */
#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/ctl/ctl.h"

/* Names of jobs have 31 characters at most: SPACE.NUMBER.<12 hexadecimal digits>, NUMBER of 6 digits. */
#define SPACE_BYTES 12 /* what --space gives, terminated */
#define NUMBERED    (SPACE_BYTES + 7)
#define NOT_FOUND   127 /* exit statuses of env(1) and shells */
#define NOT_STARTED 126

/* A name below the given one that nobody else has: a run never deletes the jobs of another. */
static bool
name_space(const char *given, char space[NUMBERED])
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const char *from = given != NULL ? "--space" : "WEIR_NAMESPACE", *dot = NULL;
	uint32_t number = 0;
	size_t length;

	if (given == NULL) {
		given = getenv("WEIR_NAMESPACE");
		dot = given != NULL ? strrchr(given, '.') : NULL;
	}
	if (given == NULL || given[0] == '\0')
		given = "run";
	length = strlen(given);
	/* A run inside a run: without the outer one's number. */
	if (length >= SPACE_BYTES && dot != NULL)
		length = (size_t)(dot - given);
	if (length >= SPACE_BYTES || given[strspn(given, good)] != '\0' || given[0] == '.' ||
		given[0] == '-') {
		ctl_say("%s %s: must be a name of at most %d characters: letters, digits, \".\", "
			"\"_\" and \"-\", which begins with a letter, a digit or \"_\"",
			from, given, SPACE_BYTES - 1);
		return false;
	}
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		err(CTL_REFUSED, "random number");
	snprintf(space, NUMBERED, "%.*s.%06x", (int)length, given, number & 0xffffff);
	return true;
}

/* Delete the temporary jobs of the name space. Returns the exit status; it is said why not. */
static int
delete_jobs(struct ctl *ctl, const char *space)
{
	char *path = ctl_path("/v1/jobs?prefix=", space, ".");
	json_t *answer;

	ctl_ask(ctl, "DELETE", path, NULL, &answer);
	json_decref(answer);
	free(path);
	return ctl->status;
}

/* Whether the switch answers, and lets this user delete temporary jobs, and so create them. There are none yet.
 * The connection is closed again: the command does not inherit it. */
static int
is_ready(struct ctl *ctl, const char *space)
{
	int status = ctl_connect(ctl);

	if (status == CTL_OK)
		status = delete_jobs(ctl, space);
	ctl_close(ctl);
	ctl->http = NULL;
	return status;
}

static void
set(const char *name, const char *value)
{
	if (setenv(name, value, 1) < 0)
		err(CTL_REFUSED, "%s", name);
}

/* A list in the environment, with these before what it has. */
static void
set_before(const char *name, const char *others, const char *first, const char *between)
{
	char *all;

	if (asprintf(&all, "%s%s%s", first, others != NULL ? between : "",
		    others != NULL ? others : "") < 0)
		err(CTL_REFUSED, "%s", name);
	set(name, all);
	free(all);
}

/* Let MPI's calls go through a library first, on all ranks: mpirun of Open MPI passes it, and Weir's variables. */
static void
preload(const char *library)
{
	char passed[4096] = "LD_PRELOAD";

	set_before("LD_PRELOAD", getenv("LD_PRELOAD"), library, ":");
	for (char **variable = environ; *variable != NULL; variable++)
		if (strncmp(*variable, "WEIR_", 5) == 0)
			snprintf(passed + strlen(passed), sizeof(passed) - strlen(passed), ";%.*s",
				(int)strcspn(*variable, "="), *variable);
	set_before("OMPI_MCA_mca_base_env_list", getenv("OMPI_MCA_mca_base_env_list"), passed, ";");
}

/* The name of the library for ld.so, which finds one without a slash where it finds all libraries. NULL: ld.so could not
 * load it, and would say so in each process of the command, which would then run on MPI. */
static char *
find_library(const char *given)
{
	bool path = strchr(given, '/') != NULL;
	char *library;

	if (asprintf(&library, path ? "%s" : "libweir-mpi-%s.so", given) < 0)
		err(CTL_REFUSED, "LD_PRELOAD");
	if (dlopen(library, RTLD_LAZY | RTLD_LOCAL) != NULL)
		return library;
	ctl_say("run: --preload %s: %s%s", given, dlerror(),
		path ? ""
		     : ": install the package weir-mpich or weir-openmpi, or give the library's "
		       "path");
	free(library);
	return NULL;
}

/*
 * What Weir's MPI plug-ins, and libweir, read. mpirun of Open MPI passes to ranks on other hosts the variables that
 * begin with OMPI_, and no others unless it is told. It can be told by mca_base_env_list, but then refuses a command
 * line with -x; so only preload() does that. mpiexec of MPICH, srun and torchrun pass all.
 */
static void
set_environment(const struct ctl *ctl, const char *space, const char *library)
{
	const char *settings = getenv("WEIR_SETTINGS"), *named = getenv("WEIR_SWITCH");

	/* A token of the environment is not for a switch that takes the place of WEIR_SWITCH; it would
	 * also take precedence over --token-file. */
	if (ctl->options.token_file != NULL ||
		(named != NULL && named[0] != '\0' && !ctl_token_is_for(ctl->address))) {
		unsetenv("WEIR_TOKEN");
		unsetenv("WEIR_TOKEN_FILE");
	}
	set("WEIR_SWITCH", ctl->address);
	set("WEIR_NAMESPACE", space);
	if (ctl->options.token_file != NULL)
		set("WEIR_TOKEN_FILE", ctl->options.token_file);
	if (ctl->options.ca_file != NULL)
		set("WEIR_CA", ctl->options.ca_file);
	if (library != NULL) {
		preload(library);
		return;
	}
	set("OMPI_MCA_coll_weir_enable", "1");
	set("OMPI_MCA_coll_weir_switch", ctl->address);
	set("OMPI_MCA_coll_weir_namespace", space);
	if (settings != NULL)
		set("OMPI_MCA_coll_weir_settings", settings);
}

/* In the group of weirctl: the terminal's keys, job control and a shell's kill %1 reach it as they reach weirctl. */
static pid_t
start(char **command, const sigset_t *mask)
{
	pid_t child = fork();
	int why;

	if (child != 0)
		return child;
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(command[0], command);
	why = errno;
	ctl_say("run: %s: %s", command[0], strerror(why));
	_exit(why == ENOENT ? NOT_FOUND : NOT_STARTED);
}

/* Pass on signals until the command ends. Returns how it ended, as waitpid(2) does. */
static int
wait_for_end(pid_t child, const sigset_t *passed)
{
	siginfo_t signal;
	int ended;

	while (true) {
		if (sigwaitinfo(passed, &signal) < 0)
			continue;
		if (signal.si_signo == SIGCHLD) {
			if (waitpid(child, &ended, WNOHANG) == child)
				return ended;
		} else if (signal.si_code != SI_KERNEL || signal.si_signo == SIGHUP) {
			/* The terminal's keys reach the command, too; its hang-up perhaps the session's leader alone. */
			kill(child, signal.si_signo);
		}
	}
}

/* End as the command did: a shell then knows that its script was interrupted. */
static int
end_like(int ended, const sigset_t *mask)
{
	const struct rlimit none = {0, 0};

	if (WIFEXITED(ended))
		return WEXITSTATUS(ended);
	setrlimit(RLIMIT_CORE, &none); /* the command has left its own */
	signal(WTERMSIG(ended), SIG_DFL);
	raise(WTERMSIG(ended));
	sigprocmask(SIG_SETMASK, mask, NULL);
	return 128 + WTERMSIG(ended);
}

int
command_run(struct ctl *ctl)
{
	static const int all[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
	char space[NUMBERED], *library = NULL;
	sigset_t passed, mask;
	int ready, ended;
	pid_t child;

	ctl->options.json = false;
	if (!name_space(ctl->options.space, space))
		return CTL_USAGE;
	if (ctl->options.preload != NULL && (library = find_library(ctl->options.preload)) == NULL)
		return NOT_STARTED;
	ready = is_ready(ctl, space);
	if (ready == CTL_USAGE)
		return ready;
	if (ready == CTL_OK) {
		set_environment(ctl, space, library);
	} else {
		set("OMPI_MCA_coll_weir_enable", "0");
		ctl_say("run: %s runs without Weir", ctl->options.command[0]);
	}
	free(library);
	sigemptyset(&passed);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sigaddset(&passed, all[i]);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &passed, &mask);
	child = start(ctl->options.command, &mask);
	if (child < 0)
		err(NOT_STARTED, "fork");
	ended = wait_for_end(child, &passed);
	if (ready == CTL_OK && (ctl_connect(ctl) != CTL_OK || delete_jobs(ctl, space) != CTL_OK))
		ctl_say("run: jobs %s.*, if any are left, end when the switch misses their members",
			space);
	return end_like(ended, &mask);
}

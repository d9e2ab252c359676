/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/switch/run.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <mntent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <bsd/string.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_pdump.h>

#include "apps/switch/notify.h"
#include "ctrl/api/server.h"
#include "ctrl/config/interface.h"
#include "ctrl/filters/filters.h"
#include "ctrl/log.h"
#include "ctrl/jobs/jobs.h"
#include "ctrl/jobs/running.h"
#include "ctrl/jobs/state.h"
#include "ctrl/stats/history.h"
#include "ctrl/stats/stats.h"
#include "ppe/ppe.h"

#define STOP_LIMIT_MS 2000
#define STOP_AGAIN    4
#define FORMER_MAX    4
#define LAST_WORDS_MS 1000 /* that the last lines wait for the reader of stdout */

/* A switch between ppe_create and ppe_destroy. */
struct run {
	const struct options *options;
	struct ctrl_config **config; /* a reload replaces it */
	struct ctrl_config *former[FORMER_MAX]; /* NULL, or one that readers may still have */
	const json_t *state; /* of the last run */
	struct ctrl_program **programs; /* of the configuration, until they are loaded */
	struct ppe *ppe;
	struct ctrl_running *running;
	struct api_server *server;
	int epoll, signals, timer; /* what the control thread waits for, and on */
	bool stopping; /* SIGINT or SIGTERM has come */
	int stuck; /* the worker that hangs; -1: none */
	bool abandoned; /* a worker did not stop and still uses its memory */
};

static int
start_eal(const struct ctrl_config *config)
{
	char **argv = calloc((size_t)config->argc + 1, sizeof(*argv));
	int rc;

	if (argv == NULL)
		return -ENOMEM;
	memcpy(argv, config->argv, (size_t)config->argc * sizeof(*argv));
	rc = rte_eal_init(config->argc, argv);
	if (rc < 0) {
		rc = -rte_errno;
		fprintf(stderr,
			"weir-switch: DPDK does not start (%s): see the lines above, and "
			"\"eal\", \"memory_mb\" and the ports' \"device\" in the configuration\n",
			rte_strerror(rte_errno));
	}
	free(argv);
	return rc < 0 ? rc : 0;
}

/* Answer dpdk-dumpcap. It costs nothing until that attaches a callback to each queue. */
static int
offer_capture(void)
{
	if (rte_pdump_init() == 0)
		return 0;
	fprintf(stderr, "weir-switch: \"capture\" does not start: %s\n", rte_strerror(rte_errno));
	return -EIO;
}

/* Give the TAP, which is a port of the switch, the switch's address on this machine. */
static int
set_exception(const struct ctrl_config *config)
{
	int rc = 0;

	if (config->exception[0] != '\0')
		rc = ctrl_interface_set(config->exception, config->ppe.identity.ip, config->prefix);
	if (rc < 0)
		fprintf(stderr,
			"weir-switch: interface %s cannot get the switch's address: %s: check that "
			"the address is free, and run with CAP_NET_ADMIN\n",
			config->exception, strerror(-rc));
	return rc;
}

/* A text for stdout: made in memory, then written with a bounded wait, so that a slow reader never blocks the switch. */
struct output {
	FILE *to; /* print here; NULL: no memory */
	char *text;
	size_t length;
};

/* Begin a text. False: no memory. Call output_end in either case. */
static bool
output_begin(struct output *output)
{
	output->text = NULL;
	output->length = 0;
	output->to = open_memstream(&output->text, &output->length);
	return output->to != NULL;
}

/* Write what fits. A pipe that polls writable has room for PIPE_BUF bytes. */
static ssize_t
put_some(int fd, const char *text, size_t length)
{
	size_t some = length < PIPE_BUF ? length : PIPE_BUF;
	ssize_t done;

	do {
		done = send(fd, text, some, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (done < 0 && errno == ENOTSOCK)
			done = write(fd, text, some);
	} while (done < 0 && errno == EINTR);
	return done;
}

static bool
put(int fd, const char *text, size_t length, int wait_ms)
{
	double deadline = ctrl_monotonic() + wait_ms / 1e3;

	while (length > 0) {
		struct pollfd p = {fd, POLLOUT, 0};
		double left = deadline - ctrl_monotonic();
		ssize_t done;

		if (poll(&p, 1, left > 0 ? (int)(left * 1e3) : 0) != 1)
			return false;
		done = put_some(fd, text, length);
		if (done < 0 && (errno != EAGAIN || left <= 0))
			return false;
		text += done > 0 ? done : 0;
		length -= done > 0 ? (size_t)done : 0;
	}
	return true;
}

/*
 * Write the text to fd, and free it. Waits at most wait_ms for room; the rest is lost. Does not change
 * the descriptor's flags, because other processes share it. Returns whether all of it was written.
 */
static bool
output_end(struct output *output, int fd, int wait_ms)
{
	static bool torn; /* the last text was cut off, perhaps within a line */
	bool whole = false;

	if (output->to != NULL && fclose(output->to) == 0)
		whole = (!torn || put(fd, "\n", 1, wait_ms)) &&
			put(fd, output->text, output->length, wait_ms);
	torn = !whole;
	free(output->text);
	return whole;
}

/* Write and print the statistics. Waits at most wait_ms for the reader of stdout. */
static void
report(const json_t *stats, const char *stats_file, int wait_ms)
{
	struct output output;
	int rc = stats_file == NULL ? 0 : ctrl_stats_write(stats, stats_file);

	if (rc < 0)
		ctrl_log(CTRL_LOG_SWITCH, RTE_LOG_ERR, "statistics were not written",
			"file=%s error=%s", ctrl_log_quote(stats_file).text,
			ctrl_log_quote(strerror(-rc)).text);
	if (output_begin(&output))
		ctrl_stats_print(stats, output.to);
	if (!output_end(&output, STDOUT_FILENO, wait_ms))
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_SWITCH, RTE_LOG_WARNING,
			"statistics were not printed whole", "why=%s",
			ctrl_log_quote("the reader of stdout is too slow").text);
}

static void
tick(struct run *run)
{
	int stuck;

	ctrl_running_tick(run->running);
	ctrl_history_tick(run->running->history, run->running);
	ctrl_links_tick(run->running);
	ctrl_spoofed_tick(run->running);
	stuck = ctrl_running_stuck_worker(run->running);
	if (stuck >= 0 && stuck != run->stuck)
		ctrl_log(CTRL_LOG_SWITCH, RTE_LOG_ERR, "a worker is stuck", "worker=%d cpu=%u",
			stuck, (*run->config)->cpu[(unsigned int)stuck % (*run->config)->nb_cpus]);
	else if (stuck < 0 && run->stuck >= 0)
		ctrl_log(CTRL_LOG_SWITCH, RTE_LOG_NOTICE, "all workers run again", "");
	run->stuck = stuck;
	notify_tick(stuck < 0);
}

/* The reason names every key and may be longer than ctrl_log_quote takes. */
static void
say_refused(const char *who, const char *reason)
{
	char text[CTRL_ERROR_BYTES];

	strlcpy(text, reason, sizeof(text));
	for (char *p = text; *p != '\0'; p++)
		if (*p == '"' || *p == '\\')
			*p = '\'';
	ctrl_log_change(who, "reload refused", "reason=\"%s\"", text);
}

/* Any step may refuse except the last, which cannot be undone, and is none of a dry run's. */
static int
take_reload(struct ctrl_config *next, struct ctrl_running *running, struct api_server *server,
	struct ctrl_reloading *reloading, const char *who, char *error)
{
	struct ctrl_reloaded *done = &reloading->did;
	struct ctrl_refusal why;
	int rc = ctrl_reload_check(running->config, next, error, CTRL_ERROR_BYTES);

	if (rc == 0)
		rc = api_server_stage(server, next, error, CTRL_ERROR_BYTES);
	if (rc < 0)
		return rc;
	rc = ctrl_reload_apply(running, next, who, done, &why);
	done->tenants = next->api.nb_tenants;
	if (rc < 0 || running->is_dry_run)
		done->has_new_certificate = api_server_unstage(server);
	if (rc < 0)
		strlcpy(error, why.message, CTRL_ERROR_BYTES);
	if (rc < 0 || running->is_dry_run)
		return rc;
	done->has_new_certificate = api_server_commit(server);
	ctrl_log_set_levels(&next->log);
	ctrl_log_change(who, "configuration reloaded",
		"jobs_created=%u jobs_changed=%u jobs_replaced=%u jobs_deleted=%u tenants=%u "
		"certificate=%s",
		done->created, done->changed, done->replaced, done->deleted, next->api.nb_tenants,
		done->has_new_certificate ? "new" : "same");
	return 0;
}

/* Free the former configurations that no reader has. Returns a free place, or NULL. */
static struct ctrl_config **
free_former(struct run *run)
{
	struct ctrl_config **place = NULL;

	for (unsigned int i = 0; i < FORMER_MAX; i++) {
		if (run->former[i] != NULL &&
			(run->server == NULL || !api_server_uses(run->server, run->former[i]))) {
			ctrl_config_destroy(run->former[i]);
			run->former[i] = NULL;
		}
		place = run->former[i] == NULL ? &run->former[i] : place;
	}
	return place;
}

/*
 * Read the configuration again and replace *run->config; or refuse the file and change nothing. The
 * log and running->reloading say which, and who asked. A dry run ends before anything changes, and
 * logs nothing.
 */
static void
reload(struct run *run, const char *who, int kind)
{
	struct ctrl_reloading *reloading = &run->running->reloading[kind];
	struct ctrl_config *next, *former = *run->config, **place = free_former(run);
	char error[CTRL_ERROR_BYTES];
	int rc;

	run->running->is_dry_run = kind == CTRL_DRY;
	if (kind == CTRL_REAL)
		notify_reloading();
	rc = ctrl_config_load(run->options->config, &next, error, sizeof(error));
	if (rc == 0 && place == NULL) {
		strlcpy(error, "the last reloads are not over: again in a second", sizeof(error));
		rc = -EBUSY;
	}
	if (rc == 0)
		rc = take_reload(next, run->running, run->server, reloading, who, error);
	reloading->done = reloading->asked;
	strlcpy(reloading->refused, rc < 0 ? error : "", sizeof(reloading->refused));
	if (rc == 0 && kind == CTRL_REAL) {
		char **argv = former->argv;

		/* EAL may keep pointers into its argv: keep the former one, which is equal. */
		former->argv = next->argv;
		next->argv = argv;
		*run->config = next;
		*place = former;
	} else {
		if (kind == CTRL_REAL)
			say_refused(who, error);
		ctrl_config_destroy(next);
	}
	run->running->is_dry_run = false;
	if (kind == CTRL_REAL)
		notify_ready();
}

/* -- the control thread's loop: signals, the control API, a tick each second. No client can block it. */

/* The signals that the loop takes. */
static sigset_t
loop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	return set;
}

static int
watch(const struct run *run, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(run->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int
open_loop(struct run *run)
{
	static const struct itimerspec second = {{1, 0}, {1, 0}};
	sigset_t set = loop_signals();
	int rc;

	run->epoll = epoll_create1(EPOLL_CLOEXEC);
	run->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	run->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (run->epoll < 0 || run->signals < 0 || run->timer < 0 ||
		timerfd_settime(run->timer, 0, &second, NULL) < 0)
		return -errno;
	rc = watch(run, run->signals);
	if (rc == 0)
		rc = watch(run, run->timer);
	if (rc == 0 && run->server != NULL)
		rc = watch(run, api_server_fd(run->server));
	return rc;
}

static void
take_signal(struct run *run, const struct signalfd_siginfo *info)
{
	const char *name = info->ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
	char who[64];

	snprintf(who, sizeof(who), "uid=%u pid=%u", info->ssi_uid, info->ssi_pid);
	if (info->ssi_signo == SIGUSR1) {
		json_t *stats = ctrl_stats_read(run->running);

		report(stats, run->options->stats_file, 0);
		json_decref(stats);
	} else if (info->ssi_signo == SIGHUP) {
		reload(run, who, CTRL_REAL);
	} else if (!run->stopping) {
		run->stopping = true;
		ctrl_log(CTRL_LOG_SWITCH, RTE_LOG_NOTICE, "stop", "%s signal=%s", who, name);
		notify_stopping(name);
	}
}

/* One round. Signals come first, so that a busy switch stops at once. */
static int
turn(struct run *run)
{
	int wait = run->server == NULL ? -1 : api_server_timeout(run->server),
	    programs = ctrl_programs_tick(run->running);
	struct signalfd_siginfo info;
	struct epoll_event event[3];
	uint64_t missed; /* several missed ticks count as one */

	/* EINTR: drivers use signals too (net_tap: real-time ones). */
	if (programs >= 0 && (wait < 0 || wait > programs))
		wait = programs;
	if (epoll_wait(run->epoll, event, RTE_DIM(event), wait) < 0)
		return errno == EINTR ? 0 : -errno;
	while (read(run->signals, &info, sizeof(info)) == sizeof(info))
		take_signal(run, &info);
	if (read(run->timer, &missed, sizeof(missed)) == sizeof(missed)) {
		tick(run);
		if (run->server != NULL)
			api_server_tick(run->server);
		free_former(run);
	}
	if (run->server != NULL)
		api_server_run(run->server);
	/* A reload frees what a request may use, so it happens here, between requests. */
	for (int kind = 0; kind < CTRL_KINDS; kind++)
		if (run->running->reloading[kind].asked != run->running->reloading[kind].done)
			reload(run, run->running->reloading[kind].who, kind);
	ctrl_state_settle(run->running);
	return 0;
}

/* Run until SIGINT or SIGTERM. Returns 0, or -errno when the loop cannot be set up or fails. */
static int
loop(struct run *run)
{
	int rc = open_loop(run);

	while (rc == 0 && !run->stopping)
		rc = turn(run);
	if (run->epoll >= 0)
		close(run->epoll);
	if (run->signals >= 0)
		close(run->signals);
	if (run->timer >= 0)
		close(run->timer);
	return rc;
}

/* -- the switch's life */

static void
print_account(const struct ppe_leaks *l, FILE *out)
{
	if (ctrl_leaks_none(l)) {
		fputs("weir-switch: stopped, everything returned\n", out);
		return;
	}
	fputs("weir-switch: stopped, not everything returned:\n", out);
#define X(name, help)                                                                              \
	if (l->name != 0)                                                                          \
		fprintf(out, "  %" PRIu64 " %s: " help "\n", l->name, #name);
	PPE_LEAKS(X)
#undef X
}

static int
account(const struct ppe_leaks *leaks)
{
	struct output output;

	if (output_begin(&output))
		print_account(leaks, output.to);
	output_end(&output, STDOUT_FILENO, LAST_WORDS_MS);
	return ctrl_leaks_none(leaks) ? 0 : 1;
}

/* Before the first packet, so that every packet counts. */
static int
set_faults(struct run *run)
{
	const char *who = "by=weir why=start";
	struct ctrl_refusal why;

	return ctrl_faults_set(run->running, &(*run->config)->faults, who, &why);
}

/* Start ports and workers, then the exception interface, then the API that is reached over it. */
static int
start(struct run *run)
{
	const struct ctrl_config *config = *run->config;
	char error[CTRL_ERROR_BYTES];
	int rc = ctrl_running_create(config, run->ppe, &run->running);

	if (rc == 0) {
		run->running->history = ctrl_history_create(run->running->started);
		rc = run->running->history == NULL ? -ENOMEM : 0;
	}
	if (rc == 0 && ctrl_state_restore(run->running, run->state, error, sizeof(error)) < 0) {
		fprintf(stderr, "weir-switch: %s\n", error);
		return -EINVAL;
	}
	if (rc == 0 && config->faults.nb_rules > 0)
		rc = set_faults(run);
	if (rc == 0 && ctrl_programs_start(run->running, run->programs, error, sizeof(error)) < 0) {
		fprintf(stderr, "weir-switch: %s\n", error);
		return -EINVAL;
	}
	if (rc == 0 && ctrl_filters_start(run->running, error, sizeof(error)) < 0) {
		fprintf(stderr, "weir-switch: %s\n", error);
		return -EINVAL;
	}
	if (rc == 0)
		rc = ppe_start(run->ppe);
	if (rc < 0)
		fprintf(stderr, "weir-switch: the switch does not start: %s\n", strerror(-rc));
	/* After the ports: their driver takes the TAP up and down. */
	if (rc == 0)
		rc = set_exception(config);
	if (rc == 0)
		ctrl_links_begin(run->running);
	if (rc == 0 && config->capture)
		rc = offer_capture();
	if (rc < 0)
		return rc;
	rc = api_server_create(run->running, &run->server, error, sizeof(error));
	if (rc < 0)
		fprintf(stderr, "weir-switch: api: %s\n", error);
	return rc;
}

static void
destroy_running(struct run *run)
{
	if (run->running != NULL) {
		ctrl_history_destroy(run->running->history);
		/* A worker that is stuck may go on in a program. Sidecars end with this process. */
		if (!run->abandoned)
			ctrl_programs_close(run->running->programs);
	}
	ctrl_running_destroy(run->running);
}

/* Stop and destroy the switch, and report. Returns the exit status. */
static int
stop(struct run *run)
{
	struct ppe_leaks leaks = {0};
	json_t *stats;
	int rc;

	run->running->is_ready = false;
	api_server_destroy(run->server);
	run->server = NULL;
	free_former(run);
	rc = ppe_stop(run->ppe, STOP_LIMIT_MS);
	/* A busy machine may leave a worker alone for longer than a second. */
	for (int more = 0; rc == -EBUSY && more < STOP_AGAIN; more++)
		rc = ppe_stop(run->ppe, 0);
	run->abandoned = rc == -EBUSY;
	if (rc == -ETIMEDOUT)
		fprintf(stderr, "weir-switch: packets in progress were dropped after %d ms\n",
			STOP_LIMIT_MS);
	stats = ctrl_stats_read(run->running);
	ppe_destroy(run->ppe, &leaks);
	destroy_running(run);
	ctrl_stats_add_leaks(stats, &leaks);
	report(stats, run->options->stats_file, LAST_WORDS_MS);
	json_decref(stats);
	return account(&leaks);
}

static void
remove_files(const char *folder, const char *prefix)
{
	char pattern[PATH_MAX];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/%s*", folder, prefix);
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		unlink(found.gl_pathv[i]);
	globfree(&found);
}

/* Remove what EAL leaves: its runtime folder, and huge pages that are files, which would stay in use. */
static void
clean_up(bool is_shared)
{
	const char *folder = rte_eal_get_runtime_dir();
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	const struct mntent *mount;
	char prefix[NAME_MAX];

	if (folder[0] == '\0')
		return;
	snprintf(prefix, sizeof(prefix), "%smap_", strrchr(folder, '/') + 1);
	while (mounts != NULL && (mount = getmntent(mounts)) != NULL)
		if (strcmp(mount->mnt_type, "hugetlbfs") == 0)
			remove_files(mount->mnt_dir, prefix);
	if (mounts != NULL)
		endmntent(mounts);
	/* Without a shared configuration nothing says that the folder is this process's alone. */
	if (is_shared)
		remove_files(folder, "");
	rmdir(folder);
}

/* Start, run, stop and destroy the switch. Returns the exit status. */
static int
live(struct run *run)
{
	int rc;

	ppe_print(run->ppe, stdout);
	fflush(stdout);
	if (start(run) < 0) {
		ppe_destroy(run->ppe, NULL);
		destroy_running(run);
		return 1;
	}
	run->running->is_ready = true;
	puts("weir-switch: ready");
	fflush(stdout);
	notify_ready();
	notify_status("%s: %u ports, %u jobs of the file", (*run->config)->name,
		(*run->config)->nb_ports, (*run->config)->nb_jobs);
	rc = loop(run);
	if (rc < 0)
		fprintf(stderr, "weir-switch: the event loop: %s\n", strerror(-rc));
	return stop(run) != 0 || rc < 0;
}

int
run_switch(const struct options *options, struct ctrl_config **in_out, const json_t *state,
	struct ctrl_program **programs)
{
	struct run run = {.options = options,
		.config = in_out,
		.state = state,
		.programs = programs,
		.stuck = -1};
	struct ctrl_config *config = *in_out;
	sigset_t set = loop_signals();
	int status = 1;

	ctrl_log_set_levels(&config->log);
	notify_open();
	/* Before EAL creates its threads, which inherit the mask. */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* Shells start background jobs with SIGINT ignored. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	if (start_eal(config) == 0) {
		ctrl_log_set_levels(&config->log);
		ctrl_state_begin(state, config);
		run.ppe = ppe_create(&config->ppe, config->port, config->nb_ports, &config->jobs);
		if (run.ppe != NULL)
			status = live(&run);
		else
			fprintf(stderr, "weir-switch: the switch cannot be created: %s\n",
				rte_strerror(rte_errno));
		/* A worker still runs: do not free its memory. */
		if (run.abandoned) {
			fflush(stdout);
			_exit(1);
		}
		pktbuf_cleanup_eal();
		clean_up((*run.config)->capture);
	}
	fflush(stdout);
	return status;
}

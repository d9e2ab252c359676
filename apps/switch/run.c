/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/switch/run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_pdump.h>

#include "ctrl/interface.h"
#include "ctrl/stats.h"
#include "ppe/ppe.h"

#define STOP_LIMIT_MS 2000

/* The signals that the control thread takes, one by one, when it is ready for them. */
static sigset_t
our_signals(void)
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
			"weir-switch: DPDK does not start (%s): the lines above say why; see "
			"\"eal\", \"memory_mb\" and the ports' \"device\" in the configuration\n",
			rte_strerror(rte_errno));
	}
	free(argv);
	return rc < 0 ? rc : 0;
}

/* Answer dpdk-dumpcap. What it costs begins when that attaches: a callback of each queue. */
static int
offer_capture(void)
{
	if (rte_pdump_init() == 0)
		return 0;
	fprintf(stderr, "weir-switch: \"capture\" does not start: %s\n", rte_strerror(rte_errno));
	return -EIO;
}

/* The TAP is a port of the switch by now; make it an interface of this machine. */
static int
set_exception(const struct ctrl_config *config)
{
	int rc = 0;

	if (config->exception[0] != '\0')
		rc = ctrl_interface_set(config->exception, config->ppe.identity.ip, config->prefix);
	if (rc < 0)
		fprintf(stderr,
			"weir-switch: interface %s can't have the switch's address: %s: is the "
			"address in use, or CAP_NET_ADMIN missing?\n",
			config->exception, strerror(-rc));
	return rc;
}

static void
report(const struct ctrl_stats *stats, const char *stats_file)
{
	int rc = stats_file == NULL ? 0 : ctrl_stats_write(stats, stats_file);

	if (rc < 0)
		fprintf(stderr, "weir-switch: %s: %s\n", stats_file, strerror(-rc));
	ctrl_stats_print(stats, stdout);
	fflush(stdout);
}

/* Sleep until a signal says stop; answer SIGUSR1 meanwhile. */
static void
serve(const struct ctrl_config *config, const struct ppe *ppe, struct ctrl_stats *stats,
	const char *stats_file)
{
	sigset_t set = our_signals();

	for (;;) {
		int number = sigwaitinfo(&set, NULL);

		/* EINTR: drivers have signals of their own (net_tap's real-time ones). */
		if (number < 0)
			continue;
		if (number != SIGUSR1)
			return;
		ctrl_stats_read(stats, ppe, config);
		report(stats, stats_file);
	}
}

static int
account(const struct ctrl_stats *stats)
{
	const struct ppe_leaks *l = &stats->leaks;

	if (ctrl_leaks_none(l)) {
		puts("weir-switch: stopped, everything returned");
		return 0;
	}
	puts("weir-switch: stopped, not everything returned:");
#define X(name, help)                                                                              \
	if (l->name != 0)                                                                          \
		printf("  %" PRIu64 " %s: " help "\n", l->name, #name);
	PPE_LEAKS(X)
#undef X
	return 1;
}

/* From a built switch to a destroyed one. Returns the exit status. */
static int
live(const struct ctrl_config *config, struct ppe *ppe, struct ctrl_stats *stats,
	const char *stats_file)
{
	int rc;

	ppe_print(ppe, stdout);
	fflush(stdout);
	/* After the ports have started: the driver takes the TAP up and down by itself. */
	rc = ppe_start(ppe);
	if (rc < 0)
		fprintf(stderr, "weir-switch: the switch does not start: %s\n", strerror(-rc));
	if (rc == 0)
		rc = set_exception(config);
	if (rc == 0 && config->capture)
		rc = offer_capture();
	if (rc < 0) {
		ppe_destroy(ppe, NULL);
		return 1;
	}
	puts("weir-switch: ready");
	fflush(stdout);
	serve(config, ppe, stats, stats_file);
	if (ppe_stop(ppe, STOP_LIMIT_MS) < 0)
		fprintf(stderr, "weir-switch: packets under way were abandoned after %d ms\n",
			STOP_LIMIT_MS);
	ctrl_stats_read(stats, ppe, config);
	ppe_destroy(ppe, &stats->leaks);
	stats->stopped = true;
	report(stats, stats_file);
	return account(stats);
}

int
run_switch(const struct ctrl_config *config, const char *stats_file)
{
	struct ctrl_stats *stats = calloc(1, sizeof(*stats));
	sigset_t set = our_signals();
	struct ppe *ppe;
	int status = 1;

	if (stats == NULL)
		return 1;
	/* Before EAL makes its threads, which inherit this. */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* Shells start background jobs with SIGINT ignored; who sends it means it. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	if (start_eal(config) == 0) {
		ppe = ppe_create(&config->ppe, config->port, config->nb_ports, &config->jobs, NULL);
		if (ppe != NULL)
			status = live(config, ppe, stats, stats_file);
		else
			fprintf(stderr, "weir-switch: the switch can't be built: %s\n",
				rte_strerror(rte_errno));
		rte_eal_cleanup();
		rmdir(rte_eal_get_runtime_dir()); /* EAL leaves it, empty */
	}
	free(stats);
	fflush(stdout);
	return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-fake-switch: the reference switch as a process, for tests of the hosts' tools. It prints
 * "ready" when its sockets are open, and ends by itself after --seconds, or on SIGTERM.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/model/fake_switch.h"

static const struct option longs[] = {
	{"address", required_argument, NULL, 'a'},
	{"port-base", required_argument, NULL, 'b'},
	{"port-ext", required_argument, NULL, 'e'},
	{"job", required_argument, NULL, 'j'},
	{"sources", required_argument, NULL, 'n'},
	{"window", required_argument, NULL, 'w'},
	{"elements", required_argument, NULL, 'l'},
	{"type", required_argument, NULL, 't'},
	{"policy", required_argument, NULL, 'p'},
	{"timeout", required_argument, NULL, 'm'},
	{"loss", required_argument, NULL, 'L'},
	{"duplicate", required_argument, NULL, 'D'},
	{"reorder", required_argument, NULL, 'R'},
	{"seed", required_argument, NULL, 's'},
	{"seconds", required_argument, NULL, 'S'},
	{NULL, 0, NULL, 0},
};

static enum model_policy
policy(const char *text)
{
	return strcmp(text, "partial") == 0  ? MODEL_PARTIAL
		: strcmp(text, "error") == 0 ? MODEL_ERROR
					     : MODEL_WAIT;
}

int
main(int argc, char **argv)
{
	struct fake_switch_config c = {
		.address = "127.0.0.1",
		.seed = 1,
		.job = {.job = 1,
			.sources = 2,
			.window = 32,
			.elements = 256,
			.dtype = WEIR_DTYPE_FP32,
			.timeout_ms = 1000},
	};
	struct timespec wait = {.tv_sec = 60};
	struct fake_switch_stats stats;
	struct fake_switch *fake;
	sigset_t ends;
	int option, code;

	while ((option = getopt_long_only(argc, argv, "", longs, NULL)) != -1) {
		switch (option) {
		case 'a': c.address = optarg; break;
		case 'b': c.port_base = (uint16_t)atoi(optarg); break;
		case 'e': c.port_ext = (uint16_t)atoi(optarg); break;
		case 'j': c.job.job = (uint8_t)atoi(optarg); break;
		case 'n': c.job.sources = (unsigned int)atoi(optarg); break;
		case 'w': c.job.window = (unsigned int)atoi(optarg); break;
		case 'l': c.job.elements = (unsigned int)atoi(optarg); break;
		case 't':
			c.job.dtype =
				strcmp(optarg, "int32") == 0 ? WEIR_DTYPE_INT32 : WEIR_DTYPE_FP32;
			break;
		case 'p': c.job.policy = policy(optarg); break;
		case 'm': c.job.timeout_ms = (uint32_t)atoi(optarg); break;
		case 'L': c.loss = atof(optarg); break;
		case 'D': c.duplicate = atof(optarg); break;
		case 'R': c.reorder = atof(optarg); break;
		case 's': c.seed = strtoull(optarg, NULL, 0); break;
		case 'S': wait.tv_sec = atoi(optarg); break;
		default: return 2;
		}
	}
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	code = fake_switch_start(&c, &fake);
	if (code < 0) {
		fprintf(stderr, "weir-fake-switch: %s\n", strerror(-code));
		return 1;
	}
	printf("ready %u %u\n", fake_switch_port(fake, false), fake_switch_port(fake, true));
	fflush(stdout);
	while (sigtimedwait(&ends, NULL, &wait) < 0 && errno == EINTR)
		;
	fake_switch_stop(fake, &stats);
	printf("received %llu, sent %llu, lost %llu\n", (unsigned long long)stats.received,
		(unsigned long long)stats.sent, (unsigned long long)stats.lost);
	return 0;
}

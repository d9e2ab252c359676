/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/compare/bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "apps/verify/verify.h"

char bench_error[BENCH_ERROR_BYTES];

int
bench_fail(const char *text)
{
	snprintf(bench_error, sizeof(bench_error), "%.*s", BENCH_ERROR_BYTES - 1, text);
	return -1;
}

/* A command: `run COLLECTIVE TYPE TOTAL ALGORITHM WARMUP ITERATIONS SEED CHECK`. */
struct command {
	char collective[16], type[16], algorithm[32];
	unsigned long total, warmup, iterations, seed, check;
};

struct ranks {
	unsigned int rank, ranks;
	FILE *answers;
};

/* All processes are on one machine and have the same clock. */
static uint64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* From the kernel and back to it: a system that is not measured holds no memory. */
static void *
buffer_create(size_t bytes)
{
	void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		return NULL;
	memset(made, 0xaa, bytes); /* no page faults while the clock runs */
	return made;
}

/* The measurement. */
static int
measure(const struct bench_operation *operation, const struct command *c, uint64_t *began,
	uint64_t *ended)
{
	if (system_prepare != NULL && system_prepare(operation) < 0)
		return -1;
	for (unsigned long i = 0; i < c->warmup; i++)
		if (system_run(operation) < 0)
			return -1;
	if (system_barrier() < 0)
		return -1;
	*began = now();
	for (unsigned long i = 0; i < c->iterations; i++)
		if (system_run(operation) < 0)
			return -1;
	*ended = now();
	/* No rank goes to sleep while another waits for packets in its queues. */
	return system_barrier();
}

static int
run(const struct ranks *me, struct verify *v, const struct command *c)
{
	size_t given = 4 * verify_sent(v), got = 4 * verify_received(v), wrong = 0;
	void *send = buffer_create(4 * c->total), *recv = buffer_create(got);
	struct bench_operation operation = {.algorithm = c->algorithm};
	uint64_t began = 0, ended = 0;
	int code = -1;

	if (send == NULL || recv == NULL) {
		code = bench_fail("out of memory");
	} else {
		void *at = v->call.collective == WEIR_COLLECTIVE_BROADCAST
			? verify_place(v, recv, NULL)
			: verify_place(v, send, recv);

		verify_fill(v, me->rank, 0, given / 4, at);
		operation.call = v->call;
		code = measure(&operation, c, &began, &ended);
		if (code == 0 && c->check)
			wrong = verify_wrong(v, NULL, 0);
	}
	if (code == 0)
		fprintf(me->answers,
			"{\"rank\": %u, \"began\": %llu, \"ended\": %llu, \"wrong\": %zu, "
			"\"fingerprint\": \"%016llx\"}\n",
			me->rank, (unsigned long long)began, (unsigned long long)ended, wrong,
			(unsigned long long)verify_fingerprint(VERIFY_FINGERPRINT, recv, got));
	if (send != NULL)
		munmap(send, 4 * c->total);
	if (recv != NULL)
		munmap(recv, got);
	return code;
}

static int
obey(const struct ranks *me, const char *line)
{
	struct verify v = {.rank = me->rank, .ranks = me->ranks};
	int collective, dtype;
	struct command c;
	size_t unit;

	if (sscanf(line, "run %15s %15s %lu %31s %lu %lu %lu %lu", c.collective, c.type, &c.total,
		    c.algorithm, &c.warmup, &c.iterations, &c.seed, &c.check) != 8 ||
		c.total == 0 || c.iterations == 0)
		return bench_fail(line);
	collective = weir_collective_parse(c.collective);
	dtype = weir_dtype_parse(c.type);
	if (collective < 0 || dtype < 0 || weir_dtype_bytes(dtype) != 4)
		return bench_fail(line);
	unit = verify_has_slices(collective) ? me->ranks : 1;
	v.call.collective = collective;
	v.call.dtype = dtype;
	v.call.count = c.total / unit;
	v.seed = c.seed;
	return c.total % unit != 0 ? bench_fail(line) : run(me, &v, &c);
}

static int
connect_to(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(to.sun_path))
		return -1;
	memcpy(to.sun_path, path, strlen(path));
	return connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 ? fd : -1;
}

/* usage: PROGRAM SOCKET [the system's own arguments] */
int
main(int argc, char **argv)
{
	struct ranks me = {0};
	char line[512];
	FILE *commands;
	int fd, status = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc < 2 || (fd = connect_to(argv[1])) < 0 || (commands = fdopen(fd, "r")) == NULL ||
		(me.answers = fdopen(dup(fd), "w")) == NULL) {
		fprintf(stderr, "compare: no process listens at %s\n",
			argc < 2 ? "(no socket)" : argv[1]);
		return 1;
	}
	if (system_open(argc - 2, argv + 2, &me.rank, &me.ranks) < 0) {
		fprintf(stderr, "compare: %s\n", bench_error);
		return 1;
	}
	fprintf(me.answers, "{\"rank\": %u, \"ranks\": %u}\n", me.rank, me.ranks);
	fflush(me.answers);
	while (status == 0 && fgets(line, sizeof(line), commands) != NULL) {
		if (obey(&me, line) < 0) {
			fprintf(stderr, "compare: rank %u: %s\n", me.rank, bench_error);
			status = 1;
		}
		fflush(me.answers);
	}
	/* After a failure the others may wait for this rank forever: it exits, and compare.py ends them. */
	if (status == 0)
		system_close();
	return status;
}

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

char bench_error[BENCH_ERROR_BYTES];

/* A command: `run COLLECTIVE TYPE TOTAL ALGORITHM WARMUP ITERATIONS SEED CHECK FILE`. */
struct command {
	char collective[16], type[8], algorithm[32], file[256];
	unsigned long total, warmup, iterations, seed, check;
};

struct ranks {
	unsigned int rank, ranks;
	FILE *answers;
};

static const char *const collectives[] = {
	[BENCH_ALLREDUCE] = "allreduce",
	[BENCH_REDUCESCATTER] = "reducescatter",
	[BENCH_ALLGATHER] = "allgather",
	[BENCH_ALLTOALL] = "alltoall",
};

/* All processes are on one machine, so their clocks are one. */
static uint64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Pages come from the kernel and go back to it: the systems that rest hold no memory. */
static void *
buffer_create(size_t bytes)
{
	void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		return NULL;
	memset(made, 0xaa, bytes); /* or the pages would come while the clock runs */
	return made;
}

static uint64_t
fingerprint(const void *data, size_t count)
{
	const uint32_t *words = data;
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ words[i]) * 0x100000001b3u;
	return hash;
}

static int
write_result(const char *path, const void *data, size_t bytes)
{
	FILE *file = fopen(path, "we");
	bool good = file != NULL && fwrite(data, 1, bytes, file) == bytes;

	if (file != NULL && fclose(file) != 0)
		good = false;
	if (!good)
		snprintf(bench_error, sizeof(bench_error), "%s cannot be written", path);
	return good ? 0 : -1;
}

/* The measurement. 0, or -1 and bench_error. */
static int
measure(const struct bench_operation *operation, const struct command *c, const void *send,
	void *recv, uint64_t *began, uint64_t *ended)
{
	if (system_prepare(operation, send, recv) < 0)
		return -1;
	for (unsigned long i = 0; i < c->warmup; i++)
		if (system_run(operation, send, recv) < 0)
			return -1;
	if (system_barrier() < 0)
		return -1;
	*began = now();
	for (unsigned long i = 0; i < c->iterations; i++)
		if (system_run(operation, send, recv) < 0)
			return -1;
	*ended = now();
	/* Nobody goes to sleep while another still waits for what is in this process' queues. */
	return system_barrier();
}

static int
run(const struct ranks *me, const struct bench_operation *operation, const struct command *c)
{
	size_t given = bench_given(operation, me->ranks), got = bench_gotten(operation, me->ranks);
	uint32_t *send = buffer_create(4 * given), *recv = buffer_create(4 * got);
	uint64_t began = 0, ended = 0;
	size_t wrong = 0;
	int code = -1;

	if (send == NULL || recv == NULL) {
		snprintf(bench_error, sizeof(bench_error), "no memory for %zu elements", given);
	} else {
		bench_fill(c->seed, operation->fp32, me->rank, given, send);
		code = measure(operation, c, send, recv, &began, &ended);
		if (code == 0 && c->check)
			wrong = bench_wrong(operation, c->seed, me->rank, me->ranks, recv);
		if (code == 0 && strcmp(c->file, "-") != 0)
			code = write_result(c->file, recv, 4 * got);
	}
	if (code == 0)
		fprintf(me->answers,
			"{\"rank\": %u, \"began\": %llu, \"ended\": %llu, \"wrong\": %zu, "
			"\"fingerprint\": \"%016llx\"}\n",
			me->rank, (unsigned long long)began, (unsigned long long)ended, wrong,
			(unsigned long long)fingerprint(recv, got));
	if (send != NULL)
		munmap(send, 4 * given);
	if (recv != NULL)
		munmap(recv, 4 * got);
	return code;
}

/* 0, or -1 and bench_error. */
static int
obey(const struct ranks *me, const char *line)
{
	struct bench_operation operation = {.algorithm = "default"};
	struct command c;
	size_t which = 0;

	if (sscanf(line, "run %15s %7s %lu %31s %lu %lu %lu %lu %255s", c.collective, c.type,
		    &c.total, c.algorithm, &c.warmup, &c.iterations, &c.seed, &c.check,
		    c.file) != 9 ||
		c.total == 0 || c.iterations == 0) {
		snprintf(bench_error, sizeof(bench_error), "no command: %.100s", line);
		return -1;
	}
	while (which < sizeof(collectives) / sizeof(collectives[0]) &&
		strcmp(c.collective, collectives[which]) != 0)
		which++;
	operation.collective = (enum bench_collective)which;
	operation.fp32 = strcmp(c.type, "fp32") == 0;
	operation.total = c.total;
	operation.algorithm = c.algorithm;
	if (which == sizeof(collectives) / sizeof(collectives[0]) ||
		(which != BENCH_ALLREDUCE && c.total % me->ranks != 0)) {
		snprintf(bench_error, sizeof(bench_error), "no operation: %.100s", line);
		return -1;
	}
	return run(me, &operation, &c);
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
		fprintf(stderr, "compare: nobody listens at %s\n",
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
	/* After a failure others may wait for this rank for ever: it goes, and they are ended. */
	if (status == 0)
		system_close();
	return status;
}

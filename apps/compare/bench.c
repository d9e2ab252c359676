/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/compare/bench.h"

#include <math.h>
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

int
bench_fail(const char *text)
{
	snprintf(bench_error, sizeof(bench_error), "%.*s", BENCH_ERROR_BYTES - 1, text);
	return -1;
}

/* A command: `run COLLECTIVE TYPE TOTAL ALGORITHM WARMUP ITERATIONS SEED CHECK`. */
struct command {
	char collective[16], type[8], algorithm[32];
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
	[BENCH_BROADCAST] = "broadcast",
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

static uint64_t
fingerprint(const void *data, size_t count)
{
	const uint32_t *words = data;
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ words[i]) * 0x100000001b3u;
	return hash;
}

/* splitmix64: every element on its own, so that each rank knows what the others give. */
static uint32_t
random_bits(uint64_t seed, unsigned int rank, size_t i)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + ((uint64_t)rank << 40) + i + 1;

	x *= 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) >> 32);
}

static float
as_float(uint32_t bits)
{
	return (float)((int32_t)(bits >> 8) - (1 << 23)) * 0x1p-23f;
}

/* Write what a rank gives: int32 sums overflow, and must wrap; fp32 are in [-1, 1), in steps of 2^-23. */
static void
fill(uint64_t seed, bool fp32, unsigned int rank, size_t count, void *to)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = random_bits(seed, rank, i);

		if (fp32)
			((float *)to)[i] = as_float(bits);
		else
			((uint32_t *)to)[i] = bits;
	}
}

static size_t
given_by(const struct bench_operation *operation, unsigned int ranks)
{
	return operation->collective == BENCH_ALLGATHER ? operation->total / ranks
							: operation->total;
}

static size_t
received_by(const struct bench_operation *operation, unsigned int ranks)
{
	return operation->collective == BENCH_REDUCESCATTER ? operation->total / ranks
							    : operation->total;
}

static bool
wrong_sum(bool fp32, uint64_t seed, unsigned int ranks, size_t i, const void *got)
{
	uint32_t whole = 0;
	double sum = 0, size = 0;
	float value;

	for (unsigned int rank = 0; rank < ranks; rank++) {
		uint32_t bits = random_bits(seed, rank, i);

		whole += bits;
		if (fp32) {
			sum += as_float(bits);
			size += fabs(as_float(bits));
		}
	}
	if (!fp32)
		return memcmp(got, &whole, sizeof(whole)) != 0;
	memcpy(&value, got, sizeof(value));
	/* Not "greater than": a NaN is wrong. */
	return !(fabs(value - sum) <= (ranks - 1) * 0x1p-24 * (1 + 0x1p-14) * size);
}

/* The elements at `got` that are wrong: int32 and copies must be exact; sums of fp32 within (n - 1) 2^-24 sum|x|
 * (1 + 2^-14) of the sum in fp64 (Higham, Accuracy and Stability of Numerical Algorithms, eq. 4.4). */
static size_t
count_wrong(const struct bench_operation *operation, uint64_t seed, unsigned int rank,
	unsigned int ranks, const void *got)
{
	size_t count = received_by(operation, ranks), slice = operation->total / ranks, wrong = 0;
	const uint8_t *at = got;

	for (size_t i = 0; i < count; i++, at += 4) {
		/* The rank that gave this element, and its place there. */
		unsigned int giver = (unsigned int)(slice == 0 ? 0 : i / slice);
		size_t place = operation->collective == BENCH_ALLTOALL ? rank * slice + i % slice
								       : i % (slice ? slice : 1);
		uint32_t bits;
		float value;

		if (operation->collective == BENCH_ALLREDUCE) {
			wrong += wrong_sum(operation->fp32, seed, ranks, i, at);
			continue;
		}
		if (operation->collective == BENCH_BROADCAST) {
			giver = 0;
			place = i;
		}
		if (operation->collective == BENCH_REDUCESCATTER) {
			wrong += wrong_sum(operation->fp32, seed, ranks, rank * slice + i, at);
			continue;
		}
		bits = random_bits(seed, giver, place);
		value = as_float(bits);
		wrong += memcmp(at, operation->fp32 ? (const void *)&value : &bits, 4) != 0;
	}
	return wrong;
}

/* The measurement. */
static int
measure(const struct bench_operation *operation, const struct command *c, const void *send,
	void *recv, uint64_t *began, uint64_t *ended)
{
	if (system_prepare != NULL && system_prepare(operation, send, recv) < 0)
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
	/* No rank goes to sleep while another waits for packets in its queues. */
	return system_barrier();
}

static int
run(const struct ranks *me, const struct bench_operation *operation, const struct command *c)
{
	size_t given = given_by(operation, me->ranks), got = received_by(operation, me->ranks);
	uint32_t *send = buffer_create(4 * given), *recv = buffer_create(4 * got);
	uint64_t began = 0, ended = 0;
	size_t wrong = 0;
	int code = -1;

	if (send == NULL || recv == NULL) {
		code = bench_fail("out of memory");
	} else {
		fill(c->seed, operation->fp32, me->rank, given, send);
		if (operation->collective == BENCH_BROADCAST && me->rank == 0)
			memcpy(recv, send, 4 * got);
		code = measure(operation, c, send, recv, &began, &ended);
		if (code == 0 && c->check)
			wrong = count_wrong(operation, c->seed, me->rank, me->ranks, recv);
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

static int
obey(const struct ranks *me, const char *line)
{
	struct bench_operation operation = {.algorithm = "default"};
	struct command c;
	size_t which = 0;

	if (sscanf(line, "run %15s %7s %lu %31s %lu %lu %lu %lu", c.collective, c.type, &c.total,
		    c.algorithm, &c.warmup, &c.iterations, &c.seed, &c.check) != 8 ||
		c.total == 0 || c.iterations == 0)
		return bench_fail(line);
	while (which < sizeof(collectives) / sizeof(collectives[0]) &&
		strcmp(c.collective, collectives[which]) != 0)
		which++;
	operation.collective = (enum bench_collective)which;
	operation.fp32 = strcmp(c.type, "fp32") == 0;
	operation.total = c.total;
	operation.algorithm = c.algorithm;
	if (which == sizeof(collectives) / sizeof(collectives[0]) ||
		(which != BENCH_ALLREDUCE && c.total % me->ranks != 0))
		return bench_fail(line);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *	conform SEED CALLS SCENARIO...
 *
 * Rank 0 prints `ok` and a scenario's name when it has passed. `mixed`, `trace` and `tight` change the scenarios behind
 * them; `threads` asks for MPI_THREAD_MULTIPLE.
 */
#include "tests/functional/mpi/conform.h"
#include "tests/functional/mpi/persistent.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, MANY = 100, UNUSED = 300, ROUNDS = 12, OPENING = 8, SIZES = 100, ALIKE = 6 };
enum { LARGE = 10000000, PIECES = 100, PIECE = LARGE / PIECES };

static uint64_t seed;
static unsigned int calls;
static char *program;
static int rank, ranks;

uint64_t
draw_at(uint64_t from, uint64_t first, uint64_t second)
{
	uint64_t x =
		from + first * UINT64_C(0x9e3779b97f4a7c15) + second * UINT64_C(0xd1b54a32d192ed03);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t
draw64(struct draw *draw)
{
	return draw_at(draw->state++, 0, 0);
}

unsigned int
draw_below(struct draw *draw, unsigned int n)
{
	return (unsigned int)(draw64(draw) % n);
}

/* Sum of the ranks' numbers of a communicator. */
static void
sum_right(MPI_Comm comm)
{
	int mine, all, sum = 0;

	MPI_Comm_rank(comm, &mine);
	MPI_Comm_size(comm, &all);
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
	if (sum != all * (all - 1) / 2)
		fail("Allreduce: %d", sum);
}

static void
exercise_and_free(MPI_Comm comm, const char *what, uint64_t own)
{
	if (comm == MPI_COMM_NULL)
		return;
	exercise(comm, what, seed + own, calls);
	MPI_Comm_free(&comm);
}

static void
world(void)
{
	exercise(MPI_COMM_WORLD, "world", seed, 4 * calls);
}

static void
communicators(void)
{
	MPI_Group all, some;
	MPI_Request request;
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	exercise_and_free(comm, "dup", 1);
	MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	exercise_and_free(comm, "idup", 2);
	/* On some ranks it ends in the wait for the other call. */
	MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
	if (rank % 2 == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	sum_right(MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	exercise_and_free(comm, "idup beside a call", 11);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
	exercise_and_free(comm, "split, ranks reversed", 3);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, (rank * 5) % ranks, &comm);
	exercise_and_free(comm, "split in two", 4 + (uint64_t)(rank % 2));
	MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, (int[]){1}, 1, &comm);
	exercise_and_free(comm, "cart", 6);

	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_range_incl(all, 1, (int[][3]){{ranks - 1, 1, -1}}, &some);
	MPI_Comm_create(MPI_COMM_WORLD, some, &comm);
	exercise_and_free(comm, "create", 7);
	if (rank > 0) {
		MPI_Comm_create_group(MPI_COMM_WORLD, some, 9, &comm);
		exercise_and_free(comm, "create_group", 8);
	}
	MPI_Group_free(&some);
	MPI_Group_free(&all);
	exercise_and_free((MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &comm), comm), "one rank", 9);
}

/* Of the parents and of their children. */
static void
between(MPI_Comm children, int high)
{
	MPI_Comm merged;
	int sum = 0, remote;

	MPI_Comm_remote_size(children, &remote);
	MPI_Allreduce(&(int){high ? 100 : 1}, &sum, 1, MPI_INT, MPI_SUM, children);
	if (sum != remote * (high ? 1 : 100))
		fail("Allreduce with another group: %d", sum);
	MPI_Intercomm_merge(children, high, &merged);
	exercise_and_free(merged, "spawn and merge", 10);
	MPI_Comm_disconnect(&children);
}

static void
spawned(void)
{
	char seed_text[24], calls_text[24], *words[] = {seed_text, calls_text, NULL};
	MPI_Comm children;

	snprintf(seed_text, sizeof(seed_text), "%llu", (unsigned long long)seed);
	snprintf(calls_text, sizeof(calls_text), "%u", calls);
	mixed_layouts = false; /* two ranks on a host, where MPI has the last word */
	/* One: Open MPI 4.1 does not start two on different hosts of ours. */
	MPI_Comm_spawn(program, words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
		MPI_ERRCODES_IGNORE);
	between(children, 0);
}

static void
receive_pieces(char *in, int left)
{
	for (int i = 0; i < PIECES; i++)
		MPI_Recv(in + i * PIECE, PIECE, MPI_CHAR, left, i, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
}

/* More messages than MPI sends at once. */
static void
send_pieces(char *out, char *in, int right, int left)
{
	MPI_Request sending[PIECES];

	memset(out, rank, LARGE);
	for (int i = 0; i < PIECES; i++)
		MPI_Isend(out + i * PIECE, PIECE, MPI_CHAR, right, i, MPI_COMM_WORLD, &sending[i]);
	if (rank % 2 == 1)
		receive_pieces(in, left);
	sum_right(MPI_COMM_WORLD);
	if (rank % 2 == 0)
		receive_pieces(in, left);
	MPI_Waitall(PIECES, sending, MPI_STATUSES_IGNORE);
	if (in[0] != (char)left || memcmp(in, in + 1, LARGE - 1) != 0)
		fail("many sends beside a collective");
}

/* A send needs progress at its sender while that is inside of a collective, and the receiver is not yet. */
static void
sends(void)
{
	char *out = malloc(LARGE), *in = malloc(LARGE);
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, sum, ones;
	MPI_Request sending, receiving, reducing;

	send_pieces(out, in, right, left);
	for (int way = 0; way < 4; way++) {
		memset(out, rank + way, LARGE);
		memset(in, 99, LARGE);
		MPI_Isend(out, LARGE, MPI_CHAR, right, way, MPI_COMM_WORLD, &sending);
		if (way == 0 && rank % 2 == 1)
			MPI_Recv(in, LARGE, MPI_CHAR, left, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (way == 1)
			MPI_Barrier(MPI_COMM_WORLD);
		else if (way == 2) {
			MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &reducing);
			MPI_Wait(&reducing, MPI_STATUS_IGNORE);
		} else
			sum_right(MPI_COMM_WORLD);
		if (way != 0 || rank % 2 == 0) {
			MPI_Irecv(in, LARGE, MPI_CHAR, left, way, MPI_COMM_WORLD, &receiving);
			if (way == 3)
				sum_right(MPI_COMM_WORLD);
			MPI_Wait(&receiving, MPI_STATUS_IGNORE);
		} else if (way == 3)
			sum_right(MPI_COMM_WORLD);
		MPI_Wait(&sending, MPI_STATUS_IGNORE);
		if (in[0] != (char)(left + way) || memcmp(in, in + 1, LARGE - 1) != 0)
			fail("a send beside a collective");
	}
	/* A rank receives while its nonblocking collective runs, and another sends after it. */
	MPI_Iallreduce(&(int){1}, &ones, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &reducing);
	if (rank == 0) {
		MPI_Wait(&reducing, MPI_STATUS_IGNORE);
		for (int to = 1; to < ranks; to++)
			MPI_Send(out, LARGE, MPI_CHAR, to, 7, MPI_COMM_WORLD);
	} else {
		MPI_Recv(in, LARGE, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Wait(&reducing, MPI_STATUS_IGNORE);
	}
	if (ones != ranks)
		fail("a collective beside sends: %d", ones);
	free(out);
	free(in);
}

/* Several communicators at once, and calls that are MPI's between those of Weir. */
static void
interleaved(void)
{
	MPI_Comm comms[3];
	MPI_Request requests[3], big;
	enum { COUNT = 5000 };
	static int mine[COUNT], all[COUNT];
	int *counts = malloc((size_t)ranks * sizeof(int)),
	    *places = malloc((size_t)ranks * sizeof(int));
	int *gathered = malloc((size_t)(ranks * ranks) * sizeof(int)), numbers[3], sums[3], scanned;

	for (int i = 0; i < 3; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int i = 0; i < ranks; i++)
		counts[i] = i + 1, places[i] = i * (i + 1) / 2;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < COUNT; i++)
			mine[i] = i * rank + round;
		MPI_Iallreduce(mine, all, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &big);
		for (int i = 0; i < 3; i++)
			numbers[i] = rank + i,
			MPI_Iallreduce(
				&numbers[i], &sums[i], 1, MPI_INT, MPI_SUM, comms[i], &requests[i]);
		for (int i = 0; i < counts[rank]; i++)
			gathered[places[rank] + i] = rank * round + i;
		MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INT, gathered, counts, places, MPI_INT,
			comms[round % 3]);
		MPI_Scan(&rank, &scanned, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		sum_right(comms[(round + 1) % 3]);
		for (int i = 0; i < 3; i++)
			MPI_Wait(&requests[(i + rank + round) % 3], MPI_STATUS_IGNORE);
		MPI_Wait(&big, MPI_STATUS_IGNORE);
		for (int i = 0; i < 3; i++)
			if (sums[i] != ranks * (ranks - 1) / 2 + i * ranks)
				fail("communicator %d: %d", i, sums[i]);
		for (int i = 0; i < COUNT; i++)
			if (all[i] != i * (ranks * (ranks - 1) / 2) + ranks * round)
				fail("element %d: %d", i, all[i]);
		for (int from = 0; from < ranks; from++)
			for (int i = 0; i < counts[from]; i++)
				if (gathered[places[from] + i] != from * round + i)
					fail("Allgatherv");
		if (scanned != rank * (rank + 1) / 2)
			fail("Scan: %d", scanned);
	}
	for (int i = 0; i < 3; i++)
		MPI_Comm_free(&comms[i]);
	free(counts);
	free(places);
	free(gathered);
}

static MPI_Comm thread_comms[THREADS];

static void *
thread(void *argument)
{
	uint64_t number = (uint64_t)(uintptr_t)argument;

	exercise(thread_comms[number], "a thread", seed + 20 + number, calls);
	return NULL;
}

static void
threads(void)
{
	pthread_t ids[THREADS];
	int provided;

	MPI_Query_thread(&provided);
	if (provided != MPI_THREAD_MULTIPLE)
		fail("no MPI_THREAD_MULTIPLE");
	for (int i = 0; i < THREADS; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &thread_comms[i]);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&ids[i], NULL, thread, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	for (int i = 0; i < THREADS; i++)
		MPI_Comm_free(&thread_comms[i]);
}

static void
in_a_row(void)
{
	MPI_Comm comm;

	sum_right(MPI_COMM_WORLD);
	for (int i = 0; i < MANY; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		sum_right(comm);
		MPI_Comm_free(&comm);
	}
}

/* As many calls as a communicator needs to get a job. */
static void
open_by_calls(MPI_Comm comm)
{
	for (int i = 0; i < OPENING; i++)
		sum_right(comm);
}

/* Communicators of the same ranks, one after the other, made in several ways and opened by a call of each kind. */
static void
alike(void)
{
	MPI_Group all;
	MPI_Comm comm;
	MPI_Request request;

	sum_right(MPI_COMM_WORLD);
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	for (int i = 0; i < ALIKE; i++) {
		int sum = 0;

		if (i % 3 == 0)
			MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		else if (i % 3 == 1)
			MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
		else
			MPI_Comm_create_group(MPI_COMM_WORLD, all, 9, &comm);
		for (int call = 1; call < OPENING; call++)
			sum_right(comm);
		if (i % 2 == 0) {
			MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
			if (sum != ranks * (ranks - 1) / 2)
				fail("Iallreduce: %d", sum);
		}
		exercise_and_free(comm, "alike", 12 + (uint64_t)i);
	}
	MPI_Group_free(&all);
}

/*
 * Communicators of the ranks of a mask. Rank 0 is in more of them than it keeps jobs, so in the end it has none for the last
 * ranks that the others have one for; those of the same ranks in another order have one of their own.
 */
static void
unlike(void)
{
	static const int masks[] = {3, 5, 9, 7, 13, 15, 3, 15};
	MPI_Comm comm;

	sum_right(MPI_COMM_WORLD);
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		MPI_Comm_split(MPI_COMM_WORLD, masks[i] >> rank & 1 ? 0 : MPI_UNDEFINED,
			i == 5 ? -rank : rank, &comm);
		exercise_and_free(comm, "unlike", 40 + i);
	}
}

/* A communicator is freed; once there is a file of the name GO_ON, another one of the same ranks is made. */
static void
later(void)
{
	MPI_Comm comm;

	for (int i = 0; i < 2; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int call = 0; call < 2 * OPENING; call++)
			sum_right(comm);
		MPI_Comm_free(&comm);
		printf("freed %d\n", rank);
		fflush(stdout);
		while (access(getenv("GO_ON"), F_OK) != 0)
			usleep(10000);
	}
}

/* As many as there are calls in other scenarios. */
static void
alive(void)
{
	MPI_Comm *comms = malloc(calls * sizeof(*comms));

	for (unsigned int i = 0; i < calls; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
		open_by_calls(comms[i]);
	}
	for (unsigned int i = 0; i < calls; i++)
		sum_right(comms[i]);
	for (unsigned int i = 0; i < calls; i++)
		MPI_Comm_free(&comms[i]);
	free(comms);
}

static void
dups(void)
{
	static MPI_Comm comms[UNUSED];

	for (int i = 0; i < UNUSED; i++)
		MPI_Comm_dup(i % 2 || i == 0 ? MPI_COMM_WORLD : comms[i - 1], &comms[i]);
	open_by_calls(comms[UNUSED - 1]);
	for (int i = 0; i < UNUSED; i++)
		MPI_Comm_free(&comms[i]);
	sum_right(MPI_COMM_WORLD);
}

/* Calls of 4, 8, ... bytes, and of such slices. */
static void
sizes(void)
{
	int mine[SIZES] = {0}, sum[SIZES], *all = malloc((size_t)ranks * sizeof(mine));

	for (int count = 1; count <= SIZES; count++) {
		MPI_Allreduce(mine, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		MPI_Bcast(sum, count, MPI_INT, count % ranks, MPI_COMM_WORLD);
		MPI_Gather(mine, count, MPI_INT, all, rank == 0 ? count : 0, MPI_INT, 0,
			MPI_COMM_WORLD);
	}
	free(all);
}

/* A call, and a persistent request for nothing, which Open MPI makes in another way than others. */
static void
empty(void)
{
	sum_right(MPI_COMM_WORLD);
#ifdef OPEN_MPI
	MPI_Request request;
	int sum;

	PERSISTENT(Reduce_scatter_block, &rank, &sum, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
		MPI_INFO_NULL, &request);
	for (int i = 0; i < 2; i++) {
		MPI_Start(&request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	MPI_Request_free(&request);
#endif
}

/*
 * Reduce until it fails; then say how, and leave without MPI's help. With GO_ON, once there is a file of this name, go on
 * with another communicator.
 */
static void
until_error(void)
{
	const char *go_on = getenv("GO_ON");
	char text[MPI_MAX_ERROR_STRING];
	int sum, code, length, again;
	MPI_Comm comm;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	sum_right(MPI_COMM_WORLD);
	printf("running %d\n", rank);
	fflush(stdout);
	do
		code = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	while (code == MPI_SUCCESS);
	MPI_Error_string(code, text, &length);
	again = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("failed %d, again %d: %s\n", rank, again == code, text);
	fflush(stdout);
	if (go_on == NULL)
		_exit(0);
	while (access(go_on, F_OK) != 0)
		usleep(10000);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	open_by_calls(comm);
	MPI_Comm_free(&comm);
}

static void
mixed(void)
{
	mixed_layouts = true;
}

static void
trace(void)
{
	trace_calls = true;
}

static void
tight(void)
{
	no_gaps = true;
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {{"world", world}, {"communicators", communicators}, {"spawned", spawned},
	{"sends", sends}, {"interleaved", interleaved}, {"threads", threads},
	{"in_a_row", in_a_row}, {"alike", alike}, {"unlike", unlike}, {"later", later},
	{"alive", alive}, {"dups", dups}, {"mixed", mixed}, {"trace", trace}, {"tight", tight},
	{"sizes", sizes}, {"empty", empty}, {"until_error", until_error}};

int
main(int argc, char **argv)
{
	bool threaded = false;
	int provided;
	MPI_Comm parents;

	for (int i = 3; i < argc; i++)
		threaded |= strcmp(argv[i], "threads") == 0;
	MPI_Init_thread(
		&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_get_parent(&parents);
	program = argv[0];
	seed = strtoull(argv[1], NULL, 0);
	calls = (unsigned int)atoi(argv[2]);
	types_begin();
	if (parents != MPI_COMM_NULL)
		between(parents, 1);
	for (int i = 3; i < argc; i++)
		for (size_t j = 0; j < sizeof(scenarios) / sizeof(scenarios[0]); j++)
			if (strcmp(argv[i], scenarios[j].name) == 0) {
				double began = MPI_Wtime();

				scenarios[j].run();
				if (rank == 0)
					printf("ok %s, %.1f s\n", argv[i], MPI_Wtime() - began);
				fflush(stdout);
			}
	types_end();
	MPI_Finalize();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI promises of nonblocking collectives, on communicators of their own, so that a request is often the first
 * call there:
 *
 *	every function that completes requests completes them, also among those of messages;
 *	they go on while their rank is blocked in other calls;
 *	the communicator may be freed first, and several threads may do all of it.
 *
 * Ends with status 0 and says "good" on rank 0. With an argument it instead says "running" and repeats an operation until it
 * fails; the error must reach the handler of the operation's communicator and no other one.
 *
 * With two arguments, WHAT ROUNDS, several nonblocking calls of a communicator are in flight while it is opened:
 *
 *	mixed       collectives that the switch has, and others
 *	idup        MPI_Comm_idup beside an allreduce
 *	one_by_one  allreduces one after the other; no blocking collective comes before
 *	persistent  persistent allreduces, which ranks start in different orders
 */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/functional/mpi/check.h"
#include "tests/functional/mpi/persistent.h"

#define THREADS 3
#define LARGE   65536 /* bytes that are enough to open a communicator */

enum { REDUCED, SYNCHRONIZED, RECEIVED, REQUESTS };

/* A sum, a barrier and a message. */
static void
begin(MPI_Comm comm, int *values, MPI_Request *requests)
{
	static const int one = 1;

	values[REDUCED] = values[RECEIVED] = 0;
	MPI_Iallreduce(&one, &values[REDUCED], 1, MPI_INT, MPI_SUM, comm, &requests[REDUCED]);
	MPI_Ibarrier(comm, &requests[SYNCHRONIZED]);
	MPI_Irecv(&values[RECEIVED], 1, MPI_INT, (rank + 1) % ranks, 0, comm, &requests[RECEIVED]);
	MPI_Send(&one, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, comm);
}

static void
end(const int *values, const MPI_Request *requests)
{
	CHECK(values[REDUCED] == ranks && values[RECEIVED] == 1);
	for (int i = 0; i < REQUESTS; i++)
		CHECK(requests[i] == MPI_REQUEST_NULL);
}

/* The first call on a communicator, which opens it. */
static void
begin_large(MPI_Comm comm, int *values, MPI_Request *request)
{
	for (int i = 0; i < LARGE / (int)sizeof(int); i++)
		values[i] = 1;
	MPI_Iallreduce(MPI_IN_PLACE, values, LARGE / sizeof(int), MPI_INT, MPI_SUM, comm, request);
}

static void
end_large(int *values)
{
	for (int i = 0; i < LARGE / (int)sizeof(int); i++)
		CHECK(values[i] == ranks);
}

/* By one function after the other. */
static void
complete(MPI_Comm comm)
{
	int large[LARGE / sizeof(int)];
	MPI_Request requests[REQUESTS];
	MPI_Status statuses[REQUESTS];
	int values[REQUESTS], which, done, all[REQUESTS], sum = 0;

	begin_large(comm, large, &requests[0]);
	MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
	end_large(large);
	for (int way = 0; way < 9; way++) {
		int left = REQUESTS;

		begin(comm, values, requests);
		while (left > 0) {
			MPI_Request *next = &requests[REQUESTS - left];

			done = 1;
			switch (way) {
			case 0: MPI_Wait(next, MPI_STATUS_IGNORE); break;
			case 1: MPI_Test(next, &done, MPI_STATUS_IGNORE); break;
			case 2: MPI_Waitall(done = REQUESTS, requests, statuses); break;
			case 3:
				MPI_Testall(REQUESTS, requests, &done, MPI_STATUSES_IGNORE);
				done *= REQUESTS;
				break;
			case 4:
				MPI_Waitany(REQUESTS, requests, &which, &statuses[0]);
				CHECK(which >= 0 && which < REQUESTS);
				sum += which;
				break;
			case 5:
				MPI_Testany(REQUESTS, requests, &which, &done, MPI_STATUS_IGNORE);
				break;
			case 6: MPI_Waitsome(REQUESTS, requests, &done, all, statuses); break;
			case 7: MPI_Testsome(REQUESTS, requests, &done, all, statuses); break;
			case 8:
				MPI_Request_get_status(requests[REDUCED], &done, &statuses[0]);
				CHECK(!done || values[REDUCED] == ranks);
				if (done)
					MPI_Waitall(done = REQUESTS, requests, MPI_STATUSES_IGNORE);
				break;
			}
			left -= done;
		}
		end(values, requests);
	}
	CHECK(sum == REDUCED + SYNCHRONIZED + RECEIVED);
}

/*
 * The first rank waits in another call for what the others send once the sum is there; so the sum must come about while the
 * first rank is in that call.
 */
static void
blocked(MPI_Comm world, void (*other)(MPI_Comm))
{
	int large[LARGE / sizeof(int)];
	MPI_Request request;
	MPI_Comm comm;

	MPI_Comm_dup(world, &comm);
	for (int round = 0; round < 3; round++) {
		begin_large(comm, large, &request);
		if (rank == 0)
			other(world);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		end_large(large);
		if (rank != 0)
			other(world);
	}
	MPI_Comm_free(&comm);
}

static void
in_message(MPI_Comm comm)
{
	int number = rank;

	if (rank == 0)
		for (int from = 1; from < ranks; from++)
			MPI_Recv(&number, 1, MPI_INT, from, 0, comm, MPI_STATUS_IGNORE);
	else
		MPI_Ssend(&number, 1, MPI_INT, 0, 0, comm);
}

/* A collective that stays with MPI. */
static void
in_collective(MPI_Comm comm)
{
	int last = 0;

	MPI_Exscan(&rank, &last, 1, MPI_INT, MPI_SUM, comm);
	CHECK(rank == 0 || last == rank * (rank - 1) / 2);
}

static void *
worker(void *comm)
{
	complete(*(MPI_Comm *)comm);
	return NULL;
}

static void
threads(void)
{
	MPI_Comm comms[THREADS];
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
		CHECK(pthread_create(&thread[i], NULL, worker, &comms[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		MPI_Comm_free(&comms[i]);
	}
}

/* The communicator and the type, whose elements have gaps, are freed while operations on them are in progress. */
static void
freed(MPI_Comm world, bool used)
{
	enum { BLOCKS = LARGE / sizeof(int) };
	static int sent[BLOCKS * 2];
	int *received = calloc((size_t)ranks * BLOCKS * 2, sizeof(int));
	MPI_Request request;
	MPI_Datatype type;
	MPI_Comm comm;

	CHECK(received != NULL);
	MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
	MPI_Type_commit(&type);
	MPI_Comm_dup(world, &comm);
	if (used) {
		begin_large(comm, sent, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		memset(sent, 0, sizeof(sent));
	}
	for (int i = 0; i < BLOCKS; i++)
		sent[i * 2] = rank * BLOCKS + i + 1;
	MPI_Iallgather(sent, BLOCKS, type, received, BLOCKS, type, comm, &request);
	MPI_Comm_free(&comm);
	MPI_Type_free(&type);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (int i = 0; i < ranks * BLOCKS; i++)
		CHECK(received[i * 2] == i + 1 && received[i * 2 + 1] == 0);
	free(received);
}

/* MPICH writes a file only while MPI itself waits for that request. */
static void
beside_a_file(MPI_Comm comm)
{
	char path[64];
	int one = 1, sum = 0;
	MPI_Request requests[2];
	MPI_File file;

	snprintf(path, sizeof(path), "/tmp/weir-mpi-file-%d", (int)getpid());
	CHECK(MPI_File_open(MPI_COMM_SELF, path,
		      MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
		      &file) == MPI_SUCCESS);
	MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
	MPI_File_iwrite_at(file, 0, &one, 1, MPI_INT, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	CHECK(sum == ranks);
	MPI_File_close(&file);
}

/* The handlers of other communicators end the program. */
static void
fail(MPI_Comm comm)
{
	char text[MPI_MAX_ERROR_STRING];
	int one = 1, sum, length, done, error = MPI_SUCCESS;
	MPI_Request requests[2];
	MPI_Status statuses[2];

	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (int round = 0; error == MPI_SUCCESS; round++) {
		if (rank == 0 && round == 10) { /* it is open */
			puts("running");
			fflush(stdout);
		}
		error = MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[1]);
		if (error != MPI_SUCCESS)
			break;
		do
			CHECK(MPI_Request_get_status(requests[1], &done, &statuses[1]) ==
				MPI_SUCCESS);
		while (!done);
		CHECK(statuses[1].MPI_TAG != MPI_UNDEFINED - 1); /* the mark of a failure */
		MPI_Ibarrier(MPI_COMM_SELF, &requests[0]);
		statuses[0].MPI_ERROR = statuses[1].MPI_ERROR = MPI_ERR_OTHER;
		error = MPI_Waitall(2, requests, statuses);
		if (error != MPI_SUCCESS) {
			CHECK(error == MPI_ERR_IN_STATUS && statuses[0].MPI_ERROR == MPI_SUCCESS);
			error = statuses[1].MPI_ERROR;
		}
	}
	MPI_Error_string(error, text, &length);
	printf("rank %d: %s\n", rank, text);
	CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS);
}

/* Several calls of a communicator are in flight while it is opened. */
enum { FLIGHT = 4, RANKS_MAX = 16, ROUNDS_MAX = 16, COUNT = LARGE / sizeof(int) };

static int mine[COUNT], first_rank[COUNT], sums[ROUNDS_MAX][COUNT];

static void
allreduce(MPI_Comm comm, int which, MPI_Request *request)
{
	MPI_Iallreduce(mine, sums[which], COUNT, MPI_INT, MPI_SUM, comm, request);
}

static void
allreduced(int which)
{
	for (int i = 0; i < COUNT; i++)
		CHECK(sums[which][i] == ranks * (ranks - 1) / 2 + ranks * i);
}

static void
mixed(MPI_Comm comm, int rounds)
{
	int scans[FLIGHT], all[FLIGHT][RANKS_MAX], counts[RANKS_MAX], places[RANKS_MAX];

	CHECK(ranks <= RANKS_MAX);
	for (int i = 0; i < ranks; i++)
		counts[i] = 1, places[i] = i;
	for (int round = 0; round < rounds; round++) {
		MPI_Request requests[3 * FLIGHT];

		for (int i = 0; i < FLIGHT; i++) {
			MPI_Request *three = &requests[3 * i];

			allreduce(comm, i, &three[0]);
			MPI_Iscan(&rank, &scans[i], 1, MPI_INT, MPI_SUM, comm, &three[1]);
			MPI_Iallgatherv(&rank, 1, MPI_INT, all[i], counts, places, MPI_INT, comm,
				&three[2]);
		}
		MPI_Waitall(3 * FLIGHT, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < FLIGHT; i++) {
			allreduced(i);
			CHECK(scans[i] == rank * (rank + 1) / 2);
			for (int from = 0; from < ranks; from++)
				CHECK(all[i][from] == from);
		}
	}
}

/* first: what opens the communicator. */
enum { BLOCKING, BLOCKING_BESIDE_IDUP, NONBLOCKING, FIRSTS };

static void
idup(MPI_Comm comm, int rounds, int first)
{
	MPI_Comm made[ROUNDS_MAX];
	MPI_Request requests[2 * ROUNDS_MAX];
	int sum;

	CHECK(rounds <= ROUNDS_MAX);
	if (first == BLOCKING)
		MPI_Allreduce(mine, sums[0], COUNT, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < rounds; i++) {
		MPI_Comm_idup(comm, &made[i], &requests[2 * i]);
		if (i == 0 && first == BLOCKING_BESIDE_IDUP)
			MPI_Allreduce(mine, sums[0], COUNT, MPI_INT, MPI_SUM, comm);
		allreduce(comm, i, &requests[2 * i + 1]);
	}
	MPI_Waitall(2 * rounds, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < rounds; i++) {
		allreduced(i);
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made[i]);
		CHECK(sum == ranks * (ranks - 1) / 2);
		MPI_Comm_free(&made[i]);
	}
}

static void
one_by_one(MPI_Comm comm, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		MPI_Request request;

		allreduce(comm, 0, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		allreduced(0);
	}
}

static void
persistent(MPI_Comm comm, int rounds)
{
	MPI_Request requests[FLIGHT];

	MPI_Allreduce(mine, sums[0], COUNT, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < FLIGHT; i++)
		PERSISTENT(Allreduce, mine, sums[i], COUNT, MPI_INT, i % 2 == 0 ? MPI_SUM : MPI_MIN,
			comm, MPI_INFO_NULL, &requests[i]);
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < FLIGHT; i++)
			MPI_Start(&requests[(i + rank + round) % FLIGHT]);
		MPI_Waitall(FLIGHT, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < FLIGHT; i++)
			if (i % 2 == 0)
				allreduced(i);
			else
				CHECK(memcmp(sums[i], first_rank, sizeof(first_rank)) == 0);
	}
	for (int i = 0; i < FLIGHT; i++)
		MPI_Request_free(&requests[i]);
}

static void
in_flight(const char *what, int rounds)
{
	MPI_Comm comm;

	for (int i = 0; i < COUNT; i++)
		mine[i] = rank + i, first_rank[i] = i;
	for (int i = 0; i < FIRSTS; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		if (strcmp(what, "mixed") == 0)
			mixed(comm, rounds);
		else if (strcmp(what, "idup") == 0)
			idup(comm, rounds, i);
		else if (strcmp(what, "one_by_one") == 0)
			one_by_one(comm, rounds);
		else
			persistent(comm, rounds);
		MPI_Comm_free(&comm);
	}
}

int
main(int argc, char **argv)
{
	MPI_Comm comm;
	int provided;

	if (argc > 2)
		MPI_Init(&argc, &argv);
	else
		MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	if (argc > 2) {
		in_flight(argv[1], atoi(argv[2]));
	} else if (argc > 1) {
		fail(comm);
	} else {
		blocked(comm, in_message);
		blocked(comm, in_collective);
		complete(comm);
		freed(comm, false);
		freed(comm, true);
		beside_a_file(comm);
		if (provided == MPI_THREAD_MULTIPLE)
			threads();
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Comm_free(&comm);
	if (rank == 0)
		puts("good");
	MPI_Finalize();
	return 0;
}

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
 */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/functional/mpi/check.h"

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
	begin(comm, values, requests);
	for (int i = 0; i < REQUESTS; i++)
		MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
	end(values, requests);
	begin(comm, values, requests);
	MPI_Waitall(REQUESTS, requests, statuses);
	end(values, requests);
	begin(comm, values, requests);
	for (int i = 0; i < REQUESTS; i++) {
		MPI_Waitany(REQUESTS, requests, &which, &statuses[0]);
		CHECK(which >= 0 && which < REQUESTS);
		sum += which;
	}
	CHECK(sum == REDUCED + SYNCHRONIZED + RECEIVED);
	end(values, requests);
	begin(comm, values, requests);
	for (int left = REQUESTS; left > 0; left -= done)
		MPI_Waitsome(REQUESTS, requests, &done, all, statuses);
	end(values, requests);
	begin(comm, values, requests);
	for (int i = 0; i < REQUESTS; i++)
		do
			MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
		while (!done);
	end(values, requests);
	begin(comm, values, requests);
	do
		MPI_Testall(REQUESTS, requests, &done, MPI_STATUSES_IGNORE);
	while (!done);
	end(values, requests);
	begin(comm, values, requests);
	for (int left = REQUESTS; left > 0; left -= done)
		MPI_Testany(REQUESTS, requests, &which, &done, MPI_STATUS_IGNORE);
	end(values, requests);
	begin(comm, values, requests);
	for (int left = REQUESTS; left > 0; left -= done)
		MPI_Testsome(REQUESTS, requests, &done, all, statuses);
	end(values, requests);
	begin(comm, values, requests);
	do
		MPI_Request_get_status(requests[REDUCED], &done, &statuses[0]);
	while (!done);
	CHECK(values[REDUCED] == ranks);
	MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
	end(values, requests);
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
			CHECK(MPI_Request_get_status(requests[1], &done, MPI_STATUS_IGNORE) ==
				MPI_SUCCESS);
		while (!done);
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

int
main(int argc, char **argv)
{
	MPI_Comm comm;
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	if (argc > 1) {
		fail(comm);
	} else {
		blocked(comm, in_message);
		blocked(comm, in_collective);
		complete(comm);
		freed(comm, false);
		freed(comm, true);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *	in_flight mixed|idup|nonblocking|persistent ROUNDS
 *
 * Several nonblocking calls of a communicator are in flight while it is opened:
 *
 *	mixed        collectives that the switch has, and others
 *	idup         MPI_Comm_idup beside an allreduce
 *	nonblocking  allreduces one after the other; no blocking collective comes before
 *	persistent   persistent allreduces, which ranks start in different orders
 *
 * Rank 0 says "good" at the end.
 */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/functional/mpi/check.h"

/* LARGE: of 64 KiB, so that the first allreduce opens the communicator. */
enum { FLIGHT = 4, RANKS_MAX = 16, ROUNDS_MAX = 16, LARGE = 16384 };

static int mine[LARGE], first_rank[LARGE], sums[ROUNDS_MAX][LARGE];

static void
allreduce(MPI_Comm comm, int which, MPI_Request *request)
{
	MPI_Iallreduce(mine, sums[which], LARGE, MPI_INT, MPI_SUM, comm, request);
}

static void
allreduced(int which)
{
	for (int i = 0; i < LARGE; i++)
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
		MPI_Allreduce(mine, sums[0], LARGE, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < rounds; i++) {
		MPI_Comm_idup(comm, &made[i], &requests[2 * i]);
		if (i == 0 && first == BLOCKING_BESIDE_IDUP)
			MPI_Allreduce(mine, sums[0], LARGE, MPI_INT, MPI_SUM, comm);
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
nonblocking(MPI_Comm comm, int rounds)
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

	MPI_Allreduce(mine, sums[0], LARGE, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < FLIGHT; i++)
		MPI_Allreduce_init(mine, sums[i], LARGE, MPI_INT, i % 2 == 0 ? MPI_SUM : MPI_MIN,
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

int
main(int argc, char **argv)
{
	int rounds = atoi(argv[2]);
	MPI_Comm comm;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < LARGE; i++)
		mine[i] = rank + i, first_rank[i] = i;
	for (int i = 0; i < FIRSTS; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		if (strcmp(argv[1], "mixed") == 0)
			mixed(comm, rounds);
		else if (strcmp(argv[1], "idup") == 0)
			idup(comm, rounds, i);
		else if (strcmp(argv[1], "nonblocking") == 0)
			nonblocking(comm, rounds);
		else
			persistent(comm, rounds);
		MPI_Comm_free(&comm);
	}
	if (rank == 0)
		puts("good");
	MPI_Finalize();
	return 0;
}

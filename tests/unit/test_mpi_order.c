/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of a communicator reach Weir in the order of the calls, while another thread makes the
 * core's progress. The communicators are open, with one rank on each host; libweir and MPI are
 * tests/unit/fake_mpi.c. An operation of the other communicator never ends, so the core has work,
 * and its lock is mostly taken.
 *
 * MPI gets its turns while a blocking call waits for Weir.
 *
 * And communicators are opened when their calls deserve it.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>

#include "tests/unit/fake_mpi.h"

enum { ROUNDS = 10000 };

static const struct offload_settings without = {.min_bytes = 0};
static const struct offload_call barrier = {.collective = WEIR_COLLECTIVE_BARRIER};

static _Atomic bool stop;
static unsigned int opened;
static _Atomic unsigned int started, wrong;

/* The opening: communicators stay off, unless open_comm() opens them without it. */
struct opening *
opening_begin(struct offload_comm *of, bool blocking)
{
	(void)of;
	(void)blocking;
	opened++;
	return NULL;
}

enum comm_state
opening_advance(struct opening **opening)
{
	(void)opening;
	return COMM_OFF;
}

/* A barrier and an allreduce take turns. */
static void
count_start(struct weir *weir, enum weir_collective collective)
{
	if (weir != fake_weir_endless)
		wrong += collective !=
			(started++ % 2 == 0 ? WEIR_COLLECTIVE_BARRIER : WEIR_COLLECTIVE_ALLREDUCE);
}

static void
no_progress(void)
{
}

static void *
progress(void *argument)
{
	(void)argument;
	while (!stop)
		offload_progress();
	return NULL;
}

static struct offload_comm *
open_comm(struct weir *weir)
{
	struct offload_comm *comm = offload_comm_create(MPI_COMM_WORLD);

	comm->layout = (struct layout){.hosts = 4, .locals = 1, .alone = true, .regular = true};
	comm->elements = 256;
	comm->weir = weir;
	atomic_store(&comm->state, COMM_ON);
	return comm;
}

Test(mpi_order, blocking_after_nonblocking)
{
	const struct offload_front with = {.progress = no_progress};
	int32_t in = 1, out;
	const struct offload_call allreduce = {.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.send = &in,
		.recv = &out,
		.send_count = 1,
		.recv_count = 1,
		.send_type = MPI_INT,
		.recv_type = MPI_INT,
		.op = MPI_SUM};
	struct offload_comm *comm, *other;
	struct offload_op *op, *endless;
	pthread_t thread;

	offload_init(&with, &without);
	comm = open_comm(NULL);
	other = open_comm(fake_weir_endless);
	cr_assert_eq(offload_start(other, &barrier, NULL, NULL, &endless), MPI_SUCCESS);
	fake_weir_started = count_start;
	cr_assert_eq(pthread_create(&thread, NULL, progress, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		cr_assert_eq(offload_start(comm, &barrier, NULL, NULL, &op), MPI_SUCCESS);
		offload_op_free(op);
		cr_assert_eq(offload_run(comm, &allreduce), MPI_SUCCESS);
	}
	stop = true;
	pthread_join(thread, NULL);
	cr_assert_eq(started, 2 * ROUNDS);
	cr_assert_eq(wrong, 0, "%u of %u operations out of order", wrong, started);
}

/* MPI has work in each fifth of its first WORKING turns, in CPU time, which does not depend on
 * who else runs. */
enum { WORKING = 1000, LOOKS = 2000 };
static unsigned int turns, slept_ms;

static void
work(void)
{
	struct timespec start, now;

	if (turns++ == WORKING)
		slept_ms = fake_weir_slept_ms;
	if (turns > WORKING || turns % 5 != 0)
		return;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 50000);
}

Test(mpi_order, progress_of_mpi)
{
	const struct offload_front with = {.progress = work};

	offload_init(&with, &without);
	fake_weir_looks = LOOKS;
	cr_assert_eq(offload_run(open_comm(NULL), &barrier), MPI_SUCCESS);
	cr_assert_eq(turns, LOOKS - 1, "%u turns for %d looks", turns, LOOKS);
	cr_assert_lt(slept_ms, 10, "slept %u ms while MPI had work", slept_ms);
	cr_assert_gt(fake_weir_slept_ms, 2 * slept_ms, "slept %u ms in all", fake_weir_slept_ms);
}

/* How many calls it takes to open a communicator. */
static unsigned int
calls_to_open(MPI_Comm mpi, const struct offload_call *call)
{
	struct offload_comm *comm = offload_comm_create(mpi);
	unsigned int calls = 0;

	for (opened = 0; opened == 0 && calls < 100; calls++)
		cr_assert_eq(offload_run(comm, call), OFFLOAD_MPI);
	offload_comm_release(comm);
	return calls;
}

Test(mpi_order, opened_by_calls_or_bytes)
{
	const struct offload_front with = {.progress = no_progress};
	static int32_t in[16384], out[16384];
	struct offload_call call = {.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.send = in,
		.recv = out,
		.send_type = MPI_INT,
		.recv_type = MPI_INT,
		.op = MPI_SUM};
	struct offload_comm *comm;

	offload_init(&with, &without);
	call.send_count = call.recv_count = 1;
	cr_assert_eq(calls_to_open(MPI_COMM_WORLD, &call), 1);
	cr_assert_eq(calls_to_open(MPI_COMM_SELF, &call), 8);
	call.send_count = call.recv_count = 16384 / 3 + 1;
	cr_assert_eq(calls_to_open(MPI_COMM_SELF, &call), 3);
	call.send_count = call.recv_count = 16384;
	cr_assert_eq(calls_to_open(MPI_COMM_SELF, &call), 1);
	/* Not every rank sees a call for nothing, so it does not count. */
	call.send_count = call.recv_count = 0;
	comm = offload_comm_create(MPI_COMM_SELF);
	opened = 0;
	for (int i = 0; i < 10; i++)
		cr_assert_eq(offload_run(comm, &call), MPI_SUCCESS);
	cr_assert_eq(opened, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arguments that few programs pass. WHAT is the program's argument:
 *
 *	absolute  MPI_BOTTOM with types of absolute addresses, some of them with a negative or another extent
 *	spread    many elements whose distance is no multiple of their size
 *	refused   types, counts and operations that are not valid: MPI reports them by the communicator's error handler
 *
 *	session   of MPI 4: a communicator without MPI_Init
 *	reasons   calls that stay on MPI, for several reasons, each of them twice
 *	inside    collectives that do not come by a symbol of the program: of MPI itself, and of its library's own symbol
 *	values    sums that overflow, and minima and maxima with NaN or beyond half of an unsigned type's range: Weir's results
 *	table     the same without Weir: rank 0 prints which results of MPI are others
 *
 * Ends with status 0 and says "good" on rank 0.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/functional/mpi/check.h"

#define COUNT 3
#define N     1000

/* Numbers at both ends of a gap. */
struct pair {
	int low, gap, high;
};

/* A type of `pairs` without the gaps, at its absolute address; extent: to the next pair. */
static MPI_Datatype
absolute(struct pair *pairs, MPI_Aint extent)
{
	MPI_Aint at[2];
	MPI_Datatype type, sized;

	MPI_Get_address(&pairs->low, &at[0]);
	MPI_Get_address(&pairs->high, &at[1]);
	MPI_Type_create_hindexed(2, (int[]){1, 1}, at, MPI_INT, &type);
	MPI_Type_create_resized(type, at[0], extent, &sized);
	MPI_Type_commit(&sized);
	MPI_Type_free(&type);
	return sized;
}

static void
fill(struct pair *pairs, int n, int first)
{
	for (int i = 0; i < n; i++)
		pairs[i] = (struct pair){first + i, -1, -first - i};
}

/* `n` pairs from `first` on; backwards: the last one first. */
static void
expect(const struct pair *pairs, int n, int first, int backwards)
{
	for (int i = 0; i < n; i++) {
		const struct pair *pair = &pairs[backwards ? n - 1 - i : i];

		CHECK(pair->low == first + i && pair->gap == -1 && pair->high == -first - i);
	}
}

/* Each collective that moves data; blocking or not. */
static void
move(MPI_Comm comm, int blocking, int backwards)
{
	const MPI_Aint size = sizeof(struct pair), step = backwards ? -size : size;
	int all = ranks * COUNT, last = backwards ? COUNT - 1 : 0, end = backwards ? all - 1 : 0;
	struct pair *from = malloc((size_t)all * sizeof(*from)),
		    *to = malloc((size_t)all * sizeof(*to));
	MPI_Datatype sends = absolute(from, size), gets = absolute(to + end, step),
		     slice = absolute(to + last, step);
	MPI_Request request;

#define CALL(name, ...)                                                                            \
	do {                                                                                       \
		fill(to, all, 0);                                                                  \
		fill(from, all, 100 * rank);                                                       \
		if (blocking) {                                                                    \
			MPI_##name(__VA_ARGS__, comm);                                             \
		} else {                                                                           \
			MPI_I##name(__VA_ARGS__, comm, &request);                                  \
			MPI_Wait(&request, MPI_STATUS_IGNORE);                                     \
		}                                                                                  \
	} while (0)
#define MPI_IBcast     MPI_Ibcast
#define MPI_IScatter   MPI_Iscatter
#define MPI_IGather    MPI_Igather
#define MPI_IAllgather MPI_Iallgather
#define MPI_IAlltoall  MPI_Ialltoall
	CALL(Bcast, MPI_BOTTOM, COUNT, rank == 1 ? sends : slice, 1);
	expect(rank == 1 ? from : to, COUNT, 100, rank != 1 && backwards);
	CALL(Scatter, MPI_BOTTOM, COUNT, sends, MPI_BOTTOM, COUNT, slice, 1);
	expect(to, COUNT, 100 + rank * COUNT, backwards);
	CALL(Gather, MPI_BOTTOM, COUNT, sends, MPI_BOTTOM, COUNT, gets, 1);
	for (int r = 0; r < ranks && rank == 1; r++)
		expect(to + (backwards ? ranks - 1 - r : r) * COUNT, COUNT, 100 * r, backwards);
	CALL(Allgather, MPI_BOTTOM, COUNT, sends, MPI_BOTTOM, COUNT, gets);
	for (int r = 0; r < ranks; r++)
		expect(to + (backwards ? ranks - 1 - r : r) * COUNT, COUNT, 100 * r, backwards);
	CALL(Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, MPI_BOTTOM, COUNT, gets);
	expect(to + (backwards ? ranks - 1 - rank : rank) * COUNT, COUNT,
		(backwards ? ranks - 1 - rank : rank) * COUNT, 0);
	CALL(Alltoall, MPI_BOTTOM, COUNT, sends, MPI_BOTTOM, COUNT, gets);
	for (int r = 0; r < ranks; r++)
		expect(to + (backwards ? ranks - 1 - r : r) * COUNT, COUNT, 100 * r + rank * COUNT,
			backwards);
#undef CALL
	MPI_Type_free(&sends);
	MPI_Type_free(&gets);
	MPI_Type_free(&slice);
	free(from);
	free(to);
}

static void
spread(MPI_Comm comm)
{
	double(*from)[3] = malloc(N * sizeof(*from)),
	(*to)[3] = malloc((size_t)(ranks * N) * sizeof(*to));
	MPI_Datatype type;

	MPI_Type_create_resized(MPI_C_DOUBLE_COMPLEX, 0, sizeof(*from), &type);
	MPI_Type_commit(&type);
	for (int i = 0; i < N; i++)
		from[i][0] = i, from[i][1] = rank, from[i][2] = -1;
	for (int i = 0; i < ranks * N; i++)
		to[i][2] = -2;
	MPI_Allgather(from, N, type, to, N, type, comm);
	for (int i = 0; i < ranks * N; i++)
		CHECK(to[i][0] == i % N && to[i][1] == i / N && to[i][2] == -2);
	MPI_Type_free(&type);
	free(from);
	free(to);
}

/* The class of an error. */
static int
class_of(int code)
{
	int class = -1;

	MPI_Error_class(code, &class);
	return class;
}

/* All ranks pass the same, so no rank waits for another one. */
static void
refused(MPI_Comm comm)
{
	int from[64] = {0}, to[64] = {0};
	MPI_Datatype raw, type;
	MPI_Request request;

	MPI_Type_vector(2, 1, 2, MPI_INT, &raw); /* not committed */
	MPI_Type_dup(raw, &type);
	MPI_Type_commit(&type);
	CHECK(MPI_Allreduce(from, to, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
#define REFUSED(class, call) CHECK(class_of(call) == class)
#ifdef MPICH_VERSION /* Open MPI looks less closely, and crashes */
	for (int i = 0; i < 2; i++) {
		MPI_Datatype bad = i == 0 ? MPI_DATATYPE_NULL : raw;

		REFUSED(MPI_ERR_TYPE, MPI_Bcast(from, 1, bad, 0, comm));
		REFUSED(MPI_ERR_TYPE, MPI_Ibcast(from, 1, bad, 0, comm, &request));
		CHECK(MPI_Allreduce(from, to, 1, bad, MPI_SUM, comm) != MPI_SUCCESS);
		REFUSED(MPI_ERR_TYPE, MPI_Allgather(from, 1, bad, to, 2, MPI_INT, comm));
		REFUSED(MPI_ERR_TYPE, MPI_Allgather(from, 2, MPI_INT, to, 1, bad, comm));
		REFUSED(MPI_ERR_TYPE, MPI_Alltoall(from, 1, bad, to, 2, MPI_INT, comm));
		REFUSED(MPI_ERR_TYPE, MPI_Ialltoall(from, 2, MPI_INT, to, 1, bad, comm, &request));
		REFUSED(MPI_ERR_TYPE, MPI_Gather(from, 1, bad, to, 1, bad, 0, comm));
		REFUSED(MPI_ERR_TYPE, MPI_Scatter(from, 1, bad, to, 1, bad, 0, comm));
	}
#else /* Debian's MPICH does not look here */
	REFUSED(MPI_ERR_COUNT, MPI_Allreduce(from, to, -1, MPI_INT, MPI_SUM, comm));
#endif
	REFUSED(MPI_ERR_OP, MPI_Allreduce(from, to, 1, MPI_INT, MPI_OP_NULL, comm));
	REFUSED(MPI_ERR_TYPE, MPI_Bcast(from, 1, MPI_DATATYPE_NULL, 0, comm));
	REFUSED(MPI_ERR_TYPE, MPI_Bcast(from, 1, raw, 0, comm));
	REFUSED(MPI_ERR_TYPE, MPI_Allgather(from, 1, MPI_DATATYPE_NULL, to, 2, MPI_INT, comm));
	REFUSED(MPI_ERR_COUNT, MPI_Allgather(from, -1, MPI_INT, to, 1, MPI_INT, comm));
	REFUSED(MPI_ERR_COUNT, MPI_Allgather(from, 1, MPI_INT, to, -1, MPI_INT, comm));
	REFUSED(MPI_ERR_ROOT, MPI_Bcast(from, 1, MPI_INT, ranks, comm));
	REFUSED(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
	/* What MPI ignores on a rank may be anything. */
	CHECK(MPI_Gather(from, 1, type, rank == 0 ? to : NULL, rank == 0 ? 1 : -1,
		      rank == 0 ? type : MPI_DATATYPE_NULL, 0, comm) == MPI_SUCCESS);
	MPI_Igather(
		from, 1, type, to, rank == 0 ? 1 : -1, rank == 0 ? type : raw, 0, comm, &request);
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	MPI_Type_free(&raw);
	MPI_Type_free(&type);
}

static void
reasons(MPI_Comm comm)
{
	long double from[64] = {0}, to[64];
	MPI_Request request;

	for (int i = 0; i < 2; i++) {
		MPI_Allreduce(from, to, 8, MPI_LONG_DOUBLE, MPI_SUM, comm);
		MPI_Ireduce(from, to, 8, MPI_LONG_DOUBLE, MPI_SUM, 0, comm, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		MPI_Bcast(from, 1, MPI_INT, 0, comm);
		MPI_Allgather(from, 8, MPI_LONG_DOUBLE, to, 8, MPI_LONG_DOUBLE, comm);
		MPI_Barrier(comm);
	}
}

#if MPI_VERSION >= 4
static void
session(void)
{
	MPI_Session session;
	MPI_Group group;
	MPI_Comm comm;
	int sum, one = 1;

	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
	MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
	MPI_Comm_create_from_group(group, "a test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
	CHECK(sum == ranks);
	MPI_Group_free(&group);
	MPI_Comm_free(&comm);
	MPI_Session_finalize(&session);
	if (rank == 0)
		printf("good\n");
}
#endif

/* 20 calls by the library's symbol, as programs have it that load MPI at run time; and a file written by all ranks. */
static void
inside(MPI_Comm comm, const char *path)
{
	int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm) = NULL;
	int sum, read = -1;
	void *library;
	MPI_File file;
	Dl_info info;

	CHECK(dladdr(dlsym(RTLD_DEFAULT, "PMPI_Get_library_version"), &info) != 0);
	library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	CHECK(library != NULL);
	reduce = (int (*)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm))dlsym(
		library, "MPI_Allreduce");
	for (int i = 0; i < 20; i++) {
		CHECK(reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
		CHECK(sum == ranks * (ranks - 1) / 2);
	}
	CHECK(MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ==
		MPI_SUCCESS);
	for (int i = 0; i < 20; i++)
		MPI_File_write_at_all(
			file, rank * sizeof(int), &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
	MPI_File_sync(file);
	MPI_File_read_at_all(
		file, (ranks - 1 - rank) * sizeof(int), &read, 1, MPI_INT, MPI_STATUS_IGNORE);
	CHECK(read == ranks - 1 - rank);
	MPI_File_close(&file);
}

static int table; /* print other results, instead of ending with the first one */
static int others; /* in this reduction, on this rank; and one of them: */
static double other;

/* Rank 0 says how MPI reduces, if it does not as Weir. Rank 1 has all results. */
static void
print_others(const char *type, const char *op, const char *own)
{
	double of[2] = {others, other};

	if (table && rank == 1)
		MPI_Send(of, 2, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
	if (!table || rank != 0)
		return;
	MPI_Recv(of, 2, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	printf("%s of %s, each rank's %s: ", op, type, own);
	if (of[0] == 0)
		printf("as Weir\n");
	else
		printf("%.0f of %d otherwise, as %g\n", of[0], 3 * N, of[1]);
}

/* Each rank's elements are `own`, and `holds` is true of each result x. N is large, because MPIs have vector code. */
#define RESULT(holds)                                                                              \
	do {                                                                                       \
		if (!table)                                                                        \
			CHECK(holds);                                                              \
		else if (!(holds))                                                                 \
			others++, other = (double)x;                                               \
	} while (0)
#define REDUCED(c_type, type, op, own, holds)                                                      \
	do {                                                                                       \
		static c_type in[4 * N], out[N], all[4 * N];                                       \
		others = 0;                                                                        \
		for (int i = 0; i < ranks * N; i++)                                                \
			in[i] = (c_type)(own);                                                     \
		MPI_Allreduce(in, all, N, type, op, comm);                                         \
		MPI_Reduce(in, out, N, type, op, 1, comm);                                         \
		for (int i = 0; i < N; i++) {                                                      \
			c_type x = all[i];                                                         \
			RESULT(holds);                                                             \
			x = out[i];                                                                \
			RESULT(rank != 1 || (holds));                                              \
		}                                                                                  \
		MPI_Reduce_scatter_block(in, out, N, type, op, comm);                              \
		for (int i = 0; i < N; i++) {                                                      \
			c_type x = out[i];                                                         \
			RESULT(holds);                                                             \
		}                                                                                  \
		print_others(#type, #op, #own);                                                    \
	} while (0)

static void
values(void)
{
	MPI_Comm host, comm;
	int first = rank, n = ranks, i8 = 100 * n, u8 = 200 * n, i16 = 20000 * n, u16 = 50000 * n;

	/* Ranks of a host are neighbors: only so are slices offloaded. */
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Bcast(&first, 1, MPI_INT, 0, host);
	MPI_Comm_split(MPI_COMM_WORLD, 0, first * ranks + rank, &comm);
	MPI_Comm_rank(comm, &rank);
	for (int i = 0; i < 8; i++) /* so many calls open it */
		MPI_Barrier(comm);
	REDUCED(signed char, MPI_INT8_T, MPI_SUM, 100, x == (signed char)i8);
	REDUCED(signed char, MPI_SIGNED_CHAR, MPI_SUM, -100, x == (signed char)-i8);
	REDUCED(unsigned char, MPI_UINT8_T, MPI_SUM, 200, x == (unsigned char)u8);
	REDUCED(short, MPI_SHORT, MPI_SUM, 20000, x == (short)i16);
	REDUCED(unsigned short, MPI_UINT16_T, MPI_SUM, 50000, x == (unsigned short)u16);
	REDUCED(unsigned char, MPI_UNSIGNED_CHAR, MPI_MAX, rank == 1 ? 200 : 100, x == 200);
	REDUCED(unsigned short, MPI_UNSIGNED_SHORT, MPI_MIN, rank == 1 ? 200 : 50000, x == 200);
	REDUCED(unsigned, MPI_UNSIGNED, MPI_MAX, rank == 1 ? 0xfffffff0 : 7, x == 0xfffffff0);
	REDUCED(unsigned long, MPI_UNSIGNED_LONG, MPI_MIN, rank == 1 ? -1ul : 7, x == 7);
	for (int who = 0; who < ranks; who++) {
		REDUCED(float, MPI_FLOAT, MPI_MIN, rank == who ? NAN : rank, isnan(x));
		REDUCED(float, MPI_FLOAT, MPI_MAX, rank == who ? NAN : rank, isnan(x));
		REDUCED(double, MPI_DOUBLE, MPI_MIN, rank == who ? NAN : rank, isnan(x));
		REDUCED(double, MPI_DOUBLE, MPI_MAX, rank == who ? NAN : rank, isnan(x));
		REDUCED(double, MPI_DOUBLE, MPI_MIN, rank == who ? -0.0 : 0.0, signbit(x));
	}
	REDUCED(int, MPI_INT, MPI_LAND, rank + 7, x == 1);
	REDUCED(int, MPI_INT, MPI_LXOR, 2, x == ranks % 2);
	REDUCED(short, MPI_SHORT, MPI_PROD, 300,
		x == (short)(ranks == 4 ? 300u * 300 * 300 * 300 : 300u * 300));
	MPI_Comm_free(&comm);
	MPI_Comm_free(&host);
}

int
main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
#if MPI_VERSION >= 4
	if (strcmp(argv[1], "session") == 0) {
		session();
		return 0;
	}
#endif
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (strcmp(argv[1], "absolute") == 0)
		for (int i = 0; i < 4; i++)
			move(MPI_COMM_WORLD, i % 2, i / 2);
	if (strcmp(argv[1], "spread") == 0)
		spread(MPI_COMM_WORLD);
	if (strcmp(argv[1], "refused") == 0) {
		/* Calls without a communicator have the handler of MPI_COMM_WORLD or, since MPI 4, of MPI_COMM_SELF. */
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		refused(MPI_COMM_WORLD);
	}
	if (strcmp(argv[1], "inside") == 0)
		inside(MPI_COMM_WORLD, argv[2]);
	if (strcmp(argv[1], "reasons") == 0)
		reasons(MPI_COMM_WORLD);
	table = strcmp(argv[1], "table") == 0;
	if (table || strcmp(argv[1], "values") == 0)
		values();
	if (rank == 0)
		printf("good\n");
	MPI_Finalize();
	return 0;
}

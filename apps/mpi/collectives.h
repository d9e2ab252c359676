/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that Weir can run, and the parameters of each. Open MPI's functions, the preload library's symbols
 * and hooks, and the core's own calls of MPI are made from this list. Macros alone, which need no mpi.h.
 */
#ifndef APPS_MPI_COLLECTIVES_H
#define APPS_MPI_COLLECTIVES_H

/*
 * X(NAME, Name, name, SHAPE, ...): WEIR_COLLECTIVE_NAME, whose codes are [0, OFFLOAD_COLLECTIVES); MPI_Name and MPI_Iname; the
 * name in Open MPI's functions and in reports; the parameters.
 */
#define OFFLOAD_LIST(X, ...)                                                                       \
	OFFLOAD_COUNTED_LIST(X, __VA_ARGS__)                                                       \
	X(BARRIER, Barrier, barrier, NOTHING, __VA_ARGS__)
#define OFFLOAD_COLLECTIVES (0 OFFLOAD_LIST(OFFLOAD_ONE, ))
#define OFFLOAD_ONE(...)    +1
/* Those that have counts, and so MPI_Name_c and MPI_Iname_c, too. */
#define OFFLOAD_COUNTED_LIST(X, ...)                                                               \
	X(ALLREDUCE, Allreduce, allreduce, REDUCED, __VA_ARGS__)                                   \
	X(REDUCE, Reduce, reduce, REDUCED_TO_ROOT, __VA_ARGS__)                                    \
	X(REDUCESCATTER, Reduce_scatter_block, reduce_scatter_block, REDUCED, __VA_ARGS__)         \
	X(BROADCAST, Bcast, bcast, BUFFER, __VA_ARGS__)                                            \
	X(SCATTER, Scatter, scatter, MOVED_WITH_ROOT, __VA_ARGS__)                                 \
	X(GATHER, Gather, gather, MOVED_WITH_ROOT, __VA_ARGS__)                                    \
	X(ALLGATHER, Allgather, allgather, MOVED, __VA_ARGS__)                                     \
	X(ALLTOALL, Alltoall, alltoall, MOVED, __VA_ARGS__)

/*
 * MPI's functions. F(NAME, SHAPE, Name, Iname, PARAMETERS): as above, with _c where counts are large, and the macro of
 * the parameters.
 */
#define OFFLOAD_FORM_LIST(F)                                                                       \
	OFFLOAD_LIST(OFFLOAD_FORMS, F) OFFLOAD_COUNTED_LIST(OFFLOAD_LARGE_FORMS, F)
#define OFFLOAD_FORMS(id, name, lower, shape, F) F(id, shape, name, I##lower, OFFLOAD_PARAMETERS)
#define OFFLOAD_LARGE_FORMS(id, name, lower, shape, F)                                             \
	F(id, shape, name##_c, I##lower##_c, OFFLOAD_LARGE_PARAMETERS)

/*
 * The shapes: the parameters of MPI's function before the communicator. ONE(type, name): also the name of the field of
 * struct offload_call. BOTH(type, name, field, field): it stands for what is sent and for what is received. COUNT: the type
 * of counts.
 */
#define OFFLOAD_REDUCED(ONE, BOTH, COUNT)                                                          \
	ONE(const void *, send)                                                                    \
	ONE(void *, recv)                                                                          \
	BOTH(COUNT, count, send_count, recv_count)                                                 \
	BOTH(MPI_Datatype, type, send_type, recv_type)                                             \
	ONE(MPI_Op, op)
#define OFFLOAD_REDUCED_TO_ROOT(ONE, BOTH, COUNT)                                                  \
	OFFLOAD_REDUCED(ONE, BOTH, COUNT)                                                          \
	ONE(int, root)
#define OFFLOAD_BUFFER(ONE, BOTH, COUNT)                                                           \
	BOTH(void *, buffer, send, recv)                                                           \
	BOTH(COUNT, count, send_count, recv_count)                                                 \
	BOTH(MPI_Datatype, type, send_type, recv_type)                                             \
	ONE(int, root)
#define OFFLOAD_MOVED(ONE, BOTH, COUNT)                                                            \
	ONE(const void *, send)                                                                    \
	ONE(COUNT, send_count)                                                                     \
	ONE(MPI_Datatype, send_type)                                                               \
	ONE(void *, recv)                                                                          \
	ONE(COUNT, recv_count)                                                                     \
	ONE(MPI_Datatype, recv_type)
#define OFFLOAD_MOVED_WITH_ROOT(ONE, BOTH, COUNT)                                                  \
	OFFLOAD_MOVED(ONE, BOTH, COUNT)                                                            \
	ONE(int, root)
#define OFFLOAD_NOTHING(ONE, BOTH, COUNT)

/* The parameters and their names; each ends with a comma, since more follows. Where they are in scope, their call. */
#define OFFLOAD_PARAMETERS(shape) OFFLOAD_##shape(OFFLOAD_PARAMETER, OFFLOAD_PARAMETER, int)
#define OFFLOAD_LARGE_PARAMETERS(shape)                                                            \
	OFFLOAD_##shape(OFFLOAD_PARAMETER, OFFLOAD_PARAMETER, MPI_Count)
#define OFFLOAD_ARGUMENTS(shape) OFFLOAD_##shape(OFFLOAD_ARGUMENT, OFFLOAD_ARGUMENT, )
#define OFFLOAD_CALL(id, shape)                                                                    \
	((const struct offload_call){.collective = WEIR_COLLECTIVE_##id,                           \
		OFFLOAD_##shape(OFFLOAD_FIELD, OFFLOAD_FIELDS, )})

#define OFFLOAD_PARAMETER(type, name, ...)   type name,
#define OFFLOAD_ARGUMENT(type, name, ...)    name,
#define OFFLOAD_FIELD(type, name)            .name = name,
#define OFFLOAD_FIELDS(type, name, one, two) .one = name, .two = name,

#endif

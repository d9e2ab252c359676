/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/functional/mpi/conform.h"
#include "tests/functional/mpi/persistent.h"

#ifdef OPEN_MPI
#define PERSISTENT_FORM(name, ...) PERSISTENT(name, __VA_ARGS__)
#else /* MPICH 4.0's give wrong results from the second MPI_Start on */
#define PERSISTENT_FORM(name, ...) (void)call
#endif
#if MPI_VERSION >= 4
#define LARGE_FORM(name, ...) MPI_##name##_c(__VA_ARGS__)
#define MPI_Barrier_c         MPI_Barrier
#define MPI_Ibarrier_c        MPI_Ibarrier
#else
#define LARGE_FORM(...) (void)call
#endif
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 256, GAP = 0xa5, BATCH = 4 };

enum collective {
	ALLREDUCE,
	REDUCE,
	REDUCE_SCATTER_BLOCK,
	BCAST,
	SCATTER,
	GATHER,
	ALLGATHER,
	ALLTOALL,
	BARRIER,
	COLLECTIVES
};
static const char *const names[] = {"Allreduce", "Reduce", "Reduce_scatter_block", "Bcast",
	"Scatter", "Gather", "Allgather", "Alltoall", "Barrier"};
#ifdef OPEN_MPI
enum mode { BLOCKING, NONBLOCKING, PERSISTENT, MODES };
#else
enum mode { BLOCKING, NONBLOCKING, MODES, PERSISTENT };
#endif
static const char *const modes[] = {"blocking", "nonblocking", "persistent"};

/* How a rank lays out slices of elements in memory; each rank its own way. */
struct layout {
	MPI_Datatype type;
	int count; /* of `type` in a slice */
	bool own; /* to be freed */
};

/* A buffer of some slices. What lies between the data must not change. */
struct buffer {
	char *memory;
	char *start; /* what MPI gets */
	size_t bytes;
};

struct call {
	/* The same on all ranks. */
	enum collective collective;
	enum mode mode;
	bool in_place;
	const struct type *type;
	const struct operation *operation;
	int elements; /* in a slice */
	int root;
	uint64_t seed;
	/* This rank's own. */
	bool large; /* by the form with large counts */
	struct layout send_layout, recv_layout;
	struct buffer send, recv, wanted;
	MPI_Request request;
};

bool mixed_layouts, trace_calls, no_gaps;

static _Thread_local const char *where = "", *where_comm = "";
static _Thread_local uint64_t where_seed, digest;

void
fail(const char *format, ...)
{
	va_list list;
	int rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	fprintf(stderr, "wrong: rank %d of MPI_COMM_WORLD, %s, seed %" PRIu64 ": %s: ", rank,
		where_comm, where_seed, where);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fprintf(stderr, "\n");
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

/* A slice of `elements` of a type, laid out as this rank's generator says. */
static struct layout
draw_layout(struct draw *own, MPI_Datatype base, int elements, bool plain)
{
	struct layout layout = {base, elements, true};
	MPI_Aint lb, extent, places[4];
	int pieces = 2 + (int)draw_below(own, 3);
	unsigned int way = draw_below(own, 8);

	MPI_Type_get_extent(base, &lb, &extent);
	if (elements % pieces != 0)
		way = way < 4 ? 4 : way;
	if (plain || way == 7) {
		layout.own = false;
		return layout;
	}
	switch (way) {
	case 0: /* no gaps */
#if MPI_VERSION >= 4
		if (draw_below(own, 2)) {
			MPI_Type_contiguous_c(pieces, base, &layout.type);
			break;
		}
#endif
		MPI_Type_contiguous(pieces, base, &layout.type);
		break;
	case 1: /* gaps inside */ MPI_Type_vector(pieces, 1, 2, base, &layout.type); break;
	case 2: /* no gaps, and backwards */
	case 3: /* backwards, with gaps */
		for (int i = 0; i < pieces; i++)
			places[i] = (pieces - 1 - i) * (way - 1) * extent;
		MPI_Type_create_hindexed_block(pieces, 1, places, base, &layout.type);
		break;
	case 4: /* gaps between elements, and a lower bound below 0 */
		MPI_Type_create_resized(base, -8, 2 * extent + 8, &layout.type);
		break;
	case 5: /* gaps between slices */
		MPI_Type_contiguous(elements, base, &layout.type);
		layout.count = 1;
		if (elements > 0) {
			MPI_Datatype tight = layout.type;

			MPI_Type_create_resized(tight, 0, (elements + 3) * extent, &layout.type);
			MPI_Type_free(&tight);
		}
		break;
	case 6: /* a copy with another name */ MPI_Type_dup(base, &layout.type); break;
	}
	if (way < 4)
		layout.count = elements / pieces;
	MPI_Type_commit(&layout.type);
	return layout;
}

static struct buffer
make_buffer(const struct layout *layout, int slices)
{
	MPI_Aint lb, extent, true_lb, true_extent;
	struct buffer buffer;

	MPI_Type_get_extent(layout->type, &lb, &extent);
	MPI_Type_get_true_extent(layout->type, &true_lb, &true_extent);
	buffer.bytes = (size_t)(2 * MARGIN + slices * layout->count * extent + true_extent);
	buffer.memory = malloc(buffer.bytes);
	memset(buffer.memory, GAP, buffer.bytes);
	buffer.start = buffer.memory + MARGIN;
	return buffer;
}

/* Put packed data into slices of a buffer, from `slice` on; by elements, since Open MPI 5.0 unpacks many wrong (plan.c). */
static void
put(struct buffer *buffer, const struct layout *layout, int slice, int slices, const char *data,
	size_t bytes)
{
	MPI_Aint lb, extent;
	int position = 0;

	MPI_Type_get_extent(layout->type, &lb, &extent);
	for (int i = 0; bytes > 0 && i < slices * layout->count; i++)
		MPI_Unpack(data, (int)bytes, &position,
			buffer->start + (slice * layout->count + i) * extent, 1, layout->type,
			MPI_COMM_SELF);
}

/* Packed: elements [first, first + slices * elements) of a rank's data. */
static char *
sent(const struct call *call, int rank, int first, int slices)
{
	size_t size = (size_t)call->type->size;
	char *data = malloc((size_t)(slices * call->elements) * size + 1);

	for (int i = 0; i < slices * call->elements; i++)
		element(call->type, call->operation, call->seed, rank,
			(uint64_t)(first * call->elements + i), data + (size_t)i * size);
	return data;
}

static void
put_sent(const struct call *call, struct buffer *buffer, const struct layout *layout, int slice,
	int slices, int rank, int first)
{
	char *data = sent(call, rank, first, slices);

	put(buffer, layout, slice, slices, data,
		(size_t)(slices * call->elements * call->type->size));
	free(data);
}

static bool
rooted(enum collective collective)
{
	return collective == REDUCE || collective == BCAST || collective == SCATTER ||
		collective == GATHER;
}

/* Slices that a rank sends and receives. */
static int
send_slices(enum collective collective, int ranks)
{
	return collective == REDUCE_SCATTER_BLOCK || collective == SCATTER || collective == ALLTOALL
		? ranks
		: 1;
}

static int
recv_slices(enum collective collective, int ranks)
{
	return collective == GATHER || collective == ALLGATHER || collective == ALLTOALL ? ranks
											 : 1;
}

/* The data before a call, and what must be in the buffer after it. Reductions are checked element by element. */
static void
fill(struct call *call, MPI_Comm comm)
{
	enum collective collective = call->collective;
	bool sends, receives;
	int rank, ranks, out, in;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	out = send_slices(collective, ranks), in = recv_slices(collective, ranks);
	sends = rank == call->root || (collective != BCAST && collective != SCATTER);
	receives = rank == call->root || (collective != REDUCE && collective != GATHER);
	memset(call->send.memory, GAP, call->send.bytes);
	memset(call->recv.memory, GAP, call->recv.bytes);
	memset(call->wanted.memory, GAP, call->wanted.bytes);
	if (sends && collective != BCAST)
		put_sent(call, &call->send, &call->send_layout, 0, out, rank, 0);
	if (sends && collective == BCAST)
		put_sent(call, &call->recv, &call->recv_layout, 0, 1, rank, 0);
	if (call->in_place && receives) {
		if (collective == ALLGATHER || collective == GATHER)
			put_sent(call, &call->recv, &call->recv_layout, rank, 1, rank, 0);
		else if (collective != SCATTER)
			put_sent(call, &call->recv, &call->recv_layout, 0, out, rank, 0);
	}
	if (!receives || call->operation)
		return;
	if (collective == SCATTER && call->in_place && rank == call->root)
		return;
	for (int from = 0; from < in; from++)
		put_sent(call, &call->wanted, &call->recv_layout, from, 1,
			collective == BCAST || collective == SCATTER ? call->root : from,
			collective == SCATTER || collective == ALLTOALL ? rank : 0);
}

/* Add the received data, however it is laid out. A reduction of floating-point numbers depends on the order. */
static void
add_to_digest(const struct call *call, int slices)
{
	const struct layout *layout = &call->recv_layout;
	int bytes = slices * call->elements * call->type->size, packed = 0;
	char *data;

	if (call->operation &&
		(call->type->category == FLOATING || call->type->category == COMPLEX))
		return;
	data = malloc((size_t)bytes + 1);
	MPI_Pack(call->recv.start, slices * layout->count, layout->type, data, bytes, &packed,
		MPI_COMM_SELF);
	for (int i = 0; i < packed; i++)
		digest = (digest ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
	free(data);
}

static void
check(const struct call *call, MPI_Comm comm)
{
	size_t size, at;
	int rank, ranks, first;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	if (call->collective == BARRIER)
		return;
	if (rank == call->root || (call->collective != REDUCE && call->collective != GATHER))
		add_to_digest(call, recv_slices(call->collective, ranks));
	if (!call->operation) {
		for (at = 0; at < call->wanted.bytes &&
			call->wanted.memory[at] == call->recv.memory[at];)
			at++;
		if (at < call->wanted.bytes)
			fail("byte %zu of %zu", at - MARGIN, call->wanted.bytes - 2 * MARGIN);
		return;
	}
	if (call->collective == REDUCE && rank != call->root)
		return;
	size = (size_t)call->type->size;
	first = call->collective == REDUCE_SCATTER_BLOCK ? rank * call->elements : 0;
	for (int i = 0; i < call->elements; i++)
		if (!reduced(call->type, call->operation, call->seed, ranks, (uint64_t)(first + i),
			    call->recv.start + (size_t)i * size))
			fail("element %d", i);
	for (at = 0; at < MARGIN; at++)
		if ((unsigned char)call->recv.memory[at] != GAP ||
			(unsigned char)call->recv.memory[call->recv.bytes - 1 - at] != GAP)
			fail("wrote outside of the buffer");
}

static void
begin(struct call *call, MPI_Comm comm)
{
	bool at_root, send_in_place, recv_in_place;
	int rank;

	MPI_Comm_rank(comm, &rank);
	at_root = rank == call->root;
	send_in_place = call->in_place && call->collective != SCATTER &&
		(at_root || !rooted(call->collective));
	recv_in_place = call->in_place && call->collective == SCATTER && at_root;

	const void *send = send_in_place ? MPI_IN_PLACE : call->send.start;
	void *recv = recv_in_place ? MPI_IN_PLACE : call->recv.start;
	const struct layout *from = &call->send_layout, *to = &call->recv_layout;

#define DO(name, small, ...)                                                                       \
	do {                                                                                       \
		if (call->large && call->mode == BLOCKING)                                         \
			LARGE_FORM(name, __VA_ARGS__);                                             \
		else if (call->large && call->mode == NONBLOCKING)                                 \
			LARGE_FORM(I##small, __VA_ARGS__, &call->request);                         \
		else if (call->mode == BLOCKING)                                                   \
			MPI_##name(__VA_ARGS__);                                                   \
		else if (call->mode == NONBLOCKING)                                                \
			MPI_I##small(__VA_ARGS__, &call->request);                                 \
		else                                                                               \
			PERSISTENT_FORM(name, __VA_ARGS__, MPI_INFO_NULL, &call->request);         \
	} while (0)
	switch (call->collective) {
	case ALLREDUCE:
		DO(Allreduce, allreduce, send, recv, to->count, to->type, call->operation->handle,
			comm);
		break;
	case REDUCE:
		DO(Reduce, reduce, send, at_root ? recv : NULL, to->count, to->type,
			call->operation->handle, call->root, comm);
		break;
	case REDUCE_SCATTER_BLOCK:
		DO(Reduce_scatter_block, reduce_scatter_block, send, recv, to->count, to->type,
			call->operation->handle, comm);
		break;
	case BCAST: DO(Bcast, bcast, recv, to->count, to->type, call->root, comm); break;
	case SCATTER:
		if (at_root)
			DO(Scatter, scatter, send, from->count, from->type, recv, to->count,
				to->type, call->root, comm);
		else
			DO(Scatter, scatter, NULL, 0, MPI_DATATYPE_NULL, recv, to->count, to->type,
				call->root, comm);
		break;
	case GATHER:
		if (at_root)
			DO(Gather, gather, send, from->count, from->type, recv, to->count, to->type,
				call->root, comm);
		else
			DO(Gather, gather, send, from->count, from->type, NULL, 0,
				MPI_DATATYPE_NULL, call->root, comm);
		break;
	case ALLGATHER:
		DO(Allgather, allgather, send, from->count, from->type, recv, to->count, to->type,
			comm);
		break;
	case ALLTOALL:
		DO(Alltoall, alltoall, send, from->count, from->type, recv, to->count, to->type,
			comm);
		break;
	case BARRIER: DO(Barrier, barrier, comm); break;
	case COLLECTIVES: break;
	}
}

static int
draw_count(struct draw *draw, int ranks)
{
	switch (draw_below(draw, 8)) {
	case 0: return 0;
	case 1: return 1;
	case 2: return ranks * (int)draw_below(draw, 20);
	case 3: return 24 * (int)draw_below(draw, 60);
	case 4: return 500 + (int)draw_below(draw, 6000);
	default: return 1 + (int)draw_below(draw, 100);
	}
}

static void
describe(const struct call *call)
{
	static _Thread_local char text[256];
	int rank;

	snprintf(text, sizeof(text), "%s %s%s of %d %s, operation %s, root %d", modes[call->mode],
		names[call->collective], call->in_place ? " in place" : "", call->elements,
		call->type->name, call->operation ? call->operation->name : "none", call->root);
	where = text;
	if (trace_calls) {
		MPI_Comm_rank(MPI_COMM_WORLD, &rank);
		fprintf(stderr, "[%d] %s: %s\n", rank, where_comm, text);
	}
}

static void
make_call(struct call *call, enum collective collective, enum mode mode, MPI_Comm comm,
	struct draw *all, struct draw *own)
{
	bool plain;
	int ranks;

	MPI_Comm_size(comm, &ranks);
	*call = (struct call){.collective = collective, .mode = mode, .request = MPI_REQUEST_NULL};
	call->type = collective <= REDUCE_SCATTER_BLOCK ? draw_reduced(all, &call->operation)
							: draw_type(all);
	call->elements = draw_count(all, ranks);
	call->root = (int)draw_below(all, (unsigned int)ranks);
	call->in_place = draw_below(all, 3) == 0 && collective != BCAST && collective != BARRIER;
	call->seed = draw64(all);
	plain = call->operation || !mixed_layouts;
	call->large = MPI_VERSION >= 4 && draw_below(own, 2);
	call->send_layout = draw_layout(own, call->type->handle, call->elements, plain);
	call->recv_layout = draw_layout(own, call->type->handle, call->elements, plain);
	call->send = make_buffer(&call->send_layout, send_slices(collective, ranks));
	/* In place, the reduction's whole input is here. */
	call->recv = make_buffer(&call->recv_layout,
		call->operation ? send_slices(collective, ranks) : recv_slices(collective, ranks));
	call->wanted = call->recv;
	call->wanted.memory = malloc(call->wanted.bytes);
	call->wanted.start = call->wanted.memory + MARGIN;
}

static void
end_call(struct call *call)
{
	struct layout *layouts[] = {&call->send_layout, &call->recv_layout};

	for (int i = 0; i < 2; i++)
		if (layouts[i]->own)
			MPI_Type_free(&layouts[i]->type);
	free(call->send.memory);
	free(call->recv.memory);
	free(call->wanted.memory);
}

/* Complete requests as a program might; each rank in its own way. */
static void
complete(struct call *calls, int count, struct draw *own)
{
	MPI_Request requests[BATCH];
	int which, done = 0, indices[BATCH];
	unsigned int way = draw_below(own, 8);

	for (int i = 0; i < count; i++)
		requests[i] = calls[i].request;
	switch (way) {
	case 0: MPI_Waitall(count, requests, MPI_STATUSES_IGNORE); break;
	case 1:
		for (int i = count; i-- > 0;)
			MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
		break;
	case 2:
		while (!done)
			MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
		break;
	case 3:
		for (int i = 0; i < count; i++)
			MPI_Waitany(count, requests, &which, MPI_STATUS_IGNORE);
		break;
	case 4:
		while (done != MPI_UNDEFINED)
			MPI_Waitsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
		break;
	case 5:
		for (int i = 0; i < count; i++)
			for (done = 0; !done;)
				MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
		break;
	case 6:
		for (int i = count; i-- > 0;) {
			for (done = 0; !done;)
				MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
			MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
		}
		break;
	case 7:
		for (which = 0; which != MPI_UNDEFINED;)
			for (done = 0; !done;)
				MPI_Testany(count, requests, &which, &done, MPI_STATUS_IGNORE);
		break;
	}
	for (int i = 0; i < count; i++)
		calls[i].request = requests[i];
}

/* Calls of one mode: one, or several at a time if they don't block. */
static void
run(struct call *calls, int count, MPI_Comm comm, struct draw *own)
{
	MPI_Request requests[BATCH];
	int rounds = calls[0].mode == PERSISTENT ? 3 : 1;

	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < count; i++) {
			calls[i].seed += (uint64_t)round;
			fill(&calls[i], comm);
			describe(&calls[i]);
			if (round == 0)
				begin(&calls[i], comm);
			requests[i] = calls[i].request;
		}
		if (calls[0].mode == PERSISTENT && round % 2 == 0)
			MPI_Startall(count, requests);
		else if (calls[0].mode == PERSISTENT)
			for (int i = 0; i < count; i++)
				MPI_Start(&requests[i]);
		if (calls[0].mode != BLOCKING)
			complete(calls, count, own);
		for (int i = 0; i < count; i++) {
			describe(&calls[i]);
			check(&calls[i], comm);
		}
	}
	for (int i = 0; i < count; i++) {
		if (calls[0].mode == PERSISTENT)
			MPI_Request_free(&calls[i].request);
		end_call(&calls[i]);
	}
}

void
exercise(MPI_Comm comm, const char *what, uint64_t seed, unsigned int count)
{
	struct draw all = {draw_at(seed, 0, 0)}, own;
	struct call calls[BATCH];
	int rank, world;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_rank(MPI_COMM_WORLD, &world);
	own.state = draw_at(seed, (uint64_t)rank, 1);
	where_seed = seed, where_comm = what, digest = 0;
	for (unsigned int made = 0; made < count;) {
		enum mode mode = (enum mode)draw_below(&all, MODES);
		int together = mode == BLOCKING ? 1 : 1 + (int)draw_below(&all, BATCH);

		for (int i = 0; i < together; i++)
			make_call(&calls[i], (enum collective)(made++ % COLLECTIVES), mode, comm,
				&all, &own);
		run(calls, together, comm, &own);
	}
	printf("digest of %s, rank %d: %016" PRIx64 "\n", what, world, digest);
	if (rank == 0)
		printf("ok %s\n", what);
}

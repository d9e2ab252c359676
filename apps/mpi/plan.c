/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "apps/mpi/offload_priv.h"

/* Where a collective has slices, one for each rank. */
static bool
slices(enum offload_collective collective)
{
	return collective == OFFLOAD_REDUCE_SCATTER_BLOCK || collective == OFFLOAD_SCATTER ||
		collective == OFFLOAD_GATHER || collective == OFFLOAD_ALLGATHER ||
		collective == OFFLOAD_ALLTOALL;
}

static bool
rooted(enum offload_collective collective)
{
	return collective == OFFLOAD_REDUCE || collective == OFFLOAD_BCAST ||
		collective == OFFLOAD_SCATTER || collective == OFFLOAD_GATHER;
}

bool
call_uses(const struct offload_comm *comm, const struct offload_call *call, bool send)
{
	bool root = comm->rank == call->root;

	switch (call->collective) {
	case OFFLOAD_BCAST: return !send;
	case OFFLOAD_SCATTER: return send ? root : !root || call->recv != MPI_IN_PLACE;
	case OFFLOAD_REDUCE:
	case OFFLOAD_GATHER: return send ? !root || call->send != MPI_IN_PLACE : root;
	case OFFLOAD_ALLREDUCE:
	case OFFLOAD_REDUCE_SCATTER_BLOCK:
	case OFFLOAD_ALLGATHER:
	case OFFLOAD_ALLTOALL: return !send || call->send != MPI_IN_PLACE;
	case OFFLOAD_BARRIER:
	case OFFLOAD_COLLECTIVES: break;
	}
	return false;
}

/* The bytes of what is sent or received. False: MPI has to report it. */
static bool
side_bytes(const void *buffer, int64_t count, MPI_Datatype type, size_t *bytes)
{
	return buffer != MPI_IN_PLACE && count >= 0 && type != MPI_DATATYPE_NULL &&
		(front.own == MPI_COMM_NULL || mpi_type_valid(type, front.own)) &&
		!__builtin_mul_overflow(mpi_type_bytes(type), (size_t)count, bytes);
}

enum reason
call_facts(const struct offload_comm *comm, const struct offload_call *call, struct facts *facts)
{
	bool sends = call_uses(comm, call, true), gets = call_uses(comm, call, false);
	size_t sent = 0, got = 0;

	*facts = (struct facts){0};
	if (call->collective == OFFLOAD_BARRIER)
		return ON_WEIR;
	/* What is not valid is MPI's to report. */
	if ((rooted(call->collective) && (call->root < 0 || call->root >= comm->size)) ||
		(sends && !side_bytes(call->send, call->send_count, call->send_type, &sent)) ||
		(gets && !side_bytes(call->recv, call->recv_count, call->recv_type, &got)) ||
		(sends && gets && sent != got))
		return REASON_NOT_VALID;
	facts->unit = gets ? got : sent;
	facts->reduces = call->collective == OFFLOAD_ALLREDUCE ||
		call->collective == OFFLOAD_REDUCE ||
		call->collective == OFFLOAD_REDUCE_SCATTER_BLOCK;
	/* One element of some rank's type may be all of it, and MPI packs at most INT_MAX bytes. */
	if (!facts->reduces && facts->unit > INT_MAX)
		return REASON_TOO_MANY;
	/* All ranks have the same count here. MPI's part inside the host counts in int. */
	if (facts->reduces && call->recv_count > INT_MAX)
		return REASON_TOO_MANY;
	if (facts->reduces && !mpi_reduction(call->recv_type, call->op, &facts->form))
		return REASON_REDUCTION;
	if (__builtin_mul_overflow((uint64_t)facts->unit,
		    slices(call->collective) ? (uint64_t)comm->size : 1, &facts->bytes))
		return REASON_TOO_MANY;
	facts->nothing = facts->bytes == 0;
	if (facts->reduces)
		facts->count = (size_t)call->recv_count * facts->form.elements;
	else
		facts->form.dtype = mpi_moved(facts->unit, &facts->count);
	return ON_WEIR;
}

enum reason
call_fits(
	const struct offload_comm *comm, const struct offload_call *call, const struct facts *facts)
{
	const struct layout *layout = &comm->layout;
	bool sliced = slices(call->collective);
	unsigned int elements = comm->elements;

	if (call->collective == OFFLOAD_BARRIER)
		return ON_WEIR;
	if (facts->bytes < comm->min_bytes)
		return REASON_SMALL;
	if (comm->max_bytes > 0 && facts->bytes > comm->max_bytes)
		return REASON_LARGE;
	/* A block has an element of each slice at least; it has half as many elements of 8 bytes. */
	if (facts->reduces && weir_dtype_bytes(facts->form.dtype) == 8)
		elements /= 2;
	if (sliced && (uint64_t)layout->hosts < comm->min_hosts)
		return REASON_FEW_HOSTS;
	if (sliced && elements < (unsigned int)layout->hosts)
		return REASON_MANY_HOSTS;
	if (layout->alone)
		return ON_WEIR;
	/*
	 * Leaders exchange the slices of their ranks in one piece, so these must be neighbors. An AlltoAll would be
	 * reordered twice, and no byte of it less would pass the link.
	 */
	if (call->collective == OFFLOAD_ALLTOALL)
		return REASON_SHARED;
	if (sliced && !layout->regular)
		return REASON_IRREGULAR;
	/* MPI counts in int. */
	return facts->count <= (size_t)INT_MAX / (size_t)comm->size ? ON_WEIR : REASON_TOO_MANY;
}

/* The plan while it is made. */
struct maker {
	struct plan *plan;
	const struct offload_comm *comm;
	const struct offload_call *call;
	const struct facts *facts;
	/* Contiguous memory: what this rank contributes, and what it gets; NULL where it has no part. */
	char *send, *recv;
	bool leader, no_memory;
};

static char *
temporary(struct maker *maker, size_t bytes)
{
	void **memory = maker->plan->memory;

	while (*memory != NULL)
		memory++;
	*memory = malloc(bytes);
	maker->no_memory |= *memory == NULL;
	return *memory;
}

/* The program's buffer, or temporary memory in its place, if Weir cannot use it as it is. */
static char *
region(struct maker *maker, struct packing *packing, void *user, size_t count, MPI_Datatype type,
	size_t bytes, bool apart)
{
	size_t alignment = maker->facts->reduces ? weir_dtype_bytes(maker->facts->form.dtype) : 1;

	if (!apart && (front.plain != NULL ? front.plain(type) : mpi_type_plain(type)) &&
		(uintptr_t)user % alignment == 0)
		return user;
	*packing = (struct packing){user, count, type, temporary(maker, bytes), bytes};
	return packing->flat;
}

/* Which part of the vector, of n slices, does this rank contribute or get? 0: none. */
static size_t
part(const struct maker *maker, bool send)
{
	bool root = maker->comm->rank == maker->call->root;
	size_t all = (size_t)maker->facts->bytes, slice = maker->facts->unit;

	switch (maker->call->collective) {
	case OFFLOAD_ALLREDUCE: return all;
	case OFFLOAD_REDUCE: return send || root ? all : 0;
	case OFFLOAD_REDUCE_SCATTER_BLOCK: return send ? all : slice;
	case OFFLOAD_BCAST: return send == root ? all : 0;
	case OFFLOAD_SCATTER: return !send ? slice : root ? all : 0;
	case OFFLOAD_GATHER: return send ? slice : root ? all : 0;
	case OFFLOAD_ALLGATHER: return send ? slice : all;
	case OFFLOAD_ALLTOALL: return all;
	case OFFLOAD_BARRIER:
	case OFFLOAD_COLLECTIVES: break;
	}
	return 0;
}

static void
regions(struct maker *maker)
{
	const struct offload_call *call = maker->call;
	struct plan *plan = maker->plan;
	size_t sends = part(maker, true), gets = part(maker, false), slice = maker->facts->unit;
	bool in_place = call->send == MPI_IN_PLACE, discard = call->recv == MPI_IN_PLACE;
	char *from = in_place ? call->recv : (void *)(uintptr_t)call->send;
	size_t count = (size_t)(in_place ? call->recv_count : call->send_count);
	MPI_Datatype type = in_place ? call->recv_type : call->send_type;
	MPI_Aint lb, extent;

	if (in_place && sends > 0 && sends < gets) { /* the own slice among the others' */
		PMPI_Type_get_extent(type, &lb, &extent);
		from += (MPI_Aint)maker->comm->rank * (MPI_Aint)count * extent;
	}
	if (sends > 0)
		maker->send = region(
			maker, &plan->pack, from, count * (sends / slice), type, sends, false);
	if (gets > 0 && discard) /* the root of a scatter keeps its slice where it is */
		maker->recv = temporary(maker, gets);
	else if (gets > 0)
		/* A reduce-scatter in place puts the result over the first slice, which is contributed by then or not. */
		maker->recv = region(maker, &plan->unpack, call->recv,
			(size_t)call->recv_count * (gets / slice), call->recv_type, gets,
			in_place && sends > gets);
}

static struct step *
add(struct maker *maker, enum step_kind kind, const void *send, void *recv, int root)
{
	struct step *step = &maker->plan->steps[maker->plan->n++];

	*step = (struct step){.kind = kind,
		.collective = maker->call->collective,
		.send = send,
		.recv = recv,
		.root = root};
	step->count = maker->facts->count;
	return step;
}

/* The hosts' part. n: the slices that this rank stands for. */
static void
add_weir(struct maker *maker, const void *send, void *recv, size_t n, int root)
{
	add(maker, STEP_WEIR, send, recv, root)->count *= n;
}

/* Inside the host: a collective of `n` slices a rank, on the communicator of first or of last steps. */
static void
add_local(struct maker *maker, enum offload_collective collective, bool last, const void *send,
	void *recv, size_t n, int root)
{
	struct step *step;

	if (maker->comm->layout.locals == 1)
		return;
	step = add(maker, STEP_LOCAL, send, recv, root);
	step->collective = collective;
	step->last = last;
	step->count *= n;
}

/* All n slices between the leader and the root on the same host, if they are not the same rank. */
static void
add_carry(struct maker *maker, bool to_root, int root_local, char *whole)
{
	const struct layout *layout = &maker->comm->layout;
	size_t n = maker->facts->bytes / maker->facts->unit;
	bool root = maker->comm->rank == maker->call->root;

	if (root_local == 0 ||
		(!root && !(maker->leader && layout->host == layout->host_of[maker->call->root])))
		return;
	if (root == to_root)
		add(maker, STEP_RECV, NULL, whole, root ? 0 : root_local)->count *= n;
	else
		add(maker, STEP_SEND, whole, NULL, root ? 0 : root_local)->count *= n;
}

/* Several ranks on a host: MPI inside, Weir among the leaders. */
static void
plan_hosts(struct maker *maker)
{
	const struct layout *layout = &maker->comm->layout;
	size_t locals = (size_t)layout->locals, n = (size_t)maker->comm->size;
	size_t block = locals * maker->facts->unit, at = (size_t)layout->host * block,
	       all = (size_t)maker->facts->bytes;
	int root = maker->call->root, root_host = 0, root_local = 0;
	bool leader = maker->leader, is_root = false, root_here = false;
	char *send = maker->send, *recv = maker->recv, *whole = NULL, *own = NULL;

	if (rooted(maker->call->collective)) {
		root_host = layout->host_of[root];
		for (int rank = 0; rank < root; rank++)
			root_local += layout->host_of[rank] == root_host;
		is_root = maker->comm->rank == root;
		root_here = layout->host == root_host;
	}
	switch (maker->call->collective) {
	case OFFLOAD_ALLREDUCE:
		add_local(maker, OFFLOAD_REDUCE, false, send, recv, 1, 0);
		if (leader)
			add_weir(maker, locals > 1 ? recv : send, recv, 1, 0);
		add_local(maker, OFFLOAD_BCAST, true, recv, recv, 1, 0);
		break;
	case OFFLOAD_REDUCE:
		whole = is_root                               ? recv
			: leader && (locals > 1 || root_here) ? temporary(maker, all)
							      : NULL;
		add_local(maker, OFFLOAD_REDUCE, false, send, leader ? whole : NULL, 1, 0);
		if (leader)
			add_weir(maker, locals > 1 ? whole : send, root_here ? whole : NULL, 1,
				root_host);
		add_carry(maker, true, root_local, whole);
		break;
	case OFFLOAD_REDUCE_SCATTER_BLOCK:
		whole = leader ? temporary(maker, all) : NULL;
		add_local(maker, OFFLOAD_REDUCE, false, send, whole, n, 0);
		if (leader)
			add_weir(maker, whole, whole + at, locals, 0);
		add_local(maker, OFFLOAD_SCATTER, true, leader ? whole + at : NULL, recv, 1, 0);
		break;
	case OFFLOAD_BCAST:
		own = is_root ? send : recv;
		if (root_here)
			add_local(maker, OFFLOAD_BCAST, false, own, own, 1, root_local);
		if (leader)
			add_weir(maker, own, own, 1, root_host);
		if (!root_here)
			add_local(maker, OFFLOAD_BCAST, true, own, own, 1, 0);
		break;
	case OFFLOAD_SCATTER:
		whole = is_root ? send : leader && root_here ? temporary(maker, all) : NULL;
		own = leader ? temporary(maker, block) : NULL;
		add_carry(maker, false, root_local, whole);
		if (leader)
			add_weir(maker, whole, own, locals, root_host);
		add_local(maker, OFFLOAD_SCATTER, true, own, recv, 1, 0);
		break;
	case OFFLOAD_GATHER:
		whole = is_root ? recv : leader && root_here ? temporary(maker, all) : NULL;
		own = leader ? temporary(maker, block) : NULL;
		add_local(maker, OFFLOAD_GATHER, false, send, own, 1, 0);
		if (leader)
			add_weir(maker, own, whole, locals, root_host);
		add_carry(maker, true, root_local, whole);
		break;
	case OFFLOAD_ALLGATHER:
		add_local(maker, OFFLOAD_GATHER, false, send, leader ? recv + at : NULL, 1, 0);
		if (leader)
			add_weir(maker, recv + at, recv, locals, 0);
		add_local(maker, OFFLOAD_BCAST, true, recv, recv, n, 0);
		break;
	case OFFLOAD_BARRIER:
		add_local(maker, OFFLOAD_BARRIER, false, NULL, NULL, 1, 0);
		if (leader)
			add_weir(maker, NULL, NULL, 1, 0);
		add_local(maker, OFFLOAD_BARRIER, true, NULL, NULL, 1, 0);
		break;
	case OFFLOAD_ALLTOALL:
	case OFFLOAD_COLLECTIVES: break;
	}
}

int
plan_make(struct plan *plan, const struct offload_comm *comm, const struct offload_call *call,
	const struct facts *facts)
{
	struct maker maker = {plan, comm, call, facts, .leader = comm->layout.local == 0};

	plan->n = 0;
	plan->pack.flat = plan->unpack.flat = NULL;
	plan->form = facts->form;
	memset(plan->memory, 0, sizeof(plan->memory));
	if (call->collective != OFFLOAD_BARRIER)
		regions(&maker);
	if (!comm->layout.alone)
		plan_hosts(&maker);
	else if (call->collective == OFFLOAD_BCAST && comm->rank == call->root)
		add_weir(&maker, maker.send, maker.send, 1, call->root);
	else
		add_weir(&maker, maker.send, maker.recv, 1, call->root);
	if (maker.no_memory) {
		plan_end(plan);
		return MPI_ERR_NO_MEM;
	}
	return MPI_SUCCESS;
}

/* In pieces, because MPI_Pack counts in int. MPI_COMM_SELF, because the program may have freed the communicator. */
int
plan_copy(const struct plan *plan, enum plan_copy what)
{
	const struct packing *packing = what == PLAN_PACK ? &plan->pack : &plan->unpack;
	size_t bytes, piece, done = 0;
	MPI_Datatype type = packing->type;
	char *base = packing->user;
	MPI_Aint lb, extent;
	int code = MPI_SUCCESS, position, left;

	if (packing->flat == NULL)
		return MPI_SUCCESS;
	bytes = mpi_type_bytes(type);
	piece = bytes > 0 && bytes < INT_MAX / 2 ? INT_MAX / 2 / bytes : 1;
	/* MPICH packs nothing at MPI_BOTTOM: use the data's own address, and a type that begins there. */
	if (base == MPI_BOTTOM) {
		PMPI_Type_get_true_extent(packing->type, &lb, &extent);
		base += lb;
		lb = -lb;
		PMPI_Type_create_hindexed(1, &(int){1}, &lb, packing->type, &type);
		PMPI_Type_commit(&type);
	}
	PMPI_Type_get_extent(type, &lb, &extent);
	for (size_t first = 0; first < packing->count; first += piece) {
		size_t count = packing->count - first < piece ? packing->count - first : piece;
		char *user = base + (MPI_Aint)first * extent;

		left = packing->bytes - done < INT_MAX ? (int)(packing->bytes - done) : INT_MAX;
		position = 0;
		code = what == PLAN_PACK ? PMPI_Pack(user, (int)count, type, packing->flat + done,
						   left, &position, MPI_COMM_SELF)
					 : PMPI_Unpack(packing->flat + done, left, &position, user,
						   (int)count, type, MPI_COMM_SELF);
		if (code == MPI_SUCCESS && (size_t)position != count * bytes)
			code = MPI_ERR_TRUNCATE;
		if (code != MPI_SUCCESS)
			break;
		done += count * bytes;
	}
	if (type != packing->type)
		PMPI_Type_free(&type);
	return code;
}

void
plan_end(struct plan *plan)
{
	for (void **memory = plan->memory; *memory != NULL; memory++)
		free(*memory);
	plan->memory[0] = NULL;
}

/* Start what steps say */

int
weir_start(struct weir *weir, const struct plan *plan, const struct step *step,
	struct weir_request **request)
{
	enum weir_dtype dtype = plan->form.dtype;
	enum weir_op op = plan->form.op;
	unsigned int root = (unsigned int)step->root;
	const void *send = step->send;
	void *recv = step->recv;
	size_t count = step->count;

	switch (step->collective) {
	case OFFLOAD_ALLREDUCE: return weir_iallreduce(weir, send, recv, count, dtype, op, request);
	case OFFLOAD_REDUCE: return weir_ireduce(weir, send, recv, count, dtype, op, root, request);
	case OFFLOAD_REDUCE_SCATTER_BLOCK:
		return weir_ireducescatter(weir, send, recv, count, dtype, op, request);
	case OFFLOAD_BCAST: return weir_ibroadcast(weir, send, recv, count, dtype, root, request);
	case OFFLOAD_SCATTER: return weir_iscatter(weir, send, recv, count, dtype, root, request);
	case OFFLOAD_GATHER: return weir_igather(weir, send, recv, count, dtype, root, request);
	case OFFLOAD_ALLGATHER: return weir_iallgather(weir, send, recv, count, dtype, request);
	case OFFLOAD_ALLTOALL: return weir_ialltoall(weir, send, recv, count, dtype, request);
	case OFFLOAD_BARRIER: return weir_ibarrier(weir, request);
	case OFFLOAD_COLLECTIVES: break;
	}
	return -EINVAL;
}

/* A nonblocking collective of MPI. */
static int
collective_start(const struct offload_call *call, MPI_Comm on, MPI_Request *request)
{
	switch (call->collective) {
#define FIELD(type, name)                call->name,
#define RECEIVED(type, name, sent, recv) call->recv,
#define OFFLOAD_X(id, mpi, name, shape, ...)                                                       \
	case OFFLOAD_##id: return PMPI_I##name(OFFLOAD_##shape(FIELD, RECEIVED, ) on, request);
		OFFLOAD_LIST(OFFLOAD_X)
#undef OFFLOAD_X
	case OFFLOAD_COLLECTIVES: break;
	}
	return MPI_ERR_INTERN;
}

int
mpi_start(struct offload_op *op, const struct step *step)
{
	const struct offload_comm *comm = op->comm;
	MPI_Comm on = comm->local[step->last];
	MPI_Datatype type = mpi_type_of(op->plan.form.dtype);
	int count = (int)step->count, tag = (int)(op->number % TAG_FAILURE);
	bool in_place = comm->layout.local == step->root && step->send == step->recv;
	struct offload_call call = {
		.collective = step->collective,
		.send = in_place ? MPI_IN_PLACE : step->send,
		.recv = step->recv,
		.send_count = count,
		.recv_count = count,
		.send_type = type,
		.recv_type = type,
		.root = step->root,
	};

	switch (step->kind) {
	case STEP_SEND:
		return PMPI_Isend(step->send, count, type, step->root, tag, on, &op->request);
	case STEP_RECV:
		return PMPI_Irecv(step->recv, count, type, step->root, tag, on, &op->request);
	case STEP_LOCAL:
		if (step->collective == OFFLOAD_REDUCE)
			call.op = mpi_op_of(op->plan.form.op);
		return collective_start(&call, on, &op->request);
	case STEP_PRIVATE: return collective_start(&op->call, comm->private_comm, &op->request);
	case STEP_WEIR: break;
	}
	return MPI_ERR_INTERN;
}

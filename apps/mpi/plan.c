/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "apps/mpi/offload_priv.h"
#include "pktbuf/wire/collectives.h"

/* Does this rank contribute data, and does it get any? The root of a broadcast gets what it has. */
static bool
contributes(const struct collective_row *row, bool root)
{
	return row->contribution == CONTRIBUTION_ROOT ? root
						      : row->contribution != CONTRIBUTION_NOTHING;
}

static bool
is_receiver(const struct collective_row *row, bool root)
{
	return row->to == TO_ROOT ? root : row->result != RESULT_NOTHING;
}

bool
call_uses(const struct offload_comm *comm, const struct offload_call *call, bool send)
{
	const struct collective_row *row = &collective_table[call->collective];
	bool root = comm->rank == call->root;

	if (!send)
		return is_receiver(row, root) &&
			!(call->recv == MPI_IN_PLACE && root &&
				call->collective == WEIR_COLLECTIVE_SCATTER);
	return contributes(row, root) && call->collective != WEIR_COLLECTIVE_BROADCAST &&
		!(call->send == MPI_IN_PLACE && (root || !row->rooted) &&
			call->collective != WEIR_COLLECTIVE_SCATTER);
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
	const struct collective_row *row = &collective_table[call->collective];
	bool sends = call_uses(comm, call, true), receives = call_uses(comm, call, false);
	size_t sent = 0, got = 0;

	*facts = (struct facts){0};
	if (call->collective == WEIR_COLLECTIVE_BARRIER)
		return ON_WEIR;
	/* What is not valid is MPI's to report. */
	if ((row->rooted && (call->root < 0 || call->root >= comm->size)) ||
		(sends && !side_bytes(call->send, call->send_count, call->send_type, &sent)) ||
		(receives && !side_bytes(call->recv, call->recv_count, call->recv_type, &got)) ||
		(sends && receives && sent != got))
		return REASON_NOT_VALID;
	facts->unit = receives ? got : sent;
	facts->reduces = row->contribution == CONTRIBUTION_REDUCE;
	facts->sliced = row->contribution >= CONTRIBUTION_SLICE || row->result >= RESULT_SLICE;
	/* One element of some rank's type may be all of it, and MPI packs at most INT_MAX bytes. */
	if (!facts->reduces && facts->unit > INT_MAX)
		return REASON_TOO_MANY;
	/* All ranks have the same count here. MPI's part inside the host counts in int. */
	if (facts->reduces && call->recv_count > INT_MAX)
		return REASON_TOO_MANY;
	if (facts->reduces && !mpi_reduction(call->recv_type, call->op, &facts->form))
		return REASON_REDUCTION;
	if (__builtin_mul_overflow(
		    (uint64_t)facts->unit, facts->sliced ? (uint64_t)comm->size : 1, &facts->bytes))
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
	bool sliced = facts->sliced;
	unsigned int elements = comm->elements;

	if (call->collective == WEIR_COLLECTIVE_BARRIER)
		return ON_WEIR;
	if (facts->bytes < comm->min_bytes)
		return REASON_SMALL;
	if (comm->max_bytes > 0 && facts->bytes > comm->max_bytes)
		return REASON_LARGE;
	/* A block has an element of each slice at least, and half as many elements of 8 bytes. */
	if (facts->reduces && weir_dtype_bytes(facts->form.dtype) == 8)
		elements /= 2;
	if (sliced && (uint64_t)layout->hosts < comm->min_hosts)
		return REASON_FEW_HOSTS;
	if (sliced && elements < (unsigned int)layout->hosts)
		return REASON_MANY_HOSTS;
	if (layout->alone)
		return ON_WEIR;
	/*
	 * Leaders exchange the slices of their ranks in one piece, so these must be neighbors. An
	 * AlltoAll would be reordered twice, and no byte of it less would pass the link.
	 */
	if (call->collective == WEIR_COLLECTIVE_ALLTOALL)
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
	const struct collective_row *row;
	/* Contiguous memory: what this rank contributes, and what it gets; NULL: it has no part. */
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
	const struct collective_row *row = maker->row;
	bool root = maker->comm->rank == maker->call->root;

	if (send ? !contributes(row, root)
		 : !is_receiver(row, root) ||
				(root && row->contribution == CONTRIBUTION_ROOT &&
					row->result == RESULT_WHOLE))
		return 0;
	return (send ? row->contribution == CONTRIBUTION_SLICE : row->result == RESULT_SLICE)
		? maker->facts->unit
		: (size_t)maker->facts->bytes;
}

static void
regions(struct maker *maker)
{
	const struct offload_call *call = maker->call;
	struct plan *plan = maker->plan;
	size_t sent = part(maker, true), received = part(maker, false), slice = maker->facts->unit;
	bool in_place = call->send == MPI_IN_PLACE, discard = call->recv == MPI_IN_PLACE;
	char *from = in_place ? call->recv : (void *)(uintptr_t)call->send;
	size_t count = (size_t)(in_place ? call->recv_count : call->send_count);
	MPI_Datatype type = in_place ? call->recv_type : call->send_type;
	MPI_Aint lb, extent;

	if (in_place && sent > 0 && sent < received) { /* the own slice among the others' */
		PMPI_Type_get_extent(type, &lb, &extent);
		from += (MPI_Aint)maker->comm->rank * (MPI_Aint)count * extent;
	}
	if (sent > 0)
		maker->send =
			region(maker, &plan->pack, from, count * (sent / slice), type, sent, false);
	if (received > 0 && discard) /* the root of a scatter keeps its slice where it is */
		maker->recv = temporary(maker, received);
	else if (received > 0)
		/* A reduce-scatter in place puts the result over the first slice. */
		maker->recv = region(maker, &plan->unpack, call->recv,
			(size_t)call->recv_count * (received / slice), call->recv_type, received,
			in_place && sent > received);
}

/* A step, if this rank has a part in it: of n slices, inside the host or among the leaders. */
static void
add(struct maker *maker, enum step_kind kind, enum weir_collective collective, const void *send,
	void *recv, size_t n, int root)
{
	struct plan *plan = maker->plan;

	if (kind == STEP_WEIR ? maker->leader : maker->comm->layout.locals > 1)
		plan->steps[plan->n++] =
			(struct step){kind, collective, send, recv, n * maker->facts->count, root};
}

/* Several ranks on a host: MPI inside, Weir among the leaders. An alltoall is not planned so. */
static void
plan_hosts(struct maker *maker)
{
	const struct layout *layout = &maker->comm->layout;
	const struct collective_row *row = maker->row;
	enum weir_collective c = maker->call->collective;
	size_t locals = (size_t)layout->locals, unit = maker->facts->unit,
	       all = (size_t)maker->facts->bytes, n = unit > 0 ? all / unit : 1;
	int root = maker->call->root, root_host = 0, root_local = 0;
	bool leader = maker->leader, is_root = row->rooted && maker->comm->rank == root,
	     root_here = false, reduces = row->contribution == CONTRIBUTION_REDUCE,
	     sends_slice = row->contribution == CONTRIBUTION_SLICE,
	     gets_slice = row->result == RESULT_SLICE, carries;
	/* The leader's and the root's: all slices, and those of this host. */
	char *send = maker->send, *recv = maker->recv, *whole = NULL, *own = NULL;

	if (row->rooted) {
		root_host = layout->host_of[root];
		for (int rank = 0; rank < root; rank++)
			root_local += layout->host_of[rank] == root_host;
		root_here = layout->host == root_host;
	}
	if (c == WEIR_COLLECTIVE_BROADCAST) {
		own = is_root ? send : recv;
		if (root_here)
			add(maker, STEP_FIRST, c, own, own, 1, root_local);
		add(maker, STEP_WEIR, c, own, own, 1, root_host);
		if (!root_here)
			add(maker, STEP_LAST, c, own, own, 1, 0);
		return;
	}
	if (is_root)
		whole = row->to == TO_ROOT ? recv : send;
	else if (leader && !row->rooted && !gets_slice)
		whole = recv;
	else if (leader && (root_here || (reduces && locals > 1)))
		whole = temporary(maker, all);
	if (leader && (sends_slice || gets_slice))
		own = row->rooted ? temporary(maker, locals * unit)
				  : whole + (size_t)layout->host * locals * unit;
	/* Between the leader and the root on the same host, if they are not the same rank. */
	carries = root_local > 0 && (is_root || (leader && root_here));

	if (reduces)
		add(maker, STEP_FIRST, WEIR_COLLECTIVE_REDUCE, send, whole, n, 0);
	else if (sends_slice)
		add(maker, STEP_FIRST, WEIR_COLLECTIVE_GATHER, send, own, 1, 0);
	else if (c == WEIR_COLLECTIVE_BARRIER)
		add(maker, STEP_FIRST, c, NULL, NULL, 1, 0);
	else if (carries)
		add(maker, is_root ? STEP_SEND : STEP_RECV, c, whole, whole, n,
			is_root ? 0 : root_local);
	add(maker, STEP_WEIR, c,
		sends_slice                      ? own
			: reduces && locals == 1 ? send
						 : whole,
		gets_slice                                 ? own
			: row->to == TO_ROOT && !root_here ? NULL
							   : whole,
		sends_slice || gets_slice ? locals : 1, root_host);
	if (row->to == TO_ROOT && carries)
		add(maker, is_root ? STEP_RECV : STEP_SEND, c, whole, whole, n,
			is_root ? 0 : root_local);
	else if (gets_slice)
		add(maker, STEP_LAST, WEIR_COLLECTIVE_SCATTER, own, recv, 1, 0);
	else if (c == WEIR_COLLECTIVE_BARRIER)
		add(maker, STEP_LAST, c, NULL, NULL, 1, 0);
	else if (row->to == TO_ALL)
		add(maker, STEP_LAST, WEIR_COLLECTIVE_BROADCAST, recv, recv, n, 0);
}

int
plan_make(struct plan *plan, const struct offload_comm *comm, const struct offload_call *call,
	const struct facts *facts)
{
	struct maker maker = {plan, comm, call, facts, &collective_table[call->collective],
		.leader = comm->layout.local == 0};

	plan->n = 0;
	plan->pack.flat = plan->unpack.flat = NULL;
	plan->form = facts->form;
	memset(plan->memory, 0, sizeof(plan->memory));
	if (call->collective != WEIR_COLLECTIVE_BARRIER)
		regions(&maker);
	if (!comm->layout.alone)
		plan_hosts(&maker);
	else
		add(&maker, STEP_WEIR, call->collective, maker.send,
			call->collective == WEIR_COLLECTIVE_BROADCAST && comm->rank == call->root
				? maker.send
				: maker.recv,
			1, call->root);
	if (maker.no_memory) {
		plan_end(plan);
		return MPI_ERR_NO_MEM;
	}
	return MPI_SUCCESS;
}

/*
 * Open MPI 5.0 makes a type of its own of 250 elements and more, in MPI_Pack and MPI_Unpack alone, and then takes an extent
 * for a multiple of a complex number's size: others than that, such as 24 bytes with MPI_C_DOUBLE_COMPLEX, it rounds down.
 */
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5
#define PACK_MOST 249
#else
#define PACK_MOST INT_MAX
#endif

/* In pieces: MPI_Pack counts in int. MPI_COMM_SELF: the program may have freed the communicator. */
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
	if (piece > PACK_MOST)
		piece = PACK_MOST;
	/* MPICH packs nothing at MPI_BOTTOM: take the data's address, and a type that begins there. */
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
	const struct weir_call call = {step->collective, step->send, step->recv, step->count,
		plan->form.dtype, plan->form.op, (unsigned int)step->root};

	return weir_collective(weir, &call, request);
}

/* A nonblocking collective of MPI. */
static int
collective_start(const struct offload_call *call, MPI_Comm on, MPI_Request *request)
{
	switch ((unsigned int)call->collective) {
#define FIELD(type, name)                call->name,
#define RECEIVED(type, name, sent, recv) call->recv,
#define OFFLOAD_X(id, mpi, name, shape, ...)                                                       \
	case WEIR_COLLECTIVE_##id:                                                                 \
		return PMPI_I##name(OFFLOAD_##shape(FIELD, RECEIVED, ) on, request);
		OFFLOAD_LIST(OFFLOAD_X)
#undef OFFLOAD_X
	}
	return MPI_ERR_INTERN;
}

int
mpi_start(struct offload_op *op, const struct step *step)
{
	const struct offload_comm *comm = op->comm;
	MPI_Comm on = comm->local[step->kind == STEP_LAST];
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
	case STEP_FIRST:
	case STEP_LAST:
		if (step->collective == WEIR_COLLECTIVE_REDUCE)
			call.op = mpi_op_of(op->plan.form.op);
		return collective_start(&call, on, &op->request);
	case STEP_PRIVATE: return collective_start(&op->call, comm->private_comm, &op->request);
	case STEP_WEIR: break;
	}
	return MPI_ERR_INTERN;
}

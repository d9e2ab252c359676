/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the core of the MPI plug-ins decides, and the steps that it makes of calls: a model runs the
 * steps of all ranks and compares the results with the collective's definition.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/verify/verify.h"
#include "tests/unit/fake_mpi.h"

enum { RANKS_MAX = 6, COUNT = 3, BUFFER = RANKS_MAX * COUNT * 2 };

/* Slices that each rank sends and gets, of n; 0: it has no part. */
static int
sent(enum weir_collective c, int n, bool root)
{
	if (c == WEIR_COLLECTIVE_BARRIER ||
		((c == WEIR_COLLECTIVE_BROADCAST || c == WEIR_COLLECTIVE_SCATTER) && !root))
		return 0;
	return c == WEIR_COLLECTIVE_REDUCESCATTER || c == WEIR_COLLECTIVE_SCATTER ||
			c == WEIR_COLLECTIVE_ALLTOALL
		? n
		: 1;
}

static int
got(enum weir_collective c, int n, bool root)
{
	if (c == WEIR_COLLECTIVE_BARRIER ||
		((c == WEIR_COLLECTIVE_REDUCE || c == WEIR_COLLECTIVE_GATHER) && !root))
		return 0;
	return c == WEIR_COLLECTIVE_GATHER || c == WEIR_COLLECTIVE_ALLGATHER ||
			c == WEIR_COLLECTIVE_ALLTOALL
		? n
		: 1;
}

/* A collective by its definition, for slices of `count` ints. Buffers of ranks without a part
 * may be NULL. */
static void
collective(enum weir_collective c, int n, const int32_t *const *send, int32_t *const *recv,
	size_t count, int root)
{
	int32_t *in[RANKS_MAX];

	for (int r = 0; r < n; r++) {
		size_t slices = (size_t)sent(c, n, r == root) * count;

		in[r] = calloc(slices + 1, sizeof(int32_t));
		if (slices > 0)
			memcpy(in[r], send[r], slices * sizeof(int32_t));
	}
	for (int r = 0; r < n; r++)
		for (size_t i = 0; i < (size_t)got(c, n, r == root) * count; i++) {
			size_t from = i / count, at = i % count;
			int32_t sum = 0;

			if (recv[r] == NULL) /* it has the data already */
				break;
			for (int s = 0; s < n && verify_reduces(c); s++)
				sum += in[s][c == WEIR_COLLECTIVE_REDUCESCATTER
						? (size_t)r * count + i
						: i];
			recv[r][i] = verify_reduces(c)           ? sum
				: c == WEIR_COLLECTIVE_BROADCAST ? in[root][i]
				: c == WEIR_COLLECTIVE_SCATTER   ? in[root][(size_t)r * count + i]
				: c == WEIR_COLLECTIVE_ALLTOALL  ? in[from][(size_t)r * count + at]
								 : in[from][at];
		}
	for (int r = 0; r < n; r++)
		free(in[r]);
}

struct rank {
	struct offload_comm comm;
	struct offload_call call;
	struct facts facts;
	struct plan plan;
	unsigned int at;
	int stride; /* of ints in the buffers: 2 with gaps */
	int32_t send[BUFFER], recv[BUFFER];
};

static struct rank ranks[RANKS_MAX];

static void
lay_out(struct layout *layout, const int *hosts, int rank, int n)
{
	*layout = (struct layout){
		.host = hosts[rank], .regular = true, .host_of = (int *)(uintptr_t)hosts};
	for (int r = 0; r < n; r++) {
		layout->hosts = hosts[r] >= layout->hosts ? hosts[r] + 1 : layout->hosts;
		layout->locals += hosts[r] == hosts[rank];
		layout->local += hosts[r] == hosts[rank] && r < rank;
	}
	for (int r = 0; r < n; r++)
		layout->regular &= n % layout->hosts == 0 && hosts[r] == r / (n / layout->hosts);
	layout->alone = layout->hosts == n;
}

/* Run the step that these members are at, as one collective; false: not all are at one. */
static bool
together(enum step_kind kind, const int *members, int n)
{
	const int32_t *send[RANKS_MAX] = {NULL};
	int32_t *recv[RANKS_MAX] = {NULL};
	const struct step *step = NULL;

	for (int i = 0; i < n; i++) {
		struct rank *rank = &ranks[members[i]];

		step = &rank->plan.steps[rank->at];
		if (rank->at == rank->plan.n || step->kind != kind)
			return false;
		send[i] = step->send;
		recv[i] = step->recv;
	}
	collective(step->collective, n, send, recv, step->count, step->root);
	for (int i = 0; i < n; i++)
		ranks[members[i]].at++;
	return true;
}

/* Run one step of any rank, or of several. */
static bool
advance(int n, const int *hosts, int n_hosts)
{
	int members[RANKS_MAX], leaders[RANKS_MAX];

	for (int h = 0; h < n_hosts; h++) {
		int locals = 0;

		for (int r = 0; r < n; r++)
			if (hosts[r] == h)
				members[locals++] = r;
		leaders[h] = members[0];
		if (together(STEP_FIRST, members, locals) || together(STEP_LAST, members, locals))
			return true;
		for (int i = 0; i < locals; i++) {
			struct rank *from = &ranks[members[i]], *to;
			const struct step *step = &from->plan.steps[from->at], *other;

			if (from->at == from->plan.n || step->kind != STEP_SEND)
				continue;
			to = &ranks[members[step->root]];
			other = &to->plan.steps[to->at];
			if (to->at == to->plan.n || other->kind != STEP_RECV)
				continue;
			cr_assert_eq(other->root, i);
			cr_assert_eq(other->count, step->count);
			memcpy(other->recv, step->send, step->count * sizeof(int32_t));
			from->at++;
			to->at++;
			return true;
		}
	}
	return together(STEP_WEIR, leaders, n_hosts);
}

/* One call on ranks of these hosts. gaps: bit r: rank r has gaps between its ints. Returns
 * whether Weir had it. */
static bool
check(const int *hosts, int n, enum weir_collective c, int root, bool in_place, unsigned int gaps)
{
	const int32_t *sends[RANKS_MAX] = {NULL};
	int32_t wanted[RANKS_MAX][BUFFER] = {0}, plain[RANKS_MAX][BUFFER] = {0},
		*wants[RANKS_MAX] = {NULL};
	struct layout *layout = &ranks[0].comm.layout;
	bool fits = true;

	for (int r = 0; r < n; r++) {
		struct rank *rank = &ranks[r];
		bool here = in_place && (!collective_table[c].rooted || r == root) &&
			c != WEIR_COLLECTIVE_BROADCAST,
		     discard = here && c == WEIR_COLLECTIVE_SCATTER;
		int s = gaps >> r & 1 ? 2 : 1,
		    own = c == WEIR_COLLECTIVE_GATHER || c == WEIR_COLLECTIVE_ALLGATHER ? r * COUNT
											: 0;
		MPI_Datatype type = s == 2 ? GAPPED : MPI_INT;

		memset(rank, 0, sizeof(*rank));
		rank->stride = s;
		rank->comm = (struct offload_comm){.rank = r, .size = n, .elements = 1000};
		lay_out(&rank->comm.layout, hosts, r, n);
		for (int i = 0; i < n * COUNT; i++) {
			plain[r][i] = 1000 * r + i;
			rank->send[i * s] = plain[r][i];
		}
		memset(rank->recv, 0x55, sizeof(rank->recv));
		rank->call = (struct offload_call){
			c, rank->send, rank->recv, COUNT, COUNT, type, type, MPI_SUM, root};
		if (c == WEIR_COLLECTIVE_BROADCAST)
			rank->call.recv = rank->send;
		if (here && !discard) {
			for (int i = 0; i < sent(c, n, r == root) * COUNT; i++)
				rank->recv[(own + i) * s] = plain[r][i];
			rank->call.send = MPI_IN_PLACE;
		}
		if (discard)
			rank->call.recv = MPI_IN_PLACE;
		sends[r] = plain[r];
		wants[r] = wanted[r];
		cr_assert_eq(call_facts(&rank->comm, &rank->call, &rank->facts), ON_WEIR);
		cr_assert(r == 0 ||
				(call_fits(&rank->comm, &rank->call, &rank->facts) == ON_WEIR) ==
					fits,
			"ranks differ");
		fits = call_fits(&rank->comm, &rank->call, &rank->facts) == ON_WEIR;
	}
	if (!fits)
		return false;
	collective(c, n, sends, wants, COUNT, root);
	for (int r = 0; r < n; r++) {
		cr_assert_eq(
			plan_make(&ranks[r].plan, &ranks[r].comm, &ranks[r].call, &ranks[r].facts),
			MPI_SUCCESS);
		plan_copy(&ranks[r].plan, PLAN_PACK);
	}
	while (advance(n, hosts, layout->hosts))
		;
	for (int r = 0; r < n; r++) {
		struct rank *rank = &ranks[r];
		const int32_t *result = c == WEIR_COLLECTIVE_BROADCAST ? rank->send : rank->recv;

		cr_assert_eq(rank->at, rank->plan.n, "rank %d is stuck", r);
		plan_copy(&rank->plan, PLAN_UNPACK);
		plan_end(&rank->plan);
		for (int i = 0; i < got(c, n, r == root) * COUNT && rank->call.recv != MPI_IN_PLACE;
			i++)
			cr_assert_eq(result[i * rank->stride], wanted[r][i],
				"collective %d, root %d, in place %d, gaps %x: rank %d, %d: "
				"%d, not %d",
				c, root, in_place, gaps, r, i, result[i * rank->stride],
				wanted[r][i]);
	}
	return true;
}

Test(mpi_plan, every_layout)
{
	static const int alone[] = {0, 1, 2, 3}, regular[] = {0, 0, 0, 1, 1, 1},
			 mixed[] = {0, 1, 0, 1}, uneven[] = {0, 1, 1, 1, 0, 2};
	static const struct {
		const int *hosts;
		int n, runs; /* the collectives that Weir has there */
	} layouts[] = {{alone, 4, 9}, {regular, 6, 8}, {mixed, 4, 4}, {uneven, 6, 4}};

	for (size_t l = 0; l < 4; l++) {
		int runs = 0;

		for (int c = 0; c < OFFLOAD_COLLECTIVES; c++) {
			bool ran = false;

			for (int root = 0; root < layouts[l].n; root++)
				for (int in_place = 0; in_place < 2; in_place++)
					for (unsigned int gaps = 0;
						gaps < (verify_reduces(c) ? 1 : 1u << layouts[l].n);
						gaps += 3)
						ran = check(layouts[l].hosts, layouts[l].n, c, root,
							in_place, gaps);
			runs += ran;
		}
		cr_assert_eq(runs, layouts[l].runs, "layout %zu: %d", l, runs);
	}
}

/* However a rank describes them: data of more than MPI can pack stay with MPI, unless they are
 * reduced. */
Test(mpi_plan, more_than_an_int)
{
	const struct offload_comm comm = {.size = 2};
	struct offload_call call = {0};
	struct facts facts;

	for (int c = WEIR_COLLECTIVE_BROADCAST; c <= WEIR_COLLECTIVE_ALLTOALL; c++) {
		call.collective = (enum weir_collective)c;
		call.send_type = call.recv_type = MPI_BYTE;
		call.send_count = call.recv_count = INT_MAX;
		cr_assert_eq(call_facts(&comm, &call, &facts), ON_WEIR, "collective %d", c);
		call.send_type = call.recv_type = MPI_SHORT;
		call.send_count = call.recv_count = INT_MAX / 2 + 1;
		cr_assert_eq(call_facts(&comm, &call, &facts), REASON_TOO_MANY, "collective %d", c);
		/* One side is MPI's to look at as well. */
		call.send_count = call.recv_count = 2;
		call.send_type = MPI_DATATYPE_NULL;
		cr_assert_eq(call_facts(&comm, &call, &facts),
			c == WEIR_COLLECTIVE_BROADCAST ? ON_WEIR : REASON_NOT_VALID,
			"collective %d", c);
	}
	call = (struct offload_call){.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.send_type = MPI_INT,
		.recv_type = MPI_INT,
		.send_count = INT_MAX,
		.recv_count = INT_MAX};
	call.op = MPI_SUM;
	cr_assert_eq(call_facts(&comm, &call, &facts), ON_WEIR);
}

/* A variable that is no number is ignored, with a message. */
Test(mpi_plan, numbers_of_variables)
{
	static const struct {
		const char *text;
		uint64_t value;
	} rows[] = {{"4096", 4096}, {"0x10", 16}, {"", 0}, {"4K", 0}, {"-1", 0}, {"1e6", 0},
		{"99999999999999999999", 0}};
	struct offload_settings found;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		setenv("WEIR_MPI_MIN_BYTES", rows[i].text, 1);
		offload_environment(&found);
		cr_assert_eq(found.min_bytes, rows[i].value, "\"%s\": %llu", rows[i].text,
			(unsigned long long)found.min_bytes);
	}
	unsetenv("WEIR_MPI_MIN_BYTES");
	offload_environment(&found);
	cr_assert_eq(found.min_bytes, 0);
}

Test(mpi_plan, types)
{
	static const struct {
		MPI_Datatype type;
		MPI_Op op;
		int dtype; /* -1: MPI's */
	} rows[] = {
		{MPI_INT, MPI_LAND, WEIR_DTYPE_INT32},
		{MPI_INTEGER, MPI_LAND, -1},
		{MPI_INTEGER, MPI_BAND, WEIR_DTYPE_INT32},
		{MPI_DOUBLE, MPI_MAX, WEIR_DTYPE_FP64},
		{MPI_DOUBLE, MPI_BAND, -1},
		{MPI_DOUBLE, MPI_LOR, -1},
		{MPI_LONG_DOUBLE, MPI_SUM, -1},
		{MPI_CHAR, MPI_SUM, -1},
		{MPI_BYTE, MPI_BXOR, WEIR_DTYPE_UINT8},
		{MPI_BYTE, MPI_SUM, -1},
		{MPI_C_BOOL, MPI_LXOR, WEIR_DTYPE_INT8},
		{MPI_C_BOOL, MPI_SUM, -1},
		{MPI_C_DOUBLE_COMPLEX, MPI_SUM, WEIR_DTYPE_FP64},
		{MPI_C_DOUBLE_COMPLEX, MPI_PROD, -1},
		{MPI_UNSIGNED_LONG, MPI_MIN, WEIR_DTYPE_UINT64},
		{MPI_2INT, MPI_MAXLOC, -1},
		{MPI_INT, MPI_REPLACE, -1},
		{GAPPED, MPI_SUM, -1},
	};
	struct mpi_form form;
	size_t count;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool found = mpi_reduction(rows[i].type, rows[i].op, &form);

		cr_assert_eq(found, rows[i].dtype >= 0, "row %zu", i);
		cr_assert(!found || (int)form.dtype == rows[i].dtype, "row %zu: %d", i, form.dtype);
	}
	cr_assert(mpi_reduction(MPI_C_DOUBLE_COMPLEX, MPI_SUM, &form) && form.elements == 2 &&
		form.bytes == 16);
	cr_assert_eq(mpi_moved(12, &count), WEIR_DTYPE_UINT32);
	cr_assert_eq(count, 3);
	cr_assert_eq(mpi_moved(6, &count), WEIR_DTYPE_UINT16);
	cr_assert_eq(mpi_moved(7, &count), WEIR_DTYPE_UINT8);
	cr_assert_eq(count, 7);
	cr_assert(mpi_type_plain(MPI_DOUBLE) && !mpi_type_plain(GAPPED));
}

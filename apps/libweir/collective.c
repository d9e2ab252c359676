/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives: what the caller wants is checked and cut into blocks, and submitted. */
#include "apps/libweir/weir_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a call says, without the buffers. */
struct call {
	uint8_t collective;
	size_t count;
	enum weir_dtype dtype;
	enum weir_op op;
	unsigned int root;
};

static int
check_types(const struct weir *weir, const struct call *c)
{
	unsigned int dtype = (unsigned int)c->dtype, op = (unsigned int)c->op;
	bool real = dtype >= WEIR_DTYPE_FP16;

	if (weir_dtype_bytes(dtype) == 0 || op > WEIR_OP_LXOR)
		return weir_refuse(
			weir, -EINVAL, "type %u or operation %u does not exist", dtype, op);
	if (real && op > WEIR_OP_AVG)
		return weir_refuse(weir, -EINVAL, "%s is for integers, not for %s",
			weir_op_text(op), weir_dtype_text(dtype));
	if (c->root >= weir->sources)
		return weir_refuse(
			weir, -EINVAL, "root: %u is not in [0, %u)", c->root, weir->sources);
	if (!weir->base_form || c->collective == WEIR_COLLECTIVE_BARRIER)
		return 0;
	if (c->collective != WEIR_COLLECTIVE_ALLREDUCE)
		return weir_refuse(weir, -EINVAL,
			"the base form carries only allreduce and barrier: open without base_form");
	if (dtype != weir->job_dtype || op != weir->job_op)
		return weir_refuse(weir, -EINVAL,
			"the base form carries only the job's own type (%u) and operation (%u), "
			"not %u and %u: open without base_form",
			weir->job_dtype, weir->job_op, dtype, op);
	return 0;
}

static int
check_buffers(const struct weir *weir, const struct weir_request *o)
{
	const struct weir_geometry *g = &o->geometry;
	bool sends = weir_geometry_sent(g) != 0, receives = weir_geometry_received(g) != 0;

	if ((o->send != NULL || !sends) && (o->recv != NULL || !receives))
		return 0;
	return weir_refuse(weir, -EINVAL, "%s is NULL and count is %zu",
		o->send == NULL && sends ? "send" : "recv", g->count);
}

/*
 * One memory in another way than in place: results would be written over what is still to be sent, or sent
 * again. After the cut: nothing overflows.
 */
static int
check_overlap(const struct weir *weir, const struct weir_request *o)
{
	const struct weir_geometry *g = &o->geometry;
	size_t sent = weir_geometry_sent(g) * g->element_bytes;
	size_t received = weir_geometry_received(g) * g->element_bytes;
	size_t own = g->rank * g->count * g->element_bytes;
	uintptr_t send = (uintptr_t)o->send, recv = (uintptr_t)o->recv;

	if (sent == 0 || received == 0 || send + sent <= recv || recv + received <= send)
		return 0;
	if (sent > received ? recv == send + own : send == recv + (sent < received ? own : 0))
		return 0;
	return weir_refuse(weir, -EINVAL,
		"send and recv overlap, and not as in place, which is %s: take another buffer",
		sent > received           ? "recv == send + rank * count"
			: sent < received ? "send == recv + rank * count"
					  : "send == recv");
}

static int
cut(const struct weir *weir, struct weir_request *o, enum weir_dtype dtype)
{
	struct weir_geometry *g = &o->geometry;
	int code;

	g->limit = weir_elements(weir, dtype);
	code = weir_geometry_cut(g);
	if (code == -EMSGSIZE)
		return weir_refuse(weir, code,
			"slices for %u %ss can't be made of blocks of %u elements: raise the job's "
			"`elements` to at least %u",
			weir->sources, weir->noun, g->limit,
			weir_dtype_bytes(dtype) > 4 ? 2 * weir->sources : weir->sources);
	if (code < 0)
		return weir_refuse(weir, code,
			"%zu elements are more than 2^31 - 1 blocks, or than there is memory",
			g->count);
	o->blocks = g->blocks;
	if (g->per_root == 0 || o->send != o->recv)
		return 0;
	/* Scatters one after the other, in place: what comes in lies where what goes out later is. */
	o->copy = malloc(weir_geometry_sent(g) * g->element_bytes);
	if (o->copy == NULL)
		return weir_refuse(weir, -ENOMEM, "no memory for a copy of %zu bytes",
			weir_geometry_sent(g) * g->element_bytes);
	memcpy(o->copy, o->send, weir_geometry_sent(g) * g->element_bytes);
	o->send = o->copy;
	return 0;
}

static int
prepare(const struct weir *weir, struct weir_request *o, const struct call *c)
{
	bool typed = c->collective != WEIR_COLLECTIVE_BARRIER;
	int code;

	o->geometry = (struct weir_geometry){
		.collective = c->collective,
		.sources = weir->sources,
		.rank = weir->rank,
		.root = c->root,
		.count = c->count,
		.element_bytes = typed ? weir_dtype_bytes((unsigned int)c->dtype) : 0,
	};
	o->op = (uint8_t)c->op;
	o->dtype = (uint8_t)c->dtype;
	if (c->count == 0 && typed)
		return 0;
	code = check_buffers(weir, o);
	if (code == 0 && !weir_partial_can(weir, o))
		code = weir_refuse(weir, -EINVAL,
			"%s: partial sums of it can't be rescaled; take them as they are, or fail",
			weir_dtype_text(o->dtype));
	if (code == 0)
		code = cut(weir, o, c->dtype);
	return code == 0 ? check_overlap(weir, o) : code;
}

/* waits: the caller is about to wait for it. */
static int
start(struct weir *weir, const void *send, void *recv, const struct call *c, bool waits,
	struct weir_request **request)
{
	struct weir_request *o;
	int code;

	if (request == NULL)
		return weir == NULL
			? -EINVAL
			: weir_refuse(weir, -EINVAL,
				  "request is NULL: what is begun has to be waited for");
	*request = NULL;
	if (weir == NULL)
		return -EINVAL;
	code = weir_check_process(weir);
	if (code < 0)
		return code;
	if (weir->sources == 0) /* weir_open or weir_rejoin has failed, or is under way */
		return weir_unusable(weir);
	code = check_types(weir, c);
	if (code < 0)
		return code;
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return weir_refuse(weir, -ENOMEM, "no memory for an operation");
	o->weir = weir;
	o->send = send;
	o->recv = recv;
	code = prepare(weir, o, c);
	if (code < 0) {
		weir_request_free(o);
		return code;
	}
	code = weir_submit(weir, o, waits);
	if (code == 0)
		*request = o;
	return code;
}

static int
run(struct weir *weir, const void *send, void *recv, const struct call *c)
{
	struct weir_request *request;
	int code = start(weir, send, recv, c, true, &request);

	return code < 0 ? code : weir_await(&request);
}

#define REDUCING(name)                                                                             \
	(&(struct call){                                                                           \
		.collective = WEIR_COLLECTIVE_##name, .count = count, .dtype = dtype, .op = op})
#define REDUCING_TO(name)                                                                          \
	(&(struct call){.collective = WEIR_COLLECTIVE_##name,                                      \
		.count = count,                                                                    \
		.dtype = dtype,                                                                    \
		.op = op,                                                                          \
		.root = root})
#define MOVING(name)                                                                               \
	(&(struct call){.collective = WEIR_COLLECTIVE_##name, .count = count, .dtype = dtype})
#define MOVING_AT(name)                                                                            \
	(&(struct call){.collective = WEIR_COLLECTIVE_##name,                                      \
		.count = count,                                                                    \
		.dtype = dtype,                                                                    \
		.root = root})

/* Both forms of a collective: what it takes besides handle, buffers and count, and what it says. */
#define COLLECTIVE(name, call, ...)                                                                \
	int weir_##name(                                                                           \
		struct weir *weir, const void *send, void *recv, size_t count, __VA_ARGS__)        \
	{                                                                                          \
		return run(weir, send, recv, call);                                                \
	}                                                                                          \
                                                                                                   \
	int weir_i##name(struct weir *weir, const void *send, void *recv, size_t count,            \
		__VA_ARGS__, struct weir_request **request)                                        \
	{                                                                                          \
		return start(weir, send, recv, call, false, request);                              \
	}

COLLECTIVE(allreduce, REDUCING(ALLREDUCE), enum weir_dtype dtype, enum weir_op op)
COLLECTIVE(reduce, REDUCING_TO(REDUCE), enum weir_dtype dtype, enum weir_op op, unsigned int root)
COLLECTIVE(reducescatter, REDUCING(REDUCESCATTER), enum weir_dtype dtype, enum weir_op op)
COLLECTIVE(broadcast, MOVING_AT(BROADCAST), enum weir_dtype dtype, unsigned int root)
COLLECTIVE(scatter, MOVING_AT(SCATTER), enum weir_dtype dtype, unsigned int root)
COLLECTIVE(gather, MOVING_AT(GATHER), enum weir_dtype dtype, unsigned int root)
COLLECTIVE(allgather, MOVING(ALLGATHER), enum weir_dtype dtype)
COLLECTIVE(alltoall, MOVING(ALLTOALL), enum weir_dtype dtype)

int
weir_barrier(struct weir *weir)
{
	return run(weir, NULL, NULL, &(struct call){.collective = WEIR_COLLECTIVE_BARRIER});
}

int
weir_ibarrier(struct weir *weir, struct weir_request **request)
{
	return start(weir, NULL, NULL, &(struct call){.collective = WEIR_COLLECTIVE_BARRIER}, false,
		request);
}

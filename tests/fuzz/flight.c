/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/flight.h"

#include <string.h>

#include "apps/libweir/engine.h"
#include "tests/fuzz/fuzz.h"

void
flight_begin(struct weir *weir, unsigned int kind, unsigned int root, unsigned int sources,
	size_t count, struct flight *f)
{
	const enum weir_dtype dtype = WEIR_DTYPE_INT32;
	bool slices = kind >= WEIR_COLLECTIVE_REDUCESCATTER && kind != WEIR_COLLECTIVE_BROADCAST;
	size_t room = slices ? count * sources : count;
	const int32_t *send = f->send = calloc(room + 1, sizeof(*send));
	int32_t *recv = f->recv = malloc(room * sizeof(*recv) + 1);
	struct weir_request **r = &f->request;
	int code;

	switch (count == 0 ? WEIR_COLLECTIVE_BARRIER : kind) {
	case WEIR_COLLECTIVE_REDUCE:
		code = weir_ireduce(weir, send, recv, count, dtype, WEIR_OP_SUM, root, r);
		break;
	case WEIR_COLLECTIVE_REDUCESCATTER:
		code = weir_ireducescatter(weir, send, recv, count, dtype, WEIR_OP_MAX, r);
		break;
	case WEIR_COLLECTIVE_BROADCAST:
		code = weir_ibroadcast(weir, send, recv, count, dtype, root, r);
		break;
	case WEIR_COLLECTIVE_SCATTER:
		code = weir_iscatter(weir, send, recv, count, dtype, root, r);
		break;
	case WEIR_COLLECTIVE_GATHER:
		code = weir_igather(weir, send, recv, count, dtype, root, r);
		break;
	case WEIR_COLLECTIVE_ALLGATHER:
		code = weir_iallgather(weir, send, recv, count, dtype, r);
		break;
	case WEIR_COLLECTIVE_ALLTOALL:
		code = weir_ialltoall(weir, send, recv, count, dtype, r);
		break;
	case WEIR_COLLECTIVE_BARRIER: code = weir_ibarrier(weir, r); break;
	default: code = weir_iallreduce(weir, send, recv, count, dtype, WEIR_OP_SUM, r); break;
	}
	FUZZ_CHECK(code == 0 && f->request != NULL, "nothing was begun: %d, %s", code,
		weir_last_error(weir));
}

void
flight_end(struct weir *weir, struct flight *f)
{
	const struct weir_request *o = f->request;
	int code;

	FUZZ_CHECK(o->is_finished, "the operation has no end");
	FUZZ_CHECK(o->code < 0 || (o->done == o->blocks && o->result.completed == o->blocks),
		"%u of %u blocks, and no error", o->done, o->blocks);
	FUZZ_CHECK(o->code < 0 ||
			(o->code == WEIR_PARTIAL) ==
				(o->result.degraded > 0 &&
					!weir_geometry_always_whole(&o->geometry)),
		"a part is told as the whole");
	FUZZ_CHECK(o->degraded_count <= o->blocks, "more degraded blocks than blocks");
	code = weir_wait(&f->request);
	FUZZ_CHECK(f->request == NULL, "it is waited for");
	FUZZ_CHECK(code == 0 || strlen(weir_last_error(weir)) > 0, "an error without a text");
	free(f->send);
	free(f->recv);
}

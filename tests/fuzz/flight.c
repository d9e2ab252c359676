/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/flight.h"

#include <string.h>

#include "apps/libweir/engine.h"
#include "tests/fuzz/fuzz.h"

void
flight_begin(struct weir *weir, unsigned int kind, unsigned int root, unsigned int sources,
	size_t count, struct flight *f)
{
	bool slices = kind >= WEIR_COLLECTIVE_REDUCESCATTER && kind != WEIR_COLLECTIVE_BROADCAST;
	size_t room = slices ? count * sources : count;
	struct weir_call call = {
		.collective = (enum weir_collective)(count == 0 ? WEIR_COLLECTIVE_BARRIER : kind),
		.send = f->send = calloc(room + 1, sizeof(*f->send)),
		.recv = f->recv = malloc(room * sizeof(*f->recv) + 1),
		.count = count,
		.dtype = WEIR_DTYPE_INT32,
		.op = kind == WEIR_COLLECTIVE_REDUCESCATTER ? WEIR_OP_MAX : WEIR_OP_SUM,
		.root = root,
	};
	int code = weir_collective(weir, &call, &f->request);

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

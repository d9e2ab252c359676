/* SPDX-License-Identifier: BSD-3-Clause */
/* Weir's side. Arguments: SWITCH_ADDRESS OWN_ADDRESS JOB SOURCE SOURCES. */
#include "apps/compare/bench.h"

#include <stdlib.h>

#include "apps/libweir/weir.h"

static struct weir *weir;

static int
checked(int code)
{
	return code == 0 ? 0 : bench_fail(weir_last_error(weir));
}

int
system_open(int argc, char **argv, unsigned int *rank, unsigned int *ranks)
{
	struct weir_config config = {0};

	if (argc != 5)
		return bench_fail("needs five arguments");
	config.switch_address = argv[0];
	config.address = argv[1];
	config.job = (uint8_t)atoi(argv[2]);
	config.source = atoi(argv[3]);
	config.sources = (unsigned int)atoi(argv[4]);
	*rank = (unsigned int)config.source;
	*ranks = config.sources;
	return checked(weir_open(&config, &weir));
}

int
system_run(const struct bench_operation *operation, const void *send, void *recv)
{
	enum weir_dtype type = operation->fp32 ? WEIR_DTYPE_FP32 : WEIR_DTYPE_INT32;
	size_t slice = operation->total / weir_sources(weir);

	switch (operation->collective) {
	case BENCH_ALLREDUCE:
		return checked(
			weir_allreduce(weir, send, recv, operation->total, type, WEIR_OP_SUM));
	case BENCH_REDUCESCATTER:
		return checked(weir_reducescatter(weir, send, recv, slice, type, WEIR_OP_SUM));
	case BENCH_ALLGATHER: return checked(weir_allgather(weir, send, recv, slice, type));
	case BENCH_ALLTOALL: return checked(weir_alltoall(weir, send, recv, slice, type));
	case BENCH_BROADCAST:
		return checked(weir_broadcast(weir, recv, recv, operation->total, type, 0));
	}
	return -1;
}

int
system_barrier(void)
{
	return checked(weir_barrier(weir));
}

void
system_close(void)
{
	weir_close(weir);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* PyTorch's side: bench.c as a library (built by compare.py with gcc) for bench_torch.py, which sets bench_torch and calls
 * main. Its functions are those of bench.h. */
#include "apps/compare/bench.h"

struct bench_torch {
	unsigned int rank, ranks;
	/* An allreduce of int32 or fp32. */
	int (*prepare)(
		const char *algorithm, bool fp32, size_t count, const void *send, void *recv);
	int (*run)(void); /* what was prepared */
	int (*barrier)(void);
};

struct bench_torch bench_torch;

int
system_open(int argc, char **argv, unsigned int *rank, unsigned int *ranks)
{
	(void)argc, (void)argv;
	*rank = bench_torch.rank;
	*ranks = bench_torch.ranks;
	return 0;
}

int
system_prepare(const struct bench_operation *operation)
{
	const struct weir_call *c = &operation->call;

	if (c->collective != WEIR_COLLECTIVE_ALLREDUCE)
		return bench_fail("only allreduce is compared");
	return bench_torch.prepare(
		operation->algorithm, c->dtype == WEIR_DTYPE_FP32, c->count, c->send, c->recv);
}

int
system_run(const struct bench_operation *operation)
{
	(void)operation;
	return bench_torch.run();
}

int
system_barrier(void)
{
	return bench_torch.barrier();
}

void
system_close(void)
{
}

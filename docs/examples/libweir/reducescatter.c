/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ReduceScatter: every rank gives a vector of as many slices as there are ranks, and rank i gets slice i
 * of the sum. Sharded optimizers do this with gradients: each rank updates its own slice of the model.
 */
#include <stdio.h>

#include <weir.h>

#define COUNT 1000 /* elements of a slice */

static double all[WEIR_SOURCES_MAX * COUNT], mine[COUNT];

int
main(void)
{
	struct weir_config config = {0};
	struct weir *weir;
	unsigned int rank, ranks, wrong = 0;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	for (unsigned int i = 0; i < ranks * COUNT; i++)
		all[i] = i;

	/* The count is that of one slice, as in NCCL. */
	if (weir_reducescatter(weir, all, mine, COUNT, WEIR_DTYPE_FP64, WEIR_OP_SUM) != 0)
		goto failed;

	for (unsigned int i = 0; i < COUNT; i++)
		wrong += mine[i] != (double)ranks * (rank * COUNT + i);

	printf("reducescatter: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "reducescatter: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce: every rank gives a vector, and one rank, the root, gets the maximum of each element.
 */
#include <stdio.h>

#include <weir.h>

#define COUNT 1000
#define ROOT  0

int
main(void)
{
	struct weir_config config = {0};
	struct weir *weir;
	int32_t mine[COUNT], largest[COUNT];
	unsigned int rank, ranks, wrong = 0;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	for (int i = 0; i < COUNT; i++)
		mine[i] = i * (rank % 2 == 0 ? 1 : -1);

	/* Only the root needs a buffer for the result. */
	if (weir_reduce(weir, mine, rank == ROOT ? largest : NULL, COUNT, WEIR_DTYPE_INT32,
		    WEIR_OP_MAX, ROOT) != 0)
		goto failed;

	for (int i = 0; rank == ROOT && i < COUNT; i++)
		wrong += largest[i] != i;

	printf("reduce: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "reduce: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather: every rank has a slice, and one rank, the root, gets all slices, in the order of the ranks.
 */
#include <stdio.h>

#include <weir.h>

#define COUNT 1000 /* elements of a slice */
#define ROOT  0

static uint32_t all[WEIR_SOURCES_MAX * COUNT];

int
main(void)
{
	struct weir_config config = {0};
	struct weir *weir;
	uint32_t mine[COUNT];
	unsigned int rank, ranks, wrong = 0;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	for (unsigned int i = 0; i < COUNT; i++)
		mine[i] = rank * COUNT + i;

	if (weir_gather(weir, mine, rank == ROOT ? all : NULL, COUNT, WEIR_DTYPE_UINT32, ROOT) != 0)
		goto failed;

	for (unsigned int i = 0; rank == ROOT && i < ranks * COUNT; i++)
		wrong += all[i] != i;

	printf("gather: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "gather: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

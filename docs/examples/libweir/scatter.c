/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scatter: one rank, the root, has a slice for each rank, and every rank gets its own.
 */
#include <stdio.h>

#include <weir.h>

#define COUNT 1000 /* elements of a slice */
#define ROOT  0

static uint16_t all[WEIR_SOURCES_MAX * COUNT];

int
main(void)
{
	struct weir_config config = {0};
	struct weir *weir;
	uint16_t mine[COUNT];
	unsigned int rank, ranks, wrong = 0;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	for (unsigned int i = 0; rank == ROOT && i < ranks * COUNT; i++)
		all[i] = (uint16_t)i;

	if (weir_scatter(weir, rank == ROOT ? all : NULL, mine, COUNT, WEIR_DTYPE_UINT16, ROOT) !=
		0)
		goto failed;

	for (unsigned int i = 0; i < COUNT; i++)
		wrong += mine[i] != (uint16_t)(rank * COUNT + i);

	printf("scatter: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "scatter: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AllGather: every rank has a slice, and every rank gets all slices, in the order of the ranks. Sharded
 * models do this with their weights before each layer.
 */
#include <stdio.h>

#include <weir.h>

#define COUNT 1000 /* elements of a slice */

static float all[WEIR_SOURCES_MAX * COUNT];

int
main(void)
{
	struct weir_config config = {0};
	struct weir *weir;
	float *mine;
	unsigned int rank, ranks, wrong = 0;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	/* In place: the rank's slice is where it will be in the result. */
	mine = all + rank * COUNT;
	for (unsigned int i = 0; i < COUNT; i++)
		mine[i] = (float)(rank * COUNT + i);

	if (weir_allgather(weir, mine, all, COUNT, WEIR_DTYPE_FP32) != 0)
		goto failed;

	for (unsigned int i = 0; i < ranks * COUNT; i++)
		wrong += all[i] != (float)i;

	printf("allgather: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "allgather: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AlltoAll: every rank has a slice for each rank, and gets a slice from each rank. Mixtures of experts use
 * it to send tokens to the experts of all ranks.
 */
#include <stdio.h>

#include <weir.h>

#define COUNT 100 /* elements of a slice */

static int32_t out[WEIR_SOURCES_MAX * COUNT], in[WEIR_SOURCES_MAX * COUNT];

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

	/* Slice i is for rank i: 1000 * (from) + (to). */
	for (unsigned int i = 0; i < ranks * COUNT; i++)
		out[i] = (int32_t)(1000 * rank + i / COUNT);

	if (weir_alltoall(weir, out, in, COUNT, WEIR_DTYPE_INT32) != 0)
		goto failed;

	/* Slice i is from rank i. */
	for (unsigned int i = 0; i < ranks * COUNT; i++)
		wrong += in[i] != (int32_t)(1000 * (i / COUNT) + rank);

	printf("alltoall: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "alltoall: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast: every rank gets the data of one rank, the root, such as the first weights of a model.
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
	int64_t weights[COUNT] = {0};
	unsigned int rank, ranks, wrong = 0;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	for (int i = 0; rank == ROOT && i < COUNT; i++)
		weights[i] = 7 * i;

	/* In place. Ranks other than the root may pass NULL as the first buffer. */
	if (weir_broadcast(weir, weights, weights, COUNT, WEIR_DTYPE_INT64, ROOT) != 0)
		goto failed;

	for (int i = 0; i < COUNT; i++)
		wrong += weights[i] != 7 * i;

	printf("broadcast: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "broadcast: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

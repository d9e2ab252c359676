/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Non-blocking: several operations run while the program computes, and each result is used as soon as it
 * arrives. Training does this with the gradients of layers, the last layer first.
 */
#include <stdio.h>

#include <weir.h>

#define LAYERS 8
#define COUNT  20000 /* elements of a layer */

static float gradients[LAYERS][COUNT];

/* Stands for the backward pass of a layer. */
static void
compute(unsigned int layer, unsigned int rank)
{
	for (unsigned int i = 0; i < COUNT; i++)
		gradients[layer][i] = (float)(layer + rank + i % 7);
}

int
main(void)
{
	struct weir_config config = {0};
	struct weir_request *requests[LAYERS] = {NULL};
	struct weir *weir;
	unsigned int rank, ranks, wrong = 0;
	size_t layer;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	/* Do not touch a buffer before waiting for its request. */
	for (unsigned int i = 0; i < LAYERS; i++) {
		compute(i, rank);
		if (weir_iallreduce(weir, gradients[i], gradients[i], COUNT, WEIR_DTYPE_FP32,
			    WEIR_OP_SUM, &requests[i]) != 0)
			goto failed;
	}
	for (unsigned int left = LAYERS; left > 0; left--) {
		if (weir_wait_any(requests, LAYERS, &layer) != 0)
			goto failed;
		for (unsigned int i = 0; i < COUNT; i++)
			wrong += gradients[layer][i] !=
				(float)(ranks * (layer + i % 7) + ranks * (ranks - 1) / 2);
	}

	printf("nonblocking: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "nonblocking: %s\n", weir_last_error(weir));
	weir_close(weir); /* also ends requests that were not waited for */
	return 1;
}

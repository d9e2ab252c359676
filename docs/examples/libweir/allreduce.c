/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AllReduce: every rank gives a vector, and every rank gets the sum of all of them. This is what data
 * parallel training does with its gradients.
 */
#include <stdio.h>

#include <weir.h>

#define COUNT 100000

static float data[COUNT];

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

	for (unsigned int i = 0; i < COUNT; i++)
		data[i] = (float)(rank + i);

	/* In place: the sum replaces the contribution. */
	if (weir_allreduce(weir, data, data, COUNT, WEIR_DTYPE_FP32, WEIR_OP_SUM) != 0)
		goto failed;

	for (unsigned int i = 0; i < COUNT; i++)
		wrong += data[i] != (float)(ranks * i + ranks * (ranks - 1) / 2);

	printf("allreduce: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "allreduce: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host of the scenarios in faults/: it sums vectors through the switch and checks each sum. host [STEPS]
 *
 * weir-faults reads the lines "at N" and "wrong: step N: W", and the exit status.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir.h>

#define COUNT 10000

static int32_t data[COUNT];

int
main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 100, ranks, rank, wrong, all = 0;
	struct weir_config config = {.op_timeout_ms = 10000};
	struct weir *weir;
	struct weir_stats stats;

	/* Which switch, job and rank: from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = (int)weir_rank(weir);
	ranks = (int)weir_sources(weir);
	for (int step = 0; step < steps; step++) {
		for (int i = 0; i < COUNT; i++)
			data[i] = rank + step + i;
		if (weir_allreduce(weir, data, data, COUNT, WEIR_DTYPE_INT32, WEIR_OP_SUM) != 0)
			goto failed;
		wrong = 0;
		for (int i = 0; i < COUNT; i++)
			wrong += data[i] != ranks * (step + i) + ranks * (ranks - 1) / 2;
		if (wrong != 0)
			printf("wrong: step %d: %d\n", step, wrong);
		all += wrong;
		printf("at %d\n", step + 1);
		fflush(stdout);
	}
	weir_stats(weir, &stats);
	printf("sent again: %llu\n", (unsigned long long)stats.retransmissions);
	weir_close(weir);
	return all != 0;

failed:
	printf("failed: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

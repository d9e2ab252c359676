/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barrier: no rank continues before all ranks have arrived. Each rank is late in one round, and the others
 * wait for it.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

#include <weir.h>

#define LATE_MS 50

/* Milliseconds of a monotonic clock. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int
main(void)
{
	struct weir_config config = {0};
	struct weir *weir;
	struct timespec nap = {.tv_nsec = LATE_MS * 1000000};
	unsigned int rank, ranks, wrong = 0;
	double began;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	for (unsigned int late = 0; late < ranks; late++) {
		began = now();
		if (weir_barrier(weir) != 0)
			goto failed;
		if (rank == late)
			nanosleep(&nap, NULL);
		if (weir_barrier(weir) != 0)
			goto failed;
		/* All ranks had arrived at the first barrier before the late one began to sleep. */
		wrong += now() - began < LATE_MS;
	}

	printf("barrier: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "barrier: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

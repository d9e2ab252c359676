/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial results: the last rank is late for one operation. In a job of policy `wait` (the default), the
 * others wait for it. With policy `partial`, they continue without it after the job's timeout, and their
 * calls return WEIR_PARTIAL.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

#include <weir.h>

#define COUNT 1000

int
main(void)
{
	struct weir_config config = {0};
	struct timespec nap;
	struct weir_result result;
	struct weir *weir;
	int32_t data[COUNT];
	unsigned int rank, ranks, last, late_ms, wrong = 0;
	int code;

	/* All zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);
	last = ranks - 1;
	for (unsigned int i = 0; i < COUNT; i++)
		data[i] = 1;

	late_ms = 3 * weir_timeout_ms(weir);
	nap = (struct timespec){late_ms / 1000, (long)(late_ms % 1000) * 1000000};
	if (rank == last)
		nanosleep(&nap, NULL);
	code = weir_allreduce(weir, data, data, COUNT, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	if (code < 0)
		goto failed;
	if (code == WEIR_PARTIAL) {
		/* Every rank has the same sum, even the rank that is not in it. */
		weir_last_result(weir, &result);
		printf("partial: rank %u: %u of %u ranks are in it: %s\n", rank,
			result.sources_least, ranks, weir_last_error(weir));
		wrong += (result.missing[last / 8] >> last % 8 & 1) == 0;
		wrong += (rank == last) != (result.without_own > 0);
	}
	for (unsigned int i = 0; i < COUNT; i++)
		wrong += data[i] != (int32_t)(code == WEIR_PARTIAL ? ranks - 1 : ranks);

	printf("partial: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "partial: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

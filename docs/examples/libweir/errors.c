/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors, and how a program handles them. For a wrong argument, only the call fails, and nothing has
 * happened. If the ranks disagree (here one calls another operation), all of them get an error; they join
 * again and continue.
 */
#include <errno.h>
#include <stdio.h>

#include <weir.h>

#define COUNT 1000

int
main(void)
{
	struct weir_config config = {.op_timeout_ms = 10000};
	struct weir *weir;
	float data[COUNT] = {0};
	unsigned int rank, ranks, wrong = 0;
	int code;

	/* The rest is zero: read the switch, job, rank and number of ranks from the environment. */
	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	/* Floats have no bitwise operations: the call fails before anything is sent. */
	code = weir_allreduce(weir, data, data, COUNT, WEIR_DTYPE_FP32, WEIR_OP_BAND);
	printf("errors: rank %u: %d, %s\n", rank, code, weir_last_error(weir));
	wrong += code != -EINVAL;

	/* One rank disagrees. No rank waits forever, and all get an error. */
	code = weir_allreduce(
		weir, data, data, COUNT, WEIR_DTYPE_FP32, rank == 0 ? WEIR_OP_MAX : WEIR_OP_SUM);
	printf("errors: rank %u: %d, %s\n", rank, code, weir_last_error(weir));
	wrong += code != (ranks > 1 ? -EPROTO : 0);

	/* The handle is unusable until all ranks have joined again; the buffers are undefined. */
	if (code < 0 && weir_rejoin(weir) != 0)
		goto failed;
	for (unsigned int i = 0; i < COUNT; i++)
		data[i] = (float)i;
	if (weir_allreduce(weir, data, data, COUNT, WEIR_DTYPE_FP32, WEIR_OP_SUM) != 0)
		goto failed;
	for (unsigned int i = 0; i < COUNT; i++)
		wrong += data[i] != (float)(ranks * i);

	printf("errors: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "errors: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

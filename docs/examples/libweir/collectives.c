/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives besides AllReduce (allreduce.c), one function each. A function returns the number of wrong elements,
 * or the error of the call.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

#include <weir.h>

#define COUNT   1000 /* elements; of one slice where there are slices, as in NCCL */
#define ROOT    0
#define LATE_MS 50

static unsigned int rank, ranks;

/* The root gets the maximum of each element. Only the root needs a buffer for the result. */
static int
reduce(struct weir *weir)
{
	int32_t mine[COUNT], largest[COUNT];
	int code, wrong = 0;

	for (int i = 0; i < COUNT; i++)
		mine[i] = i * (rank % 2 == 0 ? 1 : -1);
	code = weir_reduce(weir, mine, rank == ROOT ? largest : NULL, COUNT, WEIR_DTYPE_INT32,
		WEIR_OP_MAX, ROOT);
	for (int i = 0; code == 0 && rank == ROOT && i < COUNT; i++)
		wrong += largest[i] != i;
	return code != 0 ? code : wrong;
}

/* Rank i gets slice i of the sum. Sharded optimizers do this with gradients. */
static int
reducescatter(struct weir *weir)
{
	static double all[WEIR_SOURCES_MAX * COUNT], mine[COUNT];
	int code, wrong = 0;

	for (unsigned int i = 0; i < ranks * COUNT; i++)
		all[i] = i;
	code = weir_reducescatter(weir, all, mine, COUNT, WEIR_DTYPE_FP64, WEIR_OP_SUM);
	for (unsigned int i = 0; code == 0 && i < COUNT; i++)
		wrong += mine[i] != (double)ranks * (rank * COUNT + i);
	return code != 0 ? code : wrong;
}

/* All ranks get the root's data, here in place. Other ranks may pass NULL as the first buffer. */
static int
broadcast(struct weir *weir)
{
	int64_t weights[COUNT] = {0};
	int code, wrong = 0;

	for (int i = 0; rank == ROOT && i < COUNT; i++)
		weights[i] = 7 * i;
	code = weir_broadcast(weir, weights, weights, COUNT, WEIR_DTYPE_INT64, ROOT);
	for (int i = 0; code == 0 && i < COUNT; i++)
		wrong += weights[i] != 7 * i;
	return code != 0 ? code : wrong;
}

/* The root has a slice for each rank. */
static int
scatter(struct weir *weir)
{
	static uint16_t all[WEIR_SOURCES_MAX * COUNT], mine[COUNT];
	int code, wrong = 0;

	for (unsigned int i = 0; rank == ROOT && i < ranks * COUNT; i++)
		all[i] = (uint16_t)i;
	code = weir_scatter(weir, rank == ROOT ? all : NULL, mine, COUNT, WEIR_DTYPE_UINT16, ROOT);
	for (unsigned int i = 0; code == 0 && i < COUNT; i++)
		wrong += mine[i] != (uint16_t)(rank * COUNT + i);
	return code != 0 ? code : wrong;
}

/* The root gets the slices of all ranks, in their order. */
static int
gather(struct weir *weir)
{
	static uint32_t all[WEIR_SOURCES_MAX * COUNT], mine[COUNT];
	int code, wrong = 0;

	for (unsigned int i = 0; i < COUNT; i++)
		mine[i] = rank * COUNT + i;
	code = weir_gather(weir, mine, rank == ROOT ? all : NULL, COUNT, WEIR_DTYPE_UINT32, ROOT);
	for (unsigned int i = 0; code == 0 && rank == ROOT && i < ranks * COUNT; i++)
		wrong += all[i] != i;
	return code != 0 ? code : wrong;
}

/* All ranks get all slices, here in place: a rank's slice is where it will be in the result. Sharded models do this
 * with their weights before each layer. */
static int
allgather(struct weir *weir)
{
	static float all[WEIR_SOURCES_MAX * COUNT];
	float *mine = all + rank * COUNT;
	int code, wrong = 0;

	for (unsigned int i = 0; i < COUNT; i++)
		mine[i] = (float)(rank * COUNT + i);
	code = weir_allgather(weir, mine, all, COUNT, WEIR_DTYPE_FP32);
	for (unsigned int i = 0; code == 0 && i < ranks * COUNT; i++)
		wrong += all[i] != (float)i;
	return code != 0 ? code : wrong;
}

/* Slice i is for rank i, and slice i of the result from rank i. Mixtures of experts send tokens this way. */
static int
alltoall(struct weir *weir)
{
	static int32_t out[WEIR_SOURCES_MAX * COUNT], in[WEIR_SOURCES_MAX * COUNT];
	int code, wrong = 0;

	for (unsigned int i = 0; i < ranks * COUNT; i++)
		out[i] = (int32_t)(1000 * rank + i / COUNT);
	code = weir_alltoall(weir, out, in, COUNT, WEIR_DTYPE_INT32);
	for (unsigned int i = 0; code == 0 && i < ranks * COUNT; i++)
		wrong += in[i] != (int32_t)(1000 * (i / COUNT) + rank);
	return code != 0 ? code : wrong;
}

/* Milliseconds of a monotonic clock. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* No rank continues before all ranks have called. Each rank is late once. */
static int
barrier(struct weir *weir)
{
	struct timespec nap = {.tv_nsec = LATE_MS * 1000000};
	int code = 0, wrong = 0;

	for (unsigned int late = 0; code == 0 && late < ranks; late++) {
		double began = now();

		code = weir_barrier(weir);
		if (code == 0 && rank == late)
			nanosleep(&nap, NULL);
		if (code == 0)
			code = weir_barrier(weir);
		/* All ranks had called the first barrier before the late one began to sleep. */
		wrong += now() - began < LATE_MS;
	}
	return code != 0 ? code : wrong;
}

int
main(void)
{
	static const struct {
		const char *name;
		int (*run)(struct weir *);
	} collectives[] = {{"reduce", reduce}, {"reducescatter", reducescatter},
		{"broadcast", broadcast}, {"scatter", scatter}, {"gather", gather},
		{"allgather", allgather}, {"alltoall", alltoall}, {"barrier", barrier}};
	struct weir_config config = {0}; /* everything from the environment */
	struct weir *weir;
	int wrong = 0;

	if (weir_open(&config, &weir) != 0)
		goto failed;
	rank = weir_rank(weir);
	ranks = weir_sources(weir);

	for (size_t i = 0; wrong == 0 && i < sizeof(collectives) / sizeof(collectives[0]); i++) {
		wrong = collectives[i].run(weir);
		if (wrong < 0)
			goto failed;
		printf("%s: rank %u of %u: %s\n", collectives[i].name, rank, ranks,
			wrong == 0 ? "right" : "WRONG");
	}
	weir_close(weir);
	return wrong != 0;

failed:
	fprintf(stderr, "collectives: %s\n", weir_last_error(weir));
	weir_close(weir);
	return 1;
}

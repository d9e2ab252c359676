/* SPDX-License-Identifier: BSD-3-Clause */
/* What weir-perf measures: lists, series, sizes, models, and what it refuses. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/perf/perf.h"

static struct perf_options
options(const char *collectives, const char *types, const char *ops)
{
	struct perf_options o = {.min_bytes = 4, .max_bytes = 64, .step_factor = 4, .inflight = 1};

	cr_assert(perf_list_collectives(collectives, &o.collectives));
	cr_assert(perf_list_types(types, &o.types));
	cr_assert(perf_list_ops(ops, &o.ops));
	return o;
}

static unsigned int
series(const struct perf_options *o, unsigned int ranks, struct weir_call *last)
{
	struct weir_call *all;
	unsigned int n = 0;

	cr_assert_eq(perf_plan(o, ranks, &all, &n), 0);
	for (unsigned int i = 0; i < n; i++)
		cr_expect(!verify_reduces(all[i].collective) ||
			weir_dtype_has_op(all[i].dtype, all[i].op));
	*last = n != 0 ? all[n - 1] : (struct weir_call){0};
	free(all);
	return n;
}

/* All series of so many roots, by the lists of types and collectives. */
static unsigned int
all_series(unsigned int roots)
{
	unsigned int cells = 0, n = 0;

	for (unsigned int t = 0; t < WEIR_DTYPES; t++)
		for (unsigned int op = 0; op < WEIR_OPS; op++)
			cells += weir_dtype_has_op(t, op) != 0;
	for (unsigned int c = 0; c < 16; c++) {
		const struct collective_row *row = &collective_table[c];
		unsigned int each = row->rooted ? roots : row->served;

		n += each *
			(row->contribution == CONTRIBUTION_REDUCE                   ? cells
					: row->contribution != CONTRIBUTION_NOTHING ? WEIR_DTYPES
										    : 1);
	}
	return n;
}

Test(weir_perf_plan, lists, .timeout = 90)
{
	const char *bad[] = {"", ",", "int32,", "int3", "int320", "all,", "Int32"};
	struct perf_list list;
	uint32_t all = 0;

	cr_assert(perf_list_types("float,int8,bfloat16,half,double,f8e5m2", &list));
	cr_expect_eq(list.codes,
		1u << WEIR_DTYPE_FP32 | 1u << WEIR_DTYPE_INT8 | 1u << WEIR_DTYPE_BF16 |
			1u << WEIR_DTYPE_FP16 | 1u << WEIR_DTYPE_FP64 | 1u << WEIR_DTYPE_FP8_E5M2);
	cr_expect_not(list.all);
	cr_assert(perf_list_collectives("barrier,all", &list));
	for (unsigned int c = 0; c < 16; c++)
		all |= (uint32_t)collective_table[c].served << c;
	cr_expect_eq(list.codes, all);
	cr_expect(list.all);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(perf_list_types(bad[i], &list), "\"%s\"", bad[i]);
	cr_expect_not(perf_list_collectives("join", &list), "is none of an application's");
}

Test(weir_perf_plan, everything_once, .timeout = 90)
{
	struct perf_options o = options("all", "all", "all");
	struct weir_call last;

	cr_expect_eq(series(&o, 3, &last), all_series(1));
	cr_expect_eq(last.collective, WEIR_COLLECTIVE_BARRIER);
	o.root = PERF_ROOT_ALL;
	cr_expect_eq(series(&o, 3, &last), all_series(3));
	o = options("gather,barrier,broadcast", "fp16", "all");
	o.root = 2;
	cr_expect_eq(series(&o, 3, &last), 3u);
	o = options("broadcast", "fp16", "sum");
	o.root = 2;
	cr_expect_eq(series(&o, 3, &last), 1u);
	cr_expect_eq(last.root, 2u);
	o.root = 3;
	cr_expect_eq(perf_plan(&o, 3, &(struct weir_call *){NULL}, &(unsigned int){0}), -EINVAL);
}

Test(weir_perf_plan, sizes_as_nccl_tests_count_them, .timeout = 90)
{
	struct perf_options o = options("all", "all", "all");
	struct weir_call s = {.collective = WEIR_COLLECTIVE_ALLREDUCE, .dtype = WEIR_DTYPE_INT16};
	size_t bytes;

	cr_expect_eq(perf_plan_sizes(&o), 3u, "4, 16, 64");
	cr_expect_eq(perf_plan_count(&o, &s, 5, 1, &bytes), 8u);
	cr_expect_eq(bytes, 16u);
	s.collective = WEIR_COLLECTIVE_ALLGATHER;
	cr_expect_eq(perf_plan_count(&o, &s, 5, 2, &bytes), 6u, "64 bytes hold 6 of five ranks");
	cr_expect_eq(bytes, 60u);
	cr_expect_eq(perf_plan_count(&o, &s, 5, 0, &bytes), 1u, "and 4 bytes none");
	cr_expect_eq(bytes, 10u);
	s.dtype = WEIR_DTYPE_FP64;
	s.collective = WEIR_COLLECTIVE_REDUCE;
	cr_expect_eq(perf_plan_count(&o, &s, 5, 0, &bytes), 1u);
	cr_expect_eq(bytes, 8u);
	o.min_bytes = 0;
	cr_expect_eq(perf_plan_count(&o, &s, 5, 0, &bytes), 0u, "nothing, if that is asked for");
	cr_expect_eq(perf_plan_sizes(&o), 1u);
	o.step_bytes = 24;
	cr_expect_eq(perf_plan_sizes(&o), 3u, "0, 24, 48");
	s.collective = WEIR_COLLECTIVE_BARRIER;
	cr_expect_eq(perf_plan_count(&o, &s, 5, 2, &bytes), 0u);
}

Test(weir_perf_plan, bandwidths_as_nccl_tests_define_them, .timeout = 90)
{
	static const double factors[] = {[WEIR_COLLECTIVE_ALLREDUCE] = 1.5,
		[WEIR_COLLECTIVE_REDUCE] = 1,
		[WEIR_COLLECTIVE_REDUCESCATTER] = 0.75,
		[WEIR_COLLECTIVE_BROADCAST] = 1,
		[WEIR_COLLECTIVE_SCATTER] = 0.75,
		[WEIR_COLLECTIVE_GATHER] = 0.75,
		[WEIR_COLLECTIVE_ALLGATHER] = 0.75,
		[WEIR_COLLECTIVE_ALLTOALL] = 0.75};

	for (unsigned int c = 0; c < sizeof(factors) / sizeof(factors[0]); c++)
		cr_expect_float_eq(
			perf_bus_factor((enum weir_collective)c, 4), factors[c], 1e-12, "%u", c);
}

Test(weir_perf_plan, what_is_refused, .timeout = 90)
{
	struct perf_options o = options("reduce", "fp16,int8", "sum,band");
	char text[128];

	cr_assert_not_null(perf_plan_refuses(&o, text, sizeof(text)));
	cr_expect_not_null(strstr(text, "fp16"));
	o = options("reduce", "all", "sum,band");
	cr_expect_null(perf_plan_refuses(&o, text, sizeof(text)));
	o = options("reduce", "fp16", "all");
	cr_expect_null(perf_plan_refuses(&o, text, sizeof(text)));
	o = options("gather", "fp16", "band");
	cr_expect_null(perf_plan_refuses(&o, text, sizeof(text)), "nothing is reduced");
	o = options("allreduce,barrier", "int8", "max");
	o.weir.base_form = true;
	cr_expect_null(perf_plan_refuses(&o, text, sizeof(text)));
	o.rejoins = 1;
	cr_expect_not_null(perf_plan_refuses(&o, text, sizeof(text)));
	o = options("allreduce,gather", "int8", "sum");
	o.weir.base_form = true;
	cr_expect_not_null(perf_plan_refuses(&o, text, sizeof(text)));
	o = options("allreduce", "int8", "max");
	o.shapes = "model";
	cr_expect_null(perf_plan_refuses(&o, text, sizeof(text)));
	o.inflight = 2;
	cr_expect_not_null(perf_plan_refuses(&o, text, sizeof(text)));
}

static int
read_text(const char *text, struct perf_shapes *shapes, char *error, size_t size)
{
	char path[] = "/tmp/weir-shapes-XXXXXX";
	int fd = mkstemp(path), code;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	code = perf_shapes_read(path, shapes, error, size);
	unlink(path);
	return code;
}

Test(weir_perf_plan, shapes_files, .timeout = 90)
{
	const char *bad[] = {"", "# nothing\n", "a\n", "a 0\n", "a -1\n", "a 3x\n",
		"a 99999999999 99999999999\n", "a 1\nb 2 three\n"};
	struct perf_shapes shapes;
	char error[256];

	cr_assert_eq(
		read_text("a 2 3 # six\n\n#\nb\t7", &shapes, error, sizeof(error)), 0, "%s", error);
	cr_expect_eq(shapes.tensors, 2u);
	cr_expect_eq(shapes.counts[0], 6u);
	cr_expect_eq(shapes.elements, 13u);
	perf_shapes_destroy(&shapes);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_lt(read_text(bad[i], &shapes, error, sizeof(error)), 0, "\"%s\"", bad[i]);
	cr_expect_not_null(strstr(error, ":2: "), "the line is named: %s", error);
}

Test(weir_perf_plan, resnet50, .timeout = 90)
{
	struct perf_shapes shapes;
	char error[256];

	cr_assert_eq(perf_shapes_read(
			     SOURCE_ROOT "/configs/resnet50.shapes", &shapes, error, sizeof(error)),
		0, "%s", error);
	cr_expect_eq(shapes.tensors, 161u);
	cr_expect_eq(shapes.elements, 25557032u);
	cr_expect_eq(shapes.counts[0], 64u * 3 * 7 * 7);
	cr_expect_eq(shapes.counts[160], 1000u);
	perf_shapes_destroy(&shapes);
}

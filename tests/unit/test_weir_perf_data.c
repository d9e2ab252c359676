/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-perf's own judgement: its data, its checks, and the model files it reads. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/perf/perf.h"

#define COUNT 3000
#define RANKS 5

/* Elements [100, ...) of an AllReduce's result of iteration `iteration`. */
static size_t
wrong(const struct perf_data *d, const uint8_t *present, uint64_t iteration, size_t first,
	const void *got)
{
	const struct perf_reference r = {
		.data = *d,
		.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.count = first + COUNT,
		.iteration = iteration,
	};

	return perf_reference_wrong(&r, present, first, COUNT, got);
}

static float floats[COUNT];
static int32_t integers[COUNT];

static void
sum_floats(const struct perf_data *d)
{
	float x[COUNT];

	memset(floats, 0, sizeof(floats));
	for (unsigned int r = 0; r < d->ranks; r++) {
		perf_data_fill(d, r, 9, 100, COUNT, x);
		for (unsigned int i = 0; i < COUNT; i++)
			floats[i] += x[i];
	}
}

static void
sum_integers(const struct perf_data *d)
{
	int32_t x[COUNT];

	memset(integers, 0, sizeof(integers));
	for (unsigned int r = 0; r < d->ranks; r++) {
		perf_data_fill(d, r, 9, 100, COUNT, x);
		for (unsigned int i = 0; i < COUNT; i++)
			integers[i] = (int32_t)((uint32_t)integers[i] + (uint32_t)x[i]);
	}
}

Test(weir_perf, right_integers_pass_and_one_bit_does_not, .timeout = 90)
{
	struct perf_data d = {.seed = 1, .dtype = WEIR_DTYPE_INT32, .ranks = RANKS};
	bool overflowed = false;
	int64_t wide[RANKS];
	int32_t x;

	sum_integers(&d);
	cr_expect_eq(wrong(&d, NULL, 9, 100, integers), 0u);
	integers[2047] ^= 1;
	cr_expect_eq(wrong(&d, NULL, 9, 100, integers), 1u);
	cr_expect_gt(wrong(&d, NULL, 8, 100, integers), COUNT - 5u, "iteration");
	cr_expect_gt(wrong(&d, NULL, 9, 101, integers), COUNT - 5u, "shifted");
	for (size_t i = 0; i < 100; i++) {
		int64_t sum = 0;

		for (unsigned int r = 0; r < RANKS; r++) {
			perf_data_fill(&d, r, 9, i, 1, &x);
			wide[r] = x;
			sum += wide[r];
		}
		overflowed |= sum != (int32_t)sum;
	}
	cr_expect(overflowed, "the data must make sums wrap");
}

Test(weir_perf, right_floats_pass_within_the_bound_alone, .timeout = 90)
{
	struct perf_data d = {.seed = 2, .dtype = WEIR_DTYPE_FP32, .ranks = RANKS};

	sum_floats(&d);
	cr_expect_eq(wrong(&d, NULL, 9, 100, floats), 0u);
	floats[0] += 4e-6f;
	floats[COUNT - 1] = NAN;
	cr_expect_eq(wrong(&d, NULL, 9, 100, floats), 2u);
	d.ranks--; /* without the last rank */
	cr_expect_gt(wrong(&d, NULL, 9, 100, floats), COUNT - 5u);
}

Test(weir_perf, partial_sums_are_of_those_present, .timeout = 90)
{
	struct perf_data d = {.seed = 3, .dtype = WEIR_DTYPE_INT32, .ranks = RANKS};
	uint8_t present[WEIR_BITMAP_BYTES] = {0x0f};

	d.ranks = 4;
	sum_integers(&d);
	d.ranks = 5;
	cr_expect_eq(wrong(&d, present, 9, 100, integers), 0u);
	present[0] = 0x1f;
	cr_expect_gt(wrong(&d, present, 9, 100, integers), COUNT - 5u);
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

Test(weir_perf, shapes_files, .timeout = 90)
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

Test(weir_perf, resnet50, .timeout = 90)
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

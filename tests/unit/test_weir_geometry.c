/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How libweir cuts operations into blocks, at its limits; what collectives make of the blocks is in
 * test_weir_collectives.c.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "apps/libweir/geometry.h"

static int
cut(unsigned int collective, unsigned int sources, unsigned int limit, size_t count, size_t bytes,
	uint32_t *blocks)
{
	struct weir_geometry g = {.collective = (uint8_t)collective,
		.sources = sources,
		.limit = limit,
		.row_room = limit,
		.count = count,
		.element_bytes = bytes};
	int code = weir_geometry_cut(&g);

	*blocks = g.blocks;
	return code;
}

Test(weir_geometry, what_can_t_be_cut_is_refused)
{
	uint32_t blocks;

	/* An element of each slice is the least. */
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLGATHER, 9, 8, 1, 4, &blocks), -EMSGSIZE);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLTOALL, 9, 8, 1, 4, &blocks), -EMSGSIZE);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLREDUCE, 9, 8, 9, 4, &blocks), 0);
	cr_expect_eq(blocks, 2u);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLREDUCE, 2, 8, SIZE_MAX / 2, 4, &blocks), -EINVAL);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLGATHER, 4, 8, SIZE_MAX / 8, 4, &blocks), -EINVAL);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLREDUCE, 2, 1, (size_t)INT32_MAX, 1, &blocks), 0);
	cr_expect_eq(
		cut(WEIR_COLLECTIVE_ALLREDUCE, 2, 1, (size_t)INT32_MAX + 1, 1, &blocks), -EINVAL);
	/* As many blocks for each root. */
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLTOALL, 8, 8, INT32_MAX / 8 + 1, 1, &blocks), -EINVAL);
	cr_expect_eq(cut(WEIR_COLLECTIVE_BARRIER, 8, 1, 0, 0, &blocks), 0);
	cr_expect_eq(blocks, 1u);
}

Test(weir_geometry, an_alltoall_with_room_for_full_rows_fills_its_packets)
{
	struct weir_geometry g = {.collective = WEIR_COLLECTIVE_ALLTOALL,
		.sources = 8,
		.limit = 1024,
		.row_room = row_room(1024, 8),
		.count = 4096,
		.element_bytes = 4};
	struct weir_shape shape;

	cr_assert_eq(weir_geometry_cut(&g), 0);
	cr_expect_eq(g.blocks, 32u);
	weir_geometry_block(&g, 0, &shape);
	cr_expect_eq(weir_span_bytes(&shape.send), 4096u);
	cr_expect_eq(weir_span_bytes(&shape.recv), 4096u);
	/* Very many rows share what the largest buffer holds. */
	g.sources = 256;
	g.limit = 4095;
	g.row_room = row_room(4095, 256);
	cr_expect_eq(g.row_room, WEIR_ROWS_MAX);
	cr_assert_eq(weir_geometry_cut(&g), 0);
	cr_expect_eq(g.per_block, 2u);
	cr_expect_eq(row_room(1024, 1), 1024u);
}

Test(weir_geometry, results_of_what_does_not_exist_have_no_length)
{
	struct weir_header h = {.collective = WEIR_COLLECTIVE_JOIN, .grad_cnt = 5};

	cr_expect_eq(weir_geometry_result(&h, 4, 0, false), -1);
	h.collective = WEIR_COLLECTIVE_REDUCE;
	h.root = 4;
	cr_expect_eq(weir_geometry_result(&h, 4, 0, false), -1);
	/* Slices that don't divide evenly, as other hosts may send them. */
	h.root = 0;
	h.collective = WEIR_COLLECTIVE_SCATTER;
	cr_expect_eq(weir_geometry_result(&h, 4, 0, false), 2);
	cr_expect_eq(weir_geometry_result(&h, 4, 1, false), 1);
	h.collective = WEIR_COLLECTIVE_ALLTOALL;
	cr_expect_eq(weir_geometry_result(&h, 4, 0, false), 8);
	cr_expect_eq(weir_geometry_result(&h, 4, 0, true), 6);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank and size from a launcher's environment: who goes before whom, and what is refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/libweir/control.h"

static const char *const variables[][2] = {
#define X(rank, size, name) {rank, size},
	WEIR_LAUNCHER_LIST(X)
#undef X
};
#define LAUNCHERS (sizeof(variables) / sizeof(variables[0]))

static char text[256];

/* The tests may themselves run under a launcher. */
static void
clear(void)
{
	for (size_t i = 0; i < LAUNCHERS; i++) {
		unsetenv(variables[i][0]);
		unsetenv(variables[i][1]);
	}
	text[0] = '\0';
}

static int
complete(int rank, unsigned int size, struct weir_launcher *launch)
{
	*launch = (struct weir_launcher){.rank = rank, .size = size};
	return weir_launcher_complete(launch, text, sizeof(text));
}

static void
is(int rank, unsigned int size)
{
	struct weir_launcher launch;

	cr_assert_eq(complete(-1, 0, &launch), 0, "%s", text);
	cr_assert(launch.rank == rank && launch.size == size, "%d of %u, not %d of %u", launch.rank,
		launch.size, rank, size);
}

static void
fails(int rank, unsigned int size, const char *word)
{
	struct weir_launcher launch;

	cr_assert_eq(complete(rank, size, &launch), -EINVAL);
	cr_assert(strstr(text, word) != NULL, "\"%s\" is not in: %s", word, text);
}

Test(weir_launch, each_launcher_in_its_order, .init = clear, .timeout = 90)
{
	/* From the last to the first: each new one is believed before those that are there. */
	for (size_t i = LAUNCHERS; i-- > 0;) {
		char rank[8], size[8];

		snprintf(rank, sizeof(rank), "%zu", i + 3);
		snprintf(size, sizeof(size), "%zu", i + 20);
		setenv(variables[i][0], rank, 1);
		setenv(variables[i][1], size, 1);
		is((int)i + 3, (unsigned int)i + 20);
	}
	cr_assert_str_eq(variables[0][0], "WEIR_RANK");
	cr_assert_str_eq(variables[1][0], "OMPI_COMM_WORLD_RANK");
	cr_assert_str_eq(variables[2][0], "PMI_RANK");
	cr_assert_str_eq(variables[3][0], "SLURM_PROCID");
	cr_assert_str_eq(variables[4][0], "RANK");
}

Test(weir_launch, arguments_override_the_environment, .init = clear, .timeout = 90)
{
	struct weir_launcher launch;

	setenv("RANK", "2", 1);
	setenv("WORLD_SIZE", "4", 1);
	cr_assert_eq(complete(1, 3, &launch), 0, "%s", text);
	cr_assert(launch.rank == 1 && launch.size == 3);
	cr_assert_eq(complete(3, 0, &launch), 0, "%s", text);
	cr_assert(launch.rank == 3 && launch.size == 4);
	cr_assert_eq(complete(-1, 8, &launch), 0, "%s", text);
	cr_assert(launch.rank == 2 && launch.size == 8);
	cr_assert_eq(complete(0, 1, &launch), 0, "%s", text);
}

Test(weir_launch, no_size_of_another_launcher, .init = clear, .timeout = 90)
{
	setenv("WEIR_RANK", "0", 1);
	setenv("WORLD_SIZE", "4", 1);
	fails(-1, 0, "WEIR_SIZE");
	/* A size without its rank names nobody. */
	unsetenv("WEIR_RANK");
	setenv("SLURM_NTASKS", "9", 1);
	setenv("RANK", "1", 1);
	is(1, 4);
}

Test(weir_launch, missing_rank_or_size_is_named, .init = clear, .timeout = 90)
{
	fails(-1, 0, "mpirun");
	fails(-1, 4, "WEIR_RANK");
	fails(0, 0, "WEIR_SIZE");
	setenv("WEIR_RANK", "", 1);
	fails(-1, 0, "mpirun");
}

Test(weir_launch, nonsense, .init = clear, .timeout = 90)
{
	static const char *const wrong[] = {
		"x", "1x", "-1", "+1", " 1", "1 ", "0x1", "1.0", "99999999999999999999", "257"};

	setenv("WEIR_SIZE", "4", 1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("WEIR_RANK", wrong[i], 1);
		fails(-1, 0, "WEIR_RANK");
	}
	setenv("WEIR_RANK", "4", 1);
	fails(-1, 0, "rank 4 (WEIR_RANK) of a job of 4 ranks (WEIR_SIZE): they are 0..3");
	fails(7, 0, "rank 7 (as configured) of a job of 4 ranks (WEIR_SIZE): they are 0..3");
	fails(-1, 2, "rank 4 (WEIR_RANK) of a job of 2 ranks (as configured): they are 0..1");
	setenv("WEIR_RANK", "0", 1);
	setenv("WEIR_SIZE", "0", 1);
	fails(-1, 0, "a job of 0 ranks (WEIR_SIZE): it may have 1 to 256");
	fails(-1, 257, "a job of 257 ranks (as configured)");
	setenv("WEIR_SIZE", "many", 1);
	fails(-1, 0, "WEIR_SIZE");
}

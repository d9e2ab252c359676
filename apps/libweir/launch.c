/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "pktbuf/wire/wire.h"

static const struct launcher {
	const char *rank, *size;
} launchers[] = {
#define X(rank, size, name) {rank, size},
	WEIR_LAUNCHER_LIST(X)
#undef X
};

/* NULL: not set; set to nothing is not set. */
static const char *
get(const char *name)
{
	const char *value = secure_getenv(name);

	return value == NULL || value[0] == '\0' ? NULL : value;
}

static const struct launcher *
find(void)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (get(launchers[i].rank) != NULL)
			return &launchers[i];
	return NULL;
}

/* A number of [0, 256] of a variable that is set. */
static int
read_number(const char *name, long *number, char *text, size_t size)
{
	const char *value = get(name);
	char *end;

	errno = 0;
	*number = strtol(value, &end, 10);
	if (errno == 0 && *end == '\0' && value[0] >= '0' && value[0] <= '9' &&
		*number <= WEIR_SOURCES_MAX)
		return 0;
	snprintf(text, size, "the environment's %s is \"%.40s\", and not a number of [0, %d]", name,
		value, WEIR_SOURCES_MAX);
	return -EINVAL;
}

/* Is it a rank of a job? from: where the two are from, for people. */
static int
check(const struct weir_launch *launch, const char *rank_from, const char *size_from, char *text,
	size_t size)
{
	if (launch->size == 0 || launch->size > WEIR_SOURCES_MAX)
		snprintf(text, size, "a job of %u ranks (%s): it may have 1 to %d", launch->size,
			size_from, WEIR_SOURCES_MAX);
	else if (launch->rank < 0 || (unsigned int)launch->rank >= launch->size)
		snprintf(text, size, "rank %d (%s) of a job of %u ranks (%s): they are 0..%u",
			launch->rank, rank_from, launch->size, size_from, launch->size - 1);
	else
		return 0;
	return -EINVAL;
}

int
weir_launch_complete(struct weir_launch *launch, char *text, size_t size)
{
	const struct launcher *by = find();
	const char *rank_from = "as configured", *size_from = "as configured";
	long number;

	if (launch->rank < 0) {
		if (by == NULL) {
			snprintf(text, size,
				"which rank is this host? Set WEIR_RANK and WEIR_SIZE, or start it "
				"with mpirun, srun or torchrun, which set theirs");
			return -EINVAL;
		}
		if (read_number(by->rank, &number, text, size) < 0)
			return -EINVAL;
		launch->rank = (int)number;
		rank_from = by->rank;
	}
	if (launch->size == 0) {
		const char *name = by != NULL ? by->size : "WEIR_SIZE";

		if (get(name) == NULL) {
			snprintf(text, size,
				"how many ranks has the job? The environment has no %s", name);
			return -EINVAL;
		}
		if (read_number(name, &number, text, size) < 0)
			return -EINVAL;
		launch->size = (unsigned int)number;
		size_from = name;
	}
	return check(launch, rank_from, size_from, text, size);
}

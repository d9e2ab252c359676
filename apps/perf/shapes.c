/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The elements of a line's tensor; 0: the line is wrong; -1: it has none. */
static long long
tensor(char *line)
{
	unsigned long long elements = 1, dimension;
	char *rest = NULL, *word, *end, *comment = strchr(line, '#');

	if (comment != NULL)
		*comment = '\0';
	if (strtok_r(line, " \t\r\n", &rest) == NULL)
		return -1;
	word = strtok_r(NULL, " \t\r\n", &rest);
	if (word == NULL)
		return 0;
	for (; word != NULL; word = strtok_r(NULL, " \t\r\n", &rest)) {
		errno = 0;
		dimension = strtoull(word, &end, 10);
		if (errno != 0 || *end != '\0' || word[0] == '-' || dimension == 0 ||
			elements > (UINT64_C(1) << 40) / dimension)
			return 0;
		elements *= dimension;
	}
	return (long long)elements;
}

int
perf_shapes_read(const char *path, struct perf_shapes *shapes, char *error, size_t error_size)
{
	FILE *file = fopen(path, "re");
	unsigned int number = 0;
	size_t room = 0;
	char *line = NULL;
	int code = 0;

	*shapes = (struct perf_shapes){0};
	if (file == NULL) {
		code = -errno;
		snprintf(error, error_size, "%s: %s", path, strerror(errno));
		return code;
	}
	for (; code == 0 && getline(&line, &room, file) >= 0; number++) {
		long long elements = tensor(line);
		size_t *more;

		if (elements < 0)
			continue;
		more = reallocarray(shapes->counts, shapes->tensors + 1, sizeof(*more));
		if (more != NULL)
			shapes->counts = more;
		code = more == NULL ? -ENOMEM : elements == 0 ? -EINVAL : 0;
		if (code == 0)
			more[shapes->tensors++] = (size_t)elements;
		shapes->elements += (size_t)elements;
	}
	free(line);
	fclose(file);
	if (code == -ENOMEM)
		snprintf(error, error_size, "%s: out of memory", path);
	else if (code == -EINVAL)
		snprintf(error, error_size, "%s:%u: must be `name dimension...`", path, number);
	else if (shapes->tensors == 0)
		snprintf(error, error_size, "%s: must have a line for each tensor", path);
	if (code == 0 && shapes->tensors == 0)
		code = -EINVAL;
	if (code != 0)
		perf_shapes_destroy(shapes);
	return code;
}

void
perf_shapes_destroy(struct perf_shapes *shapes)
{
	free(shapes->counts);
	*shapes = (struct perf_shapes){0};
}

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
	char line[512];
	unsigned int number = 0, room = 0;
	int code = 0;

	*shapes = (struct perf_shapes){0};
	if (file == NULL) {
		code = -errno;
		snprintf(error, error_size, "%s: %s", path, strerror(errno));
		return code;
	}
	while (code == 0 && fgets(line, sizeof(line), file) != NULL) {
		bool whole = strchr(line, '\n') != NULL || feof(file);
		long long elements = whole ? tensor(line) : 0;

		number++;
		if (elements == 0) {
			snprintf(error, error_size, "%s:%u: not `name dimension...`", path, number);
			code = -EINVAL;
		}
		if (elements <= 0)
			continue;
		if (shapes->tensors == room) {
			size_t *more = reallocarray(
				shapes->counts, room = room ? room * 2 : 64, sizeof(*more));

			if (more == NULL) {
				snprintf(error, error_size, "%s: out of memory", path);
				code = -ENOMEM;
				continue;
			}
			shapes->counts = more;
		}
		shapes->counts[shapes->tensors++] = (size_t)elements;
		shapes->elements += (size_t)elements;
	}
	fclose(file);
	if (code == 0 && shapes->tensors == 0) {
		snprintf(error, error_size, "%s: no tensor in it", path);
		code = -EINVAL;
	}
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

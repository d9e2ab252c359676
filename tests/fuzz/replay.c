/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In the place of libFuzzer: give a target every file of the folders of its command line, in the order
 * of their names. Prints TAP, a case a file; a target that aborts leaves the plan unkept.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (1 << 20)
#define LIMIT_S   60 /* of one input: a target that hangs is killed by SIGALRM */

static int
visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Into a piece of memory as large as the file, so that sanitizers see who reads beyond. */
static uint8_t *
load(const char *path, size_t *size)
{
	struct stat status;
	uint8_t *bytes;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &status) < 0 || status.st_size > INPUT_MAX)
		FUZZ_WRONG("%s can't be read", path);
	*size = (size_t)status.st_size;
	bytes = malloc(*size == 0 ? 1 : *size);
	if (bytes == NULL || read(fd, bytes, *size) != (ssize_t)*size)
		FUZZ_WRONG("%s can't be read", path);
	close(fd);
	return bytes;
}

static void
play(const char *folder, const char *name, unsigned int number)
{
	char path[4096];
	uint8_t *bytes;
	size_t size;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	bytes = load(path, &size);
	alarm(LIMIT_S);
	LLVMFuzzerTestOneInput(bytes, size);
	alarm(0);
	free(bytes);
	printf("ok %u - %s\n", number, name);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	unsigned int number = 0;
	struct dirent **names;
	int n;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	n = scandir(argv[1], &names, visible, alphasort);
	if (n <= 0) {
		fprintf(stderr, "%s: no inputs\n", argv[1]);
		return 1;
	}
	LLVMFuzzerInitialize(&argc, &argv);
	printf("1..%d\n", n);
	fflush(stdout);
	for (int i = 0; i < n; i++) {
		play(argv[1], names[i]->d_name, ++number);
		free(names[i]);
	}
	free(names);
	return 0;
}

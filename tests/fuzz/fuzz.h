/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzz targets share. A target defines the two functions that libFuzzer calls; linked with
 * libFuzzer (clang, -Dfuzz=true) it searches, linked with replay.c it plays what is kept in the corpus.
 * A target that finds something wrong says so and aborts.
 *
 * Same input, same run: a target reads no clock and draws no random numbers.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input as it is taken, piece by piece; behind its end come zeros. */
struct fuzz_input {
	const uint8_t *next;
	size_t left;
};

static inline uint8_t
fuzz_8(struct fuzz_input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->next++;
}

static inline uint16_t
fuzz_16(struct fuzz_input *in)
{
	uint16_t low = fuzz_8(in);

	return (uint16_t)(low | fuzz_8(in) << 8);
}

/* So many bytes of the input, or as many as are left; how many is in *size. */
static inline const uint8_t *
fuzz_take(struct fuzz_input *in, size_t *size)
{
	const uint8_t *from = in->next;

	if (*size > in->left)
		*size = in->left;
	in->next += *size;
	in->left -= *size;
	return from;
}

#define FUZZ_WRONG(...)                                                                            \
	do {                                                                                       \
		fprintf(stderr, "fuzz: " __VA_ARGS__);                                             \
		fputc('\n', stderr);                                                               \
		abort();                                                                           \
	} while (0)

#define FUZZ_CHECK(condition, ...)                                                                 \
	do {                                                                                       \
		if (!(condition))                                                                  \
			FUZZ_WRONG(__VA_ARGS__);                                                   \
	} while (0)

#endif

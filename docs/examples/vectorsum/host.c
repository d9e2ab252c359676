/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of vectorsum: it sums a vector with those of the other ranks, over a plain socket.
 *
 *	host SWITCH RUN RANK RANKS ELEMENTS
 *
 * RUN: greater than in all runs before, and the same at all ranks.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "vectorsum.h"

#define REPEAT_MS 30 /* without an answer, until vectors are sent again */
#define REPEATS   100 /* until the rank gives up */

struct packet {
	struct vectorsum_header header;
	int32_t element[VECTORSUM_ELEMENTS];
} __attribute__((packed));

static size_t
elements_of(size_t block, size_t n)
{
	size_t left = n - block * VECTORSUM_ELEMENTS;

	return left < VECTORSUM_ELEMENTS ? left : VECTORSUM_ELEMENTS;
}

/* data: n elements, which become the sum. heard: a bit for each rank that is in all of it. Returns 0, or -1: the switch does
 * not answer. */
static int
vectorsum_reduce(int fd, uint64_t first, uint8_t rank, int32_t *data, size_t n, uint32_t *heard)
{
	size_t blocks = (n + VECTORSUM_ELEMENTS - 1) / VECTORSUM_ELEMENTS, sent = 0, oldest = 0;
	bool *has = calloc(blocks, sizeof(*has));
	struct packet p;

	*heard = UINT32_MAX;
	for (int silent = 0; oldest < blocks && silent < REPEATS;) {
		/* Not before the sum of the block a window before is here. */
		for (; sent < blocks && sent < oldest + VECTORSUM_WINDOW; sent++) {
			size_t count = elements_of(sent, n);

			p.header = (struct vectorsum_header){.block = htobe64(first + sent),
				.count = htons(count),
				.rank = rank};
			memcpy(p.element, data + sent * VECTORSUM_ELEMENTS, 4 * count);
			if (!has[sent])
				send(fd, &p, sizeof(p.header) + 4 * count, 0);
		}
		if (recv(fd, &p, sizeof(p), 0) < (ssize_t)sizeof(p.header)) {
			sent = oldest; /* again: a vector or its answer was lost, or another rank is late */
			silent++;
			continue;
		}
		size_t block = be64toh(p.header.block) - first;

		if (block >= sent || has[block] || p.header.status == VECTORSUM_VECTOR)
			continue;
		memcpy(data + block * VECTORSUM_ELEMENTS, p.element, 4 * elements_of(block, n));
		*heard &= ntohl(p.header.heard);
		has[block] = true;
		for (silent = 0; oldest < blocks && has[oldest]; oldest++)
			;
	}
	free(has);
	return oldest < blocks ? -1 : 0;
}

int
main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(VECTORSUM_PORT)};
	const struct timeval repeat = {.tv_usec = REPEAT_MS * 1000};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (argc != 6 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		errx(2, "usage: host SWITCH RUN RANK RANKS ELEMENTS");
	uint64_t run = strtoull(argv[2], NULL, 10);
	unsigned int rank = atoi(argv[3]), ranks = atoi(argv[4]), n = atoi(argv[5]);
	uint32_t heard, wrong = 0;
	int32_t *data = calloc(n, sizeof(*data));

	for (unsigned int i = 0; i < n; i++)
		data[i] = rank * 1000000 + i;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &repeat, sizeof(repeat));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
		vectorsum_reduce(fd, (run << 32) + 1, rank, data, n, &heard) != 0)
		err(1, "no answer from %s", argv[1]);
	for (unsigned int r = 0; r < ranks; r++)
		if (!(heard >> r & 1))
			printf("rank %u was missing\n", r);
	for (unsigned int i = 0; i < n && heard == UINT32_MAX >> (32 - ranks); i++)
		wrong += data[i] != (int32_t)(ranks * (ranks - 1) / 2 * 1000000 + ranks * i);
	printf("%u elements, %u wrong\n", n, wrong);
	free(data);
	return wrong != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* vectorsum: what follows the UDP header of each packet. The hosts and the switch include this file. */
#ifndef VECTORSUM_H
#define VECTORSUM_H

#include <stdint.h>

#define VECTORSUM_PORT     12100
#define VECTORSUM_RANKS    32 /* at most */
#define VECTORSUM_ELEMENTS 256 /* of a vector, at most */
#define VECTORSUM_SLOTS    64 /* blocks that the switch knows */
/* A rank sends block b only when it has the sum of b - WINDOW. So when the first rank sends
 * b + SLOTS, all ranks have the sum of b, and its slot is free. */
#define VECTORSUM_WINDOW (VECTORSUM_SLOTS / 2)

enum vectorsum_status {
	VECTORSUM_VECTOR, /* of a rank */
	VECTORSUM_SUM, /* of all ranks */
	VECTORSUM_PARTIAL, /* of those in `heard`: the others were too late */
};

/* Numbers are big-endian. `count` int32 follow, little-endian as they lie in memory. */
struct vectorsum_header {
	uint64_t block; /* [1, ...]: it rises, and a run begins above all blocks of former runs */
	uint32_t heard; /* of a sum; bit r: the vector of rank r is in it */
	uint16_t count; /* [1, VECTORSUM_ELEMENTS] */
	uint8_t rank; /* that sent the vector, or gets the sum */
	uint8_t status; /* enum vectorsum_status */
} __attribute__((packed));

#endif

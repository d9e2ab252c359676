/* SPDX-License-Identifier: BSD-3-Clause */
/* A host that floods: contributions without end, which nobody asked for. */
#ifndef APPS_FAULTS_FLOOD_H
#define APPS_FAULTS_FLOOD_H

#include <stdint.h>

struct flood {
	const char *switch_address, *address; /* IPv4, dotted */
	uint8_t job, source; /* in whose name */
	uint32_t bytes; /* of a datagram, [16, 1400] */
	uint32_t packets_per_s; /* at least 1 */
	uint64_t seed; /* of the blocks' numbers and the contents */
};

/* Send until SIGINT or SIGTERM, and print how many. The calling thread. 0, or -errno. */
int flood_run(const struct flood *flood);

#endif

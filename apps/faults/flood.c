/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/faults/flood.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pktbuf/wire/wire.h"

#define BURST      32
#define BLOCKS     128 /* two windows of the usual size: some are open, some are over */
#define BYTES_MOST 1400

static volatile sig_atomic_t ended;

static void
end(int number)
{
	(void)number;
	ended = 1;
}

static int
open_socket(const struct flood *flood)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(WEIR_PORT_EXT)};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	if (inet_pton(AF_INET, flood->address, &from.sin_addr) == 1 &&
		inet_pton(AF_INET, flood->switch_address, &to.sin_addr) == 1 &&
		bind(s, (struct sockaddr *)&from, sizeof(from)) == 0 &&
		connect(s, (struct sockaddr *)&to, sizeof(to)) == 0)
		return s;
	close(s);
	return errno != 0 ? -errno : -EINVAL;
}

int
flood_run(const struct flood *flood)
{
	const struct timespec pause = {
		0, (long)(UINT64_C(1000000000) * BURST / flood->packets_per_s % 1000000000)};
	uint8_t packet[BYTES_MOST];
	uint32_t bytes = flood->bytes < BYTES_MOST ? flood->bytes : BYTES_MOST;
	struct weir_header header = {
		.job_id = flood->job,
		.src_id = flood->source,
		.extended = true,
		.grad_cnt = (uint16_t)((bytes - WEIR_EXT_BYTES) / 4),
		.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.op = WEIR_OP_SUM,
		.dtype = WEIR_DTYPE_INT32,
		.gen_id = 1,
	};
	uint64_t sent = 0;
	int s = open_socket(flood);

	if (s < 0)
		return s;
	signal(SIGINT, end);
	signal(SIGTERM, end);
	srand((unsigned int)flood->seed);
	while (!ended) {
		for (int i = 0; i < BURST; i++) {
			unsigned int at;

			header.block_id = (uint32_t)rand() % BLOCKS;
			for (at = weir_header_write(&header, packet); at < bytes; at++)
				packet[at] = (uint8_t)rand();
			sent += send(s, packet, bytes, MSG_DONTWAIT) == (ssize_t)bytes;
		}
		nanosleep(&pause, NULL);
	}
	printf("flood: %" PRIu64 " sent\n", sent);
	close(s);
	return 0;
}

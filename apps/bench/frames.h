/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of frames, ready in mbufs, which a generator offers to a switch over and over.
 *
 * A row holds one frame from each source, for a block at a time; enough rows are made that what is
 * offered lies where a port's memory would. A frame is complete but for its block id, and its tag or CRC,
 * which are written when it is given out. The switch frees frames into a pool that nobody takes mbufs
 * from any more, so the frames stay whole.
 */
#ifndef APPS_BENCH_FRAMES_H
#define APPS_BENCH_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_mbuf.h>

#include "pktbuf/pktbuf.h"
#include "pktbuf/tag.h"
#include "rmw/rmw.h"

/* Offset of the aggregation header: Ethernet, IPv4, UDP. */
#define FRAME_HEADERS (14 + 20 + 8)

struct frames_config {
	unsigned int id; /* the port that they come in through */
	unsigned int sources; /* [1, 256] */
	unsigned int rows; /* of a frame from each source, [1, ...] */
	unsigned int elements; /* [1, 4095] */
	enum weir_dtype type;
	bool checksum; /* UDP checksums filled; else 0, "not computed" */
	bool authenticated; /* extended form, with a tag; the job's key is zeros. No checksums */
	bool checked; /* with a CRC at the end. No checksums */
	bool ordinary; /* no contributions: to station 0 behind `to_port` */
	unsigned int to_port;
	unsigned int bytes; /* of an ordinary frame without elements, [60, ...] */
	uint8_t job; /* of row 0 */
	unsigned int jobs; /* row r is of job `job` + r modulo this; 0: all of `job` */
	uint16_t generation; /* fixed */
	unsigned int ranks; /* not 0: the sources are switches, which cover so many ranks each */
	bool answers; /* no contributions: a parent's results for this switch; sources: 1 */
	unsigned int tree_ranks; /* in an answer */
};

/* What makes a source's tags or CRCs. */
struct frames_key {
	struct pktbuf_tag_key gmac; /* of tags */
	uint8_t bit[32][WEIR_TAG_BYTES]; /* what each bit of the block id adds */
};

/* 10.77.1.0: source i has the i-th address from here on. */
#define FRAMES_FIRST 0x0a4d0100u

/* 10.77.2.0: the parent from which answers come, station 0 behind their port. */
#define FRAMES_PARENT (FRAMES_FIRST + 256)

/* The switch, to whom contributions go. */
extern const struct pktbuf_identity frames_switch;

struct frames {
	struct frames_config config;
	unsigned int bytes; /* of a frame */
	struct rte_mempool *pool;
	struct rte_mbuf **mbuf; /* [row * sources + source] */
	const uint8_t **payload; /* the same, payload addresses */
	uint32_t *sum; /* the same, folded sums of what the checksums cover, with a block id of 0 */
	uint8_t **expected; /* [row]: the sum of the row's payloads */
	struct frames_key *key; /* [source] */
};

/* Bytes that frames_create takes from EAL's memory, about. */
uint64_t frames_memory(const struct frames_config *config);

/* NULL: no memory; a line on standard error says so. Main thread. */
struct frames *frames_create(const struct frames_config *config);

/* NULL is fine. No switch may hold a frame any more. */
void frames_destroy(struct frames *frames);

/* The MAC address of a host: station `number` behind port `port`. */
static inline void
frames_station(uint8_t *mac, unsigned int port, unsigned int number)
{
	const uint8_t address[6] = {0x02, 0, 0, 0, (uint8_t)port, (uint8_t)number};

	memcpy(mac, address, sizeof(address));
}

/* Write the tag of an authenticated frame, or the CRC of a checked one, for the block id that it has. Cost: 40 ns; does not
 * read the payload. */
void frames_end(const struct frames *frames, struct rte_mbuf *packet);

/* Frame i, row * sources + source, as the contribution to `block`; it must not be under way. */
static inline struct rte_mbuf *
frames_take(const struct frames *frames, unsigned int i, uint32_t block)
{
	struct rte_mbuf *packet = frames->mbuf[i];
	uint8_t *header = rte_pktmbuf_mtod_offset(packet, uint8_t *, FRAME_HEADERS);
	uint32_t sum = frames->sum[i];

	weir_put32(header + 1, block);
	if (!frames->config.checksum)
		return packet;
	/* The id lies at an odd offset: its bytes count in the other halves (RFC 1071). */
	sum += (block >> 24) + (block >> 8 & 0xffff) + (block << 8 & 0xff00);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	weir_put16(header - 2, sum == 0xffff ? 0xffff : (uint16_t)~sum);
	return packet;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of docs/protocol.md: each is given there twice, as fields and as bytes. What is not written
 * as it should be fails the test. The page gives some packets as a whole frame, and of the others only the UDP
 * ports and what follows UDP: they get the Ethernet, IPv4 and UDP headers here, with the addresses of the page.
 */
#ifndef TESTS_MODEL_PAGE_PACKET_H
#define TESTS_MODEL_PAGE_PACKET_H

#include "pktbuf/wire/wire.h"

#define PAGE_FRAME_MAX 512
#define PAGE_HEADERS   42 /* bytes of Ethernet, IPv4 and UDP */
#define PAGE_DTYPE     WEIR_DTYPE_FP32 /* what the base form means in the page's job */

/* A code and its name; lists end with a name of NULL. */
struct page_name {
	unsigned int code;
	const char *name, *more; /* more: a third column, NULL for none */
};

/* The lists of pktbuf/wire/wire.h and pktbuf/wire/types.h. */
extern const struct page_name page_statuses[], page_collectives[], page_dtypes[], page_ops[],
	page_fields[], page_reasons[];

/* A packet of the page. */
struct page_packet {
	unsigned int line; /* of its first byte in the page, about */
	uint8_t mac_from[6], mac_to[6]; /* the text */
	uint32_t ip_from, ip_to;
	uint16_t udp_from, udp_to;
	struct weir_header header;
	uint8_t payload[PAGE_FRAME_MAX];
	unsigned int payload_bytes;
	uint8_t bytes[PAGE_FRAME_MAX]; /* the frame */
	unsigned int length;
};

/* The next packet of the page, from *at on, which moves behind it; false: no more. */
bool page_packet_next(const char *page, const char **at, struct page_packet *p);

/* Write the frame of a packet whose UDP payload is these bytes; its length. to: room for PAGE_HEADERS + bytes. */
unsigned int page_packet_frame(
	const struct page_packet *p, const uint8_t *payload, unsigned int bytes, uint8_t *to);

/* Ones-complement sum over 16-bit words, folded; a last odd byte counts as the upper one. */
uint32_t page_sum(const uint8_t *bytes, size_t n, uint32_t before);

/* The same of a UDP datagram with its pseudo header; udp_bytes with the UDP header. */
uint32_t page_udp_sum(const uint8_t *ip, size_t udp_bytes);

#endif

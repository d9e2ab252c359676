/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internet checksums (RFC 1071) of received packets, and sums for results; CRCs of packets.
 *
 * Verification in software reads the whole UDP payload once. If the port uses the offload, the
 * device's verdict counts, and software verifies only packets without one. A UDP checksum of 0
 * means "not computed" (RFC 768) and is accepted.
 */
#ifndef PKTBUF_CHECKSUM_H
#define PKTBUF_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "pktbuf/head.h"

struct pktbuf_port;

/* How a port treats checksums in one direction. */
enum pktbuf_checksum {
	PKTBUF_CHECKSUM_AUTO, /* offload if the device has it, else software */
	PKTBUF_CHECKSUM_SOFTWARE, /* never by the device */
	PKTBUF_CHECKSUM_OFFLOAD, /* by the device; the port does not open without it */
	PKTBUF_CHECKSUM_OFF, /* receive: not verified; send: UDP 0, IPv4 in software */
};

/* The result of verification. */
enum pktbuf_verdict { PKTBUF_CHECKSUM_GOOD, PKTBUF_CHECKSUM_BAD_IP, PKTBUF_CHECKSUM_BAD_UDP };

/*
 * Verify the IPv4 header checksum and the UDP checksum of a packet received by `port`. head: as
 * parsed, with PKTBUF_HEAD_UDP set. Cost: the UDP payload is read once, unless the device did it.
 */
enum pktbuf_verdict pktbuf_checksum_verify(const struct pktbuf_port *port,
	const struct rte_mbuf *packet, const struct pktbuf_head *head);

/* Limit the vectors of sums to 128, 256 or 512 bits, as far as the CPU has them. Default: the
 * widest. Control thread, workers stopped. */
void pktbuf_sum_select(unsigned int bits);

/*
 * Folded ones-complement sum of contiguous bytes, in the machine's byte order, not inverted; an odd
 * last byte is padded with zero. bytes: any address, length [0, 65535]. Sums of parts can be added
 * if each part but the last has even length.
 * Cost: 4 KiB in L1 take 30 ns with AVX-512, 41 ns with AVX2.
 */
uint16_t pktbuf_sum_bytes(const void *bytes, size_t length);

/* weir_crc32c() of bytes [offset, offset + length) of a packet, in any segmentation. */
uint32_t pktbuf_crc32c(
	uint32_t crc, const struct rte_mbuf *packet, uint32_t offset, uint32_t length);

#endif

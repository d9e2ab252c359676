/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C (RFC 3720, appendix B.4: the polynomial of Castagnoli), which ends the packets of jobs
 * with `integrity: crc32c`.
 *
 * The switch and the hosts' library share it; no DPDK. The widest implementation that the CPU has
 * is chosen before main.
 */
#ifndef PKTBUF_WIRE_CRC32C_H
#define PKTBUF_WIRE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The CRC of any bytes and their CRC. */
#define WEIR_CRC32C_RESIDUE 0x48674bc7u

/*
 * Continue `crc`, the CRC of the bytes before these; 0: of no bytes. Any address and length, any
 * thread. Cost: one pass over the bytes.
 */
uint32_t weir_crc32c(uint32_t crc, const void *bytes, size_t length);

/*
 * Do n messages, [1, 8], of the same length end with their CRCs? One wrong message is found as by
 * its own CRC. Several wrong messages can cancel each other: if the same bits are wrong at places
 * that differ by 16 bytes times the distance of the messages, otherwise with a chance of 2^-32. Any
 * thread. Cost: with VPCLMULQDQ one CRC, of their sum; otherwise n of them.
 */
#define WEIR_CRC32C_TOGETHER 8
bool weir_crc32c_hold(const uint8_t *const message[], unsigned int n, size_t length);

/* Limit the vectors to 0 (tables), 128 (SSE4.2) or 512 bits (VPCLMULQDQ), as far as the CPU has
 * them. Default: the widest. While no other thread computes a CRC. */
void weir_crc32c_select(unsigned int bits);

/* How a CRC ends a packet: least significant byte first. */
static inline void
weir_crc32c_put(uint8_t b[4], uint32_t crc)
{
	for (unsigned int i = 0; i < 4; i++)
		b[i] = (uint8_t)(crc >> 8 * i);
}

#endif

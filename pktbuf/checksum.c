/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/checksum.h"

#include <netinet/in.h>

#include <rte_byteorder.h>

#include "pktbuf/cursor.h"
#include "pktbuf/port.h"
#include "pktbuf/sum_priv.h"

static pktbuf_sum_fn sum_of = pktbuf_sum_scalar;

void
pktbuf_sum_select(unsigned int bits)
{
	sum_of = pktbuf_sum_scalar;
#ifdef __x86_64__
	if (bits >= 256 && __builtin_cpu_supports("avx2"))
		sum_of = pktbuf_sum_avx2;
	if (bits >= 512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		sum_of = pktbuf_sum_avx512;
#endif
}

/* Before main, so that it is chosen before the first sum. */
static __attribute__((constructor)) void
select_widest(void)
{
	pktbuf_sum_select(512);
}

static uint16_t
fold(uint64_t sum)
{
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)((sum >> 16) + (sum & 0xffff));
}

uint16_t
pktbuf_sum_bytes(const void *bytes, size_t length)
{
	return fold(sum_of(bytes, length));
}

static bool
ip_holds(const struct pktbuf_head *head)
{
	return fold(pktbuf_sum_rest(head->bytes + head->l3, (size_t)(head->l4 - head->l3))) ==
		0xffff;
}

/* Folded sum over a chain. rte_raw_cksum_mbuf of DPDK 22.11 is wrong where a segment begins at an odd offset: it
 * cuts the unfolded sum to 16 bits before it swaps. */
static uint16_t
sum_chain(const struct rte_mbuf *packet, uint32_t offset, uint32_t length)
{
	struct pktbuf_cursor cursor;
	uint32_t done = 0, here;
	const uint8_t *bytes;
	uint32_t sum = 0;

	if (likely(offset + length <= rte_pktmbuf_data_len(packet)))
		return pktbuf_sum_bytes(
			rte_pktmbuf_mtod_offset(packet, const uint8_t *, offset), length);
	pktbuf_cursor_init(&cursor, packet, offset, length);
	while ((bytes = pktbuf_cursor_span(&cursor, &here)) != NULL) {
		uint16_t part = pktbuf_sum_bytes(bytes, here);

		sum += (done & 1) != 0 ? rte_bswap16(part) : part;
		done += here;
		pktbuf_cursor_advance(&cursor, here);
	}
	return fold(sum);
}

static bool
udp_holds(const struct rte_mbuf *packet, const struct pktbuf_head *head)
{
	const uint8_t *ip = head->bytes + head->l3, *udp = head->bytes + head->l4;
	uint32_t length = head->payload_length + 8u;

	if (udp[6] == 0 && udp[7] == 0)
		return true;
	/* The pseudo-header: both addresses, the protocol and the UDP length. */
	return fold(pktbuf_sum_rest(ip + 12, 8) + rte_cpu_to_be_16(IPPROTO_UDP) +
		       rte_cpu_to_be_16((uint16_t)length) + sum_chain(packet, head->l4, length)) ==
		0xffff;
}

enum pktbuf_verdict
pktbuf_checksum_verify(const struct pktbuf_port *port, const struct rte_mbuf *packet,
	const struct pktbuf_head *head)
{
	/*
	 * 0: the device has no result. NONE: a sender on the same machine left the checksum to a device, so the
	 * content is right although the checksum is not.
	 */
	uint64_t ip = 0, udp = 0;

	if (port->rx_checksum == PKTBUF_CHECKSUM_OFF)
		return PKTBUF_CHECKSUM_GOOD;
	if (port->rx_checksum == PKTBUF_CHECKSUM_OFFLOAD) {
		ip = packet->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
		udp = packet->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	}
	if (ip == RTE_MBUF_F_RX_IP_CKSUM_BAD || (ip == 0 && !ip_holds(head)))
		return PKTBUF_CHECKSUM_BAD_IP;
	if (udp == RTE_MBUF_F_RX_L4_CKSUM_BAD || (udp == 0 && !udp_holds(packet, head)))
		return PKTBUF_CHECKSUM_BAD_UDP;
	return PKTBUF_CHECKSUM_GOOD;
}

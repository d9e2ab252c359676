/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/checksum.h"

#include <netinet/in.h>

#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "pktbuf/cursor.h"
#include "pktbuf/port.h"
#include "pktbuf/sum_priv.h"
#include "pktbuf/wire/crc32c.h"

static pktbuf_sum_fn sum_of = pktbuf_sum_scalar;

void
pktbuf_sum_select(unsigned int bits __rte_unused)
{
	sum_of = pktbuf_sum_scalar;
#ifdef __x86_64__
	if (bits >= 256 && __builtin_cpu_supports("avx2"))
		sum_of = pktbuf_sum_avx2;
	if (bits >= 512 && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"))
		sum_of = pktbuf_sum_avx512;
#endif
}

/* Before main, so that it is chosen before the first sum. */
static __attribute__((constructor)) void
select_widest(void)
{
	pktbuf_sum_select(512);
}

uint16_t
pktbuf_sum_bytes(const void *bytes, size_t length)
{
	uint64_t sum = sum_of(bytes, length, 0);

	return pktbuf_sum_fold((uint32_t)((sum + (sum >> 32 | sum << 32)) >> 32));
}

/* Words and their checksum add up to 0xffff (RFC 1071, 1), so to a multiple of it before folding.
 * Not to 0, because not all words of a header are 0. */
static inline bool
holds(uint64_t sum)
{
	return sum % 0xffff == 0;
}

/* `sum` and a word, with the carry. */
static inline uint64_t
add(uint64_t sum, uint64_t word)
{
	sum += word;
	return sum + (sum < word);
}

static inline bool
ip_holds(const struct pktbuf_head *head)
{
	const uint8_t *ip = head->bytes + head->l3, *end = head->bytes + head->l4;
	uint64_t word[2], sum;

	memcpy(word, ip, sizeof(word));
	sum = add(add(word[0], word[1]), pktbuf_sum_word(ip + sizeof(word)));
	for (ip += sizeof(struct rte_ipv4_hdr); unlikely(ip < end); ip += 4)
		sum = add(sum, pktbuf_sum_word(ip));
	return holds(sum);
}

/* sum_of over a chain. rte_raw_cksum_mbuf of DPDK 22.11 is wrong where a segment
 * begins at an odd offset: it cuts the unfolded sum to 16 bits before it swaps. */
static __rte_noinline uint64_t
sum_chain(const struct rte_mbuf *packet, uint32_t offset, uint32_t length, uint64_t sum)
{
	struct pktbuf_cursor cursor;
	uint32_t done = 0, here;
	const uint8_t *bytes;

	pktbuf_cursor_init(&cursor, packet, offset, length);
	while ((bytes = pktbuf_cursor_span(&cursor, &here)) != NULL) {
		uint16_t part = pktbuf_sum_bytes(bytes, here);

		sum += (done & 1) != 0 ? rte_bswap16(part) : part;
		done += here;
		pktbuf_cursor_advance(&cursor, here);
	}
	return sum;
}

static inline bool
udp_holds(const struct rte_mbuf *packet, const struct pktbuf_head *head)
{
	const struct rte_ipv4_hdr *ip = (const void *)(head->bytes + head->l3);
	const struct rte_udp_hdr *udp = (const void *)(head->bytes + head->l4);
	uint32_t length = head->payload_length + (uint32_t)sizeof(*udp);
	uint64_t pseudo =
		(uint64_t)ip->src_addr + ip->dst_addr + RTE_BE16(IPPROTO_UDP) + udp->dgram_len;

	if (udp->dgram_cksum == 0)
		return true;
	if (unlikely(head->l4 + length > rte_pktmbuf_data_len(packet)))
		return holds(sum_chain(packet, head->l4, length, pseudo));
	return holds(
		sum_of(rte_pktmbuf_mtod_offset(packet, const uint8_t *, head->l4), length, pseudo));
}

/* ip and udp: the device's verdicts. */
static __rte_always_inline enum pktbuf_verdict
judge(uint64_t ip, uint64_t udp, const struct rte_mbuf *packet, const struct pktbuf_head *head)
{
	if (ip == RTE_MBUF_F_RX_IP_CKSUM_BAD || (ip == 0 && unlikely(!ip_holds(head))))
		return PKTBUF_CHECKSUM_BAD_IP;
	if (udp == RTE_MBUF_F_RX_L4_CKSUM_BAD || (udp == 0 && unlikely(!udp_holds(packet, head))))
		return PKTBUF_CHECKSUM_BAD_UDP;
	return PKTBUF_CHECKSUM_GOOD;
}

enum pktbuf_verdict
pktbuf_checksum_verify(const struct pktbuf_port *port, const struct rte_mbuf *packet,
	const struct pktbuf_head *head)
{
	/*
	 * 0: the device has no result. NONE: a sender on the same machine left the checksum to a
	 * device, so the content is right although the checksum is not.
	 */
	if (port->rx_checksum == PKTBUF_CHECKSUM_OFF)
		return PKTBUF_CHECKSUM_GOOD;
	if (port->rx_checksum == PKTBUF_CHECKSUM_OFFLOAD)
		return judge(packet->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK,
			packet->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK, packet, head);
	return judge(0, 0, packet, head);
}

uint32_t
pktbuf_crc32c(uint32_t crc, const struct rte_mbuf *packet, uint32_t offset, uint32_t length)
{
	struct pktbuf_cursor cursor;
	const uint8_t *bytes;
	uint32_t here;

	if (likely(offset + length <= rte_pktmbuf_data_len(packet)))
		return weir_crc32c(
			crc, rte_pktmbuf_mtod_offset(packet, const uint8_t *, offset), length);
	pktbuf_cursor_init(&cursor, packet, offset, length);
	while ((bytes = pktbuf_cursor_span(&cursor, &here)) != NULL) {
		crc = weir_crc32c(crc, bytes, here);
		pktbuf_cursor_advance(&cursor, here);
	}
	return crc;
}

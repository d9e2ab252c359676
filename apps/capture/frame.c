/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/capture.h"

#include <endian.h>
#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#define HEADERS                                                                                    \
	(sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr))
#define FRAME_MIN   60 /* without the frame check sequence */
#define SOURCE_PORT 40000

size_t
frame_bytes(const struct plan *plan)
{
	size_t bytes = HEADERS + weir_header_bytes(plan->extended) + plan->elements * 4;

	return bytes < FRAME_MIN ? FRAME_MIN : bytes;
}

/* The element as 32 bits. Eighths of small integers: sums of 256 of them are exact in fp32. */
static uint32_t
element(const struct plan *plan, uint64_t *random)
{
	uint32_t bits = (uint32_t)(order_random(random) >> 32);
	float value;

	if (plan->job.dtype == WEIR_DTYPE_INT32)
		return bits;
	value = (float)((int32_t)(bits >> 18) - 8192) / 8;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static uint32_t
sum(const struct plan *plan, uint32_t a, uint32_t b)
{
	float x, y;

	if (plan->job.dtype == WEIR_DTYPE_INT32)
		return a + b;
	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	x += y;
	memcpy(&a, &x, sizeof(a));
	return a;
}

/* Add a contribution to a payload. */
static void
add(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *payload)
{
	uint64_t state = plan->seed ^ (uint64_t)ppe_job_block(&plan->job, block) << 8 ^ source;
	uint64_t random = order_random(&state);

	for (unsigned int i = 0; i < plan->elements; i++) {
		uint32_t value;

		memcpy(&value, payload + (size_t)i * 4, 4);
		value = htole32(sum(plan, le32toh(value), element(plan, &random)));
		memcpy(payload + (size_t)i * 4, &value, 4);
	}
}

void
frame_payload(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *payload)
{
	memset(payload, 0, plan->elements * 4);
	add(plan, source, block, payload);
}

void
frame_result(const struct plan *plan, uint32_t block, uint8_t *payload)
{
	memset(payload, 0, plan->elements * 4);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (ppe_job_has(&plan->job, (uint8_t)s))
			add(plan, (uint8_t)s, block, payload);
}

void
frame_contribution(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *frame)
{
	const struct weir_header header = {
		.block_id = ppe_job_block(&plan->job, block),
		.gen_id = plan->job.fixed_generation,
		.grad_cnt = (uint16_t)plan->elements,
		.job_id = plan->job.id,
		.src_id = source,
		.collective =
			plan->elements > 0 ? WEIR_COLLECTIVE_ALLREDUCE : WEIR_COLLECTIVE_BARRIER,
		.op = plan->job.op,
		.dtype = plan->job.dtype,
		.extended = plan->extended,
	};
	struct rte_ether_hdr *ethernet = (struct rte_ether_hdr *)frame;
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ethernet + 1);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);
	size_t bytes = sizeof(*udp) + plan->elements * 4;

	memset(frame, 0, frame_bytes(plan));
	bytes += weir_header_write(&header, frame + HEADERS);
	frame_payload(plan, source, block, (uint8_t *)udp + bytes - plan->elements * 4);
	*ethernet =
		(struct rte_ether_hdr){.src_addr.addr_bytes = {0x02, 0x48, 0, 0,
					       (uint8_t)((source + 1) >> 8), (uint8_t)(source + 1)},
			.ether_type = htobe16(RTE_ETHER_TYPE_IPV4)};
	memcpy(ethernet->dst_addr.addr_bytes, plan->to.mac, sizeof(plan->to.mac));
	*ip = (struct rte_ipv4_hdr){.version_ihl = RTE_IPV4_VHL_DEF,
		.total_length = htobe16((uint16_t)(sizeof(*ip) + bytes)),
		.fragment_offset = htobe16(RTE_IPV4_HDR_DF_FLAG),
		.time_to_live = 64,
		.next_proto_id = IPPROTO_UDP,
		.src_addr = htobe32(plan->job.address[source]),
		.dst_addr = htobe32(plan->to.ip)};
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	*udp = (struct rte_udp_hdr){.src_port = htobe16(SOURCE_PORT),
		.dst_port = htobe16(plan->extended ? plan->to.port_ext : plan->to.port_base),
		.dgram_len = htobe16((uint16_t)bytes)};
	udp->dgram_cksum = rte_ipv4_udptcp_cksum(ip, udp);
}

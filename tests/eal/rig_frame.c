/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of the bench, by the plainest code there is. */
#include <string.h>

#include "tests/eal/rig.h"

#define L2         14
#define L3         (L2 + 20)
#define L4         (L3 + 8)
#define UDP_SOURCE 40000

const uint8_t rig_switch_mac[6] = {0x02, 0x57, 0x45, 0x49, 0x52, 0x01};

uint32_t
rig_source_ip(unsigned int source)
{
	return 0x0a4d0001 + source;
}

void
rig_source_mac(unsigned int source, uint8_t mac[6])
{
	const uint8_t base[6] = {0x02, 0x48, 0, 0, 0, (uint8_t)(source + 1)};

	memcpy(mac, base, sizeof(base));
}

/* RFC 1071, byte pair by byte pair. */
static uint16_t
internet_sum(uint32_t sum, const uint8_t *p, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum += (i & 1) ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint16_t
udp_sum(const uint8_t *frame)
{
	unsigned int length = weir_get16(frame + L3 + 4);

	return internet_sum(internet_sum(17 + length, frame + L2 + 12, 8), frame + L3, length);
}

void
rig_fix_checksums(uint8_t *frame)
{
	weir_put16(frame + L2 + 10, 0);
	weir_put16(frame + L2 + 10, (uint16_t)~internet_sum(0, frame + L2, 20));
	weir_put16(frame + L3 + 6, 0);
	weir_put16(frame + L3 + 6, (uint16_t)~udp_sum(frame));
}

bool
rig_checksums_hold(const uint8_t *frame)
{
	return internet_sum(0, frame + L2, 20) == 0xffff && udp_sum(frame) == 0xffff;
}

void
rig_headers(uint8_t *frame, const uint8_t mac[6], uint32_t ip, uint16_t from, uint16_t to,
	unsigned int bytes)
{
	memset(frame, 0, L4);
	memcpy(frame, rig_switch_mac, 6);
	memcpy(frame + 6, mac, 6);
	weir_put16(frame + 12, 0x0800);
	frame[L2] = 0x45;
	weir_put16(frame + L2 + 2, (uint16_t)(20 + 8 + bytes));
	weir_put16(frame + L2 + 6, 0x4000);
	frame[L2 + 8] = 64;
	frame[L2 + 9] = 17;
	weir_put32(frame + L2 + 12, ip);
	weir_put32(frame + L2 + 16, RIG_SWITCH_IP);
	weir_put16(frame + L3, from);
	weir_put16(frame + L3 + 2, to);
	weir_put16(frame + L3 + 4, (uint16_t)(8 + bytes));
}

unsigned int
rig_frame(uint8_t *frame, unsigned int source, const struct weir_header *header,
	const void *payload, unsigned int payload_bytes)
{
	unsigned int bytes = weir_header_bytes(header->extended) + payload_bytes;
	uint8_t mac[6];

	rig_source_mac(source, mac);
	rig_headers(frame, mac, rig_source_ip(source), (uint16_t)(UDP_SOURCE + source),
		header->extended ? WEIR_PORT_EXT : WEIR_PORT_BASE, bytes);
	weir_header_write(header, frame + L4);
	if (payload_bytes > 0)
		memcpy(frame + L4 + weir_header_bytes(header->extended), payload, payload_bytes);
	rig_fix_checksums(frame);
	return L4 + bytes;
}

bool
rig_parse(const uint8_t *frame, unsigned int bytes, struct weir_header *header,
	const uint8_t **payload, unsigned int *payload_bytes)
{
	unsigned int udp, port;

	if (bytes < L4 + WEIR_BASE_BYTES || weir_get16(frame + 12) != 0x0800 || frame[L2 + 9] != 17)
		return false;
	port = weir_get16(frame + L3);
	udp = weir_get16(frame + L3 + 4);
	if ((port != WEIR_PORT_BASE && port != WEIR_PORT_EXT) || L3 + udp > bytes)
		return false;
	memset(header, 0, sizeof(*header));
	header->extended = port == WEIR_PORT_EXT;
	weir_header_read(header, frame + L4);
	*payload = frame + L4 + weir_header_bytes(header->extended);
	*payload_bytes = udp - 8 - weir_header_bytes(header->extended);
	return true;
}

struct weir_header
rig_contribution(
	uint8_t job, uint16_t generation, unsigned int source, uint32_t block, unsigned int count)
{
	return (struct weir_header){.job_id = job,
		.gen_id = generation,
		.src_id = (uint8_t)source,
		.block_id = block,
		.grad_cnt = (uint16_t)count,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};
}

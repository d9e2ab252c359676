/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/capture.h"

#include <endian.h>
#include <string.h>

#include "pktbuf/checksum.h"

#define IP          14
#define UDP         (IP + 20)
#define DATA        (UDP + 8)
#define SOURCE_PORT 40000
#define DISCARD     9 /* UDP port of ordinary frames */
#define FCS         4

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

static uint32_t
get(const uint8_t *payload, unsigned int index)
{
	uint32_t value;

	memcpy(&value, payload + (size_t)index * 4, 4);
	return le32toh(value);
}

static void
put(uint8_t *payload, unsigned int index, uint32_t value)
{
	value = htole32(value);
	memcpy(payload + (size_t)index * 4, &value, 4);
}

/* Where a contribution's random numbers begin. */
static uint64_t
seed_of(const struct plan *plan, uint8_t source, uint32_t block)
{
	uint64_t state = plan->seed ^ (uint64_t)ppe_job_block(&plan->job, block) << 8 ^ source;

	return order_random(&state);
}

void
frame_payload(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *payload)
{
	uint64_t random = seed_of(plan, source, block);

	for (unsigned int i = 0; i < plan->elements; i++)
		put(payload, i, element(plan, &random));
}

void
frame_result(const struct plan *plan, uint32_t block, uint8_t *payload)
{
	memset(payload, 0, (size_t)plan->elements * 4);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		uint64_t random = seed_of(plan, (uint8_t)s, block);

		for (unsigned int i = 0; ppe_job_has(&plan->job, (uint8_t)s) && i < plan->elements;
			i++)
			put(payload, i, sum(plan, get(payload, i), element(plan, &random)));
	}
}

double
frame_total(const struct plan *plan, const uint8_t *payload)
{
	double total = 0;

	for (unsigned int i = 0; i < plan->elements; i++) {
		uint32_t bits = get(payload, i);
		float value;

		memcpy(&value, &bits, sizeof(value));
		total +=
			plan->job.dtype == WEIR_DTYPE_INT32 ? (double)(int32_t)bits : (double)value;
	}
	return total;
}

/* What is in frames of both kinds: Ethernet, IPv4, UDP, and `bytes` of data behind them. */
struct datagram {
	uint8_t from_mac[6], to_mac[6];
	uint32_t from, to;
	uint16_t from_port, to_port;
	uint16_t bytes;
};

/* Headers, and the checksums over them and the data, which is in its place already. */
static void
write_headers(uint8_t *frame, const struct datagram *d)
{
	uint8_t pseudo[12] = {[9] = 17};
	uint16_t value;
	uint32_t total;

	memcpy(frame, d->to_mac, 6);
	memcpy(frame + 6, d->from_mac, 6);
	weir_put16(frame + 12, 0x0800);
	memset(frame + IP, 0, DATA - IP);
	frame[IP] = 0x45;
	weir_put16(frame + IP + 2, (uint16_t)(DATA - IP + d->bytes));
	frame[IP + 6] = 0x40; /* don't fragment */
	frame[IP + 8] = 64;
	frame[IP + 9] = 17;
	weir_put32(frame + IP + 12, d->from);
	weir_put32(frame + IP + 16, d->to);
	value = (uint16_t)~pktbuf_sum_bytes(frame + IP, UDP - IP);
	memcpy(frame + IP + 10, &value, 2);

	weir_put16(frame + UDP, d->from_port);
	weir_put16(frame + UDP + 2, d->to_port);
	weir_put16(frame + UDP + 4, (uint16_t)(DATA - UDP + d->bytes));
	memcpy(pseudo, frame + IP + 12, 8);
	memcpy(pseudo + 10, frame + UDP + 4, 2);
	total = (uint32_t)pktbuf_sum_bytes(pseudo, sizeof(pseudo)) +
		pktbuf_sum_bytes(frame + UDP, (size_t)(DATA - UDP) + d->bytes);
	total = (total & 0xffff) + (total >> 16);
	value = (uint16_t) ~((total & 0xffff) + (total >> 16));
	if (value == 0)
		value = 0xffff; /* 0 would say "not computed" */
	memcpy(frame + UDP + 6, &value, 2);
}

void
frame_contribution(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *frame)
{
	const struct weir_header header = {
		.block_id = ppe_job_block(&plan->job, block),
		.gen_id = plan->job.fixed_generation,
		.grad_cnt = plan->elements,
		.job_id = plan->job.id,
		.src_id = source,
		.collective =
			plan->elements > 0 ? WEIR_COLLECTIVE_ALLREDUCE : WEIR_COLLECTIVE_BARRIER,
		.op = plan->job.op,
		.dtype = plan->job.dtype,
		.extended = plan->extended,
	};
	struct datagram d = {
		.from_mac = {0x02, 0x48, 0, 0, (uint8_t)((source + 1) >> 8), (uint8_t)(source + 1)},
		.from = plan->job.address[source],
		.to = plan->to.ip,
		.from_port = SOURCE_PORT,
		.to_port = plan->extended ? plan->to.port_ext : plan->to.port_base,
	};
	unsigned int size;

	memset(frame, 0, plan_frame_bytes(plan));
	size = weir_header_write(&header, frame + DATA);
	frame_payload(plan, source, block, frame + DATA + size);
	memcpy(d.to_mac, plan->to.mac, sizeof(d.to_mac));
	d.bytes = (uint16_t)(size + plan->elements * weir_dtype_bytes(plan->job.dtype));
	write_headers(frame, &d);
}

/* 198.second.0.0 */
static uint32_t
network(uint32_t second)
{
	return UINT32_C(198) << 24 | second << 16;
}

size_t
frame_ordinary(const struct plan *plan, uint64_t index, uint8_t *frame)
{
	uint32_t station = (uint32_t)(index / plan->nb_sizes % plan->stations);
	size_t bytes = plan->size[index % plan->nb_sizes] - FCS;
	uint8_t way = plan->reverse ? 1 : 0;
	struct datagram d = {
		.from = network(18u + way) + station + 1,
		.to = network(19u - way) + station + 1,
		.from_port = SOURCE_PORT,
		.to_port = DISCARD,
		.bytes = (uint16_t)(bytes - DATA),
	};

	memcpy(d.from_mac, (uint8_t[]){0x02, (uint8_t)(0x12 + way), 0, 0}, 4);
	memcpy(d.to_mac, (uint8_t[]){0x02, (uint8_t)(0x13 - way), 0, 0}, 4);
	weir_put16(d.from_mac + 4, (uint16_t)(station + 1));
	weir_put16(d.to_mac + 4, (uint16_t)(station + 1));
	for (size_t i = DATA; i < bytes; i++)
		frame[i] = (uint8_t)(index + i);
	write_headers(frame, &d);
	return bytes;
}

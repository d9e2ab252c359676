/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/frames.h"

#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_mempool.h>

/* A mempool handler that gives each object out once, when the frames are made, and from then on
 * forgets what is freed. */
struct once {
	unsigned int taken_in, left;
	void *objects[];
};

static int
once_alloc(struct rte_mempool *pool)
{
	pool->pool_data = calloc(1, sizeof(struct once) + pool->size * sizeof(void *));
	return pool->pool_data == NULL ? -ENOMEM : 0;
}

static void
once_free(struct rte_mempool *pool)
{
	free(pool->pool_data);
}

static int
once_enqueue(struct rte_mempool *pool, void *const *objects, unsigned int n)
{
	struct once *once = pool->pool_data;

	if (likely(once->taken_in == pool->size))
		return 0;
	for (unsigned int i = 0; i < n; i++)
		once->objects[once->left++] = objects[i];
	once->taken_in += n;
	return 0;
}

static int
once_dequeue(struct rte_mempool *pool, void **objects, unsigned int n)
{
	struct once *once = pool->pool_data;

	if (once->left < n)
		return -ENOENT;
	once->left -= n;
	memcpy(objects, &once->objects[once->left], n * sizeof(*objects));
	return 0;
}

/* Mix the objects: in a pool that was in use for a while, neighbours are not handed out in turn. */
static void
once_shuffle(struct rte_mempool *pool)
{
	struct once *once = pool->pool_data;
	uint64_t state = 88172645463325252;

	for (unsigned int i = once->left; i > 1; i--) {
		unsigned int j;
		void *object;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		j = (unsigned int)(state % i);
		object = once->objects[i - 1];
		once->objects[i - 1] = once->objects[j];
		once->objects[j] = object;
	}
}

static unsigned int
once_count(const struct rte_mempool *pool)
{
	return ((const struct once *)pool->pool_data)->left;
}

static const struct rte_mempool_ops once_ops = {
	.name = "weir_frames",
	.alloc = once_alloc,
	.free = once_free,
	.enqueue = once_enqueue,
	.dequeue = once_dequeue,
	.get_count = once_count,
};
RTE_MEMPOOL_REGISTER_OPS(once_ops);

static unsigned int
payload_bytes(const struct frames_config *config)
{
	return config->elements * rmw_type_size(config->type);
}

static unsigned int
frame_bytes(const struct frames_config *config)
{
	return FRAMES_HEADER + weir_header_bytes(config->authenticated) + payload_bytes(config) +
		(config->authenticated ? WEIR_TAG_BYTES : 0);
}

static unsigned int
room(const struct frames_config *config)
{
	return RTE_PKTMBUF_HEADROOM + frame_bytes(config);
}

uint64_t
frames_memory(const struct frames_config *config)
{
	uint64_t one = sizeof(struct rte_mbuf) + PKTBUF_PRIV_BYTES + room(config) + 256;

	return one * config->sources * config->rows;
}

/* Whole numbers below 2^16, so that sums of 256 are exact in every type of 4 bytes or more. */
static void
fill_payload(const struct frames_config *config, uint8_t *to, uint32_t salt)
{
	for (unsigned int e = 0; e < config->elements; e++) {
		uint32_t value = (salt * 2654435761u + e * 40503u) >> 16;

		if (config->type == RMW_TYPE_FP32) {
			float real = (float)value;

			memcpy(to + 4 * e, &real, 4);
		} else {
			memcpy(to + 4 * e, &value, 4);
		}
	}
}

static uint32_t
add_up(uint32_t sum, const uint8_t *bytes, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum += (i & 1) != 0 ? bytes[i] : (uint32_t)bytes[i] << 8;
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* The frame's headers, with block id 0 and no UDP checksum. Returns the sum of what that covers. */
static uint32_t
write_frame(const struct frames *frames, struct rte_mbuf *packet, unsigned int source)
{
	const struct frames_config *c = &frames->config;
	const struct weir_header header = {.job_id = c->job,
		.src_id = (uint8_t)source,
		.gen_id = c->generation,
		.extended = c->authenticated,
		.dtype = (uint8_t)c->type,
		.flags = WEIR_FLAG_AUTHENTICATED,
		.grad_cnt = (uint16_t)c->elements};
	uint8_t *f = rte_pktmbuf_mtod(packet, uint8_t *);
	uint8_t *ip = f + 14, *udp = ip + 20;
	unsigned int length = frames->bytes - 34;

	memset(f, 0, FRAMES_HEADER);
	memcpy(f, c->identity->mac, 6);
	if (c->ordinary)
		frames_station(f, c->to_port, 0);
	frames_station(f + 6, c->id, source);
	weir_put16(f + 12, 0x0800);
	ip[0] = 0x45;
	weir_put16(ip + 2, (uint16_t)(20 + length));
	weir_put16(ip + 6, 0x4000);
	ip[8] = 64;
	ip[9] = 17;
	weir_put32(ip + 12, 0x0a4d0001 + source);
	weir_put32(ip + 16, c->ordinary ? c->identity->ip + 1 : c->identity->ip);
	weir_put16(ip + 10, (uint16_t)~add_up(0, ip, 20));
	weir_put16(udp, (uint16_t)(40000 + source));
	weir_put16(udp + 2, c->authenticated ? c->identity->port_ext : c->identity->port_base);
	weir_put16(udp + 4, (uint16_t)length);
	weir_header_write(&header, f + FRAMES_HEADER);
	return add_up(add_up(17 + length, ip + 12, 8), udp, length);
}

static void
make_row(struct frames *frames, unsigned int row)
{
	const struct frames_config *c = &frames->config;
	rmw_reduce_fn add = rmw_reduction_of(RMW_ISA_SCALAR, c->type, RMW_OP_SUM)->reduce;

	for (unsigned int s = 0; s < c->sources; s++) {
		unsigned int i = row * c->sources + s;
		struct rte_mbuf *packet = rte_pktmbuf_alloc(frames->pool);
		uint8_t *payload;

		rte_pktmbuf_append(packet, (uint16_t)frames->bytes);
		payload = rte_pktmbuf_mtod_offset(
			packet, uint8_t *, FRAMES_HEADER + weir_header_bytes(c->authenticated));
		fill_payload(c, payload, i + 1);
		frames->mbuf[i] = packet;
		frames->payload[i] = payload;
		frames->sum[i] = write_frame(frames, packet, s);
		if (s == 0)
			memcpy(frames->expected[row], payload, payload_bytes(c));
		else
			add(frames->expected[row], payload, c->elements);
	}
}

/* Packed, as the switch packs its packets (pktbuf/pool.c). */
static struct rte_mempool *
make_pool(const struct frames_config *config, unsigned int n)
{
	struct rte_pktmbuf_pool_private sizes = {
		.mbuf_data_room_size = (uint16_t)room(config), .mbuf_priv_size = PKTBUF_PRIV_BYTES};
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rte_mempool *pool;

	snprintf(name, sizeof(name), "bench_frames_%u", config->id);
	pool = rte_mempool_create_empty(name, n,
		(unsigned int)sizeof(struct rte_mbuf) + PKTBUF_PRIV_BYTES + room(config),
		RTE_MIN(n / 2, 256u), sizeof(sizes), SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (pool == NULL || rte_mempool_set_ops_byname(pool, once_ops.name, NULL) < 0) {
		rte_mempool_free(pool);
		return NULL;
	}
	rte_pktmbuf_pool_init(pool, &sizes);
	if (rte_mempool_populate_default(pool) < 0) {
		rte_mempool_free(pool);
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

struct frames *
frames_create(const struct frames_config *config)
{
	unsigned int n = config->sources * config->rows;
	struct frames *frames = calloc(1, sizeof(*frames));

	if (frames == NULL)
		return NULL;
	frames->config = *config;
	frames->bytes = frame_bytes(config);
	frames->pool = make_pool(config, n);
	if (frames->pool == NULL) {
		fprintf(stderr, "weir-bench: no memory for %u frames of %u bytes: %s\n", n,
			frames->bytes, rte_strerror(rte_errno));
		free(frames);
		return NULL;
	}
	once_shuffle(frames->pool);
	frames->mbuf = calloc(n, sizeof(*frames->mbuf));
	frames->payload = calloc(n, sizeof(*frames->payload));
	frames->sum = calloc(n, sizeof(*frames->sum));
	frames->expected = calloc(config->rows, sizeof(*frames->expected));
	for (unsigned int k = 0; k < config->rows; k++) {
		frames->expected[k] = malloc(payload_bytes(config));
		make_row(frames, k);
	}
	return frames;
}

void
frames_destroy(struct frames *frames)
{
	if (frames == NULL)
		return;
	for (unsigned int k = 0; k < frames->config.rows; k++)
		free(frames->expected[k]);
	free(frames->expected);
	free(frames->sum);
	free(frames->payload);
	free(frames->mbuf);
	rte_mempool_free(frames->pool);
	free(frames);
}

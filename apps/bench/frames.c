/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/frames.h"

#include <stdlib.h>

#include <rte_errno.h>
#include <rte_ip.h>
#include <rte_mempool.h>
#include <rte_udp.h>

#include "apps/bench/bench.h"
#include "pktbuf/pool.h"
#include "pktbuf/wire/crc32c.h"

const struct pktbuf_identity frames_switch = {.mac = {0x02, 0x57, 0x45, 0x49, 0x52, 0x01},
	.ip = 0x0a4d00fe,
	.port_base = WEIR_PORT_BASE,
	.port_ext = WEIR_PORT_EXT};

static unsigned int
payload_bytes(const struct frames_config *config)
{
	return config->elements * weir_dtype_bytes(config->type);
}

static bool
extended(const struct frames_config *config)
{
	return config->authenticated || config->ranks > 0 || config->answers;
}

/* Bytes of tag or CRC. */
static unsigned int
end_bytes(const struct frames_config *config)
{
	return config->authenticated ? WEIR_TAG_BYTES : config->checked ? WEIR_CRC_BYTES : 0;
}

static unsigned int
frame_bytes(const struct frames_config *config)
{
	return RTE_MAX(config->bytes,
		FRAME_HEADERS + weir_header_bytes(extended(config)) + payload_bytes(config) +
			end_bytes(config));
}

uint64_t
frames_memory(const struct frames_config *config)
{
	return pktbuf_packet_pool_bytes(
		config->sources * config->rows, frame_bytes(config) + WEIR_TAG_BYTES + 112);
}

/* Whole numbers below 2^16, so that sums of 256 are exact in every type of 4 bytes or more. */
static void
fill_payload(const struct frames_config *config, uint8_t *to, uint32_t salt)
{
	for (unsigned int e = 0; e < config->elements; e++) {
		uint32_t value = (salt * 2654435761u + e * 40503u) >> 16;
		float real = (float)value;

		memcpy(to + 4 * e, config->type == WEIR_DTYPE_FP32 ? (void *)&real : &value, 4);
	}
}

static void
make_frame(struct frames *frames, unsigned int row, unsigned int source)
{
	const struct frames_config *c = &frames->config;
	const struct weir_header header = {.job_id = (uint8_t)(c->job + row % RTE_MAX(c->jobs, 1u)),
		.src_id = (uint8_t)(source * RTE_MAX(c->ranks, 1u)),
		.src_cnt = (uint8_t)(c->answers ? c->tree_ranks : c->ranks),
		.gen_id = c->generation,
		.extended = extended(c),
		.dtype = (uint8_t)c->type,
		.flags = (uint8_t)((c->authenticated ? WEIR_FLAG_AUTHENTICATED : 0) |
			(c->checked ? WEIR_FLAG_CRC : 0) | (c->ranks > 0 ? WEIR_FLAG_UP : 0)),
		.grad_cnt = (uint16_t)c->elements};
	unsigned int i = row * c->sources + source;
	struct rte_mbuf *packet = frames->mbuf[i];
	uint8_t *f = (uint8_t *)rte_pktmbuf_append(packet, (uint16_t)frames->bytes);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(void *)(f + 14);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(void *)(f + 34);
	uint8_t *payload = f + FRAME_HEADERS + weir_header_bytes(extended(c));

	memset(f, 0, frames->bytes);
	memcpy(f, frames_switch.mac, 6);
	if (c->ordinary)
		frames_station(f, c->to_port, 0);
	frames_station(f + 6, c->id, source);
	weir_put16(f + 12, RTE_ETHER_TYPE_IPV4);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->total_length = rte_cpu_to_be_16((uint16_t)(frames->bytes - 14));
	ip->fragment_offset = rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG);
	ip->time_to_live = 64;
	ip->next_proto_id = IPPROTO_UDP;
	ip->src_addr = rte_cpu_to_be_32((c->answers ? FRAMES_PARENT : FRAMES_FIRST) + source);
	ip->dst_addr = rte_cpu_to_be_32(frames_switch.ip + c->ordinary);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	udp->src_port = rte_cpu_to_be_16((uint16_t)(c->ranks > 0 ? WEIR_PORT_UP
			: c->answers                             ? frames_switch.port_ext
								 : 40000 + source));
	udp->dst_port = rte_cpu_to_be_16(c->answers ? WEIR_PORT_UP
			: extended(c)               ? frames_switch.port_ext
						    : frames_switch.port_base);
	udp->dgram_len = rte_cpu_to_be_16((uint16_t)(frames->bytes - 34));
	weir_header_write(&header, f + FRAME_HEADERS);
	fill_payload(c, payload, i + 1);
	frames->payload[i] = payload;
	frames->sum[i] = (uint16_t)~rte_be_to_cpu_16(rte_ipv4_udptcp_cksum(ip, udp));
}

/*
 * Tags and CRCs, which hold for one block each. Both are linear (GMAC's hash: NIST SP 800-38D, 6.4): that of a block is that
 * of block 0, plus what the bits of the block id add, and for a tag the nonce. So a frame gets its end without a look at its
 * payload, which would bring that into the caches.
 */

static void
add(uint8_t *sum, const uint8_t *end, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		sum[i] ^= end[i];
}

/* What a block's nonce adds to every tag, and a constant. */
static void
nonce_tag(const struct frames_key *key, uint32_t block, uint8_t *tag)
{
	static const uint8_t constant[WEIR_EXT_BYTES];

	pktbuf_tag_make(&key->gmac, (struct pktbuf_nonce){.number = block}, constant, NULL, 0, tag);
}

void
frames_end(const struct frames *frames, struct rte_mbuf *packet)
{
	const struct frames_config *c = &frames->config;
	unsigned int bytes = end_bytes(c);
	uint8_t *base = rte_pktmbuf_mtod_offset(packet, uint8_t *, frames->bytes);
	const uint8_t *header = rte_pktmbuf_mtod_offset(packet, const uint8_t *, FRAME_HEADERS);
	uint32_t block = weir_get32(header + 1);
	const struct frames_key *key = &frames->key[header[6] / RTE_MAX(c->ranks, 1u)];
	uint8_t end[WEIR_TAG_BYTES] = {0};

	if (c->authenticated)
		nonce_tag(key, block, end);
	add(end, base, bytes);
	for (; block != 0; block &= block - 1)
		add(end, key->bit[__builtin_ctz(block)], bytes);
	memcpy(base - bytes, end, bytes);
}

/* A frame's tag or CRC as the contribution to a block; a tag without what the nonce adds. A CRC is computed from the
 * aggregation header on: in an answer src_id is 0. */
static void
bare_end(const struct frames *frames, unsigned int i, uint32_t block, uint8_t *end)
{
	uint8_t *header = rte_pktmbuf_mtod_offset(frames->mbuf[i], uint8_t *, FRAME_HEADERS);
	const struct frames_key *key = &frames->key[i % frames->config.sources];
	uint8_t nonce[WEIR_TAG_BYTES];

	weir_put32(header + 1, block);
	if (frames->config.checked) {
		weir_crc32c_put(end,
			weir_crc32c(0, header, frames->bytes - FRAME_HEADERS - WEIR_CRC_BYTES));
		return;
	}
	pktbuf_tag_make(&key->gmac, (struct pktbuf_nonce){.number = 0}, header, frames->payload[i],
		payload_bytes(&frames->config), end);
	nonce_tag(key, 0, nonce);
	add(end, nonce, sizeof(nonce));
}

/* The keys of a generation that is fixed: its challenge is zeros. */
static bool
make_keys(struct frames *frames)
{
	const struct frames_config *c = &frames->config;
	uint8_t message[sizeof(WEIR_LABEL_GENERATION) - 1 + WEIR_CHALLENGE_BYTES + 2] =
		WEIR_LABEL_GENERATION;
	const uint8_t job[WEIR_KEY_BYTES] = {0};
	uint8_t own[WEIR_KEY_BYTES], key[WEIR_KEY_BYTES];
	struct pktbuf_hmac *hmac = pktbuf_tag_init() < 0 ? NULL : pktbuf_hmac_create();
	bool made = hmac != NULL;

	weir_put16(message + sizeof(message) - 2, c->generation);
	for (unsigned int s = 0; made && s < c->sources; s++) {
		made = pktbuf_member_key(job, (uint8_t)s, 0, own) &&
			pktbuf_hmac(hmac, own, message, sizeof(message), key);
		if (made)
			pktbuf_tag_expand(&frames->key[s].gmac, key);
	}
	pktbuf_hmac_destroy(hmac);
	return made;
}

static void
prepare_ends(struct frames *frames)
{
	unsigned int sources = frames->config.sources, bytes = end_bytes(&frames->config);

	for (unsigned int i = sources * frames->config.rows; i-- > 0;) {
		uint8_t *base = rte_pktmbuf_mtod_offset(frames->mbuf[i], uint8_t *, frames->bytes);

		bare_end(frames, i, 0, base);
		for (unsigned int bit = 0; i < sources && bit < 32; bit++) {
			uint8_t *more = frames->key[i].bit[bit];

			bare_end(frames, i, UINT32_C(1) << bit, more);
			add(more, base, bytes);
		}
	}
}

static void
make_row(struct frames *frames, unsigned int row)
{
	const struct frames_config *c = &frames->config;
	const struct rmw_reduction *r = rmw_reduction_of(RMW_ISA_SCALAR, c->type, WEIR_OP_SUM);
	uint8_t *sum = malloc(payload_bytes(c));

	frames->expected[row] = sum;
	for (unsigned int s = 0; s < c->sources; s++) {
		make_frame(frames, row, s);
		(s == 0 ? r->begin : r->reduce)(sum,
			(const void *[]){frames->payload[row * c->sources + s]}, 1, c->elements);
	}
}

/* All mbufs of a pool, mixed: in one that was in use for a while, neighbors are not handed out in turn. -1 with rte_errno. */
static int
make_mbufs(struct frames *frames, unsigned int n)
{
	static unsigned int serial;
	char name[RTE_MEMPOOL_NAMESIZE];
	uint64_t state = 1;

	snprintf(name, sizeof(name), "bench_frames_%u", serial++);
	/* Behind a frame lies what frames_end() begins with. */
	frames->pool = pktbuf_packet_pool(
		name, n, frames->bytes + WEIR_TAG_BYTES, RTE_MIN(n / 2, 256u), SOCKET_ID_ANY);
	if (frames->pool == NULL || rte_pktmbuf_alloc_bulk(frames->pool, frames->mbuf, n) < 0)
		return -1;
	/* A pool that is full forgets what is freed. */
	while (rte_mempool_ops_enqueue_bulk(frames->pool, (void **)frames->mbuf, 1) == 0)
		continue;
	for (unsigned int i = n; i > 1; i--) {
		unsigned int other = (unsigned int)(bench_random(&state) % i);

		RTE_SWAP(frames->mbuf[i - 1], frames->mbuf[other]);
	}
	return 0;
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
	frames->mbuf = calloc(n, sizeof(*frames->mbuf));
	frames->payload = calloc(n, sizeof(*frames->payload));
	frames->sum = calloc(n, sizeof(*frames->sum));
	frames->expected = calloc(config->rows, sizeof(*frames->expected));
	frames->key = aligned_alloc(RTE_CACHE_LINE_SIZE, config->sources * sizeof(*frames->key));
	if (make_mbufs(frames, n) < 0) {
		warnx("no memory for %u frames of %u bytes: %s", n, frames->bytes,
			rte_strerror(rte_errno));
	} else if (config->authenticated && !make_keys(frames)) {
		warnx("no keys for authenticated frames");
	} else {
		for (unsigned int k = 0; k < config->rows; k++)
			make_row(frames, k);
		if (config->authenticated || config->checked)
			prepare_ends(frames);
		return frames;
	}
	frames_destroy(frames);
	return NULL;
}

void
frames_destroy(struct frames *frames)
{
	if (frames == NULL)
		return;
	for (unsigned int k = 0; k < frames->config.rows; k++)
		free(frames->expected[k]);
	free(frames->expected);
	free(frames->key);
	free(frames->sum);
	free(frames->payload);
	free(frames->mbuf);
	rte_mempool_free(frames->pool);
	free(frames);
}

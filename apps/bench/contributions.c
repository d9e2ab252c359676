/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/contributions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "apps/bench/contributions_priv.h"
#include "pktbuf/wire/wire.h"

#define HEADER_AT (CONTRIBUTION_HEADERS - WEIR_BASE_BYTES)
#define UDP_AT    (HEADER_AT - 8)
#define IP_AT     (UDP_AT - 20)
#define UDP_PORT  40000

unsigned int
contributions_frame_bytes(unsigned int elements)
{
	return CONTRIBUTION_HEADERS + 4 * elements;
}

static float
element(unsigned int source, unsigned int variant, unsigned int i)
{
	return (float)((source * 131 + variant * 37 + i * 7 + 11) % 251) - 125;
}

static void
write_headers(const struct contributions *c, uint8_t *p, unsigned int source)
{
	static const uint8_t ethernet[] = {
		0x02, 0x57, 0x45, 0x49, 0x52, 0x01, 0x02, 0x48, 0, 0, 0, 0, 0x08, 0x00, 0x45, 0};
	unsigned int udp_bytes = 8 + WEIR_BASE_BYTES + 4 * c->config.elements;
	struct weir_header h = {.job_id = c->job,
		.gen_id = TARGET_GENERATION,
		.src_id = (uint8_t)source,
		.grad_cnt = (uint16_t)c->config.elements};

	memset(p, 0, CONTRIBUTION_HEADERS);
	memcpy(p, ethernet, sizeof(ethernet));
	p[11] = (uint8_t)(source + 1);
	weir_put16(p + IP_AT + 2, (uint16_t)(20 + udp_bytes));
	p[IP_AT + 6] = 0x40; /* don't fragment */
	p[IP_AT + 8] = 64;
	p[IP_AT + 9] = 17;
	weir_put32(p + IP_AT + 12, 0x0a4d0001 + source);
	weir_put32(p + IP_AT + 16, 0x0a4d00fe);
	weir_put16(p + UDP_AT, UDP_PORT);
	weir_put16(p + UDP_AT + 2, WEIR_PORT_BASE);
	weir_put16(p + UDP_AT + 4, (uint16_t)udp_bytes);
	weir_header_write(&h, p + HEADER_AT);
}

static int
make_frame(struct contributions *c, unsigned int variant, unsigned int source)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(c->config.target->link.pool);
	unsigned int bytes = contributions_frame_bytes(c->config.elements);
	uint8_t *p = m == NULL ? NULL : (uint8_t *)rte_pktmbuf_append(m, (uint16_t)bytes);
	struct rte_ipv4_hdr *ip;
	struct rte_udp_hdr *udp;
	float *payload;

	if (p == NULL)
		return -1;
	write_headers(c, p, source);
	payload = (float *)(void *)(p + CONTRIBUTION_HEADERS);
	for (unsigned int i = 0; i < c->config.elements; i++) {
		float value = element(source, variant, i);

		memcpy(&payload[i], &value, sizeof(value));
		c->expected[variant][i] += value;
	}
	ip = (struct rte_ipv4_hdr *)(void *)(p + IP_AT);
	udp = (struct rte_udp_hdr *)(void *)(p + UDP_AT);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	c->sum[variant][source] = (uint16_t)~rte_be_to_cpu_16(rte_ipv4_udptcp_cksum(ip, udp));
	c->frame[variant][source] = m;
	return 0;
}

struct contributions *
contributions_create(const struct contributions_config *config)
{
	struct contributions *c = calloc(1, sizeof(*c));
	unsigned int receivers = config->multicast && config->target->is_switch
		? RTE_MIN(config->sources, (unsigned int)LINK_PORTS)
		: config->sources;

	if (c == NULL)
		return NULL;
	c->config = *config;
	c->job = config->multicast ? TARGET_JOB_MULTICAST : TARGET_JOB_UNICAST;
	c->all = receivers == 64 ? UINT64_MAX : (UINT64_C(1) << receivers) - 1;
	for (unsigned int b = 0; b < config->window; b++)
		c->place[b].block = b + config->target->block[c->job][b];
	for (unsigned int v = 0; v < CONTRIBUTION_VARIANTS; v++) {
		c->expected[v] = calloc(config->elements + 1, sizeof(float));
		for (unsigned int s = 0; s < config->sources; s++)
			if (c->expected[v] == NULL || make_frame(c, v, s) < 0) {
				fprintf(stderr, "weir-bench: no memory for the contributions\n");
				contributions_destroy(c);
				return NULL;
			}
	}
	return c;
}

void
contributions_destroy(struct contributions *c)
{
	if (c == NULL)
		return;
	/* Who comes after us goes on with the blocks after ours. */
	for (unsigned int b = 0; b < c->config.window; b++)
		c->config.target->block[c->job][b] = c->place[b].block - b;
	for (unsigned int v = 0; v < CONTRIBUTION_VARIANTS; v++) {
		for (unsigned int s = 0; s < TARGET_SOURCES_MAX; s++)
			rte_pktmbuf_free(c->frame[v][s]);
		free(c->expected[v]);
	}
	free(c);
}

struct rte_mbuf *
contributions_prepare(struct contributions *c, unsigned int source, uint32_t block)
{
	unsigned int variant = block % CONTRIBUTION_VARIANTS;
	struct rte_mbuf *m = c->frame[variant][source];
	uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	/* RFC 1071: the block lies at an odd place, over three 16-bit words. */
	uint32_t sum = c->sum[variant][source] + (block >> 24) + (block >> 8 & 0xffff) +
		(block << 8 & 0xff00);

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	weir_put32(p + HEADER_AT + 1, block);
	weir_put16(p + UDP_AT + 6, (uint16_t)(sum == 0xffff ? sum : ~sum));
	rte_mbuf_refcnt_update(m, 1);
	return m;
}

bool
contributions_in_use(const struct contributions *c, unsigned int source, uint32_t block)
{
	return rte_mbuf_refcnt_read(c->frame[block % CONTRIBUTION_VARIANTS][source]) > 1;
}

/* Is the payload behind the headers `bytes` of `expected`? Frames come in any number of
 * segments. */
static bool
payload_is(const struct rte_mbuf *m, const void *expected, unsigned int bytes)
{
	unsigned int skip = CONTRIBUTION_HEADERS;
	const char *want = expected;

	for (; m != NULL; m = m->next) {
		unsigned int n = m->data_len > skip ? m->data_len - skip : 0;

		if (n > bytes ||
			memcmp(rte_pktmbuf_mtod_offset(m, const char *, skip), want, n) != 0)
			return n == 0;
		want += n;
		bytes -= n;
		skip -= RTE_MIN(skip, (unsigned int)m->data_len);
	}
	return bytes == 0;
}

static void
complain(struct contributions *c, const struct weir_header *h, const char *what)
{
	if (c->count.wrong++ == 0)
		fprintf(stderr,
			"weir-bench: %s: block %u for source %u: %s (status %s, %u sources, %u "
			"elements)\n",
			c->config.target->child.name, h->block_id, h->src_id, what,
			weir_status_text(h->status), h->src_cnt, h->grad_cnt);
}

static void
check_result(struct contributions *c, struct rte_mbuf *m, const struct weir_header *h)
{
	const float *expected = c->expected[h->block_id % CONTRIBUTION_VARIANTS];

	if (c->config.spoil)
		rte_pktmbuf_lastseg(m)->data_len -= 4;
	if (h->status != WEIR_STATUS_OK || h->degraded || h->gen_id != TARGET_GENERATION)
		complain(c, h, "is not a result");
	else if (h->src_cnt != c->config.sources || h->grad_cnt != c->config.elements)
		complain(c, h, "is incomplete");
	else if (!payload_is(m, expected, 4 * c->config.elements))
		complain(c, h, "is not the sum");
}

/* Whom a frame from port p is for, as a bit of place->got; 0: nobody of ours. The switch answers a
 * repetition by unicast, also in a job with a multicast group: the port of that source has then
 * what the group's result would have brought. */
static uint64_t
addressee(const struct contributions *c, unsigned int p, const uint8_t *bytes,
	const struct weir_header *h)
{
	unsigned int source = h->src_id & 63u;
	bool to_group = weir_get16(bytes + UDP_AT + 2) == WEIR_PORT_BASE;

	if (!c->config.target->is_switch || !c->config.multicast)
		return c->config.target->is_switch && to_group ? 0 : UINT64_C(1) << source;
	return to_group || source % LINK_PORTS == p ? UINT64_C(1) << p : 0;
}

/* One received frame, from port p of the link. */
static void
take(struct contributions *c, unsigned int p, struct rte_mbuf *m)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(m, const uint8_t *);
	bool results = c->config.target->is_switch;
	struct weir_header h = {0};
	struct place *place;
	uint64_t bit;

	if (m->data_len < CONTRIBUTION_HEADERS ||
		weir_get16(bytes + UDP_AT + (results ? 0 : 2)) != WEIR_PORT_BASE) {
		c->count.foreign++;
		return;
	}
	weir_header_read(&h, bytes + HEADER_AT);
	place = &c->place[h.block_id & (c->config.window - 1)];
	bit = addressee(c, p, bytes, &h);
	if (h.job_id != c->job || (bit & c->all) == 0) {
		c->count.foreign++;
	} else if (c->config.lose != 0 && ++c->came % c->config.lose == 0) {
		return;
	} else if (!place->open || place->block != h.block_id || (place->got & bit) != 0) {
		c->count.again++;
	} else {
		if (results)
			check_result(c, m, &h);
		else if (m->pkt_len != contributions_frame_bytes(c->config.elements))
			complain(c, &h, "came back with another length");
		c->count.frames++;
		if (place->got == 0 && c->samples != NULL)
			samples_add(c->samples, c->now - place->due);
		place->got |= bit;
		if (place->got != c->all)
			return;
		place->open = false;
		c->open_count--;
		c->count.blocks++;
		c->done[c->done_count++] = h.block_id & (c->config.window - 1);
	}
}

unsigned int
contributions_poll(struct contributions *c)
{
	struct rte_mbuf *burst[LINK_BURST];
	unsigned int total = 0;

	c->done_count = 0;
	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		uint16_t n = rte_eth_rx_burst(c->config.target->link.port[p], 0, burst, LINK_BURST);

		if (n == 0)
			continue;
		c->now = rte_rdtsc();
		for (uint16_t i = 0; i < n; i++)
			take(c, p, burst[i]);
		rte_pktmbuf_free_bulk(burst, n);
		total += n;
	}
	return total;
}

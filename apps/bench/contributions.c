/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/contributions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "pktbuf/wire.h"

#define REPEAT_MS  20
#define GIVE_UP_MS 2000
#define HEADER_AT  (CONTRIBUTION_HEADERS - WEIR_BASE_BYTES)
#define UDP_AT     (HEADER_AT - 8)
#define IP_AT      (UDP_AT - 20)
#define UDP_PORT   40000

/* A block in flight; residue of its number modulo the window. */
struct place {
	uint32_t block;
	bool open;
	uint64_t got; /* bits of sources, or of ports */
	uint64_t sent; /* TSC */
};

struct contributions {
	struct contributions_config config;
	struct contributions_count count;
	uint8_t job;
	uint64_t all; /* what `got` is when the block is complete */
	uint32_t done[4096]; /* residues whose blocks this poll has completed */
	unsigned int done_count, open_count;
	struct place place[4096];
	/* By variant and source; the ones-complement sum of each UDP packet but for the block. */
	struct rte_mbuf *frame[CONTRIBUTION_VARIANTS][TARGET_SOURCES_MAX];
	uint32_t sum[CONTRIBUTION_VARIANTS][TARGET_SOURCES_MAX];
	float *expected[CONTRIBUTION_VARIANTS];
};

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
		c->place[b].block = b;
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
	for (unsigned int v = 0; v < CONTRIBUTION_VARIANTS; v++) {
		for (unsigned int s = 0; s < TARGET_SOURCES_MAX; s++)
			rte_pktmbuf_free(c->frame[v][s]);
		free(c->expected[v]);
	}
	free(c);
}

const struct contributions_count *
contributions_count(const struct contributions *c)
{
	return &c->count;
}

/* The frame of this source for this block, with a reference for the driver to free. */
static struct rte_mbuf *
prepare(struct contributions *c, unsigned int source, uint32_t block)
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

/* Is the payload behind the headers `bytes` of `expected`? Frames come in any number of segments. */
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
		weir_get16(bytes + UDP_AT + (results ? 0 : 2)) != WEIR_PORT_BASE ||
		(results &&
			(weir_get16(bytes + UDP_AT + 2) == WEIR_PORT_BASE) !=
				c->config.multicast)) {
		c->count.foreign++;
		return;
	}
	weir_header_read(&h, bytes + HEADER_AT);
	place = &c->place[h.block_id & (c->config.window - 1)];
	bit = UINT64_C(1) << (results && c->config.multicast ? p : h.src_id & 63u);
	if (h.job_id != c->job || (bit & c->all) == 0) {
		c->count.foreign++;
	} else if (!place->open || place->block != h.block_id || (place->got & bit) != 0) {
		c->count.again++;
	} else {
		if (results)
			check_result(c, m, &h);
		else if (m->pkt_len != contributions_frame_bytes(c->config.elements))
			complain(c, &h, "came back with another length");
		c->count.frames++;
		place->got |= bit;
		if (place->got != c->all)
			return;
		place->open = false;
		c->open_count--;
		c->count.blocks++;
		c->done[c->done_count++] = h.block_id & (c->config.window - 1);
	}
}

/* Receive once from each port. */
static unsigned int
poll(struct contributions *c)
{
	struct rte_mbuf *burst[LINK_BURST];
	unsigned int total = 0;

	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		uint16_t n = rte_eth_rx_burst(c->config.target->link.port[p], 0, burst, LINK_BURST);

		for (uint16_t i = 0; i < n; i++)
			take(c, p, burst[i]);
		rte_pktmbuf_free_bulk(burst, n);
		total += n;
	}
	return total;
}

/* Send contributions of the sources that are not in `but`. Those that the ring has no room for are left to
 * the repetition. */
static unsigned int
send_block(struct contributions *c, struct place *place, uint64_t but)
{
	unsigned int sent = 0;

	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		struct rte_mbuf *list[TARGET_SOURCES_MAX];
		uint16_t n = 0, taken;

		for (unsigned int s = p; s < c->config.sources; s += LINK_PORTS)
			if ((but >> s & 1) == 0)
				list[n++] = prepare(c, s, place->block);
		taken = n == 0 ? 0 : rte_eth_tx_burst(c->config.target->link.port[p], 0, list, n);
		rte_pktmbuf_free_bulk(list + taken, n - taken);
		sent += taken;
	}
	place->sent = rte_rdtsc();
	return sent;
}

static void
open_place(struct contributions *c, struct place *place)
{
	place->open = true;
	place->got = 0;
	c->open_count++;
	send_block(c, place, 0);
}

/* Repeat what is late. A multicast result says nothing of sources: all repeat. */
static void
repeat(struct contributions *c)
{
	uint64_t late = rte_rdtsc() - rte_get_tsc_hz() / 1000 * REPEAT_MS;
	bool by_source = !c->config.multicast || !c->config.target->is_switch;

	for (unsigned int i = 0; i < c->config.window; i++) {
		struct place *place = &c->place[i];

		if (place->open && place->sent < late)
			c->count.repeated += send_block(c, place, by_source ? place->got : 0);
	}
}

/* Which block waits for whom? */
static int
give_up(struct contributions *c)
{
	char what[256];
	size_t at;

	for (unsigned int i = 0; i < c->config.window; i++) {
		const struct place *place = &c->place[i];

		if (!place->open)
			continue;
		at = (size_t)snprintf(what, sizeof(what),
			"block %u of job %u (%u elements): nothing within %u ms for %s",
			place->block, c->job, c->config.elements, GIVE_UP_MS,
			c->config.multicast && c->config.target->is_switch ? "ports" : "sources");
		for (unsigned int s = 0; s < 64 && at < sizeof(what) - 8; s++)
			if ((c->all & ~place->got) >> s & 1)
				at += (size_t)snprintf(what + at, sizeof(what) - at, " %u", s);
		break;
	}
	target_blame(c->config.target, what);
	return -1;
}

/* Loop until `end` (TSC; 0: until nothing is in flight). *idle: adds cycles without work. */
static int
loop(struct contributions *c, uint64_t end, uint64_t *idle)
{
	uint64_t ms = rte_get_tsc_hz() / 1000, now = rte_rdtsc(), checked = now, progress = now;

	while (end != 0 ? now < end : c->open_count > 0) {
		uint64_t before = now, blocks = c->count.blocks;
		unsigned int n;

		c->done_count = 0;
		n = poll(c);
		for (unsigned int i = 0; i < c->done_count; i++) {
			struct place *place = &c->place[c->done[i]];

			place->block += c->config.window;
			if (end != 0)
				open_place(c, place);
		}
		now = rte_rdtsc();
		if (n == 0)
			*idle += now - before;
		if (c->count.blocks != blocks)
			progress = now;
		if (now - checked > ms) {
			checked = now;
			repeat(c);
			if (now - progress > GIVE_UP_MS * ms || child_interrupted())
				return give_up(c);
		}
		if (unlikely(c->count.wrong > 0))
			return -1;
	}
	return 0;
}

int
contributions_run(struct contributions *c, uint64_t ms, double *rate, double *idle)
{
	uint64_t hz = rte_get_tsc_hz(), began, blocks, waited = 0, ignored = 0;

	for (unsigned int i = 0; i < c->config.window; i++)
		open_place(c, &c->place[i]);
	/* The device wakes up, caches fill. */
	if (loop(c, rte_rdtsc() + hz / 1000 * (ms / 4 + 1), &ignored) < 0)
		return -1;
	began = rte_rdtsc();
	blocks = c->count.blocks;
	if (loop(c, began + hz / 1000 * ms, &waited) < 0)
		return -1;
	blocks = c->count.blocks - blocks;
	began = rte_rdtsc() - began;
	*rate = (double)blocks * c->config.sources * (double)hz / (double)began;
	*idle = (double)waited / (double)began;
	return loop(c, 0, &ignored);
}

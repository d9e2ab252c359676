/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_ip.h>

#include "apps/bench/slice.h"
#include "pktbuf/wire/wire.h"

#define IP_AT      14
#define DATA_AT    42 /* behind UDP: the mark */
#define LOST_MS    20
#define GIVE_UP_MS 2000

/* At DATA_AT of each frame; fits the shortest one. */
struct mark {
	uint64_t number, due;
};

struct stream {
	struct target *target;
	struct link *link;
	struct rte_mbuf *frame[LINK_BURST]; /* each once in a burst */
	unsigned int bytes;
	uint64_t number; /* of the next frame */
	uint64_t first; /* frames before are of an earlier run */
	uint64_t damaged, late;
	uint64_t came; /* for `lose` */
	unsigned int lose; /* of so many frames one; 0: none */
	struct samples *samples;
	unsigned int each; /* of so many frames one is a sample */
};

static void
write_frame(uint8_t *p, unsigned int bytes, bool back)
{
	static const uint8_t mac[2][6] = {{0x02, 0x48, 0, 0, 1, 1}, {0x02, 0x48, 0, 0, 1, 2}};
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(void *)(p + IP_AT);

	memset(p, 0x5a, bytes);
	memset(p, 0, DATA_AT);
	memcpy(p, mac[back ? 0 : 1], 6);
	memcpy(p + 6, mac[back ? 1 : 0], 6);
	p[12] = 0x08;
	p[IP_AT] = 0x45;
	weir_put16(p + IP_AT + 2, (uint16_t)(bytes - IP_AT));
	p[IP_AT + 8] = 64;
	p[IP_AT + 9] = 17;
	weir_put32(p + IP_AT + 12, 0x0a4d00c9);
	weir_put32(p + IP_AT + 16, 0x0a4d00ca);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	weir_put16(p + 34, 40000);
	weir_put16(p + 36, 9); /* discard */
	weir_put16(p + 38, (uint16_t)(bytes - 34));
}

/* Throw away what comes until nothing has come for a millisecond. */
static void
drain(struct link *link)
{
	struct rte_mbuf *burst[LINK_BURST];

	for (unsigned int quiet = 0, turns = 0; quiet < 10 && turns < 10000; turns++) {
		quiet++;
		for (unsigned int p = 0; p < LINK_PORTS; p++) {
			uint16_t n = rte_eth_rx_burst(link->port[p], 0, burst, LINK_BURST);

			if (n > 0)
				quiet = 0;
			rte_pktmbuf_free_bulk(burst, n);
		}
		if (quiet > 0)
			usleep(100);
	}
}

/* One frame back, so that the switch knows where the receiver is. */
static int
learn(struct stream *s)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(s->link->pool);
	uint8_t *p = m == NULL ? NULL : (uint8_t *)rte_pktmbuf_append(m, STREAM_LEAST);

	if (p == NULL)
		return -1;
	write_frame(p, STREAM_LEAST, true);
	if (rte_eth_tx_burst(s->link->port[1], 0, &m, 1) != 1) {
		rte_pktmbuf_free(m);
		return -1;
	}
	drain(s->link);
	return 0;
}

struct stream *
stream_create(struct target *target, unsigned int bytes, unsigned int lose)
{
	struct stream *s = calloc(1, sizeof(*s));
	bool made = s != NULL;

	for (unsigned int i = 0; made && i < LINK_BURST; i++) {
		uint8_t *p;

		s->target = target;
		s->link = &target->link;
		s->bytes = bytes;
		s->lose = lose;
		s->frame[i] = rte_pktmbuf_alloc(s->link->pool);
		p = s->frame[i] == NULL
			? NULL
			: (uint8_t *)rte_pktmbuf_append(s->frame[i], (uint16_t)bytes);
		made = p != NULL;
		if (made)
			write_frame(p, bytes, false);
	}
	if (made && learn(s) == 0)
		return s;
	fprintf(stderr, "weir-bench: no memory for frames\n");
	stream_destroy(s);
	return NULL;
}

void
stream_destroy(struct stream *s)
{
	if (s == NULL)
		return;
	for (unsigned int i = 0; i < LINK_BURST; i++)
		rte_pktmbuf_free(s->frame[i]);
	free(s);
}

/* What the device does not take is lost, as on a wire. */
static unsigned int
send_due(void *context, unsigned int n, double due, double step)
{
	struct stream *s = context;
	struct rte_mbuf *list[LINK_BURST];
	uint16_t taken;

	n = RTE_MIN(n, (unsigned int)LINK_BURST);
	for (unsigned int i = 0; i < n; i++) {
		struct mark mark = {s->number++, (uint64_t)(due + step * i)};

		list[i] = s->frame[i];
		memcpy(rte_pktmbuf_mtod_offset(list[i], uint8_t *, DATA_AT), &mark, sizeof(mark));
		rte_mbuf_refcnt_update(list[i], 1);
	}
	taken = rte_eth_tx_burst(s->link->port[0], 0, list, (uint16_t)n);
	rte_pktmbuf_free_bulk(list + taken, n - taken);
	return n;
}

static unsigned int
poll_done(void *context)
{
	struct stream *s = context;
	struct rte_mbuf *burst[LINK_BURST];
	uint16_t n = rte_eth_rx_burst(s->link->port[1], 0, burst, LINK_BURST);
	uint64_t now = n == 0 || s->samples == NULL ? 0 : rte_rdtsc();
	unsigned int done = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct mark mark;

		memcpy(&mark, rte_pktmbuf_mtod_offset(burst[i], uint8_t *, DATA_AT), sizeof(mark));
		if (burst[i]->pkt_len != s->bytes) {
			s->damaged++;
		} else if (mark.number < s->first || mark.number >= s->number) {
			s->late++;
		} else if (s->lose != 0 && ++s->came % s->lose == 0) {
			continue;
		} else {
			done++;
			if (s->samples != NULL && mark.number % s->each == 0)
				samples_add(s->samples, now - mark.due);
		}
	}
	rte_pktmbuf_free_bulk(burst, n);
	return done;
}

static int
verdict(struct stream *s, uint64_t received)
{
	char what[128];

	if (received > 0 && s->damaged == 0 && !child_interrupted())
		return 0;
	snprintf(what, sizeof(what),
		s->damaged > 0 ? "frames of %u bytes come with another length"
			       : "no frame of %u bytes comes through",
		s->bytes);
	target_blame(s->target, what);
	return -1;
}

/* How many of those under way still come: until none has for 20 ms. */
static uint64_t
wait_for_rest(struct stream *s, uint64_t missing)
{
	uint64_t patience = rte_get_tsc_hz() / 1000 * LOST_MS, last = rte_rdtsc(), received = 0;

	while (received < missing && rte_rdtsc() - last < patience && !child_interrupted()) {
		unsigned int done = poll_done(s);

		received += done;
		if (done > 0)
			last = rte_rdtsc();
	}
	return received;
}

int
stream_run(struct stream *s, unsigned int window, uint64_t ms, struct closed_loop *result)
{
	uint64_t cycles = rte_get_tsc_hz() / 1000, began = rte_rdtsc(), now = began, last = began;
	uint64_t warm = began + cycles * (ms / 4 + 1), received = 0, empty = 0;
	struct slices slices;
	unsigned int flying = 0;

	drain(s->link);
	s->first = s->number;
	s->damaged = 0;
	slices_begin(&slices, began, 0);
	/* On a busy machine the device may not even run in a short time. */
	while (now < warm || now - began < cycles * ms ||
		(received == slices.begin_units && now - began < cycles * GIVE_UP_MS &&
			!child_interrupted())) {
		uint64_t before = now;
		unsigned int done, burst = RTE_MIN(window - flying, (unsigned int)LINK_BURST);

		/* Whole bursts, as testpmd and the switch move them. */
		if (burst == LINK_BURST || burst == window)
			flying += send_due(s, burst, 0, 0);
		else
			burst = 0;
		done = poll_done(s);
		flying -= RTE_MIN(done, flying);
		received += done;
		now = rte_rdtsc();
		slices_turn(&slices, now, received);
		if (done > 0) {
			last = now;
		} else if (now - last > cycles * LOST_MS) {
			/* One window more, and then again as long: no flood. */
			flying = 0;
			last = now;
		}
		if (done == 0 && burst == 0)
			empty += now - before;
		if (before < warm && now >= warm) {
			began = now;
			empty = 0;
			slices_begin(&slices, now, received);
		}
	}
	result->rate = slices_rate(&slices, received);
	result->idle = (double)empty / (double)(now - began);
	result->good = slices_good(&slices);
	result->enough = slices_suffice(&slices);
	received += wait_for_rest(s, s->number - s->first - received);
	result->lost = s->number - s->first - received;
	return verdict(s, received);
}

int
stream_offer(struct stream *s, double rate, uint64_t ms, struct samples *samples, unsigned int each,
	struct open_loop *result)
{
	const struct open_loop_load load = {s, send_due, poll_done, 1};

	drain(s->link);
	s->first = s->number;
	s->damaged = 0;
	s->samples = samples;
	s->each = each;
	open_loop_run(&load, rate, ms, result);
	s->samples = NULL;
	for (uint64_t i = (result->sent - result->done + each - 1) / each; samples != NULL && i > 0;
		i--)
		samples_add_lost(samples, result->cycles);
	return verdict(s, result->done + child_alive(&s->target->child));
}

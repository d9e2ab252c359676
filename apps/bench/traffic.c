/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/traffic.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>

#include "apps/bench/frames.h"

#define HEADERS    (FRAME_HEADERS + WEIR_BASE_BYTES)
#define UDP_AT     (FRAME_HEADERS - 8)
#define VARIANTS   5 /* payloads of a source; coprime to every window */
#define ORDINARY   64 /* ordinary frames, so that each is once in a burst */
#define FLYING     256 /* of them under way in a closed loop */
#define BURST      LINK_BURST
#define REPEAT_MS  50
#define QUIET_MS   20
#define GIVE_UP_MS 5000 /* a device that shares its CPU with much else may take seconds */

/* A block in flight; residue of its number modulo the window. */
struct place {
	uint32_t block;
	bool open;
	bool missed; /* what it lacked after 50 ms has been counted as lost */
	uint64_t got; /* bits of sources, or of ports */
	uint64_t sent; /* TSC */
	uint64_t due; /* TSC; open loop: when its last contribution should leave */
};

struct traffic {
	struct traffic_config config;
	bool ordinary;
	bool results; /* a switch answers; else frames come back as they are */
	bool closed; /* the loop: of ordinary frames only FLYING are under way */
	uint8_t job;
	struct frames *frames; /* a row for each payload */
	unsigned int next; /* frame to send, in the window's order */
	uint64_t all; /* what `got` is when the block is complete */
	uint64_t sent, done, lost, wrong; /* frames, of which `done` by whole blocks */
	uint64_t came; /* for config.lose */
	unsigned int open; /* places */
	uint64_t now; /* TSC after the last receive */
	uint64_t idle, stalled; /* cycles of a closed loop: without work; without a CPU */
	struct samples *samples; /* may be NULL */
	unsigned int each;
	struct place place[DEVICE_WINDOW_MAX];
};

unsigned int
traffic_frame_bytes(unsigned int elements)
{
	return HEADERS + 4 * elements;
}

/* Throw away what comes until nothing has come for a millisecond. */
static void
drain(struct link *link)
{
	struct rte_mbuf *burst[BURST];

	for (unsigned int quiet = 0, turns = 0; quiet < 10 && turns < 10000; turns++) {
		quiet++;
		for (unsigned int p = 0; p < LINK_PORTS; p++) {
			uint16_t n = rte_eth_rx_burst(link->port[p], 0, burst, BURST);

			if (n > 0)
				quiet = 0;
			rte_pktmbuf_free_bulk(burst, n);
		}
		if (quiet > 0)
			rte_delay_us_sleep(100);
	}
}

/* One frame from the receiver of ordinary frames, so that the switch knows where that is. */
static int
teach(struct traffic *t)
{
	const struct frames_config config = {
		.id = 1, .sources = 1, .rows = 1, .ordinary = true, .to_port = 0, .bytes = 60};
	struct link *link = &t->config.device->link;
	struct frames *lesson = frames_create(&config);
	uint16_t sent = 0;

	if (lesson != NULL)
		sent = rte_eth_tx_burst(link->port[1], 0, lesson->mbuf, 1);
	drain(link);
	frames_destroy(lesson);
	if (sent == 1)
		return 0;
	warnx("port 1 of the generator takes no frame");
	return -1;
}

struct traffic *
traffic_create(const struct traffic_config *config)
{
	struct traffic *t = calloc(1, sizeof(*t));
	struct traffic_config *c = t == NULL ? NULL : &t->config;
	struct frames_config frames = {.type = WEIR_DTYPE_FP32,
		.checksum = true,
		.to_port = 1,
		.generation = DEVICE_GENERATION};
	unsigned int bits;

	if (t == NULL)
		return NULL;
	*c = *config;
	t->ordinary = c->sources == 0;
	t->results = c->device->is_switch && !t->ordinary;
	if (t->ordinary) {
		c->sources = 1;
		c->window = DEVICE_WINDOW_MAX;
		c->elements = 0;
		frames.bytes = c->bytes;
	}
	bits = c->multicast && t->results ? RTE_MIN(c->sources, (unsigned int)LINK_PORTS)
					  : c->sources;
	t->all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	t->job = t->ordinary ? 0 : c->multicast ? DEVICE_JOB_MULTICAST : DEVICE_JOB_UNICAST;
	for (unsigned int b = 0; b < c->window; b++)
		t->place[b].block = b + c->device->block[t->job][b];
	frames.ordinary = t->ordinary;
	frames.job = t->job;
	frames.sources = c->sources;
	frames.elements = c->elements;
	frames.rows = t->ordinary ? ORDINARY : VARIANTS;
	t->frames = frames_create(&frames);
	if (t->frames != NULL && (!t->ordinary || teach(t) == 0))
		return t;
	traffic_destroy(t);
	return NULL;
}

void
traffic_destroy(struct traffic *t)
{
	if (t == NULL)
		return;
	/* The next traffic goes on with the blocks after these. */
	for (unsigned int b = 0; b < t->config.window; b++)
		t->config.device->block[t->job][b] = t->place[b].block - b;
	frames_destroy(t->frames);
	free(t);
}

/* Frames on their way to the ports. What the rings do not take is lost. */
struct batch {
	struct rte_mbuf *list[LINK_PORTS][DEVICE_SOURCES_MAX];
	uint16_t count[LINK_PORTS];
};

/* Is the source's frame for this block prepared for another block, and not sent yet? */
static bool
busy(const struct traffic *t, unsigned int source, uint32_t block)
{
	const struct frames_config *c = &t->frames->config;
	unsigned int row = block % c->rows;

	return rte_mbuf_refcnt_read(t->frames->mbuf[row * c->sources + source]) > 1;
}

/* The driver frees a reference; the frame stays. */
static void
add(struct traffic *t, struct batch *batch, unsigned int source, uint32_t block)
{
	unsigned int p = source % LINK_PORTS, row = block % t->frames->config.rows;
	struct rte_mbuf *m =
		frames_take(t->frames, row * t->frames->config.sources + source, block);

	rte_mbuf_refcnt_update(m, 1);
	batch->list[p][batch->count[p]++] = m;
}

static void
flush(struct traffic *t, struct batch *batch)
{
	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		uint16_t n = batch->count[p], taken = 0;

		if (n > 0)
			taken = rte_eth_tx_burst(
				t->config.device->link.port[p], 0, batch->list[p], n);
		rte_pktmbuf_free_bulk(batch->list[p] + taken, n - taken);
	}
}

static void
close_place(struct traffic *t, struct place *place)
{
	place->open = false;
	place->block += t->config.window;
	t->open--;
}

/* May the next frame leave, as the window says? Opens its place. */
static bool
admit(struct traffic *t, struct place *place, unsigned int source)
{
	if (source != 0)
		return true;
	if (t->ordinary && t->closed && t->open >= FLYING)
		return false;
	if (place->open && !t->ordinary)
		return false;
	if (place->open) { /* after a whole window: it does not come any more */
		t->lost++;
		close_place(t, place);
	}
	place->open = true;
	place->missed = false;
	place->got = 0;
	t->open++;
	return true;
}

/* The next n frames in order, the first of them due at `due` and each later one by `step`, as far as
 * the window allows. Returns how many. */
static unsigned int
send_some(struct traffic *t, unsigned int n, double due, double step)
{
	struct batch batch = {.count = {0}};
	uint64_t now = rte_rdtsc();
	unsigned int i;

	for (i = 0; i < RTE_MIN(n, (unsigned int)BURST); i++) {
		unsigned int source = t->next % t->config.sources;
		struct place *place = &t->place[t->next / t->config.sources];

		if (busy(t, source, place->block) || !admit(t, place, source))
			break;
		add(t, &batch, source, place->block);
		place->due = (uint64_t)(due + step * i);
		place->sent = now;
		if (++t->next == t->config.sources * t->config.window)
			t->next = 0;
	}
	flush(t, &batch);
	t->sent += i;
	return i;
}

static void
complain(struct traffic *t, const struct weir_header *h, const char *what)
{
	if (t->wrong++ == 0)
		warnx("%s: block %u for source %u: %s (status %s, %u sources, %u elements)",
			t->config.device->name, h->block_id, h->src_id, what,
			weir_status_text(h->status), h->src_cnt, h->grad_cnt);
}

/* Is the payload behind the headers `bytes` of `expected`? Frames come in any number of segments. */
static bool
payload_is(const struct rte_mbuf *m, const void *expected, unsigned int bytes)
{
	uint8_t copy[4 * 2048];
	const void *payload = rte_pktmbuf_read(m, HEADERS, bytes, copy);

	return m->pkt_len == HEADERS + bytes && payload != NULL &&
		memcmp(payload, expected, bytes) == 0;
}

static void
check(struct traffic *t, struct rte_mbuf *m, const struct weir_header *h)
{
	if (t->config.spoil)
		m->pkt_len -= 4;
	if (!t->results) {
		if (m->pkt_len != t->frames->bytes)
			complain(t, h, "came back with another length");
	} else if (h->status != WEIR_STATUS_OK || h->degraded || h->gen_id != DEVICE_GENERATION) {
		complain(t, h, "is not a result");
	} else if (h->src_cnt != t->config.sources || h->grad_cnt != t->config.elements) {
		complain(t, h, "is incomplete");
	} else if (!payload_is(m, t->frames->expected[h->block_id % VARIANTS],
			   4 * t->config.elements)) {
		complain(t, h, "is not the sum");
	}
}

/* The receiver of a frame from port p, as a bit of place->got; 0: another receiver. The switch answers a
 * repetition by unicast, also in a job with a multicast group: the port of that source has then
 * what the group's result would have brought. */
static uint64_t
addressee(
	const struct traffic *t, unsigned int p, const uint8_t *bytes, const struct weir_header *h)
{
	bool to_group = weir_get16(bytes + UDP_AT + 2) == WEIR_PORT_BASE;
	unsigned int source = h->src_id & 63u;

	if (t->results && t->config.multicast)
		return to_group || source % LINK_PORTS == p ? UINT64_C(1) << p : 0;
	return t->results && to_group ? 0 : UINT64_C(1) << source;
}

/* One received frame, from port p of the link. */
static void
take(struct traffic *t, unsigned int p, struct rte_mbuf *m)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(m, const uint8_t *);
	struct weir_header h = {0};
	struct place *place;
	uint64_t bit;

	if (m->data_len < HEADERS ||
		weir_get16(bytes + UDP_AT + (t->results ? 0 : 2)) != WEIR_PORT_BASE)
		return; /* not ours */
	if (t->ordinary && p == 0)
		return; /* the frame of teach(), late */
	weir_header_read(&h, bytes + FRAME_HEADERS);
	place = &t->place[h.block_id & (t->config.window - 1)];
	bit = addressee(t, p, bytes, &h);
	if (h.job_id != t->job || (bit & t->all) == 0 ||
		(t->config.lose != 0 && ++t->came % t->config.lose == 0))
		return;
	if (!place->open || place->block != h.block_id || (place->got & bit) != 0)
		return; /* once more */
	check(t, m, &h);
	if (place->got == 0 && t->samples != NULL && h.block_id % t->each == 0 &&
		t->samples->count < t->samples->most)
		t->samples->value[t->samples->count++] = (double)(t->now - place->due);
	place->got |= bit;
	if (place->got != t->all)
		return;
	close_place(t, place);
	t->done += t->config.sources;
}

/* Receive once from each port. Returns the frames. */
static unsigned int
poll_ports(struct traffic *t)
{
	struct rte_mbuf *burst[BURST];
	unsigned int total = 0;

	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		uint16_t n = rte_eth_rx_burst(t->config.device->link.port[p], 0, burst, BURST);

		if (n == 0)
			continue;
		t->now = rte_rdtsc();
		for (uint16_t i = 0; i < n; i++)
			take(t, p, burst[i]);
		rte_pktmbuf_free_bulk(burst, n);
		total += n;
	}
	return total;
}

/* Send late contributions again: all of the block's if results are multicast, as those do not say
 * which source is missing. When no ordinary frame has come for a while, all are lost. */
static void
repair(struct traffic *t, uint64_t progress)
{
	uint64_t ms = rte_get_tsc_hz() / 1000, now = rte_rdtsc(), late = now - REPEAT_MS * ms;
	bool by_source = !t->config.multicast || !t->results;

	if (t->ordinary && now - progress < QUIET_MS * ms)
		return;
	for (unsigned int i = 0; i < t->config.window; i++) {
		struct place *place = &t->place[i];
		struct batch batch = {.count = {0}};

		if (!place->open || (!t->ordinary && place->sent >= late))
			continue;
		if (!place->missed)
			t->lost += (uint64_t)__builtin_popcountll(t->all & ~place->got);
		place->missed = true;
		if (t->ordinary) {
			close_place(t, place);
			continue;
		}
		for (unsigned int s = 0; s < t->config.sources; s++)
			if ((!by_source || (place->got >> s & 1) == 0) && !busy(t, s, place->block))
				add(t, &batch, s, place->block);
		flush(t, &batch);
		place->sent = now;
	}
}

static int
give_up(struct traffic *t)
{
	char what[80];

	snprintf(what, sizeof(what), "nothing came through within %u ms (frames of %u bytes)",
		GIVE_UP_MS, t->frames->bytes);
	device_blame(t->config.device, what);
	return -1;
}

/* Send and receive for so many ms, and only receive, until nothing is under way, with ms 0. 0, or -1
 * after a line. */
static int
loop(struct traffic *t, uint64_t ms)
{
	uint64_t cycles = rte_get_tsc_hz() / 1000, now = rte_rdtsc(), end = now + ms * cycles;
	uint64_t checked = now, progress = now;

	t->closed = true;
	while (ms > 0 ? now < end : t->open > 0) {
		uint64_t before = now, done = t->done;
		/* Ordinary frames in whole bursts, as testpmd and the switch move them. */
		bool may = ms > 0 && (!t->ordinary || t->open <= FLYING - BURST);
		unsigned int moved = may ? send_some(t, BURST, 0, 0) : 0;

		moved += poll_ports(t);
		now = rte_rdtsc();
		/* Turns are microseconds apart: a longer one is the scheduler's. */
		if (now - before > cycles / 5)
			t->stalled += now - before;
		else if (moved == 0)
			t->idle += now - before;
		if (t->done != done)
			progress = now;
		if (now - checked > cycles) {
			checked = now;
			repair(t, progress);
			if (device_interrupted() ||
				(!t->ordinary && now - progress > GIVE_UP_MS * cycles))
				return give_up(t);
		}
		if (unlikely(t->wrong > 0))
			return -1;
	}
	return 0;
}

/* Complete the block that is half sent, and wait for what is under way. */
static int
finish(struct traffic *t)
{
	unsigned int sources = t->config.sources;

	for (unsigned int i = 0; i < 1000 && t->next % sources != 0; i++) {
		send_some(t, sources - t->next % sources, (double)rte_rdtsc(), 0);
		poll_ports(t);
	}
	return loop(t, 0);
}

static void
begin(struct traffic *t)
{
	if (t->ordinary)
		drain(&t->config.device->link);
	t->next = t->next / t->config.sources * t->config.sources;
	t->samples = NULL;
	t->each = 1;
}

int
traffic_run(struct traffic *t, uint64_t ms, struct closed_loop *result)
{
	uint64_t lost = t->lost, hz = rte_get_tsc_hz(), began, all, done;

	begin(t);
	/* The device wakes up, caches fill. */
	if (loop(t, ms / 4 + 1) < 0)
		return -1;
	t->idle = t->stalled = 0;
	done = t->done;
	began = rte_rdtsc();
	/* On a busy machine the device may not even run in a short time. */
	do {
		if (loop(t, ms) < 0)
			return -1;
		all = rte_rdtsc() - began;
	} while (t->done == done && all < hz / 1000 * GIVE_UP_MS);
	if (t->done == done)
		return give_up(t);
	result->good = 1 - (double)t->stalled / (double)all;
	result->idle = (double)t->idle / (double)all;
	result->rate = (double)(t->done - done) * (double)hz / (double)all /
		(result->good < TRAFFIC_GOOD ? 1 : result->good);
	/* What is missing now is noticed here. */
	if (finish(t) < 0)
		return -1;
	result->lost = t->lost - lost;
	return 0;
}

int
traffic_offer(struct traffic *t, double rate, uint64_t ms, struct samples *samples,
	unsigned int each, struct open_loop *result)
{
	double hz = (double)rte_get_tsc_hz(), step = hz / rate;
	uint64_t total =
		(uint64_t)(rate * (double)ms / 1000) / t->config.sources * t->config.sources;
	uint64_t patience = (uint64_t)hz / 1000 * QUIET_MS, limit = (uint64_t)hz / 1000 * 4 * ms;
	uint64_t began, now, last, ended = 0, sent = t->sent, done = t->done, missing;
	int rc;

	begin(t);
	t->samples = samples;
	t->each = each;
	t->closed = false;
	began = now = last = rte_rdtsc();
	*result = (struct open_loop){0};
	/* A device that takes or gives nothing any more ends it, too. */
	while ((result->sent < total || result->done < total) && now - last <= patience &&
		now - began <= limit + patience) {
		uint64_t due = RTE_MIN((uint64_t)((double)(now - began) / step) + 1, total);
		unsigned int moved = 0;

		if (due > result->sent)
			moved = send_some(t,
				(unsigned int)RTE_MIN(due - result->sent, (uint64_t)BURST),
				(double)began + step * (double)result->sent, step);
		result->sent = t->sent - sent;
		moved += poll_ports(t);
		result->done = t->done - done;
		now = rte_rdtsc();
		if (result->sent == total && ended == 0)
			ended = now;
		if (moved > 0)
			last = now;
	}
	result->rate = (double)result->sent * hz /
		(double)RTE_MAX((ended != 0 ? ended : now) - began, UINT64_C(1));
	missing = t->ordinary ? (result->sent - result->done + each - 1) / each : 0;
	/* What was lost is repeated, so that the job can go on, and its latency is the repair's. */
	rc = finish(t);
	for (; samples != NULL && missing > 0; missing--) {
		samples->count -= samples->count == samples->most; /* always has a place */
		samples->value[samples->count++] = (double)(now - began);
	}
	t->samples = NULL;
	return t->wrong > 0 ? -1 : rc;
}

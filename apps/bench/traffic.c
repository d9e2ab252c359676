/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The generator of `weir-bench ports`, `latency` and `rfc2544` (ports.py), which starts this program with two ports to
 * each of two devices, the switch and testpmd, and gives it commands.
 *
 * Contributions to a job: sources with even numbers are at port 0 of a link, the others at port 1. From a switch come
 * results, each compared with the sum; from a device that only forwards (testpmd), the contributions themselves, whose
 * headers are read. Block b carries one of five payloads, so that the sum of block b - window is wrong for block b. Sums
 * of small integers are exact in any order.
 *
 * Ordinary frames: from a station at port 0 to one at port 1, which every device forwards.
 *
 * All frames are made beforehand, and sent again and again with another block number, which is safe, because
 * the driver copies them when it sends.
 *
 * Commands on standard input, each answered with a line of numbers, or `failed` after a line on standard error:
 *
 *     up DEVICE                                               1: its ports see ours and it forwards; else 0
 *     make DEVICE SOURCES WINDOW ELEMENTS BYTES MULTICAST     its traffic from now on; 0 sources: ordinary frames
 *     run DEVICE MS                                           a closed loop: rate, idle, lost
 *     offer DEVICE RATE MS EACH                               an open loop: rate, lost, samples, p50, p99, p99.9, max
 *
 * Closed loop: block b + window is sent when all of block b is back; of ordinary frames 256 are under way. What is late
 * after 50 ms is lost and sent again; ordinary frames are not. rate: frames per second. idle: share of the time without
 * work. lost: frames that did not come back in time, warm-up and end included.
 *
 * Open loop: frames leave on a fixed schedule, whether or not the device keeps up, and the bench waits 20 ms for the last
 * ones. A frame that could not leave in time (its block's window is not open) leaves late, and its latency counts from
 * when it was due: waiting in the generator counts ("coordinated omission"). Latencies, us, of blocks or of one ordinary
 * frame in EACH: from when a block's last contribution was due to its first result. A lost frame took as long as the
 * repair, or as the whole run.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "apps/bench/bench.h"
#include "apps/bench/frames.h"
#include "pktbuf/pool.h"

#define HEADERS      (FRAME_HEADERS + WEIR_BASE_BYTES)
#define UDP_AT       (FRAME_HEADERS - 8)
#define PORTS        2 /* of a device */
#define DEVICES      2
#define JOBS         3 /* numbers: 1 unicast, 2 multicast results; 0: ordinary frames */
#define GENERATION   7
#define SOURCES_MAX  64
#define WINDOW_MAX   4096
#define VARIANTS     5 /* payloads of a source; coprime to every window */
#define ORDINARY     64 /* ordinary frames, so that each is once in a burst */
#define FLYING       256 /* of them under way in a closed loop */
#define BURST        32
#define SAMPLES_MOST (1u << 20) /* latencies after the last place are not kept */
#define SAMPLES_P999 10000 /* with fewer, p99.9 is a guess */
#define REPEAT_MS    50
#define QUIET_MS     20
#define GIVE_UP_MS   5000 /* a device that shares its CPU with much else may take seconds */
#define POOL_PACKETS 2047
#define POOL_CACHE   256
#define MEMORY_MB    96

struct device {
	const char *name;
	bool is_switch;
	uint16_t port[PORTS]; /* ethdevs of the generator */
	struct rte_mempool *pool;
	struct traffic *traffic; /* may be NULL */
	/* By job and residue modulo the window: what to add for the next block. */
	uint32_t block[JOBS][WINDOW_MAX];
};

static struct device devices[DEVICES] = {
	{.name = "weir-switch", .is_switch = true}, {.name = "dpdk-testpmd"}};
static double samples[SAMPLES_MOST]; /* TSC cycles */
static uint64_t buffer_bytes = 2048;
static const struct option_row options[] = {
	{"buffer", 0, OPTION_SIZE, &buffer_bytes, 64, 65535, NULL, "data room of mbufs"},
	{0},
};

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
	struct device *device;
	unsigned int sources, window, elements;
	bool ordinary;
	bool results; /* a switch answers; else frames come back as they are */
	bool multicast; /* results: one per port */
	bool closed; /* the loop: of ordinary frames only FLYING are under way */
	uint8_t job;
	struct frames *frames; /* a row for each payload */
	unsigned int next; /* frame to send, in the window's order */
	uint64_t all; /* what `got` is when the block is complete */
	uint64_t sent, done, lost, wrong; /* frames, of which `done` by whole blocks */
	unsigned int open; /* places */
	uint64_t now; /* TSC after the last receive */
	uint64_t idle; /* cycles of a closed loop without work */
	bool sampling; /* one block in `each` */
	unsigned int each;
	size_t nb_samples;
	struct place place[WINDOW_MAX];
};

/* Throw away what comes until nothing has come for a millisecond. */
static void
drain(const struct device *device)
{
	struct rte_mbuf *burst[BURST];

	for (unsigned int quiet = 0, turns = 0; quiet < 10 && turns < 10000; turns++) {
		quiet++;
		for (unsigned int p = 0; p < PORTS; p++) {
			uint16_t n = rte_eth_rx_burst(device->port[p], 0, burst, BURST);

			if (n > 0)
				quiet = 0;
			rte_pktmbuf_free_bulk(burst, n);
		}
		if (quiet > 0)
			rte_delay_us_sleep(100);
	}
}

/* A frame from a station at one port to one at the other. Has it left? */
static bool
send_one(const struct device *device, unsigned int from)
{
	const struct frames_config config = {.id = from,
		.sources = 1,
		.rows = 1,
		.ordinary = true,
		.to_port = 1 - from,
		.bytes = 60};
	struct frames *one = frames_create(&config);
	bool sent = one != NULL && rte_eth_tx_burst(device->port[from], 0, one->mbuf, 1) == 1;

	frames_destroy(one);
	return sent;
}

static void
traffic_destroy(struct traffic *t)
{
	if (t == NULL)
		return;
	/* The next traffic goes on with the blocks after these. */
	for (unsigned int b = 0; b < t->window; b++)
		t->device->block[t->job][b] = t->place[b].block - b;
	frames_destroy(t->frames);
	free(t);
}

/* sources 0: ordinary frames of so many bytes, without check sequence. The device learns their stations here. NULL after a
 * line. */
static struct traffic *
traffic_create(struct device *device, unsigned int sources, unsigned int window,
	unsigned int elements, unsigned int bytes, bool multicast)
{
	struct traffic *t = calloc(1, sizeof(*t));
	bool is_known = true;
	unsigned int bits;

	if (t == NULL)
		return NULL;
	t->device = device;
	t->ordinary = sources == 0;
	t->results = device->is_switch && !t->ordinary;
	t->multicast = multicast && t->results;
	t->sources = t->ordinary ? 1 : sources;
	t->window = t->ordinary ? WINDOW_MAX : window;
	t->elements = t->ordinary ? 0 : elements;
	t->job = t->ordinary ? 0 : 1 + multicast;
	bits = t->multicast ? RTE_MIN(sources, (unsigned int)PORTS) : t->sources;
	t->all = UINT64_MAX >> (64 - bits);
	for (unsigned int b = 0; b < t->window; b++)
		t->place[b].block = b + device->block[t->job][b];
	t->frames = frames_create(&(struct frames_config){.type = WEIR_DTYPE_FP32,
		.checksum = true,
		.ordinary = t->ordinary,
		.to_port = 1,
		.bytes = t->ordinary ? bytes : 0,
		.generation = GENERATION,
		.job = t->job,
		.sources = t->sources,
		.elements = t->elements,
		.rows = t->ordinary ? ORDINARY : VARIANTS});
	if (t->frames != NULL && t->results && bench_spoils())
		t->frames->expected[0][0]++;
	if (t->frames != NULL && t->ordinary) { /* the switch learns where the receiver is */
		is_known = send_one(device, 1);
		drain(device);
		if (!is_known)
			warnx("port 1 of the generator takes no frame");
	}
	if (t->frames != NULL && is_known)
		return t;
	traffic_destroy(t);
	return NULL;
}

/* Frames on their way to the ports. What the rings do not take is lost. */
struct batch {
	struct rte_mbuf *list[PORTS][SOURCES_MAX];
	uint16_t count[PORTS];
};

/* The source's frame for this block. */
static unsigned int
frame_of(const struct traffic *t, unsigned int source, uint32_t block)
{
	return block % t->frames->config.rows * t->sources + source;
}

/* Is that frame prepared for another block, and not sent yet? */
static bool
busy(const struct traffic *t, unsigned int source, uint32_t block)
{
	return rte_mbuf_refcnt_read(t->frames->mbuf[frame_of(t, source, block)]) > 1;
}

/* The driver frees a reference; the frame stays. */
static void
add(struct traffic *t, struct batch *batch, unsigned int source, uint32_t block)
{
	unsigned int p = source % PORTS;
	struct rte_mbuf *m = frames_take(t->frames, frame_of(t, source, block), block);

	rte_mbuf_refcnt_update(m, 1);
	batch->list[p][batch->count[p]++] = m;
}

static void
flush(struct traffic *t, struct batch *batch)
{
	for (unsigned int p = 0; p < PORTS; p++) {
		uint16_t n = batch->count[p], taken = 0;

		if (n > 0)
			taken = rte_eth_tx_burst(t->device->port[p], 0, batch->list[p], n);
		rte_pktmbuf_free_bulk(batch->list[p] + taken, n - taken);
	}
}

static void
close_place(struct traffic *t, struct place *place)
{
	place->open = false;
	place->block += t->window;
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
		unsigned int source = t->next % t->sources;
		struct place *place = &t->place[t->next / t->sources];

		if (busy(t, source, place->block) || !admit(t, place, source))
			break;
		add(t, &batch, source, place->block);
		place->due = (uint64_t)(due + step * i);
		place->sent = now;
		if (++t->next == t->sources * t->window)
			t->next = 0;
	}
	flush(t, &batch);
	t->sent += i;
	return i;
}

/* What is wrong with a frame; NULL: nothing. */
static const char *
fault_of(const struct traffic *t, const struct rte_mbuf *m, const struct weir_header *h)
{
	unsigned int bytes = 4 * t->elements;
	uint8_t copy[4 * 2048]; /* frames come in any number of segments */
	const void *payload;

	if (!t->results)
		return m->pkt_len != t->frames->bytes ? "came back with another length" : NULL;
	if (h->status != WEIR_STATUS_OK || h->degraded || h->gen_id != GENERATION)
		return "is not a result";
	if (h->src_cnt != t->sources || h->grad_cnt != t->elements)
		return "is incomplete";
	payload = rte_pktmbuf_read(m, HEADERS, bytes, copy);
	if (m->pkt_len != HEADERS + bytes || payload == NULL ||
		memcmp(payload, t->frames->expected[h->block_id % VARIANTS], bytes) != 0)
		return "is not the sum";
	return NULL;
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

	if (t->multicast)
		return to_group || source % PORTS == p ? UINT64_C(1) << p : 0;
	return t->results && to_group ? 0 : UINT64_C(1) << source;
}

/* One received frame, from port p of the link. */
static void
take(struct traffic *t, unsigned int p, struct rte_mbuf *m)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(m, const uint8_t *);
	struct weir_header h = {0};
	struct place *place;
	const char *fault;
	uint64_t bit;

	if (m->data_len < HEADERS ||
		weir_get16(bytes + UDP_AT + (t->results ? 0 : 2)) != WEIR_PORT_BASE)
		return; /* not ours */
	if (t->ordinary && p == 0)
		return; /* the one that the switch learns from, late */
	weir_header_read(&h, bytes + FRAME_HEADERS);
	place = &t->place[h.block_id & (t->window - 1)];
	bit = addressee(t, p, bytes, &h);
	if (h.job_id != t->job || (bit & t->all) == 0)
		return;
	if (!place->open || place->block != h.block_id || (place->got & bit) != 0)
		return; /* once more */
	fault = fault_of(t, m, &h);
	if (unlikely(fault != NULL) && t->wrong++ == 0)
		warnx("%s: block %u for source %u: %s (status %s, %u sources, %u elements)",
			t->device->name, h.block_id, h.src_id, fault, weir_status_text(h.status),
			h.src_cnt, h.grad_cnt);
	if (place->got == 0 && t->sampling && h.block_id % t->each == 0 &&
		t->nb_samples < SAMPLES_MOST)
		samples[t->nb_samples++] = (double)(t->now - place->due);
	place->got |= bit;
	if (place->got != t->all)
		return;
	close_place(t, place);
	t->done += t->sources;
}

/* Receive once from each port. Returns the frames. */
static unsigned int
poll_ports(struct traffic *t)
{
	struct rte_mbuf *burst[BURST];
	unsigned int total = 0;

	for (unsigned int p = 0; p < PORTS; p++) {
		uint16_t n = rte_eth_rx_burst(t->device->port[p], 0, burst, BURST);

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

	if (t->ordinary && now - progress < QUIET_MS * ms)
		return;
	for (unsigned int i = 0; i < t->window; i++) {
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
		for (unsigned int s = 0; s < t->sources; s++)
			if ((t->multicast || (place->got >> s & 1) == 0) &&
				!busy(t, s, place->block))
				add(t, &batch, s, place->block);
		flush(t, &batch);
		place->sent = now;
	}
}

static int
give_up(const struct traffic *t)
{
	warnx("%s: nothing came through within %u ms (frames of %u bytes)", t->device->name,
		GIVE_UP_MS, t->frames->bytes);
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
		if (moved == 0 && now - before < cycles / 5)
			t->idle += now - before;
		if (t->done != done)
			progress = now;
		if (now - checked > cycles) {
			checked = now;
			repair(t, progress);
			if (!t->ordinary && now - progress > GIVE_UP_MS * cycles)
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
	unsigned int sources = t->sources;

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
		drain(t->device);
	t->next = t->next / t->sources * t->sources;
	t->sampling = false;
	t->nb_samples = 0;
}

/* 0, or -1 after a line: nothing comes, or not within 5 s; a wrong result. */
static int
run_closed(struct traffic *t, uint64_t ms)
{
	uint64_t lost = t->lost, hz = rte_get_tsc_hz(), began, all, done;
	double idle, rate;

	begin(t);
	/* The device wakes up, caches fill. */
	if (loop(t, ms / 4 + 1) < 0)
		return -1;
	t->idle = 0;
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
	idle = (double)t->idle / (double)all;
	rate = (double)(t->done - done) * (double)hz / (double)all;
	/* What is missing now is noticed here. */
	if (finish(t) < 0)
		return -1;
	printf("%.10g %.6g %" PRIu64 "\n", rate, idle, t->lost - lost);
	return 0;
}

/* us, of sorted samples: the least that so great a share, [0, 1], does not exceed. */
static double
quantile_of(size_t n, double quantile)
{
	/* What a product of decimals lacks or has too much must not move the rank. */
	double rank = ceil(quantile * (double)n - 1e-9 * (double)n);

	if (n == 0)
		return BENCH_NONE;
	return samples[(size_t)RTE_MAX(rank, 1.0) - 1] * 1e6 / (double)rte_get_tsc_hz();
}

/* The same. */
static int
run_open(struct traffic *t, double rate, uint64_t ms, unsigned int each)
{
	double hz = (double)rte_get_tsc_hz(), step = hz / rate;
	uint64_t total = (uint64_t)(rate * (double)ms / 1000) / t->sources * t->sources;
	uint64_t patience = (uint64_t)hz / 1000 * QUIET_MS, limit = (uint64_t)hz / 1000 * 4 * ms;
	uint64_t began, now, last, ended = 0, sent = 0, before = t->sent, done = t->done, missing;
	size_t n;
	int rc;

	begin(t);
	t->sampling = true;
	t->each = each;
	t->closed = false;
	began = now = last = rte_rdtsc();
	/* A device that takes or gives nothing any more ends it, too. */
	while ((sent < total || t->done - done < total) && now - last <= patience &&
		now - began <= limit + patience) {
		uint64_t due = RTE_MIN((uint64_t)((double)(now - began) / step) + 1, total);
		unsigned int moved = 0;

		if (due > sent)
			moved = send_some(t, (unsigned int)RTE_MIN(due - sent, (uint64_t)BURST),
				(double)began + step * (double)sent, step);
		sent = t->sent - before;
		moved += poll_ports(t);
		now = rte_rdtsc();
		if (sent == total && ended == 0)
			ended = now;
		if (moved > 0)
			last = now;
	}
	rate = (double)sent * hz / (double)RTE_MAX((ended != 0 ? ended : now) - began, UINT64_C(1));
	missing = sent - (t->done - done);
	/* What was lost is repeated, so that the job can go on, and its latency is the repair's. */
	rc = finish(t);
	for (uint64_t m = 0; t->ordinary && m < missing; m += each) {
		t->nb_samples -= t->nb_samples == SAMPLES_MOST; /* always has a place */
		samples[t->nb_samples++] = (double)(now - began);
	}
	t->sampling = false;
	n = t->nb_samples;
	if (rc < 0 || t->wrong > 0)
		return -1;
	qsort(samples, n, sizeof(samples[0]), bench_ascending);
	printf("%.10g %" PRIu64 " %zu %g %g %g %g\n", rate, missing, n, quantile_of(n, 0.5),
		quantile_of(n, 0.99), n < SAMPLES_P999 ? BENCH_NONE : quantile_of(n, 0.999),
		quantile_of(n, 1));
	return 0;
}

/* Do the ports see the device's, and does a frame in at port 0 come out at port 1? */
static bool
is_up(const struct device *device)
{
	struct rte_mbuf *burst[BURST];
	struct rte_eth_link state;
	uint16_t n;

	for (unsigned int p = 0; p < PORTS; p++)
		if (rte_eth_link_get_nowait(device->port[p], &state) < 0 ||
			state.link_status != RTE_ETH_LINK_UP)
			return false;
	send_one(device, 0);
	rte_delay_us_sleep(1000);
	n = rte_eth_rx_burst(device->port[1], 0, burst, BURST);
	rte_pktmbuf_free_bulk(burst, n);
	return n > 0;
}

/* argument: "DRIVER,ARGUMENTS" */
static int
open_port(struct device *device, unsigned int p, const char *argument)
{
	struct rte_eth_conf conf = {0};
	char name[64], pool[RTE_MEMPOOL_NAMESIZE];
	uint16_t *port = &device->port[p];
	int rc;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(argument, ","), argument);
	snprintf(pool, sizeof(pool), "%s", device->name);
	if (device->pool == NULL)
		device->pool = pktbuf_packet_pool(
			pool, POOL_PACKETS, (uint32_t)buffer_bytes, POOL_CACHE, 0);
	if (device->pool == NULL)
		return -rte_errno;
	rc = rte_eal_hotplug_add("vdev", name, argument + strcspn(argument, ",") + 1);
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(name, port);
	if (rc == 0)
		rc = rte_eth_dev_configure(*port, 1, 1, &conf);
	if (rc == 0)
		rc = rte_eth_rx_queue_setup(*port, 0, 512, 0, NULL, device->pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(*port, 0, 512, 0, NULL);
	return rc == 0 ? rte_eth_dev_start(*port) : rc;
}

/* 0, or -1 after a line. */
static int
obey(const char *line)
{
	unsigned int d = 0, sources, window, elements, bytes, multicast, each;
	struct device *device = devices;
	struct traffic **t;
	uint64_t ms;
	double rate;

	(void)sscanf(line, "%*s %u", &d);
	device += d % DEVICES;
	t = &device->traffic;
	if (strncmp(line, "up", 2) == 0)
		return printf("%d\n", is_up(device)) > 0 ? 0 : -1;
	if (sscanf(line, "make %*u %u %u %u %u %u", &sources, &window, &elements, &bytes,
		    &multicast) == 5) {
		traffic_destroy(*t);
		*t = traffic_create(device, sources, window, elements, bytes, multicast != 0);
		return *t != NULL && puts("0") >= 0 ? 0 : -1;
	}
	if (*t != NULL && sscanf(line, "run %*u %" SCNu64, &ms) == 1)
		return run_closed(*t, ms);
	if (*t != NULL && sscanf(line, "offer %*u %lf %" SCNu64 " %u", &rate, &ms, &each) == 3)
		return run_open(*t, rate, ms, each);
	warnx("traffic: what is %s", line);
	return -1;
}

static int
run(void)
{
	char line[256];
	int rc = 0;

	if (bench_start_eal(0, MEMORY_MB) < 0)
		return STATUS_USAGE;
	for (unsigned int i = 0;
		rc == 0 && i < DEVICES * PORTS && bench_common.arguments[i] != NULL; i++)
		rc = open_port(&devices[i / PORTS], i % PORTS, bench_common.arguments[i]);
	if (rc != 0)
		warnx("the generator's ports: %s", rte_strerror(-rc));
	for (setlinebuf(stdout); rc == 0 && fgets(line, sizeof(line), stdin) != NULL;)
		if (obey(line) < 0)
			puts("failed");
	bench_stop_eal();
	return rc == 0 ? 0 : 2;
}

const struct bench bench_traffic = {
	.name = "traffic",
	.arguments = "PORT PORT PORT PORT",
	.options = options,
	.run = run,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* ppe/programs/heavy_hitters.c against exact counts: frames of random flows, all of which must be forwarded, each once and in order. */
#include <stdlib.h>

#include "tests/eal/loaded.h"

#define FLOWS     200
#define FRAMES    4000
#define WINDOW_MS 100
#define PACKETS   5 /* columns of the table */
#define BYTES     6

struct flow {
	unsigned int port; /* FLOWS - 1: of both ports */
	uint8_t protocol;
	uint32_t from, to;
	uint16_t from_port, to_port;
	uint64_t packets, bytes;
};
static struct flow flow[FLOWS];
static uint64_t random_state, rows[PPE_TABLE_ROWS][PPE_TABLE_COLUMNS];
static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 0xa}, {2, 0, 0, 0, 0, 0xb}};

static void
send_frame(const struct flow *f, unsigned int port, unsigned int bytes, uint32_t number)
{
	memset(frame, 0, bytes);
	memcpy(frame, mac[1 - port], 6);
	memcpy(frame + 6, mac[port], 6);
	weir_put16(frame + 12, 0x0800);
	frame[14] = 0x45;
	weir_put16(frame + 16, (uint16_t)(bytes - 14));
	frame[22] = 64;
	frame[23] = f->protocol;
	weir_put32(frame + 26, f->from);
	weir_put32(frame + 30, f->to);
	weir_put16(frame + 34, f->from_port);
	weir_put16(frame + 36, f->to_port);
	weir_put16(frame + 38, (uint16_t)(bytes - 34)); /* of UDP */
	weir_put32(frame + 50, number);
	rig_send(&rig, port, frame, bytes);
}

/* Take what has left by a port, in order. */
static unsigned int
take(unsigned int port)
{
	static uint32_t last[2];
	unsigned int n = 0;

	for (rig_rest(&rig); rig_receive(&rig, port, frame, 0) > 0; n++) {
		cr_assert_gt(weir_get32(frame + 50), last[port]);
		last[port] = weir_get32(frame + 50);
	}
	return n;
}

static void
make_flows(void)
{
	for (unsigned int f = 0; f < FLOWS; f++)
		flow[f] = (struct flow){.port = f % 2,
			.protocol = f % 3 == 0 ? 6
				: f % 3 == 1   ? 17
					       : 253,
			.from = 0x0a000000 + f / 5,
			.to = 0x0a010000 + f % 7,
			.from_port = (uint16_t)(f % 3 == 2 ? 0 : 1000 + f),
			.to_port = f % 3 == 2 ? 0 : 80};
}

/* Frames of random flows, small numbers more often; all in one window, because time stands still. */
static void
send_all(void)
{
	unsigned int arrived = 0;

	for (uint32_t i = 1; i <= FRAMES; i++) {
		uint64_t a = rig_random(&random_state) % FLOWS,
			 b = rig_random(&random_state) % FLOWS;
		unsigned int n = (unsigned int)(i % 9 == 0 ? FLOWS - 1 : a * b / FLOWS);
		unsigned int bytes = 60 + (unsigned int)(rig_random(&random_state) % 1400);

		send_frame(&flow[n], n == FLOWS - 1 ? i % 2 : flow[n].port, bytes, i);
		flow[n].packets++;
		flow[n].bytes += bytes;
		if (i % 64 == 0)
			arrived += take(0) + take(1);
	}
	arrived += take(0) + take(1);
	cr_assert_eq(arrived, FRAMES);
}

static unsigned int
read_rows(unsigned int max)
{
	const void *states[PPE_WORKERS_MAX];

	for (unsigned int w = 0; w < rig.config.workers; w++)
		states[w] = ppe_program_state(rig.ppe, loaded, w);
	return loaded->tables[0].read(states, rig.config.workers, rows, max);
}

/* Wait for the end of the window in which packets came. Returns the number of rows. */
static unsigned int
wait_rows(void)
{
	unsigned int n = 0, ms = 0;

	for (; ms < 3 * WINDOW_MS && n == 0; ms++) {
		pass_ms(1);
		n = read_rows(PPE_TABLE_ROWS);
	}
	cr_assert(n > 0 && ms >= WINDOW_MS, "%u rows after %u ms", n, ms);
	pass_ms(5); /* of the other worker, too */
	return read_rows(PPE_TABLE_ROWS);
}

static int
larger(const void *a, const void *b)
{
	const struct flow *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

ONE_WORKER_AND_TWO(heavy_hitters, shows_the_largest_flows)
{
	const struct setting settings[] = {{"window_ms", WINDOW_MS}, {"k", 20}, {NULL, 0}};

	launch(workers, 2, "heavy_hitters", settings);
	random_state = rig_seed();
	rig.seed = random_state;
	make_flows();
	send_all();
	cr_assert_eq(wait_rows(), 20);
	qsort(flow, FLOWS, sizeof(flow[0]), larger);
	for (unsigned int i = 0; i < 20; i++) {
		const struct flow *f = &flow[i];
		const uint64_t expected[] = {f->from, f->to, f->protocol, f->from_port, f->to_port,
			f->packets, f->bytes};

		for (unsigned int c = 0; c < RTE_DIM(expected); c++)
			cr_assert_eq(rows[i][c], expected[c], "row %u, column %u: %lu, not %lu", i,
				c, rows[i][c], expected[c]);
	}
	cr_assert_eq(read_rows(3), 3);
	cr_assert_eq(counted("hitters_packets"), FRAMES);
	/* The next window has no packets. */
	pass_ms(WINDOW_MS + 5);
	cr_assert_eq(read_rows(PPE_TABLE_ROWS), 0);
	/* And both halves are as new, also for a flow that they had. */
	for (unsigned int round = 0; round < 2; round++) {
		send_frame(&flow[0], flow[0].port, 100, FRAMES + 1 + round);
		take(1 - flow[0].port);
		cr_assert_eq(wait_rows(), 1);
		cr_assert(rows[0][PACKETS] == 1 && rows[0][BYTES] == 100);
		pass_ms(WINDOW_MS + 5);
	}
	finish();
}

/* Few columns: counts are too large, but never too small, and not larger than all bytes. */
ONE_WORKER_AND_TWO(heavy_hitters, small_sketch_never_counts_too_little)
{
	const struct setting settings[] = {{"window_ms", WINDOW_MS}, {"rows", 8}, {"columns", 64},
		{"k", PPE_TABLE_ROWS}, {NULL, 0}};
	unsigned int n, larger_ones = 0;
	uint64_t all = 0;

	launch(workers, 2, "heavy_hitters", settings);
	random_state = rig_seed();
	make_flows();
	send_all();
	n = wait_rows();
	cr_assert_geq(n, FLOWS * 9 / 10);
	for (unsigned int f = 0; f < FLOWS; f++)
		all += flow[f].bytes;
	for (unsigned int i = 0; i < n; i++) {
		const struct flow *f = flow;

		while (f < flow + FLOWS &&
			(f->from != rows[i][0] || f->to != rows[i][1] ||
				f->protocol != rows[i][2] || f->from_port != rows[i][3]))
			f++;
		cr_assert(f < flow + FLOWS, "nobody's flow");
		cr_assert(rows[i][PACKETS] >= f->packets && rows[i][BYTES] >= f->bytes);
		cr_assert(rows[i][BYTES] <= f->bytes + 3 * all / 64); /* e / columns */
		cr_assert(i == 0 || rows[i][BYTES] <= rows[i - 1][BYTES]);
		larger_ones += rows[i][BYTES] > f->bytes;
	}
	cr_assert_gt(larger_ones, 0);
	finish();
}

/* Change bytes of a frame of this flow, send so many of them, and let it pass. */
#define PASSES(change, bytes)                                                                      \
	do {                                                                                       \
		send_frame(&tcp, 0, 60, 0);                                                        \
		rig_rest(&rig);                                                                    \
		cr_assert_eq(rig_receive(&rig, 1, frame, 0), 60);                                  \
		change;                                                                            \
		rig_send(&rig, 0, frame, bytes);                                                   \
		rig_rest(&rig);                                                                    \
		cr_assert_eq(rig_receive(&rig, 1, frame, 0), bytes, #change);                      \
	} while (0)

/* Frames that are no IPv4, or lie about lengths, pass uncounted; what has no ports has none in the table. */
ONE_WORKER_AND_TWO(heavy_hitters, odd_frames_pass)
{
	const struct setting settings[] = {{"window_ms", WINDOW_MS}, {NULL, 0}};
	const struct flow tcp = {.protocol = 6, .from = 1, .to = 2, .from_port = 7, .to_port = 8};
	uint64_t good = 5;

	launch(workers, 2, "heavy_hitters", settings);
	PASSES(weir_put16(frame + 12, 0x88b5), 60);
	PASSES(weir_put16(frame + 12, 0x8100), 60);
	PASSES(frame[14] = 0x65, 60);
	PASSES(frame[14] = 0x44, 60);
	PASSES(frame[14] = 0x4f, 60); /* 60 bytes of header in 46 */
	PASSES(weir_put16(frame + 16, 500), 60);
	for (unsigned int bytes = 14; bytes < 34; bytes++)
		PASSES(weir_put16(frame + 16, 20), bytes);
	good += 6 + 20; /* those of PASSES itself, of the same flow */
	cr_assert_eq(counted("hitters_packets"), good - 5);
	PASSES(weir_put16(frame + 16, 20), 34); /* no room for ports */
	PASSES(weir_put16(frame + 20, 0x2000), 60); /* the first fragment */
	cr_assert_eq(counted("hitters_packets"), good - 1);
	send_udp(0, 1, 2, frame, 10);
	cr_assert_str_eq(said_end, "pass");
	expect_drop(PPE_DROP_NO_EXCEPTION_PORT, 1);
	cr_assert_eq(counted("hitters_packets"), good);
	cr_assert_eq(wait_rows(), 3);
	cr_assert(rows[0][3] == 7 && rows[0][4] == 8 && rows[0][PACKETS] == good - 3);
	cr_assert(rows[1][3] == 0 && rows[1][4] == 0 && rows[1][PACKETS] == 2);
	finish();
}

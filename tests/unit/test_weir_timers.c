/* SPDX-License-Identifier: BSD-3-Clause */
/* When libweir repeats itself: the retransmission timer and what it learns from, back-off, and
 * holes. */
#include "apps/libweir/handle.h"
#include "apps/libweir/timing.h"
#include "tests/unit/switch_player.h"

#define MS(ns) ((ns)*UINT64_C(1000000))
#define WINDOW 64

/* ---- the estimator ---- */

/* So many round trips of one length; then the timeout follows from them. */
static void
take(struct weir_rtt *rtt, unsigned int n, uint64_t ns)
{
	for (unsigned int i = 0; i < n; i++)
		weir_rtt_sample(rtt, ns);
	weir_rtt_answered(rtt);
}

Test(weir_timers, rtt_follows_rfc6298)
{
	struct weir_rtt rtt;

	weir_rtt_init(&rtt);
	cr_expect_eq(rtt.rto, MS(20));
	/* RFC 6298, 2.2: the first sample R gives SRTT = R, RTTVAR = R/2, and RTO = SRTT + 4
	 * RTTVAR. */
	take(&rtt, 1, MS(40));
	cr_expect_eq(rtt.srtt, MS(40));
	cr_expect_eq(rtt.rttvar, MS(20));
	cr_expect_eq(rtt.rto, MS(120));
	/* 2.3: RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R|, and then SRTT = 7/8 SRTT + 1/8 R. */
	take(&rtt, 1, MS(80));
	cr_expect_eq(rtt.rttvar, MS(25));
	cr_expect_eq(rtt.srtt, MS(45));
	cr_expect_eq(rtt.rto, MS(145));
	take(&rtt, 200, MS(120));
	/* Deviations die out; the least of the timeout stands in their place. */
	cr_expect(rtt.rto > MS(139) && rtt.rto < MS(145), "%llu", (unsigned long long)rtt.rto);
}

Test(weir_timers, rto_is_bounded)
{
	struct weir_rtt rtt;

	weir_rtt_init(&rtt);
	take(&rtt, 100, 1000);
	cr_expect_eq(rtt.rto, WEIR_RTO_LEAST + 1000);
	for (int i = 0; i < 100; i++)
		weir_rtt_back_off(&rtt);
	cr_expect_eq(rtt.rto, WEIR_RTO_MOST);
	weir_rtt_answered(&rtt);
	cr_expect_eq(rtt.rto, WEIR_RTO_LEAST + 1000);
	take(&rtt, 100, MS(60000));
	cr_expect_eq(rtt.rto, WEIR_RTO_BASE);
}

/* The path's estimate: what waited for others does not count, answers to probes do. */
Test(weir_timers, path_estimate_ignores_waiting_for_other_sources)
{
	struct weir_path path = {0};

	cr_expect_eq(weir_pto(&path), WEIR_RTO_FIRST);
	weir_path_sample(&path, MS(8), false);
	cr_expect_eq(weir_pto(&path), MS(24)); /* 3 round trips, and 4 deviations are less */
	for (int i = 0; i < 100; i++) {
		weir_path_sample(&path, MS(2), false);
		weir_path_sample(&path, MS(300), false);
	}
	cr_expect(weir_pto(&path) > MS(5) && weir_pto(&path) < MS(7), "%llu",
		(unsigned long long)weir_pto(&path));
	for (int i = 0; i < 100; i++)
		weir_path_sample(&path, MS(4), true);
	cr_expect(weir_pto(&path) > MS(11) && weir_pto(&path) < MS(13), "%llu",
		(unsigned long long)weir_pto(&path));
	for (int i = 0; i < 100; i++)
		weir_path_sample(&path, 1000, true);
	cr_expect_eq(weir_pto(&path), WEIR_PTO_LEAST);
}

/* A window that fills a slow link makes round trips of a steady length, of its own making: the
 * timeout must leave them room, or all of the window would be sent again, and that would make
 * them longer still. */
Test(weir_timers, steady_queues_are_no_losses)
{
	struct weir_rtt rtt;

	weir_rtt_init(&rtt);
	take(&rtt, 1000, MS(21));
	cr_expect_geq(rtt.rto, MS(21) + WEIR_RTO_LEAST);
}

/* Each time one source loses its packet, the other sees its timeout as a round trip; then they
 * change places. */
Test(weir_timers, alternating_losses_keep_rto_low)
{
	struct weir_rtt rtt[2];

	for (int i = 0; i < 2; i++)
		weir_rtt_init(&rtt[i]);
	for (int i = 0; i < 1000; i++) {
		struct weir_rtt *loses = &rtt[i % 2], *waits = &rtt[1 - i % 2];

		weir_rtt_sample(waits, loses->rto + MS(1));
		weir_rtt_answered(loses);
		weir_rtt_answered(waits);
	}
	cr_expect(rtt[0].rto <= WEIR_RTO_BASE && rtt[1].rto <= WEIR_RTO_BASE, "%llu %llu",
		(unsigned long long)rtt[0].rto, (unsigned long long)rtt[1].rto);
}

/* ---- a switch, played ---- */

static unsigned int blocks; /* of the operation that runs */
static int ended; /* its code */

/* The next packet of the host; false: none came within `ms`. */
static bool
hear(struct weir_header *h, int ms)
{
	uint8_t packet[512];

	*h = (struct weir_header){.extended = true};
	if (receive(packet, ms) < WEIR_EXT_BYTES)
		return false;
	weir_header_read(h, packet);
	return true;
}

static void
say(const struct weir_header *h, const void *payload, size_t bytes)
{
	uint8_t packet[512] = {0};
	size_t header = weir_header_write(h, packet);

	if (payload != NULL)
		memcpy(packet + header, payload, bytes);
	say_bytes(sockets[1], packet, header + bytes);
}

/* The result of a block. */
static void
answer(uint32_t block)
{
	const struct weir_header h = {.extended = true,
		.job_id = JOB,
		.block_id = block,
		.gen_id = GENERATION,
		.src_cnt = 1,
		.grad_cnt = ELEMENTS,
		.dtype = WEIR_DTYPE_INT32};
	const int32_t sums[ELEMENTS] = {0};

	say(&h, sums, sizeof(sums));
}

static void *
open_host(void *argument)
{
	(void)argument;
	ended = weir_open(&config, &weir);
	return NULL;
}

static void
start(void)
{
	const struct weir_join_reply r = join_reply(WINDOW, 1, 1000);
	struct weir_header h;

	open_switch(0);
	cr_assert_eq(pthread_create(&thread, NULL, open_host, NULL), 0);
	cr_assert(hear(&h, 20000) && h.collective == WEIR_COLLECTIVE_JOIN);
	h.gen_id = GENERATION;
	h.src_cnt = 1;
	say(&h, &r, sizeof(r));
	pthread_join(thread, NULL);
	cr_assert_eq(ended, 0, "%s", weir_last_error(weir));
	while (hear(&h, 0))
		; /* joins that were repeated meanwhile */
}

static void *
reduce(void *argument)
{
	static int32_t data[WINDOW * ELEMENTS];

	(void)argument;
	ended = weir_allreduce(
		weir, data, data, (size_t)blocks * ELEMENTS, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	return NULL;
}

static void
begin(unsigned int count)
{
	blocks = count;
	cr_assert_eq(pthread_create(&thread, NULL, reduce, NULL), 0);
}

static void
end(void)
{
	pthread_join(thread, NULL);
	cr_expect_eq(ended, 0, "%s", weir_last_error(weir));
}

TestSuite(weir_probes, .init = start, .fini = close_switch, .timeout = 90);

static struct weir_stats
stats(void)
{
	struct weir_stats s;

	weir_stats(weir, &s);
	return s;
}

/* ---- what it learns from, and when it asks again ---- */

/* The next contribution. Returns how many probes came before. */
static unsigned int
hear_contribution(struct weir_header *h)
{
	unsigned int probes = 0;

	do
		cr_assert(hear(h, 20000));
	while (h->collective == WEIR_COLLECTIVE_JOIN ||
		(h->collective == WEIR_COLLECTIVE_PROBE && ++probes > 0));
	return probes;
}

/* The next probe; contributions that come before are copies. */
static void
hear_probe(struct weir_header *h)
{
	do
		cr_assert(hear(h, 20000));
	while (h->collective != WEIR_COLLECTIVE_PROBE);
}

/* Answer a probe. */
static void
tell(const struct weir_header *probe, bool in)
{
	const uint8_t sources[WEIR_BITMAP_BYTES] = {in};
	struct weir_header h = *probe;

	h.status = WEIR_STATUS_WAITING;
	h.degraded = true;
	say(&h, sources, sizeof(sources));
}

Test(weir_probes, a_repeated_block_gives_no_sample)
{
	struct weir_header h;

	begin(1);
	cr_assert_eq(hear_contribution(&h), 0);
	hear_probe(&h);
	tell(&h, false);
	hear_contribution(&h); /* again: now who knows which of the two is answered? */
	answer(0);
	end();
	cr_expect_eq(stats().srtt_ns, 0u);
	cr_expect_geq(stats().timeouts, 1u);
	begin(1);
	hear_contribution(&h);
	while (h.block_id == 0) /* late copies */
		hear_contribution(&h);
	answer(1);
	end();
	if (stats().retransmissions == stats().timeouts && stats().timeouts == 1)
		cr_expect_gt(stats().srtt_ns, 0u);
}

/* The switch has the contribution, and waits for another source. */
Test(weir_probes, probed_contribution_is_not_repeated)
{
	struct weir_header h;

	begin(1);
	hear_contribution(&h);
	for (int i = 0; i < 20; i++) {
		hear_probe(&h);
		cr_expect_eq(h.block_id, 0u);
		cr_expect_eq(h.grad_cnt, 0u);
		tell(&h, true);
		tell(&h, true); /* a copy */
	}
	answer(0);
	end();
	cr_expect_eq(stats().retransmissions, 0u);
	cr_expect_geq(stats().probes, 20u);
}

/* Each block is probed and repeated; late copies of an answer repeat nothing. */
Test(weir_probes, a_lost_window_is_found)
{
	bool again[WINDOW] = {false};
	struct weir_header h;
	unsigned int n = 0;

	begin(WINDOW);
	for (unsigned int i = 0; i < WINDOW; i++)
		hear_contribution(&h);
	while (n < WINDOW) {
		cr_assert(hear(&h, 20000));
		if (h.collective == WEIR_COLLECTIVE_PROBE && !again[h.block_id]) {
			tell(&h, false);
			tell(&h, false);
		} else if (h.collective == WEIR_COLLECTIVE_ALLREDUCE) {
			n += !again[h.block_id];
			again[h.block_id] = true;
		}
	}
	for (uint32_t block = 0; block < WINDOW; block++)
		answer(block);
	end();
	cr_expect_geq(stats().probes, (unsigned int)WINDOW);
	cr_expect_geq(stats().retransmissions, (unsigned int)WINDOW);
}

/* An older switch: probes are over, and contributions are repeated as ever. */
Test(weir_probes, a_switch_without_probes_is_not_asked_again)
{
	struct weir_header h;
	uint64_t probes;

	begin(1);
	hear_contribution(&h);
	hear_probe(&h);
	h.status = WEIR_STATUS_UNSUPPORTED;
	say(&h, NULL, 0);
	hear_contribution(&h);
	probes = stats().probes;
	hear_contribution(&h);
	hear_contribution(&h);
	answer(0);
	end();
	cr_expect_eq(stats().probes, probes);
	cr_expect_eq(stats().results_error, 0u);
}

/* Probes are lost on the way, contributions are not: a firewall. */
Test(weir_probes, unanswered_probes_end_in_a_repetition)
{
	struct weir_header h;

	begin(1);
	hear_contribution(&h);
	cr_expect_geq(hear_contribution(&h), 2u);
	answer(0);
	end();
}

/* A window for which nothing comes but answers to probes, for a second. */
static void
answers_without_results(bool in)
{
	uint64_t contributions = 0, probes = 0, began;
	struct weir_header h;

	begin(WINDOW);
	began = weir_now();
	while (weir_now() - began < MS(1000)) {
		if (!hear(&h, 100))
			continue;
		if (h.collective != WEIR_COLLECTIVE_PROBE) {
			contributions++;
			continue;
		}
		probes++;
		tell(&h, in);
	}
	for (uint32_t block = 0; block < WINDOW; block++)
		answer(block);
	end();
	/* Each block, what the first answers allow, and four at each timeout, which doubles. */
	cr_expect_geq(probes, WINDOW);
	cr_expect_leq(probes, 5u * WINDOW, "%llu", (unsigned long long)probes);
	cr_expect_geq(contributions, in ? WINDOW : 2u * WINDOW);
	cr_expect_leq(contributions, in ? WINDOW : 5u * WINDOW, "%llu",
		(unsigned long long)contributions);
}

Test(weir_probes, a_straggler_is_asked_for_now_and_then)
{
	answers_without_results(true);
}

Test(weir_probes, held_back_contribution_is_not_repeated)
{
	answers_without_results(false);
}

#define QUICK  8 /* blocks that are answered at once */
#define SLOW   60
#define JUDGED 10 /* the last ones of them */
#define SLOWLY MS(10)

/* A result that is on its way for longer than the estimate: a queue has grown. A probe would
 * make it longer. */
Test(weir_probes, slower_results_cause_no_probes)
{
	unsigned int quiet = 0;
	struct weir_header h;

	for (uint32_t block = 0; block < QUICK + SLOW; block++) {
		uint64_t began;
		unsigned int probes = 0;

		begin(1);
		do
			cr_assert(hear(&h, 20000));
		while (h.block_id != block || h.collective == WEIR_COLLECTIVE_PROBE);
		for (began = weir_now(); block >= QUICK && weir_now() - began < SLOWLY;)
			probes += hear(&h, 1) && h.collective == WEIR_COLLECTIVE_PROBE;
		quiet += block >= QUICK + SLOW - JUDGED && probes == 0;
		answer(block);
		if (probes > 0)
			answer(block); /* as the switch does */
		end();
	}
	cr_expect_geq(quiet, 1, "each of the last %d blocks is probed", JUDGED);
}

Test(weir_probes, silence_is_asked_less_and_less)
{
	uint64_t began, last, gap[32] = {0};
	unsigned int n = 0;
	struct weir_header h;

	begin(1);
	cr_assert(hear(&h, 20000));
	began = last = weir_now();
	/* Four times each: after 20, 40, 80 and 160 ms. */
	while (n < 32 && weir_now() - began < MS(1300))
		if (hear(&h, 100) && h.collective != WEIR_COLLECTIVE_JOIN) {
			gap[n++] = weir_now() - last;
			last = weir_now();
		}
	answer(0);
	end();
	cr_expect(n >= 6 && n <= 16, "%u repetitions in 1.3 s", n);
	cr_expect_gt(gap[n - 1], MS(120), "%llu ns", (unsigned long long)gap[n - 1]);
	cr_expect_eq(stats().rto_ns, WEIR_RTO_LEAST, "what is answered ends the back-off");
}

#define SILENCE MS(120)

/* A straggler has come after a silence, and then the last result is lost. */
Test(weir_probes, after_a_silence_the_last_block_is_asked_for_soon)
{
	bool soon = false; /* a busy machine may hold it up now and then */
	struct weir_header h;

	for (uint32_t first = 0; !soon && first < 10 * WINDOW; first += WINDOW) {
		const uint32_t last = first + WINDOW - 1;
		uint64_t gap = 0, then = weir_now();

		begin(WINDOW);
		while (gap < SILENCE)
			if (hear(&h, 1000)) {
				gap = weir_now() - then;
				then += gap;
				if (h.collective == WEIR_COLLECTIVE_PROBE)
					tell(&h, true);
			}
		while (hear(&h, 5)) /* of the same timeout */
			if (h.collective == WEIR_COLLECTIVE_PROBE)
				tell(&h, true);
		for (uint32_t block = first; block < last; block++)
			answer(block);
		then = weir_now();
		do
			cr_assert(hear(&h, 20000));
		while (h.block_id != last);
		soon = weir_now() - then < gap / 2;
		answer(last);
		end();
		while (hear(&h, 20))
			;
	}
	cr_expect(soon, "after less than half of the silence");
}

/* Have the timer know that answers take their time: then only gaps can explain a quick
 * repetition. */
static void
answers_take_a_while(uint32_t first)
{
	struct weir_header h;
	unsigned int n = 0;

	begin(WINDOW);
	while (n < WINDOW && hear(&h, 20000))
		n++;
	cr_assert_eq(n, WINDOW);
	usleep(400000);
	for (uint32_t block = 0; block < WINDOW; block++)
		answer(first + block);
	end();
	cr_assert_eq(stats().rto_ns, WEIR_RTO_BASE, "%llu ns", (unsigned long long)stats().rto_ns);
	while (hear(&h, 20))
		; /* what was repeated meanwhile */
}

#define HOLE_BLOCKS 16

/*
 * The first block's result is lost; two later ones could have overtaken it, three not. Returns
 * false if a timeout came between, on a busy machine: then nothing is judged.
 */
static bool
a_hole(uint32_t first)
{
	struct weir_stats before = stats();
	struct weir_header h = {0}, probe;
	bool early, asked, again, alone;

	begin(HOLE_BLOCKS);
	for (unsigned int n = 0; n < HOLE_BLOCKS; n++)
		cr_assert(hear(&h, 20000));
	answer(first + 1);
	answer(first + 2);
	early = hear(&h, 30);
	answer(first + 3);
	hear_probe(&probe);
	asked = probe.block_id == first;
	again = hear(&h, 20);
	tell(&probe, false);
	hear_contribution(&h);
	alone = stats().timeouts == before.timeouts && stats().probes == before.probes + 1;
	if (alone) {
		cr_expect_not(early, "after two results");
		cr_expect(asked, "block %u", probe.block_id);
		cr_expect_not(again, "block %u is no hole", h.block_id);
		cr_expect_eq(h.block_id, first);
		cr_expect_eq(stats().gaps, before.gaps + 1);
	}
	for (uint32_t block = 0; block < HOLE_BLOCKS; block++)
		answer(first + block);
	end();
	if (alone)
		cr_expect_eq(stats().gaps, before.gaps + 1);
	return alone;
}

Test(weir_probes, gap_before_three_results_is_probed_at_once)
{
	bool judged = false;

	for (uint32_t first = 0; !judged && first < 20 * (WINDOW + HOLE_BLOCKS);
		first += WINDOW + HOLE_BLOCKS) {
		answers_take_a_while(first);
		judged = a_hole(first + WINDOW);
	}
	cr_expect(judged, "every time a timeout came between");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The learning switch on the bench: floods, learning, moves, aging, order, the exception port. */
#include "ppe/program_fast.h"
#include "tests/eal/bench.h"

static const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t a[6] = {2, 0, 0, 0, 0, 0xa}, b[6] = {2, 0, 0, 0, 0, 0xb};

/* A frame of an experimental EtherType (IEEE 802, 0x88b5) with a number in it. */
static void
send_frame(unsigned int port, const uint8_t to[6], const uint8_t from[6], uint32_t number)
{
	memset(frame, 0, 64);
	memcpy(frame, to, 6);
	memcpy(frame + 6, from, 6);
	weir_put16(frame + 12, 0x88b5);
	weir_put32(frame + 14, number);
	rig_send(&rig, port, frame, 64);
}

static void
expect_at(unsigned int port, uint32_t number)
{
	cr_assert_eq(rig_receive(&rig, port, frame, 2000), 64, "nothing at port %u", port);
	cr_assert_eq(weir_get32(frame + 14), number);
}

static void
learns(unsigned int workers)
{
	start(.workers = workers, .ports = 3);
	send_frame(0, b, a, 1); /* nobody knows b */
	expect_at(1, 1);
	expect_at(2, 1);
	send_frame(1, a, b, 2); /* a was learned */
	expect_at(0, 2);
	expect_silence();
	send_frame(0, b, a, 3);
	expect_at(1, 3);
	expect_silence();
	send_frame(2, all, b, 4); /* b has moved */
	expect_at(0, 4);
	expect_at(1, 4);
	send_frame(0, b, a, 5);
	expect_at(2, 5);
	expect_silence();
	stop();
}

CASE(ppe_forward, one_worker_learns, learns(1))
CASE(ppe_forward, three_workers_learn, learns(3))

static void
forgetful(struct rig_config *config)
{
	config->fdb_timeout_s = 1;
}

Test(ppe_forward, a_silent_station_is_forgotten, .timeout = 90)
{
	start(.ports = 3, .change = forgetful);
	send_frame(1, all, b, 1);
	expect_at(0, 1);
	expect_at(2, 1);
	send_frame(0, b, a, 2);
	expect_at(1, 2);
	expect_silence();
	pass_ms(2500);
	send_frame(0, b, a, 3);
	expect_at(1, 3);
	expect_at(2, 3);
	expect_silence();
	stop();
}

static void
with_a_port_apart(struct rig_config *config)
{
	config->exception = true;
	config->unforwarded = 2;
}

/* A port that takes no part: between it and the other stations nothing passes; between it and the kernel, everything. */
static void
keeps_off(unsigned int workers)
{
	const unsigned int kernel = 3;

	start(.workers = workers, .ports = 4, .change = with_a_port_apart);
	send_frame(0, all, a, 1);
	expect_at(2, 1);
	expect_at(kernel, 1);
	expect_silence();
	send_frame(1, all, b, 2);
	expect_at(kernel, 2);
	send_frame(1, a, b, 3);
	expect_silence();
	expect_drop(PPE_DROP_NOT_FORWARDED, 1);
	send_frame(1, rig_switch_mac, b, 4);
	expect_at(kernel, 4);
	send_frame(0, b, a, 5); /* b was not learned */
	expect_at(2, 5);
	expect_at(kernel, 5);
	expect_silence();
	send_frame(kernel, b, rig_switch_mac, 6);
	expect_at(0, 6);
	expect_at(1, 6);
	expect_at(2, 6);
	expect_silence();
	stop();
}

CASE(ppe_forward, a_port_that_takes_no_part, keeps_off(1))
CASE(ppe_forward, a_port_that_takes_no_part_on_three_workers, keeps_off(3))

/* Frames of one flow stay in order, whatever their neighbours do. */
static void
keeps_order(unsigned int workers, unsigned int threads)
{
	uint64_t random = rig_seed();
	uint32_t sent[4] = {0}, came[4] = {0}, overtaken = 0;

	start(.workers = workers, .threads = threads, .ports = 4);
	for (unsigned int i = 0; i < 20000; i++) {
		unsigned int flow = (unsigned int)(rig_random(&random) % 4);
		uint8_t from[6] = {2, 0, 0, 0, 1, (uint8_t)flow};
		const uint8_t *to = flow % 2 == 0 ? all : b;

		send_frame(flow, to, from, flow << 24 | sent[flow]++);
		if (i % 512 != 511)
			continue;
		rig_rest(&rig);
		for (unsigned int p = 0; p < 4; p++) {
			while (rig_receive(&rig, p, frame, 0) > 0) {
				uint32_t number = weir_get32(frame + 14);

				if (p != ((number >> 24) + 1) % 4)
					continue; /* watch each flow at one port */
				overtaken += (number & 0xffffff) < came[number >> 24];
				came[number >> 24] = number & 0xffffff;
			}
		}
	}
	cr_expect_eq(overtaken, 0, "%u frames overtook others", overtaken);
	stop_unread();
}

CASE(ppe_forward, order_with_one_thread, keeps_order(1, 1))
CASE(ppe_forward, order_with_many_threads, keeps_order(1, 64))
CASE(ppe_forward, order_over_the_crossbar, keeps_order(3, 20))

/* A program whose packets take from 1 to 9 segments, and of which some end early. */
static struct ppe_next
wobble_out(struct ppe_worker *worker, struct ppe_thread *thread)
{
	ppe_send(worker, thread, (uint16_t)((thread->port + 1) % 4), PKTBUF_PRIO_BULK);
	return PPE_END;
}

static struct ppe_next
wobble_step(struct ppe_worker *worker, struct ppe_thread *thread)
{
	uint64_t *left = ppe_lmem(uint64_t, thread);

	if ((*left)-- > 0)
		return PPE_RUN(wobble_step);
	return ppe_in_order(worker, thread, wobble_out);
}

static struct ppe_next
wobble(struct ppe_worker *worker, struct ppe_thread *thread)
{
	uint64_t number = weir_get32(thread->head.bytes + 14);
	uint64_t *left = ppe_lmem(uint64_t, thread);

	if (number % 11 == 0) {
		ppe_drop(worker, thread, PPE_DROP_NO_PROGRAM);
		return PPE_END;
	}
	*left = rig_random(&number) % 8;
	return PPE_RUN(wobble_step);
}

static int
wobble_create(const struct ppe_setup *setup, void **state)
{
	const struct ppe_match everything = {.conditions = 0};

	*state = NULL;
	return ppe_match_add(setup, &everything);
}

static uint64_t
dropped(void)
{
	struct ppe_stats stats;
	uint64_t n = 0;

	ppe_stats_read(rig.ppe, &stats);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		n += stats.drops[i];
	return n;
}

static const struct ppe_program *programs[2];

static void
with_wobble(struct rig_config *config)
{
	config->jobs = 0;
	config->programs = programs;
}

static void
wobbling(unsigned int workers, bool ordered)
{
	const struct ppe_program program = {
		.name = "wobble", .first = wobble, .ordered = ordered, .create = wobble_create};
	uint32_t last[4] = {0}, overtaken = 0, came = 0;

	programs[0] = &program;
	start(.workers = workers, .threads = 32, .ports = 4, .change = with_wobble);
	/* Full rings may drop some under load; all others must come. */
	for (uint32_t i = 0; i < 8000 || came + dropped() < 8000; i++) {
		uint8_t from[6] = {2, 0, 0, 0, 1, (uint8_t)(i % 4)};

		if (i < 8000)
			send_frame(i % 4, b, from, i);
		else
			pass_ms(1);
		cr_assert_lt(i, 20000, "%u came", came);
		for (unsigned int p = 0; p < 4; p++) {
			while (rig_receive(&rig, p, frame, 0) > 0) {
				uint32_t number = weir_get32(frame + 14);

				came++;
				overtaken += number < last[p];
				last[p] = number;
			}
		}
	}
	cr_expect_eq(overtaken > 0, !ordered, "%u frames overtook others", overtaken);
	stop();
}

CASE(ppe_forward, an_ordered_program_keeps_order, wobbling(1, true))
CASE(ppe_forward, an_ordered_program_keeps_order_on_three_workers, wobbling(3, true))
CASE(ppe_forward, an_unordered_program_does_not, wobbling(1, false))

Test(ppe_forward, bad_addresses_are_counted, .timeout = 90)
{
	static const uint8_t group[6] = {1, 0, 0, 0, 0, 1}, bridge[6] = {0x01, 0x80, 0xc2, 0, 0, 0};

	start(.workers = 1, .ports = 2);
	send_frame(0, b, group, 1);
	send_frame(0, b, rig_switch_mac, 1);
	send_frame(0, bridge, a, 1);
	send_frame(0, rig_switch_mac, a, 1); /* there is no exception port */
	rig_send(&rig, 0, frame, 13);
	expect_drop(PPE_DROP_BAD_SOURCE_MAC, 2);
	expect_drop(PPE_DROP_RESERVED_MAC, 1);
	expect_drop(PPE_DROP_NO_EXCEPTION_PORT, 1);
	expect_drop(PPE_DROP_MALFORMED, 1);
	expect_silence();
	send_frame(0, all, a, 1);
	expect_at(1, 1);
	send_frame(0, a, b, 2); /* a is at that very port */
	expect_drop(PPE_DROP_SAME_PORT, 1);
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* ppe/programs/telemetry.c against a plain model: readings of random groups and values, some of them in packets that are wrong. */
#include "tests/eal/loaded.h"

#define UDP       9020
#define FROM      5000
#define GROUPS    5
#define COLLECTOR 1 /* host */
#define WINDOW_MS 20
#define LOW       (-100)
#define WIDTH     25
#define READINGS  3000

static const struct setting settings[] = {{"collector", 0x0a4d0001 + COLLECTOR},
	{"window_ms", WINDOW_MS}, {"groups", GROUPS}, {"low", LOW}, {"width", WIDTH}, {NULL, 0}};

struct summary {
	uint64_t count, bucket[16];
	int64_t sum, min, max;
};
static struct summary model[GROUPS], sent[GROUPS];
static uint64_t random_state;

static const uint8_t *
packet_of(uint8_t type, uint16_t group, uint32_t sensor, int32_t value)
{
	static uint8_t p[16];

	weir_put16(p, 0x5754);
	p[2] = 1;
	p[3] = type;
	weir_put16(p + 4, group);
	weir_put16(p + 6, 0);
	weir_put32(p + 8, sensor);
	weir_put32(p + 12, (uint32_t)value);
	return p;
}

static void
subscribe(unsigned int host)
{
	send_udp(host, FROM, UDP, packet_of(2, 0, 0, 0), 16);
	rig_rest(&rig);
}

/* The sensor of a value, so that those of the extremes can be checked. */
static uint32_t
sensor_of(int32_t value)
{
	return (uint32_t)value * 7 + 1;
}

static void
add(struct summary *to, int32_t value)
{
	int64_t bucket = value < LOW ? 0 : ((int64_t)value - LOW) / WIDTH;

	to->min = to->count == 0 || value < to->min ? value : to->min;
	to->max = to->count == 0 || value > to->max ? value : to->max;
	to->count++;
	to->sum += value;
	to->bucket[bucket > 15 ? 15 : bucket]++;
}

static void
read_value(uint16_t group, int32_t value)
{
	send_udp(group % 2 ? 0 : 2, FROM, UDP, packet_of(1, group, sensor_of(value), value), 16);
	cr_assert_str_eq(said_end, "consume");
	add(&model[group], value);
}

/* Take all summaries that have come, and add them up by group. */
static void
take_summaries(uint32_t window[GROUPS])
{
	while (receive_udp(COLLECTOR, UDP, FROM, 0)) {
		uint16_t group = weir_get16(payload + 4);
		struct summary *s = &sent[group];
		uint32_t count = weir_get32(payload + 12), n = 0;
		int32_t min = (int32_t)weir_get32(payload + 24),
			max = (int32_t)weir_get32(payload + 28);

		cr_assert(payload_bytes == 104 && weir_get16(payload) == 0x5754 &&
			payload[2] == 1 && payload[3] == 3);
		cr_assert_lt(group, GROUPS);
		cr_assert_gt(count, 0);
		cr_assert(window[group] == UINT32_MAX || weir_get32(payload + 8) > window[group]);
		window[group] = weir_get32(payload + 8);
		cr_assert_eq(weir_get32(payload + 32), sensor_of(min));
		cr_assert_eq(weir_get32(payload + 36), sensor_of(max));
		s->min = s->count == 0 || min < s->min ? min : s->min;
		s->max = s->count == 0 || max > s->max ? max : s->max;
		s->count += count;
		s->sum += (int64_t)((uint64_t)weir_get32(payload + 16) << 32 |
			weir_get32(payload + 20));
		for (unsigned int b = 0; b < 16; b++) {
			s->bucket[b] += weir_get32(payload + 40 + 4 * b);
			n += weir_get32(payload + 40 + 4 * b);
		}
		cr_assert_eq(n, count);
	}
}

ONE_WORKER_AND_TWO(telemetry, summaries_add_up)
{
	uint32_t window[GROUPS] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};

	launch(workers, 3, "telemetry", settings);
	random_state = rig_seed();
	rig.seed = random_state;
	subscribe(COLLECTOR);
	read_value(0, INT32_MIN);
	read_value(0, INT32_MAX);
	for (unsigned int i = 0; i < READINGS; i++) {
		/* Group 3 is silent. */
		uint16_t group = (uint16_t)(rig_random(&random_state) % GROUPS);

		read_value(
			group == 3 ? 4 : group, (int32_t)(rig_random(&random_state) % 600) - 150);
		if (i % 16 == 0)
			pass_ms(1);
		if (i % 64 == 0)
			take_summaries(window);
	}
	pass_ms(2 * WINDOW_MS);
	take_summaries(window);
	cr_assert_eq(memcmp(model, sent, sizeof(model)), 0);
	cr_assert_gt(window[0], 5);
	cr_assert_eq(counted("telemetry_readings"), READINGS + 2);
	cr_assert_eq(counted("telemetry_bad") + counted("telemetry_unsent"), 0);
	finish();
}

/* Packets that are none of the protocol's are dropped and counted; nobody but the collector can subscribe. */
ONE_WORKER_AND_TWO(telemetry, hostile_packets)
{
	uint8_t p[64] = {0};
	unsigned int bad = 0;

	launch(workers, 3, "telemetry", settings);
	for (unsigned int n = 0; n <= 64; n++) {
		memcpy(p, packet_of(1, 1, 1, 1), 16);
		if (n == 16)
			continue;
		send_udp(0, FROM, UDP, p, n);
		cr_assert_str_eq(said_end, "drop:program");
		bad++;
	}
	for (unsigned int byte = 0; byte < 6; byte++) {
		memcpy(p, packet_of(1, 1, 1, 1), 16);
		p[byte] ^= 0x80;
		send_udp(0, FROM, UDP, p, 16);
		bad++;
	}
	send_udp(0, FROM, UDP, packet_of(1, GROUPS, 1, 1), 16);
	send_udp(0, FROM, UDP, packet_of(2, 0, 0, 0), 16);
	send_udp(0, FROM, UDP, packet_of(3, 0, 0, 0), 16);
	bad += 3;
	expect_drop(PPE_DROP_PROGRAM, bad);
	cr_assert_eq(counted("telemetry_bad"), bad);
	cr_assert_eq(counted("telemetry_readings"), 0);
	send_udp(0, FROM, UDP, packet_of(1, 1, 1, 1), 16);
	memcpy(p, frame, 64);
	frame[LOADED_HEADERS + 13] ^= 1;
	rig_send(&rig, 0, frame, LOADED_HEADERS + 16);
	expect_drop(PPE_DROP_UDP_CHECKSUM, 1);
	/* There is no collector. */
	pass_ms(2 * WINDOW_MS);
	cr_assert_eq(counted("telemetry_unsent"), 1);
	for (unsigned int host = 0; host < 3; host++)
		cr_assert_not(receive_udp(host, UDP, FROM, 0));
	finish();
}

/* The subscription holds for 30 s, and moves with the collector's UDP port. */
ONE_WORKER_AND_TWO(telemetry, subscription_ends)
{
	launch(workers, 3, "telemetry", settings);
	subscribe(COLLECTOR);
	send_udp(COLLECTOR, FROM + 1, UDP, packet_of(2, 0, 0, 0), 16);
	for (uint16_t group = 0; group < GROUPS; group++)
		read_value(group, 5);
	pass_ms(2 * WINDOW_MS);
	for (uint16_t group = 0; group < GROUPS; group++)
		cr_assert(receive_udp(COLLECTOR, UDP, FROM + 1, 0));
	pass_ms(31000);
	for (uint16_t group = 0; group < GROUPS; group++)
		read_value(group, 5);
	pass_ms(2 * WINDOW_MS);
	cr_assert_not(receive_udp(COLLECTOR, UDP, FROM + 1, 0));
	cr_assert_eq(counted("telemetry_summaries"), GROUPS);
	cr_assert_eq(counted("telemetry_unsent"), GROUPS);
	finish();
}

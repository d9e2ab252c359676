/* SPDX-License-Identifier: BSD-3-Clause */
/* ppe/programs/experts.c: tokens of two owners (hosts 0 and 1) and three experts (hosts 2 to 4), with loss, repetitions, and
 * packets that lie. Sums are compared bit by bit with those of plain code. */
#include "tests/eal/loaded.h"

#define UDP        9021
#define FROM       6000 /* the hosts' UDP port */
#define HEADER     20
#define OWNERS     2
#define EXPERTS    3
#define WINDOW     4
#define ELEMENTS   300
#define TIMEOUT_MS 100
#define TOKENS     400
#define LOST       (-1)

enum { REGISTER = 1, TOKEN, INPUT, OUTPUT, RESULT, REGISTERED };

static const struct setting settings[] = {{"owners", OWNERS}, {"window", WINDOW},
	{"experts", EXPERTS + 1}, {"k", 3}, {"elements", ELEMENTS}, {"timeout_ms", TIMEOUT_MS},
	{NULL, 0}};

static uint8_t packet[RIG_FRAME_MAX];
static uint64_t random_state;

/* A token, as its owner knows it. */
struct token {
	unsigned int owner, k, elements, bytes;
	uint16_t session;
	uint32_t number;
	uint16_t expert[3];
	float weight[3];
};

/* Pure functions of their arguments. */
static uint8_t
input_byte(const struct token *t, unsigned int i)
{
	return (uint8_t)(t->number * 31 + t->owner * 7 + i);
}

static float
output_of(const struct token *t, unsigned int place, unsigned int e)
{
	uint64_t seed = t->number * 1000003u + place * 997u + e;

	return (float)(int64_t)rig_random(&seed) / (float)(1u << (seed % 31));
}

static float
sum_of(const struct token *t, unsigned int e)
{
	volatile float sum = 0, product;

	for (unsigned int i = 0; i < t->k; i++) {
		product = t->weight[i] * output_of(t, i, e);
		sum = i == 0 ? product : sum + product;
	}
	return sum;
}

static void
put_header(uint8_t type, const struct token *t, uint16_t expert, uint8_t place)
{
	memset(packet, 0, HEADER);
	weir_put16(packet, 0x5758);
	packet[2] = 1;
	packet[3] = type;
	weir_put16(packet + 4, (uint16_t)t->owner);
	weir_put16(packet + 6, t->session);
	weir_put32(packet + 8, t->number);
	weir_put16(packet + 12, expert);
	packet[14] = (uint8_t)t->k;
	packet[15] = place;
	weir_put16(packet + 18, (uint16_t)t->elements);
}

static unsigned int
put_token(const struct token *t)
{
	put_header(TOKEN, t, 0, 0);
	for (unsigned int i = 0; i < t->k; i++) {
		uint32_t weight;

		memcpy(&weight, &t->weight[i], 4);
		weir_put32(packet + HEADER + 8 * i, (uint32_t)t->expert[i] << 16);
		weir_put32(packet + HEADER + 8 * i + 4, weight);
	}
	for (unsigned int i = 0; i < t->bytes; i++)
		packet[HEADER + 8 * t->k + i] = input_byte(t, i);
	return HEADER + 8 * t->k + t->bytes;
}

static void
send_token(const struct token *t)
{
	send_udp(t->owner, FROM, UDP, packet, put_token(t));
}

static unsigned int
put_output(const struct token *t, unsigned int place)
{
	put_header(OUTPUT, t, t->expert[place], (uint8_t)place);
	for (unsigned int e = 0; e < t->elements; e++) {
		float value = output_of(t, place, e);

		memcpy(packet + HEADER + 4 * e, &value, 4);
	}
	return HEADER + 4 * t->elements;
}

static void
send_output(const struct token *t, unsigned int place)
{
	send_udp(2 + t->expert[place], FROM, UDP, packet, put_output(t, place));
}

static void
enrol(unsigned int host, uint16_t expert)
{
	put_header(REGISTER, &(struct token){0}, expert, 0);
	send_udp(host, FROM, UDP, packet, HEADER);
	cr_assert(receive_udp(host, UDP, FROM, 0));
	cr_assert(payload_bytes == HEADER && payload[3] == REGISTERED &&
		weir_get16(payload + 12) == expert);
}

static void
begin(unsigned int workers)
{
	launch(workers, 2 + EXPERTS, "experts", settings);
	random_state = rig_seed();
	for (uint16_t e = 0; e < EXPERTS; e++)
		enrol(2 + e, e);
	rig_rest(&rig);
}

static void
check_header(uint8_t type, const struct token *t)
{
	cr_assert(weir_get16(payload) == 0x5758 && payload[2] == 1);
	cr_assert_eq(payload[3], type, "type %u, not %u", payload[3], type);
	cr_assert(weir_get16(payload + 4) == t->owner && weir_get16(payload + 6) == t->session);
	cr_assert_eq(weir_get32(payload + 8), t->number, "token %u, not %u",
		weir_get32(payload + 8), t->number);
	cr_assert(payload[14] == t->k && weir_get16(payload + 18) == t->elements);
}

/* The next packet to the expert at this place is its input. */
static void
expect_input(const struct token *t, unsigned int place)
{
	cr_assert(receive_udp(2 + t->expert[place], UDP, FROM, 0), "no input of token %u, place %u",
		t->number, place);
	check_header(INPUT, t);
	cr_assert_eq(weir_get16(payload + 12), t->expert[place]);
	cr_assert_eq(payload[15], place);
	cr_assert_eq(payload_bytes, HEADER + t->bytes);
	for (unsigned int i = 0; i < t->bytes; i++)
		cr_assert_eq(payload[HEADER + i], input_byte(t, i));
}

static void
expect_sum(const struct token *t)
{
	cr_assert(receive_udp(t->owner, UDP, FROM, 0), "no result of token %u", t->number);
	check_header(RESULT, t);
	cr_assert(payload[16] == 0 && payload[17] == 0);
	cr_assert_eq(payload_bytes, HEADER + 4 * t->elements);
	for (unsigned int e = 0; e < t->elements; e++) {
		float sum = sum_of(t, e);

		cr_assert_eq(memcmp(payload + HEADER + 4 * e, &sum, 4), 0, "token %u, element %u",
			t->number, e);
	}
}

static void
expect_nothing(void)
{
	for (unsigned int host = 0; host < rig.ports; host++)
		cr_assert_not(receive_udp(host, UDP, FROM, 0), "host %u gets a packet of type %u",
			host, payload[3]);
}

/* A token that the cases below change. */
static struct token
plain(uint32_t number)
{
	return (struct token){.k = 2,
		.elements = 4,
		.bytes = 16,
		.session = 9,
		.number = number,
		.expert = {2, 0},
		.weight = {0.75f, -3}};
}

static struct token
any_token(uint32_t number)
{
	struct token t = {.owner = number % OWNERS,
		.k = 1 + (unsigned int)(rig_random(&random_state) % 3),
		.elements = 1 + (unsigned int)(rig_random(&random_state) % ELEMENTS),
		.bytes = (unsigned int)(rig_random(&random_state) % 1200),
		.session = 77,
		.number = UINT32_MAX - TOKENS / 4 + number / OWNERS}; /* wraps */

	for (unsigned int i = 0; i < t.k; i++) {
		t.expert[i] = (uint16_t)(rig_random(&random_state) % EXPERTS);
		t.weight[i] = (float)(rig_random(&random_state) % 1000) / 999;
	}
	return t;
}

/* Everything may be lost, come twice or in another order; the owner repeats. */
ONE_WORKER_AND_TWO(experts, sums_are_exact)
{
	uint64_t repeated = 0;

	begin(workers);
	rig.seed = random_state;
	for (uint32_t n = 0; n < TOKENS; n++) {
		const struct token t = any_token(n);
		unsigned int heard = 0, place;

		while (heard != (1u << t.k) - 1) {
			expect_nothing();
			if (rig_random(&random_state) % 4 != 0)
				send_token(&t);
			else
				continue; /* lost */
			for (place = 0; place < t.k; place++)
				if ((heard >> place & 1) == 0)
					expect_input(&t, place);
			expect_nothing();
			for (unsigned int i = 0; i < t.k + 1; i++) {
				place = (unsigned int)(rig_random(&random_state) % t.k);
				if (rig_random(&random_state) % 4 == 0)
					continue;
				send_output(&t, place);
				if (heard != (1u << t.k) - 1 &&
					(heard | 1u << place) == (1u << t.k) - 1)
					expect_sum(&t);
				repeated += heard >> place & 1;
				heard |= 1u << place;
				expect_nothing();
			}
		}
		if (n % 5 == 0) {
			send_token(&t);
			expect_sum(&t);
		}
	}
	cr_assert_eq(counted("experts_tokens"), TOKENS);
	cr_assert_eq(counted("experts_duplicates"), repeated);
	cr_assert_eq(drops(PPE_DROP_DUPLICATE), repeated);
	cr_assert_eq(
		counted("experts_timeouts") + counted("experts_bad") + counted("experts_stale"), 0);
	finish();
}

ONE_WORKER_AND_TWO(experts, slots_are_reused)
{
	struct token first = plain(5), newer = plain(5 + WINDOW), other = plain(5 + WINDOW);

	begin(workers);
	send_token(&first);
	expect_input(&first, 0);
	expect_input(&first, 1);
	send_output(&first, 1);
	expect_nothing();
	/* A newer token takes the slot of an open one. What comes of that is stale. */
	newer.elements = 7;
	newer.k = 1;
	send_token(&newer);
	expect_input(&newer, 0);
	send_output(&first, 0);
	send_token(&first);
	expect_nothing();
	send_output(&newer, 0);
	expect_sum(&newer);
	send_token(&first);
	send_token(&newer);
	expect_sum(&newer);
	expect_nothing();
	cr_assert_eq(counted("experts_stale"), 3);
	/* A process that began again: another session takes the slot, with any number. */
	other.session = 10;
	other.elements = newer.elements;
	send_token(&other);
	expect_input(&other, 0);
	expect_input(&other, 1);
	send_output(&newer, 0);
	send_output(&other, 1);
	expect_nothing();
	send_output(&other, 0);
	expect_sum(&other);
	expect_nothing();
	cr_assert_eq(counted("experts_stale"), 4);
	cr_assert_eq(counted("experts_tokens"), 3);
	finish();
}

/* Tokens that wait too long: who is missing. */
ONE_WORKER_AND_TWO(experts, timeouts_are_reported)
{
	struct token t = plain(0);

	begin(workers);
	for (unsigned int round = 0; round < 2 * WINDOW; round++) {
		t.number = round;
		t.expert[1] = EXPERTS; /* not registered */
		send_token(&t);
		expect_input(&t, 0);
		if (round % 2 == 0)
			send_output(&t, 0);
		pass_ms(TIMEOUT_MS - 1);
		expect_nothing();
		pass_ms(TIMEOUT_MS / 4 + 2);
		for (unsigned int times = 0; times < 2; times++) {
			cr_assert(receive_udp(0, UDP, FROM, 0), "round %u", round);
			check_header(RESULT, &t);
			cr_assert(payload_bytes == HEADER && payload[16] == 1);
			cr_assert_eq(payload[17], round % 2 == 0 ? 2 : 3);
			send_token(&t);
		}
		discard();
		send_output(&t, 0);
		expect_nothing();
	}
	cr_assert_eq(counted("experts_timeouts"), 2 * WINDOW);
	cr_assert_eq(counted("experts_duplicates"), 2 * WINDOW);
	/* The expert comes, at another host than before. */
	t.number++;
	send_token(&t);
	expect_input(&t, 0);
	send_output(&t, 0);
	enrol(1, EXPERTS);
	rig_rest(&rig);
	send_token(&t);
	cr_assert(receive_udp(1, UDP, FROM, 0) && payload[15] == 1 && payload[3] == INPUT);
	send_udp(1, FROM, UDP, packet, put_output(&t, 1));
	expect_sum(&t);
	expect_nothing();
	finish();
}

/* Send n bytes of `packet` after a change, from a host: dropped, counted as this, and nobody gets anything. */
#define BAD(good, change, n, host)                                                                 \
	do {                                                                                       \
		unsigned int bytes = (good);                                                       \
		change;                                                                            \
		send_udp(host, FROM, UDP, packet, (n) != 0 ? (n) : bytes);                         \
		expect_nothing();                                                                  \
		cr_assert_eq(counted("experts_bad"), ++bad, #change);                              \
	} while (0)

ONE_WORKER_AND_TWO(experts, hostile_packets)
{
	struct token t = plain(3);
	uint64_t bad = 0;

	begin(workers);
	for (unsigned int n = 1; n < HEADER + 16; n++)
		BAD(put_token(&t), , n, 0);
	for (unsigned int byte = 0; byte < 4; byte++)
		BAD(put_token(&t), packet[byte] ^= 0x80, 0, 0);
	BAD(put_token(&t), packet[3] = RESULT, 0, 0);
	BAD(put_token(&t), weir_put16(packet + 4, OWNERS), 0, 0);
	BAD(put_token(&t), weir_put16(packet + 18, ELEMENTS + 1), 0, 0);
	BAD(put_token(&t), weir_put16(packet + 18, 0), 0, 0);
	BAD(put_token(&t), packet[14] = 0, 0, 0);
	BAD(put_token(&t), packet[14] = 4; memset(packet + HEADER + 16, 0, 16), 0, 0);
	BAD(put_token(&t), packet[14] = 255, 0, 0);
	BAD(put_token(&t), weir_put16(packet + HEADER + 8, EXPERTS + 1), 0, 0);
	BAD(put_token(&t), packet[3] = REGISTER; weir_put16(packet + 12, EXPERTS + 1), 0, 0);
	cr_assert_str_eq(said_end, "drop:program");
	send_token(&t);
	cr_assert_str_eq(said_end, "consume");
	expect_input(&t, 0);
	expect_input(&t, 1);
	/* Another host, or another token of this number. */
	BAD(put_token(&t), , 0, 1);
	BAD((t.number += WINDOW, put_token(&t)), , 0, 1);
	t.number -= WINDOW;
	BAD(put_token(&t), packet[14] = 1, 0, 0);
	BAD(put_token(&t), weir_put16(packet + 18, 5), 0, 0);
	/* Outputs: length, place, expert, sender. */
	BAD(put_output(&t, 0), , HEADER + 15, 4);
	BAD(put_output(&t, 0), , HEADER + 17, 4);
	BAD(put_output(&t, 0), packet[15] = 2, 0, 4);
	BAD(put_output(&t, 1), packet[15] = 2, 0, 2);
	BAD(put_output(&t, 0), packet[15] = 200, 0, 4);
	BAD(put_output(&t, 0), weir_put16(packet + 12, 1), 0, 3);
	BAD(put_output(&t, 0), weir_put16(packet + 12, 1), 0, 4);
	BAD(put_output(&t, 0), weir_put16(packet + 12, 999), 0, 4);
	BAD(put_output(&t, 0), weir_put16(packet + 18, 3), HEADER + 12, 4);
	BAD(put_output(&t, 0), , 0, 3);
	cr_assert_eq(drops(PPE_DROP_PROGRAM), bad);
	send_output(&t, 0);
	frame[LOADED_HEADERS + HEADER] ^= 1;
	rig_send(&rig, 4, frame, LOADED_HEADERS + HEADER + 16);
	expect_drop(PPE_DROP_UDP_CHECKSUM, 1);
	send_output(&t, 1);
	expect_sum(&t);
	expect_nothing();
	finish();
}

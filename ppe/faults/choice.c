/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dice of the faults: functions of numbers alone. What is drawn for a packet depends on its
 * number, not on what was drawn before it: one packet more at one port changes nothing at another.
 */
#include <math.h>

#include "ppe/faults/faults_priv.h"

/* The finalizer of splitmix64: every bit of the outcome depends on every bit of x. */
static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t
ppe_fault_key(uint64_t seed, unsigned int rule, unsigned int port, unsigned int queue,
	enum ppe_fault_direction direction)
{
	uint64_t place = (uint64_t)rule << 48 | (uint64_t)port << 32 | (uint64_t)queue << 16 |
		(uint64_t)direction;

	return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ place);
}

uint64_t
ppe_fault_draw(const struct ppe_fault_stream *stream, uint64_t n, unsigned int use)
{
	return mix(stream->key + (n << 8 | use) * UINT64_C(0x9e3779b97f4a7c15));
}

/* Evenly in (0, 1]. */
static double
unit(const struct ppe_fault_stream *stream, uint64_t n, unsigned int use)
{
	return (double)((ppe_fault_draw(stream, n, use) >> 11) + 1) * 0x1p-53;
}

/* Of the draws for one packet, each has its own number; bits to corrupt come from 16 on. */
enum { DRAW_CHANCE, DRAW_STATE, DRAW_DELAY };

bool
ppe_fault_choose(const struct ppe_fault_rule *rule, struct ppe_fault_stream *stream, uint64_t n)
{
	switch (rule->choice) {
	case PPE_FAULT_EVERY: return n % rule->nth == 0;
	case PPE_FAULT_LIST:
		for (unsigned int i = 0; i < rule->ordinals; i++)
			if (rule->ordinal[i] == n)
				return true;
		return false;
	case PPE_FAULT_BURST:
		if (unit(stream, n, DRAW_STATE) <= (stream->bad ? rule->leave : rule->enter))
			stream->bad ^= 1;
		return unit(stream, n, DRAW_CHANCE) <= (stream->bad ? rule->bad : rule->good);
	case PPE_FAULT_CHANCE:
	default: return unit(stream, n, DRAW_CHANCE) <= rule->probability;
	}
}

bool
ppe_fault_in_window(const struct ppe_fault_rule *rule, uint64_t elapsed_ms)
{
	if (rule->repeat_ms != 0)
		elapsed_ms %= rule->repeat_ms;
	return elapsed_ms >= rule->from_ms && (rule->to_ms == 0 || elapsed_ms < rule->to_ms);
}

uint64_t
ppe_fault_delay_us(
	const struct ppe_fault_rule *rule, const struct ppe_fault_stream *stream, uint64_t n)
{
	double u = unit(stream, n, DRAW_DELAY), least = rule->us, most = rule->most_us, us;

	switch (rule->delay) {
	case PPE_FAULT_UNIFORM: us = least + (most - least) * u; break;
	case PPE_FAULT_EXPONENTIAL: us = -least * log(u); break;
	case PPE_FAULT_PARETO: us = least * pow(u, -1 / rule->shape); break;
	case PPE_FAULT_CONSTANT:
	default: return rule->us;
	}
	return (uint64_t)(us < most ? us : most);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host that sums step after step through libweir, as training does, and goes on after failures: what
 * tests stop, kill and start anew.
 *
 *	host_loop SWITCH ADDRESS SOURCE JOB STEPS [OPTION...]
 *
 * SWITCH is the switch's IPv4 address, and JOB the job's id; or the address of its control API, and the job's name.
 *
 *	partial=0|1|2    enum weir_partial	error_feedback=1       error feedback
 *	timeout=MS       of operations		join=MS       of joins
 *	again=N          joins again so often	newcomer=1    takes its step from the others
 *	pause=US         between steps	key=HEX       of an authenticated job
 *	sources=N        that the job must have
 *	nap=MS, at=STEP  computes for so long before this step, once
 *	ahead=BLOCKS     and as long again, some times, until the others are so far ahead
 *
 * Every element of every result is checked. With error feedback, what is contributed is not what is sent, so there
 * the sums of all steps are printed, for the test to compare, when all have met at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/libweir/weir.h"

#define COUNT   700
#define SOURCES 16 /* at most */
#define NOBODY  INT32_MAX
#define NAPS    6 /* one after the other, at most */

static struct {
	struct weir_config config;
	struct weir *weir;
	unsigned int steps, again, pause_us, nap_ms, nap_at, nap_ahead;
	bool newcomer;
	uint64_t wrong, partial, rejoins;
	uint32_t given, got;
} me;

static uint32_t
value(unsigned int source, unsigned int step, unsigned int i)
{
	return (source + 1) * 1000003u * (step + 1) + i;
}

static bool
read_key(const char *hex)
{
	static uint8_t key[WEIR_KEY_BYTES];

	if (strlen(hex) != 2 * sizeof(key))
		return false;
	for (unsigned int i = 0; i < sizeof(key); i++)
		if (sscanf(hex + 2 * i, "%2hhx", &key[i]) != 1)
			return false;
	me.config.key = key;
	me.config.key_bytes = sizeof(key);
	return true;
}

static bool
option(const char *text)
{
	const char *is = strchr(text, '=');
	size_t length = is == NULL ? 0 : (size_t)(is - text);
	unsigned int number = is == NULL ? 0 : (unsigned int)strtoul(is + 1, NULL, 10);

#define IS(name) (length == sizeof(name) - 1 && memcmp(text, name, length) == 0)
	if (IS("partial"))
		me.config.partial = (enum weir_partial)number;
	else if (IS("error_feedback"))
		me.config.error_feedback = number != 0;
	else if (IS("timeout"))
		me.config.op_timeout_ms = number;
	else if (IS("join"))
		me.config.join_timeout_ms = number;
	else if (IS("again"))
		me.again = number;
	else if (IS("newcomer"))
		me.newcomer = number != 0;
	else if (IS("sources"))
		me.config.sources = number;
	else if (IS("pause"))
		me.pause_us = number;
	else if (IS("key"))
		return read_key(is + 1);
	else if (IS("nap"))
		me.nap_ms = number;
	else if (IS("at"))
		me.nap_at = number;
	else if (IS("ahead"))
		me.nap_ahead = number;
	else
		return false;
	return true;
}

/* How many elements of a block are not the sum of those in `present` (NULL: all). */
static unsigned int
wrong_in(const uint32_t *got, unsigned int step, size_t first, size_t count, const uint8_t *present)
{
	unsigned int wrong = 0;

	for (size_t i = first; i < first + count; i++) {
		uint32_t sum = 0;

		for (unsigned int s = 0; s < weir_sources(me.weir); s++)
			if (present == NULL || (present[s / 8] >> s % 8 & 1) != 0)
				sum += value(s, step, (unsigned int)i);
		wrong += got[i] != sum;
	}
	return wrong;
}

static void
check(const uint32_t *got, unsigned int step)
{
	const struct weir_degraded *blocks;
	size_t n = weir_degraded(me.weir, &blocks);
	uint8_t part[COUNT] = {0};

	for (size_t b = 0; b < n; b++) {
		memset(part + blocks[b].first, 1, blocks[b].count);
		me.wrong +=
			wrong_in(got, step, blocks[b].first, blocks[b].count, blocks[b].present);
	}
	for (size_t i = 0; i < COUNT; i++)
		me.wrong += part[i] == 0 && wrong_in(got, step, i, 1, NULL) != 0;
}

/* The least step of all. */
static int
agree(unsigned int *step)
{
	int code;

	do {
		int32_t steps[SOURCES] = {0};

		steps[weir_source(me.weir)] = me.newcomer ? NOBODY : (int32_t)*step;
		code = weir_allreduce(
			me.weir, steps, steps, SOURCES, WEIR_DTYPE_INT32, WEIR_OP_SUM);
		weir_error_feedback_forget(me.weir, steps);
		if (code != 0)
			continue;
		for (unsigned int s = 0; s < weir_sources(me.weir); s++)
			if (steps[s] < (int32_t)*step || me.newcomer) {
				*step = (unsigned int)steps[s];
				me.newcomer = steps[s] == NOBODY;
			}
	} while (code == WEIR_PARTIAL);
	return code;
}

/* One step; zero: contribute nothing. */
static int
sum(unsigned int step, bool zero)
{
	static uint32_t data[COUNT];
	uint32_t given = 0;
	int code;

	for (unsigned int i = 0; i < COUNT; i++)
		given += data[i] = zero ? 0 : value(weir_source(me.weir), step, i);
	code = weir_allreduce(me.weir, data, data, COUNT, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	if (code < 0)
		return code;
	me.given += given;
	for (unsigned int i = 0; i < COUNT; i++)
		me.got += data[i];
	me.partial += code == WEIR_PARTIAL;
	if (!me.config.error_feedback)
		check(data, step);
	return code;
}

static int
fail(int code)
{
	printf("failed: %d %s\n", code, weir_last_error(me.weir));
	fflush(stdout);
	return code;
}

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Computes. Then takes what the others have done meanwhile, and says how long that took. */
static int
nap(unsigned int *step)
{
	const struct timespec t = {me.nap_ms / 1000, me.nap_ms % 1000 * 1000000L};
	unsigned int blocks, first = *step;
	uint64_t ahead, began;
	int code = 0;

	/* On a busy machine the others may need longer. */
	for (unsigned int k = 0; k < NAPS && (k == 0 || weir_unexpected(me.weir) < me.nap_ahead);
		k++)
		nanosleep(&t, NULL);
	blocks = (COUNT + weir_elements(me.weir, WEIR_DTYPE_INT32) - 1) /
		weir_elements(me.weir, WEIR_DTYPE_INT32);
	ahead = weir_unexpected(me.weir);
	began = now_ms();
	while (code >= 0 && weir_unexpected(me.weir) >= blocks)
		code = sum((*step)++, false);
	printf("nap: ahead=%llu steps=%u ms=%llu\n", (unsigned long long)ahead, *step - first,
		(unsigned long long)(now_ms() - began));
	return code;
}

/* Until all steps are done, or nothing helps. */
static int
loop(void)
{
	unsigned int step = 0;
	int code = agree(&step);

	while (step < me.steps) {
		const struct timespec t = {0, me.pause_us * 1000L};

		if (code >= 0 && me.nap_ms != 0 && step == me.nap_at)
			code = nap(&step);
		if (code >= 0)
			code = sum(step, false);
		if (code >= 0) {
			if (++step % 20 == 0)
				printf("at %u\n", step);
			fflush(stdout);
			nanosleep(&t, NULL);
			continue;
		}
		fail(code);
		if (me.rejoins++ == me.again)
			return code;
		code = weir_rejoin(me.weir);
		if (code < 0)
			return fail(code);
		printf("generation: %u\n", weir_generation(me.weir));
		code = agree(&step);
	}
	if (!me.config.error_feedback)
		return code;
	/* All meet, and what is owed is delivered. */
	code = weir_rejoin(me.weir);
	for (int k = 0; k < 2 && code >= 0; k++)
		code = sum(0, true);
	return code < 0 ? fail(code) : 0;
}

int
main(int argc, char **argv)
{
	struct weir_stats stats;
	int code;

	if (argc < 6)
		return 2;
	if (strchr(argv[1], ':') != NULL) {
		me.config.control = argv[1];
		me.config.job_name = argv[4];
	} else {
		me.config.switch_address = argv[1];
		me.config.job = (uint8_t)atoi(argv[4]);
	}
	me.config.address = argv[2];
	me.config.source = atoi(argv[3]);
	me.steps = (unsigned int)atoi(argv[5]);
	for (int i = 6; i < argc; i++)
		if (!option(argv[i]))
			return 2;
	code = weir_open(&me.config, &me.weir);
	if (code < 0) {
		fail(code);
		return 1;
	}
	printf("generation: %u\n", weir_generation(me.weir));
	fflush(stdout);
	code = loop();
	weir_stats(me.weir, &stats);
	printf("done: wrong=%llu partial=%llu rejoins=%llu given=%u got=%u forged=%llu\n",
		(unsigned long long)me.wrong, (unsigned long long)me.partial,
		(unsigned long long)me.rejoins, me.given, me.got, (unsigned long long)stats.forged);
	weir_close(me.weir);
	return code < 0 || me.wrong != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-faults-host: a host of a scenario. It does a collective step after step through libweir, as training
 * does, checks every element, and begins anew after failures: what weir-faults stops, kills and starts again.
 *
 *	weir-faults-host switch=A address=A source=N job=N [WORD=VALUE...]
 *
 * The words are in `words` below. Lines on stdout, each flushed:
 *
 *	generation: G		joined
 *	at N			N operations are done; later on not each is told
 *	wrong: step N: W	W elements of a result are wrong
 *	failed: CODE TEXT	an operation, or a join
 *	end: {JSON}		the last one
 *
 * The reference of a result is computed from the sources' data, which are functions of seed, source
 * and step (apps/perf/perf.h), and the bitmap of who is in it. So that results can be compared
 * among hosts, too, `results` names a file with a line an operation: generation, step, hash of
 * elements and bitmaps. With error feedback, what is sent is more than what is contributed; then the sums of all that
 * was contributed and delivered are told at the end, after all have met and what is owed is delivered.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/faults/collective.h"
#include "apps/faults/flood.h"
#include "apps/perf/perf.h"
#include "apps/libweir/weir.h"

#define SOURCES  256
#define NOBODY   INT32_MAX
#define TELL_ALL 2000 /* operations that are told one by one */
#define TELL_NS  UINT64_C(5000000) /* between two lines `at` of later ones */
#define AGREE    100 /* attempts */
#define SETTLE   1000 /* operations */

static struct options {
	const char *switch_address, *address, *key, *results, *type, *op, *partial, *plant,
		*collective;
	uint64_t source, job, seed, steps, count, error_feedback, timeout_ms, join_ms, again,
		newcomer;
	uint64_t pause_us, slow_ppm, slow_least_us, slow_most_us, plant_step;
	uint64_t flood, bytes, root;
} options = {.type = "int32",
	.op = "sum",
	.partial = "as-is",
	.plant = "",
	.collective = "allreduce",
	.steps = 100,
	.count = 1000};

/* A word of the command line, and where it goes. */
static const struct word {
	const char *name;
	bool text;
	size_t offset;
} words[] = {
#define TEXT(word, field)                                                                          \
	{                                                                                          \
		word, true, offsetof(struct options, field)                                        \
	}
#define NUMBER(word, field)                                                                        \
	{                                                                                          \
		word, false, offsetof(struct options, field)                                       \
	}
	TEXT("switch", switch_address), TEXT("address", address),
	TEXT("key", key), /* a file with 64 hexadecimal digits */
	TEXT("results", results), TEXT("type", type), TEXT("op", op),
	TEXT("partial", partial), /* as-is, fail */
	TEXT("collective", collective), NUMBER("root", root),
	TEXT("plant", plant), /* at plant_step: wrong, hang, leave; to check who watches */
	NUMBER("source", source), NUMBER("job", job), NUMBER("seed", seed),
	NUMBER("steps", steps), /* 0: until killed */
	NUMBER("count", count), /* elements, of one slice where there are slices */
	NUMBER("error_feedback", error_feedback),
	NUMBER("timeout_ms", timeout_ms), /* of an operation */
	NUMBER("join_ms", join_ms), NUMBER("again", again), /* joins again so often */
	NUMBER("newcomer", newcomer), /* 1: takes its step from the others */
	NUMBER("pause_us", pause_us), /* before each step: it computes */
	NUMBER("slow_ppm", slow_ppm), /* and with this chance longer: */
	NUMBER("slow_least_us", slow_least_us), NUMBER("slow_most_us", slow_most_us),
	NUMBER("plant_step", plant_step),
	NUMBER("flood", flood), /* packets a second: do nothing but flood the job */
	NUMBER("bytes", bytes), /* of its packets */
#undef NUMBER
#undef TEXT
};

static struct {
	struct weir *weir;
	struct perf_reference what; /* is done in each step */
	size_t sent, received, bytes; /* its elements, and the bytes of one */
	FILE *results;
	void *send, *recv;
	uint64_t done, wrong, partial, rejoins, told_ns, began_ns, longest_ns, random;
	uint32_t given, got;
} me;

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014) */
static uint64_t
draw(void)
{
	uint64_t z = me.random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static bool
parse(const char *text)
{
	const char *is = strchr(text, '=');
	char *end;

	for (size_t i = 0; is != NULL && i < sizeof(words) / sizeof(words[0]); i++) {
		char *field = (char *)&options + words[i].offset;
		uint64_t number;

		if (strlen(words[i].name) != (size_t)(is - text) ||
			memcmp(words[i].name, text, (size_t)(is - text)) != 0)
			continue;
		if (words[i].text) {
			is++;
			memcpy(field, &is, sizeof(is));
			return true;
		}
		number = strtoull(is + 1, &end, 10);
		memcpy(field, &number, sizeof(number));
		return is[1] != '\0' && *end == '\0';
	}
	return false;
}

/* The key of the job, from a file of hexadecimal digits. */
static bool
read_key(uint8_t key[WEIR_KEY_BYTES])
{
	FILE *file = fopen(options.key, "r");
	bool good = file != NULL;

	for (unsigned int i = 0; good && i < WEIR_KEY_BYTES; i++)
		good = fscanf(file, "%2hhx", &key[i]) == 1;
	if (file != NULL)
		fclose(file);
	return good;
}

static int
fail(int code)
{
	printf("failed: %d %s\n", code, weir_last_error(me.weir));
	fflush(stdout);
	return code;
}

static void
sleep_us(uint64_t us)
{
	const struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	nanosleep(&t, NULL);
}

/* The application computes, a straggler's for longer. */
static void
compute(void)
{
	uint64_t us = options.pause_us;

	if (draw() % 1000000 < options.slow_ppm)
		us += options.slow_least_us +
			draw() % (options.slow_most_us - options.slow_least_us + 1);
	if (us != 0)
		sleep_us(us);
}

/* Check the result of a step, element by element, and what was said of it, and note what it was. */
static int
check(unsigned int step, int code)
{
	uint64_t h = 0, wrong = 0;
	int done;

	me.what.iteration = step;
	done = collective_check(me.weir, &me.what, code, me.recv, &wrong, &h);
	if (done < 0)
		return done;
	if (me.results != NULL && collective_same(me.what.collective))
		fprintf(me.results, "%u %u %016" PRIx64 "\n", weir_generation(me.weir), step, h);
	if (options.error_feedback || wrong == 0)
		return 0;
	me.wrong += wrong;
	printf("wrong: step %u: %" PRIu64 "\n", step, wrong);
	fflush(stdout);
	return 0;
}

/* Where all go on: the least step of those who know one. */
static int
agree(unsigned int *step)
{
	static int32_t steps[SOURCES];
	int code = WEIR_PARTIAL;

	for (int k = 0; k < AGREE && code == WEIR_PARTIAL; k++) {
		int32_t least = NOBODY;

		memset(steps, 0, sizeof(steps));
		steps[options.source] = options.newcomer ? NOBODY : (int32_t)*step;
		code = weir_allreduce(me.weir, steps, steps, weir_sources(me.weir),
			WEIR_DTYPE_INT32, WEIR_OP_SUM);
		weir_error_feedback_forget(me.weir, steps);
		for (unsigned int s = 0; code == 0 && s < weir_sources(me.weir); s++)
			least = steps[s] < least ? steps[s] : least;
		if (code == 0) {
			*step = least == NOBODY ? 0 : (unsigned int)least;
			options.newcomer = 0;
		}
	}
	return code == WEIR_PARTIAL ? -EAGAIN : code;
}

static void
plant(unsigned int step)
{
	if (step != options.plant_step)
		return;
	if (strcmp(options.plant, "wrong") == 0)
		((uint8_t *)me.send)[0] ^= 1;
	if (strcmp(options.plant, "leave") == 0)
		exit(0);
	while (strcmp(options.plant, "hang") == 0)
		pause();
}

/* One step; zero: contribute nothing. */
static int
sum(unsigned int step, bool zero)
{
	uint32_t *send = me.send, *recv = me.recv, given = 0;
	uint64_t began;
	int code;

	perf_data_fill(&me.what.data, (unsigned int)options.source, step, 0, me.sent, send);
	plant(step);
	if (zero)
		memset(send, 0, me.sent * me.bytes);
	for (size_t i = 0; options.error_feedback && i < me.sent; i++)
		given += send[i];
	began = now_ns();
	code = collective_call(me.weir, &me.what, send, recv);
	if (now_ns() - began > me.longest_ns)
		me.longest_ns = now_ns() - began;
	if (code < 0)
		return code;
	me.given += given;
	for (size_t i = 0; options.error_feedback && i < me.received; i++)
		me.got += recv[i];
	me.partial += code == WEIR_PARTIAL;
	return zero ? code : check(step, code);
}

static void
tell(void)
{
	uint64_t now = now_ns();

	if (me.done > TELL_ALL && now - me.told_ns < TELL_NS && me.done != options.steps)
		return;
	me.told_ns = now;
	printf("at %" PRIu64 "\n", me.done);
	fflush(stdout);
}

/* Deliver what is owed: contribute zeros, until each was in each block. All see the same, and end together. */
static int
settle(void)
{
	size_t per_block = weir_elements(me.weir, me.what.data.dtype),
	       blocks = (options.count + per_block - 1) / per_block;
	uint8_t(*in)[COLLECTIVE_BITMAP] = calloc(blocks, sizeof(*in));
	int code = in == NULL ? -ENOMEM : 0;
	bool done = false;

	for (unsigned int k = 0; k < SETTLE && code >= 0 && !done; k++) {
		code = sum(0, true);
		done = code >= 0 && collective_settled(me.weir, &me.what, in, blocks);
	}
	free(in);
	return code >= 0 && !done ? -EAGAIN : code;
}

/* Take a step. When all are taken: meet the others, who may have to take some again, and deliver what is owed. */
static int
advance(unsigned int *step, bool *over)
{
	bool taken = options.steps != 0 && *step >= options.steps;
	int code = !taken ? sum(*step, false) : options.error_feedback ? agree(step) : 0;

	if (code < 0)
		return code;
	if (taken) {
		*over = *step >= options.steps;
		return *over && options.error_feedback ? settle() : 0;
	}
	(*step)++;
	me.done++;
	tell();
	*over = *step == options.steps && !options.error_feedback;
	return 0;
}

/* Until all steps are done, or nothing helps. */
static int
loop(void)
{
	unsigned int step = 0;
	bool over = false;
	int code = agree(&step);

	while (!over || code < 0) {
		compute();
		if (code >= 0)
			code = advance(&step, &over);
		if (code >= 0)
			continue;
		fail(code);
		/* Who has been expelled meets the others in a new generation. */
		if (me.rejoins >= options.again + (options.error_feedback && step == options.steps))
			return code;
		over = false;
		me.rejoins++;
		code = weir_rejoin(me.weir);
		if (code < 0)
			return fail(code);
		printf("generation: %u\n", weir_generation(me.weir));
		code = agree(&step);
	}
	return 0;
}

static void
tell_end(int code)
{
	struct weir_stats stats;

	weir_stats(me.weir, &stats);
	printf("end: {\"code\": %d, \"done\": %" PRIu64 ", \"wrong\": %" PRIu64
	       ", \"partial\": %" PRIu64 ", \"rejoins\": %" PRIu64 ", \"given\": %u, \"got\": %u"
	       ", \"began_ns\": %" PRIu64 ", \"ended_ns\": %" PRIu64 ", \"longest_ns\": %" PRIu64,
		code, me.done, me.wrong, me.partial, me.rejoins, me.given, me.got, me.began_ns,
		now_ns(), me.longest_ns);
#define X(name, help) printf(", \"" #name "\": %" PRIu64, stats.name);
	WEIR_STATS_LIST(X)
#undef X
	printf("}\n");
	fflush(stdout);
}

static int
prepare(void)
{
	int collective = collective_parse(options.collective),
	    dtype = collective_dtype_parse(options.type), op = collective_op_parse(options.op);

	if (collective < 0 || dtype < 0 || op < 0)
		return -EINVAL;
	me.what = (struct perf_reference){
		.data = {.seed = options.seed,
			.dtype = (enum weir_dtype)dtype,
			.op = (enum weir_op)op,
			.ranks = weir_sources(me.weir)},
		.collective = (enum weir_collective)collective,
		.rank = (unsigned int)options.source,
		.root = (unsigned int)options.root,
		.count = options.count,
	};
	me.sent = perf_reference_sent(&me.what);
	me.received = perf_reference_received(&me.what);
	me.random = options.seed + (options.source + 1) * UINT64_C(0xd1342543de82ef95);
	me.bytes = weir_dtype_bytes(me.what.data.dtype);
	me.send = malloc(me.sent * me.bytes + me.bytes);
	me.recv = malloc(me.received * me.bytes + me.bytes);
	if (options.results != NULL)
		me.results = fopen(options.results, "a");
	if (me.send == NULL || me.recv == NULL || (options.results != NULL && me.results == NULL))
		return -ENOMEM;
	if (me.results != NULL)
		setvbuf(me.results, NULL, _IOLBF, 0); /* of who is killed, too */
	me.began_ns = now_ns();
	return 0;
}

static int
flood(void)
{
	const struct flood flood = {
		.switch_address = options.switch_address,
		.address = options.address,
		.job = (uint8_t)options.job,
		.source = (uint8_t)options.source,
		.bytes = (uint32_t)options.bytes,
		.packets_per_s = (uint32_t)options.flood,
		.seed = options.seed,
	};
	int code = flood_run(&flood);

	if (code < 0)
		fprintf(stderr, "weir-faults-host: flood: %s\n", strerror(-code));
	return code < 0 ? 2 : 0;
}

int
main(int argc, char **argv)
{
	uint8_t key[WEIR_KEY_BYTES];
	struct weir_config config;
	int code;

	for (int i = 1; i < argc; i++) {
		if (!parse(argv[i])) {
			fprintf(stderr, "weir-faults-host: %s?\n", argv[i]);
			return 2;
		}
	}
	if (options.flood != 0)
		return flood();
	config = (struct weir_config){
		.switch_address = options.switch_address,
		.address = options.address,
		.job = (uint8_t)options.job,
		.source = (int)options.source,
		.join_timeout_ms = (unsigned int)options.join_ms,
		.op_timeout_ms = (unsigned int)options.timeout_ms,
		.partial = strcmp(options.partial, "fail") == 0 ? WEIR_PARTIAL_FAIL
								: WEIR_PARTIAL_AS_IS,
		.error_feedback = options.error_feedback != 0,
	};
	if (options.key != NULL) {
		if (!read_key(key)) {
			fprintf(stderr, "weir-faults-host: no key in %s\n", options.key);
			return 2;
		}
		config.key = key;
		config.key_bytes = sizeof(key);
	}
	code = weir_open(&config, &me.weir);
	if (code < 0) {
		fail(code);
		weir_close(me.weir);
		return 1;
	}
	code = prepare();
	printf("generation: %u\n", weir_generation(me.weir));
	fflush(stdout);
	if (code == 0)
		code = loop();
	tell_end(code);
	weir_close(me.weir);
	free(me.send);
	free(me.recv);
	if (me.results != NULL)
		fclose(me.results);
	return code < 0 || me.wrong != 0;
}

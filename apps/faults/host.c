/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-faults-host: a host of a scenario. It repeats a collective through libweir, checks every element, and joins
 * again after failures. weir-faults stops, kills and restarts it.
 *
 *	weir-faults-host --switch A --address A --source N --job J [option...]
 *
 * Lines on stdout, each flushed:
 *
 *	generation: G		joined
 *	at N			N operations are done; later on not for each
 *	wrong: step N: W	W elements of a result are wrong
 *	failed: CODE TEXT	an operation, or a join
 *	nap: {JSON}		the end of --nap-ms
 *	end: {JSON}		the last one
 *
 * The reference of a result is computed from the data of the sources in it, functions of seed, source and step
 * (apps/verify/verify.h). --results names a file with a line for each operation, so that results can be compared between
 * hosts: meeting, step, hash of elements and bitmaps. Generations have other numbers at each switch of a tree, so a meeting
 * is a number that the hosts of a generation draw together. With error feedback a host sends more than it contributes; the
 * last line then has the sums of what was contributed and delivered, after all hosts have met.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "apps/libweir/weir.h"
#include "apps/report/options.h"
#include "apps/verify/verify.h"

#define SOURCES    256
#define NOBODY     INT32_MAX
#define TELL_ALL   2000 /* operations with a line each */
#define TELL_NS    UINT64_C(5000000) /* between two lines `at` of later ones */
#define AGREE      100 /* attempts */
#define MEETINGS   (1 << 22) /* their sum over all sources fits */
#define BURST      32 /* packets of a flood */
#define BLOCKS     128 /* of a flood: two windows of the usual size, some open, some over */
#define BYTES_MOST 1400
#define SETTLE     1000 /* operations */
#define NAPS       6 /* one after the other, at most */

static struct options {
	const char *switch_address, *address, *job, *results, *type, *op, *partial, *plant,
		*collective;
	uint64_t source, sources, seed, steps, count, error_feedback, timeout_ms, join_ms, again,
		newcomer;
	uint64_t pause_us, slow_ppm, slow_least_us, slow_most_us, plant_step;
	uint64_t flood, bytes, root, levels, switches;
	struct option_key key;
	uint64_t in_place, nap_ms, nap_step, nap_blocks;
} options = {.job = "0",
	.type = "int32",
	.op = "sum",
	.partial = "as-is",
	.collective = "allreduce",
	.steps = 100,
	.count = 1000,
	.bytes = 200};

static const struct option_row rows[] = {
	{"switch", 0, OPTION_TEXT, &options.switch_address, 0, 0, "IPV4|URL",
		"address of the switch, or of its control API"},
	{"address", 0, OPTION_TEXT, &options.address, 0, 0, "IPV4", "own address"},
	{"job", 0, OPTION_TEXT, &options.job, 0, 0, "NUMBER|NAME",
		"of the switch; with a URL its name"},
	{"source", 0, OPTION_UINT, &options.source, 0, SOURCES - 1, NULL, "this host"},
	{"sources", 0, OPTION_UINT, &options.sources, 0, SOURCES, NULL, "that the job must have"},
	{"key", 0, OPTION_KEY, &options.key, 0, 0, NULL, "with 64 hexadecimal digits"},
	{"seed", 0, OPTION_UINT, &options.seed, 0, 0x1p64, NULL, "of the data"},
	{"steps", 0, OPTION_UINT, &options.steps, 0, 0x1p64, NULL, "operations; 0: until killed"},
	{"collective", 0, OPTION_TEXT, &options.collective, 0, 0, "NAME", "of each step"},
	{"type", 0, OPTION_TEXT, &options.type, 0, 0, "NAME", "of the elements"},
	{"op", 0, OPTION_TEXT, &options.op, 0, 0, "NAME", "of reductions"},
	{"root", 0, OPTION_UINT, &options.root, 0, SOURCES - 1, NULL, "of collectives with a root"},
	{"levels", 0, OPTION_UINT, &options.levels, 0, 8, NULL,
		"of a tree whose switches each round narrow floating point"},
	{"switches", 0, OPTION_UINT, &options.switches, 0, SOURCES, NULL,
		"of this tree, that one block passes"},
	{"count", 0, OPTION_UINT, &options.count, 1, 1 << 24, NULL,
		"elements, of one slice where there are slices"},
	{"in-place", 0, OPTION_UINT, &options.in_place, 0, 1, NULL, "1: one buffer"},
	{"partial", 0, OPTION_CHOICE, &options.partial, 0, 0, "as-is|fail", "partial results"},
	{"error-feedback", 0, OPTION_UINT, &options.error_feedback, 0, 1, NULL,
		"1: add what missed its sum to the next contribution"},
	{"timeout-ms", 0, OPTION_UINT, &options.timeout_ms, 0, 1e9, "MS", "of an operation"},
	{"join-ms", 0, OPTION_UINT, &options.join_ms, 0, 1e9, "MS", "of the join"},
	{"again", 0, OPTION_UINT, &options.again, 0, 1e9, NULL, "times to join again"},
	{"newcomer", 0, OPTION_UINT, &options.newcomer, 0, 1, NULL,
		"1: take the step from the others"},
	{"results", 0, OPTION_TEXT, &options.results, 0, 0, "FILE",
		"gets a line for each operation"},
	{"pause-us", 0, OPTION_UINT, &options.pause_us, 0, 1e9, "US", "before each step"},
	{"slow-ppm", 0, OPTION_UINT, &options.slow_ppm, 0, 1e6, NULL,
		"chance that the pause is longer"},
	{"slow-least-us", 0, OPTION_UINT, &options.slow_least_us, 0, 1e12, "US",
		"by so much at least"},
	{"slow-most-us", 0, OPTION_UINT, &options.slow_most_us, 0, 1e12, "US", "and at most"},
	{"nap-ms", 0, OPTION_UINT, &options.nap_ms, 0, 1e9, "MS", "before --nap-step, once"},
	{"nap-step", 0, OPTION_UINT, &options.nap_step, 0, 1e9, NULL, "of it"},
	{"nap-blocks", 0, OPTION_UINT, &options.nap_blocks, 0, 1e9, NULL,
		"repeat the nap, at most 6 times, until the others are this many blocks ahead"},
	{"plant", 0, OPTION_CHOICE, &options.plant, 0, 0, "wrong|hang|leave",
		"a failure, to test the verdict"},
	{"plant-step", 0, OPTION_UINT, &options.plant_step, 0, 1e9, NULL, "of it"},
	{"flood", 0, OPTION_UINT, &options.flood, 0, 1e9, NULL,
		"packets a second: only flood the job"},
	{"bytes", 0, OPTION_UINT, &options.bytes, WEIR_EXT_BYTES, BYTES_MOST, NULL,
		"of these packets"},
	{0},
};

static struct {
	struct weir *weir;
	struct verify what; /* is called in each step */
	size_t sent, received, bytes; /* its elements, and the bytes of one */
	void *data; /* that this host sends: call.send */
	FILE *results;
	void *send, *recv; /* what is allocated; recv NULL: in place */
	uint64_t done, wrong, partial, rejoins, told_ns, began_ns, longest_ns;
	uint32_t given, got;
	int32_t meeting;
} me;

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
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

/* The application computes; a straggler takes longer. */
static void
compute(void)
{
	uint64_t us = options.pause_us;

	if (drand48() * 1e6 < (double)options.slow_ppm)
		us += options.slow_least_us +
			(uint64_t)(drand48() *
				(double)(options.slow_most_us - options.slow_least_us + 1));
	if (us != 0)
		sleep_us(us);
}

/* Check the result of a step, and note the fingerprint of its elements and of the sources in them. */
static int
check(unsigned int step, int code)
{
	const struct weir_degraded *degraded;
	size_t n = weir_degraded(me.weir, &degraded);
	struct weir_degraded *part = calloc(n + 1, sizeof(*part));
	uint64_t h = VERIFY_FINGERPRINT, wrong;

	if (part == NULL)
		return -ENOMEM;
	if (n != 0)
		memcpy(part, degraded, n * sizeof(*part));
	wrong = verify_wrong(&me.what, part, n);
	/* A partial result that is reported as a complete one, or the other way round. */
	wrong += (n != 0 && !verify_is_whole(&me.what)) != (code == WEIR_PARTIAL);
	for (size_t i = 0; i < n; i++) {
		h = verify_fingerprint(h, &part[i].first, sizeof(part[i].first));
		h = verify_fingerprint(h, part[i].present, sizeof(part[i].present));
	}
	free(part);
	h = verify_fingerprint(h, me.what.call.recv, me.received * me.bytes);
	if (me.results != NULL && verify_is_same(me.what.call.collective))
		fprintf(me.results, "%" PRId32 " %u %016" PRIx64 "\n", me.meeting, step, h);
	if (options.error_feedback || wrong == 0)
		return 0;
	me.wrong += wrong;
	printf("wrong: step %u: %" PRIu64 "\n", step, wrong);
	fflush(stdout);
	return 0;
}

/* Agree on the step to continue with, the lowest of any host that has one, and on a number for the meeting. */
static int
agree(unsigned int *step)
{
	static int32_t steps[SOURCES + 1];
	const unsigned int n = weir_sources(me.weir);
	int code = WEIR_PARTIAL;

	for (int k = 0; k < AGREE && code == WEIR_PARTIAL; k++) {
		int32_t least = NOBODY;

		memset(steps, 0, sizeof(steps));
		steps[options.source] = options.newcomer ? NOBODY : (int32_t)*step;
		steps[n] = (int32_t)(now_ns() % MEETINGS);
		code = weir_allreduce(me.weir, steps, steps, n + 1, WEIR_DTYPE_INT32, WEIR_OP_SUM);
		weir_error_feedback_forget(me.weir, steps);
		for (unsigned int s = 0; code == 0 && s < n; s++)
			least = steps[s] < least ? steps[s] : least;
		if (code == 0) {
			*step = least == NOBODY ? 0 : (unsigned int)least;
			options.newcomer = 0;
			me.meeting = steps[n];
		}
	}
	return code == WEIR_PARTIAL ? -EAGAIN : code;
}

static void
plant(unsigned int step)
{
	if (options.plant == NULL || step != options.plant_step)
		return;
	if (strcmp(options.plant, "wrong") == 0 && me.sent != 0)
		((uint8_t *)me.data)[0] ^= 1;
	if (strcmp(options.plant, "leave") == 0)
		exit(0);
	while (strcmp(options.plant, "hang") == 0)
		pause();
}

/* One step; zero: contribute nothing. */
static int
sum(unsigned int step, bool zero)
{
	const uint32_t *send = me.data, *recv = me.what.call.recv;
	uint32_t given = 0;
	uint64_t began;
	int code;

	me.what.iteration = step;
	verify_fill(&me.what, me.what.rank, 0, me.sent, me.data);
	plant(step);
	if (zero)
		memset(me.data, 0, me.sent * me.bytes);
	for (size_t i = 0; options.error_feedback && i < me.sent; i++)
		given += send[i];
	began = now_ns();
	code = weir_collective(me.weir, &me.what.call, NULL);
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

static size_t
blocks_of_step(void)
{
	return (options.count + me.what.elements - 1) / me.what.elements;
}

/* Add the sources of each block of the last result to in[blocks]. Returns whether each source has been in each block. */
static bool
is_settled(uint8_t (*in)[WEIR_BITMAP_BYTES], size_t blocks)
{
	const struct weir_degraded *part;
	size_t n = weir_degraded(me.weir, &part);

	for (size_t b = 0, i = 0; b < blocks; b++) {
		/* Parts are in no order, and there are few. */
		for (i = 0; i < n && part[i].first / me.what.elements != b;)
			i++;
		for (unsigned int k = 0; k < WEIR_BITMAP_BYTES; k++)
			in[b][k] |= i == n ? 0xff : part[i].present[k];
	}
	for (size_t b = 0; b < blocks; b++)
		for (unsigned int s = 0; s < me.what.ranks; s++)
			if (!(in[b][s / 8] & 1U << s % 8))
				return false;
	return true;
}

/* Deliver what is owed: contribute zeros until each source has been in each block. All hosts see the same
 * results, and end together. */
static int
settle(void)
{
	size_t blocks = blocks_of_step();
	uint8_t(*in)[WEIR_BITMAP_BYTES] = calloc(blocks, sizeof(*in));
	int code = in == NULL ? -ENOMEM : 0;
	bool done = false;

	for (unsigned int k = 0; k < SETTLE && code >= 0 && !done; k++) {
		code = sum(0, true);
		done = code >= 0 && is_settled(in, blocks);
	}
	free(in);
	return code >= 0 && !done ? -EAGAIN : code;
}

/* Compute for long. Then take what the others have done meanwhile, and tell how long that took. */
static int
nap(unsigned int *step)
{
	size_t blocks = blocks_of_step(), ahead = 0;
	unsigned int first = *step;
	uint64_t began;
	int code = 0;

	/* On a busy machine the others may need longer. */
	for (unsigned int k = 0; k < NAPS && (k == 0 || ahead < options.nap_blocks); k++) {
		sleep_us(options.nap_ms * 1000);
		ahead = weir_unexpected(me.weir);
	}
	began = now_ns();
	while (code >= 0 && weir_unexpected(me.weir) >= blocks) {
		code = sum(*step, false);
		*step += code >= 0;
		me.done += code >= 0;
	}
	printf("nap: {\"ahead\": %zu, \"steps\": %u, \"ms\": %" PRIu64 "}\n", ahead, *step - first,
		(now_ns() - began) / 1000000);
	options.nap_ms = 0;
	return code;
}

/* Take a step. After the last one, meet the others, which may have to repeat some steps, and deliver what is owed. */
static int
advance(unsigned int *step, bool *over)
{
	bool taken;
	int code = 0;

	if (options.nap_ms != 0 && *step == options.nap_step)
		code = nap(step);
	taken = options.steps != 0 && *step >= options.steps;
	if (code >= 0)
		code = !taken ? sum(*step, false) : options.error_feedback ? agree(step) : 0;
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

/* Run until all steps are done, or joining again fails. */
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
		/* An expelled host meets the others in a new generation. */
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
	struct verify *v = &me.what;
	int collective = weir_collective_parse(options.collective),
	    dtype = weir_dtype_parse(options.type), op = weir_op_parse(options.op);

	if (collective < 0 || dtype < 0 || op < 0)
		return -EINVAL;
	*v = (struct verify){
		.call = {.collective = collective,
			.count = options.count,
			.dtype = dtype,
			.op = op,
			.root = (unsigned int)options.root},
		.rank = (unsigned int)options.source,
		.ranks = weir_sources(me.weir),
		.seed = options.seed,
		.elements = weir_elements(me.weir, dtype),
		.levels = (unsigned int)options.levels,
		.switches = (unsigned int)options.switches,
	};
	me.sent = verify_sent(v);
	me.received = verify_received(v);
	srand48((long)(options.seed + (options.source + 1) * UINT64_C(0xd1342543de82ef95)));
	me.bytes = weir_dtype_bytes(dtype);
	me.send = malloc((me.sent + me.received + 1) * me.bytes);
	me.recv = options.in_place ? NULL : malloc((me.received + 1) * me.bytes);
	me.data = verify_place(v, me.send, me.recv);
	if (options.results != NULL)
		me.results = fopen(options.results, "a");
	if (me.send == NULL || (me.recv == NULL && !options.in_place) ||
		(options.results != NULL && me.results == NULL))
		return -ENOMEM;
	if (me.results != NULL)
		setvbuf(me.results, NULL, _IOLBF, 0); /* also of a host that is killed */
	me.began_ns = now_ns();
	return 0;
}

static volatile sig_atomic_t ended;

static void
end(int number)
{
	(void)number;
	ended = 1;
}

static int
open_flood(void)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(WEIR_PORT_EXT)};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	if (inet_pton(AF_INET, options.address, &from.sin_addr) == 1 &&
		inet_pton(AF_INET, options.switch_address, &to.sin_addr) == 1 &&
		bind(s, (struct sockaddr *)&from, sizeof(from)) == 0 &&
		connect(s, (struct sockaddr *)&to, sizeof(to)) == 0)
		return s;
	close(s);
	return errno != 0 ? -errno : -EINVAL;
}

/* Send unrequested contributions until SIGINT or SIGTERM. Returns the exit status. */
static int
flood(void)
{
	const struct timespec pause = {
		0, (long)(UINT64_C(1000000000) * BURST / options.flood % 1000000000)};
	uint8_t packet[BYTES_MOST];
	uint64_t bytes = options.bytes;
	struct weir_header header = {
		.job_id = (uint8_t)atoi(options.job),
		.src_id = (uint8_t)options.source,
		.extended = true,
		.grad_cnt = (uint16_t)((bytes - WEIR_EXT_BYTES) / 4),
		.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.op = WEIR_OP_SUM,
		.dtype = WEIR_DTYPE_INT32,
		.gen_id = 1,
	};
	uint64_t sent = 0;
	int s = open_flood();

	if (s < 0) {
		fprintf(stderr, "weir-faults-host: flood: %s\n", strerror(-s));
		return STATUS_FAILED;
	}
	signal(SIGINT, end);
	signal(SIGTERM, end);
	srand48((long)options.seed);
	while (!ended) {
		for (int i = 0; i < BURST; i++) {
			unsigned int at;

			header.block_id = (uint32_t)mrand48() % BLOCKS;
			for (at = weir_header_write(&header, packet); at < bytes; at++)
				packet[at] = (uint8_t)mrand48();
			sent += send(s, packet, bytes, MSG_DONTWAIT) == (ssize_t)bytes;
		}
		nanosleep(&pause, NULL);
	}
	printf("flood: %" PRIu64 " sent\n", sent);
	close(s);
	return 0;
}

int
main(int argc, char **argv)
{
	struct weir_config config;
	unsigned long job;
	bool has_url;
	char *end;
	int code;

	options_parse("weir-faults-host", "A host of a scenario of weir-faults.", NULL,
		(const struct option_row *[]){rows, NULL}, argc, argv);
	if (options.flood != 0)
		return flood();
	if (options.switch_address == NULL)
		errx(STATUS_USAGE, "--switch is missing");
	has_url = strchr(options.switch_address, ':') != NULL;
	job = strtoul(options.job, &end, 10);
	if (!has_url && (end == options.job || *end != '\0' || job > UINT8_MAX))
		errx(STATUS_USAGE, "--job %s: not a number in 0..255", options.job);
	config = (struct weir_config){
		.control = has_url ? options.switch_address : NULL,
		.job_name = has_url ? options.job : NULL,
		.switch_address = has_url ? NULL : options.switch_address,
		.job = (uint8_t)job,
		.address = options.address,
		.key = options.key.bytes != 0 ? options.key.byte : NULL,
		.key_bytes = options.key.bytes,
		.source = (int)options.source,
		.sources = (unsigned int)options.sources,
		.join_timeout_ms = (unsigned int)options.join_ms,
		.op_timeout_ms = (unsigned int)options.timeout_ms,
		.partial = strcmp(options.partial, "fail") == 0 ? WEIR_PARTIAL_FAIL
								: WEIR_PARTIAL_AS_IS,
		.error_feedback = options.error_feedback != 0,
	};
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

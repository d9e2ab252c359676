/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench scrape: what the readers of /metrics cost a switch under load. The same switch with
 * the same contributions, read every so often and not read, in turns. Besides the job under load
 * it has as many quiet jobs as asked for, so that the answer is long.
 *
 * The reader and the switch's control thread share the generator's CPU, so what the scheduler took
 * from the generator counts as cost here: on a machine with a CPU for each, a scrape costs less
 * than this says. Short intervals make a small cost visible; what one read each second costs is
 * the cost of a read that they found, spread over a second.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <bsd/string.h>

#include "apps/bench/contributions.h"
#include "apps/bench/target.h"

#define LIMIT_S    5 /* for an answer */
#define AIM_S      0.01 /* of throughput, for a read */
#define ROUNDS_MAX 99
#define READS_MIN  8 /* in a measurement */

static uint64_t sources = 8, window = 64, jobs = 64, job_sources = 64;
static struct bench_list elements = {2, {1024, 64}};
static struct bench_list every = {2, {100, 20}};

static const struct bench_option options[] = {
	{"elements", BENCH_LIST, &elements, 1, 2000, NULL, "elements of a contribution, fp32"},
	{"every", BENCH_LIST, &every, 5, 10000, NULL, "milliseconds from one read to the next"},
	{"sources", BENCH_UINT, &sources, 2, TARGET_SOURCES_MAX, NULL, "sources of the job"},
	{"window", BENCH_UINT, &window, 1, TARGET_WINDOW_MAX, NULL,
		"blocks in flight, a power of two"},
	{"quiet-jobs", BENCH_UINT, &jobs, 0, 64, NULL, "jobs without traffic beside it"},
	{"quiet-sources", BENCH_UINT, &job_sources, 1, TARGET_SOURCES_MAX, NULL,
		"sources of each of those"},
	TARGET_OPTIONS,
	{0},
};

/* Who reads: a thread, while a measurement lasts. */
struct reader {
	char path[CHILD_PATH_MAX]; /* of the switch's Unix socket */
	uint64_t every_ms;
	atomic_bool stop;
	/* The reader's own until it is joined. */
	unsigned int reads;
	uint64_t bytes; /* of the last answer */
	double seconds; /* of all answers */
	char error[128]; /* "": none */
};

static double
now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Bytes of the answer, 0 after reader->error. */
static uint64_t
read_answer(struct reader *reader, int fd)
{
	static const char request[] =
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	static const char good[] = "HTTP/1.1 200 ";
	struct timeval limit = {.tv_sec = LIMIT_S};
	char first[sizeof(good)] = "", buffer[65536];
	uint64_t bytes = 0;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != sizeof(request) - 1) {
		snprintf(reader->error, sizeof(reader->error), "can't ask: %s", strerror(errno));
		return 0;
	}
	while ((n = recv(fd, buffer, sizeof(buffer), 0)) > 0) {
		if (bytes == 0)
			memcpy(first, buffer, RTE_MIN((size_t)n, sizeof(good) - 1));
		bytes += (uint64_t)n;
	}
	if (n < 0)
		snprintf(reader->error, sizeof(reader->error), "no answer within %d s: %s", LIMIT_S,
			strerror(errno));
	else if (strcmp(first, good) != 0)
		snprintf(reader->error, sizeof(reader->error), "it answers '%s'", first);
	return reader->error[0] == '\0' ? bytes : 0;
}

static void
read_once(struct reader *reader)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	double began = now_s();

	strlcpy(address.sun_path, reader->path, sizeof(address.sun_path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		snprintf(reader->error, sizeof(reader->error), "%.80s: %s", reader->path,
			strerror(errno));
	else
		reader->bytes = read_answer(reader, fd);
	if (fd >= 0)
		close(fd);
	reader->seconds += now_s() - began;
	reader->reads += reader->error[0] == '\0';
}

/* On a schedule: a slow answer does not make the next one late. */
static void *
read_on(void *context)
{
	struct reader *reader = context;
	double due = now_s();

	while (!atomic_load(&reader->stop) && reader->error[0] == '\0') {
		read_once(reader);
		for (due += (double)reader->every_ms * 1e-3;
			now_s() < due && !atomic_load(&reader->stop);)
			usleep(1000);
	}
	return NULL;
}

/* The rate of the whole time, also of that in which the generator had no CPU: the reader took it.
 * BENCH_NONE after a line. */
static double
unread_rate(struct contributions *c, const struct reader *reader)
{
	uint64_t ms = RTE_MAX(bench_common.phase_ms, READS_MIN * reader->every_ms);
	struct closed_loop loop = {0};

	return contributions_run(c, ms, &loop) == 0 ? loop.whole : BENCH_NONE;
}

static double
read_rate(struct contributions *c, struct reader *reader)
{
	pthread_t thread;
	double rate;
	int rc;

	atomic_store(&reader->stop, false);
	rc = pthread_create(&thread, NULL, read_on, reader);
	if (rc != 0) {
		fprintf(stderr, "weir-bench: no thread to read with: %s\n", strerror(rc));
		return BENCH_NONE;
	}
	rate = unread_rate(c, reader);
	atomic_store(&reader->stop, true);
	pthread_join(thread, NULL);
	if (reader->error[0] == '\0')
		return rate;
	fprintf(stderr, "weir-bench: /metrics: %s\n", reader->error);
	return BENCH_NONE;
}

/* Both rates of the round whose ratio is in the middle. */
struct rounds {
	double read, unread;
};

static int
by_ratio(const void *a, const void *b)
{
	const struct rounds *x = a, *y = b;
	double rx = x->read * y->unread, ry = y->read * x->unread;

	return (rx > ry) - (rx < ry);
}

/* 0, or -1 after a line. */
static int
measure(struct target *target, struct contributions *c, struct reader *reader,
	struct rounds *middle)
{
	struct rounds round[ROUNDS_MAX];
	unsigned int n = (unsigned int)RTE_MIN(bench_common.repeat, ROUNDS_MAX);

	for (unsigned int i = 0; i < n; i++) {
		target_select(target);
		for (unsigned int turn = 0; turn < 2; turn++) {
			if ((i + turn) % 2 == 0)
				round[i].read = read_rate(c, reader);
			else
				round[i].unread = unread_rate(c, reader);
		}
		target_deselect(target);
		if (round[i].read <= 0 || round[i].unread <= 0)
			return -1;
	}
	qsort(round, n, sizeof(round[0]), by_ratio);
	*middle = round[n / 2];
	return 0;
}

static void
header(FILE *out)
{
	fprintf(out,
		"# scrape: /metrics of a switch with %" PRIu64 " quiet jobs of %" PRIu64
		" sources and one under load (%" PRIu64 " sources, window %" PRIu64
		", results by multicast), over %s, %s pages\n"
		"# rates are of the whole time, with what reader and control thread took from the "
		"generator; each second: what a read cost, once a second\n"
		"#%9s %8s %6s %9s %9s %12s %12s %6s %8s %11s\n"
		"#%9s %8s %6s %9s %9s %12s %12s %6s %8s %11s\n",
		jobs, job_sources, sources, window, target_options.over,
		bench_on_huge_pages() ? "huge" : "4 KiB", "elements", "every", "reads", "answer",
		"answer", "contrib/s", "contrib/s", "ratio", "cost", "each second", "", "ms", "",
		"KiB", "ms", "read", "not read", "", "us/read", "%");
	fflush(out);
}

static void
row(struct bench_report *report, unsigned int n, const struct reader *reader,
	const struct rounds *rate)
{
	double ratio = rate->read / rate->unread, cost_s = (1 - ratio) * 1e-3;
	double answer_s = reader->seconds / reader->reads;
	json_t *params = json_pack("{sisisisisisiss}", "elements", (int)n, "every_ms",
		(int)reader->every_ms, "sources", (int)sources, "window", (int)window, "quiet_jobs",
		(int)jobs, "quiet_sources", (int)job_sources, "over", target_options.over);

	cost_s *= (double)reader->every_ms;
	fprintf(bench_table(report),
		"%10u %8" PRIu64 " %6u %9.1f %9.2f %12.0f %12.0f %6.3f %8.0f %11.2f\n", n,
		reader->every_ms, reader->reads, (double)reader->bytes / 1024, answer_s * 1e3,
		rate->read, rate->unread, ratio, cost_s * 1e6, cost_s * 1e2);
	fflush(bench_table(report));
	bench_observe(report,
		json_pack("{sisfsI}", "reads", (int)reader->reads, "answer_s", answer_s,
			"answer_bytes", (json_int_t)reader->bytes));
	bench_add(report, "contributions", json_incref(params), rate->read, "1/s", rate->unread,
		"the same switch, not read");
	bench_add(report, "cost_of_a_read", params, cost_s, "s", AIM_S, "1 % of a second");
}

static int
points(struct bench_report *report, struct target *target, unsigned int n)
{
	struct contributions_config config = {.target = target,
		.sources = (unsigned int)sources,
		.window = (unsigned int)window,
		.elements = n,
		.multicast = true};
	struct contributions *c = contributions_create(&config);
	int rc = c == NULL ? -1 : 0;

	for (unsigned int i = 0; rc == 0 && i < every.count; i++) {
		struct reader reader = {.every_ms = every.value[i]};
		struct rounds rate;

		target_api(reader.path, sizeof(reader.path));
		bench_progress(report, "%u elements, read every %" PRIu64 " ms", n, every.value[i]);
		rc = measure(target, c, &reader, &rate);
		bench_progress(report, NULL);
		if (rc == 0)
			row(report, n, &reader, &rate);
	}
	contributions_destroy(c);
	return rc == 0 ? 0 : 1;
}

static int
size(struct bench_report *report, unsigned int n)
{
	static struct target target;
	struct target_config config = {
		.frame_bytes = contributions_frame_bytes(n) + 4,
		.sources = (unsigned int)sources,
		.window = (unsigned int)window,
		.elements = n,
		.quiet_jobs = (unsigned int)jobs,
		.quiet_sources = (unsigned int)job_sources,
		.api = true,
	};
	int rc;

	bench_progress(report, "starting the switch for %u elements", n);
	rc = target_start_switch(&target, &config) < 0;
	if (rc == 0)
		rc = points(report, &target, n);
	return (target_stop(&target) < 0) | rc;
}

static int
run(struct bench_report *report)
{
	int rc;

	if ((window & (window - 1)) != 0) {
		fprintf(stderr, "weir-bench: --window must be a power of two\n");
		return 2;
	}
	rc = target_enter();
	if (rc == 0)
		header(bench_table(report));
	for (unsigned int i = 0; rc == 0 && i < elements.count; i++)
		rc = size(report, (unsigned int)elements.value[i]);
	target_leave();
	return child_interrupted() ? 1 : rc;
}

const struct bench bench_scrape = {
	"scrape", "what reading /metrics costs a switch under load", options, run};

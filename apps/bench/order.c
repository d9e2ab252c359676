/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench order: what it costs to add floating-point numbers so that the order of arrival does not
 * matter. The arithmetic and the copies alone, on one core, for blocks in flight side by side; the limit is
 * the sum as contributions come. Time is CPU time.
 *
 * Each method's results are compared with those of another order of arrival, bit by bit: a method that
 * gives others fails the bench, and so does the plain sum if it doesn't, for then the data shows nothing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rte_common.h>

#include "apps/bench/bench.h"
#include "apps/bench/order_methods.h"

#define HUGE    (UINT64_C(2) << 20)
#define HEADERS 58 /* of a packet, before the payload */
#define BATCH   64 /* contributions between looks at the clock */

static struct bench_list sources = {3, {2, 8, 64}};
static uint64_t elements = 256, window = 64, frames = 4096;

static const struct bench_option options[] = {
	{"sources", BENCH_LIST, &sources, 2, ORDER_SOURCES_MAX, NULL, "contributions to a block"},
	{"elements", BENCH_UINT, &elements, 1, 4095, NULL, "of a contribution, fp32"},
	{"window", BENCH_UINT, &window, 1, 1024, NULL, "blocks in flight"},
	{"frames", BENCH_UINT, &frames, 64, 100000, NULL,
		"packets in rotation, at least a window's"},
	{0},
};

enum arrival { IN_ORDER, SHUFFLED, REVERSED, ARRIVALS };
static const char *const arrival_name[ARRIVALS] = {"in order", "shuffled", "reversed"};

struct run {
	struct order_state state;
	uint8_t *memory[3]; /* payloads, accumulators, pieces */
	size_t length[3], stride; /* stride: of a packet */
	unsigned int rows, row; /* sets of contributions to a window of blocks */
	uint32_t *step[ARRIVALS]; /* block << 16 | rank */
	unsigned int steps, at;
};

static uint64_t
next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void *
map(size_t *length)
{
	void *memory;

	*length = RTE_ALIGN(*length + HUGE, HUGE);
	memory = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, *length, MADV_HUGEPAGE);
	return memory;
}

/* Numbers of 40 binary magnitudes: an addition of two of them mostly rounds. */
static void
fill(struct run *r)
{
	size_t packets = (size_t)r->rows * r->state.depth * r->state.sources;
	uint64_t random = 1;

	for (size_t p = 0; p < packets; p++)
		for (size_t i = 0; i < r->state.bytes; i += 4) {
			uint64_t word = next_random(&random);
			uint32_t bits = (uint32_t)(word & 0x807fffff) |
				(uint32_t)(107 + (word >> 32) % 40) << 23;

			memcpy(r->memory[0] + p * r->stride + HEADERS + i, &bits, sizeof(bits));
		}
}

static void
arrange(struct run *r)
{
	unsigned int n = r->state.sources, depth = r->state.depth;
	uint64_t random = 7;

	for (unsigned int b = 0; b < depth; b++) {
		unsigned int rank[ORDER_SOURCES_MAX];

		for (unsigned int i = 0; i < n; i++) {
			unsigned int j = (unsigned int)(next_random(&random) % (i + 1));

			rank[i] = rank[j];
			rank[j] = i;
		}
		for (unsigned int i = 0; i < n; i++) {
			r->step[IN_ORDER][i * depth + b] = b << 16 | i;
			r->step[SHUFFLED][i * depth + b] = b << 16 | rank[i];
			r->step[REVERSED][i * depth + b] = b << 16 | (n - 1 - i);
		}
	}
	r->steps = n * depth;
}

static void
destroy(struct run *r)
{
	for (unsigned int i = 0; i < 3; i++)
		if (r->memory[i] != NULL)
			munmap(r->memory[i], r->length[i]);
	for (unsigned int i = 0; i < ARRIVALS; i++)
		free(r->step[i]);
	free(r->state.piece);
	free(r->state.block);
}

static int
create(struct run *r, unsigned int n)
{
	struct order_state *s = &r->state;
	size_t acc;

	*s = (struct order_state){.sources = n,
		.elements = (unsigned int)elements,
		.bytes = 4 * elements,
		.sum = rmw_reduction(RMW_TYPE_FP32, RMW_OP_SUM),
		.copy = rmw_kernel_copy(),
		.depth = (unsigned int)window,
		.pieces = (unsigned int)window * n};
	/* A line apart, as DataMemory's headers keep them; and packets as their pools do. */
	acc = RTE_ALIGN(order_methods[order_methods_count - 1].acc_bytes * elements, 64u) + 64;
	r->stride = RTE_ALIGN(s->bytes + HEADERS, 64u) + 256;
	r->rows = (unsigned int)RTE_MAX(frames / (window * n), UINT64_C(1));
	r->length[0] = r->stride * r->rows * window * n;
	r->length[1] = acc * window;
	r->length[2] = (RTE_ALIGN(s->bytes, 64u) + 64) * s->pieces;
	for (unsigned int i = 0; i < 3; i++) {
		r->memory[i] = map(&r->length[i]);
		if (r->memory[i] == NULL)
			return -1;
	}
	s->piece = calloc(s->pieces, sizeof(*s->piece));
	s->block = calloc(window, sizeof(*s->block));
	for (unsigned int i = 0; i < ARRIVALS; i++) {
		r->step[i] = calloc(window * n, sizeof(*r->step[i]));
		if (r->step[i] == NULL)
			return -1;
	}
	if (s->piece == NULL || s->block == NULL)
		return -1;
	for (unsigned int b = 0; b < window; b++)
		s->block[b].acc = r->memory[1] + b * acc;
	for (unsigned int i = s->pieces; i-- > 0;)
		s->piece[s->nb_pieces++] = r->memory[2] + i * (RTE_ALIGN(s->bytes, 64u) + 64);
	fill(r);
	arrange(r);
	return 0;
}

/* One contribution; its payload lies where a packet's would. */
static inline void
one(struct run *r, const struct order_method *method, enum arrival arrival)
{
	uint32_t step = r->step[arrival][r->at], rank = step & 0xffff, block = step >> 16;
	size_t packet = ((size_t)r->row * r->state.depth + block) * r->state.sources + rank;

	method->add(&r->state, &r->state.block[block], rank,
		r->memory[0] + packet * r->stride + HEADERS);
	if (++r->at == r->steps) {
		r->at = 0;
		r->row = r->row + 1 == r->rows ? 0 : r->row + 1;
	}
}

static double
cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds per element of a contribution. */
static double
time_of(struct run *r, const struct order_method *method, enum arrival arrival)
{
	double begin = cpu_now(), last = begin + (double)bench_common.phase_ms * 1e6, now;
	uint64_t done = 0;

	r->state.least = r->state.nb_pieces;
	do {
		for (unsigned int i = 0; i < BATCH; i++)
			one(r, method, arrival);
		done += BATCH;
		now = cpu_now();
	} while (now < last);
	/* To where all blocks are over. */
	while (r->at != 0) {
		one(r, method, arrival);
		done++;
	}
	return (cpu_now() - begin) / ((double)done * (double)elements);
}

/* Are the results of two orders the same, of all blocks of a row? */
static bool
same(struct run *r, const struct order_method *method)
{
	unsigned int depth = r->state.depth;
	float *first = malloc(depth * r->state.bytes);
	bool equal = first != NULL;

	for (unsigned int pass = 0; first != NULL && pass < 2; pass++) {
		r->row = 0;
		for (unsigned int i = 0; i < r->steps; i++) {
			unsigned int block;
			size_t at;

			r->state.result = NULL;
			block = r->step[SHUFFLED][r->at] >> 16;
			one(r, method, pass == 0 ? IN_ORDER : SHUFFLED);
			at = (size_t)block * elements;
			if (r->state.result == NULL)
				continue;
			if (pass == 0)
				memcpy(first + at, r->state.result, r->state.bytes);
			else
				equal &= memcmp(first + at, r->state.result, r->state.bytes) == 0;
		}
	}
	free(first);
	return equal;
}

static int
check(struct run *r)
{
	for (unsigned int m = 0; m < order_methods_count; m++) {
		bool expected = m > 0 || r->state.sources == 2; /* a + b = b + a */

		if (same(r, &order_methods[m]) == expected)
			continue;
		fprintf(stderr, "weir-bench: %u sources, %s: results %s\n", r->state.sources,
			order_methods[m].name, expected ? "differ by the order" : "do not differ");
		return -1;
	}
	return 0;
}

static void
report_point(struct bench_report *report, const struct run *r, const struct order_method *method,
	enum arrival arrival, double time, double plain, double used)
{
	const struct order_state *s = &r->state;
	double keeps = (double)method->reserve(s->sources, s->bytes) / (double)elements +
		(double)method->acc_bytes;

	fprintf(bench_table(report), " %8u %-9s %-11s %10.3f %8.2f %12.0f %9.1f\n", s->sources,
		arrival_name[arrival], method->name, time, time / plain, keeps,
		used / (double)elements + (double)method->acc_bytes);
	bench_observe(report, json_pack("{s:f,s:f}", "reserved", keeps, "used", used));
	bench_add(report, "time",
		json_pack("{s:i,s:s,s:s,s:i,s:i}", "sources", (int)s->sources, "arrival",
			arrival_name[arrival], "method", method->name, "elements", (int)elements,
			"window", (int)window),
		time, "ns/element", plain, "as they come, in the same run");
}

/* All methods for one order, a phase of each in turn. */
static void
measure(struct bench_report *report, struct run *r, enum arrival arrival)
{
	double time[8][99], used[8] = {0}, plain;

	for (uint64_t n = 0; n < bench_common.repeat; n++)
		for (unsigned int m = 0; m < order_methods_count; m++) {
			bench_progress(report, "%u sources, %s, %s", r->state.sources,
				arrival_name[arrival], order_methods[m].name);
			time[m][n] = time_of(r, &order_methods[m], arrival);
			used[m] = (double)(r->state.pieces - r->state.least) *
				(double)r->state.bytes / (double)window;
		}
	bench_progress(report, NULL);
	plain = bench_median(time[0], bench_common.repeat);
	for (unsigned int m = 0; m < order_methods_count; m++)
		report_point(report, r, &order_methods[m], arrival,
			bench_median(time[m], bench_common.repeat), plain, used[m]);
	fflush(bench_table(report));
}

static int
run(struct bench_report *report)
{
	int rc = 0;

	fprintf(bench_table(report),
		"# one core, fp32, %" PRIu64 " elements, %" PRIu64 " blocks in flight\n"
		"#%8s %-9s %-11s %10s %8s %12s %9s\n#%8s %-9s %-11s %10s %8s %12s %9s\n",
		elements, window, "sources", "arrival", "added", "time", "to plain", "reserved",
		"touched", "", "", "", "ns/element", "", "B/element", "B/element");
	for (unsigned int i = 0; i < sources.count && rc == 0; i++) {
		struct run r = {0};

		rc = create(&r, (unsigned int)sources.value[i]);
		if (rc < 0)
			fprintf(stderr, "weir-bench: out of memory\n");
		else
			rc = check(&r);
		for (unsigned int a = 0; a < ARRIVALS && rc == 0; a++)
			measure(report, &r, a);
		destroy(&r);
	}
	return rc < 0 ? 1 : 0;
}

const struct bench bench_order = {
	.name = "order",
	.help = "what sums cost that do not depend on the order of arrival",
	.options = options,
	.run = run,
};

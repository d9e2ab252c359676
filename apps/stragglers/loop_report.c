/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/loop.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What the iterations add up to. */
struct sums {
	uint64_t slow, slow_us, partial, missed, given_up;
};

static struct sums
add_up(const struct loop_run *run)
{
	struct sums sums = {0};

	for (unsigned int k = 0; k < run->done; k++) {
		const struct loop_iteration *it = &run->iterations[k];

		sums.slow += it->slow_us != 0;
		sums.slow_us += it->slow_us;
		sums.partial += it->partial_blocks != 0;
		sums.missed += it->missed;
		sums.given_up += it->given_up;
	}
	return sums;
}

/* Sources in a result, on average. */
static double
sources_mean(const struct loop_run *run)
{
	return run->results == 0 ? 0 : (double)run->contributions / (double)run->results;
}

void
loop_report(const struct loop_run *run)
{
	struct sums sums = add_up(run);

	printf("weir-loop: rank %u of %u: %u iterations of %.3f ms; slowed in %llu by %.3f ms in "
	       "all; "
	       "partial %llu, missed %llu, given up %llu; %.2f sources in a result; %llu wrong\n",
		run->rank, run->ranks, run->done,
		run->done == 0 ? 0 : (double)run->us / 1e3 / run->done,
		(unsigned long long)sums.slow, (double)sums.slow_us / 1e3,
		(unsigned long long)sums.partial, (unsigned long long)sums.missed,
		(unsigned long long)sums.given_up, sources_mean(run),
		(unsigned long long)run->wrong);
}

static json_t *
iterations(const struct loop_run *run)
{
	json_t *list = json_array();

	for (unsigned int k = 0; k < run->done; k++) {
		const struct loop_iteration *it = &run->iterations[k];

		json_array_append_new(list,
			json_pack("{s:I, s:I, s:I, s:b, s:b}", "us", (json_int_t)it->us, "slow_us",
				(json_int_t)it->slow_us, "partial_blocks",
				(json_int_t)it->partial_blocks, "missed", it->missed, "given_up",
				it->given_up));
	}
	return list;
}

static json_t *
statistics(const struct loop_run *run)
{
	json_t *found = json_object();
	struct weir_stats stats = {0};

	weir_stats(run->weir, &stats);
#define X(name, help) json_object_set_new(found, #name, json_integer((json_int_t)stats.name));
	WEIR_STATS_LIST(X)
#undef X
	return found;
}

static json_t *
report(const struct loop_run *run, const char *error)
{
	const struct loop_options *o = run->options;
	struct sums sums = add_up(run);

	return json_pack(
		"{s:i, s:i, s:I, s:I, s:i, s:i, s:I, s:i, s:i, s:i, s:f, s:i, s:I, s:I, s:I, "
		"s:I, s:I, s:f, s:I, s:o, s:o, s:s?}",
		"rank", (int)run->rank, "ranks", (int)run->ranks, "seed", (json_int_t)o->seed,
		"elements", (json_int_t)run->plan.elements, "tensors", (int)run->plan.tensors,
		"buckets", (int)run->plan.buckets, "blocks", (json_int_t)run->blocks, "compute_us",
		(int)o->compute_us, "slow_ppm", (int)o->slow_ppm, "slow_unit_us",
		(int)o->slow_unit_us, "seconds", (double)run->us / 1e6, "iterations",
		(int)run->done, "slowed", (json_int_t)sums.slow, "slow_us",
		(json_int_t)sums.slow_us, "partial", (json_int_t)sums.partial, "missed",
		(json_int_t)sums.missed, "given_up", (json_int_t)sums.given_up, "sources_mean",
		sources_mean(run), "wrong", (json_int_t)run->wrong, "each", iterations(run),
		"stats", statistics(run), "error", error);
}

int
loop_report_json(const struct loop_run *run, const char *error)
{
	const char *path = run->options->json;
	json_t *root;
	int code = 0;

	if (path == NULL)
		return 0;
	root = report(run, error);
	errno = 0;
	if (root == NULL || json_dump_file(root, path, JSON_INDENT(1)) != 0) {
		code = errno != 0 ? -errno : -EIO;
		loop_say(run, "%s: %s", path, strerror(-code));
	}
	json_decref(root);
	return code;
}

void
loop_say(const struct loop_run *run, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "weir-loop: rank %u: ", run->rank);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

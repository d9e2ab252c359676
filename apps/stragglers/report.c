/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What the iterations add up to. */
struct sums {
	uint64_t slowed, slow_us, partial, partial_blocks, missed, given_up;
};

static struct sums
add_up(const struct train_run *run)
{
	struct sums sums = {0};

	for (unsigned int k = 0; k < run->done; k++) {
		const struct train_iteration *it = &run->iterations[k];

		sums.slowed += it->slow_us != 0;
		sums.slow_us += it->slow_us;
		sums.partial += it->partial_blocks != 0;
		sums.partial_blocks += it->partial_blocks;
		sums.missed += it->missed;
		sums.given_up += it->given_up;
	}
	return sums;
}

/* Sources in a result, on average. */
static double
sources_mean(const struct train_run *run)
{
	return run->results == 0 ? 0 : (double)run->contributions / (double)run->results;
}

void
train_report_mark(const struct train_run *run)
{
	const struct train_mark *m = &run->marks[run->mark_count - 1];

	if (run->rank != 0)
		return;
	printf("iteration %u, %.3f s: loss %.4f, accuracy %.2f %%\n", m->iteration, m->seconds,
		m->score.loss, 100 * m->score.accuracy);
	fflush(stdout);
}

void
train_report_end(const struct train_run *run)
{
	struct sums s = add_up(run);

	printf("weir-train: rank %u of %u: %u iterations of %.3f ms; slow in %" PRIu64
	       " by %.3f ms in all; partial %" PRIu64 ", missed %" PRIu64 ", given up %" PRIu64
	       "; %.2f sources in a result; ",
		run->rank, run->ranks, run->done,
		run->done == 0 ? 0 : (double)run->us / 1e3 / run->done, s.slowed,
		(double)s.slow_us / 1e3, s.partial, s.missed, s.given_up, sources_mean(run));
	if (run->model == NULL)
		printf("%" PRIu64 " wrong\n", run->wrong);
	else
		printf("target %sreached, weights %s\n", run->reached ? "" : "NOT ",
			run->diverged ? "DIFFER" : "equal");
	fflush(stdout);
}

static json_t *
iterations_json(const struct train_run *run)
{
	json_t *list = json_array();

	for (unsigned int k = 0; k < run->done; k++) {
		const struct train_iteration *it = &run->iterations[k];

		json_array_append_new(list,
			json_pack("{s:I, s:I, s:I, s:b, s:b}", "us", (json_int_t)it->us, "slow_us",
				(json_int_t)it->slow_us, "partial_blocks",
				(json_int_t)it->partial_blocks, "missed", it->missed, "given_up",
				it->given_up));
	}
	return list;
}

static json_t *
marks_json(const struct train_run *run)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < run->mark_count; i++) {
		const struct train_mark *m = &run->marks[i];

		json_array_append_new(list,
			json_pack("{s:i, s:f, s:f, s:f}", "iteration", (int)m->iteration, "seconds",
				m->seconds, "accuracy", m->score.accuracy, "loss", m->score.loss));
	}
	return list;
}

static json_t *
statistics_json(const struct train_run *run)
{
	json_t *found = json_object();
	struct weir_stats stats = {0};

	weir_stats(run->weir, &stats);
#define X(name, help) json_object_set_new(found, #name, json_integer((json_int_t)stats.name));
	WEIR_STATS_LIST(X)
#undef X
	return found;
}

int
train_report_json(const struct train_run *run, const char *error)
{
	const struct train_options *o = run->options;
	struct sums s = add_up(run);
	char checksum[17];
	json_t *root;
	int code = 0;

	if (o->json == NULL)
		return 0;
	snprintf(checksum, sizeof(checksum), "%016" PRIx64, run->checksum);
	root = json_pack(
		"{s:i, s:i, s:I, s:f, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:s?}",
		"rank", (int)run->rank, "ranks", (int)run->ranks, "seed", (json_int_t)o->seed,
		"seconds", (double)run->us / 1e6, "iterations", (int)run->done, "slowed",
		(json_int_t)s.slowed, "slow_us", (json_int_t)s.slow_us, "partial",
		(json_int_t)s.partial, "partial_blocks", (json_int_t)s.partial_blocks, "missed",
		(json_int_t)s.missed, "given_up", (json_int_t)s.given_up, "sources_mean",
		sources_mean(run), "each", iterations_json(run), "stats", statistics_json(run),
		"error", error);
	if (root != NULL && run->model == NULL)
		code = json_object_update_new(root,
			json_pack("{s:I, s:i, s:i, s:I, s:I}", "elements",
				(json_int_t)run->plan.elements, "tensors", (int)run->plan.tensors,
				"buckets", (int)run->plan.buckets, "blocks",
				(json_int_t)run->blocks, "wrong", (json_int_t)run->wrong));
	else if (root != NULL)
		code = json_object_update_new(root,
			json_pack("{s:b, s:b, s:s, s:o}", "reached", run->reached, "diverged",
				run->diverged, "checksum", checksum, "marks", marks_json(run)));
	errno = 0;
	if (root == NULL || code < 0 || json_dump_file(root, o->json, JSON_INDENT(1)) != 0) {
		code = errno != 0 ? -errno : -EIO;
		train_say(run, "%s: %s", o->json, strerror(-code));
	}
	json_decref(root);
	return code;
}

void
train_say(const struct train_run *run, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "weir-train: rank %u: ", run->rank);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

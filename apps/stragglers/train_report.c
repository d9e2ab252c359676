/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void
train_say(const struct train_run *run, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "weir-train: rank %u: %s\n", run->rank, text);
}

static const char *
partial_name(const struct train_run *run)
{
	switch (run->options->weir.partial) {
	case WEIR_PARTIAL_AS_IS: return "as-is";
	case WEIR_PARTIAL_RESCALE: return "rescale";
	case WEIR_PARTIAL_FAIL: break;
	}
	return "fail";
}

void
train_report_header(const struct train_run *run)
{
	const struct train_options *o = run->options;

	if (run->rank != 0)
		return;
	printf("# weir-train %s: %u hosts, %u weights, %u points and %u held out, seed %" PRIu64
	       "\n",
		WEIR_VERSION, run->ranks, TRAIN_WEIGHTS, TRAIN_POINTS, TRAIN_TEST, o->seed);
	if (run->weir != NULL)
		printf("# job %u, generation %u, block timeout %u ms, partial sums %s%s\n",
			weir_job(run->weir), weir_generation(run->weir), weir_timeout_ms(run->weir),
			partial_name(run), o->weir.error_feedback ? ", error feedback" : "");
	printf("# batch %u, rate %g, momentum %g, compute %g ms, slow %u ppm by %g to %g\n#\n",
		o->batch, o->rate, o->momentum, o->compute_ms, o->slow_ppm, o->slow_min,
		o->slow_max);
	printf("#%10s %9s %8s %9s %9s %9s\n", "iteration", "time", "loss", "accuracy", "partial",
		"partial");
	printf("#%10s %9s %8s %9s %9s %9s\n", "", "(s)", "", "(%)", "(iter.)", "(blocks)");
	fflush(stdout);
}

void
train_report_mark(const struct train_run *run)
{
	const struct train_mark *m = &run->marks[run->mark_count - 1];

	if (run->rank != 0)
		return;
	printf(" %10u %9.3f %8.4f %9.2f %9" PRIu64 " %9" PRIu64 "\n", m->iteration, m->seconds,
		m->score.loss, 100 * m->score.accuracy, run->counts.partial,
		run->counts.partial_blocks);
	fflush(stdout);
}

void
train_report_end(const struct train_run *run)
{
	const struct train_counts *c = &run->counts;

	printf("# rank %u: slow %" PRIu64 " times, %.3f s; %" PRIu64 " gradients computed, %" PRIu64
	       " given up; %" PRIu64 " missed, %" PRIu64 " of %u iterations partial\n",
		run->rank, c->slow, run->slow_seconds, c->computed, c->given_up, c->missed,
		c->partial, run->iteration);
	if (run->rank == 0 && run->replicas != 0)
		printf("# replicas: %u, %s\n", run->replicas, run->parted ? "PARTED" : "equal");
	if (run->rank == 0 && run->mark_count != 0)
		printf("weir-train: %s %.2f %% after %u iterations, %.3f s\n",
			run->reached ? "reached" : "NOT reached, only",
			100 * run->marks[run->mark_count - 1].score.accuracy, run->iteration,
			run->seconds);
	fflush(stdout);
}

static json_t *
marks_json(const struct train_run *run)
{
	json_t *marks = json_array();

	for (unsigned int i = 0; i < run->mark_count; i++) {
		const struct train_mark *m = &run->marks[i];

		json_array_append_new(marks,
			json_pack("{s:i, s:f, s:f, s:f}", "iteration", (int)m->iteration, "seconds",
				m->seconds, "accuracy", m->score.accuracy, "loss", m->score.loss));
	}
	return marks;
}

static json_t *
counts_json(const struct train_counts *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "slow", (json_int_t)c->slow, "computed",
		(json_int_t)c->computed, "given_up", (json_int_t)c->given_up, "missed",
		(json_int_t)c->missed, "partial", (json_int_t)c->partial, "partial_blocks",
		(json_int_t)c->partial_blocks);
}

static json_t *
stats_json(const struct train_run *run)
{
	json_t *stats = json_object();
	struct weir_stats s;

	if (run->weir == NULL)
		return stats;
	weir_stats(run->weir, &s);
#define X(name, help) json_object_set_new(stats, #name, json_integer((json_int_t)s.name));
	WEIR_STATS_LIST(X)
#undef X
	return stats;
}

int
train_report_json(const struct train_run *run, const char *error)
{
	const struct train_options *o = run->options;
	char checksum[17];
	json_t *all;
	int code;

	if (o->json == NULL)
		return 0;
	snprintf(checksum, sizeof(checksum), "%016" PRIx64, run->checksum);
	all = json_pack(
		"{s:s, s:i, s:i, s:I, s:f, s:b, s:i, s:f, s:f, s:s, s:i, s:b, s:o, s:o, s:o, s:s?}",
		"version", WEIR_VERSION, "rank", (int)run->rank, "ranks", (int)run->ranks, "seed",
		(json_int_t)o->seed, "target", o->target, "reached", run->reached, "iterations",
		(int)run->iteration, "seconds", run->seconds, "slow_seconds", run->slow_seconds,
		"checksum", checksum, "replicas", (int)run->replicas, "parted", run->parted,
		"counts", counts_json(&run->counts), "marks", marks_json(run), "stats",
		stats_json(run), "error", error);
	if (all == NULL)
		return -ENOMEM;
	code = json_dump_file(all, o->json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(all);
	if (code == 0)
		return 0;
	train_say(run, "cannot write %s: %s", o->json, strerror(errno));
	return -EIO;
}

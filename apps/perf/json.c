/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "apps/perf/perf.h"

static json_t *
timing_json(const struct perf_run *run, const struct perf_timing *t)
{
	double n = t->operations != 0 ? t->operations : 1;
	json_t *json;

	if (!t->measured)
		return json_null();
	json = json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:i}", "time_us", t->us, "algbw", t->algbw,
		"busbw", t->busbw, "wrong", (json_int_t)t->wrong, "own_wrong",
		(json_int_t)t->own_wrong, "degraded", (json_int_t)t->degraded, "operations",
		(int)t->operations);
	if (run->shapes != NULL)
		return json;
	json_object_update_new(json,
		json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "min_us", t->min_us, "median_us",
			t->median_us, "p99_us", t->p99_us, "wire_sent", t->wire_sent,
			"wire_received", t->wire_received, "own_wire_sent", (double)t->sent / n,
			"own_wire_received", (double)t->received / n));
	if (run->options->link_rate > 0)
		json_object_update_new(json,
			json_pack("{s:f, s:f}", "link_share", t->link_share, "data_share",
				t->data_share));
	return json;
}

static json_t *
row_json(const struct perf_run *run, const struct perf_row *row)
{
	const struct perf_series *s = &row->series;
	bool barrier = s->collective == WEIR_COLLECTIVE_BARRIER;

	return json_pack("{s:s, s:I, s:I, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:o, s:o}",
		"collective", perf_collective_name(s->collective), "size", (json_int_t)row->bytes,
		"count", (json_int_t)row->count, "type",
		barrier ? "none" : perf_type_name(s->dtype), "redop",
		perf_reduces(s->collective) ? perf_op_name(s->op) : "none", "root",
		perf_has_root(s->collective) ? (int)s->root : -1, "tensors", (int)row->tensors,
		"iteration", row->iteration, "wrong", (json_int_t)(row->out.wrong + row->in.wrong),
		"degraded", (json_int_t)(row->out.degraded + row->in.degraded), "out_of_place",
		timing_json(run, &row->out), "in_place", timing_json(run, &row->in));
}

static json_t *
rejoins_json(const struct perf_run *run)
{
	json_t *all = json_array();

	for (unsigned int i = 0; i < run->rejoin_count; i++) {
		const struct perf_rejoin *r = &run->rejoins[i];

		json_array_append_new(all,
			json_pack("{s:I, s:I, s:i, s:s, s:i, s:b, s:i, s:f}", "failed_at",
				(json_int_t)r->failed_at, "resumed_at", (json_int_t)r->resumed_at,
				"code", r->code, "error", r->error, "tries", (int)r->tries,
				"recovered", r->recovered, "generation", (int)r->generation, "ms",
				r->ms));
	}
	return all;
}

int
perf_report_json(const struct perf_run *run, const char *error)
{
	const struct perf_options *o = run->options;
	json_t *rows, *stats, *all;
	struct weir_stats s;
	uint64_t wrong;
	double busbw;
	int code;

	if (o->json == NULL)
		return 0;
	rows = json_array();
	stats = json_object();
	weir_stats(run->weir, &s);
	perf_report_totals(run, &wrong, &busbw);
	for (unsigned int i = 0; i < run->row_count; i++)
		json_array_append_new(rows, row_json(run, &run->rows[i]));
#define X(name, help) json_object_set_new(stats, #name, json_integer((json_int_t)s.name));
	WEIR_STATS_LIST(X)
#undef X
	all = json_pack(
		"{s:s, s:i, s:i, s:i, s:i, s:b, s:I, s:i, s:i, s:I, s:f, s:I, s:f, s:f, s:o, s:o, "
		"s:o, s:I, s:I, s:s?, s:i, s:f, s:f}",
		"version", WEIR_VERSION, "rank", (int)run->rank, "ranks", (int)run->ranks, "job",
		(int)weir_job(run->weir), "generation", (int)weir_generation(run->weir),
		"base_form", o->weir.base_form, "seed", (json_int_t)o->seed, "iterations",
		(int)o->iterations, "warmup", (int)o->warmup, "wrong", (json_int_t)wrong,
		"avg_busbw", busbw, "degraded", (json_int_t)run->degraded, "reduced_bytes",
		run->reduced_bytes, "ring_wire_bytes", run->ring_wire_bytes, "stats", stats, "rows",
		rows, "rejoins", rejoins_json(run), "repeated", (json_int_t)run->repeated,
		"began_at", (json_int_t)run->began_at, "error", error, "inflight", (int)o->inflight,
		"link_rate", o->link_rate, "bytes", run->bytes);
	if (all == NULL)
		return -ENOMEM;
	code = json_dump_file(all, o->json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(all);
	if (code == 0)
		return 0;
	perf_say(run, "cannot write %s: %s", o->json, strerror(errno));
	return -EIO;
}

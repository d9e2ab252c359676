/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/host/perf.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>

static const char *
type_name(const struct perf_run *run)
{
	return run->options->dtype == WEIR_DTYPE_INT32 ? "int32" : "float";
}

void
perf_say(const struct perf_run *run, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "weir-perf: rank %u: %s\n", run->rank, text);
}

void
perf_report_header(const struct perf_run *run)
{
	const struct perf_options *o = run->options;
	const struct weir *w = run->weir;

	if (run->rank != 0)
		return;
	printf("# weir-perf %s: job %u, %u ranks, %s form, generation %u\n", WEIR_VERSION,
		weir_job(run->weir), run->ranks, o->weir.base_form ? "base" : "extended",
		weir_generation(w));
	printf("# window %u blocks of at most %u elements, block timeout %u ms\n", weir_window(w),
		weir_elements(w, o->dtype), weir_timeout_ms(w));
	printf("# iterations %u, warm-up %u, seed %llu\n", o->iterations, o->warmup,
		(unsigned long long)o->seed);
	if (!o->barrier && o->check)
		printf("# check: every element on every rank, %s\n",
			o->dtype == WEIR_DTYPE_INT32 ? "exact modulo 2^32" : PERF_BOUND);
	printf("#\n");
	if (o->shapes != NULL) {
		printf("#%11s %12s %8s %7s %6s %5s %11s %7s %7s %6s %8s\n", "size", "count", "type",
			"tensors", "redop", "iter", "time", "algbw", "busbw", "#wrong", "degraded");
		printf("#%11s %12s %8s %7s %6s %5s %11s %7s %7s %6s %8s\n", "(B)", "(elements)", "",
			"", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(blocks)");
	} else if (o->barrier) {
		printf("#%11s %12s\n#%11s %12s\n", "collective", "time", "", "(us)");
	} else {
		printf("#%11s %12s %8s %6s %6s %36s %36s\n", "", "", "", "", "", "out-of-place    ",
			"in-place    ");
		printf("#%11s %12s %8s %6s %6s %11s %7s %7s %8s %11s %7s %7s %8s\n", "size",
			"count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
			"time", "algbw", "busbw", "#wrong");
		printf("#%11s %12s %8s %6s %6s %11s %7s %7s %8s %11s %7s %7s %8s\n", "(B)",
			"(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
			"(GB/s)", "");
	}
	fflush(stdout);
}

static void
print_timing(const struct perf_run *run, const struct perf_timing *t)
{
	if (t->measured)
		printf(" %11.2f %7.3f %7.3f", t->us, t->algbw, t->busbw);
	else
		printf(" %11s %7s %7s", "N/A", "N/A", "N/A");
	if (run->options->check)
		printf(" %8llu", (unsigned long long)t->wrong);
	else
		printf(" %8s", "N/A");
}

void
perf_report_row(const struct perf_run *run, const struct perf_row *row)
{
	if (run->rank != 0)
		return;
	if (run->options->barrier) {
		printf(" %11s %12.2f\n", "barrier", row->in.us);
	} else if (run->options->shapes != NULL) {
		printf(" %11zu %12zu %8s %7u %6s %5d %11.2f %7.3f %7.3f", row->bytes, row->count,
			type_name(run), row->tensors, "sum", row->iteration, row->in.us,
			row->in.algbw, row->in.busbw);
		if (run->options->check)
			printf(" %6llu", (unsigned long long)row->in.wrong);
		else
			printf(" %6s", "N/A");
		printf(" %8llu\n", (unsigned long long)row->in.degraded);
	} else {
		printf(" %11zu %12zu %8s %6s %6d", row->bytes, row->count, type_name(run), "sum",
			-1);
		print_timing(run, &row->out);
		print_timing(run, &row->in);
		printf("\n");
	}
	fflush(stdout);
}

static void
totals(const struct perf_run *run, uint64_t *wrong, double *busbw)
{
	unsigned int measured = 0;

	*wrong = 0;
	*busbw = 0;
	for (unsigned int i = 0; i < run->row_count; i++) {
		const struct perf_timing *t[2] = {&run->rows[i].out, &run->rows[i].in};

		for (int k = 0; k < 2; k++) {
			if (!t[k]->measured)
				continue;
			*wrong += t[k]->wrong;
			*busbw += t[k]->busbw;
			measured++;
		}
	}
	if (measured != 0)
		*busbw /= measured;
}

void
perf_report_rejoin(const struct perf_run *run, const struct perf_rejoin *rejoin)
{
	if (run->rank != 0)
		return;
	printf("# failed in iteration %llu: %s\n", (unsigned long long)rejoin->failed_at,
		rejoin->error);
	if (rejoin->mended)
		printf("# joined again after %.0f ms, generation %u, goes on with iteration %llu\n",
			rejoin->ms, rejoin->generation, (unsigned long long)rejoin->went_on_at);
	else
		printf("# has not joined again after %.0f ms and %u tries\n", rejoin->ms,
			rejoin->tries);
	fflush(stdout);
}

static void
print_rejoins(const struct perf_run *run)
{
	double ms = 0;

	if (run->options->rejoins == 0)
		return;
	for (unsigned int i = 0; i < run->rejoin_count; i++)
		ms += run->rejoins[i].ms;
	printf("# rank %u: %u failures, joined again in %u tries of at most %u, %.0f ms in all; "
	       "%llu "
	       "iterations taken again; began with iteration %llu\n",
		run->rank, run->rejoin_count, run->tries, run->options->rejoins, ms,
		(unsigned long long)run->repeated, (unsigned long long)run->began_at);
}

void
perf_report_end(const struct perf_run *run)
{
	struct weir_stats s;
	uint64_t wrong;
	double busbw;

	weir_stats(run->weir, &s);
	totals(run, &wrong, &busbw);
	if (run->rank == 0) {
		printf("# Out of bounds values : %llu %s\n", (unsigned long long)wrong,
			wrong == 0 ? "OK" : "FAILED");
		printf("# Avg bus bandwidth    : %.5g\n#\n", busbw);
	}
	printf("# rank %u: on the wire %.3f MB sent, %.3f MB received, for %.3f MB reduced; a ring "
	       "AllReduce would send %.3f MB\n",
		run->rank, (double)s.wire_sent / 1e6, (double)s.wire_received / 1e6,
		run->reduced_bytes / 1e6, run->ring_wire_bytes / 1e6);
	printf("# rank %u: %llu packets sent, %llu of them repetitions; %llu blocks degraded; srtt "
	       "%.1f us; window %llu\n",
		run->rank, (unsigned long long)s.packets_sent,
		(unsigned long long)s.retransmissions, (unsigned long long)run->degraded,
		(double)s.srtt_ns / 1e3, (unsigned long long)s.window);
	print_rejoins(run);
	fflush(stdout);
}

static json_t *
timing_json(const struct perf_timing *t)
{
	if (!t->measured)
		return json_null();
	return json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:i}", "time_us", t->us, "algbw", t->algbw,
		"busbw", t->busbw, "wrong", (json_int_t)t->wrong, "own_wrong",
		(json_int_t)t->own_wrong, "degraded", (json_int_t)t->degraded, "operations",
		(int)t->operations);
}

static json_t *
row_json(const struct perf_run *run, const struct perf_row *row)
{
	return json_pack("{s:s, s:I, s:I, s:s, s:s, s:i, s:i, s:I, s:I, s:o, s:o}", "collective",
		run->options->barrier ? "barrier" : "allreduce", "size", (json_int_t)row->bytes,
		"count", (json_int_t)row->count, "type", type_name(run), "redop", "sum", "tensors",
		(int)row->tensors, "iteration", row->iteration, "wrong",
		(json_int_t)(row->out.wrong + row->in.wrong), "degraded",
		(json_int_t)(row->out.degraded + row->in.degraded), "out_of_place",
		timing_json(&row->out), "in_place", timing_json(&row->in));
}

static json_t *
rejoins_json(const struct perf_run *run)
{
	json_t *all = json_array();

	for (unsigned int i = 0; i < run->rejoin_count; i++) {
		const struct perf_rejoin *r = &run->rejoins[i];

		json_array_append_new(all,
			json_pack("{s:I, s:I, s:i, s:s, s:i, s:b, s:i, s:f}", "failed_at",
				(json_int_t)r->failed_at, "went_on_at", (json_int_t)r->went_on_at,
				"code", r->code, "error", r->error, "tries", (int)r->tries,
				"mended", r->mended, "generation", (int)r->generation, "ms",
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
	totals(run, &wrong, &busbw);
	for (unsigned int i = 0; i < run->row_count; i++)
		json_array_append_new(rows, row_json(run, &run->rows[i]));
#define X(name, help) json_object_set_new(stats, #name, json_integer((json_int_t)s.name));
	WEIR_STATS_LIST(X)
#undef X
	all = json_pack(
		"{s:s, s:i, s:i, s:i, s:i, s:b, s:I, s:i, s:i, s:I, s:f, s:I, s:f, s:f, s:o, s:o, "
		"s:o, s:I, s:I, s:s?}",
		"version", WEIR_VERSION, "rank", (int)run->rank, "ranks", (int)run->ranks, "job",
		(int)weir_job(run->weir), "generation", (int)weir_generation(run->weir),
		"base_form", o->weir.base_form, "seed", (json_int_t)o->seed, "iterations",
		(int)o->iterations, "warmup", (int)o->warmup, "wrong", (json_int_t)wrong,
		"avg_busbw", busbw, "degraded", (json_int_t)run->degraded, "reduced_bytes",
		run->reduced_bytes, "ring_wire_bytes", run->ring_wire_bytes, "stats", stats, "rows",
		rows, "rejoins", rejoins_json(run), "repeated", (json_int_t)run->repeated,
		"began_at", (json_int_t)run->began_at, "error", error);
	if (all == NULL)
		return -ENOMEM;
	code = json_dump_file(all, o->json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(all);
	if (code == 0)
		return 0;
	perf_say(run, "cannot write %s: %s", o->json, strerror(errno));
	return -EIO;
}

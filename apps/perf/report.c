/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/perf/perf.h"

#include <stdarg.h>
#include <string.h>

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
		weir_elements(w, WEIR_DTYPE_FP32), weir_timeout_ms(w));
	printf("# iterations %u, warm-up %u, seed %llu, %u at a time\n", o->iterations, o->warmup,
		(unsigned long long)o->seed, o->inflight);
	if (o->check)
		printf("# check: every element on every rank; where floating point rounds: %s\n",
			PERF_BOUND);
	printf("# sent, recv: bytes on the wire per operation, at the rank that has most\n");
	if (o->link_rate > 0)
		printf("# link%%, data%%: of %.6g Mbit/s, all bytes on the wire in the busier "
		       "direction; the data\n",
			o->link_rate / 1e6);
	fflush(stdout);
}

/* The columns of one way of calling, and what stands above them. */
static const char *
timing_columns(const struct perf_options *o)
{
	if (o->latency)
		return o->link_rate > 0 ? "    time     min  median     p99 link% data% #wrong"
					: "    time     min  median     p99 #wrong";
	return o->link_rate > 0 ? "    time  algbw  busbw link% data% #wrong"
				: "    time  algbw  busbw #wrong";
}

static const char *
timing_units(const struct perf_options *o)
{
	if (o->latency)
		return o->link_rate > 0 ? "    (us)    (us)    (us)    (us)                   "
					: "    (us)    (us)    (us)    (us)       ";
	return o->link_rate > 0 ? "    (us) (GB/s) (GB/s)                   "
				: "    (us) (GB/s) (GB/s)       ";
}

static void
heading(const struct perf_run *run, const struct perf_series *series)
{
	const char *columns = timing_columns(run->options), *units = timing_units(run->options);
	double factor = perf_bus_factor(series->collective, run->ranks);
	int width = (int)strlen(columns);

	printf("#\n# %s", perf_collective_name(series->collective));
	if (series->collective == WEIR_COLLECTIVE_BARRIER) {
		printf("\n#%11s %7s %7s %7s %7s %8s %8s\n", "", "time", "min", "median", "p99",
			"sent", "recv");
		printf("#%11s %7s %7s %7s %7s %8s %8s\n", "", "(us)", "(us)", "(us)", "(us)", "(B)",
			"(B)");
		return;
	}
	printf(": algbw = size / time, busbw = algbw x %.4g\n", factor);
	if (run->shapes != NULL) {
		printf("#%11s %12s %8s %7s %6s %5s %11s %7s %7s %6s %8s\n", "size", "count", "type",
			"tensors", "redop", "iter", "time", "algbw", "busbw", "#wrong", "degraded");
		printf("#%11s %12s %8s %7s %6s %5s %11s %7s %7s %6s %8s\n", "(B)", "(elements)", "",
			"", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(blocks)");
		return;
	}
	printf("#%39s%*s%*s\n", "", width, "out-of-place", width, "in-place");
	printf("#%11s %9s %6s %5s %4s%s%s %8s %8s\n", "size", "count", "type", "redop", "root",
		columns, columns, "sent", "recv");
	printf("#%11s %9s %6s %5s %4s%s%s %8s %8s\n", "(B)", "(elem.)", "", "", "", units, units,
		"(B)", "(B)");
}

/* In seven columns. */
static void
print_us(double us)
{
	printf(" %7.*f", us < 9999.995 ? 2 : us < 99999.95 ? 1 : 0, us);
}

static void
print_wrong(const struct perf_run *run, uint64_t wrong)
{
	if (run->options->check)
		printf(" %6llu", (unsigned long long)wrong);
	else
		printf(" %6s", "N/A");
}

static void
print_latency(const struct perf_timing *t)
{
	print_us(t->us);
	print_us(t->min_us);
	print_us(t->median_us);
	print_us(t->p99_us);
}

static void
print_timing(const struct perf_run *run, const struct perf_timing *t)
{
	bool latency = run->options->latency;

	if (!t->measured)
		printf(latency ? " %7s %7s %7s %7s" : " %7s %6s %6s", "N/A", "N/A", "N/A", "N/A");
	else if (latency)
		print_latency(t);
	else {
		print_us(t->us);
		printf(" %6.3f %6.3f", t->algbw, t->busbw);
	}
	if (run->options->link_rate > 0)
		printf(" %5.1f %5.1f", t->link_share * 100, t->data_share * 100);
	print_wrong(run, t->wrong);
}

static double
larger(double a, double b)
{
	return a > b ? a : b;
}

static void
print_sizes(const struct perf_row *row)
{
	printf(" %8.0f %8.0f\n", larger(row->out.wire_sent, row->in.wire_sent),
		larger(row->out.wire_received, row->in.wire_received));
}

static void
print_model(const struct perf_run *run, const struct perf_row *row)
{
	printf(" %11zu %12zu %8s %7u %6s %5d %11.2f %7.3f %7.3f", row->bytes, row->count,
		perf_type_name(row->series.dtype), row->tensors, perf_op_name(row->series.op),
		row->iteration, row->in.us, row->in.algbw, row->in.busbw);
	print_wrong(run, row->in.wrong);
	printf(" %8llu\n", (unsigned long long)row->in.degraded);
}

void
perf_report_row(struct perf_run *run, const struct perf_row *row)
{
	const struct perf_series *s = &row->series;

	if (run->rank != 0)
		return;
	if (run->heading != (int)s->collective + 1)
		heading(run, s);
	run->heading = (int)s->collective + 1;
	if (s->collective == WEIR_COLLECTIVE_BARRIER) {
		printf(" %11s", "barrier");
		print_latency(&row->in);
		print_sizes(row);
	} else if (run->shapes != NULL) {
		print_model(run, row);
	} else {
		printf(" %11zu %9zu %6s %5s %4d", row->bytes, row->count, perf_type_name(s->dtype),
			perf_reduces(s->collective) ? perf_op_name(s->op) : "none",
			perf_has_root(s->collective) ? (int)s->root : -1);
		print_timing(run, &row->out);
		print_timing(run, &row->in);
		print_sizes(row);
	}
	fflush(stdout);
}

void
perf_report_totals(const struct perf_run *run, uint64_t *wrong, double *busbw)
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
	if (rejoin->recovered)
		printf("# joined again after %.0f ms, generation %u, goes on with iteration %llu\n",
			rejoin->ms, rejoin->generation, (unsigned long long)rejoin->resumed_at);
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
	perf_report_totals(run, &wrong, &busbw);
	if (run->rank == 0) {
		printf("# Out of bounds values : %llu %s\n", (unsigned long long)wrong,
			wrong == 0 ? "OK" : "FAILED");
		printf("# Avg bus bandwidth    : %.5g\n#\n", busbw);
	}
	printf("# rank %u: on the wire %.3f MB sent, %.3f MB received, ", run->rank,
		(double)s.wire_sent / 1e6, (double)s.wire_received / 1e6);
	if (run->bytes > run->reduced_bytes)
		printf("for operations of %.3f MB\n", run->bytes / 1e6);
	else
		printf("for %.3f MB reduced; a ring AllReduce would send %.3f MB\n",
			run->reduced_bytes / 1e6, run->ring_wire_bytes / 1e6);
	printf("# rank %u: %llu packets sent, %llu of them repetitions; %llu blocks degraded; srtt "
	       "%.1f us; window %llu\n",
		run->rank, (unsigned long long)s.packets_sent,
		(unsigned long long)s.retransmissions, (unsigned long long)run->degraded,
		(double)s.srtt_ns / 1e3, (unsigned long long)s.window);
	print_rejoins(run);
	fflush(stdout);
}

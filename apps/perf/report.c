/* SPDX-License-Identifier: BSD-3-Clause */
/* The table as in nccl-tests, the lines around it, and the report in JSON. */
#include "apps/perf/perf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "apps/report/table.h"

void
perf_message(const struct perf_run *run, const char *format, ...)
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
	printf("# iterations %" PRIu64 ", warm-up %" PRIu64 ", seed %" PRIu64 ", %" PRIu64
	       " at a time\n",
		o->iterations, o->warmup, o->seed, o->inflight);
	if (o->check)
		printf("# check: every element on every rank; where floating point rounds: %s\n",
			VERIFY_BOUND);
	printf("# sent, recv: bytes on the wire per operation, at the rank that has most\n");
	if (o->link_rate > 0)
		printf("# link%%, data%%: of %.6g Mbit/s, all bytes on the wire in the busier "
		       "direction; the data\n",
			o->link_rate / 1e6);
	fflush(stdout);
}

/*
 * A row as the table and the report have it: columns with a title are in the table, columns with a
 * key in the report.
 */
#define COLUMNS 64

struct line {
	struct table_column column[COLUMNS];
	struct table_cell cell[COLUMNS];
	size_t n;
	unsigned int width; /* of the table's columns, with the blanks between them */
};

static void
put(struct line *l, struct table_column column, struct table_cell cell)
{
	if (column.title != NULL)
		l->width += column.width + 1;
	l->column[l->n] = column;
	l->cell[l->n++] = cell;
}

/* A number; title and key may be NULL. */
static void
number(struct line *l, const char *key, const char *title, const char *unit, unsigned int width,
	unsigned int digits, double value)
{
	put(l,
		(struct table_column){
			.key = key, .title = title, .unit = unit, .width = width, .digits = digits},
		TABLE_NUMBER(value));
}

static void
word(struct line *l, const char *key, const char *title, unsigned int width, const char *value)
{
	put(l, (struct table_column){.key = key, .title = title, .width = width},
		TABLE_TEXT(value));
}

static const char *
shown(bool is_shown, const char *title)
{
	return is_shown ? title : NULL;
}

static bool
is_barrier(const struct perf_row *row)
{
	return row->series.collective == WEIR_COLLECTIVE_BARRIER;
}

static void
put_operation(struct line *l, const struct perf_run *run, const struct perf_row *row)
{
	const struct weir_call *s = &row->series;
	bool data = !is_barrier(row), model = run->shapes != NULL;

	word(l, "collective", shown(!data, ""), 9, weir_collective_text(s->collective));
	number(l, "size", shown(data, "size"), "B", 9, 0, (double)row->bytes);
	number(l, "count", shown(data, "count"), "elements", 8, 0, (double)row->count);
	word(l, "type", shown(data, "type"), 6, data ? weir_dtype_text(s->dtype) : "none");
	number(l, "tensors", shown(model, "tensors"), NULL, 7, 0, row->tensors);
	word(l, "redop", shown(data, "redop"), 5,
		verify_reduces(s->collective) ? weir_op_text(s->op) : "none");
	number(l, "root", shown(data && !model, "root"), NULL, 4, 0,
		collective_table[s->collective].rooted ? (double)s->root : -1);
	number(l, "iteration", shown(model, "iter"), NULL, 5, 0, row->iteration);
	number(l, "wrong", NULL, NULL, 0, 0, (double)(row->out.wrong + row->in.wrong));
	number(l, "degraded", NULL, NULL, 0, 0, (double)(row->out.degraded + row->in.degraded));
}

static void
put_timing(struct line *l, const struct perf_run *run, const struct perf_row *row,
	const struct perf_timing *t)
{
	const struct perf_options *o = run->options;
	bool data = !is_barrier(row), model = run->shapes != NULL, latency = o->latency || !data;
	bool link = data && !model && o->link_rate > 0;
	double known = t->measured ? 1 : (double)NAN, single = model ? (double)NAN : known;
	double n = t->operations != 0 ? t->operations : 1;

	latency &= !model;
	number(l, "time_us", "time", "us", model ? 11 : 7, 2, t->us * known);
	number(l, "min_us", shown(latency, "min"), "us", 7, 2, t->min_us * single);
	number(l, "median_us", shown(latency, "median"), "us", 7, 2, t->median_us * single);
	number(l, "p99_us", shown(latency, "p99"), "us", 7, 2, t->p99_us * single);
	number(l, "algbw", shown(!latency, "algbw"), "GB/s", 6, 3, t->algbw * known);
	number(l, "busbw", shown(!latency, "busbw"), "GB/s", 6, 3, t->busbw * known);
	number(l, "link_share", NULL, NULL, 0, 0, o->link_rate > 0 ? t->link_share : (double)NAN);
	number(l, "data_share", NULL, NULL, 0, 0, o->link_rate > 0 ? t->data_share : (double)NAN);
	number(l, NULL, shown(link, "link%"), NULL, 5, 1, t->link_share * 100 * known);
	number(l, NULL, shown(link, "data%"), NULL, 5, 1, t->data_share * 100 * known);
	number(l, NULL, shown(data, "#wrong"), NULL, 6, 0,
		o->check ? (double)t->wrong : (double)NAN);
	number(l, "wrong", NULL, NULL, 0, 0, (double)t->wrong);
	number(l, "own_wrong", NULL, NULL, 0, 0, (double)t->own_wrong);
	number(l, "degraded", shown(model, "degraded"), "blocks", 8, 0, (double)t->degraded);
	number(l, "operations", NULL, NULL, 0, 0, t->operations);
	number(l, "wire_sent", NULL, NULL, 0, 0, t->wire_sent * single);
	number(l, "wire_received", NULL, NULL, 0, 0, t->wire_received * single);
	number(l, "own_wire_sent", NULL, NULL, 0, 0, (double)t->sent / n * single);
	number(l, "own_wire_received", NULL, NULL, 0, 0, (double)t->received / n * single);
	number(l, "own_user_us", NULL, NULL, 0, 0, t->user_us / n * single);
	number(l, "own_system_us", NULL, NULL, 0, 0, t->system_us / n * single);
}

/* The table of the present collective. Its columns are those of its first row. */
static enum weir_collective heads;
static struct line head;
static struct table *table;

static void
begin_table(
	const struct perf_run *run, const struct perf_row *row, unsigned int out, unsigned int in)
{
	printf("#\n# %s", weir_collective_text(row->series.collective));
	if (is_barrier(row))
		printf("\n");
	else
		printf(": algbw = size / time, busbw = algbw x %.4g\n",
			perf_bus_factor(row->series.collective, run->ranks));
	if (out != in)
		printf("#%*s%*s\n", (int)out, "out-of-place", (int)(in - out), "in-place");
	table_destroy(table);
	table = table_create(head.column, head.n, stdout);
}

void
perf_report_row(struct perf_run *run, const struct perf_row *row)
{
	bool both = run->shapes == NULL && !is_barrier(row);
	unsigned int out, in;
	struct line l = {.n = 0};

	if (run->rank != 0)
		return;
	put_operation(&l, run, row);
	if (both)
		put_timing(&l, run, row, &row->out);
	out = l.width;
	put_timing(&l, run, row, &row->in);
	in = both ? l.width : out;
	if (run->shapes == NULL) {
		number(&l, NULL, "sent", "B", 7, 0, fmax(row->out.wire_sent, row->in.wire_sent));
		number(&l, NULL, "recv", "B", 7, 0,
			fmax(row->out.wire_received, row->in.wire_received));
	}
	if (table == NULL || heads != row->series.collective) {
		head = l;
		heads = row->series.collective;
		begin_table(run, row, out, in);
	}
	if (table == NULL || table_row(table, l.cell) < 0)
		perf_message(run, "no memory for the table");
}

/* Wrong elements, and the average of the bandwidths. */
static void
add_up(const struct perf_run *run, uint64_t *wrong, double *busbw)
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
	printf("# failed in iteration %" PRIu64 ": %s\n", rejoin->failed_at, rejoin->error);
	if (rejoin->recovered)
		printf("# joined again after %.0f ms, generation %u, continues with iteration "
		       "%" PRIu64 "\n",
			rejoin->ms, rejoin->generation, rejoin->resumed_at);
	else
		printf("# has not joined again after %.0f ms and %u tries\n", rejoin->ms,
			rejoin->tries);
	fflush(stdout);
}

void
perf_report_end(const struct perf_run *run)
{
	struct weir_stats s;
	uint64_t wrong;
	double busbw, ms = 0;

	weir_stats(run->weir, &s);
	add_up(run, &wrong, &busbw);
	if (run->rank == 0) {
		printf("# Out of bounds values : %" PRIu64 " %s\n", wrong,
			wrong == 0 ? "OK" : "FAILED");
		printf("# Avg bus bandwidth    : %.5g\n#\n", busbw);
	}
	printf("# rank %u: on the wire %.3f MB sent, %.3f MB received, for operations of %.3f MB\n",
		run->rank, (double)s.wire_sent / 1e6, (double)s.wire_received / 1e6,
		run->bytes / 1e6);
	printf("# rank %u: %" PRIu64 " packets sent, %" PRIu64 " of them repetitions; %" PRIu64
	       " probes; %" PRIu64 " blocks degraded; srtt %.1f us; window %" PRIu64 "\n",
		run->rank, s.packets_sent, s.retransmissions, s.probes, run->degraded,
		(double)s.srtt_ns / 1e3, s.window);
	for (unsigned int i = 0; i < run->rejoin_count; i++)
		ms += run->rejoins[i].ms;
	if (run->options->rejoins != 0)
		printf("# rank %u: %u failures, joined again in %u tries of at most %" PRIu64
		       ", %.0f ms in all; %" PRIu64
		       " iterations taken again; began with iteration %" PRIu64 "\n",
			run->rank, run->rejoin_count, run->tries, run->options->rejoins, ms,
			run->repeated, run->began_at);
	fflush(stdout);
}

/* An object of the cells with keys. */
static json_t *
line_json(const struct line *l)
{
	json_t *json = json_object();

	for (size_t i = 0; i < l->n; i++)
		if (l->column[i].key != NULL)
			json_object_set_new(json, l->column[i].key, table_cell_json(&l->cell[i]));
	return json;
}

static json_t *
timing_json(const struct perf_run *run, const struct perf_row *row, const struct perf_timing *t)
{
	struct line l = {.n = 0};

	if (!t->measured)
		return json_null();
	put_timing(&l, run, row, t);
	return line_json(&l);
}

static json_t *
row_json(const struct perf_run *run, const struct perf_row *row)
{
	struct line l = {.n = 0};
	json_t *json;

	put_operation(&l, run, row);
	json = line_json(&l);
	json_object_set_new(json, "out_of_place", timing_json(run, row, &row->out));
	json_object_set_new(json, "in_place", timing_json(run, row, &row->in));
	return json;
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
	add_up(run, &wrong, &busbw);
	for (unsigned int i = 0; i < run->row_count; i++)
		json_array_append_new(rows, row_json(run, &run->rows[i]));
#define X(name, help) json_object_set_new(stats, #name, json_integer((json_int_t)s.name));
	WEIR_STATS_LIST(X)
#undef X
	all = json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:I, s:i, s:i, s:I, s:f, s:I, s:o, s:o, "
			"s:o, s:I, s:I, s:s?, s:i, s:f, s:f}",
		"version", WEIR_VERSION, "rank", (int)run->rank, "ranks", (int)run->ranks, "job",
		(int)weir_job(run->weir), "generation", (int)weir_generation(run->weir),
		"base_form", o->weir.base_form, "seed", (json_int_t)o->seed, "iterations",
		(int)o->iterations, "warmup", (int)o->warmup, "wrong", (json_int_t)wrong,
		"avg_busbw", busbw, "degraded", (json_int_t)run->degraded, "stats", stats, "rows",
		rows, "rejoins", rejoins_json(run), "repeated", (json_int_t)run->repeated,
		"began_at", (json_int_t)run->began_at, "error", error, "inflight", (int)o->inflight,
		"link_rate", o->link_rate, "bytes", run->bytes);
	if (all == NULL)
		return -ENOMEM;
	code = report_json_write(all, o->json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(all);
	if (code == 0)
		return 0;
	perf_message(run, "cannot write %s: %s", o->json, strerror(-code));
	return code;
}

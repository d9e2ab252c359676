/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch as a whole: status, ports, tenants, log, trace. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "ctrl/api/units.h"

#define INDENT    9
#define TRACE_MAX ((size_t)256 << 20) /* bytes of a trace */

static void
pools(json_t *from, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"POOL", "name", CELL_TEXT, 1, 0, NULL},
		{"SIZE", "size", CELL_EXACT, 0, 0, NULL},
		{"FREE", "free", CELL_EXACT, 0, 0, NULL},
		{"USED", "used", CELL_SHARE, 0, 0, NULL},
	};
	json_t *list = json_array(), *pool;
	const char *name;

	json_object_foreach (from, name, pool) {
		double size = get_number(pool, "size"), left = get_number(pool, "free");
		json_t *row = json_copy(pool);

		json_object_set_new(row, "name", json_string(name));
		if (size > 0 && isfinite(left))
			json_object_set_new(row, "used", json_real(1 - left / size));
		json_array_append_new(list, row);
	}
	VIEW_TABLE(columns, NULL, list, NULL, out, width);
	json_decref(list);
}

static void
memory(json_t *from, FILE *out, unsigned int width)
{
	text_printf(out, INDENT, width, "memory   %s free of %s, %s for blocks",
		units_bytes(get_number(from, "free")).text,
		units_bytes(get_number(from, "total")).text,
		units_bytes(get_number(from, "data")).text);
	text_printf(out, INDENT, width, "blocks   %s used, %s reserved by jobs, room for %s",
		units_exact(get_number(from, "blocks_used")).text,
		units_exact(get_number(from, "blocks_reserved")).text,
		units_exact(get_number(from, "blocks_capacity")).text);
}

static void
packets(json_t *from, FILE *out, unsigned int width)
{
	double off = get_number(from, "off_by");

	text_printf(out, INDENT, width,
		"packets  %s received, %s created; %s sent, %s consumed, %s dropped, %s in "
		"flight",
		units_count(get_number(from, "received")).text,
		units_count(get_number(from, "created")).text,
		units_count(get_number(from, "sent")).text,
		units_count(get_number(from, "consumed")).text,
		units_count(get_number(from, "dropped")).text,
		units_exact(get_number(from, "in_flight")).text);
	if (isfinite(off) && off != 0)
		text_printf(out, INDENT, width,
			"         the sum is off by %s: normal while packets flow, an error when "
			"none flow",
			units_exact(off).text);
}

void
view_status(json_t *s, FILE *out, unsigned int width)
{
	static const struct view_column workers[] = {
		{"WORKER", "id", .leave = 0},
		{"LCORE", "lcore", .leave = 1},
		{"CPU", "cpu", .leave = 0},
		{"BUSY", "busy", .leave = 0},
		{"TURNS", "turns", .cell = CELL_COUNT, .leave = 3},
		{"HOPS IN", "hops_in", .cell = CELL_COUNT, .leave = 2},
		{"HOPS OUT", "hops_out", .cell = CELL_COUNT, .leave = 2},
		{"THREADS", "threads_live", .leave = 0},
	};

	text_printf(out, INDENT, width, "switch   %s, weir-switch %s, process %s, up %s",
		get_text(s, "name"), get_text(s, "version"), units_exact(get_number(s, "pid")).text,
		units_age(get_number(s, "uptime")).text);
	text_printf(out, INDENT, width, "address  %s, %s, UDP %s and %s", get_text(s, "address"),
		get_text(s, "mac"), units_exact(get_number(s, "udp_port")).text,
		units_exact(get_number(s, "udp_port_ext")).text);
	text_printf(out, INDENT, width, "serves   %s ports, %s jobs",
		units_exact(get_number(s, "ports")).text, units_exact(get_number(s, "jobs")).text);
	memory(get(s, "memory"), out, width);
	packets(get(s, "packets"), out, width);
	view_faults_brief(s, out, width);
	if (json_array_size(get(s, "workers")) > 0) {
		fputc('\n', out);
		VIEW_TABLE(workers, "Worker", get(s, "workers"), NULL, out, width);
	}
	if (json_object_size(get(s, "pools")) > 0) {
		fputc('\n', out);
		pools(get(s, "pools"), out, width);
	}
}

static void
link_state(json_t *port, FILE *out)
{
	fputs(!json_is_boolean(get(port, "up")) ? "-" : get_true(port, "up") ? "up" : "down", out);
}

void
view_ports(json_t *answer, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"PORT", "name", .flexible = 1},
		{"LINK", "up", .cell = CELL_PRINT, .print = link_state},
		{"DEVICE", "device", .flexible = 1, .leave = 4},
		{"MAC", "mac", .leave = 5},
		{"MTU", "mtu", .leave = 6},
		{"RX PACKETS", "rx_packets", .leave = 0},
		{"RX BYTES", "rx_bytes", .cell = CELL_BYTES, .leave = 1},
		{"TX PACKETS", "tx_packets", .leave = 0},
		{"TX BYTES", "tx_bytes", .cell = CELL_BYTES, .leave = 1},
		{"WAITING", "queues.waiting", .leave = 0},
		{"OLDEST", "queues.oldest_ms", .leave = 1},
		{"QUEUE FULL", "queue_full", .leave = 0},
		{"STALLED", "stalled", .leave = 0},
		{"TOO LONG", "too_long", .leave = 2},
		{"MISSED", "missed", .leave = 0},
		{"SPOOFED", "spoofed", .leave = 0},
		{"POLICED", "policed", .leave = 2},
		{"STEERED", "queues.steered", .leave = 3},
	};

	VIEW_TABLE(columns, "Port", get(answer, "ports"), NULL, out, width);
}

void
view_json(json_t *answer, FILE *out, unsigned int width)
{
	(void)width;
	json_dumpf(answer, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	fputc('\n', out);
}

static void
memory_of(json_t *tenant, FILE *out)
{
	double most = get_number(tenant, "quota.memory_mb") * (1 << 20);

	fputs(units_bytes(get_number(tenant, "memory")).text, out);
	if (most > 0)
		fprintf(out, " of %s", units_bytes(most).text);
}

void
view_tenants(json_t *answer, FILE *out, unsigned int width)
{
	static const struct view_column columns[] = {
		{"TENANT", "name", .flexible = 1},
		{"JOBS", "jobs/quota.jobs", .leave = 0},
		{"MEMBERS", "members/quota.members", .leave = 0},
		{"MEMORY", NULL, .cell = CELL_PRINT_RIGHT, .print = memory_of},
		{"BLOCKS", "blocks/quota.blocks", .leave = 0},
		{"RATE (Mbit/s)", "rate_mbit/quota.rate_mbit", .leave = 1},
	};

	VIEW_TABLE(columns, "Tenant", get(answer, "tenants"),
		"no tenants: the Unix socket is for the administrator, and TCP is read-only", out,
		width);
}

int
command_log(struct ctl *ctl)
{
	const struct timespec pause = {0, 500000000};
	char after[64] = "/v1/log";
	const char *path = ctl->options.path;

	for (;; path = after, nanosleep(&pause, NULL)) {
		json_t *answer, *line;
		size_t i;

		if (!ctl_ask(ctl, "GET", path, NULL, &answer))
			return ctl->status;
		if (ctl_lacks(ctl, answer, "lines")) {
			json_decref(answer);
			return CTL_REFUSED;
		}
		if (get_number(answer, "missed") > 0)
			fprintf(stderr, "weirctl: %s lines are no longer kept\n",
				units_exact(get_number(answer, "missed")).text);
		json_array_foreach (get(answer, "lines"), i, line)
			puts(json_is_string(line) ? json_string_value(line) : "-");
		fflush(stdout);
		if (json_is_integer(get(answer, "last")))
			snprintf(after, sizeof(after), "/v1/log?after=%s",
				units_exact(get_number(answer, "last")).text);
		json_decref(answer);
		if (!ctl->options.follow)
			return ctl->status;
	}
}

static int
save(const char *name, const struct ctl_answer *trace)
{
	bool failed = true;
	FILE *file;

	if (trace->length == 0 || strchr("{[", trace->body[0]) == NULL) {
		ctl_say("the answer is not a trace");
		return CTL_REFUSED;
	}
	if (strcmp(name, "-") == 0) {
		get_print(trace->body, trace->length, stdout);
		return CTL_OK;
	}
	file = fopen(name, "we");
	if (file != NULL) {
		get_print(trace->body, trace->length, file);
		failed = ferror(file) != 0;
		failed |= fclose(file) != 0;
	}
	if (failed) {
		ctl_say("%s: %s", name, strerror(errno));
		return CTL_REFUSED;
	}
	fprintf(stderr, "weirctl: %s: %s, for https://ui.perfetto.dev or chrome://tracing\n", name,
		units_bytes((double)trace->length).text);
	return CTL_OK;
}

int
command_trace(struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	struct ctl_answer trace;
	char path[64];
	int status = CTL_REFUSED;

	if (o->output == NULL) {
		ctl_say("trace: -o FILE is missing; - is standard output");
		return CTL_USAGE;
	}
	snprintf(path, sizeof(path), "/v1/trace?ms=%.0f", o->span * 1e3 < 1 ? 1 : o->span * 1e3);
	if (!ctl_request(ctl, "GET", path, NULL, o->span, TRACE_MAX, &trace))
		return ctl->status;
	if (trace.status == 200)
		status = save(o->output, &trace);
	else
		ctl_refused(ctl, &trace);
	free(trace.body);
	return status;
}

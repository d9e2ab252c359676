/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch as a whole: status, health, tenants. */
#include <math.h>
#include <stdlib.h>

#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define INDENT 9

static void
workers(json_t *list, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"WORKER", 1, 0, 0},
		{"LCORE", 1, 0, 1},
		{"CPU", 1, 0, 0},
		{"BUSY", 1, 0, 0},
		{"TURNS", 1, 0, 3},
		{"HOPS IN", 1, 0, 2},
		{"HOPS OUT", 1, 0, 2},
		{"THREADS", 1, 0, 0},
	};
	struct table *table = table_create(columns, 8);

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *w = json_array_get(list, i);

		table_cell(table, "%s", units_exact(get_number(w, "id")).text);
		table_cell(table, "%s", units_exact(get_number(w, "lcore")).text);
		table_cell(table, "%s", units_exact(get_number(w, "cpu")).text);
		table_cell(table, "%s", units_share(get_number(w, "busy")).text);
		table_cell(table, "%s", units_count(get_number(w, "turns")).text);
		table_cell(table, "%s", units_count(get_number(w, "hops_in")).text);
		table_cell(table, "%s", units_count(get_number(w, "hops_out")).text);
		table_cell(table, "%s", units_exact(get_number(w, "threads_live")).text);
	}
	table_print(table, out, width);
	table_destroy(table);
}

static void
pools(json_t *list, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"POOL", 0, 1, 0}, {"SIZE", 1, 0, 0}, {"FREE", 1, 0, 0}, {"USED", 1, 0, 0}};
	struct table *table = table_create(columns, 4);
	const char *name;
	json_t *pool;

	json_object_foreach (list, name, pool) {
		double size = get_number(pool, "size"), left = get_number(pool, "free");

		table_cell(table, "%s", name);
		table_cell(table, "%s", units_exact(size).text);
		table_cell(table, "%s", units_exact(left).text);
		table_cell(table, "%s", units_share(size > 0 ? 1 - left / size : (double)NAN).text);
	}
	table_print(table, out, width);
	table_destroy(table);
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
books(json_t *from, FILE *out, unsigned int width)
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
			"         the books are off by %s: normal while packets flow, an error "
			"when none do",
			units_exact(off).text);
}

void
view_status(json_t *s, FILE *out, unsigned int width)
{
	text_printf(out, INDENT, width, "switch   %s, weir-switch %s, process %s, up %s",
		get_text(s, "name"), get_text(s, "version"), units_exact(get_number(s, "pid")).text,
		units_age(get_number(s, "uptime")).text);
	text_printf(out, INDENT, width, "address  %s, %s, UDP %s and %s", get_text(s, "address"),
		get_text(s, "mac"), units_exact(get_number(s, "udp_port")).text,
		units_exact(get_number(s, "udp_port_ext")).text);
	text_printf(out, INDENT, width, "serves   %s ports, %s jobs",
		units_exact(get_number(s, "ports")).text, units_exact(get_number(s, "jobs")).text);
	memory(get(s, "memory"), out, width);
	books(get(s, "books"), out, width);
	view_faults_brief(s, out, width);
	if (json_array_size(get(s, "workers")) > 0) {
		fputc('\n', out);
		workers(get(s, "workers"), out, width);
	}
	if (json_object_size(get(s, "pools")) > 0) {
		fputc('\n', out);
		pools(get(s, "pools"), out, width);
	}
}

void
view_health(json_t *answer, FILE *out, unsigned int width)
{
	text_printf(out, INDENT, width, "%s, up %s", get_text(answer, "status"),
		units_age(get_number(answer, "uptime")).text);
}

void
view_json(json_t *answer, FILE *out, unsigned int width)
{
	(void)width;
	json_dumpf(answer, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	fputc('\n', out);
}

/* "3 of 8", or "3" where there is no quota. */
static void
used_of(struct table *table, json_t *tenant, const char *used, const char *quota, bool bytes)
{
	double have = get_number(tenant, used), may = get_number(get(tenant, "quota"), quota);
	struct units_text text = bytes ? units_bytes(have) : units_exact(have);

	if (bytes)
		may *= 1 << 20;
	if (isfinite(may) && may > 0)
		table_cell(table, "%s of %s", text.text,
			(bytes ? units_bytes(may) : units_exact(may)).text);
	else
		table_cell(table, "%s", text.text);
}

void
view_tenants(json_t *answer, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"TENANT", 0, 1, 0},
		{"JOBS", 1, 0, 0},
		{"MEMORY", 1, 0, 0},
		{"BLOCKS", 1, 0, 0},
		{"RATE (Mbit/s)", 1, 0, 1},
	};
	json_t *list = get(answer, "tenants");
	struct table *table;

	if (json_array_size(list) == 0) {
		text_print("no tenants: the Unix socket is the admin's, and TCP only reads", out, 0,
			width);
		return;
	}
	table = table_create(columns, 5);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *tenant = json_array_get(list, i);

		table_cell(table, "%s", get_text(tenant, "name"));
		used_of(table, tenant, "jobs", "jobs", false);
		used_of(table, tenant, "memory", "memory_mb", true);
		used_of(table, tenant, "blocks", "blocks", false);
		used_of(table, tenant, "rate_mbit", "rate_mbit", false);
	}
	table_print(table, out, width);
	table_destroy(table);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a contribution and a hop cost: from records, or measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "apps/bench/generator.h"
#include "apps/bench/plan.h"
#include "rmw/kernels.h"

#define MEASURED_WINDOW 64u /* the window changes little; make bench shows it */
#define MEASURED_BURST  32u
#define FRAMES          4096u
#define SIZES_MAX       64u
#define TRIES           5u

/* A measured cost at a size. */
struct at_size {
	double elements, ns;
	unsigned int sources;
	bool huge_pages;
};

static bool
is(const json_t *record, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(record, key));

	return text != NULL && strcmp(text, value) == 0;
}

/* The engine's time of contributions on one lcore, as this rack's switch has them? */
static bool
matches(const json_t *record, const struct plan_rack *rack)
{
	const json_t *params = json_object_get(record, "params");

	return is(record, "bench", "engine") && is(record, "metric", "time") &&
		json_is_number(json_object_get(record, "value")) &&
		is(params, "traffic", "aggregate") && is(params, "isa", "auto") &&
		is(params, "order", "block") && is(params, "type", rmw_type_name(rack->type)) &&
		is(params, "checksum", rack->software_checksum ? "software" : "none") &&
		is(params, "results", rack->multicast ? "multicast" : "unicast") &&
		json_integer_value(json_object_get(params, "lcores")) == 1 &&
		json_integer_value(json_object_get(params, "threads")) == rack->threads &&
		json_integer_value(json_object_get(params, "burst")) == MEASURED_BURST &&
		json_integer_value(json_object_get(params, "sources")) > 0 &&
		json_integer_value(json_object_get(params, "window")) == MEASURED_WINDOW;
}

static int
by_elements(const void *a, const void *b)
{
	const struct at_size *x = a, *y = b;

	return (x->elements > y->elements) - (x->elements < y->elements);
}

/* Between two sizes a cost is a line: headers, and so much per element. Of the sizes that were
 * measured with as many sources; sorted by elements. */
static double
interpolate(const struct at_size *size, unsigned int n, unsigned int sources, double elements)
{
	const struct at_size *last = NULL;

	for (unsigned int i = 0; i < n; i++) {
		const struct at_size *at = &size[i];

		if (at->sources != sources)
			continue;
		if (at->elements == elements)
			return at->ns;
		if (last != NULL && last->elements < elements && elements < at->elements)
			return last->ns +
				(at->ns - last->ns) * (elements - last->elements) /
				(at->elements - last->elements);
		last = at;
	}
	return PLAN_UNKNOWN;
}

/* The cost with the number of sources nearest to the rack's that was measured around its size; sets
 * which. */
static double
nearest_cost(struct at_size *size, unsigned int n, const struct plan_rack *rack,
	const struct at_size **which)
{
	double nearest = INFINITY, found = PLAN_UNKNOWN;

	qsort(size, n, sizeof(*size), by_elements);
	for (unsigned int i = 0; i < n; i++) {
		double distance = fabs(log((double)size[i].sources / rack->sources));
		double ns = interpolate(size, n, size[i].sources, rack->elements);

		if (ns == PLAN_UNKNOWN || distance >= nearest)
			continue;
		nearest = distance;
		found = ns;
		*which = &size[i];
	}
	return found;
}

/* The hop that was measured with a size nearest to the rack's: what waits in caches matters. */
static void
take_hop(const json_t *params, double value, const struct plan_rack *rack, double *nearest,
	double *hop)
{
	double elements = json_number_value(json_object_get(params, "elements"));
	double distance = fabs(log(RTE_MAX(elements, 1.0) / rack->elements));

	if (distance >= *nearest)
		return;
	*nearest = distance;
	*hop = value;
}

static int
find_costs(const json_t *records, const char *path, const struct plan_rack *rack,
	struct plan_cost *cost)
{
	double nearest = INFINITY, hop = PLAN_UNKNOWN;
	const struct at_size *which = NULL;
	struct at_size size[SIZES_MAX];
	unsigned int n = 0;
	size_t index;
	json_t *record;

	json_array_foreach (records, index, record) {
		const json_t *params = json_object_get(record, "params");
		double value = json_number_value(json_object_get(record, "value"));

		if (n < SIZES_MAX && matches(record, rack))
			size[n++] = (struct at_size){
				json_number_value(json_object_get(params, "elements")), value,
				(unsigned int)json_integer_value(
					json_object_get(params, "sources")),
				json_is_true(json_object_get(params, "huge_pages"))};
		if (is(record, "bench", "scaling") && is(record, "metric", "hop") && value > 0)
			take_hop(params, value, rack, &nearest, &hop);
	}
	if (cost->hop == PLAN_UNKNOWN && hop != PLAN_UNKNOWN) {
		cost->hop = hop;
		snprintf(cost->hop_from, sizeof(cost->hop_from), "measured by the bench scaling");
	}
	cost->contribution = nearest_cost(size, n, rack, &which);
	if (cost->contribution != PLAN_UNKNOWN) {
		snprintf(cost->contribution_from, sizeof(cost->contribution_from),
			"measured by the bench engine, %u sources, %s pages", which->sources,
			which->huge_pages ? "huge" : "small");
		return 0;
	}
	fprintf(stderr,
		"weir-bench: %s has no times of the engine for %u elements (%s, %u threads, %s "
		"checksums, %s results), nor around; leave --from out to measure\n",
		path, rack->elements, rmw_type_name(rack->type), rack->threads,
		rack->software_checksum ? "software" : "none",
		rack->multicast ? "multicast" : "unicast");
	return -1;
}

int
plan_cost_read(const char *path, const struct plan_rack *rack, struct plan_cost *cost)
{
	json_error_t error;
	json_t *records = json_load_file(path, 0, &error);
	int rc = -1;

	if (records == NULL)
		fprintf(stderr, "weir-bench: %s: %s\n", path, error.text);
	else if (!json_is_array(records))
		fprintf(stderr, "weir-bench: %s holds no records\n", path);
	else
		rc = find_costs(records, path, rack, cost);
	json_decref(records);
	return rc;
}

static struct generator_work
work_of(const struct plan_rack *rack, unsigned int workers, double far)
{
	struct generator_work w = {
		.workers = workers,
		.threads = rack->threads,
		.burst = MEASURED_BURST,
		.sources = RTE_MAX(rack->sources, 2u),
		.window = MEASURED_WINDOW,
		.elements = rack->elements,
		.type = rack->type,
		.checksum = rack->software_checksum,
		.multicast = rack->multicast,
		.far = far,
		.isa = rmw_isa_parse("auto"),
		.repeat = (unsigned int)bench_common.repeat,
		.phase_ms = (unsigned int)bench_common.phase_ms,
	};

	/* A worker has its share of the window under way; many sources have fewer blocks. */
	w.depth = RTE_MIN(MEASURED_WINDOW / workers, 8 * MEASURED_WINDOW / w.sources);
	w.depth = RTE_MAX(w.depth, 1u);
	w.copies = RTE_MAX(FRAMES / (w.depth * w.sources), 1u);
	return w;
}

/* ns of CPU time per contribution: the best sample, which others disturbed least; hops: of one. */
static int
time_of(const struct generator_work *work, double *ns, double *hops)
{
	struct generator_result result = {0};

	for (unsigned int i = 0; i < TRIES && result.samples == 0; i++)
		if (generator_run(work, &result) < 0)
			return -1;
	if (result.samples == 0) {
		fprintf(stderr,
			"weir-bench: other processes left the workers no time to measure\n");
		return -1;
	}
	*ns = 1e9 * work->workers / result.sample[0].rate;
	for (unsigned int i = 1; i < result.samples; i++)
		*ns = RTE_MIN(*ns, 1e9 * work->workers / result.sample[i].rate);
	*hops = (double)result.hops / (double)RTE_MAX(result.contributions, UINT64_C(1));
	return 0;
}

/* What half the contributions' hops add, for one. */
static int
measure_hop(struct bench_report *report, const struct plan_rack *rack, struct plan_cost *cost)
{
	struct generator_work near = work_of(rack, 2, 0), far = work_of(rack, 2, 0.5);
	double ns[2], hops[2];

	bench_progress(report, "two lcores without hops, and with");
	if (time_of(&near, &ns[0], &hops[0]) < 0 || time_of(&far, &ns[1], &hops[1]) < 0)
		return -1;
	cost->hop = RTE_MAX(ns[1] - ns[0], 0.0) / RTE_MAX(hops[1] - hops[0], 0.01);
	snprintf(cost->hop_from, sizeof(cost->hop_from),
		"measured now: two lcores, %.0f %% of the packets hop", 100 * hops[1]);
	return 0;
}

int
plan_cost_measure(struct bench_report *report, const struct plan_rack *rack, struct plan_cost *cost)
{
	bool hop = cost->hop == PLAN_UNKNOWN && bench_cpus() >= 2;
	struct generator_work one = work_of(rack, 1, 0), two = work_of(rack, 2, 0.5);
	double hops;
	int rc;

	if (bench_start_eal(hop ? 2 : 1, generator_memory_mb(hop ? &two : &one), NULL) < 0)
		return -1;
	bench_progress(report, "one lcore, %u elements", rack->elements);
	rc = time_of(&one, &cost->contribution, &hops);
	snprintf(cost->contribution_from, sizeof(cost->contribution_from),
		"measured now, %u sources, window %u, %s pages", one.sources, one.window,
		bench_on_huge_pages() ? "huge" : "small");
	if (rc == 0 && hop)
		rc = measure_hop(report, rack, cost);
	bench_progress(report, NULL);
	bench_stop_eal();
	return rc;
}

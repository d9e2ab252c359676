/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench plan: how many lcores and how much memory for so many hosts at such a rate.
 *
 *     t = c + far h + p         ns of an lcore per contribution: the engine (results included), the
 *                               hop to the block's owner, the port's driver
 *     lcores = N / (t load)     N: contributions per second of all hosts; far = 1 - 1 / lcores
 *     window = rate rtt / bytes the bandwidth-delay product, in blocks, as a power of two
 *
 * Memory is what the switch computes for the configuration that comes out.
 */
#include "apps/bench/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

static uint64_t hosts = 8, ports, elements = 1024, sources, window, frame, threads = 20;
static double rate = 25, load = 80, rtt_us = 100, hop_ns = PLAN_UNKNOWN, port_ns = 60;
static const char *type = "fp32", *results = "unicast", *checksum = "none", *from, *config_path;

static const struct bench_option options[] = {
	{"hosts", BENCH_UINT, &hosts, 2, 16384, NULL, "hosts of the rack"},
	{"rate", BENCH_REAL, &rate, 1, 1000000000, NULL,
		"Gbit/s on the wire of each host, each way"},
	{"ports", BENCH_UINT, &ports, 0, PLAN_PORTS, NULL,
		"ports of the switch; 0: one for each host"},
	{"elements", BENCH_UINT, &elements, 1, 4095, NULL,
		"elements of a contribution, 4 bytes each"},
	{"frame", BENCH_UINT, &frame, 0, 9600, NULL,
		"as many elements as a frame of so many bytes holds (with check sequence); 0: as "
		"--elements says"},
	{"type", BENCH_TEXT, &type, 0, 0, "int32|fp32", "type of the elements"},
	{"sources", BENCH_UINT, &sources, 0, 256, NULL, "hosts of a job; 0: all are in one"},
	{"window", BENCH_UINT, &window, 0, PLAN_WINDOW, NULL,
		"blocks in flight, a power of two; 0: what rate and round trip ask for"},
	{"rtt-us", BENCH_REAL, &rtt_us, 1, 1000000000, NULL,
		"from a contribution to its result as hosts see it, stragglers included"},
	{"load", BENCH_REAL, &load, 1, 100000, NULL,
		"per cent of its time that an lcore may be busy"},
	{"threads", BENCH_UINT, &threads, 1, 64, NULL, "thread contexts per lcore"},
	{"results", BENCH_TEXT, &results, 0, 0, "unicast|multicast", "how results are sent"},
	{"checksum", BENCH_TEXT, &checksum, 0, 0, "none|software",
		"UDP checksums: not by the lcores (the device, or nobody), or by software"},
	{"port-ns", BENCH_REAL, &port_ns, 0, 1000000000, NULL,
		"ns of the port's driver to receive a packet and send one: 1e9 / pps of testpmd"},
	{"hop-ns", BENCH_REAL, &hop_ns, 0, 1000000000, NULL, "ns of a hop; -1: as measured"},
	{"from", BENCH_TEXT, &from, 0, 0, NULL,
		"take costs from these records (build/bench/all.json); none: measure now"},
	{"config", BENCH_TEXT, &config_path, 0, 0, NULL,
		"also write the configuration to this file; its devices stand for yours"},
	{0},
};

static int
refuse(const char *why)
{
	fprintf(stderr, "weir-bench: %s\n", why);
	return -1;
}

/* The options as a rack. */
static int
read_rack(struct plan_rack *rack)
{
	if (!(rate > 0) || !(rtt_us > 0) || !(port_ns >= 0) || !(load > 0 && load <= 100))
		return refuse("--rate, --rtt-us and --load must be above 0, --load at most 100");
	if ((window & (window - 1)) != 0)
		return refuse("--window must be a power of two");
	if (frame > 0 && frame < PLAN_HEADERS + 4 + 4)
		return refuse("--frame has no room for an element");
	if (ports == 0 && hosts > PLAN_PORTS)
		return refuse("a switch has 63 ports at most; --ports says how many hosts share");
	if (sources > hosts || (sources == 0 && hosts > 256))
		return refuse("--sources must be at most --hosts, and 256");
	*rack = (struct plan_rack){
		.hosts = (unsigned int)hosts,
		.ports = (unsigned int)(ports > 0 ? ports : hosts),
		.sources = (unsigned int)(sources > 0 ? sources : hosts),
		.elements = (unsigned int)(frame > 0 ? (frame - PLAN_HEADERS - 4) / 4 : elements),
		.threads = (unsigned int)threads,
		.rate = rate,
		.type = strcmp(type, "fp32") == 0 ? RMW_TYPE_FP32 : RMW_TYPE_INT32,
		.multicast = results[0] == 'm',
		.software_checksum = checksum[0] == 's',
	};
	if ((rack->hosts + rack->sources - 1) / rack->sources > PLAN_JOBS)
		return refuse(
			"a switch has 256 jobs at most; --sources says how many hosts a job has");
	return 0;
}

static double
cost_of(const struct plan_cost *cost, double far)
{
	return cost->contribution + far * cost->hop + cost->port;
}

static double
far_of(unsigned int lcores)
{
	return 1 - 1.0 / lcores;
}

/* The fewest lcores that bear it: more of them hop more. Far more than a switch has end the
 * search. */
static void
solve(struct plan *plan)
{
	const struct plan_rack *rack = &plan->rack;

	plan->jobs = (rack->hosts + rack->sources - 1) / rack->sources;
	plan->wire_bytes = PLAN_HEADERS + 4 * rack->elements + PLAN_ETHERNET;
	plan->contributions = rack->hosts * rack->rate * 1e9 / (8.0 * plan->wire_bytes);
	for (plan->lcores = 1; plan->lcores < 4096; plan->lcores++) {
		plan->far = far_of(plan->lcores);
		plan->busy = plan->contributions * cost_of(&plan->cost, plan->far) * 1e-9;
		if (plan->busy <= plan->lcores * load / 100)
			break;
	}
}

static double
delay_product(const struct plan *plan)
{
	return plan->rack.rate * rtt_us * 1e3 / (8.0 * plan->wire_bytes);
}

/* At least a block for each lcore. */
static int
choose_window(struct plan *plan)
{
	double least = RTE_MAX(ceil(delay_product(plan)), (double)plan->lcores);

	if (least > PLAN_WINDOW)
		return refuse("the round trip asks for a window of more than 4096 blocks: larger "
			      "--elements need fewer");
	plan->window = (unsigned int)window;
	if (window == 0)
		plan->window = rte_align32pow2((uint32_t)least);
	return 0;
}

static void
print_costs(const struct plan *plan, FILE *out)
{
	const struct plan_cost *c = &plan->cost;

	fprintf(out, "c  %7.1f ns  contribution, with its share of the results: %s\n",
		c->contribution, c->contribution_from);
	fprintf(out, "h  %7.1f ns  hop to the lcore that owns the block: %s\n", c->hop,
		c->hop_from);
	fprintf(out, "p  %7.1f ns  driver, to receive a packet and send one: --port-ns\n", c->port);
}

static void
print_formula(const struct plan *plan, FILE *out)
{
	const struct plan_rack *r = &plan->rack;
	double t = cost_of(&plan->cost, plan->far), product = delay_product(plan);

	fprintf(out,
		"\nN = hosts x rate / (8 x bytes)\n"
		"  = %u x %g Gbit/s / (8 x %u B) = %.3f million contributions/s\n"
		"t = c + far x h + p, far = 1 - 1 / lcores\n"
		"  = %.1f + %.3f x %.1f + %.1f = %.1f ns\n"
		"lcores = N x t / load\n"
		"  = %.3f M/s x %.1f ns / %g %% = %.2f, so %u\n",
		r->hosts, r->rate, plan->wire_bytes, plan->contributions / 1e6,
		plan->cost.contribution, plan->far, plan->cost.hop, plan->cost.port, t,
		plan->contributions / 1e6, t, load, plan->busy * 100 / load, plan->lcores);
	fprintf(out,
		"window = rate x rtt / (8 x bytes)\n"
		"  = %g Gbit/s x %g us / (8 x %u B) = %.1f blocks, so %u%s\n\n",
		r->rate, rtt_us, plan->wire_bytes, product, plan->window,
		plan->window < product ? " as asked for: the rate will not be reached"
			: plan->lcores > product && window == 0 ? ": at least one for each lcore"
								: "");
}

/* The keys that depend on the plan; ports and sources are the reader's own. */
static void
print_snippet(const struct plan *plan, const json_t *root, FILE *out)
{
	static const char *const whole[] = {"memory_mb", "workers", "pools"};
	json_t *job = json_copy(json_array_get(json_object_get(root, "jobs"), 0));
	json_t *port = json_copy(json_array_get(json_object_get(root, "ports"), 0));
	char *text;

	fprintf(out, "\n# of the configuration, for %u lcores:\n", plan->lcores);
	for (unsigned int i = 0; i < RTE_DIM(whole); i++) {
		text = json_dumps(json_object_get(root, whole[i]), JSON_ENCODE_ANY);
		fprintf(out, "\"%s\": %s,\n", whole[i], text);
		free(text);
	}
	json_object_del(port, "name");
	json_object_del(port, "device");
	text = json_dumps(port, 0);
	fprintf(out, "ports, each of %u: %s\n", plan->rack.ports, text);
	free(text);
	json_object_del(job, "id");
	json_object_del(job, "name");
	json_object_del(job, "sources");
	json_object_del(job, "results");
	text = json_dumps(job, 0);
	fprintf(out, "jobs, each of %u, of up to %u sources: %s\n", plan->jobs, plan->rack.sources,
		text);
	free(text);
	json_decref(port);
	json_decref(job);
}

static void
add_records(struct bench_report *report, const struct plan *plan)
{
	const struct plan_rack *r = &plan->rack;
	json_t *params = json_pack("{si sf si si si ss ss ss si}", "hosts", (int)r->hosts, "rate",
		r->rate, "elements", (int)r->elements, "sources", (int)r->sources, "threads",
		(int)r->threads, "type", rmw_type_name(r->type), "results", results, "checksum",
		checksum, "ports", (int)r->ports);

	bench_add(report, "contributions", json_incref(params), plan->contributions, "1/s",
		BENCH_NONE, NULL);
	bench_add(report, "time", json_incref(params), cost_of(&plan->cost, plan->far),
		"ns/contribution", plan->cost.contribution, "engine alone");
	bench_add(report, "lcores", json_incref(params), plan->lcores, "lcores", PLAN_LCORES,
		"of a switch");
	bench_add(report, "window", json_incref(params), plan->window, "blocks", BENCH_NONE, NULL);
	bench_add(report, "memory", params, plan->memory_mb, "MiB", BENCH_NONE, NULL);
}

/* lcores fit: configuration, memory, records. An exit status. */
static int
finish(struct bench_report *report, struct plan *plan)
{
	FILE *out = bench_table(report);
	json_t *root = plan_configuration(plan, out);
	int rc = 0;

	if (root == NULL)
		return 1;
	print_snippet(plan, root, out);
	add_records(report, plan);
	if (config_path != NULL && json_dump_file(root, config_path, JSON_INDENT(1)) != 0) {
		fprintf(stderr, "weir-bench: %s can't be written\n", config_path);
		rc = 1;
	}
	json_decref(root);
	return rc;
}

static int
run(struct bench_report *report)
{
	struct plan plan = {.cost = {.hop = hop_ns < 0 ? PLAN_UNKNOWN : hop_ns, .port = port_ns}};
	FILE *out = bench_table(report);
	int rc;

	if (read_rack(&plan.rack) < 0)
		return 2;
	snprintf(plan.cost.hop_from, sizeof(plan.cost.hop_from), "--hop-ns");
	rc = from != NULL ? plan_cost_read(from, &plan.rack, &plan.cost)
			  : plan_cost_measure(report, &plan.rack, &plan.cost);
	if (rc < 0)
		return 1;
	if (plan.cost.hop == PLAN_UNKNOWN) {
		plan.cost.hop = 0;
		snprintf(plan.cost.hop_from, sizeof(plan.cost.hop_from),
			"not measured, not counted; --hop-ns");
	}
	solve(&plan);
	if (choose_window(&plan) < 0)
		return 1;
	fprintf(out,
		"# plan: %u hosts of %g Gbit/s each way, jobs: %u, contributions of %u %s "
		"elements\n",
		plan.rack.hosts, plan.rack.rate, plan.jobs, plan.rack.elements,
		rmw_type_name(plan.rack.type));
	print_costs(&plan, out);
	print_formula(&plan, out);
	if (plan.lcores <= PLAN_LCORES)
		return finish(report, &plan);
	fprintf(stderr,
		"weir-bench: a switch has %u worker lcores at most: fewer hosts, a lower rate, "
		"larger --elements, or more switches\n",
		PLAN_LCORES);
	return 1;
}

const struct bench bench_plan = {
	.name = "plan",
	.help = "how many lcores and how much memory for so many hosts at such a rate",
	.options = options,
	.run = run,
};

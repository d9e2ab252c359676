/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench plan: how many lcores and how much memory for so many hosts at such a rate.
 *
 *     t = c + far h + p         ns of an lcore per contribution: the engine (results included), the
 *                               hop to the block's owner, the port's driver
 *     lcores = N / (t load)     N: contributions per second of all hosts; far = 1 - 1 / lcores
 *     window = rate rtt / bytes the bandwidth-delay product, in blocks, as a power of two
 *
 * c and h are measured now unless they are given. Memory is what the switch computes for the
 * configuration that comes out.
 */
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "apps/bench/generator.h"
#include "ctrl/config/config.h"

#define HEADERS         54u /* Ethernet, IPv4, UDP, base form */
#define ETHERNET        24u /* check sequence, preamble, gap */
#define LCORES          16u /* workers of a switch */
#define JOBS            256u
#define WINDOW          4096u
#define PORTS           63u
#define DEPTH           512u /* descriptors of a ring: the configuration's default */
#define MEASURED_WINDOW 64u /* the window changes little; make bench shows it */
#define BURST           32u
#define FRAMES          4096u
#define MEMORY_MOST     1048576 /* MiB that a configuration may ask for */
#define MEMORY_EXTRA    1.25 /* DPDK's overhead, and what pages waste at their ends */
#define MEMORY_OWN      32 /* MiB for EAL and drivers */
#define MEMORY_STEP     64

static uint64_t hosts = 8, ports, elements = 1024, sources, window, threads = 20;
static double rate = 25, load = 80, rtt_us = 100, contribution_ns = -1, hop_ns = -1, port_ns = 60;
static const char *type = "fp32", *results = "unicast", *checksum = "none", *config_path;

static const struct option_row options[] = {
	{"hosts", 0, OPTION_UINT, &hosts, 2, 16384, NULL, "hosts of the rack"},
	{"rate", 0, OPTION_REAL, &rate, 0.001, 1e6, "GBIT",
		"Gbit/s on the wire of each host, each way"},
	{"ports", 0, OPTION_UINT, &ports, 0, PORTS, NULL,
		"ports of the switch; 0: one for each host"},
	{"elements", 0, OPTION_UINT, &elements, 1, 4095, NULL,
		"elements of a contribution, 4 bytes each"},
	{"type", 0, OPTION_CHOICE, &type, 0, 0, "int32|fp32", "type of the elements"},
	{"sources", 0, OPTION_UINT, &sources, 0, 256, NULL, "hosts of a job; 0: all are in one"},
	{"window", 0, OPTION_UINT, &window, 0, WINDOW, NULL,
		"blocks in flight, a power of two; 0: what rate and round trip need"},
	{"rtt-us", 0, OPTION_REAL, &rtt_us, 0.001, 1e6, "US",
		"from a contribution to its result as hosts see it, stragglers included"},
	{"load", 0, OPTION_REAL, &load, 0.001, 100, "PERCENT",
		"share of its time that an lcore may be busy"},
	{"threads", 0, OPTION_UINT, &threads, 1, 64, NULL, "thread contexts per lcore"},
	{"results", 0, OPTION_CHOICE, &results, 0, 0, "unicast|multicast", "how results are sent"},
	{"checksum", 0, OPTION_CHOICE, &checksum, 0, 0, "none|software",
		"UDP checksums by the lcores"},
	{"contribution-ns", 0, OPTION_REAL, &contribution_ns, 0, 1e6, "NS",
		"time of a contribution, with its share of the results; -1: measure now"},
	{"hop-ns", 0, OPTION_REAL, &hop_ns, 0, 1e6, "NS", "time of a hop; -1: measure now"},
	{"port-ns", 0, OPTION_REAL, &port_ns, 0, 1e6, "NS",
		"time of the port's driver to receive a packet and send one: 1e9 / pps of testpmd"},
	{"config", 0, OPTION_TEXT, &config_path, 0, 0, "FILE",
		"also write a configuration to FILE; replace its devices and addresses"},
	{0},
};

/* What comes out. */
static struct {
	unsigned int ports, sources, jobs, lcores, window, packets, headers, memory_mb;
	unsigned int wire_bytes; /* of a contribution, or of a result, with all of Ethernet */
	double contributions; /* per second, all hosts */
	double far; /* share of contributions that hop */
	double busy; /* lcores that would do if they were always busy */
	char contribution_from[96], hop_from[96]; /* where these costs come from */
} plan;

static int
refuse(const char *why)
{
	warnx("%s", why);
	return -1;
}

static int
read_rack(void)
{
	if ((window & (window - 1)) != 0)
		return refuse("--window must be a power of two");
	if (ports == 0 && hosts > PORTS)
		return refuse("a switch has 63 ports at most; --ports says how many hosts share");
	if (sources > hosts || (sources == 0 && hosts > 256))
		return refuse("--sources must be at most --hosts, and 256");
	plan.ports = (unsigned int)(ports > 0 ? ports : hosts);
	plan.sources = (unsigned int)(sources > 0 ? sources : hosts);
	plan.jobs = ((unsigned int)hosts + plan.sources - 1) / plan.sources;
	if (plan.jobs > JOBS)
		return refuse(
			"a switch has 256 jobs at most; --sources says how many hosts a job has");
	return 0;
}

static struct generator_work
work_of(unsigned int workers, double far)
{
	struct generator_work w = {
		.workers = workers,
		.threads = (unsigned int)threads,
		.burst = BURST,
		.sources = RTE_MAX(plan.sources, 2u),
		.window = MEASURED_WINDOW,
		.elements = (unsigned int)elements,
		.type = type[0] == 'f' ? WEIR_DTYPE_FP32 : WEIR_DTYPE_INT32,
		.checksum = checksum[0] == 's',
		.multicast = results[0] == 'm',
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

/* The costs that are not given. The hop: what half of the contributions' hops add. */
static int
measure(void)
{
	bool hop = hop_ns < 0 && bench_cpus() >= 2;
	const struct generator_work one = work_of(1, 0), near = work_of(2, 0),
				    far = work_of(2, 0.5);
	struct generator_best best = {.rate = 1}, other = {.rate = 1};
	int rc = 0;

	snprintf(plan.contribution_from, sizeof(plan.contribution_from), "--contribution-ns");
	snprintf(plan.hop_from, sizeof(plan.hop_from), "%s",
		hop_ns < 0 ? "not measured, not counted; --hop-ns" : "--hop-ns");
	if (contribution_ns >= 0 && !hop)
		return 0;
	if (bench_start_eal(hop ? 2 : 1, generator_memory_mb(hop ? &far : &one)) < 0)
		return -1;
	if (contribution_ns < 0) {
		bench_progress("one lcore, %u elements", one.elements);
		rc = generator_best(&one, &best);
		contribution_ns = 1e9 / best.rate;
		snprintf(plan.contribution_from, sizeof(plan.contribution_from),
			"measured now, %u sources, window %u, %s pages", one.sources, one.window,
			bench_pages());
	}
	if (rc == 0 && hop) {
		bench_progress("two lcores without hops, and with");
		rc = generator_best(&near, &best) < 0 || generator_best(&far, &other) < 0;
		hop_ns = RTE_MAX(2e9 / other.rate - 2e9 / best.rate, 0.0) /
			RTE_MAX(other.hops - best.hops, 0.01);
		snprintf(plan.hop_from, sizeof(plan.hop_from),
			"measured now: two lcores, %.0f %% of the packets hop", 100 * other.hops);
	}
	bench_progress(NULL);
	bench_stop_eal();
	return rc;
}

static double
time_per_contribution(void)
{
	return contribution_ns + plan.far * RTE_MAX(hop_ns, 0.0) + port_ns;
}

static double
delay_product(void)
{
	return rate * rtt_us * 1e3 / (8.0 * plan.wire_bytes);
}

/* The fewest lcores that suffice: more of them hop more. Far more than a switch has end the search.
 * The window: at least a block for each lcore. */
static int
solve(void)
{
	double least;

	plan.wire_bytes = (unsigned int)(HEADERS + 4 * elements + ETHERNET);
	plan.contributions = (double)hosts * rate * 1e9 / (8.0 * plan.wire_bytes);
	for (plan.lcores = 1; plan.lcores < 4096; plan.lcores++) {
		plan.far = 1 - 1.0 / plan.lcores;
		plan.busy = plan.contributions * time_per_contribution() * 1e-9;
		if (plan.busy <= plan.lcores * load / 100)
			break;
	}
	least = RTE_MAX(ceil(delay_product()), (double)plan.lcores);
	if (least > WINDOW)
		return refuse("the round trip needs a window of more than 4096 blocks: larger "
			      "--elements need fewer");
	plan.window = window != 0 ? (unsigned int)window : rte_align32pow2((uint32_t)least);
	return 0;
}

static void
print_plan(FILE *out)
{
	bench_note(
		"plan: %u hosts of %g Gbit/s each way, jobs: %u, contributions of %u %s elements",
		(unsigned int)hosts, rate, plan.jobs, (unsigned int)elements, type);
	fprintf(out,
		"c  %7.1f ns  contribution, with its share of the results: %s\n"
		"h  %7.1f ns  hop to the lcore that owns the block: %s\n"
		"p  %7.1f ns  driver, to receive a packet and send one: --port-ns\n\n",
		contribution_ns, plan.contribution_from, RTE_MAX(hop_ns, 0.0), plan.hop_from,
		port_ns);
	fprintf(out,
		"N = hosts x rate / (8 x bytes)\n"
		"  = %u x %g Gbit/s / (8 x %u B) = %.3f million contributions/s\n"
		"t = c + far x h + p, far = 1 - 1 / lcores\n"
		"  = %.1f + %.3f x %.1f + %.1f = %.1f ns\n"
		"lcores = N x t / load\n"
		"  = %.3f M/s x %.1f ns / %g %% = %.2f, so %u\n",
		(unsigned int)hosts, rate, plan.wire_bytes, plan.contributions / 1e6,
		contribution_ns, plan.far, RTE_MAX(hop_ns, 0.0), port_ns, time_per_contribution(),
		plan.contributions / 1e6, time_per_contribution(), load, plan.busy * 100 / load,
		plan.lcores);
	fprintf(out,
		"window = rate x rtt / (8 x bytes)\n"
		"  = %g Gbit/s x %g us / (8 x %u B) = %.1f blocks, so %u%s\n\n",
		rate, rtt_us, plan.wire_bytes, delay_product(), plan.window,
		plan.window < delay_product() ? " as given: the rate will not be reached"
			: plan.lcores > delay_product() && window == 0
			? ": at least one for each lcore"
			: "");
}

/* One row; its table is the formula above. */
static void
add_records(void)
{
	static const struct table_column columns[] = {
		{.key = "hosts", .role = BENCH_PARAM},
		{.key = "rate", .role = BENCH_PARAM},
		{.key = "elements", .role = BENCH_PARAM},
		{.key = "sources", .role = BENCH_PARAM},
		{.key = "contributions",
			.title = "contributions",
			.unit = "1/s",
			.role = BENCH_METRIC},
		{.key = "time", .title = "time", .unit = "ns", .digits = 1, .role = BENCH_METRIC},
		{.key = "lcores", .title = "lcores", .unit = "lcores", .role = BENCH_METRIC},
		{.key = "window", .title = "window", .unit = "blocks", .role = BENCH_METRIC},
		{.key = "packets", .title = "packets", .unit = "pool", .role = BENCH_METRIC},
		{.key = "headers", .title = "headers", .unit = "pool", .role = BENCH_METRIC},
		{.key = "memory", .title = "memory_mb", .unit = "MiB", .role = BENCH_METRIC},
	};

	fputc('\n', bench_out());
	bench_table(columns, RTE_DIM(columns));
	bench_row((struct table_cell[]){TABLE_NUMBER(hosts), TABLE_NUMBER(rate),
		TABLE_NUMBER(elements), TABLE_NUMBER(plan.sources),
		TABLE_NUMBER(plan.contributions), TABLE_NUMBER(time_per_contribution()),
		TABLE_NUMBER(plan.lcores), TABLE_NUMBER(plan.window), TABLE_NUMBER(plan.packets),
		TABLE_NUMBER(plan.headers), TABLE_NUMBER(plan.memory_mb)});
}

static json_t *
jobs_of(void)
{
	json_t *jobs = json_array();

	for (unsigned int j = 0; j < plan.jobs; j++) {
		json_t *list = json_array();
		char text[32];

		for (unsigned int s = 0; s < plan.sources && j * plan.sources + s < hosts; s++) {
			unsigned int host = j * plan.sources + s + 1;

			snprintf(text, sizeof(text), "10.77.%u.%u", host >> 8, host & 0xff);
			json_array_append_new(
				list, json_pack("{siss}", "id", (int)s, "address", text));
		}
		snprintf(text, sizeof(text), "239.77.0.%u", j);
		json_array_append_new(jobs,
			json_pack("{si ss+ si si ss ss so}", "id", (int)j, "name", "job",
				text + sizeof("239.77.0.") - 1, "window", (int)plan.window,
				"elements", (int)elements, "type", type, "results",
				results[0] == 'm' ? text : "unicast", "sources", list));
	}
	return jobs;
}

/* The configuration; sets the pools: what may be held at a time by rings, by windows of all sources,
 * by bursts. */
static json_t *
build(void)
{
	/* Every port has a queue for each worker that needs one to itself. */
	unsigned int queues = (plan.lcores + plan.ports - 1) / plan.ports;
	unsigned int flying = (unsigned int)hosts * plan.window;
	unsigned int sending = plan.ports * plan.lcores * DEPTH;
	unsigned int mtu = (unsigned int)(HEADERS + 4 + 4 * elements - 14); /* the extended form */
	json_t *cpus = json_array(), *list = json_array();

	plan.packets = plan.ports * queues * DEPTH + sending + flying + 2 * BURST * plan.lcores;
	plan.headers = flying + sending;
	for (unsigned int i = 0; i < plan.lcores; i++)
		json_array_append_new(cpus, json_integer(i + 1));
	for (unsigned int p = 0; p < plan.ports; p++) {
		char name[16], device[24];

		snprintf(name, sizeof(name), "p%u", p);
		snprintf(device, sizeof(device), "0000:%02x:00.0", p + 1);
		json_array_append_new(list,
			json_pack("{ss ss si si si}", "name", name, "device", device, "rx_queues",
				(int)queues, "tx_queues", (int)plan.lcores, "mtu",
				(int)RTE_MAX(mtu, 1500u)));
	}
	return json_pack("{s{ssss} si s{si si so si ss} s{si si} so so}", "switch", "name", "weir",
		"address", "10.77.255.254/16", "memory_mb", (int)plan.memory_mb, "workers", "count",
		(int)plan.lcores, "main_cpu", 0, "cpus", cpus, "threads", (int)threads, "idle",
		"spin", "pools", "packets", (int)plan.packets, "headers", (int)plan.headers,
		"ports", list, "jobs", jobs_of());
}

/* Read it as the switch would. NULL after a line. */
static struct ctrl_config *
parse(const json_t *root)
{
	char error[CTRL_ERROR_BYTES] = "no memory";
	struct ctrl_config *config = NULL;
	char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1));

	if (text == NULL ||
		ctrl_config_parse(text, strlen(text), "plan", &config, error, sizeof(error)) < 0)
		warnx("the plan makes no configuration: %s", error);
	free(text);
	return config;
}

/* Configuration and memory, by the switch's own reader. An exit status. */
static int
configure(FILE *out)
{
	struct ctrl_config *config = NULL;
	json_t *root = NULL;
	int rc = 1;

	for (unsigned int pass = 0; pass < 2; pass++) {
		if (pass == 0) {
			plan.memory_mb = MEMORY_MOST;
		} else {
			double needed = MEMORY_EXTRA * (double)config->memory.total / (1 << 20) +
				MEMORY_OWN;

			plan.memory_mb = ((unsigned int)needed / MEMORY_STEP + 1) * MEMORY_STEP;
			ctrl_config_destroy(config);
			json_decref(root);
		}
		root = build();
		config = parse(root);
		if (config == NULL) {
			json_decref(root);
			return 1;
		}
	}
	ctrl_memory_print(config, out);
	ctrl_config_destroy(config);
	if (config_path == NULL || json_dump_file(root, config_path, JSON_INDENT(1)) == 0)
		rc = 0;
	else
		warnx("%s can't be written", config_path);
	json_decref(root);
	return rc;
}

static int
run(void)
{
	FILE *out = bench_out();
	int rc;

	if (read_rack() < 0)
		return 2;
	if (measure() != 0 || solve() < 0)
		return 1;
	print_plan(out);
	if (plan.lcores <= LCORES) {
		rc = configure(out);
		add_records();
		return rc;
	}
	warnx("a switch has %u worker lcores at most: fewer hosts, a lower rate, larger "
	      "--elements, or more switches",
		LCORES);
	return 1;
}

const struct bench bench_plan = {
	.name = "plan",
	.help = "how many lcores and how much memory a rack needs",
	.options = options,
	.run = run,
};

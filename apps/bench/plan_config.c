/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration for a plan, and the memory that it takes. */
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "apps/bench/plan.h"
#include "ctrl/config/config.h"
#include "ctrl/config/memory.h"

#define MEMORY_MOST  1048576 /* MiB that a configuration may ask for */
#define MEMORY_EXTRA 1.25 /* DPDK's books, and what pages waste at their ends */
#define MEMORY_OWN   32 /* MiB for EAL and drivers */
#define MEMORY_STEP  64

static json_t *
sources_of(const struct plan_rack *rack, unsigned int job)
{
	json_t *sources = json_array();
	unsigned int first = job * rack->sources;

	for (unsigned int s = 0; s < rack->sources && first + s < rack->hosts; s++) {
		unsigned int host = first + s + 1;
		char address[32];

		snprintf(address, sizeof(address), "10.77.%u.%u", host >> 8, host & 0xff);
		json_array_append_new(
			sources, json_pack("{siss}", "id", (int)s, "address", address));
	}
	return sources;
}

static json_t *
jobs_of(const struct plan *plan)
{
	json_t *jobs = json_array();

	for (unsigned int j = 0; j < plan->jobs; j++) {
		char name[16], group[24];

		snprintf(name, sizeof(name), "job%u", j);
		snprintf(group, sizeof(group), "239.77.0.%u", j);
		json_array_append_new(jobs,
			json_pack("{si ss si si ss ss so}", "id", (int)j, "name", name, "window",
				(int)plan->window, "elements", (int)plan->rack.elements, "type",
				rmw_type_name(plan->rack.type), "results",
				plan->rack.multicast ? group : "unicast", "sources",
				sources_of(&plan->rack, j)));
	}
	return jobs;
}

/* Every port has a queue for each worker that needs one to itself. */
static unsigned int
rx_queues(const struct plan *plan)
{
	return (plan->lcores + plan->rack.ports - 1) / plan->rack.ports;
}

static json_t *
ports_of(const struct plan *plan)
{
	unsigned int frame = PLAN_HEADERS + 4 + 4 * plan->rack.elements; /* the extended form */
	json_t *ports = json_array();

	for (unsigned int p = 0; p < plan->rack.ports; p++) {
		char name[16], device[24];

		snprintf(name, sizeof(name), "p%u", p);
		snprintf(device, sizeof(device), "0000:%02x:00.0", p + 1);
		json_array_append_new(ports,
			json_pack("{ss ss si si si}", "name", name, "device", device, "rx_queues",
				(int)rx_queues(plan), "tx_queues", (int)plan->lcores, "mtu",
				(int)RTE_MAX(frame - 14, 1500u)));
	}
	return ports;
}

/* What may be held at a time: by rings, by windows of all sources, by bursts. */
static void
size_pools(struct plan *plan)
{
	unsigned int ports = plan->rack.ports;
	unsigned int flying = plan->rack.hosts * plan->window;
	unsigned int sending = ports * plan->lcores * PLAN_TX_DEPTH;

	plan->packets =
		ports * rx_queues(plan) * PLAN_RX_DEPTH + sending + flying + 2 * 32 * plan->lcores;
	plan->headers = flying + sending;
}

static json_t *
build(const struct plan *plan)
{
	json_t *cpus = json_array();

	for (unsigned int i = 0; i < plan->lcores; i++)
		json_array_append_new(cpus, json_integer(i + 1));
	return json_pack("{s{ssss} si s{si si so si ss} s{si si} so so}", "switch", "name", "weir",
		"address", "10.77.255.254/16", "memory_mb", (int)plan->memory_mb, "workers",
		"count", (int)plan->lcores, "main_cpu", 0, "cpus", cpus, "threads",
		(int)plan->rack.threads, "idle", "spin", "pools", "packets", (int)plan->packets,
		"headers", (int)plan->headers, "ports", ports_of(plan), "jobs", jobs_of(plan));
}

/* Read it as the switch would. NULL after a line. */
static struct ctrl_config *
parse(const json_t *root)
{
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config = NULL;
	char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1));

	if (text == NULL)
		fprintf(stderr, "weir-bench: no memory for a configuration\n");
	else if (ctrl_config_parse(text, strlen(text), "plan", &config, error, sizeof(error)) < 0)
		fprintf(stderr, "weir-bench: the plan makes no configuration: %s\n", error);
	free(text);
	return config;
}

json_t *
plan_configuration(struct plan *plan, FILE *out)
{
	struct ctrl_config *config;
	json_t *root;
	double needed;

	size_pools(plan);
	plan->memory_mb = MEMORY_MOST;
	root = build(plan);
	config = parse(root);
	json_decref(root);
	if (config == NULL)
		return NULL;
	needed = MEMORY_EXTRA * (double)config->memory.total / (1 << 20) + MEMORY_OWN;
	ctrl_config_destroy(config);
	plan->memory_mb = ((unsigned int)needed / MEMORY_STEP + 1) * MEMORY_STEP;
	root = build(plan);
	config = parse(root);
	if (config == NULL) {
		json_decref(root);
		return NULL;
	}
	ctrl_memory_print(config, out);
	ctrl_config_destroy(config);
	return root;
}

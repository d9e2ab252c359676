/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many lcores, how large a window and how much memory a rack needs: a formula, with costs that
 * were measured on this machine.
 */
#ifndef APPS_BENCH_PLAN_H
#define APPS_BENCH_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/bench/bench.h"
#include "rmw/rmw.h"

#define PLAN_HEADERS  54u /* Ethernet, IPv4, UDP, base form */
#define PLAN_ETHERNET 24u /* check sequence, preamble, gap */
#define PLAN_SOURCE   96 /* bytes of a sentence that says where a cost is from */
#define PLAN_LCORES   16u /* workers of a switch */
#define PLAN_JOBS     256u
#define PLAN_WINDOW   4096u
#define PLAN_PORTS    63u
#define PLAN_RX_DEPTH 512u /* descriptors: the configuration's defaults */
#define PLAN_TX_DEPTH 512u
#define PLAN_UNKNOWN  (-1.0)

/* What is asked for. */
struct plan_rack {
	unsigned int hosts, ports, sources, elements, threads;
	double rate; /* Gbit/s on the wire of each host, each way */
	enum rmw_type type;
	bool multicast, software_checksum;
};

/* ns of an lcore's time. */
struct plan_cost {
	double contribution; /* with its share of opening a block and of the results */
	double hop; /* from the lcore that received it to the one that owns the block */
	double port; /* driver: receive one packet, send one */
	char contribution_from[PLAN_SOURCE], hop_from[PLAN_SOURCE];
};

/* What comes out. */
struct plan {
	struct plan_rack rack;
	struct plan_cost cost;
	unsigned int jobs;
	unsigned int wire_bytes; /* of a contribution, or of a result, with all of Ethernet */
	double contributions; /* per second, all hosts */
	unsigned int lcores;
	double far; /* share of contributions that hop */
	double busy; /* lcores that would do if they were always busy */
	unsigned int window;
	unsigned int packets, headers; /* of the pools */
	unsigned int memory_mb;
};

/*
 * Contribution and hop from a file of records (of `make bench`: all.json). cost->hop stays as it is
 * when it is known already. 0, or -1 after a line on standard error.
 */
int plan_cost_read(const char *path, const struct plan_rack *rack, struct plan_cost *cost);

/* The same by measuring, some seconds long. Starts EAL. */
int plan_cost_measure(
	struct bench_report *report, const struct plan_rack *rack, struct plan_cost *cost);

/*
 * A configuration for the plan, as a new JSON object, checked by the switch's own reader, which
 * also computes its memory: sets packets, headers and memory_mb, and prints the memory to `out`.
 * NULL after a line on standard error.
 */
json_t *plan_configuration(struct plan *plan, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench hash: Weir's hash engine beside DPDK's rte_hash: the same random 64-bit keys, the same
 * records of 64 bytes, the same loads, in turn in one run. Every answer is checked.
 *
 * A point is a table made for so many records with a share of them live. Its four operations:
 * lookups of random live keys (hit) and of keys that were never there (miss); deletes of random
 * live keys; inserts of new keys in their places. Deletes and inserts take turns by thousands, so
 * that the load stays and the tables age as they do in a switch.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_lcore.h>

#include "apps/bench/bench.h"
#include "apps/bench/collect.h"
#include "apps/bench/hash_heap.h"
#include "apps/bench/hash_side.h"

#define HEAP_PER_PLACE 256u /* bytes of both tables with their records */
#define HEAP_MORE      64u /* MiB */

#define REPEAT_MAX     99u

/* The first four as enum bench_hash_operation. */
enum operation { HIT, MISS, INSERT, DELETE, SCAN, AGE, OPERATIONS };

static const char *const operation_name[OPERATIONS] = {
	"hit", "miss", "insert", "delete", "scan", "age"};

static struct bench_list records = {.count = 4, .value = {1000, 32000, 1000000, 4000000}};
static struct bench_list loads = {.count = 3, .value = {10, 50, 90}};
static uint64_t batch = 32, seed = 1, operations;
static const char *mix = "both", *pages = "eal", *only = "hit";
static bool spoil;

static const struct bench_option options[] = {
	{"records", BENCH_LIST, &records, 64, 16000000, NULL,
		"records that the tables are made for"},
	{"load", BENCH_LIST, &loads, 1, 95, NULL, "per cent of them that are live"},
	{"batch", BENCH_UINT, &batch, 1, BENCH_HASH_BATCH_MAX, NULL, "lookups in flight"},
	{"mix", BENCH_TEXT, &mix, 0, 0, "hit|miss|both", "lookups of live keys, of absent ones"},
	{"pages", BENCH_TEXT, &pages, 0, 0, "eal|transparent",
		"where the tables lie: EAL's heap, or the kernel's transparent huge pages"},
	{"seed", BENCH_UINT, &seed, 0, UINT64_MAX, NULL, "of the keys"},
	{"operations", BENCH_UINT, &operations, 0, 100000000, NULL,
		"for callgrind: only so many of Weir's, collected, with the first --records and "
		"--load; and no figures"},
	{"operation", BENCH_TEXT, &only, 0, 0, "hit|miss|insert|delete", "which"},
	{"spoil", BENCH_FLAG, &spoil, 0, 0, NULL, "damage a record, to see that it is noticed"},
	{0},
};

/* What a point measured: ns per operation, of Weir's table and of rte_hash, each repetition. */
struct point {
	uint32_t records, load, live;
	struct bench_hash_side side[2];
	double ns[OPERATIONS][2][REPEAT_MAX];
};

static bool
wanted(enum operation operation)
{
	if (operation == HIT || operation == MISS)
		return strcmp(mix, "both") == 0 || strcmp(mix, operation_name[operation]) == 0;
	return true;
}

static void
measure(struct point *point, unsigned int repetition)
{
	for (unsigned int i = 0; i < 2; i++) {
		/* Who begins takes turns. */
		unsigned int s = (repetition + i) % 2;
		struct bench_hash_side *side = &point->side[s];

		if (wanted(HIT))
			point->ns[HIT][s][repetition] =
				bench_hash_side_lookup(side, true, point->live);
		if (wanted(MISS))
			point->ns[MISS][s][repetition] =
				bench_hash_side_lookup(side, false, point->live);
		bench_hash_side_churn(side, point->live, &point->ns[INSERT][s][repetition],
			&point->ns[DELETE][s][repetition]);
		point->ns[SCAN][s][repetition] = bench_hash_side_scan(side, point->live);
		if (s == 0)
			point->ns[AGE][s][repetition] = bench_hash_side_age(side, point->live);
	}
}

/* ns of Weir's table, and of rte_hash by the median of the pairs' ratios; a row and a record. */
static void
report_operation(struct bench_report *report, struct point *point, enum operation operation)
{
	const struct bench_hash_side *weir = &point->side[0], *rte = &point->side[1];
	double ratio[REPEAT_MAX], ns, rte_ns = BENCH_NONE;
	FILE *out = bench_table(report);
	json_t *params;

	for (unsigned int r = 0; r < bench_common.repeat; r++)
		ratio[r] = point->ns[operation][1][r] / point->ns[operation][0][r];
	ns = bench_median(point->ns[operation][0], bench_common.repeat);
	fprintf(out, "%9u %4u  %5.2f %5.2f  %5.1f %5.1f  %-6s %7.1f %7.1f", point->records,
		point->load, weir->ops->slots_used(weir->table, point->live),
		rte->ops->slots_used(rte->table, point->live), (double)weir->bytes / point->records,
		(double)rte->bytes / point->records, operation_name[operation], ns, 1e3 / ns);
	if (operation == AGE) {
		fprintf(out, " %7s %7s %7s\n", "-", "-", "-");
	} else {
		rte_ns = ns * bench_median(ratio, bench_common.repeat);
		fprintf(out, " %7.1f %7.1f %7.2f\n", rte_ns, 1e3 / rte_ns, rte_ns / ns);
	}
	params = json_pack("{s:i, s:i, s:I, s:s}", "records", (int)point->records, "load",
		(int)point->load, "batch", (json_int_t)batch, "pages", pages);
	bench_observe(report, json_pack("{s:f}", "ns", ns));
	bench_add(report, operation_name[operation], params, 1e3 / ns, "Mops/s",
		rte_ns == BENCH_NONE ? BENCH_NONE : 1e3 / rte_ns,
		rte_ns == BENCH_NONE ? NULL : "rte_hash");
}

static void
report_bytes(struct bench_report *report, const struct point *point)
{
	bench_observe(report, NULL);
	bench_add(report, "bytes", json_pack("{s:i}", "records", (int)point->records),
		(double)point->side[0].bytes / point->records, "B/record",
		(double)point->side[1].bytes / point->records, "rte_hash");
}

/* 0, or 1 when an answer was wrong. */
static int
run_point(struct bench_report *report, struct point *point)
{
	point->live = (uint32_t)((uint64_t)point->records * point->load / 100);
	bench_progress(report, "%u records, %u %% of them live", point->records, point->load);
	for (unsigned int s = 0; s < 2; s++) {
		bench_hash_side_fill(&point->side[s], point->live);
		if (spoil)
			bench_hash_side_spoil(&point->side[s]);
	}
	for (unsigned int r = 0; r < bench_common.repeat; r++)
		measure(point, r);
	bench_progress(report, NULL);
	for (enum operation o = 0; o < OPERATIONS; o++)
		if (wanted(o))
			report_operation(report, point, o);
	fflush(bench_table(report));
	for (unsigned int s = 0; s < 2; s++)
		if (point->side[s].wrong > 0) {
			fprintf(stderr, "weir-bench: %s gave %" PRIu64 " wrong answers\n",
				point->side[s].ops->name, point->side[s].wrong);
			return 1;
		}
	return 0;
}

/* All loads of tables for so many records, the lower ones first: the tables only fill. */
static int
run_tables(struct bench_report *report, uint32_t capacity, int socket)
{
	static struct point point;
	int rc = 0;

	point = (struct point){.records = capacity};
	if (bench_hash_side_create(
		    &point.side[0], &bench_hash_weir, capacity, socket, seed, (uint32_t)batch) < 0)
		return 2;
	if (bench_hash_side_create(
		    &point.side[1], &bench_hash_rte, capacity, socket, seed, (uint32_t)batch) < 0) {
		bench_hash_side_destroy(&point.side[0]);
		return 2;
	}
	report_bytes(report, &point);
	for (unsigned int i = 0; i < loads.count && rc == 0; i++) {
		point.load = (uint32_t)loads.value[i];
		rc = run_point(report, &point);
	}
	bench_hash_side_destroy(&point.side[0]);
	bench_hash_side_destroy(&point.side[1]);
	return rc;
}

static int
ascending(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void
print_header(struct bench_report *report, int socket)
{
	const char *where = strcmp(pages, "eal") != 0 ? "transparent huge pages"
		: bench_on_huge_pages()               ? "huge pages"
						      : "pages of 4 KiB";

	fprintf(bench_table(report),
		"# weir-bench hash: random 64-bit keys, %d-byte records, %" PRIu64
		" in flight, seed %" PRIu64 ", socket %d, %s\n"
		"# records   that both tables are made for; load: per cent of them that are live\n"
		"# slots     used, of all in the buckets: Weir's are sized to be at 40 %% when all "
		"records are live\n"
		"# bytes     of the table per record that it is made for, with its key\n"
		"# op        hit, miss: lookup; scan: visit all records (rte_hash_iterate); age: "
		"scan by REF, all in use\n#\n"
		"# records load  slots used   bytes/record  op         weir            rte_hash    "
		"    speed-up\n"
		"#            %%   weir   rte   weir   rte            ns   Mops/s      ns  Mops/s"
		"       x\n",
		BENCH_HASH_RECORD_SIZE, batch, seed, socket, where);
}

static enum bench_hash_operation
parse_operation(void)
{
	unsigned int i = 0;

	while (strcmp(only, operation_name[i]) != 0)
		i++;
	return (enum bench_hash_operation)i;
}

static int
run_collected(struct bench_report *report)
{
	uint32_t capacity = (uint32_t)records.value[0];
	uint32_t live = (uint32_t)((uint64_t)capacity * loads.value[0] / 100);
	struct bench_hash_side side;

	if (!BENCH_CAN_COLLECT) {
		fprintf(stderr, "weir-bench: built without valgrind's header\n");
		return 2;
	}
	if (bench_hash_side_create(&side, &bench_hash_weir, capacity, (int)rte_socket_id(), seed,
		    (uint32_t)batch) < 0)
		return 2;
	bench_hash_side_fill(&side, live);
	bench_hash_side_collect(&side, parse_operation(), live, operations);
	fprintf(bench_table(report), "counted %" PRIu64 " operations\n", operations);
	if (side.wrong > 0)
		fprintf(stderr, "weir-bench: %" PRIu64 " wrong answers\n", side.wrong);
	bench_hash_side_destroy(&side);
	return side.wrong > 0 ? 1 : 0;
}

static int
run(struct bench_report *report)
{
	bool transparent = strcmp(pages, "transparent") == 0;
	uint64_t most = 0;
	unsigned int heap_mb;
	int socket, rc = 0;

	for (unsigned int i = 0; i < records.count; i++)
		most = RTE_MAX(most, records.value[i]);
	heap_mb = (unsigned int)(most * HEAP_PER_PLACE >> 20) + HEAP_MORE;
	qsort(loads.value, loads.count, sizeof(loads.value[0]), ascending);
	if (bench_start_eal(0, transparent ? HEAP_MORE : heap_mb, NULL) < 0)
		return 2;
	if (operations > 0) {
		rc = run_collected(report);
		bench_stop_eal();
		return rc;
	}
	socket = transparent ? bench_hash_heap((size_t)heap_mb << 20) : (int)rte_socket_id();
	if (socket < 0)
		rc = 2;
	else
		print_header(report, socket);
	for (unsigned int i = 0; i < records.count && rc == 0; i++)
		rc = run_tables(report, (uint32_t)records.value[i], socket);
	bench_stop_eal();
	return rc;
}

const struct bench bench_hash = {
	.name = "hash",
	.help = "lookups, inserts, deletes and scans beside DPDK's rte_hash",
	.options = options,
	.run = run,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench: what its benches share. A bench has a name, options, and a function that measures and
 * reports rows. A row has parameters, figures, and beside each figure the limit that the same run
 * measured, so that the ratio holds on any machine. It goes to people as a line of a table and to
 * programs as a record, an object with the name of the bench and the cells of all columns with a key.
 *
 * Everything here is for the main thread. Only main.c exits. Errors go to warnx(3).
 */
#ifndef APPS_BENCH_BENCH_H
#define APPS_BENCH_BENCH_H

#include <err.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/report/options.h"
#include "apps/report/table.h"

/*
 * What callgrind collects: under --instr-atstart=no --collect-atstart=no, what a thread runs between two
 * BENCH_COLLECT_TOGGLE of its own. What runs before the first one is not slowed down. Where the build found
 * no header of valgrind's, BENCH_CAN_COLLECT is false, and a bench that is asked to count says so.
 */
#ifdef HAVE_CALLGRIND
#include <valgrind/callgrind.h>
#define BENCH_CAN_COLLECT true
#define BENCH_COLLECT_TOGGLE                                                                       \
	do {                                                                                       \
		CALLGRIND_START_INSTRUMENTATION;                                                   \
		CALLGRIND_TOGGLE_COLLECT;                                                          \
	} while (0)
#else
#define BENCH_CAN_COLLECT    false
#define BENCH_COLLECT_TOGGLE (void)0
#endif

#define BENCH_REPEAT_MAX 99
#define BENCH_NONE       NAN /* no limit, or a figure that this machine can't give */

/* Options that all benches have. */
struct bench_common {
	const char *json; /* file, "-" for standard output, NULL: none */
	const char *huge; /* auto | yes | no */
	uint64_t repeat; /* measurements of each point; the median counts */
	uint64_t phase_ms; /* length of one */
	char **arguments; /* what follows the options, of a bench with `arguments`; NULL ends them */
};
extern struct bench_common bench_common;

struct bench {
	const char *name;
	const char *help; /* NULL: for ports.py, not for people */
	const char *arguments; /* their names in the help; NULL: there are none */
	const struct option_row *options;
	/* Returns 0 or an exit status, after a line on stderr: 1 after a wrong or missing result, 2 if
	 * it can't run here. */
	int (*run)(void);
	const char *script; /* instead of run(): a script here, which replaces this process */
};
extern const struct bench bench_engine, bench_hash, bench_kernels, bench_traffic;

/*
 * A table is an X-list of its columns: NUMBER, TEXT or BOOL, the value where the row is printed, key (NULL: not in the
 * records), title (NULL: in the records alone), unit, width (negative: aligned left), digits.
 *
 *     static const struct table_column columns[] = {COLUMNS(BENCH_COLUMN)};
 *     bench_row((struct table_cell[]){COLUMNS(BENCH_CELL)});
 */
#define BENCH_CELL(kind, value, ...) TABLE_##kind(value),
#define BENCH_COLUMN(kind, value, name, head, of, wide, behind)                                    \
	{.key = (name),                                                                            \
		.title = (head),                                                                   \
		.unit = (of),                                                                      \
		.digits = (behind),                                                                \
		.left = (wide) < 0,                                                                \
		.width = (wide) < 0 ? -(wide) : (wide)},

/* Begin a table; columns must outlive the bench. Rows that follow belong to it. */
void bench_table(const struct table_column *columns, size_t count);

/* A row of the table: a cell for each column. */
void bench_row(const struct table_cell *cells);

/* A comment between the rows: a line "# ...". */
void bench_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * The CPUs that this process may use, as it was started: how many, and the i-th of them, modulo
 * their number. EAL binds threads later, and changes nothing of that.
 */
unsigned int bench_cpus(void);
unsigned int bench_cpu(unsigned int i);

/*
 * Start EAL with lcore 0 for the main thread, on the first of these CPUs, and `workers` more: [0,
 * 127], on all of them in turn from the last one down, so that the main thread's is used last. Huge
 * pages as bench_common.huge says; memory_mb without them. 0, or -1 after a line. Once a process.
 */
int bench_start_eal(unsigned int workers, unsigned int memory_mb);

/* Is EAL on huge pages? After bench_start_eal. */
extern bool bench_on_huge_pages;

/* Remove what EAL left in the file system. */
void bench_stop_eal(void);

/* Is WEIR_BENCH_SPOIL set, with which tests prove the checks of traffic and hash: one expected value is then wrong. */
bool bench_spoils(void);

/* Run `weir-bench engine` with these words by callgrind, and no huge pages. It says "counted N packets". Returns instructions per
 * packet; BENCH_NONE after a line. */
double bench_instructions(const char *words);

/* The path of this program; valgrind's /proc/self/exe is another. */
const char *bench_self(void);

/* CPU time of this thread, ns. */
uint64_t bench_cpu_ns(void);

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014): its output function, a bijection; and its next number. */
static inline uint64_t
bench_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline uint64_t
bench_random(uint64_t *state)
{
	return bench_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Order of doubles, for qsort. */
int bench_ascending(const void *a, const void *b);

/* The value in the middle; sorts. n: [1, ...]. */
double bench_median(double *values, size_t n);

#endif

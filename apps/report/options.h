/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options as tables, read by glibc's argp: where a value goes, its range, its help. --help shows each
 * option with its default. A wrong command line ends the program with STATUS_USAGE, --help and --version,
 * which every program has, with 0.
 *
 *     static uint64_t count = 8;
 *     static const struct option_row rows[] = {
 *             {"count", 'n', OPTION_UINT, &count, 1, 100, "NUMBER", "how many"},
 *             {0},
 *     };
 *     options_parse("program", "What it does.", NULL,
 *             (const struct option_row *[]){rows, NULL}, argc, argv);
 *
 * For the main thread of a program. Nothing here needs DPDK.
 */
#ifndef APPS_REPORT_OPTIONS_H
#define APPS_REPORT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The exit statuses of all programs; --help has these texts, and so has weir(7). `weirctl run` ends as
 * its command does.
 */
#define STATUS_LIST(X)                                                                             \
	X(DONE, 0, "success")                                                                      \
	X(FAILED, 1, "failed: an error, a refusal, or a wrong result")                             \
	X(USAGE, 2, "wrong command line or file, or it cannot run here; nothing has begun")        \
	X(INCOMPLETE, 3, "incomplete: no answer (weirctl), or partial results (weir-perf)")

enum status {
#define X(name, value, help) STATUS_##name = (value),
	STATUS_LIST(X)
#undef X
};

#define OPTION_LIST_MAX 64

/* Values of a sweep: "64,256,1024", or "8..4096" for the powers of two in between. */
struct option_list {
	unsigned int count;
	uint64_t value[OPTION_LIST_MAX];
};

#define OPTION_TEXTS_MAX 32

struct option_texts {
	unsigned int count;
	const char *text[OPTION_TEXTS_MAX];
};

#define OPTION_KEY_BYTES 32

struct option_key {
	size_t bytes; /* 0: none was given */
	uint8_t byte[OPTION_KEY_BYTES];
};

enum option_kind {
	OPTION_FLAG, /* to: bool *, set by the option; no argument */
	OPTION_UINT, /* to: uint64_t *; k, M and G are thousands */
	OPTION_SIZE, /* to: uint64_t *, bytes; K, M and G are powers of 1024 */
	OPTION_TIME, /* to: uint64_t *, in the unit that is `argument`: ns, us or ms; 50ms, or a number in that unit */
	OPTION_REAL, /* to: double *; K, M and G are powers of 1000; the default may lie outside of the range */
	OPTION_TEXT, /* to: const char ** */
	OPTION_TEXTS, /* to: struct option_texts *; each use of the option adds one */
	OPTION_CHOICE, /* to: const char **; one of argument's words: "auto|yes|no" */
	OPTION_LIST, /* to: struct option_list * of OPTION_UINTs */
	OPTION_JSON, /* to: const char **; --json is "-", standard output; --json=FILE is FILE */
	OPTION_KEY, /* to: struct option_key *, read from a file with its hexadecimal digits */
};

struct option_row {
	const char *name; /* without dashes; NULL with a help: the title of a group; else the end */
	char letter; /* '\0': none */
	enum option_kind kind;
	void *to; /* holds the default; the help leaves out NULL of a text, UINT64_MAX of a number */
	double least, most; /* OPTION_UINT, OPTION_SIZE, OPTION_TIME, OPTION_REAL, OPTION_LIST */
	const char *argument; /* its name in the help; NULL: one by the kind */
	const char *help; /* a sentence without its end */
};

/*
 * Read all of argv[1..). program: its name in messages; about: shown by --help. tables: NULL ends
 * them. Returns the index of the first argument that is no option (argc: there is none); with
 * `arguments` NULL such an argument is an error, else it is their description ("FILE...").
 */
int options_parse(const char *program, const char *about, const char *arguments,
	const struct option_row *const *tables, int argc, char **argv);

#endif

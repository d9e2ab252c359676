/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl's parts: what a command runs with, how it asks the switch by libweir's HTTP client, and how it
 * shows the answer. */
#ifndef APPS_CTL_CTL_H
#define APPS_CTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "apps/libweir/http.h"
#include "apps/report/options.h"
#include "ctrl/api/operations.h"

#define CTL_FOLDER    "/run/weir" /* where a switch's socket is */
#define CTL_PORT      "8080" /* of the control API, where only a name is given */
#define CTL_RANKS_MAX 256u
#define CTL_CAUSES    256 /* that an answer has by default */
#define CTL_BODY_MAX  ((size_t)8 << 20) /* bytes of an answer, but for a trace */

/* The exit status. */
enum {
	CTL_OK = STATUS_DONE,
	CTL_REFUSED = STATUS_FAILED, /* the switch refuses, or its answer makes no sense */
	CTL_USAGE = STATUS_USAGE,
	CTL_NO_CONNECTION = STATUS_INCOMPLETE,
};

struct ctl_options {
	/* of all commands */
	const char *address, *config, *token_file, *ca_file;
	double timeout;
	bool json;
	/* of some commands */
	const char *job, *output;
	const char *prefix; /* of jobs' names, in place of one job */
	double span, interval;
	unsigned int count;
	unsigned int rank; /* CTL_RANKS_MAX: all */
	bool watch, zeros, wait, follow, dot, drops;
	char *path; /* of the command's operation, with its query; NULL: it has none */
	json_t *query; /* that query; numbers and texts */
	json_t *fields; /* its body; of a fault: a rule, and the seed */
	const char *words[2]; /* the command's arguments */
	const char *space, *preload; /* of run */
	const char *switches, *plan, *save; /* of trees */
	struct option_list sizes;
	bool dry_run; /* changes are checked, and not made */
	bool no_token; /* the switch is not to get it */
	char **command; /* that run runs */
};

struct ctl {
	struct ctl_options options;
	struct weir_http *http;
	const char *address; /* of the switch */
	const char *name; /* of the switch, in refusals; NULL: there is no other */
	char found[1024]; /* one that was not given */
	const char *token_from; /* where the token is from, for people; NULL: there is none */
	char token[4096];
	unsigned int width; /* of the terminal; 0: none */
	int status; /* of the program, when ctl_ask() returned false */
	long answered; /* HTTP status of the last answer; 0: there was none */
};

/* Open the client of these options; says why not. Returns the exit status. */
int ctl_connect(struct ctl *ctl);
void ctl_close(struct ctl *ctl);

/* Whether WEIR_TOKEN or WEIR_TOKEN_FILE is for the switch at this address: that of WEIR_SWITCH; without
 * WEIR_SWITCH any over TCP. A Unix socket gives its users rights, which a token would replace. */
bool ctl_token_is_for(const char *address);

/* The same for another switch, with the options of `like`, and its token if it is connected. name and address must live as long as `ctl`. */
int ctl_connect_to(struct ctl *ctl, const struct ctl *like, const char *name, const char *address);

struct ctl_answer {
	long status; /* of HTTP */
	char *body; /* terminated */
	size_t length;
};

/**
 * Send a request and wait for its answer.
 *
 * @param path    such as "/v1/jobs"
 * @param body    JSON, or NULL
 * @param more    seconds to add to --timeout
 * @param most    bytes of an answer that are taken
 * @param[out] answer  free `body`
 * @return false: no connection, or no answer in time; it is said, and ctl->status set
 */
bool ctl_request(struct ctl *ctl, const char *method, const char *path, const char *body,
	double more, size_t most, struct ctl_answer *answer);

/**
 * Ask the switch, and say what went wrong.
 *
 * With --json its answer is printed as it came, and there is nothing left to do. With --dry-run a
 * change is only checked.
 *
 * @param body    a reference that is taken; NULL: no body
 * @param[out] answer  parsed, of status 2xx; NULL with --json
 * @return whether there is an answer to show; else the program ends with ctl->status
 */
bool ctl_ask(struct ctl *ctl, const char *method, const char *path, json_t *body, json_t **answer);

/* The same for a command that needs several answers: prints none of them. A status of 404 is no
 * error but NULL in `answer`. */
bool ctl_get(struct ctl *ctl, const char *path, json_t **answer);

/* Say how to see what follows a page, if anything does. */
void ctl_more(json_t *answer);

/* Whether an answer lacks a key that it must have (NULL: it needs none); says so. */
bool ctl_lacks(const struct ctl *ctl, json_t *answer, const char *key);

/* A path around a job's name, which is escaped. Ends the program when there is no memory; freed by
 * the caller. */
char *ctl_path(const char *before, const char *name, const char *after);

/* weirctl: ..., on stderr, broken to the terminal. */
void ctl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Why the switch refuses, from its answer. */
void ctl_refused(const struct ctl *ctl, const struct ctl_answer *answer);

/* JSON of a file (-: standard input); NULL, and why, if it is none. New. */
json_t *ctl_load(const char *name);

/* Seconds, of a clock that only goes forward. */
double ctl_clock(void);

/* -- what is shown (view.c, and by subject status.c, jobs.c, faults.c) */

/* How a value is shown. From CELL_EXACT on it is at the right. An object is the sum of its numbers. */
enum view_cell {
	CELL_BY_FIELD, /* as the unit of the field says; of an unlisted one CELL_EXACT; of "joined/size" CELL_OF */
	CELL_TEXT,
	CELL_PRINT, /* as `print` writes it; at the left */
	CELL_YES, /* yes or no */
	CELL_EXACT, /* "12345678" */
	CELL_COUNT, /* "12.3M" */
	CELL_BYTES,
	CELL_SHARE, /* of [0, 1]: "43 %" */
	CELL_AGE, /* seconds */
	CELL_MS, /* milliseconds, shown as CELL_AGE does */
	CELL_TIME, /* Unix time, shown as its age */
	CELL_RATE, /* per second, since the row was seen before */
	CELL_OF, /* of the path "joined/size": "3 of 8", or "3" where there is no size or it is 0 */
	CELL_PRINT_RIGHT, /* as CELL_PRINT */
};

struct view_column {
	const char *title;
	const char *path; /* of the value in the row, such as "memory.free" */
	enum view_cell cell;
	unsigned int flexible : 1; /* may be shortened */
	unsigned int leave; /* 0: stays; else the highest is left out first */
	void (*print)(json_t *row, FILE *out);
};

struct view_rows {
	const char *of; /* the rows are objects of this name in ctrl/api/fields.h; NULL: of none */
	json_t *now; /* array of rows */
	json_t *before; /* some seconds ago, for rates, found by "id"; NULL: they are dashes */
	double seconds; /* between the two */
	const char *none; /* is printed where there are no rows; NULL: the titles */
};

/* Titles and rows, no wider than the terminal (0: there is none). Ends the program when there is no
 * memory. */
void view_table(const struct view_column *columns, size_t count, const struct view_rows *rows,
	FILE *out, unsigned int width);

#define VIEW_TABLE(columns, object, list, text, out, width)                                        \
	view_table(columns, sizeof(columns) / sizeof((columns)[0]),                                \
		&(struct view_rows){.of = (object), .now = (list), .none = (text)}, out, width)

/* Seconds since a point in Unix time. */
double age_of(double unix_seconds);

/* A line, broken at blanks where it is wider than the terminal. indent: blanks before the second and
 * further lines; the first keeps its own. */
void text_print(const char *text, FILE *out, unsigned int indent, unsigned int width);
void text_printf(FILE *out, unsigned int indent, unsigned int width, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* COLUMNS if it is set, else what standard output says, else 0 (no terminal). */
unsigned int terminal_width(void);

/* An answer as people read it. A value that is missing is a dash. */
typedef void view_print(json_t *answer, FILE *out, unsigned int width);

view_print view_status, view_ports, view_jobs, view_job, view_members, view_blocks, view_tenants,
	view_json, view_faults, view_settings, view_programs, view_program, view_filters,
	view_counters;

/* Any answer, by the list of its fields: values, then a table for each list. */
void view_answer(const struct api_object *object, json_t *answer, FILE *out, unsigned int width);

/* A line when the status says that faults are injected: nobody should forget them. */
void view_faults_brief(json_t *status, FILE *out, unsigned int width);

/* Put KEY=VALUE into the settings of a body: VALUE is JSON, or else a text. False: it is not KEY=VALUE. */
bool ctl_program_setting(json_t *fields, const char *word);

/* -- commands that are more than a question and a view */

int command_blocks(struct ctl *ctl);
int command_counters(struct ctl *ctl);
int command_trace(struct ctl *ctl);
int command_log(struct ctl *ctl);
int command_job_delete(struct ctl *ctl);
int command_job_tokens(struct ctl *ctl);
int command_member_delete(struct ctl *ctl);
int command_program_load(struct ctl *ctl);
int command_program_unload(struct ctl *ctl);
int command_simulate(struct ctl *ctl);
int command_program_graph(struct ctl *ctl);
int command_faults_set(struct ctl *ctl);
int command_faults_add(struct ctl *ctl);

/* These connect by themselves. */
int command_run(struct ctl *ctl);
int command_tree_create(struct ctl *ctl);
int command_tree_delete(struct ctl *ctl);
int command_tree_show(struct ctl *ctl);

/* What is stuck, in the switch's words; of what waits for another switch of a tree, the reason found there. */
void view_stuck(struct ctl *ctl, json_t *answer);

#endif

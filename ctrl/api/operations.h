/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of the control API, one line each. From this list come the routes, the checks of a
 * request, docs/openapi.json, weirctl's commands, and the test of permissions.
 *
 *	X(name, method, path, access, needs, query, body, answer, status, command, help, more)
 *
 * name     of the handler, api_<name>; in OpenAPI the operation's id: getJobs for get_jobs
 * path     "/v1/jobs/{name}": {name} stands for one segment, never empty
 * access   API_ACCESSES: the callers that may
 * needs    of an operation that reads, the parts of a snapshot (ctrl_snapshot_part); LAST: the last
 *          snapshot will do; CONTROL: the control thread runs the handler, which may change things
 * query    the keys that the query may have: api_query_<query> in ctrl/api/operations.c
 * body     the keys of the body: api_body_<body>; none: the request takes no body
 * answer   the object of ctrl/api/fields.h that the answer is; NULL: it is no JSON
 * status   of HTTP when it succeeds: "200|202"
 * command  weirctl's, a word or two, and its arguments in capitals; NULL: none
 * help     one line, without a period; more: further sentences, or ""
 *
 * To add an operation: its line here, its handler (for an example see api_get_ports in
 * ctrl/api/status.c), and its test; then `make keys`, which writes docs/openapi.json. "/{file}"
 * comes after all others of one segment.
 */
#ifndef CTRL_API_OPERATIONS_H
#define CTRL_API_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "ctrl/api/fields.h"
#include "ctrl/config/schema.h"

/* clang-format off */
#define API_OPERATIONS(X) \
	X(get_health, GET, "/v1/health", PUBLIC, LAST, none, none, \
		"Health", "200", "health", \
		"check that all workers run", \
		"For watchdogs. 503, `busy`: a worker is stuck.") \
	X(get_ready, GET, "/v1/ready", PUBLIC, BASE, none, none, \
		"Ready", "200", NULL, \
		"check that packets flow", "For load balancers and launchers. 503: not yet.") \
	X(get_status, GET, "/v1/status", PUBLIC, BASE, none, none, \
		"Status", "200", "status", \
		"show workers, memory, pools and packets", "") \
	X(get_ports, GET, "/v1/ports", READ, BASE, none, none, \
		"Ports", "200", "ports", \
		"show ports, their links and their traffic", \
		"In the configuration's order; the exception interface last.") \
	X(get_port, GET, "/v1/ports/{name}", READ, BASE, none, none, \
		"Port", "200", NULL, \
		"show a port", "") \
	X(get_counters, GET, "/v1/counters", READ, BASE, none, none, \
		"Counters", "200", "counters", \
		"show the counters", \
		"docs/counters.md explains them.") \
	X(get_config, GET, "/v1/config", READ_ALL, BASE, none, none, \
		"Anything", "200", "config", \
		"give the running configuration", \
		"The keys of weir.json(5) with their values or defaults, without " \
		"tokens.") \
	X(get_jobs, GET, "/v1/jobs", READ, BASE, jobs, none, \
		"Jobs", "200", "jobs", \
		"list the jobs", "Those that the client may see, by id.") \
	X(create_job, POST, "/v1/jobs", OPEN, CONTROL, dry_run, create_job, \
		"Job", "201", "job create NAME", \
		"create a job", \
		"`size`, or `sources` that are switches. Only an administrator may give `tree`, " \
		"`sources` or `id`; by default, the job gets the lowest free id. Members have " \
		"ranks from 0 and join by `POST /v1/jobs/{name}/members`; then the switch takes " \
		"their JOIN packets. The tenant of the token owns the job. A job continues the " \
		"generations of earlier jobs with its id. A job lives until it is deleted; " \
		"without `state.file`, until the switch stops. A temporary job ends with its " \
		"last member, or without one after `expire_s`. A client without a token makes " \
		"only temporary jobs (otherwise 403), at most as many as `api.open_jobs` at a " \
		"time, which get at most half of the memory and of the block records that other " \
		"jobs leave. 507, `no_free_job`: all 256 ids are in use, or all jobs of " \
		"`api.open_jobs`; `no_memory`: there is too little memory, or deleted jobs of " \
		"the configuration need it at the next start: see `free` and `needed`. Sources " \
		"that are switches have their keys in this answer, and nowhere else.") \
	X(delete_jobs, DELETE, "/v1/jobs", OPEN, CONTROL, delete_jobs, none, \
		"Deleted", "200", NULL, \
		"delete temporary jobs by the beginning of their names, all or none", \
		"A launcher gives the jobs of a program names with a prefix of its own, and " \
		"deletes them when the program has ended. Only temporary jobs that the caller " \
		"may delete one by one are deleted.") \
	X(get_job, GET, "/v1/jobs/{name}", READ_JOB, DETAIL, none, none, \
		"Job", "200", "job JOB", \
		"show a job: its settings, members and counters", "") \
	X(change_job, PATCH, "/v1/jobs/{name}", CHANGE, CONTROL, dry_run, change_job, \
		"Job", "200", "job set JOB", \
		"change settings of a job", \
		"Blocks in flight are not affected. A change of a job of the configuration lasts " \
		"until the switch restarts; its members do not expire.") \
	X(delete_job, DELETE, "/v1/jobs/{name}", OPEN, CONTROL, dry_run, none, \
		"JobState", "200|202", "job delete JOB", \
		"delete a job", \
		"Its packets are dropped as `unknown_job`, and its hosts get the status " \
		"`refused`. Name and id are free at once, except those of a job of the " \
		"configuration file, which returns at the next start. 202: the job is `draining` " \
		"until its last results have left; then its memory is free. Clients without a " \
		"token delete only jobs that such clients have made.") \
	X(get_rank_tokens, POST, "/v1/jobs/{name}/tokens", CHANGE, CONTROL, dry_run, none, \
		"Tokens", "200", "job tokens JOB", \
		"give the tokens of a job's ranks, for its hosts", \
		"Each call gives the same tokens. Only for jobs made over the API whose sources " \
		"are hosts (otherwise 409). Those of an authenticated job are given over TLS or " \
		"the Unix socket only.") \
	X(join_job, POST, "/v1/jobs/{name}/members", JOIN, CONTROL, dry_run, join_job, \
		"Joined", "200", NULL, \
		"join as a rank", \
		"From now on the switch takes the rank's packets from this address, after a JOIN " \
		"packet that proves possession of `key`. Each join makes another membership with " \
		"another key, and ends the former one, whose key is no longer valid. A member at " \
		"another address must leave or expire first (otherwise 409). In a job of the " \
		"configuration, rank, size and address must be those of the configuration, and " \
		"nothing changes. With `create`, a job that does not exist is created, which " \
		"needs the access `open`; one that exists must have the same settings (otherwise " \
		"409).") \
	X(leave_job, DELETE, "/v1/jobs/{name}/members/{rank}", JOIN, CONTROL, leave_job, none, \
		"Left", "200", "member delete JOB RANK", \
		"free the rank of a host that is gone", \
		"A member leaves, or an operator removes it. Sources of the configuration, and " \
		"members with another membership, stay.") \
	X(get_blocks, GET, "/v1/blocks", READ_JOB, DETAIL, blocks, none, \
		"Blocks", "200", "blocks", \
		"list blocks, or say why jobs do not progress", \
		"Open and done blocks, oldest first, with their missing sources. A page ends " \
		"earlier if it has more than 16384 missing ranks in all.") \
	X(get_history, GET, "/v1/history", READ, HISTORY, none, none, \
		"History", "200", NULL, \
		"show one sample per second of the last five minutes", "Oldest first.") \
	X(get_trace, GET, "/v1/trace", ADMIN, CONTROL, trace, none, \
		"Anything", "200", "trace", \
		"record what the workers do, for Perfetto", \
		"A trace in Chrome's format, for ui.perfetto.dev. It costs the workers about 20 " \
		"ns per segment. During a trace, other requests for one are answered 503, " \
		"`busy`. A full ring ends the trace early, which otherData reports. Jobs that " \
		"are added, changed or removed meanwhile are instants (ph i, cat \"jobs\"); " \
		"otherData.changes_missed counts those beyond 256.") \
	X(simulate, POST, "/v1/simulate", ADMIN, CONTROL, none, simulate, \
		"Simulation", "200", "simulate FRAME", \
		"say what the switch would do with a frame", \
		"And do nothing. The workers run meanwhile: the answer is about one instant. " \
		"Filters, injected faults, tags of authenticated jobs, and limits of rates and " \
		"of memory are not looked at.") \
	X(get_graph, GET, "/v1/graph", READ_ALL, CONTROL, none, none, \
		"Graph", "200", "program graph", \
		"show the programs' matches and segments, and where these lead", \
		"The programs in order of precedence.") \
	X(get_tenants, GET, "/v1/tenants", READ_ALL, BASE, none, none, \
		"Tenants", "200", "tenants", \
		"show tenants, their usage and their quotas", "") \
	X(get_programs, GET, "/v1/programs", READ_ALL, CONTROL, none, none, \
		"Programs", "200", "program list", \
		"list the programs", \
		"In order of precedence: a packet is the first one's that matches it.") \
	X(get_program, GET, "/v1/programs/{name}", READ_ALL, CONTROL, none, none, \
		"Program", "200", "program show PROGRAM", \
		"show a program: its settings, matches, counters and tables", "") \
	X(load_program, POST, "/v1/programs", ADMIN, CONTROL, dry_run, load_program, \
		"Program", "201", "program load FILE", \
		"load a program", \
		"docs/programs.md explains programs. The file is in `program_directory`; it and " \
		"the directory belong to root or to the switch's user, and only their owners may " \
		"write to them. Its code runs with all rights of the switch: over TCP, this is " \
		"answered 403 unless `api.load_programs_over_tcp` is set. The program stays " \
		"until it is unloaded or the switch stops.") \
	X(unload_program, DELETE, "/v1/programs/{name}", ADMIN, CONTROL, dry_run, none, \
		"ProgramState", "200|202", "program unload PROGRAM", \
		"unload a program", \
		"It gets no further packets. 202: it is `unloading` until the last of its own " \
		"have left and its sidecar has ended.") \
	X(reload, POST, "/v1/reload", ADMIN, CONTROL, dry_run, none, \
		"Reloaded", "200", "reload", \
		"make the switch read its configuration again", \
		"As SIGHUP does. docs/configuration.md lists the keys that a reload applies. " \
		"Simultaneous requests get the same answer. 409: the file is wrong, or changes " \
		"keys that need a restart; nothing has changed.") \
	X(get_log, GET, "/v1/log", ADMIN, LAST, log, none, \
		"Log", "200", "log", \
		"show the last lines of the switch's log", \
		"The oldest first; the switch keeps 256. The log itself is on its standard " \
		"error.") \
	X(get_faults, GET, "/v1/faults", ADMIN, BASE, none, none, \
		"Faults", "200", "faults", \
		"show injected faults: what they match and hit", \
		"docs/faults.md explains them. Without rules if none are set.") \
	X(set_faults, PUT, "/v1/faults", ADMIN, CONTROL, dry_run, set_faults, \
		"Faults", "200", "faults set FILE", \
		"inject faults, in place of the former ones", \
		"The body is the configuration's section `faults` (docs/faults.md). " \
		"Packets held by former rules are sent, and packets are counted from 1 again. A " \
		"restart clears the faults.") \
	X(clear_faults, DELETE, "/v1/faults", ADMIN, CONTROL, dry_run, none, \
		"Faults", "200", "faults clear", \
		"remove all faults", "") \
	X(get_filters, GET, "/v1/filters", ADMIN, BASE, none, none, \
		"Filters", "200", "filter list", \
		"list the filters: what they did with received packets", \
		"docs/filters.md explains them. In the order in which they run.") \
	X(load_filter, POST, "/v1/filters", ADMIN, CONTROL, dry_run, load_filter, \
		"Filter", "201", "filter load FILE", \
		"load a filter of received packets", \
		"It runs behind the others. The file is in `filter_directory`; it and the " \
		"directory belong to root or to the switch's user, and only their owners may " \
		"write to them. DPDK verifies its code, so it may be loaded over TCP. The filter " \
		"stays until it is unloaded or the switch stops.") \
	X(unload_filter, DELETE, "/v1/filters/{name}", ADMIN, CONTROL, dry_run, none, \
		"FilterGone", "200", "filter unload FILTER", \
		"unload a filter", "") \
	X(get_metrics, GET, "/metrics", PUBLIC, DETAIL, none, none, \
		NULL, "200", NULL, \
		"give the metrics, for Prometheus", \
		"Text exposition format; docs/counters.md lists the metrics. With tenants, a " \
		"tenant's token shows its own jobs, an administrator's token all.") \
	X(get_page, GET, "/", PUBLIC, BASE, none, none, \
		NULL, "200", NULL, \
		"show the live page, for browsers", "") \
	X(get_page_file, GET, "/{file}", PUBLIC, BASE, none, none, \
		NULL, "200", NULL, \
		"give a file of the live page, or openapi.json", "")
/* clang-format on */

/* Rights of an operation; ctrl/api/auth.c decides about a caller. Without tenants, all callers of
 * the Unix socket are administrators. */
#define API_ACCESSES(X)                                                                            \
	X(PUBLIC, public) /* all callers if api.open_read is set; otherwise any token */           \
	X(READ, read) /* tenants, for what they own; without tenants as PUBLIC */                  \
	X(READ_JOB, read_job) /* as READ, and rank tokens for their job (api_may_see) */           \
	X(READ_ALL, read_all) /* administrators; without tenants as PUBLIC */                      \
	X(JOIN, join) /* tenants; rank tokens, as their rank; without tenants all callers */       \
	X(CHANGE, change) /* tenants, for what they own; without tenants administrators */         \
	X(OPEN, open) /* as CHANGE, and TCP callers without a token if api.open_jobs > 0 */        \
	X(ADMIN, admin)

enum api_access {
#define X(name, text) API_##name,
	API_ACCESSES(X)
#undef X
};

enum api_needs { API_BASE, API_LAST, API_DETAIL, API_HISTORY, API_CONTROL };

struct api_operation {
	const char *name;
	const char *method; /* "GET" */
	const char *path;
	enum api_access access;
	enum api_needs needs;
	struct ctrl_schema query;
	struct ctrl_schema body; /* of 0 keys: none */
	const char *section; /* the body is this object of the configuration; NULL: it has `body` */
	const char *example; /* of the body; NULL: it has none */
	const char *answer, *status;
	const char *command, *help, *more;
};

/* Does it change something? */
static inline bool
api_is_change(const struct api_operation *operation)
{
	return operation->method[0] != 'G';
}

extern const struct api_operation api_operations[];
extern const size_t api_operations_count;

/* Kinds of fields, ctrl/api/fields.h. */
enum api_kind {
#define X(kind, ...) API_KIND_##kind,
	API_KINDS(X)
#undef X
		API_KIND_NONE,
};

#define API_OPTIONAL 1u
#define API_NULLABLE 2u

struct api_field {
	const char *key;
	enum api_kind kind;
	unsigned int flags;
	const char *of, *help;
};

struct api_object {
	const char *name;
	const struct api_field *fields;
	size_t count;
	enum api_kind others; /* API_KIND_NONE: there are no others */
	const char *settings; /* "ALL", "HOST", "FAULT", "NONE" */
	const char *help;
};

/* The `code` of errors: "one|two". */
extern const char api_error_codes[];

extern const struct api_object api_objects[];
extern const size_t api_objects_count;

/* The object of a name; NULL: there is none. */
const struct api_object *api_object_find(const char *name);

/* The field at a path such as "queues.rx" in an object; NULL: it is not listed. */
const struct api_field *api_field_find(const struct api_object *object, const char *path);

#endif

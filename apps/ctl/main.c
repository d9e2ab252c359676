/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl: inspect a running switch, change its jobs, and run programs on it. The command line: the commands, the
 * options of each, and near misses. */
#include "apps/report/options.h"

#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "ctrl/api/units.h"
#include "ctrl/config/job_settings.h"

#define SECONDS_MAX   3600
#define NAME_BYTES    64

#define FAULT_ACTIONS "drop|blackout|duplicate|reorder|delay|corrupt"

/* What options set, as texts: the switch knows the ranges of most. */
static struct {
	const char *timeout, *interval, *span, *json;
	uint64_t limit, count, rank;
} text = {.timeout = "5s", .interval = "1s", .span = "50ms", .limit = 256, .rank = CTL_RANKS_MAX};
static struct ctl_options given;

static const struct option_row everywhere[] = {
	{"switch", 's', OPTION_TEXT, &given.address, 0, 0, "ADDRESS",
		"its address: unix:PATH, http://HOST:PORT or https://HOST:PORT; default: "
		"WEIR_SWITCH, or else the only socket in " CTL_FOLDER},
	{"config", 0, OPTION_TEXT, &given.config, 0, 0, "FILE",
		"find the switch by its configuration: use the first Unix socket in it"},
	{"token-file", 0, OPTION_TEXT, &given.token_file, 0, 0, "FILE",
		"file with a tenant's token; default: WEIR_TOKEN (the token itself), or else "
		"WEIR_TOKEN_FILE, for the switch of WEIR_SWITCH"},
	{"ca", 0, OPTION_TEXT, &given.ca_file, 0, 0, "FILE",
		"certificate to trust, for https; default: WEIR_CA"},
	{"json", 'j', OPTION_JSON, &text.json, 0, 0, NULL,
		"print the switch's answer unchanged, or write it into FILE"},
	{"timeout", 't', OPTION_TEXT, &text.timeout, 0, 0, "TIME", "wait this long for an answer"},
	{0},
};
static const struct option_row of_blocks[] = {
	{"stuck", 0, OPTION_FLAG, &given.stuck, 0, 0, NULL,
		"say in words which blocks wait too long, and for which sources"},
	{"job", 0, OPTION_TEXT, &given.job, 0, 0, "JOB", "only blocks of this job"},
	{"limit", 0, OPTION_UINT, &text.limit, 1, 1000000, "N", "list at most N"},
	{0},
};
static const struct option_row of_counters[] = {
	{"watch", 'w', OPTION_FLAG, &given.watch, 0, 0, NULL, "print rates until interrupted"},
	{"zeros", 0, OPTION_FLAG, &given.zeros, 0, 0, NULL, "include counters that are 0"},
	{"interval", 0, OPTION_TEXT, &text.interval, 0, 0, "TIME", "time between rates"},
	{"count", 0, OPTION_UINT, &text.count, 0, 1e9, "N",
		"print rates N times; 0: until interrupted"},
	{0},
};
static const struct option_row of_trace[] = {
	{"for", 0, OPTION_TEXT, &text.span, 0, 0, "TIME", "how long to record"},
	{"output", 'o', OPTION_TEXT, &given.output, 0, 0, "FILE",
		"file to write; - is standard output"},
	{0},
};

#define DRY_RUN                                                                                    \
	{                                                                                          \
		"dry-run", 0, OPTION_FLAG, &given.dry_run, 0, 0, NULL,                             \
			"say what would happen, and change nothing"                                \
	}

static const struct option_row of_changes[] = {DRY_RUN, {0}};
static const struct option_row of_job_delete[] = {
	DRY_RUN,
	{"wait", 0, OPTION_FLAG, &given.wait, 0, 0, NULL, "wait until the job is gone"},
	{"prefix", 0, OPTION_TEXT, &given.prefix, 0, 0, "PREFIX",
		"in place of JOB: delete all temporary jobs whose names begin so"},
	{0},
};

static const struct option_row of_job_tokens[] = {
	{"rank", 0, OPTION_UINT, &text.rank, 0, CTL_RANKS_MAX - 1, "N",
		"print the token of this rank, and nothing else"},
	{0},
};

static const struct option_row of_run[] = {
	{"space", 0, OPTION_TEXT, &given.space, 0, 0, "NAME",
		"begin the names of the jobs with NAME, 11 characters at most; default: "
		"WEIR_NAMESPACE, "
		"or else run"},
	{"preload", 0, OPTION_TEXT, &given.preload, 0, 0, "mpich|openmpi",
		"let MPI's calls go through Weir's library for this MPI, or the library of a path; "
		"default: through Open MPI's component"},
	{0},
};

#define OF_TREE                                                                                    \
	{"switches", 0, OPTION_TEXT, &given.switches, 0, 0, "NAME[=ADDRESS],...",                  \
		"the switches: their names, and their addresses where these are neither "          \
		"unix:" CTL_FOLDER "/NAME.sock nor http://NAME:8080"},                             \
	{                                                                                          \
		"plan", 0, OPTION_TEXT, &given.plan, 0, 0, "FILE",                                 \
			"a plan, in place of --switches"                                           \
	}

static const struct option_row of_tree[] = {OF_TREE, {0}};
static const struct option_row of_tree_create[] = {
	OF_TREE,
	{"sizes", 0, OPTION_TEXT, &given.sizes, 0, 0, "N,N,...",
		"the numbers of hosts: as many switches, the first ones, are leaves; the others "
		"are the parents of all leaves"},
	{"save", 0, OPTION_TEXT, &given.save, 0, 0, "FILE", "write the plan as JSON"},
	DRY_RUN,
	{0},
};

/* Keys of a job or of a fault's rule, passed on: --timeout-ms is timeout_ms. */
struct field {
	const char *key;
	enum { NUMBER, NUMBERS, PERCENT, WORD, FLAG } kind;
	const char *argument; /* in the help */
	const char *help;
	const char *value; /* NULL: not given */
	bool set; /* FLAG */
};

/* How a kind of ctrl/config/job_settings.h is given, and its argument. */
#define KIND_INTEGER        NUMBER
#define KIND_POWER          NUMBER
#define KIND_BOOLEAN        FLAG
#define KIND_WORD           WORD
#define KIND_RESULTS        WORD
#define ARGUMENT_INTEGER(w) "N"
#define ARGUMENT_POWER(w)   "N"
#define ARGUMENT_BOOLEAN(w) NULL
#define ARGUMENT_WORD(w)    w
#define ARGUMENT_RESULTS(w) "unicast|GROUP"

static struct field job_fields[] = {
	{"size", NUMBER, "N", "number of sources", NULL, false},
	{"id", NUMBER, "N", "id of the job on the wire; default: the lowest free one", NULL, false},
#define X(key, where, change, needs, tree, kind, field, unit, value, min, max, words, help)        \
	CTRL_API_##where(CTRL_CREATE_##change(                                                     \
		{#key, KIND_##kind, ARGUMENT_##kind(words), help, NULL, false}, ))
#define CTRL_CREATE_NO(...) __VA_ARGS__
#define CTRL_CREATE_YES(...)
	CTRL_JOB_SETTINGS(X)
#undef X
		{0},
};
static struct field job_set_fields[] = {
#define X(key, where, change, needs, tree, kind, field, unit, value, min, max, words, help)        \
	CTRL_API_##where(CTRL_CHANGE_##change(                                                     \
		{#key, KIND_##kind, ARGUMENT_##kind(words), help, NULL, false}, ))
	CTRL_JOB_SETTINGS(X)
#undef X
		{0},
};
static struct field fault_fields[] = {
	{"port", WORD, "PORT", "only packets at this port", NULL, false},
	{"direction", WORD, "in|out", "only packets received (in) or sent (out); default: both",
		NULL, false},
	{"what", WORD, "any|contribution|result|ordinary", "only packets of this kind", NULL,
		false},
	{"source", NUMBER, "N", "only packets of this source", NULL, false},
	{"first_block", NUMBER, "N", "only blocks from this one on", NULL, false},
	{"last_block", NUMBER, "N", "only blocks up to this one", NULL, false},
	{"percent", PERCENT, "P", "hit this share of them, at random (100)", NULL, false},
	{"nth", NUMBER, "N", "hit one packet in N", NULL, false},
	{"list", NUMBERS, "N,N,...", "hit the packets with these numbers", NULL, false},
	{"from_ms", NUMBER, "N", "begin at this time", NULL, false},
	{"to_ms", NUMBER, "N", "end at this time", NULL, false},
	{"repeat_ms", NUMBER, "N", "begin again each time this period is over", NULL, false},
	{"distance", NUMBER, "N", "let up to N packets overtake", NULL, false},
	{"delay", WORD, "constant|uniform|exponential|pareto", "distribution of the delay", NULL,
		false},
	{"us", NUMBER, "N", "the constant delay, the shortest one, or the mean", NULL, false},
	{"most_us", NUMBER, "N", "the longest delay", NULL, false},
	{"bits", NUMBER, "N", "number of bits to flip", NULL, false},
	{"seed", NUMBER, "N", "seed of all rules", NULL, false},
	{0},
};
static const struct option_row of_faults_add[] = {
	DRY_RUN,
	{"job", 0, OPTION_TEXT, &given.job, 0, 0, "JOB", "only packets of this job, by name or id"},
	{0},
};

struct ctl_command {
	const char *name; /* a word or two */
	const char *arguments; /* for help: each is a word */
	const char *help;
	unsigned int words; /* arguments, all needed, or COMMAND_LINE */
	const struct option_row *rows;
	struct field *fields[2];
	/* Either the answer to a question, the name (of `words` 1) at the path's end … */
	const char *path;
	view_print *view;
	const char *needs; /* a key that the answer must have */
	/* … or a function. */
	int (*run)(struct ctl *ctl);
};

/* Arguments that are a command with its own options. */
#define COMMAND_LINE UINT_MAX

/* clang-format off */
static const struct ctl_command commands[] = {
	{"status", "", "show workers, memory, pools and packets", 0, NULL, {NULL}, "/v1/status", view_status, "name", NULL},
	{"health", "", "check that all workers run; exit status 1 if not", 0, NULL, {NULL}, "/v1/health", view_health,
		"status", NULL},
	{"ports", "", "show ports, their links and their traffic", 0, NULL, {NULL}, "/v1/ports", view_ports, "ports", NULL},
	{"jobs", "", "list the jobs", 0, NULL, {NULL}, "/v1/jobs", view_jobs, "jobs", NULL},
	{"job create", "NAME", "create a job; --size is required", 1, of_changes, {job_fields, job_set_fields}, NULL, NULL, NULL,
		command_job_create},
	{"job set", "JOB", "change settings of a job", 1, of_changes, {job_set_fields}, NULL, NULL, NULL, command_job_set},
	{"job delete", "JOB", "delete a job", 1, of_job_delete, {NULL}, NULL, NULL, NULL, command_job_delete},
	{"job tokens", "JOB", "print the tokens of a job's ranks, for its hosts", 1, of_job_tokens, {NULL}, NULL, NULL, NULL,
		command_job_tokens},
	{"tree create", "NAME", "create a job on a tree of switches, on all or on none", 1, of_tree_create,
		{&job_fields[1], job_set_fields}, NULL, NULL, NULL, command_tree_create},
	{"tree delete", "NAME", "delete a job on all switches of a tree", 1, of_tree, {NULL}, NULL, NULL, NULL,
		command_tree_delete},
	{"tree show", "NAME", "show a job on all switches of a tree", 1, of_tree, {NULL}, NULL, NULL, NULL, command_tree_show},
	{"job", "JOB", "show a job: its settings, members and counters", 1, NULL, {NULL}, "/v1/jobs/", view_job, "name", NULL},
	{"members", "JOB", "show the members of a job, and which is late", 1, NULL, {NULL}, "/v1/jobs/", view_members, "members", NULL},
	{"member delete", "JOB RANK", "free the rank of a host that is gone", 2, of_changes, {NULL}, NULL, NULL, NULL,
		command_member_delete},
	{"blocks", "", "list blocks; --stuck: why jobs do not progress", 0, of_blocks, {NULL}, NULL, NULL, NULL,
		command_blocks},
	{"counters", "", "show counters that are not 0; --watch: rates", 0, of_counters, {NULL}, NULL, NULL, NULL, command_counters},
	{"trace", "", "record what the workers do, for Perfetto; -o FILE", 0, of_trace, {NULL}, NULL, NULL, NULL, command_trace},
	{"faults", "", "show injected faults: what they match and hit", 0, NULL, {NULL}, "/v1/faults", view_faults, "rules", NULL},
	{"faults show", "", "the same as faults", 0, NULL, {NULL}, "/v1/faults", view_faults, "rules", NULL},
	{"faults set", "FILE", "inject the faults of a file; - is standard input", 1, of_changes, {NULL}, NULL, NULL, NULL,
		command_faults_set},
	{"faults add", FAULT_ACTIONS, "inject one more fault", 1, of_faults_add, {fault_fields}, NULL, NULL, NULL, command_faults_add},
	{"faults clear", "", "remove all faults", 0, of_changes, {NULL}, NULL, NULL, NULL, command_faults_clear},
	{"config", "", "print the running configuration as JSON", 0, NULL, {NULL}, "/v1/config", view_json, NULL, NULL},
	{"reload", "", "make the switch read its configuration again", 0, of_changes, {NULL}, NULL, NULL, NULL, command_reload},
	{"run", "COMMAND", "run a command whose MPI programs use the switch", COMMAND_LINE, of_run, {NULL}, NULL, NULL, NULL,
		command_run},
	{"tenants", "", "show tenants, their usage and their quotas", 0, NULL, {NULL}, "/v1/tenants", view_tenants, "tenants", NULL},
};
/* clang-format on */
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))
#define ROWS_MAX 64

static void __attribute__((noreturn, format(printf, 1, 2))) wrong(const char *format, ...)
{
	va_list arguments;

	fputs("weirctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs("\nweirctl --help lists the commands, weirctl COMMAND --help their options\n",
		stderr);
	exit(CTL_USAGE);
}

/* The options of a command, those of its fields included. Kept until the next call. */
static const struct option_row *
rows_of(const struct ctl_command *command)
{
	static struct option_row rows[ROWS_MAX];
	static char names[ROWS_MAX][NAME_BYTES];
	size_t count = 0;

	for (const struct option_row *r = command->rows; r != NULL && r->name != NULL; r++)
		rows[count++] = *r;
	for (size_t i = 0; i < 2 && command->fields[i] != NULL; i++)
		for (struct field *f = command->fields[i]; f->key != NULL; f++, count++) {
			const char *end = strstr(f->help, ". ");
			size_t length = end == NULL ? strlen(f->help) : (size_t)(end - f->help);
			char *help = strndup(f->help, length - (f->help[length - 1] == '.'));

			snprintf(names[count], NAME_BYTES, "%s", f->key);
			for (char *c = names[count]; (c = strchr(c, '_')) != NULL;)
				*c = '-';
			rows[count] = (struct option_row){names[count], 0,
				f->kind == FLAG ? OPTION_FLAG : OPTION_TEXT,
				f->kind == FLAG ? (void *)&f->set : (void *)&f->value, 0, 0,
				/* All types do not fit into the help. */
				f->argument == NULL || strlen(f->argument) <= 40 ? f->argument
										 : "WORD",
				help == NULL ? f->help : help};
		}
	rows[count] = (struct option_row){0};
	return rows;
}

static double
span(const char *option, const char *value, double min)
{
	double seconds;

	if (!units_read_span(value, &seconds) || seconds < min || seconds > SECONDS_MAX)
		wrong("--%s %s: must be a time between %gs and %dh, such as 50ms or 2s", option,
			value, min, SECONDS_MAX / 3600);
	return seconds;
}

/* Whole numbers with commas between them; NULL: they are not. */
static json_t *
numbers(const char *from)
{
	json_t *list;
	char *array;

	if (asprintf(&array, "[%s]", from) < 0)
		err(CTL_USAGE, "number");
	list = json_loads(array, 0, NULL);
	free(array);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *value = json_array_get(list, i);

		if (json_is_integer(value) && json_integer_value(value) >= 0)
			continue;
		json_decref(list);
		return NULL;
	}
	return list;
}

/* A share, as parts per million. */
static json_t *
percent(const char *from)
{
	double value = strtod(from, NULL);

	if (from[strspn(from, "0123456789.")] != '\0' || from[0] == '\0' || value > 100 ||
		(value > 0 && value < 1e-4))
		return NULL;
	return json_integer(lround(value * 1e4));
}

/* A time, for a key that ends in its unit: 2s is 2000 for timeout_ms. NULL: it is none. */
static json_t *
in_unit(const struct field *field)
{
	static const struct {
		const char *end;
		double per_s;
	} units[] = {{"_ms", 1e3}, {"_us", 1e6}, {"_s", 1}};
	size_t length = strlen(field->key);
	double seconds;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t end = strlen(units[i].end);

		if (length > end && strcmp(field->key + length - end, units[i].end) == 0 &&
			units_read_span(field->value, &seconds) && seconds <= SECONDS_MAX)
			return json_integer(llround(seconds * units[i].per_s));
	}
	return NULL;
}

static void
put_field(json_t *object, const struct field *field)
{
	static const char *const form[] = {[NUMBER] = "a whole number",
		[NUMBERS] = "whole numbers with commas between them",
		[PERCENT] = "0, or in 0.0001..100",
		[WORD] = "UTF-8"};
	json_t *value = NULL, *list;

	if (field->kind == FLAG) {
		if (field->set)
			json_object_set_new(object, field->key, json_true());
		return;
	}
	if (field->value == NULL)
		return;
	if (field->kind == WORD) {
		value = json_string(field->value);
	} else if (field->kind == PERCENT) {
		value = percent(field->value);
	} else {
		list = numbers(field->value);
		if (json_array_size(list) > 0 && field->kind == NUMBERS)
			value = json_incref(list);
		if (json_array_size(list) == 1 && field->kind == NUMBER)
			value = json_incref(json_array_get(list, 0));
		if (list == NULL && field->kind == NUMBER)
			value = in_unit(field);
		json_decref(list);
	}
	if (value == NULL)
		wrong("%s %s: must be %s", field->key, field->value, form[field->kind]);
	json_object_set_new(object, field->key, value);
}

/* Insertions, deletions and replacements from one word to another. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[NAME_BYTES], n = strlen(b);

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		size_t corner = row[0], least;

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			least = corner + (a[i - 1] != b[j - 1]);
			corner = row[j];
			least = least < row[j] + 1 ? least : row[j] + 1;
			row[j] = least < row[j - 1] + 1 ? least : row[j - 1] + 1;
		}
	}
	return row[n];
}

/* Words that other tools have where weirctl has the plural. */
static bool
is_show(const char *word)
{
	return strcmp(word, "list") == 0 || strcmp(word, "ls") == 0 || strcmp(word, "show") == 0 ||
		strcmp(word, "get") == 0;
}

/* The name of the command that was meant; NULL: nobody knows. "jobs list" and "list jobs" are jobs. */
static const char *
meant(const char *first, const char *second)
{
	char both[NAME_BYTES], plural[NAME_BYTES];
	const char *found = NULL;
	size_t best = 3;

	if (is_show(first))
		return meant(second, "");
	if (is_show(second))
		second = "";
	snprintf(both, sizeof(both), "%.24s %.24s", first, second);
	snprintf(plural, sizeof(plural), "%.24ss", first);
	for (size_t i = 0; i < COMMANDS; i++) {
		const char *name = commands[i].name;
		size_t away = distance(strchr(name, ' ') != NULL ? both : first, name);

		if (strchr(name, ' ') == NULL && second[0] != '\0') {
			if (away == 0)
				continue; /* that command has been tried */
			away++; /* one of two words is likelier */
		}
		if (strcmp(plural, name) == 0 && second[0] == '\0')
			return name;
		if (away < best) {
			best = away;
			found = name;
		}
	}
	return found;
}

static void __attribute__((noreturn)) unknown(const char *first, const char *second)
{
	const char *name = meant(first, second);

	if (name == NULL)
		wrong("there is no command %s%s%s", first, second[0] != '\0' ? " " : "", second);
	wrong("there is no command %s%s%s: did you mean \"%s\"?", first,
		second[0] != '\0' ? " " : "", second, name);
}

/* The command of one or two words; NULL: there is none. */
static const struct ctl_command *
find(const char *first, const char *second)
{
	const struct ctl_command *found = NULL;
	char both[NAME_BYTES];

	snprintf(both, sizeof(both), "%.24s %.24s", first, second);
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i].name, both) == 0)
			return &commands[i];
		if (strcmp(commands[i].name, first) == 0)
			found = &commands[i];
	}
	return found;
}

/* Is the argument of a command of one word rather a command's second word: "job list", "job crate"?
 * Behind -- it is an argument. */
static bool
is_mistyped(const struct ctl_command *command, const char *word)
{
	size_t length = strlen(command->name);

	for (size_t i = 0; i < COMMANDS; i++)
		if (strncmp(commands[i].name, command->name, length) == 0 &&
			commands[i].name[length] == ' ' && strlen(word) > 4 &&
			distance(word, commands[i].name + length + 1) == 1)
			return true;
	return command->words > 0 && command->words != COMMAND_LINE && is_show(word);
}

/* Commands that do not talk to the one switch of --switch, or not yet. */
static bool
connects_itself(const struct ctl_command *command)
{
	return command->words == COMMAND_LINE || strncmp(command->name, "tree ", 5) == 0;
}

/* Its options and arguments; argv[0] is its last word. */
static void
read_command(const struct ctl_command *command, int argc, char **argv)
{
	const struct option_row *const tables[] = {rows_of(command), everywhere, NULL};
	char program[NAME_BYTES], first[NAME_BYTES];
	unsigned int count = 0;

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(command->name, " "), command->name);
	snprintf(program, sizeof(program), "weirctl %s", command->name);
	for (int at = 0;; argc -= at, argv += at) {
		at = options_parse(program, command->help, command->arguments, tables, argc, argv);
		if (at >= argc)
			break;
		if (command->words == COMMAND_LINE) {
			given.command = argv + at;
			return;
		}
		if (count == command->words)
			unknown(first, count > 0 ? given.words[0] : argv[at]);
		given.words[count++] = argv[at];
	}
	if (given.prefix != NULL && (count > 0 || given.wait))
		wrong("%s: --prefix excludes JOB and --wait", command->name);
	if (count < command->words && given.prefix == NULL)
		wrong("%s: %s is missing", command->name, command->arguments);
}

static char *
about(void)
{
	static char *help; /* for as long as the program runs */
	size_t length;
	FILE *out = open_memstream(&help, &length);

	if (out == NULL)
		err(CTL_USAGE, "help");
	fputs("Inspect a running weir-switch, manage its jobs, inject faults, and run MPI "
	      "programs.\n\n",
		out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %s %-*s %s\n", commands[i].name,
			(int)(22 - strlen(commands[i].name)),
			strlen(commands[i].arguments) > 8 ? "ACTION" : commands[i].arguments,
			commands[i].help);
	fputs("\vweirctl COMMAND --help shows a command's options. TIME is a number with us, ms, "
	      "s, min or h.",
		out);
	fclose(out);
	return help;
}

/* Reads the command line; ends the program on a mistake. */
static const struct ctl_command *
read_options(struct ctl_options *options, int argc, char **argv)
{
	const struct option_row *const tables[] = {everywhere, NULL};
	const struct ctl_command *command;
	const char *second;
	int at = options_parse("weirctl", about(), "COMMAND ...", tables, argc, argv);

	if (at >= argc)
		wrong("a command is missing");
	second = at + 1 < argc ? argv[at + 1] : "";
	command = find(argv[at], second);
	if (command == NULL || (strchr(command->name, ' ') == NULL && is_mistyped(command, second)))
		unknown(argv[at], second[0] == '-' ? "" : second);
	at += strchr(command->name, ' ') != NULL;
	read_command(command, argc - at, argv + at);
	if (given.config != NULL && given.address != NULL)
		wrong("--config and --switch exclude each other");
	given.json = text.json != NULL;
	if (given.json && strcmp(text.json, "-") != 0 && command->words != COMMAND_LINE &&
		freopen(text.json, "we", stdout) == NULL)
		wrong("--json=%s: %s", text.json, strerror(errno));
	given.timeout = span("timeout", text.timeout, 0.001);
	given.interval = span("interval", text.interval, 0.1);
	given.span = span("for", text.span, 0.001);
	given.limit = (unsigned int)text.limit;
	given.count = (unsigned int)text.count;
	given.rank = (unsigned int)text.rank;
	given.fields = json_object();
	for (size_t i = 0; i < 2 && command->fields[i] != NULL; i++)
		for (const struct field *f = command->fields[i]; f->key != NULL; f++)
			put_field(given.fields, f);
	*options = given;
	return command;
}

/* The whole command: ask, print. Returns the exit status. */
static int
run(const struct ctl_command *command, struct ctl *ctl)
{
	json_t *answer;
	char *path;
	bool asked;

	if (command->run != NULL)
		return command->run(ctl);
	path = ctl_path(command->path, ctl->options.words[0], "");
	asked = ctl_ask(ctl, "GET", path, NULL, &answer);
	free(path);
	if (!asked)
		return ctl->status;
	if (ctl_lacks(ctl, answer, command->needs))
		ctl->status = CTL_REFUSED;
	else
		command->view(answer, stdout, ctl->width);
	json_decref(answer);
	return ctl->status;
}

/* A table that did not reach its file is an error, too. */
static int
finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	ctl_say("standard output: %s", strerror(errno));
	return status == CTL_OK ? CTL_REFUSED : status;
}

int
main(int argc, char **argv)
{
	struct ctl ctl = {0};
	const struct ctl_command *command;
	int status;

	setlocale(LC_CTYPE, "");
	command = read_options(&ctl.options, argc, argv);
	ctl.width = terminal_width();
	status = connects_itself(command) ? CTL_OK : ctl_connect(&ctl);
	if (status == CTL_OK)
		status = run(command, &ctl);
	ctl_close(&ctl);
	json_decref(ctl.options.fields);
	return finish(status);
}

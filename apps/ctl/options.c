/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: the commands, the options of each, and near misses. */
#include "apps/report/options.h"

#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"
#include "ctrl/api/units.h"
#include "apps/ctl/views.h"
#include "ctrl/config/job_settings.h"

#define SECONDS_MAX   3600
#define NAME_BYTES    64

#define FAULT_ACTIONS "drop|blackout|duplicate|reorder|delay|corrupt"

/* What options set, as texts: the switch knows the ranges of most. */
static struct {
	const char *timeout, *interval, *span;
	uint64_t limit, count;
	bool version;
} text = {.timeout = "5s", .interval = "1s", .span = "50ms"};
static struct ctl_options given;

static const struct option_row everywhere[] = {
	{"switch", 's', OPTION_TEXT, &given.address, 0, 0, "ADDRESS",
		"unix:PATH, http://HOST:PORT or https://HOST:PORT; else WEIR_SWITCH, else the only "
		"socket "
		"in " CTL_FOLDER},
	{"config", 0, OPTION_TEXT, &given.config, 0, 0, "FILE",
		"instead: the switch of this configuration, at its first Unix socket"},
	{"token-file", 0, OPTION_TEXT, &given.token_file, 0, 0, "FILE",
		"a tenant's token; else WEIR_TOKEN, the token itself, or WEIR_TOKEN_FILE"},
	{"ca", 0, OPTION_TEXT, &given.ca_file, 0, 0, "FILE",
		"the certificate to trust, for https; else WEIR_CA"},
	{"json", 'j', OPTION_FLAG, &given.json, 0, 0, NULL, "print the switch's answer as it came"},
	{"timeout", 't', OPTION_TEXT, &text.timeout, 0, 0, "TIME", "wait this long for an answer"},
	{"version", 'V', OPTION_FLAG, &text.version, 0, 0, NULL, "print the version"},
	{0},
};
static const struct option_row of_blocks[] = {
	{"stuck", 0, OPTION_FLAG, &given.stuck, 0, 0, NULL,
		"in words: the blocks that wait too long, and for whom"},
	{"job", 0, OPTION_TEXT, &given.job, 0, 0, "JOB", "the blocks of this job"},
	{"limit", 0, OPTION_UINT, &text.limit, 0, 1000000, "N", "blocks at most; 0: 256, or 1024"},
	{0},
};
static const struct option_row of_counters[] = {
	{"watch", 'w', OPTION_FLAG, &given.watch, 0, 0, NULL, "rates, until interrupted"},
	{"zeros", 0, OPTION_FLAG, &given.zeros, 0, 0, NULL, "also the counters that are 0"},
	{"interval", 0, OPTION_TEXT, &text.interval, 0, 0, "TIME", "time between two rates"},
	{"count", 0, OPTION_UINT, &text.count, 0, 1e9, "N", "rates to print; 0: no end"},
	{0},
};
static const struct option_row of_trace[] = {
	{"for", 0, OPTION_TEXT, &text.span, 0, 0, "TIME", "how long to record"},
	{"output", 'o', OPTION_TEXT, &given.output, 0, 0, "FILE", "- is standard output"},
	{0},
};
static const struct option_row of_job_delete[] = {
	{"wait", 0, OPTION_FLAG, &given.wait, 0, 0, NULL, "wait until the job is gone"},
	{0},
};

/* Keys of a job or of a fault's rule, passed on: --timeout-ms is timeout_ms. */
struct field {
	const char *key;
	enum { NUMBER, LARGE, FLAG, WORD, PERCENT, NUMBERS } kind;
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
	{"size", NUMBER, "N", "sources of the job", NULL, false},
	{"id", NUMBER, "N", "id on the wire; else the lowest that is free", NULL, false},
#define X(key, where, change, kind, field, unit, value, min, max, words, help)                     \
	CTRL_API_##where(CTRL_CREATE_##change(                                                     \
		{#key, KIND_##kind, ARGUMENT_##kind(words), help, NULL, false}, ))
#define CTRL_CREATE_NO(...) __VA_ARGS__
#define CTRL_CREATE_YES(...)
	CTRL_JOB_SETTINGS(X)
#undef X
		{0},
};
static struct field job_set_fields[] = {
#define X(key, where, change, kind, field, unit, value, min, max, words, help)                     \
	CTRL_API_##where(CTRL_CHANGE_##change(                                                     \
		{#key, KIND_##kind, ARGUMENT_##kind(words), help, NULL, false}, ))
	CTRL_JOB_SETTINGS(X)
#undef X
		{0},
};
static struct field fault_fields[] = {
	{"port", WORD, "PORT", "at this port", NULL, false},
	{"direction", WORD, "in|out", "of packets received, or sent; else both", NULL, false},
	{"what", WORD, "any|contribution|result|ordinary", "of these packets", NULL, false},
	{"source", NUMBER, "N", "of this source", NULL, false},
	{"first_block", NUMBER, "N", "of this block and later ones", NULL, false},
	{"last_block", NUMBER, "N", "of blocks up to this one", NULL, false},
	{"percent", PERCENT, "P", "of each packet, by chance (100)", NULL, false},
	{"nth", NUMBER, "N", "one packet in N", NULL, false},
	{"list", NUMBERS, "N,N,...", "the packets of these numbers", NULL, false},
	{"from_ms", NUMBER, "N", "from this time on", NULL, false},
	{"to_ms", NUMBER, "N", "up to this time", NULL, false},
	{"repeat_ms", NUMBER, "N", "again after this time", NULL, false},
	{"distance", NUMBER, "N", "packets that overtake, at most", NULL, false},
	{"delay", WORD, "constant|uniform|exponential|pareto", "distribution of the delay", NULL,
		false},
	{"us", NUMBER, "N", "the delay, or its least, or its mean", NULL, false},
	{"most_us", NUMBER, "N", "the longest delay", NULL, false},
	{"bits", NUMBER, "N", "bits to flip", NULL, false},
	{"seed", LARGE, "N", "of all rules", NULL, false},
	{0},
};
static const struct option_row of_faults_add[] = {
	{"job", 0, OPTION_TEXT, &given.job, 0, 0, "JOB", "of this job, by its name or id"},
	{0},
};

struct ctl_command {
	const char *name; /* a word or two */
	const char *arguments; /* for help: each is a word */
	const char *help;
	unsigned int words; /* arguments, all needed */
	const struct option_row *rows;
	struct field *fields[2];
	/* Either the answer to a question, the name (of `words` 1) at the path's end … */
	const char *path;
	view_print *view;
	const char *needs; /* a key that the answer must have */
	/* … or a function. */
	int (*run)(struct ctl *ctl);
};

/* clang-format off */
static const struct ctl_command commands[] = {
	{"status", "", "the switch: workers, memory, pools, packets", 0, NULL, {NULL}, "/v1/status", view_status, "name", NULL},
	{"health", "", "whether its workers turn; status 1 if not", 0, NULL, {NULL}, "/v1/health", view_health, "status", NULL},
	{"ports", "", "its ports, their links and their traffic", 0, NULL, {NULL}, "/v1/ports", view_ports, "ports", NULL},
	{"jobs", "", "its jobs", 0, NULL, {NULL}, "/v1/jobs", view_jobs, "jobs", NULL},
	{"job create", "NAME", "make a job; --size N is needed", 1, NULL, {job_fields, job_set_fields}, NULL, NULL, NULL,
		command_job_create},
	{"job set", "JOB", "change settings of a job", 1, NULL, {job_set_fields}, NULL, NULL, NULL, command_job_set},
	{"job delete", "JOB", "end a job", 1, of_job_delete, {NULL}, NULL, NULL, NULL, command_job_delete},
	{"job", "JOB", "one job: its settings, members and counters", 1, NULL, {NULL}, "/v1/jobs/", view_job, "name", NULL},
	{"members", "JOB", "the members of a job, and who is late", 1, NULL, {NULL}, "/v1/jobs/", view_members, "members", NULL},
	{"member delete", "JOB RANK", "free the rank of a host that is gone", 2, NULL, {NULL}, NULL, NULL, NULL,
		command_member_delete},
	{"blocks", "", "its blocks, oldest first; --stuck: what waits for whom", 0, of_blocks, {NULL}, NULL, NULL, NULL,
		command_blocks},
	{"counters", "", "every counter that is not 0; --watch: rates", 0, of_counters, {NULL}, NULL, NULL, NULL,
		command_counters},
	{"trace", "", "record what the workers do, for Perfetto; -o FILE", 0, of_trace, {NULL}, NULL, NULL, NULL, command_trace},
	{"faults", "", "faults set on purpose: what they match and hit", 0, NULL, {NULL}, "/v1/faults", view_faults, "rules",
		NULL},
	{"faults show", "", "the same", 0, NULL, {NULL}, "/v1/faults", view_faults, "rules", NULL},
	{"faults set", "FILE", "set the faults of a file; - is standard input", 1, NULL, {NULL}, NULL, NULL, NULL,
		command_faults_set},
	{"faults add", FAULT_ACTIONS, "add a rule", 1, of_faults_add, {fault_fields}, NULL, NULL, NULL, command_faults_add},
	{"faults clear", "", "remove all faults", 0, NULL, {NULL}, NULL, NULL, NULL, command_faults_clear},
	{"config", "", "the configuration as it runs, JSON", 0, NULL, {NULL}, "/v1/config", view_json, NULL, NULL},
	{"reload", "", "read the configuration again", 0, NULL, {NULL}, NULL, NULL, NULL,
		command_reload},
	{"tenants", "", "tenants, what they use and may use", 0, NULL, {NULL}, "/v1/tenants", view_tenants, "tenants", NULL},
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

static json_t *
number(const struct field *field)
{
	unsigned long max = field->kind == LARGE ? INT64_MAX : UINT32_MAX, value;
	char *end;

	errno = 0;
	value = strtoul(field->value, &end, 10);
	if (!isdigit((unsigned char)field->value[0]) || *end != '\0' || errno != 0 || value > max)
		wrong("%s %s: must be in 0..%lu", field->key, field->value, max);
	return json_integer((json_int_t)value);
}

/* A share, as parts per million. */
static json_t *
percent(const char *from)
{
	double value = strtod(from, NULL);

	if (from[strspn(from, "0123456789.")] != '\0' || from[0] == '\0' || value > 100)
		wrong("--percent %s: must be in 0..100", from);
	if (value > 0 && value < 1e-4)
		wrong("--percent %s: less than 0.0001 is not a part in a million", from);
	return json_integer(lround(value * 1e4));
}

static json_t *
numbers(const char *from)
{
	json_t *found = json_array();
	const char *at = from;

	for (;;) {
		unsigned long value;
		char *end;

		errno = 0;
		value = strtoul(at, &end, 10);
		if (!isdigit((unsigned char)*at) || errno != 0 || value > INT64_MAX)
			break;
		json_array_append_new(found, json_integer((json_int_t)value));
		if (*end == '\0')
			return found;
		if (*end != ',')
			break;
		at = end + 1;
	}
	wrong("--list %s: must be numbers with commas between them", from);
}

static void
put_field(json_t *object, const struct field *field)
{
	json_t *value = NULL;

	if (field->kind == FLAG ? !field->set : field->value == NULL)
		return;
	switch (field->kind) {
	case NUMBER:
	case LARGE: value = number(field); break;
	case FLAG: value = json_true(); break;
	case WORD: value = json_string(field->value); break;
	case PERCENT: value = percent(field->value); break;
	case NUMBERS: value = numbers(field->value); break;
	}
	if (value == NULL)
		wrong("%s: not UTF-8", field->key);
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

/* The name of the command that was meant; NULL: nobody knows. "jobs list" and "list jobs" are jobs. */
static const char *
meant(const char *first, const char *second)
{
	static const char *const shows[] = {"list", "ls", "show", "get"};
	char both[NAME_BYTES], plural[NAME_BYTES];
	const char *found = NULL;
	size_t best = 3;

	for (size_t i = 0; i < sizeof(shows) / sizeof(shows[0]); i++) {
		if (strcmp(first, shows[i]) == 0)
			return meant(second, "");
		if (strcmp(second, shows[i]) == 0)
			second = "";
	}
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
		if (count == command->words)
			unknown(first, count > 0 ? given.words[0] : argv[at]);
		given.words[count++] = argv[at];
	}
	if (count < command->words)
		wrong("%s: %s is missing", command->name, command->arguments);
}

static char *
about(void)
{
	char *help = NULL;
	size_t length;
	FILE *out = open_memstream(&help, &length);

	if (out == NULL)
		err(CTL_USAGE, "help");
	fputs("Look at a running weir-switch, change its jobs, and have it make faults.\n\n", out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %s %-*s %s\n", commands[i].name,
			(int)(22 - strlen(commands[i].name)),
			strlen(commands[i].arguments) > 8 ? "ACTION" : commands[i].arguments,
			commands[i].help);
	fputs("\vweirctl COMMAND --help shows a command's options. TIME is a number with us, ms, "
	      "s, "
	      "min or h.\nExit status: 0 success, 1 the switch refuses, 2 usage, 3 no connection, "
	      "or no answer in time.",
		out);
	fclose(out);
	return help;
}

/* NULL: it is not set, or to nothing. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value == NULL || value[0] == '\0' ? NULL : value;
}

const struct ctl_command *
options_read(struct ctl_options *options, int argc, char **argv)
{
	const struct option_row *const tables[] = {everywhere, NULL};
	const struct ctl_command *command;
	const char *second;
	int at = options_parse("weirctl", about(), "COMMAND ...", tables, argc, argv);

	if (text.version) {
		puts("weirctl " WEIR_VERSION);
		exit(CTL_OK);
	}
	if (at >= argc)
		wrong("a command is missing");
	second = at + 1 < argc ? argv[at + 1] : "";
	command = find(argv[at], second);
	if (command == NULL)
		unknown(argv[at], second[0] == '-' ? "" : second);
	at += strchr(command->name, ' ') != NULL;
	read_command(command, argc - at, argv + at);
	if (given.config != NULL && given.address != NULL)
		wrong("--config and --switch both name a switch: give one of them");
	if (given.address == NULL)
		given.address = variable("WEIR_SWITCH");
	if (given.ca_file == NULL)
		given.ca_file = variable("WEIR_CA");
	given.timeout = span("timeout", text.timeout, 0.001);
	given.interval = span("interval", text.interval, 0.1);
	given.span = span("for", text.span, 0.001);
	given.limit = (unsigned int)text.limit;
	given.count = (unsigned int)text.count;
	given.fields = json_object();
	for (size_t i = 0; i < 2 && command->fields[i] != NULL; i++)
		for (const struct field *f = command->fields[i]; f->key != NULL; f++)
			put_field(given.fields, f);
	*options = given;
	return command;
}

int
ctl_connect(struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	struct client *client = &ctl->client;
	static char found[1024];
	const char *file = o->token_file;

	client->http = (struct weir_http_config){.address = o->address, .ca_file = o->ca_file};
	client->timeout = o->timeout;
	if (o->config != NULL || o->address == NULL) {
		if (!(o->config != NULL ? client_find_of(o->config, found, sizeof(found))
					: client_find(CTL_FOLDER, found, sizeof(found)))) {
			ctl_say("%s", found);
			return CTL_NO_CONNECTION;
		}
		client->http.address = found;
	}
	/* The same variables as libweir's, in the same order. */
	if (file == NULL) {
		client->http.token = variable("WEIR_TOKEN");
		client->token_from = client->http.token != NULL ? "WEIR_TOKEN" : NULL;
	}
	if (file == NULL && client->http.token == NULL)
		file = variable("WEIR_TOKEN_FILE");
	if (client_open(client, file))
		return CTL_OK;
	ctl_say("%s", client->error);
	return CTL_USAGE;
}

int
command_run(const struct ctl_command *command, struct ctl *ctl)
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl: inspect a running switch, change its jobs, and run programs on it. The command line: the commands, the
 * options of each, and near misses. */
#include "apps/report/options.h"

#include <assert.h>
#include <err.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/field.h"
#include "apps/ctl/get.h"
#include "ctrl/api/operations.h"
#include "ctrl/api/units.h"

#define NAME_BYTES    64

#define FAULT_ACTIONS "drop|blackout|duplicate|reorder|delay|corrupt"

/* What options set, as texts: the switch knows the ranges of most. */
static struct {
	const char *timeout, *interval, *span, *json;
	uint64_t count, rank;
} text = {.timeout = "5s", .interval = "1s", .span = "50ms", .rank = CTL_RANKS_MAX};
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
static const struct option_row of_counters[] = {
	{"watch", 'w', OPTION_FLAG, &given.watch, 0, 0, NULL, "print rates until interrupted"},
	{"zeros", 0, OPTION_FLAG, &given.zeros, 0, 0, NULL, "include counters that are 0"},
	{"interval", 0, OPTION_TEXT, &text.interval, 0, 0, "TIME", "time between rates"},
	{"count", 0, OPTION_UINT, &text.count, 0, 1e9, "N",
		"print rates N times; 0: until interrupted"},
	{0},
};
static const struct option_row of_log[] = {
	{"follow", 'f', OPTION_FLAG, &given.follow, 0, 0, NULL, "print further lines as they come"},
	{0},
};
static const struct option_row of_trace[] = {
	{"for", 0, OPTION_TEXT, &text.span, 0, 0, "TIME", "how long to record"},
	{"output", 'o', OPTION_TEXT, &given.output, 0, 0, "FILE",
		"file to write; - is standard output"},
	{0},
};

static const struct option_row of_graph[] = {
	{"dot", 0, OPTION_FLAG, &given.dot, 0, 0, NULL, "print text for Graphviz"},
	{"drops", 0, OPTION_FLAG, &given.drops, 0, 0, NULL, "with the reasons for drops"},
	{0},
};

static const struct option_row of_job_delete[] = {
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
	{"sizes", 0, OPTION_LIST, &given.sizes, 1, CTL_RANKS_MAX, "N,N,...",
		"the numbers of hosts: as many switches, the first ones, are leaves; the others "
		"are the parents of all leaves"},
	{"save", 0, OPTION_TEXT, &given.save, 0, 0, "FILE", "write the plan as JSON"},
	{0},
};

/* Keys of a fault's rule. */
static const struct ctrl_key fault_keys[] = {
	{"port", CTRL_NAME, "", "", .help = "only packets at this port"},
	{"direction", CTRL_WORD, "", "", .words = "in|out",
		.help = "only packets received (in) or sent (out); default: both"},
	{"what", CTRL_WORD, "", "", .words = "any|contribution|result|ordinary",
		.help = "only packets of this kind"},
	{"source", CTRL_INTEGER, "", "", .help = "only packets of this source"},
	{"first_block", CTRL_INTEGER, "", "", .help = "only blocks from this one on"},
	{"last_block", CTRL_INTEGER, "", "", .help = "only blocks up to this one"},
	{"percent", CTRL_INTEGER, CTL_PERCENT, "",
		.help = "hit this share of them, at random (100)"},
	{"nth", CTRL_INTEGER, "", "", .help = "hit one packet in N"},
	{"list", CTRL_ARRAY, "", "", .help = "hit the packets with these numbers"},
	{"from_ms", CTRL_INTEGER, "", "", .help = "begin at this time"},
	{"to_ms", CTRL_INTEGER, "", "", .help = "end at this time"},
	{"repeat_ms", CTRL_INTEGER, "", "", .help = "begin again each time this period is over"},
	{"distance", CTRL_INTEGER, "", "", .help = "let up to N packets overtake"},
	{"delay", CTRL_WORD, "", "", .words = "constant|uniform|exponential|pareto",
		.help = "distribution of the delay"},
	{"us", CTRL_INTEGER, "", "", .help = "the constant delay, the shortest one, or the mean"},
	{"most_us", CTRL_INTEGER, "", "", .help = "the longest delay"},
	{"bits", CTRL_INTEGER, "", "", .help = "number of bits to flip"},
	{"seed", CTRL_INTEGER, "", "", .help = "seed of all rules"},
};
static const struct option_row of_faults_add[] = {
	{"job", 0, OPTION_TEXT, &given.job, 0, 0, "JOB", "only packets of this job, by name or id"},
	{0},
};

/* Keys of a filter. */
static const struct ctrl_key filter_keys[] = {
	{"section", CTRL_TEXT, "", "", .help = "section of the file with the code (weir)"},
	{"ports", CTRL_ARRAY, CTL_NAMES, "", .help = "only packets received by these ports"},
	{"programs", CTRL_ARRAY, CTL_NAMES, "", .help = "programs that it may choose"},
	{"values", CTRL_ARRAY, "", "", .help = "numbers for the filter: see its source"},
};

/* A command: an operation of the API, or more. */
struct ctl_command {
	const char *name; /* a word or two */
	const char *arguments, *help; /* NULL: the operation's; each argument is a word */
	const char *of; /* the operation's name; NULL: the one with this command, if there is one */
	const struct option_row *rows; /* options beside those of the operation */
	bool is_own; /* the operation's query and body are no options */
	const char *must; /* an option that it needs; NULL: none */
	struct ctrl_schema keys; /* of the body, in place of the operation's */
	view_print *view; /* NULL: view_answer() */
	const char *needs; /* a key that the answer must have; NULL: none */
	int (*run)(struct ctl *ctl); /* asks and prints by itself; NULL: the operation and a view */

	const struct api_operation *operation;
	struct ctl_field query[CTL_FIELDS_MAX], body[CTL_FIELDS_MAX]; /* the options */
};

/* clang-format off */
/* Commands that are more than an operation of the API with its options. */
static struct ctl_command own[] = {
	{"status", .view = view_status, .needs = "name"},
	{"health", .help = "check that all workers run; exit status 1 if not", .needs = "status"},
	{"ports", .view = view_ports, .needs = "ports"},
	{"jobs", .view = view_jobs, .needs = "jobs"},
	{"job create", .help = "create a job; --size is required", .must = "size", .view = view_settings},
	{"job set", .view = view_settings},
	{"job delete", .rows = of_job_delete, .run = command_job_delete},
	{"job tokens", .help = "print the tokens of a job's ranks, for its hosts", .rows = of_job_tokens, .run = command_job_tokens},
	{"tree create", "NAME", "create a job on a tree of switches, on all or on none", "create_job", of_tree_create,
		.run = command_tree_create},
	{"tree delete", "NAME", "delete a job on all switches of a tree", .rows = of_tree, .run = command_tree_delete},
	{"tree show", "NAME", "show a job on all switches of a tree", .rows = of_tree, .run = command_tree_show},
	{"job", .view = view_job, .needs = "name"},
	{"members", "JOB", "show the members of a job, and which is late", "get_job", .view = view_members, .needs = "members"},
	{"member delete", .run = command_member_delete},
	{"blocks", .help = "list blocks; --stuck: why jobs do not progress", .run = command_blocks},
	{"counters", .help = "show counters that are not 0; --watch: rates", .rows = of_counters, .run = command_counters},
	{"log", .rows = of_log, .run = command_log},
	{"trace", .help = "record what the workers do, for Perfetto; -o FILE", .rows = of_trace, .is_own = true, .run = command_trace},
	{"faults", .view = view_faults, .needs = "rules"},
	{"faults show", "", "the same as faults", "get_faults", .view = view_faults, .needs = "rules"},
	{"faults set", .help = "inject the faults of a file; - is standard input", .run = command_faults_set},
	{"faults add", FAULT_ACTIONS, "inject one more fault", "set_faults", of_faults_add,
		.keys = {fault_keys, sizeof(fault_keys) / sizeof(fault_keys[0])}, .run = command_faults_add},
	{"faults clear", .view = view_faults, .needs = "rules"},
	{"filter list", .view = view_filters, .needs = "filters"},
	{"filter load", .keys = {filter_keys, sizeof(filter_keys) / sizeof(filter_keys[0])}, .needs = "name"},
	{"config", .help = "print the running configuration as JSON", .view = view_json},
	{"reload", .needs = "jobs_created"},
	{"simulate", .help = "say what would happen to a frame: hex, or FILE.pcap:N", .run = command_simulate},
	{"program graph", .help = "show the programs' matches and segments", .rows = of_graph, .run = command_program_graph},
	{"run", "COMMAND", "run a command whose MPI programs use the switch", .rows = of_run, .run = command_run},
	{"program list", .view = view_programs, .needs = "programs"},
	{"program show", .view = view_program, .needs = "name"},
	{"program load", .help = "load a program; KEY=VALUE ... sets its settings", .run = command_program_load},
	{"program unload", .help = "unload a program, and wait until it is gone", .run = command_program_unload},
	{"tenants", .view = view_tenants, .needs = "tenants"},
};
/* clang-format on */
#define OWN (sizeof(own) / sizeof(own[0]))

static struct ctl_command commands[OWN + 32];
static size_t nb_commands;

static unsigned int
count_words(const char *from)
{
	unsigned int words = 0;

	for (from += strspn(from, " "); *from != '\0'; from += strspn(from, " ")) {
		from += strcspn(from, " ");
		words++;
	}
	return words;
}

/* Is the key an argument of the command, such as NAME? */
static bool
is_argument(const char *arguments, const char *key)
{
	const char *found = strcasestr(arguments, key);

	return found != NULL && (found == arguments || found[-1] == ' ') &&
		strchr(" ", found[strlen(key)]) != NULL;
}

/* Is the key an option: neither an argument nor a part of an object? */
static bool
is_option(const struct ctrl_key *key, const struct ctl_command *command)
{
	if (strpbrk(key->path, ".[") != NULL || is_argument(command->arguments, key->path))
		return false;
	/* The plan of a tree has the sizes. */
	if (command->run == command_tree_create && strcmp(key->path, "size") == 0)
		return false;
	return command->keys.count > 0 ||
		(key->kind != CTRL_OBJECT && key->kind != CTRL_ARRAY && key->kind != CTRL_SETTINGS);
}

static void
set_fields(struct ctl_field *fields, const struct ctrl_schema *schema,
	const struct ctl_command *command)
{
	size_t count = 0;

	for (size_t k = 0; k < schema->count; k++)
		if (is_option(&schema->keys[k], command))
			fields[count++].key = &schema->keys[k];
	assert(count < CTL_FIELDS_MAX);
}

static void
add_command(struct ctl_command command, const struct api_operation *operation)
{
	command.operation = operation;
	if (command.arguments == NULL)
		command.arguments = operation->command + strlen(command.name) +
			strspn(operation->command + strlen(command.name), " ");
	if (command.help == NULL)
		command.help = operation->help;
	if (operation != NULL && !command.is_own) {
		set_fields(command.query, &operation->query, &command);
		set_fields(command.body, command.keys.count > 0 ? &command.keys : &operation->body,
			&command);
	}
	commands[nb_commands++] = command;
}

static int
by_name(const void *a, const void *b)
{
	const struct ctl_command *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* The commands of the operations, and those that are more. */
static void
make_commands(void)
{
	for (size_t o = 0; o < api_operations_count; o++) {
		const struct api_operation *operation = &api_operations[o];
		size_t length = operation->command == NULL
			? 0
			: strcspn(operation->command, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		bool found = length == 0;

		while (length > 0 && operation->command[length - 1] == ' ')
			length--;
		for (size_t i = 0; i < OWN; i++) {
			bool is = length > 0 && strlen(own[i].name) == length &&
				strncmp(own[i].name, operation->command, length) == 0;

			found |= is;
			if (own[i].of == NULL ? is : strcmp(own[i].of, operation->name) == 0)
				add_command(own[i], operation);
		}
		if (!found)
			add_command(
				(struct ctl_command){.name = strndup(operation->command, length)},
				operation);
	}
	for (size_t i = 0; i < OWN; i++)
		if (own[i].rows == of_run || own[i].rows == of_tree)
			add_command(own[i], NULL);
	qsort(commands, nb_commands, sizeof(commands[0]), by_name);
}

/* The options of a command. Kept until the program ends. */
static const struct option_row *
rows_of(struct ctl_command *command)
{
	static struct option_row rows[2 * CTL_FIELDS_MAX];
	size_t count = 0;

	for (struct ctl_field *f = command->query; f->key != NULL; f++)
		rows[count++] = ctl_field_row(f, &given.dry_run);
	for (const struct option_row *r = command->rows; r != NULL && r->name != NULL; r++)
		rows[count++] = *r;
	for (struct ctl_field *f = command->body; f->key != NULL; f++)
		rows[count++] = ctl_field_row(f, &given.dry_run);
	rows[count] = (struct option_row){0};
	return rows;
}

static double
span(const char *option, const char *value, double min)
{
	double seconds;

	if (!units_read_span(value, &seconds) || seconds < min || seconds > CTL_SECONDS_MAX)
		ctl_wrong("--%s %s: must be a time between %gs and %dh, such as 50ms or 2s", option,
			value, min, CTL_SECONDS_MAX / 3600);
	return seconds;
}

/* Append text to a path, which is freed; `value` is escaped. */
static char *
join_path(char *path, const char *between, const char *value)
{
	char *before, *longer;

	if (asprintf(&before, "%s%s", path, between) < 0)
		err(CTL_USAGE, "path");
	longer = ctl_path(before, value, "");
	free(before);
	free(path);
	return longer;
}

/* The path of the operation, with its arguments and its query; and the body, which may be NULL. */
static void
make_request(const struct ctl_command *command)
{
	const struct api_operation *operation = command->operation;
	unsigned int word = 0;
	char *path = strdup("");
	const char *from = operation->path, *mark = "?";

	for (; path != NULL && *from != '\0' && *from != '?'; from += strcspn(from, "{")) {
		char part[NAME_BYTES];

		if (*from == '{') {
			path = join_path(
				path, "", given.words[word] == NULL ? "" : given.words[word]);
			word++;
			from = strchr(from, '}') + 1;
		}
		snprintf(part, sizeof(part), "%.*s", (int)strcspn(from, "{"), from);
		path = join_path(path, part, NULL);
	}
	for (const struct ctl_field *f = command->query; path != NULL && f->key != NULL; f++) {
		json_t *value = ctl_field_value(f);
		char number[32], key[NAME_BYTES];

		if (value == NULL)
			continue;
		json_object_set(given.query, f->key->path, value);
		snprintf(
			number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		snprintf(key, sizeof(key), "%s%s=", mark, f->key->path);
		path = join_path(
			path, key, json_is_string(value) ? json_string_value(value) : number);
		mark = "&";
		json_decref(value);
	}
	given.path = path;
	for (const struct ctl_field *f = command->body; f->key != NULL; f++) {
		json_t *value = ctl_field_value(f);

		if (value != NULL)
			json_object_set_new(given.fields, f->key->path, value);
	}
	if (command->must != NULL && json_object_get(given.fields, command->must) == NULL)
		ctl_wrong("%s: --%s is missing", command->name, command->must);
	for (unsigned int i = word; command->run == NULL && i < 2 && given.words[i] != NULL &&
		operation->body.count > 0;
		i++)
		if (json_object_set_new(given.fields,
			    is_argument(command->arguments, "file") ? "file" : "name",
			    json_string(given.words[i])) < 0)
			ctl_wrong("the name is not UTF-8");
	if (command->run == NULL && operation->body.count > 0 &&
		json_object_size(given.fields) == 0)
		ctl_wrong("%s: nothing to set: weirctl %s --help lists the settings", command->name,
			command->name);
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
	for (size_t i = 0; i < nb_commands; i++) {
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
		ctl_wrong(
			"there is no command %s%s%s", first, second[0] != '\0' ? " " : "", second);
	ctl_wrong("there is no command %s%s%s: did you mean \"%s\"?", first,
		second[0] != '\0' ? " " : "", second, name);
}

/* The command of one or two words; NULL: there is none. */
static struct ctl_command *
find(const char *first, const char *second)
{
	struct ctl_command *found = NULL;
	char both[NAME_BYTES];

	snprintf(both, sizeof(both), "%.24s %.24s", first, second);
	for (size_t i = 0; i < nb_commands; i++) {
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

	for (size_t i = 0; i < nb_commands; i++)
		if (strncmp(commands[i].name, command->name, length) == 0 &&
			commands[i].name[length] == ' ' && strlen(word) > 4 &&
			distance(word, commands[i].name + length + 1) == 1)
			return true;
	return command->arguments[0] != '\0' && command->run != command_run && is_show(word);
}

/* Commands that do not talk to the one switch of --switch, or not yet. */
static bool
connects_itself(const struct ctl_command *command)
{
	return command->run == command_run || strncmp(command->name, "tree ", 5) == 0;
}

/* Its options and arguments; argv[0] is its last word. */
static void
read_command(struct ctl_command *command, int argc, char **argv)
{
	const struct option_row *const tables[] = {rows_of(command), everywhere, NULL};
	char program[NAME_BYTES], first[NAME_BYTES];
	unsigned int count = 0, words = count_words(command->arguments);

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(command->name, " "), command->name);
	snprintf(program, sizeof(program), "weirctl %s", command->name);
	for (int at = 0;; argc -= at, argv += at) {
		at = options_parse(program, command->help, command->arguments, tables, argc, argv);
		if (at >= argc)
			break;
		if (command->run == command_run) {
			given.command = argv + at;
			return;
		}
		if (count == words && command->run == command_program_load &&
			ctl_program_setting(given.fields, argv[at]))
			continue;
		if (count == words)
			unknown(first, count > 0 ? given.words[0] : argv[at]);
		given.words[count++] = argv[at];
	}
	if (given.prefix != NULL && (count > 0 || given.wait))
		ctl_wrong("%s: --prefix excludes JOB and --wait", command->name);
	if (count < words && given.prefix == NULL)
		ctl_wrong("%s: %s is missing", command->name, command->arguments);
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
	for (size_t i = 0; i < nb_commands; i++)
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
	struct ctl_command *command;
	const char *second;
	int at = options_parse("weirctl", about(), "COMMAND ...", tables, argc, argv);

	given.fields = json_object();
	if (at >= argc)
		ctl_wrong("a command is missing");
	second = at + 1 < argc ? argv[at + 1] : "";
	command = find(argv[at], second);
	if (command == NULL || (strchr(command->name, ' ') == NULL && is_mistyped(command, second)))
		unknown(argv[at], second[0] == '-' ? "" : second);
	at += strchr(command->name, ' ') != NULL;
	read_command(command, argc - at, argv + at);
	if (given.config != NULL && given.address != NULL)
		ctl_wrong("--config and --switch exclude each other");
	given.json = text.json != NULL;
	if (given.json && strcmp(text.json, "-") != 0 && command->run != command_run &&
		freopen(text.json, "we", stdout) == NULL)
		ctl_wrong("--json=%s: %s", text.json, strerror(errno));
	given.timeout = span("timeout", text.timeout, 0.001);
	given.interval = span("interval", text.interval, 0.1);
	given.span = span("for", text.span, 0.001);
	given.count = (unsigned int)text.count;
	given.rank = (unsigned int)text.rank;
	given.query = json_object();
	if (command->operation != NULL)
		make_request(command);
	*options = given;
	return command;
}

/* The whole command: ask, print. Returns the exit status. */
static int
run(const struct ctl_command *command, struct ctl *ctl)
{
	const struct api_operation *operation = command->operation;
	bool has_body = operation != NULL && operation->body.count > 0;
	json_t *answer;

	if (command->run != NULL)
		return command->run(ctl);
	if (!ctl_ask(ctl, operation->method, ctl->options.path,
		    has_body ? json_incref(ctl->options.fields) : NULL, &answer))
		return ctl->status;
	if (ctl_lacks(ctl, answer, command->needs))
		ctl->status = CTL_REFUSED;
	else if (command->view != NULL)
		command->view(answer, stdout, ctl->width);
	else
		view_answer(api_object_find(operation->answer), answer, stdout, ctl->width);
	ctl_more(answer);
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
	make_commands();
	command = read_options(&ctl.options, argc, argv);
	ctl.width = terminal_width();
	status = connects_itself(command) ? CTL_OK : ctl_connect(&ctl);
	if (status == CTL_OK)
		status = run(command, &ctl);
	ctl_close(&ctl);
	json_decref(ctl.options.query);
	json_decref(ctl.options.fields);
	free(ctl.options.path);
	return finish(status);
}

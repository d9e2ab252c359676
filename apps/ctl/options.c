/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: which commands there are, and which options each of them takes. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

#define SECONDS_MAX 3600
#define TIMEOUT     5

/* Options of some commands. Those above FIELD are keys of a job or a fault's rule, passed on as they
 * are. */
enum {
	STUCK = 256,
	JOB,
	LIMIT,
	ZEROS,
	INTERVAL,
	COUNT,
	ONCE,
	FOR,
	WAIT,
	TIMEOUT_S,
	TOKEN_FILE,
	CA_FILE,
	CONFIG,
	FIELD,
	SIZE = FIELD,
	ID,
	WINDOW,
	ELEMENTS,
	TYPE,
	OP,
	POLICY,
	RESULTS,
	TIMEOUT_MS,
	RATE_MBIT,
	DEAD_AFTER_MS,
	REJOIN,
	EXPIRE_S,
	AUTHENTICATE,
	DETERMINISTIC,
	PORT,
	DIRECTION,
	WHAT,
	SOURCE,
	FIRST_BLOCK,
	LAST_BLOCK,
	PERCENT,
	NTH,
	LIST,
	FROM_MS,
	TO_MS,
	REPEAT_MS,
	DISTANCE,
	DELAY,
	US,
	MOST_US,
	BITS,
	SEED,
	FIELDS_END,
};

struct ctl_command {
	const char *name; /* a word or two */
	const char *arguments; /* for help */
	const char *help;
	unsigned int words; /* arguments, all needed */
	int options[24]; /* that it takes, beside those of all */
	/* Either the answer to a question, the name (of `words` 1) at the path's end … */
	const char *path;
	view_print *view;
	const char *needs; /* a key without which it is no such answer */
	/* … or a function. */
	int (*run)(struct ctl *ctl);
};

#define FIELDS_OF_SET TIMEOUT_MS, POLICY, DEAD_AFTER_MS, REJOIN, RATE_MBIT, EXPIRE_S

/* clang-format off */
static const struct ctl_command commands[] = {
	{"status", "", "the switch: workers, memory, pools, books", 0, {0}, "/v1/status", view_status, "name", NULL},
	{"health", "", "whether its workers turn; status 1 if not", 0, {0}, "/v1/health", view_health, "status", NULL},
	{"ports", "", "its ports and what went through them", 0, {0}, "/v1/ports", view_ports, "ports", NULL},
	{"jobs", "", "its jobs", 0, {0}, "/v1/jobs", view_jobs, "jobs", NULL},
	{"job create", "NAME", "make a job (--size N and others)", 1,
		{SIZE, ID, WINDOW, ELEMENTS, TYPE, OP, DETERMINISTIC, RESULTS, AUTHENTICATE, FIELDS_OF_SET}, NULL, NULL, NULL,
		command_job_create},
	{"job set", "NAME", "change a job (--timeout-ms, --policy, --dead-after-ms, ...)", 1,
		{FIELDS_OF_SET}, NULL, NULL, NULL, command_job_set},
	{"job delete", "NAME", "end a job; --wait until it is gone", 1, {WAIT}, NULL, NULL, NULL,
		command_job_delete},
	{"job", "NAME", "one job: its settings, counters and members", 1, {0}, "/v1/jobs/", view_job, "name", NULL},
	{"members", "NAME", "who is in a job, and who is late", 1, {0}, "/v1/jobs/", view_members, "members", NULL},
	{"member delete", "NAME RANK", "free the rank of a host that is gone", 2, {0}, NULL, NULL, NULL,
		command_member_delete},
	{"blocks", "", "its blocks, oldest first; --stuck: what waits for whom", 0,
		{STUCK, JOB, LIMIT}, NULL, NULL, NULL, command_blocks},
	{"counters", "", "every counter that is not 0; --watch: rates, each second", 0,
		{'w', ZEROS, INTERVAL, COUNT}, NULL, NULL, NULL, command_counters},
	{"trace", "", "write what the workers do, for Perfetto (--for 50ms -o FILE)", 0, {FOR, 'o'}, NULL,
		NULL, NULL, command_trace},
	{"top", "", "a live view; q quits", 0, {ONCE, INTERVAL}, NULL, NULL, NULL, command_top},
	{"faults show", "", "the same as faults", 0, {0}, "/v1/faults", view_faults, "rules", NULL},
	{"faults set", "FILE", "set those of a file; - is standard input", 1, {0}, NULL, NULL, NULL,
		command_faults_set},
	{"faults add", "ACTION", "one more: drop, blackout, duplicate, reorder, delay or corrupt", 1,
		{PORT, DIRECTION, WHAT, JOB, SOURCE, FIRST_BLOCK, LAST_BLOCK, PERCENT, NTH, LIST, FROM_MS,
			TO_MS, REPEAT_MS, DISTANCE, DELAY, US, MOST_US, BITS, SEED},
		NULL, NULL, NULL, command_faults_add},
	{"faults clear", "", "no more faults", 0, {0}, NULL, NULL, NULL, command_faults_clear},
	{"faults", "", "faults set on purpose: what they match and hit", 0, {0}, "/v1/faults", view_faults,
		"rules", NULL},
	{"config", "", "the configuration as it runs, JSON", 0, {0}, "/v1/config", view_json, NULL, NULL},
	{"reload", "", "have it read its configuration again; status 1 if it is refused", 0, {0}, NULL,
		NULL, NULL, command_reload},
	{"tenants", "", "tenants, what they use and may use", 0, {0}, "/v1/tenants", view_tenants, "tenants", NULL},
};
/* clang-format on */

static const char help_begin[] =
	"weirctl [OPTION...] COMMAND [NAME] [OPTION...]\n"
	"\n"
	"Look at a running weir-switch, change its jobs, and have it make faults.\n"
	"\n";

static const char help_end[] =
	"\n"
	"  -s, --switch ADDRESS   unix:PATH, http://HOST:PORT or https://HOST:PORT; else\n"
	"                         WEIR_SWITCH, else the only socket in " CTL_FOLDER "\n"
	"      --config FILE      instead: the switch that runs on this configuration, at its\n"
	"                         first Unix socket\n"
	"      --token-file FILE  a tenant's token; else WEIR_TOKEN itself, or\n"
	"                         WEIR_TOKEN_FILE\n"
	"      --ca FILE          the certificate to trust, with https; else WEIR_CA\n"
	"  -j, --json             print the switch's answer as it came\n"
	"  -t, --timeout TIME     wait so long for an answer (5s)\n"
	"  -V, --version          print the version\n"
	"  -h, --help             print this\n"
	"\n"
	"blocks:      --stuck  --job NAME  --limit N (256)\n"
	"counters:    -w, --watch  --zeros  --interval TIME (1s)  --count N (no end)\n"
	"top:         --once (one frame, no terminal)  --interval TIME (1s)\n"
	"trace:       --for TIME (50ms)  -o, --output FILE, - is standard output\n"
	"job create:  --size N, and --id --window --elements --type --op --results\n"
	"             --deterministic --authenticate, and what job set takes\n"
	"job set:     --timeout-ms N  --policy wait|partial|error  --rate-mbit N\n"
	"             --expire-s N  --dead-after-ms N  --rejoin wait|revoke\n"
	"job delete:  --wait\n"
	"faults add:  --port NAME  --direction in|out (both)  --what contribution|result|ordinary\n"
	"             --job NAME  --source N  --first-block N  --last-block N\n"
	"             --percent P (100) or --nth N or --list N,N,...  --seed N\n"
	"             --from-ms N  --to-ms N  --repeat-ms N  --distance N  --bits N\n"
	"             --us N  --most-us N  --delay constant|uniform|exponential|pareto\n"
	"\n"
	"TIME is a number with us, ms, s, min or h. Exit status: 0 all right, 1 the switch says\n"
	"no, 2 usage, 3 no connection or no answer in time. man weirctl says more.\n";

static const struct option list[] = {
	{"switch", required_argument, NULL, 's'},
	{"token-file", required_argument, NULL, TOKEN_FILE},
	{"config", required_argument, NULL, CONFIG},
	{"ca", required_argument, NULL, CA_FILE},
	{"json", no_argument, NULL, 'j'},
	{"timeout", required_argument, NULL, 't'},
	{"stuck", no_argument, NULL, STUCK},
	{"job", required_argument, NULL, JOB},
	{"limit", required_argument, NULL, LIMIT},
	{"watch", no_argument, NULL, 'w'},
	{"zeros", no_argument, NULL, ZEROS},
	{"interval", required_argument, NULL, INTERVAL},
	{"count", required_argument, NULL, COUNT},
	{"once", no_argument, NULL, ONCE},
	{"for", required_argument, NULL, FOR},
	{"output", required_argument, NULL, 'o'},
	{"wait", no_argument, NULL, WAIT},
	{"size", required_argument, NULL, SIZE},
	{"id", required_argument, NULL, ID},
	{"window", required_argument, NULL, WINDOW},
	{"elements", required_argument, NULL, ELEMENTS},
	{"type", required_argument, NULL, TYPE},
	{"op", required_argument, NULL, OP},
	{"policy", required_argument, NULL, POLICY},
	{"results", required_argument, NULL, RESULTS},
	{"timeout-ms", required_argument, NULL, TIMEOUT_MS},
	{"rate-mbit", required_argument, NULL, RATE_MBIT},
	{"dead-after-ms", required_argument, NULL, DEAD_AFTER_MS},
	{"rejoin", required_argument, NULL, REJOIN},
	{"expire-s", required_argument, NULL, EXPIRE_S},
	{"authenticate", no_argument, NULL, AUTHENTICATE},
	{"deterministic", no_argument, NULL, DETERMINISTIC},
	{"port", required_argument, NULL, PORT},
	{"direction", required_argument, NULL, DIRECTION},
	{"what", required_argument, NULL, WHAT},
	{"source", required_argument, NULL, SOURCE},
	{"first-block", required_argument, NULL, FIRST_BLOCK},
	{"last-block", required_argument, NULL, LAST_BLOCK},
	{"percent", required_argument, NULL, PERCENT},
	{"nth", required_argument, NULL, NTH},
	{"list", required_argument, NULL, LIST},
	{"from-ms", required_argument, NULL, FROM_MS},
	{"to-ms", required_argument, NULL, TO_MS},
	{"repeat-ms", required_argument, NULL, REPEAT_MS},
	{"distance", required_argument, NULL, DISTANCE},
	{"delay", required_argument, NULL, DELAY},
	{"us", required_argument, NULL, US},
	{"most-us", required_argument, NULL, MOST_US},
	{"bits", required_argument, NULL, BITS},
	{"seed", required_argument, NULL, SEED},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static void __attribute__((noreturn)) hint(void)
{
	fputs("weirctl --help tells what there is\n", stderr);
	exit(CTL_USAGE);
}

static void __attribute__((noreturn, format(printf, 1, 2))) wrong(const char *format, ...)
{
	va_list arguments;

	fputs("weirctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	hint();
}

static void
print_help(void)
{
	fputs(help_begin, stdout);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		const struct ctl_command *c = &commands[i];

		printf("  %s %-*s %s\n", c->name, (int)(22 - strlen(c->name)), c->arguments,
			c->help);
	}
	fputs(help_end, stdout);
}

static const char *
option_name(int option)
{
	for (const struct option *o = list; o->name != NULL; o++)
		if (o->val == option)
			return o->name;
	return "?";
}

static double
span(int option, double min)
{
	double value;

	if (!units_read_span(optarg, &value) || value < min || value > SECONDS_MAX)
		wrong("--%s: %s is no time between %gs and %dh, such as 50ms or 2s",
			option_name(option), optarg, min, SECONDS_MAX / 3600);
	return value;
}

static unsigned long
number(int option, unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(optarg, &end, 10);
	if (!isdigit((unsigned char)optarg[0]) || *end != '\0' || errno != 0 || value > max)
		wrong("--%s: %s is not in 0..%lu", option_name(option), optarg, max);
	return value;
}

/* A share, as parts per million. */
static json_t *
percent(int option)
{
	double value = strtod(optarg, NULL);

	if (optarg[strspn(optarg, "0123456789.")] != '\0' || optarg[0] == '\0' || value > 100)
		wrong("--%s: %s is not in 0..100", option_name(option), optarg);
	if (value > 0 && value < 1e-4)
		wrong("--%s: less than 0.0001 is no part in a million", option_name(option));
	return json_integer(lround(value * 1e4));
}

/* Numbers with commas between them. */
static json_t *
numbers(int option)
{
	json_t *found = json_array();
	char *end = optarg;

	for (;;) {
		unsigned long value;

		errno = 0;
		value = strtoul(end, &end, 10);
		if (!isdigit((unsigned char)end[-1]) || errno != 0 || value > INT64_MAX)
			break;
		json_array_append_new(found, json_integer((json_int_t)value));
		if (*end == '\0')
			return found;
		if (*end++ != ',' || !isdigit((unsigned char)*end))
			break;
	}
	wrong("--%s: %s are no numbers with commas between them", option_name(option), optarg);
}

static bool
is_text(int option)
{
	return option == TYPE || option == OP || option == POLICY || option == REJOIN ||
		option == RESULTS || option == PORT || option == DIRECTION || option == WHAT ||
		option == DELAY;
}

/* A key of a job or a rule: --timeout-ms is timeout_ms. The switch knows the ranges. */
static void
field(struct ctl_options *options, int option)
{
	char key[32];
	json_t *value;

	snprintf(key, sizeof(key), "%s", option_name(option));
	for (char *c = key; *c != '\0'; c++)
		if (*c == '-')
			*c = '_';
	if (option == AUTHENTICATE || option == DETERMINISTIC)
		value = json_true();
	else if (is_text(option))
		value = json_string(optarg);
	else if (option == PERCENT)
		value = percent(option);
	else if (option == LIST)
		value = numbers(option);
	else if (option == SEED)
		value = json_integer((json_int_t)number(option, INT64_MAX));
	else
		value = json_integer((json_int_t)number(option, UINT32_MAX));
	if (value == NULL)
		wrong("--%s: not UTF-8", option_name(option));
	json_object_set_new(options->fields, key, value);
}

static void
read_option(struct ctl_options *options, int c)
{
	switch (c) {
	case 's': options->address = optarg; break;
	case TOKEN_FILE: options->token_file = optarg; break;
	case CONFIG: options->config = optarg; break;
	case CA_FILE: options->ca_file = optarg; break;
	case 'j': options->json = true; break;
	case 't': options->timeout = span(c, 0.001); break;
	case STUCK: options->stuck = true; break;
	case JOB: options->job = optarg; break;
	case LIMIT: options->limit = (unsigned int)number(c, 1000000); break;
	case 'w': options->watch = true; break;
	case ZEROS: options->zeros = true; break;
	case INTERVAL: options->interval = span(c, 0.1); break;
	case COUNT: options->count = (unsigned int)number(c, 1000000000); break;
	case ONCE: options->once = true; break;
	case FOR: options->span = span(c, 0.001); break;
	case 'o': options->output = optarg; break;
	case WAIT: options->wait = true; break;
	case 'V': puts("weirctl " WEIR_VERSION); exit(CTL_OK);
	case 'h': print_help(); exit(CTL_OK);
	default:
		if (c >= FIELD && c < FIELDS_END)
			field(options, c);
	}
}

static const struct ctl_command *
find(struct ctl_options *options, int argc, char **argv)
{
	char both[64];
	int left = argc - optind;

	if (left == 0)
		wrong("a command is missing");
	snprintf(both, sizeof(both), "%.24s %.24s", argv[optind], left > 1 ? argv[optind + 1] : "");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		const struct ctl_command *c = &commands[i];
		int words = strchr(c->name, ' ') != NULL ? 2 : 1;

		if (strcmp(c->name, words == 2 ? both : argv[optind]) != 0)
			continue;
		left -= words;
		if (left < (int)c->words)
			wrong("%s: %s is missing", c->name, c->arguments);
		if (left > (int)c->words)
			wrong("%s: there is an argument too many", c->name);
		for (int w = 0; w < left; w++)
			options->words[w] = argv[optind + words + w];
		options->words_count = (unsigned int)left;
		return c;
	}
	wrong("there is no command %s", argv[optind]);
}

static bool
takes(const struct ctl_command *command, int option)
{
	for (size_t i = 0; i < sizeof(command->options) / sizeof(command->options[0]); i++)
		if (command->options[i] == option)
			return true;
	return option == 's' || option == 'j' || option == 't' || option == TOKEN_FILE ||
		option == CA_FILE || option == CONFIG;
}

/* NULL: it is not set, or to nothing. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value == NULL || value[0] == '\0' ? NULL : value;
}

/* What no option said: the same variables as libweir's, in the same order. */
static void
read_environment(struct ctl_options *options)
{
	if (options->ca_file == NULL)
		options->ca_file = variable("WEIR_CA");
	if (options->token_file == NULL)
		options->token = variable("WEIR_TOKEN");
	if (options->token_file == NULL && options->token == NULL)
		options->token_file = variable("WEIR_TOKEN_FILE");
}

const struct ctl_command *
options_read(struct ctl_options *options, int argc, char **argv)
{
	bool used[FIELDS_END] = {false};
	const struct ctl_command *command;
	int c;

	*options = (struct ctl_options){
		.address = getenv("WEIR_SWITCH"),
		.timeout = TIMEOUT,
		.interval = 1,
		.span = 0.05,
		.fields = json_object(),
	};
	while ((c = getopt_long(argc, argv, "s:jt:wo:Vh", list, NULL)) != -1) {
		if (c == '?') /* getopt has said why */
			hint();
		used[c] = true;
		read_option(options, c);
	}
	read_environment(options);
	if (used[CONFIG] && used['s'])
		wrong("--config and --switch each say where to ask: give one of them");
	command = find(options, argc, argv);
	for (c = 0; c < FIELDS_END; c++)
		if (used[c] && !takes(command, c))
			wrong("%s takes no --%s", command->name, option_name(c));
	return command;
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

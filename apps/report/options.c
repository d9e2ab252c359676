/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/report/options.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/units.h"

#define ROWS_MAX   128
#define HELP_BYTES 512
#define FIRST_KEY  256 /* of options without a letter: FIRST_KEY + index */

/* The rows of all tables in turn, and what argp makes of them. */
struct parser {
	const struct option_row *row[ROWS_MAX];
	struct argp_option option[ROWS_MAX + 1];
	char help[ROWS_MAX][HELP_BYTES]; /* --help may come at any time */
	unsigned int count;
	bool arguments; /* are allowed */
	const char *program;
	int next;
};

static int
read_uint(const struct option_row *row, const char **text, uint64_t *value)
{
	static const char unit[] = "kMG";
	const char *found;
	bool overflow = false;
	char *end;

	if (**text < '0' || **text > '9')
		return -1;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	found = *end == '\0' ? NULL : strchr(unit, *end);
	for (const char *u = unit; found != NULL && u <= found; u++)
		overflow |= __builtin_mul_overflow(*value, 1000, value);
	*text = end + (found != NULL);
	return errno != 0 || overflow || (double)*value < row->least || (double)*value > row->most
		? -1
		: 0;
}

static int
read_list(const struct option_row *row, const char *text)
{
	struct option_list *list = row->to;

	list->count = 0;
	for (const char *at = text;; at++) {
		uint64_t first, last;

		if (read_uint(row, &at, &first) < 0)
			return -1;
		last = first;
		if (strncmp(at, "..", 2) == 0) {
			at += 2;
			if (read_uint(row, &at, &last) < 0 || first == 0)
				return -1;
		}
		for (uint64_t v = first; v <= last; v *= 2) {
			if (list->count == OPTION_LIST_MAX)
				return -1;
			list->value[list->count++] = v;
			if (v == 0)
				break;
		}
		if (*at == '\0')
			return 0;
		if (*at != ',')
			return -1;
	}
}

/* A number with a suffix K, M or G, each `kilo` times the one before; NaN: it is none. */
static double
scaled(const char *text, double kilo)
{
	static const char unit[] = "kmg";
	const char *found;
	char *end;
	double value = strtod(text, &end);

	found = *end == '\0' ? NULL : strchr(unit, *end | 0x20);
	if (end == text || (*end != '\0' && (found == NULL || end[1] != '\0')))
		return (double)NAN;
	for (const char *u = unit; found != NULL && u <= found; u++)
		value *= kilo;
	return value;
}

static int
read_size(const struct option_row *row, const char *text)
{
	double value = scaled(text, 1024);

	/* Not a number is in no range. */
	if (!(value >= row->least && value <= row->most) || value != floor(value))
		return -1;
	*(uint64_t *)row->to = (uint64_t)value;
	return 0;
}

/* The names of ns, us and so on, each 1000 times the one before. */
static const char *const times[] = {"ns", "us", "ms", "s"};

static int
read_time(const struct option_row *row, const char *text)
{
	double value, unit;

	if (text[strspn(text, "0123456789")] == '\0') /* as before options took units */
		return read_uint(row, &text, row->to);
	unit = row->argument[0] == 'n' ? 1e9 : row->argument[0] == 'u' ? 1e6 : 1e3;
	if (!units_read_span(text, &value))
		return -1;
	value = round(value * unit);
	if (!(value >= row->least && value <= row->most))
		return -1;
	*(uint64_t *)row->to = (uint64_t)value;
	return 0;
}

static void
write_time(double value, const char *unit, FILE *out)
{
	unsigned int u = 0;

	while (strcmp(times[u], unit) != 0)
		u++;
	for (; value >= 1000 && fmod(value, 1000) == 0 && u < 3; u++)
		value /= 1000;
	fprintf(out, "%.15g%s", value, value == 0 ? "" : times[u]);
}

static int
read_real(const struct option_row *row, const char *text)
{
	double *to = row->to, before = *to;

	*to = scaled(text, 1000);
	return (*to >= row->least && *to <= row->most) || (*to >= before && *to <= before) ? 0 : -1;
}

/* Ends the program if there is no key. */
static int
read_key(const struct option_row *row, const char *path, struct argp_state *state)
{
	struct option_key *key = row->to;
	char text[4 * OPTION_KEY_BYTES]; /* more than there should be */
	FILE *file = fopen(path, "re");
	size_t read = 0, digits;

	if (file != NULL)
		read = fread(text, 1, sizeof(text) - 1, file);
	if (file == NULL || ferror(file)) {
		argp_failure(state, argp_err_exit_status, errno, "--%s %s", row->name, path);
		return -1;
	}
	fclose(file);
	text[read] = '\0';
	digits = strspn(text, "0123456789abcdefABCDEF");
	if (digits != 2 * OPTION_KEY_BYTES || digits + strspn(text + digits, "\n") != read)
		argp_failure(state, argp_err_exit_status, 0,
			"--%s %s: it should hold %d hexadecimal digits and a line end, and no "
			"more; it begins with %zu",
			row->name, path, 2 * OPTION_KEY_BYTES, digits);
	for (size_t i = 0; i < OPTION_KEY_BYTES; i++)
		(void)sscanf(text + 2 * i, "%2hhx", &key->byte[i]);
	explicit_bzero(text, sizeof(text));
	key->bytes = OPTION_KEY_BYTES;
	return 0;
}

static int
read_texts(const struct option_row *row, const char *text, struct argp_state *state)
{
	struct option_texts *texts = row->to;

	if (texts->count == OPTION_TEXTS_MAX)
		argp_error(state, "--%s: at most %d times", row->name, OPTION_TEXTS_MAX);
	texts->text[texts->count++] = text;
	return 0;
}

static int
read_choice(const struct option_row *row, const char *text)
{
	size_t length = strlen(text);

	*(const char **)row->to = text;
	for (const char *at = row->argument; at != NULL; at = strchr(at, '|')) {
		at += *at == '|';
		if (strncmp(at, text, length) == 0 && (at[length] == '|' || at[length] == '\0'))
			return 0;
	}
	return -1;
}

static int
read_value(const struct option_row *row, const char *text, struct argp_state *state)
{
	const char *at = text;

	switch (row->kind) {
	case OPTION_FLAG: *(bool *)row->to = true; return 0;
	case OPTION_UINT: return read_uint(row, &at, row->to) < 0 || *at != '\0' ? -1 : 0;
	case OPTION_SIZE: return read_size(row, text);
	case OPTION_TIME: return read_time(row, text);
	case OPTION_REAL: return read_real(row, text);
	case OPTION_TEXT: *(const char **)row->to = text; return 0;
	case OPTION_TEXTS: return read_texts(row, text, state);
	case OPTION_JSON: *(const char **)row->to = text == NULL ? "-" : text; return 0;
	case OPTION_CHOICE: return read_choice(row, text);
	case OPTION_LIST: return read_list(row, text);
	case OPTION_KEY: return read_key(row, text, state);
	default: return -1;
	}
}

static void
refuse(struct argp_state *state, const struct option_row *row, const char *text)
{
	if (row->kind == OPTION_CHOICE)
		argp_error(state, "--%s %s: must be one of %s", row->name, text, row->argument);
	else if (row->kind == OPTION_TIME)
		argp_error(state, "--%s %s: must be a time such as 50ms or 2s, in %.15g..%.15g %s",
			row->name, text, row->least, row->most, row->argument);
	else
		argp_error(state, "--%s %s: must be %sin %.15g..%.15g", row->name, text,
			row->kind == OPTION_LIST ? "numbers like 64,256 or 8..4096, each " : "",
			row->least, row->most);
}

static error_t
parse(int key, char *text, struct argp_state *state)
{
	struct parser *parser = state->input;

	if (key == 'h')
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
	if (key == 'V') {
		printf("%.*s " WEIR_VERSION "\n", (int)strcspn(parser->program, " "),
			parser->program);
		exit(STATUS_DONE);
	}
	if (key == ARGP_KEY_ARG && parser->arguments) {
		parser->next = state->next - 1;
		state->next = state->argc;
		return 0;
	}
	for (unsigned int i = 0; i < parser->count; i++)
		if (parser->option[i].key == key && key != 0) {
			if (read_value(parser->row[i], text, state) < 0)
				refuse(state, parser->row[i], text);
			return 0;
		}
	return ARGP_ERR_UNKNOWN;
}

static void
write_size(uint64_t bytes, FILE *out)
{
	static const char *const unit[] = {"", "K", "M", "G"};
	unsigned int u = 0;

	for (; bytes != 0 && bytes % 1024 == 0 && u < 3; u++)
		bytes /= 1024;
	fprintf(out, " (%" PRIu64 "%s)", bytes, unit[u]);
}

/* The default, as --help shows it. */
static void
write_default(const struct option_row *row, FILE *out)
{
	const struct option_list *list = row->to;
	const char *text = row->kind == OPTION_TEXT || row->kind == OPTION_CHOICE
		? *(const char **)row->to
		: NULL;

	if (row->kind == OPTION_UINT && *(uint64_t *)row->to != UINT64_MAX)
		fprintf(out, " (%" PRIu64 ")", *(uint64_t *)row->to);
	if (row->kind == OPTION_SIZE)
		write_size(*(uint64_t *)row->to, out);
	if (row->kind == OPTION_TIME) {
		fputs(" (", out);
		write_time((double)*(uint64_t *)row->to, row->argument, out);
		fputs(")", out);
	}
	if (row->kind == OPTION_REAL)
		fprintf(out, " (%g)", *(double *)row->to);
	if (text != NULL)
		fprintf(out, " (%s)", text);
	for (unsigned int i = 0; row->kind == OPTION_LIST && i < list->count; i++)
		fprintf(out, "%s%" PRIu64 "%s", i == 0 ? " (" : ",", list->value[i],
			i + 1 == list->count ? ")" : "");
}

static void
add_row(struct parser *parser, const struct option_row *row, int group)
{
	static const char *const argument[] = {[OPTION_UINT] = "N",
		[OPTION_SIZE] = "SIZE",
		[OPTION_REAL] = "X",
		[OPTION_TEXT] = "TEXT",
		[OPTION_CHOICE] = "WORD",
		[OPTION_LIST] = "LIST",
		[OPTION_JSON] = "FILE",
		[OPTION_KEY] = "FILE"};
	struct argp_option *option = &parser->option[parser->count];
	char *help = parser->help[parser->count];
	FILE *out;

	if (row->name == NULL) {
		*option = (struct argp_option){.doc = row->help, .group = group};
		parser->row[parser->count++] = row;
		return;
	}
	out = fmemopen(help, HELP_BYTES, "w");
	if (out != NULL) {
		fputs(row->help, out);
		write_default(row, out);
		fclose(out);
	}
	*option = (struct argp_option){.name = row->name,
		.key = row->letter != '\0' ? row->letter : (int)(FIRST_KEY + parser->count),
		.arg = row->kind == OPTION_TIME ? "TIME"
			: row->argument != NULL ? row->argument
						: argument[row->kind],
		.doc = help,
		.flags = row->kind == OPTION_JSON ? OPTION_ARG_OPTIONAL : 0,
		.group = group};
	parser->row[parser->count++] = row;
}

/* What --help ends with. */
static char *
end_help(int key, const char *text, void *input)
{
	static const char end[] = "Exit status:"
#define X(name, value, help) "\n  " #value "  " help
		STATUS_LIST(X);
#undef X

	(void)input;
	return key == ARGP_KEY_HELP_EXTRA ? strdup(end) : (char *)(uintptr_t)text;
}

int
options_parse(const char *program, const char *about, const char *arguments,
	const struct option_row *const *tables, int argc, char **argv)
{
	static struct parser parser;
	struct argp argp = {.options = parser.option,
		.parser = parse,
		.args_doc = arguments,
		.doc = about,
		.help_filter = end_help};
	int group = 1; /* 0 would let argp number titles itself */

	parser = (struct parser){.arguments = arguments != NULL, .program = program, .next = argc};
	for (; *tables != NULL; tables++, group++)
		for (const struct option_row *row = *tables;
			(row->name != NULL || row->help != NULL) && parser.count < ROWS_MAX - 2;
			row++) {
			group += row->name == NULL; /* argp sorts the options of a group */
			add_row(&parser, row, group);
		}
	parser.option[parser.count++] =
		(struct argp_option){.key = 'h', .flags = OPTION_HIDDEN, .group = -1};
	parser.option[parser.count++] = (struct argp_option){
		.name = "version", .key = 'V', .doc = "Print program version", .group = -1};
	argp_err_exit_status = STATUS_USAGE;
	argv[0] = (char *)(uintptr_t)program; /* argp names the program by it */
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &parser);
	return parser.next;
}

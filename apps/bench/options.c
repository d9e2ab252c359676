/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_option *
find(const struct bench_option *options, const char *name, size_t length)
{
	for (; options->name != NULL; options++)
		if (strlen(options->name) == length && memcmp(options->name, name, length) == 0)
			return options;
	return NULL;
}

static int
complain(const struct bench_option *option, const char *text)
{
	fprintf(stderr, "weir-bench: --%s %s: ", option->name, text);
	if (option->kind == BENCH_TEXT)
		fprintf(stderr, "must be one of %s\n", option->choices);
	else if (option->kind == BENCH_REAL)
		fprintf(stderr, "must be a number in %g..%g\n", (double)option->least / 1000,
			(double)option->most / 1000);
	else
		fprintf(stderr, "must be %sin %" PRIu64 "..%" PRIu64 "\n",
			option->kind == BENCH_LIST ? "numbers like 64,256 or 8..4096, each " : "",
			option->least, option->most);
	return -1;
}

/* A number at *text, moved on; k, M and G are thousands. */
static int
read_uint(const struct bench_option *option, const char **text, uint64_t *value)
{
	char *end;

	if (**text < '0' || **text > '9')
		return -1;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	if (*end == 'k' || *end == 'M' || *end == 'G')
		*value *= *end == 'k' ? 1000 : *end == 'M' ? 1000000 : 1000000000;
	*text = end + (*end == 'k' || *end == 'M' || *end == 'G');
	return errno != 0 || *value < option->least || *value > option->most ? -1 : 0;
}

static int
read_list(const struct bench_option *option, const char *text)
{
	struct bench_list *list = option->to;

	list->count = 0;
	for (const char *at = text;; at++) {
		uint64_t first, last;

		if (read_uint(option, &at, &first) < 0)
			return complain(option, text);
		last = first;
		if (strncmp(at, "..", 2) == 0) {
			at += 2;
			if (read_uint(option, &at, &last) < 0 || first == 0)
				return complain(option, text);
		}
		for (uint64_t v = first; v <= last; v *= 2) {
			if (list->count == BENCH_LIST_MAX)
				return complain(option, text);
			list->value[list->count++] = v;
			if (v == 0)
				break;
		}
		if (*at == '\0')
			return 0;
		if (*at != ',')
			return complain(option, text);
	}
}

static int
read_text(const struct bench_option *option, const char *text)
{
	size_t length = strlen(text);

	*(const char **)option->to = text;
	if (option->choices == NULL)
		return 0;
	for (const char *at = option->choices; at != NULL; at = strchr(at, '|')) {
		at += *at == '|';
		if (strncmp(at, text, length) == 0 && (at[length] == '|' || at[length] == '\0'))
			return 0;
	}
	return complain(option, text);
}

static int
read_real(const struct bench_option *option, const char *text)
{
	char *end;
	double value = strtod(text, &end), otherwise = *(double *)option->to;

	if (end == text || *end != '\0')
		return complain(option, text);
	/* Not a number is in no range. */
	if (!(value >= (double)option->least / 1000 && value <= (double)option->most / 1000) &&
		!(value >= otherwise && value <= otherwise))
		return complain(option, text);
	*(double *)option->to = value;
	return 0;
}

static int
read_value(const struct bench_option *option, const char *text)
{
	const char *at = text;

	switch (option->kind) {
	case BENCH_UINT:
		if (read_uint(option, &at, option->to) < 0 || *at != '\0')
			return complain(option, text);
		return 0;
	case BENCH_LIST: return read_list(option, text);
	case BENCH_REAL: return read_real(option, text);
	case BENCH_TEXT: return read_text(option, text);
	case BENCH_FLAG:
	default: return -1;
	}
}

int
options_read(
	int argc, char **argv, const struct bench_option *own, const struct bench_option *common)
{
	for (int i = 1; i < argc; i++) {
		const char *name = argv[i], *value = strchr(name, '=');
		const struct bench_option *option;
		size_t length = value != NULL ? (size_t)(value - name) : strlen(name);

		if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
			return 1;
		option = strncmp(name, "--", 2) != 0 ? NULL : find(own, name + 2, length - 2);
		if (option == NULL && strncmp(name, "--", 2) == 0)
			option = find(common, name + 2, length - 2);
		if (option == NULL) {
			fprintf(stderr, "weir-bench: no option %s; --help lists them\n", name);
			return -1;
		}
		if (option->kind == BENCH_FLAG) {
			*(bool *)option->to = true;
			continue;
		}
		value = value != NULL ? value + 1 : argv[++i];
		if (value == NULL) {
			fprintf(stderr, "weir-bench: %s wants a value\n", name);
			return -1;
		}
		if (read_value(option, value) < 0)
			return -1;
	}
	return 0;
}

static void
print_default(const struct bench_option *option, FILE *out)
{
	const struct bench_list *list = option->to;

	switch (option->kind) {
	case BENCH_UINT: fprintf(out, "%" PRIu64, *(uint64_t *)option->to); return;
	case BENCH_REAL: fprintf(out, "%g", *(double *)option->to); return;
	case BENCH_TEXT:
		fputs(*(const char **)option->to == NULL ? "none" : *(const char **)option->to,
			out);
		return;
	case BENCH_LIST:
		for (unsigned int i = 0; i < list->count; i++)
			fprintf(out, "%s%" PRIu64, i == 0 ? "" : ",", list->value[i]);
		return;
	case BENCH_FLAG:
	default: fputs("off", out);
	}
}

void
options_print(const struct bench_option *options, FILE *out)
{
	for (; options->name != NULL; options++) {
		fprintf(out, "  --%-12s %s", options->name, options->help);
		if (options->choices != NULL)
			fprintf(out, ": %s", options->choices);
		fputs(" (", out);
		print_default(options, out);
		fputs(")\n", out);
	}
}

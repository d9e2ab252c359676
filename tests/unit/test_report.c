/* SPDX-License-Identifier: BSD-3-Clause */
/* Options and tables that the programs share: what is read, printed and kept as JSON. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include "apps/report/options.h"
#include "apps/report/table.h"

static const struct table_column columns[] = {
	{.key = "bytes", .title = "size", .unit = "B", .width = 6},
	{.key = "seconds", .title = "time", .unit = "s", .digits = 3},
	{.key = "hidden"},
	{.key = "right", .title = "right"},
	{.title = "note", .left = true},
};

Test(table, prints_rows_and_keeps_them_as_json)
{
	char *text = NULL, *json;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	struct table *table = table_create(columns, 5, out);

	cr_assert_not_null(table);
	cr_assert_eq(table_row(table,
			     (struct table_cell[]){TABLE_NUMBER(1024), TABLE_NUMBER(0.25),
				     TABLE_TEXT("x"), TABLE_BOOL(true), TABLE_TEXT("ok")}),
		0);
	cr_assert_eq(table_row(table,
			     (struct table_cell[]){TABLE_NUMBER(123456789), TABLE_NONE,
				     TABLE_NUMBER(2), TABLE_BOOL(false), TABLE_TEXT("")}),
		0);
	fclose(out);
	json = json_dumps(table_json(table), JSON_COMPACT);
	cr_assert_str_eq(text,
		"#   size  time right note\n"
		"#      B     s       \n"
		"    1024 0.250   yes ok\n"
		"  123456789     -    no \n");
	cr_assert_str_eq(json,
		"[{\"bytes\":1024,\"seconds\":0.25,\"hidden\":\"x\",\"right\":true},"
		"{\"bytes\":123456789,\"seconds\":null,\"hidden\":2,\"right\":false}]");
	free(json);
	table_destroy(table);
	free(text);
}

static bool flag;
static uint64_t number = 8, big = 1, size = 3 << 20, wait_ms = 30000, gap_ns;
static double real = -1;
static const char *text = "somewhere", *choice = "auto", *json;
static struct option_list list = {2, {64, 256}};
static const struct option_row rows[] = {
	{"flag", 'f', OPTION_FLAG, &flag, 0, 0, NULL, "a flag"},
	{"number", 'n', OPTION_UINT, &number, 1, 100000, NULL, "a number"},
	{"big", 0, OPTION_UINT, &big, 0, 0x1p64, NULL, "a number without a limit"},
	{"size", 0, OPTION_SIZE, &size, 1, 0x1p40, NULL, "a size"},
	{"wait", 0, OPTION_TIME, &wait_ms, 1, 60000, "ms", "a time"},
	{"gap", 0, OPTION_TIME, &gap_ns, 0, 1e9, "ns", "a shorter time"},
	{"json", 'j', OPTION_JSON, &json, 0, 0, NULL, "JSON"},
	{"real", 0, OPTION_REAL, &real, 0, 1, NULL, "a real number"},
	{"list", 0, OPTION_LIST, &list, 1, 4096, NULL, "a list"},
	{0},
};
static const struct option_row more[] = {
	{.help = "Options of every program:"},
	{"text", 0, OPTION_TEXT, &text, 0, 0, "PATH", "a text"},
	{"choice", 0, OPTION_CHOICE, &choice, 0, 0, "auto|yes|no", "a choice"},
	{.help = "Last options:"},
	{"alpha", 0, OPTION_FLAG, &flag, 0, 0, NULL, "a flag"},
	{0},
};
static const struct option_row *const tables[] = {rows, more, NULL};

static int
parse(const char *arguments, char *line)
{
	char program[] = "ignored", *argv[32] = {program};
	int argc = 1;

	while ((argv[argc] = strsep(&line, " ")) != NULL)
		argc++;
	return options_parse("program", "What it does.", arguments, tables, argc, argv);
}

Test(options, are_read)
{
	char line[] = "-f --number=3k --size 1.5m --real -1 --list 8..32,7 --text there --choice "
		      "no --wait 1.5s --gap=2us -j";

	parse(NULL, line);
	cr_assert(flag);
	cr_assert_eq(number, 3000);
	cr_assert_eq(size, 3 << 19);
	cr_assert_eq(real, -1); /* the default lies outside of the range */
	cr_assert_eq(list.count, 4);
	cr_assert_eq(list.value[2], 32);
	cr_assert_eq(list.value[3], 7);
	cr_assert_str_eq(text, "there");
	cr_assert_str_eq(choice, "no");
	cr_assert_eq(wait_ms, 1500);
	cr_assert_eq(gap_ns, 2000);
	cr_assert_str_eq(json, "-");
}

Test(options, times_without_a_unit_and_a_file_for_json)
{
	char line[] = "--wait 700 --gap 0 --json=/tmp/x";

	parse(NULL, line);
	cr_assert_eq(wait_ms, 700);
	cr_assert_eq(gap_ns, 0);
	cr_assert_str_eq(json, "/tmp/x");
}

Test(options, stop_at_an_argument)
{
	char line[] = "-f file --number 5";

	cr_assert_eq(parse("FILE...", line), 2);
	cr_assert_eq(number, 8);
}

/* Defaults, and options below their title. */
Test(options, help, .init = cr_redirect_stdout)
{
	static const char *const want[] = {"Usage: program [OPTION...]\nWhat it does.",
		"-f, --flag", "a list (64,256)", "-n, --number=N             a number (8)",
		"a size (3M)",
		"Options of every program:", "--choice=auto|yes|no   a choice (auto)", "--text",
		"Last options:", "--alpha"};
	char line[] = "--help", seen[2048] = "";
	const char *at = seen;

	setenv("ARGP_HELP_FMT", "rmargin=120", 1);
	if (fork() == 0)
		parse(NULL, line); /* exits */
	wait(NULL);
	cr_assert_gt(fread(seen, 1, sizeof(seen) - 1, cr_get_redirected_stdout()), 0);
	for (unsigned int i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		at = strstr(at, want[i]);
		cr_assert(at != NULL, "no '%s' in its place in\n%s", want[i], seen);
	}
}

struct wrong {
	const char *line, *message;
};

Test(options, wrong_ones_end_the_program, .init = cr_redirect_stderr)
{
	static const struct wrong wrong[] = {
		{"--number 0", "--number 0: must be in 1..100000"},
		{"--number 5x", "--number 5x: must be in"},
		{"--big 18446744073709552k", "--big 18446744073709552k: must be in"},
		{"--size 0.3K", "--size 0.3K: must be in 1..1099511627776"},
		{"--size 1KB", "--size 1KB: must be in"},
		{"--real 2", "--real 2: must be in 0..1"},
		{"--real nan", "--real nan: must be"},
		{"--list 1,", "must be numbers like 64,256 or 8..4096, each in 1..4096"},
		{"--wait 61s", "--wait 61s: must be a time such as 50ms or 2s, in 1..60000 ms"},
		{"--wait 0.1ms", "--wait 0.1ms: must be a time"},
		{"--wait soon", "--wait soon: must be a time"},
		{"--choice perhaps", "must be one of auto|yes|no"},
		{"--unknown", "unrecognized option '--unknown'"},
		{"word", "Too many arguments"},
	};
	char seen[4096] = "";

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char line[64];
		int status = 0;

		snprintf(line, sizeof(line), "%s", wrong[i].line);
		if (fork() == 0) {
			parse(NULL, line);
			_exit(0);
		}
		wait(&status);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 2, "%s", wrong[i].line);
	}
	cr_assert_gt(fread(seen, 1, sizeof(seen) - 1, cr_get_redirected_stderr()), 0);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert(strstr(seen, wrong[i].message) != NULL, "no '%s' in\n%s",
			wrong[i].message, seen);
}

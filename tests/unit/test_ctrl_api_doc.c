/* SPDX-License-Identifier: BSD-3-Clause */
/* docs/openapi.yaml has every route of the table, and the table every operation that is served. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/api/call.h"

#define OPERATIONS_MAX 128

struct operation {
	char path[128];
	char method[16]; /* "GET" */
	char access[16];
	bool planned, served;
};

static struct operation operation[OPERATIONS_MAX];
static unsigned int operations;

/* The page is written so that lines tell: paths indented by 2, methods by 4, their keys by 6. */
static void
read_line(const char *line, char path[128])
{
	char word[128];

	if (strncmp(line, "  /", 3) == 0) {
		cr_assert_eq(sscanf(line, "  %127[^:]:", path), 1);
	} else if (strncmp(line, "    ", 4) == 0 && islower(line[4]) &&
		sscanf(line, "    %15[a-z]:", word) == 1 && strcmp(word, "parameters") != 0) {
		struct operation *o = &operation[operations++];

		cr_assert_lt(operations, OPERATIONS_MAX);
		strcpy(o->path, path);
		for (unsigned int i = 0; word[i] != '\0'; i++)
			o->method[i] = (char)toupper(word[i]);
	} else if (operations > 0 && strcmp(line, "      x-planned: true\n") == 0) {
		operation[operations - 1].planned = true;
	} else if (operations > 0 && sscanf(line, "      x-access: %15s", word) == 1) {
		strcpy(operation[operations - 1].access, word);
	}
}

static void
setup(void)
{
	char line[1024], path[128] = "";
	bool in_paths = false;
	FILE *page = fopen(SOURCE_ROOT "/docs/openapi.yaml", "r");
	cr_assert_not_null(page);
	while (fgets(line, sizeof(line), page) != NULL) {
		if (!isspace(line[0]))
			in_paths = strcmp(line, "paths:\n") == 0;
		else if (in_paths)
			read_line(line, path);
	}
	fclose(page);
	cr_assert_gt(operations, 10);
}

TestSuite(ctrl_api_doc, .init = setup, .timeout = 90);

static struct operation *
operation_of(const struct api_route *route)
{
	for (unsigned int o = 0; o < operations; o++)
		if (strcmp(operation[o].path, route->path) == 0 &&
			strcmp(operation[o].method, api_method_text(route->method)) == 0)
			return &operation[o];
	return NULL;
}

Test(ctrl_api_doc, operations_are_routes_or_planned)
{
	static const char *const access[] = {
		"public", "read", "read_job", "read_all", "join", "change", "open", "admin"};

	for (const struct api_route *r = api_routes; r < api_routes + api_routes_count; r++) {
		const char *method = api_method_text(r->method);
		struct operation *o = operation_of(r);

		cr_expect_not_null(o, "docs/openapi.yaml lacks %s %s", method, r->path);
		if (o == NULL)
			continue;
		o->served = true;
		cr_expect(!o->planned, "%s %s is served: take its x-planned away", method, r->path);
		cr_expect_str_eq(o->access, access[r->access], "%s %s", method, r->path);
		cr_expect_eq(r->method != API_GET,
			r->query != NULL && strstr(r->query, "dry_run") != NULL,
			"%s %s: each change has a dry run", method, r->path);
	}
	for (unsigned int o = 0; o < operations; o++)
		cr_expect(operation[o].served || operation[o].planned, "%s %s is not served",
			operation[o].method, operation[o].path);
}

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
	bool planned;
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
	char line[1024], file[1024], path[128] = "";
	const char *root = getenv("WEIR_SOURCE");
	bool in_paths = false;
	FILE *page;

	cr_assert_not_null(root, "WEIR_SOURCE is not set");
	snprintf(file, sizeof(file), "%s/docs/openapi.yaml", root);
	page = fopen(file, "r");
	cr_assert_not_null(page, "%s", file);
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

static const char *
access_text(enum api_access access)
{
	static const char *const texts[] = {
		"public", "read", "read_job", "read_all", "join", "change", "open", "admin"};

	return texts[access];
}

Test(ctrl_api_doc, every_route_is_an_operation)
{
	for (size_t i = 0; i < api_routes_count; i++) {
		const struct api_route *route = &api_routes[i];
		const char *method = api_method_text(route->method);
		unsigned int o = 0;

		while (o < operations &&
			(strcmp(operation[o].path, route->path) != 0 ||
				strcmp(operation[o].method, method) != 0))
			o++;
		if (o == operations) {
			cr_expect_fail("docs/openapi.yaml lacks %s %s", method, route->path);
			continue;
		}
		cr_expect(!operation[o].planned, "%s %s is served: take its x-planned away", method,
			route->path);
		cr_expect_str_eq(operation[o].access, access_text(route->access), "%s %s", method,
			route->path);
	}
}

Test(ctrl_api_doc, every_operation_is_a_route_or_planned)
{
	for (unsigned int o = 0; o < operations; o++) {
		bool served = false;

		for (size_t i = 0; i < api_routes_count; i++)
			served |= strcmp(api_routes[i].path, operation[o].path) == 0 &&
				strcmp(api_method_text(api_routes[i].method),
					operation[o].method) == 0;
		cr_expect(served || operation[o].planned, "%s %s is not served",
			operation[o].method, operation[o].path);
	}
}

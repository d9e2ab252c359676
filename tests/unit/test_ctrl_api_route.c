/* SPDX-License-Identifier: BSD-3-Clause */
/* Targets of requests taken apart, and the route table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/api/call.h"

static struct api_target target;

TestSuite(ctrl_api_route, .timeout = 90);

static bool
parse(const char *raw)
{
	return api_target_parse(&target, raw);
}

Test(ctrl_api_route, a_target_is_taken_apart)
{
	cr_assert(parse("/v1/jobs/a%2Fb?job=x+y&stuck=1&empty"));
	cr_assert_eq(target.nb_segments, 3);
	cr_assert_str_eq(target.segment[0], "v1");
	cr_assert_str_eq(target.segment[2], "a/b");
	cr_assert_str_eq(api_query(&target, "job"), "x y");
	cr_assert_str_eq(api_query(&target, "stuck"), "1");
	cr_assert_str_eq(api_query(&target, "empty"), "");
	cr_assert_null(api_query(&target, "limit"));
	cr_assert(parse("/"));
	cr_assert_eq(target.nb_segments, 0);
	cr_assert(parse("/?a=1"));
	cr_assert_eq(target.nb_query, 1);
}

Test(ctrl_api_route, wrong_targets_are_refused)
{
	static const char *const wrong[] = {"", "*", "v1", "http://x/v1/health", "//", "/v1/",
		"/v1//health", "/v1/%", "/v1/%4", "/v1/%zz", "/v1/%00x", "/v1?a=%00", "/v1?a=%g0",
		"/1/2/3/4/5/6/7/8/9", "/?1&2&3&4&5&6&7&8&9"};
	char longer[API_TARGET_BYTES + 1];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect(!parse(wrong[i]), "%s", wrong[i]);
	memset(longer, 'a', sizeof(longer));
	longer[0] = '/';
	longer[API_TARGET_BYTES] = '\0';
	cr_assert(!parse(longer));
	longer[API_TARGET_BYTES - 1] = '\0';
	cr_assert(parse(longer));
}

Test(ctrl_api_route, paths_with_parameters)
{
	const char *parameter[API_PARAMETERS_MAX];

	parse("/v1/jobs/ring/members/7");
	cr_assert(api_target_fits(&target, "/v1/jobs/{name}/members/{rank}", parameter));
	cr_assert_str_eq(parameter[0], "ring");
	cr_assert_str_eq(parameter[1], "7");
	cr_assert(!api_target_fits(&target, "/v1/jobs/{name}/members", parameter));
	cr_assert(!api_target_fits(&target, "/v1/jobs/{name}", parameter));
	cr_assert(!api_target_fits(&target, "/", parameter));
	parse("/v1/jobs");
	cr_assert(!api_target_fits(&target, "/v1/jobs/{name}", parameter));
	cr_assert(!api_target_fits(&target, "/v1/job", parameter));
	parse("/");
	cr_assert(api_target_fits(&target, "/", parameter));
	cr_assert(!api_target_fits(&target, "/v1", parameter));
}

/* -- the table */

static struct api_call call = {.target = &target};

static const char *
error_code(void)
{
	return json_string_value(
		json_object_get(json_object_get(call.answer.json, "error"), "code"));
}

Test(ctrl_api_route, every_route_is_found_by_its_own_path)
{
	for (size_t i = 0; i < api_routes_count; i++) {
		const struct api_route *route = &api_routes[i];

		cr_assert(parse(route->path), "%s", route->path);
		cr_expect_eq(api_route_find(&call, api_method_text(route->method)), route,
			"%s %s leads elsewhere", api_method_text(route->method), route->path);
		cr_expect_not_null(route->handler);
	}
}

Test(ctrl_api_route, head_is_served_as_get)
{
	parse("/v1/health");
	cr_assert_eq(api_route_find(&call, "HEAD"), api_route_find(&call, "GET"));
}

Test(ctrl_api_route, unknown_paths_and_methods)
{
	parse("/v1/nothing");
	cr_assert_null(api_route_find(&call, "GET"));
	cr_assert_eq(call.answer.status, 404);
	cr_assert_str_eq(error_code(), "unknown_path");
	api_answer_clear(&call.answer);

	parse("/v1/health");
	cr_assert_null(api_route_find(&call, "BREW"));
	cr_assert_eq(call.answer.status, 405);
	cr_assert_str_eq(error_code(), "method_not_allowed");
	cr_assert_str_eq(call.answer.header[0].name, "Allow");
	cr_assert_str_eq(call.answer.header[0].value, "GET, HEAD");
	api_answer_clear(&call.answer);
}

Test(ctrl_api_route, keys_of_a_query_are_the_route_s)
{
	static const struct api_route route = {API_GET, "/x", API_PUBLIC, 0, "job|limit", NULL};

	parse("/x?limit=7&job=a");
	cr_assert(api_route_query(&call, &route));
	parse("/x?limit=7&jobs=a");
	cr_assert(!api_route_query(&call, &route));
	cr_assert_eq(call.answer.status, 400);
	cr_assert_str_eq(error_code(), "unknown_key");
	api_answer_clear(&call.answer);
}

Test(ctrl_api_route, numbers_of_a_query)
{
	static const char *const wrong[] = {"/?n=", "/?n=-1", "/?n=+1", "/?n=1x", "/?n=0", "/?n=11",
		"/?n=99999999999999999999999", "/?n=%201"};
	uint64_t n;

	parse("/?n=10&f=1");
	cr_assert(api_query_number(&call, "n", 1, 10, 5, &n) && n == 10);
	cr_assert(api_query_number(&call, "f", 0, 1, 0, &n) && n == 1);
	parse("/");
	cr_assert(api_query_number(&call, "n", 1, 10, 5, &n) && n == 5);
	cr_assert(api_query_number(&call, "f", 0, 1, 0, &n) && n == 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		parse(wrong[i]);
		cr_expect(!api_query_number(&call, "n", 1, 10, 5, &n), "%s", wrong[i]);
		cr_expect_eq(call.answer.status, 400);
		api_answer_clear(&call.answer);
	}
}

/* -- answers */

Test(ctrl_api_route, a_second_answer_replaces_the_first)
{
	api_answer(&call, 200, json_pack("{s:i}", "a", 1));
	api_error(&call, 409, "conflict", "b", "a \"name\" \n\xff of others");
	cr_assert_eq(call.answer.status, 409);
	api_error_more(&call, "free", json_pack("{s:i}", "bytes", 7));
	cr_assert_eq(json_integer_value(json_object_get(
			     json_object_get(json_object_get(call.answer.json, "error"), "free"),
			     "bytes")),
		7);
	cr_assert_str_eq(json_string_value(json_object_get(
				 json_object_get(call.answer.json, "error"), "message")),
		"a \"name\" ?? of others");
	api_answer(&call, 200, NULL);
	cr_assert_eq(call.answer.status, 503);
	api_answer_clear(&call.answer);
}

static void
count_end(void *stream)
{
	++*(int *)stream;
}

Test(ctrl_api_route, a_stream_ends_once)
{
	int ends = 0;

	api_answer_stream(&call, "text/plain", NULL, &ends, count_end);
	api_error_memory(&call);
	cr_assert_eq(ends, 1);
	api_answer_clear(&call.answer);
	cr_assert_eq(ends, 1);
}

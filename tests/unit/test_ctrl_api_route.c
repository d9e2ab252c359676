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
	cr_assert_eq(target.nb_query, 3);
	cr_assert_str_eq(target.query[0].key, "job");
	cr_assert_str_eq(target.query[0].value, "x y");
	cr_assert_str_eq(target.query[1].value, "1");
	cr_assert_str_eq(target.query[2].value, "");
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

Test(ctrl_api_route, every_operation_is_found_by_its_own_path)
{
	for (size_t i = 0; i < api_operations_count; i++) {
		const struct api_operation *o = &api_operations[i];

		cr_assert(parse(o->path), "%s", o->path);
		cr_expect_eq(api_route_find(&call, o->method), o, "%s %s leads elsewhere",
			o->method, o->path);
		cr_expect_not_null(api_handlers[i]);
		/* A simulation changes nothing. */
		cr_expect_eq(api_is_change(o) && strcmp(o->name, "simulate") != 0,
			ctrl_schema_find(&o->query, "dry_run") != NULL,
			"%s %s: each change has a dry run", o->method, o->path);
		cr_expect(o->answer == NULL || api_object_find(o->answer) != NULL, "%s", o->answer);
	}
}

Test(ctrl_api_route, objects_of_answers_have_fields_once)
{
	for (size_t i = 0; i < api_objects_count; i++)
		for (size_t k = 0; k < api_objects[i].count; k++) {
			const struct api_field *f = &api_objects[i].fields[k];
			bool names = f->kind == API_KIND_OBJECT || f->kind == API_KIND_LIST;

			cr_expect_eq(api_field_find(&api_objects[i], f->key), f, "%s.%s twice",
				api_objects[i].name, f->key);
			cr_expect(!names || api_object_find(f->of) != NULL, "%s.%s",
				api_objects[i].name, f->key);
		}
	cr_assert_eq(
		api_field_find(api_object_find("Port"), "queues.oldest_ms")->kind, API_KIND_MS);
	cr_assert_null(api_field_find(api_object_find("Port"), "queues.oldest"));
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

static const struct ctrl_key keys[] = {
	{"job", CTRL_TEXT, "", "", .max = 8},
	{"n", CTRL_INTEGER, "", "5", .min = 1, .max = 10},
};
static const struct api_operation operation = {.query = {keys, 2}};

Test(ctrl_api_route, queries_are_checked)
{
	static const struct {
		const char *code, *query;
	} wrong[] = {{"wrong_type", "n="}, {"wrong_type", "n=-1"}, {"wrong_type", "n=%2b1"},
		{"wrong_type", "n=1x"}, {"wrong_type", "n=%201"}, {"out_of_range", "n=0"},
		{"out_of_range", "n=11"}, {"out_of_range", "n=99999999999999999999999"},
		{"out_of_range", "job=123456789"}, {"unknown_key", "n=7&jobs=a"},
		{"duplicate", "n=7&n=7"}, {"duplicate", "job=a&job=b"}, {"wrong_type", "job=%ff"}};
	char raw[64];

	call.operation = &operation;
	parse("/?n=10&job=a");
	cr_assert(api_query_check(&call, &operation.query));
	cr_assert_eq(api_query_number(&call, "n"), 10);
	cr_assert_str_eq(api_query_text(&call, "job"), "a");
	parse("/");
	cr_assert(api_query_check(&call, &operation.query));
	cr_assert_eq(api_query_number(&call, "n"), 5);
	cr_assert_null(api_query_text(&call, "job"));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(raw, sizeof(raw), "/?%s", wrong[i].query);
		parse(raw);
		cr_expect(!api_query_check(&call, &operation.query), "%s", raw);
		cr_expect_eq(call.answer.status, 400);
		cr_expect_str_eq(error_code(), wrong[i].code, "%s", raw);
		api_answer_clear(&call.answer);
	}
	json_decref(call.query);
	call.query = NULL;
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies: what is taken, and how each error is told. */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/api/call.h"

static const struct ctrl_key keys[] = {
	{"name", CTRL_NAME, "", NULL, .min = 1, .max = 31},
	{"size", CTRL_INTEGER, "", "", .min = 1, .max = 256},
	{"window", CTRL_POWER, "", "64", .min = 1, .max = 4096},
	{"on", CTRL_BOOLEAN, "", .fallback = ""},
	{"policy", CTRL_WORD, "", "", .words = "wait|partial|error"},
	{"text", CTRL_TEXT, "", "", .min = 1, .max = 3},
	{"address", CTRL_ADDRESS, "", .fallback = ""},
	{"results", CTRL_RESULTS, "", .fallback = ""},
	{"create", CTRL_OBJECT, "", .fallback = ""},
	{"create.n", CTRL_INTEGER, "", NULL, .max = 9},
};

static const struct ctrl_schema schema = {keys, sizeof(keys) / sizeof(keys[0])};

static struct api_call call;

static void
drop(void)
{
	json_decref(call.body);
	api_answer_clear(&call.answer);
	call.body = NULL;
}

TestSuite(ctrl_api_body, .timeout = 90);

static bool
take(const char *text)
{
	drop();
	call.body = api_body_parse(&call, text, strlen(text));
	return call.body != NULL && api_body_check(&call, &schema);
}

static void
refuse(const char *text, const char *code, const char *key)
{
	const json_t *error, *found;

	cr_expect(!take(text), "%s is taken", text);
	cr_expect_eq(call.answer.status, 400);
	error = json_object_get(call.answer.json, "error");
	cr_expect_str_eq(json_string_value(json_object_get(error, "code")), code, "%s", text);
	found = json_object_get(error, "key");
	if (key == NULL)
		cr_expect_null(found, "%s", text);
	else
		cr_expect_str_eq(found == NULL ? "" : json_string_value(found), key, "%s", text);
}

Test(ctrl_api_body, right_bodies_are_taken)
{
	cr_assert(take("{\"name\":\"ring-1.a_b\"}"));
	cr_assert(take("{\"name\":\"r\",\"size\":256,\"window\":64,\"on\":true,"
		       "\"policy\":\"error\",\"text\":\"abc\",\"address\":\"10.0.0.1\","
		       "\"results\":\"239.1.1.1\",\"create\":{\"n\":9}}"));
	cr_assert(take("{\"name\":\"r\",\"results\":\"unicast\"}"));
	drop();
}

Test(ctrl_api_body, bodies_that_are_not_objects_are_refused)
{
	static const char *const broken[] = {"{", "nul", "{\"name\":\"r\"} {}", "{\"name\":\"r\",}",
		"{'name':1}", "{\"name\":\"\xff\"}", "{\"name\":\"a\\u0000b\"}",
		"{\"size\":99999999999999999999999999}"};

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		refuse(broken[i], "bad_json", NULL);
	refuse("[]", "wrong_type", NULL);
	refuse("[1]", "wrong_type", NULL);
	drop();
	cr_assert(!api_body_check(&call, &schema), "no body at all");
	cr_assert_eq(call.answer.status, 400);
	drop();
}

Test(ctrl_api_body, keys_that_are_there_twice)
{
	refuse("{\"name\":\"r\",\"name\":\"s\"}", "duplicate", "name");
	refuse("{\"name\": \"r\" , \"size\" :\n2, \"name\" : 1}", "duplicate", "name");
	refuse("{\"name\":\"r\",\"create\":{\"n\":1,\"n\":2}}", "duplicate", "create.n");
	refuse("{\"create\":{\"n\":1},\"a\":[{\"b\":\"x\"},{\"b\":\"{\",\"b\":2}],\"z\":1}",
		"duplicate", "a[1].b");
	refuse("{\"a\":{},\"b\":[[],[\"c\"]],\"\\\"\":1,\"\\\"\":1}", "duplicate", "\\\"");
	refuse("{\"\":1,\"\":1}", "duplicate", "");
	/* Deeper than a path goes. */
	refuse("{\"a\":[[[[[[[[[[[[[[[[[{\"b\":1,\"b\":1}]]]]]]]]]]]]]]]]]}", "duplicate",
		"a[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]");
	drop();
}

Test(ctrl_api_body, wrong_keys_and_values)
{
	static const struct {
		const char *code, *text, *key;
	} wrong[] = {
		{"missing_key", "{}", "name"},
		{"unknown_key", "{\"name\":\"r\",\"nam\":1}", "nam"},
		{"missing_key", "{\"name\":\"r\",\"create\":{}}", "create.n"},
		{"unknown_key", "{\"name\":\"r\",\"create\":{\"n\":1,\"m\":1}}", "create.m"},
		{"unknown_key", "{\"name\":\"r\",\"\":1}", ""},
		{"wrong_type", "{\"name\":1}", "name"},
		{"wrong_type", "{\"name\":null}", "name"},
		{"wrong_type", "{\"name\":\"r\",\"size\":\"1\"}", "size"},
		{"wrong_type", "{\"name\":\"r\",\"size\":1.0}", "size"},
		{"wrong_type", "{\"name\":\"r\",\"window\":true}", "window"},
		{"wrong_type", "{\"name\":\"r\",\"on\":1}", "on"},
		{"wrong_type", "{\"name\":\"r\",\"policy\":[]}", "policy"},
		{"wrong_type", "{\"name\":\"r\",\"address\":1}", "address"},
		{"wrong_type", "{\"name\":\"r\",\"create\":[]}", "create"},
		{"wrong_type", "{\"name\":\"r\",\"create\":{\"n\":\"1\"}}", "create.n"},
		{"out_of_range", "{\"name\":\"\"}", "name"},
		{"out_of_range", "{\"name\":\"-r\"}", "name"},
		{"out_of_range", "{\"name\":\"a b\"}", "name"},
		{"out_of_range", "{\"name\":\"<img>\"}", "name"},
		{"out_of_range", "{\"name\":\"12345678901234567890123456789012\"}", "name"},
		{"out_of_range", "{\"name\":\"r\",\"size\":0}", "size"},
		{"out_of_range", "{\"name\":\"r\",\"size\":257}", "size"},
		{"out_of_range", "{\"name\":\"r\",\"size\":-9223372036854775808}", "size"},
		{"out_of_range", "{\"name\":\"r\",\"window\":3}", "window"},
		{"out_of_range", "{\"name\":\"r\",\"window\":8192}", "window"},
		{"out_of_range", "{\"name\":\"r\",\"policy\":\"wai\"}", "policy"},
		{"out_of_range", "{\"name\":\"r\",\"policy\":\"\"}", "policy"},
		{"out_of_range", "{\"name\":\"r\",\"text\":\"abcd\"}", "text"},
		{"out_of_range", "{\"name\":\"r\",\"address\":\"127.0.0.1\"}", "address"},
		{"out_of_range", "{\"name\":\"r\",\"address\":\"10.0.0\"}", "address"},
		{"out_of_range", "{\"name\":\"r\",\"results\":\"10.0.0.1\"}", "results"},
		{"out_of_range", "{\"name\":\"r\",\"create\":{\"n\":10}}", "create.n"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refuse(wrong[i].text, wrong[i].code, wrong[i].key);
	drop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Long answers as text, and the labels of metrics. */
#include <stdint.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/api/call.h"
#include "ctrl/api/text.h"

static struct api_text text;
static struct api_call call;

static void
setup(void)
{
	api_text_begin(&text, 1);
}

static void
teardown(void)
{
	api_answer_clear(&call.answer);
}

TestSuite(ctrl_api_text, .init = setup, .fini = teardown, .timeout = 90);

/* Ends the text, which has to be this. */
static void
must_be(const char *wanted)
{
	cr_assert_eq(text.used, strlen(wanted), "%.*s", (int)text.used, text.at);
	cr_assert_eq(memcmp(text.at, wanted, strlen(wanted)), 0, "%.*s", (int)text.used, text.at);
	call.text = text;
	api_answer_text(&call, "text/plain");
	cr_assert_eq(call.answer.status, 200);
}

Test(ctrl_api_text, numbers)
{
	api_text_put_number(&text, 0, 0);
	api_text_put(&text, " ");
	api_text_put_number(&text, UINT64_MAX, 0);
	api_text_put(&text, " ");
	api_text_put_number(&text, 0, 6);
	api_text_put(&text, " ");
	api_text_put_number(&text, 1, 6);
	api_text_put(&text, " ");
	api_text_put_number(&text, 12000000, 6);
	api_text_put(&text, " ");
	api_text_put_number(&text, 1234567, 6);
	api_text_put(&text, " ");
	api_text_put_real(&text, 0.25);
	must_be("0 18446744073709551615 0 0.000001 12 1.234567 0.25");
}

Test(ctrl_api_text, json)
{
	api_text_put_json(&text, "a\"b\\c\n");
	api_text_put_json(&text, "\xff");
	must_be("\"a\\\"b\\\\c\\n\"\"\"");
}

Test(ctrl_api_text, without_memory_it_is_an_error)
{
	free(text.at);
	text.at = NULL;
	api_text_put(&text, "more than there is room for");
	call.text = text;
	api_answer_text(&call, "text/plain");
	cr_assert_eq(call.answer.status, 503);
}

Test(ctrl_api_text, labels)
{
	char label[PPE_JOB_NAME_MAX * 2 + 16], name[256];

	cr_assert_str_eq(api_text_label(label, sizeof(label), "job", "a\"b\\c\nd"),
		"job=\"a\\\"b\\\\c\\nd\"");
	cr_assert_str_eq(api_text_label(label, sizeof(label), "job", ""), "job=\"\"");
	/* The longest name of a job, of nothing but what is escaped. */
	memset(name, '"', sizeof(name));
	name[PPE_JOB_NAME_MAX - 1] = '\0';
	api_text_label(label, sizeof(label), "tenant", name);
	cr_assert_eq(strlen(label), strlen("tenant=\"\"") + 2 * (PPE_JOB_NAME_MAX - 1));
	/* What is too long is cut between two characters. */
	memset(name, '\\', sizeof(name));
	name[255] = '\0';
	for (size_t size = 12; size < 40; size++) {
		char *cut = malloc(size);

		api_text_label(cut, size, "job", name);
		cr_assert_lt(strlen(cut), size);
		cr_assert_eq(strlen(cut) % 2, 0, "%s", cut);
		free(cut);
	}
}

Test(ctrl_api_text, samples)
{
	api_text_family(&text, "weir_x_total", NULL, "Counts");
	api_text_sample(&text, "", NULL, NULL, 1, 0);
	api_text_sample(&text, "_sum", "a=\"1\"", NULL, 1500000, 6);
	api_text_sample(&text, "", "a=\"1\"", "b=\"2\"", 2, 0);
	api_text_sample(&text, "", NULL, "b=\"2\"", 123, 9);
	api_text_family(&text, "weir_x", NULL, "Tells");
	api_text_family(&text, "weir_y", "histogram", "Counts");
	must_be("# HELP weir_x_total Counts\n# TYPE weir_x_total counter\nweir_x_total 1\n"
		"weir_x_total_sum{a=\"1\"} 1.500000\nweir_x_total{a=\"1\",b=\"2\"} 2\n"
		"weir_x_total{b=\"2\"} 0.000000123\n"
		"# HELP weir_x Tells\n# TYPE weir_x gauge\n"
		"# HELP weir_y Counts\n# TYPE weir_y histogram\n");
}

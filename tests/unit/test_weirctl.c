/* SPDX-License-Identifier: BSD-3-Clause */
/* What weirctl prints: units, ranges, tables, paragraphs, and text that came from outside. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "apps/ctl/get.h"
#include "apps/ctl/ctl.h"
#include "ctrl/api/units.h"
#include "tests/random.h"

Test(weirctl, counts, .timeout = 5)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {{0, "0"}, {7, "7"}, {999, "999"}, {1000, "1.00k"}, {1234, "1.23k"},
		{9994, "9.99k"}, {9996, "10.0k"}, {99949, "99.9k"}, {99960, "100k"},
		{999499, "999k"}, {999500, "1.00M"}, {12345678, "12.3M"}, {1.8e19, "18.0E"},
		{-1500, "-1.50k"}, {(double)NAN, "-"}, {(double)INFINITY, "-"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_str_eq(units_count(cases[i].value).text, cases[i].text);
	cr_assert_str_eq(units_exact(12345678).text, "12345678");
	cr_assert_str_eq(units_rate(0).text, "0/s");
	cr_assert_str_eq(units_rate(0.3).text, "0.3/s");
	cr_assert_str_eq(units_rate(0.001).text, "0.1/s");
	cr_assert_str_eq(units_rate(12.4).text, "12/s");
	cr_assert_str_eq(units_rate(1.2e6).text, "1.20M/s");
	cr_assert_str_eq(units_bytes(1024).text, "1.00 KiB");
	cr_assert_str_eq(units_bytes(1023).text, "1023 B");
	cr_assert_str_eq(units_bytes(38797312).text, "37.0 MiB");
	cr_assert_str_eq(units_share(0.434).text, "43 %");
}

Test(weirctl, spans, .timeout = 5)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {{-1, "0 s"}, {0, "0 s"}, {412e-6, "412 us"}, {0.0123, "12.3 ms"},
		{0.9994, "999 ms"}, {0.9996, "1.0 s"}, {12.4, "12.4 s"}, {99.94, "99.9 s"},
		{99.96, "1 min 40 s"}, {192, "3 min 12 s"}, {3599.6, "1 h 0 min"},
		{7985, "2 h 13 min"}, {86399.9, "1 d 0 h"}, {356400, "4 d 3 h"}};
	static const char *const wrong[] = {
		"", "ms", "-1s", "1 s", "1x", "inf", "nan", "0x10", "1e999", "5sec"};
	double value;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_str_eq(units_age(cases[i].value).text, cases[i].text);
	cr_assert(units_read_span("50ms", &value) && fabs(value - 0.05) < 1e-9);
	cr_assert(units_read_span("1.5", &value) && fabs(value - 1.5) < 1e-9);
	cr_assert(units_read_span("2min", &value) && fabs(value - 120) < 1e-9);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_not(units_read_span(wrong[i], &value), "%s is taken", wrong[i]);
}

Test(weirctl, no_number_is_longer_than_its_column, .timeout = 5)
{
	uint64_t state = random_seed();

	for (unsigned int i = 0; i < 100000; i++) {
		double value;

		state = state * 6364136223846793005u + 1442695040888963407u;
		value = ldexp((double)(state >> 11), (int)(state % 64) - 53);
		cr_assert_leq(strlen(units_count(value).text), 5, "%g", value);
		cr_assert_leq(strlen(units_rate(value).text), 7, "%g", value);
		cr_assert_leq(strlen(units_bytes(value).text), 8, "%g", value);
		cr_assert_leq(strlen(units_age(value * 1e-9).text), 13, "%g", value * 1e-9);
	}
}

Test(weirctl, ranges, .timeout = 5)
{
	const uint64_t numbers[] = {1, 3, 5, 6, 7, 7, 9, UINT64_MAX - 1, UINT64_MAX};
	char text[64], tiny[8];

	units_ranges(numbers, 9, 8, text, sizeof(text));
	cr_assert_str_eq(text, "1, 3, 5..7, 9, 18446744073709551614..18446744073709551615");
	units_ranges(numbers, 9, 2, text, sizeof(text));
	cr_assert_str_eq(text, "1, 3 and 7 more");
	units_ranges(numbers, 1, 2, text, sizeof(text));
	cr_assert_str_eq(text, "1");
	units_ranges(numbers, 0, 2, text, sizeof(text));
	cr_assert_str_eq(text, "");
	units_ranges(numbers, 9, 8, tiny, sizeof(tiny));
	cr_assert_str_eq(tiny, "1, 3, 5");
}

Test(weirctl, a_table_is_shortened_and_keeps_its_numbers, .timeout = 5)
{
	static const char body[] =
		"{\"ports\": [{\"name\": \"a\", \"rx_packets\": 18446744073709551615},"
		"{\"name\": \"port-of-the-longest-name-that-there-is\"}, {}, 7]}";
	json_t *answer = get_parsed(body, sizeof(body) - 1);
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	setlocale(LC_CTYPE, "C");
	view_ports(answer, out, 0);
	view_ports(answer, out, 80);
	fclose(out);
	cr_assert(strstr(text, "\nport-of-the-longest-name-that-there-is ") != NULL, "%s", text);
	cr_assert(strstr(text, "\nport-of-t~ ") != NULL, "%s", text);
	cr_assert(strstr(text, " 18446744073709551616 ") != NULL, "%s", text);
	free(text);
	json_decref(answer);
}

Test(weirctl, paragraphs_break_at_blanks, .timeout = 5)
{
	static const char text[] = "key   the quick brown fox jumps over the_laziest_of_all_dogs";
	char *out = NULL;
	size_t length;
	FILE *to = open_memstream(&out, &length);

	text_print(text, to, 6, 30);
	text_print(text, to, 6, 0);
	fclose(to);
	cr_assert_str_eq(out,
		"key   the quick brown fox\n"
		"      jumps over\n"
		"      the_laziest_of_all_dogs\n"
		"key   the quick brown fox jumps over the_laziest_of_all_dogs\n");
	free(out);
}

/* ["ää...", with `count` of them */
static json_t *
umlauts(size_t count)
{
	static char body[3 * GET_TEXT_MAX];

	strcpy(body, "[\"");
	while (count-- > 0)
		strcat(body, "\u00e4");
	strcat(body, "\"]");
	return get_parsed(body, strlen(body));
}

Test(weirctl, texts_of_answers_are_cut, .timeout = 5)
{
	json_t *longest, *longer;
	const char *text;

	setlocale(LC_CTYPE, "C.UTF-8");
	longest = umlauts(GET_TEXT_MAX / 2);
	longer = umlauts(GET_TEXT_MAX / 2 + 1);
	cr_assert_eq(strlen(json_string_value(json_array_get(longest, 0))), GET_TEXT_MAX);
	text = json_string_value(json_array_get(longer, 0)); /* not cut within a character */
	cr_assert_eq(strlen(text), GET_TEXT_MAX - 1);
	cr_assert_str_eq(&text[GET_TEXT_MAX - 6], "\u00e4...");
	json_decref(longest);
	json_decref(longer);
}

Test(weirctl, no_text_commands_the_terminal, .timeout = 5)
{
	static const char body[] =
		"{\"k\\u001b[2J\": \"a\\u001b[31m\\u0007\\u007f\\u009b\\u202eb\\n\\r\\tc\", \"n\": "
		"[\"\\u0001\"]}";
	char text[] = "a\033]0;x\007b";

	for (int i = 0; i < 2; i++) {
		json_t *answer;

		cr_assert_not_null(setlocale(LC_CTYPE, i == 0 ? "C" : "C.UTF-8"));
		answer = get_parsed(body, sizeof(body) - 1);
		cr_assert_str_eq(get_text(answer, "k?[2J"),
			i == 0 ? "a?[31m???????b???c" : "a?[31m????b???c");
		cr_assert_str_eq(json_string_value(json_array_get(get(answer, "n"), 0)), "?");
		json_decref(answer);
	}
	get_clean(text);
	cr_assert_str_eq(text, "a?]0;x?b");
}

/* An operation that has no view of its own: values with their units, a table for each list, and texts
 * line by line. */
Test(weirctl, any_answer_is_shown_by_its_fields, .timeout = 5)
{
	static const struct {
		const char *object, *answer, *shown;
	} cases[] = {
		{"Health", "{\"status\": \"ok\", \"uptime\": 7985}",
			"status  ok\nuptime  2 h 13 min\n"},
		{"Latency", "{\"blocks\": 5}", "blocks  5\n"},
		{"Log", "{\"lines\": [\"one\", \"two\"], \"last\": 1, \"missed\": 0}",
			"last    1\nmissed  0\none\ntwo\n"},
		{"Pools", "{\"packets\": {\"size\": 8, \"free\": 7}}",
			"packets size  8\npackets free  7\n"},
		{"Tenants", "{\"tenants\": []}", "none\n"},
		{"Counters", "{\"ports\": [{\"name\": \"p0\"}, {\"name\": \"p1\"}]}",
			"\nports\nNAME\np0\np1\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *answer = json_loads(cases[i].answer, 0, NULL);
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		cr_assert_not_null(answer);
		view_answer(api_object_find(cases[i].object), answer, out, 0);
		fclose(out);
		cr_expect_str_eq(text, cases[i].shown, "%s: %s", cases[i].object, text);
		free(text);
		json_decref(answer);
	}
}

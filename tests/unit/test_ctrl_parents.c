/* SPDX-License-Identifier: BSD-3-Clause */
/* What the log tells of the parents of a job, on engines that are played. */
#include "tests/unit/played.h"

TestSuite(ctrl_parents, .init = setup, .fini = teardown, .timeout = 90);

#define PARENTS PARENT("s0", "10.78.0.254", "") ", " PARENT("s1", "10.78.1.254", "")

static void
begin(void)
{
	struct ctrl_job_spec spec = spec_of("ring");

	read_tree(&spec, TREE(PARENTS));
	make(&spec, NULL);
	hear_log();
}

/* The next tick logs this line, from its message on, and no other; NULL: nothing. */
static void
expect(const char *line)
{
	const char *text;

	ctrl_jobs_tick(running);
	text = logged();
	if (line == NULL) {
		cr_assert_str_eq(text, "");
		return;
	}
	cr_assert_not_null(strstr(text, line), "%s, not %s", text, line);
	cr_assert_eq(strchr(text, '\n'), strrchr(text, '\n'), "more than that: %s", text);
}

#define ABOUT(name, address) " job=ring parent=" name " parent_address=" address

Test(ctrl_parents, heard_lost_and_back)
{
	struct ppe_parent_stats *s0 = &played.parent[0], *s1 = &played.parent[1];

	begin();
	expect(NULL);
	s0->joining = true;
	s0->joining_us = 2000000;
	expect(NULL);
	s0->heard = true;
	s0->silent_us = 1000;
	s0->joining_us = 9000000;
	expect("msg=\"parent heard\"" ABOUT("s0", "10.78.0.254") "\n");
	expect(NULL);
	/* Between two attempts, and after the end of a generation, nothing is new. */
	s0->joining = false;
	s0->serves = true;
	s0->generation = 77;
	s1->heard = s1->serves = true;
	s1->generation = 5;
	ctrl_jobs_tick(running);
	logged();
	expect(NULL);
	s0->serves = s1->serves = false;
	s0->joining = s1->joining = true;
	s0->joining_us = s1->joining_us = 100000;
	expect(NULL);
	s0->serves = s1->serves = true;
	s0->generation = 78;
	expect(NULL);
	/* The others go on without it. */
	s1->serves = false;
	s1->silent_us = 4500000;
	expect("level=warning module=ctrl msg=\"parent lost\"" ABOUT(
		"s1", "10.78.1.254") " silent_ms=4500\n");
	expect(NULL);
	s1->serves = true;
	s1->generation = 6;
	expect("msg=\"parent serves again\"" ABOUT("s1", "10.78.1.254") " generation=6\n");
	expect(NULL);
	/* None serves, and one does not answer. */
	s0->serves = s1->serves = false;
	s0->joining_us = s1->joining_us = s0->silent_us = 3100000;
	s1->silent_us = 5000;
	expect("msg=\"parent lost\"" ABOUT("s0", "10.78.0.254") " silent_ms=3100\n");
	expect(NULL);
}

/* A line each time, however soon it serves again. */
Test(ctrl_parents, taken_for_dead)
{
	struct ppe_parent_stats *s0 = &played.parent[0];

	begin();
	s0->heard = s0->serves = true;
	s0->generation = 5;
	ctrl_jobs_tick(running);
	logged();
	for (s0->given_up = 1; s0->given_up < 3; s0->given_up++) {
		expect("level=warning module=ctrl msg=\"a parent left questions about blocks "
		       "unanswered, and was taken for dead\"" ABOUT("s0", "10.78.0.254") "\n");
		expect(NULL);
	}
}

Test(ctrl_parents, settings_that_disagree)
{
	static const struct {
		unsigned int setting;
		uint32_t ours, theirs;
		const char *text;
	} rows[] = {
		{WEIR_SETTING_OP, WEIR_OP_MAX, 15, "op max here, 15 there: must be equal"},
		{WEIR_SETTING_POLICY, PPE_POLICY_PARTIAL, 3,
			"policy partial here, 3 there: must be equal"},
		{WEIR_SETTING_INTEGRITY, PPE_INTEGRITY_CRC32C, PPE_INTEGRITY_NONE,
			"integrity crc32c here, none there: must be equal"},
		{WEIR_SETTING_DETERMINISTIC, 1, 0,
			"deterministic true here, false there: must be equal"},
		{PPE_PARENT_GONE, 0, 0,
			"the parent does not have the job, or not this switch as a source"},
		{WEIR_SETTING_TYPE, WEIR_DTYPE_FP16, WEIR_DTYPE_FP32,
			"type fp16 here, fp32 there: must be equal"},
	};
	struct ppe_parent_stats *s0 = &played.parent[0];

	begin();
	s0->refused = WEIR_SETTING_WINDOW;
	s0->ours = 64;
	s0->theirs = 32;
	expect("msg=\"the job does not take part in a parent's\"" ABOUT(
		"s0", "10.78.0.254") " setting=window here=64 there=32 why=\"must be equal\"\n");
	cr_expect_str_eq(ctrl_parent_refusal(s0).text, "window 64 here, 32 there: must be equal");
	/* What it said is forgotten when the hosts stop to ask, and said again when they do. */
	s0->refused = PPE_PARENT_AGREES;
	expect(NULL);
	s0->refused = WEIR_SETTING_WINDOW;
	expect(NULL);
	s0->theirs = 16;
	expect("here=64 there=16");
	for (size_t i = 0; i < RTE_DIM(rows); i++) {
		s0->refused = rows[i].setting;
		s0->ours = rows[i].ours;
		s0->theirs = rows[i].theirs;
		cr_expect_str_eq(ctrl_parent_refusal(s0).text, rows[i].text);
	}
	expect("setting=type");
}

/* Each thing that two jobs can differ in has its own word, and a rule. */
Test(ctrl_parents, each_setting_has_a_word)
{
	for (unsigned int s = PPE_PARENT_AGREES + 1; s <= PPE_PARENT_UNKNOWN; s++) {
		if (s < WEIR_SETTINGS && (weir_setting_table[s].to & WEIR_SETTING_TO_SWITCH) == 0)
			continue;
		cr_assert_not_null(ctrl_parent_words(s).setting, "%u", s);
		cr_assert_not_null(ctrl_parent_words(s).rule, "%u", s);
		for (unsigned int other = PPE_PARENT_AGREES + 1; other < s; other++)
			cr_assert(ctrl_parent_words(other).setting == NULL ||
				strcmp(ctrl_parent_words(s).setting,
					ctrl_parent_words(other).setting) != 0);
	}
}

/* The reply to a join has the settings that a host needs, and those that a leaf compares; but only
 * the control API's members expire. */
Test(ctrl_parents, joins_bring_what_is_needed)
{
	unsigned int rows = 0;

	for (size_t i = 0; i < ctrl_settings_count; i++) {
		const struct ctrl_setting *s = &ctrl_settings[i];
		bool to_host = s->host_needs && strcmp(s->key.path, "expire_s") != 0;
		unsigned int to = (to_host ? WEIR_SETTING_TO_HOST : 0) |
			(s->tree.text != NULL ? WEIR_SETTING_TO_SWITCH : 0);
		unsigned int code = WEIR_SETTINGS;

		while (--code > 0 && strcmp(weir_setting_table[code].key, s->key.path) != 0)
			;
		cr_expect_eq(weir_setting_table[code].to, to, "%s", s->key.path);
		cr_expect(to == 0 || s->tree.text == NULL || s->tree.compared == code);
		rows += code != 0;
	}
	cr_expect_eq(rows, WEIR_SETTINGS - 1);
}

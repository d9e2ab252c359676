/* SPDX-License-Identifier: BSD-3-Clause */
/* Which differences of two configurations a reload takes, and which it names. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/jobs/jobs.h"

TestSuite(ctrl_reload, .timeout = 90);

#define SWITCH "\"switch\": {\"address\": \"10.77.0.254/24\"}"
#define PORTS  "\"ports\": [{\"name\": \"a\", \"device\": \"net_null0\"}]"
#define BASE   "{" SWITCH ", " PORTS

static struct ctrl_config *
parse(const char *text)
{
	struct ctrl_config *config;
	char error[CTRL_ERROR_BYTES];

	cr_assert_eq(ctrl_config_parse(text, strlen(text), "x", &config, error, sizeof(error)), 0,
		"%s", error);
	return config;
}

/* Names these keys; NULL: takes it. */
static void
expect(const char *now, const char *next, const char *keys)
{
	struct ctrl_config *a = parse(now), *b = parse(next);
	char error[CTRL_ERROR_BYTES];
	int rc = ctrl_reload_check(a, b, error, sizeof(error));

	cr_expect_eq(rc < 0, keys != NULL, "%s: %s", next, error);
	if (keys != NULL)
		cr_expect_str_eq(strchr(error, ':') + 2, keys);
	ctrl_config_destroy(a);
	ctrl_config_destroy(b);
}

Test(ctrl_reload, changes_that_a_reload_takes)
{
	expect(BASE "}", BASE "}", NULL);
	expect(BASE "}", BASE ", \"comment\": \"x\", \"log\": {\"level\": \"info\"}}", NULL);
	expect(BASE "}",
		BASE ", \"jobs\": [{\"id\": 1, \"name\": \"a\", \"sources\": [{\"id\": 0, "
		     "\"address\": \"10.77.0.1\"}]}]}",
		NULL);
	expect(BASE ", \"api\": {}}", BASE ", \"api\": {\"open_read\": false, \"tenants\": []}}",
		NULL);
	/* A default that is written out is no difference. */
	expect(BASE "}", BASE ", \"workers\": {\"count\": 1}, \"memory_mb\": 512}", NULL);
}

Test(ctrl_reload, changes_that_need_a_restart_are_named)
{
	expect(BASE "}", BASE ", \"workers\": {\"burst\": 31, \"threads\": 3}}",
		"workers.threads, workers.burst");
	expect(BASE "}", BASE ", \"api\": {}}", "api");
	expect(BASE ", \"api\": {}}", BASE ", \"api\": {\"listen\": [\"unix:/run/weir/x.sock\"]}}",
		"api.listen[0]");
	expect(BASE ", \"api\": {}}",
		BASE ", \"api\": {\"tls\": {\"certificate\": \"c\", \"key\": \"k\"}}}", "api.tls");
	expect(BASE "}", BASE ", \"state\": {\"file\": \"/x/y\"}}", "state");
	expect(BASE "}", BASE ", \"exception\": {\"interface\": \"weir0\"}}", "exception");
	expect(BASE "}",
		"{" SWITCH ", \"ports\": [{\"name\": \"b\", \"device\": \"net_null0\", \"mtu\": "
		"1600}]}",
		"ports[0].name, ports[0].mtu");
	expect(BASE "}",
		"{" SWITCH ", \"ports\": [{\"name\": \"a\", \"device\": \"net_null0\"}, {\"name\": "
		"\"b\", \"device\": \"net_null1\"}]}",
		"ports");
}

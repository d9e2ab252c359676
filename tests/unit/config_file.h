/* SPDX-License-Identifier: BSD-3-Clause */
/* A small good configuration, and what becomes of it when a test changes a line. */
#ifndef TESTS_UNIT_CONFIG_FILE_H
#define TESTS_UNIT_CONFIG_FILE_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/config/config.h"

/* A small good file; each refusal changes a line of it. */
static const char *const good[] = {
	"{", /* 1 */
	"  \"switch\": { \"address\": \"10.77.0.254/24\" },",
	"  \"memory_mb\": 256,",
	"  \"eal\": [\"--no-huge\", \"--no-pci\"],",
	"  \"workers\": { \"count\": 2 },", /* 5 */
	"  \"ports\": [",
	"    { \"name\": \"p0\", \"device\": \"net_af_packet0,iface=a\" },",
	"    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=b\" }",
	"  ],",
	"  \"jobs\": [", /* 10 */
	"    { \"id\": 1, \"name\": \"train\",",
	"      \"sources\": [",
	"        { \"id\": 0, \"address\": \"10.77.0.1\" },",
	"        { \"id\": 7, \"address\": \"10.77.0.2\" }",
	"      ],", /* 15 */
	"      \"window\": 64",
	"    }",
	"  ]",
	"}",
};

#define GOOD_LINES (sizeof(good) / sizeof(good[0]))

/* The good file with two lines (from 1; 0: none) replaced. */
static inline const char *
text_with_two(unsigned int line, const char *other, unsigned int line2, const char *other2)
{
	static char text[8192];

	text[0] = '\0';
	for (unsigned int i = 1; i <= GOOD_LINES; i++) {
		strcat(text, i == line ? other : i == line2 ? other2 : good[i - 1]);
		strcat(text, "\n");
	}
	return text;
}

/* With one. Either text is good until the next call. */
static inline const char *
text_with(unsigned int line, const char *other)
{
	return text_with_two(line, other, 0, NULL);
}

/* Valid until the call after the next one. */
static inline struct ctrl_config *
must_take(const char *text)
{
	static struct ctrl_config *last[2];
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;
	int rc = ctrl_config_parse(text, strlen(text), "x.json", &config, error, sizeof(error));

	cr_assert_eq(rc, 0, "%s", error);
	cr_assert_not_null(config);
	ctrl_config_destroy(last[1]);
	last[1] = last[0];
	last[0] = config;
	return config;
}

/* The text, called x.json, is refused in these words, which begin with the place in it. */
static inline void
refuse_text(const char *text, size_t length, const char *reason)
{
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;
	int rc = ctrl_config_parse(text, length, "x.json", &config, error, sizeof(error));

	cr_expect_eq(rc, -EINVAL, "%s: taken", reason);
	cr_expect_null(config);
	cr_expect(strncmp(error, "x.json:", 7) == 0 && strcmp(error + 7, reason) == 0, "%s, not %s",
		error, reason);
	ctrl_config_destroy(config);
}

/* The good file with this line is. */
static inline void
refuse(unsigned int line, const char *other, const char *reason)
{
	const char *text = text_with(line, other);

	refuse_text(text, strlen(text), reason);
}

/* Lines for 8 and 2: the port p1 with more arguments, the switch with more keys. */
#define PORT(arguments)                                                                            \
	"    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=b," arguments "\" }"
#define SWITCH(more) "  \"switch\": { \"address\": \"10.77.0.254/24\", " more " },"

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A small good configuration, and what becomes of it when a test changes some of its lines. */
#ifndef TESTS_UNIT_CONFIG_FILE_H
#define TESTS_UNIT_CONFIG_FILE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/config/config.h"

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

/* The good file with lines [from, to] replaced by one; 0, 0: none. Valid until the next call. */
static inline const char *
text_with(unsigned int from, unsigned int to, const char *other)
{
	static char text[8192];
	char *end = text;

	for (unsigned int i = 1; i <= GOOD_LINES; i++)
		if (i == from || i < from || i > to)
			end = stpcpy(stpcpy(end, i == from ? other : good[i - 1]), "\n");
	return text;
}

/* The good file, which must be taken, with such lines; ' in them stands for ". Valid until the
 * call after the next one. */
static inline struct ctrl_config *
take(unsigned int from, unsigned int to, const char *other)
{
	static struct ctrl_config *last[2];
	char error[CTRL_ERROR_BYTES], quoted[4096] = "";
	struct ctrl_config *config;
	const char *text;

	for (size_t i = 0; i < strlen(other); i++)
		quoted[i] = other[i] == '\'' ? '"' : other[i];
	text = text_with(from, to, quoted);
	cr_assert_eq(ctrl_config_parse(text, strlen(text), "x.json", &config, error, sizeof(error)),
		0, "%s", error);
	ctrl_config_destroy(last[1]);
	last[1] = last[0];
	last[0] = config;
	return config;
}

#endif

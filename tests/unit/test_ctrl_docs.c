/* SPDX-License-Identifier: BSD-3-Clause */
/* What docs/configuration.md says beside its rows (the test `ctrl_keys` has those), and the
 * configs pass. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/config/config.h"
#include "ctrl/config/keys.h"
#include "ctrl/jobs/jobs.h"
#include "ctrl/config/schema.h"
#include "tests/model/doc_page.h"

/* What a reload takes has an item in its section, and nothing else has. */
Test(ctrl_docs, what_a_reload_takes, .timeout = 90)
{
	char *page = doc_read("docs/configuration.md"), *section, *end;
	size_t items = 0;

	cr_assert_not_null(page);
	section = strstr(page, "\n## What a reload takes\n");
	cr_assert_not_null(section);
	end = strstr(section + 1, "\n## ");
	cr_assert_not_null(end);
	*end = '\0';
	for (size_t i = 0; ctrl_reload_keys[i] != NULL; i++, items++) {
		char item[CTRL_PATH_MAX + 16];

		snprintf(item, sizeof(item), "\n- `%s`: ", ctrl_reload_keys[i]);
		cr_expect_not_null(strstr(section, item), "no item for %s", ctrl_reload_keys[i]);
		cr_expect_not_null(ctrl_schema_find(&ctrl_config_schema, ctrl_reload_keys[i]),
			"no key %s", ctrl_reload_keys[i]);
	}
	for (const char *p = strstr(section, "\n- "); p != NULL; p = strstr(p + 1, "\n- "))
		items--;
	cr_assert_eq(items, 0);
	free(page);
}

/* The status that tests/functional/test_life.py finds. */
Test(ctrl_docs, a_wrong_file_ends_with_status_2, .timeout = 90)
{
	char *page = doc_read("docs/configuration.md");

	cr_assert_not_null(page);
	cr_assert_not_null(strstr(page, "exits with status 2:"));
	free(page);
}

/* The list itself: a default is a value that its own key would take. */
Test(ctrl_docs, defaults_are_in_range, .timeout = 90)
{
	for (size_t i = 0; i < ctrl_config_schema.count; i++) {
		const struct ctrl_key *key = &ctrl_config_schema.keys[i];

		if (key->fallback == NULL || key->fallback[0] == '\0')
			continue;
		if (key->kind == CTRL_INTEGER || key->kind == CTRL_POWER) {
			cr_expect_geq(atoll(key->fallback), key->min, "%s", key->path);
			cr_expect_leq(atoll(key->fallback), key->max, "%s", key->path);
		}
		if (key->kind == CTRL_WORD)
			cr_expect_geq(
				ctrl_parse_word(key->words, key->fallback), 0, "%s", key->path);
	}
}

Test(ctrl_docs, every_ready_configuration_is_taken, .timeout = 90)
{
	DIR *folder = opendir(SOURCE_ROOT "/configs");
	unsigned int count = 0;

	cr_assert_not_null(folder);
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		size_t length = strlen(entry->d_name);
		char path[512], error[CTRL_ERROR_BYTES];
		struct ctrl_config *config;

		if (length < 5 || strcmp(entry->d_name + length - 5, ".json") != 0)
			continue;
		snprintf(path, sizeof(path), SOURCE_ROOT "/configs/%s", entry->d_name);
		cr_expect_eq(ctrl_config_load(path, &config, error, sizeof(error)), 0, "%s", error);
		ctrl_config_destroy(config);
		count++;
	}
	closedir(folder);
	cr_assert_geq(count, 2);
}

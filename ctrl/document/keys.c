/* SPDX-License-Identifier: BSD-3-Clause */
/* For ctrl/document/update.py: the keys of a configuration and the settings of a job, as JSON. Not
 * installed. */
#include <stdio.h>
#include <stdlib.h>

#include "ctrl/config/job.h"
#include "ctrl/config/keys.h"

static json_t *
rows(void)
{
	static const char *const kinds[] = {[CTRL_OBJECT] = "object",
		[CTRL_ARRAY] = "array",
		[CTRL_INTEGER] = "integer",
		[CTRL_POWER] = "power",
		[CTRL_BOOLEAN] = "boolean",
		[CTRL_WORD] = "word",
		[CTRL_TEXT] = "text",
		[CTRL_NAME] = "name",
		[CTRL_ADDRESS] = "address",
		[CTRL_SUBNET] = "subnet",
		[CTRL_RESULTS] = "results",
		[CTRL_MAC] = "mac"};
	json_t *list = json_array();

	for (size_t i = 0; i < ctrl_config_schema.count; i++) {
		const struct ctrl_key *key = &ctrl_config_schema.keys[i];
		char *row = NULL;
		size_t size;
		FILE *out = open_memstream(&row, &size);

		if (out == NULL)
			break;
		ctrl_key_row(key, out);
		fclose(out);
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:s, s:s, s:s?, s:I, s:I, s:s?, s:s}", "path",
				key->path, "row", row, "kind", kinds[key->kind], "unit", key->unit,
				"default", key->fallback, "min", (json_int_t)key->min, "max",
				(json_int_t)key->max, "words", key->words, "help", key->help));
		free(row);
	}
	return list;
}

static json_t *
settings(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ctrl_settings_count; i++) {
		const struct ctrl_setting *s = &ctrl_settings[i];
		static const char *const kinds[] = {[CTRL_INTEGER] = "integer",
			[CTRL_POWER] = "power",
			[CTRL_BOOLEAN] = "boolean",
			[CTRL_WORD] = "word",
			[CTRL_RESULTS] = "results"};

		if (s->where == CTRL_SETTING_FILE)
			continue;
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:b, s:b, s:s*, s:b}",
				"name", s->key.path, "kind", kinds[s->key.kind], "unit",
				s->key.unit, "default", s->key.fallback, "min",
				(json_int_t)s->key.min, "max", (json_int_t)s->key.max, "words",
				s->key.words == NULL ? "" : s->key.words, "help", s->key.help,
				"change", s->change, "host", s->host_needs, "tree", s->tree.text,
				"equal", s->tree.must_be_equal));
	}
	return list;
}

int
main(void)
{
	json_t *all = json_pack("{s:o, s:o}", "keys", rows(), "settings", settings());
	int rc = all == NULL ? -1 : json_dumpf(all, stdout, JSON_INDENT(1));

	json_decref(all);
	return rc == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* For ctrl/document/update.py: the keys of a configuration, the settings of a job, and the control
 * API's operations and their answers, as JSON. Not installed. */
#include <stdio.h>
#include <stdlib.h>

#include "ctrl/api/operations.h"
#include "ctrl/config/job.h"
#include "ctrl/config/keys.h"

static json_t *
key_json(const struct ctrl_key *key)
{
	return json_pack("{s:s, s:s, s:s, s:s?, s:I, s:I, s:s?, s:s}", "path", key->path, "kind",
		ctrl_kind_word(key->kind), "unit", key->unit, "default", key->fallback, "min",
		(json_int_t)key->min, "max", (json_int_t)key->max, "words", key->words, "help",
		key->help == NULL ? "" : key->help);
}

static json_t *
keys(const struct ctrl_schema *schema)
{
	json_t *list = json_array();

	for (size_t i = 0; i < schema->count; i++)
		json_array_append_new(list, key_json(&schema->keys[i]));
	return list;
}

static json_t *
operations(void)
{
	static const char *const accesses[] = {
#define X(name, text) #text,
		API_ACCESSES(X)
#undef X
	};
	json_t *list = json_array();

	for (size_t i = 0; i < api_operations_count; i++) {
		const struct api_operation *o = &api_operations[i];

		json_array_append_new(list,
			json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s?, s:s?, s:s?, s:s, s:s, "
				  "s:s}",
				"name", o->name, "method", o->method, "path", o->path, "access",
				accesses[o->access], "query", keys(&o->query), "body",
				keys(&o->body), "section", o->section, "example", o->example,
				"answer", o->answer, "status", o->status, "help", o->help, "more",
				o->more));
	}
	return list;
}

static const struct {
	const char *name, *type, *unit, *example;
} kinds_of_fields[] = {
#define X(kind, type, unit, example) {#kind, type, unit, example},
	API_KINDS(X)
#undef X
		{"NONE", "", NULL, NULL},
};

static json_t *
objects(void)
{
	json_t *all = json_object();

	for (size_t i = 0; i < api_objects_count; i++) {
		const struct api_object *o = &api_objects[i];
		json_t *fields = json_array();

		for (size_t k = 0; k < o->count; k++) {
			const struct api_field *f = &o->fields[k];

			json_array_append_new(fields,
				json_pack("{s:s, s:s, s:b, s:b, s:s?, s:s}", "key", f->key, "kind",
					kinds_of_fields[f->kind].name, "optional",
					(f->flags & API_OPTIONAL) != 0, "nullable",
					(f->flags & API_NULLABLE) != 0, "of", f->of, "help",
					f->help));
		}
		json_object_set_new(all, o->name,
			json_pack("{s:o, s:s, s:s, s:s}", "fields", fields, "others",
				kinds_of_fields[o->others].name, "settings", o->settings, "help",
				o->help));
	}
	return all;
}

static json_t *
kinds(void)
{
	json_t *all = json_object();

	for (size_t i = 0; i < sizeof(kinds_of_fields) / sizeof(kinds_of_fields[0]); i++)
		json_object_set_new(all, kinds_of_fields[i].name,
			json_pack("{s:s, s:s?, s:s?}", "type", kinds_of_fields[i].type, "unit",
				kinds_of_fields[i].unit, "example", kinds_of_fields[i].example));
	return all;
}

static json_t *
settings(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ctrl_settings_count; i++) {
		const struct ctrl_setting *s = &ctrl_settings[i];
		json_t *object;

		if (s->where == CTRL_SETTING_FILE)
			continue;
		object = key_json(&s->key);
		json_object_update_new(object,
			json_pack("{s:s, s:b, s:b, s:s*, s:b}", "name", s->key.path, "change",
				s->change, "host", s->host_needs, "tree", s->tree.text, "equal",
				s->tree.must_be_equal));
		json_array_append_new(list, object);
	}
	return list;
}

int
main(void)
{
	json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:o, s:s}", "keys", keys(&ctrl_config_schema),
		"settings", settings(), "operations", operations(), "objects", objects(), "kinds",
		kinds(), "errors", api_error_codes);
	int rc = all == NULL ? -1 : json_dumpf(all, stdout, JSON_INDENT(1));

	json_decref(all);
	return rc == 0 ? 0 : 1;
}

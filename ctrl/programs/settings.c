/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/programs/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A row whose field is in the array of values. */
static struct ctrl_key
key_of(const struct ppe_setting *setting, size_t index)
{
	static const enum ctrl_kind kinds[] = {
		[PPE_SETTING_INTEGER] = CTRL_INTEGER,
		[PPE_SETTING_BOOLEAN] = CTRL_BOOLEAN,
		[PPE_SETTING_CHOICE] = CTRL_WORD,
		[PPE_SETTING_IPV4] = CTRL_IPV4,
		[PPE_SETTING_TEXT] = CTRL_TEXT,
	};
	struct ctrl_key key = {.path = setting->key,
		.kind = kinds[setting->kind],
		.unit = setting->unit == NULL ? "" : setting->unit,
		.fallback = setting->preset,
		.min = setting->min,
		.max = setting->max,
		.words = setting->choices,
		.help = setting->help,
		CTRL_FIELD(struct ppe_value, number)};

	/* ctrl_key_set() would make fractions. */
	if (strncmp(key.unit, "1/", 2) == 0)
		key.unit = "";
	if (setting->kind == PPE_SETTING_TEXT) {
		key.offset = offsetof(struct ppe_value, text);
		key.bytes = PPE_SETTING_BYTES;
	}
	key.offset += index * sizeof(struct ppe_value);
	return key;
}

static size_t
count_of(const struct ppe_program *program)
{
	size_t count = 0;

	while (program->settings != NULL && program->settings[count].key != NULL)
		count++;
	return count;
}

struct ctrl_key *
ctrl_program_settings_keys(const struct ppe_program *program, size_t *count)
{
	struct ctrl_key *keys;

	*count = count_of(program);
	keys = calloc(*count + 1, sizeof(*keys));
	for (size_t i = 0; keys != NULL && i < *count; i++)
		keys[i] = key_of(&program->settings[i], i);
	return keys;
}

/* Put the path of the object before that of an error in it. */
static int
place(struct ctrl_error *error, const char *at)
{
	error->path = ctrl_path(
		"%s%s%.64s", at, error->path.text[0] == '\0' ? "" : ".", error->path.text);
	return -EINVAL;
}

int
ctrl_program_settings_read(const struct ppe_program *program, json_t *object, const char *at,
	struct ppe_value **values, struct ctrl_error *error)
{
	size_t count;
	struct ctrl_key *keys = ctrl_program_settings_keys(program, &count);
	const struct ctrl_schema schema = {keys, count};
	json_t *empty = json_object();
	int rc = -ENOMEM;

	*values = count == 0 ? NULL : calloc(count, sizeof(**values));
	if (keys != NULL && empty != NULL && (count == 0 || *values != NULL))
		rc = ctrl_schema_check(&schema, "", object != NULL ? object : empty, error);
	if (rc == -EINVAL)
		place(error, at);
	for (size_t i = 0; rc == 0 && i < count; i++)
		ctrl_key_set(&keys[i], json_object_get(object, keys[i].path), *values);
	if (rc < 0) {
		free(*values);
		*values = NULL;
	}
	json_decref(empty);
	free(keys);
	return rc;
}

json_t *
ctrl_program_settings_json(const struct ppe_program *program, const struct ppe_value *values)
{
	json_t *object = json_object();

	for (size_t i = 0; values != NULL && i < count_of(program); i++) {
		struct ctrl_key key = key_of(&program->settings[i], i);

		json_object_set_new(object, key.path, ctrl_key_get(&key, values));
	}
	return object;
}

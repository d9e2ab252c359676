/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/json.h"

#include <stdlib.h>
#include <string.h>

#include "ctrl/config/keys.h"

static int fill_value(const char *schema, json_t *value);

/* Is the key directly in this object of the schema? */
static bool
is_member(const struct ctrl_key *key, const char *schema)
{
	size_t length = strlen(schema);

	if (strncmp(key->path, schema, length) != 0)
		return false;
	if (length > 0 && key->path[length] != '.')
		return false;
	return strpbrk(key->path + length + (length > 0), ".[") == NULL;
}

/* An object that may be missing although its members have defaults: then they are in force. */
static bool
is_implied(const struct ctrl_key *object)
{
	if (object->fallback == NULL || strcmp(object->path, "api") == 0)
		return false;
	for (size_t i = 0; i < ctrl_keys_count; i++)
		if (is_member(&ctrl_keys[i], object->path) && ctrl_keys[i].fallback == NULL)
			return false;
	return true;
}

/* NULL: none, or no memory. */
static json_t *
default_of(const struct ctrl_key *key)
{
	if (key->kind == CTRL_OBJECT)
		return is_implied(key) ? json_object() : NULL;
	if (key->fallback == NULL || key->fallback[0] == '\0')
		return NULL;
	switch (key->kind) {
	case CTRL_INTEGER:
	case CTRL_POWER: return json_integer(strtoll(key->fallback, NULL, 10));
	case CTRL_BOOLEAN: return json_boolean(strcmp(key->fallback, "true") == 0);
	case CTRL_ARRAY: return json_loads(key->fallback, 0, NULL);
	case CTRL_OBJECT:
	case CTRL_WORD:
	case CTRL_TEXT:
	case CTRL_NAME:
	case CTRL_ADDRESS:
	case CTRL_SUBNET:
	case CTRL_RESULTS:
	case CTRL_MAC:
	default: return json_string(key->fallback);
	}
}

static int
fill_object(const char *schema, json_t *object)
{
	for (size_t i = 0; i < ctrl_keys_count; i++) {
		const struct ctrl_key *key = &ctrl_keys[i];
		const char *name = ctrl_key_name(key);
		json_t *value;

		if (!is_member(key, schema))
			continue;
		value = json_object_get(object, name);
		if (value == NULL) {
			value = default_of(key);
			if (value == NULL)
				continue;
			if (json_object_set_new(object, name, value) < 0)
				return -1;
		}
		if (fill_value(key->path, value) < 0)
			return -1;
	}
	return 0;
}

static int
fill_value(const char *schema, json_t *value)
{
	char element[CTRL_PATH_MAX + 2];
	json_t *in;
	size_t i;

	if (json_is_object(value))
		return fill_object(schema, value);
	if (!json_is_array(value))
		return 0;
	snprintf(element, sizeof(element), "%s[]", schema);
	json_array_foreach (value, i, in) {
		if (fill_value(element, in) < 0)
			return -1;
	}
	return 0;
}

/* What the defaults can't tell, and what is nobody's business. */
static void
settle_api(json_t *api, const struct ctrl_api *config)
{
	json_t *tenants = json_object_get(api, "tenants"), *tenant;
	json_t *listen = json_array();
	size_t i;

	if (api == NULL) {
		json_decref(listen);
		return;
	}
	for (i = 0; i < config->nb_listeners; i++)
		json_array_append_new(listen, json_string(config->listener[i].text));
	json_object_set_new(api, "listen", listen);
	json_array_foreach (tenants, i, tenant) {
		json_object_del(tenant, "token_sha256");
	}
}

json_t *
ctrl_config_json(const struct ctrl_config *config)
{
	json_t *root = json_deep_copy(config->document);

	if (root != NULL && fill_object("", root) < 0) {
		json_decref(root);
		return NULL;
	}
	settle_api(json_object_get(root, "api"), &config->api);
	return root;
}

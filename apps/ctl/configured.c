/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the switch of a configuration listens. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "apps/ctl/client.h"

static const char *
first_socket(json_t *listeners)
{
	for (size_t i = 0; i < json_array_size(listeners); i++) {
		const char *listener = json_string_value(json_array_get(listeners, i));

		if (listener != NULL && strncmp(listener, "unix:", 5) == 0)
			return listener;
	}
	return NULL;
}

/* Only what is needed is looked at: the switch says what else is wrong. */
bool
client_find_of(const char *file, char *text, size_t size)
{
	json_error_t error;
	json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
	json_t *api = json_object_get(root, "api"), *listeners = json_object_get(api, "listen");
	const char *found = first_socket(listeners);
	const char *name =
		json_string_value(json_object_get(json_object_get(root, "switch"), "name"));
	bool good = true;

	if (root == NULL) {
		snprintf(text, size, "%s:%d:%d: %s", file, error.line < 1 ? 1 : error.line,
			error.column < 1 ? 1 : error.column, error.text);
		good = false;
	} else if (found != NULL) {
		snprintf(text, size, "%s", found);
	} else if (json_is_object(api) && listeners == NULL && name != NULL) {
		snprintf(text, size, "unix:/run/weir/%s.sock", name);
	} else {
		snprintf(text, size,
			"%s: the switch listens on no Unix socket: \"api\" has to be there, and "
			"\"listen\" in it to have one with unix:",
			file);
		good = false;
	}
	json_decref(root);
	return good;
}

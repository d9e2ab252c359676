/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/ctl/client.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One line without blanks; http.c checks the rest. */
static bool
read_token(struct client *client, const char *name)
{
	FILE *file = fopen(name, "re");
	size_t length;

	client->token_from = name;
	if (file == NULL) {
		snprintf(client->error, sizeof(client->error), "token file %s: %s", name,
			strerror(errno));
		return false;
	}
	length = fread(client->token, 1, sizeof(client->token), file);
	fclose(file);
	while (length > 0 && strchr(" \t\r\n", client->token[length - 1]) != NULL)
		length--;
	if (length == 0 || length == sizeof(client->token)) {
		snprintf(client->error, sizeof(client->error),
			"token file %s: it should hold one token, a line without blanks", name);
		return false;
	}
	client->token[length] = '\0';
	client->http.token = client->token;
	return true;
}

bool
client_open(struct client *client, const char *token_file)
{
	char why[512];

	client->most = CLIENT_BODY_MAX;
	if (token_file != NULL && !read_token(client, token_file))
		return false;
	if (weir_http_open(&client->http, &client->handle, why, sizeof(why)) == 0)
		return true;
	snprintf(client->error, sizeof(client->error), "%s%s%s",
		client->token_from != NULL && strncmp(why, "the token", 9) == 0 ? client->token_from
										: "",
		client->token_from != NULL && strncmp(why, "the token", 9) == 0 ? ": " : "", why);
	return false;
}

void
client_close(struct client *client)
{
	weir_http_close(client->handle);
	explicit_bzero(client->token, sizeof(client->token));
}

static bool
take(void *to, const char *bytes, size_t length)
{
	struct client_answer *answer = to;

	if (answer->length + length + 1 > answer->room) {
		size_t room = 2 * (answer->length + length) + 4096;
		char *body = realloc(answer->body, room);

		if (body == NULL)
			return false;
		answer->body = body;
		answer->room = room;
	}
	memcpy(answer->body + answer->length, bytes, length);
	answer->length += length;
	answer->body[answer->length] = '\0';
	return true;
}

bool
client_request(struct client *client, const char *method, const char *path, const char *body,
	double more, struct client_answer *answer)
{
	const struct weir_http_request request = {
		.method = method,
		.path = path,
		.body = body,
		.timeout_ns = (uint64_t)((client->timeout + more) * 1e9),
		.take = take,
		.to = answer,
		.most = client->most,
	};

	*answer = (struct client_answer){0};
	if (weir_http_request(client->handle, &request, &answer->status, client->error,
		    sizeof(client->error)) == 0)
		return true;
	free(answer->body);
	*answer = (struct client_answer){0};
	return false;
}

bool
client_find(const char *folder, char *text, size_t size)
{
	char names[512] = "";
	unsigned int found = 0;
	struct dirent *entry;
	DIR *dir = opendir(folder);

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		struct stat kind;
		size_t used = strlen(names);

		if (fstatat(dirfd(dir), entry->d_name, &kind, 0) < 0 || !S_ISSOCK(kind.st_mode))
			continue;
		if (found++ == 0)
			snprintf(text, size, "unix:%s/%s", folder, entry->d_name);
		snprintf(names + used, sizeof(names) - used, "%s%s", used > 0 ? ", " : "",
			entry->d_name);
	}
	if (dir != NULL)
		closedir(dir);
	if (found == 0)
		snprintf(text, size,
			"no socket in %s: is the switch running, and does its configuration have a "
			"section \"api\"? -s or WEIR_SWITCH names another address",
			folder);
	else if (found > 1)
		snprintf(text, size, "%u switches in %s: %s; choose one with -s unix:%s/NAME",
			found, folder, names, folder);
	return found == 1;
}

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

/* Other errors of the file are the switch's to report. */
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
			"%s: the switch listens on no Unix socket: the section \"api\" needs a "
			"\"listen\" with unix:PATH",
			file);
		good = false;
	}
	json_decref(root);
	return good;
}

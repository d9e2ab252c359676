/* SPDX-License-Identifier: BSD-3-Clause */
/* The section "api": listeners, TLS, tenants. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/files.h"

#define DEFAULT_SOCKET "unix:/run/weir/%s.sock"

/* An entry of "listen". */
struct entry {
	const struct ctrl_reading *reading;
	const char *key; /* the rest of its path */
	struct ctrl_listener *listener;
};

#define REFUSE(entry, ...) CTRL_REFUSE((entry)->reading, (entry)->key, __VA_ARGS__)

static int
read_unix(const struct entry *entry, const char *file)
{
	struct sockaddr_un *un = &entry->listener->address.un;

	if (file[0] != '/')
		return REFUSE(entry,
			"\"%.64s\" is not an absolute path, such as /run/weir/weir.sock", file);
	if (file[strlen(file) - 1] == '/')
		return REFUSE(entry, "\"%.64s\" is a folder", file);
	un->sun_family = AF_UNIX;
	if (strlcpy(un->sun_path, file, sizeof(un->sun_path)) >= sizeof(un->sun_path))
		return REFUSE(entry, "a socket's path has at most %zu characters",
			sizeof(un->sun_path) - 1);
	entry->listener->length = sizeof(*un);
	return 0;
}

/* "127.0.0.1:8080", "[::1]:8080", "SWITCH:8080". */
static int
read_tcp(const struct entry *entry, const char *text)
{
	const struct ctrl_config *config = entry->reading->config;
	struct ctrl_listener *listener = entry->listener;
	struct sockaddr_in *in = &listener->address.in;
	struct sockaddr_in6 *in6 = &listener->address.in6;
	const char *colon = strrchr(text, ':'), *wrong = NULL;
	size_t length = colon == NULL ? 0 : (size_t)(colon - text);
	bool v6 = length > 2 && text[0] == '[' && text[length - 1] == ']', good;
	char host[INET6_ADDRSTRLEN];
	uint16_t port;

	if (length == 0 || length - 2 * v6 >= sizeof(host))
		wrong = text;
	else
		port = (uint16_t)strtonum(colon + 1, 1, UINT16_MAX, &wrong);
	if (wrong != NULL || !isdigit((unsigned char)colon[1]))
		return REFUSE(entry, "\"%.64s\" is not ADDRESS:PORT, [ADDRESS]:PORT or SWITCH:PORT",
			text);
	strlcpy(host, text + v6, length - 2 * v6 + 1);
	if (v6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		listener->length = sizeof(*in6);
		good = inet_pton(AF_INET6, host, &in6->sin6_addr) == 1;
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		listener->length = sizeof(*in);
		listener->exception = strcmp(host, "SWITCH") == 0;
		in->sin_addr.s_addr = htonl(config->ppe.identity.ip);
		good = listener->exception || inet_pton(AF_INET, host, &in->sin_addr) == 1;
	}
	if (!good)
		return REFUSE(entry,
			"\"%s\" is neither SWITCH nor an address such as 127.0.0.1 or [::1]", host);
	if (listener->exception && config->exception[0] == '\0')
		return REFUSE(entry, "the switch's own address needs the section \"exception\"");
	return 0;
}

static int
read_listener(const struct ctrl_reading *reading, const char *key, const char *text)
{
	struct ctrl_api *api = &reading->config->api;
	struct ctrl_listener *listener = &api->listener[api->nb_listeners];
	const struct entry entry = {reading, key, listener};
	int rc;

	strlcpy(listener->text, text, sizeof(listener->text));
	if (strncmp(text, "unix:", 5) == 0)
		rc = read_unix(&entry, text + 5);
	else if (strncmp(text, "tcp:", 4) == 0)
		rc = read_tcp(&entry, text + 4);
	else
		rc = REFUSE(&entry, "\"%.64s\" begins with neither unix: nor tcp:", text);
	for (unsigned int i = 0; rc == 0 && i < api->nb_listeners; i++)
		if (api->listener[i].length == listener->length &&
			memcmp(&api->listener[i].address, &listener->address, listener->length) ==
				0)
			rc = REFUSE(&entry, "api.listen[%u] is the same already", i);
	api->nb_listeners++;
	return rc;
}

static int
read_listeners(const struct ctrl_reading *reading, const json_t *list)
{
	char text[CTRL_FILE_BYTES];
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < json_array_size(list); i++)
		rc = read_listener(reading, ctrl_path("api.listen[%u]", i).text,
			json_string_value(json_array_get(list, i)));
	if (list != NULL)
		return rc;
	snprintf(text, sizeof(text), DEFAULT_SOCKET, reading->config->name);
	return read_listener(reading, "api", text);
}

/* An existing path must be a regular file. A missing file may exist when the switch starts; the
 * start checks it. */
static int
check_pem(const struct ctrl_reading *reading, const char *key, const char *name)
{
	const char *why;
	int fd = name[0] == '\0' ? -1 : ctrl_open_regular(name, &why);

	if (fd < 0 && name[0] != '\0' && (errno == EINVAL || errno == EISDIR))
		return CTRL_REFUSE(reading, key, "%s: %s", name, why);
	if (fd >= 0)
		close(fd);
	return 0;
}

int
ctrl_read_api(struct ctrl_reading *reading)
{
	struct ctrl_api *api = &reading->config->api;
	const json_t *object = json_object_get(reading->object, "api");
	const json_t *tenants = json_object_get(object, "tenants");
	size_t count = json_array_size(tenants);
	int rc = object == NULL ? 0 : read_listeners(reading, json_object_get(object, "listen"));

	if (rc == 0)
		rc = check_pem(reading, "api.tls.certificate", api->certificate);
	if (rc == 0)
		rc = check_pem(reading, "api.tls.key", api->key);
	if (rc < 0 || count == 0)
		return rc;
	api->tenant = calloc(count, sizeof(*api->tenant));
	if (api->tenant == NULL)
		return -ENOMEM;
	for (; api->nb_tenants < count; api->nb_tenants++)
		ctrl_keys_read("api.tenants[]", json_array_get(tenants, api->nb_tenants),
			&api->tenant[api->nb_tenants]);
	if (api->open_jobs > 0)
		return CTRL_REFUSE(reading, "api.open_jobs",
			"where there are tenants, every request needs a token: remove open_jobs or "
			"tenants");
	return 0;
}

static bool
is_loopback(const struct ctrl_listener *listener)
{
	if (listener->address.any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&listener->address.in6.sin6_addr);
	return ntohl(listener->address.in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

const struct ctrl_listener *
ctrl_api_clear_text(const struct ctrl_api *api)
{
	if (api->nb_tenants == 0 || api->certificate[0] != '\0')
		return NULL;
	for (unsigned int i = 0; i < api->nb_listeners; i++)
		if (api->listener[i].address.any.sa_family != AF_UNIX &&
			!is_loopback(&api->listener[i]))
			return &api->listener[i];
	return NULL;
}

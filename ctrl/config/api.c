/* SPDX-License-Identifier: BSD-3-Clause */
/* The section "api": listeners, TLS, tenants. */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/files.h"
#include "ctrl/config/schema.h"

#define DEFAULT_SOCKET "unix:/run/weir/%s.sock"

static int
read_unix(struct ctrl_reading *reading, struct ctrl_path path, const char *file,
	struct ctrl_listener *listener)
{
	struct sockaddr_un *un = &listener->address.un;

	if (file[0] != '/')
		return ctrl_refuse(reading->error, path,
			"\"%.64s\" is not an absolute path, such as /run/weir/weir.sock", file);
	if (file[strlen(file) - 1] == '/')
		return ctrl_refuse(reading->error, path, "\"%.64s\" is a folder", file);
	un->sun_family = AF_UNIX;
	if (strlcpy(un->sun_path, file, sizeof(un->sun_path)) >= sizeof(un->sun_path))
		return ctrl_refuse(reading->error, path,
			"a socket's path has at most %zu characters", sizeof(un->sun_path) - 1);
	listener->length = sizeof(*un);
	return 0;
}

/* "127.0.0.1:8080", "[::1]:8080", "SWITCH:8080". False: none of them. */
static bool
parse_tcp(const char *text, char host[INET6_ADDRSTRLEN], bool *v6, uint16_t *port)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon == NULL ? 0 : (size_t)(colon - text);
	unsigned long number = 0;

	*v6 = length > 2 && text[0] == '[' && text[length - 1] == ']';
	if (*v6) {
		text++;
		length -= 2;
	}
	if (length == 0 || length >= INET6_ADDRSTRLEN)
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	for (const char *p = colon + 1; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || p - colon > 5)
			return false;
		number = number * 10 + (unsigned long)(*p - '0');
	}
	*port = (uint16_t)number;
	return number >= 1 && number <= UINT16_MAX;
}

static int
read_tcp(struct ctrl_reading *reading, struct ctrl_path path, const char *text,
	struct ctrl_listener *listener)
{
	const struct ctrl_config *config = reading->config;
	struct sockaddr_in *in = &listener->address.in;
	struct sockaddr_in6 *in6 = &listener->address.in6;
	char host[INET6_ADDRSTRLEN];
	uint16_t port;
	bool v6, good;

	if (!parse_tcp(text, host, &v6, &port))
		return ctrl_refuse(reading->error, path,
			"\"%.64s\" is not ADDRESS:PORT, [ADDRESS]:PORT or SWITCH:PORT", text);
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
		return ctrl_refuse(reading->error, path,
			"\"%s\" is neither SWITCH nor an address such as 127.0.0.1 or [::1]", host);
	if (listener->exception && config->exception[0] == '\0')
		return ctrl_refuse(reading->error, path,
			"the switch's own address needs the section \"exception\"");
	return 0;
}

static int
read_listener(struct ctrl_reading *reading, struct ctrl_path path, const char *text)
{
	struct ctrl_api *api = &reading->config->api;
	struct ctrl_listener *listener = &api->listener[api->nb_listeners];
	int rc;

	strlcpy(listener->text, text, sizeof(listener->text));
	if (strncmp(text, "unix:", 5) == 0)
		rc = read_unix(reading, path, text + 5, listener);
	else if (strncmp(text, "tcp:", 4) == 0)
		rc = read_tcp(reading, path, text + 4, listener);
	else
		rc = ctrl_refuse(
			reading->error, path, "\"%.64s\" begins with neither unix: nor tcp:", text);
	for (unsigned int i = 0; rc == 0 && i < api->nb_listeners; i++)
		if (api->listener[i].length == listener->length &&
			memcmp(&api->listener[i].address, &listener->address, listener->length) ==
				0)
			rc = ctrl_refuse(
				reading->error, path, "api.listen[%u] is the same already", i);
	api->nb_listeners++;
	return rc;
}

static int
read_listeners(struct ctrl_reading *reading, const json_t *list)
{
	char text[CTRL_FILE_BYTES];
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < json_array_size(list); i++)
		rc = read_listener(reading, ctrl_path("api.listen[%u]", i),
			json_string_value(json_array_get(list, i)));
	if (list != NULL)
		return rc;
	snprintf(text, sizeof(text), DEFAULT_SOCKET, reading->config->name);
	return read_listener(reading, ctrl_path("api"), text);
}

static void
read_names(const json_t *list, struct ctrl_api *api)
{
	for (; api->nb_names < json_array_size(list); api->nb_names++)
		strlcpy(api->name[api->nb_names],
			json_string_value(json_array_get(list, api->nb_names)), CTRL_HOST_BYTES);
}

static int
read_tenant(struct ctrl_reading *reading, unsigned int index, const json_t *object)
{
	struct ctrl_tenant *tenant = reading->config->api.tenant, *mine = &tenant[index];
	struct ctrl_path hash = ctrl_path("api.tenants[%u].token_sha256", index);

	ctrl_keys_read("api.tenants[]", object, mine);
	if (!ctrl_parse_hex(json_string_value(json_object_get(object, "token_sha256")),
		    mine->token_sha256, CTRL_HASH_BYTES))
		return ctrl_refuse(reading->error, hash, "it is not 64 hexadecimal digits");
	for (unsigned int i = 0; i < index; i++) {
		if (strcmp(tenant[i].name, mine->name) == 0)
			return ctrl_refuse(reading->error, ctrl_path("api.tenants[%u].name", index),
				"\"%s\" is the name of api.tenants[%u] already", mine->name, i);
		if (memcmp(tenant[i].token_sha256, mine->token_sha256, CTRL_HASH_BYTES) == 0)
			return ctrl_refuse(
				reading->error, hash, "api.tenants[%u] has the same token", i);
	}
	return 0;
}

static int
read_tenants(struct ctrl_reading *reading, const json_t *list)
{
	struct ctrl_api *api = &reading->config->api;
	size_t count = json_array_size(list);
	int rc = 0;

	if (count == 0)
		return 0;
	api->tenant = calloc(count, sizeof(*api->tenant));
	if (api->tenant == NULL)
		return -ENOMEM;
	for (; rc == 0 && api->nb_tenants < count; api->nb_tenants++)
		rc = read_tenant(reading, api->nb_tenants, json_array_get(list, api->nb_tenants));
	return rc;
}

/* An existing path must be a regular file. A missing file may exist when the switch starts; the
 * start checks it. */
static int
check_pem(struct ctrl_reading *reading, struct ctrl_path path, const char *name)
{
	const char *why;
	int fd = ctrl_open_regular(name, &why);

	if (fd < 0 && (errno == EINVAL || errno == EISDIR))
		return ctrl_refuse(reading->error, path, "%s: %s", name, why);
	if (fd >= 0)
		close(fd);
	return 0;
}

int
ctrl_read_api(struct ctrl_reading *reading)
{
	struct ctrl_api *api = &reading->config->api;
	const json_t *object = json_object_get(reading->root, "api");
	int rc = 0;

	if (object == NULL)
		return 0;
	if (api->certificate[0] != '\0')
		rc = check_pem(reading, ctrl_path("api.tls.certificate"), api->certificate);
	if (rc == 0 && api->certificate[0] != '\0')
		rc = check_pem(reading, ctrl_path("api.tls.key"), api->key);
	read_names(json_object_get(object, "names"), api);
	if (rc == 0)
		rc = read_listeners(reading, json_object_get(object, "listen"));
	if (rc == 0)
		rc = read_tenants(reading, json_object_get(object, "tenants"));
	if (rc == 0 && api->open_jobs > 0 && api->nb_tenants > 0)
		return ctrl_refuse(reading->error, ctrl_path("api.open_jobs"),
			"where there are tenants, every request needs a token: remove open_jobs or "
			"tenants");
	return rc;
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

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/ctl/client.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TOKEN_MAX 4096

struct client {
	struct client_config config;
	CURL *easy;
	CURLM *multi;
	struct curl_slist *headers;
	struct curl_slist typed; /* these headers, before them a body's type */
	const char *path; /* of the socket; NULL: TCP */
	const char *base; /* what a URL begins with */
	int fd;
	size_t most;
	bool (*interrupted)(void *);
	void *argument;
	char detail[CURL_ERROR_SIZE];
	char error[1024];
};

/* A token becomes a header line, so it must be one line without blanks. */
static bool
take_token(struct client *client, const char *token, size_t length)
{
	char line[TOKEN_MAX + 64] = "Authorization: Bearer ";
	size_t at = strlen(line);

	for (size_t i = 0; i < length; i++)
		if (token[i] <= ' ' || token[i] > '~')
			length = 0;
	if (length == 0 || length >= TOKEN_MAX - 1)
		return false;
	memcpy(line + at, token, length);
	line[at + length] = '\0';
	client->headers = curl_slist_append(client->headers, line);
	explicit_bzero(line, sizeof(line));
	return client->headers != NULL;
}

static bool
read_token_file(struct client *client, char *error, size_t size)
{
	const char *name = client->config.token_file;
	char token[TOKEN_MAX];
	size_t length;
	FILE *file = fopen(name, "re");
	bool taken;

	if (file == NULL) {
		snprintf(error, size, "token file %s: %s", name, strerror(errno));
		return false;
	}
	length = fread(token, 1, sizeof(token), file);
	fclose(file);
	while (length > 0 && strchr(" \t\r\n", token[length - 1]) != NULL)
		length--;
	taken = take_token(client, token, length);
	explicit_bzero(token, sizeof(token));
	if (!taken)
		snprintf(error, size,
			"token file %s: it should hold one token, a line without blanks", name);
	return taken;
}

static bool
read_token(struct client *client, char *error, size_t size)
{
	const char *token = client->config.token;

	if (client->config.token_file != NULL)
		return read_token_file(client, error, size);
	if (token == NULL || take_token(client, token, strlen(token)))
		return true;
	snprintf(error, size, "WEIR_TOKEN: it should be one token, without blanks");
	return false;
}

static size_t
receive(char *data, size_t one, size_t count, void *to)
{
	struct client_answer *answer = to;
	size_t more = one * count;

	if (answer->length + more > answer->most)
		return 0;
	if (answer->length + more + 1 > answer->room) {
		size_t room = 2 * (answer->length + more) + 4096;
		char *body = realloc(answer->body, room);

		if (body == NULL)
			return 0;
		answer->body = body;
		answer->room = room;
	}
	memcpy(answer->body + answer->length, data, more);
	answer->length += more;
	answer->body[answer->length] = '\0';
	return more;
}

static bool
set_up(struct client *client)
{
	CURL *easy = client->easy = curl_easy_init();

	client->multi = curl_multi_init();
	if (easy == NULL || client->multi == NULL)
		return false;
	client->headers = curl_slist_append(client->headers, "Accept: application/json");
	/* libcurl asks before it sends a body; the body is short. */
	client->headers = curl_slist_append(client->headers, "Expect:");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "weirctl/" WEIR_VERSION);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->detail);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
	if (client->path != NULL &&
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->path) != CURLE_OK)
		return false;
	if (client->config.ca_file != NULL)
		curl_easy_setopt(easy, CURLOPT_CAINFO, client->config.ca_file);
	return true;
}

struct client *
client_create(const struct client_config *config, char *error, size_t size)
{
	struct client *client = calloc(1, sizeof(*client));
	const char *address = config->address;

	if (client == NULL)
		goto no_memory;
	client->config = *config;
	client->fd = -1;
	client->most = CLIENT_BODY_MAX;
	client->base = address;
	if ((strncmp(address, "unix:", 5) == 0 && address[5] != '\0') || address[0] == '/') {
		client->path = address[0] == '/' ? address : address + 5;
		client->base = "http://localhost";
	} else if (strncmp(address, "http://", 7) != 0 && strncmp(address, "https://", 8) != 0) {
		snprintf(error, size,
			"%s is no address: it is unix:PATH, http://HOST:PORT or https://HOST:PORT",
			address);
		goto fail;
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !set_up(client))
		goto no_memory;
	if (!read_token(client, error, size))
		goto fail;
	return client;
no_memory:
	snprintf(error, size, "libcurl does not start");
fail:
	client_destroy(client);
	return NULL;
}

void
client_destroy(struct client *client)
{
	if (client == NULL)
		return;
	curl_easy_cleanup(client->easy);
	curl_multi_cleanup(client->multi);
	curl_slist_free_all(client->headers);
	free(client);
}

void
client_watch(struct client *client, int fd, bool (*interrupted)(void *), void *argument)
{
	client->fd = fd;
	client->interrupted = interrupted;
	client->argument = argument;
}

void
client_expect(struct client *client, size_t bytes)
{
	client->most = bytes;
}

static size_t
base_length(const char *base)
{
	size_t length = strlen(base);

	while (length > 0 && base[length - 1] == '/')
		length--;
	return length;
}

/* Until the transfer is over. libcurl bounds it by CURLOPT_TIMEOUT_MS. */
static enum client_end
transfer(struct client *client, CURLcode *code)
{
	struct curl_waitfd watched = {.fd = client->fd, .events = CURL_WAIT_POLLIN};
	int running = 1, left;
	CURLMsg *message;

	while (curl_multi_perform(client->multi, &running) == CURLM_OK && running > 0) {
		watched.revents = 0;
		curl_multi_poll(client->multi, &watched, client->fd >= 0 ? 1 : 0, 1000, NULL);
		if (watched.revents != 0 && client->interrupted(client->argument))
			return CLIENT_INTERRUPTED;
	}
	*code = CURLE_FAILED_INIT;
	while ((message = curl_multi_info_read(client->multi, &left)) != NULL)
		if (message->msg == CURLMSG_DONE)
			*code = message->data.result;
	return *code == CURLE_OK ? CLIENT_ANSWERED : CLIENT_FAILED;
}

static void
explain_connect(struct client *client, const char *where)
{
	char *to = client->error;
	size_t size = sizeof(client->error);
	struct stat found;
	long number = 0;

	curl_easy_getinfo(client->easy, CURLINFO_OS_ERRNO, &number);
	if (client->path != NULL && stat(client->path, &found) < 0)
		number = errno;
	if (number == ENOENT)
		snprintf(to, size,
			"no socket %s: is the switch running, and has its configuration a section "
			"\"api\"?",
			where);
	else if (number == EACCES || number == EPERM)
		snprintf(to, size, "%s: %s: be root, or the user that the switch runs as", where,
			strerror((int)number));
	else if (client->path != NULL)
		snprintf(to, size, "nobody listens on %s: is the switch running?", where);
	else
		snprintf(to, size,
			"no connection to %s (%s): is the switch running, and does its api.listen "
			"have this address?",
			where, number != 0 ? strerror((int)number) : client->detail);
}

static void
explain(struct client *client, CURLcode code, double seconds)
{
	const char *where = client->path != NULL ? client->path : client->base;
	const char *detail = client->detail[0] != '\0' ? client->detail : curl_easy_strerror(code);
	char *to = client->error;
	size_t size = sizeof(client->error);

	if (code == CURLE_COULDNT_CONNECT)
		explain_connect(client, where);
	else if (code == CURLE_OPERATION_TIMEDOUT)
		snprintf(to, size,
			"no answer from %s within %g s: is the switch alive? --timeout waits "
			"longer",
			where, seconds);
	else if (code == CURLE_WRITE_ERROR)
		snprintf(to, size, "the answer of %s is larger than %zu MiB", where,
			client->most >> 20);
	else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
		snprintf(to, size, "%s: %s: --ca FILE or WEIR_CA names the certificate to trust",
			where, detail);
	else if (code == CURLE_URL_MALFORMAT || code == CURLE_COULDNT_RESOLVE_HOST)
		snprintf(to, size, "%s: %s", where, detail);
	else
		snprintf(to, size, "%s did not answer as a switch does: %s", where, detail);
}

enum client_end
client_request(struct client *client, const char *method, const char *path, const char *body,
	double more, struct client_answer *answer)
{
	CURL *easy = client->easy;
	double seconds = client->config.timeout + more;
	static char json[] = "Content-Type: application/json";
	char url[2048];
	enum client_end end;
	CURLcode code = CURLE_OK;

	client->typed = (struct curl_slist){.data = json, .next = client->headers};
	*answer = (struct client_answer){.most = client->most};
	client->detail[0] = '\0';
	/* An address such as http://host:8080/ ends in a slash, and so begins a path. */
	snprintf(url, sizeof(url), "%.*s%s", (int)base_length(client->base), client->base, path);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, body != NULL ? &client->typed : client->headers);
	curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
	if (body == NULL)
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(seconds * 1e3) + 1);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(client->config.timeout * 1e3) + 1);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
	curl_multi_add_handle(client->multi, easy);
	end = transfer(client, &code);
	curl_multi_remove_handle(client->multi, easy);
	if (end == CLIENT_FAILED)
		explain(client, code, seconds);
	else if (end == CLIENT_ANSWERED)
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer->status);
	if (end != CLIENT_ANSWERED)
		client_answer_free(answer);
	return end;
}

void
client_answer_free(struct client_answer *answer)
{
	free(answer->body);
	*answer = (struct client_answer){0};
}

const char *
client_error(const struct client *client)
{
	return client->error;
}

const char *
client_address(const struct client *client)
{
	return client->config.address;
}

const char *
client_token_from(const struct client *client)
{
	return client->config.token_file != NULL ? client->config.token_file
		: client->config.token != NULL   ? "WEIR_TOKEN"
						 : NULL;
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
			"no socket in %s: is the switch running, and has its configuration a "
			"section "
			"\"api\"? -s or WEIR_SWITCH names another address",
			folder);
	else if (found > 1)
		snprintf(text, size, "%u switches in %s: %s; choose one with -s unix:%s/NAME",
			found, folder, names, folder);
	return found == 1;
}

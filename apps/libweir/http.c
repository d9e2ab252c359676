/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)

struct weir_http {
	struct weir_http_config config;
	const char *path; /* of the socket; NULL: TCP */
	const char *base; /* what a URL begins with */
	CURL *easy;
	struct curl_slist *headers;
	char detail[CURL_ERROR_SIZE];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode started;

static void
start(void)
{
	started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int
weir_error_text(char *text, size_t size, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, size, format, arguments);
	va_end(arguments);
	return code;
}

struct exchange {
	const struct weir_http_request *request;
	size_t taken;
};

static size_t
receive(char *data, size_t one, size_t count, void *to)
{
	struct exchange *exchange = to;
	const struct weir_http_request *request = exchange->request;
	size_t more = one * count;
	bool taken =
		more <= request->most - exchange->taken && request->take(request->to, data, more);

	exchange->taken += more;
	/* The data may contain a key, and libcurl does not erase its buffer. */
	explicit_bzero(data, more);
	return taken ? more : 0;
}

static int
progress(void *to, curl_off_t down, curl_off_t down_now, curl_off_t up, curl_off_t up_now)
{
	const struct weir_http_config *config = to;

	(void)down, (void)down_now, (void)up, (void)up_now;
	return config->interrupted(config->argument);
}

static bool
add_header(struct weir_http *http, const char *line)
{
	struct curl_slist *more = curl_slist_append(http->headers, line);

	if (more != NULL)
		http->headers = more;
	return more != NULL;
}

/* A token becomes part of a header line: printable ASCII without blanks. */
static bool
is_token(const char *token)
{
	for (const char *c = token; *c != '\0'; c++)
		if (*c <= ' ' || *c > '~')
			return false;
	return token[0] != '\0';
}

static bool
add_token(struct weir_http *http, const char *token)
{
	static const char begin[] = "Authorization: Bearer ";
	size_t room = sizeof(begin) + strlen(token);
	char *line = malloc(room); /* asprintf() may leave copies behind */
	bool added;

	if (line == NULL)
		return false;
	snprintf(line, room, "%s%s", begin, token);
	added = add_header(http, line);
	explicit_bzero(line, room);
	free(line);
	return added;
}

static bool
set_up(struct weir_http *http)
{
	CURL *easy = http->easy = curl_easy_init();

	/* Bodies are short: no "Expect: 100-continue". */
	if (easy == NULL || !add_header(http, "Expect:") ||
		!add_header(http, "Accept: application/json") ||
		!add_header(http, "Content-Type: application/json"))
		return false;
	if (http->config.token != NULL && !add_token(http, http->config.token))
		return false;
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* A hanging resolver must not delay curl_easy_cleanup. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "libweir/" WEIR_VERSION);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->detail);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers);
	curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, progress);
	curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &http->config);
	if (http->config.ca_file != NULL)
		curl_easy_setopt(easy, CURLOPT_CAINFO, http->config.ca_file);
	return http->path == NULL ||
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, http->path) == CURLE_OK;
}

int
weir_http_open(
	const struct weir_http_config *config, struct weir_http **out, char *text, size_t size)
{
	const char *address = config->address;
	bool socket =
		(strncmp(address, "unix:", 5) == 0 && address[5] != '\0') || address[0] == '/';
	struct weir_http *http;

	*out = NULL;
	if (!socket && strncmp(address, "http://", 7) != 0 && strncmp(address, "https://", 8) != 0)
		return weir_error_text(text, size, -EINVAL,
			"the control address \"%.100s\" is none of http://HOST:PORT, "
			"https://HOST:PORT and unix:PATH",
			address);
	if (config->token != NULL && !is_token(config->token))
		return weir_error_text(text, size, -EINVAL,
			"the token is empty, or has blanks or control characters");
	http = calloc(1, sizeof(*http));
	if (http != NULL) {
		http->config = *config;
		http->base = address;
		if (socket) {
			http->path = address[0] == '/' ? address : address + 5;
			http->base = "http://localhost";
		}
		pthread_once(&once, start);
		if (started == CURLE_OK && set_up(http)) {
			*out = http;
			return 0;
		}
	}
	weir_http_close(http);
	return weir_error_text(
		text, size, -ENOMEM, "libcurl does not start (is the socket's path too long?)");
}

void
weir_http_close(struct weir_http *http)
{
	if (http == NULL)
		return;
	curl_easy_cleanup(http->easy);
	/* One of the lines contains the token. */
	for (struct curl_slist *line = http->headers; line != NULL; line = line->next)
		explicit_bzero(line->data, strlen(line->data));
	curl_slist_free_all(http->headers);
	free(http);
}

/* Blocks SIGPIPE, because TLS libraries write to sockets without MSG_NOSIGNAL. Signals of the
 * application stay pending. */
static CURLcode
perform(CURL *easy)
{
	static const struct timespec now;
	sigset_t pipe_only, before, pending;
	bool was_pending;
	CURLcode code;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
	code = curl_easy_perform(easy);
	if (!was_pending)
		while (sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code;
}

static int
connect_error_text(struct weir_http *http, char *text, size_t size)
{
	const char *advice = "is the switch running, and does its api.listen have this address?";
	struct stat found;
	long number = 0;
	int probe;

	curl_easy_getinfo(http->easy, CURLINFO_OS_ERRNO, &number);
	/* If socket(2) failed, libcurl does not report the reason. */
	if (number == 0) {
		probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (probe < 0)
			number = errno;
		else
			close(probe);
	}
	if (number == EMFILE || number == ENFILE)
		advice = "each handle has up to three descriptors: close some, or raise the limit "
			 "(ulimit -n)";
	if (http->path != NULL && stat(http->path, &found) < 0)
		number = errno;
	if (http->path != NULL && (number == EACCES || number == EPERM))
		advice = "be root or the switch's user, or join over one of its TCP addresses";
	return weir_error_text(text, size, number != 0 ? -(int)number : -EHOSTUNREACH,
		"no connection to the switch's control API at %s (%s): %s", http->config.address,
		number != 0 ? strerror((int)number) : http->detail, advice);
}

static int
error_text(struct weir_http *http, CURLcode code, const struct weir_http_request *request,
	char *text, size_t size)
{
	const char *where = http->config.address;
	const char *detail = http->detail[0] != '\0' ? http->detail : curl_easy_strerror(code);

	if (code == CURLE_COULDNT_CONNECT)
		return connect_error_text(http, text, size);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return weir_error_text(text, size, -ETIMEDOUT,
			"no answer of the switch's control API at %s for %llu ms: is the address "
			"right, and the switch alive?",
			where,
			(unsigned long long)((request->timeout_ns + NS_PER_MS - 1) / NS_PER_MS));
	if (code == CURLE_ABORTED_BY_CALLBACK)
		return -EINTR;
	if (code == CURLE_OUT_OF_MEMORY)
		return weir_error_text(text, size, -ENOMEM, "out of memory");
	if (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR)
		return weir_error_text(text, size, -ECONNRESET,
			"%s closes the connection without an answer (%s): is it a switch's control "
			"API, with TLS only if the address is https, and not overloaded (weirctl "
			"status)?",
			where, detail);
	if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_URL_MALFORMAT)
		return weir_error_text(
			text, size, -EINVAL, "the control address %s: %s", where, detail);
	if (code == CURLE_WRITE_ERROR)
		return weir_error_text(text, size, -EPROTO,
			"the answer of %s is larger than %zu KiB: is it a switch?", where,
			request->most >> 10);
	if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
		return weir_error_text(text, size, -EPROTO,
			"%s: %s: WEIR_CA names the certificate to trust", where, detail);
	return weir_error_text(text, size, -EPROTO,
		"%s does not answer as a switch's control API does: %s", where, detail);
}

void
weir_http_interrupt(struct weir_http *http, bool (*interrupted)(void *argument), void *argument)
{
	http->config.interrupted = interrupted;
	http->config.argument = argument;
}

int
weir_http_request(struct weir_http *http, const struct weir_http_request *request, long *status,
	char *text, size_t size)
{
	struct exchange exchange = {.request = request};
	CURL *easy = http->easy;
	long timeout_ms = (long)(request->timeout_ns / NS_PER_MS) + 1;
	size_t base = strlen(http->base);
	CURLcode code;
	char *url;

	while (base > 0 && http->base[base - 1] == '/')
		base--;
	if (asprintf(&url, "%.*s%s", (int)base, http->base, request->path) < 0)
		return weir_error_text(text, size, -ENOMEM, "out of memory");
	*status = 0;
	http->detail[0] = '\0';
	curl_easy_setopt(easy, CURLOPT_URL, url);
	free(url);
	if (request->body != NULL)
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
	else
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
	curl_easy_setopt(easy, CURLOPT_NOPROGRESS, http->config.interrupted == NULL ? 1L : 0L);

	code = perform(easy);
	if (code != CURLE_OK)
		return error_text(http, code, request, text, size);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, status);
	return 0;
}

static bool
take_body(void *to, const char *bytes, size_t length)
{
	struct weir_http_answer *answer = to;

	memcpy(answer->body + answer->length, bytes, length);
	answer->length += length;
	return true;
}

int
weir_http_ask(struct weir_http *http, const char *method, const char *path, const char *body,
	uint64_t timeout_ns, struct weir_http_answer *answer, char *text, size_t size)
{
	const struct weir_http_request request = {
		.method = method,
		.path = path,
		.body = body,
		.timeout_ns = timeout_ns,
		.take = take_body,
		.to = answer,
		.most = sizeof(answer->body),
	};

	answer->length = 0;
	return weir_http_request(http, &request, &answer->status, text, size);
}

char *
weir_http_escape(const char *segment)
{
	char *escaped = curl_easy_escape(NULL, segment, 0);
	char *copy = escaped == NULL ? NULL : strdup(escaped);

	curl_free(escaped);
	return copy;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server with a route table of this test: handlers that wait, stream, say nothing, echo. The
 * client is in the same thread, so each step of both sides is where the test puts it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "ctrl/api/call.h"
#include "ctrl/api/server.h"
#include "ctrl/api/turns.h"

static unsigned int calls, ends;

static void
count_end(void *context)
{
	(void)context;
	ends++;
}

/* Answers when it is called the third time. */
static void
wait_twice(struct api_call *call)
{
	calls++;
	call->context = &calls;
	call->context_free = count_end;
	if (calls < 3)
		api_wait(call, 20);
	else
		api_answer(call, 200, json_pack("{s:i}", "calls", (int)calls));
}

static void
wait_for_ever(struct api_call *call)
{
	calls++;
	call->context_free = count_end;
	api_wait(call, 60000);
}

static ssize_t
read_numbers(void *stream, uint64_t at, char *out, size_t room)
{
	unsigned int *left = stream;

	(void)at;
	if (*left == 0)
		return -1;
	return snprintf(out, room, "%u\n", (*left)--);
}

static void
stream(struct api_call *call)
{
	calls = 20000;
	api_answer_stream(call, "text/plain", read_numbers, &calls, count_end);
}

static unsigned int steps;

static bool
begin_steps(struct api_call *call, void *context)
{
	(void)context;
	api_text_put(&call->text, "[");
	return true;
}

/* A hundred steps of a millisecond. */
static bool
step(struct api_call *call, void *context)
{
	unsigned int *mine = context;

	for (double end = ctrl_monotonic() + 0.001; ctrl_monotonic() < end;)
		;
	steps++;
	if (++*mine < 100)
		return true;
	api_text_put(&call->text, "]\n");
	api_answer_text(call, "application/json");
	return false;
}

static void
in_steps(struct api_call *call)
{
	api_in_steps(call, sizeof(unsigned int), begin_steps, step);
}

static double
cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Takes CPU time: the burst and as many ms more. */
static void
spend(struct api_call *call)
{
	double end = cpu_s() + API_BURST_S + atoi(call->parameter[0]) / 1e3;

	while (cpu_s() < end)
		;
	api_answer(call, 200, json_object());
}

static void
say_nothing(struct api_call *call)
{
	(void)call;
}

static void
echo(struct api_call *call)
{
	api_answer(call, 200, json_incref(call->body));
}

const struct api_route api_routes[] = {
	{API_GET, "/twice", API_PUBLIC, NULL, wait_twice},
	{API_GET, "/ever", API_PUBLIC, NULL, wait_for_ever},
	{API_GET, "/stream", API_PUBLIC, NULL, stream},
	{API_GET, "/steps", API_PUBLIC, NULL, in_steps},
	{API_GET, "/spend/{ms}", API_PUBLIC, NULL, spend},
	{API_GET, "/nothing", API_PUBLIC, NULL, say_nothing},
	{API_POST, "/echo", API_CHANGE, NULL, echo},
};
const size_t api_routes_count = sizeof(api_routes) / sizeof(api_routes[0]);

static char folder[] = "/tmp/weir-test-XXXXXX";
static struct ctrl_config config;
static struct ctrl_running *running;
static struct api_server *server;

static void
setup(void)
{
	struct ctrl_listener *listener = &config.api.listener[0];
	char error[256] = "";

	cr_assert_not_null(mkdtemp(folder));
	listener->address.un.sun_family = AF_UNIX;
	listener->length = sizeof(listener->address.un);
	snprintf(listener->address.un.sun_path, sizeof(listener->address.un.sun_path), "%s/s/api",
		folder);
	config.api.nb_listeners = 1;
	config.api.open_read = true;
	cr_assert_eq(ctrl_running_create(&config, NULL, &running), 0);
	cr_assert_eq(api_server_create(running, &server, error, sizeof(error)), 0, "%s", error);
}

static void
teardown(void)
{
	char path[128];

	api_server_destroy(server);
	ctrl_running_destroy(running);
	snprintf(path, sizeof(path), "%s/s", folder);
	cr_expect_eq(rmdir(path), 0, "the socket is left: %s", strerror(errno));
	cr_expect_eq(rmdir(folder), 0);
}

TestSuite(ctrl_api_server, .init = setup, .fini = teardown, .timeout = 90);

static int
client(void)
{
	const struct ctrl_listener *listener = &config.api.listener[0];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	cr_assert_eq(connect(fd, &listener->address.any, listener->length), 0);
	return fd;
}

static void
send_text(int fd, const char *text)
{
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* The server's loop for `ms` at most, or until the client has read `until`. Returns what it
 * read. */
static char *
turn(int fd, const char *until, unsigned int ms)
{
	static char got[1 << 20];
	size_t length = 0;
	double end = ctrl_monotonic() + ms / 1e3;

	got[0] = '\0';
	while (ctrl_monotonic() < end && (until == NULL || strstr(got, until) == NULL)) {
		struct pollfd fds[] = {{api_server_fd(server), POLLIN, 0}, {fd, POLLIN, 0}};
		int wait = api_server_timeout(server);
		ssize_t n;

		poll(fds, 2, wait < 0 || wait > 10 ? 10 : wait);
		api_server_run(server);
		n = read(fd, got + length, sizeof(got) - length - 1);
		if (n > 0)
			length += (size_t)n;
		got[length] = '\0';
		if (n == 0)
			break;
	}
	return got;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

/* A new client that asks for this; open until the case ends. */
static int
asks(const char *request)
{
	int fd = client();

	send_text(fd, request);
	return fd;
}

/* The client asks for this path; the answer has these words. */
#define must_get(fd, path, words)                                                                  \
	do {                                                                                       \
		send_text(fd, GET(path));                                                          \
		cr_assert_not_null(strstr(turn(fd, "}", 30000), words));                           \
	} while (0)

Test(ctrl_api_server, a_handler_waits_and_is_called_again)
{
	double began = ctrl_monotonic();
	int fd = client();

	must_get(fd, "/twice", "{\"calls\":3}");
	cr_assert_geq(ctrl_monotonic() - began, 0.04);
	turn(fd, NULL, 20);
	cr_assert_eq(ends, 1);
	/* The connection goes on. */
	must_get(fd, "/twice", "{\"calls\":4}");
}

Test(ctrl_api_server, others_are_served_meanwhile)
{
	int fd = client();

	asks(GET("/ever"));
	turn(fd, NULL, 50);
	cr_assert_eq(calls, 1);
	must_get(fd, "/nothing", " 500 ");
}

/* Stopping with a request that waits, and with one whose client has gone: no leak, no abort. */
Test(ctrl_api_server, destroy_ends_waiting_requests)
{
	int here = asks(GET("/ever")), gone = asks(GET("/ever"));

	turn(here, NULL, 50);
	cr_assert_eq(calls, 2);
	close(gone);
	turn(here, NULL, 50);
	api_server_destroy(server);
	server = NULL;
	cr_assert_eq(ends, 2);
}

Test(ctrl_api_server, server_sleeps_while_a_request_waits)
{
	int fd = asks(GET("/ever"));
	unsigned int turns = 0;

	turn(fd, NULL, 50);
	for (double end = ctrl_monotonic() + 0.3; ctrl_monotonic() < end; turns++) {
		struct pollfd fds = {api_server_fd(server), POLLIN, 0};
		int wait = api_server_timeout(server);

		poll(&fds, 1, wait < 0 || wait > 100 ? 100 : wait);
		api_server_run(server);
	}
	cr_assert_lt(turns, 10, "%u turns in 0.3 s", turns);
}

Test(ctrl_api_server, a_long_answer_is_streamed)
{
	int fd = asks(GET("/stream"));
	const char *got;

	got = turn(fd, "\n2\r\n1\n", 5000);
	cr_assert_not_null(strstr(got, "Transfer-Encoding: chunked"));
	got = strstr(got, "20000\n");
	cr_assert_not_null(got);
	close(fd);
	turn(client(), NULL, 20);
	cr_assert_eq(ends, 1);
}

/* Half of a stream, then the client has enough. */
Test(ctrl_api_server, a_stream_ends_with_its_client)
{
	int fd = asks(GET("/stream"));

	turn(fd, "20000", 2000);
	close(fd);
	turn(client(), NULL, 50);
	cr_assert_eq(ends, 1);
}

Test(ctrl_api_server, bodies_in_pieces)
{
	int fd = client();

	send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{\"a\"");
	turn(fd, NULL, 20);
	send_text(fd, ":\"bcde\"}\n");
	cr_assert_null(strstr(turn(fd, "}", 100), " 200 "), "13 of 14 bytes are no body");
	send_text(fd, "\n");
	cr_assert_not_null(strstr(turn(fd, "}\n", 2000), "{\"a\":\"bcde\"}\n"));
	send_text(fd,
		"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		"3\r\n{\"a\r\n4\r\n\":7}\r\n0\r\n\r\n");
	cr_assert_not_null(strstr(turn(fd, "}\n", 2000), "{\"a\":7}\n"));
	/* Two at once. */
	send_text(fd,
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{\"b\":1}"
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{\"b\":2}");
	cr_assert_not_null(strstr(turn(fd, "{\"b\":2}\n", 2000), "{\"b\":1}\n"));
}

/* -- callers that are no administrators: with tenants, other users of the socket without a token */

#define STRANGERS 8

static int
stranger(uid_t uid)
{
	static struct ctrl_tenant tenant = {.name = "vision"};
	int fd;

	config.api.tenant = &tenant;
	config.api.nb_tenants = 1;
	cr_assert_eq(chmod(config.api.listener[0].address.un.sun_path, 0666), 0);
	cr_assert_eq(chmod(folder, 0755), 0);
	cr_assert_eq(seteuid(uid), 0);
	fd = client();
	cr_assert_eq(seteuid(0), 0);
	return fd;
}

static bool
is_readable(int fd)
{
	struct pollfd fds = {fd, POLLIN, 0};

	return poll(&fds, 1, 0) == 1;
}

/* What an administrator asks is answered within two slices, and others' answers go on
 * afterwards. */
Test(ctrl_api_server, an_administrator_waits_for_steps_not_for_answers)
{
	int fd[STRANGERS], admin = client();

	for (unsigned int i = 0; i < STRANGERS; i++) {
		fd[i] = stranger(10001 + i);
		send_text(fd[i], GET("/steps"));
	}
	while (steps == 0)
		api_server_run(server);
	for (unsigned int i = 0; i < 10; i++) {
		unsigned int before = steps;

		must_get(admin, "/nothing", " 500 ");
		cr_assert_leq(steps - before, 30, "%u steps of others came first", steps - before);
	}
	for (unsigned int i = 0; i < STRANGERS; i++)
		cr_assert_not(is_readable(fd[i]), "answered before the administrator");
	for (unsigned int i = 0; i < STRANGERS; i++)
		cr_assert_not_null(strstr(turn(fd[i], "]", 30000), "[]"));
	cr_assert_eq(steps, 100 * STRANGERS);
}

Test(ctrl_api_server, the_loop_returns_between_steps)
{
	int fd = asks(GET("/steps"));

	while (steps < 100) {
		unsigned int before = steps;

		api_server_run(server);
		cr_assert_leq(steps - before, 11);
	}
	cr_assert_not_null(strstr(turn(fd, "]", 2000), "[]"));
}

Test(ctrl_api_server, caller_in_debt_is_answered_late)
{
	int rich = stranger(10001), poor = stranger(10002);

	must_get(poor, "/spend/100", " 200 ");
	send_text(poor, GET("/nothing"));
	for (unsigned int i = 0; i < 10; i++) {
		must_get(rich, "/nothing", " 500 ");
	}
	cr_assert_not(is_readable(poor), "answered, though in debt");
	cr_assert_not_null(strstr(turn(poor, "}", 30000), " 500 "));
}

Test(ctrl_api_server, caller_in_deep_debt_gets_429)
{
	int poor = stranger(10001);
	const char *got = "";

	must_get(poor, "/spend/2000", " 200 ");
	send_text(poor, GET("/nothing"));
	for (unsigned int s = 0; s < 60 && strstr(got, "}") == NULL; s++) {
		api_server_tick(server);
		got = turn(poor, "}", 1000);
	}
	cr_assert_not_null(strstr(got, " 429 "), "%s", got);
	cr_assert_not_null(strstr(got, "Retry-After: "), "%s", got);
}

/* Stopping while requests are queued, begun and not. */
Test(ctrl_api_server, the_end_does_not_wait_for_the_queue)
{
	int first = stranger(10001), second = stranger(10001);

	send_text(first, GET("/steps"));
	send_text(second, GET("/steps"));
	while (steps == 0)
		api_server_run(server);
	api_server_destroy(server);
	server = NULL;
	cr_assert_lt(steps, 100);
}

/* One user fills the socket with requests that wait for their turn, and others get in: as many
 * as they are. */
Test(ctrl_api_server, queued_requests_are_closed_for_other_clients)
{
	enum { PLACES = 256, OTHERS = 40 };
	int fd[PLACES], admin[OTHERS];

	for (unsigned int i = 0; i < PLACES; i++) {
		fd[i] = stranger(10001);
		send_text(fd[i], i == 0 ? GET("/spend/2000") : GET("/nothing"));
		api_server_run(server);
	}
	for (unsigned int i = 0; i < OTHERS; i++) {
		admin[i] = client();
		must_get(admin[i], "/nothing", " 500 ");
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server with a route table of this test: handlers that wait, stream, say nothing, echo. The
 * control thread is the test's, so each of its steps is where the test puts it.
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
#include "ctrl/api/server_priv.h"

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

/* The order in which changes are made: the digits of their paths. */
static char made[80];

static void
note(struct api_call *call)
{
	cr_assert_not_null(call->running, "a change is made by the control thread");
	strncat(made, call->parameter[0], 1);
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

#define READS(at, how)                                                                             \
	{                                                                                          \
		.method = "GET", .path = at, .access = API_PUBLIC, .needs = how                    \
	}
const struct api_operation api_operations[] = {
	READS("/twice", API_CONTROL),
	READS("/ever", API_CONTROL),
	READS("/stream", API_BASE),
	READS("/note/{digit}", API_CONTROL),
	READS("/nothing", API_BASE),
	{.method = "POST",
		.path = "/echo",
		.access = API_CHANGE,
		.needs = API_CONTROL,
		.section = "x"},
};
const size_t api_operations_count = sizeof(api_operations) / sizeof(api_operations[0]);
const api_handler api_handlers[] = {wait_twice, wait_for_ever, stream, note, say_nothing, echo};

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

/* Let the server's threads take what was sent; the control thread makes snapshots, and no change. */
static void
turn_readers(unsigned int ms)
{
	for (double end = ctrl_monotonic() + ms / 1e3; ctrl_monotonic() < end;) {
		ctrl_snapshots_serve(server->snapshots, running);
		usleep(1000);
	}
}

/* Until so many changes wait for the control thread. */
static void
wait_queued(unsigned int wanted)
{
	unsigned int found = 0;

	for (double end = ctrl_monotonic() + 60; found < wanted && ctrl_monotonic() < end;) {
		const struct api_request *request;

		turn_readers(5);
		found = 0;
		pthread_mutex_lock(&server->lock);
		TAILQ_FOREACH (request, &server->waiting, waiting)
			found++;
		pthread_mutex_unlock(&server->lock);
	}
	cr_assert_eq(found, wanted);
}

/* Readers need the control thread for a snapshot, and get the last one if it stands still. */
Test(ctrl_api_server, readers_are_answered_without_the_control_thread)
{
	int fd = client();
	char got[4096] = "";
	struct pollfd fds = {fd, POLLIN, 0};

	send_text(fd, GET("/nothing"));
	cr_assert_eq(poll(&fds, 1, 30000), 1);
	cr_assert_gt(read(fd, got, sizeof(got) - 1), 0);
	cr_assert_not_null(strstr(got, " 500 "));
}

Test(ctrl_api_server, administrators_changes_are_made_first)
{
	int first = stranger(10001), second = stranger(10002), admin = client();

	send_text(first, GET("/note/1"));
	wait_queued(1);
	send_text(second, GET("/note/2"));
	wait_queued(2);
	send_text(admin, GET("/note/0"));
	wait_queued(3);
	turn(admin, "}", 30000);
	turn(second, "}", 30000);
	cr_assert_str_eq(made, "012");
}

/* Of a caller that is no administrator, so many changes wait; those beyond are refused at once. */
Test(ctrl_api_server, a_caller_has_few_changes_that_wait)
{
	int fd[68];
	unsigned int refused = 0;

	/* All first: a stranger's user is this process's while it connects. */
	for (unsigned int i = 0; i < RTE_DIM(fd); i++)
		fd[i] = stranger(10001);
	for (unsigned int i = 0; i < RTE_DIM(fd); i++)
		send_text(fd[i], GET("/note/1"));
	wait_queued(64);
	/* The others have their answers before the control thread has made one. */
	for (double end = ctrl_monotonic() + 60; refused < 4 && ctrl_monotonic() < end;) {
		refused = 0;
		turn_readers(5);
		for (unsigned int i = 0; i < RTE_DIM(fd); i++) {
			struct pollfd fds = {fd[i], POLLIN, 0};

			refused += poll(&fds, 1, 0) == 1;
		}
	}
	cr_assert_eq(refused, 4);
	for (unsigned int i = refused = 0; i < RTE_DIM(fd); i++)
		refused += strstr(turn(fd[i], "}", 30000), " 429 ") != NULL;
	cr_assert_eq(refused, 4);
}

/* A change that the control thread comes to too late is refused, not made. */
Test(ctrl_api_server, a_change_has_a_limit_of_time)
{
	int fd = client();

	send_text(fd, GET("/note/1"));
	wait_queued(1);
	turn_readers(5500);
	cr_assert_not_null(strstr(turn(fd, "}", 30000), " 503 "));
	cr_assert_str_empty(made);
}

/* Stopping while changes are queued. */
Test(ctrl_api_server, the_end_answers_the_queue)
{
	int first = stranger(10001), second = client();

	send_text(first, GET("/note/1"));
	send_text(second, GET("/note/2"));
	wait_queued(2);
	api_server_destroy(server);
	server = NULL;
	cr_assert_str_empty(made);
}

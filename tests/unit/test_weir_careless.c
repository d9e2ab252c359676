/* SPDX-License-Identifier: BSD-3-Clause */
/* What careless programs hand to libweir is refused before anything is sent, and the handle is
 * as before. */
#include <stddef.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/hosts.h"

#define HOSTS 3
#define COUNT 40

static int32_t memory[2 * HOSTS * COUNT];

static void
open_all(void)
{
	open_handles(HOSTS, 0, 0);
}

#define OPEN .init = open_all, .fini = close_handles, .timeout = 90

static void
refused(struct weir *weir, int code, const char *text)
{
	cr_expect_eq(code, -EINVAL, "%d, %s", code, text);
	cr_expect_not_null(strstr(weir_last_error(weir), text), "\"%s\"", weir_last_error(weir));
}

/* Also by a single element, from either side. */
Test(weir_careless, buffers_overlap_only_in_place, OPEN)
{
	struct weir *weir = hosts[1].weir; /* rank 1: the second slice */
	int32_t *m = memory + COUNT, *own = m + COUNT, *apart = m + 2 * COUNT;
	const enum weir_dtype type = WEIR_DTYPE_INT32;
	const enum weir_op sum = WEIR_OP_SUM;
	struct weir_stats stats;

	refused(weir, weir_allreduce(weir, m, m + 1, COUNT, type, sum), "send == recv:");
	refused(weir, weir_allreduce(weir, m + COUNT - 1, m, COUNT, type, sum), "send == recv:");
	refused(weir, weir_reduce(weir, m, m + 1, COUNT, type, sum, 1), "send == recv:");
	refused(weir, weir_broadcast(weir, m, m + 1, COUNT, type, 1), "send == recv:");
	refused(weir, weir_alltoall(weir, m, own, COUNT, type), "send == recv:");
	refused(weir, weir_reducescatter(weir, m, m, COUNT, type, sum), "recv == send + rank");
	refused(weir, weir_reducescatter(weir, m, apart, COUNT, type, sum), "recv == send + rank");
	refused(weir, weir_reducescatter(weir, m, m + 1 - COUNT, COUNT, type, sum), "recv == send");
	refused(weir, weir_scatter(weir, m, m, COUNT, type, 1), "recv == send + rank * count");
	refused(weir, weir_allgather(weir, m, m, COUNT, type), "send == recv + rank * count");
	refused(weir, weir_gather(weir, m, m, COUNT, type, 1), "send == recv + rank * count");
	weir_stats(weir, &stats);
	cr_expect_eq(stats.payload_sent, 0u, "something was sent");
}

/* A program may have another structure of counters than the library: older, or newer. */
Test(weir_careless, counters_are_written_as_far_as_there_is_room, OPEN)
{
	struct {
		struct weir_stats known;
		uint64_t newer[2];
	} s;
	const size_t first = offsetof(struct weir_stats, receive_buffer) + sizeof(uint64_t);

	memset(&s, 0xff, sizeof(s));
	weir_stats_sized(hosts[1].weir, &s.known, sizeof(s));
	cr_expect_gt(s.known.receive_buffer, 0u);
	cr_expect(s.newer[0] == 0 && s.newer[1] == 0);
	memset(&s, 0xff, sizeof(s));
	weir_stats_sized(hosts[1].weir, &s.known, sizeof(uint64_t));
	cr_expect_eq(((uint64_t *)&s)[1], UINT64_MAX, "it writes more than there is room for");
	memset(&s, 0xff, sizeof(s));
	(weir_stats)(hosts[1].weir, &s.known);
	cr_expect_gt(s.known.receive_buffer, 0u);
	cr_expect_eq(*(uint64_t *)(void *)((char *)&s + first), UINT64_MAX,
		"an older program's structure ends here");
}

/* Beside each other; and where one of them is not used at all. */
Test(weir_careless, neighbours_do_not_overlap, OPEN)
{
	struct weir *weir = hosts[1].weir;
	int32_t *m = memory + COUNT;
	struct weir_request *requests[6];

	cr_expect_eq(weir_iallreduce(weir, m, m + COUNT, COUNT, WEIR_DTYPE_INT32, WEIR_OP_SUM,
			     &requests[0]),
		0);
	cr_expect_eq(weir_iallreduce(weir, m, m - COUNT, COUNT, WEIR_DTYPE_INT32, WEIR_OP_SUM,
			     &requests[1]),
		0);
	cr_expect_eq(weir_iallgather(weir, m + COUNT, m, COUNT, WEIR_DTYPE_INT32, &requests[2]), 0);
	cr_expect_eq(weir_ibroadcast(weir, m + 1, m, COUNT, WEIR_DTYPE_INT32, 0, &requests[3]), 0);
	cr_expect_eq(weir_igather(weir, m + 1, m, COUNT, WEIR_DTYPE_INT32, 0, &requests[4]), 0);
	cr_expect_eq(
		weir_iallreduce(weir, m, m + 1, 0, WEIR_DTYPE_INT32, WEIR_OP_SUM, &requests[5]), 0);
}

#define AT .switch_address = "127.0.0.1", .address = "127.0.0.1"

static const uint8_t key[32];

static const struct {
	const struct weir_config *config;
	const char *text;
} wrong[] = {
	{NULL, "config is NULL"},
	{&(struct weir_config){0}, "where is the switch"},
	{&(struct weir_config){0}, "Set WEIR_SWITCH"},
	{&(struct weir_config){.switch_address = "127.0.0.1"}, "own IPv4 address"},
	{&(struct weir_config){AT, .source = 256}, "source"},
	{&(struct weir_config){AT, .spin_us = -2}, "spin_us: -2 is not in [-1, 1000000]"},
	{&(struct weir_config){AT, .key = key, .key_bytes = 64}, "key_bytes: 64 is not 32"},
	{&(struct weir_config){AT, .key = key, .key_bytes = 0}, "key_bytes: 0 is not 32"},
	{&(struct weir_config){AT, .key = key, .key_bytes = 32, .base_form = true},
		"the base form has no place"},
};

Test(weir_careless, failed_open_leaves_no_handle, .timeout = 90)
{
	struct weir_request *request = (struct weir_request *)memory;
	struct weir *weir;

	unsetenv("WEIR_SWITCH");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect_eq(weir_open(wrong[i].config, &weir), -EINVAL);
		refused(weir, weir_barrier(weir), wrong[i].text);
		weir_close(weir);
	}
	cr_expect_eq(weir_open(&(struct weir_config){AT}, NULL), -EINVAL);
	cr_expect_eq(weir_barrier(NULL), -EINVAL);
	cr_expect_eq(weir_ibarrier(NULL, &request), -EINVAL);
	cr_expect_null(request);
	cr_expect_eq(weir_rejoin(NULL), -EINVAL);
	cr_expect_neq(weir_last_error(NULL)[0], '\0');
}

Test(weir_careless, open_without_descriptors_fails, .timeout = 90)
{
	struct weir_config config = {
		.control = "http://127.0.0.1:1", .job_name = "x", .source = 0, .sources = 1};
	struct rlimit limit, before;
	struct weir *weir;
	int lowest = dup(0), code;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert_geq(lowest, 0);
	close(lowest);
	limit = before;
	limit.rlim_cur = (rlim_t)lowest;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	code = weir_open(&config, &weir);
	setrlimit(RLIMIT_NOFILE, &before);
	if (code != -EOPNOTSUPP) { /* built without the control API */
		cr_expect_eq(code, -EMFILE, "%d", code);
		cr_expect_not_null(
			strstr(weir_last_error(weir), "ulimit"), "%s", weir_last_error(weir));
	}
	weir_close(weir);
}

Test(weir_careless, there_is_no_request, OPEN)
{
	refused(hosts[0].weir, weir_ibarrier(hosts[0].weir, NULL), "request is NULL");
}

/* A control API with no place for the first ones, which it sends away without a word. */
struct crowd {
	int fd;
	unsigned int away;
};

static void *
send_away(void *argument)
{
	static const char answer[] =
		"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 47\r\n\r\n"
		"{\"error\":{\"code\":\"unknown_job\",\"message\":\"no\"}}";
	struct crowd *crowd = argument;
	char request[4096];
	int fd;

	while ((fd = accept(crowd->fd, NULL, NULL)) >= 0) {
		if (crowd->away > 0)
			crowd->away--;
		else if (recv(fd, request, sizeof(request), 0) > 0)
			(void)!write(fd, answer, sizeof(answer) - 1);
		close(fd);
	}
	return NULL;
}

static void
join_in_a_crowd(unsigned int away, int wanted, const char *text)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct crowd crowd = {.fd = socket(AF_INET, SOCK_STREAM, 0), .away = away};
	struct weir_config config = {
		.address = "127.0.0.1", .job_name = "x", .source = 0, .sources = 1};
	socklen_t size = sizeof(at);
	struct weir *weir;
	pthread_t thread;
	char control[40];
	int code;

	cr_assert_eq(bind(crowd.fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(crowd.fd, 8), 0);
	cr_assert_eq(getsockname(crowd.fd, (struct sockaddr *)&at, &size), 0);
	cr_assert_eq(pthread_create(&thread, NULL, send_away, &crowd), 0);
	snprintf(control, sizeof(control), "http://127.0.0.1:%u", ntohs(at.sin_port));
	config.control = control;
	code = weir_open(&config, &weir);
	shutdown(crowd.fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(crowd.fd);
	if (code != -EOPNOTSUPP) { /* built without the control API */
		cr_expect_eq(code, wanted, "%d: %s", code, weir_last_error(weir));
		cr_expect_not_null(
			strstr(weir_last_error(weir), text), "%s", weir_last_error(weir));
	}
	weir_close(weir);
}

Test(weir_careless, all_join_at_once, .timeout = 90)
{
	join_in_a_crowd(3, -ENOENT, "HTTP status 404");
}

Test(weir_careless, server_that_closes_connections_is_named, .timeout = 90)
{
	join_in_a_crowd(UINT_MAX, -EPROTO, "closes the connection");
}

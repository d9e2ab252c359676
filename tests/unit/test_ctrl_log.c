/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines: their form in both places, levels, limits, and that nobody forges one. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <rte_log.h>

#include "ctrl/log.h"

static int pipe_fd[2];
static char got[8 * CTRL_LOG_LINE_BYTES];

static void
setup(void)
{
	cr_assert_eq(pipe(pipe_fd), 0);
	ctrl_log_to(pipe_fd[1], true);
}

/* All that was written, once. */
static const char *
read_all(void)
{
	ssize_t length;

	close(pipe_fd[1]);
	length = read(pipe_fd[0], got, sizeof(got) - 1);
	cr_assert_geq(length, 0);
	got[length] = '\0';
	return got;
}

static struct ctrl_log_config
levels(uint32_t level)
{
	struct ctrl_log_config config;

	for (int i = 0; i < CTRL_LOG_MODULE_COUNT; i++)
		config.level[i] = level;
	return config;
}

Test(ctrl_log, a_line_for_the_journal, .timeout = 90, .init = setup)
{
	ctrl_log(CTRL_LOG_API, RTE_LOG_WARNING, "request refused", "status=%d path=%s", 404,
		ctrl_log_quote("/v1/x y").text);
	cr_assert_str_eq(read_all(),
		"<4>level=warning module=api msg=\"request refused\" status=404 path=\"/v1/x "
		"y\"\n");
}

Test(ctrl_log, a_line_with_a_time, .timeout = 90, .init = setup)
{
	int year, month, day, hour, minute, second, ms, end = 0;

	ctrl_log_to(pipe_fd[1], false);
	ctrl_log(CTRL_LOG_SWITCH, RTE_LOG_NOTICE, "ready", "");
	cr_assert_eq(sscanf(read_all(), "time=%d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &year, &month, &day,
			     &hour, &minute, &second, &ms, &end),
		7, "%s", got);
	cr_assert_str_eq(got + end, "level=notice module=switch msg=\"ready\"\n");
}

Test(ctrl_log, each_room_has_its_level, .timeout = 90, .init = setup)
{
	struct ctrl_log_config config = levels(RTE_LOG_NOTICE);

	config.level[CTRL_LOG_API] = RTE_LOG_DEBUG;
	config.level[CTRL_LOG_CTRL] = RTE_LOG_ERR;
	ctrl_log_set_levels(&config);
	ctrl_log(CTRL_LOG_API, RTE_LOG_DEBUG, "one", "");
	ctrl_log(CTRL_LOG_CTRL, RTE_LOG_WARNING, "two", "");
	ctrl_log(CTRL_LOG_SWITCH, RTE_LOG_INFO, "three", "n=%d", 3);
	ctrl_log(CTRL_LOG_CTRL, RTE_LOG_ERR, "four", "");
	cr_assert_str_eq(read_all(),
		"<7>level=debug module=api msg=\"one\"\n<3>level=error module=ctrl msg=\"four\"\n");
}

Test(ctrl_log, a_change_is_written_at_any_level, .timeout = 90, .init = setup)
{
	struct ctrl_log_config config = levels(RTE_LOG_ERR);
	const char *root = "uid=0 pid=4711";
	const char *team = "tenant=\"team a\" address=[::1]:80";

	ctrl_log_set_levels(&config);
	ctrl_log_change(root, "job created", "job=%s size=%u", "ring", 4);
	ctrl_log_change(team, "job deleted", "job=%s", "ring");
	cr_assert_str_eq(read_all(),
		"<5>level=notice module=ctrl msg=\"job created\" uid=0 pid=4711 job=ring size=4\n"
		"<5>level=notice module=ctrl msg=\"job deleted\" tenant=\"team a\" "
		"address=[::1]:80 "
		"job=ring\n");
}

Test(ctrl_log, values, .timeout = 90)
{
	char long_text[400], *end;
	struct ctrl_log_value value;

	cr_assert_str_eq(ctrl_log_quote("10.77.0.1").text, "10.77.0.1");
	cr_assert_str_eq(ctrl_log_quote("").text, "\"\"");
	cr_assert_str_eq(ctrl_log_quote("a=b").text, "\"a=b\"");
	cr_assert_str_eq(ctrl_log_quote("a\"b\\c\n\x1b").text, "\"a\\\"b\\\\c\\x0a\\x1b\"");
	cr_assert_str_eq(ctrl_log_quote("\xc2\x9b").text, "\"\\xc2\\x9b\"");
	for (int c = 1; c < 256; c++) {
		memset(long_text, c, sizeof(long_text) - 1);
		long_text[sizeof(long_text) - 1] = '\0';
		value = ctrl_log_quote(long_text);
		cr_assert_leq(strlen(value.text), 120, "0x%02x", c);
		end = value.text + strlen(value.text);
		cr_assert_str_eq(end - 4, "...\"", "0x%02x", c);
	}
}

Test(ctrl_log, control_characters_are_replaced, .timeout = 90, .init = setup)
{
	ctrl_log(CTRL_LOG_API, RTE_LOG_ERR, "bad", "name=%s", "x\n<0>forged\x1b[2J\x7f\x9b\xff");
	cr_assert_str_eq(
		read_all(), "<3>level=error module=api msg=\"bad\" name=x?<0>forged?[2J???\n");
}

/* glibc 2.37 and later writes what is logged in pieces. */
Test(ctrl_log, a_message_in_pieces_is_one_line, .timeout = 90, .init = setup)
{
	static const char line[] = "EAL: one line\nEAL: another\n";

	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "EAL: begins, ");
	for (const char *piece = line; *piece != '\0'; piece++)
		fputc(*piece, rte_log_get_stream());
	cr_assert_str_eq(read_all(),
		"<3>level=error module=dpdk msg=\"EAL: begins, EAL: one line\"\n"
		"<3>level=error module=dpdk msg=\"EAL: another\"\n");
}

Test(ctrl_log, a_long_line_is_cut_and_says_so, .timeout = 90, .init = setup)
{
	char text[3000];
	size_t length;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ctrl_log(CTRL_LOG_API, RTE_LOG_ERR, "long", "a=%s b=%d", text, 7);
	length = strlen(read_all());
	cr_assert_leq(length, CTRL_LOG_LINE_BYTES);
	cr_assert_str_eq(got + length - strlen("xx truncated=1\n"), "xx truncated=1\n");
}

Test(ctrl_log, a_bucket_empties_and_fills, .timeout = 90)
{
	struct ctrl_log_limit limit = {0};
	unsigned int passed = 0;

	for (int i = 0; i < 100; i++)
		passed += ctrl_log_allow(&limit, 5);
	cr_assert_eq(passed, CTRL_LOG_BURST);
	cr_assert_eq(limit.suppressed, 100 - CTRL_LOG_BURST);
	/* One more an interval, to the millisecond. */
	cr_assert_not(ctrl_log_allow(&limit, 5 + CTRL_LOG_INTERVAL_MS - 1));
	cr_assert(ctrl_log_allow(&limit, 5 + CTRL_LOG_INTERVAL_MS));
	cr_assert_not(ctrl_log_allow(&limit, 5 + CTRL_LOG_INTERVAL_MS));
	/* After a long silence no more than a burst. */
	for (int i = passed = 0; i < 100; i++)
		passed += ctrl_log_allow(&limit, 1000000000);
	cr_assert_eq(passed, CTRL_LOG_BURST);
}

Test(ctrl_log, the_next_line_tells_what_was_suppressed, .timeout = 90, .init = setup)
{
	struct ctrl_log_limit limit = {.full_at_ms = UINT64_MAX / 2};

	for (int i = 0; i < 3; i++)
		ctrl_log_limited(&limit, CTRL_LOG_API, RTE_LOG_ERR, "hot", "n=%d", i);
	limit.full_at_ms = 0;
	ctrl_log_limited(&limit, CTRL_LOG_API, RTE_LOG_ERR, "hot", "n=%d", 3);
	ctrl_log_limited(&limit, CTRL_LOG_API, RTE_LOG_ERR, "hot", "n=%d", 4);
	cr_assert_str_eq(read_all(),
		"<3>level=error module=api msg=\"hot\" n=3 suppressed=3\n"
		"<3>level=error module=api msg=\"hot\" n=4\n");
}

Test(ctrl_log, each_site_has_its_limit, .timeout = 90, .init = setup)
{
	unsigned int lines = 0;

	for (int i = 0; i < 3 * CTRL_LOG_BURST; i++) {
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_API, RTE_LOG_ERR, "a", "n=%d", i);
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_API, RTE_LOG_ERR, "b", "n=%d", i);
	}
	for (const char *p = read_all(); (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	/* One more each if a second passed meanwhile. */
	cr_assert(lines >= 2 * CTRL_LOG_BURST && lines <= 2 * CTRL_LOG_BURST + 4, "%u", lines);
}

Test(ctrl_log, a_change_may_have_a_limit, .timeout = 90, .init = setup)
{
	const char *who = "uid=7 pid=8";
	struct ctrl_log_limit limit = {.full_at_ms = UINT64_MAX / 2};

	ctrl_log_change_limited(&limit, who, "joined", "n=%d", 0);
	ctrl_log_change_limited(&limit, who, "joined", "n=%d", 1);
	limit.full_at_ms = 0;
	ctrl_log_change_limited(&limit, who, "joined", "n=%d", 2);
	cr_assert_str_eq(read_all(),
		"<5>level=notice module=ctrl msg=\"joined\" uid=7 pid=8 n=2 suppressed=2\n");
}

Test(ctrl_log, rte_log_has_the_same_form, .timeout = 90, .init = setup)
{
	int type = rte_log_register("weir.rmw");

	rte_log(RTE_LOG_WARNING, (uint32_t)type, "rmw: \"%s\"\nand more\n", "x");
	rte_log(RTE_LOG_EMERG, RTE_LOGTYPE_EAL, "EAL: no\tmemory\n");
	cr_assert_str_eq(read_all(),
		"<4>level=warning module=rmw msg=\"rmw: \\\"x\\\"\"\n"
		"<4>level=warning module=rmw msg=\"and more\"\n"
		"<3>level=error module=dpdk msg=\"EAL: no?memory\"\n");
}

/* Text from outside may be in a driver's message, too. */
Test(ctrl_log, a_message_cannot_forge_fields, .timeout = 90, .init = setup)
{
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "EAL: a\nmsg=\"b\" uid=0\n");
	cr_assert_str_eq(read_all(),
		"<3>level=error module=dpdk msg=\"EAL: a\"\n"
		"<3>level=error module=dpdk msg=\"msg=\\\"b\\\" uid=0\"\n");
}

Test(ctrl_log, rte_log_is_limited, .timeout = 90, .init = setup)
{
	unsigned int lines = 0;

	for (int i = 0; i < 100; i++)
		rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "EAL: again\n");
	for (const char *p = read_all(); (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	cr_assert(lines >= CTRL_LOG_BURST && lines <= CTRL_LOG_BURST + 2, "%u", lines);
}

Test(ctrl_log, levels_reach_rte_log, .timeout = 90)
{
	struct ctrl_log_config config = levels(RTE_LOG_NOTICE);
	int type = rte_log_register("weir.rmw");
	int quiet = rte_log_register("some.driver"), quieter = rte_log_register("quiet.driver");

	/* As with EAL's --log-level=warning. */
	rte_log_set_global_level(RTE_LOG_WARNING);
	rte_log_set_level((uint32_t)quiet, RTE_LOG_INFO);
	rte_log_set_level((uint32_t)quieter, RTE_LOG_CRIT);
	config.level[CTRL_LOG_RMW] = RTE_LOG_DEBUG;
	ctrl_log_set_levels(&config);
	cr_assert(rte_log_can_log((uint32_t)type, RTE_LOG_DEBUG));
	cr_assert(rte_log_can_log((uint32_t)quiet, RTE_LOG_WARNING));
	cr_assert_not(rte_log_can_log((uint32_t)quiet, RTE_LOG_NOTICE));
	cr_assert_not(rte_log_can_log((uint32_t)quieter, RTE_LOG_ERR));
	config.level[CTRL_LOG_RMW] = RTE_LOG_ERR;
	ctrl_log_set_levels(&config);
	cr_assert_not(rte_log_can_log((uint32_t)type, RTE_LOG_WARNING));
	cr_assert(rte_log_can_log((uint32_t)quiet, RTE_LOG_WARNING));
	cr_assert_not(rte_log_can_log((uint32_t)quiet, RTE_LOG_NOTICE));
}

/* -- the lines in memory */

static void
expect_kept(uint64_t *number, uint64_t expected, const char *end)
{
	char text[CTRL_LOG_LINE_BYTES];

	cr_assert(ctrl_log_read(number, text));
	cr_assert_eq((*number)++, expected);
	cr_assert_eq(strncmp(text, "time=2", 6), 0, "%s", text);
	cr_assert_str_eq(strstr(text, "Z level=") + 2, end);
}

Test(ctrl_log, lines_are_kept, .timeout = 90, .init = setup)
{
	char text[CTRL_LOG_LINE_BYTES], last[128];
	uint64_t number = 0;

	cr_assert_not(ctrl_log_read(&number, text));
	ctrl_log(CTRL_LOG_API, RTE_LOG_ERR, "one", "n=1");
	ctrl_log(CTRL_LOG_API, RTE_LOG_DEBUG, "not logged", "");
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "EAL: two\n");
	expect_kept(&number, 0, "level=error module=api msg=\"one\" n=1");
	expect_kept(&number, 1, "level=error module=dpdk msg=\"EAL: two\"");
	cr_assert_not(ctrl_log_read(&number, text));
	cr_assert_eq(number, 2);
	/* More than there is room for, also in the pipe: line n has number 2 + n. */
	for (unsigned int n = 0; n < 10 * CTRL_LOG_KEPT; n++)
		ctrl_log(CTRL_LOG_API, RTE_LOG_ERR, "many", "n=%u", n);
	for (unsigned int n = 9 * CTRL_LOG_KEPT; n < 10 * CTRL_LOG_KEPT; n++) {
		snprintf(last, sizeof(last), "level=error module=api msg=\"many\" n=%u", n);
		expect_kept(&number, 2 + n, last);
	}
	cr_assert_not(ctrl_log_read(&number, text));
	/* The last line that is kept no longer. */
	number = 9 * CTRL_LOG_KEPT + 1;
	cr_assert(ctrl_log_read(&number, text));
	cr_assert_eq(number, 9 * CTRL_LOG_KEPT + 2);
	/* A number of a former run of the switch, which logged more. */
	number = 100 * CTRL_LOG_KEPT;
	cr_assert(ctrl_log_read(&number, text));
	cr_assert_eq(number, 9 * CTRL_LOG_KEPT + 2);
}

/* As many lines of this module as half of those kept. */
static void *
log_half(void *module)
{
	for (unsigned int n = 0; n < CTRL_LOG_KEPT / 2; n++)
		if (module != NULL)
			ctrl_log(CTRL_LOG_API, RTE_LOG_ERR, "a", "n=%u of=%s", n,
				(const char *)module);
		else
			rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_EAL, "EAL: %u\n", n);
	return NULL;
}

/* Threads at once: each line is whole, and has the module and the level of its own message. */
Test(ctrl_log, threads_do_not_mix_lines, .timeout = 90, .init = setup)
{
	char text[CTRL_LOG_LINE_BYTES];
	unsigned int seen[2] = {0}, n;
	uint64_t number = 0;
	pthread_t other;

	cr_assert_eq(pthread_create(&other, NULL, log_half, NULL), 0);
	log_half((char[]){"api"});
	pthread_join(other, NULL);
	for (; ctrl_log_read(&number, text); number++)
		if (sscanf(text, "%*s level=error module=api msg=\"a\" n=%u of=api", &n) == 1)
			cr_assert_eq(n, seen[0]++, "%s", text);
		else if (sscanf(text, "%*s level=notice module=dpdk msg=\"EAL: %u\"", &n) == 1)
			cr_assert_eq(n, seen[1]++, "%s", text);
		else
			cr_assert_fail("%s", text);
	cr_assert_eq(seen[0] + seen[1], CTRL_LOG_KEPT);
}

/* -- nobody reads */

/* More lines than there is room for: none waits. Then all that came is read, and there is room
 * again. */
static void
nobody_reads(int to, int from)
{
	char text[1 << 14], *last;
	size_t room = 0;
	ssize_t part;

	ctrl_log_to(to, true);
	for (unsigned int i = 0; i < 20000; i++)
		ctrl_log(CTRL_LOG_CTRL, RTE_LOG_ERR, "many", "n=%u", i);
	cr_assert_eq(fcntl(from, F_SETFL, O_NONBLOCK), 0);
	while (read(from, text, sizeof(text)) > 0)
		;
	ctrl_log(CTRL_LOG_CTRL, RTE_LOG_ERR, "after", "n=1");
	ctrl_log(CTRL_LOG_CTRL, RTE_LOG_ERR, "again", "n=1");
	close(to);
	while ((part = read(from, text + room, sizeof(text) - 1 - room)) > 0)
		room += (size_t)part;
	text[room] = '\0';
	last = strstr(text, "msg=\"after\" n=1 lost=");
	cr_assert_not_null(last, "%s", text);
	cr_assert_gt(atoi(strstr(last, "lost=") + 5), 1000);
	cr_assert_null(strstr(strchr(last, '\n'), "lost="), "told twice: %s", last);
	cr_assert_not_null(strstr(last, "\n<3>level=error module=ctrl msg=\"again\" n=1\n"));
}

Test(ctrl_log, a_pipe_that_nobody_reads, .timeout = 90)
{
	int pipes[2];

	cr_assert_eq(pipe(pipes), 0);
	nobody_reads(pipes[1], pipes[0]);
}

Test(ctrl_log, a_socket_that_nobody_reads, .timeout = 90)
{
	int sockets[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	nobody_reads(sockets[1], sockets[0]);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles that open while the application goes on: weir_iopen, weir_open_test. */
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/libweir/work.h"
#include "tests/unit/hosts.h"

#define SOURCES 4

static int
open_end(struct weir *weir)
{
	bool done = false;
	int code = 0;

	while (!done) {
		code = weir_open_test(weir, &done);
		sched_yield();
	}
	return code;
}

static void
begin_opening(unsigned int n)
{
	serve(SOURCES);
	for (unsigned int h = 0; h < n; h++)
		cr_assert_eq(weir_iopen(&hosts[h].config, &hosts[h].weir), 0);
}

/* One thread opens all sources of a job: no call waits for another source, and the configuration
 * and its strings may go as soon as the call returns. */
Test(weir_iopen, one_thread_opens_all, .timeout = 90)
{
	struct weir_request *requests[SOURCES];
	int32_t data[SOURCES];

	begin_opening(0);
	for (unsigned int h = 0; h < SOURCES; h++) {
		char text[2][INET_ADDRSTRLEN];
		struct weir_config config = hosts[h].config;

		strcpy(text[0], config.switch_address);
		strcpy(text[1], config.address);
		config.switch_address = text[0];
		config.address = text[1];
		cr_assert_eq(weir_iopen(&config, &hosts[h].weir), 0);
		memset(text, 'x', sizeof(text));
		memset(&config, 'x', sizeof(config));
	}
	for (unsigned int h = SOURCES; h-- > 0;)
		cr_assert_eq(open_end(hosts[h].weir), 0, "%s", weir_last_error(hosts[h].weir));
	for (unsigned int h = 0; h < SOURCES; h++) {
		data[h] = (int32_t)h + 1;
		cr_assert_eq(weir_iallreduce(hosts[h].weir, &data[h], &data[h], 1, WEIR_DTYPE_INT32,
				     WEIR_OP_SUM, &requests[h]),
			0);
	}
	cr_assert_eq(weir_wait_all(requests, SOURCES), 0);
	for (unsigned int h = 0; h < SOURCES; h++)
		cr_expect_eq(data[h], 1 + 2 + 3 + 4);
	close_handles();
}

/* Is its descriptor, within so many ms? */
static bool
readable(struct weir *weir, int ms)
{
	struct pollfd p = {.fd = weir_fd(weir), .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* What is wrong with the configuration is known at once. */
Test(weir_iopen, a_wrong_configuration, .timeout = 90)
{
	struct weir *weir;
	bool done = false;

	cr_assert_eq(weir_iopen(&(struct weir_config){.switch_address = "x"}, &weir), -EINVAL);
	cr_assert(strstr(weir_last_error(weir), "\"x\" is not an IPv4 address") != NULL);
	cr_assert_eq(weir_open_test(weir, &done), -EINVAL);
	cr_assert(done);
	weir_close(weir);
	cr_assert_eq(weir_open_test(NULL, &done), -EINVAL);
}

/* Other calls are refused until it has ended, in a child process too. */
Test(weir_iopen, refuses_calls, .timeout = 90)
{
	int32_t data = 0;
	bool done = true;
	int status;
	pid_t child;

	begin_opening(1);
	cr_assert_not(readable(hosts[0].weir, 0));
	cr_assert_eq(weir_open_test(hosts[0].weir, &done), 0);
	cr_assert_not(done);
	cr_assert_eq(weir_allreduce(hosts[0].weir, &data, &data, 1, WEIR_DTYPE_INT32, WEIR_OP_SUM),
		-EBUSY);
	cr_assert(strstr(weir_last_error(hosts[0].weir), "weir_iopen() is under way") != NULL);
	cr_assert_eq(weir_rejoin(hosts[0].weir), -EBUSY);
	child = fork();
	if (child == 0) {
		bool good = weir_open_test(hosts[0].weir, &done) == -EINVAL && done;

		weir_close(hosts[0].weir);
		/* The child has a control thread of its own. */
		good &= weir_iopen(&hosts[1].config, &hosts[1].weir) == 0;
		good &= weir_open_test(hosts[1].weir, &done) == 0 && !done;
		weir_close(hosts[1].weir);
		_exit(good ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	close_handles();
}

/* A handle that is still opening may be closed, and opened again. */
Test(weir_iopen, closed_while_it_opens, .timeout = 90)
{
	begin_opening(1);
	weir_close(hosts[0].weir);
	for (unsigned int h = 0; h < SOURCES; h++)
		cr_assert_eq(weir_iopen(&hosts[h].config, &hosts[h].weir), 0);
	for (unsigned int h = 0; h < SOURCES; h++)
		cr_assert_eq(open_end(hosts[h].weir), 0, "%s", weir_last_error(hosts[h].weir));
	close_handles();
}

/* It fails as weir_open does, and says so as often as it is asked. */
Test(weir_iopen, fails_as_weir_open, .timeout = 90)
{
	begin_opening(0);
	hosts[0].config.join_timeout_ms = 100;
	cr_assert_eq(weir_iopen(&hosts[0].config, &hosts[0].weir), 0);
	cr_assert(readable(hosts[0].weir, 60000));
	cr_assert_eq(open_end(hosts[0].weir), -ETIMEDOUT);
	cr_assert_not(readable(hosts[0].weir, 0));
	cr_assert(strstr(weir_last_error(hosts[0].weir), "job 3") != NULL, "%s",
		weir_last_error(hosts[0].weir));
	cr_assert_eq(open_end(hosts[0].weir), -ETIMEDOUT);
	close_handles();
}

/* ---- the end of the process ---- */

static bool thread_gone;

/* Of another library, as OpenSSL's is: it takes longer than an exit that does not wait. */
static void
destroy_value(void *value)
{
	(void)value;
	usleep(100000);
	thread_gone = true;
}

static void
leave_value(struct weir_work *work)
{
	pthread_key_t key;

	if (pthread_key_create(&key, destroy_value) == 0)
		pthread_setspecific(key, work);
}

static void
end_child(void)
{
	_exit(thread_gone ? 0 : 1);
}

/* With all that other libraries do when a thread ends. */
Test(weir_iopen, the_control_thread_ends_before_the_process, .timeout = 90)
{
	struct weir_work work = {.run = leave_value, .fd = -1, .delays_exit = true};
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		if (atexit(end_child) != 0 || weir_work_submit(&work, 0) < 0)
			_exit(2);
		exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread of libweir: one for all handles of a process, and callers that drive without
 * it. Against the reference switch, over loopback UDP. The test can hold the progress thread
 * (epoll_wait is watched), so that what then makes progress is the caller.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/libweir/weir.h"
#include "tests/model/fake_switch.h"

#define JOBS    3
#define SOURCES 90 /* of each job: 270 handles */
#define HANDLES (JOBS * SOURCES)

static struct fake_switch *fakes[JOBS];
static struct weir *handles[HANDLES];
static struct weir_request *requests[HANDLES];
static int32_t data[HANDLES][40];

static atomic_bool held; /* the progress thread waits in epoll_wait() until it is not */

int __real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int timeout);

int
__wrap_epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
	int found = __real_epoll_wait(fd, events, n, timeout);

	while (atomic_load(&held))
		sched_yield();
	return found;
}

static unsigned int
threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned int n = 0;

	for (struct dirent *d; (d = readdir(tasks)) != NULL;)
		n += d->d_name[0] != '.';
	closedir(tasks);
	return n;
}

/* Wait until there are so many, or fewer. (A thread that was joined is listed for a moment.) */
static bool
threads_become(unsigned int most)
{
	for (unsigned int i = 0; i < 10000; i++) {
		if (threads() <= most)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return false;
}

/* Start a switch for one job. */
static void
start_switch(unsigned int job, unsigned int sources, uint32_t timeout_ms)
{
	const struct fake_switch_config c = {.address = "127.0.0.1",
		.job = {.job = (uint8_t)job,
			.sources = sources,
			.window = 4,
			.elements = 16,
			.dtype = WEIR_DTYPE_INT32,
			.timeout_ms = timeout_ms}};

	cr_assert_eq(fake_switch_start(&c, &fakes[job]), 0);
}

static struct weir_config
config(unsigned int job, unsigned int source)
{
	return (struct weir_config){
		.switch_address = "127.0.0.1",
		.address = "127.0.0.9",
		.port_base = fake_switch_port(fakes[job], false),
		.port_ext = fake_switch_port(fakes[job], true),
		.job = (uint8_t)job,
		.source = (int)source,
		.join_timeout_ms = 60000,
		.op_timeout_ms = 60000,
		.silence_timeout_ms = 30000,
	};
}

/* weir_iopen() succeeds. */
static void
await_open(struct weir *weir)
{
	struct pollfd p = {.fd = weir_fd(weir), .events = POLLIN};
	bool done;

	cr_assert_eq(poll(&p, 1, 60000), 1);
	cr_assert_eq(weir_open_test(weir, &done), 0, "%s", weir_last_error(weir));
	cr_assert(done);
}

static void
open_all(void)
{
	for (unsigned int i = 0; i < HANDLES; i++) {
		struct weir_config c = config(i / SOURCES, i % SOURCES);

		cr_assert_eq(weir_iopen(&c, &handles[i]), 0, "%s", weir_last_error(handles[i]));
	}
	for (unsigned int i = 0; i < HANDLES; i++)
		await_open(handles[i]);
}

/* One operation on each, of several windows. */
static void
begin_all(void)
{
	for (unsigned int i = 0; i < HANDLES; i++) {
		for (unsigned int k = 0; k < 40; k++)
			data[i][k] = (int32_t)(i % SOURCES + k);
		cr_assert_eq(weir_iallreduce(handles[i], data[i], data[i], 40, WEIR_DTYPE_INT32,
				     WEIR_OP_SUM, &requests[i]),
			0);
	}
}

static void
check_all(void)
{
	for (unsigned int i = 0; i < HANDLES; i++)
		for (unsigned int k = 0; k < 40; k++)
			cr_assert_eq(
				data[i][k], (int32_t)(SOURCES * (SOURCES - 1) / 2 + SOURCES * k));
}

Test(weir_loop, has_one_thread_for_270_handles, .timeout = 120)
{
	unsigned int before;

	for (unsigned int job = 0; job < JOBS; job++)
		start_switch(job, SOURCES, 5000);
	before = threads();
	open_all();
	begin_all();
	cr_expect_eq(weir_wait_all(requests, HANDLES), 0);
	check_all();
	/* The control thread, which opened them, may still be there. */
	cr_expect_leq(threads(), before + 2);
	/* Nobody waits: the thread alone makes progress. */
	begin_all();
	for (unsigned int i = 0; i < HANDLES; i++) {
		struct pollfd p = {.fd = weir_fd(handles[i]), .events = POLLIN};

		cr_assert_eq(poll(&p, 1, 60000), 1);
		cr_expect_eq(weir_wait(&requests[i]), 0);
	}
	check_all();
	for (unsigned int i = 0; i < HANDLES; i++)
		weir_close(handles[i]);
	cr_expect(threads_become(before), "%u threads", threads());
	for (unsigned int job = 0; job < JOBS; job++)
		fake_switch_stop(fakes[job], NULL);
}

/* Open the handle of a job of one source. */
static void
open_one(unsigned int job)
{
	struct weir_config c = config(job, 0);

	cr_assert_eq(weir_open(&c, &handles[job]), 0, "%s", weir_last_error(handles[job]));
}

static bool
sums(struct weir *weir)
{
	int32_t one[40] = {1};

	return weir_allreduce(weir, one, one, 40, WEIR_DTYPE_INT32, WEIR_OP_SUM) == 0 &&
		one[0] == 1;
}

Test(weir_loop, the_thread_lives_from_the_first_handle_to_the_last, .timeout = 90)
{
	unsigned int before;

	start_switch(0, 1, 5000);
	start_switch(1, 1, 5000);
	before = threads();
	for (unsigned int again = 0; again < 3; again++) {
		open_one(0);
		open_one(1);
		cr_expect_eq(threads(), before + 1);
		weir_close(handles[0]);
		cr_expect(sums(handles[1]));
		cr_expect_eq(threads(), before + 1);
		weir_close(handles[1]);
		cr_expect(threads_become(before));
	}
	fake_switch_stop(fakes[0], NULL);
	fake_switch_stop(fakes[1], NULL);
}

/* A child has neither the thread nor its descriptors, and starts its own. */
Test(weir_loop, a_child_has_a_thread_of_its_own, .timeout = 90)
{
	int status = -1;
	pid_t child;

#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("AddressSanitizer's allocator may be locked by another thread at the fork");
#endif
	start_switch(0, 1, 5000);
	start_switch(1, 1, 5000);
	open_one(0);
	child = fork();
	if (child == 0) {
		bool good = threads() == 1;

		weir_close(handles[0]);
		open_one(1);
		good &= threads() == 2 && sums(handles[1]);
		weir_close(handles[1]);
		_exit(good ? 0 : 1);
	}
	cr_expect_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect(sums(handles[0]), "the parent's goes on");
	weir_close(handles[0]);
	fake_switch_stop(fakes[0], NULL);
	fake_switch_stop(fakes[1], NULL);
}

/* Without the progress thread: operations of several windows, some packets lost. */
static void
drive(bool (*wait)(struct weir_request **request))
{
	const struct fake_switch_config c = {.address = "127.0.0.1",
		.loss = 0.05,
		.seed = 1,
		.job = {.sources = 1,
			.window = 4,
			.elements = 16,
			.dtype = WEIR_DTYPE_INT32,
			.timeout_ms = 5000}};

	cr_assert_eq(fake_switch_start(&c, &fakes[0]), 0);
	open_one(0);
	atomic_store(&held, true);
	for (unsigned int again = 0; again < 50; again++) {
		int32_t *d = data[again];

		d[39] = (int32_t)again;
		cr_assert_eq(weir_iallreduce(handles[0], d, d, 40, WEIR_DTYPE_INT32, WEIR_OP_SUM,
				     &requests[0]),
			0);
		cr_assert(wait(&requests[0]), "%s", weir_last_error(handles[0]));
		cr_assert_eq(d[39], (int32_t)again);
	}
	atomic_store(&held, false);
	weir_close(handles[0]);
	fake_switch_stop(fakes[0], NULL);
}

static bool
by_tests(struct weir_request **request)
{
	bool done = false;

	for (time_t end = time(NULL) + 60; !done && time(NULL) < end;)
		if (weir_test(request, &done) != 0)
			return false;
	return done;
}

static bool
by_waits(struct weir_request **request)
{
	bool done = false;

	for (time_t end = time(NULL) + 60; !done && time(NULL) < end;)
		if (weir_wait_for(request, 1, &done) != 0)
			return false;
	return done;
}

Test(weir_loop, a_caller_that_tests_drives, .timeout = 90)
{
	drive(by_tests);
}

Test(weir_loop, a_caller_that_waits_for_a_while_drives, .timeout = 90)
{
	drive(by_waits);
}

/* Both hosts of a job, with a limit of silence. */
static void
open_two(unsigned int op_timeout_ms)
{
	start_switch(0, 2, 200);
	for (unsigned int source = 0; source < 2; source++) {
		struct weir_config c = config(0, source);

		c.silence_timeout_ms = 2500;
		c.op_timeout_ms = op_timeout_ms;
		cr_assert_eq(weir_iopen(&c, &handles[source]), 0);
	}
	await_open(handles[0]);
	await_open(handles[1]);
}

/* Each contributes 1 to element 0. */
static void
begin_one(unsigned int i)
{
	data[i][0] = 1;
	cr_assert_eq(weir_iallreduce(handles[i], data[i], data[i], 1, WEIR_DTYPE_INT32, WEIR_OP_SUM,
			     &requests[i]),
		0);
}

static void
close_two(void)
{
	weir_close(handles[0]);
	weir_close(handles[1]);
	fake_switch_stop(fakes[0], NULL);
}

/* Host 1 has not called: the switch says so, and that is no silence. Then it is silent. */
Test(weir_loop, silence_is_no_answer_at_all, .timeout = 90)
{
	struct weir_stats s = {0};
	bool done = false;

	open_two(60000);
	begin_one(0);
	/* With back-off, 45 probes take longer than that. */
	while (s.probes < 46) {
		cr_assert_eq(weir_wait_for(&requests[0], 100, &done), 0, "%s",
			weir_last_error(handles[0]));
		cr_assert_not(done);
		weir_stats(handles[0], &s);
	}
	fake_switch_mute(fakes[0], true);
	cr_expect_eq(weir_wait(&requests[0]), -ETIMEDOUT);
	cr_expect_not_null(strstr(weir_last_error(handles[0]), "has not answered source 0"), "%s",
		weir_last_error(handles[0]));
	close_two();
}

/* Stop this process for some seconds, with the fake switch in it. */
static void
pause_process(unsigned int seconds)
{
	pid_t parent = getpid(), child = fork();
	int status;

	cr_assert_geq(child, 0);
	if (child == 0) {
		kill(parent, SIGSTOP);
		sleep(seconds);
		_exit(kill(parent, SIGCONT) != 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

/* As on a machine that was suspended. */
Test(weir_loop, a_stopped_process_takes_nobody_for_dead, .timeout = 90)
{
	bool done = false;

	open_two(7000);
	begin_one(0);
	cr_assert_eq(weir_wait_for(&requests[0], 1500, &done), 0);
	pause_process(8);
	cr_expect_eq(
		weir_wait_for(&requests[0], 1500, &done), 0, "%s", weir_last_error(handles[0]));
	cr_expect_not(done);
	begin_one(1);
	for (unsigned int i = 0; i < 2; i++) {
		cr_expect_eq(weir_wait(&requests[i]), 0, "%s", weir_last_error(handles[i]));
		cr_expect_eq(data[i][0], 2);
	}
	close_two();
}

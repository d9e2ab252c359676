/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who may do what with a handle of libweir, and who is told what: threads, children, a handle that
 * joins again. Against the reference switch, over loopback UDP.
 */
#include <sys/wait.h>
#include <unistd.h>

#define HOSTS 3
#define COUNT 200

#define HOST_FIELDS                                                                                \
	struct weir_request *request;                                                              \
	int32_t data[COUNT];
#include "tests/unit/hosts.h"

/* The handles are opened by other threads: to the main thread nothing has been said yet. */
static void
start(void)
{
	open_handles(HOSTS, 0, 0);
}

TestSuite(weir_handles, .init = start, .fini = close_handles, .timeout = 90);

/* Begin a sum. */
static int
sum(struct host *h)
{
	for (unsigned int i = 0; i < COUNT; i++)
		h->data[i] = (int32_t)(i + h->id);
	return weir_iallreduce(
		h->weir, h->data, h->data, COUNT, WEIR_DTYPE_INT32, WEIR_OP_SUM, &h->request);
}

/* Does a child wait for what its parent has begun? No. */
static bool
waits_for_inherited(struct weir *weir, struct weir_request *theirs)
{
	struct weir_request *requests[3] = {NULL, theirs, NULL};
	bool done = true;
	size_t which = 0;

	return weir_wait(&requests[1]) != -EINVAL ||
		strstr(weir_last_error(weir), "forked") == NULL ||
		weir_test(&requests[1], &done) != -EINVAL || done ||
		weir_wait_for(&requests[1], 1, &done) != -EINVAL || done ||
		weir_fd(weir) != -EINVAL || weir_wait_any(requests, 3, &which) != -EINVAL ||
		which != 3 || weir_wait_all(requests, 3) != -EINVAL || requests[1] != theirs;
}

/* What a child says of its parent's handle, as an exit status. */
static int
use_inherited(struct weir *weir, struct weir_request *theirs)
{
	const struct weir_degraded *blocks;
	struct weir_result result;
	struct weir_request *request;
	int data = 1;

	if (weir_allreduce(weir, &data, &data, 1, WEIR_DTYPE_INT32, WEIR_OP_SUM) != -EINVAL ||
		strstr(weir_last_error(weir), "forked") == NULL)
		return 1;
	if (weir_ibarrier(weir, &request) != -EINVAL || request != NULL)
		return 2;
	if (weir_rejoin(weir) != -EINVAL)
		return 3;
	if (waits_for_inherited(weir, theirs))
		return 4;
	weir_last_result(weir, &result);
	if (weir_degraded(weir, &blocks) != 0 || weir_error_feedback_forget(weir, NULL) != 0)
		return 5;
	weir_close(weir);
	return 0;
}

Test(weir_handles, inherited_handle_is_refused_in_a_child)
{
	pid_t child;
	int status;

	cr_assert_eq(sum(&hosts[0]), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		alarm(80);
		_exit(use_inherited(hosts[0].weir, hosts[0].request));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "the child: %#x", (unsigned int)status);
	for (unsigned int h = 1; h < HOSTS; h++)
		cr_assert_eq(sum(&hosts[h]), 0);
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_eq(weir_wait(&hosts[h].request), 0);
		for (unsigned int i = 0; i < COUNT; i++)
			cr_assert_eq(hosts[h].data[i], (int32_t)(HOSTS * i + 3));
	}
}

#define SAYS_NOTHING  1
#define SAYS_ANOTHERS 2

/* Another thread's view of handles that have failed to the main thread. */
static void *
fail_otherwise(void *argument)
{
	struct weir *weir = argument;

	if (weir_last_error(weir)[0] != '\0')
		return (void *)SAYS_NOTHING;
	(void)weir_broadcast(weir, NULL, NULL, 1, WEIR_DTYPE_FP32, HOSTS);
	if (strcmp(weir_last_error(weir), "root: 3 is not in [0, 3)") != 0)
		return (void *)SAYS_ANOTHERS;
	return NULL;
}

Test(weir_handles, a_text_is_the_thread_s_and_the_handle_s)
{
	static const char band[] = "band is for integers, not for fp32";
	struct weir *failed[12];
	struct weir *weir = hosts[1].weir;
	pthread_t thread;
	float data[1];
	void *said;

	cr_expect_str_eq(weir_last_error(weir), "");
	cr_expect_eq(weir_allreduce(weir, data, data, 1, WEIR_DTYPE_FP32, WEIR_OP_BAND), -EINVAL);
	cr_assert_eq(pthread_create(&thread, NULL, fail_otherwise, weir), 0);
	pthread_join(thread, &said);
	cr_expect_null(said, "it says another's: %d", (int)(intptr_t)said);
	cr_expect_str_eq(weir_last_error(weir), band);
	cr_expect_eq(weir_allreduce(weir, NULL, NULL, 0, WEIR_DTYPE_FP32, WEIR_OP_SUM), 0);
	cr_expect_str_eq(weir_last_error(weir), band, "nothing has failed since");
	for (unsigned int k = 0; k < 12; k++) {
		cr_assert_eq(
			weir_open(&(struct weir_config){.sources = 1000 + k}, &failed[k]), -EINVAL);
		if (k == 6)
			cr_expect_str_eq(weir_last_error(weir), band);
	}
	for (unsigned int k = 0; k < 12; k++) {
		char text[64];

		snprintf(text, sizeof(text), "sources: %u is not in [0, 256]", 1000 + k);
		cr_expect_str_eq(weir_last_error(failed[k]), k < 4 ? "" : text);
		weir_close(failed[k]);
	}
}

static void *
rejoin(void *argument)
{
	struct host *h = argument;

	h->code = weir_rejoin(h->weir);
	return NULL;
}

/* Nothing is begun, and nothing is told to have ended well. */
Test(weir_handles, calls_during_rejoin_are_busy)
{
	cr_assert_eq(pthread_create(&hosts[0].thread, NULL, rejoin, &hosts[0]), 0);
	for (unsigned int ms = 0; ms < 8000 && weir_sources(hosts[0].weir) != 0; ms++)
		sleep_ms(1);
	cr_assert_eq(weir_sources(hosts[0].weir), 0u);
	cr_expect_eq(weir_barrier(hosts[0].weir), -EBUSY);
	cr_expect_not_null(strstr(weir_last_error(hosts[0].weir), "weir_rejoin"));
	in_threads(1, HOSTS, rejoin);
	pthread_join(hosts[0].thread, NULL);
	for (unsigned int h = 0; h < HOSTS; h++)
		cr_expect_eq(hosts[h].code, 0, "host %u: %d", h, hosts[h].code);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A host that waits for long says for what and for whom; one that does not wait says nothing. */
#include <errno.h>

#include "tests/unit/hosts.h"

#define WAIT_MS 3300 /* longer than 3 s, and shorter than the 6 s of the next message */

static struct {
	unsigned int count;
	char text[1024];
} said[HOSTS_MAX];

static void
note(void *context, const char *text)
{
	const struct host *h = context;

	said[h->id].count++;
	snprintf(said[h->id].text, sizeof(said[h->id].text), "%s", text);
}

static int
join_alone(struct host *h)
{
	(void)h;
	return 0;
}

static int
sum_late(struct host *h)
{
	int32_t one = 1;

	if (h->id == 1)
		sleep_ms(WAIT_MS);
	return h->code = weir_allreduce(h->weir, &one, &one, 1, WEIR_DTYPE_INT32, WEIR_OP_SUM);
}

static void
run_noted(unsigned int n)
{
	memset(said, 0, sizeof(said));
	for (unsigned int h = 0; h < n; h++) {
		hosts[h].config.warn = note;
		hosts[h].config.warn_context = &hosts[h];
	}
	run_hosts(0, n);
	fake_switch_stop(fake, NULL);
}

Test(weir_waiting, a_join_says_who_is_missing_and_which_switch_is_silent, .timeout = 90)
{
	serve(3);
	for (unsigned int h = 0; h < 2; h++) {
		hosts[h].body = join_alone;
		hosts[h].config.join_timeout_ms = WAIT_MS;
	}
	hosts[1].config.switch_address = "127.0.0.99"; /* nobody is there */
	run_noted(2);
	cr_expect_eq(hosts[0].opened, -ETIMEDOUT, "%d", hosts[0].opened);
	cr_expect_eq(said[0].count, 1u, "%u", said[0].count);
	cr_expect(strstr(said[0].text, "missing: sources 1-2 (1 of 3 are in)") != NULL, "%s",
		said[0].text);
	cr_expect_eq(said[1].count, 1u, "%u", said[1].count);
	cr_expect(strstr(said[1].text, "switch at 127.0.0.99:") != NULL, "%s", said[1].text);
}

Test(weir_waiting, an_operation_says_who_is_missing, .timeout = 90)
{
	serve(2);
	hosts[0].body = hosts[1].body = sum_late;
	run_noted(2);
	cr_expect_eq(hosts[0].code, 0, "%d", hosts[0].code);
	cr_expect_eq(said[0].count, 1u, "%u", said[0].count);
	cr_expect(strstr(said[0].text, "missing: source 1 (1 of 2 are in)") != NULL, "%s",
		said[0].text);
	cr_expect_eq(said[1].count, 0u, "it did not wait, and said %s", said[1].text);
}

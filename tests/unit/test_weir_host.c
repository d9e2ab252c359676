/* SPDX-License-Identifier: BSD-3-Clause */
/* libweir's AllReduces and barriers against the reference switch, over loopback UDP. */
#include "tests/random.h"
#include "tests/unit/hosts.h"

/* So many right AllReduces on each of them. */
static void
reduce_on_all(size_t count, unsigned int rounds)
{
	for (unsigned int h = 0; h < hosts[0].hosts; h++)
		hosts[h].rounds = rounds;
	play(reduce, count);
	expect_right(hosts[0].hosts);
}

Test(weir_host, multicast_results, .timeout = 90)
{
	struct fake_switch_config c = switch_config(3);

	c.job.group = 0xefff0001; /* 239.255.0.1 */
	c.loss = 0.02;
	start_switch(&c);
	hosts[1].config.base_form = true;
	reduce_on_all(5000, 2);
}

Test(weir_host, first_window_lost_too, .timeout = 90)
{
	struct fake_switch_config c = switch_config(2);

	c.loss = 0.5;
	c.seed = random_seed();
	start_switch(&c);
	/* In 10 s a join is sent 25 times: of 1300 hosts one would have no answer. */
	for (unsigned int h = 0; h < 2; h++)
		hosts[h].config.join_timeout_ms = hosts[h].config.op_timeout_ms = 25000;
	reduce_on_all(300, 3);
	for (unsigned int h = 0; h < 2; h++) {
		cr_expect_eq(hosts[h].stats.results_ok, 3u * 5u, "host %u", h);
		cr_expect_gt(hosts[h].stats.retransmissions, 0u, "host %u", h);
	}
}

static int
window_of_three(struct host *h)
{
	h->wrong += weir_window(h->weir) != 2;
	h->wrong += weir_elements(h->weir, WEIR_DTYPE_FP64) != 32;
	h->wrong += weir_sources(h->weir) != 2 || weir_timeout_ms(h->weir) != 200;
	return reduce(h);
}

Test(weir_host, window_limit_and_getters, .timeout = 90)
{
	serve(2);
	hosts[0].config.window_limit = hosts[1].config.window_limit = 3;
	play(window_of_three, 3000);
	expect_right(2);
}

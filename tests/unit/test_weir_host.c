/* SPDX-License-Identifier: BSD-3-Clause */
/* libweir's AllReduces and barriers against the reference switch, over loopback UDP. */
#include <stdio.h>

#include "tests/random.h"
#include "tests/unit/hosts.h"

Test(weir_host, in_place_one_element_and_none, .timeout = 90)
{
	const size_t counts[] = {0, 1, 63, 64, 65, 16 * 64, 16 * 64 + 1};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		serve(2);
		reduce_on_all(2, counts[i], 4, true, i);
		fake_switch_stop(fake, NULL);
	}
}

Test(weir_host, base_form, .timeout = 90)
{
	serve(3);
	hosts[0].config.base_form = hosts[2].config.base_form = true;
	reduce_on_all(3, 3000, 2, true, 5);
	fake_switch_stop(fake, NULL);
}

Test(weir_host, multicast_results, .timeout = 90)
{
	struct fake_switch_config c = switch_config(3);

	c.job.group = 0xefff0001; /* 239.255.0.1 */
	c.loss = 0.02;
	start_switch(&c);
	hosts[1].config.base_form = true;
	reduce_on_all(3, 5000, 2, true, 6);
	fake_switch_stop(fake, NULL);
}

Test(weir_host, survives_loss_duplication_reordering, .timeout = 90)
{
	struct fake_switch_stats stats;
	struct fake_switch_config c = switch_config(4);
	uint64_t s = random_seed(), repeated = 0;

	c.loss = 0.05;
	c.duplicate = 0.05;
	c.reorder = 0.1;
	c.seed = s;
	start_switch(&c);
	reduce_on_all(4, 20000, 3, true, s);
	fake_switch_stop(fake, &stats);
	for (unsigned int h = 0; h < 4; h++) {
		repeated += hosts[h].stats.retransmissions;
		cr_expect_eq(hosts[h].stats.results_ok, 3u * 313u);
	}
	cr_expect_gt(stats.lost, 0u);
	cr_expect_gt(stats.reordered, 0u);
	cr_expect_gt(repeated, 0u);
}

Test(weir_host, first_window_lost_too, .timeout = 90)
{
	struct fake_switch_config c = switch_config(2);
	uint64_t s = random_seed();

	c.loss = 0.5;
	c.seed = s;
	start_switch(&c);
	/* In 10 s a join is sent 25 times: of 1300 hosts one would have no answer. */
	for (unsigned int h = 0; h < 2; h++)
		hosts[h].config.join_timeout_ms = hosts[h].config.op_timeout_ms = 25000;
	reduce_on_all(2, 300, 3, true, s);
	fake_switch_stop(fake, NULL);
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

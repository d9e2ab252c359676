/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All collectives of libweir in one stream, against the reference switch: calls, types, roots and
 * counts on a seed, in place and not, several under way, over loopback UDP with losses. Threads
 * return codes; only the main thread asserts.
 */
#include "apps/verify/verify.h"
#include "tests/random.h"

#define HOSTS     8 /* at most */
#define CALLS     120
#define FLYING    6 /* calls under way at most */
#define MOST      300 /* elements of a slice, or of a whole buffer */
#define ROOM      (MOST * HOSTS)
#define UNTOUCHED 0x5a

#define HOST_FIELDS                                                                                \
	bool late; /* it lets the others wait, now and then */                                     \
	size_t of; /* the first call with wrong elements */
#include "tests/unit/hosts.h"

static struct weir_call calls[CALLS]; /* but for the buffers, which hosts have */

/* A call, as a host has it. */
struct flying {
	struct weir_request *request;
	unsigned int call;
	bool in_place;
	struct verify v;
	uint64_t first[ROOM], second[ROOM];
};

static unsigned int hosts_count;
static uint64_t seed;

static int
begin(struct host *h, struct flying *f, unsigned int call, bool in_place)
{
	void *send;

	f->call = call;
	f->in_place = in_place;
	f->v = (struct verify){
		.call = calls[call],
		.rank = h->id,
		.ranks = hosts_count,
		.seed = seed,
		.iteration = call,
	};
	memset(f->first, UNTOUCHED, sizeof(f->first));
	memset(f->second, UNTOUCHED, sizeof(f->second));
	send = verify_place(&f->v, f->first, in_place ? NULL : f->second);
	verify_fill(&f->v, h->id, 0, verify_sent(&f->v), send);
	return weir_collective(h->weir, &f->v.call, &f->request);
}

/* Wait for it, if there is one, and look at all of its buffers. */
static void
end(struct host *h, struct flying *f)
{
	size_t behind = verify_received(&f->v) * weir_dtype_bytes(f->v.call.dtype),
	       before = h->wrong;

	if (f->request == NULL)
		return;
	h->code = weir_wait(&f->request);
	if (h->code == 0)
		h->wrong += verify_wrong(&f->v, NULL, 0);
	if (!f->in_place)
		h->wrong += verify_changed(&f->v);
	/* Nothing is written behind it. */
	for (size_t i = behind; !f->in_place && i < sizeof(f->second); i++)
		h->wrong += ((const uint8_t *)f->second)[i] != UNTOUCHED;
	if (before == 0 && h->wrong != 0)
		h->of = f->call;
}

static int
stream(struct host *h)
{
	struct flying *flying = calloc(FLYING, sizeof(*flying));
	uint64_t own = seed + h->id;

	for (unsigned int k = 0; k < CALLS && h->code == 0; k++) {
		struct flying *f = &flying[random_bits(&own) % FLYING];

		end(h, f);
		if (h->code == 0)
			h->code = begin(h, f, k, random_bits(&own) % 2 == 0);
		if (h->late && random_bits(&own) % 16 == 0)
			sleep_ms(2);
	}
	for (unsigned int i = 0; i < FLYING && h->code == 0; i++)
		end(h, &flying[i]);
	free(flying);
	return h->code;
}

static void
draw_calls(void)
{
	uint64_t random = seed;

	for (unsigned int k = 0; k < CALLS; k++) {
		struct weir_call *c = &calls[k];
		unsigned int size = (unsigned int)(random_bits(&random) % 4);

		do
			c->collective = (enum weir_collective)(random_bits(&random) % 16);
		while (!collective_table[c->collective].served);
		c->dtype = (enum weir_dtype)(random_bits(&random) % WEIR_DTYPES);
		do
			c->op = (enum weir_op)(random_bits(&random) % WEIR_OPS);
		while (!weir_dtype_has_op(c->dtype, c->op));
		c->root = (unsigned int)(random_bits(&random) % hosts_count);
		c->count = size == 0 ? 1 : 1 + random_bits(&random) % (size == 1 ? 10 : MOST);
	}
}

static const struct {
	unsigned int hosts,
		elements; /* of a block; fewer than hosts * hosts make an alltoall go as scatters */
	bool full_rows; /* of alltoall */
	uint32_t group; /* with one, sources send and get their own slices, too */
	double loss;
} jobs[] = {
	{1, 16, false, 0, 0},
	{2, 33, false, 0xefff0001, 0},
	{3, 8, false, 0, 0},
	{5, 64, true, 0, 0.02},
	/* An alltoall of 4 bytes and more has no room for a row of each source in a block. */
	{5, 10, false, 0xefff0001, 0.02},
	{8, 70, false, 0, 0},
	{8, 1000, true, 0xefff0001, 0},
};

Test(weir_collectives, of_all_jobs, .timeout = 180)
{
	for (size_t j = 0; j < sizeof(jobs) / sizeof(jobs[0]); j++) {
		struct fake_switch_config c = switch_config(jobs[j].hosts);

		seed = random_seed() + j;
		hosts_count = jobs[j].hosts;
		draw_calls();
		c.loss = c.duplicate = c.reorder = jobs[j].loss;
		c.seed = seed;
		c.job.window = 8;
		c.job.elements = jobs[j].elements;
		c.job.full_rows = jobs[j].full_rows;
		c.job.group = jobs[j].group;
		c.job.timeout_ms = 1000;
		start_switch(&c);
		for (unsigned int h = 0; h < hosts_count; h++) {
			hosts[h].config.op_timeout_ms = 20000;
			hosts[h].late = h == hosts_count - 1;
		}
		play(stream, 0);
		cr_expect_eq(fake_stats.lost > 0 && fake_stats.duplicated > 0 &&
				fake_stats.reordered > 0,
			jobs[j].loss > 0, "job %zu: no test of losses", j);
		for (unsigned int h = 0; h < hosts_count; h++) {
			const struct weir_call *first = &calls[hosts[h].of];

			cr_expect_eq(hosts[h].code, 0, "job %zu, host %u: %d: %s", j, h,
				hosts[h].code, hosts[h].error);
			cr_expect_eq(hosts[h].wrong, 0u,
				"job %zu, host %u: %zu wrong; first in call %zu, %s of %zu %s", j,
				h, hosts[h].wrong, hosts[h].of,
				weir_collective_text(first->collective), first->count,
				weir_dtype_text(first->dtype));
		}
	}
}

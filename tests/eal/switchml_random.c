/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "tests/eal/switchml.h"

#define CHUNKS 24 /* of each slot */

/* The switch, as the protocol's description has it: a host is in the set that it used last. */
static struct reference {
	struct {
		struct message sum;
		unsigned int count;
	} set[SLOTS][2];
	int last[SLOTS][HOSTS]; /* set; -1: none */
} reference;

/* What each host does in each slot: SwitchML's client, with a timer that is a throw of dice. */
static struct {
	uint32_t chunk[SLOTS][HOSTS]; /* the one that it waits for */
} client;

static struct answer *expected;
static unsigned int nb_expected;

static void
foresee(unsigned int host, const struct message *m, const struct message *sum)
{
	struct message answer = *sum;
	struct answer *a = &expected[nb_expected++];

	answer.index = m->index;
	answer.job = m->job;
	a->port = port_of(host);
	a->bytes = write_answer(host, &answer);
	memcpy(a->frame, frame, a->bytes);
}

static void
refer(unsigned int host, const struct message *m)
{
	unsigned int slot = m->pool & 0x3fff, s = m->pool >> 15;
	struct message *sum = &reference.set[slot][s].sum;
	unsigned int *count = &reference.set[slot][s].count;

	if (reference.last[slot][host] == (int)s) {
		if (*count == setup.hosts)
			foresee(host, m, sum);
		return;
	}
	reference.last[slot][host] = (int)s;
	if (*count == setup.hosts)
		*count = 0;
	if ((*count)++ == 0)
		*sum = *m;
	else
		add(sum, m);
	for (unsigned int h = 0; *count == setup.hosts && h < setup.hosts; h++)
		foresee(h, m, sum);
}

/* A host gets an answer: is it the sum that it waits for? */
static void
hear(unsigned int slot, unsigned int host, const struct answer *a)
{
	const uint32_t chunk = client.chunk[slot][host];
	struct message sum;

	if (weir_get32(a->frame + HEADERS + 2) != chunk)
		return;
	sum = sum_of(pool_of(slot, chunk), chunk);
	cr_assert_eq(a->bytes, write_answer(host, &sum));
	cr_assert_eq(memcmp(a->frame, frame, a->bytes), 0, "host %u: a wrong sum of chunk %u", host,
		chunk);
	client.chunk[slot][host]++;
}

static unsigned int
host_of(const struct answer *a)
{
	return weir_get32(a->frame + 30) - rig_source_ip(0);
}

/* Answers to a host by a port keep no order among slots of two lcores. */
static int
compare_answers(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct answer));
}

void
random_traffic(void)
{
	const uint64_t taken = batched();
	uint64_t random;
	unsigned int done = 0;

	one_port = true;
	random = rig_seed();
	expected = calloc(WAITING, sizeof(*expected));
	memset(&reference, 0, sizeof(reference));
	memset(&client, 0, sizeof(client));
	memset(reference.last, -1, sizeof(reference.last));
	memset(answers, 0, WAITING * sizeof(*answers));
	for (unsigned int round = 0; done < SLOTS * setup.hosts; round++) {
		cr_assert_lt(round, 4000);
		rig.seed = rig_random(&random) % 8 == 0 ? random : 0;
		for (unsigned int n = rig_random(&random) % (SLOTS * setup.hosts); n > 0; n--) {
			unsigned int slot = (unsigned int)(rig_random(&random) % SLOTS);
			unsigned int host = (unsigned int)(rig_random(&random) % setup.hosts);
			uint32_t chunk = client.chunk[slot][host];
			unsigned int copies = (unsigned int)(rig_random(&random) % 10);
			const struct message m = message(host, pool_of(slot, chunk), chunk);

			/* Some are lost, and some are there twice. */
			for (copies = copies == 0     ? 0
					: copies == 1 ? 2
						      : 1;
				chunk < CHUNKS && copies > 0; copies--) {
				put(host, &m);
				if (round < HOSTS)
					settle(); /* the switch learns the hosts */
				refer(host, &m);
			}
		}
		settle();
		cr_assert_eq(nb_answers, nb_expected, "round %u: %u answers, not %u", round,
			nb_answers, nb_expected);
		qsort(answers, nb_answers, sizeof(*answers), compare_answers);
		qsort(expected, nb_expected, sizeof(*expected), compare_answers);
		for (unsigned int i = 0; i < nb_answers; i++) {
			cr_assert_eq(compare_answers(&answers[i], &expected[i]), 0,
				"round %u, answer %u", round, i);
			if (rig_random(&random) % 10 > 0)
				hear(weir_get16(answers[i].frame + HEADERS + 6) & 0x3fff,
					host_of(&answers[i]), &answers[i]);
		}
		first = nb_answers = nb_expected = 0;
		memset(answers, 0, WAITING * sizeof(*answers));
		memset(expected, 0, WAITING * sizeof(*expected));
		done = 0;
		for (unsigned int slot = 0; slot < SLOTS; slot++)
			for (unsigned int h = 0; h < setup.hosts; h++)
				done += client.chunk[slot][h] == CHUNKS;
	}
	cr_expect_eq(counter("switchml_sums"), SLOTS * CHUNKS);
	cr_expect_gt(counter("switchml_repeated"), 10);
	cr_expect_gt(counter("switchml_early"), 10);
	cr_expect(!has_batches() || batched() - taken > SLOTS * CHUNKS);
	free(expected);
	rig.seed = 0;
	one_port = false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The graph of programs is true: segments lead where they say, and to nothing that does not exist. The runs of ppe_..._batch_1
 * compare all their traffic with it (WEIR_GRAPH, tests/eal/graph.h).
 */
#include "ppe/drops.h"
#include "ppe/programs/programs.h"
#include "tests/eal/bench.h"
#include "tests/eal/graph.h"

#define STATION(n)                                                                                 \
	{                                                                                          \
		0x02, 0x53, 0, 0, 0, n                                                             \
	}

static bool
is_drop(const char *key)
{
	for (unsigned int reason = 0; reason < PPE_DROP_COUNT; reason++)
		if (strcmp(ppe_drop_key(reason), key) == 0)
			return true;
	return false;
}

static bool
exists(const struct ppe_program *program, const char *word)
{
	if (strncmp(word, "drop:", 5) == 0)
		return is_drop(word + 5);
	if (strncmp(word, "hop:", 4) == 0)
		word += 4;
	return strcmp(word, "send") == 0 || strcmp(word, "consume") == 0 ||
		strcmp(word, "output") == 0 || graph_segment(program, word) != NULL;
}

#define FOREACH_WORD(word, list)                                                                   \
	for (char text_[1024],                                                                     \
		*at_ = NULL,                                                                       \
		*word = (snprintf(text_, sizeof(text_), "%s", list), strtok_r(text_, " ", &at_));  \
		word != NULL; word = strtok_r(NULL, " ", &at_))

#define FOREACH_SEGMENT(s, program)                                                                \
	for (unsigned int l_ = 0; l_ < PPE_SEGMENT_LISTS; l_++)                                    \
		for (const struct ppe_segment_name *s = (program)->segments[l_];                   \
			s != NULL && s->name != NULL; s++)

Test(ppe_graph, names_exist_and_are_there_once, .timeout = 90)
{
	for (const struct ppe_program *const *p = ppe_programs(); *p != NULL; p++)
		FOREACH_SEGMENT(s, *p)
		{
			cr_assert_eq(graph_segment(*p, s->name), s, "%s twice", s->name);
			cr_assert_not_null(s->leads_to, "%s", s->name);
			FOREACH_WORD(word, s->leads_to)
			cr_assert(
				exists(*p, word), "%s: %s leads to %s", (*p)->name, s->name, word);
		}
}

static unsigned int needed;

/* Count the declarations without which the step would be an error. */
static void
count_needed(const struct ppe_program *program, const char *from, const char *to, void *arg)
{
	(void)arg;
	cr_assert(graph_declares(program, from, to, NULL, NULL));
	FOREACH_SEGMENT(s, program)
	FOREACH_WORD(word, s->leads_to)
	needed += !graph_declares(program, from, to, s->name, word);
}

static void
forward(unsigned int port, uint8_t from, uint8_t to)
{
	uint8_t bytes[60] = STATION(to);

	memcpy(bytes + 6, (const uint8_t[])STATION(from), 6);
	rig_send(&rig, port, bytes, sizeof(bytes));
	rig_rest(&rig);
}

static void
traffic(void)
{
	struct weir_header h;

	reduce(0);
	contribute(0, 1);
	contribute(0, 1);
	h = contribution(1, 1);
	h.op = WEIR_OP_MAX;
	offer(&h);
	contribute(0, 2);
	pass_ms(200); /* the timeout */
	contribute(1, 2);
	acknowledge(1, 6);
	probe(0, 7);
	contribute(0, 100);
	h = contribution(1, 3);
	h.gen_id++;
	offer(&h);
	h = contribution(1, 3);
	h.job_id = 99;
	offer(&h);
	offer_bytes(&h, 4);
	join(0, 0x1234);
	forward(0, 1, 2); /* a flood, and a message to the other worker */
	forward(1, 2, 1);
	forward(0, 1, 2);
	forward(0, 1, 1);
	discard();
}

Test(ppe_graph, a_declaration_that_is_missing_is_noticed, .timeout = 90)
{
	graph_watch();
	start(.sources = 2, .policy = PPE_POLICY_PARTIAL);
	traffic();
	graph_seen(count_needed, NULL);
	cr_assert_geq(needed, 40, "%u", needed);
	stop_unread();
}

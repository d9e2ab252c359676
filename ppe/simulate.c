/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/simulate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rte_common.h>

#include "ppe/dispatch_fast.h"
#include "ppe/load.h"
#include "ppe/ppe_priv.h"

/* ---- words ---- */

void
ppe_explain(struct ppe_explanation *explanation, const char *segment, const char *text, ...)
{
	unsigned int i = explanation->nb_steps;
	va_list arguments;

	if (i == PPE_EXPLAIN_STEPS)
		return;
	snprintf(explanation->step[i].segment, sizeof(explanation->step[i].segment), "%s", segment);
	va_start(arguments, text);
	vsnprintf(explanation->step[i].text, sizeof(explanation->step[i].text), text, arguments);
	va_end(arguments);
	explanation->nb_steps++;
}

void
ppe_explain_end(struct ppe_explanation *explanation, const char *end, const char *text, ...)
{
	va_list arguments;

	snprintf(explanation->end, sizeof(explanation->end), "%s", end);
	va_start(arguments, text);
	vsnprintf(explanation->text, sizeof(explanation->text), text, arguments);
	va_end(arguments);
}

void
ppe_explain_drop(struct ppe_explanation *explanation, enum ppe_drop reason)
{
	char end[sizeof(explanation->end)];

	snprintf(end, sizeof(end), "drop:%s", ppe_drop_key(reason));
	ppe_explain_end(explanation, end, "%s", ppe_drop_help(reason));
}

/* ---- the way of the frame ---- */

static bool
polls(const struct ppe_worker *worker, unsigned int port)
{
	for (unsigned int i = 0; i < worker->nb_rx; i++)
		if (worker->rx[i].port->index == port)
			return true;
	return false;
}

/* The first worker that polls a queue of the port. */
static const struct ppe_worker *
receiver(const struct ppe *ppe, unsigned int port, struct ppe_explanation *explanation)
{
	const struct ppe_worker *first = NULL;
	unsigned int others = 0;

	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		if (!polls(ppe->worker[w], port))
			continue;
		if (first == NULL)
			first = ppe->worker[w];
		else
			others++;
	}
	if (first == NULL)
		first = ppe->worker[0];
	explanation->worker = first->id;
	if (others == 0)
		snprintf(explanation->receive, sizeof(explanation->receive),
			"worker %u polls port %s", first->id, ppe->port[port].name);
	else
		snprintf(explanation->receive, sizeof(explanation->receive),
			"worker %u, or one of %u others: port %s has several queues, and its "
			"device chooses",
			first->id, others, ppe->port[port].name);
	return first;
}

/* Find the match as dispatch_match() does. */
static bool
find_program(const struct ppe *ppe, const struct ppe_worker *worker, const struct pktbuf_head *head,
	bool to_switch, struct ppe_program_info *found, const struct ppe_match **match)
{
	static struct ppe_program_info programs[PPE_PROGRAMS_MAX];
	unsigned int n = ppe_programs_read(ppe, programs, RTE_DIM(programs));

	for (unsigned int p = 0; p < n; p++)
		for (unsigned int m = 0; m < programs[p].nb_matches; m++) {
			if (programs[p].phase != PPE_PROGRAM_RUNNING ||
				!dispatch_matches(worker, &programs[p].match[m], head, to_switch))
				continue;
			*found = programs[p];
			*match = &programs[p].match[m];
			return true;
		}
	return false;
}

static const char *
first_segment(const struct ppe_program *program)
{
	for (unsigned int list = 0; list < PPE_SEGMENT_LISTS; list++)
		for (const struct ppe_segment_name *s = program->segments[list];
			s != NULL && s->name != NULL; s++)
			if (s->segment == program->first)
				return s->name;
	return "?";
}

static void
explain(const struct ppe *ppe, const struct ppe_worker *worker, struct ppe_thread *thread,
	struct ppe_explanation *explanation)
{
	const struct pktbuf_head *head = &thread->head;
	struct ppe_program_info found;
	bool to_switch;

	if (head->length < RTE_ETHER_HDR_LEN) {
		ppe_explain_drop(explanation, PPE_DROP_MALFORMED);
		return;
	}
	to_switch = dispatch_to_switch(worker, head);
	if ((head->flags & PKTBUF_HEAD_BAD) != 0 && to_switch) {
		ppe_explain_drop(explanation, PPE_DROP_MALFORMED);
		return;
	}
	if (!find_program(ppe, worker, head, to_switch, &found, &explanation->match)) {
		ppe_explain_drop(explanation, PPE_DROP_NO_PROGRAM);
		return;
	}
	thread->program = (uint8_t)found.index;
	snprintf(explanation->program, sizeof(explanation->program), "%s", found.program->name);
	if (found.program->explain != NULL)
		found.program->explain(worker, found.state, thread, explanation);
	else
		ppe_explain(
			explanation, first_segment(found.program), "the program does not say more");
}

int
ppe_simulate(const struct ppe *ppe, const void *frame, size_t length, unsigned int port,
	struct ppe_explanation *explanation)
{
	static struct {
		uint8_t headroom[RTE_PKTMBUF_HEADROOM];
		uint8_t frame[PPE_SIMULATE_BYTES_MAX];
	} buffer;
	struct rte_mbuf packet = {.buf_addr = &buffer,
		.buf_len = (uint16_t)sizeof(buffer),
		.data_off = RTE_PKTMBUF_HEADROOM,
		.data_len = (uint16_t)length,
		.pkt_len = (uint32_t)length,
		.nb_segs = 1,
		.port = (uint16_t)port};
	struct ppe_thread thread = {.packet = &packet, .port = (uint16_t)port};
	const struct ppe_worker *worker;

	if (length > PPE_SIMULATE_BYTES_MAX || port >= ppe->nb_ports)
		return -EINVAL;
	memset(explanation, 0, sizeof(*explanation));
	memcpy(buffer.frame, frame, length);
	rte_mbuf_refcnt_set(&packet, 1);
	worker = receiver(ppe, port, explanation);
	pktbuf_head_parse(&thread.head, &packet, thread.scratch);
	explain(ppe, worker, &thread, explanation);
	return 0;
}

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

static void __rte_format_printf(3, 4)
append(char *text, size_t size, const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + used, size - used, format, arguments);
	va_end(arguments);
}

/* A value of which the bits `any` may differ. */
static void
append_value(char *text, size_t size, const char *what, unsigned int value, unsigned int any)
{
	if (any == 0)
		append(text, size, "%s %u", what, value);
	else if (rte_is_power_of_2(any))
		append(text, size, "%ss %u and %u", what, RTE_MIN(value, value ^ any),
			RTE_MAX(value, value ^ any));
	else if (rte_is_power_of_2(any + 1) && (value & any) == 0)
		append(text, size, "%ss %u to %u", what, value, value | any);
	else
		append(text, size, "%s %u with any bits of 0x%x", what, value, any);
}

void
ppe_match_text(const struct ppe_match *match, char *text, size_t size)
{
	const unsigned int here = PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP;
	const uint16_t conditions = match->conditions;

	text[0] = '\0';
	if ((conditions & ~here) == 0)
		append(text, size, conditions == 0 ? "every frame" : "frames");
	if ((conditions & PPE_MATCH_FRAGMENT) != 0)
		append(text, size, "IPv4 fragments ");
	if ((conditions & PPE_MATCH_ETHER_TYPE) != 0)
		append_value(text, size, "EtherType", match->ether_type, match->ether_any);
	if ((conditions & PPE_MATCH_IP_PROTO) != 0)
		append_value(text, size, "IPv4 protocol", match->ip_proto, match->ip_proto_any);
	if ((conditions & PPE_MATCH_UDP_PORT) != 0)
		append_value(text, size, "UDP port", match->udp_port, match->udp_any);
	if ((conditions & PPE_MATCH_IP_DST) != 0)
		append(text, size, " to %u.%u.%u.%u%s", match->ip_dst >> 24,
			match->ip_dst >> 16 & 0xff, match->ip_dst >> 8 & 0xff,
			match->ip_dst & 0xff, match->ip_any == 0 ? "" : " and others");
	if ((conditions & here) == here)
		append(text, size, " to the switch's address");
	else if ((conditions & here) != 0)
		append(text, size, " to the switch's %s address",
			(conditions & PPE_MATCH_TO_SWITCH_MAC) != 0 ? "MAC" : "IPv4");
}

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
		append(explanation->receive, sizeof(explanation->receive),
			"worker %u polls port %s", first->id, ppe->port[port].name);
	else
		append(explanation->receive, sizeof(explanation->receive),
			"worker %u, or one of %u others: port %s has several queues, and its "
			"device chooses",
			first->id, others, ppe->port[port].name);
	if (__atomic_load_n(&ppe->faults, __ATOMIC_RELAXED) != NULL)
		append(explanation->receive, sizeof(explanation->receive),
			"; the injected faults are not looked at");
	return first;
}

/* Find the match as dispatch_match() does. */
static bool
find_program(const struct ppe *ppe, const struct ppe_worker *worker,
	const struct pktbuf_head *head, bool to_switch, struct ppe_program_info *found,
	const struct ppe_match **match)
{
	struct ppe_program_info programs[PPE_PROGRAMS_MAX];
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
	const struct ppe_match *match;
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
	if (!find_program(ppe, worker, head, to_switch, &found, &match)) {
		ppe_explain_drop(explanation, PPE_DROP_NO_PROGRAM);
		return;
	}
	thread->program = (uint8_t)found.index;
	snprintf(explanation->program, sizeof(explanation->program), "%s", found.program->name);
	ppe_match_text(match, explanation->match, sizeof(explanation->match));
	if (found.program->explain != NULL)
		found.program->explain(worker, found.state, thread, explanation);
	else
		ppe_explain(explanation, first_segment(found.program),
			"the program does not say more");
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

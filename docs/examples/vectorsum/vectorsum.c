/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vectorsum, a program for the switch. Ranks send vectors of int32, block by block; when the last
 * vector of a block has arrived, or after a timeout, each rank gets the sum.
 *
 *   begin   checks the packet and hops to the worker that owns the block's slot
 *   arrive  prefetches the slot
 *   add     adds the vector, and answers. A rank that has no sum sends its vector again
 *   expire  a timer: answers when the time of a block is over
 */
#include "vectorsum.h"

#include <errno.h>

#include <rte_cycles.h>
#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_udp.h>

#include "ppe/guard_fast.h"
#include "ppe/program_fast.h"
#include "rmw/rmw.h"

/* The headers of a packet. The elements follow. */
struct frame {
	struct rte_ether_hdr ether;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
	struct vectorsum_header sum;
} __rte_packed __rte_aligned(2);

/* Block b is in slot b % VECTORSUM_SLOTS of worker b % workers. */
struct slot {
	int32_t sum[VECTORSUM_ELEMENTS] __rte_cache_aligned;
	uint64_t block;
	uint64_t since; /* TSC, when its first vector arrived */
	uint32_t heard; /* bit r: the vector of rank r is in the sum */
	uint16_t count; /* elements */
	uint8_t status; /* VECTORSUM_VECTOR: it waits for vectors */
	uint16_t port[VECTORSUM_RANKS]; /* of the switch, where the rank is */
	struct frame answer[VECTORSUM_RANKS];
};

struct state { /* one per worker */
	const struct rmw_reduction *reduction;
	uint32_t ranks;
	uint64_t timeout; /* TSC cycles */
	uint64_t partials; /* blocks whose time was over */
	struct slot slot[VECTORSUM_SLOTS];
};

/* Send the sum to these ranks. */
static void
answer(struct ppe_worker *worker, const struct slot *slot, uint32_t ranks)
{
	unsigned int bytes = slot->count * sizeof(int32_t);

	for (unsigned int r = 0; r < VECTORSUM_RANKS; r++) {
		struct rte_mbuf *packet = ranks >> r & 1 ? ppe_packet_alloc(worker) : NULL;
		struct frame *frame;

		if (packet == NULL)
			continue;
		frame = (void *)rte_pktmbuf_append(packet, (uint16_t)(sizeof(*frame) + bytes));
		*frame = slot->answer[r];
		frame->sum.heard = rte_cpu_to_be_32(slot->heard);
		frame->sum.status = slot->status;
		memcpy(frame + 1, slot->sum, bytes);
		frame->udp.dgram_cksum = rte_ipv4_udptcp_cksum(&frame->ip, &frame->udp);
		ppe_output(worker, packet, slot->port[r], PKTBUF_PRIO_RESULT);
	}
}

/* The slot is in the cache. Add the vector, if it is not in the sum already. */
static struct ppe_next
add(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct state *state = ppe_state(worker, thread);
	const struct frame *in = (const void *)thread->head.bytes;
	uint64_t block = rte_be_to_cpu_64(in->sum.block);
	struct slot *slot = &state->slot[block % VECTORSUM_SLOTS];
	uint16_t count = rte_be_to_cpu_16(in->sum.count);
	uint32_t rank = UINT32_C(1) << in->sum.rank;
	struct frame *out = &slot->answer[in->sum.rank];
	const void *vector = rte_pktmbuf_read(
		thread->packet, sizeof(*in), count * sizeof(int32_t), thread->lmem);

	if (block > slot->block) {
		slot->block = block;
		slot->since = worker->now;
		slot->heard = 0;
		slot->count = count;
		slot->status = VECTORSUM_VECTOR;
	}
	if (block < slot->block)
		return ppe_drop(worker, thread, PPE_DROP_EXPIRED);
	if (count != slot->count)
		return ppe_drop(worker, thread, PPE_DROP_MISMATCH);
	/* Turned around, the headers are as long, so the IPv4 checksum stays right. */
	*out = *in;
	RTE_SWAP(out->ether.src_addr, out->ether.dst_addr);
	RTE_SWAP(out->ip.src_addr, out->ip.dst_addr);
	RTE_SWAP(out->udp.src_port, out->udp.dst_port);
	out->udp.dgram_cksum = 0;
	slot->port[in->sum.rank] = thread->port;
	if (slot->status != VECTORSUM_VECTOR) { /* its answer was lost, or it is late */
		answer(worker, slot, rank);
	} else if ((slot->heard & rank) == 0) {
		(slot->heard == 0 ? state->reduction->begin : state->reduction->reduce)(
			slot->sum, &vector, 1, count);
		slot->heard |= rank;
		if (slot->heard == UINT32_MAX >> (VECTORSUM_RANKS - state->ranks)) {
			slot->status = VECTORSUM_SUM;
			answer(worker, slot, slot->heard);
		}
	}
	return ppe_consume(worker, thread);
}

/* The packet is at the worker that owns the slot. Prefetch it. */
static struct ppe_next
arrive(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct frame *in = (const void *)thread->head.bytes;
	struct state *state = ppe_state(worker, thread);
	struct slot *slot = &state->slot[rte_be_to_cpu_64(in->sum.block) % VECTORSUM_SLOTS];

	rte_prefetch0(slot->sum);
	rte_prefetch0(&slot->block);
	return PPE_RUN(add);
}

/* The headers are parsed. Check the packet, and go to the owner of the block. */
static struct ppe_next
begin(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct state *state = ppe_state(worker, thread);
	const struct pktbuf_head *head = &thread->head;
	const struct frame *in = (const void *)head->bytes;
	uint16_t count;

	if (!guard_passes(worker, thread, GUARD_NO_JOB)) /* may this port have these addresses? */
		return PPE_END;
	if (head->payload != offsetof(struct frame, sum) || head->payload_length < sizeof(in->sum))
		return ppe_drop(worker, thread, PPE_DROP_TRUNCATED);
	count = rte_be_to_cpu_16(in->sum.count);
	if (count == 0 || count > VECTORSUM_ELEMENTS ||
		head->payload_length != sizeof(in->sum) + count * sizeof(int32_t))
		return ppe_drop(worker, thread, PPE_DROP_LENGTH);
	if (in->sum.rank >= state->ranks)
		return ppe_drop(worker, thread, PPE_DROP_UNKNOWN_SOURCE);
	if (pktbuf_checksum_verify(worker->port[thread->port], thread->packet, head) !=
		PKTBUF_CHECKSUM_GOOD)
		return ppe_drop(worker, thread, PPE_DROP_UDP_CHECKSUM);
	return ppe_hop(worker, thread, rte_be_to_cpu_64(in->sum.block) % worker->workers, arrive);
}

/* The timer: answer when the time of a block is over. */
static struct ppe_next
expire(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct state *state = ppe_state(worker, thread);

	if (ppe_timer_must_wait(worker)) /* what is missing may have arrived meanwhile */
		return PPE_END;
	for (unsigned int s = thread->slice; s < thread->slice + thread->slices; s++) {
		struct slot *slot = &state->slot[s];

		if (slot->heard != 0 && slot->status == VECTORSUM_VECTOR &&
			worker->now - slot->since >= state->timeout) {
			slot->status = VECTORSUM_PARTIAL;
			state->partials++;
			answer(worker, slot, slot->heard);
		}
	}
	return PPE_END;
}

static int
create(const struct ppe_setup *setup, void **out)
{
	struct state *state = rte_zmalloc_socket("vectorsum", sizeof(*state), 64, setup->socket);
	uint64_t timeout_us = (uint64_t)ppe_setting(setup, "timeout_ms") * 1000;
	const struct ppe_timer timer = {.segment = expire,
		.period_us = timeout_us / 10,
		.slices = VECTORSUM_SLOTS,
		.together = true};
	const struct ppe_match match = {
		.conditions = PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP | PPE_MATCH_UDP_PORT,
		.udp_port = (uint16_t)ppe_setting(setup, "udp_port")};
	int rc = ppe_match_add(setup, &match);

	*out = state;
	if (state == NULL)
		return -ENOMEM;
	if (setup->config->packet_bytes < sizeof(struct frame) + sizeof(state->slot->sum))
		return -EMSGSIZE; /* an answer is one mbuf */
	state->reduction = rmw_reduction(WEIR_DTYPE_INT32, WEIR_OP_SUM);
	state->ranks = (uint32_t)ppe_setting(setup, "ranks");
	state->timeout = timeout_us * rte_get_tsc_hz() / 1000000;
	return rc < 0 ? rc : ppe_timer_add(setup, &timer);
}

static void
destroy(void *state, struct ppe_program_leaks *leaks __rte_unused)
{
	rte_free(state);
}

static uint64_t
read_partials(const void *state)
{
	return ((const struct state *)state)->partials;
}

static const struct ppe_setting settings[] = {
	{"udp_port", PPE_SETTING_INTEGER, RTE_STR(VECTORSUM_PORT), 1, UINT16_MAX, NULL, NULL,
		"UDP port of the switch that takes vectors."},
	{"ranks", PPE_SETTING_INTEGER, NULL, 1, VECTORSUM_RANKS, NULL, NULL, "Ranks in a sum."},
	{"timeout_ms", PPE_SETTING_INTEGER, "100", 1, 60000, NULL, "ms",
		"Time from a block's first vector to a sum without those that are missing."},
	{0},
};

/* For traces and the graph of programs: where each segment leads. */
static const struct ppe_segment_name segments[] = {
	{begin, "begin",
		"hop:arrive drop:truncated drop:length drop:unknown_source drop:udp_checksum"},
	{arrive, "arrive", "add"},
	{add, "add", "output consume drop:expired drop:mismatch"},
	{expire, "expire", "output"},
	{0},
};

static const struct ppe_program vectorsum_program = {
	.name = "vectorsum",
	.help = "sums of int32 vectors",
	.first = begin,
	.create = create,
	.destroy = destroy,
	.settings = settings,
	.statistics = {{"vectorsum_partials", "weir_vectorsum_partials_total",
		"blocks whose sum was sent without some ranks", PPE_STATISTIC_COUNTER, false,
		read_partials}},
	.segments = {segments},
};

PPE_PROGRAM_FILE(vectorsum_program);

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
#include <rte_malloc.h>

#include "ppe/datagram_fast.h"
#include "rmw/rmw.h"

/* Block b is in slot b % VECTORSUM_SLOTS of worker b % workers. */
struct slot {
	int32_t sum[VECTORSUM_ELEMENTS] __rte_cache_aligned;
	uint64_t block;
	uint64_t since; /* TSC, when its first vector arrived */
	uint32_t heard; /* bit r: the vector of rank r is in the sum */
	uint16_t count; /* elements */
	uint8_t status; /* VECTORSUM_VECTOR: it waits for vectors */
	struct pktbuf_endpoint rank[VECTORSUM_RANKS]; /* whose packets have come: where they are */
};

struct state { /* one per worker */
	const struct rmw_reduction *reduction;
	uint32_t ranks;
	uint16_t udp_port;
	uint64_t timeout; /* TSC cycles */
	uint64_t partials; /* blocks whose time was over */
	struct slot slot[VECTORSUM_SLOTS];
};

/* Send the sum to these ranks. */
static void
answer(struct ppe_worker *worker, const struct state *state, const struct slot *slot,
	uint32_t ranks)
{
	const uint16_t elements = slot->count * sizeof(int32_t);

	for (uint8_t r = 0; r < state->ranks; r++) {
		struct vectorsum_header *header;
		struct rte_mbuf *packet;

		if ((ranks >> r & 1) == 0)
			continue;
		packet = datagram_begin(
			worker, &slot->rank[r], state->udp_port, sizeof(*header) + elements);
		if (packet == NULL) /* none is free: the rank asks again */
			continue;
		header = datagram_data(packet);
		*header = (struct vectorsum_header){.block = rte_cpu_to_be_64(slot->block),
			.heard = rte_cpu_to_be_32(slot->heard),
			.count = rte_cpu_to_be_16(slot->count),
			.rank = r,
			.status = slot->status};
		memcpy(header + 1, slot->sum, elements);
		datagram_send(worker, packet, slot->rank[r].port);
	}
}

/* The slot is in the cache. Add the vector, unless it is in the sum already. */
static struct ppe_next
add(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct state *state = ppe_state(worker, thread);
	const struct vectorsum_header *header = (const void *)datagram_payload(thread);
	uint64_t block = rte_be_to_cpu_64(header->block);
	uint16_t count = rte_be_to_cpu_16(header->count);
	uint32_t rank = UINT32_C(1) << header->rank;
	struct slot *slot = &state->slot[block % VECTORSUM_SLOTS];
	const void *vector = rte_pktmbuf_read(thread->packet,
		thread->head.payload + sizeof(*header), count * sizeof(int32_t), thread->lmem);

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
	slot->rank[header->rank] = datagram_sender(thread);
	if (slot->status != VECTORSUM_VECTOR) { /* its answer was lost, or it is late */
		answer(worker, state, slot, rank);
	} else if ((slot->heard & rank) == 0) {
		(slot->heard == 0 ? state->reduction->begin : state->reduction->reduce)(
			slot->sum, &vector, 1, count);
		slot->heard |= rank;
		if (slot->heard == UINT32_MAX >> (VECTORSUM_RANKS - state->ranks)) {
			slot->status = VECTORSUM_SUM;
			answer(worker, state, slot, slot->heard);
		}
	}
	return ppe_consume(worker, thread);
}

/* The packet is at the worker that owns the slot. Prefetch it. */
static struct ppe_next
arrive(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct vectorsum_header *header = (const void *)datagram_payload(thread);
	struct state *state = ppe_state(worker, thread);
	struct slot *slot = &state->slot[rte_be_to_cpu_64(header->block) % VECTORSUM_SLOTS];

	rte_prefetch0(slot->sum);
	rte_prefetch0(&slot->block);
	return PPE_RUN(add);
}

/* The headers are parsed. Check the packet, and go to the owner of the block. */
static struct ppe_next
begin(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct vectorsum_header *header = (const void *)datagram_payload(thread);
	const struct state *state = ppe_state(worker, thread);
	uint16_t bytes = thread->head.payload_length, count;

	if (!datagram_passes(worker, thread)) /* checksums; may this port send from this address? */
		return PPE_END;
	if (bytes < sizeof(*header))
		return ppe_drop(worker, thread, PPE_DROP_TRUNCATED);
	count = rte_be_to_cpu_16(header->count);
	if (count == 0 || count > VECTORSUM_ELEMENTS ||
		bytes != sizeof(*header) + count * sizeof(int32_t))
		return ppe_drop(worker, thread, PPE_DROP_LENGTH);
	if (header->rank >= state->ranks)
		return ppe_drop(worker, thread, PPE_DROP_UNKNOWN_SOURCE);
	return ppe_hop(worker, thread, rte_be_to_cpu_64(header->block) % worker->workers, arrive);
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
			answer(worker, state, slot, slot->heard);
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
	int rc;

	*out = state;
	if (state == NULL)
		return -ENOMEM;
	state->reduction = rmw_reduction(WEIR_DTYPE_INT32, WEIR_OP_SUM);
	state->ranks = (uint32_t)ppe_setting(setup, "ranks");
	state->udp_port = (uint16_t)ppe_setting(setup, "udp_port");
	state->timeout = timeout_us * rte_get_tsc_hz() / 1000000;
	rc = datagram_match(setup, state->udp_port);
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
		DATAGRAM_LEADS_TO " hop:arrive drop:truncated drop:length drop:unknown_source"},
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

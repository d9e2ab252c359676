/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parser's memo: a contribution that looks like its source's last one is not parsed again.
 *
 * Eight words are compared under a mask, about 20 instructions, in place of the parsing of four
 * headers and the matching of programs, about 250. (The idea is that of Open vSwitch's exact-match
 * cache: B. Pfaff et al., "The Design and Implementation of Open vSwitch", NSDI 2015, 4.2; here
 * without a hash, because the packet says its job and source.)
 */
#include "ppe/programs/collective_priv.h"

#define WORDS     8
#define JOB_AT    42 /* Ethernet 14, IPv4 20, UDP 8: where the aggregation header begins */
#define BLOCK_AT  (JOB_AT + 1)
#define FLAGS_AT  (JOB_AT + 5)
#define SOURCE_AT (JOB_AT + 6)
#define IPV4_ID   18
#define IPV4_SUM  24
#define UDP_SUM   40

/* Which bits of the first 64 bytes must be the same, by form. */
union mask {
	uint8_t byte[8 * WORDS];
	uint64_t word[WORDS];
};

/* All of it, but IPv4's identification and checksum, UDP's checksum, the block id and the final flag. */
#define MASK(end)                                                                                  \
	{                                                                                          \
		.byte = {                                                                          \
			[0 ... IPV4_ID - 1] = 0xff,                                                \
			[IPV4_ID + 2 ... IPV4_SUM - 1] = 0xff,                                     \
			[IPV4_SUM + 2 ... UDP_SUM - 1] = 0xff,                                     \
			[JOB_AT] = 0xff,                                                           \
			[FLAGS_AT] = (uint8_t)~WEIR_FINAL,                                         \
			[SOURCE_AT...(end) - 1] = 0xff,                                            \
		}                                                                                  \
	}

static const union mask masks[2] = {
	MASK(JOB_AT + WEIR_BASE_BYTES),
	MASK(JOB_AT + WEIR_EXT_BYTES),
};

/* Is the frame at p the memo's, under the mask? The compiler makes four vectors of it. */
static inline bool
alike(const struct memo *memo, const uint8_t *p)
{
	const union mask *mask = &masks[memo->header.extended];
	uint64_t difference = 0;

	for (unsigned int i = 0; i < WORDS; i++) {
		uint64_t word;

		memcpy(&word, p + 8 * i, sizeof(word));
		difference |= (word & mask->word[i]) ^ memo->frame[i];
	}
	return difference == 0;
}

bool
memo_recognise(struct ppe_worker *worker __rte_unused, void *arg, struct ppe_thread *thread,
	struct rte_mbuf *packet)
{
	const struct collective *state = arg;
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	const struct job_shard *js;
	const struct memo *memo;
	struct contribution *c;

	if (unlikely(packet->data_len < 8 * WORDS || packet->nb_segs != 1))
		return false;
	js = state->job[p[JOB_AT]];
	if (unlikely(js == NULL))
		return false;
	memo = &js->memo[p[SOURCE_AT]];
	if (unlikely(!alike(memo, p) || memo->head.length != packet->pkt_len ||
		    memo->port != packet->port))
		return false;
	c = &lmem(thread)->c;
	thread->packet = packet;
	thread->port = packet->port;
	thread->head = memo->head;
	thread->head.bytes = p;
	thread->next = PPE_RUN(job_entry);
	c->header = memo->header;
	c->header.block_id = weir_get32(p + BLOCK_AT);
	c->header.final = (p[FLAGS_AT] & WEIR_FINAL) != 0;
	c->payload = JOB_AT + weir_header_bytes(memo->header.extended);
	c->bytes = memo->head.payload_length - weir_header_bytes(memo->header.extended);
	c->verified = false;
	return true;
}

void
memo_learn(struct job_shard *js, const struct ppe_thread *thread, const struct contribution *c)
{
	const struct rte_mbuf *packet = thread->packet;
	struct memo *memo = &js->memo[c->header.src_id];

	if (packet->data_len < 8 * WORDS || packet->nb_segs != 1 || thread->head.payload != JOB_AT)
		return;
	memcpy(memo->frame, thread->head.bytes, sizeof(memo->frame));
	for (unsigned int i = 0; i < WORDS; i++)
		memo->frame[i] &= masks[c->header.extended].word[i];
	memo->head = thread->head;
	memo->header = c->header;
	memo->port = thread->port;
}

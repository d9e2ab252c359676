/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ends a packet of a block on a hop: the bitmap of a partial result, and the tag or CRC.
 * docs/protocol.md, "Authenticated jobs" and "Integrity".
 *
 * The tag or CRC of a source's packet covers the packet from the aggregation header on. The tag or
 * CRC of a result covers a header that all its receivers share.
 */
#include "pktbuf/checksum.h"
#include "pktbuf/wire/crc32c.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/membership/membership.h"

static inline bool
is_to_parent(const struct hop *hop)
{
	return (hop->flags & WEIR_FLAG_UP) != 0;
}

uint8_t
hop_flags(const struct ppe_job *job)
{
	if (job->authenticated)
		return WEIR_FLAG_AUTHENTICATED;
	return job->integrity == PPE_INTEGRITY_CRC32C ? WEIR_FLAG_CRC : 0;
}

static void
put_crc(const uint8_t covered[WEIR_EXT_BYTES], const struct pktbuf_piece part[2], uint8_t *end,
	uint32_t bytes)
{
	uint32_t crc = weir_crc32c(0, covered, WEIR_EXT_BYTES);

	for (unsigned int i = 0; i < 2; i++)
		crc = weir_crc32c(crc, part[i].data, part[i].bytes);
	weir_crc32c_put(end + bytes, weir_crc32c(crc, end, bytes));
}

static void
put_tag(const struct hop *hop, const struct weir_header *header, uint64_t number,
	unsigned int slice, const struct pktbuf_piece part[2], uint8_t *end, uint32_t bytes)
{
	const struct pktbuf_nonce nonce = {.number = number,
		.status = is_to_parent(hop) ? weir_iv(header->collective) : header->status,
		.slice = slice};
	const struct pktbuf_piece pieces[] = {part[0], part[1], {end, bytes}};
	struct weir_header h = *header;
	uint8_t covered[WEIR_EXT_BYTES];

	if (unlikely(hop->key == NULL)) {
		memset(end + bytes, 0, WEIR_TAG_BYTES);
		return;
	}
	h.extended = true;
	if (!is_to_parent(hop))
		h.src_id = 0;
	weir_header_write(&h, covered);
	pktbuf_tag_make_pieces(hop->key, nonce, covered, pieces, RTE_DIM(pieces), end + bytes);
}

uint32_t
hop_end(const struct hop *hop, const struct weir_header *header, uint64_t number,
	unsigned int slice, const void *bitmap, const struct pktbuf_piece part[2], void *end)
{
	uint8_t covered[WEIR_EXT_BYTES];
	uint32_t n = 0;

	if (header->degraded) {
		memcpy(end, bitmap, WEIR_BITMAP_BYTES);
		n = WEIR_BITMAP_BYTES;
	}
	if ((hop->flags & WEIR_FLAG_AUTHENTICATED) != 0) {
		put_tag(hop, header, number, slice, part, end, n);
		return n + WEIR_TAG_BYTES;
	}
	if ((hop->flags & WEIR_FLAG_CRC) == 0)
		return n;
	if (is_to_parent(hop))
		weir_header_write(header, covered);
	else
		weir_header_covered(header, covered);
	put_crc(covered, part, end, n);
	return n + WEIR_CRC_BYTES;
}

uint8_t
hop_crc_reply(const struct weir_header *header, void *payload, uint8_t bytes)
{
	uint8_t covered[WEIR_EXT_BYTES];

	weir_header_covered(header, covered);
	put_crc(covered, (const struct pktbuf_piece[2]){{0}}, payload, bytes);
	return WEIR_CRC_BYTES;
}

bool
hop_forged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	js->count.forged++;
	ppe_drop(worker, thread, PPE_DROP_FORGED);
	return false;
}

static bool
damaged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	js->count.crc++;
	ppe_drop(worker, thread, PPE_DROP_CRC);
	return false;
}

bool
hop_crc_is_right(const struct ppe_thread *thread)
{
	const struct pktbuf_head *head = &thread->head;

	return pktbuf_crc32c(0, thread->packet, head->payload, head->payload_length) ==
		WEIR_CRC32C_RESIDUE;
}

bool
hop_crc_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	return likely(hop_crc_is_right(thread)) || damaged(worker, thread, js);
}

bool
hop_result_crc_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	struct contribution *c = &lmem(thread)->c;
	struct weir_header h = {.extended = true};
	uint8_t covered[WEIR_EXT_BYTES];

	/* A parent that does not know the job sends no CRC. */
	if (c->header.status == WEIR_STATUS_REFUSED && c->bytes == 0)
		return true;
	weir_header_read(&h, thread->head.bytes + thread->head.payload);
	weir_header_covered(&h, covered);
	if (c->bytes < WEIR_CRC_BYTES ||
		pktbuf_crc32c(weir_crc32c(0, covered, sizeof(covered)), thread->packet, c->payload,
			c->bytes) != WEIR_CRC32C_RESIDUE)
		return damaged(worker, thread, js);
	c->bytes -= WEIR_CRC_BYTES;
	return true;
}

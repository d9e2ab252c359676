/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs with integrity: the CRC at the end of their packets. docs/protocol.md, "Integrity".
 *
 * What a source sends is covered from the aggregation header on, as it is. A result is covered after the header that all
 * receivers share, in the extended form (weir_header_covered()), so that its CRC lies in the buffer, behind the sum.
 */
#include "pktbuf/checksum.h"
#include "pktbuf/wire/crc32c.h"
#include "ppe/collective/collective.h"
#include "ppe/collective/collective_fast.h"

static bool
damaged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	js->count.crc++;
	ppe_drop(worker, thread, PPE_DROP_CRC);
	return false;
}

bool
crc_is_right(const struct ppe_thread *thread)
{
	const struct pktbuf_head *head = &thread->head;

	return pktbuf_crc32c(0, thread->packet, head->payload, head->payload_length) ==
		WEIR_CRC32C_RESIDUE;
}

bool
crc_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	return likely(crc_is_right(thread)) || damaged(worker, thread, js);
}

bool
parent_crc_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	struct contribution *c = &lmem(thread)->c;
	struct weir_header h = {.extended = true};
	uint8_t covered[WEIR_EXT_BYTES];

	/* A parent that does not know the job does not know of the CRC, either. */
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

static uint32_t
put(const uint8_t header[WEIR_EXT_BYTES], const struct pktbuf_piece part[2], uint8_t *end,
	uint32_t end_bytes)
{
	uint32_t crc = weir_crc32c(0, header, WEIR_EXT_BYTES);

	for (unsigned int i = 0; i < 2; i++)
		crc = weir_crc32c(crc, part[i].data, part[i].bytes);
	weir_crc32c_put(end + end_bytes, weir_crc32c(crc, end, end_bytes));
	return WEIR_CRC_BYTES;
}

uint32_t
crc_result(const struct weir_header *header, const struct pktbuf_piece part[2], void *end,
	uint32_t end_bytes)
{
	uint8_t covered[WEIR_EXT_BYTES];

	weir_header_covered(header, covered);
	return put(covered, part, end, end_bytes);
}

uint32_t
parent_crc(const struct weir_header *header, const void *payload, uint32_t bytes, void *end,
	uint32_t end_bytes)
{
	uint8_t sent[WEIR_EXT_BYTES];

	weir_header_write(header, sent);
	return put(sent, (const struct pktbuf_piece[2]){{payload, bytes}}, end, end_bytes);
}

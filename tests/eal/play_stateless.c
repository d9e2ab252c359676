/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that touch no block: what is dropped or refused for itself. */
#include "tests/eal/play.h"

#include <string.h>

/* A frame that is spoiled behind the model's back. */
static void
spoil(struct play *p, unsigned int j, const struct weir_header *h)
{
	const struct model_peer *from = &p->source[j][h->src_id].at;
	uint8_t bytes[WEIR_EXT_BYTES + WEIR_ELEMENTS_MAX * 4], frame[RIG_FRAME_MAX];
	unsigned int header = weir_header_bytes(h->extended), n, at, bit;
	enum ppe_drop reason = PPE_DROP_MALFORMED;

	weir_header_write(h, bytes);
	n = twin_frame(frame, from, h->extended, bytes, header + payload(p, h, bytes + header));
	switch (below(p, 5)) {
	case 0:
		frame[24 + below(p, 2)] ^= (uint8_t)(1 + below(p, 255));
		reason = PPE_DROP_IP_CHECKSUM;
		break;
	case 1: /* behind the fields that are looked at before the checksum */
		at = 42 + 8 + below(p, n - 50);
		at -= h->extended && at == 42 + 15;
		bit = 1u << below(p, 8);
		frame[at] ^= (uint8_t)(at == 42 + 13 && bit == WEIR_FLAG_UP ? 1 : bit);
		reason = PPE_DROP_UDP_CHECKSUM;
		break;
	case 2:
		weir_put16(frame + 20, (uint16_t)(below(p, 2) ? 0x2000 : 1 + below(p, 0x1fff)));
		rig_fix_checksums(frame);
		reason = PPE_DROP_IP_FRAGMENT;
		break;
	case 3: /* an option: 4 times "no operation" */
		memmove(frame + 38, frame + 34, n - 34);
		memset(frame + 34, 1, 4);
		frame[14] = 0x46;
		weir_put16(frame + 16, (uint16_t)(n + 4 - 14));
		n += 4;
		reason = PPE_DROP_IP_OPTIONS;
		break;
	default: n = 14 + below(p, n - 14); break;
	}
	twin_spoiled(&p->twin, from->link, frame, n, reason);
	p->steps++;
}

/* Another sender than the source's. */
static void
impostor(struct play *p, unsigned int j, const struct weir_header *h)
{
	struct model_peer from = p->source[j][h->src_id].at;

	switch (j == JOB_FIXED ? 0 : below(p, p->ports > 1 ? 4 : 3)) {
	case 0: from.address ^= 1u << below(p, 8); break;
	case 1: from.port ^= 1; break;
	case 2: from.mac[5] ^= 1; break;
	default: from.link = (uint8_t)((from.link + 1) % p->ports); break;
	}
	offer_from(p, &from, *h);
}

/* The payload is not grad_cnt elements. */
static void
wrong_length(struct play *p, unsigned int j, const struct weir_header *h)
{
	uint8_t bytes[WEIR_EXT_BYTES + WEIR_ELEMENTS_MAX * 4 + 16] = {0};
	unsigned int header = weir_header_bytes(h->extended);
	unsigned int n = header + payload(p, h, bytes + header);

	weir_header_write(h, bytes);
	n = below(p, 2) ? n + 1 + below(p, 9) : below(p, n);
	offer_bytes(p, &p->source[j][h->src_id].at, h->extended, bytes, n);
}

void
stateless(struct play *p, unsigned int j)
{
	unsigned int s = below(p, job(p, j)->nb_sources);
	uint32_t block = (uint32_t)rig_random(&p->random);
	struct model_block older, newer;
	struct weir_header h;

	/* Mostly a block that could be hit, if what is wrong were not seen. */
	model_look(p->twin.model[j], block, &older, &newer);
	if (newer.held && below(p, 4))
		block = newer.id;
	h = contribution(p, j, s, block);
	h.block_id &= UINT32_MAX >> job(p, j)->block_shift;
	switch (below(p, 10)) {
	case 0: h.job_id = (uint8_t)(250 + below(p, 3)); break;
	case 1: h.gen_id ^= (uint16_t)(1 + below(p, 65535)); break;
	case 2: h.status = (uint8_t)(1 + below(p, 9)); break;
	case 3: h.src_cnt = (uint8_t)(1 + below(p, 255)); break;
	case 4: spoil(p, j, &h); return;
	case 5: impostor(p, j, &h); return;
	case 6: wrong_length(p, j, &h); return;
	case 7: {
		struct model_peer from = p->source[j][s].at;

		h.src_id = (uint8_t)(job(p, j)->nb_sources + below(p, 200));
		offer_from(p, &from, h);
		return;
	}
	case 8:
		if (!h.extended)
			return;
		h.flags |= WEIR_FLAG_UP;
		h.src_cnt = (uint8_t)below(p, 3);
		break;
	default:
		if (!h.extended)
			return;
		h.grad_cnt = 1;
		h.collective = (uint8_t)(9 + below(p, 5));
		if (below(p, 2)) {
			h.collective = WEIR_COLLECTIVE_ALLREDUCE;
			h.op = (uint8_t)(11 + below(p, 5));
		}
	}
	offer(p, j, &h);
}

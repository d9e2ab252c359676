/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/play.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <string.h>

unsigned int
below(struct play *p, unsigned int n)
{
	return (unsigned int)(rig_random(&p->random) % n);
}

const struct ppe_job *
job(const struct play *p, unsigned int j)
{
	return &p->twin.rig.job[j];
}

void
settle(struct play *p)
{
	const char *wrong;

	p->twin.rig.seed = below(p, 2) ? rig_random(&p->random) | 1 : 0; /* segments */
	wrong = twin_settle(&p->twin);
	cr_assert_null(wrong, "WEIR_SEED=%" PRIu64 ", up to step %u: %s", p->seed, p->steps, wrong);
	memset(p->used, 0, sizeof(p->used));
}

/* ---- contributions ---- */

/* What the sources of a block agree upon, from its number alone. */
static uint64_t
nature(const struct play *p, unsigned int j, uint32_t block)
{
	uint64_t s = p->seed ^ (uint64_t)model_generation(p->twin.model[j]) << 40 ^
		(uint64_t)j << 32 ^ block;

	return rig_random(&s);
}

/* Which it is comes from the block's number; so do type, operation and root. */
static void
any_collective(const struct play *p, unsigned int j, uint64_t n, struct weir_header *h)
{
	unsigned int sources = job(p, j)->nb_sources, most = job(p, j)->elements;
	unsigned int any = (unsigned int)((n >> 32) % (WEIR_COLLECTIVES - 1));
	const struct collective_row *row;

	h->collective = (uint8_t)(any + (any >= WEIR_COLLECTIVE_BARRIER)); /* no barrier */
	row = &collective_table[h->collective];
	h->dtype = (uint8_t)((n >> 40) % WEIR_DTYPES);
	if (row->contribution == CONTRIBUTION_REDUCE) {
		h->dtype = (uint8_t)((n >> 40) % WEIR_DTYPE_FP16); /* exact in any order */
		h->op = (uint8_t)((n >> 56) % (WEIR_OP_LXOR + 1));
	}
	if (row->rooted)
		h->root = (uint8_t)((n >> 16) % sources);
	if (weir_dtype_bytes(h->dtype) == 8)
		most = RTE_MAX(most / 2, 1u);
	if (h->collective == WEIR_COLLECTIVE_ALLTOALL)
		most = job(p, j)->alltoall == PPE_ALLTOALL_FULL ? most - most % sources
								: most / sources;
	h->grad_cnt = (uint16_t)(most == 0 ? 0 : 1 + (h->grad_cnt - 1u) % most);
}

struct weir_header
contribution(struct play *p, unsigned int j, unsigned int source, uint32_t block)
{
	uint64_t n = nature(p, j, block);
	unsigned int most = job(p, j)->elements;
	struct weir_header h = {.job_id = job(p, j)->id,
		.src_id = (uint8_t)source,
		.block_id = block,
		.gen_id = model_generation(p->twin.model[j]),
		.dtype = job(p, j)->dtype,
		.flags = (uint8_t)(below(p, 16) & ~(unsigned int)WEIR_FLAG_UP),
		.final = (n >> 50 & 1) != 0,
		.extended = below(p, 2)};

	if (j == JOB_FIXED) { /* its results have the form of the last contribution */
		h.extended = source % 2;
	} else if (n % 5 == 0 || (n >> 51 & 3) == 0) {
		h.extended = true;
	}
	if (j != JOB_FIXED && n % 5 == 0) {
		h.dtype ^= WEIR_DTYPE_INT32 ^ WEIR_DTYPE_FP32; /* the other one */
		h.extended = true;
	}
	h.grad_cnt = (uint16_t)(n >> 20 & 3 ? 1 + (n >> 24) % most : most);
	if (h.extended && j != JOB_FIXED && (n >> 51 & 3) == 0)
		any_collective(p, j, n, &h);
	if ((n >> 16 & 7) == 0) {
		h.collective = WEIR_COLLECTIVE_BARRIER;
		h.grad_cnt = 0;
		h.dtype = job(p, j)->dtype; /* which it echoes */
	}
	return h;
}

/* The model of the header's job, or one that is as good. */
static const struct model *
model_of(const struct play *p, const struct weir_header *h)
{
	for (unsigned int j = 0; j < JOBS; j++)
		if (job(p, j)->id == h->job_id)
			return p->twin.model[j];
	return p->twin.model[0];
}

unsigned int
payload(struct play *p, const struct weir_header *h, uint8_t *bytes)
{
	uint64_t s = p->seed ^ (uint64_t)h->gen_id << 48 ^ (uint64_t)h->job_id << 40 ^
		(uint64_t)h->src_id << 32 ^ h->block_id;
	unsigned int size = weir_dtype_bytes(h->dtype),
		     elements = model_contributed(model_of(p, h), h);

	for (unsigned int i = 0; i < elements; i++) {
		uint64_t r = rig_random(&s);
		float f = (float)((int)(r % 20001) - 10000) / 8;

		memcpy(bytes + size * i, h->dtype == WEIR_DTYPE_FP32 ? (const void *)&f : &r, size);
	}
	return elements * size;
}

void
offer_bytes(struct play *p, const struct model_peer *from, bool extended, const uint8_t *bytes,
	unsigned int size)
{
	twin_offer(&p->twin, from, extended, bytes, size, below(p, 4) ? 0 : below(p, 20),
		below(p, 16) == 0);
	p->steps++;
}

void
offer_from(struct play *p, const struct model_peer *from, struct weir_header h)
{
	uint8_t bytes[WEIR_EXT_BYTES + WEIR_ELEMENTS_MAX * 4];
	unsigned int header = weir_header_bytes(h.extended), n;

	n = payload(p, &h, bytes + header);
	h.block_id |= p->twin.rig.job[JOB_FIXED].id == h.job_id &&
			p->twin.rig.job[JOB_FIXED].block_shift > 0
		? below(p, 1u << 24) << 8
		: 0;
	weir_header_write(&h, bytes);
	offer_bytes(p, from, h.extended, bytes, header + n);
}

void
offer(struct play *p, unsigned int j, const struct weir_header *h)
{
	offer_from(p, &p->source[j][h->src_id].at, *h);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/resting.h"

#include <stdio.h>
#include <stdlib.h>

#include <rte_mbuf.h>

#include "apps/bench/barrier.h"

#define ADDRESS 0x0a4d0101 /* of source 0; host order */
#define RECORDS (2 * RESTING_WINDOW) /* of a job */
/* To a residue: two that complete its first block, one that opens the next; to all residues in turn, so
 * that none is there before its block may be. */
#define CONTRIBUTIONS 3
#define POOL          8191

struct resting {
	unsigned int first, jobs, given;
	struct rte_mempool *pool;
	const struct pktbuf_identity *identity;
	struct ppe_job job[];
};

unsigned int
resting_memory_mb(uint32_t records)
{
	/* A record, its bucket, its deadline, and a buffer that is never used. */
	return (unsigned int)(records * UINT64_C(640) >> 20) + 16;
}

static void
configure_job(struct ppe_job *job, unsigned int id)
{
	*job = (struct ppe_job){.id = (uint8_t)id,
		.dtype = WEIR_DTYPE_INT32,
		.op = WEIR_OP_SUM,
		.policy = PPE_POLICY_WAIT,
		.window = RESTING_WINDOW,
		.elements = 1,
		.nb_sources = 2,
		.fixed_generation = 1,
		.timeout_ms = 60000,
		.members = {3},
		.address = {ADDRESS, ADDRESS + 1}};
	snprintf(job->name, sizeof(job->name), "resting%u", id);
}

struct resting *
resting_create(
	uint32_t records, unsigned int first, struct ppe_config *config, struct ppe_jobs *jobs)
{
	static unsigned int serial;
	unsigned int n = (records + RECORDS - 1) / RECORDS;
	struct resting *r = calloc(1, sizeof(*r) + n * sizeof(r->job[0]));
	char name[32];

	snprintf(name, sizeof(name), "resting%u", serial++);
	if (r != NULL)
		r->pool = rte_pktmbuf_pool_create(name, POOL, 0, PKTBUF_PRIV_BYTES,
			RTE_PKTMBUF_HEADROOM + 128, SOCKET_ID_ANY);
	if (r == NULL || r->pool == NULL || first + n > WEIR_JOBS_MAX) {
		fprintf(stderr, "weir-bench: no memory, or not enough jobs, for %u records\n",
			records);
		resting_destroy(r);
		return NULL;
	}
	r->first = first;
	r->identity = &config->identity;
	r->jobs = n;
	for (unsigned int i = 0; i < n; i++) {
		configure_job(&r->job[i], first + i);
		jobs->by_id[first + i] = &r->job[i];
	}
	config->blocks += n * RECORDS;
	return r;
}

void
resting_destroy(struct resting *r)
{
	if (r == NULL)
		return;
	rte_mempool_free(r->pool);
	free(r);
}

uint32_t
resting_records(const struct resting *r)
{
	return r->jobs * RECORDS;
}

uint16_t
resting_give(struct resting *r, struct rte_mbuf **packets, uint16_t max)
{
	const unsigned int per_job = CONTRIBUTIONS * RESTING_WINDOW;
	unsigned int left = r->jobs * per_job - r->given;
	uint16_t n = (uint16_t)RTE_MIN((unsigned int)max, left);

	if (n == 0 || rte_pktmbuf_alloc_bulk(r->pool, packets, n) < 0)
		return 0;
	for (uint16_t i = 0; i < n; i++, r->given++) {
		unsigned int at = r->given % per_job, step = at / RESTING_WINDOW;
		uint8_t source = step == 1; /* the second contribution */
		const struct weir_header h = {.job_id = (uint8_t)(r->first + r->given / per_job),
			.src_id = source,
			.gen_id = 1,
			.block_id = at % RESTING_WINDOW + (step == 2 ? RESTING_WINDOW : 0)};

		barrier_write((uint8_t *)rte_pktmbuf_append(packets[i], BARRIER_FRAME), r->identity,
			ADDRESS + source, &h);
	}
	return n;
}

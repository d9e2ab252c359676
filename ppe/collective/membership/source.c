/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources of a job in one shard: endpoints, ranks, membership and generation. */
#include "ppe/collective/membership/membership.h"

#include "ppe/collective/collective_fast.h"
#include "ppe/guard.h"

void
source_endpoint_of(const struct ppe_thread *thread, bool extended, struct pktbuf_endpoint *endpoint)
{
	memcpy(endpoint->mac, thread->head.bytes + 6, sizeof(endpoint->mac));
	endpoint->port = thread->port;
	endpoint->ip = thread->head.ip_src;
	endpoint->udp = thread->head.udp_src;
	endpoint->extended = extended;
	endpoint->valid = 1;
	endpoint->skips_own = 0;
}

void
source_set_endpoint(struct ppe_worker *worker, struct job_shard *job, uint8_t source,
	const struct pktbuf_endpoint *endpoint)
{
	const struct pktbuf_endpoint *former =
		mask_test(job->bound, source) ? &job->endpoint[source] : NULL;
	bool bound =
		job->pinned && endpoint->valid && guard_bind(worker, former, endpoint, job->job);

	if (former != NULL && !(job->pinned && endpoint->valid))
		guard_unbind(worker, former);
	mask_clear(job->bound, source);
	job->endpoint[source] = *endpoint;
	job->version++;
	if (!endpoint->valid)
		return;
	if (bound)
		mask_set(job->bound, source);
	else if (job->pinned && job->home != NULL) /* once: all workers bind the source */
		job->count.unguarded++;
	pktbuf_header_template_write(
		&job->header_template[source], worker->identity, endpoint, source);
}

void
source_unbind(struct ppe_worker *worker, struct job_shard *job, uint8_t source)
{
	if (!mask_test(job->bound, source))
		return;
	guard_unbind(worker, &job->endpoint[source]);
	mask_clear(job->bound, source);
}

void
source_expel(struct job_shard *job, uint8_t source)
{
	mask_set(job->expelled, source);
	job->target--;
	job->count.expelled++;
	job->endpoint[source].valid = 0;
	job->version++;
}

void
source_set_ranks(struct job_shard *js, const uint64_t sources[MASK_WORDS])
{
	/* In a tree, ids are ranks. */
	const bool tree = js->children || js->parents != NULL;

	js->ranks = 0;
	for (unsigned int s = 0; !tree && s < js->source_end; s++)
		if (mask_test(sources, (uint8_t)s)) {
			js->rank[s] = (uint8_t)js->ranks;
			js->ranked[js->ranks++] = (uint8_t)s;
		}
	for (unsigned int s = 0; tree && s < WEIR_SOURCES_MAX; s++)
		js->rank[s] = js->ranked[js->ranks++] = (uint8_t)s;
	js->version++;
}

/* If the source has another epoch, it has another key: forget its pending join. */
static void
set_epoch(struct job_shard *js, const struct ppe_job *job, uint8_t source)
{
	struct own_key *own = &js->own->source[source];

	if (!ppe_job_has(job, source) || own->epoch == job->epoch[source])
		return;
	own->former_epoch = js->address[source] == job->address[source] ? own->epoch : 0;
	own->epoch = job->epoch[source];
	if (js->home != NULL && own->former_epoch != 0)
		join_forget(js->home, source, false);
}

bool
source_set_members(struct ppe_worker *worker, struct job_shard *js, const struct ppe_job *job,
	uint64_t left[MASK_WORDS])
{
	bool changed = false;

	for (unsigned int s = 0; s < js->source_end; s++) {
		uint32_t address = ppe_job_has(job, (uint8_t)s) ? job->address[s] : 0;

		if (js->own != NULL)
			set_epoch(js, job, (uint8_t)s);
		if (js->address[s] == address)
			continue;
		if (js->address[s] != 0) {
			source_unbind(worker, js, (uint8_t)s);
			js->endpoint[s] = (struct pktbuf_endpoint){0};
			js->flow[s] = (struct flow){0};
			js->late[s] = (struct source_late){0};
			js->version++;
			mask_set(left, (uint8_t)s);
		}
		if (js->address[s] != 0 && js->home != NULL)
			join_forget(js->home, (uint8_t)s, true);
		js->address[s] = address;
		changed = true;
	}
	return changed;
}

bool
generation_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const struct job_home *home)
{
	static const struct pktbuf_endpoint nowhere;
	bool all = true;

	state->forget_blocks(state, job, false);
	job->hop.generation = generation;
	job->is_revoked = false;
	job->version++;
	job->pinned = true;
	job->target = job->nb_sources;
	job->skips_own = false;
	source_set_ranks(job, home->pending);
	memcpy(job->in, home->pending, sizeof(job->in));
	memset(job->expelled, 0, sizeof(job->expelled));
	for (unsigned int s = 0; s < job->source_end; s++) {
		const struct pktbuf_endpoint *joined = &home->asking[s].at;
		bool pending = mask_test(home->pending, (uint8_t)s);
		bool member = pending && joined->ip == job->address[s];

		source_set_endpoint(state->worker, job, (uint8_t)s, member ? joined : &nowhere);
		job->skips_own |= member && joined->skips_own;
		all = all && member == pending;
	}
	return all;
}

void
generation_end(struct collective *state, struct job_shard *job, uint8_t why)
{
	state->forget_blocks(state, job, true);
	job->is_revoked = true;
	job->over = why;
	/* Invalidate all endpoints, so that no flow stays admitted; the addresses stay bound, and
	 * get replies. */
	for (unsigned int s = 0; s < job->source_end; s++)
		job->endpoint[s].valid = 0;
	job->version++;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way up: what a switch does as a source of its parents' jobs. docs/tree.md.
 *
 * A block whose sum has gone to the parent is BLOCK_UP until the parent's result comes. The switch has no timer that
 * repeats: a host that repeats makes it repeat.
 */
#include "ppe/collective/collective.h"

#include <rte_malloc.h>

#include "ppe/collective/collective_fast.h"

size_t
up_bytes(const struct ppe_job *job)
{
	return job->nb_parents == 0 ? 0 : sizeof(struct up);
}

static void
parent_init(struct up *up, const struct ppe_job *job, unsigned int p)
{
	const struct ppe_parent *parent = &job->parent[p];
	struct pktbuf_endpoint at = {.port = parent->port,
		.ip = parent->address,
		.udp = parent->udp,
		.extended = true,
		.valid = true};

	memcpy(at.mac, parent->mac, sizeof(at.mac));
	pktbuf_header_template_write(
		&up->parent[p].header, &up->self, &at, (uint8_t)job->first_rank);
	up->parent[p].generation = job->fixed_generation;
}

struct up *
up_create(const struct ppe_setup *setup, const struct ppe_job *job)
{
	struct up *up =
		rte_zmalloc_socket("weir_up", sizeof(*up), RTE_CACHE_LINE_SIZE, setup->socket);

	if (up == NULL)
		return NULL;
	up->self = setup->config->identity;
	up->self.port_ext = WEIR_PORT_UP;
	up->nb_parents = job->nb_parents;
	for (unsigned int p = 0; p < job->nb_parents; p++) {
		parent_init(up, job, p);
		if (job->fixed_generation != 0)
			up->serving[up->nb_serving++] = (uint8_t)p;
	}
	return up;
}

void
up_destroy(struct up *up)
{
	rte_free(up);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/memory.h"

#include <inttypes.h>

static void
print_sum(FILE *out, const char *what, uint64_t bytes)
{
	fprintf(out, "memory    %-20s %10.2f MiB\n", what, (double)bytes / (1 << 20));
}

void
ctrl_memory_print(const struct ctrl_config *config, FILE *out)
{
	const struct ppe_memory *m = &config->memory;

	print_sum(out, "packet pools", m->packet_pools);
	print_sum(out, "aggregation buffers", m->data_memory);
	print_sum(out, "block tables", m->block_tables);
	print_sum(out, "forwarding tables", m->fdb);
	print_sum(out, "rings", m->rings);
	if (m->faults > 0)
		print_sum(out, "faults", m->faults);
	fprintf(out, "memory    %-20s %10.2f MiB of %u\n", "total", (double)m->total / (1 << 20),
		config->memory_mb);
	for (unsigned int i = 0; i < config->nb_jobs; i++) {
		const struct ppe_job *job = &config->job[i];
		uint64_t buffers = 2u * job->window;

		fprintf(out,
			"job %-5u %s: %u sources, window %u, %u elements; reserves %" PRIu64
			" buffers of %u B, %.2f MiB\n",
			job->id, job->name, job->nb_sources, job->window, job->elements, buffers,
			ppe_job_buffer_bytes(job),
			(double)(buffers * ppe_job_buffer_bytes(job)) / (1 << 20));
		if (ppe_job_kept(job) > 0)
			fprintf(out,
				"job %-5u deterministic; reserves %" PRIu64
				" more of %u B for contributions out of turn, %.2f MiB\n",
				job->id, (uint64_t)ppe_job_kept(job) * job->window,
				ppe_job_payload_bytes(job),
				(double)ppe_job_kept(job) * job->window *
					ppe_job_payload_bytes(job) / (1 << 20));
	}
}

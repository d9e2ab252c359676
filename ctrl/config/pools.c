/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/job.h"
#include "ctrl/config/schema.h"

#define FRAME_LEAST   2048u
#define VLAN_AND_FCS  8u
#define PACKETS       4096u /* the default is at least this, ... */
#define PACKETS_FREE  2048u /* ... and exceeds what the rings hold by this */
#define RESERVE_BYTES (24u << 20) /* for EAL, drivers and the heap's headers */

/* The size of packet buffers that every port and job needs. */
static uint32_t
buffer_bytes_needed(const struct ctrl_config *config)
{
	uint32_t need = FRAME_LEAST;

	for (unsigned int p = 0; p < config->nb_ports; p++) {
		const struct ctrl_port *port = &config->port_more[p];
		uint32_t frame = config->port[p].mtu > 0 ? config->port[p].mtu + 14u : 0;

		need = RTE_MAX(need, frame + VLAN_AND_FCS);
		need = RTE_MAX(need, port->buffer_bytes);
	}
	for (unsigned int j = 0; j < config->nb_jobs; j++)
		need = RTE_MAX(need, ctrl_job_packet_bytes(&config->job[j]));
	return RTE_ALIGN(need, 64);
}

/*
 * The packet buffers that a port's rings keep. Receive rings are always full. Many cards keep a
 * frame that they have sent until its descriptor is used again, so transmit rings may be full of
 * forwarded frames.
 */
static uint64_t
packets_held(const struct ctrl_config *config, unsigned int p)
{
	const struct pktbuf_port_config *port = &config->port[p];
	const struct ctrl_port *more = &config->port_more[p];
	uint64_t receive = more->kept + RTE_MIN(port->rx_descriptors, more->ring);
	uint64_t transmit = more->keeps_sent ? RTE_MIN(port->tx_descriptors, more->ring) : 0;

	return port->rx_queues * receive + port->tx_queues * transmit;
}

/* The headers that the rings keep, of small results that such a card has sent. */
static uint32_t
headers_held(const struct ctrl_config *config)
{
	uint32_t held = 0;

	for (unsigned int p = 0; p < config->nb_ports; p++)
		if (config->port_more[p].keeps_sent)
			held += config->port[p].tx_queues *
				RTE_MIN(config->port[p].tx_descriptors, config->port_more[p].ring);
	return held;
}

static uint64_t
packets_of_workers(const struct ctrl_config *config)
{
	return 2u * config->ppe.burst * config->ppe.workers;
}

uint64_t
ctrl_packets_least(const struct ctrl_config *config)
{
	uint64_t least = packets_of_workers(config);

	for (unsigned int p = 0; p < config->nb_ports; p++)
		least += packets_held(config, p);
	return least;
}

static int
read_packets(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	uint64_t least = ctrl_packets_least(config), work = packets_of_workers(config);

	if (config->ppe.packets == 0)
		config->ppe.packets = RTE_MAX(
			PACKETS, (uint32_t)(least - work) + RTE_MAX(PACKETS_FREE, (uint32_t)work));
	config->ppe.packets_kept = (uint32_t)(least - work);
	config->ppe.headers_kept = headers_held(config);
	if (config->ppe.headers == 0)
		config->ppe.headers = RTE_MAX(PACKETS, config->ppe.headers_kept + PACKETS_FREE);
	if (config->ppe.headers < config->ppe.headers_kept + work)
		return ctrl_refuse(reading->error, ctrl_path("pools.headers"),
			"%u headers are too few: the ports' transmit rings hold %u, and the "
			"workers "
			"need %" PRIu64,
			config->ppe.headers, config->ppe.headers_kept, work);
	if (config->ppe.packets < least)
		return ctrl_refuse(reading->error, ctrl_path("pools.packets"),
			"%u packets are too few: the ports' rings hold %" PRIu64
			", and the workers need %" PRIu64,
			config->ppe.packets, least - work, work);
	return 0;
}

static double
mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static int
check_memory(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	struct ppe_memory *m = &config->memory;

	ppe_memory_needed(&config->ppe, config->nb_ports, &config->jobs, m);
	m->faults = ppe_faults_bytes(&config->ppe, config->nb_ports, &config->faults);
	m->total += m->faults;
	if (m->total + RESERVE_BYTES <= (uint64_t)config->memory_mb << 20)
		return 0;
	return ctrl_refuse(reading->error, ctrl_path("memory_mb"),
		"%u MiB are too few: packet pools %.1f, aggregation buffers %.1f, block tables "
		"%.1f, "
		"forwarding tables %.1f, rings %.1f, faults %.1f and DPDK's own %.1f make %.1f MiB",
		config->memory_mb, mib(m->packet_pools), mib(m->data_memory), mib(m->block_tables),
		mib(m->fdb), mib(m->rings), mib(m->faults), mib(RESERVE_BYTES),
		mib(m->total + RESERVE_BYTES));
}

int
ctrl_read_pools(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	uint32_t need = buffer_bytes_needed(config);
	int rc;

	if (config->ppe.packet_bytes == 0)
		config->ppe.packet_bytes = need;
	if (config->ppe.packet_bytes < need)
		return ctrl_refuse(reading->error, ctrl_path("pools.frame_bytes"),
			"%u bytes are too few: the ports and jobs need %u",
			config->ppe.packet_bytes, need);
	rc = read_packets(reading);
	return rc < 0 ? rc : check_memory(reading);
}

uint32_t
ctrl_memory_least(const struct ctrl_config *config)
{
	return (uint32_t)((config->memory.total + RESERVE_BYTES + (1u << 20) - 1) >> 20);
}

static void
print_sum(FILE *out, const char *what, uint64_t bytes)
{
	fprintf(out, "memory    %-20s %10.2f MiB\n", what, mib(bytes));
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
	for (unsigned int p = 0; p < config->nb_ports; p++)
		if (packets_held(config, p) > 0)
			fprintf(out,
				"port %-4u %s: its rings hold up to %" PRIu64
				" of %u packet buffers, %.2f MiB\n",
				p, config->port[p].name, packets_held(config, p),
				config->ppe.packets,
				mib(packets_held(config, p) * config->ppe.packet_bytes));
	for (unsigned int i = 0; i < config->nb_jobs; i++) {
		const struct ppe_job *job = &config->job[i];
		uint64_t buffers = PPE_JOB_BUFFERS * job->window;

		fprintf(out,
			"job %-5u %s: %u sources, window %u, %u elements; reserves %" PRIu64
			" buffers of %u B, %.2f MiB\n",
			job->id, job->name, job->nb_sources, job->window, job->elements, buffers,
			ppe_job_buffer_bytes(job),
			(double)(buffers * ppe_job_buffer_bytes(job)) / (1 << 20));
		if (job->alltoall == PPE_ALLTOALL_FULL)
			fprintf(out,
				"job %-5u full rows of AlltoAll; reserves %" PRIu64
				" more of %u B, %.2f MiB\n",
				job->id, buffers, ppe_job_row_bytes(job),
				mib(buffers * ppe_job_row_bytes(job)));
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

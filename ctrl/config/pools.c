/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/job.h"

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

/* The frames that a port's transmit rings keep: many cards keep one that they have sent until its
 * descriptor is used again. */
static uint32_t
sent_held(const struct ctrl_config *config, unsigned int p)
{
	const struct ctrl_port *more = &config->port_more[p];

	return more->keeps_sent
		? config->port[p].tx_queues * RTE_MIN(config->port[p].tx_descriptors, more->ring)
		: 0;
}

/* The packet buffers that a port's rings keep. Receive rings are always full, and transmit rings
 * may be full of forwarded frames. */
static uint64_t
packets_held(const struct ctrl_config *config, unsigned int p)
{
	const struct ctrl_port *more = &config->port_more[p];

	return config->port[p].rx_queues *
		(uint64_t)(more->kept + RTE_MIN(config->port[p].rx_descriptors, more->ring)) +
		sent_held(config, p);
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
	for (unsigned int p = 0; p < config->nb_ports; p++)
		config->ppe.headers_kept += sent_held(config, p);
	if (config->ppe.headers == 0)
		config->ppe.headers = RTE_MAX(PACKETS, config->ppe.headers_kept + PACKETS_FREE);
	if (config->ppe.headers < config->ppe.headers_kept + work)
		return CTRL_REFUSE(reading, "pools.headers",
			"%u headers are too few: the ports' transmit rings hold %u, and the "
			"workers "
			"need %" PRIu64,
			config->ppe.headers, config->ppe.headers_kept, work);
	if (config->ppe.packets < least)
		return CTRL_REFUSE(reading, "pools.packets",
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
	return CTRL_REFUSE(reading, "memory_mb",
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
		return CTRL_REFUSE(reading, "pools.frame_bytes",
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

/* Buffers that a job reserves. */
static void
print_reserved(FILE *out, uint64_t count, const char *more, uint32_t bytes, const char *what)
{
	fprintf(out, "reserves %" PRIu64 " %s of %u B%s, %.2f MiB\n", count, more, bytes, what,
		mib(count * bytes));
}

static void
print_job(const struct ppe_job *job, FILE *out)
{
	uint64_t buffers = PPE_JOB_BUFFERS * job->window;

	fprintf(out, "job %-5u %s: %u sources, window %u, %u elements; ", job->id, job->name,
		job->nb_sources, job->window, job->elements);
	print_reserved(out, buffers, "buffers", ppe_job_buffer_bytes(job), "");
	if (job->alltoall == PPE_ALLTOALL_FULL) {
		fprintf(out, "job %-5u full rows of AlltoAll; ", job->id);
		print_reserved(out, buffers, "more", ppe_job_row_bytes(job), "");
	}
	if (ppe_job_kept(job) > 0) {
		fprintf(out, "job %-5u deterministic; ", job->id);
		print_reserved(out, (uint64_t)ppe_job_kept(job) * job->window, "more",
			ppe_job_payload_bytes(job), " for contributions out of turn");
	}
}

void
ctrl_memory_print(const struct ctrl_config *config, FILE *out)
{
	const struct ppe_memory *m = &config->memory;
	const struct {
		const char *what;
		uint64_t bytes;
	} sums[] = {{"packet pools", m->packet_pools}, {"aggregation buffers", m->data_memory},
		{"block tables", m->block_tables}, {"forwarding tables", m->fdb},
		{"rings", m->rings}, {"faults", m->faults}};

	for (unsigned int i = 0; i < RTE_DIM(sums); i++)
		if (i < 5 || m->faults > 0)
			fprintf(out, "memory    %-20s %10.2f MiB\n", sums[i].what,
				mib(sums[i].bytes));
	fprintf(out, "memory    %-20s %10.2f MiB of %u\n", "total", mib(m->total),
		config->memory_mb);
	for (unsigned int p = 0; p < config->nb_ports; p++)
		if (packets_held(config, p) > 0)
			fprintf(out,
				"port %-4u %s: its rings hold up to %" PRIu64
				" of %u packet buffers, %.2f MiB\n",
				p, config->port[p].name, packets_held(config, p),
				config->ppe.packets,
				mib(packets_held(config, p) * config->ppe.packet_bytes));
	for (unsigned int i = 0; i < config->nb_jobs; i++)
		print_job(&config->job[i], out);
}

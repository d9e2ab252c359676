/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/ppe.h"

#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "pktbuf/outq_fast.h"
#include "ppe/ppe_priv.h"

/* Workers write while this reads: each counter is one aligned 64-bit word that only grows. */
static void
add_worker(struct ppe_stats *stats, const struct ppe_worker *worker)
{
	const struct ppe_counters *count = &worker->count;

	stats->received += count->received;
	stats->created += count->created;
	stats->consumed += count->consumed;
	stats->in_flight += ppe_worker_in_flight(worker);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		stats->drops[i] += count->drops[i];
	for (unsigned int p = 0; p < worker->nb_ports; p++) {
		struct ppe_port_stats *port = &stats->port[p];

		port->rx_packets += count->rx_packets[p];
		port->rx_bytes += count->rx_bytes[p];
		port->spoofed += count->spoofed[p];
		port->policed += count->policed[p];
		port->stalled += count->stalled[p];
		port->too_long += count->too_long[p];
		for (unsigned int q = 0; q < 2; q++)
			port->queue_full[q] += count->queue_full[p][q];
	}
	for (unsigned int i = 0; i < worker->nb_outq; i++) {
		const struct pktbuf_outq *queue = worker->outq[i];
		struct ppe_port_stats *port = &stats->port[queue->port->index];

		for (unsigned int q = 0; q < 2; q++) {
			port->tx_packets[q] += queue->fifo[q].packets;
			port->tx_bytes[q] += queue->fifo[q].bytes;
			stats->sent += queue->fifo[q].packets;
		}
	}
	stats->worker[worker->id] = count->worker;
}

static void
add_statistics(struct ppe_stats *stats, const struct ppe *ppe, const struct ppe_worker *worker)
{
	unsigned int n = 0;

	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++) {
		const struct ppe_slot *slot = ppe->slot[p];
		const struct ppe_statistic *what = slot == NULL ? NULL : slot->program->statistics;

		for (unsigned int i = 0; what != NULL && i < PPE_PROGRAM_STATISTICS; i++) {
			uint64_t *all = &stats->statistic[n].value, own;

			if (what[i].key == NULL)
				break;
			own = what[i].read(slot->state[worker->id]);
			*all = what[i].is_largest ? RTE_MAX(*all, own) : *all + own;
			stats->statistic[n++].what = &slot->statistics[i];
		}
	}
}

void
ppe_stats_read(const struct ppe *ppe, struct ppe_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->nb_ports = ppe->nb_ports;
	stats->nb_workers = ppe->config.workers;
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		add_worker(stats, ppe->worker[w]);
		add_statistics(stats, ppe, ppe->worker[w]);
	}
	for (unsigned int p = 0; p < ppe->nb_ports; p++) {
		struct rte_eth_stats device;

		if (rte_eth_stats_get(ppe->port[p].id, &device) == 0)
			stats->port[p].missed = device.imissed + device.rx_nombuf;
	}
}

uint64_t
ppe_statistic_value(const struct ppe_stats *stats, const char *key)
{
	unsigned int i = 0;

	while (stats->statistic[i].what != NULL && strcmp(stats->statistic[i].what->key, key) != 0)
		i++;
	return stats->statistic[i].value;
}

void
ppe_port_queue_read(const struct ppe *ppe, unsigned int port, struct ppe_port_queue *queue)
{
	const uint64_t now = ppe_clock();

	memset(queue, 0, sizeof(*queue));
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		for (unsigned int i = 0; i < ppe->worker[w]->nb_outq; i++) {
			const struct pktbuf_outq *outq = ppe->worker[w]->outq[i];

			if (outq->port->index != port)
				continue;
			queue->packets += pktbuf_outq_depth(outq);
			queue->oldest_ms = RTE_MAX(queue->oldest_ms, pktbuf_outq_age_ms(outq, now));
			queue->is_stalled |= outq->is_stalled;
			queue->is_copied |= !outq->refers;
		}
	}
}

void
ppe_port_set_frame_max(struct ppe *ppe, unsigned int port, uint32_t bytes)
{
	__atomic_store_n(&ppe->port[port].frame_max, RTE_MIN(bytes, ppe->port[port].frame_limit),
		__ATOMIC_RELAXED);
}

static struct ppe_pool_gauge
read_pool(const struct rte_mempool *pool)
{
	return (struct ppe_pool_gauge){pool->size, rte_mempool_avail_count(pool)};
}

void
ppe_gauges_read(const struct ppe *ppe, struct ppe_gauges *gauges)
{
	memset(gauges, 0, sizeof(*gauges));
	gauges->packets = read_pool(ppe->pools.packets);
	gauges->headers = read_pool(ppe->pools.headers);
	gauges->attaches = read_pool(ppe->pools.attaches);
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		gauges->threads_live[w] =
			__atomic_load_n(&ppe->worker[w]->live_count, __ATOMIC_RELAXED);
}

static const char *const keys[] = {
#define X(name, key, help) [PPE_DROP_##name] = key,
	PPE_DROP_LIST(X)
#undef X
};

static const char *const helps[] = {
#define X(name, key, help) [PPE_DROP_##name] = help,
	PPE_DROP_LIST(X)
#undef X
};

const char *
ppe_drop_key(enum ppe_drop reason)
{
	return keys[reason];
}

const char *
ppe_drop_help(enum ppe_drop reason)
{
	return helps[reason];
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For ThreadSanitizer: packets pass from thread to thread through DPDK's mempools and ring ports, and the main thread waits
 * for workers, in libraries that are not built with it. It sees neither end of these hand-overs, and would report what
 * follows. This tells it of them, for each packet and each lcore alone. The rings of the crossbar are inline, and seen.
 */
#include "tests/thread/handover.h"

#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <sanitizer/tsan_interface.h>

#include "ppe/faults/faults.h"
#include "ppe/ppe.h"

int __real_rte_eal_remote_launch(lcore_function_t *run, void *arg, unsigned int lcore);
int __wrap_rte_eal_remote_launch(lcore_function_t *run, void *arg, unsigned int lcore);
int __real_rte_eal_wait_lcore(unsigned int lcore);
int __wrap_rte_eal_wait_lcore(unsigned int lcore);

static struct launched {
	lcore_function_t *run;
	void *arg;
} launched[RTE_MAX_LCORE];

static int
run_launched(void *arg)
{
	struct launched *l = arg;
	int rc = l->run(l->arg);

	__tsan_release(l);
	return rc;
}

int
__wrap_rte_eal_remote_launch(lcore_function_t *run, void *arg, unsigned int lcore)
{
	launched[lcore] = (struct launched){run, arg};
	return __real_rte_eal_remote_launch(run_launched, &launched[lcore], lcore);
}

int
__wrap_rte_eal_wait_lcore(unsigned int lcore)
{
	int rc = __real_rte_eal_wait_lcore(lcore);

	__tsan_acquire(&launched[lcore]);
	return rc;
}

struct rte_ring *__real_rte_ring_create(
	const char *name, unsigned int count, int socket, unsigned int flags);
struct rte_ring *__wrap_rte_ring_create(
	const char *name, unsigned int count, int socket, unsigned int flags);

/* A ring of the mode RTS moves its end by a store of 8 bytes, of which a single consumer reads 4: no pair to it. */
struct rte_ring *
__wrap_rte_ring_create(const char *name, unsigned int count, int socket, unsigned int flags)
{
	return __real_rte_ring_create(
		name, count, socket, flags & ~(unsigned int)RING_F_MP_RTS_ENQ);
}

void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);

/*
 * The control thread reads the workers' statistics while they run. Each is an aligned word with one writer, which is only
 * shown; workers that had to store them atomically would need more instructions for each packet. A block is copied, and the
 * copy is dropped if the block became another meanwhile. A suppression does not do: it needs the stack of the read, which is
 * lost if the worker writes minutes later.
 */
#define UNORDERED(type, name, parameters, result, end, ...)                                        \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		AnnotateIgnoreReadsBegin(__FILE__, __LINE__);                                      \
		result __real_##name(__VA_ARGS__);                                                 \
		AnnotateIgnoreReadsEnd(__FILE__, __LINE__);                                        \
		end;                                                                               \
	}

UNORDERED(void, ppe_stats_read, (const struct ppe *ppe, struct ppe_stats *stats), , return, ppe,
	stats)
UNORDERED(void, ppe_port_queue_read,
	(const struct ppe *ppe, unsigned int port, struct ppe_port_queue *queue), , return, ppe,
	port, queue)
UNORDERED(void, ppe_faults_read, (const struct ppe *ppe, struct ppe_fault_stats *stats), , return,
	ppe, stats)
UNORDERED(int, ppe_job_stats_read,
	(const struct ppe *ppe, uint8_t job, struct ppe_job_stats *stats), int rc =, return rc, ppe,
	job, stats)
UNORDERED(int, ppe_source_stats_read,
	(const struct ppe *ppe, uint8_t job, uint8_t source, struct ppe_source_stats *stats),
	int rc =, return rc, ppe, job, source, stats)
UNORDERED(int, ppe_blocks_read,
	(const struct ppe *ppe, uint8_t job, bool open, uint64_t idle_us,
		struct ppe_block_info *blocks, unsigned int max),
	int rc =, return rc, ppe, job, open, idle_us, blocks, max)

static struct rte_mempool_ops real[RTE_MEMPOOL_MAX_OPS_IDX];

static int
put(struct rte_mempool *pool, void *const *objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		__tsan_release(objects[i]);
	return real[pool->ops_index].enqueue(pool, objects, n);
}

static int
get(struct rte_mempool *pool, void **objects, unsigned int n)
{
	int rc = real[pool->ops_index].dequeue(pool, objects, n);

	for (unsigned int i = 0; rc == 0 && i < n; i++)
		__tsan_acquire(objects[i]);
	return rc;
}

static uint16_t
received(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t n, uint16_t most,
	void *arg)
{
	(void)port;
	(void)queue;
	(void)most;
	(void)arg;
	for (uint16_t i = 0; i < n; i++)
		handover_get(packets[i]);
	return n;
}

static uint16_t
sent(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t n, void *arg)
{
	(void)port;
	(void)queue;
	(void)arg;
	for (uint16_t i = 0; i < n; i++)
		handover_put(packets[i]);
	return n;
}

void
handover_put(struct rte_mbuf *packet)
{
	__tsan_release(packet);
}

void
handover_get(struct rte_mbuf *packet)
{
	__tsan_acquire(packet);
}

void
handover_pools(void)
{
	struct rte_mempool_ops_table *table = &rte_mempool_ops_table;

	for (uint32_t i = 0; i < table->num_ops; i++) {
		real[i] = table->ops[i];
		table->ops[i].enqueue = put;
		table->ops[i].dequeue = get;
	}
}

void
handover_port(uint16_t port, uint16_t queues)
{
	for (uint16_t q = 0; q < queues; q++) {
		rte_eth_add_rx_callback(port, q, received, NULL);
		rte_eth_add_tx_callback(port, q, sent, NULL);
	}
}

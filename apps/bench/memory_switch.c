/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/memory_switch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "rmw/kernels.h"

#define DEVICE   "net_null0"
#define FRAME    2048u
#define JOBS_MAX 8u

uint64_t
memory_resident(int pid)
{
	char path[64], line[256];
	uint64_t kib, bytes = 0;
	FILE *file;

	if (pid == 0)
		snprintf(path, sizeof(path), "/proc/self/smaps_rollup");
	else
		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	file = fopen(path, "re");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "Pss: %" SCNu64, &kib) == 1 ||
			sscanf(line, "Private_Hugetlb: %" SCNu64, &kib) == 1)
			bytes += kib << 10;
	if (file != NULL)
		fclose(file);
	return bytes;
}

static uint64_t
heap_used(void)
{
	struct rte_malloc_socket_stats stats;
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
			bytes += stats.heap_allocsz_bytes;
	return bytes;
}

static void
fill_job(struct ppe_job *job, uint8_t id, const struct memory_shape *shape)
{
	*job = (struct ppe_job){.id = id,
		.dtype = WEIR_DTYPE_INT32,
		.op = WEIR_OP_SUM,
		.policy = PPE_POLICY_WAIT,
		.window = (uint16_t)shape->window,
		.elements = (uint16_t)shape->elements,
		.nb_sources = (uint16_t)shape->sources,
		.deterministic = shape->deterministic,
		.timeout_ms = 1000};
	snprintf(job->name, sizeof(job->name), "job%u", id);
	for (unsigned int s = 0; s < shape->sources; s++) {
		job->members[s / 64] |= UINT64_C(1) << (s % 64);
		job->address[s] = 0x0a4d0001 + s;
	}
}

uint32_t
memory_switch_frame(const struct memory_shape *shape)
{
	return RTE_MAX(FRAME, RTE_ALIGN_CEIL(shape->elements * 4 + 128, 64));
}

/* What a configuration file leaves to the defaults. */
static void
fill_config(struct ppe_config *config, const struct memory_shape *shape)
{
	*config = (struct ppe_config){.workers = 1,
		.threads = 20,
		.burst = 32,
		.idle = PPE_IDLE_SLEEP,
		.idle_sleep_us = 50,
		.crossbar_depth = 1024,
		.queue_depth = 1024,
		.timer_threads = 100,
		.fdb_entries = shape->stations,
		.fdb_timeout_s = 300,
		.exception_port = -1,
		.isa = RMW_ISA_AVX512,
		.first_generation = 1,
		.packets = shape->packets,
		.packet_bytes = memory_switch_frame(shape),
		.headers = 4096};
	config->identity.ip = 0x0a4d00fe;
	config->identity.port_base = WEIR_PORT_BASE;
	config->identity.port_ext = WEIR_PORT_EXT;
}

static int
look(const struct ppe_config *config, const struct pktbuf_port_config *port,
	const struct ppe_jobs *jobs, uint64_t hidden, struct memory_use *use)
{
	uint64_t heap = heap_used(), resident = memory_resident(0);
	void *secret = hidden == 0 ? NULL : rte_malloc("bench", hidden, 0);
	struct ppe *ppe = ppe_create(config, port, 1, jobs, NULL);
	struct ppe_memory needed;
	struct ppe_leaks leaks;

	if (ppe != NULL) {
		use->taken = heap_used() - heap;
		use->resident = memory_resident(0) - resident;
		ppe_memory_needed(config, 1, jobs, &needed);
		use->data = needed.data_memory;
		ppe_destroy(ppe, &leaks);
	} else {
		fprintf(stderr, "weir-bench: the switch can't be made: %s\n",
			rte_strerror(rte_errno));
	}
	rte_free(secret);
	return ppe == NULL ? -1 : 0;
}

int
memory_switch_measure(const struct memory_shape *shape, uint64_t hidden, struct memory_use *use)
{
	static struct ppe_job job[JOBS_MAX];
	struct pktbuf_port_config port = {.name = "p0",
		.device = DEVICE,
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 512,
		.tx_descriptors = 512};
	struct ppe_jobs jobs = {.by_id = {NULL}};
	struct ppe_config config;
	uint64_t heap;
	int rc;

	*use = (struct memory_use){.kept = 0};
	for (unsigned int j = 0; j < shape->jobs; j++) {
		fill_job(&job[j], (uint8_t)(j + 1), shape);
		jobs.by_id[j + 1] = &job[j];
	}
	fill_config(&config, shape);
	ppe_memory_needed(&config, 1, &jobs, &use->needed);
	/* The first device of a process makes what all of them share, and that stays. */
	rc = rte_eal_hotplug_add("vdev", DEVICE, "");
	if (rc == 0)
		rc = rte_eal_hotplug_remove("vdev", DEVICE);
	heap = heap_used();
	if (rc == 0)
		rc = rte_eal_hotplug_add("vdev", DEVICE, "");
	if (rc < 0) {
		fprintf(stderr, "weir-bench: no device " DEVICE ": %s\n", rte_strerror(-rc));
		return -1;
	}
	rc = look(&config, &port, &jobs, hidden, use);
	rte_eal_hotplug_remove("vdev", DEVICE);
	use->kept = heap_used() > heap ? heap_used() - heap : 0;
	return rc;
}

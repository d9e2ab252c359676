/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/hash_heap.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_common.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#define HUGE_PAGE (UINT64_C(1) << 21)
#define NAME      "bench-hash"

static void *heap;

int
bench_hash_heap(size_t bytes)
{
	void *map;

	bytes = RTE_ALIGN_CEIL(bytes, HUGE_PAGE);
	map = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		0);
	if (map == MAP_FAILED) {
		fprintf(stderr, "weir-bench: no memory for %zu bytes of tables\n", bytes);
		return -1;
	}
	heap = RTE_PTR_ALIGN_CEIL(map, HUGE_PAGE);
	if (madvise(heap, bytes, MADV_HUGEPAGE) < 0 || rte_malloc_heap_create(NAME) < 0 ||
		rte_malloc_heap_memory_add(NAME, heap, bytes, NULL,
			(unsigned int)(bytes / HUGE_PAGE), HUGE_PAGE) < 0) {
		fprintf(stderr, "weir-bench: no heap on transparent huge pages: %s\n",
			rte_strerror(rte_errno));
		return -1;
	}
	return rte_malloc_heap_get_socket(NAME);
}

bool
bench_hash_heap_is_huge(void)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long long first, end, kib, huge = 0;
	bool ours = false;
	char line[512];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "%llx-%llx ", &first, &end) == 2)
			ours = (uintptr_t)heap >= first && (uintptr_t)heap < end;
		else if (ours && sscanf(line, "AnonHugePages: %llu", &kib) == 1)
			huge += kib;
	if (file != NULL)
		fclose(file);
	return huge > 0;
}

size_t
bench_hash_heap_used(int socket)
{
	struct rte_malloc_socket_stats stats;

	return rte_malloc_get_socket_stats(socket, &stats) < 0 ? 0 : stats.heap_allocsz_bytes;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a bench's hash tables lie: EAL's heap, or one on transparent huge pages. */
#ifndef APPS_BENCH_HASH_HEAP_H
#define APPS_BENCH_HASH_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Make a DPDK heap of `bytes` of the kernel's transparent huge pages, so that a machine without
 * reserved huge pages can show what they bring. Once a process, after bench_start_eal. Returns
 * the socket number that stands for it, or a line on standard error and -1.
 */
int bench_hash_heap(size_t bytes);

/* Does the kernel back that heap with huge pages? After some of it was touched. */
bool bench_hash_heap_is_huge(void);

/* Bytes that are allocated now on a socket's heap. */
size_t bench_hash_heap_used(int socket);

#endif

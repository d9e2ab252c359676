/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The read-modify-write engines. The public header of this folder.
 *
 * Trio puts the arithmetic beside the memory: each RMW engine owns a set of addresses and applies
 * all updates of them one after the other, 8 bytes per clock. Packet threads send it operations
 * (count, police, add, exchange) as external transactions. There are no locks, and no two caches
 * compete for a line. This folder is those engines and the memory behind them. The headers, in
 * reading order:
 *
 *   memory.h       DataMemory: a shard's region carved into pools of equal buffers; quotas of jobs
 *   memory_fast.h  rmw_alloc, rmw_hold, rmw_unhold, rmw_release, inline
 *   kernels.h      reductions over vectors; the widest instructions are chosen at run time
 *   ops.h          operations on single words, inline: counters, fetch-and-or, swap, ...
 *   policer.h      the token-bucket policer
 *
 * An engine of Trio is an lcore here. A *shard* of DataMemory, everything allocated from it, and
 * every word that an operation changes belong to one lcore, and a thread that needs another shard
 * hops to its owner. So an operation is a plain load, some arithmetic and a plain store: no lock,
 * no atomic instruction. In all headers of this folder, the owner is that lcore; before the lcores
 * start and after they have stopped, it is the control thread.
 *
 * This folder has no packets, blocks or protocol. The numbers of element types and operations are
 * those of the wire, so its users can check that and pass them on.
 *
 *   quota (per job and shard)              pool (per shard and buffer size)
 *   limit, used, peak  -- rmw_alloc -->  header | payload ... | header | payload ...
 *                                           |        |
 *             holds, released, user  <------+        +--->  kernel(payload, source, n)
 *
 * Nothing here allocates: a pool's creator provides its memory (huge pages, or aligned_alloc in a
 * test). Everything works without EAL.
 */
#ifndef RMW_RMW_H
#define RMW_RMW_H

#include "rmw/kernels.h"
#include "rmw/memory.h"
#include "rmw/memory_fast.h"
#include "rmw/ops.h"
#include "rmw/policer.h"

#endif

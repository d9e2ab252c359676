/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The read-modify-write engines. The room's public page.
 *
 * Trio puts the arithmetic beside the memory: each RMW engine owns a set of addresses and applies
 * every update of them itself, one after the other, 8 bytes per clock. Packet threads send it what
 * to do (count, police, add, exchange) as an external transaction; nobody locks, and no two caches
 * ever argue about a line. This room is those engines and the memory behind them. The pages, in
 * reading order:
 *
 *   memory.h       DataMemory: a shard's region carved into pools of equal buffers; quotas of jobs
 *   memory_fast.h  rmw_alloc, rmw_hold, rmw_unhold, rmw_release, inline
 *   kernels.h      sums and their kin over vectors; the widest instructions are picked at run time
 *   ops.h          the engines' operations on single words: counters, fetch-and-or, swap, ...,
 * inline
 *   policer.h      the token-bucket policer
 *
 * What is called an engine in Trio is an lcore here: a *shard* of DataMemory, everything allocated
 * from it, and every word that an operation changes, belong to one lcore, and a thread that needs
 * another shard hops to its owner. So an operation is
 * a plain load, some arithmetic and a plain store: no lock, no atomic instruction. Owner means that
 * lcore, in all pages of this room; before the lcores start and after they have stopped, it is the
 * control thread.
 *
 * What an address is used for is not this room's business: it knows no packets, no blocks and no
 * protocol. The numbers of element types and operations are those of the wire, so that its users
 * can check that and then pass them on.
 *
 *   quota (per job and shard)                  pool (per shard and buffer size)
 *   limit, used, peak  --- rmw_alloc ------->  header line | payload ... | header line | payload
 * ...
 *                                                  |            |
 *                      holds, released, user  <----+            +---->  kernel(payload, source, n)
 *
 * Nothing here allocates: the memory of a pool is its creator's (huge pages, or aligned_alloc in a
 * test), and everything works without EAL.
 */
#ifndef RMW_RMW_H
#define RMW_RMW_H

#include "rmw/kernels.h"
#include "rmw/memory.h"
#include "rmw/memory_fast.h"
#include "rmw/ops.h"
#include "rmw/policer.h"

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Weir's commands in DPDK's telemetry (`dpdk-telemetry.py -f weir-NAME`):
 *
 *   /weir/status      name, version, uptime, the books, how busy each worker was
 *   /weir/ports       counters of each port, a list per counter
 *   /weir/drops       every reason, also those that are 0
 *   /weir/jobs        the names of all jobs
 *   /weir/job,NAME    one job: what it does now, and all its counters
 *   /weir/blocks,NAME its open blocks, a list per what is told of them: CTRL_TELEMETRY_BLOCKS at most,
 *                     and how many there are
 *
 * EAL answers each client on a thread of its own, which must not touch what the control thread has.
 * So the tick copies what is told into the one of two snapshots that nobody reads, and then, under a
 * mutex, says that it is the newest. Answers are made from that under the mutex, some microseconds
 * each. The control thread only tries to take it: while a client has it, the former snapshot stays,
 * and the next tick brings a newer one. What is told is a second old at most, then two.
 *
 * Whoever may open the socket in EAL's folder, root and the switch's user, sees all jobs.
 *
 * Thread safety: for the one control thread; one switch in a process.
 */
#ifndef CTRL_TELEMETRY_H
#define CTRL_TELEMETRY_H

#define CTRL_TELEMETRY_BLOCKS 32

struct ctrl_running;

/* Register the commands, and tell of this switch. After EAL's init. 0 or -errno. */
int ctrl_telemetry_start(struct ctrl_running *running);

/* A new snapshot, once a second; nothing when it was not started. */
void ctrl_telemetry_tick(const struct ctrl_running *running);

/* Forget the switch: the commands, which EAL can't unregister, answer nothing from now on. Fine when it was not started. */
void ctrl_telemetry_stop(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics as JSON and as text, and the ports' links. Names come from the X-lists (ppe/drops.h,
 * ppe/ppe.h), so a counter has one name in the code, in JSON, in the metrics and in
 * docs/counters.md.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_STATS_H
#define CTRL_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "ctrl/config/config.h"
#include "ctrl/jobs/running.h"
#include "ppe/ppe.h"

/* Every counter of a switch that runs, or is stopped and not destroyed. A new object; NULL: no
 * memory. Renews running->stats. */
json_t *ctrl_stats_read(struct ctrl_running *running);

/* The parts of ctrl_stats_read: everything but the jobs, then each job. */
json_t *ctrl_stats_json(const struct ctrl_config *config, const struct ppe_stats *total);
void ctrl_stats_add_job(
	json_t *stats, unsigned int id, const char *name, const struct ppe_job_stats *job);

/* Add what a destroyed switch has leaked. */
void ctrl_stats_add_leaks(json_t *stats, const struct ppe_leaks *leaks);

/* Sum of the drops of all reasons. */
uint64_t ctrl_stats_dropped(const struct ppe_stats *total);

/* received + created less sent + consumed + dropped + in flight: 0 when every packet is accounted
 * for. Exact only without traffic, or when the switch is stopped. */
int64_t ctrl_stats_off_by(const struct ppe_stats *total);

/* Has nothing leaked? */
bool ctrl_leaks_none(const struct ppe_leaks *leaks);

/* Put every counter of a kind into a JSON object. Counters by priority are objects of `results` and
 * `bulk`. If there is no memory, keys are missing. */
void ctrl_put_packet_counters(json_t *object, const struct ppe_stats *total);
void ctrl_put_port_counters(json_t *object, const struct ppe_port_stats *port);
void ctrl_put_job_counters(json_t *object, const struct ppe_job_stats *job);

/* Counters as JSON: by reason; of each port, with its name; of each worker, in their order. */
json_t *ctrl_drops_json(const struct ppe_stats *total);
json_t *ctrl_ports_json(const struct ctrl_config *config, const struct ppe_stats *total);
json_t *ctrl_workers_json(const struct ppe_stats *total);

/* Does the port have a link now? For a kernel interface (net_af_packet, net_tap, ...) the kernel
 * answers, because DPDK's drivers only know whether they started. Takes some microseconds. */
bool ctrl_port_is_up(const struct ctrl_running *running, unsigned int port);

/* Tell the workers the MTUs of the ports' links, before the first packets. A link that is up now is
 * known to the driver, so that it counts as down when it goes. */
void ctrl_links_begin(struct ctrl_running *running);

/*
 * Log the links that went up or down, and the ports that stalled or recovered, since the last call;
 * at the first call, those that are down or stalled. Tell the workers which links are down, and
 * their MTUs.
 */
void ctrl_links_tick(struct ctrl_running *running);

/* Log which ports have sent addresses that belong elsewhere since the last call; after
 * ctrl_running_tick. */
void ctrl_spoofed_tick(struct ctrl_running *running);

/* Print every counter that is not 0, and whether every packet is accounted for. */
void ctrl_stats_print(const json_t *stats, FILE *out);

/* Write every counter as JSON to a file, atomically: to a file beside it, which is then renamed. 0;
 * or -errno, and the old file is unchanged. */
int ctrl_stats_write(const json_t *stats, const char *path);

#endif

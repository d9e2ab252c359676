/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of reading a configuration: each fills its part of the struct, or refuses. */
#ifndef CTRL_CONFIG_PRIV_H
#define CTRL_CONFIG_PRIV_H

#include <jansson.h>

#include "ctrl/config/config.h"
#include "ctrl/config/refuse.h"

/* A whole regular file of at most 4 MiB: its text, to be freed, or NULL with errno and *why, as of
 * ctrl_open_regular. ctrl/config/config.c */
char *ctrl_read_file(const char *path, size_t *length, const char **why);

/* A reading under way. All steps return 0, or -errno with the reason written. */
struct ctrl_reading {
	struct ctrl_source source;
	const json_t *root; /* passed ctrl_schema_check */
	struct ctrl_config *config;
};

/* log; never refused after ctrl_schema_check. ctrl/config/log.c */
void ctrl_read_log(struct ctrl_reading *reading);

/* ports, and the exception port; after switch and workers. ctrl/config/ports.c */
int ctrl_read_ports(struct ctrl_reading *reading);

/* jobs; after switch. ctrl/config/jobs.c */
int ctrl_read_jobs(struct ctrl_reading *reading);

/* The key of jobs[index] from its file `name`; "": it is not authenticated. config_key.c */
int ctrl_read_job_key(struct ctrl_reading *reading, unsigned int index, const char *name);

/* api; after ports. ctrl/config/api.c */
int ctrl_read_api(struct ctrl_reading *reading);

/* faults; after ports. ctrl/config/faults.c */
int ctrl_read_faults(struct ctrl_reading *reading);

/* pools, and whether frames, packets and memory suffice; after all others. ctrl/config/pools.c */
int ctrl_read_pools(struct ctrl_reading *reading);

/* eal, and the arguments that Weir adds; last. ctrl/config/eal.c */
int ctrl_read_eal(struct ctrl_reading *reading);

/*
 * Take a device string apart into `port`: what it is, and what its arguments imply. ctrl/config/device.c
 * path: of the string, for refusals.
 */
int ctrl_read_device(struct ctrl_reading *reading, struct ctrl_path path, const char *text,
	struct ctrl_port *port, unsigned int *queue_pairs);

#endif

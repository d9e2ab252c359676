/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of reading a configuration. Each sets its part of the struct, or refuses the file. */
#ifndef CTRL_CONFIG_PRIV_H
#define CTRL_CONFIG_PRIV_H

#include "ctrl/config/config.h"
#include "ctrl/config/keys.h"

/* A configuration that is read. All steps return 0, -EINVAL with the error set, or -ENOMEM. */
struct ctrl_reading {
	struct ctrl_error *error;
	const json_t *root; /* passed ctrl_schema_check */
	struct ctrl_config *config;
};

/* ports, and the exception port; after switch and workers. ctrl/config/ports.c */
int ctrl_read_ports(struct ctrl_reading *reading);

/* jobs; after switch and ports. ctrl/config/job.c */
int ctrl_read_jobs(struct ctrl_reading *reading);

/* api; after ports. ctrl/config/api.c */
int ctrl_read_api(struct ctrl_reading *reading);

/* faults; after ports. ctrl/config/faults.c */
int ctrl_read_faults(struct ctrl_reading *reading);

/* pools, and whether frames, packets and memory suffice; after all others. ctrl/config/pools.c */
int ctrl_read_pools(struct ctrl_reading *reading);

/* eal, and the arguments that Weir adds; last. ctrl/config/eal.c */
int ctrl_read_eal(struct ctrl_reading *reading);

#endif

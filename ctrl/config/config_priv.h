/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of reading a configuration, after ctrl_keys_read. Each sets what the list of keys does
 * not say, or refuses the file. */
#ifndef CTRL_CONFIG_PRIV_H
#define CTRL_CONFIG_PRIV_H

#include "ctrl/config/config.h"
#include "ctrl/config/keys.h"

/* An object that is read; the whole file has passed ctrl_schema_check. All steps return 0, -EINVAL
 * with the error set, or -ENOMEM. */
struct ctrl_reading {
	struct ctrl_config *config;
	struct ctrl_error *error;
	const json_t *object;
	const char *at; /* its path, with a dot at the end: "jobs[3].", or "" */
};

/* The error of a value in the object; key: the rest of its path. Returns -EINVAL. */
#define CTRL_REFUSE(reading, key, ...)                                                             \
	ctrl_refuse((reading)->error, ctrl_path("%s%s", (reading)->at, key), __VA_ARGS__)

/* The port of this name, or -1. */
int ctrl_port_find(const struct ctrl_config *config, const char *name);

/* ports, and the exception port. ctrl/config/ports.c */
int ctrl_read_ports(struct ctrl_reading *reading);

/* jobs; after ports. ctrl/config/job.c */
int ctrl_read_jobs(struct ctrl_reading *reading);

/* api. ctrl/config/api.c */
int ctrl_read_api(struct ctrl_reading *reading);

/* faults; after ports. ctrl/config/faults.c */
int ctrl_read_faults(struct ctrl_reading *reading);

/* pools, and whether frames, packets and memory suffice; after all others. ctrl/config/pools.c */
int ctrl_read_pools(struct ctrl_reading *reading);

/* eal, and the arguments that Weir adds; last. ctrl/config/eal.c */
int ctrl_read_eal(struct ctrl_reading *reading);

#endif

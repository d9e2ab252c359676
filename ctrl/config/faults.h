/* SPDX-License-Identifier: BSD-3-Clause */
/* The section `faults` by itself: as the configuration has it, and as it comes over the API. */
#ifndef CTRL_CONFIG_FAULTS_H
#define CTRL_CONFIG_FAULTS_H

#include <stddef.h>

#include <jansson.h>

#include "ctrl/config/config.h"

/*
 * Check and read a section; ports have the names of `config`. faults: zeroed. 0, or -ENOMEM, or
 * -EINVAL with "place: key: reason" in error.
 */
int ctrl_faults_parse(const struct ctrl_config *config, json_t *section, struct ppe_faults *faults,
	char *error, size_t error_size);

/* A rule as the section has it, every key named. A new object, or NULL without memory. */
json_t *ctrl_fault_rule_json(const struct ctrl_config *config, const struct ppe_fault_rule *rule);

/* A key's word for an action: "drop". A constant. */
const char *ctrl_fault_action(enum ppe_fault_action action);

#endif

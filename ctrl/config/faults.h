/* SPDX-License-Identifier: BSD-3-Clause */
/* The section `faults` of the configuration, which is also a request of the control API. */
#ifndef CTRL_CONFIG_FAULTS_H
#define CTRL_CONFIG_FAULTS_H

#include <jansson.h>

#include "ctrl/config/config.h"

/* Check and read a section; `config` has the names of the ports. faults: zeroed. 0, or -EINVAL and the error. */
int ctrl_faults_parse(const struct ctrl_config *config, json_t *section, struct ppe_faults *faults,
	struct ctrl_error *error);

/* A rule as the section has it, every key named. A new object, or NULL without memory. */
json_t *ctrl_fault_rule_json(const struct ctrl_config *config, const struct ppe_fault_rule *rule);

/* A key's word for an action: "drop". A constant. */
const char *ctrl_fault_action(enum ppe_fault_action action);

#endif

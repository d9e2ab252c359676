/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of answers that several resources have. Each returns a new object, or NULL (no memory). */
#ifndef CTRL_API_JSON_H
#define CTRL_API_JSON_H

#include <stdint.h>

#include <jansson.h>

#include "ctrl/jobs/running.h"
#include "ppe/ppe.h"

/* Values; out of memory, jansson sets nothing, and the key is missing. */
void api_put(json_t *object, const char *key, uint64_t value);
void api_put_text(json_t *object, const char *key, const char *text); /* NULL: null */

/* Of running->stats: ctrl_running_read comes first. */
json_t *api_workers_json(const struct ctrl_running *running, const struct ppe_gauges *gauges);

#endif

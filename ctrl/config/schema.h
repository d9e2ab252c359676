/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks that follow from the list of keys alone: known keys, types, ranges, formats. */
#ifndef CTRL_SCHEMA_H
#define CTRL_SCHEMA_H

#include <jansson.h>

#include "ctrl/config/refuse.h"

/* Check a whole file in the order of its text. 0, or -EINVAL with the first error written. */
int ctrl_schema_check(const struct ctrl_source *source, json_t *root);

#endif

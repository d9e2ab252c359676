/* SPDX-License-Identifier: BSD-3-Clause */
/* What a configuration takes, for people: computed before anything is allocated. */
#ifndef CTRL_MEMORY_H
#define CTRL_MEMORY_H

#include <stdio.h>

#include "ctrl/config/config.h"

/* Print the sums of the pools and tables and what each job reserves, a line each. */
void ctrl_memory_print(const struct ctrl_config *config, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts packets and bytes per pair of IPv4 addresses, then lets the packet pass. */
#ifndef DOCS_EXAMPLES_FLOWCOUNT_H
#define DOCS_EXAMPLES_FLOWCOUNT_H

#include "ppe/program.h"

extern const struct ppe_program flowcount_program;

/*
 * Add up a flow's packets and bytes over all workers. Control thread, while the switch lives.
 * key: source address << 32 | destination address, both in host order.
 */
void flowcount_read(const struct ppe *ppe, uint64_t key, uint64_t *packets, uint64_t *bytes);

#endif

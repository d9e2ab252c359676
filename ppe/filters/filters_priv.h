/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters: the step of a turn that ppe/barrel.c takes while there are filters. */
#ifndef PPE_FILTERS_PRIV_H
#define PPE_FILTERS_PRIV_H

#include "ppe/filters/filters.h"
#include "ppe/worker_priv.h"

/* Run the filters on the packets of the backlog from `from` on. Returns how many have left it. */
unsigned int ppe_filters_run(struct ppe_worker *worker, unsigned int from);

/* Start a packet with a program that a filter has chosen, and which is of a kind that the program
 * takes. False: it is none. Runs other threads while no context is free. ppe/barrel.c */
bool ppe_start_chosen(struct ppe_worker *worker, struct rte_mbuf *packet, uint8_t program);

/* Free all filters; the workers have stopped. */
void ppe_destroy_filters(struct ppe *ppe);

#endif

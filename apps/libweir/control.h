/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining a job and leaving it through the switch's control API. Runs in the threads of weir_open,
 * weir_rejoin and weir_close. Built without libcurl (-Dhost_control=false), weir_control_join only says so.
 */
#ifndef APPS_HOST_CONTROL_H
#define APPS_HOST_CONTROL_H

#include <stdbool.h>

#include "apps/libweir/weir_priv.h"

struct weir_control;

/* Whether this handle joins through the control API: the configuration or WEIR_SWITCH says so. */
bool weir_control_wanted(const struct weir_config *config);

/*
 * Become a member of the job, by `deadline` at the latest (ns, weir_now). Fills in the handle's
 * addresses, job, source and expected sources. What fails has its text set.
 */
int weir_control_join(struct weir *weir, const struct weir_config *config, uint64_t deadline);

/*
 * Become a member again, with the same request: the former membership may have expired, the job been made
 * anew, the switch be starting. 0 also when nobody answers until `deadline`, and for a handle that joined
 * by addresses: then all is as it was. What fails has its text set. While there is no progress thread.
 */
int weir_control_rejoin(struct weir *weir, uint64_t deadline);

/*
 * Ask what became of the job: weir_inquiry_read() says what comes of it. present: the bitmap of who
 * the switch says is in; NULL: it is silent. Bounded: two seconds at most. Reads only what is fixed after
 * weir_open and weir_rejoin, so any thread may ask while the progress thread works. Not a member: 0, and an empty text.
 */
int weir_control_inquire(struct weir *weir, const uint8_t *present, char *text, size_t size);

/* Tell the switch that the member leaves, if it joined; takes a bounded time, and frees. NULL is
 * fine. */
void weir_control_leave(struct weir_control *control);

#endif

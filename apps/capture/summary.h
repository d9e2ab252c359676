/* SPDX-License-Identifier: BSD-3-Clause */
/* What was written, in numbers, and what the switch ought to answer. */
#ifndef APPS_CAPTURE_SUMMARY_H
#define APPS_CAPTURE_SUMMARY_H

#include "apps/capture/order.h"
#include "apps/capture/output.h"
#include "apps/capture/plan.h"

struct summary;

/* 0 and *summary, or -errno. expect: a file for the blocks' results, or NULL. Without it the sums
 * of an endless capture are not made: they would cost as much as the capture. */
int summary_open(struct summary **summary, const struct plan *plan, const char *expect);

/* A contribution was written. 0 or -errno of the file of results. */
int summary_contribution(
	struct summary *summary, const struct order_step *step, uint32_t block, size_t bytes);

/* An ordinary frame was written. */
void summary_frame(struct summary *summary, size_t bytes);

/* Print, as text or as one line of JSON; to standard error when the capture goes to standard
 * output. */
void summary_print(const struct summary *summary, const struct output_config *output, bool json);

/* Close the file of results. NULL is fine. 0 or -errno. */
int summary_close(struct summary *summary);

#endif

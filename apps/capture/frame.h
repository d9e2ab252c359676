/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of a frame, without the frame check sequence. */
#ifndef APPS_CAPTURE_FRAME_H
#define APPS_CAPTURE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "apps/capture/plan.h"

/* A contribution's payload: plan->elements elements, little-endian. Depends on the plan's seed, the
 * block's number in the job and the source alone; fp32 sums of them are exact in any order. */
void frame_payload(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *payload);

/* Sum of that over all of the job's sources, whether they are in the capture or not: the result of
 * the block, by the plainest code there is. */
void frame_result(const struct plan *plan, uint32_t block, uint8_t *payload);

/* All elements of a payload in one number. */
double frame_total(const struct plan *plan, const uint8_t *payload);

/* A contribution's frame. frame: plan_frame_bytes(plan) bytes, all written. */
void frame_contribution(const struct plan *plan, uint8_t source, uint32_t block, uint8_t *frame);

/* The index-th ordinary frame: UDP between stations of 198.18.0.0/15, the network of RFC 2544.
 * frame: CAPTURE_FRAME_MAX bytes; returns the frame's. */
size_t frame_ordinary(const struct plan *plan, uint64_t index, uint8_t *frame);

#endif

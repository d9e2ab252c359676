/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the control API knows of a job that hangs: its answer to GET /v1/jobs/NAME (docs/openapi.yaml),
 * read for one of its members. Nothing here sends, waits or keeps anything.
 */
#ifndef APPS_HOST_INQUIRY_H
#define APPS_HOST_INQUIRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who asks. */
struct weir_inquiry {
	const char *where; /* the control address */
	const char *name; /* of the job */
	const char *address; /* own, dotted */
	uint8_t job, source;
	uint16_t generation; /* 0: none has begun here yet */
	const uint8_t
		*present; /* bitmap of those that the switch says are in; NULL: it is silent */
};

/*
 * Judge the answer.
 *
 * @return what it settles, and the reason in text: -ENOENT, the job is gone; -EACCES, the source is
 * no longer its member; -ESTALE, it has another generation. 0: nothing; then text is what there is
 * to add to what the host knows itself, such as "; source 1 is at 10.77.0.2, ...", or empty.
 */
int weir_inquiry_read(const struct weir_inquiry *inquiry, long status, const char *body,
	size_t length, char *text, size_t size);

/*
 * Of a silent switch that has the job: read its answer to GET /v1/blocks?stuck=1. When
 * that has this source and waits for others, name them, as above; else leave the text alone.
 */
void weir_inquiry_read_block(const struct weir_inquiry *inquiry, const char *body, size_t length,
	char *text, size_t size);

#endif

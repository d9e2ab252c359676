/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a capture will hold: a job's contributions, or ordinary frames. Made from the command line,
 * and from a switch's configuration where one is given; checked whole before a byte is written.
 */
#ifndef APPS_CAPTURE_PLAN_H
#define APPS_CAPTURE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pktbuf/result.h"
#include "ppe/jobs.h"

#define CAPTURE_SIZES_MAX   16 /* sizes of ordinary frames in one capture */
#define CAPTURE_FRAME_MAX   65535 /* bytes of a frame that libpcap's readers take */
#define CAPTURE_ERROR_BYTES 1200

/* In which order contributions arrive; each keeps the window's rule. */
enum capture_order {
	CAPTURE_BLOCKS, /* block by block, in each the sources in turn */
	CAPTURE_SOURCES, /* a window of one source's blocks, then the next source's */
	CAPTURE_RANDOM, /* shuffled, half a window after the other */
};

/* Shape of the command line: what was given; 0, NULL or false where nothing was. */
struct capture_spec {
	const char *config, *job; /* a configuration's file, and the job's name or id in it */
	const char *only; /* sources of the capture, as "0,3-5" */
	const char *sizes; /* ordinary frames, as "64,1518" */
	const char *address, *switch_address, *switch_mac, *type;
	int64_t job_id, sources, window, elements, generation, block_bits; /* -1: not given */
	int64_t blocks;
	int64_t frames;
	int64_t stations;
	uint32_t first;
	uint64_t seed;
	unsigned int duplicates; /* percent */
	enum capture_order order;
	bool extended, endless, reverse;
};

struct plan {
	struct pktbuf_identity to; /* the switch */
	struct ppe_job job;
	uint16_t elements; /* of each contribution, [0, job.elements] */
	unsigned int nb_sources; /* that are in the capture, [1, job.nb_sources] */
	uint8_t source[WEIR_SOURCES_MAX]; /* their ids, ascending */
	uint32_t first; /* block */
	uint32_t blocks; /* 0: endless */
	uint64_t seed;
	unsigned int duplicates; /* percent of the contributions that are sent twice */
	enum capture_order order;
	bool extended, endless;
	unsigned int nb_sizes; /* not 0: ordinary frames instead */
	uint16_t size[CAPTURE_SIZES_MAX]; /* bytes with the frame check sequence */
	uint64_t frames; /* ordinary ones */
	uint32_t stations; /* that send ordinary frames in turn */
	bool reverse; /* ordinary frames go the other way */
};

/* Fill `plan`. 0, or -errno (-EINVAL: a wrong spec) and the reason in `error`
 * (CAPTURE_ERROR_BYTES). */
int plan_make(struct plan *plan, const struct capture_spec *spec, char *error);

/* Bytes of a contribution's frame, padding included. */
size_t plan_frame_bytes(const struct plan *plan);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch and its reference model side by side: what is offered goes to both, and what leaves by
 * each port, every counter of drops and jobs, and the buffers in use must be the same.
 *
 * Packets are offered in batches. Within one, the switch may take them in any order, so whoever
 * fills a batch answers for it that the order doesn't matter. Main thread only, once a process.
 */
#ifndef TESTS_EAL_TWIN_H
#define TESTS_EAL_TWIN_H

#include "tests/eal/rig.h"
#include "tests/model/switch_model.h"

#define TWIN_JOBS      4
#define TWIN_BATCH_MAX 256

/* A frame on its way in, or a datagram seen or expected on its way out. */
struct twin_frame {
	uint8_t *bytes;
	unsigned int size;
	uint8_t port;
};

struct twin_list {
	struct twin_frame *frame;
	unsigned int count, room;
};

struct twin {
	struct rig rig;
	unsigned int jobs;
	struct model *model[TWIN_JOBS];
	struct ppe_jobs table[2]; /* published by turns */
	struct ppe_job job[2][TWIN_JOBS];
	unsigned int running; /* the table that is */
	uint64_t now_ms; /* the models' clock */
	struct twin_list in, expected, got;
	uint64_t received, consumed, created, drops[PPE_DROP_COUNT];
	char text[2048]; /* what was wrong */
};

/* Start both. config->job[].timeout_ms: the shortest that twin_set_policy will be given. */
void twin_start(struct twin *twin, const struct rig_config *config);

/* Stop both. NULL, or what was wrong. */
const char *twin_stop(struct twin *twin);

/* Write the frame that carries `size` bytes over UDP from a peer; returns its bytes. */
unsigned int twin_frame(uint8_t frame[RIG_FRAME_MAX], const struct model_peer *from, bool extended,
	const uint8_t *bytes, unsigned int size);

/* Add a datagram to the batch. padding: bytes of rubbish behind it. without_checksum: of UDP. */
void twin_offer(struct twin *twin, const struct model_peer *from, bool extended,
	const uint8_t *bytes, unsigned int size, unsigned int padding, bool without_checksum);

/* Add a frame that ends under this reason, whatever the model thinks. */
void twin_spoiled(struct twin *twin, uint8_t port, const uint8_t *frame, unsigned int bytes,
	enum ppe_drop reason);

/* Send the batch and compare everything, for as long as it takes (10 s at most). NULL: the same. */
const char *twin_settle(struct twin *twin);

/*
 * Another policy and timeout for a job (index). With due, its open blocks have been without a
 * contribution for longer than that. The batch must be empty; settle afterwards.
 */
void twin_set_policy(
	struct twin *twin, unsigned int job, enum ppe_policy policy, uint32_t timeout_ms, bool due);

#endif
